//! Type expressions: what an attribute takes and an action gives, in the words of HCL.
//!
//! The text of a provider's schema and a scenario's `variable.type` are read by the same
//! [`parse`]; a type prints itself in one canonical form; [`schema`] translates it to JSON
//! Schema and back.

mod error;
mod parse;
mod print;
pub mod schema;

use std::collections::BTreeMap;

use crate::json::Json;

pub use error::{TypeError, TypeFault};
pub use parse::parse;
pub use print::{is_identifier, quoted};

/// How deep types may stand inside each other.
pub const DEPTH_MAX: usize = 32;

/// What values are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Text.
    String,
    /// A number of any size and precision.
    Number,
    /// `true` or `false`.
    Bool,
    /// Anything; nothing is converted.
    Any,
    /// An array whose elements are of one type.
    List(Box<Type>),
    /// The same, each element once, sorted.
    Set(Box<Type>),
    /// An object with any keys, whose values are of one type.
    Map(Box<Type>),
    /// An array of a known length with a type for each place.
    Tuple(Vec<Type>),
    /// An object with known keys, sorted by name.
    Object(BTreeMap<String, Field>),
}

/// One key of an object type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What its value may be.
    pub ty: Type,
    /// May it be left out?
    pub presence: Presence,
}

/// May a key of an object be left out?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// No.
    Required,
    /// Yes; what then stands in its place, if not `null`.
    Optional(Option<Json>),
}

impl Field {
    /// A key that must be there.
    pub fn required(ty: Type) -> Field {
        Field { ty, presence: Presence::Required }
    }

    /// A key that may be left out.
    pub fn optional(ty: Type) -> Field {
        Field { ty, presence: Presence::Optional(None) }
    }
}

impl Type {
    /// What kind of JSON value it wants, in the words of refusals; `None` if any will do.
    pub(super) fn kind(&self) -> Option<&'static str> {
        match self {
            Type::String => Some("string"),
            Type::Number => Some("number"),
            Type::Bool => Some("bool"),
            Type::Any => None,
            Type::List(_) | Type::Set(_) | Type::Tuple(_) => Some("list"),
            Type::Map(_) | Type::Object(_) => Some("object"),
        }
    }
}

#[cfg(test)]
mod tests;
