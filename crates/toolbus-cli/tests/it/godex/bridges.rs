//! The row and the column of godex in `docs/bridges.md`: its tool loop before every back, and its
//! tool behind every front.
//!
//! It is no peer like the others. Before a back stands a model, which calls what a scripted server
//! tells it to; behind a front there is one tool, `ask`, which a script plays.

use std::fs;
use std::iter;

use serde_json::Value;
use tokio::task::JoinSet;
use toolbus::address::Purpose;
use toolbus::bus::Bus;
use toolbus::peer::Registry;
use toolbus_check::fixture::{Capability, FIXTURES, Fixture};
use toolbus_engine::calls::Inbox;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind};
use toolbus_testkit::page::Program;
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::responses::{Answer, Server};
use toolbus_testkit::scratch::Scratch;

use super::command;
use crate::matrix::harness::{
    Carried, Cell, IN_VAIN, LARGE, NESTED, SHORT, Trials, Tries, address, call, is_in_vain, odd,
    quiet_behind, same,
};

pub(crate) const GODEX: &str = "godex";
/// How often a tool is called behind one that was given up.
const TRIES: usize = 3;
const LIMITS: &[(Capability, &str)] = &[
    (Capability::Succeeds, "a model is told text; any other value is told as the text of its JSON"),
    (
        Capability::Nested,
        "a model is told text; any other value is told as the text of its JSON; and `ask` takes texts alone",
    ),
    (
        Capability::Large,
        "a model is told at most 1 MiB of an output, so of an object around as much the end is cut",
    ),
    (
        Capability::Streams,
        "a model is told an output when it is whole; an answer of `ask` is one object, and its \
         text is told as progress meanwhile",
    ),
];

