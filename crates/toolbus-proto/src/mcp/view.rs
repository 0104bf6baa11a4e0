//! What a view changes in the words of this wire: the entry of a tool in a list, the arguments of a
//! call, and as what a request counts. Every byte that is not meant stays.

use bytes::Bytes;
use memchr::memmem;

use super::several::tool;
use super::wire::Revision;
use crate::json::Json;
use crate::json::edit;
use crate::view::{Rule, Sort};

/// One entry of `tools/list`, changed as its rule says, but for its name. A title that it did not have
/// is added where it is known who reads it.
pub fn entry(text: &str, rule: &Rule) -> String {
    let name = edit::text(text, "name").unwrap_or_default();
    tool(text, &name, Some(rule), Revision::V2024_11_05)
}

/// The parameters of a call with other arguments.
pub fn with_arguments(params: &str, arguments: &Json) -> Option<String> {
    edit::replaced(params, "arguments", arguments.as_str())
        .or_else(|| edit::with_behind(params, "name", "arguments", arguments.as_str()))
}

/// The same of parameters as they were written.
pub fn request_with_arguments(params: &Bytes, arguments: &Json) -> Option<Bytes> {
    with_arguments(str::from_utf8(params).ok()?, arguments).map(Bytes::from)
}

/// By what the call is found again that the client of this result has to go on with, because we
/// hold it; `None` for any other result, and for a question that passes as a server asks it.
pub fn held_by(result: &[u8]) -> Option<String> {
    memmem::find(result, STATE.as_bytes())?;
    let text = str::from_utf8(result).ok()?;
    let requests = edit::member(text, "inputRequests")?;
    let is_ours = edit::members(requests).all(|(key, _)| is_key_of_ours(&key));
    state_in(text).filter(|state| is_ours && is_token(state))
}

/// By what the call is to be found again that a client goes on with, if it does.
pub fn resumed_by(params: &[u8]) -> Option<String> {
    memmem::find(params, STATE.as_bytes())?;
    let text = str::from_utf8(params).ok()?;
    state_in(text).filter(|state| is_token(state))
}

const STATE: &str = "requestState";
/// What all tokens of held calls look like.
const TOKEN_DIGITS: usize = 32;

fn state_in(object: &str) -> Option<String> {
    edit::text(object, STATE).map(Into::into)
}

fn is_token(state: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    state.len() == TOKEN_DIGITS && state.bytes().all(is_digit)
}

/// Questions of held calls are numbered: `tb1`.
fn is_key_of_ours(key: &str) -> bool {
    let number = key.strip_prefix("tb").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// As what a request counts, with the server's own name for it; `None` if it is free.
pub fn counted_as(method: &[u8], params: &str) -> Option<(Sort, String)> {
    let text = |name: &str| edit::text(params, name).map(std::borrow::Cow::into_owned);
    Some(match method {
        b"tools/call" => (Sort::Tool, text("name")?),
        b"prompts/get" => (Sort::Prompt, text("name")?),
        b"resources/read" => (Sort::Resource, text("uri")?),
        b"completion/complete" => {
            let of = edit::member(params, "ref")?;
            match (edit::text(of, "name"), edit::text(of, "uri")) {
                (Some(name), _) => (Sort::Prompt, name.into_owned()),
                (None, uri) => (Sort::Resource, uri?.into_owned()),
            }
        }
        method if is_foreign(method) => {
            (Sort::Method, String::from_utf8_lossy(method).into_owned())
        }
        _ => return None,
    })
}

/// Is it a method that no revision of the wire has?
pub fn is_foreign(method: &[u8]) -> bool {
    const ROOMS: [&[u8]; 11] = [
        b"tools/",
        b"prompts/",
        b"resources/",
        b"completion/",
        b"logging/",
        b"notifications/",
        b"sampling/",
        b"roots/",
        b"elicitation/",
        b"tasks/",
        b"server/",
    ];
    let is_ours = matches!(method, b"initialize" | b"ping")
        || method.starts_with(b"subscriptions/")
        || ROOMS.iter().any(|room| method.starts_with(room));
    !is_ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_put_where_they_stand() {
        let arguments = Json::parse(r#"{"a":1}"#).unwrap();
        let with = |params: &'static str| {
            let request =
                request_with_arguments(&Bytes::from_static(params.as_bytes()), &arguments);
            let params = with_arguments(params, &arguments).unwrap();
            assert_eq!(request.unwrap(), params);
            params
        };
        assert_eq!(
            with(r#"{"name":"x","arguments":{},"y":1.0}"#),
            r#"{"name":"x","arguments":{"a":1},"y":1.0}"#
        );
        assert_eq!(
            with(r#"{"_meta":{}, "name":"x" }"#),
            r#"{"_meta":{}, "name":"x","arguments":{"a":1} }"#
        );
    }

    #[test]
    fn a_held_call_is_found_again_by_a_token_of_ours() {
        const TOKEN: &str = "0123456789abcdef0123456789abcdef";
        let held = |result: &str| held_by(result.replace("TOKEN", TOKEN).as_bytes());
        let token = || Some(TOKEN.to_owned());
        assert_eq!(
            held(r#"{"inputRequests":{"tb1":{},"tb12":{}},"requestState":"TOKEN"}"#),
            token()
        );
        for foreign in [
            r#"{"inputRequests":{"tb1":{}},"requestState":"s"}"#,
            r#"{"inputRequests":{"city":{}},"requestState":"TOKEN"}"#,
            r#"{"inputRequests":{"tb":{}},"requestState":"TOKEN"}"#,
            r#"{"requestState":"TOKEN"}"#,
            r#"{"content":["requestState"]}"#,
        ] {
            assert_eq!(held(foreign), None, "{foreign}");
        }
        let resumed = |params: &str| resumed_by(params.replace("TOKEN", TOKEN).as_bytes());
        assert_eq!(resumed(r#"{"name":"a","requestState":"TOKEN"}"#), token());
        assert_eq!(resumed(r#"{"name":"a","requestState":"TOKENa"}"#), None);
        assert_eq!(resumed(r#"{"name":"a","arguments":{"requestState":"TOKEN"}}"#), None);
    }

    #[test]
    fn calls_count_and_the_rest_is_free() {
        let counts = |method: &str, params| {
            counted_as(method.as_bytes(), params).map(|(sort, name)| format!("{sort:?} {name}"))
        };
        assert_eq!(counts("tools/call", r#"{"name":"a"}"#).unwrap(), "Tool a");
        // What goes on with a call that is held is told by its token, and by nothing else.
        assert_eq!(counts("tools/call", r#"{"name":"a","requestState":"s"}"#).unwrap(), "Tool a");
        assert_eq!(counts("resources/read", r#"{"uri":"a:b"}"#).unwrap(), "Resource a:b");
        let reference = r#"{"ref":{"type":"ref/prompt","name":"p"}}"#;
        assert_eq!(counts("completion/complete", reference).unwrap(), "Prompt p");
        assert_eq!(counts("acme/x", "{}").unwrap(), "Method acme/x");
        for free in ["tools/list", "ping", "initialize", "resources/subscribe", "tasks/get"] {
            assert_eq!(counts(free, r#"{"name":"a","uri":"u"}"#), None, "{free}");
        }
    }
}
