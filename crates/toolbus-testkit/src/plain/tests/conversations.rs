//! Both ends as conversations. Beyond the words of every transcript: `-- up T SAYS` and
//! `-- down C SAYS` go on with a call in the words of the wire; `pause` and `more` are learned
//! when what to do with the reading side changes; `take N` takes so much out and no more.

use bytes::BytesMut;
use expect_test::Expect;
use toolbus_proto::channel::{Channel, Flow, Outbox, Readiness, Serving};

use super::super::wire::{SaysDown, SaysUp};
use super::*;
use crate::transcript::{Clock, Player, Words, check, sweep};

struct Side<M> {
    clock: Clock,
    machine: M,
    input: BytesMut,
    flow: Flow,
    /// How much is taken out of the machine; a slow consumer takes little.
    take_max: usize,
}

/// What differs between the two machines.
trait Plays: Channel {
    fn act(&mut self, clock: Clock, words: &str);
    fn learned(&mut self) -> Option<String>;
    fn state(&self) -> String;
}

impl<M: Plays> Side<M> {
    fn new(machine: M) -> Side<M> {
        Side {
            clock: Clock::new(),
            machine,
            input: BytesMut::new(),
            flow: Flow::More,
            take_max: usize::MAX,
        }
    }

    fn came(&mut self) -> Vec<String> {
        let mut learned = Vec::new();
        let mut flow;
        // A channel that pauses is asked again once something was taken out of it.
        loop {
            flow = self.machine.handle_bytes(self.clock.now, &mut self.input);
            while let Some(notice) = self.machine.poll_notice() {
                learned.push(format!("== {notice:?}"));
            }
            let before = self.take_max;
            while self.take_max > 0
                && let Some(line) = self.machine.learned()
            {
                self.take_max -= 1;
                learned.push(format!("== {line}"));
            }
            if self.take_max == before {
                break;
            }
        }
        if std::mem::replace(&mut self.flow, flow) != flow {
            let state = self.machine.state();
            learned.push(format!("== {flow:?}{state}").to_lowercase());
        }
        let mut out = Outbox::new();
        self.machine.poll_transmit(&mut out);
        let out = String::from_utf8(out.take().to_vec()).unwrap();
        let leaves = out.lines().map(|line| format!(">> {line}"));
        leaves.chain(learned).collect()
    }
}

impl<M: Plays> Player for Side<M> {
    fn happen(&mut self, words: &str) -> Vec<String> {
        if self.clock.happen(words) {
            self.machine.handle_timeout(self.clock.now);
        } else if let Some(count) = words.strip_prefix("take ") {
            self.take_max = count.parse().unwrap();
        } else if words == "closed" {
            self.machine.handle_eof(self.clock.now, &mut self.input);
        } else if words != "begin" {
            self.machine.act(self.clock, words);
        }
        self.came()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.came()
    }
}

fn ticket(words: &mut Words<'_>) -> Ticket {
    Ticket(words.word().unwrap()[1..].parse().unwrap())
}

impl Plays for Client {
    fn act(&mut self, clock: Clock, words: &str) {
        let now = clock.now;
        let mut words = Words::new(words);
        match words.word().unwrap() {
            "call" => {
                let ticket = ticket(&mut words);
                let tool = words.word().unwrap();
                let mut call = Call::tool(now, tool, words.json());
                if words.is("quiet") {
                    call.deadline.quiet = Some(Duration::from_secs(5));
                }
                self.call(now, ticket, call);
            }
            "tools" => self.call(now, ticket(&mut words), Call::of(now, What::Tools)),
            "foreign" => {
                let (method, body) = (Bytes::new(), Bytes::new());
                let what = What::Native { wire: Wire::INSIDE, method, body };
                self.call(now, ticket(&mut words), Call::of(now, what));
            }
            "up" => {
                let ticket = ticket(&mut words);
                let says: SaysUp = serde_json::from_str(words.rest()).unwrap();
                let Some(Asked::Up(up)) = says.into_asked(now) else {
                    panic!("not an up");
                };
                self.up(now, ticket, up);
            }
            "close" => drop(self.close(now, Duration::ZERO)),
            "lost" => self.handle_lost(now, &Failure::new(FailureKind::Gone, "lost")),
            word => panic!("nobody knows `{word}`"),
        }
    }

