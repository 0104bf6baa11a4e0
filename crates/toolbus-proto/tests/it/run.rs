//! Both ends of the run socket, replayed from `transcripts/run`.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    AskId, Asked, Calling, Channel, Down, Flow, Outbox, Readiness, Serving, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::run::{Client, Greeting, Server, WIRE};
use toolbus_proto::tool::{Call, CallerId, Failure, FailureKind, Outcome, Part, Piece, What};
use toolbus_testkit::transcript::{self, Player};

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/run/serving", |_| Serve::new());
    transcript::check_folder("transcripts/run/calling", |_| Command::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/run/serving") {
        transcript::sweep(&transcript::read(&file), Serve::new);
    }
    for file in transcript::files("transcripts/run/calling") {
        transcript::sweep(&transcript::read(&file), Command::new);
    }
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("conversations write JSON")
}

fn words(text: &str) -> [&str; 3] {
    let mut words = text.splitn(3, ' ');
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

fn written(channel: &mut impl Channel, lines: &mut Vec<String>) {
    let mut out = Outbox::new();
    channel.poll_transmit(&mut out);
    let bytes = out.take();
    let text = String::from_utf8(bytes.to_vec()).expect("conversations are text");
    lines.extend(text.lines().map(|line| format!(">> {line}")));
}

/// The end of `toolbus serve`.
struct Serve {
    now: Instant,
    machine: Server,
    input: BytesMut,
    is_over: bool,
}

impl Serve {
    fn new() -> Serve {
        let greeting = Greeting {
            toolbus: "0.1.0".to_owned(),
            protocol: 1,
            pid: 4711,
            config: "/etc/toolbus.toml".to_owned(),
            digest: "sha256:00".to_owned(),
            env: "sha256:00".to_owned(),
        };
        let machine = Server::new(&greeting, CallerId(1));
        Serve { now: Instant::now(), machine, input: BytesMut::new(), is_over: false }
    }

    fn learned(&mut self, flow: Flow) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some((Ticket(id), asked)) = self.machine.poll_up() {
            lines.push(match asked {
                Asked::Call(Call { what: What::Native { method, body, .. }, .. }) => {
                    let (method, body) =
                        (String::from_utf8_lossy(&method), String::from_utf8_lossy(&body));
                    format!("== {id} {method} {body}").trim_end().to_owned()
                }
                asked => format!("== {id} {asked:?}"),
            });
        }
        written(&mut self.machine, &mut lines);
        if flow == Flow::Close && !self.is_over {
            self.is_over = true;
            lines.push(format!("== over: {:?}", self.machine.ended()));
        }
        lines
    }
}

impl Player for Serve {
    fn happen(&mut self, happened: &str) -> Vec<String> {
        let [what, id, rest] = words(happened);
        let down = match what {
            "start" => return self.learned(Flow::More),
            "eof" => {
                let flow = self.machine.handle_eof(self.now, &mut self.input);
                return self.learned(flow);
            }
            "value" => Down::Done(Ok(Outcome::Value(json(rest)))),
            "begin" => Down::Begin { head: None, parts: None },
            "part" => Down::Part(Part::Json(json(rest))),
            "piece" => {
                let data = Bytes::copy_from_slice(rest.as_bytes());
                Down::Part(Part::Bytes(Piece { data, media_type: None, len: None, last: true }))
            }
            "progress" => Down::Progress(json(rest)),
            "ask" => {
                let (ask, question) = rest.split_once(' ').expect("a number and a question");
                Down::Ask(AskId(ask.parse().unwrap()), json(question))
            }
            "end" => Down::Done(Ok(Outcome::End(None))),
            "fail" => Down::Done(Err(Failure::new(FailureKind::Failed, rest))),
            _ => panic!("nothing is known of `{what}`"),
        };
        let flow = self.machine.down(self.now, Ticket(id.parse().unwrap()), down);
        self.learned(flow)
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        let flow = self.machine.handle_bytes(self.now, &mut self.input);
        self.learned(flow)
    }
}

/// The end of a command.
struct Command {
    now: Instant,
    machine: Client,
    input: BytesMut,
    names: Vec<String>,
    is_over: bool,
}

impl Command {
    fn new() -> Command {
        let (now, machine) = (Instant::now(), Client::new(4711));
        Command { now, machine, input: BytesMut::new(), names: Vec::new(), is_over: false }
    }

    fn ticket(&self, name: &str) -> Ticket {
        let at = self.names.iter().position(|known| known == name);
        Ticket(at.expect("it was asked before") as u64)
    }

    fn learned(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some((Ticket(id), down)) = self.machine.poll_down() {
            lines.push(format!("== {} {down:?}", self.names[id as usize]));
        }
        written(&mut self.machine, &mut lines);
        if let Readiness::Broken(fault) = self.machine.readiness()
            && !self.is_over
        {
            self.is_over = true;
            lines.push(format!("== over: {}: {}", fault.failure.kind, fault.failure));
            let failure = Failure::new(FailureKind::Gone, "the connection ended");
            self.machine.handle_lost(self.now, &failure);
            lines.extend(self.learned());
        }
        lines
    }
}

impl Player for Command {
    fn happen(&mut self, happened: &str) -> Vec<String> {
        let [what, name, rest] = words(happened);
        match what {
            "ask" => {
                self.names.push(name.to_owned());
                let (method, body) = rest.split_once(' ').unwrap_or((rest, ""));
                let copy = |text: &str| Bytes::copy_from_slice(text.as_bytes());
                let (method, body) = (copy(method), copy(body));
                let call = Call::of(self.now, What::Native { wire: WIRE, method, body });
                if !self.is_over {
                    self.machine.call(self.now, self.ticket(name), call);
                }
            }
            "answer" => {
                let (ask, answer) = rest.split_once(' ').expect("a number and an answer");
                let up = Up::Answer(AskId(ask.parse().unwrap()), json(answer));
                self.machine.up(self.now, self.ticket(name), up);
            }
            "cancel" => self.machine.up(self.now, self.ticket(name), Up::Cancel(None)),
            "eof" => drop(self.machine.handle_eof(self.now, &mut self.input)),
            "lost" => {
                let failure = Failure::new(FailureKind::Gone, "the connection broke");
                self.machine.handle_lost(self.now, &failure);
            }
            _ => panic!("nothing is known of `{what}`"),
        }
        self.learned()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.machine.handle_bytes(self.now, &mut self.input);
        self.learned()
    }
}
