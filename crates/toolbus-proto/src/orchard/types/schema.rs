//! Types as JSON Schema, and what can be said of a JSON Schema as a type.
//!
//! HCL's types say less: what has no counterpart (`anyOf`, `$ref`, ranges, patterns) becomes
//! `any` or is left to the tool itself to check.

use std::collections::BTreeMap;

use super::{DEPTH_MAX, Field, Presence, Type};
use crate::json::edit::{self, elements, members};
use crate::json::{Json, Kind, Scanner, write_string};
use crate::jsonrpc::{kind, string};
use crate::orchard::value;

/// A type with all that JSON Schema can say beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromSchema {
    /// The type.
    pub ty: Type,
    /// `null` is allowed besides.
    pub is_nullable: bool,
    /// What stands in its place if it is left out; of its type.
    pub default: Option<Json>,
    /// What it is, for people.
    pub description: Option<String>,
    /// It is a secret: `writeOnly`.
    pub is_sensitive: bool,
}

impl From<Type> for FromSchema {
    fn from(ty: Type) -> FromSchema {
        FromSchema { ty, is_nullable: false, default: None, description: None, is_sensitive: false }
    }
}

/// The JSON Schema of a type.
pub fn of(ty: &Type) -> Json {
    let mut out = Vec::new();
    write(&mut out, ty, None, None, false);
    Json::from_trusted(out)
}

/// Appends the schema of a type, with what is said beside it.
pub(in crate::orchard) fn write(
    out: &mut Vec<u8>,
    ty: &Type,
    default: Option<&Json>,
    description: Option<&str>,
    is_sensitive: bool,
) {
    let is_bare = default.is_none() && description.is_none() && !is_sensitive;
    if *ty == Type::Any && is_bare {
        return out.extend_from_slice(b"true");
    }
    let mut object = Members::begin(out);
    write_type(&mut object, ty);
    if let Some(default) = default {
        object.raw("default", default.as_str());
    }
    if let Some(description) = description {
        write_string(object.value("description"), description);
    }
    if is_sensitive {
        object.raw("writeOnly", "true");
    }
    object.end();
}

fn write_type(object: &mut Members<'_>, ty: &Type) {
    let bare = |out: &mut Vec<u8>, ty: &Type| write(out, ty, None, None, false);
    match ty {
        Type::String => object.raw("type", "\"string\""),
        Type::Number => object.raw("type", "\"number\""),
        Type::Bool => object.raw("type", "\"boolean\""),
        Type::Any => {}
        Type::List(element) | Type::Set(element) => {
            object.raw("type", "\"array\"");
            bare(object.value("items"), element);
            if let Type::Set(_) = ty {
                object.raw("uniqueItems", "true");
            }
        }
        Type::Map(element) => {
            object.raw("type", "\"object\"");
            bare(object.value("additionalProperties"), element);
        }
        Type::Tuple(elements) => {
            object.raw("type", "\"array\"");
            write_list(object.value("prefixItems"), elements, bare);
            object.raw("items", "false");
        }
        Type::Object(fields) => {
            object.raw("type", "\"object\"");
            let mut properties = Members::begin(object.value("properties"));
            for (name, field) in fields {
                let default = match &field.presence {
                    Presence::Optional(default) => default.as_ref(),
                    Presence::Required => None,
                };
                write(properties.value(name), &field.ty, default, None, false);
            }
            properties.end();
            let required = fields.iter().filter(|(_, field)| field.presence == Presence::Required);
            let required: Vec<_> = required.map(|(name, _)| name).collect();
            write_list(object.value("required"), &required, |out, name| write_string(out, name));
            object.raw("additionalProperties", "false");
        }
    }
}