/// What is called of a back: a tool, its arguments and its answer.
pub(crate) struct Probes {
    hello: [&'static str; 3],
    fails: [&'static str; 2],
    /// Its text and those around it, in arguments.
    large: (&'static str, [&'static str; 2]),
    sleeps: [&'static str; 2],
}

const ASK: Probes = Probes {
    hello: [
        "ask",
        r#"{"prompt":"say hello"}"#,
        r#"{"text":"mock response text","usage":{"input_tokens":7,"output_tokens":3,"cached_tokens":0}}"#,
    ],
    fails: ["ask", r#"{"prompt":"out of luck"}"#],
    large: ("ask", [r#"{"prompt":""#, r#""}"#]),
    sleeps: ["ask", r#"{"prompt":"wait for ever"}"#],
};

pub(crate) fn probes_of(fixture: &Fixture) -> Probes {
    let hello = fixture.hello;
    Probes {
        hello: [hello.tool, hello.args, hello.answer],
        fails: ["fail", r#"{"message":"out of luck"}"#],
        large: ("upper", [r#"{"text":""#, r#""}"#]),
        sleeps: ["sleep", r#"{"ms":600000}"#],
    }
}

/// A model as the prompt wants it; what is not one of these is echoed.
pub(crate) fn child(scratch: &Scratch, program: &str) -> String {
    let script = format!(
        r#"case "$*" in
        *"out of luck"*) echo '{{"type":"error","message":"out of luck"}}'; exit 1;;
        *"wait for ever"*) exec sleep 1000;;
        *"say hello"*) exec {program} "$@" --mock --mock-mode text;;
        *) exec {program} "$@" --mock;;
        esac
        "#
    );
    let file = scratch.file("child.sh");
    fs::write(&file, script).unwrap();
    format!("godex+stdio:sh {file}")
}

/// The name of the wire, what it cannot do, and its row and column.
pub(crate) async fn cells(
    registry: &Registry,
    program: &str,
) -> (&'static str, &'static [(Capability, &'static str)], Vec<Cell>) {
    let scratch = Scratch::new();
    let ask = child(&scratch, program);
    let wires = FIXTURES.into_iter();
    let wires: Vec<_> = wires.collect();
    // The loop before each back, on threads: they wait for most of the time.
    let mut rows = JoinSet::new();
    let own = ask.clone();
    rows.spawn_blocking(move || row(GODEX, &own, &ASK));
    for &(name, fixture) in &wires {
        let behind = address(program, fixture, "builtin:");
        rows.spawn_blocking(move || row(name, &behind, &probes_of(fixture)));
    }
    let mut columns = JoinSet::new();
    for (name, fixture) in wires {
        let served = address(program, fixture, &ask);
        let at = registry.address(Purpose::Call, &served).unwrap();
        let is_limited = fixture.why_not(Capability::Cancelled).is_some();
        let is_in_vain = is_in_vain(name, GODEX, is_limited);
        columns.spawn_local(async move {
            let carried = Trials::of(at, is_limited, Ask { is_in_vain }).await.end().await;
            Cell { front: name, back: GODEX, address: served, carried }
        });
    }
    let cells = columns.join_all().await.into_iter().chain(rows.join_all().await).collect();
    (GODEX, LIMITS, cells)
}

/// `ask` behind a front.
pub(crate) struct Ask {
    is_in_vain: bool,
}

impl Ask {
    pub(crate) fn of(is_in_vain: bool) -> Ask {
        Ask { is_in_vain }
    }
}

impl Tries for Ask {
    async fn try_on(&self, bus: &Bus, what: Capability) -> Result<Carried, Failure> {
        let [tool, args, answer] = ASK.hello;
        match what {
            Capability::Lists => {
                let is_there = bus.tools().await?.iter().any(|known| known.name.as_str() == tool);
                is_there.then_some(Carried::Yes).ok_or_else(|| odd("not listed"))
            }
            Capability::Succeeds => same(call(bus, tool, args, PATIENCE).await?.as_str(), answer),
            Capability::Fails => match call(bus, tool, ASK.fails[1], PATIENCE).await {
                Err(failure) if failure.message.contains("out of luck") => Ok(Carried::Yes),
                other => Err(odd(&format!("{other:?}"))),
            },
            Capability::Nested => Err(odd("it takes texts alone")),
            Capability::Large => {
                let text = "x".repeat(LARGE);
                let args = [ASK.large.1[0], &text, ASK.large.1[1]].concat();
                let answer = call(bus, tool, &args, PATIENCE).await?;
                match answer.as_str().contains(&text) {
                    true if answer.as_str().starts_with('{') => Ok(Carried::Yes),
                    true => Ok(Carried::AsText),
                    false => Err(odd(answer.as_str())),
                }
            }
            Capability::Streams => {
                let (inbox, reply_to) = Inbox::new();
                let args = Json::from_trusted(args);
                let running =
                    bus.start(Call::tool(std::time::Instant::now(), tool, Some(args)), reply_to);
                loop {
                    match inbox.next(&running).await {
                        Down::Part(_) => return Ok(Carried::Yes),
                        Down::Done(done) => return done.map(|_| Carried::Collected),
                        _ => {}
                    }
                }
            }
            Capability::TimesOut => match call(bus, tool, ASK.sleeps[1], SHORT).await {
                Err(failure) if failure.kind == FailureKind::TimedOut => Ok(Carried::Yes),
                other => Err(odd(&format!("{other:?}"))),
            },
            Capability::Cancelled => {
                call(bus, tool, args, PATIENCE).await?;
                let waiting = call(bus, tool, ASK.sleeps[1], PATIENCE);
                let _ = tokio::time::timeout(SHORT, waiting).await;
                let again = call(bus, tool, args, quiet_behind(self.is_in_vain)).await?;
                same(again.as_str(), answer).map(|_| Carried::Yes)
            }
        }
    }
}

/// The tool loop before a back: each call is a turn.
pub(crate) fn row(back: &'static str, address: &str, probes: &Probes) -> Cell {
    let large = "x".repeat(LARGE);
    let large_args = [probes.large.1[0], &large, probes.large.1[1]].concat();
    let nested = format!(r#"{{"arguments":{NESTED}}}"#);
    let some = format!(r#"{{"arguments":{{"Some":{NESTED}}}}}"#);
    let (tools, outputs) = run_loop(
        &["--tools-from", address],
        &[
            (probes.hello[0], probes.hello[1]),
            (probes.fails[0], probes.fails[1]),
            ("echo", &nested),
            ("echo", &some),
            (probes.large.0, &large_args),
            ("count", r#"{"n":3}"#),
        ],
    );
    // A tool that is given up in time, and then another on the same connection.
    let short = format!("{}ms", SHORT.as_millis());
    let slow = [(probes.sleeps[0], probes.sleeps[1])];
    let (_, late) = run_loop(&["--tools-from", address, "--tool-timeout", &short], &slow);
    // All calls of a run have one time-out, which the first waits for. On a slow machine some of
    // those behind it may run into it, too; all of them only if it was never taken back.
    let patient = format!("{}s", IN_VAIN.as_secs());
    let hellos = iter::repeat_n((probes.hello[0], probes.hello[1]), TRIES);
    let calls: Vec<_> = iter::once((probes.sleeps[0], probes.sleeps[1])).chain(hellos).collect();
    let (_, cancelled) = run_loop(&["--tools-from", address, "--tool-timeout", &patient], &calls);
    let is_answer = |output: &&String| !matches!(told(output, probes.hello[2]), Carried::No(_));
    let behind = cancelled[1..].iter().find(is_answer).unwrap_or(&cancelled[1]);

    let no = |output: &str| Carried::No(output.chars().take(200).collect());
    let is = |fine: bool, output: &str| if fine { Carried::Yes } else { no(output) };
    let carried = Capability::ALL.map(|what| {
        let seen = match what {
            Capability::Lists => is(tools.iter().any(|tool| tool == probes.hello[0]), "not listed"),
            Capability::Succeeds => told(&outputs[0], probes.hello[2]),
            Capability::Fails => is(outputs[1] == "error: failed: out of luck", &outputs[1]),
            Capability::Nested if back == GODEX => no("it takes texts alone"),
            Capability::Nested => match outputs[2].starts_with("error: ") {
                true => told(&outputs[3], &some).or(Carried::AsSome),
                false if outputs[2] == nested => Carried::AsText,
                false => told(&outputs[2], NESTED),
            },
            Capability::Large if back == GODEX => match outputs[4].contains(&large) {
                true => Carried::AsText,
                false => no(&outputs[4]),
            },
            Capability::Large => told(&outputs[4], &format!("\"{}\"", large.to_uppercase())),
            Capability::Streams => Carried::Collected,
            Capability::TimesOut => {
                is(late[0] == format!("error: timed_out: no answer within {short}"), &late[0])
            }
            Capability::Cancelled => match told(behind, probes.hello[2]) {
                Carried::No(why) => Carried::No(why),
                _ => Carried::Yes,
            },
        };
        (what, seen)
    });
    Cell { front: GODEX, back, address: address.to_owned(), carried: carried.into() }
}

/// Text is told as it is, other values as the text of their JSON.
fn told(output: &str, expected: &str) -> Carried {
    let is_text = expected.starts_with('"');
    if is_text && Json::of(&output).as_str() == expected {
        return Carried::Yes;
    }
    match same(output, expected) {
        Ok(Carried::Yes) if !is_text => Carried::AsText,
        Ok(carried) => carried.or(Carried::AsText),
        Err(failure) => Carried::No(failure.message),
    }
}

/// Has a model that gets its tools as these words say call these, one a turn; gives the names of the functions it was offered, and what
/// it was told of each call.
pub(crate) fn run_loop(words: &[&str], calls: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let completed = r#"{"type":"response.completed"}"#;
    let turn = |(name, arguments): &(&str, &str)| {
        let arguments = Value::from(*arguments);
        let done = format!(
            r#"{{"type":"response.output_item.done","item":{{"type":"function_call","id":"f","call_id":"c","name":"{name}","arguments":{arguments}}}}}"#
        );
        Answer::events([done.as_str(), completed]).in_chunks_of(1 << 16)
    };
    let turns = calls.iter().map(turn).chain([Answer::events([completed])]).collect();
    let server = Server::start(turns);
    let url = server.url();
    let usual = ["exec", "hi", "--json", "--base-url", &url];
    let page = Program::of(command(&[&usual, words].concat())).run();
    assert_eq!(page.status.code(), Some(0), "{words:?}\n{}", page.stderr);
    let asked = server.asked();
    let body: Value = serde_json::from_str(&asked[calls.len()].body).unwrap();
    let texts = |list: &Value, member: &str| -> Vec<String> {
        let texts = list.as_array().unwrap().iter().filter_map(|item| item[member].as_str());
        texts.map(str::to_owned).collect()
    };
    let outputs = texts(&body["input"], "output");
    assert_eq!(outputs.len(), calls.len(), "{words:?}");
    (texts(&body["tools"], "name"), outputs)
}
