//! `toolbus call`: one call, one answer.

pub(crate) mod answering;
mod arguments;
pub(crate) mod described;
mod form;
mod out;
mod people;
pub(crate) mod question;
mod receive;
mod stream;

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::peer::Registry;
use toolbus::peer::settings::Settings;
use toolbus_engine::calls::Inbox;
use toolbus_engine::units::HELD_BYTES_MAX;
use toolbus_proto::collect::COLLECTED_BYTES_MAX;
use toolbus_proto::did_you_mean::hinted;
use toolbus_proto::json::Json;
use toolbus_proto::judge;
use toolbus_proto::printable::size;
use toolbus_proto::tool::{
    Call, Code, Deadline, Failure, FailureKind, LastWords, Outcome, ToolName, What,
};

use self::answering::Answering;
use self::arguments::Arguments;
pub(crate) use self::arguments::is_pair;
use self::described::Described;
use self::out::Out;
use self::receive::Receiving;
use crate::args::asked::{AskedArgs, EraArgs};
use crate::args::peer::{DaemonArgs, HttpArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::args::{Globals, value};
use crate::failed::Failed;
use crate::peers::{Peers, are_backs, offer_seen};
use crate::render::spinner::Spinner;
use crate::render::{self, failure};
use crate::stdio::Terminal as _;

const USAGE: &str = "toolbus call [OPTIONS] [ADDRESS] TOOL [ARGUMENT]...";

/// Call one tool and print its answer
///
/// TOOL is a name as `toolbus tools` lists it. With an ADDRESS before it, that peer is
/// called; without, the tool is looked for in the config, as `<back>.<tool>` or `<back> <tool>`.
///
/// The arguments are one JSON value, `@FILE` or `-` for one in a file or on standard input, or
/// `key=value` words. The tool's schema says what a value is: a string where it takes one, else
/// JSON, or a string if it is not JSON. `key:=JSON` is JSON whatever the schema says, `key=@FILE`
/// what a file holds. Arguments that cannot be right by the schema are not sent (exit 2), unless
/// `--no-check` says so.
///
/// The answer is one line of JSON on standard output, on a terminal it is shown for people unless
/// `--json` says otherwise; everything else goes to standard error. A
/// call that fails prints nothing on standard output, or with `--json` one line
/// `{"error":{"kind":…,"message":…}}`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = USAGE,
    after_long_help = "Examples:
  toolbus call builtin: add a=1 b=2
  toolbus call builtin: upper --text text='hello world'
  toolbus call builtin: add '{\"a\":1,\"b\":2}'
  toolbus call builtin: upper text=@notes.txt
  echo '{\"a\":1,\"b\":2}' | toolbus call builtin: add -
  toolbus call 'stdio:./my-oracle' invoke selector=f calldata='[\"0x1\"]'"
)]
pub(crate) struct CallArgs {
    /// Peer to call in place of the config, e.g. `builtin:`
    address: Option<String>,
    /// Tool to call, e.g. `add`
    tool: Option<String>,
    /// One JSON value, `@FILE`, `-`, or `key=value` words
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Print the text of an answer as it is, not as JSON; the text, too, where values stand beside it
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
    /// Write the bytes of an answer to this file, or to files in this folder; if it has none, the
    /// answer itself
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "stream")]
    out: Option<PathBuf>,
    /// Take replies of up to this size, e.g. `64MiB` [default: 16MiB; bytes go to --out unbounded]
    #[arg(long, value_name = "SIZE", value_parser = value::held_size)]
    reply_max: Option<usize>,
    /// Send the arguments as they are, whatever the tool's schema says of them
    #[arg(long)]
    no_check: bool,
    /// Allow the address `shell:`, whose one tool runs any command
    #[arg(long)]
    pub(crate) allow_shell: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) era: EraArgs,
    #[command(flatten)]
    asked: AskedArgs,
    #[command(flatten)]
    pub(crate) seen: ViewArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Who is called, and with what.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) address: Option<&'a str>,
    pub(crate) tool: Cow<'a, str>,
    arguments: Arguments,
}

impl CallArgs {
    /// Does it say how the peer is to be started, or spoken to?
    fn says_how(&self) -> bool {
        self.start_timeout.is_some()
            || self.reply_max.is_some()
            || self.allow_shell
            || self.program.is_given()
            || self.http.is_given()
            || self.era.is_given()
            || self.asked.is_given()
    }

