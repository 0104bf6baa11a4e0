//! The arguments of a call as people type them: one JSON value, or words that the schema of the
//! tool makes JSON of.

use std::fs::File;
use std::io::{self, Read};

use serde_json::value::RawValue;
use thiserror::Error;
use toolbus_proto::did_you_mean::hinted;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Failure, FailureKind, ToolSpec};

use crate::schema::{Parameter, Parameters, Type};
use crate::stdio;

/// What one file, or standard input, may be long.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The arguments as they were typed, files read.
#[derive(Debug)]
pub(crate) enum Arguments {
    None,
    /// One JSON value, as it was written.
    Value(String),
    Words(Vec<Word>),
}

/// One `key=value`.
#[derive(Debug)]
pub(crate) struct Word {
    key: String,
    value: Given,
}

#[derive(Debug)]
enum Given {
    /// By the schema it is a string or JSON.
    Text(String),
    /// It was said to be JSON.
    Json(String),
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
    #[error("cannot read `{name}`")]
    Unreadable { name: String, key: Option<String>, source: io::Error },
    #[error("{name} holds more than {FILE_BYTES_MAX} bytes")]
    TooLong { name: String },
}

impl ArgumentsError {
    pub(crate) fn hint(&self) -> String {
        match self {
            ArgumentsError::Unreadable { name, key: Some(key), .. } => {
                format!("`@` names a file; the text itself is `{key}:='\"@{name}\"'`")
            }
            ArgumentsError::Unreadable { .. } | ArgumentsError::TooLong { .. } => {
                "`@FILE` names a file with one JSON value, `-` is standard input".to_owned()
            }
            _ => "give one JSON value (`'{\"a\":1}'`), `@FILE`, `-`, or `key=value` words (`a=1`)"
                .to_owned(),
        }
    }
}

impl Arguments {
    /// Reads the words behind the tool, and the files that they name.
    pub(crate) fn read(words: &[&str]) -> Result<Arguments, ArgumentsError> {
        match words {
            [] => Ok(Arguments::None),
            ["-"] => {
                let text = content("standard input", None, stdio::reader())?;
                value_of("standard input", &text)
            }
            [word] if word.starts_with('@') => {
                let name = &word[1..];
                value_of(word, &file(name, None)?)
            }
            [word] if !is_pair(word) => match as_json(word) {
                Ok(json) => Ok(Arguments::Value(json.to_owned())),
                Err(source) if looks_like_json(word) => {
                    Err(ArgumentsError::NotJson { word: (*word).to_owned(), source })
                }
                Err(_) => Err(ArgumentsError::Neither { word: (*word).to_owned() }),
            },
            words => pairs(words).map(Arguments::Words),
        }
    }

    /// The arguments for this tool. Where nothing is known of it, a word is JSON if it can be,
    /// else a string. If they are checked, JSON that is broken is no string.
    pub(crate) fn json(
        self,
        tool: Option<&ToolSpec>,
        is_checked: bool,
    ) -> Result<Option<Json>, Failure> {
        let text = match self {
            Arguments::None => return Ok(None),
            Arguments::Value(text) => text,
            Arguments::Words(words) => object(words, tool, is_checked)?,
        };
        Json::parse(text).map(Some).map_err(|error| {
            let message = format!("the arguments cannot be passed on: {error}");
            Failure::new(FailureKind::InvalidArguments, message)
        })
    }
}

