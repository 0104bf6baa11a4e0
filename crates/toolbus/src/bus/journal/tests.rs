//! A journal on a real disk: what is in its files after all that can happen to them.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use expect_test::expect;
use tokio::task::LocalSet;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Outcome, Trace};
use toolbus_testkit::scratch::Scratch;

use super::read::{Entry, Lines, open_all};
use super::*;
use crate::address::Address;
use crate::bus::Bus;
use crate::bus::observe::Kept;
use crate::engine::calls::Inbox;
use crate::peer::settings::Settings;

fn config(path: impl Into<PathBuf>) -> JournalConfig {
    let path = path.into();
    JournalConfig { path, arguments: false, results: false, bytes_max: 64 << 20, required: false }
}

fn call(tool: &str) -> ObservedCall {
    ObservedCall {
        front: "editor".into(),
        back: Some("math".into()),
        arguments: Some(Json::parse("{\n\"a\": 1}").unwrap()),
        bytes_in: 9,
        bytes_out: 1,
        ..ObservedCall::new(tool.into(), Instant::now())
    }
}

const OK: CallEnd<'_> = CallEnd {
    failed: None,
    failure: None,
    duration: Duration::from_micros(1_234_567),
    result: None,
};

/// The tools of all lines, the oldest first; of one that is none, `?`.
fn tools(path: &Path) -> Vec<String> {
    let mut tools = Vec::new();
    for file in open_all(path).unwrap() {
        let mut lines = Lines::new(file);
        while let Some(line) = lines.next_line().unwrap() {
            tools.push(Entry::parse(line).map_or("?".to_owned(), |entry| entry.tool.into_owned()));
        }
    }
    tools
}

fn numbered(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("t{number:04}")).collect()
}

#[test]
fn a_line_has_what_is_to_be_known_of_a_call() {
    let mut writer = LineWriter::default();
    let mut config = config("j");
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_794_795_259_250);
    let mut call = call("add");
    let mut line = |config: &JournalConfig, call: &ObservedCall, end: &CallEnd<'_>| {
        let mut line = Vec::new();
        writer.put(&mut line, config, at, call, end);
        String::from_utf8_lossy(&line).trim().to_owned()
    };
    let mut lines = vec![line(&config, &call, &OK)];
    call.trace = Trace::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None);
    config.arguments = true;
    config.results = true;
    let result = Outcome::Text("1\n\"2\"".to_owned());
    lines.push(line(&config, &call, &CallEnd { result: Some(&result), ..OK }));
    call.back = None;
    call.arguments = Some(Json::of(&"x".repeat(2 << 20)));
    let failure = Failure::new(FailureKind::TimedOut, "no answer within 1s");
    let end = CallEnd { failed: Some(failure.kind), failure: Some(&failure), ..OK };
    lines.push(line(&config, &call, &end));
    expect![[r#"
        {"time":"2026-11-16T02:14:19.250Z","front":"editor","back":"math","tool":"add","outcome":"ok","duration":1234.567,"bytes":{"in":9,"out":1}}
        {"time":"2026-11-16T02:14:19.250Z","trace":"0af7651916cd43dd8448eb211c80319c","front":"editor","back":"math","tool":"add","outcome":"ok","duration":1234.567,"bytes":{"in":9,"out":1},"arguments":{"a":1},"result":"1\n\"2\""}
        {"time":"2026-11-16T02:14:19.250Z","trace":"0af7651916cd43dd8448eb211c80319c","front":"editor","tool":"add","outcome":"timed_out","duration":1234.567,"bytes":{"in":9,"out":1},"arguments":{"$left_out":2097154},"failure":"no answer within 1s"}"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn a_line_says_who_called_and_what_kept_the_call_from_its_back() {
    let mut writer = LineWriter::default();
    let config = config("j");
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_794_795_259_250);
    let mut call = call("add");
    call.caller = Some("ann".into());
    call.view = Some("front+reader".into());
    let mut failure = Failure::new(FailureKind::Unavailable, "too many calls by this caller");
    failure.detail = Json::parse(r#"{"reason":"rate_limited","retry_after_ms":7}"#).ok();
    let limited = CallEnd { failed: Some(failure.kind), failure: Some(&failure), ..OK };
    let mut line = |call: &ObservedCall, end: &CallEnd<'_>| {
        let mut line = Vec::new();
        writer.put(&mut line, &config, at, call, end);
        String::from_utf8_lossy(&line).trim().to_owned()
    };
    let mut lines = vec![line(&call, &limited)];
    call.caller = None;
    call.kept = Some(Kept::Hidden);
    let unknown = Failure::new(FailureKind::UnknownTool, "unknown tool: add");
    let end = CallEnd { failed: Some(unknown.kind), failure: Some(&unknown), ..OK };
    lines.push(line(&call, &end));
    expect![[r#"
        {"time":"2026-11-16T02:14:19.250Z","front":"editor","caller":"ann","view":"front+reader","back":"math","tool":"add","outcome":"unavailable","reason":"rate_limited","duration":1234.567,"bytes":{"in":9,"out":1}}
        {"time":"2026-11-16T02:14:19.250Z","front":"editor","view":"front+reader","back":"math","tool":"add","outcome":"unknown_tool","hidden":true,"duration":1234.567,"bytes":{"in":9,"out":1}}"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(Entry::parse(lines[0].as_bytes()).unwrap().origin(), "editor/ann");
}

#[test]
fn it_is_private_and_made_with_its_folder_by_the_first_line() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("new/folder/calls.jsonl"));
    let journal = Journal::new(&config(&path));
    assert!(!path.exists());
    journal.ends(&call("add"), &OK).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(tools(&path), ["add"]);
}

