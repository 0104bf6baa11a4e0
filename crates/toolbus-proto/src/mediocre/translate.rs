//! Between the wire and the bus: failures, traces and lists of tools (`docs/protocols/mediocre.md` 7 to 9).

use super::decode::Reading;
use super::event::{FramingCode, FramingError, PeerError};
use super::wire::members;
use crate::json::{Json, Kind, edit, write_string};
use crate::limit::{self, told_by_peer};
use crate::listing;
use crate::tool::{Code, Failure, FailureKind, ToolSpec, Trace};

/// Lists the tools; names that begin as this does are ours and never a tool's.
pub const TOOLS: &str = "toolbus.tools";
const OURS: &str = "toolbus.";

/// The reasons of a peer that takes no calls of this caller.
const TURNED_AWAY: [&str; 2] = ["unauthorized", "forbidden"];

/// What people are told of an error that has no message.
const NO_MESSAGE: &str = "the peer reported an error without a message";

/// A failure as we tell it.
pub fn error(failure: &Failure) -> PeerError {
    let word = |code: &'static str| Some(Json::of(code));
    let own = || failure.code.as_ref().map(code_json);
    let (code, reason) = match failure.kind {
        FailureKind::UnknownTool => (word("method_not_found"), None),
        FailureKind::InvalidArguments => (word("invalid"), None),
        FailureKind::Failed => (own(), None),
        FailureKind::TimedOut => (word("deadline_exceeded"), None),
        FailureKind::Cancelled => (word("canceled"), None),
        FailureKind::Gone => (word("unavailable"), word("gone")),
        FailureKind::Unavailable => (word("unavailable"), None),
        FailureKind::BrokeProtocol => (word("protocol"), own()),
        FailureKind::TooLarge => (word("too_large"), None),
    };
    if let Some(refused) = refused(failure) {
        return told(&failure.message, &refused);
    }
    let detail = failure.detail.as_ref().map(Json::compact);
    let meta = [("code", code), ("reason", reason), ("detail", detail)];
    // What the bus calls a tool is a method here.
    match failure.message.strip_prefix("no such tool: ") {
        Some(name) if !failure.from_peer => told(&format!("no such method: {name}"), &meta),
        _ => told(&failure.message, &meta),
    }
}

/// What a caller is told that we do not let in, or whose calls we count: the reason stands beside
/// the code.
fn refused(failure: &Failure) -> Option<Vec<(&'static str, Option<Json>)>> {
    let detail = failure.detail.as_ref().filter(|_| failure.kind == FailureKind::Unavailable)?;
    let reason = edit::text(detail.as_str(), "reason")?;
    let mut known = TURNED_AWAY.into_iter().chain(limit::REASONS);
    let reason = known.find(|known| *known == reason)?;
    let raw = |name: &str| {
        edit::member(detail.as_str(), name).map(|raw| Json::from_trusted(raw.to_owned()))
    };
    Some(vec![
        ("code", Some(Json::of("unavailable"))),
        ("reason", Some(Json::of(reason))),
        ("retry_after_ms", raw("retry_after_ms")),
        ("login", raw("login")),
        ("scope", raw("scope")),
    ])
}

/// The error of a call without a method.
pub fn method_missing() -> PeerError {
    let meta = [("code", Some(Json::of("invalid"))), ("reason", Some(Json::of("method_missing")))];
    told("method must be a non-empty string", &meta)
}

/// The error of bytes that could not be read, by these rules.
pub fn protocol_error(error: &FramingError, reading: &Reading) -> PeerError {
    let code = if error.code.is_limit() { "too_large" } else { "protocol" };
    let meta = [
        ("code", Some(Json::of(code))),
        ("reason", Some(Json::of(error.code.code()))),
        ("offset", Some(Json::of(&error.offset))),
    ];
    let Reading { object_bytes_max, depth_max, .. } = reading;
    let offset = error.offset;
    let msg = match error.code {
        FramingCode::TooLarge => {
            format!("an object is over the limit of {object_bytes_max} bytes at byte {offset}")
        }
        FramingCode::TooDeep => {
            format!("an object is nested deeper than {depth_max} levels at byte {offset}")
        }
        _ => error.to_string(),
    };
    told(&msg, &meta)
}

/// What came is no response: read as one it would be a success without a value.
pub fn of_another_wire() -> Failure {
    let message = "the server answered with a message of another protocol: it has an `id`";
    Failure::new(FailureKind::BrokeProtocol, message)
}

