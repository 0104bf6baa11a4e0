//! The live page of `toolbus serve`, as programs speak to it: who is let in, what it tells, how it
//! calls. What browsers make of it is tested with a browser.

mod events;
pub(crate) mod journal;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolbus_testkit::patience::{PATIENCE, awaited, eventually};
use toolbus_testkit::scratch::Scratch;

use crate::http::Request;
use crate::listening::Server;
use crate::page::Page;
use crate::serve::{BUILTIN, Config};

const TCP: &str = "[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";
const LOOK: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";
const CALL: &str = "[admin]\nlisten = \"127.0.0.1:0\"\npage = \"call\"\n";

/// A bus that shows its page.
struct Shown {
    server: Server,
    config: Config,
    state: Scratch,
    /// Where health, metrics and the page are.
    url: String,
    token: String,
}

/// An answer: status, head and body.
#[derive(Debug)]
struct Told {
    status: u16,
    head: String,
    body: String,
}

impl Told {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|it| it.1)
    }

    #[track_caller]
    fn refused(&self, status: u16, kind: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let error = &self.json()["error"];
        assert_eq!(error["kind"], kind, "{self:?}");
        error["message"].as_str().expect("a message").to_owned()
    }
}

impl Shown {
    fn of(text: &str) -> Shown {
        Shown::served(Config::of(text))
    }

    /// The same of a config that is there, with one front.
    fn served(config: Config) -> Shown {
        Shown::said(config, &[])
    }

    /// The same with more words.
    fn said(config: Config, more: &[&str]) -> Shown {
        let (state, path) = (Scratch::new(), config.path());
        let words = [&["serve", "--config", &path], more].concat();
        let server = Server::start_with(&words, 2, &[("XDG_STATE_HOME", &state.file(""))]);
        let url = server.urls[1].clone();
        let mut shown = Shown { server, config, state, url, token: String::new() };
        shown.token = shown.state_file()["token"].as_str().expect("a token").to_owned();
        shown
    }

    fn state_path(&self) -> Option<PathBuf> {
        let folder = PathBuf::from(self.state.file("toolbus/page"));
        let files = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|file| file.path());
        files.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "json"))
    }

    fn state_file(&self) -> Value {
        let path = awaited("it tells where the page is", || self.state_path());
        serde_json::from_slice(&fs::read(path).expect("it is ours")).expect("JSON")
    }

    fn host(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }

    /// Asks with these fields and no others.
    fn ask(&self, method: &str, path: &str, fields: &str, body: &str) -> Told {
        let head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n{body}");
        let answer = Request::connect(&self.url).say(&head).answer();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Told { status: status.expect("a status"), head: head.into(), body: body.into() }
    }

    fn own_fields(&self) -> String {
        format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.host(), self.token)
    }

    fn get(&self, path: &str) -> Told {
        self.ask("GET", path, &self.own_fields(), "")
    }

    fn json(&self, path: &str) -> Value {
        let told = self.get(path);
        assert_eq!(told.status, 200, "{path}: {told:?}");
        told.json()
    }

    fn post(&self, path: &str, fields: &str, body: &str) -> Told {
        let length = body.len();
        let own = self.own_fields();
        let fields =
            format!("{own}Content-Type: application/json\r\nContent-Length: {length}\r\n{fields}");
        self.ask("POST", path, &fields, body)
    }

    fn call(&self, body: &Value) -> Value {
        let told = self.post("/api/call", "", &body.to_string());
        assert_eq!(told.status, 200, "{told:?}");
        told.json()
    }

    /// Begins to look.
    fn look(&self, query: &str, fields: &str) -> Viewing {
        let own = self.own_fields();
        let head = format!("GET /api/events{query} HTTP/1.1\r\n{own}{fields}\r\n");
        Viewing {
            request: Request::connect(&self.url).with_little_room().say(&head),
            raw: Vec::new(),
            is_head_over: false,
            heard: Vec::new(),
            id: String::new(),
        }
    }

    /// A number of `/metrics`.
    fn metric(&self, name: &str) -> Option<u64> {
        let all = self.ask("GET", "/metrics", "Host: localhost\r\n", "").body;
        let value = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map(|value| value.parse().expect("a whole number"))
    }

    fn rpc(&self, tool: &str, args: &str) -> Page {
        Page::of(&["rpc", "call", self.server.url(), tool, args])
    }
}

