//! The config as a JSON Schema, for editors. It may accept what the config refuses, such as a key of
//! another wire, and never the reverse.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{DescribedKey, Shape, Table, tables};
use crate::peer::Registry;

/// The schema of draft 2020-12 with this `$id`, as the text of a file.
pub fn schema(registry: &Registry, id: &str) -> String {
    let mut properties = Map::new();
    for table in tables(registry) {
        properties.insert(table.name.to_owned(), of_table(&table));
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": id,
        "title": "toolbus.toml",
        "description": "The config of toolbus: who answers, on what callers are served, and what \
                        is kept of their calls.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    format!("{schema:#}\n")
}

fn of_table(table: &Table) -> Value {
    let keys = of_keys(&table.keys);
    if !table.is_family {
        return described(keys, table.doc);
    }
    let family = json!({
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z0-9_-]+$", "not": {"const": "toolbus"}},
        "additionalProperties": keys,
    });
    described(family, table.doc)
}

/// A table that has these keys and no others.
fn of_keys(keys: &[DescribedKey]) -> Value {
    let mut properties = Map::new();
    for key in keys {
        if !properties.contains_key(key.name) {
            let all: Vec<_> = keys.iter().filter(|other| other.name == key.name).collect();
            properties.insert(key.name.to_owned(), of_key(&all));
        }
    }
    let required: Vec<_> = keys.iter().filter(|key| key.is_required).map(|key| key.name).collect();
    let mut table = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table["additionalProperties"] = json!(false);
    table
}

/// One key, which may be of several wires and mean something else in each.
fn of_key(meanings: &[&DescribedKey]) -> Value {
    let mut shapes: Vec<Shape> = Vec::new();
    for meaning in meanings {
        if !shapes.contains(&meaning.shape) {
            shapes.push(meaning.shape);
        }
    }
    let value = match shapes.as_slice() {
        [only] => of_shape(*only),
        several => json!({"anyOf": several.iter().copied().map(of_shape).collect::<Vec<_>>()}),
    };
    let mut told = HashSet::new();
    let docs = meanings.iter().filter(|meaning| told.insert((meaning.whose, meaning.doc)));
    let docs: Vec<_> = docs.map(|meaning| format!("{}: {}.", meaning.whose, meaning.doc)).collect();
    let mut value = described(value, &docs.join("\n"));
    let default = meanings[0].default;
    if !default.is_empty() && meanings.iter().all(|meaning| meaning.default == default) {
        value["default"] = default_value(meanings[0]);
    }
    value
}

fn of_shape(shape: Shape) -> Value {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    match shape {
        Shape::Text => json!({"type": "string"}),
        Shape::Texts => texts,
        Shape::OneOrMoreTexts => json!({"anyOf": [{"type": "string"}, texts]}),
        Shape::OneOrMoreNumbers => {
            let number = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
            json!({"anyOf": [number, {"type": "array", "items": number}]})
        }
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Search => json!({"enum": [true, false, "auto"]}),
        Shape::Duration => json!({"type": "string", "pattern": "^[0-9][0-9.]*(ms|s|m)$"}),
        Shape::Size => json!({"anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": "^[0-9]+([KMG]iB)?$"},
        ]}),
        Shape::Count(None) => json!({"type": "integer", "minimum": 1}),
        Shape::Count(Some(most)) => json!({"type": "integer", "minimum": 1, "maximum": most}),
        Shape::Threads => json!({"anyOf": [
            {"const": "auto"},
            {"type": "integer", "minimum": 1, "maximum": 64},
        ]}),
        Shape::Rate => json!({"type": "string", "pattern": "^[0-9]+/[0-9][0-9.]*(ms|s|m)$"}),
        Shape::Choice(words) => json!({"enum": words}),
        Shape::Names => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Shape::Open => json!({"type": "object"}),
        Shape::Table(keys) => of_keys(keys),
        Shape::Keys(keys) => of_keys(&keys.iter().map(DescribedKey::of).collect::<Vec<_>>()),
        Shape::TextOrFalse => json!({"anyOf": [{"type": "string"}, {"const": false}]}),
        Shape::TrueOrText => json!({"anyOf": [{"type": "string"}, {"const": true}]}),
        Shape::TextsByName => json!({"type": "object", "additionalProperties": texts}),
        Shape::Tables(keys) => json!({"type": "object", "additionalProperties": of_keys(keys)}),
    }
}

fn described(value: Value, doc: &str) -> Value {
    let mut described = json!({"description": doc});
    if let (Value::Object(described), Value::Object(value)) = (&mut described, value) {
        described.extend(value);
    }
    described
}

/// What goes without saying, as JSON has it.
fn default_value(key: &DescribedKey) -> Value {
    let is_text = matches!(key.shape, Shape::Text | Shape::Duration | Shape::Choice(_));
    match serde_json::from_str(key.default) {
        Ok(value) if !is_text => value,
        _ => json!(key.default),
    }
}