    /// Tells `ADDRESS TOOL ARGUMENT…` from `TOOL ARGUMENT…`, which only the first word can.
    ///
    /// A tool of the config may be two words, its back and itself.
    pub(crate) fn target(&self, globals: &Globals) -> Result<Target<'_>, Failed> {
        let words = self.address.iter().chain(&self.tool).chain(&self.arguments);
        let mut words = words.map(String::as_str).peekable();
        let address = words.next_if(|word| Address::begins_like_one(word));
        let Some(tool) = words.next() else {
            return Err(Failed::usage("TOOL is missing")
                .lines([format!("usage: {USAGE}")])
                .hint("`toolbus tools` lists what can be called"));
        };
        let mut words: Vec<&str> = words.collect();
        let tool = match words.first() {
            Some(own)
                if address.is_none()
                    && arguments::may_be_name(own)
                    && are_backs(&[tool], globals) =>
            {
                Cow::Owned(format!("{tool}.{}", words.remove(0)))
            }
            _ => Cow::Borrowed(tool),
        };
        let arguments = read(&words)?;
        Ok(Target { address, tool, arguments })
    }
}

/// The arguments that these words are.
pub(crate) fn read(words: &[&str]) -> Result<Arguments, Failed> {
    Arguments::read(words).map_err(|error| {
        let failed = Failed::usage(error.to_string()).hint(error.hint());
        match std::error::Error::source(&error) {
            Some(source) => failed.caused_by(source),
            None => failed,
        }
    })
}

pub(crate) fn run(args: &CallArgs, globals: &Globals) -> Result<(), Failed> {
    let called = prepared(args, globals).and_then(|(peers, asked)| {
        let as_front = |bus: Bus| bus.for_front("call");
        peers.meet_as(as_front, async |bus| {
            let answering = asked.answering.clone();
            let answered = answer(&bus, asked, args, globals).await;
            // Before the report, which is made before the goodbye.
            let answered = answered.map_err(|failed| told(globals, failed)).and_then(|answered| {
                answered.map_err(|failure| failure::failed(&peers.with_meant_if_one(failure)))
            });
            // What the call itself ended with was told as its outcome.
            Ok(peers.over(answered, answering.close()).await)
        })
    });
    called.map_err(|failed| told(globals, failed))?
}

/// What is asked, before the tool was looked at.
struct Asked {
    tool: ToolName,
    arguments: Arguments,
    deadline: Deadline,
    answering: Rc<Answering>,
}

/// Whom to call and what to ask, as far as that can be known without starting a peer.
fn prepared(args: &CallArgs, globals: &Globals) -> Result<(Peers, Asked), Failed> {
    let Target { address, tool, arguments } = args.target(globals)?;
    let forms = question::can_be_answered() && !args.stream;
    let (clients, answering) = args.asked.answering(globals, forms)?;
    let settings = Settings {
        start_timeout: args.start_timeout,
        allow_shell: args.allow_shell,
        program: args.program.settings()?,
        credentials: args.http.credentials()?,
        reply_bytes_max: args.reply_max,
        clients,
        era: args.era.generation(),
        ..Settings::default()
    };
    let addresses: Vec<&str> = address.into_iter().collect();
    let peers = Peers::of(&addresses, globals, settings)?.seen_as(&args.seen)?;
    let peers = peers.only_for_tool(&tool).within(args.timeout);
    let peers = peers.served_if(args.daemon.may_be_asked() && !args.says_how());
    // All of it, whatever trickles meanwhile: who says so wants an end by then.
    let deadline = Deadline { total: args.timeout, ..Deadline::never(Instant::now()) };
    let (tool, answering) = ((&*tool).into(), Rc::new(answering));
    Ok((peers, Asked { tool, arguments, deadline, answering }))
}

