//! The host, replayed from `transcripts/orchard/calling`.
//!
//! The process is only told of: a few lines here do what the hands do with it.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Calling, Channel, Down, Farewell, Fault, Machine, Notice, Outbox, Readiness, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::orchard::schema::ProviderSchema;
use toolbus_proto::orchard::types::Type;
use toolbus_proto::orchard::{Client, Settings, WIRE, probe, value};
use toolbus_proto::tool::{Call, Exit, Failure, FailureKind, LastWords, Outcome, What};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player, Words, unescape};

use super::expanded;

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/orchard/calling", Host::new);
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/orchard/calling") {
        transcript::sweep(&transcript::read(&file), || Host::new(&file));
    }
}

/// From the goodbye to the end of our patience for its answer.
const GOODBYE: Duration = Duration::from_secs(5);
/// From each further step of parting to the next.
const STEP: Duration = Duration::from_secs(2);

/// A host that calls a provider, with a clock of its own.
struct Host {
    clock: Clock,
    settings: Settings,
    client: Option<Client>,
    input: BytesMut,
    /// What the conversation calls its calls.
    names: Vec<String>,
    process: Process,
    /// Another process of the group lives on when the first has ended.
    leaves_group: bool,
    exit: Option<Exit>,
    stderr: Vec<String>,
    printed: Vec<u8>,
    was_broken: bool,
    was_told: bool,
}

/// How far the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    None,
    Starting(Instant),
    Serving,
    /// Its answer to the goodbye is awaited.
    Asked(Instant),
    StdinClosed(Instant),
    Terminated(Instant),
    Killed,
    /// It has ended, and its output has not.
    Exited(Instant),
    Over,
}

