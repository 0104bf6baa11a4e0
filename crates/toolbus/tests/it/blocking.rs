//! Oracles called without a runtime, good ones and bad ones: each a few lines of shell.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolbus::wire::oracle::blocking::{Oracles, Settings};
use toolbus_proto::oracle::felt::{Felt, Leniency};
use toolbus_proto::tool::{Exit, Failure, FailureKind};
use toolbus_testkit::patience::eventually;
use toolbus_testkit::process::await_unread;

use crate::PATIENCE;

/// The beginning of every oracle that keeps to the rules.
const READY: &str = r#"echo '{"jsonrpc":"2.0","id":0,"method":"ready"}'; read -r ack;"#;
/// Answers every call with its own number.
const ANSWER_ALL: &str = r#"
    i=0
    while read -r call; do
        case $call in *shutdown*) exit 0 ;; esac
        echo '{"jsonrpc":"2.0","id":'$i',"result":["'$(printf 0x%x $i)'"]}'
        i=$((i + 1))
    done"#;
/// Answers every call with its process id.
const ANSWER_PID: &str = r#"
    i=0
    while read -r call; do
        echo '{"jsonrpc":"2.0","id":'$i',"result":["'$(printf 0x%x $$)'"]}'
        i=$((i + 1))
    done"#;

fn connection(script: &str) -> String {
    format!("stdio:sh -c '{}' oracle", script.replace('\'', r"'\''"))
}

fn oracles() -> Oracles {
    Oracles::new(Settings { stop_timeout: PATIENCE, ..Settings::default() })
}

fn call(oracles: &mut Oracles, connection: &str) -> Result<u128, Failure> {
    let felts = oracles.invoke(connection, "f", &[Felt::from(7)])?;
    Ok(felts[0].to_u128().unwrap())
}

fn pid_of(oracles: &mut Oracles, connection: &str) -> i32 {
    i32::try_from(call(oracles, connection).unwrap()).unwrap()
}

/// Gone, or waiting to be reaped.
fn is_dead(pid: i32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'),
        Err(_) => true,
    }
}

#[test]
fn one_process_answers_all_calls_and_ends_when_told() {
    let mut oracles = oracles();
    let connection = connection(&format!("{READY} {ANSWER_ALL}"));
    for expected in 0..100 {
        assert_eq!(call(&mut oracles, &connection), Ok(expected));
    }
    oracles.shutdown();
}

#[test]
fn an_oracle_is_known_by_the_exact_text_of_its_connection() {
    let mut oracles = oracles();
    let one = connection(&format!("{READY} {ANSWER_PID}"));
    let other = format!("{one} ");
    let pids = [&one, &other, &one].map(|connection| pid_of(&mut oracles, connection));
    assert_eq!(pids[0], pids[2]);
    assert_ne!(pids[0], pids[1]);
    oracles.shutdown();
    assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
}

#[test]
fn oracles_may_move_to_another_thread() {
    let mut oracles = oracles();
    let connection = connection(&format!("{READY} {ANSWER_ALL}"));
    assert_eq!(call(&mut oracles, &connection), Ok(0));
    let moved = std::thread::spawn(move || call(&mut oracles, &connection));
    assert_eq!(moved.join().unwrap(), Ok(1));
}

/// Answers one call with its process id and does something else then.
fn once(then: &str) -> String {
    let answer = r#"echo '{"jsonrpc":"2.0","id":0,"result":["'$(printf 0x%x $$)'"]}'"#;
    connection(&format!("{READY} read -r call; {answer}; {then}"))
}

#[test]
fn an_oracle_that_died_between_calls_is_replaced_before_the_next() {
    let mut oracles = oracles();
    let end = folder("died_between").join("end");
    let connection = once(&format!("until [ -e {} ]; do :; done; exit", end.display()));
    let first = pid_of(&mut oracles, &connection);
    let stdin = fs::read_link(format!("/proc/{first}/fd/0")).unwrap();
    fs::write(&end, "").unwrap();
    eventually("the end of the first", || is_dead(first));
    // A process that is just being started elsewhere has a copy: it would seem to have heard us.
    await_unread(&stdin);
    assert_ne!(pid_of(&mut oracles, &connection), first);
}

#[test]
fn an_oracle_that_closed_its_output_is_replaced_as_soon_as_it_is_noticed() {
    let mut oracles = oracles();
    let connection = once("exec 1>&-; cat >/dev/null");
    let first = pid_of(&mut oracles, &connection);
    let second = loop {
        match call(&mut oracles, &connection) {
            Ok(pid) => break pid,
            // It heard us before it closed, so no other process may be asked the same.
            Err(failure) => assert_eq!(failure.kind, FailureKind::Gone),
        }
    };
    assert_ne!(i32::try_from(second).unwrap(), first);
}

