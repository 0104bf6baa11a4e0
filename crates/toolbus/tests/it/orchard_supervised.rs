//! A provider and its supervisor: how they part, with a clock that only a test moves.

use std::time::Instant;

use bytes::BytesMut;
use expect_test::{Expect, expect};
use toolbus_engine::child::Exit;
use toolbus_engine::child::supervisor::{Conversations, Event, Order, Restart, RunId, Supervisor};
use toolbus_proto::channel::{Down, Outbox, Ticket};
use toolbus_proto::orchard::{Client, Settings};
use toolbus_proto::tool::Call;
use toolbus_testkit::transcript::{self, Clock, Player, Words};

fn check(expect: Expect) {
    transcript::sweep(expect.data(), Host::new);
    transcript::check(Host::new, expect);
}

#[test]
fn its_input_is_closed_when_it_has_answered_the_goodbye() {
    check(expect![[r#"
        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        << {"id":1,"result":{"schema":{"name":"e","protocol":"1","actions":{"a":{}}}}}
        >> {"id":2,"method":"configure","params":{"config":{}}}
        << {"id":2,"result":{}}
        >> {"id":3,"method":"execute","params":{"action":"a","attrs":{}}}
        << {"id":3,"result":{}}
        == t1 ok {}
        -- stop
        >> {"id":4,"method":"shutdown","params":{}}
        -- wait 4
        << {"id":4,"result":{}}
        == close stdin
        -- wait 2
        == sigterm
        -- wait 2
        == sigkill
        -- exited 9
        == forget
    "#]]);
}

#[test]
fn an_answer_to_the_goodbye_is_not_waited_for_without_end() {
    check(expect![[r#"
        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        << {"id":1,"result":{"schema":{"name":"e","protocol":"1","actions":{"a":{}}}}}
        >> {"id":2,"method":"configure","params":{"config":{}}}
        -- stop
        == t1 cancelled cancelled
        >> {"id":3,"method":"shutdown","params":{}}
        -- wait 5
        == close stdin
        -- exited 0
        == forget

        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        << {"id":1,"result":{"schema":{"name":"e","protocol":"1","actions":{"a":{}}}}}
        >> {"id":2,"method":"configure","params":{"config":{}}}
        -- stop
        == t1 cancelled cancelled
        >> {"id":3,"method":"shutdown","params":{}}
        -- closed
        == close stdin
    "#]]);
}

#[test]
fn a_provider_that_breaks_a_rule_is_told_goodbye() {
    check(expect![[r#"
        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        << {"id":1,"result":{"schema":{"name":"e","protocol":"1","actions":{"a":{}}}}}
        >> {"id":2,"method":"configure","params":{"config":{}}}
        << {"id":2,"result":{}}
        >> {"id":3,"method":"execute","params":{"action":"a","attrs":{}}}
        -- stderr oops
        << {"id":3}
        == t1 broke_protocol provider `e` answered request 3 with neither `result` nor `error` (oops)
        >> {"id":4,"method":"shutdown","params":{}}
        << {"id":4,"result":{}}
        == close stdin
        -- exited 0
        == forget
    "#]]);
}

#[test]
fn a_provider_that_cannot_be_read_is_killed() {
    check(expect![[r#"
        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        -- stderr starting
        << {
        == sigkill
        -- exited 9
        == t1 broke_protocol provider `e` wrote a broken frame: not JSON: unexpected end at byte 1 (starting) hint looks like pretty-printed JSON, each frame must be one line
        == forget
    "#]]);
}

#[test]
fn a_provider_that_is_late_is_killed() {
    check(expect![[r#"
        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        -- stderr waiting for database...
        -- wait 5
        == sigkill
        -- exited 9
        == t1 timed_out provider `e` did not answer `describe` within 5s (waiting for database...)
        == forget

        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        << {"id":1,"result":{"schema":{"name":"e","protocol":"1","actions":{"a":{}}}}}
        >> {"id":2,"method":"configure","params":{"config":{}}}
        -- wait 30
        == t1 timed_out provider `e` did not answer `configure` within 30s
        == sigkill
    "#]]);
}

#[test]
fn how_a_provider_ended_is_told_with_what_it_was_doing() {
    check(expect![[r#"
        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        -- exited 2
        == t1 unavailable provider `e` exited with status 2 during `describe`
        == forget

        -- call t1
        >> {"id":1,"method":"describe","params":{}}
        == spawn
        << {"id":1,"result":{"schema":{"name":"e","protocol":"1","actions":{"a":{}}}}}
        >> {"id":2,"method":"configure","params":{"config":{}}}
        << {"id":2,"result":{}}
        >> {"id":3,"method":"execute","params":{"action":"a","attrs":{}}}
        -- call t2
        -- stderr panic
        -- exited 2
        == t1 gone provider `e` exited with status 2 during `execute` of `a` (panic)
        == spawn
        == forget
    "#]]);
}

/// The first process; what the next one is asked is of no interest here.
const RUN: RunId = RunId(0);

/// Hands that only write down what they are told to do.
struct Host {
    clock: Clock,
    conversations: Conversations<Client>,
    input: BytesMut,
}

impl Host {
    fn new() -> Host {
        let make = || Client::new(Settings::new("e"));
        let supervisor = Supervisor::new("e", toolbus::wire::orchard::PATIENCE, Restart::OnDemand);
        Host {
            clock: Clock::new(),
            conversations: Conversations::new(supervisor, make),
            input: BytesMut::new(),
        }
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Supervisor, Instant)) {
        let now = self.clock.now;
        self.conversations.act(now, |supervisor| tell(supervisor, now));
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        while self.conversations.poll_notice().is_some() {}
        let mut orders = Vec::new();
        loop {
            self.drain_downs(&mut came);
            let mut out = Outbox::new();
            self.conversations.poll_transmit(RUN, &mut out);
            for line in out.take().split_inclusive(|byte| *byte == b'\n') {
                came.push(format!(">> {}", str::from_utf8(line).unwrap().trim_end()));
            }
            self.drain_downs(&mut came);
            let Some((_, order)) = self.conversations.poll_order() else { break };
            orders.push(match order {
                Order::Spawn => "== spawn",
                Order::CloseStdin => "== close stdin",
                Order::Terminate => "== sigterm",
                Order::Kill => "== sigkill",
                Order::Forget => "== forget",
                _ => continue,
            });
        }
        came.extend(orders.into_iter().map(str::to_owned));
        came
    }

    fn drain_downs(&mut self, came: &mut Vec<String>) {
        while let Some((ticket, down)) = self.conversations.poll_down() {
            let Down::Done(outcome) = down else { panic!("a provider only answers: {down:?}") };
            let shown = match outcome {
                Ok(toolbus_proto::tool::Outcome::Value(outputs)) => format!("ok {outputs}"),
                Ok(other) => panic!("unexpected {other:?}"),
                Err(failure) => {
                    let words = failure.last_words.unwrap_or_default();
                    let stderr = words.stderr.join(" / ");
                    let stderr = if stderr.is_empty() { stderr } else { format!(" ({stderr})") };
                    let hint = words.hint.map_or(String::new(), |hint| format!(" hint {hint}"));
                    format!("{} {}{stderr}{hint}", failure.kind, failure.message)
                }
            };
            came.push(format!("== t{} {shown}", ticket.0));
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
        let now = self.clock.now;
        match words.word() {
            Some("call") => {
                let ticket = words.rest().strip_prefix('t').unwrap().parse().unwrap();
                self.conversations.call(now, Ticket(ticket), Call::tool(now, "a", None));
            }
            Some("stop") => self.tell(Supervisor::stop),
            Some("stderr") => {
                let line = format!("{}\n", words.rest());
                self.tell(|it, now| it.handle_stderr(now, RUN, line.as_bytes(), |_| {}));
            }
            Some("closed") => self.conversations.handle_eof(now, RUN, Some(&mut self.input)),
            Some("exited") => {
                let exit = match words.rest().parse().unwrap() {
                    9 => Exit::Signal(9),
                    code => Exit::Code(code),
                };
                self.tell(|it, now| it.handle(now, RUN, Event::Exited(exit, false)));
                self.conversations.handle_eof(now, RUN, Some(&mut self.input));
                self.tell(|it, now| it.handle_stderr_closed(now, RUN, |_| {}));
            }
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.conversations.handle_bytes(self.clock.now, RUN, &mut self.input);
        self.drain()
    }
}
