//! Backs that are written by those who embed the bus.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use toolbus::{
    Back, Bus, Call, Failure, FailureKind, Json, LocalFuture, Outcome, ReplyTo, RunningCall,
    ToolSpec, What, answer, json,
};

/// One tool, `work`, that is done never, and tells of it when it is dropped.
#[derive(Default)]
struct Endless {
    dropped: Rc<Cell<u32>>,
    goodbyes: Rc<Cell<u32>>,
}

struct Dropped(Rc<Cell<u32>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

impl Back for Endless {
    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async { Ok(Arc::from([ToolSpec::new("work", Json::of(&json!({})))])) })
    }

    fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        let dropped = Dropped(self.dropped.clone());
        answer(call.deadline, reply, async move {
            let _dropped = dropped;
            if let What::Tool { args: Some(args), .. } = call.what {
                return Ok(Outcome::Value(args));
            }
            std::future::pending().await
        })
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        self.goodbyes.set(self.goodbyes.get() + 1);
        Box::pin(async {})
    }
}

/// A back that never says which tools it has.
struct Silent;

impl Back for Silent {
    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(std::future::pending())
    }

    fn start(&self, _call: Call, _reply: ReplyTo) -> RunningCall {
        RunningCall::ended()
    }
}

#[test]
fn a_back_that_cannot_leave_its_thread_joins_there() {
    let goodbyes = super::on_bus(async |bus| {
        let mut bus = bus.clone();
        let back = Endless::default();
        let (dropped, goodbyes) = (back.dropped.clone(), back.goodbyes.clone());
        bus.join("endless", back).unwrap();
        assert_eq!(bus.call("work", [1]).await.unwrap().text(), "[1]");
        assert_eq!(dropped.get(), 1);
        // Who gives up cancels, and so does a deadline.
        let gave_up = tokio::time::timeout(Duration::from_millis(5), bus.call("work", ()));
        assert!(gave_up.await.is_err());
        let late = bus.call("work", ()).timeout(Duration::from_millis(5)).await.unwrap_err();
        assert_eq!(late.kind, FailureKind::TimedOut);
        tokio::task::yield_now().await;
        assert_eq!(dropped.get(), 3);
        assert!(bus.join("endless", Silent).is_err());
        bus.shutdown().await;
        goodbyes.get()
    });
    assert_eq!(goodbyes, 1);
}

#[test]
fn who_does_not_say_what_it_has_keeps_a_call_no_longer_than_its_deadline() {
    let bus = Bus::builder().address("builtin:").unwrap().foreign("silent", || Silent);
    bus.plain_names()
        .run(async |bus| {
            // It is known whose this is, without asking.
            assert_eq!(bus.call("echo", [1]).await.unwrap().text(), "[1]");
            let late = bus.call("whose", ()).timeout(Duration::from_millis(5)).await.unwrap_err();
            assert_eq!(late.to_string(), "no answer within 5ms");
        })
        .unwrap();
}
