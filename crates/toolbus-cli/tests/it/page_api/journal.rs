//! The journal as the page reads it: page by page, the last written first, through all its files.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use super::{LOOK, Shown, TCP};
use crate::serve::{BUILTIN, Config};

/// Lines of a journal, as they are written.
pub(crate) fn lines(numbers: std::ops::Range<usize>) -> String {
    numbers.fold(String::new(), |mut text, n| {
        let outcome = if n % 10 == 0 { "failed" } else { "ok" };
        writeln!(
            text,
            "{{\"time\":\"2026-11-16T02:14:19.250Z\",\"front\":\"scripts\",\"back\":\"try\",\"tool\":\"t{n}\",\"outcome\":\"{outcome}\",\"duration\":0.412,\"bytes\":{{\"in\":13,\"out\":1}},\"arguments\":{{\"n\":{n}}}}}"
        )
        .expect("a text can grow");
        text
    })
}

/// A config with a journal of 250 lines in two files, of which one was cut off.
pub(crate) fn config(admin: &str) -> Config {
    let config = Config::of(&format!("{BUILTIN}{TCP}{admin}[journal]\npath = \"calls.jsonl\"\n"));
    let old = format!("{}{{\"time\":\"20\n", lines(0..130));
    fs::write(config.file("calls.jsonl.1"), old).expect("the folder is ours");
    fs::write(config.file("calls.jsonl"), lines(130..250)).expect("the folder is ours");
    config
}

fn tools(told: &Value) -> Vec<String> {
    let tool = |entry: &Value| entry["tool"].as_str().expect("a name").to_owned();
    told["entries"].as_array().expect("a list").iter().map(tool).collect()
}

#[test]
fn pages_follow_each_other_without_a_gap() {
    let shown = Shown::served(config(LOOK));
    let mut all = Vec::new();
    let (mut next, mut passed_over, mut pages) = (String::new(), 0, 0);
    loop {
        let told = shown.json(&format!("/api/journal?limit=100{next}"));
        assert!(told["scanned"].as_u64().is_some_and(|bytes| 0 < bytes));
        passed_over += told["passed_over"].as_u64().expect("a number");
        all.extend(tools(&told));
        pages += 1;
        match told.get("next") {
            Some(text) => next = format!("&before={}", text.as_str().expect("a text")),
            None => break,
        }
    }
    let expected: Vec<_> = (0..250).rev().map(|n| format!("t{n}")).collect();
    assert_eq!((all, passed_over, pages), (expected, 1, 3));
}

#[test]
fn a_filter_holds_through_all_pages() {
    let shown = Shown::served(config(LOOK));
    let first = shown.json("/api/journal?filter=outcome:failure&limit=20");
    let next = first["next"].as_str().expect("there is more");
    let rest = shown.json(&format!("/api/journal?filter=outcome:failure&before={next}"));
    let found: Vec<_> = tools(&first).into_iter().chain(tools(&rest)).collect();
    let expected: Vec<_> = (0..250).step_by(10).rev().map(|n| format!("t{n}")).collect();
    assert_eq!((found, rest.get("next")), (expected, None));
    let one = shown.json("/api/journal?filter=tool:t7");
    assert_eq!(tools(&one), ["t7"]);
    assert_eq!(one["entries"][0]["arguments"]["n"], 7);
    let told = shown.get("/api/journal?filter=outcome:none");
    assert!(
        told.refused(400, "invalid").starts_with("no call ends as `none`; it can be ok, failure")
    );
}

/// Values of the journal are values.
#[test]
fn values_of_lines_are_told_only_where_values_are() {
    let shown = Shown::served(config(&format!("{LOOK}page_values = false\n")));
    let told = shown.json("/api/journal?limit=1");
    assert_eq!(tools(&told), ["t249"]);
    assert_eq!(told["entries"][0].get("arguments"), None);
}
