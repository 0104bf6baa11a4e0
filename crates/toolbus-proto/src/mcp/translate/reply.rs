//! The result of a server's `tools/call` as a reply of the hub, or as a result of ours.

use std::borrow::Cow;

use bytes::Bytes;

use super::{failure_of_result, legacy_result, modern_result};
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::jsonrpc::{kind, string};
use crate::mcp::wire::{Revision, in_a_line};
use crate::tool::{Code, Failure, FailureKind, Outcome};

/// What a result means to a caller who does not speak MCP.
pub(in crate::mcp) fn outcome(line: &Bytes, result: &str) -> Result<Outcome, Failure> {
    if let Some(kind) = unfinished(result) {
        let message = match &*kind {
            "input_required" => {
                "the tool needs input, for which this caller cannot be asked".to_owned()
            }
            kind => format!("the tool answers only to MCP clients: its result is {kind}"),
        };
        let code = Some(Code::Word(kind.into_owned()));
        let failure = Failure::new(FailureKind::Failed, message);
        return Err(Failure { code, from_peer: true, ..failure });
    }
    let content = edit::member(result, "content").unwrap_or("[]");
    if edit::member(result, "isError") == Some("true") {
        let texts: Vec<_> =
            edit::elements(content).filter_map(|block| edit::text(block, "text")).collect();
        return Err(failure_of_result(line, result, texts.join("\n")));
    }
    let json = |raw: &str| Outcome::Value(Json::from_trusted(in_a_line(line, raw)));
    if let Some(structured) = edit::member(result, "structuredContent") {
        return Ok(json(structured));
    }
    if edit::member(result, "content").is_none() {
        return Ok(json(result));
    }
    if !edit::elements(content).all(is_text) {
        return Ok(json(content));
    }
    let texts: Vec<_> =
        edit::elements(content).filter_map(|block| edit::text(block, "text")).collect();
    Ok(Outcome::Text(texts.join("\n")))
}

/// The text blocks of a result, if it has any.
pub(in crate::mcp) fn text_of(result: &str) -> Option<String> {
    let content = edit::member(result, "content")?;
    let blocks = edit::elements(content).filter(|block| is_text(block));
    let texts: Vec<_> = blocks.filter_map(|block| edit::text(block, "text")).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Is the text the JSON of something that is no text?
pub(in crate::mcp) fn may_be_typed(text: &str) -> bool {
    let first = text.trim_start().bytes().next();
    first.is_some_and(|first| b"{[-0123456789tf".contains(&first))
        && Json::parse(text.to_owned()).is_ok_and(|value| value.kind() != Kind::Null)
}

/// A text as the schema of the tool's output has it: the value of which it is the JSON, if the
/// schema says that the output is of that type and no string.
pub(in crate::mcp) fn typed(output: Option<&Json>, text: String) -> Outcome {
    let Some(types) = output.and_then(|output| edit::member(output.as_str(), "type")) else {
        return Outcome::Text(text);
    };
    let is_named = |name: &str| match kind(types) {
        Kind::Array => edit::elements(types).any(|raw| string(raw).as_deref() == Some(name)),
        _ => string(types).as_deref() == Some(name),
    };
    let Ok(value) = Json::parse(text.clone()) else { return Outcome::Text(text) };
    let is_it = match value.kind() {
        Kind::Number => is_named("number") || is_named("integer"),
        Kind::Bool => is_named("boolean"),
        Kind::Array => is_named("array"),
        Kind::Object => is_named("object"),
        Kind::String | Kind::Null => false,
    };
    match is_it && !is_named("string") {
        true => Outcome::Value(value),
        false => Outcome::Text(text),
    }
}

fn is_text(block: &str) -> bool {
    edit::text(block, "type").as_deref() == Some("text")
}

/// Is it what the tool has to say, and no question or promise? Those only the one who talks
/// to the server can make use of.
pub(in crate::mcp) fn is_complete(result: &str) -> bool {
    unfinished(result).is_none()
}

fn unfinished(result: &str) -> Option<Cow<'_, str>> {
    edit::text(result, "resultType").filter(|kind| kind != "complete")
}

/// The complete result of a server for a client that may be of another era (`docs/protocols/mcp.md` 2.4);
/// `server` is who modern clients are told it comes from.
pub(in crate::mcp) fn relayed(revision: Revision, result: Bytes, server: &Json) -> Bytes {
    let raw = str::from_utf8(&result).unwrap_or("{}");
    if revision == Revision::MODERN {
        if edit::member(raw, "resultType").is_some() {
            return result;
        }
        return modern_result("tools/call", raw, server.as_str());
    }
    legacy_result(revision, "tools/call", result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_pass_between_the_eras() {
        let us = Json::from_trusted(r#"{"name":"us"}"#);
        let check = |revision, result: &str, expected: &str| {
            let relayed = relayed(revision, Bytes::copy_from_slice(result.as_bytes()), &us);
            assert_eq!(str::from_utf8(&relayed).unwrap(), expected);
        };
        let legacy = r#"{"z":1.0,"content":[],"structuredContent":{"a":1e2},"_meta":{"q":1}}"#;
        check(Revision::V2025_11_25, legacy, legacy);
        let older = r#"{"z":1.0,"content":[],"_meta":{"q":1}}"#;
        check(Revision::V2025_03_26, legacy, older);
        let modern = r#"{"resultType":"complete","z":1.0,"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"us"},"q":1}}"#;
        check(Revision::MODERN, older, modern);
        check(Revision::MODERN, modern, modern);
        let modern = r#"{"resultType":"complete","content":[],"structuredContent":3}"#;
        check(Revision::V2025_11_25, modern, r#"{"content":[]}"#);
    }
}
