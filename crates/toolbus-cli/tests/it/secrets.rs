//! What config and flags say in secret is not told: not in logs, not in errors, not to callers.

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use crate::http::Request;
use crate::listening::Server;
use crate::live::Live;
use crate::mcp::modern_call;
use crate::page::{Page, check};

const KEY: &str = "k3y-of-weather/1";

/// A config in which one back is told a secret, and says it wherever it can.
fn config(connect: &str) -> String {
    format!("[back.w]\nconnect = '''{connect}'''\nenv = {{ API_KEY = \"${{WEATHER_KEY}}\" }}\n")
}

/// Says its secret on standard error, also as a part of a URL and of JSON, and dies.
const TALKATIVE: &str = r#"mcp+stdio:sh -c 'echo "key is $API_KEY" >&2; echo "GET /?key=k3y-of-weather%2F1" >&2; read line; exit 3'"#;
/// Says its secret where the protocol should be.
const BABBLING: &str = r#"mcp+stdio:sh -c 'echo "welcome, $API_KEY"; read line; exit 3'"#;

fn page(words: &[&str], folder: &str, connect: &str) -> Page {
    Page::of(words).config(folder, &config(connect)).env("WEATHER_KEY", KEY)
}

#[test]
fn errors_and_last_words_tell_no_secret() {
    page(&["call", "w.x"], "secrets_error", TALKATIVE).check(expect![[r#"
        stderr
        error: `w` ended with exit status 3 before it was ready
          | key is ***
          | GET /?key=***
        hint: it did not get 1 of our environment variables; if it needs one, pass it on by `--env-pass NAME` (`env_pass` in the config)
        exit 3
    "#]]);
    page(&["call", "w.x", "--json"], "secrets_json", TALKATIVE).check(expect![[r#"
        stdout
        {"error":{"kind":"unavailable","message":"`w` ended with exit status 3 before it was ready"}}
        stderr
        error: `w` ended with exit status 3 before it was ready
          | key is ***
          | GET /?key=***
        hint: it did not get 1 of our environment variables; if it needs one, pass it on by `--env-pass NAME` (`env_pass` in the config)
        exit 3
    "#]]);
    let babbled = page(&["call", "w.x"], "secrets_babbling", BABBLING).run();
    assert!(babbled.stderr.contains("line that answers nothing: welcome, ***"), "{babbled}");
    assert!(!babbled.to_string().contains("k3y"), "{babbled}");
}

#[test]
fn logs_tell_no_secret() {
    for format in ["text", "json"] {
        let words = ["tools", "-vv", "--log-format", format];
        let page = page(&words, &format!("secrets_log_{format}"), TALKATIVE).run();
        assert!(page.stderr.contains("key is ***"), "{page}");
        assert!(page.stderr.contains("GET /?key=***"), "{page}");
        assert!(!page.to_string().contains("k3y"), "{page}");
    }
}

#[test]
fn callers_are_told_no_secret() {
    let scratch = Scratch::new();
    std::fs::write(scratch.file("key"), format!("{KEY}\n")).unwrap();
    let config =
        config(TALKATIVE).replace("${WEATHER_KEY}", &format!("${{file:{}}}", scratch.file("key")));
    std::fs::write(scratch.file("toolbus.toml"), config).unwrap();
    let mut live = Live::start(&["mcp", "--config", &scratch.file("toolbus.toml")]);
    expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"`w` ended with exit status 3 before it was ready","data":{"kind":"unavailable","status":3,"stderr":["key is ***","GET /?key=***"]}}}"#]].assert_eq(&live.ask(&modern_call(1, "x", "{}")));
}

#[test]
fn what_a_tool_answers_passes_as_it_is() {
    let config =
        format!("[back.try]\nconnect = \"builtin:\"\n{}", config("mcp+stdio:sh -c 'read line'"));
    let page = |words: &[&str]| {
        Page::of(words).config("secrets_answer", &config).env("WEATHER_KEY", KEY).run()
    };
    let answer = page(&["call", "try.echo", &format!("text={KEY}")]);
    assert_eq!(answer.stdout, format!("{{\"text\":\"{KEY}\"}}\n"), "{answer}");
    let failed = page(&["call", "--json", "try.fail", &format!("message={KEY}")]);
    assert!(failed.stdout.contains(KEY), "{failed}");
}

#[test]
fn queries_of_addresses_are_not_told() {
    check(
        "tools mcp+http://127.0.0.1:1/mcp?api_key=s3cret-word&x=1",
        expect![[r#"
        stderr
        error: cannot list the tools of `mcp+http://127.0.0.1:1/mcp?api_key=***&x=***`: nothing listens on 127.0.0.1:1
        hint: is the server running, and is this its address?
        exit 3
    "#]],
    );
    check(
        "check mcp mcp+http://127.0.0.1:1/mcp?api_key=s3cret-word",
        expect![[r#"
        stderr
        error: nothing listens on 127.0.0.1:1
        exit 3
    "#]],
    );
    check(
        "tools mcp+http://127.0.0.1:x/mcp?api_key=s3cret-word",
        expect![[r#"
        stderr
        error: `mcp+http://127.0.0.1:x/mcp?api_key=***` is no address: `x` is no port
        exit 2
    "#]],
    );
    check(
        "tools mpc+http://127.0.0.1:1/mcp?api_key=s3cret-word",
        expect![[r#"
            stderr
            error: unsupported connection scheme: "mpc+http://127.0.0.1:1/mcp?api_key=***"
            hint: did you mean `mcp+http://127.0.0.1:1/mcp?api_key=***`?
            exit 2
        "#]],
    );
}

#[test]
fn a_token_is_not_told() {
    let words = ["rpc", "serve", "-vv", "--listen", "http://127.0.0.1:0", "--token-env", "TOKEN"];
    let server = Server::start_with(&[&words[..], &["builtin:"]].concat(), 1, &[("TOKEN", KEY)]);
    let url = server.url().replace("mediocre+", "");
    let said = format!(
        "POST /{KEY} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {KEY}\r\n\r\n"
    );
    let answer = Request::connect(&url).say(&said).answer();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    server.signal(Signal::TERM);
    let said = server.end();
    assert!(!said.contains("k3y"), "{said}");
}
