//! A bus on a thread of its own.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use toolbus::author::{Nothing, Tool, Tools};
use toolbus::{Bus, BusHandle, Event, FailureKind, Part, Reply, ReplyStream, Request, json};

use super::on_runtime;

fn builtin() -> BusHandle {
    Bus::builder().address("builtin:").unwrap().spawn().unwrap()
}

#[test]
fn a_handle_goes_to_any_thread() {
    fn goes<T: Send + 'static>() {}
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    goes::<(Request<BusHandle>, ReplyStream, Reply, toolbus::BusBuilder)>();
    goes::<<Request<BusHandle> as IntoFuture>::IntoFuture>();
    is_shared::<BusHandle>();
    is_shared::<toolbus::BlockingBus>();
}

#[test]
fn calls_come_from_runtimes_and_from_plain_threads() {
    let bus = builtin();
    let threads = (0..4_i64).map(|number| {
        let bus = bus.clone();
        thread::spawn(move || {
            for at in 0..50 {
                let sum = bus.blocking().call("add", json!({"a": number, "b": at})).unwrap();
                assert_eq!(sum.read::<i64>().unwrap(), number + at);
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    on_runtime(async {
        let (one, two) = tokio::join!(
            bus.call("upper", json!({"text": "a"})),
            tokio::spawn(bus.call("upper", json!({"text": "b"})).into_future()),
        );
        assert_eq!((one.unwrap().text(), two.unwrap().unwrap().text()), ("A".into(), "B".into()));
        assert!(bus.tools().await.unwrap().iter().any(|tool| tool.name.as_str() == "add"));
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let late = bus.call("sleep", json!({"ms": 60_000})).timeout(Duration::from_millis(5)).wait();
    assert_eq!(late.unwrap_err().kind, FailureKind::TimedOut);
    bus.blocking().shutdown();
}

#[test]
fn a_stream_crosses_threads_in_order_and_waits_for_its_reader() {
    const N: u64 = 2_000;
    let bus = builtin();
    let mut stream = bus.call("count", json!({"n": N})).stream();
    let mut counted = 0;
    while let Some(event) = stream.wait_next() {
        match event.unwrap() {
            Event::Part(Part::Json(number)) => {
                assert_eq!(number.read::<u64>().unwrap(), counted);
                counted += 1;
            }
            Event::Done(end) => assert_eq!(end.text(), "null"),
            _ => {}
        }
    }
    assert_eq!(counted, N);
    on_runtime(async {
        let mut stream = bus.call("count", json!({"n": N})).stream();
        assert!(matches!(stream.next().await, Some(Ok(Event::Begin { .. }))));
        drop(stream);
        let cannot = std::collections::BTreeMap::from([(vec![1], 2)]);
        let mut stream = bus.call("count", cannot).stream();
        let refused = stream.next().await.unwrap().unwrap_err();
        assert_eq!(refused.kind, FailureKind::InvalidArguments);
        assert!(stream.next().await.is_none());
    });
}

/// A tool that never answers, and says by the count of this when its call was dropped.
fn endless(alive: Arc<()>) -> impl FnOnce() -> toolbus::author::Authored + Send {
    move || {
        let tool = async move |_: Nothing| {
            let _alive = alive.clone();
            std::future::pending::<()>().await;
        };
        Tools::new("endless", "0").with(Tool::new_async("work", tool)).into_back()
    }
}

#[test]
fn a_bus_that_is_gone_says_so() {
    let bus = Bus::builder().foreign("endless", endless(Arc::new(()))).spawn().unwrap();
    let other = bus.clone();
    on_runtime(async {
        let under_way = tokio::spawn(other.call("endless.work", ()).into_future());
        let mut stream = other.call("endless.work", ()).stream();
        let next = stream.next();
        // Both are on their way before the bus ends.
        let (ended, ()) = tokio::join!(next, async {
            tokio::task::yield_now().await;
            bus.shutdown().await;
        });
        for failure in [under_way.await.unwrap().unwrap_err(), ended.unwrap().unwrap_err()] {
            let kinds = [FailureKind::Cancelled, FailureKind::Gone, FailureKind::Unavailable];
            assert!(kinds.contains(&failure.kind), "{failure:?}");
        }
        assert!(stream.next().await.is_none());
        let failure = other.call("endless.work", ()).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(failure.to_string(), "the bus has been shut down");
        assert!(other.tools().await.is_err());
        // There is nobody to wait for any more.
        other.shutdown().await;
    });
}

#[test]
fn who_stops_waiting_cancels() {
    let alive = Arc::new(());
    let bus = Bus::builder().foreign("endless", endless(alive.clone())).spawn().unwrap();
    on_runtime(async {
        let call = tokio::spawn(bus.call("endless.work", ()).into_future());
        // One is ours, one the tool's, one that of its call.
        while Arc::strong_count(&alive) < 3 {
            tokio::task::yield_now().await;
        }
        call.abort();
        while Arc::strong_count(&alive) == 3 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_tool_that_would_wait_for_its_own_bus_is_told_so() {
    let (give, given) = std::sync::mpsc::channel::<BusHandle>();
    let builder = Bus::builder().foreign("own", move || {
        let bus = std::cell::OnceCell::new();
        let ask = move |_: Nothing| {
            let bus = bus.get_or_init(|| given.recv().unwrap());
            bus.blocking().call("own.ask", ()).map(|reply| reply.text())
        };
        Tools::new("own", "0").tool("ask", ask).into_back()
    });
    let bus = builder.spawn().unwrap();
    give.send(bus.clone()).unwrap();
    let failure = bus.blocking().call("own.ask", ()).unwrap_err();
    assert!(failure.message.contains("would wait for itself"), "{failure}");
    bus.blocking().shutdown();
}

#[test]
fn a_back_that_panics_when_it_is_made_is_told() {
    let make = || -> toolbus::author::Authored { panic!("as asked") };
    let error = Bus::builder().foreign("bad", make).spawn().map(|_| ()).unwrap_err();
    assert!(matches!(error, toolbus::BuildError::Panicked));
    let error = Bus::builder().address("shell:").unwrap().spawn().map(|_| ()).unwrap_err();
    assert!(error.hint().is_some());
}

/// An oracle that answers every call with the number of its process.
#[cfg(target_os = "linux")]
const FAITHFUL: &str = r#"stdio:sh -c '
    echo "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ready\"}"; read ack; id=0
    while read line; do
        case $line in *shutdown*) exit 0;; esac
        echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":[\"$(printf 0x%x $$)\"]}"; id=$((id + 1))
    done'"#;

#[cfg(target_os = "linux")]
#[test]
fn programs_go_with_the_last_handle() {
    use toolbus_testkit::process::Group;

    let bus = Bus::builder().address(FAITHFUL).unwrap().spawn().unwrap();
    let other = bus.clone();
    let pid = || {
        let args = json!({"selector": "pid", "calldata": []});
        let felts: Vec<String> = bus.blocking().call("invoke", args).unwrap().read().unwrap();
        u32::from_str_radix(felts[0].trim_start_matches("0x"), 16).unwrap()
    };
    let group = Group::led_by(pid());
    assert_eq!(group.living().len(), 1);
    assert_eq!(Group::led_by(pid()), group);
    drop(other);
    assert_eq!(group.living().len(), 1);
    drop(bus);
    group.assert_gone();
}