#[test]
fn it_is_rotated_and_three_are_kept() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("j"));
    // Nine lines fit.
    let config = JournalConfig { bytes_max: 1400, ..config(&path) };
    let journal = Journal::new(&config);
    for tool in numbered(0..35) {
        journal.ends(&call(&tool), &OK).unwrap();
    }
    assert_eq!(tools(&path), numbered(0..35));
    for tool in numbered(35..100) {
        journal.ends(&call(&tool), &OK).unwrap();
    }
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1 + file::KEPT);
    let kept = tools(&path);
    assert_eq!(kept, numbered(100 - kept.len()..100));
    assert!(3 * 9 < kept.len(), "{}", kept.len());
    for number in 1..=file::KEPT {
        assert!(fs::metadata(file::kept(&path, number)).unwrap().len() <= 1400);
    }
}

#[test]
fn a_rotation_that_was_broken_off_loses_no_file() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("j"));
    let config = JournalConfig { bytes_max: 1, ..config(&path) };
    let journal = Journal::new(&config);
    for tool in ["a", "b", "c"] {
        journal.ends(&call(tool), &OK).unwrap();
    }
    // As it is after the first step of a rotation.
    fs::rename(file::kept(&path, 1), file::kept(&path, 2)).unwrap_or_default();
    fs::rename(file::kept(&path, 2), file::kept(&path, 3)).unwrap();
    journal.ends(&call("d"), &OK).unwrap();
    assert_eq!(tools(&path), ["b", "c", "d"]);
    journal.ends(&call("e"), &OK).unwrap();
    assert_eq!(tools(&path), ["b", "c", "d", "e"]);
}

#[test]
fn two_processes_may_write_to_one_file() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("j"));
    let config = JournalConfig { bytes_max: 1000, ..config(&path) };
    let journals = [Journal::new(&config), Journal::new(&config)];
    let mut written = Vec::new();
    for (at, tool) in numbered(0..28).into_iter().enumerate() {
        // Now one of them is ahead, now the other; each finds what the other has rotated.
        journals[usize::from(at % 7 < 3)].ends(&call(&tool), &OK).unwrap();
        written.push(tool);
    }
    let mut found = tools(&path);
    found.sort();
    assert_eq!(found, written);
}

#[test]
fn a_line_that_was_left_half_way_is_not_gone_on_with() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("j"));
    let tear = || {
        let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.write_all(br#"{"time":"2026"#).unwrap();
    };
    tear();
    let journal = Journal::new(&config(&path));
    journal.ends(&call("a"), &OK).unwrap();
    journal.ends(&call("b"), &OK).unwrap();
    // Another process died.
    tear();
    journal.ends(&call("c"), &OK).unwrap();
    assert_eq!(tools(&path), ["?", "a", "b", "?", "c"]);
}

#[test]
fn a_file_that_was_taken_away_is_made_anew() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("j"));
    let journal = Journal::new(&config(&path));
    journal.ends(&call("a"), &OK).unwrap();
    fs::remove_file(&path).unwrap();
    journal.ends(&call("b"), &OK).unwrap();
    assert_eq!(tools(&path), ["b"]);
    // One that was moved is, when it is said so.
    fs::rename(&path, path.with_extension("old")).unwrap();
    journal.open().unwrap();
    journal.ends(&call("c"), &OK).unwrap();
    assert_eq!(tools(&path), ["c"]);
    // One that was emptied is gone on with.
    fs::write(&path, "").unwrap();
    journal.ends(&call("d"), &OK).unwrap();
    assert_eq!(tools(&path), ["d"]);
}

