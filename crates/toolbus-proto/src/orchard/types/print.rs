//! A type as text: tight, keys sorted, and such that HCL and [`parse`] read it the same.
//!
//! [`parse`]: super::parse

use std::fmt::{self, Write};

use super::{Field, Presence, Type};
use crate::json::{Kind, Scanner};
use crate::jsonrpc::{kind, string};

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::String => f.write_str("string"),
            Type::Number => f.write_str("number"),
            Type::Bool => f.write_str("bool"),
            Type::Any => f.write_str("any"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Set(element) => write!(f, "set({element})"),
            Type::Map(element) => write!(f, "map({element})"),
            Type::Tuple(elements) => {
                f.write_str("tuple([")?;
                for (index, element) in elements.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{element}")?;
                }
                f.write_str("])")
            }
            Type::Object(fields) => {
                f.write_str("object({")?;
                for (index, (name, field)) in fields.iter().enumerate() {
                    if index > 0 {
                        f.write_char(',')?;
                    }
                    write!(f, "{}={field}", key(name))?;
                }
                f.write_str("})")
            }
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = &self.ty;
        match &self.presence {
            Presence::Required => write!(f, "{ty}"),
            Presence::Optional(None) => write!(f, "optional({ty})"),
            Presence::Optional(Some(default)) => {
                write!(f, "optional({ty},{})", Literal(default.as_str()))
            }
        }
    }
}

/// Can this stand as a name in HCL without quotes?
pub fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(begins_identifier) && chars.all(continues_identifier)
}

pub(super) fn begins_identifier(char: char) -> bool {
    char == '_' || char.is_alphabetic()
}

pub(super) fn continues_identifier(char: char) -> bool {
    char == '_' || char == '-' || char.is_alphanumeric()
}

/// A text as a string of HCL that means nothing but itself.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Would begin a template.
            '$' | '%' if chars.peek() == Some(&'{') => out.extend([char, char]),
            char if char.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

fn key(name: &str) -> String {
    // Bare, these four would be something else than a name to HCL.
    match is_identifier(name) && !matches!(name, "for" | "null" | "true" | "false") {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// A JSON value as HCL writes it.
struct Literal<'a>(&'a str);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw = self.0;
        let mut scanner = Scanner::new(raw);
        match kind(raw) {
            Kind::Null | Kind::Bool | Kind::Number => f.write_str(raw),
            Kind::String => f.write_str(&quoted(&string(raw).unwrap_or_default())),
            Kind::Array => {
                f.write_char('[')?;
                scanner.enter_array();
                let mut first = true;
                while let Ok(Some(element)) = scanner.element(first) {
                    let comma = if first { "" } else { "," };
                    write!(f, "{comma}{}", Literal(element))?;
                    first = false;
                }
                f.write_char(']')
            }
            Kind::Object => {
                f.write_char('{')?;
                scanner.enter_object();
                let mut first = true;
                while let Ok(Some((name, value))) = scanner.member(first) {
                    let comma = if first { "" } else { "," };
                    write!(f, "{comma}{}:{}", Literal(name), Literal(value))?;
                    first = false;
                }
                f.write_char('}')
            }
        }
    }
}
