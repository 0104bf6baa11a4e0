//! What becomes of calls when streams are reset, stopped or lost.

use toolbus_engine::transport::io::Source;
use toolbus_engine::transport::io::Writer;
use toolbus_proto::tool::FailureKind;
use toolbus_testkit::runtime::run;

use super::*;

/// Reads a request to its end and resets its answer.
#[test]
fn a_reset_tells_its_code() {
    run(async {
        let (near, far) = connected().await;
        let caller = calling(&near);
        let (inbox, slot) = Inbox::new();
        let running = caller.start(call("echo", "{}"), slot);
        let (mut reader, writer) = far.accept().await.unwrap();
        let mut input = bytes::BytesMut::new();
        while reader.read(&mut input).await.unwrap() != 0 {}
        writer.reset(7);
        assert_eq!(message(inbox.whole(running).await), "the stream was reset (code 7)");
    });
}

#[test]
fn an_end_without_an_answer_fails_its_call_only() {
    run(async {
        let (near, far) = connected().await;
        let caller = calling(&near);
        let (inbox, slot) = Inbox::new();
        let running = caller.start(call("echo", "{}"), slot);
        let (_reader, writer) = far.accept().await.unwrap();
        writer.finish();
        assert_eq!(message(inbox.whole(running).await), "the stream ended before an answer");
        assert!(caller.takes_calls());
    });
}

/// Dropping the call stops its stream, which cancels the tool at once.
#[test]
fn a_caller_that_gives_up_cancels_the_tool() {
    run(async {
        let chain = Chain::new().await;
        for count in 1..=300 {
            let (_inbox, running) = chain.call(call("never", "{}"));
            while chain.tools.running() == 0 {
                tokio::task::yield_now().await;
            }
            running.cancel(None);
            chain.tools.cancelled(count).await;
        }
        assert_eq!(chain.outcome(call("echo", "{}")).await, value("{}"));
    });
}

#[test]
fn a_deadline_stops_the_stream_too() {
    run(async {
        let chain = Chain::new().await;
        // A deadline that is over before the far end has heard of the call cancels nothing there.
        let mut time = Duration::from_millis(50);
        while chain.tools.started.get() == 0 {
            let (inbox, running) = chain.call(within(time, "never", "{}"));
            assert_eq!(inbox.whole(running).await.unwrap_err().kind, FailureKind::TimedOut);
            time *= 2;
        }
        chain.tools.cancelled(1).await;
    });
}

#[test]
fn a_lost_connection_ends_the_calls_of_both_ends() {
    run(async {
        let chain = Chain::new().await;
        let calls: Vec<_> = (0..20).map(|_| chain.call(call("never", "{}"))).collect();
        while chain.tools.running() < 20 {
            tokio::task::yield_now().await;
        }
        chain.far_connection.close();
        for (inbox, running) in calls {
            let failure = inbox.whole(running).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Gone);
            assert_eq!(failure.message, "connection lost: closed by peer (code 0)");
        }
        chain.tools.cancelled(20).await;
        // No stream can be opened any more either.
        let told = message(chain.outcome(call("echo", "{}")).await);
        assert_eq!(told, "connection lost: closed by peer (code 0)");
    });
}

#[test]
fn a_client_that_goes_away_cancels_what_it_asked_for() {
    run(async {
        let Chain { near, near_connection, tools, far_connection, serving } = Chain::new().await;
        let (_inbox, slot) = Inbox::new();
        let running = near.start(call("never", "{}"), slot);
        while tools.running() < 1 {
            tokio::task::yield_now().await;
        }
        near_connection.close();
        tools.cancelled(1).await;
        far_connection.closed().await;
        drop((running, near, serving));
    });
}

/// A peer that has lost count of its streams allows no more of them: the call waits, and its
/// own deadline ends it.
#[test]
fn a_stream_is_waited_for_within_the_deadline() {
    run(async {
        let (near, far) = connected().await;
        let caller = calling(&near);
        // Read by nobody, so none is ever given back.
        let kept: Vec<_> = (0..100)
            .map(|_| {
                let (inbox, slot) = Inbox::new();
                (inbox, caller.start(call("never", "{}"), slot))
            })
            .collect();
        while caller.ask(toolbus_proto::orchestra::Client::is_idle) {
            tokio::task::yield_now().await;
        }
        let (inbox, slot) = Inbox::new();
        let running = caller.start(within(Duration::from_millis(100), "echo", "{}"), slot);
        assert_eq!(inbox.whole(running).await.unwrap_err().kind, FailureKind::TimedOut);
        drop((kept, far));
    });
}
