//! Callers of `toolbus serve`: who they are on each wire, what is theirs, and what becomes of them when
//! the config is read again.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::thread;

use expect_test::expect;
use rustix::process::{Uid, geteuid};
use toolbus_testkit::certificates::Certificates;
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::scratch::Scratch;

use crate::http::Request;
use crate::mcp::{INITIALIZE, legacy_call, request};
use crate::page::{Page, mcp_server};
use crate::serve::{BUILTIN, Config};

/// The SHA-256 of `ann-token`, of `bob-token`, of `eve-token` and of `new-token`.
const ANN: &str = "dfa603dfa2ef13eb23a30434d7feef5de20829cb6c5181623c8028a74eaf4971";
const BOB: &str = "97dd3707015dcf069cf73022ed7173b1165db6eff24b441cb57fd069a8c4e525";
const EVE: &str = "90623e5477a896ff088b7223109b65c9f6931b8889a22170c72f733462dd3bac";
const NEW: &str = "348e9df2a42bd6e3c6356ca9c95c5f1fe9a6b3e5cd25f4ae58df0f09049c3209";

const EDITOR: &str = "[front.editor]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\nsse = true\n";

/// A caller of this name, known by this, with a view of its name that shows this tool alone.
fn caller(name: &str, credential: &str, tool: &str) -> String {
    format!(
        "[caller.{name}]\n{credential}\nview = \"{name}\"\n[view.{name}]\nshow = [\"try.{tool}\"]\n"
    )
}

fn token(sha256: &str) -> String {
    format!("token_sha256 = \"{sha256}\"")
}

/// Ann may add, bob may have texts in upper case, and eve may not come in by this front.
fn three(front: &str, allowed: &str) -> String {
    let ann = caller("ann", &token(ANN), "add");
    let bob = caller("bob", &token(BOB), "upper");
    let eve = caller("eve", &token(EVE), "*");
    format!("{BUILTIN}{ann}{bob}{eve}{front}callers = {allowed}\n")
}

/// What is answered to one request that shows this token, without the time of it.
pub(crate) fn ask(
    url: &str,
    method: &str,
    path: &str,
    token: &str,
    fields: &str,
    body: &str,
) -> String {
    let shown = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{shown}{fields}Content-Length: {length}\r\n\r\n{body}"
    );
    let answer = Request::connect(url).say(&request).answer();
    let lines = answer.lines().filter(|line| !line.to_ascii_lowercase().starts_with("date: "));
    lines.map(|line| format!("{line}\n")).collect()
}

fn post(url: &str, token: &str, session: &str, body: &str) -> String {
    let fields = match session {
        "" => String::new(),
        session => format!("Mcp-Session-Id: {session}\r\n"),
    };
    ask(url, "POST", "/mcp", token, &fields, body)
}

/// Begins a session and gives its name.
fn session(url: &str, token: &str) -> String {
    let answer = post(url, token, "", INITIALIZE);
    let name = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
    });
    name.unwrap_or_else(|| panic!("no session: {answer}"))
}

