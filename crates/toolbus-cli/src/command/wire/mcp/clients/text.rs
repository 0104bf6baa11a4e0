//! The text of a client's config as a value: JSON with what editors allow besides, or TOML.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::clients::ClientConfigError;

/// JSON, in which editors allow comments and a comma too many.
pub(super) fn json(text: &str) -> Result<Value, ClientConfigError> {
    serde_json::from_str(text).or_else(|error| {
        let wrong = |_| ClientConfigError::Syntax { form: "JSON", why: error.to_string() };
        serde_json::from_str(&without_comments(text)).map_err(wrong)
    })
}

/// The text without what editors allow besides JSON.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
                continue;
            }
            '}' | ']' => {
                let kept = out.trim_end();
                if let Some(before) = kept.strip_suffix(',') {
                    out.truncate(before.len());
                }
                1
            }
            other => other.len_utf8(),
        };
        let (taken, behind) = rest.split_at(length);
        out.push_str(taken);
        rest = behind;
    }
    out
}

/// How long the string is that the text begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return at + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// TOML as a JSON value, as far as configs of servers need it.
pub(super) fn toml(text: &str) -> Result<Value, ClientConfigError> {
    let table = DeTable::parse(text).map_err(|error| ClientConfigError::Syntax {
        form: "TOML",
        why: error.message().to_owned(),
    })?;
    Ok(of_table(table.get_ref()))
}

fn of_table(table: &DeTable<'_>) -> Value {
    let member = |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &_)| {
        let value: &toml::Spanned<DeValue<'_>> = value;
        (key.get_ref().to_string(), of_value(value.get_ref()))
    };
    Value::Object(table.iter().map(member).collect())
}

fn of_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(value) => Value::from(*value),
        DeValue::Array(array) => array.iter().map(|value| of_value(value.get_ref())).collect(),
        DeValue::Table(table) => of_table(table),
        // Numbers and times are settings of the client's own.
        DeValue::Integer(number) => Value::from(number.as_str()),
        DeValue::Float(number) => Value::from(number.as_str()),
        DeValue::Datetime(time) => Value::from(time.to_string()),
    }
}
