//! Values as people type them: times, sizes, and the arguments of a call.

use std::time::Duration;

use serde_json::value::RawValue;
use thiserror::Error;

/// Longer than anybody waits, and short enough that adding it to a clock cannot overflow.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum DurationError {
    #[error("`{0}` is not a time: give seconds (`2`, `0.5`) or a unit (`500ms`, `2s`, `1m`)")]
    NotATime(String),
    #[error("`{0}` is no time at all: it must be more than zero")]
    NotPositive(String),
    #[error("`{0}` is too long: a year is the most")]
    TooLong(String),
}

/// A time as in `2`, `0.5`, `500ms`, `2s` or `1m`.
pub(crate) fn duration(text: &str) -> Result<Duration, DurationError> {
    let number_len = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_len);
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ => return Err(DurationError::NotATime(text.to_owned())),
    };
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number),
    };
    // Stricter than `f64`, which takes `1e9`, `.` and `inf` too.
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let Some(seconds) = digits.parse::<f64>().ok().filter(|_| plain) else {
        return Err(DurationError::NotATime(text.to_owned()));
    };
    let duration = Duration::try_from_secs_f64(seconds * seconds_per_unit)
        .ok()
        .filter(|duration| *duration <= DURATION_MAX)
        .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
    if negative || duration.is_zero() {
        return Err(DurationError::NotPositive(text.to_owned()));
    }
    Ok(duration)
}

#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum SizeError {
    #[error("`{0}` is not a size: give bytes (`65536`) or a unit (`64KiB`, `16MiB`, `1GiB`)")]
    NotASize(String),
    #[error("`{0}` is no size at all: it must be more than zero")]
    Zero(String),
    #[error("`{0}` is more than this machine can count")]
    TooLarge(String),
}

/// A number of bytes as in `65536`, `64KiB`, `16MiB` or `1GiB`.
pub(crate) fn size(text: &str) -> Result<usize, SizeError> {
    let digits_len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_len);
    let bytes_per_unit = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(SizeError::NotASize(text.to_owned())),
    };
    if digits.is_empty() {
        return Err(SizeError::NotASize(text.to_owned()));
    }
    // All digits, so the only way to fail is to be too large.
    let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(bytes_per_unit));
    match bytes {
        None => Err(SizeError::TooLarge(text.to_owned())),
        Some(0) => Err(SizeError::Zero(text.to_owned())),
        Some(bytes) => Ok(bytes),
    }
}

#[derive(Debug, Error)]
pub(crate) enum ArgumentsError {
    #[error("argument `{word}` is neither JSON nor `key=value`")]
    Neither { word: String },
    #[error("argument `{word}` is not valid JSON")]
    NotJson { word: String, source: serde_json::Error },
    #[error("argument `{word}` stands beside others, so it must be `key=value`")]
    NotAlone { word: String },
    #[error("argument `{word}` has no name before its `=`")]
    NoKey { word: String },
    #[error("argument `{key}` is given twice")]
    Twice { key: String },
}

/// The arguments of a call as JSON text: one JSON value as it was written, or an object made
/// of `key=value` words. A value that is not JSON is a string, so `text=hi` needs no quotes.
pub(crate) fn arguments(words: &[String]) -> Result<Option<String>, ArgumentsError> {
    match words {
        [] => Ok(None),
        [word] if !is_pair(word) => match as_json(word) {
            Ok(json) => Ok(Some(json.to_owned())),
            Err(source) if looks_like_json(word) => {
                Err(ArgumentsError::NotJson { word: word.clone(), source })
            }
            Err(_) => Err(ArgumentsError::Neither { word: word.clone() }),
        },
        words => pairs(words).map(Some),
    }
}

fn pairs(words: &[String]) -> Result<String, ArgumentsError> {
    let mut keys = Vec::with_capacity(words.len());
    let mut members = Vec::with_capacity(words.len());
    for word in words {
        let Some((key, value)) = word.split_once('=').filter(|_| is_pair(word)) else {
            return Err(ArgumentsError::NotAlone { word: word.clone() });
        };
        if key.is_empty() {
            return Err(ArgumentsError::NoKey { word: word.clone() });
        }
        if keys.contains(&key) {
            return Err(ArgumentsError::Twice { key: key.to_owned() });
        }
        keys.push(key);
        let name = serde_json::Value::from(key);
        members.push(match as_json(value) {
            Ok(json) => format!("{name}:{json}"),
            Err(_) => format!("{name}:{}", serde_json::Value::from(value)),
        });
    }
    Ok(format!("{{{}}}", members.join(",")))
}

/// An equals sign inside JSON, as in `{"formula":"a=b"}`, makes no pair.
fn is_pair(word: &str) -> bool {
    word.contains('=') && !looks_like_json(word)
}

fn looks_like_json(word: &str) -> bool {
    word.trim_start().starts_with(['{', '[', '"'])
}

/// The text itself, if it is one JSON value: numbers and the order of members stay as typed.
fn as_json(text: &str) -> Result<&str, serde_json::Error> {
    serde_json::from_str::<&RawValue>(text).map(RawValue::get)
}

