//! Values compared: lists and tuples by their elements, maps and objects by their members.
//! Taint makes no difference; nothing is converted.

use std::cmp::Ordering;

use super::{Kind, Value};

/// Kinds in this order, each by value.
fn rank(kind: &Kind) -> u8 {
    match kind {
        Kind::Null => 0,
        Kind::Bool(_) => 1,
        Kind::Number(_) => 2,
        Kind::String(_) => 3,
        Kind::List(_) | Kind::Tuple(_) => 4,
        Kind::Set(_) => 5,
        Kind::Map(_) | Kind::Object(_) => 6,
        Kind::Unknown(_) => 7,
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (&self.kind, &other.kind) {
            (Kind::Bool(one), Kind::Bool(two)) => one.cmp(two),
            (Kind::Number(one), Kind::Number(two)) => one.cmp(two),
            (Kind::String(one), Kind::String(two)) => one.cmp(two),
            (Kind::List(one) | Kind::Tuple(one), Kind::List(two) | Kind::Tuple(two))
            | (Kind::Set(one), Kind::Set(two)) => one.items().cmp(two.items()),
            (Kind::Map(one) | Kind::Object(one), Kind::Map(two) | Kind::Object(two)) => {
                one.items().cmp(two.items())
            }
            (Kind::Unknown(one), Kind::Unknown(two)) => one.to_string().cmp(&two.to_string()),
            (one, two) => rank(one).cmp(&rank(two)),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}
