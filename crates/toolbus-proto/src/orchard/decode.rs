//! A capture of the Orchard wire, told line by line: for people who look at what a host and a
//! provider said.
//!
//! Nothing is refused here. What is no frame of this wire is told as it stands.

use bytes::Bytes;

use super::wire::{self, Refusal, Request, Response};
use crate::capture::{Event, Side};
use crate::json::{Json, compact};
use crate::jsonrpc::string;

/// What one line says, as one JSON object; `None` for a blank one.
pub fn event(side: Side, line: &Bytes) -> Option<Json> {
    let text = wire::without_return(line);
    if text.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let known = match side {
        Side::Call => asked(text),
        Side::Response => answered(text),
    };
    Some(known.unwrap_or_else(|| Event::other(&String::from_utf8_lossy(text))))
}

fn asked(line: &[u8]) -> Option<Json> {
    let Request { id, method, params, .. } = Request::read(line)?;
    let method = string(method?)?;
    let event = Event::new("request").raw("id", &compact(id?)).text("method", &method);
    Some(match params {
        Some(params) => event.raw("params", &compact(params)).end(),
        None => event.end(),
    })
}

fn answered(line: &[u8]) -> Option<Json> {
    let response = Response::read(line).ok().filter(|_| line.starts_with(b"{"))?;
    let id = compact(response.id?);
    match (response.result, response.error) {
        (None, Some(error)) => {
            let Refusal { code, message, detail } = Refusal::read(error)?;
            let event = Event::new("error").raw("id", &id);
            let event = event.text("code", &code).text("message", &message);
            Some(match detail {
                Some(detail) => event.raw("detail", &compact(detail)).end(),
                None => event.end(),
            })
        }
        (Some(result), None) => {
            Some(Event::new("result").raw("id", &id).raw("result", &compact(result)).end())
        }
        (None, None) if response.result_is_null && !response.error_is_null => {
            Some(Event::new("result").raw("id", &id).raw("result", "null").end())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn check(side: Side, capture: &str, expect: Expect) {
        let lines = capture.split('\n').map(|line| Bytes::copy_from_slice(line.as_bytes()));
        let told: Vec<_> = lines.filter_map(|line| event(side, &line)).collect();
        expect.assert_eq(&told.iter().map(|event| format!("{event}\n")).collect::<String>());
    }

    #[test]
    fn what_a_host_wrote() {
        check(
            Side::Call,
            "{\"id\":1,\"method\":\"describe\",\"params\":{}}\r
{ \"method\" : \"execute\", \"id\":2.0,\"more\":1, \"params\":{\"action\": \"a\",\"attrs\":{\"n\":1.50}}}

{\"id\":\"x\",\"method\":\"shutdown\"}
{\"id\":3}
{\"id\":1,\"result\":{}}
nonsense",
            expect![[r#"
                {"event":"request","id":1,"method":"describe","params":{}}
                {"event":"request","id":2.0,"method":"execute","params":{"action":"a","attrs":{"n":1.50}}}
                {"event":"request","id":"x","method":"shutdown"}
                {"event":"other","line":"{\"id\":3}"}
                {"event":"other","line":"{\"id\":1,\"result\":{}}"}
                {"event":"other","line":"nonsense"}
            "#]],
        );
    }

    #[test]
    fn what_a_provider_wrote() {
        check(
            Side::Response,
            r#"{"id":1,"result":{"schema": {"name":"x"}}}
{"error":null,"id":2,"result":{"outputs":{"n": 1.50}},"took":1}
{"id":3,"result":null}
{"id":4,"error":{"code":"execute_failed","message":"no","detail":"why"}}
{"id":5,"error":{"code":"own"}}
{"id":6,"error":"no"}
{"id":7,"result":{},"error":{"code":"x"}}
{"id":8}
{"id":9,"result":null,"error":null}
Loading plugins..."#,
            expect![[r#"
                {"event":"result","id":1,"result":{"schema":{"name":"x"}}}
                {"event":"result","id":2,"result":{"outputs":{"n":1.50}}}
                {"event":"result","id":3,"result":null}
                {"event":"error","id":4,"code":"execute_failed","message":"no","detail":"why"}
                {"event":"error","id":5,"code":"own","message":""}
                {"event":"other","line":"{\"id\":6,\"error\":\"no\"}"}
                {"event":"other","line":"{\"id\":7,\"result\":{},\"error\":{\"code\":\"x\"}}"}
                {"event":"other","line":"{\"id\":8}"}
                {"event":"other","line":"{\"id\":9,\"result\":null,\"error\":null}"}
                {"event":"other","line":"Loading plugins..."}
            "#]],
        );
    }
}
