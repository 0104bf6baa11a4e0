//! Headers that say again what the body says (`docs/protocols/mcp.md` 1.6).
//!
//! A modern request mirrors its version, method, name and marked arguments, so that a proxy that
//! stands between can route without reading bodies. We compare as a server and write them as
//! a client.

use std::borrow::Cow;

use thiserror::Error;

use crate::collect::{base64, from_base64};
use crate::json::Kind;
use crate::json::edit;
use crate::jsonrpc::{kind, string};
use crate::mcp::wire::{HEADER_MISMATCH, Refusal};
use crate::tool::ToolSpec;

const VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";
const PARAM: &str = "Mcp-Param-";

/// The mirroring headers of one request, as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirror {
    version: Option<String>,
    method: Option<String>,
    name: Option<String>,
    /// By the lower-case rest of their names.
    params: Vec<(String, String)>,
    /// The input schema of the tool that is called, if it is known beforehand.
    input: Option<String>,
    /// The tools were listed: if no schema is known, headers repeat none of the arguments.
    is_listed: bool,
}

impl Mirror {
    /// Picks them out of all headers.
    pub fn read<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Mirror {
        let mut mirror = Mirror::default();
        for (name, value) in headers {
            let value = value.trim_matches([' ', '\t']).to_owned();
            let place = if name.eq_ignore_ascii_case(VERSION) {
                &mut mirror.version
            } else if name.eq_ignore_ascii_case(METHOD) {
                &mut mirror.method
            } else if name.eq_ignore_ascii_case(NAME) {
                &mut mirror.name
            } else {
                let is_param =
                    name.get(..PARAM.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAM));
                if is_param {
                    mirror.params.push((name[PARAM.len()..].to_ascii_lowercase(), value));
                }
                continue;
            };
            *place = Some(value);
        }
        mirror
    }

    /// The version that the headers name.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Compares arguments by this input schema of the tool that is called.
    pub(super) fn by_input(self, input: Option<&str>) -> Mirror {
        Mirror { input: input.map(str::to_owned), ..self }
    }

    /// The tools were listed, and the schema is known if it matters.
    pub(in crate::mcp) fn listed(self, input: Option<&str>) -> Mirror {
        let input = input.map(str::to_owned).or(self.input);
        Mirror { input, is_listed: true, ..self }
    }

    /// Is it known which arguments headers repeat?
    pub(in crate::mcp) fn is_listed(&self) -> bool {
        self.is_listed || self.input.is_some()
    }

    pub(in crate::mcp) fn check_version(&self, body: &str) -> Result<(), Refusal> {
        same(VERSION, self.version.as_deref(), body)
    }

    pub(in crate::mcp) fn check_method(&self, body: &str) -> Result<(), Refusal> {
        same(METHOD, self.method.as_deref(), body)
    }

    /// `name` is the member of the parameters, raw.
    pub(in crate::mcp) fn check_name(
        &self,
        method: &str,
        params: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), Refusal> {
        let body = match named_by(method) {
            Some("name") => name.and_then(string),
            _ => name_of(method, params),
        };
        let Some(body) = body else { return Ok(()) };
        let header = self.name.as_deref().map(|value| decoded(NAME, value)).transpose()?;
        same(NAME, header.as_deref(), &body)
    }

    /// `name` and `args` are members of the parameters, raw.
    pub(in crate::mcp) fn check_params(
        &self,
        method: &str,
        name: Option<&str>,
        args: Option<&str>,
        tools: Option<&[ToolSpec]>,
    ) -> Result<(), Refusal> {
        let name = name.filter(|_| method == "tools/call").and_then(string);
        let Some(name) = name else { return Ok(()) };
        let tool = tools.and_then(|tools| tools.iter().find(|tool| tool.name.as_str() == name));
        let input = self.input.as_deref().or(tool.map(|tool| tool.input.as_str()));
        let Some(Ok(mirrored)) = input.map(mirrored) else { return Ok(()) };
        let args = args.unwrap_or("{}");
        for Mirrored { path, header } in mirrored {
            let shown = format!("{PARAM}{header}");
            let found = self.params.iter().find(|(name, _)| name.eq_ignore_ascii_case(&header));
            let found = found.map(|(_, value)| decoded(&shown, value)).transpose()?;
            match (argument(args, &path), found) {
                (None, None) => {}
                (None, Some(_)) => {
                    let message = format!("{shown} is there, the argument is not");
                    return Err(mismatch(message));
                }
                (Some(argument), found) => {
                    let is_number = kind(argument) == Kind::Number;
                    let is_same_number = is_number
                        && found.as_deref().is_some_and(|found| same_number(found, argument));
                    if !is_same_number {
                        same(&shown, found.as_deref(), &plain(argument))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The headers that a client sends with a modern request; `input` is the schema of the tool
/// it calls.
pub fn mirror_of(
    version: &str,
    method: &str,
    params: Option<&str>,
    input: Option<&str>,
) -> Vec<(String, String)> {
    let mut headers =
        vec![(VERSION.to_owned(), version.to_owned()), (METHOD.to_owned(), method.to_owned())];
    if let Some(name) = name_of(method, params) {
        headers.push((NAME.to_owned(), encode_value(&name).into_owned()));
    }
    let args = params.and_then(|params| edit::member(params, "arguments"));
    let mirrored = input.and_then(|input| mirrored(input).ok()).unwrap_or_default();
    for Mirrored { path, header } in mirrored {
        if let Some(argument) = args.and_then(|args| argument(args, &path)) {
            let value = encode_value(&plain(argument)).into_owned();
            headers.push((format!("{PARAM}{header}"), value));
        }
    }
    headers
}

/// What `Mcp-Name` repeats.
fn name_of<'a>(method: &str, params: Option<&'a str>) -> Option<Cow<'a, str>> {
    edit::text(params?, named_by(method)?)
}

/// The parameter that says what a request is about.
fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ if method.starts_with("tasks/") => Some("taskId"),
        _ => None,
    }
}

/// An argument that a header repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored {
    path: Vec<String>,
    header: String,
}

