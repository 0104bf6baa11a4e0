//! Providers behind the bus as real processes: described, configured, mourned, told goodbye.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus::bus::back::Back;
use toolbus::wire::orchard::back::{Options, Orchard};
use toolbus::wire::orchard::probe::probe;
use toolbus_engine::calls::Inbox;
use toolbus_engine::child::supervisor::Restart;
use toolbus_engine::child::{Exit, Patience, Program};
use toolbus_proto::channel::Notice;
use toolbus_proto::json::Json;
use toolbus_proto::orchard::{Settings, WIRE};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What};
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::peer::faulty_tool;
use toolbus_testkit::runtime::run;
use toolbus_testkit::scratch::Scratch;

const SCHEMA: &str = r#"{"name":"e","version":"1","protocol":"1","config":{"word":{"type":"string","default":"hi"}},"actions":{"a":{"attrs":{"n":{"type":"number","default":1}}}}}"#;
/// What every provider begins with.
const DESCRIBE: [&str; 3] = ["read", "say", "{\"id\":$ID,\"result\":{\"schema\":SCHEMA}}"];
const EMPTY: [&str; 3] = ["read", "say", "{\"id\":$ID,\"result\":{}}"];

fn program(steps: &[&str]) -> Program {
    let words = [faulty_tool().to_str().unwrap()].into_iter().chain(steps.iter().copied());
    Program::new(words.map(|word| word.replace("SCHEMA", SCHEMA)).collect())
}

fn provider(parts: &[&[&str]]) -> Orchard {
    provider_with(toolbus::wire::orchard::PATIENCE, parts)
}

fn provider_with(patience: Patience, parts: &[&[&str]]) -> Orchard {
    Orchard::new(Options {
        program: program(&parts.concat()),
        patience,
        restart: Restart::OnDemand,
        settings: Settings { describe_timeout: patience.start, ..Settings::new("e") },
    })
}

async fn ask(back: &Orchard, what: What) -> Result<Outcome, Failure> {
    let (inbox, reply_to) = Inbox::new();
    let running = back.start(Call::of(Instant::now(), what), reply_to);
    inbox.whole(running).await
}

async fn call(back: &Orchard) -> Result<Outcome, Failure> {
    ask(back, What::Tool { name: "a".into(), args: None }).await
}

fn native(method: &'static str, body: &'static str) -> What {
    What::Native { wire: WIRE, method: Bytes::from_static(method.as_bytes()), body: body.into() }
}

fn value(text: &'static str) -> Result<Outcome, Failure> {
    Ok(Outcome::Value(Json::parse(text).unwrap()))
}

#[test]
fn an_owner_who_listens_hears_all_that_a_provider_tells() {
    let back_told = run(async {
        let told = Rc::new(RefCell::new(Vec::new()));
        let back = provider(&[&["err", "starting", "say", "noise"], &DESCRIBE, &EMPTY, &EMPTY]);
        let hears = told.clone();
        back.listen(Rc::new(move |notice: &Notice| {
            hears.borrow_mut().push(format!("{notice:?}"));
        }));
        assert_eq!(call(&back).await, value("{}"));
        back.shutdown().await;
        told.take()
    });
    let mut expected = [
        "Stderr(\"starting\")".to_owned(),
        "Warning(\"provider `e` wrote a line that is no frame: noise\")".to_owned(),
    ];
    for line in &mut expected {
        assert!(back_told.contains(line), "{back_told:?}");
    }
    assert!(back_told.iter().any(|line| line.starts_with("Described(")), "{back_told:?}");
}

#[test]
fn a_listing_configures_nothing_and_the_next_call_does() {
    let scratch = Scratch::new();
    let seen = scratch.path().join("seen");
    let seen_text = seen.to_str().unwrap().to_owned();
    run(async move {
        let configured = ["read", "mark", &seen_text, "say", "{\"id\":$ID,\"result\":{}}"];
        let back = provider(&[&DESCRIBE, &configured, &EMPTY, &EMPTY]);
        let tools = back.tools().await.unwrap();
        assert_eq!(tools[0].name.as_str(), "a");
        assert!(!std::path::Path::new(&seen_text).exists());
        assert_eq!(call(&back).await, value("{}"));
        assert!(std::path::Path::new(&seen_text).exists());
        back.shutdown().await;
    });
}

