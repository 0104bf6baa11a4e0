//! `toolbus oracle serve`: the tools of the bus for the executor that started us.

use std::rc::Rc;

use toolbus::address::Address;
use toolbus::back::settings::Settings;
use toolbus::bus::Bus;
use toolbus::front::oracle::{self, Options};
use toolbus::transport::stdio;
use toolbus_proto::channel::Ended;
use toolbus_proto::oracle::felt::Leniency;

use super::{ServeArgs, functions};
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::runtime::{self, Signals};

pub(crate) fn serve(args: &ServeArgs, _globals: &Globals) -> Result<(), Failed> {
    let functions = functions(&args.functions)?;
    let addresses = args.addresses.iter().map(|text| Address::parse(text));
    let addresses = addresses
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failed::usage(error.to_string()))?;
    let settings = Settings {
        timeout: Some(args.timeout),
        start_timeout: args.start_timeout,
        stop_timeout: Some(args.stop_timeout),
        ..Settings::default()
    };
    let options = Options {
        functions,
        settings: toolbus_proto::oracle::Settings {
            line_bytes_max: args.line_max,
            leniency: if args.lenient_felts { Leniency::Lenient } else { Leniency::Strict },
        },
        timeout: Some(args.timeout),
    };
    runtime::block_on(async {
        let bus = Bus::of_addresses(&addresses, &settings)
            .map_err(|error| Failed::usage(error.to_string()))?;
        let bus = Rc::new(bus);
        let mut signals = Signals::listen()?;
        let done = tokio::select! {
            done = run(bus.clone(), options) => done,
            exit = signals.next() => Err(Failed::quietly(exit)),
        };
        signals.or_kill(bus.shutdown(), || bus.kill()).await;
        done
    })
}

async fn run(bus: Rc<Bus>, options: Options) -> Result<(), Failed> {
    bus.open().await.map_err(|error| Failed::from_bus(&error))?;
    let cannot = |error: std::io::Error| {
        Failed::new(Exit::Failed, "cannot use standard input and output").caused_by(&error)
    };
    let input = stdio::stdin().map_err(cannot)?;
    let output = stdio::stdout().map_err(cannot)?;
    match oracle::serve(bus, options, input, output).await {
        Ended::Well => Ok(()),
        Ended::Refused(why) => {
            Err(Failed::new(Exit::Failed, format!("the executor refused us: {why}")))
        }
        Ended::Broke(why) => Err(Failed::new(Exit::Unreachable, why)),
    }
}
