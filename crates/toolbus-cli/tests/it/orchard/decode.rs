//! `toolbus decode orchard`: a line a message.

use expect_test::expect;

use crate::page::{Page, check};

#[test]
fn what_a_host_wrote() {
    let capture = "{\"id\":1,\"method\":\"describe\",\"params\":{}}\n{\"id\":2,\"method\":\"execute\", \"params\":{\"action\":\"a\",\"attrs\":{\"n\":1.50}}}\r\n\n{\"id\":3,\"method\":\"shutdown\"}\nwhat?";
    Page::of(&["decode", "orchard", "--as", "call"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"request","id":1,"method":"describe","params":{}}
        {"event":"request","id":2,"method":"execute","params":{"action":"a","attrs":{"n":1.50}}}
        {"event":"request","id":3,"method":"shutdown"}
        {"event":"other","line":"what?"}
        exit 0
    "#]]);
}

#[test]
fn what_a_provider_wrote() {
    let capture = "{\"id\":1,\"result\":{\"outputs\":{\"n\": 1.50}}}\n{\"id\":2,\"error\":{\"code\":\"execute_failed\",\"message\":\"no\",\"detail\":\"why\"}}\n{\"id\":3,\"error\":{\"code\":\"x\",\"message\":\"\"}}\nlog\n{\"id\":4}\n";
    Page::of(&["decode", "orchard", "--as", "response"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"result","id":1,"result":{"outputs":{"n":1.50}}}
        {"event":"error","id":2,"code":"execute_failed","message":"no","detail":"why"}
        {"event":"error","id":3,"code":"x","message":""}
        {"event":"other","line":"log"}
        {"event":"other","line":"{\"id\":4}"}
        exit 0
    "#]]);
    Page::of(&["decode", "orchard", "--as", "response"]).stdin(b"\xff\n").check(expect![[r#"
        stdout
        {"event":"other","line":"�"}
        exit 0
    "#]]);
}

#[test]
fn a_side_must_be_named() {
    check(
        "decode orchard",
        expect![[r#"
        stderr
        error: --as is missing
        usage: toolbus decode orchard --as <SIDE>
        hint: `--help` tells more
        exit 2
    "#]],
    );
}
