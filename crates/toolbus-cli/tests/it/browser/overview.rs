//! The first view: numbers, plots, backs and fronts, the tools most called.

use serde_json::json;
use toolbus_testkit::patience::eventually;

use super::{Shown, TCP, admin, patient};
use crate::mcp::DISCOVERED;
use crate::page::mcp_server;
use crate::serve::{BUILTIN, back};

#[test]
fn what_a_bus_did_is_told_in_numbers() {
    let away = back("away", "stdio:./no-such-oracle");
    let config = format!("{BUILTIN}{away}{TCP}{}", admin("page = \"call\""));
    let Some(shown) = Shown::of(&config, 1) else { return };
    let tab = &shown.tab;
    for n in 0..4 {
        assert_eq!(shown.call("try.add", &json!({"a":n,"b":1}))["outcome"], "ok");
    }
    assert_eq!(shown.call("try.fail", &json!({"message":"no"}))["outcome"], "failed");
    tab.until("document.querySelector('[data-number=calls]').dataset.value === '5'");
    tab.until("document.querySelector('[data-number=failures]').dataset.value === '1'");
    tab.until("document.querySelector('[data-number=in_flight]').dataset.value === '0'");
    assert_eq!(shown.says("[data-number=calls]"), "5");
    tab.until("document.querySelector('[data-number=memory]').dataset.value === '0'");
    for plot in ["calls", "latency", "in_flight", "memory"] {
        let label =
            tab.text(&format!("document.querySelector('[data-plot={plot}][role=img]').ariaLabel"));
        assert!(label.contains("15 minutes"), "{label}");
    }
    tab.until("document.querySelector('[data-stat=\"try.add\"] [data-value=\"4\"]')");
    tab.until("document.querySelector('[data-stat=\"try.fail\"]')");
    // Backs in the order of the config, each with its state in a word.
    shown.until_says("[data-back=try][data-state=ready] [data-part=state]", "● ready");
    shown.until_says("[data-back=away][data-state=down] [data-part=state]", "✕ down");
    shown.until_says("[data-back=away] [data-part=why]", "there is no program `./no-such-oracle`");
    shown.until_says("[data-back=try] [data-part=tools]", "9 tools");
    shown.until_says("[data-front=scripts][data-state=listening] [data-part=state]", "● listening");
    let names =
        tab.get("[...document.querySelectorAll('[data-back]')].map(one => one.dataset.back)");
    assert_eq!(names, json!(["try", "away"]));
    assert_eq!(tab.text("document.documentElement.dataset.page"), "call");
    // A call is in the last minute for a minute, however slow the machine is.
    eventually("how long calls took is told", || {
        shown.call("try.add", &json!({"a":1,"b":1}));
        let told = "['p50', 'p99'].every(one => 0 < document.querySelector(`[data-number=${one}]`).dataset.value)";
        tab.get(told) == true
    });
    shown.assert_quiet();
}

#[test]
fn a_bus_that_did_nothing_says_so() {
    let Some(shown) = Shown::builtin() else { return };
    assert_eq!(shown.says("[data-number=calls]"), "0");
    assert_eq!(shown.says("[data-number=p50]"), "–");
    assert_eq!(shown.says("[data-number=p99]"), "–");
    shown.until_there("section[data-view=overview] [data-empty]");
    for view in ["calls", "journal"] {
        shown.tab.click(&format!("a[data-view={view}]"));
        shown.until_there(&format!("section[data-view={view}] [data-empty]"));
    }
    shown.until_says("section[data-view=journal] [data-empty]", "There is no journal");
    shown.assert_quiet();
}

/// A back dies in a call, which is seen, and the next call starts it again.
#[test]
fn a_back_that_dies_and_comes_back_is_seen() {
    let both = r#"{"tools":[{"name":"work","inputSchema":{"type":"object"}}],"content":[]}"#;
    let steps = [
        "read",
        "answer",
        DISCOVERED,
        "forever",
        "{",
        "read",
        "if",
        "die",
        "{",
        "err",
        "my last words",
        "die",
        "KILL",
        "}",
        "answer",
        both,
        "}",
    ];
    let config = format!(
        "{}{TCP}{}",
        patient(&back("frail", &mcp_server(&steps))),
        admin("page = \"call\"")
    );
    let Some(shown) = Shown::of(&config, 1) else { return };
    shown.until_there("[data-back=frail][data-state=ready]");
    assert_eq!(shown.call("frail.work", &json!({"do":"die"}))["outcome"], "gone");
    shown.until_there("[data-back=frail][data-state=idle]");
    shown.until_says("[data-back=frail] [data-part=why]", "signal 9");
    shown.until_says("[data-back=frail] [data-part=stderr]", "my last words");
    assert_eq!(shown.call("frail.work", &json!({}))["outcome"], "ok");
    shown.until_there("[data-back=frail][data-state=ready]");
    shown.tab.until(
        "document.querySelector('[data-back=frail] [data-part=restarts]').dataset.value === '1'",
    );
    shown.assert_quiet();
}
