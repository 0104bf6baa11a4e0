//! Every front before every back, each a process of its own that is killed in the middle of a
//! call: first the back, then the front. In `cargo test` each front and each back has its turn
//! once, in the stage `long` of `.ci/run` all pairs.
//!
//! The caller of the front learns that at once and the next call works; nothing is left of what a
//! process that is killed had started.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet, spawn_blocking};
use toolbus::address::Purpose;
use toolbus::bus::Bus;
use toolbus::peer::Registry;
use toolbus::peer::settings::Settings;
use toolbus_check::fixture::{FIXTURES, Fixture};
use toolbus_proto::tool::{Failure, FailureKind};
use toolbus_testkit::form;
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::process::Group;
use toolbus_testkit::scratch::Scratch;

use crate::godex::killed;
use crate::live::marked;
use crate::matrix::harness::{call, quoted};
use crate::mcp::DISCOVERED;
use crate::page::mcp_server;

/// What a process says before it is killed.
pub(crate) const LAST_WORDS: &str = "give me a minute";
const TEXT: &str = r#"{"text":"hi"}"#;
/// No call that runs into its time-out would be over by then.
const AT_ONCE: Duration = Duration::from_secs(30);

/// A back of one wire that leaves its mark when it starts and when it waits.
pub(crate) struct Back {
    pub(crate) name: &'static str,
    pub(crate) address: String,
    /// A tool with its arguments that is answered at once.
    pub(crate) hello: [&'static str; 2],
    /// And one that never is.
    pub(crate) waits: [&'static str; 2],
    scratch: Scratch,
}

impl Back {
    /// A back of a peer like most.
    fn of(name: &'static str, fixture: &Fixture) -> Back {
        let scratch = Scratch::new();
        // The tool itself is a process that tells when it was asked.
        let input = r#""inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
        let both = format!(
            r#"{{"tools":[{{"name":"hello",{input}}},{{"name":"wait",{input}}}],"content":[{{"type":"text","text":"hi"}}]}}"#
        );
        let waits = ["if", r#""name":"wait""#, "{", "mark", &scratch.file("asked"), "stay", "}"];
        let steps = [
            &["read", "answer", DISCOVERED, "forever", "{", "read"],
            waits.as_slice(),
            &["answer", &both, "}"],
        ];
        let tool = mcp_server(&steps.concat());
        let address = marking(fixture, &scratch.file("back"), &tool);
        Back { name, address, hello: ["hello", TEXT], waits: ["wait", TEXT], scratch }
    }

    /// One that is a script, which is told where it marks that it was started and asked.
    pub(crate) fn scripted(
        name: &'static str,
        hello: [&'static str; 2],
        waits: [&'static str; 2],
        address: impl FnOnce(&Scratch) -> String,
    ) -> Back {
        let scratch = Scratch::new();
        Back { name, address: address(&scratch), hello, waits, scratch }
    }

    /// Awaits that a tool waits for the `count`th time: the process of the back that was started
    /// last, and all that were started by now.
    pub(crate) fn asked(&self, count: usize) -> (Group, Vec<Group>) {
        let asked = marked(&self.scratch.file("asked"), count);
        let started = marked(&self.scratch.file("back"), 1);
        let last = *started.last().expect("there is one");
        (last, [asked, started].concat())
    }
}

/// A peer of this wire that serves `served`, started by a shell that leaves its mark.
pub(crate) fn marking(fixture: &Fixture, mark: &str, served: &str) -> String {
    let words: String = fixture.words.iter().map(|word| format!(" {}", quoted(word))).collect();
    let program = quoted(env!("CARGO_BIN_EXE_toolbus"));
    let script = format!(
        "echo $$ >> {}; echo {} >&2; exec {program}{words} {} \"$@\"",
        quoted(mark),
        quoted(LAST_WORDS),
        quoted(served)
    );
    // Who starts it adds words of its own.
    format!("{}sh -c {} sh", fixture.scheme, quoted(&script))
}

#[test]
fn both_ends_of_every_pair_may_be_killed_in_the_middle_of_a_call() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let all = async {
        let peers = || FIXTURES.into_iter();
        let backs =
            || peers().map(|(name, fixture)| Back::of(name, fixture)).chain([killed::back()]);
        // In the short form each front and each back once, none before its own wire.
        let count = backs().count();
        let is_wanted = |row: usize, column: usize| form::is_long() || (row + 1) % count == column;
        let mut side_by_side = JoinSet::new();
        // The last front is no peer like the others: the tool loop.
        for (row, front) in peers().map(Some).chain([None]).enumerate() {
            for (column, back) in backs().enumerate() {
                match front {
                    _ if !is_wanted(row, column) => continue,
                    Some((name, serving)) => {
                        side_by_side.spawn_local(killed_in_turn(name, serving, back))
                    }
                    None => side_by_side.spawn_blocking(move || killed::behind_and_in_front(&back)),
                };
            }
            // As many at a time as there are backs.
            if form::is_long() {
                while side_by_side.join_next().await.transpose().unwrap().is_some() {}
            }
        }
        side_by_side.join_all().await;
    };
    LocalSet::new().block_on(&runtime, all);
}

async fn killed_in_turn(front: &'static str, serving: &Fixture, back: Back) {
    let pair = format!("{front} before {}", back.name);
    let scratch = Scratch::new();
    let mark = scratch.file("front");
    let address = marking(serving, &mark, &back.address);
    let address = Registry::default().address(Purpose::Call, &address).unwrap();
    let bus = Bus::of_addresses(&[address], &Settings::default()).unwrap();
    let back = Rc::new(back);
    let hello = async |when: &str| {
        let [tool, args] = back.hello;
        call(&bus, tool, args, PATIENCE).await.unwrap_or_else(|failure| {
            panic!("{pair}: {when}: {failure:?}");
        });
    };
    hello("at first").await;

    // The back is killed.
    let (failure, took, _) = killed_while_waiting(&bus, &back, 1, |(last, _)| *last).await;
    assert!(took < AT_ONCE, "{pair}: {took:?}");
    check_told(front, back.name, &failure);
    hello("after the back").await;

    // The front is killed.
    let [front_process] = marked(&mark, 1)[..] else { panic!("{pair}: it was started again") };
    let (failure, took, (_, all)) = killed_while_waiting(&bus, &back, 2, |_| front_process).await;
    assert!(took < AT_ONCE, "{pair}: {took:?}");
    assert_eq!(failure.kind, FailureKind::Gone, "{pair}: {failure:?}");
    let stderr = failure.last_words.as_ref().map(|words| words.stderr.concat());
    assert!(stderr.is_some_and(|said| said.contains(LAST_WORDS)), "{pair}: {failure:?}");
    let gone = spawn_blocking(move || all.iter().for_each(|process| process.assert_gone()));
    gone.await.unwrap();
    hello("after the front").await;
    bus.kill();
    bus.shutdown().await;
}

/// Kills a process as soon as the tool was asked for the `count`th time: what the caller learns,
/// how long after, and who was there.
async fn killed_while_waiting(
    bus: &Bus,
    back: &Rc<Back>,
    count: usize,
    whom: impl FnOnce(&(Group, Vec<Group>)) -> Group,
) -> (Failure, Duration, (Group, Vec<Group>)) {
    let [tool, args] = back.waits;
    let killing = async {
        let files = back.scratch.file("asked");
        // On another thread: here the call has to go on meanwhile.
        spawn_blocking(move || marked(&files, count)).await.unwrap();
        let there = back.asked(count);
        whom(&there).kill();
        (Instant::now(), there)
    };
    let (outcome, (killed, there)) = tokio::join!(call(bus, tool, args, PATIENCE * 4), killing);
    (outcome.expect_err("it never answers"), killed.elapsed(), there)
}

/// What the caller of each front learns of a back that is killed: the failure as a caller of ours
/// sees it, what stands in its detail, and the same for people.
const TOLD: [(&str, FailureKind, &[&str], &str); 6] = [
    ("oracle", FailureKind::Failed, &[r#""kind":"gone""#], "−32603, `gone` in `data.kind`"),
    ("orchard", FailureKind::Failed, &[LAST_WORDS], "`execute_failed`, its last words as `detail`"),
    (
        "mcp",
        FailureKind::Failed,
        &[r#""kind":"gone""#, r#""signal":9"#, LAST_WORDS],
        "−32603, `gone` in `data.kind`, with its exit and last words",
    ),
    ("mediocre", FailureKind::Gone, &[], "`unavailable` for the reason `gone`"),
    ("orchestra", FailureKind::Unavailable, &[], "`unavailable`"),
    ("godex", FailureKind::Gone, &[], "the model is told `error: gone: …`, and goes on"),
];

/// The section of `docs/bridges.md` about processes that are killed.
pub(crate) fn to_markdown() -> String {
    let rows: String =
        TOLD.iter().map(|(front, .., told)| format!("| {front} | {told} |\n")).collect();
    format!(
        "\n## A process is killed\n\nIn the middle of a call through each of the 36 pairs whose \
         ends start each other first the back is killed, then the front; of NATS, whose nodes nobody \
         starts again, [nats.md](nats.md) tells. The message says how the process ended; the next call \
         works, and nothing is left of what the killed process had started. A front that is killed \
         is `gone` to its own caller, with its last words where we have started it. What the \
         caller of a front learns of a back that is killed:\n\n\
         | front | the caller learns at once |\n|---|---|\n{rows}"
    )
}

/// Is the caller told what it should be?
fn check_told(front: &str, back: &str, failure: &Failure) {
    let pair = format!("{front} before {back}");
    let told = TOLD.iter().find(|(name, ..)| *name == front);
    let (_, kind, details, _) = told.unwrap_or_else(|| panic!("{front} is no front"));
    assert_eq!(failure.kind, *kind, "{pair}: {failure:?}");
    let detail = failure.detail.as_ref().map_or("", |detail| detail.as_str());
    assert!(details.iter().all(|part| detail.contains(part)), "{pair}: {failure:?}");
    assert!(says_its_end(&failure.message), "{pair}: {failure:?}");
}

/// Does a message say how a killed process ended, in the words of its wire?
pub(crate) fn says_its_end(message: &str) -> bool {
    ["ended with signal 9", "was killed by SIGKILL", "has ended"]
        .iter()
        .any(|words| message.contains(words))
}
