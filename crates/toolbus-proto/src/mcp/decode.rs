//! A capture of MCP, told message by message: for a user who looks at what a client and a server said.
//!
//! Nothing is refused here, and no value is touched. Client and server write the same kinds of
//! messages, so that one reading does for both.

use bytes::Bytes;

use super::wire;
use crate::capture::Event;
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::jsonrpc::{Id, Message, Rules, kind};

/// A peer that could not read a message answers it with the id `null`.
const RULES: Rules = Rules { null_id: true, ..wire::RULES };

/// What one line says, as one JSON object; `None` for a blank one.
pub fn event(line: &Bytes) -> Option<Json> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    Some(message(line).unwrap_or_else(|| Event::other(&String::from_utf8_lossy(line))))
}

fn message(line: &Bytes) -> Option<Json> {
    let with_params = |event: Event, params: Option<&str>| match params {
        Some(params) => event.raw("params", params).end(),
        None => event.end(),
    };
    match RULES.read(line).ok()? {
        Message::Request { id, .. } if id.is_null() => None,
        Message::Request { id, method, params } => {
            Some(with_params(Event::new("request").id(&id).text("method", &method), params))
        }
        Message::Notification { method, params } => {
            Some(with_params(Event::new("notification").text("method", &method), params))
        }
        // A null beside the other counts as absent.
        Message::Response { id, result, error } => match (result, error.filter(is_not_null)) {
            (None | Some("null"), Some(error)) => failed(&id, error),
            (Some(result), None) => Some(Event::new("result").id(&id).raw("result", result).end()),
            _ => None,
        },
    }
}

fn failed(id: &Id, error: &str) -> Option<Json> {
    let code = edit::member(error, "code")?;
    let message = edit::member(error, "message")?;
    let event = Event::new("error").id(id).raw("code", code).raw("message", message);
    Some(match edit::member(error, "data") {
        Some(data) => event.raw("data", data).end(),
        None => event.end(),
    })
}

fn is_not_null(raw: &&str) -> bool {
    kind(raw) != Kind::Null
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_kind_of_message_is_told_and_nothing_of_it_is_touched() {
        let capture = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"x": 1.0}}}
{"id":"a\u0041","method":"ping","params":null,"jsonrpc":"2.0"}

{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1e400}}
{"jsonrpc":"2.0","id":7.0,"result":{"content":[]},"error":null}
{"jsonrpc":"2.0","id":2,"error":{"message":"no","code":-32601}}
{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error","data":{"at":3}}}
{"jsonrpc":"2.0","id":null,"method":"ping"}
{"jsonrpc":"2.0","id":2}
{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"both"}}
{"jsonrpc":"2.0","id":2,"error":"eh"}
[{"jsonrpc":"2.0","id":2,"method":"ping"}]
listening on port 3"#;
        let lines = capture.lines().map(|line| Bytes::copy_from_slice(line.as_bytes()));
        let told: Vec<_> = lines.filter_map(|line| event(&line)).collect();
        expect![[r#"
            {"event":"request","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"x": 1.0}}}
            {"event":"request","id":"a\u0041","method":"ping"}
            {"event":"notification","method":"notifications/initialized"}
            {"event":"notification","method":"notifications/message","params":{"level":"info","data":1e400}}
            {"event":"result","id":7.0,"result":{"content":[]}}
            {"event":"error","id":2,"code":-32601,"message":"no"}
            {"event":"error","id":null,"code":-32700,"message":"parse error","data":{"at":3}}
            {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}"}
            {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"id\":2}"}
            {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{},\"error\":{\"code\":1,\"message\":\"both\"}}"}
            {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":\"eh\"}"}
            {"event":"other","line":"[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]"}
            {"event":"other","line":"listening on port 3"}
        "#]]
        .assert_eq(&told.iter().map(|event| format!("{event}\n")).collect::<String>());
    }
}
