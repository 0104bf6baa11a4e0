//! Sessions of the older era of MCP that two machines share, over a NATS server of the testkit.

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::broker::Broker;
use toolbus_testkit::patience::eventually;

use crate::http::{Request, session};
use crate::listening::Server;
use crate::mcp::legacy_call;
use crate::page::Page;
use crate::serve::{BUILTIN, Config};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const KEY: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const OTHER: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI";

/// One machine of several, with what else its MCP front has.
fn config(broker: &Broker, more: &str) -> Config {
    let team = broker.address("team");
    Config::of(&format!(
        "{BUILTIN}[front.web]\nserve = \"http://127.0.0.1:0/mcp\"\nsessions_over = \"nodes\"\n\
         {more}\n[front.nodes]\nserve = \"{team}\"\n"
    ))
}

fn machine(config: &Config) -> (Server, String) {
    let server = config.serve(2);
    let web = server.urls.iter().find(|url| url.starts_with("http://")).cloned();
    (server, web.expect("it listens over HTTP"))
}

/// The status of an answer, and its body.
fn answered(request: Request) -> (String, String) {
    let answer = request.answer();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned())
}

fn post(url: &str, session: &str, body: &str) -> (String, String) {
    answered(Request::send(url, "POST", session, body))
}

const NO_SESSION: &str =
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"there is no such session"}}"#;

#[test]
fn a_session_is_known_to_every_machine() {
    let broker = Broker::start();
    let key = format!("session_key = \"{KEY}\"");
    let (one, two, stranger) = (
        config(&broker, &key),
        config(&broker, &format!("session_key = \"{OTHER}\"\nsession_key_old = \"{KEY}\"")),
        config(&broker, &format!("session_key = \"{OTHER}\"")),
    );
    let ((one, first), (_two, second), (_stranger, third)) =
        (machine(&one), machine(&two), machine(&stranger));
    let name = session(&first);
    assert!(name.starts_with("tb1.") && !name.contains('='), "{name}");
    for url in [&second, &first] {
        assert_eq!(post(url, &name, INITIALIZED).0, "202");
        let (status, body) = post(url, &name, &legacy_call(7, "add", r#"{"a":1,"b":2}"#));
        assert_eq!(status, "200");
        assert_eq!(
            body,
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"3"}]}}"#
        );
    }
    // More than a message and a window of what carries it, both ways.
    let text = "x".repeat(1 << 20);
    let long = legacy_call(7, "upper", &format!("{{\"text\":\"{text}\"}}"));
    let (status, body) = post(&second, &name, &long);
    assert_eq!((status.as_str(), body.len()), ("200", post(&first, &name, &long).1.len()));
    assert!(body.contains(&text.to_uppercase()));
    // What another key has sealed is no session, nor is what was tampered with.
    let call = legacy_call(7, "add", r#"{"a":1,"b":2}"#);
    assert_eq!(post(&third, &name, &call), ("404".to_owned(), NO_SESSION.to_owned()));
    let forged = format!("{}AAAA", &name[..name.len() - 4]);
    assert_eq!(post(&second, &forged, &call), ("404".to_owned(), NO_SESSION.to_owned()));
    // A stream is of the machine that has the session, and closed with the client's connection.
    let mut listening = Request::send(&second, "GET", &name, "");
    listening.hear("text/event-stream");
    assert_eq!(answered(Request::send(&first, "GET", &name, "")).0, "409");
    drop(listening);
    eventually("the stream is free", || {
        let mut again = Request::send(&second, "GET", &name, "");
        let mut head = [0; 12];
        std::io::Read::read_exact(&mut again.stream, &mut head).unwrap();
        &head == b"HTTP/1.1 200"
    });
    assert_eq!(answered(Request::send(&second, "DELETE", &name, "")).0, "204");
    for url in [&first, &second] {
        assert_eq!(post(url, &name, &call), ("404".to_owned(), NO_SESSION.to_owned()));
    }
    // A machine that is gone takes its sessions with it, and their clients begin anew.
    let name = session(&first);
    assert_eq!(post(&second, &name, INITIALIZED).0, "202");
    one.signal(Signal::KILL);
    assert_eq!(post(&second, &name, &call), ("404".to_owned(), NO_SESSION.to_owned()));
    // Without NATS it cannot be said, and is worth asking again.
    drop(broker);
    eventually("the way is gone", || {
        let answer = Request::send(&second, "POST", &name, &call).answer();
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nretry-after: 1\r\n")
    });
}

#[test]
fn a_session_is_of_its_caller_on_every_machine() {
    let broker = Broker::start();
    let callers = format!(
        "session_key = \"{KEY}\"\ncallers = [\"ann\", \"ben\"]\n[caller.ann]\ntoken = \"t-ann\"\n\
         [caller.ben]\ntoken = \"t-ben\""
    );
    let (one, two) = (config(&broker, &callers), config(&broker, &callers));
    let ((_one, first), (_two, second)) = (machine(&one), machine(&two));
    let ask = |url: &str, token: &str, session: &str, body: &str| {
        let length = body.len();
        let session = match session {
            "" => String::new(),
            session => format!("Mcp-Session-Id: {session}\r\n"),
        };
        Request::connect(url).say(&format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n{session}Content-Length: {length}\r\n\r\n{body}"
        )).answer()
    };
    let begun = ask(&first, "t-ann", "", crate::mcp::INITIALIZE);
    let name = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let call = legacy_call(7, "add", r#"{"a":1,"b":2}"#);
    assert!(ask(&second, "t-ann", name, &call).starts_with("HTTP/1.1 200 "));
    for url in [&first, &second] {
        assert!(ask(url, "t-ben", name, &call).starts_with("HTTP/1.1 404 "));
        assert!(ask(url, "t-eve", name, &call).starts_with("HTTP/1.1 401 "));
    }
}

#[test]
fn what_sessions_are_shared_over_is_there_and_has_a_key() {
    let config = |more: &str| {
        let nodes = "[front.nodes]\nserve = \"nats://127.0.0.1:1/team\"\n";
        let web = "[front.web]\nserve = \"http://127.0.0.1:0/mcp\"\n";
        let page = Page::of(&["serve"]).config("sessions", &format!("{BUILTIN}{nodes}{web}{more}"));
        let page = page.run();
        assert_eq!(page.status.code(), Some(2), "{page}");
        page.stderr
    };
    let mut said = String::new();
    for more in [
        "sessions_over = \"web\"\nsession_key = \"x\"",
        "sessions_over = \"nodes\"",
        "sessions_over = \"nodes\"\nsession_key = \"secret\"",
        &format!(
            "sessions_over = \"nodes\"\nsession_key = \"{KEY}\"\nsession_key_old = \"secret\""
        ),
        &format!("session_key = \"{KEY}\""),
    ] {
        said.push_str(&config(more));
    }
    expect![[r#"
        error: `toolbus.toml` line 7: `front.web.sessions_over`: there is no NATS front web
        error: `front.web.session_key`: it is needed with `sessions_over`
        error: `front.web.session_key`: it has to be 32 bytes in hex or base64
        error: `front.web.session_key_old`: it has to be 32 bytes in hex or base64
        error: `front.web.session_key`: it is only for `sessions_over`
    "#]]
    .assert_eq(&said);
}
