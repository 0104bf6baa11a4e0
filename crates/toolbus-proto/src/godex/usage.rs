//! What a turn cost, as every completed line tells it: always three integers, then what else the
//! server said.

use super::wire::{Object, a_number, an_object};
use crate::json::{compact, edit};

/// What a turn cost, or several together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// How many of the input were known already.
    pub cached_tokens: u64,
    /// As the server counts them together.
    total_tokens: Option<String>,
    input_details: Option<String>,
    output_details: Option<String>,
}

impl Usage {
    /// What a mock counts.
    pub fn counted(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, ..Usage::default() }
    }

    /// Reads the `usage` of a response; `None` if it has none.
    pub(super) fn read(raw: Option<&str>) -> Option<Usage> {
        let raw = an_object(raw)?;
        let [input, output, cached, total, input_details, output_details] = edit::pick(
            raw,
            [
                "input_tokens",
                "output_tokens",
                "cached_tokens",
                "total_tokens",
                "input_tokens_details",
                "output_tokens_details",
            ],
        );
        let in_details =
            an_object(input_details).and_then(|raw| edit::member(raw, "cached_tokens"));
        let integer = |raw: Option<&str>| raw.and_then(|raw| raw.parse::<u64>().ok());
        let kept = |raw: Option<&str>| {
            raw.filter(|raw| *raw != "null").map(|raw| compact(raw).into_owned())
        };
        Some(Usage {
            input_tokens: integer(input).unwrap_or(0),
            output_tokens: integer(output).unwrap_or(0),
            cached_tokens: integer(in_details).or(integer(cached)).unwrap_or(0),
            total_tokens: kept(a_number(total)),
            input_details: kept(input_details),
            output_details: kept(output_details),
        })
    }

    /// Two turns together: what cannot be added is left out.
    #[must_use]
    pub fn plus(&self, other: &Usage) -> Usage {
        let total = |usage: &Usage| usage.total_tokens.as_ref()?.parse::<u64>().ok();
        let totals = total(self).zip(total(other));
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            total_tokens: totals.map(|(one, two)| one.saturating_add(two).to_string()),
            input_details: None,
            output_details: None,
        }
    }

    /// Appends it as an object.
    pub(super) fn write(&self, out: &mut Object<'_>) {
        out.number("input_tokens", self.input_tokens)
            .number("output_tokens", self.output_tokens)
            .number("cached_tokens", self.cached_tokens)
            .maybe("total_tokens", self.total_tokens.as_deref())
            .maybe("input_tokens_details", self.input_details.as_deref())
            .maybe("output_tokens_details", self.output_details.as_deref());
    }

    /// The object as text.
    pub(super) fn to_json(&self) -> String {
        let mut text = Vec::new();
        let mut object = Object::begin(&mut text);
        self.write(&mut object);
        object.end();
        String::from_utf8(text).unwrap_or_default()
    }

    /// The server's own object, with what must be there filled in.
    pub(super) fn filled(&self, raw: Option<&str>) -> String {
        let Some(raw) = an_object(raw) else { return Usage::default().to_json() };
        let mut text = compact(raw).into_owned();
        for (name, value) in [
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
            ("cached_tokens", self.cached_tokens),
        ] {
            let there = edit::member(&text, name).is_some_and(|raw| raw.parse::<u64>().is_ok());
            if !there {
                text = with_last(&text, name, &value.to_string());
            }
        }
        text
    }
}

/// The object with this member, in its old place or as the last.
pub(super) fn with_last(object: &str, name: &str, value: &str) -> String {
    if let Some(replaced) = edit::replaced(object, name, value) {
        return replaced;
    }
    let comma = if edit::members(object).next().is_some() { "," } else { "" };
    let open = object.trim_end().strip_suffix('}').unwrap_or(object);
    format!("{open}{comma}\"{name}\":{value}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_integers_are_always_there() {
        let check = |raw: &str, expected: &str| {
            assert_eq!(Usage::read(Some(raw)).unwrap_or_default().to_json(), expected);
        };
        check("null", r#"{"input_tokens":0,"output_tokens":0,"cached_tokens":0}"#);
        check(
            r#"{"input_tokens":null,"output_tokens":"3","total_tokens":null,"output_tokens_details":null}"#,
            r#"{"input_tokens":0,"output_tokens":0,"cached_tokens":0}"#,
        );
        check(
            r#"{"cached_tokens":7,"input_tokens_details":{ "cached_tokens":null }}"#,
            r#"{"input_tokens":0,"output_tokens":0,"cached_tokens":7,"input_tokens_details":{"cached_tokens":null}}"#,
        );
    }

    #[test]
    fn turns_add_up_without_their_details() {
        let one = Usage::read(Some(r#"{"input_tokens":1,"output_tokens":2,"total_tokens":3}"#));
        let two = Usage::read(Some(r#"{"input_tokens":1,"input_tokens_details":{}}"#));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(one.plus(&one).to_json().contains("\"total_tokens\":6"));
        assert_eq!(
            one.plus(&two).to_json(),
            r#"{"input_tokens":2,"output_tokens":2,"cached_tokens":0}"#
        );
    }

    #[test]
    fn what_a_server_left_out_is_filled_in() {
        let usage = Usage::default();
        assert_eq!(usage.filled(None), usage.to_json());
        assert_eq!(
            usage.filled(Some(r#"{"output_tokens":2, "cached_tokens":null}"#)),
            r#"{"output_tokens":2,"cached_tokens":0,"input_tokens":0}"#
        );
        assert_eq!(with_last("{}", "a", "1"), r#"{"a":1}"#);
    }
}