impl Host {
    fn new(file: &Path) -> Host {
        Host {
            clock: Clock::new(),
            settings: Settings::new("e"),
            client: None,
            input: BytesMut::new(),
            names: Vec::new(),
            process: Process::None,
            leaves_group: file.ends_with("exit_while_a_child_holds_the_pipe.txt"),
            exit: None,
            stderr: Vec::new(),
            printed: Vec::new(),
            was_broken: false,
            was_told: false,
        }
    }

    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("a conversation begins with `describe`")
    }

    fn ticket(&mut self, name: &str) -> Ticket {
        self.names.push(name.to_owned());
        Ticket(self.names.len() as u64 - 1)
    }

    fn native(
        &mut self,
        name: &str,
        method: &'static str,
        body: String,
        timeout: Option<Duration>,
    ) {
        let method = Bytes::from_static(method.as_bytes());
        let now = self.clock.now;
        let what = What::Native { wire: WIRE, method, body: body.into() };
        let mut call = Call::of(now, what);
        call.deadline.total = timeout;
        let ticket = self.ticket(name);
        self.client().call(now, ticket, call);
    }

    fn call(&mut self, mut words: Words<'_>) {
        let name = words.word().unwrap();
        let action = words.word().unwrap();
        let attrs = words.json().unwrap();
        let timeout = words.is("timeout").then(|| words.rest().parse().unwrap());
        let body = format!(r#"{{"action":"{action}","attrs":{attrs},"label":"{name}"}}"#);
        self.native(name, "execute", body, timeout.map(Duration::from_secs));
    }

    fn stop(&mut self) -> Option<&'static str> {
        let now = self.clock.now;
        self.client().close(now, GOODBYE);
        match self.process {
            Process::Starting(_) => Some(self.kill()),
            Process::Serving => {
                self.process = Process::Asked(now + GOODBYE);
                None
            }
            _ => None,
        }
    }

    fn kill(&mut self) -> &'static str {
        self.process = Process::Killed;
        "== sigkill"
    }

    fn exited(&mut self, mut words: Words<'_>) -> Vec<String> {
        let exit = if words.is("signal") {
            signal(words.rest())
        } else {
            Exit::Code(words.rest().parse().unwrap())
        };
        self.exit = Some(exit);
        let is_awaited =
            matches!(self.process, Process::Starting(_) | Process::Serving | Process::Asked(_));
        if !is_awaited {
            self.process = Process::Over;
            return vec!["== ended".into()];
        }
        self.process = Process::Exited(self.clock.now + STEP);
        if self.leaves_group { vec!["== sigterm".into()] } else { Vec::new() }
    }

    /// Nothing more will come from the process.
    fn lose(&mut self, failure: Failure) {
        let stderr = self.stderr.clone();
        let words = LastWords { exit: self.exit, stderr, ..LastWords::default() };
        let now = self.clock.now;
        self.client().handle_lost(now, &failure.with_last_words(words));
    }

    fn closed(&mut self) -> Vec<String> {
        let now = self.clock.now;
        let mut input = std::mem::take(&mut self.input);
        self.client().handle_eof(now, &mut input);
        let mut came = self.drain();
        if let Process::Exited(_) = self.process {
            self.lose(Failure::new(FailureKind::Gone, "ended"));
            came.extend(self.drain());
            self.process = Process::Over;
            came.push("== ended".into());
        }
        came
    }

    /// What the hands do when time has passed.
    fn process_timeout(&mut self) -> Vec<String> {
        let now = self.clock.now;
        match self.process {
            Process::Starting(until) if until <= now => {
                self.lose(Failure::new(FailureKind::TimedOut, "late"));
                let mut came = self.drain();
                came.push(self.kill().into());
                came
            }
            Process::Asked(until) if until <= now => {
                self.process = Process::StdinClosed(until + STEP);
                let mut came = self.drain();
                came.push("== close stdin".into());
                came
            }
            Process::StdinClosed(until) if until <= now => {
                self.process = Process::Terminated(until + STEP);
                vec!["== sigterm".into()]
            }
            Process::Terminated(until) if until <= now => vec![self.kill().into()],
            Process::Exited(until) if until <= now => {
                self.lose(Failure::new(FailureKind::Gone, "ended"));
                let mut came = self.drain();
                came.extend(["== sigkill".into(), "== ended".into()]);
                self.process = Process::Over;
                came
            }
            _ => Vec::new(),
        }
    }

    /// What came of the last event: what is learned before what is said, and that before what
    /// is done to the process.
    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        while let Some(notice) = self.client().poll_notice() {
            came.push(match notice {
                Notice::Warning(text) => format!("== warning \"{text}\""),
                Notice::Described(schema) => {
                    let (schema, _) = ProviderSchema::read(&schema).unwrap();
                    format!("== described {} {}", schema.name, schema.version)
                }
                other => panic!("a provider does not say {other:?}"),
            });
        }
        let mut farewell = None;
        if let Readiness::Broken(Fault { failure, farewell: how }) =
            self.client().readiness().clone()
            && !std::mem::replace(&mut self.was_broken, true)
        {
            farewell = Some(how);
            if failure.kind != FailureKind::Gone && failure.kind != FailureKind::TimedOut {
                came.extend(told(&failure));
            }
        }
        self.drain_downs(&mut came);
        let mut out = Outbox::new();
        self.client().poll_transmit(&mut out);
        for line in out.take().split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").expect("what leaves are whole lines");
            came.push(format!(">> {}", str::from_utf8(line).unwrap()));
        }
        self.drain_downs(&mut came);
        if let (Process::Starting(_), Readiness::Open | Readiness::Broken(_)) =
            (self.process, self.client().readiness())
        {
            self.process = Process::Serving;
        }
        if farewell == Some(Farewell::Abrupt) {
            came.push(self.kill().into());
        }
        if let Process::Asked(_) = self.process
            && self.client().is_finished()
        {
            self.process = Process::StdinClosed(self.clock.now + STEP);
            came.push("== close stdin".into());
        }
        came
    }

    fn drain_downs(&mut self, came: &mut Vec<String>) {
        while let Some((ticket, down)) = self.client().poll_down() {
            let Down::Done(outcome) = down else { panic!("a provider only answers: {down:?}") };
            let name = self.names[ticket.0 as usize].clone();
            came.extend(self.ended(&name, outcome));
        }
    }

    fn ended(&mut self, name: &str, outcome: Result<Outcome, Failure>) -> Vec<String> {
        let failure = match outcome {
            Ok(Outcome::Value(outputs)) => {
                return vec![format!("== {name} ok {}", sorted(&outputs))];
            }
            Ok(Outcome::Native(_)) if name == "configure" => return vec!["== configured".into()],
            Ok(Outcome::Native(schema)) => {
                return vec![format!("== {name} ok {}", schema.escape_ascii())];
            }
            Ok(Outcome::Tools(tools)) => {
                let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
                return vec![format!("== {name} ok {}", names.join(" "))];
            }
            Ok(other) => panic!("a provider gives outputs, not {other:?}"),
            Err(failure) => failure,
        };
        if failure.from_peer {
            return refused(name, &failure);
        }
        let mut came = Vec::new();
        let is_its_own = name == "configure" || name == "describe";
        let words = failure.last_words.clone().unwrap_or_default();
        let has_words = words.exit.is_some() || !words.stderr.is_empty();
        let is_told = (is_its_own || has_words) && failure.kind != FailureKind::Cancelled;
        if is_told && !std::mem::replace(&mut self.was_told, true) {
            came.extend(told(&failure));
        }
        if is_its_own {
            return came;
        }
        let unknown = match failure.kind {
            FailureKind::TimedOut => "unknown timed_out",
            FailureKind::BrokeProtocol => "unknown protocol_error",
            FailureKind::Gone => "unknown provider_gone",
            FailureKind::Cancelled => "cancelled",
            _ => {
                came.push(format!("== {name} {} \"{}\"", failure.kind, failure.message));
                came.extend(words.hint.map(|hint| format!("== hint \"{hint}\"")));
                return came;
            }
        };
        came.push(format!("== {name} {unknown}"));
        came
    }

    fn probe_exited(&mut self, mut words: Words<'_>) -> Vec<String> {
        let exit = if words.is("signal") {
            signal(words.rest())
        } else {
            Exit::Code(words.rest().parse().unwrap())
        };
        match probe::judge(probe::Ended::Exited(exit), &self.printed) {
            Ok((schema, _)) => vec![format!("== described {} {}", schema.name, schema.version)],
            Err(error) => told(&error.failure("e", self.stderr.clone())),
        }
    }
}

