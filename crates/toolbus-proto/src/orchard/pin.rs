//! What of a provider is pinned: each action, as the provider wrote it.

use super::WIRE;
use super::schema::Action;
use super::translate::tool;
use crate::json::{Json, edit, write_string};
use crate::pin::{Layout, Layouts, Shape};
use crate::tool::ToolSpec;

/// How the definitions of this wire stand in the file.
pub const LAYOUTS: Layouts = Layouts::of_tools(Layout {
    name: "name",
    members: &[
        ("description", "description", Shape::Text),
        ("attrs", "attrs", Shape::Json),
        ("outputs", "outputs", Shape::Json),
    ],
});

/// `{"name":…,"description"?:…,"attrs"?:…,"outputs"?:…}`.
pub fn definition(spec: &ToolSpec) -> Option<Json> {
    let native = spec.native.as_ref().filter(|native| native.wire == WIRE)?;
    let action = str::from_utf8(&native.text).ok()?;
    let mut out = br#"{"name":"#.to_vec();
    write_string(&mut out, spec.name.as_str());
    for name in ["description", "attrs", "outputs"] {
        if let Some(value) = edit::member(action, name) {
            out.push(b',');
            write_string(&mut out, name);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
    }
    out.push(b'}');
    Some(Json::from_trusted(out))
}

/// The action as a tool again.
pub fn read_definition(object: &Json) -> Option<ToolSpec> {
    let name = edit::text(object.as_str(), "name")?;
    let action = Json::from_trusted(edit::without(object.as_str(), "name"));
    Some(tool(&name, &Action::read(&action).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_kept_as_it_was_written() {
        let written = r#"{"attrs":{"n":{"type":"number","default":1.0,"required":false}},"description":"d","outputs":{"type":"string"}}"#;
        let spec = tool("a", &Action::read(&Json::parse(written).unwrap()).unwrap());
        let object = definition(&spec).unwrap();
        let expected = r#"{"name":"a","description":"d","attrs":{"n":{"type":"number","default":1.0,"required":false}},"outputs":{"type":"string"}}"#;
        assert_eq!(object.as_str(), expected);
        let again = read_definition(&object).unwrap();
        assert_eq!((again.input, again.output), (spec.input, spec.output));
    }
}
