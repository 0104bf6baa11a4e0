//! What tools say is text, and pages of others get nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::json;
use toolbus_testkit::browser::Browser;
use toolbus_testkit::port::stop_listening;
use toolbus_testkit::scratch::Scratch;

use super::{SERVER, Shown, TCP, admin, offering, python_that};

/// Would each show up as something else than itself, if it were taken for more than text.
const MARKUP: [&str; 8] = [
    "<img src=x onerror=hacked=1>",
    "<script>hacked=1</script>",
    "<svg onload=hacked=1><animate onbegin=hacked=1 attributeName=x dur=1s>",
    "[a](javascript:hacked=1) ![b](https://127.0.0.1:1/b.png)",
    "https://example.com/ javascript:hacked=1 data:text/html,<script>hacked=1</script>",
    "\"><iframe srcdoc='<script>parent.hacked=1</script>'>",
    "\u{202e}\u{200b}\u{feff}\u{1b}[31m",
    "</style><style>*{display:none}</style>__proto__ ${hacked=1} {{hacked=1}}",
];

/// Nothing of it became an element, ran, or asked anybody.
fn assert_is_text(shown: &Shown) {
    let found = shown.tab.get(
        "[document.scripts.length, document.querySelectorAll('img, iframe, object, embed, svg, style, video, audio, base, meta[http-equiv]').length, \
         [...document.links].filter(one => one.origin !== location.origin || one.protocol === 'javascript:').length, \
         [...document.querySelectorAll('*')].filter(one => [...one.attributes].some(it => it.name.startsWith('on') || it.name === 'style' && !it.value.startsWith('--'))).length, \
         typeof hacked, performance.getEntriesByType('resource').filter(one => new URL(one.name).origin !== location.origin).length]",
    );
    assert_eq!(found, json!([1, 0, 0, 0, "undefined", 0]));
    let unseen =
        "/[\\u202a-\\u202e\\u200b\\ufeff\\u001b]/.test(document.querySelector('main').innerText)";
    assert_eq!(shown.tab.get(unseen), false);
    shown.assert_quiet();
}

#[test]
fn markup_of_tools_is_shown_as_it_is() {
    let all = MARKUP.join("\n");
    let tools = json!([{
        "name": "tool",
        "title": all,
        "description": all,
        "inputSchema": {"type":"object","properties":{
            all.clone(): {"type":"string","title":all,"description":all,"default":all},
            "one": {"enum":MARKUP},
            "__proto__": {"type":"object","properties":{"polluted":{"type":"string"}}},
            "constructor": {"type":"string"},
        },"required":[all]},
    }]);
    let back = offering(
        "evil",
        &tools,
        &json!({"content":[{"type":"text","text":all}],"structuredContent":{all.clone():MARKUP}}),
    );
    let Some(shown) = Shown::of(&format!("{back}{TCP}{}", admin("page = \"call\"")), 1) else {
        return;
    };
    let tab = &shown.tab;
    assert_is_text(&shown);
    shown.go("view=tools");
    shown.until_there("[data-tool=\"evil.tool\"]");
    tab.click("[data-tool=\"evil.tool\"]");
    shown.until_says("section[data-view=tools] .description", "<img src=x onerror=hacked=1>");
    shown.until_says("[data-schema]", "javascript:hacked=1");
    shown.until_says("section[data-view=tools] .description", "\\u202e\\u200b\\ufeff\\u001b");
    assert_is_text(&shown);
    tab.click("[data-action=call]");
    shown.until_there("[data-output][data-outcome=ok]");
    shown.until_says("[data-output] [data-part=answer]", "<script>hacked=1</script>");
    assert_is_text(&shown);
    // Names that callers make up, arguments and answers, in the list, the bars and the detail.
    for name in MARKUP {
        shown.call("evil.tool", &json!({"x":name}));
        shown.call(&format!("evil.{name}"), &json!({}));
    }
    shown.go("view=calls");
    tab.until("document.querySelectorAll('[data-call]').length === 17");
    for n in 1..=17 {
        shown.go(&format!("view=calls&call={n}"));
        shown.until_there(&format!("[data-detail=\"{n}\"] [data-part=answer]"));
        for action in ["copy-call", "copy-curl"] {
            tab.click(&format!("[data-action={action}]"));
        }
        assert_is_text(&shown);
    }
    let polluted = "({}).polluted === undefined && ({}).x === undefined && Object.getPrototypeOf([]) === Array.prototype";
    assert_eq!(tab.get(polluted), true);
    shown.go("view=overview");
    shown.until_there("[data-stat]");
    assert_is_text(&shown);
    // A filter of a link, too, is text.
    tab.run(&format!("location.hash = 'view=calls&filter=' + encodeURIComponent({})", json!(all)));
    shown.until_there("section[data-view=calls] [data-empty]");
    assert_is_text(&shown);
}

