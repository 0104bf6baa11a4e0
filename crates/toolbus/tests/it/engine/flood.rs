//! A real process that never stops talking: deadlines and all other peers have their turn.

use std::time::Duration;

use toolbus::bus::back::Back;
use toolbus::wire::mcp::back::{Mcp, Options};
use toolbus::wire::mcp::settings::Share;
use toolbus_engine::calls::Inbox;
use toolbus_engine::child::supervisor::Restart;
use toolbus_engine::child::{Patience, Program};
use toolbus_engine::client::Sharing;
use toolbus_proto::mcp::calling::Settings;
use toolbus_proto::tool::FailureKind;

use super::{Chain, call, run, value};

fn server(script: &str, start: Duration) -> Mcp {
    let quick = Duration::from_millis(50);
    Mcp::new(Options {
        program: Program::new(vec!["sh".into(), "-c".into(), script.into()]),
        patience: Patience { start, stop: quick, signal: quick, ..toolbus::wire::mcp::PATIENCE },
        restart: Restart::OnDemand,
        share: Share::All,
        timeout: Duration::from_secs(60),
        settings: Settings::new("flood", "0"),
    })
}

#[test]
fn a_process_that_floods_its_output_is_given_up_in_time() {
    run(async {
        let flood = server("exec yes x", Duration::from_millis(300));
        let (inbox, reply_to) = Inbox::new();
        let running = flood.start(call("t", "{}"), reply_to);
        // Others are answered meanwhile, in no more turns than they need.
        let chain = Chain::new(Sharing::Shared, 4096);
        for n in 0..20 {
            assert_eq!(chain.outcome(call("echo", &n.to_string())).await, value(&n.to_string()));
        }
        let failure = inbox.whole(running).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
        flood.shutdown().await;
    });
}

#[test]
fn a_process_that_floods_its_standard_error_is_given_up_in_time() {
    run(async {
        let flood = server("exec yes x >&2", Duration::from_millis(300));
        let (inbox, reply_to) = Inbox::new();
        let running = flood.start(call("t", "{}"), reply_to);
        let failure = inbox.whole(running).await.unwrap_err();
        // Whichever is seen first: that it was late, or that it was ended for that.
        let kinds = [FailureKind::TimedOut, FailureKind::Unavailable];
        assert!(kinds.contains(&failure.kind), "{failure}");
        flood.shutdown().await;
    });
}
