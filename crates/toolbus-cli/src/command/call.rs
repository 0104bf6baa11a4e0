//! `toolbus call`: one call, one answer.

use std::time::Duration;

use toolbus::address::Address;

use crate::args::{Globals, value};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;

const USAGE: &str = "toolbus call [OPTIONS] [ADDRESS] TOOL [ARGUMENT]...";

/// Call one tool and print its answer
///
/// TOOL is a name as `toolbus tools` lists it. With an ADDRESS before it, that peer is
/// called; without, the tool is looked for in the config, as `<back>.<tool>`.
///
/// The arguments are one JSON value, or `key=value` words: each value is read as JSON, or as
/// a string if it is not JSON. The answer is one line of JSON on standard output; everything
/// else goes to standard error. A call that fails prints nothing on standard output, or with
/// `--json` one line `{"error":{"kind":…,"message":…}}`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = USAGE,
    after_long_help = "Examples:
  toolbus call builtin: add a=1 b=2
  toolbus call builtin: upper --text text='hello world'
  toolbus call builtin: add '{\"a\":1,\"b\":2}'
  toolbus call 'stdio:./my-oracle' invoke selector=f calldata='[\"0x1\"]'"
)]
pub(crate) struct CallArgs {
    /// Peer to call in place of the config, e.g. `builtin:`
    address: Option<String>,
    /// Tool to call, e.g. `add`
    tool: Option<String>,
    /// One JSON value, or `key=value` words
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Print text and strings as they are, not as JSON
    #[arg(long, conflicts_with = "stream")]
    pub(crate) text: bool,
    /// Print parts and progress as they come, each as a line of JSON
    #[arg(long)]
    pub(crate) stream: bool,
    /// Give up after this long, e.g. `90`, `500ms`
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "60s",
          env = "TOOLBUS_TIMEOUT", hide_env_values = true, allow_negative_numbers = true)]
    pub(crate) timeout: Duration,
    /// Give up if the peer is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) start_timeout: Option<Duration>,
}

/// Who is called, and with what.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) address: Option<&'a str>,
    pub(crate) tool: &'a str,
    /// One JSON value, as it was typed.
    pub(crate) arguments: Option<String>,
}

impl CallArgs {
    /// Tells `ADDRESS TOOL ARGUMENT…` from `TOOL ARGUMENT…`, which only the first word can.
    pub(crate) fn target(&self) -> Result<Target<'_>, Failed> {
        let words = self.address.iter().chain(&self.tool).chain(&self.arguments);
        let mut words = words.map(String::as_str).peekable();
        let address = words.next_if(|word| Address::begins_like_one(word));
        let Some(tool) = words.next() else {
            return Err(Failed::usage("TOOL is missing")
                .lines([format!("usage: {USAGE}")])
                .hint("`toolbus tools` lists what can be called"));
        };
        let words: Vec<String> = words.map(str::to_owned).collect();
        let arguments = value::arguments(&words).map_err(|error| {
            let failed = Failed::usage(error.to_string())
                .hint("give one JSON value (`'{\"a\":1}'`) or `key=value` words (`a=1`)");
            match std::error::Error::source(&error) {
                Some(source) => failed.caused_by(source),
                None => failed,
            }
        })?;
        Ok(Target { address, tool, arguments })
    }
}

pub(crate) fn run(args: &CallArgs, globals: &Globals) -> Result<(), Failed> {
    let target = args.target().map_err(|failed| told(globals, "invalid_arguments", failed))?;
    let Target { address, tool, arguments } = target;
    let mut message = format!("cannot call `{tool}`");
    if let Some(address) = address {
        message.push_str(&format!(" of `{address}`"));
    }
    if let Some(arguments) = arguments {
        message.push_str(&format!(" with `{arguments}`"));
    }
    message.push_str(": `toolbus call` is not there yet");
    Err(told(globals, "failed", Failed::new(Exit::Failed, message)))
}

/// With `--json` a failure is also a line on standard output.
fn told(globals: &Globals, kind: &str, failed: Failed) -> Failed {
    match &failed.report {
        Some(report) if globals.json => {
            let line = render::report::json(kind, &report.message, None, None);
            render::print(&line).err().unwrap_or(failed)
        }
        _ => failed,
    }
}
