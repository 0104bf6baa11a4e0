use expect_test::{Expect, expect};

use super::*;
use crate::{mcp, oracle};

/// A line a wire, so that a difference between two wires can be seen as one.
fn check(line: &str, expected: Expect) {
    let wires = [("oracle", oracle::RULES), ("mcp", mcp::RULES)];
    let shown = wires.map(|(wire, rules)| {
        let line = Bytes::copy_from_slice(line.as_bytes());
        match rules.read(&line) {
            Ok(message) => format!("{wire} {}\n", show(&message)),
            Err(Invalid { why, id }) => {
                let id = id.map_or("no id".to_owned(), |id| id.to_json().to_string());
                format!("{wire} invalid, {id}: {why}\n")
            }
        }
    });
    expected.assert_eq(&shown.concat());
}

fn show(message: &Message<'_>) -> String {
    let or_none = |raw: &Option<&str>| raw.unwrap_or("none").to_owned();
    match message {
        Message::Request { id, method, params } => {
            format!("request {} {method} {}", id.to_json(), or_none(params))
        }
        Message::Notification { method, params } => {
            format!("notification {method} {}", or_none(params))
        }
        Message::Response { id, result, error } => {
            format!("response {} {} {}", id.to_json(), or_none(result), or_none(error))
        }
    }
}

#[test]
fn requests_notifications_and_responses_are_told_apart() {
    check(
        r#"{"jsonrpc":"2.0","id":0,"method":"m"}"#,
        expect![[r#"
            oracle request 0 m none
            mcp request 0 m none
        "#]],
    );
    check(
        r#" {"method":"m","params":[1],"x":{},"jsonrpc":"2.0"} "#,
        expect![[r#"
            oracle notification m [1]
            mcp invalid, no id: `params` must be an object
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{}}"#,
        expect![[r#"
            oracle response 1 null {}
            mcp response 1 null {}
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
        expect![[r#"
            oracle request 1 m none
            mcp request 1 m none
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","id":1}"#,
        expect![[r#"
            oracle response 1 none none
            mcp response 1 none none
        "#]],
    );
}

#[test]
fn escaped_keys_and_values_mean_the_same() {
    check(
        r#"{"json\u0072pc":"2\u002e0","id":"\u0041","method":"\u006d"}"#,
        expect![[r#"
            oracle request "\u0041" m none
            mcp request "\u0041" m none
        "#]],
    );
}

#[test]
fn every_kind_of_id() {
    for id in ["1.50", "1E+2", "-1", "18446744073709551616", r#""a""#] {
        let line = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#));
        let Ok(Message::Request { id: found, .. }) = oracle::RULES.read(&line) else {
            panic!("{id} is an id");
        };
        assert_eq!(found.as_bytes(), id.as_bytes());
    }
    check(
        r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
        expect![[r#"
            oracle request null m none
            mcp invalid, no id: `id` must be a string or a number
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
        expect![[r#"
            oracle invalid, no id: `id` must be a string or a number
            mcp invalid, no id: `id` must be a string or a number
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
        expect![[r#"
            oracle invalid, no id: `id` must be a string or a number
            mcp invalid, no id: `id` must be a string or a number
        "#]],
    );
}

#[test]
fn what_is_wrong_is_said_with_the_id_if_there_is_one() {
    check(
        "nonsense",
        expect![[r#"
            oracle invalid, no id: not JSON: unexpected `o` at byte 1
            mcp invalid, no id: not JSON: unexpected `o` at byte 1
        "#]],
    );
    check(
        "[]",
        expect![[r#"
            oracle invalid, no id: batches are not supported
            mcp invalid, no id: batches are not supported
        "#]],
    );
    check(
        "7",
        expect![[r#"
            oracle invalid, no id: a message must be an object
            mcp invalid, no id: a message must be an object
        "#]],
    );
    check(
        r#"{"id":7,"method":"m"}"#,
        expect![[r#"
            oracle invalid, 7: `jsonrpc` must be "2.0"
            mcp invalid, 7: `jsonrpc` must be "2.0"
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","id":7,"method":1}"#,
        expect![[r#"
            oracle invalid, 7: `method` must be a string
            mcp invalid, 7: `method` must be a string
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","result":1}"#,
        expect![[r#"
            oracle invalid, no id: an answer needs an `id`
            mcp invalid, no id: an answer needs an `id`
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","id":7,"id":7,"method":"m"}"#,
        expect![[r#"
            oracle invalid, no id: `id` stands twice
            mcp invalid, no id: `id` stands twice
        "#]],
    );
    check(
        r#"{"jsonrpc":"2.0","id":7,"method":"m","params":1}"#,
        expect![[r#"
            oracle request 7 m 1
            mcp invalid, 7: `params` must be an object
        "#]],
    );
}

#[test]
fn what_we_write_we_can_read() {
    let mut out = Outbox::new();
    begin_request(&mut out, 3, "invoke");
    out.put(b"[]}\n");
    write_notification(&mut out, "shutdown");
    write_result(&mut out, &Id::number(4), &Bytes::from_static(b"{}"));
    write_error(&mut out, &Id::NULL, -32603, "a \"b\"\n", Some(&Json::null()));
    expect![[r#"
        {"jsonrpc":"2.0","id":3,"method":"invoke","params":[]}
        {"jsonrpc":"2.0","method":"shutdown"}
        {"jsonrpc":"2.0","id":4,"result":{}}
        {"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"a \"b\"\n","data":null}}
    "#]]
    .assert_eq(std::str::from_utf8(&out.take()).unwrap());
}

#[test]
fn members_of_the_parameters_are_picked_on_the_way() {
    let pick = |line: &'static str| {
        let line = Bytes::from_static(line.as_bytes());
        let read = Members::read(&line, ["a", "b"]);
        read.map(|(_, picked)| picked.map(|raw| raw.map(str::to_owned)))
    };
    let some = |raw: &str| Some(raw.to_owned());
    // Of two the last, however its name is spelled, and none from deeper inside.
    let line =
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1, "\u0061" : [2] ,"c":{"b":3}}}"#;
    assert_eq!(pick(line), Ok([some("[2]"), None]));
    let line = r#"{"p\u0061rams":{"b":"x"},"jsonrpc":"2.0","method":"m"}"#;
    assert_eq!(pick(line), Ok([None, some("\"x\"")]));
    let line = r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#;
    assert_eq!(pick(line), Ok([None, None]));
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,}}"#;
    assert!(pick(line).unwrap_err().is_parse_error());
    // Refused when the message is made, and until then the last counts.
    let line = r#"{"params":{"a":1},"params":{"b":2}}"#;
    assert_eq!(pick(line), Ok([None, some("2")]));
}

#[test]
fn a_message_is_as_deep_as_any_value() {
    let read = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        let line = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"a":{open}{close}}}}}"#);
        mcp::RULES.read(&Bytes::from(line)).map(|_| ()).map_err(|invalid| invalid.why)
    };
    assert_eq!(read(126), Ok(()));
    assert_eq!(read(127), Err(Why::NotJson(JsonError::TooDeep)));
}
