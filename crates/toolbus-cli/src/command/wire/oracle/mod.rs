//! `toolbus oracle`: the Cairo `stdio` protocol, from both sides.

mod batch;
mod invoke;
mod outcome;
mod serve;

use std::time::Duration;

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use toolbus::address::Address;
use toolbus::peer::PeerKind as _;
use toolbus::peer::decode::Decoding;
use toolbus::wire::oracle::{self, ORACLE};
use toolbus_proto::oracle::signature::{self, Function};
use toolbus_proto::tool::Wire;

use super::{Run, WireFace, with_subcommands};
use crate::args::peer::{FrontArgs, HttpArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::args::{Globals, value};
use crate::command::decode::Side;
use crate::failed::Failed;
use crate::peers::no_address;

/// The oracle wire on the command line.
pub(super) static FACE: Face = Face;

pub(super) struct Face;

impl WireFace for Face {
    fn wire(&self) -> Wire {
        oracle::WIRE
    }

    fn name(&self) -> &'static str {
        "oracle"
    }

    fn command(&self) -> clap::Command {
        with_subcommands::<OracleCommand>(self.name())
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(OracleCommand::from_arg_matches(matches)?))
    }

    fn decode_command(&self) -> clap::Command {
        DecodeArgs::augment_args(clap::Command::new("oracle"))
    }

    fn decoding(&self, matches: &ArgMatches) -> Result<Box<dyn Decoding>, clap::Error> {
        let DecodeArgs { side } = DecodeArgs::from_arg_matches(matches)?;
        Ok(ORACLE.decode(side.into()).expect("captures of oracles can be read"))
    }

    fn check_target(&self) -> &'static str {
        "an oracle is named by its connection, `stdio:COMMAND`, and started"
    }

    fn check_examples(&self) -> &'static [&'static str] {
        &["oracle 'stdio:./my-oracle'", "oracle 'stdio:toolbus oracle serve builtin:'"]
    }

    fn to_try(&self) -> &'static [&'static str] {
        &[
            "$ toolbus oracle invoke 'stdio:toolbus oracle serve builtin:' \\",
            "      --fn 'upper(text: ByteArray) -> ByteArray' upper hello",
        ]
    }
}

impl Run for OracleCommand {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        match self {
            OracleCommand::Invoke(args) => invoke::invoke(args, globals),
            OracleCommand::Serve(args) => serve::serve(args, globals),
        }
    }
}

/// Call a Cairo oracle, or be one
///
/// A Cairo program asks the world outside its proof through oracles: programs that an
/// executor starts and calls over their standard input and output. toolbus can stand on
/// either side: `invoke` is the executor, `serve` the oracle.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum OracleCommand {
    Invoke(InvokeArgs),
    Serve(ServeArgs),
}

/// Show what one side of an oracle's conversation says
///
/// Standard input is what one side wrote, a message a line. What is no message of the protocol
/// is told as `{"event":"other","line":…}`; ids stand as they were sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus decode oracle --as call < what-the-executor-wrote
  ./my-oracle < calls | toolbus decode oracle --as response")]
pub(crate) struct DecodeArgs {
    /// Who wrote it: `call` for the executor, `response` for the oracle
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
}

/// Call an oracle's function and print the felts it answers
///
/// CONNECTION is `stdio:COMMAND`: COMMAND is cut into words as a shell would, and started.
/// The answer is one line of JSON, an array of felts.
///
/// With `--fn` the words after SELECTOR are JSON values instead of felts, by the types of the
/// signature, and so is what is printed. Options may stand anywhere before the first FELT;
/// from there on every word is an argument, so that negative numbers need no `--`.
///
/// SELECTOR `-` makes a batch: one call for each line of standard input,
/// `{"selector":"f","calldata":["0x1"]}`, and for each one line out, `{"ok":["0x1"]}` or
/// `{"error":{"message":…,"kind":…}}`. All of them go to one process, and the exit code is
/// that of the first that failed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus oracle invoke 'stdio:./my-oracle' square 0x2710
  toolbus oracle invoke 'stdio:./my-oracle' sqrt --fn 'sqrt(x: u64) -> Option<u64>' 16
  toolbus oracle invoke 'stdio:./my-oracle' - < calls.jsonl
  toolbus oracle invoke --fn 'add(a: i128, b: i128) -> i128' \\
      'stdio:toolbus oracle serve builtin:' add -1 3")]
