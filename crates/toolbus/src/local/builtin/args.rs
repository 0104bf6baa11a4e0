//! Arguments of the built-in tools: read by name, refused by name.

use std::ops::RangeInclusive;

use toolbus_proto::json::{Json, Kind, Scanner};
use toolbus_proto::judge::{missing, must_be, no_object};
use toolbus_proto::tool::{Code, Failure, FailureKind};

/// The members of the object that a tool was given. Unknown ones are ignored.
pub(super) struct Args(Vec<(String, Json)>);

/// A number as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// Plain digits within 64 bits.
    Integer(i64),
    /// Anything else.
    Double(f64),
}

impl Args {
    /// No arguments at all, and null, are an object without members.
    pub(super) fn of(args: Option<&Json>) -> Result<Args, Failure> {
        let Some(args) = args.filter(|args| !args.is_null()) else {
            return Ok(Args(Vec::new()));
        };
        members(args).map(Args).ok_or_else(no_object)
    }

    pub(super) fn number(&self, name: &str) -> Result<Number, Failure> {
        let value = self.required(name)?;
        if value.kind() != Kind::Number {
            return Err(must_be(name, "a number"));
        }
        let text = value.as_str();
        let integer = is_integer(text).then(|| text.parse().ok()).flatten();
        match (integer, text.parse()) {
            (Some(integer), _) => Ok(Number::Integer(integer)),
            (None, Ok(double)) => Ok(Number::Double(double)),
            (None, Err(_)) => Err(must_be(name, "a number")),
        }
    }

    pub(super) fn string(&self, name: &str) -> Result<String, Failure> {
        self.required(name)?.string().ok_or_else(|| must_be(name, "a string"))
    }

    pub(super) fn integer(&self, name: &str, range: RangeInclusive<u64>) -> Result<u64, Failure> {
        integer(name, self.required(name)?, range)
    }

    pub(super) fn integer_if_any(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Failure> {
        self.find(name).map(|value| integer(name, value, range)).transpose()
    }

    pub(super) fn bool_if_any(&self, name: &str) -> Result<Option<bool>, Failure> {
        let Some(value) = self.find(name) else { return Ok(None) };
        match value.as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(must_be(name, "true or false")),
        }
    }

    pub(super) fn code_if_any(&self, name: &str) -> Result<Option<Code>, Failure> {
        let Some(value) = self.find(name) else { return Ok(None) };
        let number = || value.as_str().parse().ok().filter(|_| is_integer(value.as_str()));
        let word = || value.string().map(Code::Word);
        let code = word().or_else(|| number().map(Code::Number));
        code.map(Some).ok_or_else(|| must_be(name, "a string or an integer of 64 bits"))
    }

    pub(super) fn array_if_any(&self, name: &str) -> Result<Option<Vec<Json>>, Failure> {
        let Some(value) = self.find(name) else { return Ok(None) };
        elements(value).map(Some).ok_or_else(|| must_be(name, "an array"))
    }

    fn required(&self, name: &str) -> Result<&Json, Failure> {
        self.find(name).ok_or_else(|| missing(name))
    }

    fn find(&self, name: &str) -> Option<&Json> {
        // Of two equal names the last counts, as most readers have it.
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

fn integer(name: &str, value: &Json, range: RangeInclusive<u64>) -> Result<u64, Failure> {
    let text = value.as_str();
    // `-0` is plain digits with a minus, and no more than zero.
    let integer = is_integer(text).then(|| text.parse::<i128>().ok()).flatten();
    integer
        .and_then(|integer| u64::try_from(integer).ok())
        .filter(|integer| range.contains(integer))
        .ok_or_else(|| {
            let what = format!("an integer from {} to {}", range.start(), range.end());
            must_be(name, &what)
        })
}

/// Plain digits with an optional minus.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The members of an object, or `None` if it is none.
pub(super) fn members(object: &Json) -> Option<Vec<(String, Json)>> {
    let mut scanner = Scanner::new(object.as_str());
    if !scanner.enter_object() {
        return None;
    }
    let mut members = Vec::new();
    while let Ok(Some((key, value))) = scanner.member(members.is_empty()) {
        let key = Json::part_of(object.as_bytes(), key);
        // A name that is no Unicode text is none that we know.
        let name = key.string().unwrap_or_else(|| key.to_string());
        members.push((name, Json::part_of(object.as_bytes(), value)));
    }
    Some(members)
}

fn elements(array: &Json) -> Option<Vec<Json>> {
    let mut scanner = Scanner::new(array.as_str());
    if !scanner.enter_array() {
        return None;
    }
    let mut elements = Vec::new();
    while let Ok(Some(element)) = scanner.element(elements.is_empty()) {
        elements.push(Json::part_of(array.as_bytes(), element));
    }
    Some(elements)
}

pub(super) fn invalid(message: String) -> Failure {
    Failure::new(FailureKind::InvalidArguments, message)
}
