//! Is it an oracle? The rules of the document, and what is good to know besides (`docs/protocols/oracle.md` §12).

mod rules;

use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::json::Kind;
use toolbus_proto::jsonrpc::{Id, Message, kind};
use toolbus_proto::oracle::felt::Leniency;
use toolbus_proto::oracle::{self, Settings, felts};
use toolbus_proto::printable::printable;
use toolbus_proto::tool::Failure;

use toolbus::address::{Address, Place};
use toolbus::bus::back::LocalFuture;
use toolbus::peer::open::program;
use toolbus::wire::oracle::connection;
use toolbus_engine::child::{EnvPolicy, Program};

use crate::talk::{Heard, Talk};
use crate::{CheckKind, Finding, Target, TargetError, Verdict, Wanted};

/// How long an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long nothing may be said between `ready` and its answer.
const QUIET: Duration = Duration::from_millis(300);
/// How much of a line is shown.
const LINE_SHOWN_MAX: usize = 200;

/// A program that is tested, and how long it may take.
#[derive(Debug, Clone)]
struct Subject {
    /// What to start.
    pub program: Program,
    /// How long until it must be ready.
    pub start: Duration,
    /// How long it may take to end.
    pub stop: Duration,
}

/// Tests a program, and tells what became of each rule as soon as that is known.
///
/// Fails only if the program cannot be started at all.
async fn check(subject: &Subject, mut tell: impl FnMut(Finding)) -> Result<(), Failure> {
    let mut tell = |rule, verdict| tell(Finding { rule, verdict });
    let mut talk = start(subject).map_err(|error| error.to_failure())?;
    let until = Instant::now() + subject.start;
    tell("first-byte", Verdict::demanded(first_byte(subject, &mut talk, until).await));
    let ready = ready(subject, &mut talk, until).await;
    let id = match ready {
        Ok(id) => id,
        Err(why) => {
            tell("ready", Verdict::Fail(why));
            for rule in NEEDS_READY {
                tell(rule, Verdict::Note("not tried: it was never ready".to_owned()));
            }
            return Ok(());
        }
    };
    tell("ready", Verdict::Ok);
    tell("quiet-before-ack", Verdict::demanded(quiet(&mut talk).await));
    talk.say(&ack(&id)).await;

    let calls = calls(&mut talk).await;
    for (rule, verdict) in judge(&calls) {
        tell(rule, verdict);
    }
    tell("error-ack", Verdict::demanded(error_ack(subject).await));
    // An oracle that did not survive the calls says nothing about goodbyes.
    let talk = if calls.iter().all(Result::is_ok) { Some(talk) } else { None };
    tell("shutdown", Verdict::demanded(shutdown(subject, talk).await));

    let answers = matches!(calls.first(), Some(Ok(_)));
    let (number_ids, eof) = number_ids_and_eof(subject, answers).await;
    tell("eof", Verdict::wished(eof));
    tell("survives-garbage", Verdict::wished(survives_garbage(subject, answers).await));
    tell("number-ids", Verdict::wished(number_ids));
    Ok(())
}

const UNANSWERED: &str = "not tried: no call was answered";

/// What can only be tried with an oracle that is there.
const NEEDS_READY: [&str; 9] = [
    "quiet-before-ack",
    "answers-invoke",
    "id-echo",
    "felts",
    "error-ack",
    "shutdown",
    "eof",
    "survives-garbage",
    "number-ids",
];

async fn first_byte(subject: &Subject, talk: &mut Talk, until: Instant) -> Result<(), String> {
    match talk.first_byte(until).await {
        Ok(b'{') => Ok(()),
        Ok(byte) => Err(format!("it is 0x{byte:02x}, and must be 0x7b, which is `{{`")),
        Err(heard) => Err(nothing(talk, heard, subject.start).await),
    }
}

/// The id of its `ready`.
async fn ready(subject: &Subject, talk: &mut Talk, until: Instant) -> Result<Id, String> {
    let line = match talk.line(until).await {
        Heard::Line(line) => line,
        heard => return Err(nothing(talk, heard, subject.start).await),
    };
    let refused = |why: &str| Err(format!("{why}: {}", printable(&line, LINE_SHOWN_MAX)));
    match oracle::RULES.read(&line) {
        Ok(Message::Request { id, method, params }) if method == "ready" => {
            match params.map(kind) {
                None | Some(Kind::Null | Kind::Object) => Ok(id),
                Some(_) => refused("its params must be an object, if there are any"),
            }
        }
        Ok(Message::Request { .. }) => refused("the first line is another request"),
        Ok(Message::Notification { .. }) => refused("the first line has no id"),
        Ok(Message::Response { .. }) => refused("the first line is a response"),
        Err(invalid) => refused(&invalid.to_string()),
    }
}