/// One who looks.
struct Viewing {
    request: Request,
    /// Bytes as they came, of which no whole chunk was there yet.
    raw: Vec<u8>,
    is_head_over: bool,
    /// What the chunks say, as far as it was not looked at.
    heard: Vec<u8>,
    /// That of the last event that was looked at.
    id: String,
}

impl Viewing {
    /// The data of the next event of this name of which this is so; what comes before is dropped.
    #[track_caller]
    fn next(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            while let Some(event) = self.event() {
                let field = |name: &str| {
                    let named = |line: &'_ str| {
                        line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned)
                    };
                    event.lines().find_map(named)
                };
                self.id = field("id").unwrap_or_else(|| self.id.clone());
                let data = field("data").and_then(|data| serde_json::from_str::<Value>(&data).ok());
                let is_named = field("event").is_some_and(|event| event == name);
                if let Some(data) = data.filter(|data| is_named && is_it(data)) {
                    return data;
                }
            }
            assert!(Instant::now() < until, "no such {name}");
            let mut piece = [0; 65536];
            let count = self.request.stream.read(&mut piece).expect("it goes on");
            assert!(0 < count, "no such {name} before it ended: {:?}", self.raw);
            self.raw.extend_from_slice(&piece[..count]);
            while self.take_chunk() {}
        }
    }

    /// The next whole event, without the blank line behind it.
    fn event(&mut self) -> Option<String> {
        let end = self.heard.windows(2).position(|two| two == b"\n\n")?;
        let event: Vec<u8> = self.heard.drain(..end + 2).collect();
        Some(String::from_utf8(event).expect("events are UTF-8"))
    }

    /// Takes the head, or a whole chunk, if one is there.
    fn take_chunk(&mut self) -> bool {
        let end_of = |raw: &[u8], mark: &[u8]| raw.windows(mark.len()).position(|it| it == mark);
        if !self.is_head_over {
            let Some(end) = end_of(&self.raw, b"\r\n\r\n") else { return false };
            let head: Vec<u8> = self.raw.drain(..end + 4).collect();
            assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
            self.is_head_over = true;
        }
        let Some(end) = end_of(&self.raw, b"\r\n") else { return false };
        let size = str::from_utf8(&self.raw[..end]).expect("a size is text");
        let size = usize::from_str_radix(size, 16).expect("a size is hexadecimal");
        let behind = end + 2 + size + 2;
        if self.raw.len() < behind {
            return false;
        }
        self.heard.extend_from_slice(&self.raw[end + 2..behind - 2]);
        self.raw.drain(..behind);
        true
    }
}

