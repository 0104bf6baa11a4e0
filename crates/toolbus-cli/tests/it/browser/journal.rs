//! The journal: its entries page by page, filtered, and one of them whole.

use serde_json::json;

use super::{Shown, admin};
use crate::page_api::journal::config;

const ENTRIES: &str = "document.querySelectorAll('[data-entry]').length";
const FILTER: &str = "section[data-view=journal] input[data-filter]";

#[test]
fn more_of_it_is_read_until_there_is_no_more() {
    let Some(shown) = Shown::served(config(&admin("")), 1) else { return };
    let tab = &shown.tab;
    shown.go("view=journal");
    tab.until(&format!("{ENTRIES} === 100"));
    for count in [200, 250] {
        tab.click("section[data-view=journal] [data-action=more]");
        tab.until(&format!("{ENTRIES} === {count}"));
    }
    tab.until("!document.querySelector('[data-action=more]')");
    // The last written is first, and each is there once.
    let names = tab.get(
        "[...document.querySelectorAll('[data-entry] summary .mono')].map(one => one.textContent)",
    );
    let expected: Vec<_> = (0..250).rev().map(|n| format!("try.t{n}")).collect();
    assert_eq!(names, json!(expected));
    shown.until_says("section[data-view=journal] .foot", "1 line is none of a journal");
    // One of them is shown as it was written.
    tab.click("[data-entry]:nth-child(2) summary");
    shown.until_says("[data-entry]:nth-child(2) pre", "\"tool\": \"t248\",\n");
    shown.until_says("[data-entry]:nth-child(2) pre", "\"duration\": 0.412,\n");
    shown.assert_quiet();
}

#[test]
fn a_filter_says_which_entries_and_what_is_wrong_with_it() {
    let Some(shown) = Shown::served(config(&admin("")), 1) else { return };
    let tab = &shown.tab;
    shown.go("view=journal&filter=outcome:failure");
    tab.until(&format!("{ENTRIES} === 25"));
    assert_eq!(tab.text(&format!("document.querySelector('{FILTER}').value")), "outcome:failure");
    tab.fill(FILTER, "tool:t249");
    tab.until(&format!("{ENTRIES} === 1 && location.hash.includes('filter=tool:t249')"));
    tab.fill(FILTER, "outcome:none");
    shown.until_says("section[data-view=journal] [data-filter-error]", "no call ends as `none`");
    tab.fill(FILTER, "nothing-of-the-kind");
    shown.until_says("section[data-view=journal] [data-empty]", "No entry passes this filter");
    tab.until("document.querySelector('section[data-view=journal] [data-filter-error]').hidden");
    tab.fill(FILTER, "");
    tab.until(&format!("{ENTRIES} === 100"));
    shown.assert_quiet();
}
