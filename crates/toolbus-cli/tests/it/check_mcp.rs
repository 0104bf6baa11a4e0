//! `toolbus check mcp`: a line a rule.

use expect_test::expect;

use crate::listening::Server;
use crate::page::{Page, check, mcp_ourselves, mcp_server};

#[test]
fn our_own_server_keeps_all_rules() {
    Page::of(&["check", "mcp", &mcp_ourselves(&["builtin:"])]).check(expect![[r#"
        stdout
        ok handshake
        ok version
        ok ids
        ok tools-list
        ok unknown-tool
        ok unknown-method
        ok notification
        ok stdout
        ok eof
        ok garbage
        ok ping
        exit 0
    "#]]);
}

#[test]
fn our_own_server_keeps_all_rules_over_http() {
    let server = Server::start(&["mcp", "--http", "127.0.0.1:0", "builtin:"], 1);
    let address = format!("mcp+{}", server.url());
    Page::of(&["check", "mcp", "--json", &address]).check(expect![[r#"
        stdout
        {"rule":"handshake","outcome":"ok"}
        {"rule":"version","outcome":"ok"}
        {"rule":"ids","outcome":"ok"}
        {"rule":"tools-list","outcome":"ok"}
        {"rule":"unknown-tool","outcome":"ok"}
        {"rule":"unknown-method","outcome":"ok"}
        {"rule":"notification","outcome":"ok"}
        {"rule":"session","outcome":"ok"}
        {"rule":"headers","outcome":"ok"}
        {"rule":"origin","outcome":"ok"}
        {"rule":"garbage","outcome":"ok"}
        {"rule":"ping","outcome":"ok"}
        exit 0
    "#]]);
}

#[test]
fn a_server_that_breaks_most_rules() {
    let greeted = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}"#;
    let answer =
        r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a"}],"protocolVersion":"x"}}"#;
    let steps = [
        "say", "hello", "read", "say", greeted, "read", "forever", "{", "read", "say", answer, "}",
    ];
    Page::of(&["check", "mcp", &mcp_server(&steps)]).check(expect![[r#"
        stdout
        ok handshake
        ok version
        FAIL ids: "toolbus" came back as 3
        FAIL tools-list: tool `a` has no `inputSchema`
        FAIL unknown-tool: it answered {"tools":[{"name":"a"}],"protocolVersion":"x"}
        FAIL unknown-method: it answered {"tools":[{"name":"a"}],"protocolVersion":"x"}
        FAIL notification: it was answered
        FAIL stdout: it said: hello
        ok eof
        note garbage: a request behind it was not answered
        ok ping
        exit 1
    "#]]);
}

#[test]
fn a_program_that_is_no_server() {
    Page::of(&["check", "mcp", &mcp_server(&["exit", "3"])]).check(expect![[r#"
        stdout
        FAIL handshake: `initialize`: it ended with exit status 3; `server/discover`: it ended with exit status 3
        note version: not tried: it was never greeted
        note ids: not tried: it was never greeted
        note tools-list: not tried: it was never greeted
        note unknown-tool: not tried: it was never greeted
        note unknown-method: not tried: it was never greeted
        note notification: not tried: it was never greeted
        note stdout: not tried: it was never greeted
        note eof: not tried: it was never greeted
        note garbage: not tried: it was never greeted
        note ping: not tried: it was never greeted
        exit 1
    "#]]);
}

#[test]
fn no_server_to_test() {
    check(
        "check mcp builtin:",
        expect![[r#"
            stderr
            error: `builtin:` is no MCP server
            hint: name one by `mcp+stdio:COMMAND` or `http://HOST:PORT/PATH`
            exit 2
        "#]],
    );
    check(
        "check mcp mcp+stdio:no-such-server",
        expect![[r#"
        stderr
        error: there is no program `no-such-server` in PATH
        hint: install `no-such-server`, or give its path
        exit 3
    "#]],
    );
    check(
        "check mcp --method x mcp+stdio:x",
        expect![[r#"
        stderr
        error: `--method` is for mediocre-rpc servers
        exit 2
    "#]],
    );
}
