//! Values as people type them: times, sizes, and the arguments of a call.

use serde_json::value::RawValue;
use thiserror::Error;
pub(crate) use toolbus::units::{duration, held_size, size};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