/// What a server says while it works, and as it dies.
#[test]
fn markup_in_progress_questions_and_last_words_is_text() {
    let scratch = Scratch::new();
    let tools = json!([{"name":"tool","inputSchema":{"type":"object","properties":{}}}]);
    let does = format!("MARKUP = json.loads({})\n{DOES}", json!(json!(MARKUP).to_string()));
    let does = [&does, SERVER].concat();
    let Some(back) = python_that(&scratch, "evil", &tools, &does) else { return };
    let Some(shown) = Shown::of(&format!("{back}{TCP}{}", admin("page = \"call\"")), 1) else {
        return;
    };
    let tab = &shown.tab;
    shown.go("view=tools&tool=evil.tool");
    tab.click("[data-action=call]");
    shown.until_says("form[data-ask] .question", "<script>hacked=1</script>");
    shown.until_says("form[data-ask] .field .about", "<img src=x onerror=hacked=1>");
    shown.until_says("[data-output] [data-event=progress]", "<svg onload=hacked=1>");
    assert_is_text(&shown);
    // The values of a select are what is answered.
    let values = "[...document.querySelector('form[data-ask] select').options].map(one => JSON.parse(one.value))";
    assert_eq!(tab.get(values), json!(MARKUP));
    tab.click("form[data-ask] [data-action=accept]");
    shown.until_there("[data-output][data-outcome=gone]");
    assert_is_text(&shown);
    shown.go("view=calls&call=1");
    shown.until_says("[data-detail] [data-event=ask]", "</style><style>");
    shown.until_says("[data-detail] [data-event=progress]", "<svg onload=hacked=1>");
    assert_is_text(&shown);
    shown.go("view=overview");
    shown.until_says("[data-back=evil] [data-part=stderr]", "<script>hacked=1</script>");
    shown.until_says("[data-back=evil] [data-part=stderr]", "\\u202e\\u200b\\ufeff");
    assert_is_text(&shown);
}

const DOES: &str = r#"
def call(params):
    everything = "\n".join(MARKUP)
    print(everything, file=sys.stderr, flush=True)
    token = params["_meta"]["progressToken"]
    say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": everything}})
    ask({"message": everything, "requestedSchema": {"type": "object", "required": ["one"],
        "properties": {"one": {"type": "string", "title": everything, "description": everything, "enum": MARKUP}}}})
    sys.exit(1)
"#;

/// The browser itself keeps strings from becoming markup, whatever a mistake of ours would do.
#[test]
fn the_page_could_not_make_markup_if_it_would() {
    let Some(shown) = Shown::builtin() else { return };
    let tab = &shown.tab;
    let refused = |what: &str| {
        tab.get(&format!("(() => {{ try {{ {what}; return false }} catch {{ return true }} }})()"))
    };
    assert_eq!(refused("document.body.insertAdjacentHTML('beforeend', '<b>x</b>')"), true);
    assert_eq!(refused("document.createElement('div').innerHTML = '<b>x</b>'"), true);
    assert_eq!(refused("trustedTypes.createPolicy('x', {})"), true);
    assert_eq!(refused("document.createElement('b').setAttribute('onclick', 'hacked=1')"), true);
    assert_eq!(refused("document.createElement('script').src = 'x.js'"), true);
    // An image of others is not loaded.
    tab.run("const one = document.createElement('img'); window.lost = false; one.onerror = () => { lost = true }; \
             one.src = 'http://127.0.0.1:1/x.png'; document.body.append(one)");
    tab.until("lost");
    assert_eq!(tab.text("typeof hacked"), "undefined");
}