#[test]
fn its_owner_can_go_step_by_step() {
    run(async {
        let echo = ["read", "say", "{\"id\":$ID,\"result\":{\"outputs\":{\"n\":1}}}"];
        let back = provider(&[&DESCRIBE, &EMPTY, &echo, &["read", "die", "SEGV"]]);
        let Ok(Outcome::Native(schema)) = ask(&back, native("describe", "")).await else {
            panic!()
        };
        assert!(schema.starts_with(b"{\"name\":\"e\","));
        let configured = ask(&back, native("configure", r#"{"word":"yo"}"#)).await;
        assert_eq!(configured, Ok(Outcome::Native(Bytes::from_static(b"{}"))));
        let execute = || native("execute", r#"{"action":"a","attrs":{},"label":"action.a.first"}"#);
        assert_eq!(ask(&back, execute()).await, value("{\"n\":1}"));
        let failure = ask(&back, execute()).await.unwrap_err();
        let told = "provider `e` was killed by SIGSEGV during `execute` of `action.a.first`";
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Gone, told));
        assert_eq!(failure.last_words.unwrap().exit, Some(Exit::Signal(11)));
        back.shutdown().await;
    });
}

#[test]
fn a_provider_that_died_is_started_again_by_the_next_call() {
    let scratch = Scratch::new();
    let once = scratch.path().join("once").to_str().unwrap().to_owned();
    run(async move {
        let dies = ["once", &once, "{", "read", "err", "oh no", "exit", "7", "}"];
        let back = provider(&[&DESCRIBE, &EMPTY, &dies, &EMPTY, &EMPTY]);
        let failure = call(&back).await.unwrap_err();
        assert_eq!(failure.message, "provider `e` exited with status 7 during `execute` of `a`");
        assert_eq!(failure.last_words.unwrap().stderr, ["oh no"]);
        assert_eq!(call(&back).await, value("{}"));
        back.shutdown().await;
    });
}

#[test]
fn a_provider_that_cannot_be_read_is_killed_at_once() {
    run(async {
        // Had it got a SIGTERM first, nobody would live to see its end.
        let patience =
            Patience { signal: Duration::from_secs(1 << 20), ..toolbus::wire::orchard::PATIENCE };
        let steps = ["ignore-term", "read", "say", "{\"id\":", "stay"];
        let back = provider_with(patience, &[&steps]);
        let failure = call(&back).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::BrokeProtocol);
        back.shutdown().await;
    });
}

#[test]
fn its_input_stays_open_until_it_has_answered_its_goodbye() {
    let scratch = Scratch::new();
    let ended = scratch.path().join("ended").to_str().unwrap().to_owned();
    run(async move {
        // Had its input ended before the answer, the first `read` would end it without a mark.
        let parts = ["fork", "{", "}", "readall", "mark", &ended];
        let back = provider(&[&DESCRIBE, &EMPTY, &EMPTY, &EMPTY, &parts]);
        assert_eq!(call(&back).await, value("{}"));
        back.shutdown().await;
        assert!(std::path::Path::new(&ended).exists());
    });
}

#[test]
fn a_probe_judges_what_is_printed() {
    run(async {
        let patience = Duration::from_secs(5);
        let printed = |steps: &[&str]| {
            // `schema` stands behind the steps, and is never reached.
            let program = program(&[steps, &["exit", "0"]].concat());
            async move { probe("e", &program, PATIENCE.max(patience)).await }
        };
        let (schema, notes) = printed(&["say", "SCHEMA"]).await.unwrap();
        assert_eq!((schema.name.as_str(), notes.len()), ("e", 0));
        let failure = printed(&["say", "SCHEMA", "err", "no home", "exit", "3"]).await.unwrap_err();
        assert_eq!(failure.message, "provider `e` exited with status 3 when asked for its schema");
        assert_eq!(failure.last_words.unwrap().stderr, ["no home"]);
        let failure = printed(&["flood", "40", "\\{78*1000000}"]).await.unwrap_err();
        assert_eq!(failure.message, "provider `e` printed more than 16777216 bytes as its schema");
        // Another process holds its pipe.
        let (schema, _) = printed(&["fork", "{", "stay", "}", "say", "SCHEMA"]).await.unwrap();
        assert_eq!(schema.name, "e");
        let late = probe("e", &program(&["stay"]), Duration::from_millis(100)).await.unwrap_err();
        assert_eq!(late.kind, FailureKind::TimedOut);
        let hint = late.last_words.unwrap().hint.unwrap();
        assert_eq!(hint, "does it have a `schema` subcommand?");
    });
}
