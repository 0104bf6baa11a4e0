//! The page in Firefox: what people do on it, once through. Details are looked at in Chromium.

use std::fs;
use std::path::Path;

use serde_json::json;
use toolbus_testkit::browser::Firefox;
use toolbus_testkit::scratch::Scratch;

use super::{TCP, address, admin, serve};
use crate::serve::{BUILTIN, Config};

const LINK: &str = "document.documentElement.dataset.link";

#[test]
fn the_page_works_in_firefox() {
    let Some(mut firefox) = Firefox::start() else { return };
    let journal = "[journal]\npath = \"calls.jsonl\"\narguments = true\n";
    let config = Config::of(&format!("{BUILTIN}{TCP}{journal}{}", admin("page = \"call\"")));
    let state = Scratch::new();
    let _server = serve(&config, &state, 1);
    let address = address(&state);
    let (url, token) = address.split_once("#token=").expect("a token");
    firefox.looks(1280, 900);
    // Without the token it asks for it; with it, it is live.
    firefox.open(url);
    firefox.until(&format!("{LINK} === 'denied'"));
    firefox.fill("form[data-token] input", token);
    firefox.click("form[data-token] [data-action=enter]");
    firefox.until(&format!("{LINK} === 'live'"));
    firefox.until("document.querySelector('[data-back=try][data-state=ready]')");
    // A form, its checks, the parts of an answer.
    firefox.get("location.hash = 'view=tools&tool=try.count'");
    firefox.click("form[data-form=\"try.count\"] [data-action=call]");
    firefox
        .until("document.querySelector('[data-field-error=\"/n\"]').textContent === 'is required'");
    firefox.fill("[data-field=\"/n\"]", "3");
    firefox.click("[data-action=call]");
    firefox.until("document.querySelector('[data-output][data-outcome=ok] [data-part=answer]')");
    firefox.until("document.querySelectorAll('[data-output] [data-event=part]').length === 3");
    // The call, its bar, its detail; a filter.
    firefox.get("location.hash = 'view=calls'");
    firefox.until("document.querySelector('[data-timeline]').dataset.drawn === 'bars'");
    firefox.click("tr[data-call=\"1\"][data-outcome=ok] [data-part=tool]");
    firefox.until("document.querySelector('[data-detail=\"1\"] [data-part=arguments]').textContent.includes('\"n\": 3')");
    firefox.click("[data-action=close]");
    firefox.until("document.activeElement.closest('tr').dataset.call === '1'");
    firefox.fill("section[data-view=calls] input[data-filter]", "outcome:failure");
    firefox.until("document.querySelector('section[data-view=calls] [data-empty]').textContent.includes('No call passes')");
    // By keys, wide and narrow.
    firefox.get("document.activeElement.blur()");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../page-pictures");
    fs::create_dir_all(&folder).expect("the target folder is ours");
    for (key, view, there) in [
        ("1", "overview", "[data-stat]"),
        ("2", "calls", "section[data-view=calls] [data-empty]"),
        ("3", "tools", "[data-tool]"),
        ("4", "journal", "section[data-view=journal] [data-empty]"),
        ("5", "config", "[data-config]"),
    ] {
        firefox.key(key);
        firefox.until(&format!(
            "document.querySelector('a[data-view={view}]').ariaCurrent === 'page'"
        ));
        firefox.until(&format!("document.querySelector('{there}').getClientRects().length"));
        for width in [1280, 500] {
            firefox.looks(width, 900);
            firefox.until("document.documentElement.scrollWidth <= innerWidth");
            let file = format!("firefox-{view}-{width}.png");
            fs::write(folder.join(file), firefox.picture()).expect("the target folder is ours");
        }
    }
    assert_eq!(firefox.get("[localStorage.length, document.cookie]"), json!([0, ""]));
    assert_eq!(
        firefox.get(&format!("document.documentElement.outerHTML.includes('{token}')")),
        json!(false)
    );
}
