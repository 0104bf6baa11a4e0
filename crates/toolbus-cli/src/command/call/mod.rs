//! `toolbus call`: one call, one answer.

mod stream;

use std::time::{Duration, Instant};

use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::engine::calls::Inbox;
use toolbus::wire::settings::Settings;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, LastWords, Outcome, What};

use crate::args::peer::{HttpArgs, ProgramArgs};
use crate::args::{Globals, value};
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::{self, failure};

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
    /// Give up after this long in all, e.g. `90`, `500ms` [default: as the config says, or 60s]
    #[arg(long, value_name = "TIME", value_parser = value::duration, env = "TOOLBUS_TIMEOUT",
          hide_env_values = true, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// Give up if the peer is not ready after this long [default: as its protocol says]
    #[arg(long, value_name = "TIME", value_parser = value::duration, allow_negative_numbers = true)]
    pub(crate) start_timeout: Option<Duration>,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    pub(crate) allow_shell: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
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
    match prepared(args, globals).and_then(|(peers, call)| {
        peers.meet(async |bus| match answer(&bus, call, args, globals).await? {
            Err(failure) => Ok(Err(peers.second_look_if_one(failure).await)),
            answered => Ok(answered),
        })
    }) {
        Ok(answered) => answered.map_err(|failure| failure::failed(&failure)),
        Err(failed) => Err(told(globals, failed)),
    }
}

/// Whom to call and what to ask, as far as that can be known without starting a peer.
fn prepared(args: &CallArgs, globals: &Globals) -> Result<(Peers, Call), Failed> {
    let Target { address, tool, arguments } = args.target()?;
    let arguments = arguments
        .map(Json::parse)
        .transpose()
        .map_err(|error| Failed::usage("the arguments cannot be passed on").caused_by(&error))?;
    let settings = Settings {
        start_timeout: args.start_timeout,
        allow_shell: args.allow_shell,
        program: args.program.settings()?,
        credentials: args.http.credentials()?,
        ..Settings::default()
    };
    let addresses: Vec<&str> = address.into_iter().collect();
    let peers = Peers::of(&addresses, globals, settings)?.only_for_tool(tool).within(args.timeout);
    let mut call = Call::tool(Instant::now(), tool, arguments);
    // All of it, whatever trickles meanwhile: who says so wants an end by then.
    call.deadline.total = args.timeout;
    call.options.progress = args.stream;
    Ok((peers, call))
}

/// Prints the answer as it comes, before the peers are told goodbye.
async fn answer(
    bus: &Bus,
    call: Call,
    args: &CallArgs,
    globals: &Globals,
) -> Result<Result<(), Failure>, Failed> {
    let (inbox, slot) = Inbox::new();
    let back = match &call.what {
        What::Tool { name, .. } if args.text => bus.resolve(name).map(|(back, _)| back),
        _ => None,
    };
    let text_of = |answer: &Json| back.as_ref()?.text_of(answer);
    let uplink = bus.start(call, slot);
    let ended = if args.stream {
        stream::print(&inbox, uplink).await?
    } else {
        inbox.whole(uplink).await.map(|outcome| whole(outcome, args.text, text_of))
    };
    match ended {
        Ok(last) => render::print(&last).map(Ok),
        Err(failure) => {
            let failure = with_hint(failure);
            if globals.json {
                render::print(&failure::json(&failure))?;
            }
            Ok(Err(failure))
        }
    }
}

/// The answer as one line of JSON, or as text.
fn whole(outcome: Outcome, as_text: bool, text_of: impl Fn(&Json) -> Option<String>) -> String {
    let mut text = match outcome {
        Outcome::Text(text) if as_text => text,
        Outcome::Value(value) if as_text => text_of(&value).unwrap_or_else(|| value.shown()),
        outcome => json(outcome).to_string(),
    };
    text.push('\n');
    text
}

/// How the answer looks as JSON, without blanks.
fn json(outcome: Outcome) -> Json {
    match outcome {
        Outcome::Value(value) | Outcome::End(Some(value)) => value.compact(),
        Outcome::Text(text) => Json::of(&text),
        // Nothing, or what no call of a tool can end with.
        _ => Json::null(),
    }
}

fn with_hint(failure: Failure) -> Failure {
    if failure.kind != FailureKind::UnknownTool || failure.last_words.is_some() {
        return failure;
    }
    let hint = Some("`toolbus tools` lists what can be called".to_owned());
    failure.with_last_words(LastWords { hint, ..LastWords::default() })
}

/// With `--json` a failure is also a line on standard output.
fn told(globals: &Globals, failed: Failed) -> Failed {
    match &failed.report {
        Some(report) if globals.json => {
            let line = render::report::json("invalid_arguments", &report.message, None, None);
            render::print(&line).err().unwrap_or(failed)
        }
        _ => failed,
    }
}
