//! The ladder by which a program is started and left, with a clock that only a test moves.
//!
//! The program speaks the plain wire: `<< [0,{"ready":1}]` is its greeting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use expect_test::{Expect, expect};
use toolbus_engine::child::supervisor::{
    Comeback, Conversations, Event, Order, Restart, RunId, Supervisor, Why,
};
use toolbus_engine::child::{Exit, Meanwhile, Patience};
use toolbus_proto::channel::{Down, Farewell, Fault, Notice, Outbox, Proof, Readiness, Ticket, Up};
use toolbus_proto::tool::{Call, Failure, FailureKind};
use toolbus_testkit::plain::{Client, Limits};
use toolbus_testkit::transcript::{self, Clock, Player, Words};

const PATIENCE: Patience = Patience {
    start: Duration::from_secs(20),
    stop: Duration::from_secs(5),
    signal: Duration::from_secs(2),
    exit: Duration::from_millis(300),
    last_words: Duration::from_secs(1),
    back_off: Duration::from_millis(100),
    back_off_max: Duration::from_millis(300),
    meanwhile: Meanwhile::Wait,
    ..toolbus::wire::oracle::PATIENCE
};

fn check(expect: Expect) {
    transcript::check(|| Host::new(Restart::OnDemand), expect);
}

#[test]
fn a_goodbye_is_enough_for_most() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        << [0,{"ready":1}]
        >> [1,{"call":{"tool":"f"}}]
        << [1,{"value":1}]
        == t1 ok
        -- stop
        >> [0,"bye"]
        == r0 close stdin
        -- exited 0
        -- closed
        == r0 forget
    "#]]);
}

