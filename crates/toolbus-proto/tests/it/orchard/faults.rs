//! Every golden conversation of a provider and its host, spoiled at every byte.

use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::orchard::{Client, Server, ServerSettings, Settings, WIRE};
use toolbus_proto::tool::{Call, Outcome, What};
use toolbus_testkit::faults;
use toolbus_testkit::pair::{ToCalling, ToServing};
use toolbus_testkit::transcript::{self, Words, files, unescape};

use super::{builtin, expanded};

/// Longer than any line of the conversations, and short enough to be flooded often.
const LINE_BYTES_MAX: usize = 1024;

/// As much of a schema as the conversations need.
const SHORT: &str = r#"{"name":"e","protocol":"1","actions":{"echo":{"attrs":{"text":{"type":"any"},"times":{"type":"any"}}},"noop":{}}}"#;

fn settings() -> Settings {
    Settings { frame_bytes_max: LINE_BYTES_MAX, ..Settings::new("e") }
}

#[test]
fn a_call_ends_once_whatever_fault_hits_the_host() {
    let now = Instant::now();
    for file in files("transcripts/orchard/calling") {
        // Every byte of a whole schema is spoiled once; the others go without its words.
        let schema = if file.ends_with("happy_run.txt") { "@S1" } else { SHORT };
        let text = transcript::read(&file).replace("@S1", schema);
        eprintln!("{}", file.display());
        for conversation in text.split("\n\n") {
            let recorded = heard_by_the_host(now, conversation);
            faults::calling(now, &recorded, LINE_BYTES_MAX, || Client::new(settings()));
        }
    }
}

#[test]
fn a_provider_ends_whatever_fault_hits_it() {
    let now = Instant::now();
    let settings = ServerSettings { line_bytes_max: LINE_BYTES_MAX };
    for file in files("transcripts/orchard/serving") {
        let recorded = heard_by_the_provider(&transcript::read(&file));
        eprintln!("{}", file.display());
        faults::serving(now, &recorded, LINE_BYTES_MAX, || Server::new(&settings, builtin()));
    }
}

fn heard_by_the_host(now: Instant, text: &str) -> Vec<ToCalling> {
    let mut heard = Vec::new();
    let mut tickets = (0..).map(Ticket);
    let mut native = |method: &'static str, body: String| {
        let method = Bytes::from_static(method.as_bytes());
        let mut call = Call::of(now, What::Native { wire: WIRE, method, body: body.into() });
        call.deadline.total = Some(Duration::from_secs(60));
        ToCalling::Call(tickets.next().unwrap(), call)
    };
    for line in text.lines() {
        let (mark, what) = line.split_once(' ').unwrap_or((line, ""));
        let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
        match (mark, word) {
            ("--", "exited" | "probe") => break,
            ("--", "stop") => heard.push(ToCalling::Close),
            ("--", "describe") => heard.push(native("describe", String::new())),
            ("--", "configure") => heard.push(native("configure", rest.to_owned())),
            ("--", "call" | "tool") => {
                let mut words = Words::new(rest);
                words.word();
                let (action, attrs) = (words.word().unwrap(), words.json().unwrap());
                let body = format!(r#"{{"action":"{action}","attrs":{attrs}}}"#);
                heard.push(native("execute", body));
            }
            _ => heard.extend(arrived(mark, what).map(ToCalling::Bytes)),
        }
    }
    heard
}

fn heard_by_the_provider(text: &str) -> Vec<ToServing> {
    let mut heard = Vec::new();
    for line in text.lines() {
        let (mark, what) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(reply) = what.strip_prefix("reply c") {
            let mut words = Words::new(reply);
            let ticket = Ticket(words.word().unwrap().parse().unwrap());
            let outcome = Outcome::Value(words.json().unwrap());
            heard.push(ToServing::Down(ticket, Down::Done(Ok(outcome))));
        } else {
            heard.extend(arrived(mark, what).map(ToServing::Bytes));
        }
    }
    heard
}

/// The bytes that a line of a transcript stands for.
fn arrived(mark: &str, what: &str) -> Option<Bytes> {
    match (mark, what.split_once(' ')) {
        ("<<", _) => Some(format!("{}\n", expanded(what)).into()),
        ("--", Some(("bytes", bytes))) => Some(unescape(&expanded(bytes)).into()),
        // A few of them do: what many do is for the transcript itself.
        ("--", Some(("lines", lines))) => {
            let (_, line) = lines.split_once(' ').unwrap();
            Some(format!("{line}\n").repeat(3).into())
        }
        _ => None,
    }
}
