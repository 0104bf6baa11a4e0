//! A signature for a tool of which only the schemas are known.
//!
//! Schemas come from strangers and say more than felts can: whatever is odd in them becomes
//! `json`, and nothing makes this fail.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::signature::{Function, I128, Members, Type, TypeId, Types, U128};
use crate::json::edit;
use crate::jsonrpc::string;

pub(super) fn function(tool: &str, input: &str, output: Option<&str>) -> Function {
    let mut builder = Builder::default();
    let params = match Schema::read(input) {
        Schema { properties: Some(properties), required, .. } => {
            builder.params(properties, required)
        }
        _ => vec![(ALL_ARGUMENTS.to_owned(), builder.add(Type::Json))],
    };
    let result = match output {
        Some(output) => builder.ty(output, 0),
        None => builder.add(Type::ByteArray),
    };
    let Ok(types) = Types::new(builder.types) else {
        unreachable!("a tree of types, no deeper than ARRAYS_MAX, whose leaves all take felts")
    };
    let params = Members::new(params).expect("repeated names were left out");
    Function { name: tool.to_owned(), params, result, types: Arc::new(types) }
}

/// Whether a tool says what its arguments are called.
pub(super) fn names_its_arguments(input: &str) -> bool {
    Schema::read(input).properties.is_some()
}

/// The parameter that stands for all arguments of a tool that names none.
pub(super) const ALL_ARGUMENTS: &str = "arguments";

/// Arrays in arrays that are still told apart. Each level is looked through again for the
/// next, so this bounds what a hostile schema costs.
const ARRAYS_MAX: usize = 32;

/// What is read of a JSON Schema, each as raw JSON; the last of two members of one name.
#[derive(Default)]
struct Schema<'a> {
    ty: &'a str,
    items: Option<&'a str>,
    minimum: &'a str,
    properties: Option<&'a str>,
    required: &'a str,
    is_reference: bool,
}

impl<'a> Schema<'a> {
    /// A schema that is no object, or not even JSON, says nothing.
    fn read(text: &'a str) -> Schema<'a> {
        let mut schema = Schema::default();
        for (name, value) in edit::members(text) {
            match &*name {
                "type" => schema.ty = value,
                "items" => schema.items = Some(value),
                "minimum" => schema.minimum = value,
                "properties" => {
                    schema.properties = Some(value).filter(|text| text.starts_with('{'));
                }
                "required" => schema.required = value,
                "$ref" => schema.is_reference = true,
                _ => {}
            }
        }
        schema
    }
}

/// A table of types in the making.
#[derive(Default)]
struct Builder {
    types: Vec<Type>,
}

impl Builder {
    fn params(&mut self, properties: &str, required: &str) -> Vec<(String, TypeId)> {
        let required = strings(required);
        let mut seen = HashSet::new();
        let mut params = Vec::new();
        for (name, schema) in edit::members(properties) {
            if !seen.insert(name.clone()) {
                continue;
            }
            let ty = self.ty(schema, 0);
            let is_required = required.contains(&name);
            let ty = if is_required { ty } else { self.add(Type::Option(ty)) };
            params.push((name.into_owned(), ty));
        }
        params
    }

    fn ty(&mut self, text: &str, arrays: usize) -> TypeId {
        let schema = Schema::read(text);
        let ty = match (schema.ty, schema.items) {
            _ if schema.is_reference => Type::Json,
            (r#""boolean""#, _) => Type::Bool,
            (r#""integer""#, _) => {
                let is_unsigned = schema.minimum.parse().is_ok_and(|minimum: f64| 0.0 <= minimum);
                Type::Integer(if is_unsigned { U128 } else { I128 })
            }
            (r#""string""#, _) => Type::ByteArray,
            (r#""array""#, Some(items)) if arrays < ARRAYS_MAX => {
                Type::Array(self.ty(items, arrays + 1))
            }
            _ => Type::Json,
        };
        self.add(ty)
    }

    fn add(&mut self, ty: Type) -> TypeId {
        let id = TypeId::next(&self.types);
        self.types.push(ty);
        id
    }
}

/// The strings of an array.
fn strings(array: &str) -> HashSet<Cow<'_, str>> {
    edit::elements(array).filter_map(string).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::oracle::signature::parse;

    fn from_input(schema: &str) -> String {
        function("t", schema, None).canonical()
    }

    #[test]
    fn properties_become_parameters_in_their_order() {
        for (schema, want) in [
            (
                r#"{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["a","z"]}"#,
                "t(z: ByteArray, a: i128) -> ByteArray",
            ),
            (
                r#"{"required":["n"],"properties":{"n":{"minimum":0,"type":"integer"},"o":{"type":"boolean"}}}"#,
                "t(n: u128, o: Option<bool>) -> ByteArray",
            ),
            (
                r#"{"properties":{"l":{"type":"array","items":{"type":"array","items":{"type":"integer","minimum":-1}}}},"required":["l"]}"#,
                "t(l: Array<Array<i128>>) -> ByteArray",
            ),
            (
                r##"{"properties":{"a":{"type":"number"},"b":{"type":"object"},"c":{"type":["string","null"]},"d":{"$ref":"#/x","type":"string"},"e":{},"f":true,"g":{"type":"array"}},"required":["a","b","c","d","e","f","g"]}"##,
                "t(a: json, b: json, c: json, d: json, e: json, f: json, g: json) -> ByteArray",
            ),
            (
                r#"{"properties":{"a b":{},"a b":{"type":"string"}}}"#,
                "t(\"a b\": Option<json>) -> ByteArray",
            ),
            (r#"{"type":"object","properties":{}}"#, "t() -> ByteArray"),
            (r#"{"type":"object"}"#, "t(arguments: json) -> ByteArray"),
            (r#"{"properties":5,"required":7}"#, "t(arguments: json) -> ByteArray"),
            ("true", "t(arguments: json) -> ByteArray"),
        ] {
            assert_eq!(from_input(schema), want);
        }
    }

    #[test]
    fn the_result_goes_by_the_same_table() {
        for (schema, want) in [
            (r#"{"type":"string"}"#, "t() -> ByteArray"),
            (r#"{"type":"integer","minimum":0}"#, "t() -> u128"),
            (r#"{"type":"array","items":{"type":"boolean"}}"#, "t() -> Array<bool>"),
            (r#"{"type":"object","properties":{}}"#, "t() -> json"),
        ] {
            let function = function("t", r#"{"properties":{}}"#, Some(schema));
            assert_eq!(function.canonical(), want);
        }
    }

    #[test]
    fn deep_schemas_end_in_json() {
        let nested = r#"{"type":"array","items":"#.repeat(100) + "{}" + &"}".repeat(100);
        let schema = format!(r#"{{"properties":{{"x":{nested}}},"required":["x"]}}"#);
        let canonical = from_input(&schema);
        assert_eq!(canonical.matches("Array<").count(), ARRAYS_MAX);
        assert_eq!(parse(&canonical).unwrap()[0].canonical(), canonical);
    }

    proptest! {
        #[test]
        fn no_schema_fails(schema in r#"[{}\[\]",: a1]{0,24}|\{"(properties|required|type|items)":[{}"a\[\]:,]{0,12}\}"#) {
            let function = function("t", &schema, Some(&schema)).canonical();
            prop_assert!(parse(&function).is_ok(), "{}", function);
        }
    }
}