/// Makes so many calls of a bus at once, whose tool answers at once; gives what they were told.
fn calls_at_once(journal: &Rc<Journal>, count: usize) -> Vec<Result<Outcome, Failure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let address = Address::parse("builtin:").unwrap();
        let bus = Bus::of_addresses(&[address], &Settings::default()).unwrap();
        let bus = bus.observed_by(journal.clone()).for_front("editor");
        let call = |_| {
            let (inbox, down) = Inbox::new();
            let args = Json::from_trusted(r#"{"a":1,"b":2}"#);
            (inbox, bus.start(Call::tool(Instant::now(), "add", Some(args)), down))
        };
        let started: Vec<_> = (0..count).map(call).collect();
        let mut told = Vec::new();
        for (inbox, running) in started {
            told.push(inbox.whole(running).await);
        }
        told
    })
}

#[test]
fn the_lines_of_calls_that_end_together_are_one_write() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("j"));
    let journal = Rc::new(Journal::new(&config(&path)));
    assert!(calls_at_once(&journal, 16).iter().all(Result::is_ok));
    assert_eq!(tools(&path), ["add"; 16]);
    assert_eq!(journal.state.borrow().writes, 1);
    // More of them than are kept for one write.
    assert!(calls_at_once(&journal, 1000).iter().all(Result::is_ok));
    assert_eq!(tools(&path).len(), 1016);
    let writes = journal.state.borrow().writes;
    assert!((3..=4).contains(&writes), "{writes}");
}

#[test]
#[cfg(target_os = "linux")]
fn all_answers_are_refused_whose_lines_cannot_be_written() {
    let required = JournalConfig { required: true, ..config(FULL) };
    let journal = Rc::new(Journal::new(&required));
    for told in calls_at_once(&journal, 16) {
        assert_eq!(told.unwrap_err().kind, FailureKind::Unavailable);
    }
    let journal = Rc::new(Journal::new(&config(FULL)));
    assert!(calls_at_once(&journal, 16).iter().all(Result::is_ok));
    assert_eq!(journal.state.borrow().trouble.as_ref().unwrap().lines_lost, 16);
}

#[test]
fn lines_of_one_write_go_to_as_many_files_as_they_need() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("j"));
    let journal = Journal::new(&JournalConfig { bytes_max: 1400, ..config(&path) });
    for tool in numbered(0..30) {
        journal.note(&call(&tool), &OK);
    }
    journal.write();
    assert_eq!(tools(&path), numbered(0..30));
    for number in 1..=file::KEPT {
        assert!(fs::metadata(file::kept(&path, number)).unwrap().len() <= 1400);
    }
}

#[test]
fn what_is_not_written_when_all_ends_is_written_then() {
    let scratch = Scratch::new();
    let path = PathBuf::from(scratch.file("j"));
    let journal = Journal::new(&config(&path));
    journal.note(&call("a"), &OK);
    // One that does not wait takes the others along.
    journal.ends(&call("b"), &OK).unwrap();
    assert_eq!(tools(&path), ["a", "b"]);
    journal.note(&call("c"), &OK);
    drop(journal);
    assert_eq!(tools(&path), ["a", "b", "c"]);
}

/// Every write to it fails as on a full disk.
const FULL: &str = "/dev/full";

#[test]
#[cfg(target_os = "linux")]
fn without_room_calls_go_on_or_fail() {
    let journal = Journal::new(&config(FULL));
    journal.open().unwrap();
    journal.begins(&call("a")).unwrap();
    journal.ends(&call("a"), &OK).unwrap();
    journal.begins(&call("b")).unwrap();

    let journal = Journal::new(&JournalConfig { required: true, ..config(FULL) });
    // What is made first cannot know yet.
    journal.begins(&call("a")).unwrap();
    let told = journal.ends(&call("a"), &OK).unwrap_err();
    assert_eq!(told.kind, FailureKind::Unavailable);
    assert_eq!(
        told.message,
        "the journal `/dev/full` cannot be written (No space left on device (os error 28)), \
         and without it no call is answered"
    );
    assert_eq!(journal.begins(&call("b")).unwrap_err(), told);
}

#[test]
fn what_cannot_be_opened_works_as_soon_as_it_can() {
    let scratch = Scratch::new();
    let folder = PathBuf::from(scratch.file("folder"));
    fs::write(&folder, "is none").unwrap();
    let path = folder.join("j");
    let journal = Journal::new(&JournalConfig { required: true, ..config(&path) });
    let opened = Cell::new(journal.open().is_ok());
    assert!(!opened.take());
    assert!(journal.ends(&call("a"), &OK).is_err());
    assert!(journal.begins(&call("b")).is_err());
    fs::remove_file(&folder).unwrap();
    // The line of the call that is refused shows that it can be written again.
    assert!(journal.begins(&call("c")).is_err());
    journal.ends(&call("c"), &OK).unwrap();
    journal.begins(&call("d")).unwrap();
    assert_eq!(tools(&path), ["c"]);
}
