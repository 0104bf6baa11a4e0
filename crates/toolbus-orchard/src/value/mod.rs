//! Values of HCL: what expressions are made into, in plan and in run.
//!
//! A value may be *unknown* (only the run will tell, but its type may be known) and *sensitive*
//! (it must not be shown); parts of a collection each for themselves. Values are shared, not
//! copied: a clone is cheap whatever its size. Each collection knows how much is in it, so
//! that limits cost nothing to check.

mod collection;
mod convert;
mod json;
mod number;
mod order;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use collection::{Collection, Summary};
pub use convert::convert;
pub use json::{Unknown, from_any_json};
pub use number::{Number, NumberError};
pub use toolbus_proto::orchard::types::{Field, Presence, Type};
pub use toolbus_proto::orchard::value::{Misfit, Mismatch};
pub use types::unify;
pub(crate) use types::{kind_word, unify_all};

/// How many elements a value may have, those of its elements counted.
pub const ELEMENTS_MAX: usize = 1_000_000;
/// How many bytes of text a value may have.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// How deep collections may stand inside each other: every look at a value is recursive, and
/// what is sent must be read by the other side, which has a limit of its own.
pub const DEPTH_MAX: usize = 120;

/// A value, and whether it must not be shown.
#[derive(Debug, Clone)]
pub struct Value {
    kind: Kind,
    is_sensitive: bool,
}

/// What a value is.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Nothing; fits every type.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    String(Arc<str>),
    /// Elements of one type.
    List(Arc<Collection<Vec<Value>>>),
    /// Elements of one type, each once, sorted.
    Set(Arc<Collection<Vec<Value>>>),
    /// Elements, each with a type of its own.
    Tuple(Arc<Collection<Vec<Value>>>),
    /// Members of one type.
    Map(Arc<Collection<BTreeMap<String, Value>>>),
    /// Members, each with a type of its own.
    Object(Arc<Collection<BTreeMap<String, Value>>>),
    /// Known only after the run; what it will be.
    Unknown(Arc<Type>),
}

impl Value {
    /// `null`.
    pub const NULL: Value = Value { kind: Kind::Null, is_sensitive: false };

    fn new(kind: Kind) -> Value {
        Value { kind, is_sensitive: false }
    }

    /// `true` or `false`.
    pub fn bool(bool: bool) -> Value {
        Value::new(Kind::Bool(bool))
    }

    /// A number.
    pub fn number(number: impl Into<Number>) -> Value {
        Value::new(Kind::Number(number.into()))
    }

    /// Text.
    pub fn string(text: impl Into<Arc<str>>) -> Value {
        Value::new(Kind::String(text.into()))
    }

    /// What only the run will tell. A type that is larger than any that is written down counts
    /// as `any`, since types are copied where values are shared.
    pub fn unknown(ty: Type) -> Value {
        let ty = if types::is_huge(&ty) { Type::Any } else { ty };
        Value::new(Kind::Unknown(Arc::new(ty)))
    }

    /// A list whose elements are of this type already.
    pub fn list(element: Type, elements: Vec<Value>) -> Value {
        Value::new(Kind::List(Arc::new(Collection::of_elements(element, elements))))
    }

    /// A set whose elements are of this type already: they are sorted, each is kept once. What
    /// is sensitive or unknown in an element makes the whole set so, since the order would tell.
    pub fn set(element: Type, mut elements: Vec<Value>) -> Value {
        let is_sensitive = elements.iter().any(Value::contains_sensitive);
        if elements.iter().any(Value::contains_unknown) {
            return Value::unknown(Type::Set(Box::new(element))).with_sensitive(is_sensitive);
        }
        if is_sensitive {
            elements = elements.iter().map(Value::bare).collect();
        }
        elements.sort();
        elements.dedup();
        Value::new(Kind::Set(Arc::new(Collection::of_elements(element, elements))))
            .with_sensitive(is_sensitive)
    }

    /// A tuple.
    pub fn tuple(elements: Vec<Value>) -> Value {
        Value::new(Kind::Tuple(Arc::new(Collection::of_elements(Type::Any, elements))))
    }

    /// A map whose members are of this type already.
    pub fn map(element: Type, members: BTreeMap<String, Value>) -> Value {
        Value::new(Kind::Map(Arc::new(Collection::of_members(element, members))))
    }

    /// An object.
    pub fn object(members: BTreeMap<String, Value>) -> Value {
        Value::new(Kind::Object(Arc::new(Collection::of_members(Type::Any, members))))
    }

    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Must it not be shown, as a whole? See [`Value::contains_sensitive`] for its parts.
    pub fn is_sensitive(&self) -> bool {
        self.is_sensitive
    }

    /// The same, sensitive.
    #[must_use]
    pub fn sensitive(self) -> Value {
        self.with_sensitive(true)
    }

    /// The same, sensitive if `taint` is; one that is so already stays it.
    #[must_use]
    pub fn with_sensitive(mut self, taint: bool) -> Value {
        self.is_sensitive |= taint;
        self
    }

    /// The same with the taint of the whole taken away; parts keep theirs.
    #[must_use]
    pub fn nonsensitive(mut self) -> Value {
        self.is_sensitive = false;
        self
    }

    /// Is it, or anything in it, sensitive?
    pub fn contains_sensitive(&self) -> bool {
        self.is_sensitive || self.summary().contains_sensitive
    }

    /// Is it, or anything in it, known only after the run?
    pub fn contains_unknown(&self) -> bool {
        matches!(self.kind, Kind::Unknown(_)) || self.summary().contains_unknown
    }

    /// Is the value itself known only after the run?
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, Kind::Unknown(_))
    }

    /// Is it `null`?
    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<Number> {
        match &self.kind {
            Kind::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The truth, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match &self.kind {
            Kind::Bool(bool) => Some(*bool),
            _ => None,
        }
    }

    /// The elements of a list, set or tuple.
    pub fn elements(&self) -> Option<&[Value]> {
        match &self.kind {
            Kind::List(all) | Kind::Set(all) | Kind::Tuple(all) => Some(all.items()),
            _ => None,
        }
    }

    /// The members of a map or object.
    pub fn members(&self) -> Option<&BTreeMap<String, Value>> {
        match &self.kind {
            Kind::Map(all) | Kind::Object(all) => Some(all.items()),
            _ => None,
        }
    }

    /// The same without any taint, in no part: for what is compared or sent, never for what is
    /// shown.
    #[must_use]
    pub fn bare(&self) -> Value {
        if !self.contains_sensitive() {
            return self.clone();
        }
        let all = |elements: &[Value]| elements.iter().map(Value::bare).collect::<Vec<Value>>();
        let members = |members: &BTreeMap<String, Value>| {
            members.iter().map(|(name, value)| (name.clone(), value.bare())).collect()
        };
        match &self.kind {
            Kind::List(list) => Value::list(list.element().clone(), all(list.items())),
            Kind::Set(set) => Value::new(Kind::Set(set.clone())),
            Kind::Tuple(tuple) => Value::tuple(all(tuple.items())),
            Kind::Map(map) => Value::map(map.element().clone(), members(map.items())),
            Kind::Object(object) => Value::object(members(object.items())),
            kind => Value::new(kind.clone()),
        }
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Value {
        Value::bool(bool)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::string(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::string(text)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        Value::number(number)
    }
}
