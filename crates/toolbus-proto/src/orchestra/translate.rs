//! What the bus says, as Orchestra says it, and back (`docs/protocols/orchestra.md` 13).

use std::borrow::Cow;

use bytes::Bytes;

use super::WIRE;
use super::envelope::Envelope;
use super::protobuf::message::Message;
use super::structure::Struct;
use super::wire::{Request, Response, StreamChunk, StreamEnd, ToolDefinition, ToolResponse};
use crate::capture::Side;
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::limit::told_by_peer;
use crate::tool::{Code, Failure, FailureKind, Native, Outcome, Part, ToolName, ToolSpec, Trace};
use crate::view::{Rule, without_fixed};

/// What a tool takes if nothing is known about it.
pub const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// Text, as a chunk of a stream names it.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// A JSON value, as a chunk of a stream names it.
pub const JSON: &str = "application/json";
/// Bytes of which nothing else is known.
pub const OCTETS: &str = "application/octet-stream";

/// A tool of the bus, as a plugin lists it.
pub fn definition(spec: &ToolSpec) -> ToolDefinition {
    let native = spec.native.as_ref().filter(|native| native.wire == WIRE);
    if let Some(mut known) = native.and_then(|native| ToolDefinition::read(&native.text).ok()) {
        known.name = spec.name.to_string();
        // Clients behind other hubs and transports take no tool without one.
        if known.input_schema.as_ref().is_none_or(Struct::is_empty) {
            known.input_schema = Struct::of_json(ANY_OBJECT).ok();
        }
        return known;
    }
    ToolDefinition {
        name: spec.name.to_string(),
        description: spec.description.clone().unwrap_or_default(),
        // A schema is an object, or is put into one.
        input_schema: Struct::of_json(&input_schema(&spec.input)).ok(),
        ..ToolDefinition::default()
    }
}

/// What a peer says of its tool, changed as a view says.
pub fn definition_seen(text: &Bytes, rule: &Rule) -> Option<Bytes> {
    let mut known = ToolDefinition::read(text).ok()?;
    let own = Some(known.description.as_str()).filter(|own| !own.is_empty());
    known.description = rule.description_of(own).unwrap_or_default();
    if let Some(schema) = known.input_schema.as_ref().filter(|_| !rule.fixed.is_empty()) {
        let schema = without_fixed(schema.to_json().as_str(), &rule.fixed);
        known.input_schema = Struct::of_json(&schema).ok();
    }
    Some(known.to_bytes())
}

/// A tool that a peer lists, for the bus.
pub fn tool(definition: &ToolDefinition) -> ToolSpec {
    let schema = definition.input_schema.as_ref().filter(|schema| !schema.is_empty());
    let input = schema.map_or(Json::from_trusted(ANY_OBJECT), Struct::to_json);
    ToolSpec {
        description: Some(definition.description.clone()).filter(|text| !text.is_empty()),
        native: Some(Native { wire: WIRE, text: definition.to_bytes() }),
        ..ToolSpec::new(ToolName::new(definition.name.as_str()), input)
    }
}

