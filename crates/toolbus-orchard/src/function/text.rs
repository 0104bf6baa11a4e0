//! Functions of text.

use super::{
    Call, Function, Outcome, Parameter, bad, function, gives, graphemes, text_of, too_big,
};
use crate::value::{ELEMENTS_MAX, TEXT_BYTES_MAX, Type, Value};

const N: Parameter = Parameter::Number;
const S: Parameter = Parameter::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    function("strlen(s)", &[S], gives::number, |call| {
        Ok(Value::number(graphemes::count(call.text(0))))
    }),
    function("upper(s)", &[S], gives::text, |call| {
        text_of(call.text(0).chars().map(upper).collect::<String>())
    }),
    function("lower(s)", &[S], gives::text, |call| {
        text_of(call.text(0).chars().map(lower).collect::<String>())
    }),
    function("title(s)", &[S], gives::text, title),
    function("trimspace(s)", &[S], gives::text, |call| text_of(call.text(0).trim())),
    function("trim(s, chars)", &[S, S], gives::text, |call| {
        text_of(call.text(0).trim_matches(|char| call.text(1).contains(char)))
    }),
    function("trimprefix(s, p)", &[S, S], gives::text, |call| {
        text_of(call.text(0).strip_prefix(call.text(1)).unwrap_or(call.text(0)))
    }),
    function("trimsuffix(s, p)", &[S, S], gives::text, |call| {
        text_of(call.text(0).strip_suffix(call.text(1)).unwrap_or(call.text(0)))
    }),
    function("chomp(s)", &[S], gives::text, |call| {
        text_of(call.text(0).trim_end_matches(['\r', '\n']))
    }),
    function("split(sep, s)", &[S, S], gives::texts, split),
    function("join(sep, list…)", &[S, Parameter::Texts], gives::text, join).rest(Parameter::Texts),
    function("substr(s, offset, len)", &[S, N, N], gives::text, substr),
    function("indent(n, s)", &[N, S], gives::text, indent),
    function("startswith(s, p)", &[S, S], gives::bool, |call| {
        Ok(Value::bool(call.text(0).starts_with(call.text(1))))
    }),
    function("endswith(s, p)", &[S, S], gives::bool, |call| {
        Ok(Value::bool(call.text(0).ends_with(call.text(1))))
    }),
    function("strcontains(s, p)", &[S, S], gives::bool, |call| {
        Ok(Value::bool(call.text(0).contains(call.text(1))))
    }),
    function("strrev(s)", &[S], gives::text, |call| {
        text_of(graphemes::of(call.text(0)).rev().collect::<String>())
    }),
    function("repeat(s, n)", &[S, N], gives::text, |call| {
        text_of(repeated(call.text(0), call.count(1)?)?)
    }),
    function("padleft(s, n, c)", &[S, N, S], gives::text, |call| {
        text_of(padding(call)? + call.text(0))
    }),
    function("padright(s, n, c)", &[S, N, S], gives::text, |call| {
        text_of(call.text(0).to_owned() + &padding(call)?)
    }),
];

/// A list of texts.
pub(super) fn texts<T: Into<Value>>(texts: impl Iterator<Item = T>) -> Outcome {
    let texts: Vec<Value> = texts.take(ELEMENTS_MAX + 1).map(Into::into).collect();
    match texts.len() <= ELEMENTS_MAX {
        true => Ok(Value::list(Type::String, texts)),
        false => Err(too_big()),
    }
}

/// A text several times, unless that is too much.
pub(super) fn repeated(text: &str, times: usize) -> Result<String, super::Fault> {
    match text.len().checked_mul(times) {
        Some(bytes) if bytes <= TEXT_BYTES_MAX => Ok(text.repeat(times)),
        _ => Err(too_big()),
    }
}

/// A letter is the first of a word if nothing that belongs to words stands before it.
/// The capital of a letter; one that would become two, such as `ß`, stays.
fn upper(char: char) -> char {
    let mut capital = char.to_uppercase();
    match (capital.next(), capital.next()) {
        (Some(capital), None) => capital,
        _ => char,
    }
}

fn lower(char: char) -> char {
    char.to_lowercase().next().unwrap_or(char)
}

/// A word begins behind everything but letters, digits and `_`, as HCL has it.
fn title(call: &Call<'_>) -> Outcome {
    let mut before = ' ';
    let titled = call.text(0).chars().map(|char| {
        let is_inside = match before.is_ascii() {
            true => before.is_ascii_alphanumeric() || before == '_',
            false => !before.is_whitespace(),
        };
        before = char;
        if is_inside { char } else { upper(char) }
    });
    text_of(titled.collect::<String>())
}

fn split(call: &Call<'_>) -> Outcome {
    let (separator, text) = (call.text(0), call.text(1));
    match separator.is_empty() {
        true => texts(text.chars().map(String::from)),
        false => texts(text.split(separator)),
    }
}

fn join(call: &Call<'_>) -> Outcome {
    let separator = call.text(0);
    let mut out = String::new();
    let parts = (1..call.arguments.len()).flat_map(|list| call.elements(list));
    for (index, part) in parts.enumerate() {
        if 0 < index {
            out.push_str(separator);
        }
        out.push_str(part.as_str().unwrap_or_default());
        if TEXT_BYTES_MAX < out.len() {
            return Err(too_big());
        }
    }
    text_of(out)
}

fn substr(call: &Call<'_>) -> Outcome {
    let text = call.text(0);
    let (offset, length) = (call.integer(1)?, call.integer(2)?);
    let start = match usize::try_from(offset) {
        Ok(start) => start,
        // From the end, but never before the beginning.
        Err(_) if offset < 0 => {
            let count = graphemes::count(text) as i128;
            usize::try_from(count.saturating_add(offset)).unwrap_or(0)
        }
        Err(_) => usize::MAX,
    };
    let length = match length {
        -1 => usize::MAX,
        length if length < 0 => {
            let message = format!("{length} is no length; -1 means all that follows");
            return Err(bad(message).of(2));
        }
        length => usize::try_from(length).unwrap_or(usize::MAX),
    };
    text_of(graphemes::of(text).skip(start).take(length).collect::<String>())
}

fn indent(call: &Call<'_>) -> Outcome {
    let (spaces, text) = (call.count(0)?, call.text(1));
    let breaks = text.matches('\n').count();
    let added = spaces.checked_mul(breaks).filter(|added| *added <= TEXT_BYTES_MAX);
    if added.is_none() {
        return Err(too_big());
    }
    // With no break there is nothing to indent, and `spaces` may be anything.
    let spaces = if breaks == 0 { 0 } else { spaces };
    text_of(text.replace('\n', &format!("\n{}", " ".repeat(spaces))))
}

/// What brings a text to its width.
fn padding(call: &Call<'_>) -> Result<String, super::Fault> {
    let (text, width, with) = (call.text(0), call.count(1)?, call.text(2));
    if graphemes::count(with) != 1 {
        return Err(bad("what is padded with must be one character").of(2));
    }
    repeated(with, width.saturating_sub(graphemes::count(text)))
}
