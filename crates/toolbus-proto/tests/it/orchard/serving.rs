//! The provider, replayed from `transcripts/orchard/serving`.

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::orchard::{Server, ServerSettings};
use toolbus_proto::tool::{Code, Failure, FailureKind, LastWords, Outcome, Part, What};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player, Words};

use super::builtin;

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/orchard/serving", |_| Front::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/orchard/serving") {
        transcript::sweep(&transcript::read(&file), Front::new);
    }
}

/// Our provider, before a host that the conversation plays.
struct Front {
    clock: Clock,
    server: Server,
    input: BytesMut,
    is_closed: bool,
    has_ended: bool,
}

impl Front {
    fn new() -> Front {
        Front {
            clock: Clock::new(),
            server: Server::new(&ServerSettings::default(), builtin()),
            input: BytesMut::new(),
            is_closed: false,
            has_ended: false,
        }
    }

    fn down(&mut self, mut words: Words<'_>, down: impl FnOnce(&mut Words<'_>) -> Down) {
        let ticket = words.word().and_then(|word| word.strip_prefix('c')).unwrap();
        let ticket = Ticket(ticket.parse().unwrap());
        self.server.down(self.clock.now, ticket, down(&mut words));
        self.read_on();
    }

    /// As hands do: what was left unread is looked at again.
    fn read_on(&mut self) {
        let now = self.clock.now;
        let flow = self.server.handle_bytes(now, &mut self.input);
        if self.is_closed && flow != Flow::Close {
            self.server.handle_eof(now, &mut self.input);
        }
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        let mut out = Outbox::new();
        self.server.poll_transmit(&mut out);
        for line in out.take().split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").expect("what leaves are whole lines");
            came.push(format!(">> {}", str::from_utf8(line).unwrap()));
        }
        while let Some(notice) = self.server.poll_notice() {
            // The refusal itself is what leaves.
            assert!(matches!(notice, Notice::Refused(_)), "{notice:?}");
        }
        while let Some((ticket, asked)) = self.server.poll_up() {
            came.push(match asked {
                Asked::Call(call) => {
                    let What::Tool { name, args } = call.what else {
                        panic!("unexpected {call:?}")
                    };
                    let args = args.map_or(String::new(), |args| format!(" {args}"));
                    format!("== call c{} {name}{args}", ticket.0)
                }
                Asked::Up(Up::Cancel(None)) => format!("== cancel c{}", ticket.0),
                Asked::Up(up) => panic!("unexpected {up:?}"),
            });
        }
        if let Some(ended) = self.server.ended()
            && !std::mem::replace(&mut self.has_ended, true)
        {
            assert_eq!(*ended, Ended::Well);
            came.push("== end 0".into());
        }
        came
    }
}

impl Player for Front {
    fn happen(&mut self, what: &str) -> Vec<String> {
        if self.clock.happen(what) {
            if self.server.poll_timeout().is_some_and(|until| until <= self.clock.now) {
                self.server.handle_timeout(self.clock.now);
            }
            return self.drain();
        }
        let mut words = Words::new(what);
        match words.word() {
            Some("limit") => {
                let line_bytes_max = words.rest().parse().unwrap();
                self.server = Server::new(&ServerSettings { line_bytes_max }, builtin());
            }
            Some("closed") => {
                self.is_closed = true;
                self.read_on();
            }
            Some("reply") => self.down(words, |words| value(words.json().unwrap())),
            Some("text") => {
                self.down(words, |words| Down::Done(Ok(Outcome::Text(words.text().unwrap()))));
            }
            Some("part") => {
                self.down(words, |words| Down::Part(Part::Json(words.json().unwrap())));
            }
            Some("end") => self.down(words, |_| Down::Done(Ok(Outcome::End(None)))),
            Some("fail") => self.down(words, |words| Down::Done(Err(failure(words)))),
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.read_on();
        self.drain()
    }

    /// `\r` at the end of a line is that byte; a line of `\xff` is one that is no text.
    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        let line = match text {
            "\\xff" => b"\xff\n".to_vec(),
            text => format!("{}\n", text.replace("\\r", "\r")).into_bytes(),
        };
        vec![Arrival::Bytes(line)]
    }
}

fn value(value: Json) -> Down {
    Down::Done(Ok(Outcome::Value(value)))
}

/// `KIND "message" [code WORD] [detail JSON] [stderr "line"]`
fn failure(words: &mut Words<'_>) -> Failure {
    let kind = words.word().unwrap();
    let mut kinds = FailureKind::ALL.into_iter();
    let kind = kinds.find(|known| known.as_str() == kind).expect("a kind of failure");
    let mut failure = Failure::new(kind, words.text().unwrap());
    if words.is("code") {
        failure.code = words.word().map(|code| Code::Word(code.to_owned()));
    }
    if words.is("detail") {
        failure.detail = words.json();
    }
    if words.is("stderr") {
        let stderr = vec![words.text().unwrap()];
        failure = failure.with_last_words(LastWords { stderr, ..LastWords::default() });
    }
    failure
}
