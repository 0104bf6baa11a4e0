//! `toolbus provider`: the tools of the bus for the Orchard host that started us; `scenario` is
//! the other side, `toolbus orchard`.

pub(super) mod scenario;

use std::rc::Rc;
use std::time::Duration;

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use toolbus::bus::Bus;
use toolbus::peer::decode::Decoding;
use toolbus::peer::settings::Settings;
use toolbus::peer::{FrontKind as _, PeerKind as _};
use toolbus::wire::orchard::front::{self as orchard, Options};
use toolbus::wire::orchard::{self as wire, ORCHARD};
use toolbus_proto::channel::Ended;
use toolbus_proto::tool::Wire;

use super::{Run, WireFace};
use crate::args::peer::{FrontArgs, HttpArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::args::{Globals, value};
use crate::command::decode::Side;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::{self, failure};
use crate::stdio;

/// The last word that makes us print the schema.
const SCHEMA: &str = "schema";

/// The Orchard wire on the command line.
pub(super) static FACE: Face = Face;

pub(super) struct Face;

impl WireFace for Face {
    fn wire(&self) -> Wire {
        wire::WIRE
    }

    fn name(&self) -> &'static str {
        "provider"
    }

    fn command(&self) -> clap::Command {
        ProviderArgs::augment_args(clap::Command::new(self.name()))
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(ProviderArgs::from_arg_matches(matches)?))
    }

    fn decode_command(&self) -> clap::Command {
        DecodeArgs::augment_args(clap::Command::new("orchard"))
    }

    fn decoding(&self, matches: &ArgMatches) -> Result<Box<dyn Decoding>, clap::Error> {
        let DecodeArgs { side } = DecodeArgs::from_arg_matches(matches)?;
        Ok(ORCHARD.decode(side.into()).expect("captures of Orchard can be read"))
    }

    fn check_target(&self) -> &'static str {
        "an Orchard provider by its command, or `orchard+stdio:COMMAND`"
    }

    fn check_examples(&self) -> &'static [&'static str] {
        &["orchard ./my-provider", "orchard 'toolbus provider builtin:'"]
    }
}

/// Show what one side of an Orchard conversation says
///
/// Standard input is what a host or a provider wrote, a message a line. What is no message of
/// the protocol is told as `{"event":"other","line":…}`; ids and values stand as they were sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus decode orchard --as call < what-the-host-wrote
  ./my-provider < requests | toolbus decode orchard --as response")]
pub(crate) struct DecodeArgs {
    /// Who wrote it: `call` for the host, `response` for the provider
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
}

/// Be an Orchard provider on standard input and output
///
/// Serves the tools of the addresses, or of the config, to the Orchard host that started us.
/// Standard output carries the protocol and nothing else. All peers are opened first: if one
/// cannot be, the exit code is 3 and nothing is written.
///
/// With `schema` as its last word it prints its schema as one line of JSON instead.
///
/// Tools are actions: of one peer by their own names, of several as `<peer>_<tool>`, with `_` in
/// place of what HCL does not allow in a name.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus provider builtin:
  toolbus provider builtin: schema
  toolbus call 'orchard+stdio:toolbus provider builtin:' add a=1 b=2

A host starts a provider without arguments, so give it a script:
  #!/bin/sh
  exec toolbus provider builtin: \"$@\"")]
pub(crate) struct ProviderArgs {
    /// Peers whose tools are served, in place of those in the config, e.g. `builtin:`; last of
    /// all `schema`, to print the schema
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Refuse lines longer than this, e.g. `16MiB`
    #[arg(long, value_name = "BYTES", value_parser = value::size, default_value = "16MiB")]
    line_max: usize,
    /// Give up on a call that is quiet for this long, e.g. `90`, `500ms` [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// Give up if a peer is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    start_timeout: Option<Duration>,
    /// Let a peer have this long to end by itself before it is made to
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    stop_timeout: Duration,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    allow_shell: bool,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    front: FrontArgs,
    #[command(flatten)]
    seen: ViewArgs,
}

impl Run for ProviderArgs {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        let settings = Settings {
            timeout: self.timeout,
            start_timeout: self.start_timeout,
            stop_timeout: Some(self.stop_timeout),
            allow_shell: self.allow_shell,
            program: self.program.settings()?,
            credentials: self.http.credentials()?,
            ..Settings::default()
        };
        let (addresses, prints) = match self.addresses.split_last() {
            Some((last, before)) if last == SCHEMA => (before, true),
            _ => (&self.addresses[..], false),
        };
        let options = Options { line_bytes_max: Some(self.line_max), timeout: self.timeout };
        let peers = Peers::of(addresses, globals, settings)?
            .seen_as(&self.seen)?
            .fresh_if(self.front.fresh.fresh);
        let as_front = |bus| self.front.searched(ORCHARD.name_tools(bus).for_front("provider"));
        crate::spans::say_if_missing();
        peers.meet_as(as_front, async |bus| serve(bus, prints, options).await)
    }
}

async fn serve(bus: Rc<Bus>, prints: bool, options: Options) -> Result<(), Failed> {
    bus.open().await.map_err(|error| failure::not_open(&error))?;
    let provider = orchard::provider(&bus).map_err(|clash| Failed::usage(clash.to_string()))?;
    if prints {
        return render::print(&format!("{}\n", provider.schema().write()));
    }
    let cannot = |error: std::io::Error| {
        Failed::new(Exit::Failed, "cannot use standard input and output").caused_by(&error)
    };
    let input = stdio::stdin().map_err(cannot)?;
    let output = stdio::stdout().map_err(cannot)?;
    match orchard::serve(bus, provider, options, input, output).await {
        Ended::Well => Ok(()),
        Ended::Refused(why) | Ended::Broke(why) => Err(Failed::new(Exit::Unreachable, why)),
        Ended::PeerStoppedReading => Err(Failed::quietly(Exit::Failed)),
    }
}
