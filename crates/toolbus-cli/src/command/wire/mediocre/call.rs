//! `toolbus rpc call`: one call of a method, and all that it answers.

use std::fs;
use std::pin::pin;
use std::time::{Duration, Instant};

use toolbus::address::{Address, Purpose};
use toolbus::bus::back::Back;
use toolbus::peer;
use toolbus::peer::settings::{Settings, WireSettings};
use toolbus_engine::calls::Inbox;
use toolbus_proto::channel::Down;
use toolbus_proto::json::{Json, Kind};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::elements::{self, Source, Way};
use super::printed::{Form, Printer};
use super::{CallArgs, address, is_word};
use crate::args::Globals;
use crate::command::call::read;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::{not_opened, with_meant};
use crate::render::failure;
use crate::runtime::{self, Signals};

/// How long no byte may move, unless `--timeout` is given.
const QUIET: Duration = Duration::from_secs(60);

pub(crate) fn call(args: &CallArgs, globals: &Globals) -> Result<(), Failed> {
    let address = address(Purpose::Call, &args.url)?;
    if args.method.is_empty() {
        return Err(Failed::usage("a method must have a name"));
    }
    let debug = args.debug.clone().map(Json::from_trusted);
    if debug.as_ref().is_some_and(|debug| debug.kind() != Kind::Object) {
        return Err(Failed::usage("`--debug` must be a JSON object"));
    }
    let arguments = arguments(args)?;
    let sources = args.elements.open()?;
    let form = match (&args.out, globals.json) {
        (_, true) => Form::Events,
        (None, false) => Form::Lines,
        (Some(folder), false) => {
            fs::create_dir_all(folder).map_err(|error| {
                let message = format!("cannot make the folder `{}`", folder.display());
                Failed::usage(message).caused_by(&error)
            })?;
            Form::Files(folder.clone())
        }
    };
    // With `--json` it stands in the events.
    let shows_debug = args.debug.is_some() && !globals.json && !globals.quiet;
    let printer = Printer::new(form, shows_debug);
    let settings = Settings {
        wire: WireSettings::of(args.reading.settings()),
        program: args.program.settings()?,
        credentials: args.http.credentials()?,
        ..Settings::default()
    };
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let back = peer::open(&address, &settings).map_err(|error| not_opened(&error))?;
        let whom = Whom { back: &*back, address: &address };
        let done = tokio::select! {
            done = converse(&whom, args, arguments, sources, printer) => done,
            exit = signals.next() => Err(Failed::quietly(exit)),
        };
        // Told before the goodbye, which may take its time.
        let done = done.map_err(|failed| failed.told(globals));
        signals.or_kill(back.shutdown(), || back.kill()).await;
        done
    })
}

/// One value as it was typed, or an object of the words.
fn arguments(args: &CallArgs) -> Result<Option<Json>, Failed> {
    match args.args.as_slice() {
        [] => Ok(None),
        [value] if !is_word(value) => Ok(Some(Json::from_trusted(value.clone()))),
        words => {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            // No list is asked for: to many servers that would be a call of an unknown method.
            read(&words)?.json(None, true).map_err(|failure| failure::failed(&failure))
        }
    }
}

/// Who is called.
struct Whom<'a> {
    back: &'a dyn Back,
    address: &'a Address,
}

async fn converse(
    whom: &Whom<'_>,
    args: &CallArgs,
    arguments: Option<Json>,
    sources: Vec<Source>,
    mut printer: Printer,
) -> Result<(), Failed> {
    let (inbox, reply_to) = Inbox::new();
    let is_stream = args.stream || args.tail.is_some() || !args.elements.is_empty();
    let running = whom.back.start(request(args, arguments, is_stream, &sources), reply_to);
    let way = Way { inbox: &inbox, running: &running };
    let tail = args.tail.clone().map(Json::from_trusted);
    let mut sending = pin!(elements::send(sources, tail, &way));
    let mut is_sending = is_stream;
    loop {
        // The answer may be there before all is said.
        let down = tokio::select! {
            biased;
            down = inbox.next(&running) => down,
            sent = &mut sending, if is_sending => {
                sent?;
                is_sending = false;
                continue;
            }
        };
        let is_done = matches!(down, Down::Done(_));
        if let Err(failure) = printer.take(down)? {
            let failure = with_meant(whom.address, failure);
            return Err(failed(&failure, printer.meta.as_ref()));
        }
        if is_done {
            return Ok(());
        }
    }
}

/// The call as the generic tool `call` takes it, whose arguments have a place for `debug`.
fn request(args: &CallArgs, arguments: Option<Json>, is_stream: bool, sources: &[Source]) -> Call {
    let mut text = format!("{{\"method\":{}", Json::of(&args.method));
    let debug = args.debug.clone().map(Json::from_trusted);
    for (name, value) in [("args", arguments), ("debug", debug)] {
        if let Some(value) = value {
            text.push_str(&format!(",\"{name}\":{value}"));
        }
    }
    text.push('}');
    let mut call = Call::tool(Instant::now(), "call", Some(Json::from_trusted(text)));
    match args.timeout {
        Some(timeout) => call.deadline.total = Some(timeout),
        None => call.deadline.quiet = Some(QUIET),
    }
    call.options.sends_parts = is_stream;
    // How many values come on standard input is not known beforehand.
    let is_counted = is_stream && !sources.iter().any(Source::is_stdin);
    call.options.parts = is_counted.then_some(sources.len() as u64);
    call.options.events = true;
    call
}

/// Our own words first: the code only says which rule was broken.
fn broken(failure: &Failure) -> Failed {
    match (&failure.kind, &failure.code) {
        (FailureKind::BrokeProtocol, Some(code)) => {
            let message = format!("{}: {code}", failure.message);
            failure::failed(&Failure { message, code: None, ..failure.clone() })
        }
        _ => failure::failed(failure),
    }
}

fn failed(failure: &Failure, meta: Option<&Json>) -> Failed {
    if !failure.from_peer {
        return broken(failure);
    }
    let exit = match failure.kind {
        FailureKind::TimedOut => Exit::TimedOut,
        _ => Exit::Failed,
    };
    let hint = failure.last_words.as_ref().and_then(|words| words.hint.clone());
    let failed = Failed::new(exit, failure.message.clone()).hint_if_any(hint);
    failed.lines(meta.map(|meta| format!("meta: {}", meta.compact())))
}
