use tokio::task::LocalSet;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, FailureKind, Outcome, Trace};

use super::back::Back;
use super::config::Config;
use super::*;
use crate::bus::back::LocalFuture;
use crate::engine::calls::Inbox;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::local::builtin::Builtin;
use crate::peer::settings::Settings;

fn on_bus<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test)
}

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

fn of_addresses(texts: &[&str]) -> Bus {
    let addresses: Vec<_> = texts.iter().map(|text| address(text)).collect();
    Bus::of_addresses(&addresses, &Settings::default()).unwrap()
}

async fn call(bus: &Bus, tool: &str, args: &'static str) -> String {
    let (inbox, reply_to) = Inbox::new();
    let call = Call::tool(std::time::Instant::now(), tool, Some(Json::parse(args).unwrap()));
    let running = bus.start(call, reply_to);
    match inbox.whole(running).await {
        Ok(Outcome::Value(value)) => value.to_string(),
        Ok(outcome) => format!("{outcome:?}"),
        Err(failure) => {
            let hint = failure.last_words.as_ref().and_then(|words| words.hint.clone());
            format!("{}: {failure}; {}", failure.kind, hint.unwrap_or_default())
        }
    }
}

/// A back that cannot be reached, and says how often it was told goodbye.
struct Unreachable {
    goodbyes: Rc<std::cell::Cell<u32>>,
}

impl Back for Unreachable {
    fn wire(&self) -> Wire {
        toolbus_proto::mcp::WIRE
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async { Err(Failure::new(FailureKind::Unavailable, "nobody is there")) })
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        // What it was given, for whoever looks.
        let quiet = format!("{:?} {:?}", call.what, call.deadline.quiet);
        let _ = down.send(Down::Done(Ok(Outcome::Text(quiet))));
        RunningCall::ended()
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        self.goodbyes.set(self.goodbyes.get() + 1);
        Box::pin(async {})
    }
}

fn with_an_unreachable(naming: Naming) -> (Bus, Rc<std::cell::Cell<u32>>) {
    let goodbyes = Rc::default();
    let unreachable = Unreachable { goodbyes: Rc::clone(&goodbyes) };
    let backs: Vec<(Address, Rc<dyn Back>)> = vec![
        (address("builtin:"), Rc::new(Builtin::new())),
        (address("mcp+stdio:far"), Rc::new(unreachable)),
    ];
    (Bus::of_backs(naming, backs), goodbyes)
}