async fn quiet(talk: &mut Talk) -> Result<(), String> {
    let heard = match talk.first_byte(Instant::now() + QUIET).await {
        Err(Heard::Silence) => return Ok(()),
        Err(_) => return Err(talk.how_it_ended().await),
        Ok(_) => talk.line(Instant::now() + QUIET).await,
    };
    talk.forget();
    match heard {
        Heard::Line(line) => Err(format!("it said: {}", printable(&line, LINE_SHOWN_MAX))),
        Heard::Ended | Heard::Silence => Err("it said something".to_owned()),
    }
}

/// A call that was made: its id as we sent it, and what came back.
struct Answered {
    sent: &'static str,
    id: Id,
    result: Option<String>,
}

async fn calls(talk: &mut Talk) -> Vec<Result<Answered, String>> {
    let mut calls = Vec::new();
    for sent in ["0", "7", "\"check\""] {
        talk.say(&invoke(sent)).await;
        let answer = answer(talk).await;
        let is_lost = answer.is_err();
        calls.push(answer.map(|(id, result)| Answered { sent, id, result }));
        if is_lost {
            break;
        }
    }
    calls
}

/// The next line, which must be an answer.
async fn answer(talk: &mut Talk) -> Result<(Id, Option<String>), String> {
    let line = match talk.line(Instant::now() + ANSWER_PATIENCE).await {
        Heard::Line(line) => line,
        heard => return Err(nothing(talk, heard, ANSWER_PATIENCE).await),
    };
    match response(&line) {
        Some((id, result)) => Ok((id, result.map(str::to_owned))),
        None => Err(format!("it said: {}", printable(&line, LINE_SHOWN_MAX))),
    }
}

/// A line that answers something: its id, and its result unless that is an error.
fn response(line: &Bytes) -> Option<(Id, Option<&str>)> {
    match oracle::RULES.read(line) {
        Ok(Message::Response { id, error: Some(error), .. }) if kind(error) != Kind::Null => {
            Some((id, None))
        }
        Ok(Message::Response { id, result: Some(result), .. }) => Some((id, Some(result))),
        _ => None,
    }
}

fn judge(calls: &[Result<Answered, String>]) -> [(&'static str, Verdict); 3] {
    if let Some(Err(why)) = calls.first() {
        let not_tried = || Verdict::Note(UNANSWERED.to_owned());
        let answers = Verdict::Fail(why.clone());
        return [("answers-invoke", answers), ("id-echo", not_tried()), ("felts", not_tried())];
    }
    let id_echo = calls.iter().try_for_each(|call| match call {
        Ok(Answered { sent, id, .. }) if id.as_bytes() == sent.as_bytes() => Ok(()),
        Ok(Answered { sent, id, .. }) => Err(format!("{sent} came back as {}", id.to_json())),
        Err(why) => Err(format!("a later call was not answered: {why}")),
    });
    let results = calls.iter().flatten().filter_map(|call| call.result.as_deref());
    let felts = results.filter(|result| kind(result) != Kind::Null).try_for_each(|result| {
        felts::read(result, Leniency::Strict).map(|_| ()).map_err(|error| error.to_string())
    });
    [
        ("answers-invoke", Verdict::Ok),
        ("id-echo", Verdict::demanded(id_echo)),
        ("felts", Verdict::demanded(felts)),
    ]
}

async fn error_ack(subject: &Subject) -> Result<(), String> {
    let (mut talk, id) = greeted(subject).await?;
    let error = r#"{"code":-32603,"message":"refused by toolbus check"}"#;
    talk.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.to_json())).await;
    talk.ends_within(subject.stop).await
}

