//! `toolbus oracle serve`: the tools of the bus for the executor that started us.

use std::rc::Rc;

use toolbus::bus::Bus;
use toolbus::peer::settings::Settings;
use toolbus::wire::oracle::front::{self as oracle, Options};
use toolbus_proto::channel::Ended;
use toolbus_proto::oracle::felt::Leniency;
use toolbus_proto::oracle::signature::Function;

use super::{ServeArgs, functions};
use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::failure;
use crate::stdio;

/// How many tools are named where one is not known.
const NAMED_MAX: usize = 10;

pub(crate) fn serve(args: &ServeArgs, globals: &Globals) -> Result<(), Failed> {
    let settings = Settings {
        timeout: Some(args.timeout),
        start_timeout: args.start_timeout,
        stop_timeout: Some(args.stop_timeout),
        allow_shell: args.allow_shell,
        program: args.program.settings()?,
        credentials: args.http.credentials()?,
        ..Settings::default()
    };
    let options = Options {
        functions: functions(&args.functions)?,
        settings: toolbus_proto::oracle::Settings {
            line_bytes_max: args.line_max,
            leniency: if args.lenient_felts { Leniency::Lenient } else { Leniency::Strict },
        },
        timeout: Some(args.timeout),
    };
    crate::spans::say_if_missing();
    let named = |bus: Bus| args.front.searched(bus.for_front("oracle"));
    Peers::of(&args.addresses, globals, settings)?
        .seen_as(&args.seen)?
        .fresh_if(args.front.fresh.fresh)
        .meet_as(named, async |bus| run(bus, options).await)
}

/// A signature for a tool that is not there would never be used.
fn check_functions(bus: &Bus, functions: &[Function]) -> Result<(), Failed> {
    let is_callable = |function: &&Function| oracle::is_callable(bus, function);
    let Some(unknown) = functions.iter().find(|function| !is_callable(function)) else {
        return Ok(());
    };
    let offered = bus.offered();
    let name = unknown.name();
    let mut names: Vec<_> = offered.iter().map(|tool| format!("`{}`", tool.name)).collect();
    names.sort_unstable();
    names.truncate(NAMED_MAX);
    let message = format!("`--fn` gives a signature for `{name}`, and there is no such tool");
    Err(Failed::usage(message).hint(format!("there are {}", names.join(", "))))
}

async fn run(bus: Rc<Bus>, options: Options) -> Result<(), Failed> {
    bus.open().await.map_err(|error| failure::not_open(&error))?;
    check_functions(&bus, &options.functions)?;
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
        Ended::PeerStoppedReading => Err(Failed::quietly(Exit::Failed)),
    }
}
