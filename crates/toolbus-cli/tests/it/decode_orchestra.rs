//! `toolbus decode orchestra`: a line a message.

use expect_test::expect;

use crate::page::Page;

#[test]
fn what_a_caller_wrote() {
    let capture = b"\x00\x00\x00\x06\x0a\x02h1j\x00\x00\x00\x00\x00".to_vec();
    Page::of(&["decode", "orchestra", "--as", "call"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"message","bytes":6,"message":{"request_id":"h1","health":{}}}
        {"event":"message","bytes":0,"message":{}}
        exit 0
    "#]]);
}

#[test]
fn after_trouble_it_goes_on_and_ends_with_three() {
    let capture =
        b"\x00\x00\x00\x02\x0a\xff\x00\x00\x00\x04\x0a\x02pb\x00\x00\x00\x09\x0a".to_vec();
    Page::of(&["decode", "orchestra", "--as", "response"]).stdin(capture).check(expect![[r#"
        stdout
        {"event":"error","kind":"not_protobuf","message":"the message ends inside a field"}
        {"event":"message","bytes":4,"message":{"request_id":"pb"}}
        {"event":"error","kind":"truncated","message":"the bytes ended inside a frame"}
        exit 3
    "#]]);
}
