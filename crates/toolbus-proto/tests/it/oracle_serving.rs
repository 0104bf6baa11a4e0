//! The oracle, replayed from `transcripts/oracle/serving`.

use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Channel, Down, Ended, Machine, Notice, Outbox, Serving, Ticket,
};
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{self, Served, Settings, signature};
use toolbus_proto::tool::{Code, Failure, FailureKind, Outcome, ToolName, What};
use toolbus_testkit::transcript::{self, Player, Words};

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/oracle/serving", |_| Server::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/oracle/serving") {
        transcript::sweep(&transcript::read(&file), Server::new);
    }
}

/// Our oracle, before an executor that the conversation plays.
struct Server {
    now: Instant,
    oracle: Option<oracle::Server>,
    input: BytesMut,
    is_closed: bool,
    was_serving: bool,
    has_ended: bool,
}

impl Server {
    fn new() -> Server {
        Server {
            now: Instant::now(),
            oracle: None,
            input: BytesMut::new(),
            is_closed: false,
            was_serving: false,
            has_ended: false,
        }
    }

    fn oracle(&mut self) -> &mut oracle::Server {
        self.oracle.as_mut().expect("a conversation begins with `start`")
    }

    fn start(&mut self, mut words: Words<'_>) {
        let signatures: Vec<String> = words.json().unwrap().read().unwrap();
        let served = signatures.iter().map(|text| {
            let function = signature::parse(text).unwrap().remove(0);
            let tool = ToolName::new(function.name());
            Served { tool, binding: Binding::of_oracle(function) }
        });
        self.oracle = Some(oracle::Server::new(&Settings::default(), served.collect()));
    }

    fn down(&mut self, mut words: Words<'_>, outcome: impl FnOnce(&mut Words<'_>) -> Down) {
        let ticket = words.word().and_then(|word| word.strip_prefix('c')).unwrap();
        let ticket = Ticket(ticket.parse().unwrap());
        let now = self.now;
        let down = outcome(&mut words);
        self.oracle().down(now, ticket, down);
        self.read_on();
    }

    /// As the pump does: what was left unread is looked at again.
    fn read_on(&mut self) {
        let now = self.now;
        let oracle = self.oracle.as_mut().expect("a conversation begins with `start`");
        oracle.handle_bytes(now, &mut self.input);
        if self.is_closed {
            oracle.handle_eof(now, &mut self.input);
        }
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        let mut out = Outbox::new();
        self.oracle().poll_transmit(&mut out);
        for line in out.take().split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").expect("what leaves are whole lines");
            came.push(format!(">> {}", str::from_utf8(line).unwrap()));
        }
        if self.oracle().is_serving() && !std::mem::replace(&mut self.was_serving, true) {
            came.push("== serving".into());
        }
        while let Some(notice) = self.oracle().poll_notice() {
            match notice {
                Notice::Ignored(what) => came.push(format!("== ignored {what}")),
                // The refusal itself is what leaves.
                Notice::Refused(_) => {}
                notice => panic!("unexpected {notice:?}"),
            }
        }
        while let Some((ticket, asked)) = self.oracle().poll_up() {
            let Asked::Call(call) = asked else { panic!("unexpected {asked:?}") };
            let What::Tool { name, args } = call.what else { panic!("unexpected {call:?}") };
            came.push(format!("== call c{} {name} {}", ticket.0, args.unwrap()));
        }
        if let Some(ended) = self.oracle().ended().cloned()
            && !std::mem::replace(&mut self.has_ended, true)
        {
            came.push(match ended {
                Ended::Well => "== end 0".into(),
                Ended::Refused(why) => format!("== end 1 {}", serde_json::to_string(&why).unwrap()),
                Ended::Broke(why) => format!("== end 3 {why}"),
                Ended::PeerStoppedReading => unreachable!("only hands know that"),
            });
        }
        came
    }
}

impl Player for Server {
    fn happen(&mut self, what: &str) -> Vec<String> {
        let mut words = Words::new(what);
        match words.word() {
            Some("start") => self.start(words),
            Some("closed") => {
                self.is_closed = true;
                self.read_on();
            }
            Some("reply") => {
                self.down(words, |words| Down::Done(Ok(Outcome::Value(words.json().unwrap()))));
            }
            Some("fail") => self.down(words, |words| Down::Done(Err(failure(words)))),
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        let mut came = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.input.extend_from_slice(piece);
            self.read_on();
            came.extend(self.drain());
        }
        came
    }
}

/// `KIND "message" [code N] [detail JSON]`
fn failure(words: &mut Words<'_>) -> Failure {
    let kind = match words.word() {
        Some("failed") => FailureKind::Failed,
        Some("gone") => FailureKind::Gone,
        other => panic!("no such kind: {other:?}"),
    };
    let mut failure = Failure::new(kind, words.text().unwrap());
    if words.is("code") {
        failure.code = Some(Code::Number(words.word().unwrap().parse().unwrap()));
    }
    if words.is("detail") {
        failure.detail = words.json();
    }
    failure
}
