//! The page of `toolbus serve` as people see it, in a real browser, of a real bus.
//!
//! All tests share one browser, and each has a bus and a tab of its own. What the page shows is
//! awaited, never slept for.

mod calls;
mod forms;
mod hostile;
mod journal;
mod link;
mod looks;
mod other_engine;
mod overview;
mod pictures;
mod tools;

use std::fs;

use serde_json::{Value, json};
use toolbus_testkit::browser::{Browser, Tab};
use toolbus_testkit::patience::{PATIENCE, awaited};
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::skipped::is_there;

use crate::listening::Server;
use crate::mcp::DISCOVERED;
use crate::page::mcp_server;
use crate::serve::{BUILTIN, Config};

pub(super) const TCP: &str = "[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";

/// A bus that is served, and a tab that shows its page.
pub(super) struct Shown {
    pub(super) config: Config,
    pub(super) state: Scratch,
    pub(super) server: Server,
    pub(super) tab: Tab,
}

/// `[admin]` with more keys.
pub(super) fn admin(more: &str) -> String {
    format!("[admin]\nlisten = \"127.0.0.1:0\"\n{more}\n")
}

/// Serves a config of so many fronts, and `[admin]`.
pub(super) fn serve(config: &Config, state: &Scratch, fronts: usize) -> Server {
    let folder = state.path().to_str().expect("temporary folders have names in UTF-8");
    let words = ["serve", "--config", &config.path()];
    Server::start_with(
        &words,
        fronts + 1,
        &[("XDG_STATE_HOME", folder), ("TOOLBUS_TEST_TOKEN", "known")],
    )
}

/// The address of the page with its token, as `toolbus page` prints it.
pub(super) fn address(state: &Scratch) -> String {
    awaited("the state file is written", || {
        let file = fs::read_dir(state.path().join("toolbus/page")).ok()?.flatten();
        let mut files = file.filter(|file| file.path().extension().is_some_and(|is| is == "json"));
        let told: Value = serde_json::from_slice(&fs::read(files.next()?.path()).ok()?).ok()?;
        Some(format!("{}#token={}", told["url"].as_str()?, told["token"].as_str()?))
    })
}

impl Shown {
    /// The built-in tools, behind one front, on a page that may call.
    pub(super) fn builtin() -> Option<Shown> {
        Shown::of(&format!("{BUILTIN}{TCP}{}", admin("page = \"call\"")), 1)
    }

    /// A config, shown once the page is live; nothing without a browser.
    pub(super) fn of(config: &str, fronts: usize) -> Option<Shown> {
        Shown::served(Config::of(config), fronts)
    }

    /// The same of a config that is there.
    pub(super) fn served(config: Config, fronts: usize) -> Option<Shown> {
        let browser = Browser::shared()?;
        let state = Scratch::new();
        let server = serve(&config, &state, fronts);
        let shown = Shown { config, state, server, tab: browser.tab() };
        shown.tab.open(&shown.address());
        shown.live();
        Some(shown)
    }

    pub(super) fn address(&self) -> String {
        address(&self.state)
    }

    pub(super) fn live(&self) {
        self.tab.until("document.documentElement.dataset.link === 'live'");
    }

    /// Goes to a place of the page as a link would.
    pub(super) fn go(&self, fragment: &str) {
        self.tab.run(&format!("location.hash = {}", json!(fragment)));
    }

    /// Calls a tool by the API of the page; gives what it answers. It shows as any call.
    pub(super) fn call(&self, tool: &str, arguments: &Value) -> Value {
        let body = json!({"tool":tool,"arguments":arguments}).to_string();
        self.tab.get(&format!(
            "fetch('/api/call', {{ method: 'POST', body: {}, headers: {{ 'Content-Type': \
             'application/json', Authorization: 'Bearer ' + Object.values(sessionStorage)[0] }} }})\
             .then(answer => answer.json())",
            json!(body)
        ))
    }

    /// What the first element that a selector finds says.
    pub(super) fn says(&self, selector: &str) -> String {
        self.tab.until(&format!("document.querySelector({})", json!(selector)));
        self.tab.text(&format!("document.querySelector({}).textContent", json!(selector)))
    }

    /// Awaits that it has this in it.
    pub(super) fn until_says(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.tab.until(&format!("document.querySelector({selector}).textContent.includes({text})"));
    }

    pub(super) fn until_there(&self, selector: &str) {
        self.tab
            .until(&format!("document.querySelector({}).getClientRects().length", json!(selector)));
    }

    /// Nothing went wrong in the page.
    pub(super) fn assert_quiet(&self) {
        assert_eq!(self.tab.errors(), Vec::<String>::new());
    }
}

/// A back of MCP that is given its time to say which generation it is of, and what it has: a browser
/// leaves others little.
pub(super) fn patient(back: &str) -> String {
    let seconds = PATIENCE.as_secs();
    format!("{back}probe_timeout = \"{seconds}s\"\nstart_timeout = \"{seconds}s\"\n")
}

/// A back that offers tools and answers each call the same, as an MCP server.
pub(super) fn offering(name: &str, tools: &Value, result: &Value) -> String {
    let mut both = result.clone();
    both["tools"] = tools.clone();
    let both = both.to_string().replace('\\', r"\\");
    let steps = ["read", "answer", DISCOVERED, "forever", "{", "read", "answer", &both, "}"];
    patient(&crate::serve::back(name, &mcp_server(&steps).replace('\\', r"\\")))
}

/// A back of many tools, more than the words of a command may have: a script has them. A call of
/// it asks a question, and answers what it was answered.
pub(super) fn python(scratch: &Scratch, name: &str, tools: &Value) -> Option<String> {
    python_that(scratch, name, tools, &[ANSWERS, SERVER].concat())
}

/// The same, of which a call does what a function `call` says; what it says has to be an answer.
pub(super) fn python_that(
    scratch: &Scratch,
    name: &str,
    tools: &Value,
    does: &str,
) -> Option<String> {
    if !is_there(&["python3", "--version"]) {
        return None;
    }
    let tools = json!(tools.to_string());
    let text =
        format!("#!/usr/bin/env python3\nimport json, sys\nTOOLS = json.loads({tools})\n{does}");
    let script = scratch.program("server.py", &text);
    Some(patient(&crate::serve::back(name, &format!("mcp+stdio:{script}"))))
}

/// What a call of [`python`] does.
const ANSWERS: &str = r#"
QUESTION = {"message": "Which <b>city</b>?", "requestedSchema": {"type": "object", "required": ["city"],
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}}}}

def call(params):
    answer = ask(QUESTION)
    return {"content": [{"type": "text", "text": json.dumps(answer)}]}
"#;

pub(super) const SERVER: &str = r#"
def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def ask(question):
    say({"id": "q", "method": "elicitation/create", "params": question})
    answer = {}
    while answer.get("id") != "q":
        answer = json.loads(sys.stdin.readline())
    return answer["result"]

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif asked["method"] == "tools/call":
        result = call(asked["params"])
    elif asked["method"] == "logging/setLevel":
        result = {}
    else:
        say({"id": asked["id"], "error": {"code": -32601, "message": "no"}})
        continue
    say({"id": asked["id"], "result": result})
"#;
