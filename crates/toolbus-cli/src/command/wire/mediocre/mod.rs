//! `toolbus rpc`: mediocre-rpc, from both sides.

mod call;
mod elements;
mod printed;
mod serve;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use toolbus::address::{Address, Purpose};
use toolbus::peer::decode::Decoding;
use toolbus::wire::mediocre;
use toolbus::wire::mediocre::decode::Capture;
use toolbus::wire::mediocre::settings::{BlobLen, MediocreSettings};
use toolbus_proto::tool::Wire;

use super::{Run, WireFace, with_subcommands};
use crate::args::access::AccessArgs;
use crate::args::peer::{BackHttpArgs, FrontArgs, HttpArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::args::{Globals, value};
use crate::command::call::is_pair;
use crate::command::decode::Side;
use crate::failed::Failed;

/// The mediocre wire on the command line.
pub(super) static FACE: Face = Face;

pub(super) struct Face;

impl WireFace for Face {
    fn wire(&self) -> Wire {
        mediocre::WIRE
    }

    fn name(&self) -> &'static str {
        "rpc"
    }

    fn command(&self) -> clap::Command {
        with_subcommands::<RpcCommand>(self.name())
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(RpcCommand::from_arg_matches(matches)?))
    }

    fn decode_command(&self) -> clap::Command {
        DecodeArgs::augment_args(clap::Command::new("mediocre"))
    }

    fn decoding(&self, matches: &ArgMatches) -> Result<Box<dyn Decoding>, clap::Error> {
        let DecodeArgs { side, reading } = DecodeArgs::from_arg_matches(matches)?;
        Ok(Box::new(Capture::new(side.into(), reading.settings().reading())))
    }

    fn check_target(&self) -> &'static str {
        "a mediocre-rpc server by a URL as `toolbus rpc call` takes it"
    }

    fn check_examples(&self) -> &'static [&'static str] {
        &["mediocre tcp://127.0.0.1:7420 --method ping"]
    }

    fn front_example(&self) -> Option<(&'static str, &'static str)> {
        Some(("scripts", "mediocre+tcp://127.0.0.1:7420"))
    }
}

impl Run for RpcCommand {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        match self {
            RpcCommand::Call(args) => call::call(args, globals),
            RpcCommand::Serve(args) => serve::serve(args, globals),
        }
    }
}

/// Call a mediocre-rpc server, or be one
///
/// Calls and answers are JSON objects one after another, with raw blobs between them, over
/// anything that carries bytes in order. A URL is `tcp://HOST:PORT`, `tls://HOST:PORT`,
/// `http://HOST:PORT/rpc`, `https://HOST:PORT/rpc`, `unix:PATH` or `stdio:COMMAND`; before it
/// may stand `mediocre+`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum RpcCommand {
    Call(CallArgs),
    Serve(ServeArgs),
}

/// Call a method and print what it answers
///
/// With `--el`, `--blob`, `--tail` or `--stream` it is a stream call; elements go out in the
/// order of the options, and answers are printed while they do.
///
/// ARGS are one JSON value, `@FILE` or `-` for one in a file or on standard input, or `key=value`
/// words: a value is JSON if it can be, else a string. `key:=JSON` is JSON, and `key=@FILE` what a
/// file holds.
///
/// A single answer is one line of JSON. Of a stream each element is a line as soon as it is
/// complete: a value as it is, a blob as `{"$bytes":"<base64>"}`, or with `--out` as a file
/// and the line `{"$file":"DIR/0.bin","bytes":N}`; `{"$head":…}` stands before them and
/// `{"$tail":…}` behind, if there is something to say. With `--json` the lines are those of
/// `toolbus decode mediocre`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus rpc call tcp://127.0.0.1:7420 add a=1 b=2
  toolbus rpc call tcp://127.0.0.1:7420 add '{\"a\":1,\"b\":2}'
  toolbus rpc call tcp://127.0.0.1:7420 sink --el 1 --blob photo.jpg --tail '\"done\"'
  toolbus rpc call http://127.0.0.1:7422 count '{\"n\":3}'
  generate | toolbus rpc call unix:/run/tools.sock echo --el -
  toolbus rpc call 'stdio:toolbus rpc serve --listen stdio: builtin:' count '{\"n\":3}'")]
pub(crate) struct CallArgs {
    /// Server to call, e.g. `tcp://127.0.0.1:7420`
    pub(crate) url: String,
    /// Method to call
    pub(crate) method: String,
    /// Its arguments: one JSON value, `@FILE`, `-`, or `key=value` words
    #[arg(value_parser = json_or_word, allow_negative_numbers = true)]
    pub(crate) args: Vec<String>,
    #[command(flatten)]
    pub(crate) elements: elements::Elements,
    /// End the stream with this value
    #[arg(long, value_name = "JSON", value_parser = json_text, allow_hyphen_values = true)]
    pub(crate) tail: Option<String>,
    /// Make it a stream call, even if it has no elements
    #[arg(long)]
    pub(crate) stream: bool,
    /// Send this object for traces and logs, and show that of the answer
    #[arg(long, value_name = "JSON", value_parser = json_text)]
    pub(crate) debug: Option<String>,
    /// Write blobs to files in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Give up after this long, e.g. `90`, `500ms` [default: 60s in which no byte moves]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
}

