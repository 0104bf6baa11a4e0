//! The result of a server's `tools/call` as a reply of the hub.

use bytes::Bytes;

use super::failure_of_result;
use crate::json::Json;
use crate::json::edit;
use crate::mcp::wire::in_a_line;
use crate::tool::{Code, Failure, FailureKind, Outcome};

/// What a result means to a caller who does not speak MCP.
pub(in crate::mcp) fn outcome(line: &Bytes, result: &str) -> Result<Outcome, Failure> {
    if let Some(kind) = edit::text(result, "resultType").filter(|kind| kind != "complete") {
        let message = format!("the tool answers only to MCP clients: its result is {kind}");
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
    let is_text = |block: &str| edit::text(block, "type").as_deref() == Some("text");
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
