//! A tool as `tools/list` describes it.

use std::borrow::Cow;

use bytes::Bytes;

use crate::json::edit;
use crate::json::{Json, Kind};
use crate::mcp::WIRE;
use crate::mcp::wire::{Revision, in_a_line, put_member, quoted};
use crate::tool::{Hints, Native, ToolName, ToolSpec};

/// What a tool takes if nothing is known about it.
const ANY_OBJECT: &str = r#"{"type":"object","properties":{}}"#;

/// Appends the tool as a client of this revision may see it.
pub fn write_tool(out: &mut Vec<u8>, revision: Revision, tool: &ToolSpec) {
    if let Some(native) = tool.native.as_ref().filter(|native| native.wire == WIRE)
        && let Ok(raw) = str::from_utf8(&native.text)
    {
        let name = String::from_utf8(quoted(tool.name.as_str())).unwrap_or_default();
        let is_renamed = edit::text(raw, "name").as_deref() != Some(tool.name.as_str());
        let renamed = edit::replaced(raw, "name", &name).filter(|_| is_renamed);
        let mut shown = Cow::from(renamed.as_deref().unwrap_or(raw));
        // A view may give a title to one that has none.
        if let Some(title) = tool.title.as_ref().filter(|_| Revision::V2025_06_18 <= revision)
            && edit::member(raw, "title").is_none()
        {
            let title = String::from_utf8(quoted(title)).unwrap_or_default();
            let titled = edit::with_behind(&shown, "name", "title", &title);
            shown = titled.map_or(shown, Cow::from);
        }
        // A legacy client takes an output schema for one of objects, and insists on it.
        let is_unfit = |schema: &str| edit::text(schema, "type").as_deref() != Some("object");
        if revision != Revision::MODERN && edit::member(raw, "outputSchema").is_some_and(is_unfit) {
            shown = edit::without(&shown, "outputSchema").into();
        }
        out.extend_from_slice(shown.as_bytes());
        return;
    }
    out.push(b'{');
    put_member(out, "name", quoted(tool.name.as_str()));
    if let Some(title) = tool.title.as_ref().filter(|_| Revision::V2025_06_18 <= revision) {
        put_member(out, "title", quoted(title));
    }
    if let Some(description) = &tool.description {
        put_member(out, "description", quoted(description));
    }
    put_member(out, "inputSchema", input_schema(&tool.input).as_bytes());
    if let Some(output) = shown_output(revision, tool) {
        put_member(out, "outputSchema", output.compact().as_bytes());
    }
    if let Some(hints) = tool.hints.as_ref().filter(|_| Revision::V2025_03_26 <= revision) {
        put_hints(out, hints);
    }
    out.push(b'}');
}

fn put_hints(out: &mut Vec<u8>, hints: &Hints) {
    let mut annotations = vec![b'{'];
    for (name, hint) in [
        ("readOnlyHint", hints.read_only),
        ("idempotentHint", hints.idempotent),
        ("destructiveHint", hints.destructive),
    ] {
        if let Some(hint) = hint {
            put_member(&mut annotations, name, if hint { "true" } else { "false" });
        }
    }
    if annotations.len() > 1 {
        annotations.push(b'}');
        put_member(out, "annotations", annotations);
    }
}

/// The schema of the tool's answers, if clients of this revision are shown it.
pub(in crate::mcp) fn shown_output(revision: Revision, tool: &ToolSpec) -> Option<&Json> {
    tool.output.as_ref().filter(|output| match revision {
        Revision::V2026_07_28 => true,
        Revision::V2025_06_18 | Revision::V2025_11_25 => is_of_objects(output),
        Revision::V2024_11_05 | Revision::V2025_03_26 => false,
    })
}

