//! The executor and its supervisor, replayed from `transcripts/oracle/calling`.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_engine::child::Exit;
use toolbus_engine::child::supervisor::{Conversations, Event, Order, Restart, RunId, Supervisor};
use toolbus_proto::channel::{Down, Notice, Outbox, Ticket};
use toolbus_proto::oracle::WIRE;
use toolbus_proto::oracle::{Client, Functions, Settings};
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind, Outcome, What};
use toolbus_testkit::transcript::{self, Clock, Player, Words};

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/oracle/calling", |_| Host::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/oracle/calling") {
        transcript::sweep(&transcript::read(&file), Host::new);
    }
}

/// A host that calls an oracle, with a clock of its own and a process that is only told of.
struct Host {
    clock: Clock,
    conversations: Conversations<Client>,
    /// The process that takes calls, or did last.
    run: RunId,
    input: BytesMut,
    is_open: bool,
    is_stopping: bool,
}

impl Host {
    fn new() -> Host {
        let make = || Client::new(Settings::default(), Functions::default());
        let supervisor =
            Supervisor::new("oracle", toolbus::wire::oracle::PATIENCE, Restart::OnDemand);
        Host {
            clock: Clock::new(),
            conversations: Conversations::new(supervisor, make),
            run: RunId(0),
            input: BytesMut::new(),
            is_open: false,
            is_stopping: false,
        }
    }

    fn call(&mut self, mut words: Words<'_>) {
        let ticket = words.word().and_then(|word| word.strip_prefix('t')).unwrap();
        let method = Bytes::copy_from_slice(words.word().unwrap().as_bytes());
        let body = Bytes::copy_from_slice(words.rest().as_bytes());
        let what = What::Native { wire: WIRE, method, body };
        let now = self.clock.now;
        let quiet = Some(Duration::from_secs(60));
        let call =
            Call { deadline: Deadline { asked: now, quiet, total: None }, ..Call::of(now, what) };
        self.conversations.call(now, Ticket(ticket.parse().unwrap()), call);
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Supervisor, Instant, RunId)) {
        let (now, run) = (self.clock.now, self.run);
        self.conversations.act(now, |supervisor| tell(supervisor, now, run));
    }

    fn closed(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.conversations.handle_eof(self.clock.now, self.run, Some(&mut self.input));
        }
    }

    fn exited(&mut self, mut words: Words<'_>) {
        let exit = if words.is("signal") { Exit::Signal } else { Exit::Code };
        let exit = exit(words.rest().parse().unwrap());
        self.tell(|it, now, run| it.handle(now, run, Event::Exited(exit, false)));
        self.closed();
        self.tell(|it, now, run| it.handle_stderr_closed(now, run, |_| {}));
    }

    /// What came of the last event: what is learned before what is said, and that before what
    /// is done to the process.
    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        while let Some(notice) = self.conversations.poll_notice() {
            came.push(format!("== {}", notice_shown(&notice)));
        }
        self.drain_downs(&mut came);
        let mut out = Outbox::new();
        self.conversations.poll_transmit(self.run, &mut out);
        let out = out.take();
        for line in out.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").expect("what leaves are whole lines");
            came.push(format!(">> {}", str::from_utf8(line).unwrap()));
        }
        self.drain_downs(&mut came);
        while let Some((run, order)) = self.conversations.poll_order() {
            let order = match order {
                Order::Spawn => {
                    self.run = run;
                    self.is_open = true;
                    self.input.clear();
                    "spawn"
                }
                Order::CloseStdin => "close stdin",
                Order::Terminate => "sigterm",
                Order::Kill => "sigkill",
                Order::Forget if self.is_stopping => "gone",
                _ => continue,
            };
            came.push(format!("== {order}"));
        }
        came
    }

    fn drain_downs(&mut self, came: &mut Vec<String>) {
        while let Some((ticket, down)) = self.conversations.poll_down() {
            let Down::Done(outcome) = down else { panic!("an oracle only answers: {down:?}") };
            came.push(format!("== t{} {}", ticket.0, outcome_shown(&outcome)));
        }
    }
}

impl Player for Host {
    fn happen(&mut self, what: &str) -> Vec<String> {
        if self.clock.happen(what) {
            let mut came = Vec::new();
            while self.conversations.poll_timeout().is_some_and(|until| until <= self.clock.now) {
                self.conversations.handle_timeout(self.clock.now);
                came.extend(self.drain());
            }
            return came;
        }
        let mut words = Words::new(what);
        match words.word() {
            Some("call") => self.call(words),
            Some("closed") => self.closed(),
            Some("exited") => self.exited(words),
            Some("stderr") => {
                let line = format!("{}\n", words.rest());
                self.tell(|it, now, run| it.handle_stderr(now, run, line.as_bytes(), |_| {}));
            }
            Some("stop") => {
                self.is_stopping = true;
                self.tell(|it, now, _| it.stop(now));
            }
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        let mut came = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.input.extend_from_slice(piece);
            self.conversations.handle_bytes(self.clock.now, self.run, &mut self.input);
            came.extend(self.drain());
        }
        came
    }
}

fn outcome_shown(outcome: &Result<Outcome, Failure>) -> String {
    match outcome {
        Ok(Outcome::Value(felts)) => format!("ok {felts}"),
        Ok(other) => panic!("an oracle answers felts, not {other:?}"),
        Err(failure) if failure.from_peer => {
            assert_eq!(failure.kind, FailureKind::Failed);
            let code = failure.code.as_ref().map_or("none".into(), ToString::to_string);
            let message = serde_json::to_string(&failure.message).unwrap();
            let data = failure.detail.as_ref().map_or(String::new(), |data| format!(" {data}"));
            format!("failed {code} {message}{data}")
        }
        Err(failure) => {
            let exit = failure.last_words.as_ref().and_then(|words| words.exit);
            let exit = exit.map_or(String::new(), |exit| format!("{exit} "));
            format!("{} {exit}{}", failure.kind, failure.message)
        }
    }
}

fn notice_shown(notice: &Notice) -> String {
    match notice {
        Notice::Stray(line) => format!("stray {}", serde_json::to_string(line).unwrap()),
        Notice::Offered(signature) => format!("offered {signature}"),
        Notice::LeftOut { text, why } => {
            format!("left out {} {why}", serde_json::to_string(text).unwrap())
        }
        other => panic!("an oracle does not say {other:?}"),
    }
}
