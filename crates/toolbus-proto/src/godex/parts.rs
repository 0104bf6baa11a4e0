//! Which parts of an answer had text: a part is known by its item and its place in it.

use std::collections::HashSet;

use super::wire::{Members, a_number, a_string};

/// The parts that had text so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    known: HashSet<Key>,
    /// The last one by item, kept at hand: deltas of one part come in a row.
    last: Option<(Option<String>, Option<String>, Option<String>)>,
    /// Text came that named no part: it counts for every part.
    is_unnamed: bool,
    is_any: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    /// An item's id as raw JSON, which has quotes, or its index, which has none.
    item: String,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Content {
    /// This one.
    Index(String),
    /// Text that did not say which.
    Unsaid,
    /// Any at all.
    Some,
}

impl Parts {
    /// Has any part had text?
    pub(super) fn is_any(&self) -> bool {
        self.is_any
    }

    /// The part of this event has text.
    pub(super) fn mark(&mut self, event: &Members<'_>) {
        self.is_any = true;
        let item_id = a_string(event.item_id);
        let output_index = a_number(event.output_index);
        let content = a_number(event.content_index);
        let place = (item_id, output_index, content);
        if let Some((item, output, index)) = &self.last
            && place == (item.as_deref(), output.as_deref(), index.as_deref())
        {
            return;
        }
        let owned = |raw: Option<&str>| raw.map(str::to_owned);
        self.last = Some((owned(item_id), owned(output_index), owned(content)));
        if item_id.is_none() && output_index.is_none() {
            self.is_unnamed = true;
        }
        for item in [item_id, output_index].into_iter().flatten() {
            let which = content.map_or(Content::Unsaid, |index| Content::Index(index.to_owned()));
            for content in [which, Content::Some] {
                self.known.insert(Key { item: item.to_owned(), content });
            }
        }
    }

    /// Had the part of this event text before?
    pub(super) fn has(&self, event: &Members<'_>) -> bool {
        if self.is_unnamed {
            return true;
        }
        let items = [a_string(event.item_id), a_number(event.output_index)];
        let content = a_number(event.content_index);
        let asked = match content {
            Some(index) => vec![Content::Index(index.to_owned()), Content::Unsaid],
            None => vec![Content::Some],
        };
        let mut items = items.into_iter().flatten().peekable();
        if items.peek().is_none() {
            return self.is_any;
        }
        items.any(|item| {
            asked.iter().any(|content| {
                self.known.contains(&Key { item: item.to_owned(), content: content.clone() })
            })
        })
    }

    /// What it weighs, about.
    pub(super) fn weight(&self) -> usize {
        self.known.len() * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_by_id_or_index() {
        let event = |text: &'static str| Members::read(text).unwrap();
        let mut parts = Parts::default();
        parts.mark(&event(r#"{"item_id":"m","output_index":0,"content_index":0}"#));
        assert!(parts.has(&event(r#"{"item_id":"m","content_index":0}"#)));
        assert!(parts.has(&event(r#"{"output_index":0,"content_index":0}"#)));
        assert!(parts.has(&event(r#"{"output_index":0}"#)));
        assert!(!parts.has(&event(r#"{"item_id":"m","content_index":1}"#)));
        assert!(!parts.has(&event(r#"{"item_id":"n","content_index":0}"#)));
        parts.mark(&event(r#"{"item_id":"n"}"#));
        assert!(parts.has(&event(r#"{"item_id":"n","content_index":5}"#)));
        parts.mark(&event("{}"));
        assert!(parts.has(&event(r#"{"item_id":"x","content_index":1}"#)));
    }
}