/// Whether the first word of `[ADDRESS] TOOL` is an address.
///
/// A scheme of two parts is one even if nobody has heard of it: `mpc+stdio:x` is a spelling
/// mistake to be told, not a tool to be looked for.
pub(crate) fn is_address(word: &str) -> bool {
    let Some((scheme, _)) = word.split_once(':') else {
        return false;
    };
    match scheme.split_once('+') {
        Some((protocol, transport)) => [protocol, transport]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase())),
        None => matches!(scheme, "stdio" | "builtin" | "shell"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let of = |text| duration(text).map_err(|error| error.to_string());
        assert_eq!(of("2"), Ok(Duration::from_secs(2)));
        assert_eq!(of("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(of("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(of("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(of("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(of("31536000"), Ok(DURATION_MAX));
    }

    #[test]
    fn durations_that_are_none() {
        for text in [
            "", "s", "ms", "-", ".", ".5", "1..2", "1e3", "inf", "NaN", "+2", " 2", "2 s", "2S",
            "2h", "٢", "--1", "1s2",
        ] {
            assert_eq!(duration(text), Err(DurationError::NotATime(text.to_owned())), "{text:?}");
        }
        for text in ["0", "0s", "0.0", "-1", "-0.5", "-500ms", "0.0000000001"] {
            assert_eq!(
                duration(text),
                Err(DurationError::NotPositive(text.to_owned())),
                "{text:?}"
            );
        }
        for text in ["31536001", "99999999999999999999999", "525601m"] {
            assert_eq!(duration(text), Err(DurationError::TooLong(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("1"), Ok(1));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("16MiB"), Ok(16 * 1024 * 1024));
        assert_eq!(size("1GiB"), Ok(1024 * 1024 * 1024));
        for text in ["", "KiB", "64MB", "64kib", "1.5MiB", "-1", "+1", "1 KiB", "0x10"] {
            assert_eq!(size(text), Err(SizeError::NotASize(text.to_owned())), "{text:?}");
        }
        for text in ["0", "0MiB"] {
            assert_eq!(size(text), Err(SizeError::Zero(text.to_owned())), "{text:?}");
        }
        for text in ["99999999999999999999", "99999999999999999GiB"] {
            assert_eq!(size(text), Err(SizeError::TooLarge(text.to_owned())), "{text:?}");
        }
    }

    fn arguments_of(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        match arguments(&words) {
            Ok(None) => "none".to_owned(),
            Ok(Some(json)) => json,
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn arguments_as_json_stay_as_they_were_typed() {
        assert_eq!(arguments_of(&[]), "none");
        assert_eq!(arguments_of(&[r#"{"b":1.50,"a":1E2}"#]), r#"{"b":1.50,"a":1E2}"#);
        assert_eq!(arguments_of(&["-5"]), "-5");
        assert_eq!(arguments_of(&["null"]), "null");
        assert_eq!(arguments_of(&[r#"{"formula":"a=b"}"#]), r#"{"formula":"a=b"}"#);
    }

    #[test]
    fn arguments_as_pairs() {
        assert_eq!(arguments_of(&["a=1", "b=-2.50"]), r#"{"a":1,"b":-2.50}"#);
        assert_eq!(arguments_of(&["text=hello world"]), r#"{"text":"hello world"}"#);
        assert_eq!(arguments_of(&["text=\"1\""]), r#"{"text":"1"}"#);
        assert_eq!(arguments_of(&["formula=a=b"]), r#"{"formula":"a=b"}"#);
        assert_eq!(arguments_of(&["empty="]), r#"{"empty":""}"#);
        assert_eq!(arguments_of(&["list=[1, 2]", "no=null"]), r#"{"list":[1, 2],"no":null}"#);
        assert_eq!(arguments_of(&["q\"=[1"]), r#"{"q\"":"[1"}"#);
    }

    #[test]
    fn arguments_that_make_no_sense() {
        assert_eq!(
            arguments_of(&["hello"]),
            "error: argument `hello` is neither JSON nor `key=value`"
        );
        assert_eq!(arguments_of(&["{a=1}"]), "error: argument `{a=1}` is not valid JSON");
        assert_eq!(
            arguments_of(&["a=1", "{}"]),
            "error: argument `{}` stands beside others, so it must be `key=value`"
        );
        assert_eq!(arguments_of(&["=1"]), "error: argument `=1` has no name before its `=`");
        assert_eq!(arguments_of(&["a=1", "a=2"]), "error: argument `a` is given twice");
    }

    #[test]
    fn addresses_are_told_from_tools() {
        for word in ["builtin:", "stdio:./o", "oracle+stdio:x y", "shell:", "mpc+stdio:x"] {
            assert!(is_address(word), "{word}");
        }
        for word in ["add", "math.add", "std:sort", "+:", "a+:", "A+b:", "x:stdio:", "stdio"] {
            assert!(!is_address(word), "{word}");
        }
    }
}
