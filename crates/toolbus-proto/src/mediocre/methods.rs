//! A server's methods as tools of the bus (`docs/protocols/mediocre.md` 9): which there are, and how to call them.

use std::sync::Arc;

use super::encode::StreamStart;
use super::translate::TOOLS;
use super::wire::{is_empty_container, members};
use crate::collect::from_base64;
use crate::json::{Json, Kind};
use crate::tool::{Call, Failure, FailureKind, Hints, Part, Piece, ToolName, ToolSpec, What};

/// Calls any method, listed or not.
const GENERIC: &str = "call";

/// What is known of a server's methods. One connection may learn what the next one needs.
#[derive(Debug, Clone, Default)]
pub struct Methods {
    /// Named by the config: then the server is not asked.
    given: Option<Arc<[ToolSpec]>>,
    /// A method has the name of the generic tool, which then is none.
    has_call: bool,
}

impl Methods {
    /// The server is asked which there are.
    pub fn asked() -> Methods {
        Methods::default()
    }

    /// There are these, whatever the server would say.
    pub fn given<'a>(names: impl IntoIterator<Item = &'a str>) -> Methods {
        let mut methods = Methods::default();
        let any = || Json::from_trusted("{}");
        let tools = names.into_iter().map(|name| ToolSpec::new(name, any())).collect();
        methods.given = Some(methods.with_generic(tools));
        methods
    }

    /// The tools, if the server need not be asked.
    pub(super) fn tools(&self) -> Option<Arc<[ToolSpec]>> {
        self.given.clone()
    }

    /// Takes what the server answered; anything but a list of tools counts as an empty one.
    pub(super) fn learn(&mut self, answer: Option<&Json>) -> Arc<[ToolSpec]> {
        let listed = answer.and_then(listed).unwrap_or_default();
        self.with_generic(listed)
    }

    fn with_generic(&mut self, mut tools: Vec<ToolSpec>) -> Arc<[ToolSpec]> {
        self.has_call = tools.iter().any(|tool| tool.name.as_str() == GENERIC);
        if !self.has_call {
            tools.push(generic());
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools.into()
    }

    /// The request that a call becomes.
    pub(super) fn request(&self, call: Call) -> Result<Request, Failure> {
        let mut request = match call.what {
            What::Tools => return Ok(Request::single(TOOLS.to_owned(), None)),
            What::Tool { name, args } if name.as_str() == GENERIC && !self.has_call => {
                generic_request(args.as_ref())?
            }
            What::Tool { name, .. } if name.as_str().is_empty() => {
                let message = "a method must have a name";
                return Err(Failure::new(FailureKind::UnknownTool, message));
            }
            What::Tool { name, args } => Request::single(name.as_str().to_owned(), args),
            What::Native { .. } => {
                let message = "a native call of another wire";
                return Err(Failure::new(FailureKind::InvalidArguments, message));
            }
        };
        if call.options.sends_parts {
            let before = request.elements.len() as u64;
            let len = call.options.parts.map(|parts| parts + before);
            request.stream = Some(StreamStart(len));
            request.goes_on = true;
        }
        Ok(request)
    }
}

/// A call as it will be written.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) args: Option<Json>,
    pub(super) debug: Option<Json>,
    pub(super) stream: Option<StreamStart>,
    /// Elements that are there already.
    pub(super) elements: Vec<Part>,
    pub(super) tail: Option<Json>,
    /// More elements follow as they come.
    pub(super) goes_on: bool,
}

impl Request {
    fn single(method: String, args: Option<Json>) -> Request {
        let (debug, stream, tail) = (None, None, None);
        Request { method, args, debug, stream, elements: Vec::new(), tail, goes_on: false }
    }
}

/// The tool that calls any method, whether it is known or not.
pub fn generic() -> ToolSpec {
    let input = r#"{"type":"object","properties":{"method":{"type":"string","minLength":1},"args":{},"elements":{"type":"array"},"tail":{},"debug":{"type":"object"}},"required":["method"]}"#;
    let mut tool = ToolSpec::new(GENERIC, Json::from_trusted(input));
    let description = "Calls any method of the server, with elements or a tail as a stream";
    tool.description = Some(description.to_owned());
    tool
}

/// What the arguments of the generic tool ask for.
fn generic_request(args: Option<&Json>) -> Result<Request, Failure> {
    let members = args.and_then(members).ok_or_else(|| invalid("arguments must be an object"))?;
    let member = |name: &str| {
        let found = members.iter().find(|(found, _)| found == name);
        found.map(|(_, json)| json.clone()).filter(|json| !json.is_null())
    };
    let method = member("method").and_then(|method| method.string());
    let method = method
        .filter(|method| !method.is_empty())
        .ok_or_else(|| invalid("argument `method` must be a non-empty string"))?;
    let mut request = Request::single(method, member("args"));
    let debug = member("debug");
    if debug.as_ref().is_some_and(|debug| debug.kind() != Kind::Object) {
        return Err(invalid("argument `debug` must be an object"));
    }
    // Empty is as good as absent, and is never written.
    request.debug = debug.filter(|debug| !is_empty_container(debug.as_str()));
    request.tail = member("tail");
    let elements = member("elements");
    if request.tail.is_none() && elements.is_none() {
        return Ok(request);
    }
    if let Some(elements) = elements {
        let elements: Vec<&serde_json::value::RawValue> =
            elements.read().map_err(|_| invalid("argument `elements` must be an array"))?;
        for (index, element) in elements.into_iter().enumerate() {
            let element = Json::from_trusted(element.get().to_owned());
            request.elements.push(part(element, index)?);
        }
    }
    request.stream = Some(StreamStart(Some(request.elements.len() as u64)));
    Ok(request)
}

