//! What passes from one era to the other, as text (`docs/protocols/mcp.md` 2.4).
//!
//! Members that only one era knows are put in or taken out; every other byte stays what it was.

use std::borrow::Cow;

use bytes::Bytes;

use crate::json::{Json, Kind, edit};
use crate::jsonrpc::kind;
use crate::mcp::wire::{
    CAPABILITIES_KEY, CLIENT_KEY, INTERNAL_ERROR, INVALID_PARAMS, LOG_LEVEL_KEY, Level,
    RESOURCE_NOT_FOUND, Revision, SERVER_KEY, URL_REQUIRED, VERSION_KEY, put_member, quoted,
};

/// What is the protocol's own in `_meta`.
const PROTOCOL_PREFIX: &str = "io.modelcontextprotocol/";

/// The methods that both eras have. No other can be translated.
pub(in crate::mcp) fn is_in_both(method: &str) -> bool {
    matches!(
        method,
        "tools/list"
            | "tools/call"
            | "prompts/list"
            | "prompts/get"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "completion/complete"
    )
}

/// Do modern results of this method say for how long they are good?
fn is_kept(method: &str) -> bool {
    method == "resources/read" || method.ends_with("/list")
}

/// The parameters of a modern request for a legacy server.
pub(in crate::mcp) fn legacy_params(params: &str) -> String {
    let mut params = Cow::from(params);
    // Answers to questions are for us, and tasks are others in each era.
    for name in ["inputResponses", "requestState", "task"] {
        params = without(params, name);
    }
    let Some(meta) = edit::member(&params, "_meta") else { return params.into_owned() };
    let mut kept = Cow::from(meta);
    for (key, _) in edit::members(meta).filter(|(key, _)| key.starts_with(PROTOCOL_PREFIX)) {
        kept = without(kept, &key);
    }
    match edit::members(&kept).next() {
        Some(_) => edit::replaced(&params, "_meta", &kept).unwrap_or_default(),
        None => edit::without(&params, "_meta"),
    }
}

/// Who calls, as each modern request tells it.
#[derive(Debug, Clone, Copy)]
pub(in crate::mcp) struct Introduced<'a> {
    pub(in crate::mcp) capabilities: &'a Json,
    pub(in crate::mcp) client: &'a Json,
    pub(in crate::mcp) level: Option<Level>,
}

/// The parameters of a legacy request for a modern server.
pub(in crate::mcp) fn modern_params(params: Option<&str>, who: Introduced<'_>) -> String {
    let params = without(Cow::from(params.unwrap_or("{}")), "task");
    let mut meta = Cow::from(edit::member(&params, "_meta").unwrap_or("{}"));
    for key in [VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY, LOG_LEVEL_KEY] {
        meta = without(meta, key);
    }
    let version = quoted(Revision::MODERN.as_str());
    let mut meta = with_last(&meta, VERSION_KEY, version);
    meta = with_last(&meta, CAPABILITIES_KEY, who.capabilities.as_bytes());
    meta = with_last(&meta, CLIENT_KEY, who.client.as_bytes());
    if let Some(level) = who.level {
        meta = with_last(&meta, LOG_LEVEL_KEY, quoted(level.as_str()));
    }
    with_last(&params, "_meta", meta)
}

/// The result of a legacy server for a modern client, which is told whose it is.
pub(in crate::mcp) fn modern_result(method: &str, result: &str, server: &str) -> Bytes {
    let mut result = edit::with_first(result, "resultType", "\"complete\"");
    if is_kept(method) {
        result = with_last(&result, "ttlMs", "0");
        result = with_last(&result, "cacheScope", "\"private\"");
    }
    let meta = edit::member(&result, "_meta").unwrap_or("{}");
    let meta = edit::with_first(meta, SERVER_KEY, server);
    with_last(&result, "_meta", meta).into()
}

/// The complete result of a modern server for a legacy client.
pub(in crate::mcp) fn legacy_result(revision: Revision, method: &str, result: Bytes) -> Bytes {
    let raw = str::from_utf8(&result).unwrap_or("{}");
    let structured = edit::member(raw, "structuredContent").map(kind);
    let is_too_new = structured
        .is_some_and(|structured| structured != Kind::Object || revision < Revision::V2025_06_18);
    let mut legacy = Cow::from(raw);
    for name in ["resultType", "ttlMs", "cacheScope"] {
        legacy = without(legacy, name);
    }
    if is_too_new {
        legacy = without(legacy, "structuredContent");
    }
    if method == "tools/list" {
        legacy = with_object_schemas(legacy);
    }
    match legacy {
        Cow::Borrowed(_) => result,
        Cow::Owned(legacy) => legacy.into(),
    }
}