#[test]
fn what_is_waited_for_is_told_and_when_it_is_there() {
    check(expect![[r#"
        -- wake
        == r0 spawn
        -- wait 1.7
        -- wait 0.1
        == waits for the `ready` that an oracle begins with, `plain` has 20s for that
        -- wait 5
        << [0,{"ready":1}]
        == waits no more
    "#]]);
    check(expect![[r#"
        -- wake
        == r0 spawn
        -- wait 1.8
        == waits for the `ready` that an oracle begins with, `plain` has 20s for that
        -- exited 3
        == waits no more
        -- closed
        == r0 forget
    "#]]);
}

#[test]
fn stop_climbs_the_ladder() {
    check(expect![[r#"
        -- wake
        == r0 spawn
        << [0,{"ready":1}]
        -- stop
        >> [0,"bye"]
        == r0 close stdin
        -- wait 4.9
        -- wait 0.1
        == r0 terminate
        -- wait 2
        == r0 kill
        -- exited signal 9
        -- closed
        == r0 forget
    "#]]);
}

#[test]
fn who_is_not_even_moved_by_a_kill_is_looked_away_from() {
    check(expect![[r#"
        -- wake
        == r0 spawn
        << [0,{"ready":1}]
        -- kill
        >> [0,"bye"]
        == r0 kill
        -- wait 2
        == r0 forget
    "#]]);
}

#[test]
fn a_stop_while_it_starts_says_no_goodbye() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        -- stop
        == r0 close stdin
        == r0 terminate
        -- exited signal 15
        -- closed
        == t1 unavailable `plain` ended before it was ready
        == r0 forget
        -- call t2
        == t2 cancelled `plain` is being stopped
    "#]]);
}

#[test]
fn a_second_signal_kills_at_every_stage() {
    check(expect![[r#"
        -- wake
        == r0 spawn
        << [0,{"ready":1}]
        -- stop
        >> [0,"bye"]
        == r0 close stdin
        -- kill
        == r0 kill
        -- exited signal 9
        -- closed
        == r0 forget
    "#]]);
    check(expect![[r#"
        -- wake
        == r0 spawn
        << [0,{"ready":1}]
        -- stop
        >> [0,"bye"]
        == r0 close stdin
        -- exited 0 left
        == r0 terminate
        -- kill
        == r0 kill
        -- wait 0
        == r0 look
        -- session gone
        -- closed
        == r0 forget
    "#]]);
}

#[test]
fn a_stop_while_its_last_words_are_read_adds_nothing() {
    check(expect![[r#"
        -- wake
        == r0 spawn
        << [0,{"ready":1}]
        -- exited 0
        -- stop
        >> [0,"bye"]
        -- kill
        -- closed
        == r0 forget
    "#]]);
}

#[test]
fn a_session_that_outlives_its_leader_is_made_to_go() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        << [0,{"ready":1}]
        >> [1,{"call":{"tool":"f"}}]
        -- exited 3 left
        == r0 terminate
        -- wait 0.02
        == r0 look
        -- session left
        -- wait 1.98
        == r0 kill
        == r0 look
        -- session gone
        -- stderr it was my child
        -- closed
        == t1 gone `plain` ended with exit status 3 before it answered (it was my child)
        == r0 forget
    "#]]);
}

/// The leader ends by the signal, another process of its session does not: it gets no second
/// patience.
#[test]
fn a_session_goes_on_where_its_leader_was_on_the_ladder() {
    check(expect![[r#"
        -- wake
        == r0 spawn
        -- wait 20
        == r0 close stdin
        == r0 terminate
        -- wait 1
        -- exited signal 15 left
        -- wait 0.9
        == r0 look
        -- session left
        -- wait 0.1
        == r0 kill
        == r0 look
        -- session gone
        -- closed
        == r0 forget
    "#]]);
}

#[test]
fn a_process_that_escapes_with_a_pipe_is_waited_for_a_moment() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        << [0,{"ready":1}]
        >> [1,{"call":{"tool":"f"}}]
        -- exited 0
        -- wait 0.9
        -- wait 0.1
        == t1 gone `plain` ended with exit status 0 before it answered
        == r0 forget
    "#]]);
}

#[test]
fn an_answer_in_the_pipe_outlives_its_process() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        << [0,{"ready":1}]
        >> [1,{"call":{"tool":"f"}}]
        -- exited 0
        << [1,{"value":1}]
        == t1 ok
        -- closed
        == r0 forget
    "#]]);
}

#[test]
fn output_that_ends_before_its_process_ends_it() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        << [0,{"ready":1}]
        >> [1,{"call":{"tool":"f"}}]
        -- eof
        -- wait 0.3
        == r0 close stdin
        == r0 terminate
        -- call t2
        == r1 spawn
        -- exited signal 15 of r0
        -- closed
        == t1 gone `plain` ended before it answered
        == r0 forget
    "#]]);
}

#[test]
fn who_does_not_listen_is_asked_no_more() {
    check(expect![[r#"
        -- wake
        == r0 spawn
        << [0,{"ready":1}]
        -- deaf
        -- call t1
        == r1 spawn
    "#]]);
}

#[test]
fn a_start_that_fails_is_put_off_from_the_third_on_and_never_for_long() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        -- spawn failed
        == t1 unavailable no such program
        == r0 forget
        -- call t2
        == r1 spawn
        -- spawn failed
        == t2 unavailable no such program
        == r1 forget
        -- call t3
        -- call t4
        -- wait 0.1
        == r2 spawn
        -- spawn failed
        == t3 unavailable no such program
        == t4 unavailable no such program
        == r2 forget
        -- call t5
        -- wait 0.2
        == r3 spawn
        -- spawn failed
        == t5 unavailable no such program
        == r3 forget
        -- call t6
        -- wait 0.3
        == r4 spawn
        << [0,{"ready":1}]
        >> [1,{"call":{"tool":"f"}}]
        -- exited 1
        -- closed
        == t6 gone `plain` ended with exit status 1 before it answered
        == r4 forget
        -- call t7
        == r5 spawn
    "#]]);
}

#[test]
fn where_calls_do_not_wait_for_a_start_that_is_put_off_they_fail_at_once() {
    let patience = Patience { meanwhile: Meanwhile::Refuse, ..PATIENCE };
    let host = || Host::with(patience, Restart::OnDemand);
    transcript::check(
        host,
        expect![[r#"
            -- call t1
            == r0 spawn
            -- spawn failed
            == t1 unavailable no such program
            == r0 forget
            -- call t2
            == r1 spawn
            -- spawn failed
            == t2 unavailable no such program
            == r1 forget
            -- call t3
            == t3 unavailable `plain` failed to start 2 times; next try in 100 ms
            -- wait 0.1
            -- call t4
            == r2 spawn
            << [0,{"ready":1}]
            >> [1,{"call":{"tool":"f"}}]
        "#]],
    );
}

#[test]
fn calls_that_wait_for_a_start_that_is_put_off_can_be_stopped() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        -- spawn failed
        == t1 unavailable no such program
        == r0 forget
        -- call t2
        == r1 spawn
        -- spawn failed
        == t2 unavailable no such program
        == r1 forget
        -- call t3
        -- cancel t3
        == t3 cancelled the caller changed its mind
        -- call t4
        -- stop
        == t4 unavailable `plain` ended before it was ready
        == r2 forget
    "#]]);
}

#[test]
fn once_is_enough_where_nothing_is_to_be_restarted() {
    transcript::check(
        || Host::new(Restart::Never),
        expect![[r#"
            -- wake
            == r0 spawn
            << [0,{"ready":1}]
            -- exited 0
            -- closed
            == r0 forget
            -- call t1
            == t1 unavailable `plain` has ended and is not to be started again
        "#]],
    );
}

#[test]
fn what_breaks_the_protocol_is_told_when_its_process_is_gone() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        << hello
        == r0 close stdin
        == r0 terminate
        -- stderr usage: plain
        -- exited 2
        -- closed
        == t1 broke_protocol began with `hello` instead of `[0,{"ready":1}]` (usage: plain)
        == r0 forget
    "#]]);
}

#[test]
fn the_end_of_an_output_that_is_not_read_any_more_is_not_waited_for() {
    check(expect![[r#"
        -- call t1
        == r0 spawn
        << hello
        == r0 close stdin
        == r0 terminate
        -- exited 2
        -- mute
        == t1 broke_protocol began with `hello` instead of `[0,{"ready":1}]`
        == r0 forget
    "#]]);
}

#[test]
fn a_program_may_be_started_again_by_itself() {
    const COMEBACK: Comeback = Comeback {
        first: Duration::from_millis(500),
        longest: Duration::from_secs(1),
        proven: Duration::from_secs(60),
        starts_max: 3,
    };
    let host = || Host::new(Restart::Always(COMEBACK));
    transcript::check(
        host,
        expect![[r#"
            -- wake
            == r0 spawn
            -- wait 0
            << [0,{"ready":1}]
            -- stderr oh no
            -- exited 1
            -- closed
            == r0 forget
            == r0 departs: Exited(Code(1)) (oh no), next: In(500ms)
            -- wait 0.4
            -- wait 0.1
            == r1 spawn
            << [0,{"ready":1}]
            -- wait 60
            -- exited signal 9 left
            == r1 terminate
            -- closed
            == r1 departs: Exited(Signal(9)) (), next: In(500ms)
            -- wait 0.5
            == r1 look
            == r2 spawn
            -- wait 20
            == r2 close stdin
            == r2 terminate
            == r1 forget
            == r2 departs: Late (), next: In(1s)
            -- exited 0
            -- closed
            == r2 forget
            -- wait 1
            == r3 spawn
            -- spawn failed
            == r3 forget
            == r3 departs: no such program (), next: In(1s)
            -- wait 1
            == r4 spawn
            -- exited 1
            -- closed
            == r4 forget
            == r4 departs: Exited(Code(1)) (), next: GivenUp(3)
            -- wait 3600
        "#]],
    );
}

/// Its exit may be heard of before its last line, which says more.
#[test]
fn what_the_end_of_its_output_shows_is_told_though_all_else_has_ended() {
    let (now, run) = (Instant::now(), RunId(0));
    let mut supervisor = Supervisor::new("plain", PATIENCE, Restart::OnDemand);
    supervisor.wake(now).unwrap();
    supervisor.handle_stderr_closed(now, run, |_| {});
    supervisor.handle(now, run, Event::Exited(Exit::Code(0), false));
    let failure = Failure::new(FailureKind::BrokeProtocol, "half a line");
    let broken = Readiness::Broken(Fault { failure, farewell: Farewell::Abrupt });
    supervisor.handle(now, run, Event::Eof(&broken, Proof::Ready));
    let orders: Vec<_> = std::iter::from_fn(|| supervisor.poll_order()).collect();
    let [(_, Order::Spawn), (_, Order::Fail(why)), (_, Order::Forget)] = &orders[..] else {
        panic!("{orders:?}");
    };
    assert_eq!(why.message, "half a line");
}

#[test]
fn what_it_died_of_may_be_heard_after_its_exit() {
    let (now, run) = (Instant::now(), RunId(0));
    let mut supervisor = Supervisor::new("plain", PATIENCE, Restart::OnDemand);
    supervisor.wake(now).unwrap();
    supervisor.handle(now, run, Event::Exited(Exit::Code(3), false));
    supervisor.handle(now, run, Event::Eof(&Readiness::Opening, Proof::AskAnother));
    let orders: Vec<_> = std::iter::from_fn(|| supervisor.poll_order()).collect();
    assert!(matches!(orders[..], [(_, Order::Spawn), (_, Order::MoveOn)]), "{orders:?}");
}

#[test]
fn who_is_known_by_its_end_is_told_with_it() {
    let (now, run) = (Instant::now(), RunId(0));
    let mut supervisor = Supervisor::new("plain", PATIENCE, Restart::OnDemand);
    supervisor.set_judge(Arc::new(|_, errors, exit| {
        exit == Some(Exit::Code(2)) && errors.contains(&"what?")
    }));
    supervisor.wake(now).unwrap();
    supervisor.handle_stderr(now, run, b"what?\n", |_| {});
    supervisor.handle(now, run, Event::Exited(Exit::Code(2), false));
    let mut orders = std::iter::from_fn(|| supervisor.poll_order());
    let failure = orders.find_map(|(_, order)| match order {
        Order::Fail(failure) => Some(failure),
        _ => None,
    });
    let words = failure.unwrap().last_words.unwrap();
    assert_eq!((words.exit, &words.stderr[..]), (Some(Exit::Code(2)), &["what?".to_owned()][..]));
    assert!(words.is_unproven);
}

/// Hands that only write down what they are told to do.
struct Host {
    clock: Clock,
    conversations: Conversations<Client>,
    run: RunId,
    input: BytesMut,
}

impl Host {
    fn new(restart: Restart) -> Host {
        Host::with(PATIENCE, restart)
    }

    fn with(patience: Patience, restart: Restart) -> Host {
        let make = || Client::new(Limits::default());
        let supervisor = Supervisor::new("plain", patience, restart);
        Host {
            clock: Clock::new(),
            conversations: Conversations::new(supervisor, make),
            run: RunId(0),
            input: BytesMut::new(),
        }
    }

    fn exited(&mut self, mut words: Words<'_>) {
        let exit = if words.is("signal") { Exit::Signal } else { Exit::Code };
        let exit = exit(words.word().unwrap().parse().unwrap());
        let session_left = words.is("left");
        if words.is("of") {
            self.run = RunId(words.rest().strip_prefix('r').unwrap().parse().unwrap());
        }
        self.tell(|it, now, run| it.handle(now, run, Event::Exited(exit, session_left)));
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Supervisor, Instant, RunId)) {
        let (now, run) = (self.clock.now, self.run);
        self.conversations.act(now, |supervisor| tell(supervisor, now, run));
    }

    fn drain(&mut self) -> Vec<String> {
        let now = self.clock.now;
        let mut came = Vec::new();
        self.drain_downs(&mut came);
        let mut out = Outbox::new();
        self.conversations.poll_transmit(self.run, &mut out);
        let out = out.take();
        came.extend(str::from_utf8(&out).unwrap().lines().map(|line| format!(">> {line}")));
        self.drain_downs(&mut came);
        while let Some(notice) = self.conversations.poll_notice() {
            match notice {
                Notice::Waiting(Some(what)) => came.push(format!("== waits for {what}")),
                Notice::Waiting(None) => came.push("== waits no more".to_owned()),
                _ => {}
            }
        }
        while let Some((run, order)) = self.conversations.poll_order() {
            let order = match order {
                Order::Spawn => {
                    self.run = run;
                    self.input.clear();
                    "spawn"
                }
                Order::CloseStdin => "close stdin",
                Order::Terminate => "terminate",
                Order::Kill => "kill",
                Order::LookAtSession => "look",
                Order::Forget => "forget",
                order => panic!("{order:?} is done with the conversation"),
            };
            came.push(format!("== r{} {order}", run.0));
        }
        while let Some(departure) = self.conversations.act(now, Supervisor::poll_departure) {
            let (run, words) = (departure.run.0, departure.last_words.stderr.join(", "));
            let why = match departure.why {
                Why::Unfit(failure) => failure.message,
                why => format!("{why:?}"),
            };
            came.push(format!("== r{run} departs: {why} ({words}), next: {:?}", departure.next));
        }
        came
    }

    fn drain_downs(&mut self, came: &mut Vec<String>) {
        while let Some((Ticket(ticket), down)) = self.conversations.poll_down() {
            let Down::Done(outcome) = down else { panic!("the oracle does not stream: {down:?}") };
            came.push(match outcome {
                Ok(_) => format!("== t{ticket} ok"),
                Err(Failure { kind, message, last_words, .. }) => {
                    let words = last_words.map_or(Vec::new(), |words| words.stderr);
                    let words = words.iter().map(|line| format!(" ({line})")).collect::<String>();
                    format!("== t{ticket} {kind} {message}{words}")
                }
            });
        }
    }
}

impl Player for Host {
    fn happen(&mut self, what: &str) -> Vec<String> {
        let is_later = self.clock.happen(what);
        let now = self.clock.now;
        if is_later {
            // As the keeper does: once, when the earliest of all moments has come.
            if self.conversations.poll_timeout().is_some_and(|until| until <= now) {
                self.conversations.handle_timeout(now);
            }
            return self.drain();
        }
        let mut words = Words::new(what);
        let ticket = |word: Option<&str>| {
            Ticket(word.and_then(|word| word.strip_prefix('t')).unwrap().parse().unwrap())
        };
        match words.word() {
            Some("call") => {
                let ticket = ticket(words.word());
                self.conversations.call(now, ticket, Call::tool(now, "f", None));
            }
            Some("cancel") => {
                self.conversations.up(now, ticket(words.word()), &Up::Cancel(None));
            }
            Some("wake") => self.tell(|it, now, _| drop(it.wake(now))),
            Some("spawn") => {
                let failure = Failure::new(FailureKind::Unavailable, "no such program");
                self.tell(|it, now, run| it.handle(now, run, Event::SpawnFailed(&failure)));
            }
            Some("eof") => self.conversations.handle_eof(now, self.run, Some(&mut self.input)),
            Some("deaf") => self.tell(|it, now, run| it.handle(now, run, Event::Deaf)),
            Some("closed") => {
                self.conversations.handle_eof(now, self.run, Some(&mut self.input));
                self.tell(|it, now, run| it.handle_stderr_closed(now, run, |_| {}));
            }
            Some("mute") => self.tell(|it, now, run| it.handle_stderr_closed(now, run, |_| {})),
            Some("stderr") => {
                let line = format!("{}\n", words.rest());
                self.tell(|it, now, run| it.handle_stderr(now, run, line.as_bytes(), |_| {}));
            }
            Some("exited") => self.exited(words),
            Some("session") => {
                let is_left = words.is("left");
                self.tell(|it, now, run| it.handle(now, run, Event::Session { is_left }));
            }
            Some("stop") => self.tell(|it, now, _| it.stop(now)),
            Some("kill") => self.tell(|it, now, _| it.stop_at_once(now)),
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.conversations.handle_bytes(self.clock.now, self.run, &mut self.input);
        self.drain()
    }
}
