//! Both ends in the hands of a conversation: what its words do, and how what comes of them
//! is written down.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Flow, Notice, Outbox, Serving, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::event::PeerError;
use toolbus_proto::mediocre::{Client, Methods, Reading, Server, ServerSettings, translate};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, Piece, What};
use toolbus_testkit::transcript::{Clock, Words};

use super::Counting;

/// What leaves us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leaves {
    Bytes(Vec<u8>),
    /// The writing side is shut down.
    End,
    Close,
}

/// What our side learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Learned {
    Line(String),
    Piece(String, Vec<u8>),
}

/// A machine with its hands.
pub(crate) struct End<M> {
    machine: M,
    clock: Clock,
    input: BytesMut,
    is_eof: bool,
    is_finished: bool,
    is_closed: bool,
    /// It is closed as soon as what left before is written.
    closes_when_sent: bool,
    pub(crate) leaves: VecDeque<Leaves>,
    pub(crate) learned: VecDeque<Learned>,
    pub(crate) notices: VecDeque<String>,
}

/// What differs between the two machines.
pub(crate) trait Plays {
    fn make(clock: Clock) -> Self;
    fn channel(&mut self) -> &mut dyn Channel;
    fn act(&mut self, clock: Clock, words: &str);
    fn learn(&mut self, learned: &mut VecDeque<Learned>);
    /// The end was seen, and the hands found nothing more about it.
    fn lose(&mut self, clock: Clock);
}

