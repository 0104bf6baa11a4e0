//! What an observer hears of each call, whatever ends it.

use std::cell::RefCell;
use std::rc::Rc;

use expect_test::{Expect, expect};
use tokio::task::LocalSet;
use toolbus_proto::tool::{Call, Part};

use super::*;
use crate::address::Address;
use crate::bus::lenient::LenientBus;
use crate::bus::{Bus, Route};
use crate::engine::calls::Inbox;
use crate::peer::settings::Settings;

/// Writes down what it is told.
#[derive(Default)]
struct Notes {
    lines: RefCell<Vec<String>>,
    refuses_begin: bool,
    refuses_end: bool,
}

fn unavailable() -> Failure {
    Failure::new(FailureKind::Unavailable, "cannot be written down")
}

impl Observer for Notes {
    fn begins(&self, call: &ObservedCall) -> Result<(), Failure> {
        let (back, tool) = (call.back.as_deref().unwrap_or("-"), &call.tool);
        self.lines.borrow_mut().push(format!("{} begins {back} {tool}", call.front));
        if self.refuses_begin { Err(unavailable()) } else { Ok(()) }
    }

    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Result<(), Failure> {
        let ObservedCall { tool, bytes_in, bytes_out, .. } = call;
        let (outcome, result) = (end.outcome(), end.result);
        let line = format!("{tool} ends {outcome}, {bytes_in} in, {bytes_out} out, {result:?}");
        self.lines.borrow_mut().push(line);
        if self.refuses_end { Err(unavailable()) } else { Ok(()) }
    }

    fn wants_results(&self) -> bool {
        true
    }
}

fn on_bus<T>(notes: &Rc<Notes>, test: impl AsyncFnOnce(Bus) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let address = Address::parse("builtin:").unwrap();
        let bus = Bus::of_addresses(&[address], &Settings::default()).unwrap();
        test(bus.observed_by(notes.clone()).for_front("editor")).await
    })
}

fn asked(tool: &str, args: &'static str) -> Call {
    Call::tool(Instant::now(), tool, Some(Json::parse(args).unwrap()))
}

async fn call(route: &dyn Route, tool: &str, args: &'static str) -> String {
    let (inbox, down) = Inbox::new();
    match inbox.whole(route.start(asked(tool, args), down)).await {
        Ok(outcome) => format!("{outcome:?}"),
        Err(failure) => format!("{}: {failure}", failure.kind),
    }
}

#[track_caller]
fn check(notes: &Notes, expected: &Expect) {
    expected.assert_eq(&notes.lines.take().join("\n"));
}

#[test]
fn a_call_begins_once_and_ends_once() {
    let notes = Rc::new(Notes::default());
    on_bus(&notes, async |bus| {
        call(&bus, "add", r#"{"a":1,"b":2}"#).await;
        call(&bus, "fail", r#"{"message":"no"}"#).await;
        call(&bus, "count", r#"{"n":2}"#).await;
        call(&bus, "nothing", "{}").await;
        // Lists are no calls.
        bus.list().await;
        bus.refuse(asked("add", "{}"), Inbox::new().1, unavailable());
    });
    check(
        &notes,
        &expect![[r#"
            editor begins builtin add
            add ends ok, 13 in, 1 out, Some(Value(3))
            editor begins builtin fail
            fail ends failed, 16 in, 0 out, None
            editor begins builtin count
            count ends ok, 7 in, 2 out, Some(Value({"elements":[0,1]}))
            editor begins builtin nothing
            nothing ends unknown_tool, 2 in, 0 out, None
            editor begins - add
            add ends unavailable, 2 in, 0 out, None"#]],
    );
}

#[test]
fn who_changes_its_mind_ends_its_call() {
    let notes = Rc::new(Notes::default());
    on_bus(&notes, async |bus| {
        let (_inbox, down) = Inbox::new();
        let mut sink = asked("sink", "{}");
        sink.options.sends_parts = true;
        let running = bus.start(sink, down.clone());
        let _ = running.send(Up::Part(Part::Text("four".to_owned())));
        running.cancel(None);
        // Without a word.
        let lenient = LenientBus::new(Rc::new(bus.named_without_dots()));
        drop(lenient.start(asked("sleep", r#"{"ms":60000}"#), down));
    });
    check(
        &notes,
        &expect![[r#"
            editor begins builtin sink
            sink ends cancelled, 6 in, 0 out, None
            editor begins builtin sleep
            sleep ends cancelled, 12 in, 0 out, None"#]],
    );
}

#[test]
fn an_observer_may_refuse_a_call_and_what_is_answered() {
    let notes = Rc::new(Notes { refuses_begin: true, ..Notes::default() });
    let told = on_bus(&notes, async |bus| call(&bus, "echo", "1").await);
    assert_eq!(told, "unavailable: cannot be written down");
    check(
        &notes,
        &expect![[r#"
        editor begins builtin echo
        echo ends unavailable, 1 in, 0 out, None"#]],
    );

    let notes = Rc::new(Notes { refuses_end: true, ..Notes::default() });
    let last = Rc::new(Notes::default());
    let told = on_bus(&notes, async |bus| call(&bus.observed_by(last.clone()), "echo", "1").await);
    assert_eq!(told, "unavailable: cannot be written down");
    check(
        &notes,
        &expect![[r#"
            editor begins builtin echo
            echo ends ok, 1 in, 1 out, Some(Value(1))"#]],
    );
    check(
        &last,
        &expect![[r#"
        editor begins builtin echo
        echo ends unavailable, 1 in, 1 out, None"#]],
    );
}

#[tokio::test]
async fn what_goes_past_every_bus_is_seen_too() {
    let notes = Rc::new(Notes::default());
    let observers = Observers::new("run", [notes.clone() as Rc<dyn Observer>]);
    let call = |tool: &str| ObservedCall {
        back: Some("shop".into()),
        bytes_in: 2,
        ..ObservedCall::new(ToolName::new(tool), Instant::now())
    };
    let told = |made: &Result<u64, Failure>| made.clone();
    assert_eq!(observers.see(call("buy"), async { Ok(7) }, told).await, Ok(Ok(7)));
    let failed = observers.see(call("sell"), async { Err(unavailable()) }, told).await;
    assert_eq!(failed, Ok(Err(unavailable())));
    drop(observers.see(call("unasked"), async { Ok(7) }, told));
    let waits = observers.see(call("wait"), std::future::pending(), told);
    let _ = tokio::time::timeout(Duration::ZERO, waits).await;
    check(
        &notes,
        &expect![[r#"
        run begins shop buy
        buy ends ok, 2 in, 7 out, None
        run begins shop sell
        sell ends unavailable, 2 in, 0 out, None
        run begins shop wait
        wait ends cancelled, 2 in, 0 out, None"#]],
    );
}

#[tokio::test]
async fn what_goes_past_every_bus_can_be_refused() {
    let told = |made: &u64| Ok(*made);
    let call = || ObservedCall::new(ToolName::new("buy"), Instant::now());
    for refuses_begin in [true, false] {
        let notes = Notes { refuses_begin, refuses_end: !refuses_begin, ..Notes::default() };
        let observers = Observers::new("run", [Rc::new(notes) as Rc<dyn Observer>]);
        let made = Cell::new(false);
        let make = async {
            made.set(true);
            7
        };
        assert_eq!(observers.see(call(), make, told).await, Err(unavailable()));
        assert_eq!(made.get(), !refuses_begin);
    }
    assert_eq!(Observers::default().see(call(), async { 7 }, told).await, Ok(7));
}