fn input_schema(input: &Json) -> Cow<'_, str> {
    if allows_anything(input) {
        return ANY_OBJECT.into();
    }
    let schema = input.compact();
    if is_of_objects(&schema) {
        let mut schema = schema.as_str().to_owned();
        // Some clients cannot do without, though JSON Schema can.
        if edit::member(&schema, "properties").is_none() {
            schema.pop();
            schema.push_str(r#","properties":{}}"#);
        }
        return schema.into();
    }
    let properties = format!("{{\"value\":{schema}}}");
    format!(r#"{{"type":"object","properties":{properties},"required":["value"]}}"#).into()
}

/// Are the tool's arguments no object, so that clients put them into `value`?
pub fn takes_wrapped(tool: &ToolSpec) -> bool {
    let is_native = tool.native.as_ref().is_some_and(|native| native.wire == WIRE);
    !is_native && !allows_anything(&tool.input) && !is_of_objects(&tool.input)
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

/// Reads one entry of a server's `tools/list`; `None` if it has no name.
pub fn read_tool(line: &Bytes, raw: &str) -> Option<ToolSpec> {
    let text = |name: &str| edit::text(raw, name).map(Cow::into_owned);
    let schema = |name: &str| Some(Json::part_of(line, edit::member(raw, name)?));
    let hints = edit::member(raw, "annotations").map(|annotations| {
        let hint = |name: &str| edit::member(annotations, name).and_then(|raw| raw.parse().ok());
        Hints {
            read_only: hint("readOnlyHint"),
            idempotent: hint("idempotentHint"),
            destructive: hint("destructiveHint"),
        }
    });
    Some(ToolSpec {
        name: ToolName::new(edit::text(raw, "name")?),
        title: text("title"),
        description: text("description"),
        input: schema("inputSchema").unwrap_or_else(|| Json::from_trusted(ANY_OBJECT)),
        output: schema("outputSchema"),
        hints: hints.filter(|hints| *hints != Hints::default()),
        native: Some(Native { wire: WIRE, text: in_a_line(line, raw) }),
    })
}

/// The tool as a toolbus listed it: what it writes for any object means just that, where others
/// mean a tool without arguments.
pub(in crate::mcp) fn as_toolbus_means(mut tool: ToolSpec) -> ToolSpec {
    if tool.input.as_str() == ANY_OBJECT {
        tool.input = Json::from_trusted(r#"{"type":"object"}"#);
    }
    tool
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(tool: &ToolSpec, expected: Expect) {
        let mut shown = String::new();
        for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28"] {
            let mut out = Vec::new();
            write_tool(&mut out, Revision::named(revision).unwrap(), tool);
            shown += &format!("{revision} {}\n", String::from_utf8(out).unwrap());
        }
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_tool_is_shown_as_its_revision_allows() {
        let mut tool = ToolSpec::new("add", Json::parse(r#"{"type": "object"}"#).unwrap());
        tool.title = Some("Add".into());
        tool.description = Some("adds".into());
        tool.output = Some(Json::parse(r#"{"type":"number"}"#).unwrap());
        tool.hints = Some(Hints { read_only: Some(true), ..Hints::default() });
        check(
            &tool,
            expect![[r#"
                2024-11-05 {"name":"add","description":"adds","inputSchema":{"type":"object","properties":{}}}
                2025-03-26 {"name":"add","description":"adds","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}
                2025-06-18 {"name":"add","title":"Add","description":"adds","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}
                2026-07-28 {"name":"add","title":"Add","description":"adds","inputSchema":{"type":"object","properties":{}},"outputSchema":{"type":"number"},"annotations":{"readOnlyHint":true}}
            "#]],
        );
    }

    #[test]
    fn arguments_that_are_no_object_are_wrapped() {
        let schema = |text: &'static str| input_schema(&Json::parse(text).unwrap()).into_owned();
        assert_eq!(schema("{}"), ANY_OBJECT);
        assert_eq!(schema("true"), ANY_OBJECT);
        assert_eq!(
            schema(r#"{"type":"object","additionalProperties":false}"#),
            r#"{"type":"object","additionalProperties":false,"properties":{}}"#
        );
        assert_eq!(
            schema(r#"{"type": "string"}"#),
            r#"{"type":"object","properties":{"value":{"type":"string"}},"required":["value"]}"#
        );
        let tool = ToolSpec::new("t", Json::parse(r#"{"type":"array"}"#).unwrap());
        assert!(takes_wrapped(&tool));
        let arguments = Json::parse(r#"{"value":[1.0]}"#).unwrap();
        assert_eq!(unwrapped(&arguments).unwrap().as_str(), "[1.0]");
        assert_eq!(unwrapped(&Json::parse("{}").unwrap()), None);
    }

    #[test]
    fn a_tool_of_another_server_keeps_its_text() {
        let raw = r#"{"x":1.0,"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
        let line = Bytes::from_static(raw.as_bytes());
        let mut tool = read_tool(&line, std::str::from_utf8(&line).unwrap()).unwrap();
        assert_eq!(tool.hints.unwrap().read_only, Some(true));
        let mut out = Vec::new();
        write_tool(&mut out, Revision::V2024_11_05, &tool);
        assert_eq!(out, raw.as_bytes());
        tool.name = "b_a".into();
        out.clear();
        write_tool(&mut out, Revision::V2024_11_05, &tool);
        assert_eq!(String::from_utf8(out).unwrap(), raw.replace("\"a\"", "\"b_a\""));
    }
}