#[test]
fn each_rule_is_kept_by_itself_and_in_its_order() {
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{LOOK}"));
    let (host, token) = (shown.host(), shown.token.clone());
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let own = format!("Host: {host}\r\n{bearer}");
    let status = |method: &str, path: &str, fields: &str| {
        let told = shown.ask(method, path, fields, "");
        assert_eq!(told.field("content-security-policy").is_some(), path != "/healthz", "{path}");
        assert_eq!(told.field("access-control-allow-origin"), None);
        assert_eq!(told.field("set-cookie"), None);
        told.status
    };
    let ours = format!("Origin: http://{host}\r\n");
    for (path, well) in [("/", 200), ("/api/state", 200)] {
        for (fields, expected) in [
            ("", well),
            (&*ours, well),
            ("Host: evil.example\r\n", 403),
            ("Origin: http://evil.example\r\n", 403),
            ("Origin: http://localhost:1\r\n", 403),
            ("Origin: null\r\n", 403),
            ("Sec-Fetch-Site: same-origin\r\n", well),
            ("Sec-Fetch-Site: none\r\n", well),
            ("Sec-Fetch-Site: same-site\r\n", 403),
            ("Sec-Fetch-Site: cross-site\r\n", 403),
        ] {
            // Each `Host` has to be ours.
            assert_eq!(status("GET", path, &format!("{own}{fields}")), expected, "{path} {fields}");
        }
    }
    let rebound = format!("Host: evil.example\r\n{bearer}");
    assert_eq!(status("GET", "/api/state", &rebound), 403);
    let link =
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    assert_eq!(status("GET", "/", &format!("{own}{link}")), 200);
    assert_eq!(status("GET", "/api/state", &format!("{own}{link}")), 403);
    let frame = link.replace("document", "iframe");
    assert_eq!(status("GET", "/", &format!("{own}{frame}")), 403);
    let cross = format!("Host: {host}\r\nSec-Fetch-Site: cross-site\r\n");
    assert_eq!(status("GET", "/healthz", &cross), 403);
    assert_eq!(status("GET", "/healthz", &cross.replace("cross", "same")), 200);
    // What is not there is not, with a token or without.
    for path in
        ["/api/", "/api/nothing", "/api/calls/", "/api/calls/x", "/page/", "/page/0/main.js"]
    {
        assert_eq!(status("GET", path, &format!("Host: {host}\r\n")), 404, "{path}");
    }
    // An unknown origin is told before an unknown path.
    assert_eq!(status("GET", "/api/nothing", &format!("{own}Origin: null\r\n")), 403);
    for (method, path, allowed) in [
        ("POST", "/", "GET, HEAD"),
        ("OPTIONS", "/api/state", "GET, HEAD"),
        ("DELETE", "/api/events", "GET, HEAD"),
        ("GET", "/api/call", "POST"),
        ("OPTIONS", "/api/call", "POST"),
        ("PUT", "/api/answer", "POST"),
    ] {
        // Before the token.
        let told = shown.ask(method, path, &format!("Host: {host}\r\n"), "");
        assert_eq!((told.status, told.field("allow")), (405, Some(allowed)), "{method} {path}");
    }
    assert_eq!(status("HEAD", "/api/state", &own), 200);
    assert_eq!(status("HEAD", "/api/events", &own), 200);
    for fields in [
        String::new(),
        "Authorization: Bearer wrong\r\n".to_owned(),
        format!("Authorization: Bearer {token}x\r\n"),
        format!("Authorization: Basic {token}\r\n"),
        format!("Cookie: token={token}\r\n"),
    ] {
        let told = shown.ask("GET", "/api/state", &format!("Host: {host}\r\n{fields}"), "");
        let message = told.refused(401, "unauthorized");
        assert_eq!(message, "a bearer token is needed: run `toolbus page`");
        assert_eq!(told.field("www-authenticate"), Some("Bearer"));
    }
    let path = format!("/api/state?token={token}");
    assert_eq!(status("GET", &path, &format!("Host: {host}\r\n")), 401);
    let told = shown.get(&path);
    assert!(told.refused(400, "invalid").starts_with("there is no parameter `token`"));
    assert_eq!(status("GET", "/?x=1", &own), 400);
    let told = shown.post("/api/call", "", "{\"tool\":\"try.add\"}");
    assert_eq!(
        told.refused(403, "forbidden"),
        "the page may look, not call: `[admin] page = \"call\"` lets it"
    );
    let long = format!("/api/calls?filter={}", "x".repeat(8192));
    shown.get(&long).refused(414, "too_large");
    for (query, expected) in [
        ("x=1", "there is no parameter `x`; it can be filter, before, limit"),
        ("limit=0", "the parameter `limit` must be an integer from 1 to 500"),
        ("limit=1&limit=2", "the parameter `limit` stands there twice"),
        ("filter=%ff", "the parameter `filter` is not percent-encoded UTF-8"),
        (
            "filter=nope:x",
            "there is no filter `nope`; it can be back, tool, outcome, since, slower, front, caller, trace",
        ),
    ] {
        assert_eq!(shown.get(&format!("/api/calls?{query}")).refused(400, "invalid"), expected);
    }
    let told = shown.get("/api/tool");
    assert_eq!(told.refused(400, "invalid"), "the parameter `name` is missing");
    // Health is whose it was before.
    assert_eq!(status("GET", "/healthz", "Host: localhost\r\n"), 200);
}

/// What is refused is told, but not what it would have given away.
#[test]
fn a_refused_request_is_told_without_what_it_showed() {
    let config = Config::of(&format!("{BUILTIN}{TCP}{CALL}"));
    let shown = Shown::said(config, &["-v"]);
    shown.get("/api/calls?filter=hush:hush").refused(400, "invalid");
    shown.get("/api/state?hush=1").refused(400, "invalid");
    let fields = format!("Host: {}\r\nAuthorization: Bearer hush\r\n", shown.host());
    shown.ask("GET", "/api/state", &fields, "").refused(401, "unauthorized");
    shown.post("/api/call", "", "{\"tool\":\"a\",\"hush\":1}").refused(400, "invalid");
    shown.server.signal(Signal::TERM);
    let said = shown.server.end();
    for told in ["GET /api/calls with HTTP status 400", "GET /api/state with HTTP status 401"] {
        assert!(said.contains(told), "{said}");
    }
    assert!(!said.contains("hush") && !said.contains(&shown.token), "{said}");
}

