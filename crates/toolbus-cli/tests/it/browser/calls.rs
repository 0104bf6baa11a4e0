//! The calls, their filter and their bars, and one of them in detail.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use toolbus_testkit::patience::eventually;

use super::{Shown, TCP, admin};
use crate::page::Page;
use crate::serve::BUILTIN;

fn row(n: u64) -> String {
    format!("tr[data-call=\"{n}\"]")
}

#[test]
fn calls_are_rows_as_they_come() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    shown.go("view=calls");
    shown.call("try.add", &json!({"a":1,"b":2}));
    shown.call("try.fail", &json!({"message":"no"}));
    // It runs until it is told to end: nothing waits for it.
    tab.run("window.slow = new AbortController(); fetch('/api/call', { method: 'POST', signal: slow.signal, \
             body: '{\"tool\":\"try.sleep\",\"arguments\":{\"ms\":86400000}}', headers: { 'Content-Type': \
             'application/json', Accept: 'text/event-stream', Authorization: 'Bearer ' + Object.values(sessionStorage)[0] } })\
             .catch(() => 0)");
    shown.until_there(&format!("{}[data-outcome=ok]", row(1)));
    shown.until_there(&format!("{}[data-outcome=failed]", row(2)));
    shown.until_there(&format!("{}[data-outcome=running]", row(3)));
    for (n, mark, tool) in [(1, "✓", "try.add"), (2, "✕", "try.fail"), (3, "…", "try.sleep")]
    {
        assert_eq!(shown.says(&format!("{} [data-part=mark]", row(n))), mark);
        assert_eq!(shown.says(&format!("{} [data-part=tool]", row(n))), tool);
        assert_eq!(shown.says(&format!("{} [data-part=front]", row(n))), "page");
    }
    assert!(shown.says(&row(2)).contains("failed"));
    // What runs grows.
    let took =
        format!("Number(document.querySelector('{} [data-part=duration]').dataset.value)", row(3));
    let before = tab.get(&took).as_f64().expect("milliseconds");
    tab.until(&format!("{before} < {took}"));
    // The newest is first.
    let order =
        tab.get("[...document.querySelectorAll('[data-call]')].map(one => one.dataset.call)");
    assert_eq!(order, json!(["3", "2", "1"]));
    // What runs reaches to the right end of the picture, in one of the first lanes: it is found
    // where it is drawn, and opened.
    tab.until("document.querySelector('[data-timeline]').dataset.drawn === 'bars'");
    let mut lanes = [13, 31, 49].iter().cycle();
    eventually("the bar is hit", || {
        let place = tab.get(&format!(
            "(({{ x, y, width }}) => [x + width - 3, y + {}])(document.querySelector('[data-timeline] canvas').getBoundingClientRect())",
            lanes.next().expect("it goes round")
        ));
        tab.click_at(&place[0], &place[1]);
        tab.text("location.hash").contains("call=3")
    });
    shown.until_there("[data-detail=\"3\"][data-outcome=running]");
    tab.run("slow.abort()");
    shown.until_there(&format!("{}[data-outcome=cancelled]", row(3)));
    assert_eq!(shown.says(&format!("{} [data-part=mark]", row(3))), "⊘");
    // The detail is read again when it is over.
    shown.until_there("[data-detail=\"3\"][data-outcome=cancelled]");
    shown.assert_quiet();
}

#[test]
fn a_filter_says_what_is_shown_and_what_is_wrong_with_it() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    shown.go("view=calls");
    for n in 0..3 {
        shown.call("try.add", &json!({"a":n,"b":2}));
    }
    shown.call("try.fail", &json!({"message":"no"}));
    tab.until("document.querySelectorAll('[data-call]').length === 4");
    tab.fill("section[data-view=calls] input[data-filter]", "outcome:failure");
    tab.until("document.querySelectorAll('[data-call]').length === 1");
    tab.until("location.hash.includes('filter=outcome:failure')");
    // Those that come pass it, or do not.
    shown.call("try.add", &json!({"a":1,"b":2}));
    shown.call("try.fail", &json!({"message":"no"}));
    tab.until("document.querySelectorAll('[data-call]').length === 2");
    tab.fill("section[data-view=calls] input[data-filter]", "nope:1");
    shown.until_says(
        "section[data-view=calls] [data-filter-error]",
        "there is no filter `nope`; it can be back, tool",
    );
    shown.until_there("section[data-view=calls] [data-empty]");
    tab.fill("section[data-view=calls] input[data-filter]", "UPPER");
    shown.until_says("section[data-view=calls] [data-empty]", "No call passes this filter");
    tab.until("document.querySelector('[data-filter-error]').hidden");
    tab.fill("section[data-view=calls] input[data-filter]", "");
    tab.until("document.querySelectorAll('[data-call]').length === 6");
    // A link with a filter shows the same.
    shown.go("view=calls&filter=tool:fail");
    tab.until("document.querySelectorAll('[data-call]').length === 2");
    shown.assert_quiet();
}

