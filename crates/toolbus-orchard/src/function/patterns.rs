//! Regular expressions: those of the `regex` crate, which take no longer than their text is long.

use std::collections::BTreeMap;

use regex::{Captures, Regex, RegexBuilder};

use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, text_of, too_big};
use crate::value::{ELEMENTS_MAX, TEXT_BYTES_MAX, Type, Value};

const S: Parameter = Parameter::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    function("replace(s, find, with)", &[S, S, S], gives::text, replace),
    function("regex(re, s)", &[S, S], gives::any, first),
    function("regexall(re, s)", &[S, S], gives::any, all),
];

/// How large a compiled expression may be, in bytes, and the text that it may be put to: a large
/// one takes a step for each of its states and each byte.
const SIZES: [(usize, usize); 3] =
    [(1 << 17, TEXT_BYTES_MAX), (1 << 19, 1 << 18), (1 << 21, 1 << 15)];

/// How many bytes of text all matches together may look at. A search for one match may go to
/// the end of the text, and there are expressions for which each of them does.
const LOOKS_MAX: usize = 1 << 34;

fn compiled(pattern: &str, text: &str, argument: usize) -> Result<Regex, Fault> {
    let mut last = None;
    for (size, text_bytes_max) in SIZES {
        if text_bytes_max < text.len() {
            break;
        }
        match RegexBuilder::new(pattern).size_limit(size).nest_limit(64).build() {
            Ok(regex) => return Ok(regex),
            Err(error @ regex::Error::CompiledTooBig(_)) => last = Some(error),
            Err(error) => {
                // The last line of several says what is wrong.
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                return Err(bad(format!("no regular expression: {reason}")).of(argument));
            }
        }
    }
    let mut fault = too_big().of(argument);
    if last.is_some() {
        fault.message = "the regular expression is too big for a text of this size".to_owned();
    }
    Err(fault)
}

/// All places; `find` between slashes is a regular expression, and `with` may then name its
/// groups: `$1`, `${name}`.
fn replace(call: &Call<'_>) -> Outcome {
    let (text, find, with) = (call.text(0), call.text(1), call.text(2));
    let pattern = find.strip_prefix('/').and_then(|find| find.strip_suffix('/'));
    let Some(pattern) = pattern else {
        let places = text.matches(find).count();
        let bytes = places.checked_mul(with.len()).and_then(|more| more.checked_add(text.len()));
        return match bytes.is_some_and(|bytes| bytes <= 2 * TEXT_BYTES_MAX) {
            true => text_of(text.replace(find, with)),
            false => Err(too_big()),
        };
    };
    let regex = compiled(pattern, text, 1)?;
    let mut out = String::new();
    let mut from = 0;
    for (index, captures) in regex.captures_iter(text).enumerate() {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(&text[from..whole.start()]);
        captures.expand(with, &mut out);
        from = whole.end();
        if TEXT_BYTES_MAX < out.len() || LOOKS_MAX < index.saturating_mul(text.len()) {
            return Err(too_big());
        }
    }
    out.push_str(&text[from..]);
    text_of(out)
}

fn first(call: &Call<'_>) -> Outcome {
    let (pattern, text) = (call.text(0), call.text(1));
    let regex = compiled(pattern, text, 0)?;
    match regex.captures(text) {
        Some(captures) => Ok(found(&regex, &captures)),
        None => {
            let help = "where there may be no match, use `try(regex(…), default)` or `regexall`";
            Err(bad("nothing in the text matches the expression").of(1).help(help))
        }
    }
}

fn all(call: &Call<'_>) -> Outcome {
    let regex = compiled(call.text(0), call.text(1), 0)?;
    let mut matches = Vec::new();
    for captures in regex.captures_iter(call.text(1)) {
        matches.push(found(&regex, &captures));
        let looked_at = matches.len().saturating_mul(call.text(1).len());
        let elements = matches.len().saturating_mul(regex.captures_len());
        if ELEMENTS_MAX < elements || LOOKS_MAX < looked_at {
            return Err(too_big());
        }
    }
    let element = matches.first().map_or(Type::Any, Value::ty);
    let is_one_type = matches.iter().all(|value| value.ty() == element);
    Ok(match is_one_type {
        true => Value::list(element, matches),
        // A group that took no part is null.
        false => Value::list(Type::Any, matches),
    })
}

/// The text, a tuple of groups, or an object of named ones.
fn found(regex: &Regex, captures: &Captures<'_>) -> Value {
    let group = |index: usize| captures.get(index).map_or(Value::NULL, |at| at.as_str().into());
    let named: BTreeMap<String, Value> = regex
        .capture_names()
        .enumerate()
        .filter_map(|(index, name)| Some((name?.to_owned(), group(index))))
        .collect();
    match (named.is_empty(), regex.captures_len()) {
        (false, _) => Value::object(named),
        (true, 1) => group(0),
        (true, count) => Value::tuple((1..count).map(group).collect()),
    }
}
