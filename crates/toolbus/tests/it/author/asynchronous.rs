//! Async tools: their calls run side by side.

use super::{Talk, call, request};

#[test]
fn a_slow_call_delays_no_other() {
    let mut talk = Talk::with("wait");
    let day = r#"{"name":"wait","arguments":{"ms":86400000},"_meta":{"progressToken":7}}"#;
    talk.say(&request(1, "tools/call", day));
    assert_eq!(
        talk.hear(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":0,"total":86400000,"message":"it begins"}}"#
    );
    talk.say(&call(2, "wait", r#"{"ms":0}"#));
    assert_eq!(
        talk.hear(),
        r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"waited 0 ms"}]}}"#
    );
    talk.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    talk.end();
}

#[test]
fn its_arguments_are_told_by_name_as_well() {
    let mut talk = Talk::with("wait");
    talk.say(&call(1, "wait", r#"{"ms":-1}"#));
    let answer = talk.hear();
    assert!(
        answer.contains("argument `ms`: invalid value: integer `-1`, expected u64"),
        "{answer}"
    );
    talk.end();
}