#[test]
fn frozen_calls_stay_and_those_that_come_are_counted() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    shown.go("view=calls");
    shown.call("try.add", &json!({"a":1,"b":2}));
    shown.until_there(&row(1));
    tab.click("[data-action=freeze]");
    tab.until("document.querySelector('[data-action=freeze]').ariaPressed === 'true'");
    shown.call("try.add", &json!({"a":1,"b":2}));
    shown.call("try.add", &json!({"a":1,"b":2}));
    tab.until("document.querySelector('[data-waiting]').dataset.value === '2'");
    assert_eq!(tab.get("document.querySelectorAll('[data-call]').length"), 1);
    tab.key("f");
    tab.until("document.querySelectorAll('[data-call]').length === 3");
    assert_eq!(tab.get("document.querySelector('[data-waiting]').hidden"), true);
    // The window by its buttons and by keys.
    assert_eq!(tab.text("document.querySelector('[data-timeline]').dataset.window"), "60");
    tab.click("[data-action=zoom-in]");
    tab.until("document.querySelector('[data-timeline]').dataset.window === '30'");
    tab.key("-");
    tab.key("-");
    tab.until("document.querySelector('[data-timeline]').dataset.window === '300'");
    assert!(tab.text("location.hash").contains("window=300"));
    shown.assert_quiet();
}