/// Prints the answer as it comes, before the peers are told goodbye.
async fn answer(
    bus: &Bus,
    asked: Asked,
    args: &CallArgs,
    globals: &Globals,
) -> Result<Result<(), Failure>, Failed> {
    let Asked { tool, deadline, answering, .. } = &asked;
    let (tool, deadline, answering) = (tool.clone(), *deadline, answering.clone());
    let spinner = Spinner::for_people(globals).filter(|_| !args.stream);
    offer_seen(bus, deadline).await?;
    let ended = match call(bus, asked, args, spinner.is_some()).await {
        Ok(call) => ended(bus, call, args, &answering, spinner.as_ref()).await,
        Err(failure) => Ok(Err(failure)),
    };
    drop(spinner);
    match ended? {
        Ok(Printed::Text(text)) => render::print(&text).map(Ok),
        Ok(Printed::Json(line)) if globals.json => render::print(&line).map(Ok),
        Ok(Printed::Json(line)) if args.out.is_none() && io::stdout().is_terminal() => {
            let answer = Json::from_trusted(line);
            people::shown(&answer).into_iter().try_for_each(|shown| match shown {
                people::Shown::Text(text) => render::print(&ended_line(text)),
                people::Shown::Json(json) => print_json(&json, globals),
            })?;
            Ok(Ok(()))
        }
        Ok(Printed::Json(line)) => print_json(&line, globals).map(Ok),
        Err(failure) => {
            let failure = described::explained(bus, &tool, failure, deadline).await;
            let address = args.address.as_deref().filter(|word| Address::begins_like_one(word));
            let failure = unknown_in_config(failure, address, &args.seen, tool.as_str());
            let failure = with_hint(failure);
            if globals.json {
                render::print(&failure::json(&failure))?;
            }
            Ok(Err(failure))
        }
    }
}

/// How long a server that is ready may take for its list if only the judging of arguments needs it.
const LIST_PATIENCE: Duration = Duration::from_secs(1);

/// The call itself. What the words among its arguments mean is asked of the peer, and so is what it
/// takes, where that can be judged before it is sent.
async fn call(
    bus: &Bus,
    asked: Asked,
    args: &CallArgs,
    shows_progress: bool,
) -> Result<Call, Failure> {
    let Asked { tool, arguments, deadline, .. } = asked;
    let is_checked = !args.no_check;
    let has_words = matches!(arguments, Arguments::Words(_));
    // Words cannot be read without the list; to judge a whole value it is not waited for long.
    let quiet = if has_words { deadline.quiet } else { Some(LIST_PATIENCE) };
    let spec = match has_words || is_checked && is_judged_by_schema(bus, &tool) {
        true => match described::described(bus, &tool, Deadline { quiet, ..deadline }).await {
            Ok(Described::Tool(spec)) => Some(spec),
            Ok(Described::Unknown(failure)) if has_words => return Err(failure),
            // The peer has the last word.
            Ok(Described::Unknown(_) | Described::Unlisted) => None,
            // That it was the list that was late is of no use to who did not ask for it.
            Err(failure) if !has_words && failure.kind == FailureKind::TimedOut => None,
            Err(failure) => return Err(failure),
        },
        false => None,
    };
    let arguments = arguments.json(spec.as_ref(), is_checked)?;
    // What a view refuses is a call all the same: it is counted, and told in the words of the view.
    let is_checked = is_checked && !bus.refuses_arguments(&tool, arguments.as_ref());
    if let Some(spec) = spec.filter(|_| is_checked) {
        match is_judged_by_schema(bus, &tool) {
            true => judge::judge(&spec, arguments.as_ref()).map_err(with_way_out)?,
            false if has_words => judge::judge_names(&spec, arguments.as_ref())?,
            false => {}
        }
    }
    let mut call = Call::tool(deadline.asked, tool, arguments);
    call.deadline = deadline;
    call.options.progress = args.stream || shows_progress;
    call.options.text = args.text;
    call.options.typed = !args.text;
    Ok(call)
}

/// Can the arguments of this tool be judged by its schema? Of a program whose wire is not known yet
/// perhaps.
fn is_judged_by_schema(bus: &Bus, tool: &ToolName) -> bool {
    let Some((back, _)) = bus.resolve(tool) else { return false };
    let registry = Registry::default();
    registry.kinds().any(|kind| kind.wire() == back.wire() && kind.is_judged_by_schema())
}

/// Arguments that were refused before they were sent, with what can be done about it.
fn with_way_out(failure: Failure) -> Failure {
    let hint =
        "`toolbus describe` shows what it takes, `--no-check` sends the arguments as they are";
    match &failure.last_words {
        Some(words) if words.hint.is_some() => failure,
        _ => hinted(failure, Some(hint.to_owned())),
    }
}

/// What goes to standard output.
enum Printed {
    /// One line of JSON.
    Json(String),
    /// As it is.
    Text(String),
}

