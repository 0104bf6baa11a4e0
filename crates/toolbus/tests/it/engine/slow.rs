//! Slow readers: who waits for them, who does not, and how much is kept meanwhile.

use std::rc::Rc;

use toolbus_engine::calls::{BYTES_WAITING_MAX, ITEMS_WAITING_MAX, Inbox, Pressure, RunningCall};
use toolbus_engine::client::Sharing;
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::tool::{Failure, FailureKind, Outcome};

use super::calls::send_parts;
use super::tools::weight;
use super::{Chain, call, json, part, run, stream, value};

const MIB: usize = 1 << 20;

#[test]
fn a_slow_reader_fails_only_its_own_call_where_others_share_the_way() {
    run(async {
        let chain = Chain::new(Sharing::Shared, 4096);
        let (slow, slow_uplink) = chain.call(call("count", "[1000, 10000]"));
        for n in 0..100 {
            let n = n.to_string();
            assert_eq!(chain.outcome(call("echo", &n)).await, value(&n));
        }
        let (received, outcome) = drain(&slow, &slow_uplink).await;
        assert_eq!(outcome.unwrap_err().kind, FailureKind::TooLarge);
        assert!(received <= 2 * BYTES_WAITING_MAX, "{received} bytes were kept");
        // At the tool the call was cancelled or came to its end; nobody sends into the void.
        let echo = chain.outcome(call("echo", "1")).await;
        assert_eq!((echo, chain.tools.running()), (value("1"), 0));
    });
}

/// Whoever reads as soon as it has its turn is not slow, however much comes at once.
#[test]
fn a_reader_that_has_not_had_its_turn_is_not_slow() {
    run(async {
        let chain = Chain::new(Sharing::Shared, MIB);
        let (inbox, uplink) = chain.call(call("count", "[2000, 10]"));
        let (received, outcome) = drain(&inbox, &uplink).await;
        assert_eq!((received, outcome), (20_000, Ok(Outcome::End(None))));
    });
}

#[test]
fn a_slow_reader_stops_the_tool_where_nobody_else_waits() {
    run(async {
        let chain = Chain::new(Sharing::Alone, 4096);
        let (inbox, uplink) = chain.call(call("count", "[64, 250000]"));
        // Until nothing moves any more: what is kept is far less than what is to come.
        while !chain.tools.is_quiet().await {}
        let kept = chain.tools.bytes_said.get();
        assert!(kept < 6 * MIB, "{kept} bytes left the tool before anybody read");
        let (received, outcome) = drain(&inbox, &uplink).await;
        assert_eq!((received, outcome), (16_000_000, Ok(Outcome::End(None))));
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
    });
}

#[test]
fn whoever_cancels_a_call_it_did_not_read_frees_the_way() {
    run(async {
        let chain = Chain::new(Sharing::Alone, 4096);
        let (_inbox, uplink) = chain.call(call("count", "[1000, 100000]"));
        while !chain.tools.is_quiet().await {}
        drop(uplink);
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        assert_eq!(chain.tools.running(), 0);
    });
}

#[test]
fn a_tool_that_takes_no_input_stops_its_caller_and_no_other() {
    run(async {
        let chain = Chain::new(Sharing::Shared, 4096);
        let (inbox, uplink) = chain.call(stream("never", "{}"));
        let mut sent = 0;
        while uplink.send(Up::Part(part(10_000))) == Pressure::Ready {
            sent += 10_000;
        }
        assert!(sent <= 2 * BYTES_WAITING_MAX, "{sent} bytes were taken at once");
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        drop((inbox, uplink));
        chain.tools.cancelled(1).await;
    });
}

#[test]
fn input_that_is_not_taken_fails_its_call_where_others_share_the_way() {
    run(async {
        let chain = Chain::new(Sharing::Shared, 4096);
        let (_other, _other_uplink) = chain.call(call("never", "{}"));
        let (inbox, uplink) = chain.call(stream("never", "{}"));
        send_parts(&inbox, &uplink, 1000, 10_000).await;
        let failure = inbox.whole(uplink).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TooLarge);
        assert_eq!(chain.outcome(call("echo", "1")).await, value("1"));
        assert!(chain.tools.bytes_waiting_max.get() <= 2 * BYTES_WAITING_MAX);
    });
}

/// The spike in small: 32 MiB each way at once, a cancelled call, an early answer and a slow
/// reader on connections of their own, and never more than a few MiB kept anywhere.
#[test]
fn much_flows_both_ways_through_little_memory() {
    run(async {
        let chains: Vec<_> = (0..4).map(|_| Chain::new(Sharing::Alone, 1 << 16)).collect();
        let [whole, early, cancelled, slow] = &chains[..] else { unreachable!() };
        let (count, len) = (512, 64 * 1024);

        let (inbox, uplink) = whole.call(stream("return", "{}"));
        let (early_inbox, early_uplink) = early.call(stream("early", "{}"));
        let (cancelled_inbox, cancelled_uplink) = cancelled.call(stream("return", "{}"));
        let (slow_inbox, slow_uplink) = slow.call(call("count", "[128, 65536]"));
        let most = async {
            let sent = send_parts(&inbox, &uplink, count, len);
            let received = drain(&inbox, &uplink);
            tokio::join!(sent, received).1
        };
        let others = async {
            send_parts(&early_inbox, &early_uplink, count / 4, len).await;
            send_some_and_leave(&cancelled_inbox, cancelled_uplink).await;
        };
        let ((received, outcome), ()) = tokio::join!(most, others);
        assert_eq!(outcome, Ok(Outcome::End(Some(json("\"end\"")))));
        assert_eq!(received, count * len);
        assert_eq!(early_inbox.whole(early_uplink).await, value("\"enough\""));
        cancelled.tools.cancelled(1).await;

        // All the while nobody read this one.
        let kept = slow.tools.bytes_said.get();
        assert!(kept < 4 * MIB, "{kept} bytes left the tool before anybody read");
        assert_eq!(drain(&slow_inbox, &slow_uplink).await.0, count / 4 * len);
        for chain in &chains {
            let waited = chain.tools.bytes_waiting_max.get();
            assert!(waited <= 2 * ITEMS_WAITING_MAX * len, "{waited} bytes waited for a tool");
        }
    });
}

async fn send_some_and_leave(inbox: &Rc<Inbox>, uplink: RunningCall) {
    for _ in 0..100 {
        if uplink.send(Up::Part(part(10_000))) == Pressure::Full {
            tokio::select! {
                () = inbox.room() => {}
                // It is its own reader who is slow; that is not waited for.
                _ = inbox.next(&uplink) => {}
            }
        }
    }
}

/// Reads to the end; says how many bytes came and how it ended.
async fn drain(inbox: &Inbox, uplink: &RunningCall) -> (usize, Result<Outcome, Failure>) {
    let mut received = 0;
    loop {
        let down = inbox.next(uplink).await;
        received += weight(&down);
        if let Down::Done(outcome) = down {
            return (received, outcome);
        }
    }
}