fn object(words: Vec<Word>, tool: Option<&ToolSpec>, is_checked: bool) -> Result<String, Failure> {
    let parameters = tool.map(|tool| Parameters::of(&tool.input));
    let mut members = Vec::with_capacity(words.len());
    for Word { key, value } in words {
        let known = parameters.as_ref().and_then(|parameters| parameters.find(&key));
        let value = match (value, known) {
            (Given::Json(json), _) => json,
            (Given::Text(text), Some(known)) => {
                if is_checked {
                    check_json(known, &text)?;
                }
                known.read(&text)
            }
            (Given::Text(text), None) => match as_json(&text) {
                Ok(json) => json.to_owned(),
                Err(_) => Json::of(&text).to_string(),
            },
        };
        members.push(format!("{}:{value}", Json::of(&key)));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

/// Refuses a text that is not JSON where nothing but an array or an object is taken: the user
/// meant JSON, and would be told that a text came.
fn check_json(parameter: &Parameter<'_>, text: &str) -> Result<(), Failure> {
    let types = parameter.types();
    let is_nested = |of: &Type| matches!(of, Type::Array | Type::Object | Type::Null);
    // Read as a value, since then it is said best what is wrong.
    let read = serde_json::from_str::<serde_json::Value>(text);
    let (true, Err(error)) = (types.iter().all(is_nested), read) else { return Ok(()) };
    let (what, example) = match types.iter().find(|of| **of != Type::Null) {
        None => return Ok(()),
        Some(Type::Array) => ("an array", "[…]"),
        Some(_) => ("an object", "{…}"),
    };
    let name = &parameter.name;
    let message = format!("argument `{name}` is not valid JSON: {error}");
    let hint = format!("it must be {what}: `{name}='{example}'`");
    Err(hinted(Failure::new(FailureKind::InvalidArguments, message), Some(hint)))
}

fn pairs(words: &[&str]) -> Result<Vec<Word>, ArgumentsError> {
    let mut pairs: Vec<Word> = Vec::with_capacity(words.len());
    for word in words {
        let Some((key, value)) = word.split_once('=').filter(|_| is_pair(word)) else {
            return Err(ArgumentsError::NotAlone { word: (*word).to_owned() });
        };
        let (key, is_json) = match key.strip_suffix(':') {
            Some(key) => (key, true),
            None => (key, false),
        };
        if key.is_empty() {
            return Err(ArgumentsError::NoKey { word: (*word).to_owned() });
        }
        if pairs.iter().any(|pair| pair.key == key) {
            return Err(ArgumentsError::Twice { key: key.to_owned() });
        }
        let text = match value.strip_prefix('@') {
            Some(name) => file(name, Some(key))?,
            None => value.to_owned(),
        };
        let value =
            match is_json {
                true => Given::Json(as_json(&text).map(str::to_owned).map_err(|source| {
                    ArgumentsError::NotJson { word: (*word).to_owned(), source }
                })?),
                false => Given::Text(text),
            };
        pairs.push(Word { key: key.to_owned(), value });
    }
    Ok(pairs)
}

fn value_of(word: &str, text: &str) -> Result<Arguments, ArgumentsError> {
    match as_json(text) {
        Ok(json) => Ok(Arguments::Value(json.to_owned())),
        Err(source) => Err(ArgumentsError::NotJson { word: word.to_owned(), source }),
    }
}

fn file(name: &str, key: Option<&str>) -> Result<String, ArgumentsError> {
    let unreadable = |source| ArgumentsError::Unreadable {
        name: name.to_owned(),
        key: key.map(str::to_owned),
        source,
    };
    content(name, key, File::open(name).map_err(unreadable)?)
}

fn content(name: &str, key: Option<&str>, from: impl Read) -> Result<String, ArgumentsError> {
    let mut text = String::new();
    from.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|source| {
        ArgumentsError::Unreadable { name: name.to_owned(), key: key.map(str::to_owned), source }
    })?;
    match text.len() as u64 <= FILE_BYTES_MAX {
        true => Ok(text),
        false => Err(ArgumentsError::TooLong { name: name.to_owned() }),
    }
}

/// An equals sign inside JSON, as in `{"formula":"a=b"}`, makes no pair.
pub(crate) fn is_pair(word: &str) -> bool {
    word.contains('=') && !looks_like_json(word)
}

/// May the word be a name, since it is no argument?
pub(super) fn may_be_name(word: &str) -> bool {
    let is_file = word == "-" || word.starts_with('@');
    !is_file && !is_pair(word) && !looks_like_json(word) && as_json(word).is_err()
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

    fn arguments_for(tool: Option<&ToolSpec>, words: &[&str]) -> String {
        let arguments = match Arguments::read(words) {
            Ok(arguments) => arguments,
            Err(error) => return format!("error: {error}"),
        };
        match arguments.json(tool, true) {
            Ok(None) => "none".to_owned(),
            Ok(Some(json)) => json.to_string(),
            Err(failure) => {
                let hint = failure.last_words.as_ref().and_then(|words| words.hint.clone());
                format!("{failure}; {}", hint.unwrap_or_default())
            }
        }
    }

    fn arguments_of(words: &[&str]) -> String {
        arguments_for(None, words)
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
        assert_eq!(arguments_of(&["a:=[1]", "b:=\"1\""]), r#"{"a":[1],"b":"1"}"#);
    }

    #[test]
    fn the_schema_says_what_a_word_is() {
        let schema = r#"{"properties":{"text":{"type":"string"},"n":{"type":"integer"}},"additionalProperties":false}"#;
        let tool = ToolSpec::new("repeat", Json::parse(schema).unwrap());
        let arguments_of = |words: &[&str]| arguments_for(Some(&tool), words);
        assert_eq!(arguments_of(&["n=1", "text=1"]), r#"{"n":1,"text":"1"}"#);
        assert_eq!(arguments_of(&["text:=1"]), r#"{"text":1}"#);
        assert_eq!(arguments_of(&["colour=1"]), r#"{"colour":1}"#);
    }

    #[test]
    fn json_that_is_broken_is_no_text() {
        let schema = r#"{"properties":{"list":{"type":"array"},"map":{"anyOf":[{"type":"object"},{"type":"null"}]},"either":{"type":["array","string"]},"n":{"type":"integer"}}}"#;
        let tool = ToolSpec::new("f", Json::parse(schema).unwrap());
        let arguments_of = |words: &[&str]| arguments_for(Some(&tool), words);
        assert_eq!(
            arguments_of(&[r#"list=[{"name":"a",}]"#]),
            "argument `list` is not valid JSON: trailing comma at line 1 column 14; it must be an array: `list='[…]'`"
        );
        assert_eq!(
            arguments_of(&["map=a"]),
            "argument `map` is not valid JSON: expected value at line 1 column 1; it must be an object: `map='{…}'`"
        );
        assert_eq!(arguments_of(&["map=null", "either=[1,"]), r#"{"map":null,"either":"[1,"}"#);
        // What is wrong with it is found where all arguments are judged.
        assert_eq!(arguments_of(&["n=one", "new=[1,"]), r#"{"n":"one","new":"[1,"}"#);
        let unchecked = Arguments::read(&["list=[1,"]).unwrap().json(Some(&tool), false).unwrap();
        assert_eq!(unchecked.unwrap().as_str(), r#"{"list":"[1,"}"#);
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
        assert_eq!(arguments_of(&[":=1"]), "error: argument `:=1` has no name before its `=`");
        assert_eq!(arguments_of(&["a:=x"]), "error: argument `a:=x` is not valid JSON");
        assert_eq!(arguments_of(&["a=1", "a:=2"]), "error: argument `a` is given twice");
        assert_eq!(arguments_of(&["a=@/nowhere"]), "error: cannot read `/nowhere`");
    }
}