#[test]
fn a_call_that_died_with_its_process_is_told_and_not_repeated() {
    let folder = folder("not_repeated");
    let log = folder.join("started");
    let script =
        format!("echo start >> {}; {READY} read -r call; echo oops >&2; exit 3", log.display());
    let connection = connection(&script);
    let mut oracles = oracles();
    let failure = call(&mut oracles, &connection).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Gone);
    assert_eq!(failure.message, "`sh` ended with exit status 3 before it answered");
    let words = failure.last_words.unwrap();
    assert_eq!((words.exit, &words.stderr[..]), (Some(Exit::Code(3)), &["oops".to_owned()][..]));
    assert_eq!(fs::read_to_string(&log).unwrap(), "start\n");
    // The next call has a process of its own.
    call(&mut oracles, &connection).unwrap_err();
    assert_eq!(fs::read_to_string(&log).unwrap(), "start\nstart\n");
}

#[test]
fn an_answer_and_a_death_in_one_breath_is_an_answer() {
    let script =
        format!(r#"{READY} read -r call; printf '{{"jsonrpc":"2.0","id":0,"result":["0x5"]}}'"#);
    assert_eq!(call(&mut oracles(), &connection(&script)), Ok(5));
}

#[test]
fn processes_that_hold_the_output_of_the_dead_are_not_waited_for() {
    // One in the group, which is killed; one that left it, which only a cgroup or we can kill.
    for left_behind in ["sleep 600", "setsid sleep 600"] {
        let script = format!(
            r#"{READY} read -r call; {left_behind} & [ $i ] || echo "held by $!" >&2; exit 3"#
        );
        let failure = call(&mut oracles(), &connection(&script)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Gone, "{failure}");
        let words = failure.last_words.unwrap();
        assert_eq!(words.exit, Some(Exit::Code(3)));
        let holder = words.stderr[0].strip_prefix("held by ").unwrap().parse().unwrap();
        if left_behind.starts_with("setsid") {
            let pid = rustix::process::Pid::from_raw(holder).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        eventually("the end of who was left behind", || is_dead(holder));
    }
}

#[test]
fn a_late_oracle_is_given_up_at_once_and_goes_even_without_another_call() {
    let script = format!(
        r#"trap "" TERM; {READY} read -r call
           echo '{{"jsonrpc":"2.0","id":0,"result":["'$(printf 0x%x $$)'"]}}'
           while :; do sleep 600; done"#
    );
    let connection = connection(&script);
    let timeout = Some(Duration::from_secs(4));
    let mut oracles = Oracles::new(Settings { timeout, ..Settings::default() });
    let pid = pid_of(&mut oracles, &connection);
    let failure = call(&mut oracles, &connection).unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert_eq!(failure.message, "no answer within 4s");
    eventually("the end of the late one", || is_dead(pid));
    assert_ne!(pid_of(&mut oracles, &connection), pid);
}

#[test]
fn a_start_that_takes_too_long_is_given_up() {
    let start_timeout = Duration::from_millis(100);
    let mut oracles = Oracles::new(Settings { start_timeout, ..Settings::default() });
    let failure = call(&mut oracles, "stdio:sleep 600").unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert_eq!(failure.message, "`sleep` was not ready within 100ms");
}

#[test]
fn dropping_the_oracles_kills_them() {
    let mut oracles = oracles();
    let pid = pid_of(&mut oracles, &connection(&format!("trap \"\" TERM; {READY} {ANSWER_PID}")));
    drop(oracles);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn both_pipes_may_be_full() {
    // Says every byte of the call back before it answers, and reads no further before that.
    let script =
        format!(r#"{READY} head -n 1; echo '{{"jsonrpc":"2.0","id":0,"result":["0x1"]}}'"#);
    let felts = vec![Felt::ONE; 14 << 17];
    let answer = oracles().invoke(&connection(&script), "f", &felts);
    assert_eq!(answer, Ok(vec![Felt::ONE]));
}

#[test]
fn a_talkative_standard_error_stops_no_call() {
    let script = format!(r#"head -c 1000000 /dev/zero | tr '\0' x >&2; {READY} {ANSWER_ALL}"#);
    assert_eq!(call(&mut oracles(), &connection(&script)), Ok(0));
}

/// What becomes of the first call to an oracle that does this behind the first call, and then
/// keeps to the rules; the second call must be fine.
#[track_caller]
fn check_answer(bad: &str, kind: FailureKind, message: &str) {
    let script = format!("{READY} read -r call; {bad}; {}", ANSWER_ALL.replace("i=0", "i=1"));
    let mut oracles = Oracles::new(Settings { line_bytes_max: 1 << 20, ..Settings::default() });
    let connection = connection(&script);
    let failure = call(&mut oracles, &connection).unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (kind, message));
    assert_eq!(call(&mut oracles, &connection), Ok(1));
}

#[test]
fn a_bad_answer_fails_its_call_and_no_other() {
    let prime = "0x800000000000011000000000000000000000000000000000000000000000001";
    let result = |result: &str| format!(r#"echo '{{"jsonrpc":"2.0","id":0,"result":{result}}}'"#);
    let broke = FailureKind::BrokeProtocol;
    check_answer(
        &result(&format!(r#"["{prime}"]"#)),
        broke,
        &format!("felt 0 is not below the field prime: \"{prime}\""),
    );
    check_answer(&result("[10]"), broke, "felt 0 is not a string: 10");
    check_answer(&result(r#""0x1""#), broke, r#"the result must be an array of felts, not "0x1""#);
    check_answer(
        "head -c 104857600 /dev/zero | tr '\\0' x; echo",
        FailureKind::TooLarge,
        "the oracle wrote a line longer than the limit of 1 MiB (1048576 bytes)",
    );
    check_answer(
        r#"echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"no luck"}}'"#,
        FailureKind::Failed,
        "no luck",
    );
}

#[test]
fn noise_before_an_answer_does_no_harm() {
    let deep = "printf '[%.0s' $(seq 100000); echo";
    for noise in
        ["echo garbage", r"printf '\0\0\0\n'", r"printf '\377\376 no UTF-8\n'", deep, "seq 900"]
    {
        let script = format!("{READY} {noise}; {ANSWER_ALL}");
        assert_eq!(call(&mut oracles(), &connection(&script)), Ok(0), "{noise}");
    }
}

/// What becomes of the first call to an oracle that does this in its first life; in its second
/// it keeps to the rules.
#[track_caller]
fn check_first_life(name: &str, bad: &str, kind: FailureKind, message: &str) {
    let marker = folder(name).join("lived");
    let marker = marker.display();
    let script =
        format!("[ -e {marker} ] || {{ touch {marker}; {bad}; exit 9; }}; {READY} {ANSWER_ALL}");
    let timeout = Some(Duration::from_secs(4));
    let mut oracles = Oracles::new(Settings { timeout, ..Settings::default() });
    let connection = connection(&script);
    let failure = call(&mut oracles, &connection).unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (kind, message), "{name}");
    assert_eq!(call(&mut oracles, &connection), Ok(0), "{name}");
}

#[test]
fn whatever_stage_it_dies_at_the_next_call_works() {
    let unavailable = FailureKind::Unavailable;
    let not_ready = "`sh` ended with exit status 9 before it was ready";
    check_first_life("at_once", "true", unavailable, not_ready);
    // Another process has its output as well, and ends later.
    check_first_life("held", r#"(trap "" TERM; exec sleep 100) & true"#, unavailable, not_ready);
    // What stands before the end counts as a line, and says more than that it ended.
    check_first_life(
        "half_ready",
        r#"printf '{"jsonrpc"'"#,
        unavailable,
        "expected a ready request as first line (not JSON: unexpected end at byte 10), got: {\"jsonrpc\"",
    );
    check_first_life(
        "not_ready",
        "echo hello; cat",
        unavailable,
        "expected a ready request as first line (its first byte must be `{`), got: hello",
    );
    check_first_life(
        "nuls",
        r"printf '\0\0\n'; cat",
        unavailable,
        "expected a ready request as first line (its first byte must be `{`), got: \\x00\\x00",
    );
    let gone = "`sh` ended with exit status 9 before it answered";
    check_first_life("behind_ready", &format!("{READY} true"), FailureKind::Gone, gone);
    check_first_life("in_a_call", &format!("{READY} read -r call"), FailureKind::Gone, gone);
    check_first_life(
        "half_an_answer",
        &format!(r#"{READY} read -r call; printf '{{"jsonrpc":"2.0","id":0,"res'"#),
        FailureKind::Gone,
        gone,
    );
    check_first_life(
        "half_an_answer_and_silence",
        &format!(r#"{READY} read -r call; printf '{{"jsonrpc":"2.0","id":0,"res'; cat"#),
        FailureKind::TimedOut,
        "no answer within 4s",
    );
    check_first_life(
        "flood",
        &format!("{READY} read -r call; yes"),
        FailureKind::BrokeProtocol,
        "more than 1000 lines that answer nothing",
    );
}

#[test]
fn lenient_felts_are_reduced() {
    let script = format!(
        r#"{READY} read -r call
           echo '{{"jsonrpc":"2.0","id":0,"result":["0x800000000000011000000000000000000000000000000000000000000000002"]}}'"#
    );
    let settings = Settings { leniency: Leniency::Lenient, ..Settings::default() };
    assert_eq!(call(&mut Oracles::new(settings), &connection(&script)), Ok(1));
}

#[test]
fn what_is_no_connection_is_refused_and_nothing_is_started() {
    for (connection, want) in [
        (
            "ftp:x",
            "unsupported connection scheme: \"ftp:x\"; supported are stdio:, oracle+stdio:, shell:",
        ),
        ("stdio:'x", "failed to parse oracle command: missing closing quote"),
        ("stdio: ", "empty oracle command"),
        ("shell:", "`shell:` is off: whoever calls it can run any command; it has to be allowed"),
    ] {
        let failure = call(&mut oracles(), connection).unwrap_err();
        assert_eq!((failure.kind, &*failure.message), (FailureKind::InvalidArguments, want));
    }
    let failure = call(&mut oracles(), "stdio:./no-such-oracle").unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert_eq!(failure.message, "there is no program `./no-such-oracle`");
}

/// A folder of one test, made anew.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("blocking").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}
