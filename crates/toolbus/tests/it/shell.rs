//! `shell:`, called by hosts without a runtime and behind the bus.

use std::time::{Duration, Instant};

use toolbus::bus::back::Back;
use toolbus::wire::oracle::blocking::{Oracles, Settings};
use toolbus::wire::oracle::shell::Shell;
use toolbus_engine::calls::Inbox;
use toolbus_engine::child::shell::{self, Limits, Ran};
use toolbus_proto::json::Json;
use toolbus_proto::oracle;
use toolbus_proto::oracle::WIRE;
use toolbus_proto::oracle::cairo::SelectorForm;
use toolbus_proto::oracle::felt::{Felt, Leniency};
use toolbus_proto::oracle::felts;
use toolbus_proto::tool::{Call, Code, Deadline, Failure, FailureKind, Outcome, What};
use toolbus_testkit::runtime;

use crate::PATIENCE;

const FREE: Limits = Limits { stdout_bytes_max: 1 << 20, give_up_at: None };

fn run(command: &str) -> (i32, String) {
    let Ran { code, stdout } = shell::run(command, &FREE, None).unwrap();
    (code, String::from_utf8(stdout).unwrap())
}

#[test]
fn a_command_gives_its_status_and_all_its_output() {
    assert_eq!(run("echo hi; echo oops >&2; exit 3"), (3, "hi\n".to_owned()));
    assert_eq!(run("no-such-program"), (127, String::new()));
    assert_eq!(run("kill -9 $$"), (128 + 9, String::new()));
    assert_eq!(run("cat"), (0, String::new()), "the input is empty");
    let (code, much) = run("head -c 900000 /dev/zero | tr '\\0' x");
    assert_eq!((code, much.len()), (0, 900_000));
}

#[test]
fn whoever_a_command_leaves_behind_is_not_waited_for() {
    let before = Instant::now();
    assert_eq!(run("sleep 600 & echo up"), (0, "up\n".to_owned()));
    assert!(before.elapsed() < PATIENCE);
}

#[test]
fn too_much_output_too_much_time_and_a_change_of_mind_end_a_command() {
    let small = Limits { stdout_bytes_max: 10, ..FREE };
    let failure = shell::run("yes", &small, None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::TooLarge);
    assert_eq!(failure.message, "the command wrote more than the limit of 10 bytes");

    let soon = Limits { give_up_at: Some(Instant::now() + Duration::from_millis(50)), ..FREE };
    let failure = shell::run("sleep 600", &soon, None).unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut);

    let (cancelled, cancel) = std::io::pipe().unwrap();
    let running = std::thread::spawn(move || shell::run("sleep 600", &FREE, Some(&cancelled)));
    drop(cancel);
    assert_eq!(running.join().unwrap().unwrap_err().kind, FailureKind::Cancelled);
}

#[test]
fn a_cairo_program_runs_a_command() {
    let mut oracles = Oracles::new(Settings { allow_shell: true, ..Settings::default() });
    let list = |text: &str| felts::read(text, Leniency::Strict).unwrap();
    // shell: · exec · the ByteArray `echo hi`
    let asked = list(
        r#"["0x0","0x7368656c6c3a","0x6","0x0","0x65786563","0x4","0x0","0x6563686f206869","0x7"]"#,
    );
    let answer = oracles.oracle_invoke(SelectorForm::ByteArray, &asked);
    assert_eq!(answer, list(r#"["0x0","0x0","0x0","0x68690a","0x3"]"#));

    let failure = oracles.invoke("shell:", "ls", &[]).unwrap_err();
    assert_eq!(failure.message, r#"unknown selector: "ls", this oracle provides: "exec""#);
    assert_eq!((failure.code, failure.from_peer), (Some(Code::Number(-32602)), true));
}

#[test]
fn whatever_a_cairo_program_asks_it_gets_an_answer() {
    let mut oracles = Oracles::new(Settings::default());
    let list = |text: &str| felts::read(text, Leniency::Strict).unwrap();
    let huge = Felt::from_bytes([7; 32]).unwrap();
    for asked in [
        vec![],
        vec![huge; 3],
        list(r#"["0x0","0xff","0x1"]"#),
        list(r#"["0x0","0x61","0x1"]"#),
        // stdio:true · f, which ends at once
        list(r#"["0x0","0x737464696f3a74727565","0xa","0x0","0x66","0x1"]"#),
    ] {
        for form in [SelectorForm::ByteArray, SelectorForm::ShortString] {
            let answer = oracles.oracle_invoke(form, &asked);
            assert_eq!(answer[0], Felt::ONE, "{asked:?}");
            assert!(4 <= answer.len(), "{asked:?}");
        }
    }
}

fn on_the_bus<T>(test: impl AsyncFnOnce(Shell) -> T) -> T {
    runtime::run(test(Shell::new(oracle::Settings::default())))
}

async fn ask(shell: &Shell, what: What) -> Result<Outcome, Failure> {
    let (inbox, slot) = Inbox::new();
    let uplink = shell.start(Call::of(Instant::now(), what), slot);
    inbox.whole(uplink).await
}

fn exec(command: &str) -> What {
    let args = Json::parse(format!(r#"{{"command":"{command}"}}"#)).unwrap();
    What::Tool { name: "exec".into(), args: Some(args) }
}

#[test]
fn the_tool_exec_answers_in_json_and_in_felts() {
    on_the_bus(async |shell| {
        let tools = shell.tools().await.unwrap();
        assert_eq!(tools[0].name.as_str(), "exec");
        let answer = ask(&shell, exec("echo hi")).await;
        assert_eq!(answer, Ok(Outcome::Value(Json::from_trusted(r#"[0,"hi\n"]"#))));

        let native = |method: &'static str, body: &'static str| What::Native {
            wire: WIRE,
            method: method.into(),
            body: body.into(),
        };
        let answer = ask(&shell, native("exec", r#"["0x0","0x3a","0x1"]"#)).await;
        let felts = Json::from_trusted(r#"["0x0","0x0","0x0","0x0"]"#);
        assert_eq!(answer, Ok(Outcome::Value(felts)));
        let refused = ask(&shell, native("ls", "[]")).await.unwrap_err();
        assert_eq!(refused.code, Some(Code::Number(-32602)));
    });
}

#[test]
fn a_command_behind_the_bus_can_be_late_cancelled_and_shut_down() {
    on_the_bus(async |shell| {
        let now = Instant::now();
        let quiet = Some(Duration::from_millis(50));
        let deadline = Deadline { asked: now, quiet, total: None };
        let (inbox, slot) = Inbox::new();
        let uplink = shell.start(Call { deadline, ..Call::of(now, exec("sleep 600")) }, slot);
        let late = inbox.whole(uplink).await.unwrap_err();
        assert_eq!(late.message, "no answer within 50ms");

        let (inbox, slot) = Inbox::new();
        let uplink = shell.start(Call::of(now, exec("sleep 600")), slot);
        drop(uplink);
        let cancelled = inbox.whole(toolbus_engine::calls::RunningCall::ended()).await.unwrap_err();
        assert_eq!(cancelled.kind, FailureKind::Cancelled);

        let (inbox, slot) = Inbox::new();
        let uplink = shell.start(Call::of(now, exec("sleep 600")), slot);
        shell.shutdown().await;
        assert_eq!(inbox.whole(uplink).await.unwrap_err().kind, FailureKind::Cancelled);
    });
}
