//! Five of a hundred packets are lost, all are late by a tenth of a second, and once nothing
//! arrives for ten seconds: calls end, and none hangs past its deadline.

use toolbus_proto::tool::FailureKind;
use toolbus_testkit::lossy::{Badness, Lossy};
use toolbus_testkit::runtime::run;

use super::*;

const BAD: Badness = Badness { lost_percent: 5, delay: Duration::from_millis(100) };

fn within(seconds: u64, tool: &str, args: &str) -> Call {
    let mut call = call(tool, args);
    call.deadline.total = Some(Duration::from_secs(seconds));
    call
}

/// The outcomes of calls that are made at once.
async fn all(bus: &Bus, calls: Vec<Call>) -> Vec<Result<Outcome, Failure>> {
    let running: Vec<_> = calls
        .into_iter()
        .map(|call| {
            let (inbox, down) = Inbox::new();
            (inbox, bus.start(call, down))
        })
        .collect();
    let mut outcomes = Vec::new();
    for (inbox, running) in running {
        outcomes.push(inbox.whole(running).await);
    }
    outcomes
}

#[test]
fn calls_get_through_a_bad_network() {
    run(async {
        let certs = Certs::new();
        let (plugin, _served) = plugin(&certs, builtin().await).await;
        let relay = Lossy::start(plugin.address(), BAD);
        let bus = bus_at(certs.address(relay.address().port(), ""));
        let large = "x".repeat(256 * 1024);
        let mut calls: Vec<_> =
            (0..100).map(|_| within(120, "upper", r#"{"text":"hi"}"#)).collect();
        calls.push(within(120, "upper", &format!(r#"{{"text":"{large}"}}"#)));
        for outcome in all(&bus, calls).await {
            assert!(outcome.is_ok(), "{outcome:?}");
        }
        bus.shutdown().await;
    });
}

#[test]
fn ten_dark_seconds_end_what_cannot_wait_and_nothing_else() {
    run(async {
        let certs = Certs::new();
        let (plugin, _served) = plugin(&certs, builtin().await).await;
        let relay = Lossy::start(plugin.address(), BAD);
        let bus = bus_at(certs.address(relay.address().port(), "&idle_timeout=30"));
        assert!(outcome(&bus, call("upper", r#"{"text":"hi"}"#)).await.is_ok());
        relay.set_dark(true);
        let light = tokio::time::sleep(Duration::from_secs(10));
        let short = (0..20).map(|_| within(3, "upper", r#"{"text":"hi"}"#)).collect();
        for outcome in all(&bus, short).await {
            assert_eq!(outcome.unwrap_err().kind, FailureKind::TimedOut);
        }
        let patient = (0..20).map(|_| within(120, "upper", r#"{"text":"hi"}"#)).collect();
        let lighting = async {
            light.await;
            relay.set_dark(false);
        };
        let (outcomes, ()) = tokio::join!(all(&bus, patient), lighting);
        for outcome in outcomes {
            assert!(outcome.is_ok(), "{outcome:?}");
        }
    });
}

/// A peer that is not heard of for too long is gone, and the next call dials again.
#[test]
fn darkness_beyond_the_idle_time_out_is_a_lost_connection() {
    run(async {
        let certs = Certs::new();
        let (plugin, _served) = plugin(&certs, builtin().await).await;
        let relay = Lossy::start(plugin.address(), BAD);
        let bus = bus_at(certs.address(relay.address().port(), "&idle_timeout=4"));
        assert!(outcome(&bus, call("upper", r#"{"text":"hi"}"#)).await.is_ok());
        relay.set_dark(true);
        let outcomes = all(&bus, vec![within(120, "sleep", r#"{"ms":600000}"#)]).await;
        let failure = outcomes[0].clone().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Gone, "{failure}");
        assert_eq!(failure.message, "connection lost: the peer went silent");
        relay.set_dark(false);
        let mut answered = outcome(&bus, within(120, "upper", r#"{"text":"hi"}"#)).await;
        while answered.as_ref().is_err_and(|failure| failure.kind == FailureKind::Unavailable) {
            answered = outcome(&bus, within(120, "upper", r#"{"text":"hi"}"#)).await;
        }
        assert_eq!(answered, value(r#"{"text":"HI"}"#));
    });
}