#[test]
fn what_is_posted_is_judged_before_it_is_read() {
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{CALL}"));
    let own = shown.own_fields();
    let body = "{\"tool\":\"try.add\"}";
    let length = body.len();
    for kind in
        ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"]
    {
        let fields = format!("{own}{kind}Content-Length: {length}\r\n");
        shown.ask("POST", "/api/call", &fields, body).refused(415, "unsupported_media_type");
    }
    let fields = format!(
        "{own}Content-Type: application/json; charset=utf-8\r\nContent-Length: {length}\r\n"
    );
    assert_eq!(shown.ask("POST", "/api/call", &fields, body).status, 200);
    let large = format!("{own}Content-Type: application/json\r\nContent-Length: 16777217\r\n");
    shown.ask("POST", "/api/call", &large, "").refused(413, "too_large");
    for (body, expected) in [
        ("", "the body is no JSON"),
        ("[]", "the body must be a JSON object"),
        ("{}", "`tool` must be the name of a tool"),
        ("{\"tool\":7}", "`tool` must be the name of a tool"),
        ("{\"tool\":\"a\",\"x\":1}", "there is no member `x`; it can be tool, arguments, timeout"),
        ("{\"tool\":\"a\",\"tool\":\"b\"}", "the member `tool` stands there twice"),
        ("{\"tool\":\"a\",\"timeout\":5}", "`timeout` must be a time"),
        ("{\"tool\":\"a\",\"timeout\":\"soon\"}", "`timeout`: `soon` is not a time"),
        ("{\"tool\":\"a\",\"__proto__\":{}}", "there is no member `__proto__`"),
    ] {
        let message = shown.post("/api/call", "", body).refused(400, "invalid");
        assert!(message.starts_with(expected), "{body}: {message}");
    }
    for (body, expected) in [
        ("{\"n\":1}", "`ask` must be a text"),
        ("{\"n\":\"1\",\"ask\":\"1\",\"action\":\"accept\"}", "`n` must be the number of a call"),
        ("{\"n\":1,\"ask\":\"1\",\"action\":\"yes\"}", "`action` must be"),
        ("{\"n\":1,\"ask\":\"1\",\"action\":\"accept\",\"content\":[]}", "`content` must be"),
    ] {
        let message = shown.post("/api/answer", "", body).refused(400, "invalid");
        assert!(message.starts_with(expected), "{body}: {message}");
    }
    let nobody = "{\"n\":99,\"ask\":\"1\",\"action\":\"accept\"}";
    shown.post("/api/answer", "", nobody).refused(404, "not_found");
}

#[test]
fn the_page_and_its_files_are_the_same_for_all() {
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{LOOK}"));
    let fields = format!("Host: {}\r\n", shown.host());
    let page = shown.ask("GET", "/", &fields, "");
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.field("cache-control"), Some("no-store"));
    assert!(page.body.starts_with("<!doctype html>") && !page.body.contains(&shown.token));
    let mut files = 0;
    for rest in page.body.split("\"/page/").skip(1) {
        let path = format!("/page/{}", rest.split('"').next().expect("a quote"));
        let file = shown.ask("GET", &path, &fields, "");
        assert_eq!(file.status, 200, "{path}");
        assert_eq!(file.field("cache-control"), Some("public, max-age=31536000, immutable"));
        let kind = match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "js" => "text/javascript",
            "css" => "text/css",
            _ => "image/svg+xml",
        };
        assert_eq!(file.field("content-type"), Some(kind), "{path}");
        let tag = file.field("etag").expect("a tag").to_owned();
        assert_eq!(tag.trim_matches('"').len(), 16);
        let known = shown.ask("GET", &path, &format!("{fields}If-None-Match: {tag}\r\n"), "");
        assert_eq!((known.status, known.body.as_str()), (304, ""));
        assert_eq!(shown.ask("GET", &format!("{path}?x"), &fields, "").status, 400);
        files += 1;
    }
    assert!(0 < files);
}