/// An element in its collected form: `{"$bytes":"<base64>"}` is a blob.
fn part(element: Json, index: usize) -> Result<Part, Failure> {
    let Some(members) = members(&element) else { return Ok(Part::Json(element)) };
    match &members[..] {
        [(name, text)] if name == "$bytes" => {
            let data = text.string().and_then(|text| from_base64(&text));
            let message = format!("argument `elements[{index}].$bytes` must be a string of base64");
            let data = data.ok_or_else(|| invalid(message))?;
            let len = Some(data.len() as u64);
            Ok(Part::Bytes(Piece { data: data.into(), media_type: None, len, last: true }))
        }
        _ => Ok(Part::Json(element)),
    }
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::InvalidArguments, message)
}

/// The tools in the answer to [`TOOLS`], if it is such a list.
fn listed(answer: &Json) -> Option<Vec<ToolSpec>> {
    let tools: Vec<&serde_json::value::RawValue> = answer.read().ok()?;
    tools.into_iter().map(|tool| spec(&Json::from_trusted(tool.get().to_owned()))).collect()
}

fn spec(tool: &Json) -> Option<ToolSpec> {
    let members = members(tool)?;
    let member = |name: &str| {
        let found = members.iter().find(|(found, _)| found == name);
        found.map(|(_, json)| json).filter(|json| !json.is_null())
    };
    let text = |name: &str| member(name).and_then(Json::string);
    let name = text("name").filter(|name| !name.is_empty())?;
    let hints = member("hints").and_then(crate::mediocre::wire::members).map(|hints| {
        let told = |name: &str| {
            let found = hints.iter().find(|(found, _)| found == name);
            found.and_then(|(_, json)| json.read().ok())
        };
        let (read_only, idempotent) = (told("read_only"), told("idempotent"));
        Hints { read_only, idempotent, destructive: told("destructive") }
    });
    Some(ToolSpec {
        title: text("title"),
        description: text("description"),
        output: member("output").cloned(),
        hints,
        ..ToolSpec::new(ToolName::new(name), member("input")?.clone())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn json(text: &'static str) -> Json {
        Json::parse(text).unwrap()
    }

    fn names(tools: &[ToolSpec]) -> Vec<&str> {
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn a_list_survives_the_wire() {
        let mut tool = ToolSpec::new("z", json(r#"{"type":"object"}"#));
        tool.title = Some("Z".into());
        tool.output = Some(json("{}"));
        tool.hints = Some(Hints { read_only: Some(true), ..Hints::default() });
        let ours = ToolSpec::new("toolbus.tools", json("{}"));
        let list =
            super::super::translate::tools(&[tool.clone(), ours, ToolSpec::new("a", json("{}"))]);
        let learned = Methods::asked().learn(Some(&list));
        assert_eq!(names(&learned), ["a", "call", "z"]);
        assert_eq!(learned[2], tool);
    }

    #[test]
    fn what_is_no_list_is_an_empty_one() {
        for answer in ["null", "{}", "[1]", r#"[{"name":"a"}]"#, r#"[{"name":"","input":{}}]"#] {
            let answer = Json::parse(answer).unwrap();
            assert_eq!(names(&Methods::asked().learn(Some(&answer))), ["call"], "{answer}");
        }
        assert_eq!(names(&Methods::asked().learn(None)), ["call"]);
    }

    #[test]
    fn a_method_may_have_the_name_of_the_generic_tool() {
        let methods = Methods::given(["call", "b"]);
        assert_eq!(names(&methods.tools().unwrap()), ["b", "call"]);
        let call = Call::tool(Instant::now(), "call", Some(json("[1]")));
        let request = methods.request(call).unwrap();
        assert_eq!((&*request.method, request.args), ("call", Some(json("[1]"))));
    }

    #[test]
    fn the_generic_tool_calls_anything() {
        let request = |args: &'static str| {
            Methods::asked().request(Call::tool(Instant::now(), "call", Some(json(args))))
        };
        let single = request(r#"{"method":"m","args":1,"debug":{"a":2}}"#).unwrap();
        assert!(single.stream.is_none());
        assert_eq!((single.args, single.debug), (Some(json("1")), Some(json(r#"{"a":2}"#))));
        let empty = request(r#"{"method":"m","debug":{ }}"#).unwrap();
        assert_eq!(empty.debug, None);
        let stream =
            request(r#"{"method":"m","elements":[1.0,{"$bytes":"aGk="}],"tail":3}"#).unwrap();
        assert_eq!(stream.stream.unwrap().0, Some(2));
        assert_eq!(stream.elements[0], Part::Json(json("1.0")));
        let Part::Bytes(blob) = &stream.elements[1] else { panic!("{stream:?}") };
        assert_eq!((&blob.data[..], blob.len, blob.last), (&b"hi"[..], Some(2), true));
        assert!(request(r#"{"method":"m","elements":[]}"#).unwrap().stream.is_some());
        for (args, why) in [
            ("null", "arguments must be an object"),
            ("{}", "argument `method` must be a non-empty string"),
            (r#"{"method":""}"#, "argument `method` must be a non-empty string"),
            (r#"{"method":"m","elements":1}"#, "argument `elements` must be an array"),
            (r#"{"method":"m","debug":1}"#, "argument `debug` must be an object"),
            (
                r#"{"method":"m","elements":[0,{"$bytes":"a"}]}"#,
                "argument `elements[1].$bytes` must be a string of base64",
            ),
        ] {
            let failure = request(args).unwrap_err();
            assert_eq!(failure.kind, FailureKind::InvalidArguments);
            assert_eq!(failure.message, why);
        }
    }
}
