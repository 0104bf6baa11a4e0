//! The serving end of MCP on a pipe, replayed from `transcripts/mcp/serving`.

use std::collections::HashMap;
use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Channel, Down, Ended, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::conversation::Settings;
use toolbus_proto::mcp::{Behind, Server};
use toolbus_proto::tool::{CallerId, Code, Failure, FailureKind, Outcome, Part, ToolSpec, What};
use toolbus_testkit::transcript::{self, Arrival, Player, Words};

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/mcp/serving", |_| Front::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/mcp/serving") {
        transcript::sweep(&transcript::read(&file), Front::new);
    }
}

/// Our end of a pipe, with the tools of the hub behind it.
struct Front {
    now: Instant,
    server: Server,
    input: BytesMut,
    /// The calls of tools, by the number the conversation gives them.
    calls: Vec<Ticket>,
    /// Who wants to know the tools while the hub is not ready.
    asking: Vec<Ticket>,
    tools: Vec<ToolSpec>,
    is_ready: bool,
    has_ended: bool,
}

fn settings() -> Settings {
    Settings::new("VERSION", CallerId(1), Behind::Hub)
}

impl Front {
    fn new() -> Front {
        Front {
            now: Instant::now(),
            server: Server::new(settings()),
            input: BytesMut::new(),
            calls: Vec::new(),
            asking: Vec::new(),
            tools: tools(),
            is_ready: true,
            has_ended: false,
        }
    }

    fn ticket(&self, words: &mut Words<'_>) -> Ticket {
        let number: usize = words.word().unwrap().parse().unwrap();
        self.calls[number - 1]
    }

    fn down(&mut self, ticket: Ticket, down: Down) {
        self.server.down(self.now, ticket, down);
        self.server.handle_bytes(self.now, &mut self.input);
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            let mut out = Outbox::new();
            self.server.poll_transmit(&mut out);
            came.extend(lines(&out.take()));
            while self.server.poll_notice().is_some() {}
            let Some((ticket, asked)) = self.server.poll_up() else { break };
            came.extend(self.asked(ticket, asked));
        }
        if let Some(ended) = self.server.ended()
            && !std::mem::replace(&mut self.has_ended, true)
        {
            assert_eq!(*ended, Ended::Well);
        }
        came
    }

    fn asked(&mut self, ticket: Ticket, asked: Asked) -> Option<String> {
        match asked {
            Asked::Call(call) => match call.what {
                What::Tools if !self.is_ready => {
                    self.asking.push(ticket);
                    None
                }
                What::Tools => {
                    self.down(ticket, Down::Done(Ok(Outcome::Tools(self.tools.clone().into()))));
                    None
                }
                What::Tool { name, args } if name.as_str() != "nope" => {
                    self.calls.push(ticket);
                    let args = args.map_or(String::new(), |args| format!(" {args}"));
                    Some(format!("== call {} {name}{args}", self.calls.len()))
                }
                What::Tool { .. } => {
                    let failure = Failure::new(FailureKind::UnknownTool, "no such tool");
                    self.down(ticket, Down::Done(Err(failure)));
                    None
                }
                What::Native { .. } => panic!("the hub speaks no MCP"),
            },
            Asked::Up(Up::Cancel(_)) => {
                let number = self.calls.iter().position(|known| *known == ticket)? + 1;
                Some(format!("== cancel {number}"))
            }
            Asked::Up(up) => panic!("unexpected {up:?}"),
        }
    }
}

/// What the hub offers; one tool takes no object.
fn tools() -> Vec<ToolSpec> {
    let numbers = r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}"#;
    vec![
        ToolSpec::new("add", Json::parse(numbers).unwrap()),
        ToolSpec::new("upper_of", Json::parse(r#"{"type":"string"}"#).unwrap()),
    ]
}

impl Player for Front {
    fn happen(&mut self, what: &str) -> Vec<String> {
        let mut words = Words::new(what);
        match words.word() {
            Some("reply") => {
                let ticket = self.ticket(&mut words);
                let value = words.json().unwrap();
                self.down(ticket, Down::Done(Ok(Outcome::Value(value))));
            }
            Some("part") => {
                let ticket = self.ticket(&mut words);
                self.down(ticket, Down::Part(Part::Json(words.json().unwrap())));
            }
            Some("end") => {
                let ticket = self.ticket(&mut words);
                self.down(ticket, Down::Done(Ok(Outcome::End(None))));
            }
            Some("fail") => {
                let ticket = self.ticket(&mut words);
                self.down(ticket, Down::Done(Err(failure(words))));
            }
            _ => match what {
                "connect" => *self = Front::new(),
                "the limit is 64 bytes" => {
                    let settings = Settings { line_bytes_max: 64, ..settings() };
                    self.server = Server::new(settings);
                }
                "a tool `range` lists that it answers objects" => {
                    let mut range = ToolSpec::new("range", Json::parse("{}").unwrap());
                    range.output = Some(Json::parse(r#"{"type":"object"}"#).unwrap());
                    self.tools.push(range);
                }
                "a back is slow to start" => self.is_ready = false,
                "the back is ready" => {
                    self.is_ready = true;
                    for ticket in std::mem::take(&mut self.asking) {
                        self.down(
                            ticket,
                            Down::Done(Ok(Outcome::Tools(self.tools.clone().into()))),
                        );
                    }
                }
                "the back cannot start" => {
                    for ticket in std::mem::take(&mut self.asking) {
                        let failure = Failure::new(FailureKind::Unavailable, "no such program");
                        self.down(ticket, Down::Done(Err(failure)));
                    }
                }
                "the catalogue changes" => self.server.tell(self.now, &Notice::ToolsChanged),
                "shutdown" => {
                    self.server.handle_eof(self.now, &mut self.input);
                }
                "5 s pass" => {
                    self.now = self.server.poll_timeout().expect("something is awaited");
                    self.server.handle_timeout(self.now);
                }
                _ => panic!("what is `{what}`?"),
            },
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.server.handle_bytes(self.now, &mut self.input);
        self.drain()
    }

    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        vec![Arrival::Bytes(arriving(text))]
    }
}

/// A line as it stands in a conversation: `\r` at its end is that byte.
pub(crate) fn arriving(text: &str) -> Vec<u8> {
    let line = match text.strip_suffix("\\r") {
        Some(line) => format!("{line}\r\n"),
        None => format!("{text}\n"),
    };
    line.into_bytes()
}

/// What leaves, a line a message.
pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    let whole = |line: &[u8]| {
        let line = line.strip_suffix(b"\n").expect("what leaves are whole lines");
        format!(">> {}", str::from_utf8(line).unwrap())
    };
    bytes.split_inclusive(|byte| *byte == b'\n').map(whole).collect()
}

/// `KIND CODE MESSAGE`; the code may be `-`.
pub(crate) fn failure(mut words: Words<'_>) -> Failure {
    let kinds = HashMap::from([
        ("failed", FailureKind::Failed),
        ("invalid_arguments", FailureKind::InvalidArguments),
        ("timed_out", FailureKind::TimedOut),
        ("gone", FailureKind::Gone),
        ("cancelled", FailureKind::Cancelled),
    ]);
    let kind = kinds[words.word().unwrap()];
    let code = words.word().filter(|code| *code != "-").map(|code| Code::Word(code.into()));
    Failure { code, ..Failure::new(kind, words.rest()) }
}