async fn ended(
    bus: &Bus,
    call: Call,
    args: &CallArgs,
    answering: &Answering,
    spinner: Option<&Spinner>,
) -> Result<Result<Printed, Failure>, Failed> {
    let (inbox, reply_to) = Inbox::new();
    let back = match &call.what {
        What::Tool { name, .. } if args.text => bus.resolve(name).map(|(back, _)| back),
        _ => None,
    };
    let text_of = |answer: &Json| back.as_ref()?.text_of(answer);
    let mut out = args.out.as_deref().map(Out::to).transpose()?;
    let running = bus.start(call, reply_to);
    if args.stream {
        return Ok(stream::print(&inbox, running, answering).await?.map(Printed::Text));
    }
    let bytes_max = args.reply_max.unwrap_or(COLLECTED_BYTES_MAX);
    let mut receiving = Receiving { spinner, answering, out: out.as_mut(), bytes_max };
    let outcome = match receiving.whole(&inbox, running).await? {
        Ok(outcome) => outcome,
        Err(failure) => return Ok(Err(failure)),
    };
    let outcome = match outcome {
        Outcome::Value(value) if args.text => {
            Outcome::Text(text_of(&value).unwrap_or_else(|| value.shown()))
        }
        outcome => outcome,
    };
    if let Some(out) = &mut out {
        return Ok(Ok(Printed::Json(format!("{}\n", out.keep(outcome)?))));
    }
    Ok(Ok(match outcome {
        Outcome::Text(text) if args.text => Printed::Text(ended_line(text)),
        outcome => Printed::Json(format!("{}\n", json(outcome))),
    }))
}

fn print_json(line: &str, globals: &Globals) -> Result<(), Failed> {
    render::print_json(line, globals.color.paint(&io::stdout()))
}

/// The text with an end to its last line; most have one, those of files above all.
fn ended_line(text: String) -> String {
    match text.ends_with('\n') {
        true => text,
        false => text + "\n",
    }
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

/// A tool that is not in the config. If its name has no back before it, the user is told how tools
/// of the config are named; but a view may name them otherwise.
pub(super) fn unknown_in_config(
    failure: Failure,
    address: Option<&str>,
    seen: &ViewArgs,
    tool: &str,
) -> Failure {
    let is_unknown = failure.kind == FailureKind::UnknownTool && seen.flag().is_none();
    if !is_unknown || address.is_some() || tool.contains('.') {
        return failure;
    }
    let hint = "a tool of the config is `<back>.<tool>`; `toolbus tools` lists them";
    failure.with_last_words(LastWords { hint: Some(hint.to_owned()), ..LastWords::default() })
}

pub(crate) fn with_hint(failure: Failure) -> Failure {
    let words = failure.last_words.as_deref().cloned().unwrap_or_default();
    // How large a reply may be has nothing to do with what a process says.
    let says_why = words.exit.is_some() || !words.stderr.is_empty();
    let says_enough = words.hint.is_some() || says_why && failure.kind != FailureKind::TooLarge;
    let hint = match failure.kind {
        _ if says_enough => return failure,
        FailureKind::UnknownTool => "`toolbus tools` lists what can be called",
        _ if cannot_ask(&failure) => {
            "it can ask only in the old era: `--era legacy`, or `era = \"legacy\"` of its back"
        }
        FailureKind::Failed if failure.code == Some(Code::Word("input_required".to_owned())) => {
            match question::can_be_answered() {
                true => "it wants what cannot be typed into a form here",
                false => "it asks questions, which a user can answer on a terminal",
            }
        }
        FailureKind::TooLarge if failure.message.contains(&size(HELD_BYTES_MAX)) => {
            "no reply may be larger; `--out FILE` writes those that come in parts to a file as they come"
        }
        FailureKind::TooLarge => {
            "`--reply-max SIZE` takes up to 64MiB, `--out FILE` writes bytes to a file as they come"
        }
        _ => return failure,
    };
    failure.with_last_words(LastWords { hint: Some(hint.to_owned()), ..words })
}

/// Does the server say that it has no way to ask its client something? Servers that are made for the
/// old way of asking say so where they are spoken to in the new one.
fn cannot_ask(failure: &Failure) -> bool {
    let says = |words: &str| failure.message.contains(words);
    failure.from_peer && (says("back-channel") || says("server-initiated request"))
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
