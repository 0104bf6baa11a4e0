//! `toolbus nats serve`: a node without a config.

use std::rc::Rc;

use toolbus::address::{Address, Purpose};
use toolbus::bus::Bus;
use toolbus::peer::settings::Settings;
use toolbus::peer::{FrontError, Listening};
use toolbus::wire::nats;
use toolbus::wire::nats::front::{NodeOptions, open};
use toolbus::wire::nats::settings::NatsSettings;

use super::ServeArgs;
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::failure;
use crate::runtime::Signals;
use crate::{logging, stderr};

pub(super) fn serve(args: &ServeArgs, globals: &Globals) -> Result<(), Failed> {
    let address = Address::parse_for(Purpose::Serve, &args.front)
        .map_err(|error| Failed::usage(error.to_string()).hint_if_any(error.hint()))?;
    if address.wire() != nats::WIRE {
        let message = format!("`{address}` is no address of NATS");
        let failed = Failed::usage(message);
        return Err(failed.hint("name a server and a service: `nats://HOST:PORT/NAME`"));
    }
    let own = NatsSettings::of_prefix(args.prefix.clone());
    let options = NodeOptions::of(&address, &own).map_err(failed)?.alone();
    let settings = Settings {
        program: args.program.settings()?,
        credentials: args.http.credentials()?,
        ..Settings::default()
    };
    crate::spans::say_if_missing();
    Peers::of(&args.addresses, globals, settings)?.meet_with_signals(
        |bus| bus.for_front("nats"),
        async |bus, signals| run(bus, options, signals).await,
    )
}

async fn run(bus: Rc<Bus>, options: NodeOptions, signals: &mut Signals) -> Result<(), Failed> {
    let opened = async {
        bus.open().await.map_err(|error| failure::not_open(&error))?;
        open(options, Bus::clone(&bus)).await.map_err(failed)
    };
    let Listening { line, front, mut serving, .. } = tokio::select! {
        opened = opened => opened?,
        exit = signals.next() => return Err(Failed::quietly(exit.of_listener())),
    };
    if let Some(line) = line {
        stderr::write(&logging::announcement(&line));
    }
    tokio::select! {
        ended = &mut serving => ended.map_err(failed),
        exit = signals.next() => {
            front.stop();
            tokio::select! {
                _ = &mut serving => Err(Failed::quietly(exit.of_listener())),
                // A second signal: calls in flight are not waited for.
                exit = signals.next() => Err(Failed::quietly(exit)),
            }
        }
    }
}

fn failed(error: FrontError) -> Failed {
    let FrontError { is_usage, key, message, causes, hint } = error;
    let exit = match is_usage {
        true => Exit::Usage,
        // There is nothing else to serve meanwhile.
        false if message.starts_with("no NATS server") => Exit::Unreachable,
        false => Exit::Failed,
    };
    let message = match key {
        Some(key) => format!("`--{key}`: {message}"),
        None => message,
    };
    Failed::new(exit, message).causes(causes).hint_if_any(hint)
}
