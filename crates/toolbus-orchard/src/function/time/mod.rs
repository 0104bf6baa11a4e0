//! Functions of time. A time is text as RFC 3339 has it, such as `2026-12-31T23:30:00Z`.

mod calendar;
mod dates;

use super::collections::RANGE_MAX;
use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, text_of};
use crate::diagnostic::{Code, excerpt};
use crate::expr::Impure;
use crate::value::{Number, Type, Value};
use calendar::Time;

const N: Parameter = Parameter::Number;
const S: Parameter = Parameter::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    function("timestamp()", &[], gives::text, timestamp).impure(),
    function("timeadd(t, duration)", &[S, S], gives::text, |call| {
        text_of(shifted(time(call, 0)?, span(call, 1)?)?.whole_seconds().to_string())
    }),
    function("timediff(a, b)", &[S, S], gives::number, |call| {
        seconds(time(call, 1)?.nanos() - time(call, 0)?.nanos())
    }),
    function("timecmp(a, b)", &[S, S], gives::number, |call| {
        let order = time(call, 0)?.nanos().cmp(&time(call, 1)?.nanos());
        Ok(Value::number(order as i8))
    }),
    function("timeseries(start, step, count)", &[S, S, N], gives::texts, timeseries),
    function("formatdate(spec, t)", &[S, S], gives::text, |call| {
        text_of(dates::formatted(call.text(0), &time(call, 1)?).map_err(|fault| fault.of(0))?)
    }),
    function("unixtime(t)", &[S], gives::number, |call| seconds(time(call, 0)?.nanos())),
    function("fromunix(n)", &[N], gives::text, |call| {
        let nanos = call.number(0).times(Number::from(NANOS))?.round()?;
        let time = nanos.integer().and_then(|nanos| Time::at(nanos, 0));
        text_of(time.ok_or_else(|| out_of_range().of(0))?.to_string())
    }),
];

/// How many there are in a second.
const NANOS: i128 = 1_000_000_000;

/// How long a text such as `-1h30m`, `1.5s` or `500ms` says, in nanoseconds.
pub fn duration(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) if text.starts_with('-') => (-1, rest),
        Some(rest) => (1, rest),
        None => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum = Number::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (number, behind) = rest.split_at(end);
        let end = behind.find(|char: char| char.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let unit = match unit {
            "h" => 3600 * NANOS,
            "m" => 60 * NANOS,
            "s" => NANOS,
            "ms" => NANOS / 1_000,
            "us" | "µs" | "μs" => NANOS / 1_000_000,
            "ns" => 1,
            _ => return None,
        };
        let part = Number::parse_loosely(number).ok()?.times(Number::from(unit)).ok()?;
        sum = sum.plus(part).ok()?;
        rest = behind;
    }
    sum.round().ok()?.integer()?.checked_mul(sign)
}

fn time(call: &Call<'_>, index: usize) -> Result<Time, Fault> {
    let text = call.text(index);
    let fault = || {
        let fault = bad(format!("{} is no time", excerpt(text))).of(index);
        fault.help("a time is written as \"2026-12-31T23:30:00Z\" or with \"+01:00\" at the end")
    };
    Time::parse(text).ok_or_else(fault)
}

fn span(call: &Call<'_>, index: usize) -> Result<i128, Fault> {
    let text = call.text(index);
    duration(text).ok_or_else(|| {
        let fault = bad(format!("{} is no duration", excerpt(text))).of(index);
        fault.help("a duration is written as \"90s\", \"1h30m\" or \"-500ms\"")
    })
}

fn shifted(time: Time, by: i128) -> Result<Time, Fault> {
    let nanos = time.nanos().checked_add(by);
    nanos.and_then(|nanos| Time::at(nanos, time.offset)).ok_or_else(out_of_range)
}

fn out_of_range() -> Fault {
    bad("the time is not between the years 0 and 9999")
}

fn seconds(nanos: i128) -> Outcome {
    Ok(Value::number(Number::from(nanos).divided_by(Number::from(NANOS))?))
}

fn timestamp(call: &Call<'_>) -> Outcome {
    let Impure::Known { now, .. } = call.at.impure else {
        return Ok(Value::unknown(Type::String));
    };
    let time = Time::at(i128::from(now) * NANOS, 0);
    text_of(time.ok_or_else(out_of_range)?.to_string())
}

fn timeseries(call: &Call<'_>) -> Outcome {
    let (start, step, count) = (time(call, 0)?, span(call, 1)?, call.count(2)?);
    if RANGE_MAX < count {
        let fault = bad("a series has at most 100000 times").of(2);
        return Err(Fault { code: Code::TooBig, ..fault });
    }
    let mut times = Vec::with_capacity(count);
    let mut at = start;
    for index in 0..count {
        if 0 < index {
            at = shifted(at, step)?;
        }
        times.push(at.to_string());
    }
    super::text::texts(times.into_iter())
}