#[test]
fn a_lone_back_is_called_without_being_asked_for_its_tools() {
    on_bus(async {
        let bus = of_addresses(&["builtin:"]);
        assert_eq!(call(&bus, "add", r#"{"a":1,"b":2}"#).await, "3");
        let unknown = "unknown_tool: no such tool: `ad`; did you mean `add`?";
        assert_eq!(call(&bus, "ad", "{}").await, unknown);
        assert!(bus.offered().is_empty());
        bus.open().await.unwrap();
        assert_eq!(bus.offered().len(), 9);
    });
}

#[test]
fn a_name_of_two_addresses_is_an_error_that_names_both() {
    on_bus(async {
        let error = of_addresses(&["builtin:", "builtin:"]).open().await.unwrap_err();
        let message = "tool `add` is offered by both `builtin:` and `builtin:`";
        assert_eq!(error.to_string(), message);
        assert!(error.hint().is_some());
    });
}

#[test]
fn repeated_names_of_backs_are_numbered() {
    on_bus(async {
        let bus = of_addresses(&["builtin:", "builtin:", "builtin:"]);
        let names: Vec<_> = bus.list().await.iter().map(|listed| listed.back.to_string()).collect();
        assert_eq!(names, ["builtin", "builtin2", "builtin3"]);
    });
}

#[test]
fn backs_beside_a_config_keep_the_plain_names_of_their_tools() {
    on_bus(async {
        let (config, _) = with_an_unreachable(Naming::Dotted);
        let bus = config.beside(&of_addresses(&["builtin:"]));
        let listed = bus.list().await;
        let first = listed[0].tools.as_ref().unwrap()[0].name.clone();
        let names = [0, 1, 2].map(|index| bus.name_at(index, &first).to_string());
        assert_eq!(names, ["add", "builtin.add", "far.add"]);
        bus.offer(&listed).unwrap();
        let offered = bus.offered();
        let names = [0, 9].map(|at| offered[at].name.as_str());
        assert_eq!((offered.len(), names), (18, ["add", "builtin.add"]));
        for tool in ["add", "builtin.add"] {
            assert_eq!(call(&bus, tool, r#"{"a":1,"b":2}"#).await, "3");
        }
        // One that was not listed is asked by its name.
        assert!(call(&bus, "far.f", "{}").await.contains("Tool"));
        assert!(call(&bus, "f", "{}").await.starts_with("unknown_tool"));
    });
}

#[test]
fn of_a_dotted_name_the_back_stands_before_the_first_dot() {
    on_bus(async {
        let (bus, _) = with_an_unreachable(Naming::Dotted);
        assert_eq!(call(&bus, "builtin.echo", "1").await, "1");
        let told = call(&bus, "far.a.b", "1").await;
        assert_eq!(told, r#"Text("Tool { name: ToolName(\"a.b\"), args: Some(1) } Some(60s)")"#);
        let unknown = "unknown_tool: no such tool: `fra.b`; did you mean `far.b`?";
        assert_eq!(call(&bus, "fra.b", "1").await, unknown);
        assert!(bus.resolve(&"echo".into()).is_none());
        let (back, own) = bus.resolve(&"far.x".into()).unwrap();
        assert_eq!((back.wire(), own.as_str()), (toolbus_proto::mcp::WIRE, "x"));
    });
}

#[test]
fn a_trace_is_passed_on_with_a_new_parent() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// Keeps the trace of the last call.
    #[derive(Default)]
    struct Traced(Rc<std::cell::RefCell<Option<Trace>>>);

    impl Back for Traced {
        fn wire(&self) -> Wire {
            toolbus_proto::mediocre::WIRE
        }

        fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
            Box::pin(async { Ok(Arc::default()) })
        }

        fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
            self.0.replace(call.trace);
            let _ = down.send(Down::Done(Ok(Outcome::Text(String::new()))));
            RunningCall::ended()
        }

        fn shutdown(&self) -> LocalFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    on_bus(async {
        let back = Traced::default();
        let seen = back.0.clone();
        let bus = Bus::of_backs(Naming::Plain, vec![(address("builtin:"), Rc::new(back))]);
        let mut call = Call::tool(std::time::Instant::now(), "m", None);
        call.trace = Trace::read(PARENT, Some("a=b"));
        let (inbox, reply_to) = Inbox::new();
        let running = bus.start(call, reply_to);
        inbox.whole(running).await.unwrap();
        let seen = seen.take().unwrap();
        assert_eq!((&seen.parent()[..36], &seen.parent()[52..]), (&PARENT[..36], &PARENT[52..]));
        assert_ne!(seen.parent(), PARENT);
        assert_eq!(seen.state(), Some("a=b"));
    });
}

#[test]
fn who_cannot_be_reached_is_named_and_hides_nobody_else() {
    on_bus(async {
        let (bus, _) = with_an_unreachable(Naming::Plain);
        let listed = bus.list().await;
        assert_eq!(listed[0].tools.as_ref().unwrap().len(), 9);
        assert!(listed[1].tools.is_err());
        let error = bus.open().await.unwrap_err();
        assert_eq!(error.to_string(), "cannot reach `mcp+stdio:far`: nobody is there");
        // Nothing is offered before all is known.
        assert_eq!(call(&bus, "add", "{}").await, "unknown_tool: no such tool: `add`; ");
    });
}

#[test]
fn everybody_is_told_goodbye() {
    on_bus(async {
        let (bus, goodbyes) = with_an_unreachable(Naming::Plain);
        bus.shutdown().await;
        assert_eq!(goodbyes.get(), 1);
    });
}

#[test]
fn the_shell_is_off_unless_it_is_allowed() {
    let open = |text| Bus::of_addresses(&[address(text)], &Settings::default()).err().unwrap();
    let shell = open("shell:");
    assert_eq!(shell.to_string(), "`shell:` is off: whoever calls it can run any command");
    assert!(shell.hint().unwrap().contains("--allow-shell"));
}

#[test]
fn a_config_makes_a_bus_that_keeps_to_it() {
    let config = Config::parse(
        "[back.b]\nconnect = \"builtin:\"\ntimeout = \"50ms\"\nallow = [\"sleep\", \"echo\"]\n\
         [back.a]\nconnect = \"builtin:\"\n",
        &|_| None,
    )
    .unwrap();
    on_bus(async {
        let bus = Bus::of_config(&config).unwrap();
        bus.open().await.unwrap();
        let tools = bus.offered();
        assert_eq!(tools.len(), 9 + 2);
        assert_eq!(tools[9].name.as_str(), "b.echo");
        assert_eq!(call(&bus, "a.add", r#"{"a":1,"b":2}"#).await, "3");
        let unknown = "unknown_tool: no such tool: `b.add`; did you mean `a.add`?";
        assert_eq!(call(&bus, "b.add", "{}").await, unknown);
        let late = "timed_out: no answer within 50ms; ";
        assert_eq!(call(&bus, "b.sleep", r#"{"ms":60000}"#).await, late);
    });
}

#[test]
fn what_allow_names_in_vain_is_known_once_its_back_was_listed() {
    let text = "[back.a]\nconnect = \"builtin:\"\nallow = [\"zzz\", \"uper\", \"add\"]\n\
                [back.b]\nconnect = \"builtin:\"\n";
    let config = Config::parse(text, &|_| None).unwrap();
    on_bus(async {
        let bus = Bus::of_config(&config).unwrap();
        assert_eq!(bus.allowed_in_vain(), []);
        bus.open().await.unwrap();
        let told = |name: AllowedInVain| format!("{}: {name}", name.back);
        assert_eq!(
            bus.allowed_in_vain().into_iter().map(told).collect::<Vec<_>>(),
            [
                "a: `allow` names `uper`, which it does not list; did you mean `upper`?",
                "a: `allow` names `zzz`, which it does not list",
            ]
        );
    });
}

#[test]
fn a_config_that_is_read_again_keeps_the_backs_that_are_as_before() {
    let config = |text: &str| Config::parse(text, &|_| None).unwrap();
    let same = "[back.same]\nconnect = \"builtin:\"\n";
    let before = config(&format!(
        "{same}[back.changed]\nconnect = \"builtin:\"\n[back.gone]\nconnect = \"builtin:\"\n"
    ));
    // What may be called is the bus's business, and no reason to open a back again.
    let after = config(&format!(
        "[back.new]\nconnect = \"builtin:\"\n{same}allow = [\"add\"]\n\
         [back.changed]\nconnect = \"builtin:\"\ntimeout = \"50ms\"\n"
    ));
    on_bus(async {
        let before = Bus::of_config(&before).unwrap();
        let after = before.reloaded(&after).unwrap();
        let names = async |bus: Bus| {
            let listed = bus.list().await.into_iter().map(|listed| listed.back.to_string());
            listed.collect::<Vec<_>>()
        };
        assert_eq!(names(before.without(&after)).await, ["changed", "gone"]);
        assert_eq!(names(after.without(&before)).await, ["new", "changed"]);
        assert!(after.without(&after).is_empty());
        assert!(after.resolve(&"same.upper".into()).is_none());
        assert_eq!(call(&after, "same.add", r#"{"a":1,"b":2}"#).await, "3");
    });
}

/// Fails, and says of what.
struct Fails;

impl Back for Fails {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let message = "with first-s3cret and second-s3cret";
        crate::bus::answer(call.deadline, down, async move {
            tokio::task::yield_now().await;
            Err(Failure::new(FailureKind::Failed, message))
        })
    }
}

#[test]
fn two_buses_share_neither_secrets_nor_memory() {
    let builder = |secret: &str, bytes_max| {
        let text = "[back.b]\nconnect = \"mcp+stdio:b\"\nenv = { A = \"${SECRET}\" }";
        let env = |name: &str| (name == "SECRET").then(|| secret.to_owned());
        let config = Config::parse(text, &env).unwrap();
        Bus::builder().config(&config).bytes_in_flight_max(bytes_max).foreign("f", || Fails)
    };
    on_bus(async {
        let first = builder("first-s3cret", 1 << 20);
        let second = builder("second-s3cret", 2 << 20);
        let (first, second) = (first.build().unwrap(), second.build().unwrap());
        assert_eq!(call(&first, "f.x", "{}").await, "failed: with *** and second-s3cret; ");
        assert_eq!(call(&second, "f.x", "{}").await, "failed: with first-s3cret and ***; ");
        let outside = "with first-s3cret and second-s3cret";
        assert_eq!(crate::secrets::masked(outside), "with *** and ***");
        #[cfg(feature = "http")]
        for (bus, bytes_max) in [(&first, 1 << 20), (&second, 2 << 20)] {
            let memory = || toolbus_engine::account::bytes_in_flight();
            assert_eq!(bus.scope.enter(memory), (0, bytes_max));
        }
    });
}
