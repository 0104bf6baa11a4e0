//! Every golden conversation of the oracle, spoiled at every byte.

use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::oracle::WIRE;
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{Client, Functions, Served, Server, Settings, signature};
use toolbus_proto::tool::{Call, Outcome, ToolName, What};
use toolbus_testkit::pair::{ToCalling, ToServing};
use toolbus_testkit::transcript::{self, Words, unescape};
use toolbus_testkit::{faults, transcript::files};

/// Longer than any line of the conversations, and short enough to be flooded often.
const LINE_BYTES_MAX: usize = 1024;

fn settings() -> Settings {
    Settings { line_bytes_max: LINE_BYTES_MAX, ..Settings::default() }
}

#[test]
fn a_call_ends_once_whatever_fault_hits_the_executor() {
    let now = Instant::now();
    for file in files("transcripts/oracle/calling") {
        let recorded = heard_by_the_executor(now, &transcript::read(&file));
        eprintln!("{}", file.display());
        faults::calling(now, &recorded, LINE_BYTES_MAX, || {
            Client::new(settings(), Functions::default())
        });
    }
}

#[test]
fn an_oracle_ends_whatever_fault_hits_it() {
    let now = Instant::now();
    for file in files("transcripts/oracle/serving") {
        let text = transcript::read(&file);
        let signatures = text.lines().find_map(|line| line.strip_prefix("-- start "));
        let recorded = heard_by_the_oracle(&text);
        eprintln!("{}", file.display());
        faults::serving(now, &recorded, LINE_BYTES_MAX, || {
            Server::new(&settings(), served(signatures.unwrap_or("[]")))
        });
    }
}

/// The first life of the oracle: what comes after its end is another conversation.
fn heard_by_the_executor(now: Instant, text: &str) -> Vec<ToCalling> {
    let mut heard = Vec::new();
    for line in text.lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("--", what) if what.starts_with("exited") => break,
            ("--", "stop") => heard.push(ToCalling::Close),
            ("--", what) if what.starts_with("call ") => heard.push(call(now, what)),
            (mark, what) => heard.extend(arrived(mark, what).map(ToCalling::Bytes)),
        }
    }
    heard
}

fn heard_by_the_oracle(text: &str) -> Vec<ToServing> {
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
    let bytes = match (mark, what.split_once(' ')) {
        ("<<", _) => format!("{what}\n").into_bytes(),
        ("--", Some(("bytes", bytes))) => unescape(bytes),
        // A few of them do: what a thousand do is for the transcript itself.
        ("--", Some(("lines", lines))) => {
            let (_, line) = lines.split_once(' ').unwrap();
            format!("{line}\n").repeat(3).into_bytes()
        }
        _ => return None,
    };
    Some(bytes.into())
}

fn call(now: Instant, what: &str) -> ToCalling {
    let mut words = Words::new(what);
    words.word();
    let ticket = words.word().and_then(|word| word.strip_prefix('t')).unwrap();
    let method = Bytes::copy_from_slice(words.word().unwrap().as_bytes());
    let body = Bytes::copy_from_slice(words.rest().as_bytes());
    let mut call = Call::of(now, What::Native { wire: WIRE, method, body });
    call.deadline.total = Some(Duration::from_secs(60));
    ToCalling::Call(Ticket(ticket.parse().unwrap()), call)
}

fn served(signatures: &str) -> Vec<Served> {
    let signatures: Vec<String> = serde_json::from_str(signatures).unwrap();
    let served = signatures.iter().map(|text| {
        let function = signature::parse(text).unwrap().remove(0);
        Served { tool: ToolName::new(function.name()), binding: Binding::of_oracle(function) }
    });
    served.collect()
}
