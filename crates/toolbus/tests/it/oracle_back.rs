//! Oracles behind the bus as real processes: started once, kept, mourned, replaced, left by none.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus::bus::back::Back;
use toolbus::wire::oracle::back::{Options, Oracle};
use toolbus_engine::calls::Inbox;
use toolbus_engine::child::supervisor::Restart;
use toolbus_engine::child::{Exit, Patience, Program};
use toolbus_proto::json::Json;
use toolbus_proto::oracle::WIRE;
use toolbus_proto::oracle::{Functions, Settings};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What};
use toolbus_testkit::runtime::run;

/// What every script begins with: `answer FELT` answers the call that was read last.
const PRELUDE: &str = r#"
    id=-1
    ready() { echo '{"jsonrpc":"2.0","id":0,"method":"ready"}'; read ack; }
    next() { read line || exit 0; case $line in *shutdown*) exit 0;; esac; id=$((id + 1)); }
    answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":[\"$1\"]}"; }
"#;

/// Answers every call with the number of its process.
const FAITHFUL: &str = "ready; while next; do answer $(printf 0x%x $$); done";

/// Waits for nothing longer than it must, but for what is under test.
const QUICK: Patience = Patience {
    stop: Duration::from_millis(50),
    signal: Duration::from_millis(50),
    ..toolbus::wire::oracle::PATIENCE
};

fn oracle(script: &str) -> Oracle {
    oracle_with(script, toolbus::wire::oracle::PATIENCE)
}

fn oracle_with(script: &str, patience: Patience) -> Oracle {
    let script = format!("{PRELUDE}\n{script}");
    Oracle::new(Options {
        name: "script".to_owned(),
        program: Program::new(vec!["sh".into(), "-c".into(), script]),
        patience,
        restart: Restart::OnDemand,
        settings: Settings::default(),
        functions: Functions::default(),
    })
}

async fn invoke(oracle: &Oracle) -> Result<Outcome, Failure> {
    let what = What::Native {
        wire: WIRE,
        method: Bytes::from_static(b"f"),
        body: Bytes::from_static(b"[]"),
    };
    let (inbox, slot) = Inbox::new();
    let uplink = oracle.start(Call::of(Instant::now(), what), slot);
    inbox.whole(uplink).await
}

/// The one felt of an answer, as a number.
fn felt(outcome: Result<Outcome, Failure>) -> u32 {
    let Ok(Outcome::Value(felts)) = outcome else { panic!("no felts: {outcome:?}") };
    let [felt] = &serde_json::from_str::<Vec<String>>(felts.as_str()).unwrap()[..] else {
        panic!("not one felt: {felts}")
    };
    u32::from_str_radix(felt.strip_prefix("0x").unwrap(), 16).unwrap()
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn ok(felt: &str) -> Result<Outcome, Failure> {
    Ok(Outcome::Value(Json::parse(format!("[\"{felt}\"]")).unwrap()))
}

#[test]
fn two_first_calls_start_one_process_and_it_is_kept() {
    run(async {
        let oracle = oracle(FAITHFUL);
        let (one, two) = tokio::join!(invoke(&oracle), invoke(&oracle));
        let (one, two, three) = (felt(one), felt(two), felt(invoke(&oracle).await));
        assert_eq!([two, three], [one, one]);
        assert!(is_alive(one));
        oracle.shutdown().await;
        assert!(!is_alive(one));
    });
}

#[test]
fn a_death_in_the_middle_of_a_call_is_told_and_the_next_call_works() {
    run(async {
        let flag = std::env::temp_dir().join(format!("toolbus-once-{}", std::process::id()));
        let script = format!(
            "ready; next; echo 'it hurts' >&2; [ -e '{0}' ] && {{ answer 0x1; next; }}; touch '{0}'; exit 3",
            flag.display()
        );
        let oracle = oracle(&script);
        let failure = invoke(&oracle).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Gone);
        assert_eq!(failure.message, "`script` ended with exit status 3 before it answered");
        let words = failure.last_words.unwrap();
        assert_eq!((words.exit, words.stderr), (Some(Exit::Code(3)), vec!["it hurts".to_owned()]));
        assert_eq!(invoke(&oracle).await, ok("0x1"));
        oracle.shutdown().await;
        fs::remove_file(flag).unwrap();
    });
}

