//! What the built-in tools say of themselves.

use std::sync::{Arc, LazyLock};

use toolbus_proto::json::Json;
use toolbus_proto::tool::ToolSpec;

use super::Tool;
use super::plain::SLEEP_MS_MAX;
use super::stream::SAFE_INTEGER_MAX;

/// All of them, sorted by name.
pub(super) fn all() -> Arc<[ToolSpec]> {
    static ALL: LazyLock<Arc<[ToolSpec]>> =
        LazyLock::new(|| Tool::ALL.into_iter().map(spec).collect());
    ALL.clone()
}

fn spec(tool: Tool) -> ToolSpec {
    let (description, input, output) = match tool {
        Tool::Add => (
            "Add two numbers",
            object(&[required("a", NUMBER), required("b", NUMBER)]),
            Some(NUMBER.to_owned()),
        ),
        Tool::Blob => (
            "Give that many bytes that look random and are the same every time",
            object(&[
                required("bytes", &integer(SAFE_INTEGER_MAX)),
                optional("seed", &integer(u64::MAX)),
            ]),
            // What arrives where a wire cannot stream.
            Some(object(&[required("elements", &array(&object(&[required("$bytes", STRING)])))])),
        ),
        Tool::Count => (
            "Count from 0 up to n - 1, one element after the other",
            object(&[
                required("n", &integer(SAFE_INTEGER_MAX)),
                optional("ms", NATURAL),
                optional("fail_at", NATURAL),
            ]),
            Some(object(&[required("elements", &array(NATURAL))])),
        ),
        Tool::Early => (
            "Answer before the input was read",
            ANYTHING.to_owned(),
            Some(object(&[required("early", BOOLEAN)])),
        ),
        Tool::Echo => ("Give back what came", ANYTHING.to_owned(), None),
        Tool::Fail => (
            "Fail with this message",
            object(&[required("message", STRING), optional("code", CODE)]),
            None,
        ),
        Tool::Sink => (
            "Count the elements and bytes of the input, and hash the bytes",
            object(&[optional("elements", ARRAY), optional("hash", BOOLEAN)]),
            Some(object(&[
                required("elements", NATURAL),
                required("bytes", NATURAL),
                optional("sha256", STRING),
            ])),
        ),
        Tool::Sleep => (
            "Wait this many milliseconds",
            object(&[required("ms", &integer(SLEEP_MS_MAX))]),
            Some(object(&[required("slept_ms", INTEGER)])),
        ),
        Tool::Upper => (
            "Put a text in upper case",
            object(&[required("text", STRING)]),
            Some(STRING.to_owned()),
        ),
    };
    ToolSpec {
        native: None,
        name: tool.name().into(),
        title: None,
        description: Some(description.to_owned()),
        input: Json::from_trusted(input),
        output: output.map(Json::from_trusted),
        hints: None,
    }
}

const ANYTHING: &str = "{}";
const NUMBER: &str = r#"{"type":"number"}"#;
const STRING: &str = r#"{"type":"string"}"#;
const BOOLEAN: &str = r#"{"type":"boolean"}"#;
const ARRAY: &str = r#"{"type":"array"}"#;
const INTEGER: &str = r#"{"type":"integer"}"#;
const NATURAL: &str = r#"{"type":"integer","minimum":0}"#;
const CODE: &str = r#"{"type":["string","integer"]}"#;

fn integer(max: u64) -> String {
    format!(r#"{{"type":"integer","minimum":0,"maximum":{max}}}"#)
}

fn array(items: &str) -> String {
    format!(r#"{{"type":"array","items":{items}}}"#)
}

struct Member {
    name: &'static str,
    schema: String,
    is_required: bool,
}

fn required(name: &'static str, schema: &str) -> Member {
    Member { name, schema: schema.to_owned(), is_required: true }
}

fn optional(name: &'static str, schema: &str) -> Member {
    Member { name, schema: schema.to_owned(), is_required: false }
}

/// The schema of an object with these members; others are allowed.
fn object(members: &[Member]) -> String {
    let properties: Vec<String> =
        members.iter().map(|member| format!(r#""{}":{}"#, member.name, member.schema)).collect();
    let needed: Vec<String> = members
        .iter()
        .filter(|member| member.is_required)
        .map(|member| format!(r#""{}""#, member.name))
        .collect();
    let needed = match needed.as_slice() {
        [] => String::new(),
        names => format!(r#","required":[{}]"#, names.join(",")),
    };
    format!(r#"{{"type":"object","properties":{{{}}}{needed}}}"#, properties.join(","))
}
