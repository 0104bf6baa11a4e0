//! The link to the bus: the token, a bus that ends and comes back, a page that is turned off.

use rustix::process::Signal;
use serde_json::json;
use toolbus_testkit::browser::Browser;
use toolbus_testkit::port;
use toolbus_testkit::scratch::Scratch;

use super::{Shown, TCP, address, admin, serve};
use crate::serve::{BUILTIN, Config};

const LINK: &str = "document.documentElement.dataset.link";

#[test]
fn the_token_is_taken_out_of_the_address_and_kept_for_the_tab() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    let address = shown.address();
    let token = address.split_once("#token=").expect("a token").1;
    assert!(!tab.text("location.href").contains(token));
    assert_eq!(tab.get("[localStorage.length, document.cookie]"), json!([0, ""]));
    assert!(!tab.text("document.documentElement.outerHTML").contains(token));
    shown.go("view=calls&filter=tool:add&window=300");
    tab.reload();
    shown.live();
    tab.until("document.querySelector('a[data-view=calls]').ariaCurrent === 'page'");
    tab.until("document.querySelector('section[data-view=calls] input[data-filter]').value === 'tool:add'");
    tab.until("document.querySelector('[data-timeline]').dataset.window === '300'");
    assert!(!tab.text("location.href").contains(token));
    // Views by their links; back goes back; the focus is on the heading.
    tab.click("a[data-view=config]");
    shown.until_says("[data-config]", "connect = \"builtin:\"");
    tab.until("document.activeElement.localName === 'h2'");
    let seen = "[...document.querySelectorAll('main section')].filter(one => !one.hidden).map(one => one.dataset.view)";
    assert_eq!(tab.get(seen), json!(["config"]));
    tab.run("history.back()");
    tab.until(&format!("{seen}[0] === 'calls'"));
    // Unknown names are as if they were not there.
    shown.go("view=nowhere&window=7&call=x&y=1&filter=%");
    tab.until(&format!("{seen}[0] === 'overview'"));
    shown.assert_quiet();
}

#[test]
fn without_the_token_nothing_is_shown() {
    let Some(browser) = Browser::shared() else { return };
    let (config, state) = (Config::of(&format!("{BUILTIN}{TCP}{}", admin(""))), Scratch::new());
    let _server = serve(&config, &state, 1);
    let address = address(&state);
    let (url, token) = address.split_once("#token=").expect("a token");
    let tab = browser.tab();
    tab.open(url);
    tab.until(&format!("{LINK} === 'denied'"));
    tab.until("document.querySelector('form[data-token]').textContent.includes('toolbus page')");
    tab.fill("form[data-token] input", "wrong");
    tab.key("Enter");
    tab.until("!document.querySelector('form[data-token] [data-error]').hidden");
    assert_eq!(tab.text(LINK), "denied");
    tab.fill("form[data-token] input", token);
    tab.key("Enter");
    tab.until(&format!("{LINK} === 'live' && !document.querySelector('form[data-token]')"));
    // A new link in the same tab has another token.
    tab.run("location.hash = 'token=other'");
    tab.until(&format!("{LINK} === 'denied'"));
    assert!(!tab.text("location.href").contains("other"));
}

#[test]
fn a_bus_that_ends_is_lost_and_found_again() {
    let Some(browser) = Browser::shared() else { return };
    let port = port::free();
    let admin = format!(
        "[admin]\nlisten = \"127.0.0.1:{port}\"\npage = \"call\"\ntoken_env = \"TOOLBUS_TEST_TOKEN\"\n"
    );
    let (config, state) = (Config::of(&format!("{BUILTIN}{TCP}{admin}")), Scratch::new());
    let mut server = serve(&config, &state, 1);
    let tab = browser.tab();
    tab.open(&format!("http://127.0.0.1:{port}/#token=known"));
    tab.until(&format!("{LINK} === 'live'"));
    server.signal(Signal::TERM);
    server.wait();
    tab.until(&format!("{LINK} === 'lost' && document.querySelector('[data-error][role=alert]')"));
    let _server = serve(&config, &state, 1);
    tab.until(&format!("{LINK} === 'live' && !document.querySelector('[data-error]')"));
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn a_page_that_is_turned_off_is_over() {
    let Some(shown) = Shown::builtin() else { return };
    shown.config.reload(&shown.server, &format!("{BUILTIN}{TCP}{}", admin("page = \"off\"")));
    shown.tab.until(&format!("{LINK} === 'over'"));
    shown.until_says("[data-error][role=alert]", "turned off");
    shown.assert_quiet();
}