#[test]
fn an_answer_before_the_death_is_taken_and_a_fresh_process_answers_the_next() {
    run(async {
        let oracle = oracle("ready; next; answer $(printf 0x%x $$)");
        let mut pids = Vec::new();
        while pids.len() < 5 {
            let pid = felt(invoke(&oracle).await);
            gone(pid).await;
            // Its end is in the pipe; the bus has a few turns to read it.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            pids.push(pid);
        }
        pids.sort_unstable();
        pids.dedup();
        assert_eq!(pids.len(), 5);
        oracle.shutdown().await;
    });
}

#[test]
fn a_start_that_takes_too_long_is_given_up() {
    run(async {
        // Long enough for its words to come, however busy the machine is.
        let patience = Patience { start: Duration::from_secs(4), ..QUICK };
        let oracle = oracle_with("echo patience >&2; exec sleep 600", patience);
        let failure = invoke(&oracle).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert_eq!(failure.message, "`script` was not ready within 4s");
        let words = failure.last_words.unwrap();
        // That we ended it is no news.
        assert_eq!(words.exit, None);
        assert_eq!(words.stderr, ["patience"]);
    });
}

/// Neither the goodbye nor SIGTERM moves this one, nor what it started.
const STUBBORN: &str = "trap '' TERM; sleep 600 & child=$!; ready; next; answer $(printf 0x%x $$); \
                        next; answer $(printf 0x%x $child); while :; do sleep 1; done";

#[test]
fn a_stubborn_process_and_its_children_do_not_survive_the_shutdown() {
    run(async {
        let oracle = oracle_with(STUBBORN, QUICK);
        let (pid, child) = (felt(invoke(&oracle).await), felt(invoke(&oracle).await));
        assert!(is_alive(pid) && is_alive(child));
        oracle.shutdown().await;
        assert!(!is_alive(pid), "not even a zombie");
        gone(child).await;
    });
}

#[test]
fn dropping_the_back_leaves_nobody_and_ends_its_calls() {
    run(async {
        let oracle = oracle(STUBBORN);
        let (pid, child) = (felt(invoke(&oracle).await), felt(invoke(&oracle).await));
        let (inbox, slot) = Inbox::new();
        let what = What::Native { wire: WIRE, method: "f".into(), body: "[]".into() };
        let uplink = oracle.start(Call::of(Instant::now(), what), slot);
        drop(oracle);
        assert!(!is_alive(pid), "killed and reaped before the drop returns");
        gone(child).await;
        let expected = Failure::new(FailureKind::Cancelled, "`script` was let go");
        assert_eq!(inbox.whole(uplink).await, Err(expected));
    });
}

/// Waits until a process is gone, but for its reaping: a grandchild is reaped by whoever
/// adopted it, in its own time.
async fn gone(pid: u32) {
    let stat = format!("/proc/{pid}/stat");
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn two_may_wait_for_the_same_shutdown() {
    run(async {
        let oracle = oracle(FAITHFUL);
        let pid = felt(invoke(&oracle).await);
        tokio::join!(oracle.shutdown(), oracle.shutdown());
        assert!(!is_alive(pid));
    });
}

#[test]
fn a_talkative_stderr_blocks_nobody() {
    run(async {
        let oracle = oracle(
            "ready; next; yes 'much to say about little' | head -c 16777216 >&2; answer 0x1; next",
        );
        assert_eq!(invoke(&oracle).await, ok("0x1"));
        oracle.shutdown().await;
    });
}

#[test]
fn a_process_that_closes_its_output_and_lives_on_is_gone() {
    run(async {
        let oracle = oracle_with("ready; next; exec >&-; while :; do sleep 1; done", QUICK);
        let failure = invoke(&oracle).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Gone);
        let words = failure.last_words.unwrap();
        // That we ended it is no news.
        assert_eq!(words.exit, None);
        oracle.shutdown().await;
    });
}

#[test]
fn many_lives_leave_nothing_behind() {
    run(async {
        let oracle = oracle("ready; next; exit 1");
        invoke(&oracle).await.unwrap_err();
        let before = descriptors();
        for _ in 0..100 {
            let failure = invoke(&oracle).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Gone);
        }
        // Tasks that were told to end have a turn to do so; other tests come and go.
        while before < descriptors() {
            tokio::task::yield_now().await;
        }
        oracle.shutdown().await;
    });
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}