impl<M: Plays> End<M> {
    pub(crate) fn new() -> End<M> {
        let clock = Clock::new();
        End {
            machine: M::make(clock),
            clock,
            input: BytesMut::new(),
            is_eof: false,
            is_finished: false,
            is_closed: false,
            closes_when_sent: false,
            leaves: VecDeque::new(),
            learned: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    pub(crate) fn happen(&mut self, words: &str) {
        if words == "sent" {
            self.machine.channel().handle_sent(self.clock.now);
            if self.closes_when_sent {
                self.close();
            }
        } else if self.clock.happen(words) {
            self.machine.channel().handle_timeout(self.clock.now);
        } else {
            self.machine.act(self.clock, words);
        }
        self.settle();
    }

    pub(crate) fn arrive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.settle();
    }

    pub(crate) fn end(&mut self) {
        self.is_eof = true;
        self.settle();
    }

    /// As the pump does it, until nothing more comes.
    fn settle(&mut self) {
        let mut has_written = false;
        while !self.is_closed && !self.closes_when_sent {
            let before = (self.learned.len(), self.notices.len(), self.input.len());
            let mut flow = self.machine.channel().handle_bytes(self.clock.now, &mut self.input);
            if self.is_eof && flow != Flow::Close {
                flow = self.machine.channel().handle_eof(self.clock.now, &mut self.input);
            }
            if self.is_eof && flow == Flow::Close {
                self.machine.lose(self.clock);
            }
            while let Some(notice) = self.machine.channel().poll_notice() {
                match notice {
                    Notice::Noted(code) => self.notices.push_back(format!("note {code}")),
                    Notice::Broke(what) => self.notices.push_back(format!("broke {what}")),
                    _ => {}
                }
            }
            self.machine.learn(&mut self.learned);
            let mut out = Outbox::new();
            self.machine.channel().poll_transmit(&mut out);
            has_written |= !out.is_empty();
            self.write(&out.take());
            if flow == Flow::Close {
                match has_written {
                    true => self.closes_when_sent = true,
                    false => self.close(),
                }
            } else if self.machine.channel().is_finished() && !self.is_finished {
                self.is_finished = true;
                self.leaves.push_back(Leaves::End);
            }
            if before == (self.learned.len(), self.notices.len(), self.input.len()) {
                break;
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        match self.leaves.back_mut() {
            _ if bytes.is_empty() => {}
            Some(Leaves::Bytes(run)) => run.extend_from_slice(bytes),
            _ => self.leaves.push_back(Leaves::Bytes(bytes.to_vec())),
        }
    }

    fn close(&mut self) {
        self.closes_when_sent = false;
        if !std::mem::replace(&mut self.is_closed, true) {
            self.leaves.push_back(Leaves::Close);
        }
    }
}

/// The serving machine.
pub(crate) struct Serves {
    server: Server<Counting>,
    parts: Parts,
}

impl Plays for Serves {
    fn make(clock: Clock) -> Serves {
        let server = Server::new(clock.now, ServerSettings::default(), Counting::default());
        Serves { server, parts: Parts::default() }
    }

    fn channel(&mut self) -> &mut dyn Channel {
        &mut self.server
    }

    fn act(&mut self, clock: Clock, words: &str) {
        let mut words = Words::new(words);
        let verb = words.word().unwrap();
        let ticket = Ticket(number(&mut words, 'c') - 1);
        let down = match verb {
            "reply" => Down::Done(Ok(Outcome::Value(words.json().unwrap()))),
            "fail" => Down::Done(Err(failure(&mut words))),
            "stream" => Down::Begin { head: words.json(), parts: None },
            "tail" => Down::Done(Ok(Outcome::End(words.json()))),
            _ => Down::Part(part(verb, &mut words)),
        };
        self.server.down(clock.now, ticket, down);
    }

    fn learn(&mut self, learned: &mut VecDeque<Learned>) {
        while let Some((ticket, asked)) = self.server.poll_up() {
            let who = format!("c{}", ticket.0 + 1);
            let line = match asked {
                Asked::Call(Call { what: What::Tool { name, args }, options, .. }) => {
                    let kind = if options.sends_parts { "stream" } else { "call" };
                    format!("{who} {kind} {name} {}", args.unwrap_or(Json::null()))
                }
                Asked::Call(call) => panic!("unexpected {call:?}"),
                Asked::Up(Up::Part(part)) => {
                    self.parts.learn(&who, part, learned);
                    continue;
                }
                Asked::Up(Up::End(value)) => line(&who, "tail", value),
                Asked::Up(Up::Cancel(_)) => format!("{who} cancelled"),
                Asked::Up(Up::Answer(..)) => panic!("no tool asked"),
            };
            learned.push_back(Learned::Line(line));
        }
    }

    fn lose(&mut self, _clock: Clock) {}
}

/// The calling machine.
pub(crate) struct Calls {
    caller: Client<Counting>,
    parts: Parts,
    /// Its own stream is not complete.
    is_streaming: bool,
    /// It has asked and was not told since that the connection is free.
    is_busy: bool,
}

impl Plays for Calls {
    fn make(clock: Clock) -> Calls {
        let chance = Counting::default();
        let caller = Client::new(clock.now, Reading::default(), Methods::asked(), chance);
        Calls { caller, parts: Parts::default(), is_streaming: false, is_busy: false }
    }

    fn channel(&mut self) -> &mut dyn Channel {
        &mut self.caller
    }

    fn act(&mut self, clock: Clock, words: &str) {
        let mut words = Words::new(words);
        let verb = words.word().unwrap();
        let ticket = Ticket(number(&mut words, 't'));
        let up = match verb {
            "call" | "stream" => {
                let method = words.word().unwrap();
                let mut call = Call::tool(clock.now, method, words.json());
                call.options.sends_parts = verb == "stream";
                if words.is("len") {
                    call.options.parts = Some(words.word().unwrap().parse().unwrap());
                }
                self.is_streaming = verb == "stream";
                self.is_busy = true;
                return self.caller.call(clock.now, ticket, call);
            }
            "cancel" => Up::Cancel(None),
            "tail" => Up::End(words.json()),
            _ => Up::Part(part(verb, &mut words)),
        };
        if let Up::Cancel(_) | Up::End(_) = up {
            self.is_streaming = false;
        }
        self.caller.up(clock.now, ticket, up);
    }

    fn learn(&mut self, learned: &mut VecDeque<Learned>) {
        while let Some((ticket, down)) = self.caller.poll_down() {
            let who = format!("t{}", ticket.0);
            let text = match down {
                Down::Begin { head, .. } => line(&who, "head", head),
                Down::Part(part) => {
                    self.parts.learn(&who, part, learned);
                    continue;
                }
                Down::Done(Ok(Outcome::Value(value))) => format!("{who} ok {value}"),
                Down::Done(Ok(Outcome::End(value))) => line(&who, "done", value),
                Down::Done(Err(failure)) => {
                    // A writer that broke it off itself need not be told.
                    self.is_streaming &= failure.from_peer;
                    format!("{who} failed {}", told(&failure))
                }
                down => panic!("unexpected {down:?}"),
            };
            let is_end = !text.starts_with(&format!("{who} head"));
            learned.push_back(Learned::Line(text));
            if is_end && std::mem::take(&mut self.is_streaming) {
                learned.push_back(Learned::Line(format!("{who} stop")));
            }
        }
        if self.is_busy && self.caller.is_free() {
            self.is_busy = false;
            learned.push_back(Learned::Line("free".to_owned()));
        }
    }

    fn lose(&mut self, clock: Clock) {
        let gone = Failure::new(FailureKind::Gone, "closed the connection");
        self.caller.handle_lost(clock.now, &gone);
    }
}

/// `KIND [CODE]`, and the message if the peer said it.
fn told(failure: &Failure) -> String {
    let code = failure.code.as_ref().map(|code| format!(" {code}")).unwrap_or_default();
    let message = Json::of(&failure.message);
    let message = if failure.from_peer { format!(" {message}") } else { String::new() };
    format!("{}{code}{message}", failure.kind)
}

fn line(who: &str, verb: &str, value: Option<Json>) -> String {
    let value = value.map(|value| format!(" {value}")).unwrap_or_default();
    format!("{who} {verb}{value}")
}

/// `CODE "message"`, as the peer would read it.
fn failure(words: &mut Words<'_>) -> Failure {
    let code = Json::of(words.word().unwrap());
    let meta = Some(Json::from_trusted(format!(r#"{{"code":{code}}}"#)));
    translate::failure(&PeerError { msg: words.text().unwrap(), meta })
}

fn number(words: &mut Words<'_>, prefix: char) -> u64 {
    words.word().and_then(|word| word.strip_prefix(prefix)).unwrap().parse().unwrap()
}

/// What stands behind `el` or `blob`.
fn part(verb: &str, words: &mut Words<'_>) -> Part {
    if verb == "el" {
        return Part::Json(words.json().unwrap());
    }
    assert_eq!(verb, "blob");
    let mut piece = Piece { data: Bytes::new(), media_type: None, len: None, last: false };
    match words.word().unwrap() {
        "begin" => piece.len = words.word().map(|len| len.parse().unwrap()),
        "piece" => piece.data = words.text().unwrap().into(),
        "end" => piece.last = true,
        other => panic!("what is `{other}`?"),
    }
    Part::Bytes(piece)
}

/// Writes down parts as they come.
#[derive(Default)]
struct Parts {
    is_inside: bool,
}

impl Parts {
    fn learn(&mut self, who: &str, part: Part, learned: &mut VecDeque<Learned>) {
        let piece = match part {
            Part::Json(json) => {
                return learned.push_back(Learned::Line(format!("{who} value {json}")));
            }
            Part::Bytes(piece) => piece,
            Part::Text(text) => panic!("the wire has no texts: {text}"),
        };
        if !std::mem::replace(&mut self.is_inside, !piece.last) {
            learned.push_back(Learned::Line(format!("{who} blob begin")));
        }
        match learned.back_mut() {
            _ if piece.data.is_empty() => {}
            Some(Learned::Piece(of, run)) if of == who => run.extend_from_slice(&piece.data),
            _ => learned.push_back(Learned::Piece(who.to_owned(), piece.data.to_vec())),
        }
        if piece.last {
            learned.push_back(Learned::Line(format!("{who} blob end")));
        }
    }
}
