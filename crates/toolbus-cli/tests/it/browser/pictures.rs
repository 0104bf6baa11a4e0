//! The pictures of the docs, taken of a bus that is really called: `cargo xtask pictures`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolbus_testkit::browser::{Browser, Scheme};
use toolbus_testkit::scratch::Scratch;

use super::{Shown, TCP, admin};
use crate::listening::Server;
use crate::serve::{Config, back};

const PICTURES: [&str; 4] =
    ["page-overview.png", "page-calls.png", "page-call.png", "page-tool.png"];
const BYTES_MAX: u64 = 150 * 1024;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// They are there, small, and shown.
#[test]
fn the_docs_show_small_pictures() {
    if env::var_os("TOOLBUS_PICTURES").is_some() {
        return;
    }
    let page = fs::read_to_string(docs().join("page.md")).expect("it is in the repository");
    let readme = fs::read_to_string(docs().join("../README.md")).expect("it is in the repository");
    for name in PICTURES {
        let picture = docs().join("pictures").join(name);
        let bytes = fs::metadata(&picture).expect("`cargo xtask pictures` makes it").len();
        assert!(bytes < BYTES_MAX, "{name} has {bytes} bytes");
        assert!(page.contains(&format!("pictures/{name}")), "{name} is not in docs/page.md");
    }
    assert!(readme.contains("docs/pictures/page-"), "none is in the README");
}

/// Calls for a while, a few at a time, in the way that people and programs do.
const TRAFFIC: &str = r"(async () => {
    const token = Object.values(sessionStorage)[0];
    const call = (tool, args) => fetch('/api/call', { method: 'POST', body: JSON.stringify({ tool, arguments: args }),
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` } }).then(answer => answer.text());
    let seed = 7;
    const chance = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
    const some = [
        () => call('math.add', { a: 19, b: 23 }),
        () => call('text.upper', { text: 'every tool behind one door' }),
        () => call('text.echo', { path: 'src/main.rs', lines: [1, 40], note: 'a first look' }),
        () => call('jobs.sleep', { ms: Math.round(60 + 900 * chance() ** 2) }),
        () => call('jobs.sleep', { ms: Math.round(400 + 2600 * chance()) }),
        () => call('jobs.count', { n: 5, ms: 120 }),
        () => call('math.add', { a: 'one' }),
        () => call('jobs.fail', { message: 'the queue is closed until Monday', code: 'closed' }),
    ];
    const weights = [5, 4, 4, 5, 2, 2, 0.5, 0.7];
    const sum = weights.reduce((one, other) => one + other);
    const until = performance.now() + 62_000;
    const worker = async () => {
        while (performance.now() < until) {
            let at = chance() * sum;
            await some[weights.findIndex(weight => (at -= weight) < 0)]();
            await new Promise(done => setTimeout(done, 120 + 900 * chance() ** 3));
        }
    };
    await Promise.all(Array.from('12345', worker));
})()";

/// Takes them anew. A chore: it takes a minute, for a minute is what they show.
#[test]
fn pictures_of_a_bus_that_is_called() {
    if env::var_os("TOOLBUS_PICTURES").is_none() {
        return;
    }
    let backs: String = ["math", "text", "jobs"].map(|name| back(name, "builtin:")).concat();
    let away = back("mail", "mcp+stdio:./no-such-server");
    let config = format!("{backs}{away}{TCP}{}", admin("page = \"call\""));
    let Some(browser) = Browser::shared() else { return };
    // The page shows the name of the folder.
    let (home, state) = (Scratch::new(), Scratch::new());
    let workshop = home.path().join("workshop");
    fs::create_dir(&workshop).expect("the folder is ours");
    fs::write(workshop.join("toolbus.toml"), config).expect("the folder is ours");
    let (config, folder) = (home.file("workshop/toolbus.toml"), state.file(""));
    let words = ["serve", "--config", &config];
    let server = Server::start_with(&words, 2, &[("XDG_STATE_HOME", &folder)]);
    let shown = Shown { config: Config::of(""), state, server, tab: browser.tab() };
    shown.tab.open(&shown.address());
    shown.live();
    let tab = &shown.tab;
    let folder = docs().join("pictures");
    fs::create_dir_all(&folder).expect("the docs are ours");
    let take = |name: &str| fs::write(folder.join(name), tab.picture()).expect("the docs are ours");
    tab.get(TRAFFIC);
    tab.looks(1120, 700, Scheme::Light);
    tab.until("document.querySelector('[data-stat]')");
    take(PICTURES[0]);
    shown.go("view=calls&window=60");
    tab.until("document.querySelectorAll('[data-call]').length > 20");
    tab.run("document.activeElement.blur()");
    take(PICTURES[1]);
    tab.looks(1120, 700, Scheme::Dark);
    tab.click("tr[data-outcome=failed]");
    shown.until_there("[data-detail] [data-part=failure]");
    tab.run("scrollTo(0, 0); document.activeElement.blur()");
    take(PICTURES[2]);
    tab.looks(1120, 700, Scheme::Light);
    shown.go("view=tools&tool=jobs.count");
    tab.fill("[data-field=\"/n\"]", "5");
    tab.fill("[data-field=\"/ms\"]", "20");
    tab.click("[data-action=call]");
    shown.until_there("[data-output][data-outcome=ok]");
    tab.run("scrollTo(0, 0); document.activeElement.blur()");
    take(PICTURES[3]);
    assert_eq!(shown.call("math.add", &json!({"a":1,"b":2}))["outcome"], "ok");
}