#[test]
fn one_call_is_told_in_detail_and_can_be_copied() {
    let config = format!("{BUILTIN}{TCP}{}", admin("page = \"call\""));
    let Some(shown) = Shown::of(&config, 1) else { return };
    let tab = &shown.tab;
    let said = "it's 10% of \u{202e}it";
    shown.call("try.echo", &json!({"said":said,"n":1}));
    shown.go("view=calls");
    tab.click(&row(1));
    shown.until_there("[data-detail=\"1\"] [data-part=arguments]");
    assert!(tab.text("location.hash").contains("call=1"));
    let part = |name: &str| shown.says(&format!("[data-detail=\"1\"] [data-part={name}]"));
    assert_eq!(part("outcome"), "✓ ok");
    assert_eq!(part("tool"), "try.echo");
    assert_eq!(part("front"), "page");
    let shows = "{\n  \"said\": \"it's 10% of \\u202eit\",\n  \"n\": 1\n}";
    assert_eq!(part("arguments"), shows);
    assert_eq!(part("answer"), shows);
    let copied = |action: &str, begins: &str| {
        tab.click(&format!("[data-action={action}]"));
        let there = "document.querySelector('[data-copied][role=status]').textContent";
        tab.until(&format!("{there}.startsWith({})", json!(begins)));
        tab.text(there)
    };
    copied("copy-call", r#"toolbus call try.echo '{"said":"it'\''s 10% of"#);
    let curl = copied("copy-curl", "curl -sS http://127.0.0.1:");
    assert!(curl.contains(r#"/api/call -H "Authorization: Bearer $TOOLBUS_PAGE_TOKEN" -H 'Content-Type: application/json' -d '{"tool":"try.echo","arguments":{"#), "{curl}");
    let link = copied("copy-link", "http://127.0.0.1:");
    assert!(link.ends_with("/#view=calls&call=1") && !link.contains("token"), "{link}");
    // Esc closes it, and the focus is on its row again.
    tab.key("Escape");
    tab.until("!document.querySelector('[data-detail]')");
    tab.until("document.activeElement.closest('[data-call]').dataset.call === '1'");
    // Once more by the keyboard: `again` opens the form, filled, and calls nothing.
    tab.key("Enter");
    shown.until_there("[data-detail=\"1\"] [data-action=again]");
    tab.click("[data-action=again]");
    shown.until_there("form[data-form=\"try.echo\"]");
    tab.until("document.querySelector('form[data-form] [data-raw]').value.includes('10% of')");
    // The first view draws its numbers only while it is shown.
    tab.key("Escape");
    shown.go("view=overview");
    tab.until("document.querySelector('[data-number=calls]').dataset.value === '1'");
    shown.assert_quiet();
}

#[test]
fn values_are_told_where_they_are_kept_and_else_it_is_said_why_not() {
    let config = format!("{BUILTIN}{TCP}{}", admin("page = \"call\"\npage_values = false"));
    let Some(shown) = Shown::of(&config, 1) else { return };
    shown.call("try.add", &json!({"a":1,"b":2}));
    shown.go("view=calls&call=1");
    shown.until_says("[data-detail] [data-part=values]", "page_values = false");
    assert_eq!(
        shown.tab.get("document.querySelector('[data-detail] [data-part=arguments]')"),
        json!(null)
    );
    assert_eq!(shown.tab.get("document.querySelector('[data-action=copy-call]').disabled"), true);
    assert_eq!(shown.tab.get("document.querySelector('[data-action=values]').disabled"), true);
    shown.go("view=calls&call=77");
    shown.until_says("[data-detail=\"77\"]", "call 77 is not kept");
    shown.assert_quiet();
}

#[test]
fn values_of_others_are_kept_while_they_are_watched() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    let upper = |text: &str| {
        let args = json!({ "text": text }).to_string();
        Page::of(&["rpc", "call", shown.server.url(), "try.upper", &args]).run();
    };
    upper("before");
    shown.go("view=calls&call=1");
    shown.until_says("[data-detail=\"1\"] [data-part=values]", "[journal] arguments = true");
    tab.click("[data-action=values]");
    tab.until("document.querySelector('[data-action=values]').ariaPressed === 'true'");
    tab.get(
        "(async () => { for (;;) { const answer = await fetch('/api/state', { headers: { Authorization: \
         'Bearer ' + Object.values(sessionStorage)[0] } }); if ((await answer.json()).values.watching) return true } })()",
    );
    upper("since then");
    shown.go("view=calls&call=2");
    shown.until_says("[data-detail=\"2\"] [data-part=arguments]", "\"text\": \"since then\"");
    shown.until_says("[data-detail=\"2\"] [data-part=answer]", "SINCE THEN");
    shown.assert_quiet();
}

/// More bars than can be told apart are columns, and the page goes on answering. However slow the
/// machine is, calls come until there are more than are kept one by one.
#[test]
fn a_flood_of_calls_does_not_stop_the_page() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    shown.go("view=calls&window=900");
    let address = shown.server.url().strip_prefix("mediocre+tcp://").expect("the first front");
    let mut stream = TcpStream::connect(address).expect("it listens");
    const BATCH: usize = 500;
    let batch = "{\"method\":\"try.add\",\"args\":{\"a\":1,\"b\":2}}\n".repeat(BATCH);
    let mut calls = 0;
    let mut flood = || {
        stream.write_all(batch.as_bytes()).expect("it reads");
        let (mut answers, mut bytes) = (0, [0; 65536]);
        while answers < BATCH {
            let read = stream.read(&mut bytes).expect("it answers");
            assert!(0 < read, "it hung up after {answers}");
            answers += bytes[..read].iter().filter(|byte| **byte == b'\n').count();
        }
        calls += BATCH;
        calls
    };
    let left_out = "0 < Number(document.querySelector('[data-left-out]').dataset.value)";
    eventually("some are left out", || 2_500 <= flood() && tab.get(left_out) == true);
    let calls = flood();
    tab.until("document.querySelectorAll('[data-call]').length === 200");
    tab.until("document.querySelector('[data-timeline]').dataset.drawn === 'columns'");
    // It answers keys, and every call was counted.
    tab.key("1");
    shown.until_there("section[data-view=overview]");
    tab.until(&format!(
        "document.querySelector('[data-number=calls]').dataset.value === '{calls}'"
    ));
    shown.assert_quiet();
}