/// Why a tool cannot be offered to HTTP clients.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadMirror {
    /// The header's name is none.
    #[error("`{0}` is no name of a header")]
    NotAToken(String),
    /// Two properties want one header.
    #[error("two properties name the header `{0}`")]
    Twice(String),
    /// Only texts, integers and truth values can be repeated.
    #[error("`{0}` is neither string, integer nor boolean")]
    Type(String),
}

/// The arguments that headers repeat, by the schema of a tool's input.
pub fn mirrored(schema: &str) -> Result<Vec<Mirrored>, BadMirror> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    Ok(found)
}

/// Depth is that of JSON, which was bounded when the schema was read.
fn collect(
    schema: &str,
    path: &mut Vec<String>,
    found: &mut Vec<Mirrored>,
) -> Result<(), BadMirror> {
    let Some(properties) = edit::member(schema, "properties") else { return Ok(()) };
    for (name, property) in edit::members(properties) {
        path.push(name.clone().into_owned());
        if let Some(raw) = edit::member(property, "x-mcp-header") {
            let header = string(raw).filter(|header| is_token(header));
            let header = header.ok_or_else(|| BadMirror::NotAToken(raw.to_owned()))?.into_owned();
            if found.iter().any(|other| other.header.eq_ignore_ascii_case(&header)) {
                return Err(BadMirror::Twice(header));
            }
            let type_name = edit::text(property, "type");
            if !matches!(type_name.as_deref(), Some("string" | "integer" | "boolean")) {
                return Err(BadMirror::Type(name.into_owned()));
            }
            found.push(Mirrored { path: path.clone(), header });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

/// The argument at `path`, unless it is absent or null.
fn argument<'a>(args: &'a str, path: &[String]) -> Option<&'a str> {
    let found = path.iter().try_fold(args, |object, name| edit::member(object, name))?;
    Some(found).filter(|raw| kind(raw) != Kind::Null)
}

/// An argument as a header has it: a text without its quotes.
fn plain(raw: &str) -> Cow<'_, str> {
    string(raw).unwrap_or(Cow::Borrowed(raw))
}

fn same_number(header: &str, argument: &str) -> bool {
    if header == argument {
        return true;
    }
    match (header.parse::<i128>(), argument.parse::<i128>()) {
        (Ok(header), Ok(argument)) => header == argument,
        _ => matches!((header.parse::<f64>(), argument.parse::<f64>()), (Ok(a), Ok(b)) if a == b),
    }
}

fn same(name: &str, header: Option<&str>, body: &str) -> Result<(), Refusal> {
    match header {
        None => Err(mismatch(format!("{name} is missing"))),
        Some(header) if header == body => Ok(()),
        Some(header) => Err(mismatch(format!("{name} is `{header}`, the body says `{body}`"))),
    }
}

