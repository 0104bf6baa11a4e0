//! What belongs to who holds a token: sessions, streams, held calls; and when they end.

use serde_json::{Value, json};
use toolbus_testkit::tokens::Signer;

use super::issuer::{Issuer, now};
use super::{EDDSA, call, end, front, header, post};
use crate::callers::{ask, status};
use crate::http::Request;
use crate::mcp::{INITIALIZE, legacy_call, request};
use crate::serve::{BUILTIN, Config, MCP};

struct Holders {
    ed: Signer,
    issuer: Issuer,
}

impl Holders {
    fn new() -> Holders {
        let ed = Signer::ed25519(1);
        let issuer = Issuer::with(&[(&ed, "e")]);
        Holders { ed, issuer }
    }

    fn token(&self, changed: &Value) -> String {
        self.ed.token(EDDSA, &self.issuer.claims(changed))
    }
}

fn session(url: &str, token: &str) -> String {
    let answer = post(url, token, "", INITIALIZE);
    header(&answer, "mcp-session-id").unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn a_session_belongs_to_who_holds_the_token_that_began_it() {
    let holders = Holders::new();
    let server = Config::of(&front(&holders.issuer.url, "")).serve(1);
    let url = server.url();
    let ann = holders.token(&json!({}));
    let newer = holders.token(&json!({"exp": now() + 900}));
    let eve = holders.token(&json!({"sub": "eve"}));
    let by_other_client = holders.token(&json!({"client_id": "other"}));
    let session = session(url, &ann);
    let fields = format!("Mcp-Session-Id: {session}\r\n");
    let list = request(2, "tools/list", "{}");
    let unknown = format!("Mcp-Session-Id: {}\r\n", "0".repeat(32));
    for other in [&eve, &by_other_client] {
        for method in ["POST", "GET", "DELETE"] {
            let said = if method == "POST" { &*list } else { "" };
            let foreign = ask(url, method, "/mcp", other, &fields, said);
            assert_eq!(status(&foreign), "404", "{method}: {foreign}");
            assert_eq!(foreign, ask(url, method, "/mcp", other, &unknown, said));
        }
    }
    for token in [&ann, &newer] {
        assert_eq!(status(&post(url, token, &fields, &list)), "200");
    }
    assert_eq!(status(&ask(url, "DELETE", "/mcp", &newer, &fields, "")), "204");
    assert_eq!(status(&post(url, &ann, &fields, &list)), "404");
}

#[test]
fn a_session_of_the_old_pair_belongs_to_who_opened_it() {
    let holders = Holders::new();
    let config = front(&holders.issuer.url, "").replace(MCP, &format!("{MCP}sse = true\n"));
    let server = Config::of(&config).serve(1);
    let url = server.url();
    let opened = |token: &str| {
        Request::connect(url).say(&format!(
            "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer {token}\r\n\r\n"
        ))
    };
    let (ann, eve) = (holders.token(&json!({})), holders.token(&json!({"sub": "eve"})));
    let mut stream = opened(&ann);
    let mut place = String::new();
    while !place.contains("session=") || !place.ends_with("\n\n") {
        let mut byte = [0; 1];
        std::io::Read::read_exact(&mut stream.stream, &mut byte).unwrap();
        place.push(char::from(byte[0]));
        if place.contains("data: ") && place.ends_with("\r\n\r\n") {
            break;
        }
    }
    let path = place.split("data: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(status(&ask(url, "POST", &path, &eve, "", INITIALIZE)), "404");
    assert_eq!(status(&ask(url, "POST", &path, &ann, "", INITIALIZE)), "202");
    stream.hear("protocolVersion");
}

#[test]
fn streams_end_with_their_tokens() {
    let holders = Holders::new();
    let server = Config::of(&front(&holders.issuer.url, "clock_skew = \"0s\"\n")).serve(1);
    let url = server.url();
    // Long enough to get there, whatever else the machine has to do.
    let ended = [2, 5, 15, 60].into_iter().find_map(|seconds| {
        let short = holders.token(&json!({"exp": now() + seconds}));
        let session = header(&post(url, &short, "", INITIALIZE), "mcp-session-id")?.to_owned();
        let stream = Request::connect(url).say(&format!(
            "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\nAuthorization: Bearer {short}\r\n\r\n"
        ));
        let answer = stream.answer();
        (status(&answer) == "200").then_some((short, session, answer))
    });
    // It ends of itself, and well.
    let (short, session, answer) = ended.expect("a minute is enough");
    assert!(answer.ends_with("0\r\n\r\n"), "{answer}");
    let fields = format!("Mcp-Session-Id: {session}\r\n");
    let list = request(2, "tools/list", "{}");
    assert_eq!(status(&post(url, &short, &fields, &list)), "401");
    let newer = holders.token(&json!({}));
    assert_eq!(status(&post(url, &newer, &fields, &list)), "200");
}

#[test]
fn one_call_of_a_batch_that_needs_more_has_all_of_it_refused() {
    let holders = Holders::new();
    let scopes = "scopes_for = { \"try.add\" = [\"math\"] }\n";
    let server = Config::of(&front(&holders.issuer.url, scopes)).serve(1);
    let (url, token) = (server.url(), holders.token(&json!({})));
    let began = post(url, &token, "", &INITIALIZE.replace("2025-11-25", "2025-03-26"));
    let fields = format!("Mcp-Session-Id: {}\r\n", header(&began, "mcp-session-id").unwrap());
    let upper = legacy_call(1, "upper", r#"{"text":"a"}"#);
    let add = legacy_call(2, "add", r#"{"a":1,"b":2}"#);
    let good =
        post(url, &token, &fields, &format!("[{upper},{}]", upper.replace("\"id\":1", "\"id\":3")));
    assert_eq!(status(&good), "200", "{good}");
    let answer = post(url, &token, &fields, &format!("[{upper},{add}]"));
    assert_eq!(status(&answer), "403", "{answer}");
    let said = header(&answer, "www-authenticate").unwrap();
    assert!(said.starts_with("Bearer error=\"insufficient_scope\", scope=\"math\","), "{said}");
    // The session goes on, and lists show the tool.
    let list = post(url, &token, &fields, &request(4, "tools/list", "{}"));
    assert!(list.contains(r#""name":"add""#), "{list}");
}

#[test]
fn what_holds_for_tokens_is_read_again_without_a_word_to_who_is_in() {
    let holders = Holders::new();
    let config = Config::of(&front(&holders.issuer.url, ""));
    let server = config.serve(1);
    let url = server.url().to_owned();
    let token = holders.token(&json!({}));
    let session = session(&url, &token);
    let fields = format!("Mcp-Session-Id: {session}\r\n");
    let list = request(2, "tools/list", "{}");
    let heard = config.reload(&server, &front(&holders.issuer.url, "scopes = [\"tools\"]\n"));
    assert!(heard.iter().all(|line| !line.starts_with("listening")), "{heard:?}");
    assert_eq!(status(&post(&url, &token, &fields, &list)), "200", "it goes on");
    config.reload(&server, &front(&holders.issuer.url, "scopes = [\"more\"]\n"));
    assert_eq!(status(&post(&url, &token, &fields, &list)), "403", "for the next request");
    let ed = Signer::ed25519(2);
    let other = Issuer::with(&[(&ed, "e")]);
    let both = format!("[\"{}\", \"{}\"]", other.url, holders.issuer.url);
    let with_both = front("BOTH", "").replace("\"BOTH\"", &both);
    config.reload(&server, &with_both);
    assert_eq!(status(&post(&url, &token, &fields, &list)), "200", "it is still let in");
    config.reload(&server, &front(&other.url, ""));
    assert_eq!(status(&post(&url, &token, &fields, &list)), "401");
    let theirs = ed.token(EDDSA, &other.claims(&json!({})));
    assert_eq!(status(&post(&url, &theirs, &fields, &list)), "404", "it is another's");
    assert_eq!(status(&post(&url, &theirs, "", INITIALIZE)), "200");
    // What an issuer that was gone had let in has ended.
    config.reload(&server, &with_both);
    assert_eq!(status(&post(&url, &token, &fields, &list)), "404");
    // Without the table all are let in, and nobody has a session of before.
    config.reload(&server, &format!("{BUILTIN}{MCP}"));
    assert_eq!(status(&post(&url, "", &fields, &list)), "404");
    assert_eq!(status(&post(&url, "", "", INITIALIZE)), "200");
    let said = end(server);
    assert!(!said.contains("eyJ"), "{said}");
}

#[test]
fn the_token_of_the_front_itself_comes_before_all_others() {
    let holders = Holders::new();
    let config =
        front(&holders.issuer.url, "scopes = [\"none\"]\nscopes_for = { \"*\" = [\"x\"] }\n")
            .replace(MCP, &format!("{MCP}token = \"fixed-token\"\n"));
    let server = Config::of(&config).serve(1);
    let answer = call(server.url(), "fixed-token", "add", r#"{"a":1,"b":2}"#);
    assert!(answer.contains(r#""text":"3""#), "{answer}");
    assert_eq!(status(&post(server.url(), &holders.token(&json!({})), "", INITIALIZE)), "403");
}
