//! Between what stands in messages of this wire and what crosses the bus.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::flow::{Item, WholeItem};
use super::headers::Headers;
use super::wire::{self, CodeSays, FailureSays, HintsSay, ListedTool};
use crate::json::{Json, Kind, edit};
use crate::tool::{
    Code, Exit, Failure, FailureKind, Hints, LastWords, Native, Part, Piece, Provenance, ToolSpec,
    Trace, Wire,
};

/// What a failure says, as text. A tool that a view hides from its caller is told as one that no
/// subject is of.
pub(crate) fn told(failure: &Failure) -> Cow<'_, str> {
    let own = failure.message.strip_prefix("no such tool: `").filter(|_| !failure.from_peer);
    match own.and_then(|rest| rest.strip_suffix('`')) {
        Some(name) => Cow::Owned(format!("no such tool: {name}")),
        None => Cow::Borrowed(&failure.message),
    }
}

/// What a failure says, as an object.
pub(crate) fn says(failure: &Failure) -> FailureSays {
    let words = failure.last_words.as_deref();
    FailureSays {
        kind: failure.kind.as_str().to_owned(),
        message: told(failure).into_owned(),
        code: failure.code.clone().map(|code| match code {
            Code::Number(number) => CodeSays::Number(number),
            Code::Word(word) => CodeSays::Word(word),
        }),
        detail: failure.detail.as_ref().map(wire::value),
        status: words.and_then(|words| words.exit).map(|exit| exit.to_string()),
        stderr: words.map(|words| words.stderr.clone()).filter(|lines| !lines.is_empty()),
    }
}

/// The failure that an object says.
pub(crate) fn failure(says: FailureSays) -> Failure {
    let kind = kind(&says.kind).unwrap_or(FailureKind::Failed);
    let mut failure = Failure {
        code: says.code.map(|code| match code {
            CodeSays::Number(number) => Code::Number(number),
            CodeSays::Word(word) => Code::Word(word),
        }),
        detail: says.detail.and_then(|detail| wire::json(&detail)),
        from_peer: true,
        ..Failure::new(kind, says.message)
    };
    let exit = says.status.as_deref().and_then(exit);
    if exit.is_some() || says.stderr.is_some() {
        let stderr = says.stderr.unwrap_or_default();
        failure = failure.with_last_words(LastWords { exit, stderr, ..LastWords::default() });
    }
    failure
}

/// The kind of this name.
pub(crate) fn kind(name: &str) -> Option<FailureKind> {
    FailureKind::ALL.into_iter().find(|kind| kind.as_str() == name)
}

/// `exit status 3` or `signal 9`.
fn exit(text: &str) -> Option<Exit> {
    let number = |text: &str| text.parse().ok();
    match text.strip_prefix("exit status ") {
        Some(code) => Some(Exit::Code(number(code)?)),
        None => Some(Exit::Signal(number(text.strip_prefix("signal ")?)?)),
    }
}

/// A part as it is said.
pub(crate) fn part_item(part: Part, goes_on_run: bool) -> Item {
    match part {
        Part::Text(text) => Item::new("part", text.into()).with("Toolbus-Part", "text"),
        Part::Json(json) => Item::new("part", json.as_bytes().clone()).with("Toolbus-Part", "json"),
        Part::Bytes(Piece { data, media_type, len, last }) => {
            let item = Item::new("part", data).going_on(!last);
            match goes_on_run {
                true => item,
                false => item
                    .with("Toolbus-Part", "bytes")
                    .maybe("Toolbus-Media", media_type.as_deref())
                    .maybe("Toolbus-Length", len.map(|len| len.to_string())),
            }
        }
    }
}

/// The part that was heard; why it is none otherwise. `goes_on_run` if it is not the first piece
/// of a run of bytes.
pub(crate) fn part(heard: &WholeItem, goes_on_run: bool) -> Result<Part, String> {
    if goes_on_run {
        return Ok(Part::Bytes(Piece {
            data: heard.payload.clone(),
            media_type: None,
            len: None,
            last: !heard.more,
        }));
    }
    match heard.headers.get("Toolbus-Part") {
        Some("text") => match String::from_utf8(heard.payload.to_vec()) {
            Ok(text) => Ok(Part::Text(text)),
            Err(_) => Err("a part of text is not UTF-8".to_owned()),
        },
        Some("json") => Ok(Part::Json(json(&heard.payload, "a part")?)),
        Some("bytes") => Ok(Part::Bytes(Piece {
            data: heard.payload.clone(),
            media_type: heard.headers.get("Toolbus-Media").map(Arc::from),
            len: heard.headers.get("Toolbus-Length").and_then(|len| len.parse().ok()),
            last: !heard.more,
        })),
        other => Err(format!("a part of kind `{}`", other.unwrap_or_default())),
    }
}

