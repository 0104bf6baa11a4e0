//! `format`: text with places for values, as the `format` of HCL has them.

use super::decimal::Decimal;
use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, graphemes, text_of};
use crate::function::text::{repeated, texts};
use crate::value::{Kind, Number, TEXT_BYTES_MAX, Type, Value, convert};

/// The letters that stand for a value, for those who wrote another one.
const HELP: &str = "there are %s %d %f %v %#v %q %x %X %o %b %e %g %t and %%, such as `%-8s`, \
                    `%05d`, `%.2f` or `%[2]s` for the second value";
/// More digits than this behind a point are of no use to a reader.
const PRECISION_MAX: usize = 1100;

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
    space: bool,
    sharp: bool,
    width: usize,
    precision: Option<usize>,
    /// Which value it names, from 1; else it is the one behind the last.
    index: Option<usize>,
}

fn formatted(spec: &str, values: &[Value]) -> Result<String, Fault> {
    let mut out = String::new();
    let (mut next, mut used) = (0, 0);
    let mut rest = spec;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        if let Some(behind) = rest[at..].strip_prefix("%%") {
            out.push('%');
            rest = behind;
            continue;
        }
        let (verb, letter, behind) = verb(&rest[at + 1..])?;
        rest = behind;
        if !"sdfvqxXobeEgGt".contains(letter) {
            return Err(bad(format!("`%{letter}` means nothing")).of(0).help(HELP));
        }
        let index = verb.index.map_or(next, |index| index - 1);
        let Some(value) = values.get(index) else {
            return Err(bad(format!("there is no value {} for `%{letter}`", index + 1)).of(0));
        };
        (next, used) = (index + 1, used.max(index + 1));
        let text = verb.shown(letter, value).map_err(|fault| fault.of(index + 1))?;
        out.push_str(&text);
        if TEXT_BYTES_MAX < out.len() {
            return Err(super::too_big());
        }
    }
    out.push_str(rest);
    match used < values.len() {
        true => Err(bad("there are more values than `%` places").of(used + 1)),
        false => Ok(out),
    }
}

/// Flags, width, precision, index and letter behind a `%`, in this order, and what follows.
fn verb(text: &str) -> Result<(Verb, char, &str), Fault> {
    let mut verb = Verb::default();
    let mut rest = text;
    loop {
        match rest.chars().next() {
            Some('-') => verb.left = true,
            Some('0') => verb.zeros = true,
            Some('+') => verb.plus = true,
            Some(' ') => verb.space = true,
            Some('#') => verb.sharp = true,
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
    if let Some(behind) = rest.strip_prefix('[') {
        let (index, closed) = digits(behind);
        let closed = closed.strip_prefix(']').filter(|_| !behind.starts_with(['0', ']']));
        let help = "the first value is `%[1]s`; width and precision stand before the bracket";
        let fault = || bad("`%[` must be followed by a number from 1 and `]`").of(0).help(help);
        rest = closed.ok_or_else(fault)?;
        verb.index = Some(index);
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
        let text = || match convert(value, &Type::String) {
            Ok(text) if !text.is_null() => Ok(self.cut(text.as_str().unwrap_or_default())),
            _ => Err(wanted("text").help("any value is shown by `%v`")),
        };
        match letter {
            'd' | 'x' | 'X' | 'o' | 'b' => match number()?.integer() {
                Some(integer) => self.integer(letter, integer),
                None => Err(wanted("a whole number")),
            },
            'e' | 'E' | 'f' | 'g' | 'G' => self.decimal(letter, number()?),
            't' => match convert(value, &Type::Bool).ok().and_then(|value| value.as_bool()) {
                Some(bool) => Ok(bool.to_string()),
                None => Err(wanted("a bool")),
            },
            'q' => self.padded(json(&Value::from(text()?))?),
            'v' => self.padded(match value.kind() {
                Kind::String(text) if !self.sharp => text.to_string(),
                Kind::Number(number) if !self.sharp => Decimal::of(*number).general('e', None),
                _ => json(value)?,
            }),
            _ => self.padded(text()?),
        }
    }

    /// So many characters of a text as the precision says; none is as if it were not said.
    fn cut(&self, text: &str) -> String {
        match self.precision {
            None | Some(0) => text.to_owned(),
            Some(most) => graphemes::of(text).take(most).collect(),
        }
    }

    /// A whole number in base 10, 16, 8 or 2; the precision is how many digits it has at least.
    fn integer(&self, letter: char, integer: i128) -> Result<String, Fault> {
        let size = integer.unsigned_abs();
        let (prefix, mut digits) = match letter {
            'x' => ("0x", format!("{size:x}")),
            'X' => ("0X", format!("{size:X}")),
            'o' => ("0", format!("{size:o}")),
            'b' => ("0b", format!("{size:b}")),
            _ => ("", size.to_string()),
        };
        let prefix = if self.sharp { prefix } else { "" };
        match self.precision {
            Some(0) if size == 0 => return Ok(String::new()),
            Some(least) if digits.len() < least => {
                digits = repeated("0", least - digits.len())? + &digits;
            }
            _ => {}
        }
        let zeros = self.zeros && !self.left && self.precision.is_none();
        self.signed(integer < 0, prefix, &digits, zeros)
    }

    /// A number with a point or an exponent, or whichever of them is shorter.
    fn decimal(&self, letter: char, number: Number) -> Result<String, Fault> {
        if self.precision.is_some_and(|digits| PRECISION_MAX < digits) {
            return Err(bad("that many digits behind the point are too many").of(0));
        }
        let (is_negative, decimal) = Decimal::of(number).apart();
        let text = match letter {
            'f' => decimal.fixed(self.precision.unwrap_or(6)),
            'g' => decimal.general('e', self.precision),
            'G' => decimal.general('E', self.precision),
            exponent => decimal.scientific(exponent, self.precision.unwrap_or(6)),
        };
        self.signed(is_negative, "", &text, self.zeros)
    }

    /// The sign stays in front of the zeros that fill the width.
    fn signed(
        &self,
        is_negative: bool,
        prefix: &str,
        digits: &str,
        zeros: bool,
    ) -> Result<String, Fault> {
        let sign = match (is_negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        let missing = self.width.saturating_sub(sign.len() + prefix.len() + digits.len());
        let fill = repeated(if zeros { "0" } else { " " }, missing)?;
        Ok(match (zeros, self.left) {
            (true, _) => format!("{sign}{prefix}{fill}{digits}"),
            (false, true) => format!("{sign}{prefix}{digits}{fill}"),
            (false, false) => format!("{fill}{sign}{prefix}{digits}"),
        })
    }

    fn padded(&self, text: String) -> Result<String, Fault> {
        let missing = self.width.saturating_sub(graphemes::count(&text));
        let fill = repeated(if self.zeros { "0" } else { " " }, missing)?;
        Ok(if self.left { text + &fill } else { fill + &text })
    }
}

/// As HCL's `format` writes JSON: what HTML would take for its own is escaped.
fn json(value: &Value) -> Result<String, Fault> {
    let json = value.to_json().map_err(|unknown| bad(unknown.to_string()))?;
    let mut out = String::with_capacity(json.as_str().len());
    for char in json.as_str().chars() {
        match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(char)));
            }
            char => out.push(char),
        }
    }
    Ok(out)
}
