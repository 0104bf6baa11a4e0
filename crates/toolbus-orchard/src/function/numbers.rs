//! Functions of numbers.

use super::{Call, Function, Outcome, Parameter, bad, function, gives};
use crate::diagnostic::{Code, excerpt};
use crate::value::{Number, NumberError, Value};

const N: Parameter = Parameter::Number;

pub(super) const FUNCTIONS: &[Function] = &[
    function("abs(n)", &[N], gives::number, abs),
    function("ceil(n)", &[N], gives::number, |call| number(call.number(0).ceil())),
    function("floor(n)", &[N], gives::number, |call| number(call.number(0).floor())),
    function("round(n)", &[N], gives::number, |call| number(call.number(0).round())),
    function("signum(n)", &[N], gives::number, |call| Ok(Value::number(call.number(0).signum()))),
    function("max(n…)", &[N], gives::number, max).rest(N),
    function("min(n…)", &[N], gives::number, min).rest(N),
    function("sum(list)", &[Parameter::Numbers], gives::number, sum),
    function("pow(b, e)", &[N, N], gives::number, pow),
    function("log(n, base)", &[N, N], gives::number, log),
    function("parseint(text, base)", &[Parameter::Text, N], gives::number, parseint),
];

fn number(number: Result<Number, NumberError>) -> Outcome {
    Ok(Value::number(number?))
}

fn abs(call: &Call<'_>) -> Outcome {
    let it = call.number(0);
    number(if it < Number::ZERO { it.negated() } else { Ok(it) })
}

fn all(call: &Call<'_>) -> impl Iterator<Item = Number> {
    call.arguments.iter().filter_map(Value::as_number)
}

fn max(call: &Call<'_>) -> Outcome {
    Ok(Value::number(all(call).max().unwrap_or(Number::ZERO)))
}

fn min(call: &Call<'_>) -> Outcome {
    Ok(Value::number(all(call).min().unwrap_or(Number::ZERO)))
}

fn sum(call: &Call<'_>) -> Outcome {
    let mut numbers = call.elements(0).iter().filter_map(Value::as_number);
    number(numbers.try_fold(Number::ZERO, Number::plus))
}

fn pow(call: &Call<'_>) -> Outcome {
    let (base, exponent) = (call.number(0), call.number(1));
    if let Some(exponent) = exponent.integer() {
        return number(base.power(exponent));
    }
    // No exact result, so a float is good enough.
    let power = base.to_f64().powf(exponent.to_f64());
    match power.is_nan() {
        true => Err(bad("a negative number has no power of a fraction").of(1)),
        false => number(Number::from_f64(power)),
    }
}

fn log(call: &Call<'_>) -> Outcome {
    let (it, base) = (call.number(0), call.number(1));
    if it <= Number::ZERO {
        return Err(bad("only a number above 0 has a logarithm").of(0));
    }
    if base <= Number::ZERO || base == Number::ONE {
        return Err(bad("the base must be above 0, and not 1").of(1));
    }
    let float = match base.integer() {
        Some(2) => it.to_f64().log2(),
        Some(10) => it.to_f64().log10(),
        _ => it.to_f64().ln() / base.to_f64().ln(),
    };
    // Where there is an exact result, a float may miss it by a hair.
    let nearest = Number::from_f64(float.round())?;
    if let Some(exponent) = nearest.integer()
        && base.power(exponent) == Ok(it)
    {
        return Ok(Value::number(nearest));
    }
    number(Number::from_f64(float))
}

fn parseint(call: &Call<'_>) -> Outcome {
    let text = call.text(0);
    let base = match call.integer(1)? {
        base @ 2..=62 => base,
        base => return Err(bad(format!("base {base} is not between 2 and 62")).of(1)),
    };
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let no_number = || bad(format!("{} is no whole number of base {base}", excerpt(text))).of(0);
    let too_large =
        || super::Fault { code: Code::NumberTooLarge, ..bad(NumberError::TooLarge.to_string()) };
    if digits.is_empty() {
        return Err(no_number());
    }
    // Counted downwards, because there is one more number below zero than above it.
    let mut below = Some(0_i128);
    for char in digits.chars() {
        let digit = digit(char, base).ok_or_else(no_number)?;
        below = below.and_then(|sum| sum.checked_mul(base)?.checked_sub(digit));
    }
    let number = if is_negative { below } else { below.and_then(i128::checked_neg) };
    number.map(Value::number).ok_or_else(too_large)
}

/// What a digit is worth. Up to base 36 letters count in either case; above it the small ones
/// are followed by the capitals.
fn digit(char: char, base: i128) -> Option<i128> {
    let digit = match char {
        '0'..='9' => u32::from(char) - u32::from('0'),
        'a'..='z' => u32::from(char) - u32::from('a') + 10,
        'A'..='Z' if base <= 36 => u32::from(char) - u32::from('A') + 10,
        'A'..='Z' => u32::from(char) - u32::from('A') + 36,
        _ => return None,
    };
    Some(i128::from(digit)).filter(|digit| *digit < base)
}