/// The names of the tools that are listed.
fn tools_of(url: &str, token: &str, session: &str) -> Vec<String> {
    let answer = post(url, token, session, &request(1, "tools/list", "{}"));
    let names = answer.split(r#"{"name":""#).skip(1);
    names.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn each_caller_of_an_mcp_front_has_its_own_tools_and_sessions() {
    let scratch = Scratch::new();
    let journal = scratch.file("calls.jsonl");
    let journaled = format!("[journal]\npath = \"{journal}\"\narguments = true\n");
    let config = Config::of(&(three(EDITOR, r#"["ann", "bob"]"#) + &journaled));
    let server = config.serve(1);
    let url = server.url();
    let (ann, bob) = (session(url, "ann-token"), session(url, "bob-token"));
    assert_eq!(tools_of(url, "ann-token", &ann), ["add"]);
    assert_eq!(tools_of(url, "bob-token", &bob), ["upper"]);
    // A session of another is no session, whatever is asked.
    let unknown = "0".repeat(ann.len());
    let list = request(2, "tools/list", "{}");
    for method in ["POST", "GET", "DELETE"] {
        let with = |token: &str, session: &str, last: &str| {
            let fields = format!("Mcp-Session-Id: {session}\r\n{last}");
            let body = if method == "POST" { list.as_str() } else { "" };
            ask(url, method, "/mcp", token, &fields, body)
        };
        let foreign = with("bob-token", &ann, "");
        assert_eq!(status(&foreign), "404", "{foreign}");
        assert_eq!(foreign, with("bob-token", &unknown, ""), "{method}");
        let last = "Last-Event-ID: 1-1\r\n";
        assert_eq!(with("bob-token", &ann, last), with("bob-token", &unknown, last), "{method}");
    }
    // Its owner notices nothing, and what it is not shown is not there.
    let hidden = post(url, "ann-token", &ann, &legacy_call(3, "upper", r#"{"text":"a"}"#));
    let missing = post(url, "ann-token", &ann, &legacy_call(3, "uppper", r#"{"text":"a"}"#));
    let length = |answer: &str| answer.replace("content-length: 80", "content-length: 81");
    assert_eq!(length(&hidden.replace("upper", "uppper")), length(&missing));
    assert!(missing.contains(r#""error":{"code":-32602,"message":"unknown tool: uppper"}"#));
    let three = post(url, "ann-token", &ann, &legacy_call(4, "add", r#"{"a":1,"b":2}"#));
    assert!(three.contains(r#"{"type":"text","text":"3"}"#), "{three}");
    let log = |words: &[&str]| {
        let page = Page::of(&[&["log", &journal], words].concat()).run();
        let columns = page.stdout.lines().map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            [words[words.len() - 2], words[words.len() - 1]].join(" ")
        });
        columns.collect::<Vec<_>>().join(", ")
    };
    let expected = "editor/ann try.upper, editor/ann uppper, editor/ann try.add";
    assert_eq!(log(&["--caller", "ann"]), expected);
    assert_eq!(log(&["--caller", "-"]), "");
    let lines = fs::read_to_string(&journal).unwrap();
    assert!(
        lines.contains(
            r#""front":"editor","caller":"ann","view":"ann","back":"try","tool":"upper","outcome":"unknown_tool","hidden":true"#
        ),
        "{lines}"
    );
}

#[test]
fn credentials_are_looked_at_behind_host_and_origin_and_before_the_path() {
    let config = Config::of(&three(EDITOR, r#"["ann", "bob"]"#));
    let server = config.serve(1);
    let url = server.url();
    expect![[r#"
        HTTP/1.1 403 Forbidden
        content-type: application/json
        content-length: 114
        connection: close

        {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this front is not for caller `eve`"}}
    "#]]
    .assert_eq(&post(url, "eve-token", "", INITIALIZE).replace("length: 98", "length: 114"));
    let mut seen = Vec::new();
    for path in ["/mcp", "/sse", "/messages?session=a", "/else"] {
        for token in ["", "nobody", "eve-token", "ann-token"] {
            let method = if path == "/sse" { "GET" } else { "POST" };
            let answer = match (path, token) {
                // That one goes on and on.
                ("/sse", "ann-token") => continue,
                _ => ask(url, method, path, token, "", "{}"),
            };
            seen.push(format!("{path} {token} {}", status(&answer)));
        }
    }
    expect![[r#"
        /mcp  401
        /mcp nobody 401
        /mcp eve-token 403
        /mcp ann-token 400
        /sse  401
        /sse nobody 401
        /sse eve-token 403
        /messages?session=a  401
        /messages?session=a nobody 401
        /messages?session=a eve-token 403
        /messages?session=a ann-token 404
        /else  401
        /else nobody 401
        /else eve-token 403
        /else ann-token 404"#]]
    .assert_eq(&seen.join("\n"));
    let evil = "Origin: https://evil.example\r\n";
    assert_eq!(status(&ask(url, "POST", "/mcp", "", evil, "{}")), "403");
}

/// The stream of a session, once it is there.
fn listen(url: &str, token: &str, session: &str) -> Request {
    let mut stream = Request::connect(url).say(&format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\nAuthorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\n\r\n"
    ));
    stream.hear("text/event-stream");
    stream
}

#[test]
fn a_reload_holds_at_once_and_cuts_off_who_is_gone() {
    let config = Config::of(&three(EDITOR, r#"["ann", "bob"]"#));
    let server = config.serve(1);
    let url = server.url();
    let (ann, bob) = (session(url, "ann-token"), session(url, "bob-token"));
    assert_eq!(tools_of(url, "ann-token", &ann), ["add"]);
    let mut heard = listen(url, "ann-token", &ann);
    let lost = listen(url, "bob-token", &bob);
    // Another token, another view, and bob may not come in any more.
    let text = three(EDITOR, r#"["a*"]"#).replace(ANN, NEW).replace("try.add", "try.upper");
    assert_eq!(config.reload(&server, &text), [""; 0]);
    // His stream ends, and so it can be read to its end.
    lost.answer();
    heard.hear("notifications/tools/list_changed");
    assert_eq!(status(&post(url, "bob-token", &bob, &request(1, "ping", "{}"))), "403");
    assert_eq!(status(&post(url, "ann-token", &ann, &request(1, "ping", "{}"))), "401");
    assert_eq!(tools_of(url, "new-token", &ann), ["upper"]);
    // A mistake changes nothing.
    let told = config.reload(&server, &text.replace("[\"a*\"]", "[\"x*\"]"));
    assert!(told.iter().any(|line| line.contains("there is no caller `x*`")), "{told:?}");
    assert_eq!(tools_of(url, "new-token", &ann), ["upper"]);
    // Without callers all come in, but not by what belonged to one of them.
    let open = text.replace("callers = [\"a*\"]\n", "");
    config.reload(&server, &open);
    assert_eq!(status(&post(url, "", &ann, &request(1, "ping", "{}"))), "404");
    let anonymous = session(url, "");
    assert!(tools_of(url, "", &anonymous).len() > 2);
    let lost = listen(url, "", &anonymous);
    config.reload(&server, &text);
    lost.answer();
    assert_eq!(status(&post(url, "", &anonymous, &request(1, "ping", "{}"))), "401");
    assert_eq!(status(&post(url, "new-token", &anonymous, &request(1, "ping", "{}"))), "404");
}

#[test]
fn a_reload_tells_those_whose_lists_are_others_and_nobody_else() {
    let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"version":"1","name":"s"}"#;
    let tools = ["add", "upper"]
        .map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#));
    let says = format!(r#"{greeting},"tools":[{}]}}"#, tools.join(","));
    let own =
        crate::serve::back("try", &mcp_server(&["forever", "{", "read", "answer", &says, "}"]));
    let other = crate::serve::back("other", "builtin:");
    // One server, whose words pass as they are, and one that is put together with another back.
    for (backs, before) in [(own.clone(), ""), ([own, other].concat(), "try_")] {
        let of = |ann: &str, bob: &str, allowed: &str| {
            let callers =
                [caller("ann", &token(ANN), ann), caller("bob", &token(BOB), bob)].concat();
            format!("{backs}{callers}{EDITOR}callers = [{allowed}]\n")
        };
        let config = Config::of(&of("add", "add", r#""*""#));
        let server = config.serve(1);
        let url = server.url();
        let tokens = ["ann-token", "bob-token"];
        let sessions = tokens.map(|token| session(url, token));
        let mut listening = Vec::new();
        for (token, session) in tokens.iter().zip(&sessions) {
            let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            post(url, token, session, initialized);
            assert_eq!(tools_of(url, token, session), [format!("{before}add")]);
            listening.push(listen(url, token, session));
        }
        let changed = "notifications/tools/list_changed";
        config.reload(&server, &of("upper", "add", r#""*""#));
        listening[0].hear(changed);
        assert_eq!(tools_of(url, tokens[0], &sessions[0]), [format!("{before}upper")]);
        // What is as before is no news, and neither is a limit.
        let limited = of("upper", "add", r#""*""#).replacen("view =", "rate = \"9/1s\"\nview =", 1);
        config.reload(&server, &limited);
        config.reload(&server, &of("upper", "upper", r#""*""#));
        listening[1].hear(changed);
        // Their streams end with their time here: nothing more was told on them.
        config.reload(
            &server,
            &(of("upper", "upper", r#""eve""#) + &caller("eve", &token(EVE), "*")),
        );
        for stream in listening {
            let rest = stream.answer();
            assert!(!rest.contains(changed), "{rest}");
        }
    }
}

#[test]
fn a_lone_server_is_a_callers_own_too() {
    let tools = r#"{"tools":[{"name":"add","inputSchema":{"type":"object"}},{"name":"upper","inputSchema":{"type":"object"}}],"content":[]}"#;
    let discovered = crate::mcp::DISCOVERED;
    let steps = ["read", "answer", discovered, "forever", "{", "read", "answer", tools, "}"];
    let lone = crate::serve::back("try", &mcp_server(&steps));
    let config = Config::of(&three(EDITOR, r#"["ann", "bob"]"#).replace(BUILTIN, &lone));
    let server = config.serve(1);
    let call = |token: &str, tool: &str| {
        let address = format!("mcp+{}", server.url());
        Page::of(&["call", "-q", "--token-env", "MY_TOKEN", &address, tool])
            .env("MY_TOKEN", token)
            .run()
    };
    assert_eq!(call("ann-token", "add").status.code(), Some(0));
    let hidden = call("ann-token", "upper");
    assert_ne!(hidden.status.code(), Some(0), "{hidden}");
    assert!(!hidden.to_string().contains("did you mean `upper`"), "{hidden}");
    assert_eq!(call("bob-token", "upper").status.code(), Some(0));
}

#[test]
fn callers_over_mediocre_http_are_told_apart() {
    let front = "[front.rpc]\nserve = \"mediocre+http://127.0.0.1:0/rpc\"\n";
    let config = Config::of(&three(front, r#"["ann", "bob"]"#));
    let server = config.serve(1);
    let url = server.url().replacen("mediocre+http", "http", 1);
    let call = |token: &str, tool: &str| {
        let body = format!(r#"{{"method":"try.{tool}","args":{{"a":1,"b":2,"text":"x"}}}}"#);
        let answer = ask(&url, "POST", "/rpc", token, "", &body);
        let body = answer.lines().last().unwrap_or_default().to_owned();
        format!("{} {body}", status(&answer))
    };
    assert_eq!(call("ann-token", "add"), r#"200 {"res":3}"#);
    let hidden = call("ann-token", "upper");
    assert!(hidden.contains("method_not_found"), "{hidden}");
    assert_eq!(hidden.replace("upper", "uppper"), call("ann-token", "uppper"));
    expect![[r#"403 {"err":{"msg":"this front is not for caller `eve`","meta":{"code":"unavailable","reason":"forbidden"}}}"#]]
        .assert_eq(&call("eve-token", "add"));
    let unknown = call("nobody", "add");
    assert!(unknown.starts_with("401 ") && unknown.contains("unauthorized"), "{unknown}");
}

/// What is answered to one call on a Unix socket by a process of this user.
fn by_socket(path: &str, uid: Option<u32>) -> String {
    let path = path.to_owned();
    let asked = thread::spawn(move || {
        if let Some(uid) = uid {
            // The kernel tells of the thread that connects, and of no other.
            let uid = Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(uid, uid, uid).expect("we are root");
        }
        let mut stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let call = "{\"method\":\"try.add\",\"args\":{\"a\":1,\"b\":2}}\n";
        stream.write_all(call.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).expect("it answers");
        if line.contains("err") {
            let mut rest = String::new();
            lines.read_to_string(&mut rest).expect("it is closed then");
            assert_eq!(rest, "");
        }
        line
    });
    asked.join().expect("it was answered")
}

#[test]
fn the_kernel_says_who_comes_by_a_socket() {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = scratch.file("socket");
    let front = format!("[front.local]\nserve = \"mediocre+unix:{socket}\"\ncallers = [\"me\"]\n");
    let ours = geteuid().as_raw();
    let me = |uid: u32| format!("{BUILTIN}{}{front}", caller("me", &format!("uid = {uid}"), "add"));
    let mode = || fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    let config = Config::of(&me(ours));
    let server = config.serve(1);
    assert_eq!(mode(), 0o600);
    assert_eq!(by_socket(&socket, None), "{\"res\":3}\n");
    // Another user's, now: we are none of its callers any more.
    let other = ours + 4711;
    config.reload(&server, &me(other));
    assert_eq!(mode(), 0o666);
    expect![[r#"
        {"err":{"msg":"unknown caller","meta":{"code":"unavailable","reason":"unauthorized"}}}
    "#]]
    .assert_eq(&by_socket(&socket, None));
    if geteuid().is_root() {
        assert_eq!(by_socket(&socket, Some(other)), "{\"res\":3}\n");
    }
}

#[test]
fn certificates_say_who_comes_over_tls_and_quic() {
    let files = Certificates::new();
    let file = |name: &str| files.file(name);
    let tls = format!(
        "[front.tls]\nserve = \"mediocre+tls://127.0.0.1:0?cert={}&key={}&client_ca={}\"\ncallers = [\"ann\"]\n",
        file("server.pem"),
        file("server.key"),
        file("ca.pem")
    );
    let scratch = Scratch::new();
    let certs = scratch.file("certs");
    let quic = format!(
        "[front.quic]\nserve = \"orchestra+quic://127.0.0.1:0?certs={certs}\"\ncallers = [\"bob\"]\n"
    );
    // All that rcgen makes for a test has this subject.
    let ann = caller("ann", "cert_subject = \"cn = rcgen self signed cert\"", "add");
    let bob = caller("bob", "cert_subject = \"O=Orchestra, CN=bob-client\"", "upper");
    let config = Config::of(&format!("{BUILTIN}{ann}{bob}{tls}{quic}"));
    let server = config.serve(2);
    let over_tls = format!(
        "{}?ca={}&cert={}&key={}",
        server.urls[0],
        file("ca.pem"),
        file("client.pem"),
        file("client.key")
    );
    let add = |url: &str| Page::of(&["call", "-q", url, "try.add", "a=1", "b=2"]).run().to_string();
    let upper = |url: &str| Page::of(&["call", "-q", url, "try.upper", "text=a"]).run().to_string();
    assert_eq!(add(&over_tls), "stdout\n3\nexit 0\n");
    assert!(upper(&over_tls).contains("try.upper"));
    let over_quic = |name: &str| format!("{}?certs={certs}&name={name}", server.urls[1]);
    assert_eq!(upper(&over_quic("bob")), "stdout\n{\"text\":\"A\"}\nexit 0\n");
    let stranger = upper(&over_quic("eve"));
    assert!(stranger.contains("unauthorized"), "{stranger}");
    // The subject is another caller's from now on.
    let swapped = ann
        .replace("cert_subject", "cert_sha256")
        .replace("cn = rcgen self signed cert", &"0".repeat(64));
    config.reload(&server, &format!("{BUILTIN}{swapped}{bob}{tls}{quic}"));
    let refused = add(&over_tls);
    assert!(refused.contains("unknown caller"), "{refused}");
}

#[test]
fn of_a_certificate_and_a_token_both_must_name_the_same_caller() {
    let files = Certificates::new();
    let file = |name: &str| files.file(name);
    let keys = |name: &str| {
        format!("cert={}&key={}", file(&format!("{name}.pem")), file(&format!("{name}.key")))
    };
    let front = format!(
        "[front.rpc]\nserve = \"mediocre+https://127.0.0.1:0/rpc?{}&client_ca={}\"\ncallers = [\"ann\", \"bob\"]\n",
        keys("server"),
        file("ca.pem")
    );
    // All that rcgen makes for a test has this subject, which is that of the owner.
    let subject = "cert_subject = \"CN=rcgen self signed cert\"";
    let owned_by = |owner: &str| {
        let callers = [("ann", ANN, "add"), ("bob", BOB, "upper"), ("eve", EVE, "add")];
        let callers = callers.iter().map(|(name, sum, tool)| {
            let more = if *name == owner { subject } else { "" };
            caller(name, &format!("{}\n{more}", token(sum)), tool)
        });
        format!("{BUILTIN}{}{front}", callers.collect::<String>())
    };
    let config = Config::of(&owned_by("ann"));
    let server = config.serve(1);
    let url = format!("{}?{}&ca={}", server.url(), keys("client"), file("ca.pem"));
    let asked = |token: &str, tool: &str| {
        let words = ["call", "-q", &url, tool, "--no-check", "a=1", "b=2", "text=x"];
        let page = match token {
            "" => Page::of(&words),
            token => Page::of(&[&words[..], &["--token-env", "MY_TOKEN"]].concat())
                .env("MY_TOKEN", token),
        };
        let page = page.run();
        format!("{}{}", page.stdout, page.stderr.lines().next().unwrap_or_default())
    };
    let mut told = Vec::new();
    for owner in ["ann", "nobody", "eve"] {
        if owner != "ann" {
            config.reload(&server, &owned_by(owner));
        }
        for token in ["", "ann-token", "bob-token", "eve-token", "no-token"] {
            let add = asked(token, "try.add");
            // Bob is known by what he may call.
            let tool = if add.contains("no such tool") { asked(token, "try.upper") } else { add };
            told.push(format!("{owner}'s, {token}: {}", tool.trim()));
        }
    }
    expect![[r#"
        ann's, : 3
        ann's, ann-token: 3
        ann's, bob-token: error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`
        ann's, eve-token: error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`
        ann's, no-token: error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`
        nobody's, : error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`
        nobody's, ann-token: 3
        nobody's, bob-token: "X"
        nobody's, eve-token: error: this front is not for caller `eve`
        nobody's, no-token: error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`
        eve's, : error: this front is not for caller `eve`
        eve's, ann-token: error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`
        eve's, bob-token: error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`
        eve's, eve-token: error: this front is not for caller `eve`
        eve's, no-token: error: a bearer token is needed: send it as `Authorization: Bearer TOKEN`"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn a_server_that_takes_no_calls_of_ours_lists_no_tools() {
    let scratch = Scratch::new();
    let socket = scratch.file("socket");
    let local = format!("[front.local]\nserve = \"mediocre+unix:{socket}\"\ncallers = [\"me\"]\n");
    let web = "[front.web]\nserve = \"mediocre+http://127.0.0.1:0/rpc\"\ncallers = [\"ann\"]\n";
    let me = caller("me", &format!("uid = {}", geteuid().as_raw() + 4711), "add");
    let ann = caller("ann", &token(ANN), "add");
    let eve = caller("eve", &token(EVE), "add");
    let server = Config::of(&format!("{BUILTIN}{me}{ann}{eve}{local}{web}")).serve(2);
    let needs = "a bearer token is needed: send it as `Authorization: Bearer TOKEN`";
    for (address, token, why) in [
        (server.urls[0].as_str(), "", "unknown caller"),
        (&server.urls[1], "", needs),
        (&server.urls[1], "eve-token", "this front is not for caller `eve`"),
    ] {
        let words = ["tools", address, "--token-env", "MY_TOKEN"];
        let page = match token {
            "" => Page::of(&words[..2]).run(),
            token => Page::of(&words).env("MY_TOKEN", token).run(),
        };
        assert_eq!(page.stdout, "", "{page}");
        let told = format!("error: cannot list the tools of `{address}`: {why}\n");
        assert!(page.stderr.starts_with(&told), "{page}");
        assert_eq!(page.status.code(), Some(3), "{page}");
    }
}

#[test]
fn metrics_tell_callers_apart() {
    let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
    let config = Config::of(&(three(EDITOR, r#"["ann", "bob"]"#) + admin));
    let server = config.serve(2);
    let url = server.urls.iter().find(|url| url.ends_with("/mcp")).unwrap().clone();
    let ann = session(&url, "ann-token");
    post(&url, "ann-token", &ann, &legacy_call(1, "add", r#"{"a":1,"b":2}"#));
    post(&url, "ann-token", &ann, &legacy_call(2, "upper", r#"{"text":"a"}"#));
    let page = server.urls.iter().find(|url| !url.ends_with("/mcp")).unwrap();
    let metrics = || {
        let page = ask(page, "GET", "/metrics", "", "", "");
        let lines = page.lines().filter(|line| line.starts_with("toolbus_caller"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    expect![[r#"
        toolbus_caller_calls_total{caller="(none)"} 0
        toolbus_caller_calls_total{caller="ann"} 2
        toolbus_caller_calls_total{caller="bob"} 0
        toolbus_caller_calls_total{caller="eve"} 0
        toolbus_caller_failures_total{caller="ann",kind="unknown_tool"} 1
        toolbus_caller_calls_in_flight{caller="(none)"} 0
        toolbus_caller_calls_in_flight{caller="ann"} 0
        toolbus_caller_calls_in_flight{caller="bob"} 0
        toolbus_caller_calls_in_flight{caller="eve"} 0
    "#]]
    .assert_eq(&metrics());
}

#[test]
fn what_is_no_tool_is_counted_by_the_limit_that_refused_it() {
    let says = r#"{"protocolVersion":"2025-11-25","capabilities":{"prompts":{}},"serverInfo":{"version":"1","name":"s"},"prompts":[{"name":"p"}],"messages":[]}"#;
    let server = mcp_server(&["forever", "{", "read", "answer", says, "}"]);
    let backs = crate::serve::back("try", &server);
    let ann =
        format!("[caller.ann]\n{}\nlimit.\"prompt:*\" = {{ rate = \"1/60m\" }}\n", token(ANN));
    let admin = "[admin]\nlisten = \"127.0.0.1:0\"\n";
    let config = Config::of(&format!("{backs}{ann}{EDITOR}callers = [\"ann\"]\n{admin}"));
    let server = config.serve(2);
    let is_front = |url: &&String| url.ends_with("/mcp");
    let url = server.urls.iter().find(is_front).unwrap();
    let page = server.urls.iter().find(|url| !is_front(url)).unwrap();
    let ann = session(url, "ann-token");
    let get = |id| post(url, "ann-token", &ann, &request(id, "prompts/get", r#"{"name":"p"}"#));
    assert!(get(1).contains(r#""messages":[]"#), "{}", get(2));
    assert!(get(3).contains(r#""reason":"rate_limited""#));
    let metrics = ask(page, "GET", "/metrics", "", "", "");
    let row =
        r#"toolbus_limited_calls_total{limit="caller.ann.limit.prompt:*",reason="rate_limited"} 1"#;
    assert!(metrics.lines().any(|line| line == row), "{metrics}");
}
