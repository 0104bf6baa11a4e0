//! The library as a program meets that embeds it: nothing but what stands at its root.

mod foreign;
mod handle;

use std::time::Duration;

use toolbus::{BuildError, Bus, Event, FailureKind, Part, json};

/// Runs a test on a runtime of the plain kind, as most programs have it, for so long at most.
fn on_runtime<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(crate::PATIENCE, test).await.expect("it hangs") })
}

/// Runs a test with a bus of the built-in tools.
fn on_bus<T>(test: impl AsyncFnOnce(&Bus) -> T) -> T {
    let bus = Bus::builder().address("builtin:").unwrap();
    bus.run(async |bus| tokio::time::timeout(crate::PATIENCE, test(bus)).await.expect("it hangs"))
        .unwrap()
}

#[test]
fn a_call_is_one_line() {
    on_bus(async |bus| {
        let sum = bus.call("add", json!({"a": 1, "b": 2})).await.unwrap();
        assert_eq!(
            (sum.read::<u8>().unwrap(), sum.text(), sum.to_string()),
            (3, "3".into(), "3".into())
        );
        let misread = sum.read::<String>().unwrap_err();
        assert_eq!(misread.kind, FailureKind::BrokeProtocol);
        let unknown = bus.call("ad", ()).await.unwrap_err();
        assert_eq!(unknown.kind, FailureKind::UnknownTool);
        assert_eq!(unknown.last_words.unwrap().hint.unwrap(), "did you mean `add`?");
    });
}

#[test]
fn arguments_are_whatever_can_be_json() {
    on_bus(async |bus| {
        let echo = async |args: &dyn Fn() -> toolbus::Json| {
            bus.call("echo", args()).await.unwrap().json().to_string()
        };
        // JSON that is there already passes as it was written.
        assert_eq!(echo(&|| toolbus::Json::parse(r#"{"x":1.00}"#).unwrap()).await, r#"{"x":1.00}"#);
        assert_eq!(bus.call("echo", [1, 2]).await.unwrap().text(), "[1,2]");
        let keyed_by_lists = std::collections::BTreeMap::from([(vec![1], 2)]);
        let failure = bus.call("echo", keyed_by_lists).await.unwrap_err();
        assert_eq!(
            failure.to_string(),
            "the arguments cannot be written as JSON: key must be a string"
        );
    });
}

#[test]
fn a_stream_gives_parts_and_then_the_end() {
    on_bus(async |bus| {
        let mut reply = bus.call("count", json!({"n": 2})).stream();
        let mut told = Vec::new();
        while let Some(event) = reply.next().await {
            told.push(match event.unwrap() {
                Event::Part(Part::Json(part)) => part.to_string(),
                Event::Done(end) => format!("end {end}"),
                Event::Begin { .. } => "begin".to_owned(),
                other => format!("{other:?}"),
            });
        }
        assert_eq!(told, ["begin", "0", "1", "end null"]);
        assert!(reply.next().await.is_none());
        let mut reply = bus.call("fail", json!({"message": "no"})).stream();
        assert_eq!(reply.next().await.unwrap().unwrap_err().kind, FailureKind::Failed);
        assert!(reply.next().await.is_none());
    });
}

#[test]
fn time_outs_are_those_of_the_call_then_those_of_the_bus() {
    let bus = Bus::builder().address("builtin:").unwrap().timeout(Duration::from_millis(20));
    bus.run(async |bus| {
        let late = async |call: toolbus::Request<&Bus>| call.await.unwrap_err().to_string();
        let sleep = || bus.call("sleep", json!({"ms": 60_000}));
        assert_eq!(late(sleep()).await, "no answer within 20ms");
        assert_eq!(late(sleep().timeout(Duration::from_millis(10))).await, "no answer within 10ms");
        let total = sleep().timeout_total(Duration::from_millis(15));
        assert_eq!(late(total).await, "no answer within 15ms");
    })
    .unwrap();
}

#[test]
fn a_bus_is_not_built_where_it_could_not_live() {
    let builder = || Bus::builder().address("builtin:").unwrap();
    assert!(matches!(builder().build(), Err(BuildError::NoRuntime)));
    on_runtime(async {
        let error = builder().run(async |_| ()).unwrap_err();
        assert!(matches!(error, BuildError::InsideRuntime));
        assert_eq!(error.hint().unwrap(), "`BusBuilder::spawn` gives the bus a thread of its own");
    });
    // At the line of the caller, not in the depths of some back.
    let panicked = std::panic::catch_unwind(|| on_runtime(async { builder().build().map(drop) }));
    assert!(panicked.is_err());
    let local = tokio::task::LocalSet::new();
    on_runtime(local.run_until(async {
        let bus = builder().build().unwrap();
        assert_eq!(bus.call("add", json!({"a": 1, "b": 2})).await.unwrap().text(), "3");
        bus.shutdown().await;
    }));
}

#[test]
fn a_back_that_cannot_be_is_told_when_the_bus_is_built() {
    let refused = |builder: toolbus::BusBuilder| match builder.run(async |_| ()) {
        Err(error) => error.to_string(),
        Ok(()) => "built".to_owned(),
    };
    let settings = Default::default;
    assert_eq!(
        Bus::builder().address("builtin:x").map(|_| ()).unwrap_err().to_string(),
        "`builtin:x` is no address: nothing may stand behind `builtin:`"
    );
    let shell = Bus::builder().address("shell:").unwrap();
    assert!(refused(shell).starts_with("`shell:` is off"));
    let twice = Bus::builder().back("a", "builtin:", settings()).unwrap();
    let twice = twice.back("a", "builtin:", settings()).unwrap();
    assert_eq!(refused(twice), "two backs are named `a`");
    let dotted = Bus::builder().back("a.b", "builtin:", settings()).unwrap();
    assert_eq!(
        refused(dotted),
        "`a.b` cannot be the name of a back: it must not be empty and have no dot"
    );
}

#[test]
fn tools_are_listed_under_the_names_they_are_called_by() {
    let names = |builder: toolbus::BusBuilder| {
        let tools = builder.run(async |bus| bus.tools().await).unwrap().unwrap();
        tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
    };
    let plain = names(Bus::builder().address("builtin:").unwrap());
    assert!(plain.contains(&"add".to_owned()), "{plain:?}");
    let named = Bus::builder().back("a", "builtin:", Default::default()).unwrap();
    let dotted = names(named.address("builtin:").unwrap());
    assert!(dotted.contains(&"a.add".to_owned()), "{dotted:?}");
    assert!(dotted.contains(&"builtin.add".to_owned()), "{dotted:?}");
    let named = Bus::builder().back("a", "builtin:", Default::default()).unwrap();
    assert_eq!(names(named.plain_names()), plain);
    let twice = Bus::builder().address("builtin:").unwrap().address("builtin:").unwrap();
    let failure = twice.run(async |bus| bus.call("add", ()).await).unwrap().unwrap_err();
    assert_eq!(failure.to_string(), "tool `add` is offered by both `builtin:` and `builtin:`");
}

#[test]
fn a_config_is_a_part_of_a_bus() {
    let text = "[back.b]\nconnect = \"builtin:\"\nallow = [\"echo\"]\n";
    let config = toolbus::bus::config::Config::parse(text, &|_| None).unwrap();
    Bus::builder()
        .config(&config)
        .run(async |bus| {
            assert_eq!(bus.call("b.echo", [1]).await.unwrap().text(), "[1]");
            let refused = bus.call("b.add", json!({"a": 1, "b": 2})).await.unwrap_err();
            assert_eq!(refused.kind, FailureKind::UnknownTool);
        })
        .unwrap();
}
