//! What a caller may ask and learn through two hops.

use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_engine::calls::{Inbox, Pressure, RunningCall};
use toolbus_engine::client::Sharing;
use toolbus_proto::channel::{AskId, Down, Up};
use toolbus_proto::tool::{Call, Code, Failure, FailureKind, Outcome, Part, What};

use super::tools::weight;
use super::{Chain, call, is_done, json, part, run, stream, value};

const BUFFERS: [usize; 4] = [1, 7, 4096, 1 << 16];

fn chain() -> Chain {
    Chain::new(Sharing::Shared, 4096)
}

#[test]
fn calls_pass_whatever_the_wire_holds() {
    for buffer in BUFFERS {
        run(async {
            let chain = Chain::new(Sharing::Shared, buffer);
            assert_eq!(
                chain.outcome(call("echo", r#"{"x": 1.50}"#)).await,
                value(r#"{"x": 1.50}"#)
            );
            let failure = chain.outcome(call("fail", "{}")).await.unwrap_err();
            let code = Some(Code::Word("no_luck".into()));
            assert_eq!((failure.kind, failure.code), (FailureKind::Failed, code));
            let native = What::Native {
                wire: toolbus_testkit::plain::WIRE,
                method: Bytes::from_static(b"ping"),
                body: Bytes::from_static(b"[1, 2]"),
            };
            let answer = chain.outcome(Call::of(Instant::now(), native)).await;
            assert_eq!(answer, Ok(Outcome::Native(Bytes::from_static(b"[1, 2]"))));
        });
    }
}

#[test]
fn many_calls_in_one_breath_are_all_answered() {
    run(async {
        let chain = chain();
        let calls: Vec<_> = (0..500).map(|n| chain.call(call("echo", &n.to_string()))).collect();
        for (n, (inbox, uplink)) in calls.into_iter().enumerate() {
            assert_eq!(inbox.whole(uplink).await, value(&n.to_string()));
        }
        let tools = chain.end().await;
        assert_eq!((tools.started.get(), tools.cancelled.get()), (500, 0));
    });
}

/// The serving machine pauses when its queue is full; its hands must ask it again.
#[test]
fn calls_behind_many_that_never_answer_are_answered_too() {
    run(async {
        let chain = chain();
        let silent: Vec<_> = (0..200).map(|_| chain.call(call("never", "{}"))).collect();
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        drop(silent);
        chain.tools.cancelled(200).await;
        assert_eq!(chain.tools.running(), 0);
    });
}

#[test]
fn parts_go_both_ways_at_once() {
    for buffer in BUFFERS {
        run(async {
            let chain = Chain::new(Sharing::Alone, buffer);
            let (inbox, uplink) = chain.call(stream("return", "{}"));
            let (sent, received) = tokio::join!(send_parts(&inbox, &uplink, 40, 50), async {
                let mut total = 0;
                loop {
                    let down = inbox.next(&uplink).await;
                    total += weight(&down);
                    if is_done(&down) {
                        assert_eq!(down, Down::Done(Ok(Outcome::End(Some(json("\"end\""))))));
                        return total;
                    }
                }
            });
            assert_eq!((sent, received), (2000, 2000));
        });
    }
}

/// Sends `count` parts of `len` bytes and the end, as fast as is allowed.
pub(super) async fn send_parts(
    inbox: &Inbox,
    uplink: &RunningCall,
    count: usize,
    len: usize,
) -> usize {
    for _ in 0..count {
        if uplink.send(Up::Part(part(len))) == Pressure::Full {
            inbox.room().await;
        }
    }
    let _ = uplink.send(Up::End(Some(json("\"end\""))));
    count * len
}

#[test]
fn a_question_finds_its_answer() {
    run(async {
        let chain = chain();
        let (inbox, uplink) = chain.call(call("ask", "\"sure?\""));
        assert_eq!(inbox.next(&uplink).await, Down::Ask(AskId(7), json("\"sure?\"")));
        assert_eq!(uplink.send(Up::Answer(AskId(7), json("[true]"))), Pressure::Ready);
        assert_eq!(inbox.whole(uplink).await, value("[true]"));
    });
}

#[test]
fn progress_is_coalesced_and_never_behind_its_answer() {
    run(async {
        let chain = chain();
        let (inbox, uplink) = chain.call(call("progress", "100000"));
        let mut last = 0;
        let mut count = 0;
        loop {
            match inbox.next(&uplink).await {
                Down::Progress(step) => {
                    let step: usize = step.as_str().parse().unwrap();
                    assert!(last < step, "{step} behind {last}");
                    last = step;
                    count += 1;
                }
                down => break assert_eq!(down, Down::Done(value("100000"))),
            }
        }
        assert!(count < 100_000, "{count} of 100000 were told");
        let tools = chain.end().await;
        assert_eq!(tools.cancelled.get(), 0);
    });
}

#[test]
fn a_cancel_travels_to_the_far_end_and_ends_the_call_once() {
    run(async {
        let chain = chain();
        let (inbox, uplink) = chain.call(call("never", "{}"));
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        assert_eq!(uplink.send(Up::Cancel(Some(json("\"bored\"")))), Pressure::Ready);
        let Down::Done(Err(failure)) = inbox.next(&uplink).await else { panic!("not the end") };
        assert_eq!(failure.kind, FailureKind::Cancelled);
        chain.tools.cancelled(1).await;
        drop(uplink);
        assert_eq!(chain.outcome(call("echo", "2")).await, value("2"));
        let tools = chain.end().await;
        assert_eq!((tools.started.get(), tools.ended.get(), tools.cancelled.get()), (3, 3, 1));
    });
}

#[test]
fn dropping_the_uplink_cancels() {
    run(async {
        let chain = chain();
        let (_inbox, uplink) = chain.call(call("never", "{}"));
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        drop(uplink);
        chain.tools.cancelled(1).await;
        assert_eq!(chain.tools.running(), 0);
    });
}

#[test]
fn a_deadline_ends_the_call_at_the_caller_and_cancels_it_at_the_far_end() {
    run(async {
        let chain = chain();
        // A deadline that is over before the far end has heard of the call cancels nothing there.
        let mut quiet = Duration::from_millis(1);
        while chain.tools.started.get() == 0 {
            let mut late = call("never", "{}");
            late.deadline.quiet = Some(quiet);
            let failure = chain.outcome(late).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::TimedOut);
            quiet *= 2;
        }
        chain.tools.cancelled(1).await;
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
    });
}

/// A peer that never stops talking must not stop the clock.
#[test]
fn a_deadline_is_kept_while_others_talk_without_end() {
    run(async {
        let chain = Chain::new(Sharing::Alone, 1 << 16);
        let (inbox, uplink) = chain.call(call("count", "[1000000000, 10]"));
        let mut late = call("never", "{}");
        late.deadline.total = Some(Duration::from_millis(5));
        let late = chain.outcome(late);
        let reader = async { while !is_done(&inbox.next(&uplink).await) {} };
        let failure = tokio::select! {
            outcome = late => outcome.unwrap_err(),
            () = reader => panic!("the stream ended"),
        };
        assert_eq!(failure.kind, FailureKind::TimedOut);
    });
}

#[test]
fn an_early_answer_frees_the_rest_of_the_input() {
    for sharing in [Sharing::Alone, Sharing::Shared] {
        run(async {
            let chain = Chain::new(sharing, 64);
            let (inbox, uplink) = chain.call(stream("early", "{}"));
            // Far more than anybody would keep: it can only pass if it is thrown away.
            send_parts(&inbox, &uplink, 400, 10_000).await;
            assert_eq!(inbox.whole(uplink).await, value("\"enough\""));
            // Nobody waits for the room of a call that is over.
            assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        });
    }
}

#[test]
fn what_is_cut_ends_every_call_once() {
    run(async {
        let chain = chain();
        let calls: Vec<_> = (0..20).map(|_| chain.call(call("never", "{}"))).collect();
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        chain.far_cable.cut();
        for (inbox, uplink) in calls {
            let failure = inbox.whole(uplink).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Gone);
        }
        chain.tools.cancelled(20).await;
        // The near connection lives, the far one does not come back by itself.
        let failure = chain.outcome(call("echo", "2")).await.unwrap_err();
        assert_eq!(
            (failure.kind, &*failure.message),
            (FailureKind::Gone, "closed the conversation")
        );
    });
}

#[test]
fn dropping_a_connection_ends_its_calls() {
    run(async {
        let chain = chain();
        let (inbox, uplink) = chain.call(call("never", "{}"));
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        let tools = chain.end().await;
        let expected = Failure::new(FailureKind::Gone, "the connection was closed");
        assert_eq!(inbox.whole(uplink).await, Err(expected));
        assert_eq!((tools.cancelled.get(), tools.running()), (1, 0));
    });
}

#[test]
fn dropping_the_serving_ends_what_it_had_under_way() {
    run(async {
        let chain = chain();
        let (inbox, uplink) = chain.call(call("never", "{}"));
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        chain.fronts[1].abort();
        chain.tools.cancelled(1).await;
        assert_eq!(inbox.whole(uplink).await.unwrap_err().kind, FailureKind::Gone);
    });
}

#[test]
fn a_goodbye_lets_what_runs_finish() {
    run(async {
        let chain = chain();
        let (inbox, uplink) = chain.call(call("ask", "1"));
        assert_eq!(inbox.next(&uplink).await, Down::Ask(AskId(7), json("1")));
        let (silent, silent_uplink) = chain.call(call("never", "{}"));
        let Chain { near, near_cable, far: _far, tools, .. } = chain;
        let answered = async {
            let _ = uplink.send(Up::Answer(AskId(7), json("2")));
            assert_eq!(inbox.whole(uplink).await, value("2"));
            near_cable.cut();
        };
        tokio::join!(biased; near.close(), answered);
        let failure = silent.whole(silent_uplink).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Gone);
        tools.cancelled(1).await;
    });
}

#[test]
fn a_part_is_as_it_was() {
    run(async {
        let chain = Chain::new(Sharing::Alone, 3);
        let (inbox, uplink) = chain.call(stream("return", "{}"));
        for text in ["", "a\nb", "\u{1F600}"] {
            let part = Part::Text(text.to_owned());
            assert_eq!(uplink.send(Up::Part(part)), Pressure::Ready);
        }
        let _ = uplink.send(Up::End(None));
        assert_eq!(inbox.whole(uplink).await, Ok(Outcome::Text("\na\nb\n\u{1F600}".into())));
    });
}
