//! `toolbus decode mcp`: a line a message.

use expect_test::expect;

use crate::page::Page;

#[test]
fn what_a_client_wrote() {
    let capture = "{\"jsonrpc\":\"2.0\",\"id\":7.0,\"method\":\"tools/call\",\"params\":{\"name\": \"add\",\"arguments\":{\"a\":1e2}}}\r\n\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7.0}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"roots\":[]}}\nwhat?";
    Page::of(&["decode", "mcp", "--as", "call"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"request","id":7.0,"method":"tools/call","params":{"name": "add","arguments":{"a":1e2}}}
        {"event":"notification","method":"notifications/cancelled","params":{"requestId":7.0}}
        {"event":"result","id":1,"result":{"roots":[]}}
        {"event":"other","line":"what?"}
        exit 0
    "#]]);
}

#[test]
fn what_a_server_wrote() {
    let capture = "hello\n{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"content\":[]}}\n{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"parse error\"}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n";
    Page::of(&["decode", "mcp", "--as", "response"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"other","line":"hello"}
        {"event":"result","id":"a","result":{"content":[]}}
        {"event":"error","id":null,"code":-32700,"message":"parse error"}
        {"event":"request","id":1,"method":"roots/list"}
        exit 0
    "#]]);
}
