//! Who may come in by `toolbus rpc serve`, and by the fronts of a config.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use expect_test::{Expect, expect};
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::scratch::Scratch;

use crate::listening::Server;
use crate::page::{Page, check};

const ADD: &str = r#"{"method":"add","args":{"a":1,"b":2}}"#;

/// The answer to one request with these header fields.
fn ask(url: &str, fields: &str) -> String {
    let authority = url.strip_prefix("mediocre+http://").and_then(|url| url.split('/').next());
    let mut stream = TcpStream::connect(authority.expect("a host")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
    let len = ADD.len();
    let request = format!(
        "POST /rpc HTTP/1.1\r\nconnection: close\r\ncontent-length: {len}\r\n{fields}\r\n{ADD}"
    );
    stream.write_all(request.as_bytes()).expect("it is there");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers to the end");
    // When it was is no matter.
    let lines = answer.lines().filter(|line| !line.starts_with("date: "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_web_page_cannot_call_a_tool() {
    let server = super::serve(&["http://127.0.0.1:0"], &["builtin:"]);
    // `fetch(url, {method: "POST", mode: "no-cors", body: "…"})` as a browser sends it.
    let page = "host: 127.0.0.1:7420\r\norigin: https://evil.example\r\ncontent-type: text/plain;charset=UTF-8\r\n";
    expect![[r#"
        HTTP/1.1 403 Forbidden
        content-type: application/json
        content-length: 178
        connection: close

        {"err":{"msg":"origin `https://evil.example` is not allowed: its pages are let in by `--origin`, or `origins` in the config","meta":{"code":"unavailable","reason":"forbidden"}}}
    "#]]
    .assert_eq(&ask(server.url(), page));
    // A page whose own name was made to lead to this machine.
    let rebound = "host: evil.example\r\ncontent-type: application/json\r\n";
    expect![[r#"
        HTTP/1.1 403 Forbidden
        content-type: application/json
        content-length: 201
        connection: close

        {"err":{"msg":"host `evil.example` is not allowed: call it by localhost, 127.0.0.1 or [::1], or allow the name by `--host` (`hosts` in the config)","meta":{"code":"unavailable","reason":"forbidden"}}}
    "#]].assert_eq(&ask(server.url(), rebound));
    // A page of this machine whose browser does not ask first.
    let simple = "host: localhost\r\norigin: http://localhost:3000\r\ncontent-type: text/plain\r\n";
    expect![[r#"
        HTTP/1.1 415 Unsupported Media Type
        content-type: application/json
        content-length: 166
        connection: close

        {"err":{"msg":"a body of type `text/plain` is not read; it can be application/json, application/x-mediocre-rpc, application/octet-stream","meta":{"code":"invalid"}}}
    "#]].assert_eq(&ask(server.url(), simple));
    let allowed =
        "host: localhost\r\norigin: http://localhost:3000\r\ncontent-type: application/json\r\n";
    assert!(ask(server.url(), allowed).ends_with("{\"res\":3}\n"));
}

/// A server that asks for the token of a variable, which holds this.
fn with_token(token: &str) -> Server {
    let words = ["rpc", "serve", "--listen", "http://0.0.0.0:0", "--token-env", "TOOLS_TOKEN"];
    Server::start_with(&[&words[..], &["builtin:"]].concat(), 1, &[("TOOLS_TOKEN", token)])
}

#[test]
fn a_token_is_asked_for_where_others_come_in() {
    // As `$(cat file)` does not leave it, and `read` does.
    let server = with_token(" s3cret-token\r\n");
    let host = "host: tools.example\r\n";
    expect![[r#"
        HTTP/1.1 401 Unauthorized
        content-type: application/json
        content-length: 139
        www-authenticate: Bearer
        connection: close

        {"err":{"msg":"a bearer token is needed: send it as `Authorization: Bearer TOKEN`","meta":{"code":"unavailable","reason":"unauthorized"}}}
    "#]].assert_eq(&ask(server.url(), host));
    let shown = format!("{host}authorization: Bearer s3cret-token\r\n");
    assert!(ask(server.url(), &shown).ends_with("{\"res\":3}\n"));
}

#[test]
fn tokens_that_are_none_are_refused_at_start() {
    let serve = |token: &str, expect: Expect| {
        let words =
            ["rpc", "serve", "--listen", "http://127.0.0.1:0", "--token-env", "TOOLS_TOKEN"];
        let page = Page::of(&[&words[..], &["builtin:"]].concat()).env("TOOLS_TOKEN", token);
        page.check(expect);
    };
    serve(
        "",
        expect![[r#"
        stderr
        error: the environment variable `TOOLS_TOKEN` holds no token
        hint: set it, and not to nothing: `export TOOLS_TOKEN=…`
        exit 2
    "#]],
    );
    serve(
        " \r\n",
        expect![[r#"
        stderr
        error: the environment variable `TOOLS_TOKEN` holds no token
        hint: set it, and not to nothing: `export TOOLS_TOKEN=…`
        exit 2
    "#]],
    );
    serve(
        "s3cr\u{e9}t",
        expect![[r#"
        stderr
        error: what the environment variable `TOOLS_TOKEN` holds can be no token
        hint: a token is made of letters, digits and other visible characters of ASCII
        exit 2
    "#]],
    );
    let mcp = ["mcp", "--http", "0", "--token-env", "TOOLS_TOKEN", "builtin:"];
    Page::of(&mcp).env("TOOLS_TOKEN", "\n").check(expect![[r#"
        stderr
        error: the environment variable `TOOLS_TOKEN` holds no token
        hint: set it, and not to nothing: `export TOOLS_TOKEN=…`
        exit 2
    "#]]);
}

#[test]
fn strangers_are_not_let_in_by_accident() {
    check(
        "rpc serve --listen http://0.0.0.0:0 builtin:",
        expect![[r#"
        stderr
        error: will not listen on 0.0.0.0:0 without a token: other machines can reach it
        hint: name the variable that holds one by `--token-env` (`token_env` in the config), or allow it by `--insecure`
        exit 2
    "#]],
    );
    check(
        "rpc serve --listen tcp://0.0.0.0:0 builtin:",
        expect![[r#"
        stderr
        error: will not listen on 0.0.0.0:0 without knowing who calls: other machines can reach it
        hint: ask for certificates over TLS by `client_ca=FILE`, or for a token over HTTP by `--token-env`, or allow it by `--insecure`
        exit 2
    "#]],
    );
    check(
        "rpc serve --listen tcp://[::]:0 --listen http://127.0.0.1:0 builtin:",
        expect![[r#"
        stderr
        error: will not listen on [::]:0 without knowing who calls: other machines can reach it
        hint: ask for certificates over TLS by `client_ca=FILE`, or for a token over HTTP by `--token-env`, or allow it by `--insecure`
        exit 2
    "#]],
    );
    check(
        "rpc serve --listen tls://0.0.0.0:0?cert=a.pem&key=a.key builtin:",
        expect![[r#"
        stderr
        error: will not listen on 0.0.0.0:0 without knowing who calls: other machines can reach it
        hint: ask for certificates over TLS by `client_ca=FILE`, or for a token over HTTP by `--token-env`, or allow it by `--insecure`
        exit 2
    "#]],
    );
    // A token that nobody would be asked for.
    check(
        "rpc serve --listen tcp://127.0.0.1:0 --token-env PATH builtin:",
        expect![[r#"
        stderr
        error: `--token-env` is only for HTTP, and no `--listen` is an `http` URL
        exit 2
    "#]],
    );
    check(
        "rpc serve --listen unix:x.sock --origin https://a.example builtin:",
        expect![[r#"
        stderr
        error: `--origin` is only for HTTP, and no `--listen` is an `http` URL
        exit 2
    "#]],
    );
    let words = ["rpc", "serve", "--listen", "tcp://0.0.0.0:0", "--insecure", "builtin:"];
    assert!(Server::start(&words, 1).url().starts_with("mediocre+tcp://0.0.0.0:"));
}

#[test]
fn a_socket_file_is_for_its_owner_alone() {
    let scratch = Scratch::new();
    let path = scratch.file("socket");
    let _server = super::serve(&[&format!("unix:{path}")], &["builtin:"]);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

const BUILTIN: &str = "[back.try]\nconnect = \"builtin:\"\n";

#[test]
fn the_fronts_of_a_config_have_the_same_doors() {
    let serve = |name, front: &str, expect: Expect| {
        let config = format!("{BUILTIN}[front.x]\n{front}\n");
        Page::of(&["serve"]).config(name, &config).env("EMPTY", " ").check(expect);
    };
    let http = "serve = \"mediocre+http://0.0.0.0:0\"";
    serve(
        "doors_http",
        http,
        expect![[r#"
        stderr
        error: `front.x.serve`: will not listen on 0.0.0.0:0 without a token: other machines can reach it
        hint: name the variable that holds one by `token_env`, or set `insecure = true`
        exit 2
    "#]],
    );
    serve(
        "doors_tcp",
        "serve = \"mediocre+tcp://0.0.0.0:0\"",
        expect![[r#"
        stderr
        error: `front.x.serve`: will not listen on 0.0.0.0:0 without knowing who calls: other machines can reach it
        hint: ask for certificates over TLS by `client_ca=FILE`, or for a token over HTTP by `token_env`, or set `insecure = true`
        exit 2
    "#]],
    );
    serve(
        "doors_unset",
        &format!("{http}\ntoken = \"${{TOOLBUS_UNSET}}\""),
        expect![[r#"
        stderr
        error: `toolbus.toml` line 5: `front.x.token` asks for the environment variable `TOOLBUS_UNSET`, which is not set
        hint: set it: `export TOOLBUS_UNSET=…`, or take it out of the config
        exit 2
    "#]],
    );
    serve(
        "doors_empty",
        &format!("{http}\ntoken = \"${{EMPTY}}\""),
        expect![[r#"
        stderr
        error: `toolbus.toml` line 5: `front.x.token` is empty
        hint: give `token` a value, see that the variable or file it names has one, or take it out of the config
        exit 2
    "#]],
    );
    serve(
        "doors_no_file",
        &format!("{http}\ntoken = \"${{file:nowhere}}\""),
        expect![[r#"
        stderr
        error: `toolbus.toml` line 5: `front.x.token` asks for the file `nowhere`, which cannot be read: No such file or directory (os error 2)
        exit 2
    "#]],
    );
    serve(
        "doors_several",
        &format!("{http}\n[front.y]\n{http}\ntoken_env = \"EMPTY\""),
        expect![[r#"
            stderr
            error: `front.x.serve`: will not listen on 0.0.0.0:0 without a token: other machines can reach it
            hint: name the variable that holds one by `token_env`, or set `insecure = true`
            error: `front.y.token_env`: the environment variable `EMPTY` holds no token
            hint: set it, and not to nothing: `export EMPTY=…`
            exit 2
        "#]],
    );
    serve(
        "doors_env",
        &format!("{http}\ntoken_env = \"EMPTY\""),
        expect![[r#"
        stderr
        error: `front.x.token_env`: the environment variable `EMPTY` holds no token
        hint: set it, and not to nothing: `export EMPTY=…`
        exit 2
    "#]],
    );
    serve(
        "doors_two",
        &format!("{http}\ntoken = \"a\"\ntoken_env = \"PATH\""),
        expect![[r#"
        stderr
        error: `front.x.token_env`: both `token` and `token_env` are set
        hint: keep one of them
        exit 2
    "#]],
    );
    let tcp = "serve = \"mediocre+tcp://127.0.0.1:0\"";
    serve(
        "doors_misplaced",
        &format!("{tcp}\ntoken_env = \"PATH\""),
        expect![[r#"
        stderr
        error: `toolbus.toml` line 5: `front.x.token_env` is only for fronts over HTTP
        exit 2
    "#]],
    );
    let unix = "serve = \"mediocre+unix:x.sock\"";
    serve(
        "doors_unix",
        &format!("{unix}\ninsecure = true"),
        expect![[r#"
        stderr
        error: `toolbus.toml` line 5: `front.x.insecure` is only for fronts that listen on a port
        exit 2
    "#]],
    );
}

#[test]
fn a_token_may_lie_in_a_file() {
    let scratch = Scratch::new();
    std::fs::write(scratch.file("token"), "s3cret-token\n").unwrap();
    let config = format!(
        "{BUILTIN}[front.x]\nserve = \"mediocre+http://127.0.0.1:0\"\ntoken = \"${{file:{}}}\"\n",
        scratch.file("token")
    );
    std::fs::write(scratch.file("toolbus.toml"), config).unwrap();
    let server = Server::start(&["serve", "--config", &scratch.file("toolbus.toml")], 1);
    assert!(ask(server.url(), "host: localhost\r\n").starts_with("HTTP/1.1 401 "));
    let shown = "host: localhost\r\nauthorization: Bearer s3cret-token\r\n";
    assert!(ask(server.url(), shown).starts_with("HTTP/1.1 200 "));
}