async fn shutdown(subject: &Subject, talk: Option<Talk>) -> Result<(), String> {
    let mut talk = match talk {
        Some(talk) => talk,
        None => acknowledged(subject).await?,
    };
    talk.say(r#"{"jsonrpc":"2.0","method":"shutdown"}"#).await;
    talk.ends_within(subject.stop).await
}

/// Both are tried with one process: how it takes odd ids says nothing about how it ends.
async fn number_ids_and_eof(
    subject: &Subject,
    answers: bool,
) -> (Result<(), String>, Result<(), String>) {
    let mut talk = match acknowledged(subject).await {
        Ok(talk) => talk,
        Err(why) => return (Err(why.clone()), Err(why)),
    };
    let number_ids = match answers {
        true => number_ids(&mut talk).await,
        false => Err(UNANSWERED.to_owned()),
    };
    talk.hang_up();
    (number_ids, talk.ends_within(subject.stop).await)
}

async fn number_ids(talk: &mut Talk) -> Result<(), String> {
    let mut lost = Vec::new();
    for sent in ["-1", "1.5", "18446744073709551616"] {
        talk.say(&invoke(sent)).await;
        // An id that is swallowed has no end to wait for; the answer behind it has one.
        let ids = answers_up_to(talk, "0").await;
        if ids.last().is_none_or(|id| id.as_bytes() != b"0") {
            return Err(format!("a call behind one with id {sent} was not answered"));
        }
        if !ids.iter().any(|id| id.as_bytes() == sent.as_bytes()) {
            lost.push(sent);
        }
    }
    match &lost[..] {
        [] => Ok(()),
        lost => Err(format!("did not come back as sent: {}", lost.join(", "))),
    }
}

async fn survives_garbage(subject: &Subject, answers: bool) -> Result<(), String> {
    if !answers {
        return Err(UNANSWERED.to_owned());
    }
    let mut talk = acknowledged(subject).await?;
    talk.say("this is not JSON").await;
    match answers_up_to(&mut talk, "1").await.last() {
        Some(id) if id.as_bytes() == b"1" => Ok(()),
        _ => Err("a call behind it was not answered".to_owned()),
    }
}

/// Makes a call with this id, and gives the ids of all answers up to its own.
async fn answers_up_to(talk: &mut Talk, last: &str) -> Vec<Id> {
    talk.say(&invoke(last)).await;
    let until = Instant::now() + ANSWER_PATIENCE;
    let mut ids = Vec::new();
    while let Heard::Line(line) = talk.line(until).await {
        let Some((id, _)) = response(&line) else { continue };
        let is_last = id.as_bytes() == last.as_bytes();
        ids.push(id);
        if is_last {
            break;
        }
    }
    ids
}

/// A fresh process that is ready, and the id of its `ready`.
async fn greeted(subject: &Subject) -> Result<(Talk, Id), String> {
    let mut talk = start(subject).map_err(|error| error.to_string())?;
    let until = Instant::now() + subject.start;
    let id = ready(subject, &mut talk, until).await;
    let id = id.map_err(|why| format!("a fresh process was not ready: {why}"))?;
    Ok((talk, id))
}

async fn acknowledged(subject: &Subject) -> Result<Talk, String> {
    let (mut talk, id) = greeted(subject).await?;
    talk.say(&ack(&id)).await;
    Ok(talk)
}

fn start(subject: &Subject) -> Result<Talk, toolbus_engine::child::SpawnError> {
    Talk::start(&subject.program, Settings::default().line_bytes_max)
}

fn ack(id: &Id) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.to_json())
}

fn invoke(id: &str) -> String {
    let params = r#"{"selector":"toolbus.check","calldata":[]}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"invoke","params":{params}}}"#)
}

async fn nothing(talk: &mut Talk, heard: Heard, patience: Duration) -> String {
    match heard {
        Heard::Ended => talk.how_it_ended().await,
        Heard::Line(_) | Heard::Silence => format!("it said nothing within {patience:?}"),
    }
}

/// How a program is tested that should speak it.
pub(crate) struct Check;

impl CheckKind for Check {
    fn rules(&self) -> &'static [(&'static str, &'static str)] {
        rules::RULES
    }

    fn target(&self, text: &str, wanted: &Wanted) -> Result<Box<dyn Target>, TargetError> {
        // A command with blanks or a path can be nothing else.
        let bare = (!text.contains("://"))
            .then(|| Address::parse(text).ok())
            .flatten()
            .filter(|address| address.is_bare() && Address::begins_like_one(text));
        let address = bare.map_or_else(|| connection(text), Ok)?;
        let Place::Command(words) = address.place() else {
            let message = format!("`{text}` is no program that can be tested");
            return Err(TargetError::new(message).hint("name one by `stdio:COMMAND`"));
        };
        Ok(Box::new(Subject {
            program: program(words, &wanted.settings, EnvPolicy::Inherit),
            start: wanted.start.unwrap_or(toolbus::wire::oracle::PATIENCE.start),
            stop: wanted.stop,
        }))
    }
}

impl Target for Subject {
    fn check<'a>(
        &'a self,
        tell: &'a mut dyn FnMut(Finding),
    ) -> LocalFuture<'a, Result<(), Failure>> {
        Box::pin(check(self, tell))
    }
}