/// A payload that has to be JSON.
pub(crate) fn json(payload: &Bytes, what: &str) -> Result<Json, String> {
    Json::parse(payload.clone()).map_err(|error| format!("{what} is {error}"))
}

/// The same where there may be none.
pub(crate) fn maybe_json(payload: &Bytes, what: &str) -> Result<Option<Json>, String> {
    match payload.is_empty() {
        true => Ok(None),
        false => json(payload, what).map(Some),
    }
}

/// The answer to a question as it is said: the result alone, or an object with nothing but the
/// error.
pub(crate) fn answer_payload(answer: &Json) -> Bytes {
    match edit::member(answer.as_str(), "result") {
        Some(result) => answer.as_bytes().slice_ref(result.as_bytes()),
        None => answer.as_bytes().clone(),
    }
}

/// The same of a caller that was not to be asked.
pub(crate) fn no_answer() -> Bytes {
    Bytes::from_static(NO_ANSWER.as_bytes())
}

/// The answer that was said.
pub(crate) fn answer(payload: &Bytes) -> Result<Json, String> {
    let said = json(payload, "an answer")?;
    let is_error = said.kind() == Kind::Object
        && edit::members(said.as_str()).map(|(name, _)| name).eq(["error"]);
    match is_error {
        true => Ok(said),
        false => Ok(Json::from_trusted(format!("{{\"result\":{said}}}"))),
    }
}

const NO_ANSWER: &str = r#"{"error":{"code":-32601,"message":"the caller cannot be asked"}}"#;

/// Does a caller that says this of itself take this question? What is asked is named by the first
/// word of its method.
pub(crate) fn takes(asks: &Json, question: &Json) -> bool {
    let method = edit::text(question.as_str(), "method").unwrap_or_default();
    let what = method.split('/').next().unwrap_or_default();
    edit::member(asks.as_str(), what).is_some()
}

/// Who calls, by the headers of a request: what it takes, what it is called, and from how far it
/// comes.
pub(crate) fn provenance(headers: &Headers) -> Option<Box<Provenance>> {
    let asks = headers.get("Toolbus-Asks").and_then(|asks| Json::parse(asks.to_owned()).ok());
    let asks = asks.filter(|asks| asks.kind() == Kind::Object);
    let caller = headers.get("Toolbus-Caller").filter(|caller| !caller.is_empty());
    let hops = headers.get("Toolbus-Hops").and_then(|hops| hops.parse().ok()).unwrap_or(0);
    if asks.is_none() && caller.is_none() && hops == 0 {
        return None;
    }
    Some(Box::new(Provenance { asks, caller: caller.map(Arc::from), hops, passage: None }))
}

/// Where the call stands in its trace.
pub(crate) fn trace(headers: &Headers) -> Option<Trace> {
    Trace::read(headers.get("traceparent")?, headers.get("tracestate"))
}

/// A tool of a node's list; `None` if it cannot be one. `wires` are those that we know.
pub(crate) fn spec(listed: &ListedTool, wires: &[Wire]) -> Option<ToolSpec> {
    let native = listed.native.as_ref().and_then(|native| {
        let wire = *wires.iter().find(|wire| wire.name() == native.wire)?;
        Some(Native { wire, text: Bytes::from(native.spec.get().to_owned()) })
    });
    let input = wire::json(&listed.input)?;
    let output = match &listed.output {
        Some(output) => Some(wire::json(output)?),
        None => None,
    };
    Some(ToolSpec {
        title: listed.title.clone(),
        description: listed.description.clone(),
        output,
        hints: listed.hints.map(hints),
        native,
        ..ToolSpec::new(listed.name.as_str(), input)
    })
}

/// What calling it may do to the world.
pub(crate) fn hints(says: HintsSay) -> Hints {
    let HintsSay { read_only, idempotent, destructive } = says;
    Hints { read_only, idempotent, destructive }
}
