//! The config as it is in force, without what is secret in it.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toolbus_proto::page::JsonMembers;

use super::{KnownSecrets, Page};
use crate::address::Address;
use crate::secrets::{self, MASK};
use crate::time::rfc3339;
use toolbus_proto::json::Json;
use toolbus_proto::page::Masks as _;

/// Tables and keys whose values are secret, whatever they are.
const SECRET: [&str; 4] = ["env", "headers", "config", "token"];
/// Keys that hold addresses.
const ADDRESSES: [&str; 2] = ["connect", "serve"];

impl Page {
    pub(super) fn write_config(&self, out: &mut Vec<u8>) {
        let facts = self.facts.borrow().clone();
        let mut members = JsonMembers::begin(out);
        members.text("path", &secrets::masked(&facts.config.display().to_string()));
        members.text("loaded", &rfc3339(facts.loaded));
        let tables = Json::of(&shown(&facts.text));
        members.raw("tables", KnownSecrets.json(&tables).as_str());
        members.end();
    }
}

/// The tables of a config that was read without a mistake.
fn shown(text: &str) -> Value {
    let Ok(table) = DeTable::parse(text) else { return Value::Object(Map::new()) };
    let Value::Object(tables) = table_of(table.get_ref()) else { return Value::Null };
    Value::Object(tables.into_iter().map(|(name, value)| open(name, value)).collect())
}

/// A table as JSON, in the order of the file.
fn table_of(table: &DeTable<'_>) -> Value {
    let mut members: Vec<_> = table.iter().collect();
    members.sort_by_key(|(key, _)| key.span().start);
    let member = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        (key.to_string(), value_of(value.get_ref()))
    };
    Value::Object(members.into_iter().map(member).collect())
}

fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => {
            let read = i64::from_str_radix(integer.as_str(), integer.radix());
            read.map_or_else(|_| Value::String(integer.to_string()), Value::from)
        }
        DeValue::Float(float) => {
            let read = float.as_str().parse::<f64>();
            read.map_or_else(|_| Value::String(float.to_string()), Value::from)
        }
        DeValue::Boolean(is) => Value::Bool(*is),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(elements) => {
            Value::Array(elements.iter().map(|element| value_of(element.get_ref())).collect())
        }
        DeValue::Table(table) => table_of(table),
    }
}

fn open(name: String, value: Value) -> (String, Value) {
    let value = match value {
        value if SECRET.contains(&name.as_str()) => hidden(value),
        Value::Object(table) => {
            Value::Object(table.into_iter().map(|(name, value)| open(name, value)).collect())
        }
        Value::Array(elements) => {
            let element = |value| open(String::new(), value).1;
            Value::Array(elements.into_iter().map(element).collect())
        }
        Value::String(text) if ADDRESSES.contains(&name.as_str()) => {
            Value::String(Address::parse(&text).map_or_else(|_| bare(&text), |it| it.to_string()))
        }
        value => value,
    };
    (name, value)
}

/// What only listens may be no address to call: neither who is named before its host nor what stands
/// behind its path is shown.
fn bare(text: &str) -> String {
    let (place, _) = text.split_once('?').unwrap_or((text, ""));
    match place.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.find('/').unwrap_or(rest.len());
            let from = rest[..host].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[from..])
        }
        None => place.to_owned(),
    }
}

fn hidden(value: Value) -> Value {
    match value {
        Value::Object(table) => {
            Value::Object(table.into_iter().map(|(name, value)| (name, hidden(value))).collect())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(hidden).collect()),
        Value::String(text) if is_reference(&text) => Value::String(text),
        _ => Value::String(MASK.to_owned()),
    }
}

/// Is it exactly one `${…}`? That is no secret, but where it is.
fn is_reference(text: &str) -> bool {
    let inner = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(['$', '{', '}']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_not_shown_and_where_it_is_is() {
        let shown = shown(
            "[back.git]\nconnect = \"mcp+http://user:pass@127.0.0.1:1/mcp?key=abcdefgh\"\n\
             timeout = \"5s\"\nallow = [\"a\"]\n\
             [back.git.env]\nA = \"${A}\"\nB = \"plain\"\nC = \"x${A}\"\nD = \"${A}${B}\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"${file:t}\"\n\
             [caller.ann]\ntoken = [\"${T}\", \"open\"]\n",
        );
        let text = shown.to_string();
        for secret in ["pass", "abcdefgh", "plain", "open"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        let env = &shown["back"]["git"]["env"];
        assert_eq!(env["A"], "${A}");
        assert_eq!([&env["B"], &env["C"], &env["D"]], ["***", "***", "***"]);
        assert_eq!(shown["admin"]["token"], "${file:t}");
        assert_eq!(shown["caller"]["ann"]["token"][0], "${T}");
        assert_eq!(shown["back"]["git"]["timeout"], "5s");
    }
}
