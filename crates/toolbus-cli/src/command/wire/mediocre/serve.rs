//! `toolbus rpc serve`: the tools of the bus for every client that connects.

use std::error::Error;
use std::rc::Rc;

use tokio::task::JoinSet;
use toolbus::address::{Place, Purpose};
use toolbus::bus::Bus;
use toolbus::peer::access::Access;
use toolbus::peer::settings::Settings;
use toolbus::wire::mediocre::front::{
    self as mediocre, ListenAddress, ListenAddressError, Mediocre, OpenError, Talked,
};
use toolbus_proto::channel::Ended;
use toolbus_proto::mediocre::Reading;

use super::{ServeArgs, address};
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::failure;
use crate::runtime::Signals;
use crate::stdio;
use crate::{logging, stderr};

pub(crate) fn serve(args: &ServeArgs, globals: &Globals) -> Result<(), Failed> {
    let access = args.access.access()?;
    let entries: Vec<Entry> =
        args.listen.iter().map(|url| Entry::read(url, &access)).collect::<Result<_, _>>()?;
    if let Some(flag) = args.access.only_http()
        && !entries.iter().any(Entry::is_http)
    {
        let message = format!("`{flag}` is only for HTTP, and no `--listen` is an `http` URL");
        return Err(Failed::usage(message));
    }
    if 1 < entries.iter().filter(|entry| matches!(entry, Entry::Stdio)).count() {
        return Err(Failed::usage("standard input and output can be listened on only once"));
    }
    let settings = mediocre::Settings {
        reading: Reading {
            object_bytes_max: args.object_bytes_max,
            depth_max: usize::from(args.depth_max),
            ..args.reading.settings().reading()
        },
        drain_bytes_max: args.drain_bytes_max as u64,
        drain_timeout: args.drain_timeout,
        idle_timeout: args.idle_timeout,
        call_timeout: args.call_timeout,
        ..mediocre::Settings::default()
    };
    let backs = Settings {
        timeout: Some(args.call_timeout),
        program: args.program.settings()?,
        credentials: args.back_http.credentials()?,
        ..Settings::default()
    };
    crate::spans::say_if_missing();
    let peers = Peers::of(&args.addresses, globals, backs)?
        .seen_as(&args.seen)?
        .fresh_if(args.front.fresh.fresh);
    peers.meet_with_signals(
        |bus| args.front.searched(bus.for_front("rpc")),
        async |bus, signals| run(bus, &entries, settings, signals).await,
    )
}

async fn run(
    bus: Rc<Bus>,
    entries: &[Entry],
    settings: mediocre::Settings,
    signals: &mut Signals,
) -> Result<(), Failed> {
    tokio::select! {
        opened = bus.open() => opened.map_err(|error| failure::not_open(&error))?,
        exit = signals.next() => return Err(Failed::quietly(exit.of_listener())),
    }
    let server = Mediocre::new(bus, settings);
    let mut serving = JoinSet::new();
    for entry in entries {
        entry.open(&server, &mut serving).await?;
    }
    let mut ended = Ok(());
    loop {
        tokio::select! {
            one = serving.join_next() => match one {
                Some(Ok(Err(failed))) => ended = Err(failed),
                Some(_) => {}
                None => return ended,
            },
            exit = signals.next() => {
                server.stop();
                let exit = tokio::select! {
                    () = async { while serving.join_next().await.is_some() {} } => {
                        exit.of_listener()
                    }
                    // A second signal: calls in flight are not waited for.
                    exit = signals.next() => exit,
                };
                return Err(Failed::quietly(exit));
            }
        }
    }
}

/// Where callers come in.
enum Entry {
    Stdio,
    ListenAddress(Box<ListenAddress>),
}

impl Entry {
    fn read(url: &str, access: &Access) -> Result<Entry, Failed> {
        if matches!(url, "stdio:" | "mediocre+stdio:") {
            return Ok(Entry::Stdio);
        }
        let address = address(Purpose::Serve, url)?;
        if let Place::Command(_) = address.place() {
            let message = format!("cannot listen on `{url}`: no client could connect to it");
            return Err(
                Failed::usage(message).hint("`stdio:` alone is our own standard input and output")
            );
        }
        let hinted = |error: ListenAddressError| {
            let failed = Failed::usage(error.to_string());
            let failed = match error.source() {
                Some(cause) => failed.caused_by(cause),
                None => failed,
            };
            match error.hint() {
                Some(hint) => failed.hint(hint),
                None => failed,
            }
        };
        let door = ListenAddress::of(&address, access).map_err(hinted)?;
        Ok(Entry::ListenAddress(Box::new(door)))
    }

    fn is_http(&self) -> bool {
        matches!(self, Entry::ListenAddress(address) if address.is_http())
    }

    /// Accepts from now on, and says so.
    async fn open(
        &self,
        server: &Mediocre,
        serving: &mut JoinSet<Result<(), Failed>>,
    ) -> Result<(), Failed> {
        let server = server.clone();
        let cannot =
            |error: &dyn Error| Failed::new(Exit::Failed, "cannot listen").caused_by(error);
        match self {
            Entry::Stdio => {
                let input = stdio::stdin().map_err(|error| cannot(&error))?;
                let output = stdio::stdout().map_err(|error| cannot(&error))?;
                listening("mediocre+stdio:");
                serving.spawn_local(async move { over(server.talk(input, output).await) });
            }
            Entry::ListenAddress(door) => {
                let door = door.open().await.map_err(|error| match error {
                    OpenError::Unprotected(error) => {
                        Failed::usage(error.to_string()).hint(error.hint())
                    }
                    error => cannot(&error),
                })?;
                listening(door.url());
                serving.spawn_local(async move {
                    server.serve(door).await;
                    Ok(())
                });
            }
        }
        Ok(())
    }
}

/// Told always, and by itself: scripts wait for this line.
fn listening(url: &str) {
    // A parent that closed our standard error does not wait for the line.
    stderr::write(&logging::announcement(&format!("listening on {url}")));
}

/// How the conversation over our own pipes ended.
fn over(talked: Talked) -> Result<(), Failed> {
    match talked {
        Talked::ToTheEnd(Ended::Broke(why)) => Err(Failed::new(Exit::Unreachable, why)),
        Talked::ToTheEnd(Ended::PeerStoppedReading) => Err(Failed::quietly(Exit::Failed)),
        Talked::ToTheEnd(_) | Talked::UntilStopped => Ok(()),
    }
}