/// The error of something that is our own fault.
pub fn internal_error(message: &str) -> PeerError {
    told(message, &[("code", Some(Json::of("internal")))])
}

/// The status of an HTTP answer to a body that could not be read.
pub fn http_status(code: FramingCode) -> u16 {
    if code.is_limit() { 413 } else { 400 }
}

pub(super) fn told(msg: &str, members: &[(&str, Option<Json>)]) -> PeerError {
    let mut meta = Vec::new();
    for (name, value) in members {
        let Some(value) = value else { continue };
        meta.push(if meta.is_empty() { b'{' } else { b',' });
        write_string(&mut meta, name);
        meta.push(b':');
        meta.extend_from_slice(value.as_bytes());
    }
    let is_there = !meta.is_empty();
    meta.push(b'}');
    let msg = if msg.is_empty() { NO_MESSAGE } else { msg };
    PeerError { msg: msg.to_owned(), meta: is_there.then(|| Json::from_trusted(meta)) }
}

fn code_json(code: &Code) -> Json {
    match code {
        Code::Number(number) => Json::of(number),
        Code::Word(word) => Json::of(word),
    }
}

/// What a peer's error means to us.
pub fn failure(error: &PeerError) -> Failure {
    let message = if error.msg.is_empty() { NO_MESSAGE } else { &error.msg };
    let mut failure = Failure::new(FailureKind::Failed, message);
    failure.from_peer = true;
    let Some(meta) = &error.meta else { return failure };
    let members = members(meta).unwrap_or_default();
    let member = |name: &str| members.iter().find(|(found, _)| found == name).map(|(_, json)| json);
    let code = member("code").and_then(code);
    let reason = member("reason").and_then(code_word);
    failure.kind = match &code {
        Some(Code::Word(word)) => match word.as_str() {
            "method_not_found" => FailureKind::UnknownTool,
            "invalid" => FailureKind::InvalidArguments,
            "deadline_exceeded" => FailureKind::TimedOut,
            "canceled" => FailureKind::Cancelled,
            "unavailable" if reason.as_deref() == Some("gone") => FailureKind::Gone,
            "unavailable" => FailureKind::Unavailable,
            "protocol" => FailureKind::BrokeProtocol,
            "too_large" => FailureKind::TooLarge,
            _ => FailureKind::Failed,
        },
        _ => FailureKind::Failed,
    };
    failure.code = match failure.kind {
        FailureKind::Failed => code.clone(),
        FailureKind::BrokeProtocol => reason.map(Code::Word),
        _ => None,
    };
    // A limit of the peer's tells its reason beside the code.
    if failure.kind == FailureKind::Unavailable
        && let Some(refused) = told_by_peer(meta.as_str())
    {
        failure.detail = Some(refused);
        return failure;
    }
    // What is written as we write it has its detail in a place of its own.
    let is_ours = meta.kind() == Kind::Object
        && members.iter().all(|(name, _)| matches!(&**name, "code" | "reason" | "detail"))
        && (code.is_some() || member("code").is_none());
    failure.detail = match is_ours {
        true => member("detail").filter(|detail| !detail.is_null()).cloned(),
        false => Some(meta.clone()),
    };
    failure
}

/// Does the peer say so to all that we may ask, because of who we are?
pub(super) fn turns_away(error: &PeerError) -> bool {
    let told = |name| edit::text(error.meta.as_ref()?.as_str(), name);
    let reason = told("reason");
    told("code").is_some_and(|code| code == "unavailable")
        && reason.is_some_and(|reason| TURNED_AWAY.iter().any(|known| *known == reason))
}

fn code(json: &Json) -> Option<Code> {
    match json.kind() {
        Kind::String => json.string().map(Code::Word),
        Kind::Number => json.as_str().parse().ok().map(Code::Number),
        _ => None,
    }
}

fn code_word(json: &Json) -> Option<String> {
    json.string()
}

/// What a caller is told of a response that could not be read.
pub(super) fn broke(error: &FramingError) -> Failure {
    let message = match error.code.is_truncation() {
        true => "the response broke off".to_owned(),
        false => format!("the response cannot be read: {error}"),
    };
    let mut failure = Failure::new(FailureKind::BrokeProtocol, message);
    failure.code = Some(Code::Word(error.code.code().to_owned()));
    failure
}

/// The trace that `debug` tells of.
pub fn trace(debug: &Json) -> Option<Trace> {
    let members = members(debug)?;
    let text = |name: &str| {
        let member = members.iter().find(|(found, _)| found == name);
        member.and_then(|(_, json)| json.string())
    };
    Trace::read(&text("traceparent")?, text("tracestate").as_deref())
}