/// A page of tools without the output schemas that legacy clients cannot read: before the
/// modern era structured content is an object, and clients insist on it where a schema is told.
fn with_object_schemas(page: Cow<'_, str>) -> Cow<'_, str> {
    let is_fit = |tool: &str| {
        edit::member(tool, "outputSchema")
            .is_none_or(|schema| edit::text(schema, "type").as_deref() == Some("object"))
    };
    let tools = edit::member(&page, "tools").unwrap_or("[]");
    if edit::elements(tools).all(is_fit) {
        return page;
    }
    let tool = |tool| match is_fit(tool) {
        true => tool.to_owned(),
        false => edit::without(tool, "outputSchema"),
    };
    let tools: Vec<_> = edit::elements(tools).map(tool).collect();
    let tools = format!("[{}]", tools.join(","));
    edit::replaced(&page, "tools", &tools).map_or(page, Cow::from)
}

/// The error of a modern server for a legacy client.
pub(in crate::mcp) fn legacy_error(method: &str, error: &str) -> Option<String> {
    let is_it = method == "resources/read" && code(error) == Some(INVALID_PARAMS);
    is_it.then(|| with_code(error, RESOURCE_NOT_FOUND))
}

/// What the error of a legacy server is to a modern client.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::mcp) enum ModernError {
    /// The same.
    Same,
    /// Another error.
    Error(String),
    /// No error, but questions: a result.
    Questions(String),
}

/// The error of a legacy server for a modern client; `takes_urls` tells whether that can send
/// its user to a web page.
pub(in crate::mcp) fn modern_error(error: &str, takes_urls: bool) -> ModernError {
    match code(error) {
        Some(RESOURCE_NOT_FOUND) => ModernError::Error(with_code(error, INVALID_PARAMS)),
        Some(URL_REQUIRED) => match questions_of(error).filter(|_| takes_urls) {
            Some(requests) => ModernError::Questions(input_required(&requests, None)),
            None => ModernError::Error(with_code(error, INTERNAL_ERROR)),
        },
        _ => ModernError::Same,
    }
}

/// The pages that a user must have seen first, as questions.
fn questions_of(error: &str) -> Option<String> {
    let pages = edit::member(edit::member(error, "data")?, "elicitations")?;
    let mut requests = vec![b'{'];
    for (index, page) in edit::elements(pages).enumerate() {
        let page = match edit::member(page, "mode") {
            Some(_) => page.to_owned(),
            None => edit::with_first(page, "mode", "\"url\""),
        };
        let asked = format!(r#"{{"method":"elicitation/create","params":{page}}}"#);
        put_member(&mut requests, &format!("tb{}", index + 1), asked);
    }
    requests.push(b'}');
    let requests = String::from_utf8(requests).ok()?;
    edit::members(&requests).next()?;
    Some(requests)
}

/// A result that asks; `state` is what the caller is to give back, a text of ours.
pub(in crate::mcp) fn input_required(requests: &str, state: Option<&str>) -> String {
    let mut result = vec![b'{'];
    put_member(&mut result, "resultType", "\"input_required\"");
    put_member(&mut result, "inputRequests", requests);
    if let Some(state) = state {
        put_member(&mut result, "requestState", quoted(state));
    }
    result.push(b'}');
    String::from_utf8(result).expect("made of text")
}

/// What a server said of itself, less what does not pass to the other era.
pub(in crate::mcp) fn crossed_greeting(greeting: &Json) -> Json {
    let raw = greeting.as_str();
    let Some(capabilities) = edit::member(raw, "capabilities") else { return greeting.clone() };
    let mut kept = Cow::from(capabilities);
    for name in ["tasks", "extensions"] {
        kept = without(kept, name);
    }
    match kept {
        Cow::Borrowed(_) => greeting.clone(),
        Cow::Owned(kept) => edit::replaced(raw, "capabilities", &kept)
            .map_or_else(|| greeting.clone(), Json::from_trusted),
    }
}

/// The object without its member `name`; the same text if it has none.
fn without<'a>(object: Cow<'a, str>, name: &str) -> Cow<'a, str> {
    match edit::member(&object, name) {
        Some(_) => Cow::from(edit::without(&object, name)),
        None => object,
    }
}

/// The object with `name` as its last member, or in the place of the one that it had.
pub(in crate::mcp) fn with_last(object: &str, name: &str, value: impl AsRef<[u8]>) -> String {
    let value = str::from_utf8(value.as_ref()).unwrap_or("null");
    if let Some(replaced) = edit::replaced(object, name, value) {
        return replaced;
    }
    let kept = object.trim_end();
    let mut out = kept.strip_suffix('}').unwrap_or("{").trim_end().as_bytes().to_vec();
    put_member(&mut out, name, value);
    out.push(b'}');
    String::from_utf8(out).expect("made of text")
}

fn code(error: &str) -> Option<i64> {
    edit::member(error, "code")?.parse().ok()
}

