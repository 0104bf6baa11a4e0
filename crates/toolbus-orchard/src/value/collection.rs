//! The inside of lists, sets, tuples, maps and objects, and what is known about it.

use std::collections::BTreeMap;

use super::{DEPTH_MAX, ELEMENTS_MAX, Kind, TEXT_BYTES_MAX, Type, Value};

/// Elements or members, with the type they share.
#[derive(Debug)]
pub struct Collection<T> {
    items: T,
    /// Of tuples and objects, whose parts have types of their own, `any`.
    element: Type,
    summary: Summary,
}

/// How much is in a value. What is shared counts as often as it stands there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Elements and members, those inside others too.
    pub elements: usize,
    /// Bytes of text, keys too.
    pub text_bytes: usize,
    /// How many collections stand inside each other.
    pub depth: usize,
    /// Is anything in it known only after the run?
    pub contains_unknown: bool,
    /// Is anything in it sensitive?
    pub contains_sensitive: bool,
}

impl Summary {
    /// More than a value may be?
    pub fn is_too_big(&self) -> bool {
        ELEMENTS_MAX < self.elements || TEXT_BYTES_MAX < self.text_bytes || DEPTH_MAX < self.depth
    }

    fn take(&mut self, value: &Value) {
        let inner = value.summary();
        self.elements = self.elements.saturating_add(inner.elements).saturating_add(1);
        self.text_bytes = self.text_bytes.saturating_add(inner.text_bytes);
        self.depth = self.depth.max(inner.depth + 1);
        self.contains_unknown |= inner.contains_unknown || value.is_unknown();
        self.contains_sensitive |= inner.contains_sensitive || value.is_sensitive();
    }
}

impl<T> Collection<T> {
    /// What is in it.
    pub fn items(&self) -> &T {
        &self.items
    }

    /// The type that all of it shares.
    pub fn element(&self) -> &Type {
        &self.element
    }
}

impl Collection<Vec<Value>> {
    pub(super) fn of_elements(element: Type, items: Vec<Value>) -> Self {
        let mut summary = Summary { depth: 1, ..Summary::default() };
        items.iter().for_each(|value| summary.take(value));
        Collection { items, element, summary }
    }
}

impl Collection<BTreeMap<String, Value>> {
    pub(super) fn of_members(element: Type, items: BTreeMap<String, Value>) -> Self {
        let mut summary = Summary { depth: 1, ..Summary::default() };
        for (name, value) in &items {
            summary.take(value);
            summary.text_bytes = summary.text_bytes.saturating_add(name.len());
        }
        Collection { items, element, summary }
    }
}

impl Value {
    /// How much is in it; the value itself is no element.
    pub fn summary(&self) -> Summary {
        match &self.kind {
            Kind::List(all) | Kind::Set(all) | Kind::Tuple(all) => all.summary,
            Kind::Map(all) | Kind::Object(all) => all.summary,
            Kind::String(text) => Summary { text_bytes: text.len(), ..Summary::default() },
            _ => Summary::default(),
        }
    }
}