    fn learned(&mut self) -> Option<String> {
        let (ticket, down) = self.poll_down()?;
        let says = serde_json::to_string(&SaysDown::of(&down)).unwrap();
        Some(format!("t{} {says}", ticket.0))
    }

    fn state(&self) -> String {
        match self.readiness() {
            Readiness::Broken(fault) => format!(" {} {}", fault.failure.kind, fault.failure),
            _ => String::new(),
        }
    }
}

impl Plays for Server {
    fn act(&mut self, clock: Clock, words: &str) {
        let mut words = Words::new(words);
        assert!(words.is("down"));
        let ticket = ticket(&mut words);
        let says: SaysDown = serde_json::from_str(words.rest()).unwrap();
        self.down(clock.now, ticket, says.into_down().unwrap());
    }

    fn learned(&mut self) -> Option<String> {
        let (ticket, asked) = self.poll_up()?;
        let says = match asked {
            Asked::Call(call) => SaysUp::of_call(&call).unwrap(),
            Asked::Up(up) => SaysUp::of_up(&up),
        };
        Some(format!("c{} {}", ticket.0, serde_json::to_string(&says).unwrap()))
    }

    fn state(&self) -> String {
        self.ended().map(|ended| format!(" {ended:?}")).unwrap_or_default()
    }
}

fn caller(conversation: Expect) {
    sweep(conversation.data(), || Side::new(Client::new(SMALL)));
    check(|| Side::new(Client::new(SMALL)), conversation);
}

fn server(conversation: Expect) {
    sweep(conversation.data(), || Side::new(Server::new(SMALL)));
    check(|| Side::new(Server::new(SMALL)), conversation);
}

