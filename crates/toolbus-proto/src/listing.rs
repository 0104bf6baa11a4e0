//! Tools as JSON where toolbus lists them in its own way: `toolbus tools --json`, and the
//! reserved `toolbus.tools` of the wires that have no list of their own.

use std::borrow::Cow;

use crate::json::{Json, edit, write_string};
use crate::tool::{Hints, ToolSpec};

/// `{"name":…,"title"?:…,"description"?:…,"input":…,"output"?:…,"hints"?:{…}}`, each schema
/// without blanks.
pub fn tool(spec: &ToolSpec) -> Json {
    let mut out = vec![b'{'];
    write_members(&mut out, spec);
    out.push(b'}');
    Json::from_trusted(out)
}

/// Reads what [`tool`] has written; `None` if it is no tool.
pub fn read(object: &Json) -> Option<ToolSpec> {
    let raw = object.as_str();
    let text = |name: &str| edit::text(raw, name).map(Cow::into_owned);
    let schema = |name: &str| Some(Json::part_of(object.as_bytes(), edit::member(raw, name)?));
    let hints = edit::member(raw, "hints").map(|hints| {
        let hint = |name: &str| edit::member(hints, name).and_then(|raw| raw.parse().ok());
        let (read_only, idempotent) = (hint("read_only"), hint("idempotent"));
        Hints { read_only, idempotent, destructive: hint("destructive") }
    });
    Some(ToolSpec {
        title: text("title"),
        description: text("description"),
        output: schema("output"),
        hints,
        ..ToolSpec::new(text("name")?, schema("input")?)
    })
}

/// Several of them as one array.
pub fn tools<'a>(specs: impl IntoIterator<Item = &'a ToolSpec>) -> Json {
    let specs: Vec<_> = specs.into_iter().map(|spec| tool(spec).to_string()).collect();
    Json::from_trusted(format!("[{}]", specs.join(",")))
}

/// The members of [`tool`], for a listing that adds some of its own.
pub fn write_members(out: &mut Vec<u8>, spec: &ToolSpec) {
    out.extend_from_slice(br#""name":"#);
    write_string(out, spec.name.as_str());
    for (name, text) in [("title", &spec.title), ("description", &spec.description)] {
        if let Some(text) = text {
            write_name(out, name);
            write_string(out, text);
        }
    }
    for (name, schema) in [("input", Some(&spec.input)), ("output", spec.output.as_ref())] {
        if let Some(schema) = schema {
            write_name(out, name);
            out.extend_from_slice(schema.compact().as_bytes());
        }
    }
    if let Some(hints) = &spec.hints {
        write_name(out, "hints");
        out.extend_from_slice(self::hints(hints).as_bytes());
    }
}

/// What calling a tool may do to the world, as far as it is known.
pub fn hints(hints: &Hints) -> Json {
    let Hints { read_only, idempotent, destructive } = hints;
    let known: Vec<String> =
        [("read_only", read_only), ("idempotent", idempotent), ("destructive", destructive)]
            .iter()
            .filter_map(|(name, hint)| hint.map(|hint| format!("\"{name}\":{hint}")))
            .collect();
    Json::from_trusted(format!("{{{}}}", known.join(",")))
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    write_string(out, name);
    out.push(b':');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut spec = ToolSpec::new("a\"b", Json::parse("{ }").unwrap());
        assert_eq!(tool(&spec).as_str(), r#"{"name":"a\"b","input":{}}"#);
        spec.title = Some("T".into());
        spec.description = Some("two\nlines".into());
        spec.output = Some(Json::parse(r#"{"type": "null"}"#).unwrap());
        spec.hints =
            Some(Hints { read_only: Some(true), destructive: None, idempotent: Some(false) });
        let whole = r#"{"name":"a\"b","title":"T","description":"two\nlines","input":{},"output":{"type":"null"},"hints":{"read_only":true,"idempotent":false}}"#;
        assert_eq!(tool(&spec).as_str(), whole);
        let again = read(&tool(&spec)).unwrap();
        assert_eq!(tool(&again), tool(&spec));
        let twice = tools([&spec, &spec]);
        assert_eq!(twice.as_str(), format!("[{whole},{whole}]"));
        assert_eq!(tools([]).as_str(), "[]");
    }
}
