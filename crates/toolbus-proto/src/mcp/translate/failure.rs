//! A failure as a JSON-RPC error, and what a server's errors mean to the hub.

use bytes::Bytes;

use crate::json::Json;
use crate::json::edit;
use crate::jsonrpc::string;
use crate::limit::{reason_of, told_by_peer};
use crate::mcp::wire::{
    FAILURE_KEY, INTERNAL_ERROR, INVALID_PARAMS, Refusal, Revision, UNKNOWN_METHOD, put_member,
    quoted,
};
use crate::tool::{Code, Exit, Failure, FailureKind, ToolName};

/// The tool that calls another one, which its arguments name.
const CALL: &str = "toolbus_call";

/// How we refuse a call; `None` where the failure is the tool's own and becomes a result.
pub(in crate::mcp) fn refusal(
    revision: Revision,
    tool: Option<&ToolName>,
    failure: &Failure,
) -> Option<Refusal> {
    let message = failure.message.clone();
    match (failure.kind, tool) {
        (FailureKind::UnknownTool, Some(tool)) => {
            // The tool that was meant may be another than the one that was to call it.
            let meant = message.strip_prefix("no such tool: `").filter(|_| !failure.from_peer);
            let meant = meant.and_then(|rest| rest.strip_suffix('`'));
            let meant = meant.filter(|_| tool.as_str() == CALL).unwrap_or(tool.as_str());
            Some(Refusal::new(INVALID_PARAMS, format!("unknown tool: {meant}")))
        }
        // A request of a client that was not passed on, since it names nothing.
        (FailureKind::UnknownTool, None) if !failure.from_peer => {
            Some(Refusal::new(INVALID_PARAMS, message))
        }
        (FailureKind::InvalidArguments, Some(_)) if revision < Revision::V2025_11_25 => {
            Some(Refusal::new(INVALID_PARAMS, message))
        }
        (FailureKind::InvalidArguments | FailureKind::Failed, Some(_)) => None,
        _ => {
            let data = Some(data(failure));
            Some(Refusal { data, ..Refusal::new(INTERNAL_ERROR, message) })
        }
    }
}

fn data(failure: &Failure) -> Json {
    let mut data = vec![b'{'];
    put_member(&mut data, "kind", quoted(failure.kind.as_str()));
    if reason_of(failure).is_some()
        && let Some(detail) = &failure.detail
    {
        for (name, value) in edit::members(detail.as_str()) {
            put_member(&mut data, &name, value);
        }
    }
    if let Some(words) = &failure.last_words {
        match words.exit {
            Some(Exit::Code(code)) => put_member(&mut data, "status", code.to_string()),
            Some(Exit::Signal(signal)) => put_member(&mut data, "signal", signal.to_string()),
            None => {}
        }
        if !words.stderr.is_empty() {
            put_member(&mut data, "stderr", Json::of(&words.stderr).as_bytes());
        }
    }
    data.push(b'}');
    Json::from_trusted(data)
}

/// What the error object of a server says about a call of one of its tools.
pub(in crate::mcp) fn failure_of_error(line: &Bytes, raw: &str) -> Failure {
    let code = edit::member(raw, "code").and_then(|code| code.parse::<i64>().ok());
    let message = edit::text(raw, "message").map_or_else(|| raw.to_owned(), Into::into);
    let message = without_code(code, message);
    let data = edit::member(raw, "data").map(|data| Json::part_of(line, data));
    if code == Some(INTERNAL_ERROR)
        && let Some(detail) = data.as_ref().and_then(|data| told_by_peer(data.as_str()))
    {
        let refused = Failure::new(FailureKind::Unavailable, message);
        return Failure { code: None, detail: Some(detail), from_peer: true, ..refused };
    }
    Failure {
        kind: match code {
            Some(UNKNOWN_METHOD) => FailureKind::UnknownTool,
            Some(INVALID_PARAMS) => FailureKind::InvalidArguments,
            _ => FailureKind::Failed,
        },
        code: code.map(Code::Number),
        message,
        detail: data.filter(|data| !data.is_null()),
        from_peer: true,
        last_words: None,
    }
}

/// Some servers write the code into the message, too, where it is told once already.
fn without_code(code: Option<i64>, message: String) -> String {
    let Some(code) = code else { return message };
    match message.strip_prefix(&format!("MCP error {code}: ")) {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => message,
    }
}

/// Of which kind the failure is that a result with `isError` tells.
pub(in crate::mcp) fn failure_kind_of_result(raw: &str) -> FailureKind {
    let told = edit::member(raw, "_meta").and_then(|meta| edit::member(meta, FAILURE_KEY));
    match told.and_then(|told| edit::text(told, "kind")).as_deref() {
        Some("invalid_arguments") => FailureKind::InvalidArguments,
        _ => FailureKind::Failed,
    }
}

/// What a result with `isError` says; kind, code and detail are there if toolbus wrote it.
pub(in crate::mcp) fn failure_of_result(line: &Bytes, raw: &str, message: String) -> Failure {
    let told = edit::member(raw, "_meta").and_then(|meta| edit::member(meta, FAILURE_KEY));
    let told = |name: &str| told.and_then(|told| edit::member(told, name));
    let kind = failure_kind_of_result(raw);
    let code = told("code").and_then(|code| match code.parse() {
        Ok(number) => Some(Code::Number(number)),
        Err(_) => string(code).map(|word| Code::Word(word.into())),
    });
    let detail = told("detail").map(|detail| Json::part_of(line, detail));
    Failure { code, detail, from_peer: true, ..Failure::new(kind, message) }
}