pub(crate) struct InvokeArgs {
    /// Oracle to start, e.g. `stdio:./my-oracle`
    pub(crate) connection: String,
    /// Function to call, or `-` for one call a line of standard input
    pub(crate) selector: String,
    /// Arguments: felts such as `0x2710`, or JSON values with `--fn`
    #[arg(value_name = "FELT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) felts: Vec<String>,
    /// Signature of the function, e.g. `sqrt(x: u64) -> Option<u64>`; may repeat
    #[arg(long = "fn", value_name = "TEXT")]
    pub(crate) functions: Vec<String>,
    /// Print the felts that the Cairo program receives, failures included
    #[arg(long)]
    pub(crate) as_cairo: bool,
    /// Reduce felts beyond the field prime instead of refusing them
    #[arg(long)]
    pub(crate) lenient_felts: bool,
    /// Give up on a call after this long, the start included, e.g. `90` [default: never]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// Give up if the oracle is not ready after this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "120s",
          allow_negative_numbers = true)]
    pub(crate) start_timeout: Duration,
    /// Let the oracle have this long to end by itself before it is made to
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    pub(crate) stop_timeout: Duration,
    /// Skip lines longer than this, e.g. `64MiB`
    #[arg(long, value_name = "BYTES", value_parser = value::held_size, default_value = "64MiB")]
    pub(crate) line_max: usize,
    /// Allow the connection `shell:`, whose one function runs any command
    #[arg(long)]
    pub(crate) allow_shell: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

/// Be an oracle on standard input and output
///
/// Serves the tools of the addresses, or of the config, to the executor that started us.
/// Standard output carries the protocol and nothing else. All peers are opened first: if one
/// cannot be, the exit code is 3 and nothing is written.
///
/// A tool's signature is the one given by `--fn`, else its own, else one made from the schema
/// of its input.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus oracle serve builtin:
  toolbus oracle invoke --fn 'upper(text: ByteArray) -> ByteArray' \\
      'stdio:toolbus oracle serve builtin:' upper hello")]
pub(crate) struct ServeArgs {
    /// Peers whose tools are served, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<String>,
    /// Signature to offer a tool by, e.g. `add(a: u64, b: u64) -> u64`; may repeat
    #[arg(long = "fn", value_name = "TEXT")]
    pub(crate) functions: Vec<String>,
    /// Reduce felts beyond the field prime instead of refusing them
    #[arg(long)]
    pub(crate) lenient_felts: bool,
    /// Skip lines longer than this, e.g. `64MiB`
    #[arg(long, value_name = "BYTES", value_parser = value::held_size, default_value = "64MiB")]
    pub(crate) line_max: usize,
    /// Give up on a call after this long, e.g. `90`, `500ms`
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "60s",
          allow_negative_numbers = true)]
    pub(crate) timeout: Duration,
    /// Give up if a peer is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) start_timeout: Option<Duration>,
    /// Let a peer have this long to end by itself before it is made to
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    pub(crate) stop_timeout: Duration,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    pub(crate) allow_shell: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) front: FrontArgs,
    #[command(flatten)]
    pub(crate) seen: ViewArgs,
}

/// The functions of all texts that were given by `--fn`.
fn functions(texts: &[String]) -> Result<Vec<Function>, Failed> {
    let mut functions = Vec::new();
    for text in texts {
        let parsed = signature::parse(text).map_err(|error| {
            Failed::usage(format!("`{text}` is no signature")).caused_by(&error)
        })?;
        for function in parsed {
            if functions.iter().any(|known: &Function| known.name() == function.name()) {
                let name = function.name();
                return Err(Failed::usage(format!("`--fn` gives two signatures for `{name}`")));
            }
            functions.push(function);
        }
    }
    Ok(functions)
}

/// The oracle that a connection string names.
pub(crate) fn connection(text: &str) -> Result<Address, Failed> {
    oracle::connection(text).map_err(|error| no_address(&error))
}
