//! `toolbus decode oracle`: a line a message.

use expect_test::expect;

use crate::page::{Page, check};

#[test]
fn what_an_executor_wrote() {
    let capture = "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"invoke\",\"params\":{\"selector\":\"f\",\"calldata\":[\"0x2710\"]}}\r\n\n{ \"jsonrpc\": \"2.0\", \"method\": \"shutdown\" }\nwhat?";
    Page::of(&["decode", "oracle", "--as", "call"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"ack","id":0}
        {"event":"invoke","id":0,"selector":"f","calldata":["0x2710"]}
        {"event":"shutdown"}
        {"event":"other","line":"what?"}
        exit 0
    "#]]);
}

#[test]
fn what_an_oracle_wrote() {
    let capture = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ready\",\"params\":{\"a\": 1}}\n{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":[\"0x5f5e100\"]}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"error message\"}}\nlog\n";
    Page::of(&["decode", "oracle", "--as", "response"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"ready","id":0,"params":{"a":1}}
        {"event":"result","id":0,"felts":["0x5f5e100"]}
        {"event":"error","id":1,"code":-32603,"message":"error message"}
        {"event":"other","line":"log"}
        exit 0
    "#]]);
    Page::of(&["decode", "oracle", "--as", "response"]).stdin(b"\xff\n").check(expect![[r#"
        stdout
        {"event":"other","line":"�"}
        exit 0
    "#]]);
}

#[test]
fn words_that_are_missing_or_wrong() {
    check(
        "decode oracle",
        expect![[r#"
            stderr
            error: --as is missing
            usage: toolbus decode oracle --as <SIDE>
            hint: `--help` tells more
            exit 2
        "#]],
    );
    check(
        "decode oracle --as both",
        expect![[r#"
        stderr
        error: `--as` cannot be `both`
        hint: it can be call, response
        exit 2
    "#]],
    );
    check(
        "decode orcale --as call",
        expect![[r#"
            stderr
            error: there is no command `orcale`
            usage: toolbus decode [OPTIONS] <COMMAND>
            hint: did you mean `oracle`?
            exit 2
        "#]],
    );
}
