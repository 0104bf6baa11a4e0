//! `toolbus rpc`: mediocre-rpc, from both sides.

mod call;
mod elements;
mod printed;
mod serve;

use std::path::PathBuf;
use std::time::Duration;

use toolbus::address::{Address, Place, Purpose};
use toolbus::wire::settings::{BlobLen, MediocreSettings};

use super::decode::Ends;
use crate::args::value;
use crate::failed::Failed;

pub(crate) use call::call;
pub(crate) use serve::{Entry, serve};

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
/// A single answer is one line of JSON. Of a stream each element is a line as soon as it is
/// complete: a value as it is, a blob as `{"$bytes":"<base64>"}`, or with `--out` as a file
/// and the line `{"$file":"DIR/0.bin","bytes":N}`; `{"$head":…}` stands before them and
/// `{"$tail":…}` behind, if there is something to say. With `--json` the lines are those of
/// `toolbus decode mediocre`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
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
    /// Its arguments, as JSON
    #[arg(value_parser = json_text, allow_negative_numbers = true)]
    pub(crate) args: Option<String>,
    #[command(flatten)]
    pub(crate) elements: elements::Elements,
    /// End the stream with this value
    #[arg(long, value_name = "JSON", value_parser = json_text, allow_hyphen_values = true)]
    pub(crate) tail: Option<String>,
    /// Make it a stream call, even if it has no elements
    #[arg(long)]
    pub(crate) stream: bool,
    /// Send this object for traces and logs
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
}

/// Be a mediocre-rpc server
///
/// Serves the tools of the addresses, or of the config, on each URL of `--listen`. Once one
/// accepts, standard error has the line `listening on URL`, with the real port. All peers are
/// opened first: if one cannot be, the exit code is 3.
///
/// `stdio:` is our own standard input and output; where that is all, the end of standard
/// input ends us. SIGINT and SIGTERM leave calls in flight five seconds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus rpc serve --listen tcp://127.0.0.1:7420 builtin:
  toolbus rpc serve --listen unix:/run/tools.sock 'stdio:./my-oracle'
  toolbus rpc serve --listen http://127.0.0.1:7422/rpc builtin:
  toolbus rpc serve --listen 'tls://0.0.0.0:7421?cert=cert.pem&key=key.pem'")]
pub(crate) struct ServeArgs {
    /// Peers whose tools are served, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<String>,
    /// Where to listen, e.g. `tcp://127.0.0.1:0`; may repeat
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) listen: Vec<String>,
    /// Take no object larger than this
    #[arg(long, value_name = "BYTES", value_parser = value::size, default_value = "16MiB")]
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
pub(super) fn address(purpose: Purpose, url: &str) -> Result<Address, Failed> {
    const SHORT: [&str; 6] = ["tcp://", "tls://", "http://", "https://", "unix:", "stdio:"];
    let is_short = SHORT.iter().any(|scheme| url.starts_with(scheme));
    let full = if is_short { format!("mediocre+{url}") } else { url.to_owned() };
    let address = Address::parse_for(purpose, &full);
    let address = address.map_err(|error| Failed::usage(error.to_string()))?;
    match address.place() {
        Place::Unix(_) | Place::Command { wire: toolbus_proto::mediocre::WIRE, .. } => Ok(address),
        Place::Url(found) if found.wire == toolbus_proto::mediocre::WIRE => Ok(address),
        _ => Err(Failed::usage(format!("`{url}` is no mediocre-rpc server")).hint(
            "name one by `tcp://`, `tls://`, `http://` or `https://` and HOST:PORT, by `unix:PATH` \
             or by `stdio:COMMAND`",
        )),
    }
}

/// One JSON value, as it was typed.
fn json_text(text: &str) -> Result<String, String> {
    match toolbus_proto::json::Json::parse(text.to_owned()) {
        Ok(json) => Ok(json.as_str().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
