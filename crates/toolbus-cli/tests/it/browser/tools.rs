//! The list of tools: searched, scrolled, gone through by keys.

use serde_json::{Value, json};
use toolbus_testkit::scratch::Scratch;

use super::{Shown, TCP, admin, offering, python};
use crate::serve::BUILTIN;

const MANY: usize = 10_000;

#[test]
fn ten_thousand_tools_are_searched_and_scrolled() {
    let tools: Vec<Value> = (0..MANY)
        .map(|n| json!({"name":format!("t{n}"),"description":format!("Does {n}"),"inputSchema":{"type":"object"}}))
        .collect();
    let scratch = Scratch::new();
    let Some(back) = python(&scratch, "many", &json!(tools)) else { return };
    let Some(shown) = Shown::of(&format!("{BUILTIN}{back}{TCP}{}", admin("")), 1) else { return };
    let tab = &shown.tab;
    shown.go("view=tools");
    tab.until(&format!(
        "document.querySelector('[data-number=tools]').dataset.value === '{}'",
        MANY + 9
    ));
    let there = "document.querySelectorAll('[data-tool]').length";
    tab.until(&format!("0 < {there} && {there} <= 200"));
    // By back, in the order of the config.
    assert_eq!(tab.text("document.querySelector('[data-tool]').dataset.tool"), "try.add");
    tab.run(
        "const list = document.querySelector('.tool-list'); list.scrollTop = list.scrollHeight",
    );
    tab.until(&format!(
        "document.querySelector('[data-tool=\"many.t{}\"]') && {there} <= 200",
        MANY - 1
    ));
    tab.key("/");
    tab.until("document.activeElement.matches('input[data-search]')");
    tab.fill("input[data-search]", "t9999");
    tab.until("document.querySelector('[data-number=tools]').dataset.value === '1'");
    tab.until("location.hash.includes('search=t9999')");
    tab.fill("input[data-search]", "nothing of the kind");
    shown.until_says("section[data-view=tools] [data-empty]", "No tool is found");
    shown.go("view=tools&back=try");
    tab.until("document.querySelector('[data-number=tools]').dataset.value === '9'");
    shown.assert_quiet();
}

#[test]
fn a_tool_is_told_whole_and_found_by_keys_and_links() {
    let tools = json!([
        {"name":"first","title":"The first","description":"One\ntwo","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}},
        {"name":"second","inputSchema":{"type":"object","properties":{"n":{"type":"number","maximum":1.50}}}},
    ]);
    let back = offering("some", &tools, &json!({"content":[]}));
    let Some(shown) = Shown::of(&format!("{back}{TCP}{}", admin("")), 1) else { return };
    let tab = &shown.tab;
    shown.go("view=tools");
    shown.until_there("[data-tool=\"some.second\"]");
    tab.key("j");
    tab.until("document.activeElement.dataset.tool === 'some.first'");
    tab.key("j");
    tab.key("k");
    tab.key("ArrowDown");
    tab.until("document.activeElement.dataset.tool === 'some.second'");
    tab.key("Enter");
    shown.until_says("[data-schema]", "\"maximum\": 1.5");
    assert_eq!(tab.text("location.hash"), "#view=tools&tool=some.second");
    tab.key("Escape");
    tab.until(
        "document.activeElement.dataset.tool === 'some.second' && !location.hash.includes('tool=')",
    );
    tab.run("history.back()");
    tab.until("location.hash.includes('tool=some.second')");
    shown.go("view=tools&tool=some.first");
    shown.until_says("section[data-view=tools] .description", "One\ntwo");
    shown.until_says("section[data-view=tools] .badges", "destructive");
    shown.go("view=tools&tool=some.none");
    shown.until_says(
        "section[data-view=tools] [data-error][role=alert]",
        "There is no tool some.none",
    );
    shown.assert_quiet();
}
