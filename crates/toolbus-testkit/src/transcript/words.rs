//! The words of a happening.

use serde_json::value::RawValue;
use toolbus_proto::json::Json;

/// What is left to read of a happening.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// Words with one blank between them.
    pub fn new(words: &'a str) -> Words<'a> {
        Words(words)
    }

    /// The next word.
    pub fn word(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        Some(word).filter(|word| !word.is_empty())
    }

    /// The next word if it is `expected`; else nothing is taken.
    pub fn is(&mut self, expected: &str) -> bool {
        let mut next = *self;
        let found = next.word() == Some(expected);
        if found {
            *self = next;
        }
        found
    }

    /// The JSON value that stands next, blanks inside it included.
    pub fn json(&mut self) -> Option<Json> {
        let mut values = serde_json::Deserializer::from_str(self.0).into_iter::<&RawValue>();
        let value = values.next()?.ok()?;
        let rest = &self.0[values.byte_offset()..];
        self.0 = rest.strip_prefix(' ').unwrap_or(rest);
        Json::parse(value.get().to_owned()).ok()
    }

    /// The text in the JSON string that stands next.
    pub fn text(&mut self) -> Option<String> {
        let mut next = *self;
        let text = next.json()?.string()?;
        *self = next;
        Some(text)
    }

    /// All that is left.
    pub fn rest(self) -> &'a str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_values_stand_behind_each_other() {
        let mut words = Words::new(r#"fail c1 luck "no  luck" code 7 detail {"a": [1, 2]}"#);
        assert_eq!((words.word(), words.word()), (Some("fail"), Some("c1")));
        assert!(!words.is("failed"));
        assert!(words.is("luck"));
        assert_eq!(words.text().as_deref(), Some("no  luck"));
        assert!(words.is("code"));
        assert_eq!(words.text(), None);
        assert_eq!(words.json().unwrap().as_str(), "7");
        assert_eq!(words.rest(), r#"detail {"a": [1, 2]}"#);
        assert!(words.is("detail"));
        assert_eq!(words.json().unwrap().as_str(), r#"{"a": [1, 2]}"#);
        assert_eq!((words.word(), words.rest()), (None, ""));
    }
}
