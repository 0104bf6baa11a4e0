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

/// How large a compiled expression may be, in bytes; the text that it may then be put to; and
/// how many bytes of it count as a step: at worst, each state is tried at each byte.
const SIZES: [(usize, usize, usize); 4] = [
    (1 << 14, TEXT_BYTES_MAX, 1 << 7),
    (1 << 17, 1 << 20, 1 << 4),
    (1 << 19, 1 << 18, 1 << 2),
    (1 << 21, 1 << 15, 1),
];

/// The search for one match may go to the end of the text, and there are expressions for which
/// each of them does: so many bytes count as a step.
const LOOKS_A_STEP: usize = 1 << 13;
const LOOKS_MAX: usize = LOOKS_A_STEP * 1_000_000;

fn compiled(call: &Call<'_>, pattern: &str, text: &str, argument: usize) -> Result<Regex, Fault> {
    let mut is_too_big = false;
    for (size, text_bytes_max, bytes_a_step) in SIZES {
        if text_bytes_max < text.len() {
            break;
        }
        // To compile it costs about as much as it is large.
        let steps = size / (1 << 11) + text.len() / bytes_a_step;
        call.steps.set(call.steps.get() + steps as u64);
        match RegexBuilder::new(pattern).size_limit(size).nest_limit(64).build() {
            Ok(regex) => return Ok(regex),
            Err(regex::Error::CompiledTooBig(_)) => is_too_big = true,
            Err(error) => {
                // The last line of several says what is wrong.
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                return Err(bad(format!("no regular expression: {reason}")).of(argument));
            }
        }
    }
    let mut fault = too_big().of(argument);
    if is_too_big {
        fault.message = "the regular expression is too big for a text of this size".to_owned();
    }
    Err(fault)
}

/// Counts what it took to find so many matches; `None` if that was too much.
fn looked_at(call: &Call<'_>, matches: usize, text: &str) -> Option<()> {
    let looks = matches.saturating_mul(text.len());
    call.steps.set(call.steps.get() + (looks / LOOKS_A_STEP) as u64);
    (looks <= LOOKS_MAX).then_some(())
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
    let regex = compiled(call, pattern, text, 1)?;
    let mut out = String::new();
    let mut from = 0;
    let mut count = 0;
    for (index, captures) in regex.captures_iter(text).enumerate() {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(&text[from..whole.start()]);
        captures.expand(with, &mut out);
        from = whole.end();
        count = index + 1;
        if TEXT_BYTES_MAX < out.len() || LOOKS_MAX < index.saturating_mul(text.len()) {
            return Err(too_big());
        }
    }
    out.push_str(&text[from..]);
    looked_at(call, count, text).ok_or_else(too_big)?;
    text_of(out)
}

fn first(call: &Call<'_>) -> Outcome {
    let (pattern, text) = (call.text(0), call.text(1));
    let regex = compiled(call, pattern, text, 0)?;
    match regex.captures(text) {
        Some(captures) => Ok(found(&regex, &captures)),
        None => {
            let help = "where there may be no match, use `try(regex(…), default)` or `regexall`";
            Err(bad("nothing in the text matches the expression").of(1).help(help))
        }
    }
}

fn all(call: &Call<'_>) -> Outcome {
    let regex = compiled(call, call.text(0), call.text(1), 0)?;
    let mut matches = Vec::new();
    for captures in regex.captures_iter(call.text(1)) {
        matches.push(found(&regex, &captures));
        let looks = matches.len().saturating_mul(call.text(1).len());
        let elements = matches.len().saturating_mul(regex.captures_len());
        if ELEMENTS_MAX < elements || LOOKS_MAX < looks {
            return Err(too_big());
        }
    }
    looked_at(call, matches.len(), call.text(1)).ok_or_else(too_big)?;
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