impl Player for Host {
    fn happen(&mut self, what: &str) -> Vec<String> {
        if self.clock.happen(what) {
            let mut came = Vec::new();
            let now = self.clock.now;
            if self.client().poll_timeout().is_some_and(|until| until <= now) {
                self.client().handle_timeout(now);
                came.extend(self.drain());
            }
            loop {
                let more = self.process_timeout();
                if more.is_empty() {
                    return came;
                }
                came.extend(more);
            }
        }
        let mut words = Words::new(what);
        let now = self.clock.now;
        match words.word() {
            Some("describe") => {
                self.client = Some(Client::new(self.settings.clone()));
                self.process = Process::Starting(now + self.settings.describe_timeout);
                // So that its owner is told if it never answers.
                self.native("describe", "describe", String::new(), None);
            }
            Some("configure") => {
                self.native("configure", "configure", words.rest().to_owned(), None);
            }
            Some("call") => self.call(words),
            Some("tool") => {
                let ticket = words.word().unwrap();
                let ticket = self.ticket(ticket);
                let name = words.word().unwrap();
                let mut call = Call::tool(now, name, words.json());
                call.deadline.quiet = Some(Duration::from_secs(60));
                self.client().call(now, ticket, call);
            }
            Some("tools") => {
                let ticket = self.ticket(words.rest());
                self.client().call(now, ticket, Call::of(now, What::Tools));
            }
            Some("config") => self.settings.config = words.json(),
            Some("strict") => self.settings.is_strict = true,
            Some("limit") => self.settings.frame_bytes_max = words.rest().parse().unwrap(),
            Some("cancel") => {
                let name = words.rest();
                let at = self.names.iter().position(|known| known == name).unwrap();
                self.client().up(now, Ticket(at as u64), Up::Cancel(None));
            }
            Some("stop") => {
                let order = self.stop();
                let mut came = self.drain();
                came.extend(order.map(str::to_owned));
                return came;
            }
            Some("stderr") => {
                self.stderr.push(words.rest().to_owned());
                return Vec::new();
            }
            Some("closed") => return self.closed(),
            Some("exited") => return self.exited(words),
            Some("probe") if words.is("stdout") => {
                self.printed.extend(unescape(&expanded(words.rest())));
                return Vec::new();
            }
            Some("probe") if words.is("exited") => return self.probe_exited(words),
            _ => panic!("what is `{what}`?"),
        }
        if self.client.is_none() {
            return Vec::new();
        }
        let mut came = self.drain();
        came.retain(|line| !line.starts_with("== describe ok"));
        came
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        let mut came = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.input.extend_from_slice(piece);
            let now = self.clock.now;
            let mut input = std::mem::take(&mut self.input);
            self.client().handle_bytes(now, &mut input);
            self.input = input;
            came.extend(self.drain());
        }
        came.retain(|line| !line.starts_with("== describe ok"));
        came
    }

    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        let line = expanded(text).replace("\\r", "\r");
        vec![Arrival::Bytes(format!("{line}\n").into_bytes())]
    }
}

/// What went wrong with the provider as a whole, with its last words and what can be done.
fn told(failure: &Failure) -> Vec<String> {
    let words = failure.last_words.clone().unwrap_or_default();
    let mut text = failure.message.clone();
    for line in &words.stderr {
        text.push('\n');
        text.push_str(line);
    }
    let detail =
        failure.detail.as_ref().map_or(String::new(), |detail| format!(" detail {detail}"));
    let mut came = vec![format!("== {} \"{}\"{detail}", failure.kind, text.replace('\n', " / "))];
    came.extend(words.hint.map(|hint| format!("== hint \"{hint}\"")));
    came
}

fn refused(name: &str, failure: &Failure) -> Vec<String> {
    let code = failure.code.as_ref().map_or(String::new(), ToString::to_string);
    let detail =
        failure.detail.as_ref().map_or(String::new(), |detail| format!(" detail {detail}"));
    let mut came = vec![format!("== {name} refused {code} \"{}\"{detail}", failure.message)];
    let hint = failure.last_words.as_ref().and_then(|words| words.hint.clone());
    came.extend(hint.map(|hint| format!("== hint \"{hint}\"")));
    came
}

fn sorted(outputs: &Json) -> Json {
    value::convert(&Type::Any, outputs).unwrap().value
}

fn signal(name: &str) -> Exit {
    let signals = [("SIGKILL", 9), ("SIGSEGV", 11), ("SIGTERM", 15)];
    let found = signals.iter().find(|(known, _)| *known == name);
    Exit::Signal(found.expect("a signal that is known").1)
}
