//! `toolbus log`: the journal read, filtered, summed up and followed.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use crate::live::Live;
use crate::page::{Page, check};

fn line(second: u32, back: &str, tool: &str, outcome: &str, duration: &str) -> String {
    let back = if back.is_empty() { String::new() } else { format!(r#""back":"{back}","#) };
    format!(
        r#"{{"time":"2026-11-16T02:14:{second:02}.250Z","front":"editor",{back}"tool":"{tool}","outcome":"{outcome}","duration":{duration},"bytes":{{"in":13,"out":2048}}}}"#
    ) + "\n"
}

/// A journal of three files, with a line that was cut off.
fn journal() -> Scratch {
    let scratch = Scratch::new();
    let write = |name: &str, text: String| fs::write(scratch.file(name), text).unwrap();
    write("j.2", line(1, "math", "add", "ok", "0.412"));
    write("j.1", line(2, "math", "add", "ok", "12.345") + r#"{"time":"2026-1"#);
    write(
        "j",
        [
            line(3, "math", "sqrt", "invalid_arguments", "1.000"),
            line(4, "weather", "forecast", "timed_out", "30000.123"),
            line(5, "weather", "forecast", "ok", "250.000"),
            line(6, "", "nothing", "unknown_tool", "0.020"),
        ]
        .concat(),
    );
    scratch
}

fn log(words: &[&str], scratch: &Scratch) -> Page {
    Page::of(&[&["log", "j"], words].concat()).folder(scratch.path())
}

#[test]
fn files_are_read_in_their_order() {
    log(&[], &journal()).check(expect![[r#"
        stdout
        2026-11-16 02:14:01.250    412 µs  ok                     13 B   2.0 KiB  editor    math.add
        2026-11-16 02:14:02.250   12.3 ms  ok                     13 B   2.0 KiB  editor    math.add
        2026-11-16 02:14:03.250   1.00 ms  invalid_arguments      13 B   2.0 KiB  editor    math.sqrt
        2026-11-16 02:14:04.250   30.00 s  timed_out              13 B   2.0 KiB  editor    weather.forecast
        2026-11-16 02:14:05.250    250 ms  ok                     13 B   2.0 KiB  editor    weather.forecast
        2026-11-16 02:14:06.250     20 µs  unknown_tool           13 B   2.0 KiB  editor    nothing
        stderr
        warning: one line of `j` is none of a journal, or was cut off
        exit 0
    "#]]);
}

#[test]
fn calls_are_filtered() {
    let scratch = journal();
    let count = |words: &[&str]| log(words, &scratch).run().stdout.lines().count();
    for (words, expected) in [
        (&["--back", "math"][..], 3),
        (&["--back", "math", "--back", "weather"], 5),
        (&["--tool", "add"], 2),
        (&["--tool", "math.add"], 2),
        (&["--tool", "weather.add"], 0),
        (&["--tool", "nothing"], 1),
        (&["--outcome", "ok"], 3),
        (&["--outcome", "failure"], 3),
        (&["--outcome", "timed_out", "--outcome", "unknown_tool"], 2),
        (&["--slower", "250ms"], 1),
        (&["--slower", "10ms"], 3),
        (&["--since", "2026-11-16T02:14:04Z"], 3),
        (&["--since", "2026-11-16T03:14:04.251+01:00"], 2),
        (&["--since", "1m", "--back", "math"], 0),
    ] {
        assert_eq!(count(words), expected, "{words:?}");
    }
    let own = log(&["--json", "--tool", "forecast", "--outcome", "ok", "-q"], &scratch).run();
    assert_eq!(own.stdout, line(5, "weather", "forecast", "ok", "250.000"));
}

#[test]
fn calls_are_summed_up() {
    let scratch = journal();
    log(&["--stats", "-q"], &scratch).check(expect![[r#"
        stdout
        math.add              2       0   412 µs  12.3 ms  ████████████████████████████
        weather.forecast      2       1   250 ms  30.00 s  ██████████████░░░░░░░░░░░░░░
        math.sqrt             1       1  1.00 ms  1.00 ms  ░░░░░░░░░░░░░░
        nothing               1       1    20 µs    20 µs  ░░░░░░░░░░░░░░
        exit 0
    "#]]);
    log(&["--stats", "-q", "--json"], &scratch).check(expect![[r#"
        stdout
        {"back":"math","tool":"add","count":2,"failures":0,"p50":0.412,"p99":12.345}
        {"back":"weather","tool":"forecast","count":2,"failures":1,"p50":250.000,"p99":30000.123}
        {"back":"math","tool":"sqrt","count":1,"failures":1,"p50":1.000,"p99":1.000}
        {"tool":"nothing","count":1,"failures":1,"p50":0.020,"p99":0.020}
        exit 0
    "#]]);
}

#[test]
fn standard_input_may_be_a_journal() {
    let text = line(1, "math", "add", "ok", "0.412") + &line(2, "math", "add", "failed", "3.000");
    Page::of(&["log", "-", "--outcome", "failure"]).stdin(text).check(expect![[r#"
        stdout
        2026-11-16 02:14:02.250   3.00 ms  failed                 13 B   2.0 KiB  editor    math.add
        exit 0
    "#]]);
}

#[test]
fn what_is_asked_for_must_make_sense() {
    check(
        "log no/such/journal",
        expect![[r#"
        stderr
        error: there is no journal `no/such/journal`
        hint: it is made by the first call that goes through a config with `[journal]`
        exit 2
    "#]],
    );
    check(
        "log",
        expect![[r#"
        stderr
        error: no PATH is given, and there is no `toolbus.toml` here or above
        hint: name a journal: `toolbus log PATH`
        exit 2
    "#]],
    );
    check(
        "log j --since yesterday",
        expect![[r#"
        stderr
        error: `--since`: `yesterday` is neither a time ago (`30s`, `10m`, `2h`, `7d`) nor one of RFC 3339 (`2026-11-16T02:14:19Z`)
        exit 2
    "#]],
    );
    check(
        "log j --outcome fine",
        expect![[r#"
        stderr
        error: `--outcome`: no call ends as `fine`; it can be ok, failure, unknown_tool, invalid_arguments, failed, timed_out, cancelled, gone, broke_protocol, unavailable, too_large
        exit 2
    "#]],
    );
    Page::of(&["log"])
        .config("log_without_journal", "[back.try]\nconnect = \"builtin:\"\n")
        .check(expect![[r#"
            stderr
            error: no PATH is given, and `toolbus.toml` has no `[journal]`
            hint: name a journal: `toolbus log PATH`, or have one written: `[journal]` with `path = "calls.jsonl"`
            exit 2
        "#]]);
}

#[test]
fn a_journal_is_followed_from_file_to_file() {
    let scratch = Scratch::new();
    let path = scratch.file("j");
    let append = |text: &str| {
        let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let add = |second: u32| line(second, "math", "add", "ok", "0.412");
    // It is there before its journal is.
    let mut live = Live::start(&["log", "--follow", "--json", "--tool", "add", &path]);
    append(&add(1));
    assert_eq!(live.hear() + "\n", add(1));
    append(&line(2, "math", "sqrt", "ok", "0.1"));
    // Half a line is none yet.
    let (begin, end) = (&add(3)[..20], &add(3)[20..]);
    append(begin);
    append(end);
    assert_eq!(live.hear() + "\n", add(3));
    append(&add(4));
    fs::rename(&path, format!("{path}.1")).unwrap();
    append(&add(5));
    assert_eq!(live.hear() + "\n", add(4));
    assert_eq!(live.hear() + "\n", add(5));
    // Twice at once: what is between is not left out.
    fs::rename(format!("{path}.1"), format!("{path}.3")).unwrap();
    fs::rename(&path, format!("{path}.2")).unwrap();
    fs::write(format!("{path}.1"), add(6)).unwrap();
    append(&add(7));
    assert_eq!(live.hear() + "\n", add(6));
    assert_eq!(live.hear() + "\n", add(7));
    live.signal(Signal::INT);
    assert_eq!(live.end(), "exit 130\n");
}
