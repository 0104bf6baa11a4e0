//! `toolbus nats`: the tools of the bus as a micro service, and who else is there.

mod nodes;
mod serve;
mod tour;

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use toolbus::peer::decode::Decoding;
use toolbus::wire::nats;
use toolbus::wire::nats::decode::Capture;
use toolbus_proto::tool::Wire;

use super::{Meeting, Run, WireFace, with_subcommands};
use crate::args::Globals;
use crate::args::peer::{HttpArgs, ProgramArgs};
use crate::command::decode::Side;
use crate::failed::Failed;

/// The NATS wire on the command line.
pub(super) static FACE: NatsFace = NatsFace;

pub(super) struct NatsFace;

impl WireFace for NatsFace {
    fn wire(&self) -> Wire {
        nats::WIRE
    }

    fn name(&self) -> &'static str {
        "nats"
    }

    fn command(&self) -> clap::Command {
        with_subcommands::<NatsCommand>(self.name())
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(NatsCommand::from_arg_matches(matches)?))
    }

    fn decode_command(&self) -> clap::Command {
        NatsDecodeArgs::augment_args(clap::Command::new("nats"))
    }

    fn decoding(&self, matches: &ArgMatches) -> Result<Box<dyn Decoding>, clap::Error> {
        let NatsDecodeArgs { side: _ } = NatsDecodeArgs::from_arg_matches(matches)?;
        Ok(Box::<Capture>::default())
    }

    fn meeting(&self) -> Option<&'static dyn Meeting> {
        Some(&tour::Tour)
    }

    fn check_target(&self) -> &'static str {
        "a micro service on NATS by its address"
    }

    fn check_examples(&self) -> &'static [&'static str] {
        &["nats nats://127.0.0.1:4222/team"]
    }
}

impl Run for NatsCommand {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        match self {
            NatsCommand::Serve(args) => serve::serve(args, globals),
            NatsCommand::Nodes(args) => nodes::nodes(args, globals),
        }
    }
}

/// Be a micro service on NATS, or see which there are
///
/// A NATS server passes short messages between the programs that are connected to it. `serve` makes
/// the tools of the bus a micro service that every NATS client can call; the same name on several
/// machines is one service. `nodes` lists who answers.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum NatsCommand {
    Serve(Box<ServeArgs>),
    Nodes(NodesArgs),
}

/// Serve tools as a micro service on NATS
///
/// FRONT is `nats://HOST:PORT/NAME`, or `nats+tls://…`. All peers are opened first; one that cannot
/// be ends with exit code 3, and so does a server that does not answer. Then standard error has the
/// line `listening on nats://HOST:PORT/NAME`. SIGTERM and SIGINT let calls under way end within 5 s.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus nats serve nats://127.0.0.1:4222/laptop 'python3 weather.py'
  nats req laptop.forecast '{\"city\":\"Bern\"}'")]
pub(crate) struct ServeArgs {
    /// Server and name of the service, e.g. `nats://127.0.0.1:4222/laptop`
    #[arg(value_name = "FRONT")]
    front: String,
    /// Peers whose tools are served, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// What the subjects begin with [default: the name of the service]
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    http: HttpArgs,
}

/// List the instances of a micro service
///
/// An address without a name lists all services. `foreign` is an instance that is no toolbus. With
/// `--json` there is a line for each. If nobody answers, the exit code is 3.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:
  toolbus nats nodes nats://127.0.0.1:4222/team")]
pub(crate) struct NodesArgs {
    /// Server and name of the service, e.g. `nats://127.0.0.1:4222/team`
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Print a line of JSON for each
    #[arg(long)]
    json: bool,
}

/// Show what the bytes of a NATS connection say
///
/// The bytes of one side go in on standard input, one line of JSON for each operation comes out.
/// Passwords, tokens, keys and signatures of `CONNECT` are masked.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:
  printf 'PUB team.add 13\\r\\n{\"a\":1,\"b\":2}\\r\\n' | toolbus decode nats --as call")]
pub(crate) struct NatsDecodeArgs {
    /// Who wrote it: `call` for a client, `response` for the server
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    side: Side,
}