#[test]
fn answers_may_come_in_any_order() {
    caller(expect![[r#"
        << [0,{"ready":1}]
        -- call t7 say {"text":"hi"}
        >> [1,{"call":{"tool":"say","args":{"text":"hi"}}}]
        -- call t8 sing
        >> [2,{"call":{"tool":"sing"}}]
        << [2,{"failed":{"kind":"unknown_tool","message":"no such tool: sing"}}]
        == t8 {"failed":{"kind":"unknown_tool","message":"no such tool: sing"}}
        << [1,{"value":"hi"}]
        == t7 {"value":"hi"}
    "#]]);
}

#[test]
fn tools_are_listed_as_any_call_is_answered() {
    caller(expect![[r#"
        << [0,{"ready":1}]
        -- tools t1
        >> [1,"tools"]
        << [1,{"tools":[{"name":"say","description":"Says it","input":{"type":"object"}}]}]
        == t1 {"tools":[{"name":"say","description":"Says it","input":{"type":"object"}}]}
    "#]]);
    server(expect![[r#"
        << [1,"tools"]
        >> [0,{"ready":1}]
        == c0 "tools"
        -- down c0 {"tools":[{"name":"say","input":{}}]}
        >> [1,{"tools":[{"name":"say","input":{}}]}]
    "#]]);
}

#[test]
fn calls_wait_until_the_other_side_is_ready() {
    caller(expect![[r#"
        -- call t1 say
        -- up t1 {"part":{"text":"more"}}
        -- call t2 forget
        -- up t2 {"cancel":null}
        == t2 {"failed":{"kind":"cancelled","message":"the caller changed its mind"}}
        -- call t3 late {} quiet
        -- wait 5
        == t3 {"failed":{"kind":"timed_out","message":"no answer in time"}}
        -- close
        << [0,{"ready":1}]
        >> [1,{"call":{"tool":"say"}}]
        >> [1,{"part":{"text":"more"}}]
        >> [0,"bye"]
        << [1,{"text":"said"}]
        == t1 {"text":"said"}
        -- call t4 say
        == t4 {"failed":{"kind":"unavailable","message":"the conversation was ended"}}
        -- closed
        == close gone closed the conversation
    "#]]);
}

#[test]
fn a_reply_in_parts_asks_logs_and_keeps_its_call_alive() {
    caller(expect![[r#"
        << [0,{"ready":1}]
        -- call t1 talk {} quiet
        >> [1,{"call":{"tool":"talk","args":{}}}]
        -- wait 4
        << [1,{"begin":[null]}]
        == t1 {"begin":[null]}
        << [1,{"ask":[7,"sure?"]}]
        == t1 {"ask":[7,"sure?"]}
        -- up t1 {"answer":[7,"yes"]}
        >> [1,{"answer":[7,"yes"]}]
        -- wait 4
        << [1,{"part":{"bytes":{"hex":"00ff","media":"image/png","last":true}}}]
        == t1 {"part":{"bytes":{"hex":"00ff","media":"image/png","last":true}}}
        << [1,{"log":"careful"}]
        == t1 {"log":"careful"}
        -- wait 5
        >> [1,{"cancel":null}]
        == t1 {"failed":{"kind":"timed_out","message":"no answer in time"}}
        << [1,{"end":null}]
        == Stray("[1,{\"end\":null}]")
    "#]]);
}

#[test]
fn what_cannot_be_asked_is_refused_at_once() {
    caller(expect![[r#"
        << [0,{"ready":1}]
        -- foreign t0
        == t0 {"failed":{"kind":"invalid_arguments","message":"a native call of another wire"}}
        -- call t1 a
        >> [1,{"call":{"tool":"a"}}]
        -- call t2 b
        >> [2,{"call":{"tool":"b"}}]
        -- call t3 c
        >> [3,{"call":{"tool":"c"}}]
        -- call t4 d
        == t4 {"failed":{"kind":"unavailable","message":"more than 3 calls at a time"}}
        -- lost
        == t1 {"failed":{"kind":"gone","message":"lost"}}
        == t2 {"failed":{"kind":"gone","message":"lost"}}
        == t3 {"failed":{"kind":"gone","message":"lost"}}
        == close gone lost
        -- call t5 e
        == t5 {"failed":{"kind":"gone","message":"lost"}}
    "#]]);
}

#[test]
fn whoever_begins_otherwise_is_not_trusted() {
    caller(expect![[r#"
        -- call t1 a
        << hello
        == close broke_protocol began with `hello` instead of `[0,{"ready":1}]`
        -- lost
        == t1 {"failed":{"kind":"gone","message":"lost"}}
    "#]]);
}

#[test]
fn noise_and_long_lines_harm_nobody() {
    caller(expect![[r#"
        << [0,{"ready":1}]
        -- call t1 a
        >> [1,{"call":{"tool":"a"}}]
        -- lines 2 noise
        == Stray("noise") 2 times
        << [9,{"value":1}]
        == Stray("[9,{\"value\":1}]")
        << [1,{"failed":{"kind":"odd","message":""}}]
        == Stray("[1,{\"failed\":{\"kind\":\"odd\",\"message\":\"\"}}]")
        << [0,{"failed":{"kind":"too_large","message":"line longer than the limit"}}]
        == Ignored("line longer than the limit")
        -- bytes \{78*201}\n
        == Ignored("line longer than the limit of 200 bytes")
        << [1,{"value":1}]
        == t1 {"value":1}
    "#]]);
}

#[test]
fn a_slow_caller_stops_the_reading() {
    caller(expect![[r#"
        -- take 1
        << [0,{"ready":1}]
        -- call t1 count
        >> [1,{"call":{"tool":"count"}}]
        -- bytes [1,{"progress":1}]\n[1,{"progress":2}]\n[1,{"progress":3}]\n[1,{"value":4}]\n
        == t1 {"progress":1}
        == pause
        -- take 2
        == t1 {"progress":2}
        == t1 {"progress":3}
        == more
        -- take 9
        == t1 {"value":4}
    "#]]);
}

#[test]
fn a_server_is_asked_and_answers() {
    server(expect![[r#"
        -- begin
        >> [0,{"ready":1}]
        << [1,{"call":{"tool":"a","args":{"x": 1},"progress":true,"parts":true,"trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}]
        == c0 {"call":{"tool":"a","args":{"x": 1},"progress":true,"parts":true,"trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
        << [2,{"native":{"method":"ping","body":[]}}]
        == c1 {"native":{"method":"ping","body":[]}}
        << [1,{"part":{"json":[1]}}]
        == c0 {"part":{"json":[1]}}
        -- down c0 {"progress":1}
        >> [1,{"progress":1}]
        -- down c1 {"native":{}}
        >> [2,{"native":{}}]
        << [1,{"end":[0]}]
        == c0 {"end":[0]}
        << [0,"bye"]
        -- down c0 {"value":1}
        >> [1,{"value":1}]
        == close well
    "#]]);
}

#[test]
fn a_cancelled_call_gets_no_answer_and_its_number_may_come_again() {
    server(expect![[r#"
        -- begin
        >> [0,{"ready":1}]
        << [1,{"call":{"tool":"a"}}]
        == c0 {"call":{"tool":"a"}}
        << [1,{"cancel":["bored"]}]
        == c0 {"cancel":["bored"]}
        << [1,{"call":{"tool":"b"}}]
        == c1 {"call":{"tool":"b"}}
        -- down c0 {"value":"late"}
        -- down c1 {"value":"right"}
        >> [1,{"value":"right"}]
        << [1,{"end":null}]
        == Stray("[1,{\"end\":null}]")
    "#]]);
}

#[test]
fn answers_are_owed_behind_the_end() {
    server(expect![[r#"
        -- begin
        >> [0,{"ready":1}]
        << [1,{"call":{"tool":"a"}}]
        == c0 {"call":{"tool":"a"}}
        -- bytes [2,{"ca
        -- closed
        == Stray("[2,{\"ca")
        == pause
        -- down c0 {"failed":{"kind":"failed","code":7,"message":"no luck","detail":{}}}
        >> [1,{"failed":{"kind":"failed","code":7,"message":"no luck","detail":{}}}]
        == close well
    "#]]);
}

#[test]
fn a_server_says_what_it_cannot_take() {
    server(expect![[r#"
        -- begin
        >> [0,{"ready":1}]
        << noise
        >> [0,{"failed":{"kind":"broke_protocol","message":"not a line of this wire"}}]
        -- bytes \{78*201}\n
        >> [0,{"failed":{"kind":"too_large","message":"line longer than the limit of 200 bytes"}}]
        << [1,{"part":{"bytes":{"hex":"0"}}}]
        >> [0,{"failed":{"kind":"broke_protocol","message":"a value that is none"}}]
        << [1,{"end":null}]
        == Stray("[1,{\"end\":null}]")
        << [1,{"call":{"tool":"a"}}]
        == c0 {"call":{"tool":"a"}}
        << [2,{"call":{"tool":"a"}}]
        == c1 {"call":{"tool":"a"}}
        << [3,{"call":{"tool":"a"}}]
        == c2 {"call":{"tool":"a"}}
        << [4,{"call":{"tool":"a"}}]
        >> [4,{"failed":{"kind":"unavailable","message":"more than 3 calls at a time"}}]
        << [1,{"call":{"tool":"a"}}]
        == close broke("call 1 cannot be asked now")
    "#]]);
}

#[test]
fn a_slow_tool_stops_the_reading() {
    server(expect![[r#"
        -- take 1
        >> [0,{"ready":1}]
        -- bytes [1,{"call":{"tool":"a"}}]\n[1,{"part":{"text":"b"}}]\n[1,{"part":{"text":"c"}}]\n[1,{"end":null}]\n
        == c0 {"call":{"tool":"a"}}
        == pause
        -- take 9
        == c0 {"part":{"text":"b"}}
        == c0 {"part":{"text":"c"}}
        == c0 {"end":null}
        == more
    "#]]);
}
