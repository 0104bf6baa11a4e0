//! `toolbus mcp --http`: the tools of the bus for every client that can reach it.

use expect_test::expect;
use rustix::process::Signal;

use crate::http::{Request, session};
use crate::listening::Server;
use crate::live::Live;
use crate::mcp::{INITIALIZED, META, PROBED, changing, modern_call, request};
use crate::page::{Page, check, mcp_server};

#[test]
fn it_says_where_it_listens_answers_there_and_ends_in_order() {
    let server = Server::start(&["mcp", "--http", "0", "builtin:"], 1);
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
    assert!(server.url().ends_with("/mcp"), "{}", server.url());
    // The URL alone names it, and so it does with its wire.
    for address in [server.url().to_owned(), format!("mcp+{}", server.url())] {
        let page = Page::of(&["call", &address, "add", "a=1", "b=2"]).run();
        assert_eq!(page.to_string(), "stdout\n3\nexit 0\n", "{address}");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn an_mcp_server_behind_it_is_passed_through() {
    let back = format!("mcp+stdio:{} mcp builtin:", env!("CARGO_BIN_EXE_toolbus"));
    let server = Server::start(&["mcp", "--http", "127.0.0.1:0", &back], 1);
    let address = format!("mcp+{}", server.url());
    Page::of(&["call", &address, "upper", "text=hi"]).check(expect![[r#"
        stdout
        "HI"
        exit 0
    "#]]);
    server.signal(Signal::INT);
    assert_eq!(server.end(), "exit 130\n");
}

#[test]
fn a_client_that_listens_is_told_that_tools_have_changed() {
    let server = Server::start(&["mcp", "--http", "0", "builtin:", &changing(&PROBED)], 1);
    let mut live = Live::start(&["mcp", &format!("mcp+{}", server.url())]);
    let wanted = format!(r#"{{{META},"notifications":{{"toolsListChanged":true}}}}"#);
    expect![[r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true}}}"#]]
        .assert_eq(&live.ask(&request(1, "subscriptions/listen", &wanted)));
    let mut heard = [live.ask(&modern_call(2, "faulty-tool_f", "{}")), live.hear()];
    heard.sort_unstable_by_key(|line| line.contains("result"));
    expect![[r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#]]
        .assert_eq(&heard[0]);
    assert!(heard[1].starts_with(r#"{"jsonrpc":"2.0","id":2,"result""#), "{}", heard[1]);
}

#[test]
fn a_server_that_many_share_is_told_what_any_of_them_can_do() {
    let steps = ["read", "err", "$LINE", "answer", INITIALIZED, "readall"];
    let server = Server::start(&["mcp", "-v", "--http", "0", &mcp_server(&steps)], 1);
    // The first to come can do nothing, but others may.
    session(server.url());
    let asked = std::iter::repeat_with(|| server.hear()).find(|line| line.contains("initialize"));
    expect![[r#"info: faulty-tool: {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"toolbus","version":"0.1.0"}}}"#]].assert_eq(&asked.unwrap_or_default());
}

/// Which headers repeat arguments is known by a list. The call that waits for it is passed on with
/// the answer, and not when a clock is looked at next: then it would have become a stream.
#[test]
fn the_first_calls_of_all_wait_for_no_more_than_the_list() {
    let back = format!("mcp+stdio:{} mcp builtin:", env!("CARGO_BIN_EXE_toolbus"));
    let all = [
        (vec!["builtin:"], "add"),
        (vec![&*back], "add"),
        (vec![&*back, "builtin:"], "builtin_add"),
    ];
    for (backs, tool) in all {
        let server = Server::start(&[&["mcp", "--http", "0"], &backs[..]].concat(), 1);
        let call = modern_call(1, tool, r#"{"a":1,"b":2}"#);
        let ask = |_| Request::modern(server.url(), "tools/call", tool, &call);
        let asked: Vec<_> = (0..20).map(ask).collect();
        for answer in asked.into_iter().map(Request::answer) {
            let answer = answer.to_ascii_lowercase();
            let is_plain = answer.contains("content-type: application/json\r\n");
            assert!(is_plain && answer.contains(r#""structuredcontent":3"#), "{answer}");
        }
    }
}

#[test]
fn whoever_hangs_up_during_the_first_call_has_cancelled_it() {
    let tools = r#"{"tools":[{"name":"f","inputSchema":{"type":"object"}}]}"#;
    let opening = ["read", "answer", INITIALIZED, "read", "read", "answer", tools];
    let steps = ["forever", "{", "read", "err", "$LINE", "}"];
    let back = mcp_server(&[&PROBED[..], &opening, &steps].concat());
    let server = Server::start(&["mcp", "-v", "--http", "0", &back], 1);
    let call = modern_call(1, "f", r#"{"a":1}"#);
    let asked = Request::modern(server.url(), "tools/call", "f", &call);
    while !server.hear().contains("tools/call") {}
    drop(asked);
    while !server.hear().contains("notifications/cancelled") {}
}

#[test]
fn strangers_are_not_let_in_by_accident() {
    check(
        "mcp --http 0.0.0.0:0 builtin:",
        expect![[r#"
        stderr
        error: will not listen on 0.0.0.0:0 without a token: other machines can reach it
        hint: name the variable that holds one by `--token-env` (`token_env` in the config), or allow it by `--insecure`
        exit 2
    "#]],
    );
    check(
        "mcp --http 0 --token-env TOOLBUS_NO_SUCH_TOKEN builtin:",
        expect![[r#"
            stderr
            error: the environment variable `TOOLBUS_NO_SUCH_TOKEN` holds no token
            hint: set it, and not to nothing: `export TOOLBUS_NO_SUCH_TOKEN=…`
            exit 2
        "#]],
    );
    check(
        "mcp --http nowhere builtin:",
        expect![[r#"
        stderr
        error: `nowhere` is no address to listen on
        hint: write `HOST:PORT`, `:PORT` or `PORT`, e.g. `127.0.0.1:8932` or `[::1]:8932`
        exit 2
    "#]],
    );
}