#[test]
fn calls_are_shown_counted_and_found() {
    let journal = "[journal]\npath = \"calls.jsonl\"\narguments = true\n";
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{LOOK}{journal}"));
    assert_eq!(shown.rpc("try.add", "{\"a\":1,\"b\":2}").run().status.code(), Some(0));
    shown.rpc("try.fail", "{\"message\":\"no\"}").run();
    shown.rpc("try.made_up", "{}").run();
    let calls = shown.json("/api/calls");
    let tools: Vec<_> =
        calls["calls"].as_array().expect("calls").iter().map(|it| &it["tool"]).collect();
    assert_eq!(tools, ["made_up", "fail", "add"]);
    assert_eq!((&calls["more"], &calls["forgotten"]), (&json!(false), &json!(0)));
    let add = &calls["calls"][2];
    assert_eq!(
        (&add["n"], &add["front"], &add["back"]),
        (&json!(1), &json!("scripts"), &json!("try"))
    );
    assert_eq!((&add["outcome"], &add["bytes"]), (&json!("ok"), &json!({"in": 13, "out": 1})));
    let found = shown.json("/api/calls?filter=outcome:failure+tool:fail");
    assert_eq!(found["calls"].as_array().map(Vec::len), Some(1));
    // What the journal keeps, the page does.
    let detail = shown.json("/api/calls/1");
    assert_eq!(detail["values"], "kept");
    assert_eq!(detail["arguments"], json!({"a": 1, "b": 2}));
    assert!(detail.get("result").is_none() && detail.get("events").is_none());
    assert_eq!(shown.json("/api/calls/2")["failure"], json!({"kind": "failed"}));
    assert_eq!(shown.get("/api/calls/9").refused(404, "not_found"), "call 9 is not kept");
    let state = shown.json("/api/state");
    assert_eq!(state["counts"], json!({"calls": 3, "failures": 2, "in_flight": 0}));
    assert_eq!(state["last_minute"]["calls"], 3);
    assert_eq!((&state["page"], &state["journal"]), (&json!("look"), &json!(true)));
    assert_eq!(state["backs"][0]["state"], "ready");
    assert_eq!(state["backs"][0]["calls"], 3);
    assert_eq!(state["fronts"][0]["address"], shown.server.url());
    assert_eq!(state["fronts"][0]["calls"], 3);
    let stats = shown.json("/api/stats");
    let names: Vec<_> =
        stats["tools"].as_array().expect("tools").iter().map(|it| &it["tool"]).collect();
    assert_eq!(names, ["(other)", "add", "fail"]);
    let history = shown.json("/api/history");
    assert_eq!(history["calls"].as_array().map(Vec::len), Some(900));
    let journal = shown.json("/api/journal?limit=2");
    let entries: Vec<_> =
        journal["entries"].as_array().expect("entries").iter().map(|it| &it["tool"]).collect();
    assert_eq!(entries, ["made_up", "fail"]);
    let next = journal["next"].as_str().expect("there is more");
    let rest = shown.json(&format!("/api/journal?before={next}"));
    assert_eq!(rest["entries"][0]["arguments"], json!({"a": 1, "b": 2}));
    assert!(rest.get("next").is_none());
    shown.get("/api/journal?before=x").refused(400, "invalid");
    let tools = shown.json("/api/tools?search=add&limit=1");
    assert_eq!(tools["tools"][0]["name"], "try.add");
    assert_eq!(shown.json("/api/tools?back=none")["matched"], 0);
    assert_eq!(shown.json("/api/tool?name=try.add")["input"]["required"], json!(["a", "b"]));
    shown.get("/api/tool?name=try.nothing").refused(404, "not_found");
    let config = shown.json("/api/config");
    assert_eq!(config["tables"]["back"]["try"], json!({"connect": "builtin:"}));
}