/// A page of another site, in the same browser, learns nothing and does nothing.
#[test]
fn pages_of_others_get_nothing() {
    let Some(browser) = Browser::shared() else { return };
    let Some(shown) = Shown::builtin() else { return };
    let address = shown.address();
    let (url, token) = address.split_once("/#token=").expect("a token");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let ours = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let serving = listener.try_clone().expect("it can be shared");
    thread::spawn(move || {
        for mut stream in serving.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 17\r\nConnection: close\r\n\r\n<!doctype html>hi";
            let _ = stream.write_all(page.as_bytes());
        }
    });
    let tab = browser.tab();
    tab.open(&ours);
    tab.until("document.body.textContent === 'hi'");
    let ends = |what: &str| {
        tab.text(&format!(
            "Promise.resolve((() => {{ {what} }})()).then(it => 'got ' + it, why => 'refused')"
        ))
    };
    let with_token = format!("headers: {{ Authorization: 'Bearer {token}' }}");
    // Another port of this machine is another origin, and the same site.
    assert_eq!(ends(&format!("return fetch('{url}/api/state', {{ {with_token} }})")), "refused");
    assert_eq!(ends(&format!("return fetch('{url}/api/events')")), "refused");
    assert_eq!(
        ends(&format!(
            "return fetch('{url}/api/call', {{ method: 'POST', body: '{{}}', {with_token} }})"
        )),
        "refused"
    );
    // What may not be read, only sent, is refused where it arrives.
    ends(&format!(
        "return fetch('{url}/api/call', {{ method: 'POST', mode: 'no-cors', body: '{{\"tool\":\"try.add\"}}' }})"
    ));
    let loads = |name: &str, attribute: &str, path: &str| {
        ends(&format!(
            "return new Promise((done, fail) => {{ const one = document.createElement('{name}'); one.{attribute} = '{url}{path}'; \
             one.onload = done; one.onerror = fail; document.body.append(one) }})"
        ))
    };
    assert_eq!(loads("script", "src", "/api/state"), "refused");
    assert_eq!(loads("script", "src", "/"), "refused");
    assert_eq!(loads("img", "src", "/api/state"), "refused");
    let streamed = ends(&format!(
        "return new Promise((done, fail) => {{ const one = new EventSource('{url}/api/events'); one.onopen = done; one.onerror = fail }})"
    ));
    assert_eq!(streamed, "refused");
    // A frame shows nothing of it, a form calls nothing.
    tab.get(&format!(
        "new Promise(done => {{ const frame = document.createElement('iframe'); frame.name = 'f'; \
         frame.onload = () => done(true); frame.src = '{url}/'; document.body.append(frame) }})"
    ));
    let is_foreign =
        "(() => { try { return frames[0].location.href === 'x' } catch { return true } })()";
    tab.until(is_foreign);
    // What it was answered is there when the frame has loaded it.
    tab.get(&format!(
        "new Promise(done => {{ document.querySelector('iframe').onload = () => done(true); \
         const form = document.createElement('form'); form.method = 'post'; form.enctype = 'text/plain'; form.target = 'f'; \
         form.action = '{url}/api/call'; const field = document.createElement('input'); field.name = '{{\"tool\":\"try.add\",\"x\":\"'; \
         field.value = '\"}}'; form.append(field); document.body.append(form); form.submit() }})"
    ));
    // A link may lead to it, as from a chat.
    assert_eq!(shown.call("try.upper", &json!({"text":"x"}))["n"], 1);
    tab.run(&format!("location.href = '{url}/'"));
    tab.until("document.querySelector('form[data-token]')");
    stop_listening(listener);
}

/// Where an address with a token was, and whom the page asked, does not tell the token.
#[test]
fn the_token_leaves_by_no_referrer() {
    let Some(shown) = Shown::builtin() else { return };
    let token = shown.address().split_once("#token=").expect("a token").1.to_owned();
    let asked =
        shown.tab.text("JSON.stringify(performance.getEntries().map(one => one.name).slice(1))");
    assert!(!asked.contains(&token), "{asked}");
    assert_eq!(shown.tab.get("history.length < 4 && document.referrer === ''"), true);
    let history = shown.tab.ask("Page.getNavigationHistory", json!({}));
    let entries = history["entries"].as_array().expect("a list");
    // What was typed is for the browser to know; where one can go back to has no token.
    assert!(entries.iter().all(|entry| !entry["url"].to_string().contains(&token)), "{history}");
}