pub(in crate::orchard) fn write_list<T>(
    out: &mut Vec<u8>,
    items: &[T],
    mut write: impl FnMut(&mut Vec<u8>, &T),
) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// An object in the making.
pub(in crate::orchard) struct Members<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Members<'o> {
    pub(in crate::orchard) fn begin(out: &'o mut Vec<u8>) -> Members<'o> {
        out.push(b'{');
        Members { out, is_empty: true }
    }

    /// The name of the next member is written, its value is to follow.
    pub(in crate::orchard) fn value(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        write_string(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// One more member, whose value is valid JSON.
    pub(in crate::orchard) fn raw(&mut self, name: &str, value: &str) {
        self.value(name).extend_from_slice(value.as_bytes());
    }

    pub(in crate::orchard) fn end(self) {
        self.out.push(b'}');
    }
}

/// What a JSON Schema says, as far as types can say it.
pub fn read(schema: &str) -> FromSchema {
    read_at(0, schema)
}

/// The properties of an object schema, each with whether it is required; `None` if the schema
/// is not an object with `properties`.
pub fn properties(schema: &str) -> Option<Vec<(String, FromSchema, bool)>> {
    let [ty, properties, required] = edit::pick(schema, ["type", "properties", "required"]);
    if ty.is_some_and(|ty| ty != "\"object\"") || !properties.is_some_and(is_object) {
        return None;
    }
    Some(properties_at(0, properties?, required))
}

fn properties_at(
    depth: usize,
    properties: &str,
    required: Option<&str>,
) -> Vec<(String, FromSchema, bool)> {
    let required: Vec<_> = required.into_iter().flat_map(elements).filter_map(string).collect();
    // Of two of one name the last, as most readers do.
    let properties: BTreeMap<_, _> = members(properties).collect();
    let read = properties.into_iter().map(|(name, schema)| {
        let is_required = required.contains(&name);
        (name.into_owned(), read_at(depth + 1, schema), is_required)
    });
    read.collect()
}

/// `depth` types stand around this one.
fn read_at(depth: usize, schema: &str) -> FromSchema {
    let names = ["type", "default", "description", "writeOnly"];
    let [ty, default, description, write_only] = edit::pick(schema, names);
    let (name, is_nullable) = ty.map_or((None, false), one_type);
    let ty = match has_alternatives(schema) {
        true => Type::Any,
        false => name.map_or(Type::Any, |name| named(depth, &name, schema)),
    };
    let default = default.and_then(|default| fitting(depth, &ty, default));
    FromSchema {
        ty,
        is_nullable,
        default,
        description: description.and_then(string).map(Into::into),
        is_sensitive: write_only == Some("true"),
    }
}

/// The one type that `type` names, and whether `null` is allowed besides.
fn one_type(ty: &str) -> (Option<String>, bool) {
    let owned = |raw: &str| string(raw).map(Into::into);
    let names: Vec<_> = elements(ty).collect();
    match names[..] {
        [] => (owned(ty), false),
        [one] => (owned(one), false),
        ["\"null\"", one] | [one, "\"null\""] => (owned(one), true),
        _ => (None, false),
    }
}

fn has_alternatives(schema: &str) -> bool {
    let alternatives = ["anyOf", "oneOf", "allOf", "$ref"];
    members(schema).any(|(name, _)| alternatives.contains(&&*name))
}

fn named(depth: usize, name: &str, schema: &str) -> Type {
    match name {
        "string" => Type::String,
        "number" | "integer" => Type::Number,
        "boolean" => Type::Bool,
        // Deeper types could be written, and not be read again.
        "array" | "object" if depth == DEPTH_MAX => Type::Any,
        "array" => array(depth, schema),
        "object" => object(depth, schema),
        _ => Type::Any,
    }
}

fn array(depth: usize, schema: &str) -> Type {
    let [items, first, unique] = edit::pick(schema, ["items", "prefixItems", "uniqueItems"]);
    match (first, items) {
        (Some(first), Some("false")) if kind(first) == Kind::Array => {
            Type::Tuple(elements(first).map(|element| read_at(depth + 1, element).ty).collect())
        }
        (None, items) if items.is_none_or(|items| kind(items) != Kind::Array) => {
            let element = items.map_or(Type::Any, |items| read_at(depth + 1, items).ty);
            let of = if unique == Some("true") { Type::Set } else { Type::List };
            of(Box::new(element))
        }
        _ => Type::Any,
    }
}

fn object(depth: usize, schema: &str) -> Type {
    let names = ["properties", "required", "additionalProperties"];
    let [properties, required, additional] = edit::pick(schema, names);
    if let Some(properties) = properties.filter(|properties| is_object(properties)) {
        let fields = properties_at(depth, properties, required).into_iter();
        let fields = fields.map(|(name, described, is_required)| {
            let presence = match is_required && !described.is_nullable {
                true => Presence::Required,
                false => Presence::Optional(described.default),
            };
            (name, Field { ty: described.ty, presence })
        });
        return Type::Object(fields.collect());
    }
    match additional {
        Some(element) if element == "true" || is_object(element) => {
            Type::Map(Box::new(read_at(depth + 1, element).ty))
        }
        _ => Type::Any,
    }
}

fn is_object(raw: &str) -> bool {
    kind(raw) == Kind::Object
}

/// A default of this type, unless it is not, or could not be written in a type expression.
fn fitting(depth: usize, ty: &Type, default: &str) -> Option<Json> {
    if DEPTH_MAX < depth + nesting(default) {
        return None;
    }
    let default = Json::parse(unescaped(default)?).ok()?;
    let default = value::convert(ty, &default).ok()?.value;
    let fits = !default.is_null() && depth + nesting(default.as_str()) <= DEPTH_MAX;
    fits.then_some(default)
}

/// The same JSON with its strings written as we write them, so that two of one meaning are
/// equal; `None` if a string in it has an escape that stands for no character.
fn unescaped(json: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('"') {
        let (before, behind) = rest.split_at(at);
        let raw = Scanner::new(behind).value().ok()?;
        out.extend_from_slice(before.as_bytes());
        write_string(&mut out, &string(raw)?);
        rest = &behind[raw.len()..];
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

/// How deep arrays and objects stand inside each other.
fn nesting(json: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let mut in_string = false;
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = depth.max(deepest);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::orchard::types::parse;

    #[test]
    fn what_types_cannot_say_is_any() {
        for (schema, ty) in [
            ("false", "any"),
            ("{}", "any"),
            ("7", "any"),
            (r#"{"type":"null"}"#, "any"),
            (r#"{"type":["string","number"]}"#, "any"),
            (r#"{"type":["string"]}"#, "string"),
            (r#"{"type":["null","integer"]}"#, "number"),
            (r##"{"$ref":"#/x","type":"string"}"##, "any"),
            (r#"{"enum":["a"]}"#, "any"),
            (r#"{"type":"string","enum":["a"]}"#, "string"),
            (r#"{"type":"array"}"#, "list(any)"),
            (r#"{"type":"array","items":[{"type":"string"}]}"#, "any"),
            (r#"{"type":"array","prefixItems":[{"type":"string"}]}"#, "any"),
            (r#"{"type":"array","prefixItems":[],"items":false}"#, "tuple([])"),
            (r#"{"type":"object"}"#, "any"),
            (r#"{"type":"object","additionalProperties":true}"#, "map(any)"),
            (r#"{"type":"object","additionalProperties":false}"#, "any"),
            (r#"{"type":"object","properties":{}}"#, "object({})"),
            (
                r#"{"type":"object","properties":{"a":{"default":"\ud800"},"b":{"default":[5]}}}"#,
                "object({a=optional(any),b=optional(any,[5])})",
            ),
            (
                r#"{"type":"object","properties":{"a":{"default":["\u0061\/",{"\u0062":-1.5e2}]}}}"#,
                r#"object({a=optional(any,["a/",{"b":-150}])})"#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"number","default":"x"}},"required":["b"]}"#,
                "object({a=optional(number)})",
            ),
        ] {
            assert_eq!(read(schema).ty.to_string(), ty, "{schema}");
        }
    }

    #[test]
    fn a_schema_without_end_ends_in_any() {
        let deep = |depth: usize| {
            let open = r#"{"type":"object","properties":{"a":"#.repeat(depth);
            format!("{open}true{}", "}}".repeat(depth))
        };
        let ty = read(&deep(60)).ty;
        assert_eq!(parse(&ty.to_string()).unwrap(), ty);
    }

    /// The text of some type, with defaults.
    fn any_type() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(&["string", "number", "bool", "any"][..]);
        leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
            let key =
                prop_oneof!["[a-d]{1,2}", Just("\"o k\"".to_owned()), Just("\"$${\"".to_owned())];
            let field = (key, inner.clone(), 0..3).prop_map(|(key, ty, kind)| match kind {
                0 => (key, ty),
                1 => (key, format!("optional({ty})")),
                _ => (key, "optional(any,{\"b\":[1.50,\"%%{\\n\"],\"a\":null})".to_owned()),
            });
            prop_oneof![
                inner.clone().prop_map(|ty| format!("list({ty})")),
                inner.clone().prop_map(|ty| format!("set({ty})")),
                inner.clone().prop_map(|ty| format!("map({ty})")),
                prop::collection::vec(inner, 0..3)
                    .prop_map(|all| format!("tuple([{}])", all.join(","))),
                prop::collection::btree_map("[a-z]", field, 0..4).prop_map(|fields| {
                    let fields: BTreeMap<_, _> = fields.into_values().collect();
                    let fields: Vec<_> =
                        fields.iter().map(|(key, ty)| format!("{key} = {ty}")).collect();
                    format!("object({{{}}})", fields.join("\n"))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_type_survives_its_text_and_its_schema(text in any_type()) {
            let ty = parse(&text).unwrap();
            prop_assert_eq!(parse(&ty.to_string()).unwrap(), ty.clone());
            let schema = of(&ty);
            prop_assert_eq!(read(schema.as_str()).ty, ty);
        }
    }
}