#[test]
fn tools_can_be_called_where_the_config_says_so() {
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{CALL}"));
    let told = shown.call(&json!({"tool": "try.add", "arguments": {"a": 1, "b": 2}}));
    assert_eq!(
        (&told["n"], &told["outcome"], &told["result"]),
        (&json!(1), &json!("ok"), &json!(3))
    );
    let told = shown.call(&json!({"tool": "try.fail", "arguments": {"message": "no"}}));
    assert_eq!(told["failure"], json!({"kind": "failed", "message": "no"}));
    let told = shown.call(&json!({"tool": "try.count", "arguments": {"n": 2}}));
    assert_eq!(told["result"], json!({"elements": [0, 1]}));
    // Byte for byte, digits included.
    let told = shown.post(
        "/api/call",
        "",
        "{\"tool\":\"try.echo\",\"arguments\":{\"n\": 1.00, \"x\":18446744073709551616}}",
    );
    assert!(told.body.contains("\"result\":{\"n\": 1.00, \"x\":18446744073709551616}"), "{told:?}");
    let told =
        shown.call(&json!({"tool": "try.sleep", "arguments": {"ms": 600_000}, "timeout": "1ms"}));
    assert_eq!(told["outcome"], "timed_out");
    let call = json!({"tool": "try.count", "arguments": {"n": 2}}).to_string();
    let told = shown.post("/api/call", "Accept: text/event-stream\r\n", &call);
    assert_eq!(told.field("content-type"), Some("text/event-stream; charset=utf-8"));
    let names: Vec<_> = told.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, ["begin", "part", "part", "end"]);
    let detail = shown.json("/api/calls/6");
    assert_eq!((&detail["front"], &detail["parts"]), (&json!("page"), &json!(2)));
    let kinds: Vec<_> =
        detail["events"].as_array().expect("events").iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["begin", "part", "part", "end"]);
    let metrics = shown.ask("GET", "/metrics", "Host: localhost\r\n", "").body;
    assert!(metrics.contains("toolbus_front_calls_total{front=\"page\"} 6\n"), "{metrics}");
    // Who leaves cancels.
    let sleep = json!({"tool": "try.sleep", "arguments": {"ms": 600_000}}).to_string();
    let own = shown.own_fields();
    let mut asking = Request::connect(&shown.url).say(&format!(
        "POST /api/call HTTP/1.1\r\n{own}Accept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{sleep}",
        sleep.len()
    ));
    asking.hear("\"n\":7");
    drop(asking);
    eventually("it is cancelled", || shown.json("/api/calls/7")["outcome"] == "cancelled");
}

#[test]
fn viewers_are_told_what_happens() {
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{CALL}"));
    let mut viewing = shown.look("?values=true", "");
    let snapshot = viewing.next("snapshot", |_| true);
    assert_eq!((&snapshot["resumed"], &snapshot["dropped"]), (&json!(false), &json!(0)));
    assert_eq!(snapshot["state"]["values"]["watching"], 1);
    assert_eq!(snapshot["history"]["calls"].as_array().map(Vec::len), Some(900));
    shown.rpc("try.add", "{\"a\":1,\"b\":2}").run();
    let has = |tick: &Value, outcome: &str| {
        tick["calls"]
            .as_array()
            .is_some_and(|calls| calls.iter().any(|it| it["outcome"] == outcome))
    };
    let tick = viewing.next("tick", |tick| has(tick, "ok"));
    assert_eq!(tick["counts"]["calls"], 1);
    // It may have begun in a second in which none ended.
    let has_ended = |second: &Value| second["calls"] == 1;
    viewing.next("tick", |tick| {
        tick["seconds"].as_array().is_some_and(|seconds| seconds.iter().any(has_ended))
    });
    // Values of all calls are taken, as long as somebody watches them.
    let detail = shown.json("/api/calls/1");
    assert_eq!((&detail["values"], &detail["result"]), (&json!("kept"), &json!(3)));
    let seen = viewing.id.clone();
    drop(viewing);
    eventually("it has left", || shown.json("/api/state")["viewers"] == 0);
    shown.rpc("try.add", "{\"a\":1,\"b\":2}").run();
    assert_eq!(shown.json("/api/calls/2")["values"], "not_kept");
    // One that comes back is told what it has missed.
    assert!(seen.starts_with(snapshot["state"]["boot"].as_str().expect("a name")), "{seen}");
    let mut again = shown.look("", &format!("Last-Event-ID: {seen}\r\n"));
    let snapshot = again.next("snapshot", |_| true);
    let missed: Vec<_> =
        snapshot["calls"].as_array().expect("calls").iter().map(|it| &it["n"]).collect();
    assert_eq!((&snapshot["resumed"], missed), (&json!(true), vec![&json!(2)]));
    let mut other = shown.look("", "Last-Event-ID: 0000.2\r\n");
    assert_eq!(other.next("snapshot", |_| true)["resumed"], false);
    shown.server.signal(Signal::TERM);
    assert_eq!(again.next("bye", |_| true)["why"], "stopping");
    assert_eq!(shown.server.end(), "exit 0\n");
    assert!(
        !PathBuf::from(shown.state.file("toolbus/page"))
            .read_dir()
            .is_ok_and(|mut it| it.next().is_some())
    );
}