/// Said here, since clap would also name what was typed, as if that had to be.
const SERVE_USAGE: &str = "toolbus rpc serve [OPTIONS] --listen <URL> [ADDRESS]...";

/// Be a mediocre-rpc server
///
/// Serves the tools of the addresses, or of the config, on each URL of `--listen`. Once one
/// accepts, standard error has the line `listening on URL`, with the real port. All peers are
/// opened first: if one cannot be, the exit code is 3.
///
/// Over HTTP only this machine is let in, and no page of another site, unless `--origin` names
/// it. Where other machines can reach us something must tell callers apart: over HTTP a token,
/// over TLS the certificates of `client_ca`. `--insecure` does without.
///
/// `stdio:` is our own standard input and output; where that is all, the end of standard
/// input ends us. SIGINT and SIGTERM leave calls in flight five seconds.
#[derive(Debug, clap::Args)]
#[command(override_usage = SERVE_USAGE, after_long_help = "Examples:
  toolbus rpc serve --listen tcp://127.0.0.1:7420 builtin:
  toolbus rpc serve --listen unix:/run/tools.sock 'stdio:./my-oracle'
  toolbus rpc serve --listen http://127.0.0.1:7422/rpc builtin:
  toolbus rpc serve --listen http://0.0.0.0:7422 --token-env TOOLS_TOKEN builtin:
  toolbus rpc serve --listen 'tls://0.0.0.0:7421?cert=cert.pem&key=key.pem&client_ca=ca.pem'")]
pub(crate) struct ServeArgs {
    /// Peers whose tools are served, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<String>,
    /// Where to listen, e.g. `tcp://127.0.0.1:0`; may repeat
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) listen: Vec<String>,
    /// Take no object larger than this
    #[arg(long, value_name = "BYTES", value_parser = value::held_size, default_value = "16MiB")]
    pub(crate) object_bytes_max: usize,
    /// Take no object nested deeper than this
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128),
          default_value = "128")]
    pub(crate) depth_max: u16,
    /// Read at most this much of a stream that is answered already
    #[arg(long, value_name = "BYTES", value_parser = value::size, default_value = "1MiB")]
    pub(crate) drain_bytes_max: usize,
    /// Read on for at most this long in a stream that is answered already
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "2s",
          allow_negative_numbers = true)]
    pub(crate) drain_timeout: Duration,
    /// Close a connection that is idle for this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5m",
          allow_negative_numbers = true)]
    pub(crate) idle_timeout: Duration,
    /// Give up on a call in which no byte moves for this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "60s",
          allow_negative_numbers = true)]
    pub(crate) call_timeout: Duration,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) back_http: BackHttpArgs,
    #[command(flatten)]
    pub(crate) front: FrontArgs,
    #[command(flatten)]
    pub(crate) seen: ViewArgs,
}

/// Show what one direction of a mediocre-rpc connection says
///
/// Standard input is what one side wrote, from the first byte of the connection or body on:
/// `--as call` for the side that calls, `--as response` for the side that answers.
///
/// A blob is printed when it is complete, in base64; one over 16 MiB by its length and hash.
/// What breaks a rule that may be broken is a line `{"event":"note",…}` behind its event.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  printf '{\"method\":\"add\",\"args\":[1,2]}' | toolbus decode mediocre --as call
  toolbus decode mediocre --as response --strict < capture.bin")]
pub(crate) struct DecodeArgs {
    /// Who wrote it: `call` for the caller, `response` for the server
    #[arg(long = "as", value_name = "SIDE", value_enum, hide_possible_values = true)]
    pub(crate) side: Side,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
}

/// How a peer's bytes are read.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadingArgs {
    /// What ends a blob of announced length: its length (`exact`) or its frame (`hint`)
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) blob_len: Ends,
    /// Take what would be noted for an error
    #[arg(long)]
    pub(crate) strict: bool,
}

/// What ends a blob of announced length.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum Ends {
    #[default]
    Exact,
    Hint,
}

impl ReadingArgs {
    fn settings(&self) -> MediocreSettings {
        MediocreSettings {
            blob_len: match self.blob_len {
                Ends::Exact => BlobLen::Exact,
                Ends::Hint => BlobLen::Hint,
            },
            strict: self.strict,
            ..MediocreSettings::default()
        }
    }
}

/// The address of a mediocre-rpc peer, whose `mediocre+` may be left out.
fn address(purpose: Purpose, url: &str) -> Result<Address, Failed> {
    mediocre::address(purpose, url)
        .map_err(|error| Failed::usage(error.to_string()).hint_if_any(error.hint()))
}

/// One JSON value, or a word that stands for one or for a part of it, as it was typed.
fn json_or_word(text: &str) -> Result<String, String> {
    if is_word(text) { Ok(text.to_owned()) } else { json_text(text) }
}

/// `key=value`, `@FILE` or `-`.
fn is_word(text: &str) -> bool {
    is_pair(text) || text == "-" || text.starts_with('@')
}

/// One JSON value, as it was typed.
fn json_text(text: &str) -> Result<String, String> {
    match toolbus_proto::json::Json::parse(text.to_owned()) {
        Ok(json) => Ok(json.as_str().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
