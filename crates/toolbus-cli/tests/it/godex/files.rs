//! Credentials, logs and the file of the last message.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use toolbus_testkit::page::Program;
use toolbus_testkit::responses::{Answer, Server};
use toolbus_testkit::scratch::Scratch;

use super::command;

const COMPLETED: &str = r#"{"type":"response.completed","response":{"id":"r"}}"#;

#[test]
fn a_token_is_renewed_once_and_its_file_rewritten() {
    let scratch = Scratch::new();
    let auth = scratch.file("auth.json");
    fs::write(&auth, r#"{ "x": 1.0, "tokens":{"access_token":"old-token-1","refresh_token":"refresh-1","account_id":"acct_1"} }"#).unwrap();
    let expired = Answer::new(401, "application/json");
    let server = Server::start(vec![expired, Answer::events([COMPLETED])]);
    let mut granted = Answer::new(200, "application/json");
    granted.bytes(br#"{"access_token":"new-token-2","refresh_token":"refresh-2"}"#);
    let renewing = Server::start(vec![granted]);
    let url = format!("{}/v1", server.url());
    let words =
        ["exec", "--json", "hi", "--auth-file", &auth, "--allow-refresh", "--base-url", &url];
    let mut command = command(&words);
    command.env("CODEX_REFRESH_TOKEN_URL_OVERRIDE", format!("{}/token?x=1", renewing.url()));
    let page = Program::of(command).run();
    assert_eq!(page.status.code(), Some(0), "{page}");
    let bearers: Vec<_> = server
        .asked()
        .iter()
        .map(|asked| asked.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(bearers, ["Bearer old-token-1", "Bearer new-token-2"]);
    assert_eq!(server.asked()[1].header("chatgpt-account-id"), Some("acct_1"));
    assert_eq!(renewing.asked()[0].line, "POST /token?x=1 HTTP/1.1");
    assert!(renewing.asked()[0].body.contains(r#""refresh_token":"refresh-1""#));
    let text = fs::read_to_string(&auth).unwrap();
    assert_eq!(
        text,
        r#"{ "x": 1.0, "tokens":{"access_token":"new-token-2","refresh_token":"refresh-2","account_id":"acct_1"} }"#
    );
    assert_eq!(fs::metadata(&auth).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_token_is_not_renewed_unless_that_is_allowed() {
    let scratch = Scratch::new();
    let auth = scratch.file("auth.json");
    let file = r#"{"tokens":{"access_token":"old-token-1","refresh_token":"refresh-1"}}"#;
    fs::write(&auth, file).unwrap();
    let mut expired = Answer::new(401, "application/json");
    expired.bytes(br#"{"detail":"old-token-1 has expired"}"#);
    let server = Server::start(vec![expired]);
    let words = ["exec", "--json", "hi", "--auth-file", &auth, "--base-url", &server.url()];
    let page = Program::of(command(&words)).run();
    assert_eq!(page.status.code(), Some(3), "{page}");
    assert!(page.stdout.contains(r#""message":"*** has expired""#), "{page}");
    assert!(!page.to_string().contains("old-token-1"), "{page}");
    assert_eq!(fs::read_to_string(&auth).unwrap(), file);
}

#[test]
fn without_a_key_nothing_is_asked() {
    let words = ["exec", "hi", "--base-url", "https://example.com", "--json"];
    let page = Program::of(command(&words)).run();
    assert_eq!(page.status.code(), Some(2));
    let message = "no API key: set OPENAI_API_KEY or give --auth-file";
    assert!(page.stdout.contains(message) && page.stderr.contains(message), "{page}");
}

#[test]
fn the_last_message_is_kept_in_its_file_and_only_on_success() {
    let scratch = Scratch::new();
    let last = scratch.file("last.txt");
    let delta = |item: &str, text: &str| {
        format!(r#"{{"type":"response.output_text.delta","item_id":"{item}","delta":"{text}"}}"#)
    };
    let events = [delta("a", "one"), delta("b", "two"), delta("b", " more"), COMPLETED.to_owned()];
    let whole = Answer::events(events.iter().map(String::as_str));
    let cut = Answer::events([&*delta("a", "never")]);
    for (answer, code, content) in [(whole, 0, "two more"), (cut, 1, "two more")] {
        let server = Server::start(vec![answer]);
        let words =
            ["exec", "hi", "--output-last-message", &last, "--json", "--base-url", &server.url()];
        let page = Program::of(command(&words)).run();
        assert_eq!(page.status.code(), Some(code), "{page}");
        assert_eq!(fs::read_to_string(&last).unwrap(), content);
    }
    let words = ["exec", "hi", "--mock", "--output-last-message", "/nonesuch/x"];
    let page = Program::of(command(&words)).run();
    assert_eq!(page.status.code(), Some(2));
    assert!(page.stderr.contains("/nonesuch/x"), "{page}");
}

#[test]
fn logs_are_private_and_hold_no_key() {
    let scratch = Scratch::new();
    let (requests, responses) = (scratch.file("req"), scratch.file("resp"));
    let events = [r#"{"type":"response.output_text.delta","delta":"sk-12345678"}"#, COMPLETED];
    let server = Server::start(vec![Answer::events(events)]);
    let words = [
        "exec",
        "hi",
        "--log-requests",
        &requests,
        "--log-responses",
        &responses,
        "--trace",
        "--base-url",
        &server.url(),
    ];
    let mut command = command(&words);
    command.env("OPENAI_API_KEY", "sk-12345678");
    let page = Program::of(command).run();
    assert_eq!(page.status.code(), Some(0), "{page}");
    assert_eq!(fs::read_to_string(&requests).unwrap().trim_end(), server.asked()[0].body);
    let logged = fs::read_to_string(&responses).unwrap();
    assert!(logged.contains(r#""delta":"***""#) && logged.lines().count() == 2, "{logged}");
    assert!(page.stderr.contains(r#""delta":"***""#) && !page.stderr.contains("sk-1"), "{page}");
    for file in [requests, responses] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