/// The `debug` of a call that is a part of a trace.
pub fn debug(trace: &Trace) -> Json {
    let mut text = br#"{"traceparent":"#.to_vec();
    write_string(&mut text, trace.parent());
    if let Some(state) = trace.state() {
        text.extend_from_slice(br#","tracestate":"#);
        write_string(&mut text, state);
    }
    text.push(b'}');
    Json::from_trusted(text)
}

/// The answer to [`TOOLS`]: sorted by name, and none of our own.
pub fn tools(tools: &[ToolSpec]) -> Json {
    let mut offered: Vec<_> =
        tools.iter().filter(|tool| !tool.name.as_str().starts_with(OURS)).collect();
    offered.sort_by(|a, b| a.name.cmp(&b.name));
    listing::tools(offered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &'static str) -> Json {
        Json::parse(text).unwrap()
    }

    fn read(msg: &str, meta: Option<&'static str>) -> Failure {
        failure(&PeerError { msg: msg.to_owned(), meta: meta.map(json) })
    }

    #[test]
    fn a_failure_survives_the_wire() {
        use FailureKind::*;
        for kind in [
            UnknownTool,
            InvalidArguments,
            Failed,
            TimedOut,
            Cancelled,
            Gone,
            BrokeProtocol,
            Unavailable,
            TooLarge,
        ] {
            let mut told = Failure::new(kind, "why");
            told.detail = Some(json(r#"{"a":[1.0]}"#));
            told.from_peer = true;
            if let Failed | BrokeProtocol = kind {
                told.code = Some(Code::Word("luck".into()));
            }
            assert_eq!(failure(&error(&told)), told);
        }
    }

    #[test]
    fn why_a_caller_is_refused_stands_beside_the_code() {
        let mut refused = Failure::new(FailureKind::Unavailable, "too many calls");
        for (detail, expected) in [
            (r#"{"reason":"unauthorized"}"#, r#"{"code":"unavailable","reason":"unauthorized"}"#),
            (
                r#"{"reason":"rate_limited","retry_after_ms":7}"#,
                r#"{"code":"unavailable","reason":"rate_limited","retry_after_ms":7}"#,
            ),
            (r#"{"reason":"busy"}"#, r#"{"code":"unavailable","reason":"busy"}"#),
            (r#"{"reason":"x"}"#, r#"{"code":"unavailable","detail":{"reason":"x"}}"#),
        ] {
            refused.detail = Some(json(detail));
            let told = error(&refused);
            assert_eq!(told.meta, Some(json(expected)));
            if !detail.contains("unauthorized") {
                // Who calls reads the same.
                let read = failure(&told);
                assert_eq!((read.kind, read.code.clone()), (refused.kind, None));
                assert_eq!(read.detail, refused.detail);
            }
        }
    }

    #[test]
    fn what_there_is_nothing_of_is_left_out() {
        let bare = error(&Failure::new(FailureKind::Failed, ""));
        assert_eq!(bare, PeerError { msg: NO_MESSAGE.into(), meta: None });
        let mut numbered = Failure::new(FailureKind::Failed, "x");
        numbered.code = Some(Code::Number(-7));
        assert_eq!(error(&numbered).meta, Some(json(r#"{"code":-7}"#)));
    }

    #[test]
    fn foreign_errors_are_kept_whole() {
        let odd = read("x", Some(r#"{"code":"invalid","path":"a"}"#));
        assert_eq!(odd.kind, FailureKind::InvalidArguments);
        assert_eq!(odd.detail, Some(json(r#"{"code":"invalid","path":"a"}"#)));
        let list = read("", Some("[1]"));
        assert_eq!((&*list.message, list.detail), (NO_MESSAGE, Some(json("[1]"))));
        let number = read("x", Some(r#"{"code":404}"#));
        assert_eq!((number.kind, number.code), (FailureKind::Failed, Some(Code::Number(404))));
        assert_eq!(number.detail, None);
        let half = read("x", Some(r#"{"code":1.5}"#));
        assert_eq!((half.code, half.detail), (None, Some(json(r#"{"code":1.5}"#))));
    }

    #[test]
    fn a_trace_stands_in_debug() {
        const DEBUG: &str = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b"}"#;
        let found = trace(&json(DEBUG)).unwrap();
        assert_eq!(debug(&found).as_str(), DEBUG);
        assert_eq!(trace(&json(r#"{"traceparent":"00-x"}"#)), None);
    }
}