#[test]
fn many_viewers_keep_health_from_no_one() {
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{LOOK}"));
    // None of them reads.
    let looking: Vec<_> = (0..32).map(|_| shown.look("", "")).collect();
    eventually("all look", || shown.json("/api/state")["viewers"] == 32);
    let refused = shown.get("/api/events");
    assert_eq!(refused.refused(503, "busy"), "32 viewers are looking already");
    assert_eq!(refused.field("retry-after"), Some("5"));
    let silent: Vec<_> = (0..68)
        .map(|_| TcpStream::connect(shown.host()).expect("it listens"))
        .map(|mut stream| {
            stream.write_all(b"GET / HTTP/1.1\r\n").expect("it is there");
            stream
        })
        .collect();
    assert_eq!(shown.ask("GET", "/healthz", "Host: localhost\r\n", "").body, "ok\n");
    let metrics = shown.ask("GET", "/metrics", "Host: localhost\r\n", "").body;
    assert!(metrics.contains("\ntoolbus_page_viewers 32\n"), "{metrics}");
    drop((looking, silent));
    shown.server.signal(Signal::TERM);
    assert_eq!(shown.server.end(), "exit 0\n");
}

#[test]
fn secrets_are_masked_and_values_may_be_hidden() {
    let secret = "sup3r-s3cret/\"value";
    let state = Scratch::new();
    let config = Config::of(&format!(
        "{BUILTIN}env = {{}}\n{TCP}{CALL}token = \"${{PAGE_TEST_SECRET}}\"\n[journal]\npath = \"j\"\narguments = true\nresults = true\n"
    ).replace("env = {}\n", ""));
    let words = ["serve", "--config", &config.path()];
    let env = [("XDG_STATE_HOME", &*state.file("")), ("PAGE_TEST_SECRET", secret)];
    let server = Server::start_with(&words, 2, &env);
    let url = server.urls[1].clone();
    // The token of the config is one, too.
    let mut shown = Shown { server, config, state, url, token: secret.to_owned() };
    let call = json!({"tool": "try.echo", "arguments": {"key": secret}});
    // What is answered to who calls passes as it is.
    assert_eq!(shown.call(&call)["result"]["key"], secret);
    let own = shown.state_file()["token"].as_str().expect("a token").to_owned();
    shown.token = own.clone();
    let call = json!({"tool": "try.echo", "arguments": {"key": own}});
    assert_eq!(shown.call(&call)["result"]["key"], *own);
    for path in
        ["/api/calls", "/api/calls/1", "/api/calls/2", "/api/config", "/api/journal", "/api/state"]
    {
        let told = shown.get(path).body;
        let escaped = serde_json::to_string(secret).expect("a text");
        assert!(
            !told.contains(escaped.trim_matches('"')) && !told.contains(&own),
            "{path}: {told}"
        );
    }
    assert_eq!(shown.json("/api/calls/1")["arguments"]["key"], "***");
    assert_eq!(shown.json("/api/config")["tables"]["admin"]["token"], "${PAGE_TEST_SECRET}");
    let hidden =
        format!("{BUILTIN}{TCP}{CALL}page_values = false\ntoken = \"${{PAGE_TEST_SECRET}}\"\n");
    shown.config.reload(&shown.server, &hidden);
    assert_eq!(shown.json("/api/calls/1")["values"], "hidden");
    assert!(shown.json("/api/calls/1").get("arguments").is_none());
    assert_eq!(shown.call(&call)["result"]["key"], *own);
    assert_eq!(shown.json("/api/calls/3")["values"], "hidden");
    assert_eq!(shown.json("/api/state")["values"]["allowed"], false);
}

#[test]
fn a_reload_changes_what_the_page_may_do() {
    let text = |admin: &str| format!("{BUILTIN}{TCP}{admin}");
    let shown = Shown::of(&text(CALL));
    let before = shown.state_file();
    let mut viewing = shown.look("", "");
    viewing.next("snapshot", |_| true);
    shown.rpc("try.add", "{\"a\":1,\"b\":2}").run();
    shown.config.reload(&shown.server, &text(LOOK));
    assert_eq!(viewing.next("snapshot", |_| true)["state"]["page"], "look");
    shown.post("/api/call", "", "{}").refused(403, "forbidden");
    assert_eq!(shown.json("/api/state")["counts"]["calls"], 1);
    assert_eq!(shown.state_file()["token"], before["token"]);
    assert_eq!(shown.state_file()["page"], "look");
    shown.config.reload(&shown.server, &text(&format!("{LOOK}page = \"off\"\n")));
    assert_eq!(viewing.next("bye", |_| true)["why"], "off");
    for path in ["/", "/api/state", "/page/x/y"] {
        assert_eq!(shown.get(path).status, 404, "{path}");
    }
    assert_eq!(shown.state_path(), None);
    shown.config.reload(&shown.server, &text(LOOK));
    assert_eq!(shown.json("/api/state")["boot"], before["boot"]);
}

