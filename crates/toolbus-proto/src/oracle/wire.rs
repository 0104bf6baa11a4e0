//! The oracle's messages as they stand on the wire (`docs/protocols/oracle.md` 1, 2).

use bytes::Bytes;

use crate::channel::Outbox;
use crate::json::{Json, Kind, Scanner, write_string};
use crate::jsonrpc::{self, Id, Rules, kind, string};
use crate::limit::told_by_peer;
use crate::tool::{Code, Failure, FailureKind};

/// How the oracle wire reads the envelope: any id, any params.
pub const RULES: Rules = Rules { null_id: true, any_params: true };

/// How much of a peer's malformed error is shown.
const ERROR_SHOWN_MAX: usize = 1024;

/// The oracle's first line. `functions` are canonical signatures, sorted by name.
pub(super) fn write_ready(out: &mut Outbox, functions: &[String]) {
    let mut line =
        br#"{"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["#.to_vec();
    for (index, function) in functions.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        write_string(&mut line, function);
    }
    line.extend_from_slice(b"]}}\n");
    out.put(&line);
}

/// The executor's answer to `ready`.
pub(super) fn write_ack(out: &mut Outbox, id: &Id) {
    jsonrpc::write_result(out, id, &Bytes::from_static(b"{}"));
}

/// A call. `calldata` is the text of an array of felts.
pub(super) fn write_invoke(out: &mut Outbox, id: u64, selector: &str, calldata: &Bytes) {
    jsonrpc::begin_request(out, id, "invoke");
    out.put(br#"{"selector":"#);
    out.put_string(selector);
    out.put(br#","calldata":"#);
    out.put_shared(calldata);
    out.put(b"}}\n");
}

/// The executor's goodbye.
pub(super) fn write_shutdown(out: &mut Outbox) {
    jsonrpc::write_notification(out, "shutdown");
}

/// What an `invoke` asks for: the selector, and its calldata as raw JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invoke<'a> {
    pub(super) selector: std::borrow::Cow<'a, str>,
    pub(super) calldata: &'a str,
}

impl<'a> Invoke<'a> {
    /// Reads the params of an `invoke`, by name or by position; the error is for the caller.
    pub(super) fn read(params: Option<&'a str>) -> Result<Invoke<'a>, String> {
        let mut selector = None;
        let mut calldata = None;
        let params = params.ok_or("invoke needs params with `selector` and `calldata`")?;
        let mut scanner = Scanner::new(params);
        let broken = |_| "params are not JSON".to_owned();
        if scanner.enter_object() {
            let mut first = true;
            while let Some((key, value)) = scanner.member(first).map_err(broken)? {
                first = false;
                let (name, place) = match string(key).as_deref() {
                    Some("selector") => ("selector", &mut selector),
                    Some("calldata") => ("calldata", &mut calldata),
                    _ => continue,
                };
                if place.replace(value).is_some() {
                    return Err(format!("`{name}` stands twice in the params of invoke"));
                }
            }
        } else if scanner.enter_array() {
            selector = scanner.element(true).map_err(broken)?;
            if selector.is_some() {
                calldata = scanner.element(false).map_err(broken)?;
            }
        } else {
            return Err("params of invoke must be an object or an array".to_owned());
        }
        let missing = |name: &str| format!("params of invoke have no `{name}`");
        let selector = selector.ok_or_else(|| missing("selector"))?;
        let selector = string(selector).ok_or("`selector` must be a string")?;
        let calldata = calldata.ok_or_else(|| missing("calldata"))?;
        if kind(calldata) != Kind::Array {
            return Err("`calldata` must be an array of felts".to_owned());
        }
        Ok(Invoke { selector, calldata })
    }
}

/// The signatures in the params of `ready`, if they are of the shape we offer ourselves.
pub(super) fn offered(params: Option<&str>) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Offer {
        toolbus: serde_json::Number,
        functions: Vec<String>,
    }
    match params.map(serde_json::from_str::<Offer>) {
        Some(Ok(offer)) if offer.toolbus.as_u64() == Some(1) => offer.functions,
        _ => Vec::new(),
    }
}

/// What an `error` member says (I3), whatever shape it has.
pub(super) fn failure(line: &Bytes, raw: &str) -> Failure {
    let mut code = None;
    let mut message = None;
    let mut data = None;
    let mut scanner = Scanner::new(raw);
    if scanner.enter_object() {
        let mut first = true;
        while let Ok(Some((key, value))) = scanner.member(first) {
            first = false;
            match string(key).as_deref() {
                Some("code") => code = value.parse::<i64>().ok(),
                Some("message") => message = string(value).map(Into::into),
                Some("data") => data = Some(Json::part_of(line, value)),
                _ => {}
            }
        }
    }
    let data = data.filter(|data| !data.is_null());
    let message = message.unwrap_or_else(|| beginning(raw, ERROR_SHOWN_MAX));
    // A limit of an oracle that is a toolbus.
    if code == Some(-32603)
        && let Some(detail) = data.as_ref().and_then(|data| told_by_peer(data.as_str()))
    {
        let refused = Failure::new(FailureKind::Unavailable, message);
        return Failure { detail: Some(detail), from_peer: true, ..refused };
    }
    Failure {
        kind: match code {
            Some(-32601) => FailureKind::UnknownTool,
            Some(-32602) => FailureKind::InvalidArguments,
            _ => FailureKind::Failed,
        },
        code: code.map(Code::Number),
        message,
        detail: data,
        from_peer: true,
        last_words: None,
    }
}

/// The first `bytes_max` bytes of `text`, cut between characters.
fn beginning(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_a_peer_keeps_its_reason() {
        let read = |data: &str| {
            let raw = format!(r#"{{"code":-32603,"message":"too many calls","data":{data}}}"#);
            let line = Bytes::from(raw);
            failure(&line, str::from_utf8(&line).unwrap())
        };
        let limited = read(r#"{"kind":"unavailable","reason":"rate_limited","retry_after_ms":7}"#);
        assert_eq!((limited.kind, limited.code), (FailureKind::Unavailable, None));
        let detail = r#"{"reason":"rate_limited","retry_after_ms":7}"#;
        assert_eq!(limited.detail.unwrap().as_str(), detail);
        let busy = read(r#"{"kind":"unavailable","reason":"busy"}"#);
        assert_eq!(busy.detail.unwrap().as_str(), r#"{"reason":"busy"}"#);
        let other = read(r#"{"kind":"gone"}"#);
        assert_eq!((other.kind, other.code), (FailureKind::Failed, Some(Code::Number(-32603))));
    }
}