fn with_code(error: &str, code: i64) -> String {
    edit::replaced(error, "code", &code.to_string()).unwrap_or_else(|| error.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_a_legacy_server_lose_what_is_modern() {
        let check = |params: &str, expected: &str| assert_eq!(legacy_params(params), expected);
        check(
            r#"{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
            r#"{"name":"a"}"#,
        );
        check(
            r#"{"_meta":{"io.modelcontextprotocol/x":1,"progressToken":1e0,"my/k":1.0},"task":{},"uri":"a"}"#,
            r#"{"_meta":{"progressToken":1e0,"my/k":1.0},"uri":"a"}"#,
        );
        check(r#"{"requestState":"x","inputResponses":{}}"#, "{}");
        check(r#"{ "a" : 1.0 }"#, r#"{ "a" : 1.0 }"#);
    }

    #[test]
    fn requests_for_a_modern_server_say_who_calls() {
        let (capabilities, client) =
            (Json::from_trusted(r#"{"roots":{}}"#), Json::from_trusted(r#"{"name":"ed"}"#));
        let who = Introduced { capabilities: &capabilities, client: &client, level: None };
        let who_hears = Introduced { level: Some(Level::Info), ..who };
        let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"ed"}"#;
        assert_eq!(modern_params(None, who), format!(r#"{{"_meta":{{{meta}}}}}"#));
        let params = r#"{"_meta":{"k":1.0},"name":"a","task":{"ttl":1}}"#;
        let level = r#""io.modelcontextprotocol/logLevel":"info""#;
        assert_eq!(
            modern_params(Some(params), who_hears),
            format!(r#"{{"_meta":{{"k":1.0,{meta},{level}}},"name":"a"}}"#)
        );
    }

    #[test]
    fn results_gain_and_lose_what_is_modern() {
        let server = r#"{"name":"w"}"#;
        let stamp = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"w"}"#;
        let modern = modern_result("resources/read", r#"{"contents":[],"z":1.0}"#, server);
        assert_eq!(
            str::from_utf8(&modern).unwrap(),
            format!(
                r#"{{"resultType":"complete","contents":[],"z":1.0,"ttlMs":0,"cacheScope":"private",{stamp}}}}}"#
            )
        );
        let modern = modern_result("tools/call", r#"{"_meta":{"q":1},"content":[]}"#, server);
        assert_eq!(
            str::from_utf8(&modern).unwrap(),
            format!(r#"{{"resultType":"complete",{stamp},"q":1}},"content":[]}}"#)
        );
        let check = |revision, method, result: &'static str, expected: &str| {
            let legacy = legacy_result(revision, method, Bytes::from_static(result.as_bytes()));
            assert_eq!(str::from_utf8(&legacy).unwrap(), expected);
        };
        let (old, new) = (Revision::V2025_03_26, Revision::V2025_11_25);
        let object = r#"{"content":[],"structuredContent":{"a":1e2}}"#;
        check(new, "tools/call", object, object);
        check(old, "tools/call", object, r#"{"content":[]}"#);
        check(
            new,
            "tools/list",
            r#"{"tools":[{"name":"a","outputSchema":{"type":"string"}},{"name":"b","outputSchema":{"type":"object"}}],"ttlMs":1,"cacheScope":"public"}"#,
            r#"{"tools":[{"name":"a"},{"name":"b","outputSchema":{"type":"object"}}]}"#,
        );
    }

    #[test]
    fn errors_take_the_number_of_the_other_era() {
        let error = r#"{"code":-32042,"message":"go","data":{"elicitations":[{"mode":"url","url":"https://x","message":"m"}]}}"#;
        assert_eq!(
            modern_error(error, false),
            ModernError::Error(error.replace("-32042", "-32603"))
        );
        let ModernError::Questions(asked) = modern_error(error, true) else { panic!() };
        assert_eq!(
            asked,
            r#"{"resultType":"input_required","inputRequests":{"tb1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m"}}}}"#
        );
        assert_eq!(modern_error(r#"{"code":1}"#, true), ModernError::Same);
        let error = r#"{"code":-32602,"message":"m"}"#;
        assert_eq!(legacy_error("tools/call", error), None);
        assert_eq!(legacy_error("resources/read", error), Some(error.replace("602", "002")));
    }

    #[test]
    fn tasks_and_extensions_stay_on_their_side() {
        let check = |greeting: &'static str, expected: &str| {
            assert_eq!(crossed_greeting(&Json::from_trusted(greeting)).as_str(), expected);
        };
        let plain = r#"{"capabilities":{"tools":{}},"x":1.0}"#;
        check(plain, plain);
        check(r#"{"capabilities":{"tasks":{},"tools":{},"extensions":{"a/b":{}}},"x":1.0}"#, plain);
    }
}