/// Arguments are an object on this wire. What takes something else is given it as `value`.
fn input_schema(input: &Json) -> String {
    if allows_anything(input) {
        return ANY_OBJECT.to_owned();
    }
    if is_of_objects(input) {
        return input.as_str().to_owned();
    }
    format!(r#"{{"type":"object","properties":{{"value":{input}}},"required":["value"]}}"#)
}

/// Are the tool's arguments no object, so that callers put them into `value`?
pub fn takes_wrapped(spec: &ToolSpec) -> bool {
    let is_native = spec.native.as_ref().is_some_and(|native| native.wire == WIRE);
    !is_native && !allows_anything(&spec.input) && !is_of_objects(&spec.input)
}

/// What stands in the `value` of a wrapped tool's arguments.
pub fn unwrapped(arguments: &Json) -> Option<Json> {
    let value = edit::member(arguments.as_str(), "value")?;
    Some(Json::part_of(arguments.as_bytes(), value))
}

fn allows_anything(schema: &Json) -> bool {
    match schema.kind() {
        Kind::Null => true,
        Kind::Bool => schema.as_str() == "true",
        Kind::Object => edit::members(schema.as_str()).next().is_none(),
        _ => false,
    }
}

fn is_of_objects(schema: &Json) -> bool {
    edit::text(schema.as_str(), "type").as_deref() == Some("object")
}

/// What a peer answered, for the bus.
pub fn outcome(response: &ToolResponse) -> Result<Outcome, Failure> {
    if response.success {
        let result = response.result.as_ref().map_or(Json::null(), Struct::to_json);
        return Ok(Outcome::Value(result));
    }
    Err(failure(response))
}

/// The text of a result, for people: its `text`, if that is a string.
pub fn text_of(result: &Json) -> Option<String> {
    edit::text(result.as_str(), "text").map(Cow::into_owned)
}

/// Why a peer did not answer.
pub fn failure(response: &ToolResponse) -> Failure {
    let kind = match response.error_code.as_str() {
        "tool_not_found" => FailureKind::UnknownTool,
        "validation_error" | "invalid_arguments" => FailureKind::InvalidArguments,
        "routing_error" | "tool_routing_error" | "unavailable" => FailureKind::Unavailable,
        "unknown_request" | "invalid_response" => FailureKind::BrokeProtocol,
        "timeout" => FailureKind::TimedOut,
        "cancelled" => FailureKind::Cancelled,
        "too_large" => FailureKind::TooLarge,
        _ => FailureKind::Failed,
    };
    let code = Some(response.error_code.clone()).filter(|code| !code.is_empty());
    let detail = response.result.as_ref().map(Struct::to_json);
    let is_away = kind == FailureKind::Unavailable;
    let refused = detail.as_ref().filter(|_| is_away).and_then(|told| told_by_peer(told.as_str()));
    // What a limit of the peer's says is no code of its own.
    let code = code.filter(|_| refused.is_none());
    Failure {
        code: code.map(Code::Word),
        detail: refused.or(detail),
        from_peer: true,
        ..Failure::new(kind, failure_text(response))
    }
}

/// Which tool a request calls, as it is on the wire, with what it is given and the larger piece of
/// work that it is a part of; `None` if it is not the call of one.
pub fn native_call(body: &Bytes) -> Option<(ToolName, Option<Json>, Option<Trace>)> {
    let (tool, arguments, trace) = match Envelope::read(Side::Call, body).ok()?.request().ok()?? {
        Request::ToolCall(request) => {
            let trace = Trace::read(&request.trace_parent, None);
            (request.tool_name, request.arguments, trace)
        }
        Request::StreamStart(request) => (request.tool_name, request.arguments, None),
        _ => return None,
    };
    Some((ToolName::new(tool), arguments.as_ref().map(Struct::to_json), trace))
}

/// What a tool gave that was answered with this, as it is on the wire; `None` if it failed, or gave
/// it in chunks.
pub fn native_result(body: &Bytes) -> Option<Outcome> {
    match Envelope::read(Side::Response, body).ok()?.response().ok()?? {
        Response::ToolCall(response) => outcome(&response).ok(),
        _ => None,
    }
}

/// Why a tool has failed that was answered with this, as it is on the wire; `None` if it has not.
pub fn native_failure(body: &Bytes) -> Option<FailureKind> {
    let response = match Envelope::read(Side::Response, body).ok()?.response().ok()?? {
        Response::ToolCall(response) => response,
        Response::StreamEnd(StreamEnd { success, error_code, .. }) => {
            ToolResponse { success, error_code, ..ToolResponse::default() }
        }
        _ => return None,
    };
    (!response.success).then(|| failure(&response).kind)
}

/// A failure for people: what the peer says, or its code if it says nothing.
pub fn failure_text(response: &ToolResponse) -> String {
    match (response.error_message.as_str(), response.error_code.as_str()) {
        ("", "") => "tool error: unspecified".to_owned(),
        ("", code) => format!("tool error: {code}"),
        (message, _) => message.to_owned(),
    }
}

/// What the bus answered to a call of `tool`, for a peer. A reply in parts is collected before.
pub fn response(tool: &str, outcome: Result<Outcome, Failure>) -> ToolResponse {
    match outcome {
        Ok(outcome) => {
            let result = result(&outcome);
            ToolResponse { success: true, result, ..ToolResponse::default() }
        }
        Err(failure) => refusal(failure, format!("tool \"{tool}\" not found")),
    }
}

/// The result that stands for an outcome.
fn result(outcome: &Outcome) -> Option<Struct> {
    let value = match outcome {
        Outcome::Value(value) => value,
        Outcome::Text(text) => return Some(text_result(text)),
        Outcome::End(Some(value)) => value,
        Outcome::End(None) | Outcome::Native(_) | Outcome::Tools(_) => return None,
    };
    if let Ok(object) = Struct::of_json(value.as_str()) {
        return Some(object);
    }
    let text = Json::of(&value.shown());
    let members = match value.kind() {
        Kind::String => format!("{{\"text\":{text}}}"),
        _ => format!("{{\"text\":{text},\"value\":{value}}}"),
    };
    Struct::of_json(&members).ok()
}

/// `{"text": …}`.
pub fn text_result(text: &str) -> Struct {
    Struct::of_json(&format!("{{\"text\":{}}}", Json::of(text))).expect("a text is a value")
}

/// A failure of the bus, for a peer; `not_found` is how it is told of an unknown tool.
pub fn refusal(failure: Failure, not_found: String) -> ToolResponse {
    let error_message = match failure.kind {
        FailureKind::UnknownTool => not_found,
        _ => failure.message,
    };
    let detail = failure.detail.as_ref();
    ToolResponse {
        result: detail.and_then(|detail| Struct::of_json(detail.as_str()).ok()),
        error_code: code(failure.kind, failure.code),
        error_message,
        ..ToolResponse::default()
    }
}

/// The code of a failure. Only what a tool says in its own words keeps them.
fn code(kind: FailureKind, own: Option<Code>) -> String {
    let code = match kind {
        FailureKind::Failed => match own {
            Some(code) => return code.to_string(),
            None => "handler_error",
        },
        FailureKind::UnknownTool => "tool_not_found",
        FailureKind::InvalidArguments => "validation_error",
        FailureKind::TimedOut => "timeout",
        FailureKind::Cancelled => "cancelled",
        FailureKind::Gone | FailureKind::Unavailable => "unavailable",
        FailureKind::BrokeProtocol => "invalid_response",
        FailureKind::TooLarge => "too_large",
    };
    code.to_owned()
}

/// A failure that is made up by a hub or a plugin, without a call behind it.
pub fn refused(error_code: &str, error_message: impl Into<String>) -> ToolResponse {
    let (error_code, error_message) = (error_code.to_owned(), error_message.into());
    ToolResponse { error_code, error_message, ..ToolResponse::default() }
}

/// The answer to what is no request that we know.
pub fn unknown_request() -> ToolResponse {
    refused("unknown_request", "unrecognized request type")
}

/// A part of a reply as a chunk, without its place in the stream.
pub fn chunk(part: Part) -> StreamChunk {
    let (data, content_type) = match part {
        Part::Text(text) => (Bytes::from(text), TEXT.to_owned()),
        Part::Json(json) => (json.compact().as_bytes().clone(), JSON.to_owned()),
        Part::Bytes(piece) => {
            let media_type = piece.media_type.as_deref().unwrap_or(OCTETS).to_owned();
            (piece.data, media_type)
        }
    };
    StreamChunk { data, content_type, ..StreamChunk::default() }
}

/// A reply of one value as the part that it would be in a stream.
pub fn part(outcome: Outcome) -> Option<Part> {
    match outcome {
        Outcome::Value(value) => Some(match value.string() {
            Some(text) => Part::Text(text),
            None => Part::Json(value),
        }),
        Outcome::Text(text) => Some(Part::Text(text)),
        Outcome::End(end) => end.filter(|end| !end.is_null()).map(Part::Json),
        Outcome::Native(_) | Outcome::Tools(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::envelope::{request_body, response_body};
    use super::super::wire::{ListToolsRequest, StreamStart};
    use super::*;

    fn json(text: &'static str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn a_definition_changes_only_as_a_view_says() {
        let schema =
            r#"{"properties":{"a":{"type":"number"},"b":{}},"required":["b"],"type":"object"}"#;
        let known = ToolDefinition {
            name: "t".to_owned(),
            description: "old".to_owned(),
            input_schema: Struct::of_json(schema).ok(),
            ..ToolDefinition::default()
        };
        let seen = |rule: &Rule| {
            let seen = definition_seen(&known.to_bytes(), rule).unwrap();
            ToolDefinition::read(&seen).unwrap()
        };
        assert_eq!(seen(&Rule::default()).to_bytes(), known.to_bytes());
        let fixed = [("b".to_owned(), Json::null())].into_iter().collect();
        let append = Some("More.".to_owned());
        let changed = seen(&Rule { append, fixed, ..Rule::default() });
        assert_eq!((&*changed.name, &*changed.description), ("t", "old\n\nMore."));
        let left = r#"{"properties":{"a":{"type":"number"}},"type":"object"}"#;
        assert_eq!(changed.input_schema.unwrap().to_json().as_str(), left);
    }

    #[test]
    fn a_limit_of_a_peer_keeps_its_reason() {
        let told = |detail: &str| ToolResponse {
            error_code: "unavailable".to_owned(),
            error_message: "too many calls".to_owned(),
            result: Struct::of_json(detail).ok(),
            ..ToolResponse::default()
        };
        for detail in [r#"{"reason":"rate_limited","retry_after_ms":7}"#, r#"{"reason":"busy"}"#] {
            let read = failure(&told(detail));
            assert_eq!((read.kind, read.code), (FailureKind::Unavailable, None));
            assert_eq!(read.detail.unwrap().as_str(), detail);
        }
        let other = failure(&told(r#"{"reason":"tired"}"#));
        assert_eq!(other.code, Some(Code::Word("unavailable".to_owned())));
    }

    #[test]
    fn a_failure_is_seen_in_an_answer_that_is_passed_on() {
        let of = |response: ToolResponse| native_failure(&response_body(response));
        assert_eq!(of(refused("handler_error", "no")), Some(FailureKind::Failed));
        assert_eq!(of(refused("timeout", "late")), Some(FailureKind::TimedOut));
        assert_eq!(of(response("t", Ok(Outcome::Text("yes".to_owned())))), None);
        assert_eq!(native_failure(&Bytes::from_static(b"\xff")), None);
        let end = StreamEnd { error_code: "timeout".to_owned(), ..StreamEnd::default() };
        assert_eq!(native_failure(&response_body(end)), Some(FailureKind::TimedOut));
        let end = StreamEnd { success: true, ..StreamEnd::default() };
        assert_eq!(native_failure(&response_body(end)), None);
    }

    #[test]
    fn a_call_is_seen_in_a_request_that_is_passed_on() {
        let (tool_name, arguments) = ("t".to_owned(), Struct::of_json(r#"{"a":1}"#).ok());
        let start = StreamStart { tool_name, arguments, ..StreamStart::default() };
        let (tool, arguments, trace) = native_call(&request_body(start)).unwrap();
        assert_eq!((tool.as_str(), arguments, trace), ("t", Some(json(r#"{"a":1}"#)), None));
        assert_eq!(native_call(&request_body(ListToolsRequest::default())), None);
        let answer = response("t", Ok(Outcome::Text("yes".to_owned())));
        let result = Some(Outcome::Value(json(r#"{"text":"yes"}"#)));
        assert_eq!(native_result(&response_body(answer)), result);
        assert_eq!(native_result(&response_body(refused("timeout", "late"))), None);
    }

    #[test]
    fn every_kind_of_reply_has_its_result() {
        let shown = |outcome| response("t", Ok(outcome)).result.map(|it| it.to_json().to_string());
        let value = |text| shown(Outcome::Value(json(text)));
        assert_eq!(value(r#"{"b": 1, "a": 2}"#).unwrap(), r#"{"a":2,"b":1}"#);
        assert_eq!(value(r#""hi""#).unwrap(), r#"{"text":"hi"}"#);
        assert_eq!(value("[1, 2.5]").unwrap(), r#"{"text":"[1,2.5]","value":[1,2.5]}"#);
        assert_eq!(value("null").unwrap(), r#"{"text":"null","value":null}"#);
        assert_eq!(shown(Outcome::Text("a\nb".into())).unwrap(), r#"{"text":"a\nb"}"#);
        assert_eq!(shown(Outcome::End(None)), None);
    }

    #[test]
    fn a_failure_keeps_its_kind_on_the_way_there_and_back() {
        use FailureKind as Kind;
        for (kind, code, back) in [
            (Kind::UnknownTool, "tool_not_found", Kind::UnknownTool),
            (Kind::InvalidArguments, "validation_error", Kind::InvalidArguments),
            (Kind::Failed, "handler_error", Kind::Failed),
            (Kind::TimedOut, "timeout", Kind::TimedOut),
            (Kind::Cancelled, "cancelled", Kind::Cancelled),
            (Kind::Gone, "unavailable", Kind::Unavailable),
            (Kind::Unavailable, "unavailable", Kind::Unavailable),
            (Kind::BrokeProtocol, "invalid_response", Kind::BrokeProtocol),
            (Kind::TooLarge, "too_large", Kind::TooLarge),
        ] {
            let told = response("t", Err(Failure::new(kind, "why")));
            assert_eq!((told.success, told.error_code.as_str()), (false, code));
            let not_found = r#"tool "t" not found"#;
            let message = if kind == Kind::UnknownTool { not_found } else { "why" };
            assert_eq!(told.error_message, message);
            let learned = failure(&told);
            assert_eq!((learned.kind, learned.message.as_str()), (back, message));
            assert!(learned.from_peer);
        }
        let own = Failure {
            code: Some(Code::Word("not_here".into())),
            detail: Some(json(r#"{"at":1}"#)),
            ..Failure::new(FailureKind::Failed, "")
        };
        let told = response("t", Err(own));
        let learned = failure(&told);
        assert_eq!(
            (learned.kind, learned.code),
            (FailureKind::Failed, Some(Code::Word("not_here".into())))
        );
        assert_eq!(
            (learned.message.as_str(), learned.detail),
            ("tool error: not_here", Some(json(r#"{"at":1}"#)))
        );
        assert_eq!(failure(&refused("routing_error", "x")).kind, FailureKind::Unavailable);
        assert_eq!(failure(&ToolResponse::default()).message, "tool error: unspecified");
    }

    #[test]
    fn a_tool_is_listed_with_an_object_as_its_schema() {
        let schema = |text| {
            let definition = definition(&ToolSpec::new("t", json(text)));
            definition.input_schema.unwrap().to_json().to_string()
        };
        assert_eq!(schema("true"), ANY_OBJECT);
        assert_eq!(schema("{}"), ANY_OBJECT);
        assert_eq!(schema(r#"{"type":"object","x":1}"#), r#"{"type":"object","x":1}"#);
        let wrapped =
            r#"{"properties":{"value":{"type":"string"}},"required":["value"],"type":"object"}"#;
        assert_eq!(schema(r#"{"type":"string"}"#), wrapped);
        assert!(takes_wrapped(&ToolSpec::new("t", json(r#"{"type":"string"}"#))));
        let arguments = json(r#"{"value": [1.0]}"#);
        assert_eq!(unwrapped(&arguments).unwrap().as_str(), "[1.0]");
    }

    #[test]
    fn a_tool_of_a_peer_keeps_what_only_this_wire_knows() {
        let input_schema = Struct::of_json(r#"{"type":"object","x":1}"#).ok();
        let mut known = ToolDefinition { name: "t".into(), input_schema, ..Default::default() };
        let mut spec = tool(&known);
        spec.name = "p.t".into();
        known.name = "p.t".into();
        assert_eq!(definition(&spec), known);
    }

    #[test]
    fn a_tool_without_a_schema_takes_any_object() {
        let mut known = ToolDefinition { name: "t".into(), ..ToolDefinition::default() };
        for schema in [None, Struct::of_json("{}").ok()] {
            known.input_schema = schema;
            let spec = tool(&known);
            assert_eq!(spec.input.as_str(), ANY_OBJECT);
            let listed = definition(&spec).input_schema.expect("is always listed");
            assert_eq!(listed.to_json().as_str(), ANY_OBJECT);
        }
    }
}
