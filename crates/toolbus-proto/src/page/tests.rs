//! What is kept of calls, what is counted, and what is told when.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::tool::{Failure, FailureKind, Outcome, Part, Piece, ToolName};

/// 2026-11-16T02:14:19.000Z.
const WALL: u64 = 1_794_795_259_000;

struct Bench {
    start: Instant,
    now: PageTime,
    store: PageStore,
    next: u64,
}

struct Hides;

impl Masks for Hides {
    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Owned(text.replace("s3cret", "***"))
    }

    fn json<'a>(&self, value: &'a Json) -> Cow<'a, Json> {
        Cow::Owned(Json::from_trusted(value.as_str().replace("s3cret", "***")))
    }
}

fn begun(asked: Instant, tool: &ToolName) -> CallBegun<'_> {
    static FRONT: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "web".into());
    static BACK: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "try".into());
    CallBegun {
        asked,
        front: &FRONT,
        caller: None,
        view: None,
        back: Some(&BACK),
        wire: Some("inside"),
        tool,
        trace: None,
        is_hidden: false,
        arguments: None,
        bytes_in: 2,
        bytes_out: 0,
        parts: 0,
    }
}

fn ended(outcome: &'static str) -> CallEnded<'static> {
    let duration = Duration::from_millis(1);
    CallEnded { outcome, reason: None, duration, result: None, failure: None }
}

impl Bench {
    fn new() -> Bench {
        let start = Instant::now();
        let now = PageTime { at: start, wall: WALL };
        Bench { start, now, store: PageStore::new(now), next: 0 }
    }

    fn at(&mut self, millis: u64) -> &mut Bench {
        let at = self.start + Duration::from_millis(millis);
        self.now = PageTime { at, wall: WALL + millis };
        self
    }

    fn begin(&mut self, tool: &str) -> u64 {
        self.begin_taking(tool, Takes::default(), None)
    }

    fn begin_taking(&mut self, tool: &str, takes: Takes, arguments: Option<&Json>) -> u64 {
        self.next += 1;
        let tool = ToolName::new(tool);
        let call = CallBegun { arguments, ..begun(self.now.at, &tool) };
        self.store.begins(self.now, self.next, &call, takes, Some(&|| true), 7);
        self.next
    }

    fn end(&mut self, key: u64, tool: &str, outcome: &'static str) {
        self.end_as(key, tool, &ended(outcome));
    }

    fn end_as(&mut self, key: u64, tool: &str, end: &CallEnded<'_>) {
        let tool = ToolName::new(tool);
        self.store.ends(self.now, key, &begun(self.now.at, &tool), end, 7);
    }

    fn call(&mut self, tool: &str, outcome: &'static str) {
        let key = self.begin(tool);
        self.end(key, tool, outcome);
    }

    fn calls_by(&mut self, filter: &str, before: Option<u64>, limit: usize) -> Value {
        let filter = CallFilter::parse(filter, SystemTime::now()).unwrap();
        let mut out = Vec::new();
        let page = CallsPage { filter: &filter, before, limit };
        self.store.write_calls(self.now, &mut out, page, &Hides);
        serde_json::from_slice(&out).unwrap()
    }

    fn calls(&mut self) -> Value {
        self.calls_by("", None, 5000)
    }

    fn frame(&mut self) -> Value {
        let frame = self.store.frame(self.now, &Hides, |members, counts| {
            members.number("calls_so_far", counts.calls);
        });
        serde_json::from_slice(&frame.members).unwrap()
    }

    fn detail(&mut self, n: u64) -> Option<Value> {
        let mut out = Vec::new();
        let is_kept = self.store.write_detail(&mut out, n, false, &Hides);
        is_kept.then(|| serde_json::from_slice(&out).unwrap())
    }
}

fn numbers(calls: &Value) -> Vec<u64> {
    calls["calls"].as_array().unwrap().iter().map(|call| call["n"].as_u64().unwrap()).collect()
}

#[test]
fn a_record_says_what_is_known() {
    let mut bench = Bench::new();
    let key = bench.begin("add");
    assert_eq!(
        bench.calls().to_string(),
        r#"{"calls":[{"n":1,"began":"2026-11-16T02:14:19.000Z","front":"web","back":"try","wire":"inside","tool":"add","outcome":"running","bytes":{"in":2,"out":0}}],"more":false,"forgotten":0}"#
    );
    bench.at(1500).end(key, "add", "timed_out");
    assert_eq!(
        bench.calls()["calls"][0].to_string(),
        r#"{"n":1,"began":"2026-11-16T02:14:19.000Z","time":"2026-11-16T02:14:20.500Z","front":"web","back":"try","wire":"inside","tool":"add","outcome":"timed_out","duration":1.0,"bytes":{"in":2,"out":0}}"#
    );
    bench.call(&"ü".repeat(300), "ok");
    let told = bench.calls()["calls"][0]["tool"].as_str().unwrap().to_owned();
    assert_eq!(told, format!("{}…", "ü".repeat(200)));
    bench.call("the s3cret", "ok");
    assert_eq!(bench.calls()["calls"][0]["tool"], "the ***");
}

#[test]
fn pages_go_from_the_latest_to_the_first() {
    let mut bench = Bench::new();
    for second in 0..10 {
        bench.at(second * 1000).call(if second % 2 == 0 { "even" } else { "odd" }, "ok");
    }
    let page = bench.calls_by("even", None, 2);
    assert_eq!((numbers(&page), &page["more"]), (vec![9, 7], &Value::Bool(true)));
    let page = bench.calls_by("even", Some(7), 3);
    assert_eq!((numbers(&page), &page["more"]), (vec![5, 3, 1], &Value::Bool(false)));
}

#[test]
fn of_a_slot_fifty_are_kept_and_failures_first() {
    let mut bench = Bench::new();
    for at in 0..60 {
        bench.call("add", if at == 3 || at == 59 { "failed" } else { "ok" });
    }
    let calls = bench.calls();
    let kept = numbers(&calls);
    assert_eq!((kept.len(), &calls["forgotten"]), (50, &Value::from(10)));
    // The failures, and of the others the later.
    assert!(kept.contains(&4) && kept.contains(&60) && !kept.contains(&1) && !kept.contains(&11));
    assert!(kept.contains(&12), "{kept:?}");
    let frame = bench.frame();
    assert_eq!((numbers(&frame).len(), &frame["left_out"]), (50, &Value::from(10)));
    assert_eq!(bench.at(200).frame()["left_out"], 0);
    // Of failures alone, too, the later.
    for _ in 0..60 {
        bench.call("add", "failed");
    }
    bench.at(400).call("add", "ok");
    let kept = numbers(&bench.calls_by("outcome:failed", None, 500));
    assert_eq!((kept.len(), kept[0], kept[49]), (52, 120, 71));
    assert_eq!(bench.frame()["left_out"], 10);
}

#[test]
fn what_was_told_as_running_is_kept_beyond_the_fifty() {
    let mut bench = Bench::new();
    let told: Vec<_> = (0..30).map(|_| bench.begin("slow")).collect();
    let frame = bench.frame();
    assert_eq!(numbers(&frame), (1..=30).collect::<Vec<_>>());
    assert_eq!(frame["calls"][0]["outcome"], "running");
    bench.at(150);
    (0..70).for_each(|_| bench.call("add", "ok"));
    told.into_iter().for_each(|key| bench.end(key, "slow", "ok"));
    let frame = bench.frame();
    assert_eq!((numbers(&frame).len(), &frame["left_out"]), (80, &Value::from(20)));
    assert_eq!(bench.calls()["forgotten"], 20);
}

#[test]
fn a_viewer_is_told_of_five_hundred_calls_a_second_at_most() {
    let mut bench = Bench::new();
    let mut told = 0;
    let mut seen_running = std::collections::BTreeSet::new();
    for slot in 0..10 {
        bench.at(slot * 100);
        (0..500).for_each(|_| bench.call("add", "ok"));
        let running: Vec<_> = (0..16).map(|_| bench.begin("add")).collect();
        for call in bench.frame()["calls"].as_array().unwrap() {
            // The end of one that was seen running is told besides.
            if !seen_running.remove(&call["n"].as_u64()) {
                told += 1;
            }
            if call["outcome"] == "running" {
                seen_running.insert(call["n"].as_u64());
            }
        }
        running.into_iter().for_each(|key| bench.end(key, "add", "ok"));
    }
    assert!((450..=500).contains(&told), "{told}");
    assert_eq!(bench.store.counts().calls, 5160);
}

#[test]
fn five_hundred_of_those_that_run_are_told_the_oldest() {
    let mut bench = Bench::new();
    let keys: Vec<_> = (0..600).map(|_| bench.begin("slow")).collect();
    let calls = bench.calls_by("outcome:running", None, 1000);
    assert_eq!((numbers(&calls).len(), numbers(&calls)[0]), (500, 500));
    assert_eq!(bench.detail(501), None);
    bench.end(keys[0], "slow", "ok");
    let calls = bench.calls_by("outcome:running", None, 1000);
    assert_eq!((numbers(&calls).len(), numbers(&calls)[0]), (500, 501));
    assert!(bench.detail(501).is_some());
}

#[test]
fn two_thousand_that_ended_are_kept() {
    let mut bench = Bench::new();
    for slot in 0..60 {
        bench.at(slot * 200);
        (0..50).for_each(|_| bench.call("add", "ok"));
    }
    let calls = bench.calls();
    let kept = numbers(&calls);
    assert_eq!((kept.len(), kept[0], kept[1999]), (2000, 3000, 1001));
    assert_eq!(calls["forgotten"], 1000);
}

#[test]
fn a_frame_tells_what_changed_since_the_last() {
    let mut bench = Bench::new();
    assert!(!bench.store.has_news(bench.now));
    let first = bench.begin("slow");
    bench.call("add", "ok");
    assert!(bench.store.has_news(bench.now));
    let frame = bench.frame();
    assert_eq!((numbers(&frame), &frame["calls_so_far"]), (vec![1, 2], &Value::from(1)));
    assert_eq!(frame["seconds"], Value::Array(Vec::new()));
    bench.at(200);
    assert!(!bench.store.has_news(bench.now));
    bench.end(first, "slow", "ok");
    assert_eq!(numbers(&bench.frame()), [1]);
    // When the second is over, that is news.
    assert_eq!(bench.store.second_over(), Some(WALL + 1000));
    bench.at(1000);
    assert!(bench.store.has_news(bench.now));
    let frame = bench.frame();
    assert_eq!(numbers(&frame), [0_u64; 0]);
    let told = frame["seconds"][0].to_string();
    assert!(
        told.starts_with(r#"{"at":"2026-11-16T02:14:19.000Z","calls":2,"failures":0,"p50":"#)
            && told.ends_with(r#","in_flight":2,"bytes_in_flight":7}"#),
        "{told}"
    );
    bench.at(5000);
    assert!(!bench.store.has_news(bench.now));
}

#[test]
fn a_snapshot_goes_on_where_a_viewer_was() {
    let mut bench = Bench::new();
    for second in 0..3 {
        bench.at(second * 1000).call("add", "ok");
    }
    let seen = bench.store.change();
    for second in 3..5 {
        bench.at(second * 1000).call("add", "ok");
    }
    let mut snapshot = |resumed| {
        let mut out = Vec::new();
        let mut members = JsonMembers::begin(&mut out);
        bench.store.write_snapshot(&mut members, resumed, &Hides);
        members.end();
        numbers(&serde_json::from_slice(&out).unwrap())
    };
    assert_eq!(snapshot(None), [5, 4, 3, 2, 1]);
    assert_eq!(snapshot(Some(seen)), [5, 4]);
    assert_eq!(snapshot(Some(u64::MAX)), [0_u64; 0]);
}

#[test]
fn seconds_in_which_nothing_happened_are_filled_in() {
    let mut bench = Bench::new();
    bench.call("add", "failed");
    let key = bench.at(2500).begin("slow");
    let history = |bench: &mut Bench| -> Value {
        let mut out = Vec::new();
        bench.store.write_history(bench.now, &mut out);
        serde_json::from_slice(&out).unwrap()
    };
    bench.at(10_000);
    let told = history(&mut bench);
    assert_eq!(told["from"], "2026-11-16T01:59:29.000Z");
    for name in ["calls", "failures", "p50", "p99", "in_flight", "bytes_in_flight"] {
        assert_eq!(told[name].as_array().unwrap().len(), 900, "{name}");
    }
    let of = |name: &str| told[name].as_array().unwrap()[889..].to_vec();
    let in_flight: Vec<u64> = of("in_flight").iter().map(|it| it.as_u64().unwrap()).collect();
    assert_eq!(in_flight, [0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!((&of("calls")[1], &of("failures")[1]), (&Value::from(1), &Value::from(1)));
    assert!(of("p50")[1].is_number() && of("p50")[2].is_null());
    bench.end(key, "slow", "ok");
    // Long after: all is forgotten.
    bench.at(10_000_000);
    let told = history(&mut bench);
    assert!(told["calls"].as_array().unwrap().iter().all(|calls| *calls == 0));
    assert_eq!(told["calls"].as_array().unwrap().len(), 900);
    // A clock that is set back breaks nothing.
    bench.at(0).call("add", "ok");
    assert_eq!(bench.store.last_minute(bench.now).calls, 1);
}

#[test]
fn the_last_minute_is_sixty_seconds() {
    let mut bench = Bench::new();
    bench.call("add", "failed");
    bench.at(30_000).call("add", "ok");
    let minute = bench.store.last_minute(bench.now);
    assert_eq!((minute.calls, minute.failures), (2, 1));
    assert!(minute.p50.is_some_and(|micros| (910..1090).contains(&micros)), "{minute:?}");
    bench.at(59_999);
    assert_eq!(bench.store.last_minute(bench.now).calls, 2);
    bench.at(60_000);
    assert_eq!(bench.store.last_minute(bench.now).calls, 1);
    bench.at(90_000);
    assert_eq!(bench.store.last_minute(bench.now), LastMinute::default());
}

#[test]
fn values_are_kept_and_what_is_too_large_is_told_by_its_size() {
    let mut bench = Bench::new();
    let arguments = Json::from_trusted(r#"{"key": "s3cret", "n": 1.50}"#);
    let key = bench.begin_taking("add", Takes::ALL, Some(&arguments));
    let tool = ToolName::new("add");
    let piece = Piece {
        data: bytes::Bytes::from_static(b"abc"),
        media_type: Some("image/png".into()),
        len: None,
        last: true,
    };
    let large = Json::of(&"x".repeat(70_000));
    for heard in [
        HeardOf::Begin(None),
        HeardOf::Part(&Part::Text("s3cret".into())),
        HeardOf::Part(&Part::Bytes(piece)),
        HeardOf::Progress(&Json::from_trusted("1")),
        HeardOf::Log(&large),
        HeardOf::End(&Outcome::End(None)),
    ] {
        let call = CallBegun { parts: 2, ..begun(bench.start, &tool) };
        bench.store.hears(bench.now, key, &call, heard);
    }
    assert_eq!(bench.calls()["calls"][0]["progress"], 1);
    assert_eq!(bench.calls()["calls"][0]["parts"], 2);
    let result = Outcome::Value(large.clone());
    bench.end_as(key, "add", &CallEnded { result: Some(&result), ..ended("ok") });
    let detail = bench.detail(1).unwrap();
    assert_eq!(detail["values"], "kept");
    assert_eq!(detail["arguments"].to_string(), r#"{"key":"***","n":1.50}"#.replace("1.50", "1.5"));
    assert_eq!(detail["result"].to_string(), r#"{"$left_out":70002}"#);
    assert_eq!(
        detail["events"].to_string(),
        r#"[{"at":0.0,"kind":"begin"},{"at":0.0,"kind":"part","value":"***"},{"at":0.0,"kind":"part","bytes":3,"type":"image/png"},{"at":0.0,"kind":"progress","value":1},{"at":0.0,"kind":"log","value":{"$left_out":70002}},{"at":0.0,"kind":"end"}]"#
    );
    // Without being taken nothing is kept.
    bench.call("add", "failed");
    let detail = bench.detail(2).unwrap();
    assert_eq!(detail["values"], "not_kept");
    assert_eq!(detail["failure"].to_string(), r#"{"kind":"failed"}"#);
    assert!(detail.get("arguments").is_none() && detail.get("events").is_none());
    let failure = Failure {
        code: Some(crate::tool::Code::Number(7)),
        ..Failure::new(FailureKind::Failed, "it is s3cret")
    };
    let key = bench.begin_taking("add", Takes { results: true, ..Takes::default() }, None);
    bench.end_as(key, "add", &CallEnded { failure: Some(&failure), ..ended("failed") });
    let detail = bench.detail(3).unwrap();
    assert_eq!(
        detail["failure"].to_string(),
        r#"{"kind":"failed","message":"it is ***","code":7}"#
    );
    let mut out = Vec::new();
    assert!(bench.store.write_detail(&mut out, 1, true, &Hides));
    let hidden: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&hidden["values"], hidden.get("result")), (&Value::from("hidden"), None));
    bench.store.forget_values();
    assert_eq!(bench.detail(1).unwrap()["values"], "not_kept");
}

#[test]
fn events_and_values_have_their_bounds() {
    let mut bench = Bench::new();
    let tool = ToolName::new("add");
    let key = bench.begin_taking("add", Takes::ALL, None);
    for at in 0..300 {
        let json = Json::of(&at);
        let call = begun(bench.start, &tool);
        bench.store.hears(bench.now, key, &call, HeardOf::Progress(&json));
    }
    let detail = bench.detail(1).unwrap();
    assert_eq!(detail["events"].as_array().unwrap().len(), 200);
    assert_eq!((&detail["events_left_out"], &detail["progress"]), (&100.into(), &299.into()));
    // 60 KiB each: 16 MiB are the values of 273 calls.
    let large = Json::of(&"x".repeat(60 << 10));
    for slot in 0..400 {
        bench.at(slot * 200);
        let key = bench.begin_taking("add", Takes::ALL, Some(&large));
        bench.end(key, "add", "ok");
    }
    let kept = (1..=401).filter(|n| bench.detail(*n).unwrap()["values"] == "kept").count();
    assert!((265..=273).contains(&kept), "{kept}");
    assert_eq!(bench.detail(401).unwrap()["values"], "kept");
    // When the last who watches has left, no event is taken any more of those that run.
    let key = bench.begin_taking("add", Takes::ALL, None);
    bench.store.take_only(Takes::default(), "page");
    let call = begun(bench.start, &tool);
    bench.store.hears(bench.now, key, &call, HeardOf::Progress(&Json::null()));
    assert_eq!(bench.detail(402).unwrap()["events"], Value::Array(Vec::new()));
}

#[test]
fn tools_are_counted_by_name_if_their_back_has_them() {
    let mut bench = Bench::new();
    for (tool, is_listed, back) in
        [("add", true, true), ("add", true, true), ("made_up", false, true), ("x", true, false)]
    {
        bench.next += 1;
        let name = ToolName::new(tool);
        let mut call = begun(bench.now.at, &name);
        call.back = call.back.filter(|_| back);
        let takes = Takes::default();
        bench.store.begins(bench.now, bench.next, &call, takes, Some(&|| is_listed), 0);
        bench.store.ends(bench.now, bench.next, &call, &ended("failed"), 0);
    }
    let mut out = Vec::new();
    bench.store.write_stats(&mut out, &Hides);
    let told: Value = serde_json::from_slice(&out).unwrap();
    let rows: Vec<_> = told["tools"].as_array().unwrap().iter().collect();
    let row = |at: usize| (&rows[at]["back"], &rows[at]["tool"], &rows[at]["count"]);
    let (try_back, nothing) = (Value::from("try"), Value::Null);
    assert_eq!(row(0), (&try_back, &"add".into(), &2.into()));
    assert_eq!(row(1), (&nothing, &OTHER_TOOL.into(), &1.into()));
    assert_eq!(row(2), (&try_back, &OTHER_TOOL.into(), &1.into()));
    assert_eq!(bench.store.of_back("try"), Tally { calls: 3, failures: 3, in_flight: 0 });
    bench.store.keep_backs(|_| false);
    assert_eq!(bench.store.of_back("try"), Tally::default());
}

/// Whatever order calls begin and end in, none is lost from the counts.
#[test]
fn a_million_calls_are_counted_exactly() {
    let mut bench = Bench::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut running, mut failures, mut millis) = (Vec::new(), 0_u64, 0);
    let mut left_out = 0;
    let mut begun = 0_u64;
    while begun < 1_000_000 || !running.is_empty() {
        let chance = next();
        millis += u64::from(chance % 37 == 0);
        bench.at(millis);
        if begun < 1_000_000 && (running.is_empty() || chance % 100 < 51) {
            running.push(bench.begin("add"));
            begun += 1;
        } else {
            let key = running.swap_remove((next() % running.len() as u64) as usize);
            let has_failed = chance % 10 == 0;
            failures += u64::from(has_failed);
            bench.end(key, "add", if has_failed { "failed" } else { "ok" });
        }
        if chance % 5003 == 0 {
            left_out += bench.frame()["left_out"].as_u64().unwrap();
        }
    }
    left_out += bench.frame()["left_out"].as_u64().unwrap();
    let counts = bench.store.counts();
    assert_eq!(counts, Tally { calls: 1_000_000, failures, in_flight: 0 });
    assert_eq!(bench.store.of_back("try"), counts);
    let calls = bench.calls();
    let kept = calls["calls"].as_array().unwrap().len() as u64;
    assert_eq!(calls["forgotten"].as_u64().unwrap(), 1_000_000 - kept);
    assert!(kept <= 2000 && left_out <= 1_000_000 - kept, "{kept} kept, {left_out} left out");
}

proptest! {
    #[test]
    fn no_filter_panics(text in "\\PC{0,40}") {
        let _ = CallFilter::parse(&text, SystemTime::now());
    }

    #[test]
    fn no_query_panics(text in "[a-z=&%+0-9]{0,40}") {
        let _ = Parameters::read(Some(&text), &["a", "b"]);
    }
}