fn decoded<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, Refusal> {
    decode_value(value).ok_or_else(|| mismatch(format!("{name} is not valid base64")))
}

fn mismatch(message: String) -> Refusal {
    Refusal::new(HEADER_MISMATCH, message)
}

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// A text as the value of a header.
pub fn encode_value(text: &str) -> Cow<'_, str> {
    let is_visible = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let has_bare_ends = !text.starts_with(' ') && !text.ends_with(' ');
    let looks_encoded = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    if is_visible && has_bare_ends && !looks_encoded {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", base64(text.as_bytes())))
}

/// The text in the value of a header, or `None` if it is encoded and cannot be read.
pub fn decode_value(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    let Some(inner) = inner else { return Some(Cow::Borrowed(value)) };
    String::from_utf8(from_base64(inner)?).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_that_headers_cannot_hold_are_encoded() {
        for (text, value) in [
            ("eu", "eu"),
            ("", ""),
            (" eu", "=?base64?IGV1?="),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
            ("=?base64?x", "=?base64?x"),
        ] {
            assert_eq!(encode_value(text), value);
            assert_eq!(decode_value(value).as_deref(), Some(text));
        }
        assert_eq!(decode_value("=?base64?SGVsbG8?="), None);
        assert_eq!(decode_value("=?BASE64?SGVsbG8=?=").as_deref(), Some("=?BASE64?SGVsbG8=?="));
    }

    #[test]
    fn marked_properties_are_found_through_properties_alone() {
        let schema = r#"{"properties":{"a":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"}}},
            "c":{"items":{"properties":{"d":{"type":"string","x-mcp-header":"D"}}}}}}"#;
        let found = mirrored(schema).unwrap();
        assert_eq!(found, [Mirrored { path: vec!["a".into(), "b".into()], header: "B".into() }]);
        for (property, why) in [
            (r#"{"type":"string","x-mcp-header":"a b"}"#, "`\"a b\"` is no name of a header"),
            (
                r#"{"type":"number","x-mcp-header":"X"}"#,
                "`p` is neither string, integer nor boolean",
            ),
            (r#"{"type":"string","x-mcp-header":""}"#, "`\"\"` is no name of a header"),
        ] {
            let schema = format!(r#"{{"properties":{{"p":{property}}}}}"#);
            assert_eq!(mirrored(&schema).unwrap_err().to_string(), why);
        }
        let twice = r#"{"properties":{"p":{"type":"string","x-mcp-header":"X"},"q":{"type":"string","x-mcp-header":"x"}}}"#;
        assert_eq!(mirrored(twice), Err(BadMirror::Twice("x".into())));
    }

    #[test]
    fn what_a_client_sends_a_server_takes() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"},"t":{"type":"boolean","x-mcp-header":"T"}}}"#;
        let tool = ToolSpec::new("w", crate::json::Json::parse(schema).unwrap());
        let params = r#"{"name":"w","arguments":{"n":42,"t":true}}"#;
        let headers = mirror_of("2026-07-28", "tools/call", Some(params), Some(schema));
        let check = |headers: &[(String, String)], params: &str| {
            let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let mirror = Mirror::read(pairs);
            mirror.check_version("2026-07-28")?;
            mirror.check_method("tools/call")?;
            let [name, args] = edit::pick(params, ["name", "arguments"]);
            mirror.check_name("tools/call", Some(params), name)?;
            mirror.check_params("tools/call", name, args, Some(std::slice::from_ref(&tool)))
        };
        assert_eq!(check(&headers, params), Ok(()));
        assert_eq!(check(&headers, r#"{"name":"w","arguments":{"n":42.0,"t":true}}"#), Ok(()));
        let refused = check(&headers, r#"{"name":"w","arguments":{"n":43,"t":true}}"#).unwrap_err();
        assert_eq!(refused.message, "Mcp-Param-N is `42`, the body says `43`");
        let refused = check(&headers, r#"{"name":"w","arguments":{"t":true}}"#).unwrap_err();
        assert_eq!(refused.message, "Mcp-Param-N is there, the argument is not");
    }

    proptest! {
        #[test]
        fn any_text_survives_a_header(text in any::<String>()) {
            let value = encode_value(&text).into_owned();
            prop_assert!(value.bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
            prop_assert_eq!(decode_value(&value), Some(text.into()));
        }
    }
}
