//! What passes between two ends of this wire as it is, looked at by those who keep count of calls.

use std::sync::LazyLock;

use bytes::Bytes;

use super::translate::failure_kind_of_result;
use super::wire::Meta;
use crate::json::edit;
use crate::json::known::Rare;
use crate::json::{Json, Kind};
use crate::jsonrpc::{kind, string};
use crate::tool::{FailureKind, ToolName, Trace};

/// The tool that a request calls, with its arguments and its trace; `None` if it calls none.
pub fn tool_call(method: &[u8], params: &Bytes) -> Option<(ToolName, Option<Json>, Option<Trace>)> {
    if method != b"tools/call" {
        return None;
    }
    let text = str::from_utf8(params).ok()?;
    let [name, args, meta] = edit::pick(text, ["name", "arguments", "_meta"]);
    let args = args.filter(|raw| kind(raw) != Kind::Null).map(|raw| Json::part_of(params, raw));
    Some((ToolName::new(string(name?)?), args, Meta::of(meta).trace()))
}

/// The parameters of a call, as their client wrote them, for another tool with other arguments.
pub fn renamed_call(params: &Bytes, name: &str, arguments: Option<&Json>) -> Option<Bytes> {
    let text = str::from_utf8(params).ok()?;
    let quoted = Json::of(name);
    let renamed = edit::replaced(text, "name", quoted.as_str())?;
    let changed = match arguments {
        Some(arguments) => edit::replaced(&renamed, "arguments", arguments.as_str()),
        None => edit::removed(&renamed, "arguments"),
    };
    changed.map(Bytes::from)
}

/// Why a tool has failed whose result this is, if it has.
pub fn tool_failure(result: &Bytes) -> Option<FailureKind> {
    static IS_ERROR: LazyLock<Rare> = LazyLock::new(|| Rare::new("isError"));
    match IS_ERROR.find(result) {
        Some(b"true") => Some(failure_kind_of_result(str::from_utf8(result).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_seen_with_what_belongs_to_it() {
        let params = r#"{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},"arguments":{"a":[1]},"name":"add"}"#;
        let params = Bytes::from_static(params.as_bytes());
        let (name, args, trace) = tool_call(b"tools/call", &params).unwrap();
        assert_eq!((name.as_str(), args.unwrap().as_str()), ("add", r#"{"a":[1]}"#));
        assert!(trace.is_some());
        assert!(tool_call(b"tools/list", &params).is_none());
        assert!(tool_call(b"tools/call", &Bytes::from_static(br#"{"name":1}"#)).is_none());
    }

    #[test]
    fn a_call_becomes_that_of_another_tool() {
        let params = Bytes::from_static(
            br#"{"_meta":{"x":1.0}, "name":"toolbus_call","arguments":{"name":"a","arguments":{"b":1e2}}}"#,
        );
        let renamed = |arguments: Option<&'static str>| {
            let arguments = arguments.map(|text| Json::parse(text).unwrap());
            renamed_call(&params, "a", arguments.as_ref()).unwrap()
        };
        let whole = r#"{"_meta":{"x":1.0}, "name":"a","arguments":{"b":1e2}}"#;
        assert_eq!(renamed(Some(r#"{"b":1e2}"#)), whole);
        assert_eq!(renamed(None), r#"{"_meta":{"x":1.0}, "name":"a"}"#);
    }

    #[test]
    fn a_failure_is_seen_in_a_result() {
        for (result, expected) in [
            (r#"{"content":[]}"#, None),
            (r#"{"content":[],"isError":false}"#, None),
            (r#"{"content":[{"type":"text","text":"isError"}]}"#, None),
            (r#"{"content":[],"isError":true}"#, Some(FailureKind::Failed)),
            (
                r#"{"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}"#,
                Some(FailureKind::InvalidArguments),
            ),
        ] {
            assert_eq!(tool_failure(&Bytes::from_static(result.as_bytes())), expected, "{result}");
        }
    }
}
