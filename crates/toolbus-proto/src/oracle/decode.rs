//! A capture of the oracle wire, told line by line: for a person who looks at what two other programs said.
//!
//! Nothing is refused here. What is no message of this wire is told as it stands.

use bytes::Bytes;

use super::felt::Leniency;
use super::felts;
use super::wire::{self, Invoke};
use crate::capture::{Event, Side};
use crate::json::{Json, Kind};
use crate::jsonrpc::{Id, Message, kind};
use crate::tool::{Code, Failure};

/// What one line says, as one JSON object; `None` for a blank one.
pub fn event(side: Side, line: &Bytes) -> Option<Json> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let known = match side {
        Side::Call => called(line),
        Side::Response => answered(line),
    };
    Some(known.unwrap_or_else(|| Event::other(&String::from_utf8_lossy(line))))
}

fn called(line: &Bytes) -> Option<Json> {
    match wire::RULES.read(line).ok()? {
        Message::Response { id, error, .. } => Some(match error.and_then(not_null) {
            None => Event::new("ack").id(&id).end(),
            Some(error) => Event::new("refused").id(&id).json("error", &raw(line, error)).end(),
        }),
        Message::Request { id, method, params } if method == "invoke" => {
            let Invoke { selector, calldata } = Invoke::read(params).ok()?;
            let event = Event::new("invoke").id(&id).text("selector", &selector);
            Some(event.json("calldata", &canonical(calldata)?).end())
        }
        Message::Notification { method, .. } if method == "shutdown" => {
            Some(Event::new("shutdown").end())
        }
        Message::Request { .. } | Message::Notification { .. } => None,
    }
}

fn answered(line: &Bytes) -> Option<Json> {
    match wire::RULES.read(line).ok()? {
        Message::Request { id, method, params } if method == "ready" => {
            let event = Event::new("ready").id(&id);
            Some(match params {
                Some(params) => event.json("params", &raw(line, params)).end(),
                None => event.end(),
            })
        }
        Message::Response { id, result, error } => match error.and_then(not_null) {
            Some(error) => Some(failed(&id, &wire::failure(line, error))),
            None => {
                let felts = canonical(result.and_then(not_null).unwrap_or("[]"))?;
                Some(Event::new("result").id(&id).json("felts", &felts).end())
            }
        },
        Message::Request { .. } | Message::Notification { .. } => None,
    }
}

fn failed(id: &Id, failure: &Failure) -> Json {
    let mut event = Event::new("error").id(id);
    if let Some(Code::Number(code)) = failure.code {
        event = event.json("code", &Json::of(&code));
    }
    event.text("message", &failure.message).maybe("data", failure.detail.as_ref()).end()
}

fn not_null(raw: &str) -> Option<&str> {
    (kind(raw) != Kind::Null).then_some(raw)
}

fn raw(line: &Bytes, value: &str) -> Json {
    Json::part_of(line, value).compact()
}

fn canonical(felts: &str) -> Option<Json> {
    let felts = felts::canonical(felts, Leniency::Strict).ok()?;
    Some(Json::from_trusted(felts.into_owned()))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check(side: Side, capture: &str, expect: Expect) {
        let lines = capture.lines().map(|line| Bytes::copy_from_slice(line.as_bytes()));
        let told: Vec<_> = lines.filter_map(|line| event(side, &line)).collect();
        expect.assert_eq(&told.iter().map(|event| format!("{event}\n")).collect::<String>());
    }

    #[test]
    fn what_an_executor_wrote() {
        check(
            Side::Call,
            r#"{"jsonrpc":"2.0","id":0,"result":{}}
{"jsonrpc":"2.0","id":"a\u0041"}
{"jsonrpc":"2.0","id":0,"error":{"code": 0, "message": "no"}}

{"jsonrpc":"2.0","id":1.50,"method":"invoke","params":{"calldata":["0x00AB"],"selector":"f"}}
{"jsonrpc":"2.0","id":2,"method":"invoke","params":["g",[]]}
{ "jsonrpc": "2.0", "method": "shutdown" }
{"jsonrpc":"2.0","id":3,"method":"shutdown"}
{"jsonrpc":"2.0","id":3,"method":"invoke","params":{"selector":"f","calldata":[7]}}
{"jsonrpc":"2.0","id":0,"method":"ready"}
nonsense"#,
            expect![[r#"
                {"event":"ack","id":0}
                {"event":"ack","id":"a\u0041"}
                {"event":"refused","id":0,"error":{"code":0,"message":"no"}}
                {"event":"invoke","id":1.50,"selector":"f","calldata":["0xab"]}
                {"event":"invoke","id":2,"selector":"g","calldata":[]}
                {"event":"shutdown"}
                {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"shutdown\"}"}
                {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"invoke\",\"params\":{\"selector\":\"f\",\"calldata\":[7]}}"}
                {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ready\"}"}
                {"event":"other","line":"nonsense"}
            "#]],
        );
    }

    #[test]
    fn what_an_oracle_wrote() {
        check(
            Side::Response,
            r#"{"jsonrpc":"2.0","id":0,"method":"ready"}
{"jsonrpc":"2.0","id":-1,"method":"ready","params":{"a": [1]}}
{"jsonrpc":"2.0","id":0,"result":["0x5f5e100"]}
{"jsonrpc":"2.0","id":0,"result":null,"error":null}
{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"error message"}}
{"jsonrpc":"2.0","id":1,"error":{"message":"m","data":{"x": 1}}}
{"jsonrpc":"2.0","id":1,"error":"eh"}
{"jsonrpc":"2.0","id":1,"result":"eh"}
{"jsonrpc":"2.0","method":"ready"}
log: hello"#,
            expect![[r#"
                {"event":"ready","id":0}
                {"event":"ready","id":-1,"params":{"a":[1]}}
                {"event":"result","id":0,"felts":["0x5f5e100"]}
                {"event":"result","id":0,"felts":[]}
                {"event":"error","id":1,"code":-32603,"message":"error message"}
                {"event":"error","id":1,"message":"m","data":{"x":1}}
                {"event":"error","id":1,"message":"\"eh\""}
                {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"eh\"}"}
                {"event":"other","line":"{\"jsonrpc\":\"2.0\",\"method\":\"ready\"}"}
                {"event":"other","line":"log: hello"}
            "#]],
        );
    }
}
