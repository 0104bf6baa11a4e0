//! What of an oracle is pinned: the signature of each function, in its canonical form.

use super::functions::tool;
use super::{WIRE, signature};
use crate::json::{Json, edit, write_string};
use crate::pin::{Layout, Layouts, Shape};
use crate::tool::ToolSpec;

/// How the definitions of this wire stand in the file.
pub const LAYOUTS: Layouts =
    Layouts::of_tools(Layout { name: "name", members: &[("signature", "signature", Shape::Text)] });

/// `{"name":…,"signature":…}`.
pub fn definition(spec: &ToolSpec) -> Option<Json> {
    let native = spec.native.as_ref().filter(|native| native.wire == WIRE)?;
    let mut out = br#"{"name":"#.to_vec();
    write_string(&mut out, spec.name.as_str());
    out.extend_from_slice(br#","signature":"#);
    write_string(&mut out, str::from_utf8(&native.text).ok()?);
    out.push(b'}');
    Some(Json::from_trusted(out))
}

/// The function as a tool again.
pub fn read_definition(object: &Json) -> Option<ToolSpec> {
    let text = edit::text(object.as_str(), "signature")?;
    let functions = signature::parse(&text).ok()?;
    functions.last().map(tool)
}

/// The tool that every oracle has besides its own.
pub fn generic() -> ToolSpec {
    tool(&super::known::generic_invoke())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_all_that_is_known_of_a_function() {
        let object = r#"{"name":"add","signature":"add(a: i128, b: i128) -> i128"}"#;
        let spec = read_definition(&Json::from_trusted(object)).unwrap();
        assert_eq!(definition(&spec).unwrap().as_str(), object);
    }
}
