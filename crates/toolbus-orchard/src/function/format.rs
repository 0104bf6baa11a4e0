//! `format`: text with places for values.

use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, graphemes, text_of};
use crate::function::text::{repeated, texts};
use crate::value::{Kind, Number, TEXT_BYTES_MAX, Type, Value, convert};

pub(super) const FUNCTIONS: &[Function] = &[
    function("format(spec, v…)", &[Parameter::Text], gives::text, |call| {
        text_of(formatted(call.text(0), &call.arguments[1..])?)
    })
    .rest(Parameter::Any),
    function("formatlist(spec, lists…)", &[Parameter::Text], gives::texts, formatlist)
        .rest(Parameter::Any),
];

/// Each element of the lists in turn; what is no list is the same every time.
fn formatlist(call: &Call<'_>) -> Outcome {
    let arguments = &call.arguments[1..];
    let mut count = None;
    for (index, argument) in arguments.iter().enumerate() {
        let Some(elements) = argument.elements() else { continue };
        match count {
            Some(count) if count != elements.len() => {
                let message = format!("the lists differ in length: {count} and {}", elements.len());
                return Err(bad(message).of(index + 1));
            }
            _ => count = Some(elements.len()),
        }
    }
    let mut bytes = 0;
    let mut lines = Vec::new();
    for row in 0..count.unwrap_or(1) {
        let values: Vec<Value> = arguments
            .iter()
            .map(|argument| argument.elements().map_or(argument, |all| &all[row]).clone())
            .collect();
        let line = formatted(call.text(0), &values)?;
        bytes += line.len();
        if TEXT_BYTES_MAX < bytes {
            return Err(super::too_big());
        }
        lines.push(line);
    }
    texts(lines.into_iter())
}

/// One `%…` taken apart.
#[derive(Default)]
struct Verb {
    left: bool,
    zeros: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

fn formatted(spec: &str, values: &[Value]) -> Result<String, Fault> {
    let mut out = String::new();
    let mut values = values.iter().enumerate();
    let mut rest = spec;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (verb, letter, behind) = verb(&rest[at + 1..])?;
        rest = behind;
        if letter == '%' {
            out.push('%');
            continue;
        }
        if !"sdfvqxt".contains(letter) {
            let message = format!("`%{letter}` means nothing");
            let help = "there are %s %d %f %v %q %x %t and %%, such as `%-8s`, `%05d`, `%.2f`";
            return Err(bad(message).of(0).help(help));
        }
        let Some((index, value)) = values.next() else {
            return Err(bad(format!("there is no value for `%{letter}`")).of(0));
        };
        let text = verb.shown(letter, value).map_err(|fault| fault.of(index + 1))?;
        out.push_str(&verb.padded(letter, text)?);
        if TEXT_BYTES_MAX < out.len() {
            return Err(super::too_big());
        }
    }
    out.push_str(rest);
    match values.next() {
        Some((index, _)) => {
            let message = "there are more values than `%` places".to_owned();
            Err(bad(message).of(index + 1))
        }
        None => Ok(out),
    }
}

/// Flags, width, precision and letter behind a `%`, and what follows.
fn verb(text: &str) -> Result<(Verb, char, &str), Fault> {
    let mut verb = Verb::default();
    let mut rest = text;
    loop {
        match rest.chars().next() {
            Some('-') => verb.left = true,
            Some('0') => verb.zeros = true,
            Some('+') => verb.plus = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    (verb.width, rest) = digits(rest);
    if let Some(behind) = rest.strip_prefix('.') {
        let (precision, behind) = digits(behind);
        verb.precision = Some(precision);
        rest = behind;
    }
    let Some(letter) = rest.chars().next() else {
        return Err(bad("the text ends behind a `%`").of(0).help("a percent sign is `%%`"));
    };
    Ok((verb, letter, &rest[letter.len_utf8()..]))
}

fn digits(text: &str) -> (usize, &str) {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let number = match &text[..end] {
        "" => 0,
        // Beyond all numbers is beyond the limit of text too.
        digits => digits.parse().unwrap_or(usize::MAX),
    };
    (number, &text[end..])
}

impl Verb {
    fn shown(&self, letter: char, value: &Value) -> Result<String, Fault> {
        let wanted =
            |what: &str| bad(format!("`%{letter}` needs {what}, not a {}", value.kind_word()));
        let number = || match convert(value, &Type::Number) {
            Ok(value) => value.as_number().ok_or_else(|| wanted("a number")),
            Err(_) => Err(wanted("a number")),
        };
        let cut = |text: String| match self.precision {
            Some(most) => graphemes::of(&text).take(most).collect(),
            None => text,
        };
        let signed = |text: String| match self.plus && !text.starts_with('-') {
            true => format!("+{text}"),
            false => text,
        };
        match letter {
            'd' => match number()?.integer() {
                Some(integer) => Ok(signed(integer.to_string())),
                None => Err(wanted("a whole number")),
            },
            'f' => Ok(signed(self.fixed(number()?)?)),
            't' => match convert(value, &Type::Bool).ok().and_then(|value| value.as_bool()) {
                Some(bool) => Ok(bool.to_string()),
                None => Err(wanted("a bool")),
            },
            'x' => match value.kind() {
                Kind::String(text) => Ok(super::encoding::hex(text.as_bytes())),
                _ => match number()?.integer() {
                    Some(integer) if integer < 0 => Ok(format!("-{:x}", integer.unsigned_abs())),
                    Some(integer) => Ok(format!("{integer:x}")),
                    None => Err(wanted("a whole number or text")),
                },
            },
            'q' => match convert(value, &Type::String) {
                Ok(text) if !text.is_null() => json(&text),
                _ => Err(wanted("text")),
            },
            'v' => match value.kind() {
                Kind::String(text) => Ok(cut(text.to_string())),
                _ => json(value).map(cut),
            },
            _ => match convert(value, &Type::String) {
                Ok(text) if !text.is_null() => {
                    Ok(cut(text.as_str().unwrap_or_default().to_owned()))
                }
                _ => Err(wanted("text").help("any value is shown by `%v`")),
            },
        }
    }

    /// With so many digits behind the point, six unless told.
    fn fixed(&self, number: Number) -> Result<String, Fault> {
        let digits = self.precision.unwrap_or(6);
        if 1100 < digits {
            return Err(bad("that many digits behind the point are too many").of(0));
        }
        let mut text = number.round_to(digits as u32)?.to_string();
        let behind = text.split_once('.').map_or(0, |(_, behind)| behind.len());
        if 0 < digits && behind == 0 {
            text.push('.');
        }
        text.push_str(&"0".repeat(digits - behind));
        Ok(text)
    }

    fn padded(&self, letter: char, text: String) -> Result<String, Fault> {
        let missing = self.width.saturating_sub(graphemes::count(&text));
        if missing == 0 {
            return Ok(text);
        }
        let is_number = "dfx".contains(letter);
        match (self.left, self.zeros && is_number) {
            (true, _) => Ok(text + &repeated(" ", missing)?),
            (false, false) => Ok(repeated(" ", missing)? + &text),
            (false, true) => {
                // The sign stays in front of the zeros.
                let sign = if text.starts_with(['-', '+']) { 1 } else { 0 };
                let (sign, digits) = text.split_at(sign);
                Ok(format!("{sign}{}{digits}", repeated("0", missing)?))
            }
        }
    }
}

fn json(value: &Value) -> Result<String, Fault> {
    let json = value.to_json().map_err(|unknown| bad(unknown.to_string()))?;
    Ok(json.as_str().to_owned())
}