#[test]
fn the_command_tells_where_the_page_is() {
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{LOOK}"));
    let file = shown.state_path().expect("it is there");
    assert_eq!(fs::metadata(&file).expect("it is ours").permissions().mode() & 0o777, 0o600);
    let run = |words: &[&str], browser: &str| {
        let page = Page::of(words).env("XDG_STATE_HOME", shown.state.file(""));
        page.env("BROWSER", browser).run()
    };
    // The page has two seconds to answer, which on a busy machine may be too few.
    let found = |words: &[&str], browser: &str| {
        awaited("it answers in time", || {
            Some(run(words, browser)).filter(|told| told.status.code() != Some(3))
        })
    };
    let path = shown.config.path();
    let told = found(&["page", "--config", &path], "");
    assert_eq!(told.stdout, format!("{}/#token={}\n", shown.url, shown.token), "{told}");
    let told = found(&["page", "--json", "--config", &path], "");
    assert_eq!(serde_json::from_str::<Value>(&told.stdout).expect("JSON"), shown.state_file());
    // A browser is given a file that leads there, and never the token.
    let copied = shown.state.file("copied");
    fs::create_dir(&copied).expect("it is ours");
    let told = found(&["page", "--open", "--config", &path], &format!("cp -t '{copied}'"));
    assert_eq!(told.status.code(), Some(0), "{told}");
    let copy = awaited("it is copied", || {
        let file = fs::read_dir(&copied).ok()?.next()?.ok()?.path();
        fs::read_to_string(file).ok().filter(|text| text.contains("</title>"))
    });
    assert!(copy.contains(&format!("{}/#token={}", shown.url, shown.token)), "{copy}");
    let none = found(&["page", "--open", "--config", &path], "no-such-browser");
    assert_eq!(none.status.code(), Some(1), "{none}");
    assert!(none.stderr.starts_with("error: no browser could be started: "), "{none}");
    assert!(none.stdout.contains(&shown.token), "{none}");
    for (text, code, expected) in [
        (format!("{BUILTIN}{TCP}"), 2, "has no `[admin]`, so there is no page"),
        (
            format!("{BUILTIN}{TCP}{LOOK}page = \"off\"\n"),
            2,
            "error: the page is off: `[admin] page` in",
        ),
        (format!("{BUILTIN}{TCP}{LOOK}"), 3, "error: no `toolbus serve` shows a page for"),
    ] {
        let other = Config::of(&text);
        let told = run(&["page", "--config", &other.path()], "");
        assert_eq!(told.status.code(), Some(code), "{told}");
        assert!(told.stderr.lines().next().is_some_and(|line| line.contains(expected)), "{told}");
    }
    let wrong = Config::of(&format!("{BUILTIN}{TCP}{LOOK}page = \"on\"\n"));
    let told = run(&["page", "--config", &wrong.path()], "");
    assert!(told.stderr.contains("`admin.page` must be \"look\", \"call\" or \"off\""), "{told}");
}

#[test]
fn calls_end_with_the_page() {
    let shown = Shown::of(&format!("{BUILTIN}{TCP}{CALL}"));
    let sleep = json!({"tool": "try.sleep", "arguments": {"ms": 600_000}}).to_string();
    let (own, length) = (shown.own_fields(), sleep.len());
    let asking = Request::connect(&shown.url).say(&format!(
        "POST /api/call HTTP/1.1\r\n{own}Connection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{sleep}"
    ));
    eventually("it runs", || shown.json("/api/state")["counts"]["in_flight"] == 1);
    shown.config.reload(&shown.server, &format!("{BUILTIN}{TCP}{LOOK}page = \"off\"\n"));
    let answer = asking.answer();
    assert!(answer.contains("\"outcome\":\"cancelled\""), "{answer}");
}
