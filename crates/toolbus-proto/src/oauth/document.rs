//! JSON that decides about tokens: no member twice, not too deep, an object.
//!
//! Of two members of one name readers disagree which counts; whoever wants to be let in by one
//! reader and past another would like that.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use thiserror::Error;

/// How deep documents and answers may be.
pub const DEPTH_MAX: usize = 32;

/// Reads an object whose nesting is at most `depth_max`, itself counted.
pub fn object(text: &[u8], depth_max: usize) -> Result<Map<String, Value>, BadDocument> {
    let text = str::from_utf8(text).map_err(|_| BadDocument::NotJson)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Strict { left: depth_max }.deserialize(&mut reader).map_err(|error| {
        let told = error.to_string();
        match told.split_once(TWICE).map(|(_, rest)| rest.split('`').next().unwrap_or_default()) {
            Some(name) => BadDocument::Twice { name: name.to_owned() },
            None if told.contains(TOO_DEEP) => BadDocument::TooDeep { depth_max },
            None => BadDocument::NotJson,
        }
    })?;
    reader.end().map_err(|_| BadDocument::NotJson)?;
    match read {
        Value::Object(members) => Ok(members),
        _ => Err(BadDocument::NoObject),
    }
}

/// Why a document is not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum BadDocument {
    #[error("it is no JSON")]
    NotJson,
    #[error("it is no JSON object")]
    NoObject,
    #[error("its member `{name}` is there twice")]
    Twice { name: String },
    #[error("it is nested deeper than {depth_max}")]
    TooDeep { depth_max: usize },
}

const TWICE: &str = "member twice: `";
const TOO_DEEP: &str = "nested too deep";

/// Reads one value, whose containers may be so deep.
struct Strict {
    left: usize,
}

impl Strict {
    fn within<E: de::Error>(&self) -> Result<Strict, E> {
        let left = self.left.checked_sub(1).ok_or_else(|| E::custom(TOO_DEEP))?;
        Ok(Strict { left })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        loop {
            match elements.next_element_seed(self.within()?)? {
                Some(element) => read.push(element),
                None => return Ok(Value::Array(read)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        let within = self.left;
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Strict { left: within }.within()?)?;
            if read.contains_key(&name) {
                return Err(de::Error::custom(format!("{TWICE}{name}`")));
            }
            read.insert(name, value);
        }
        // Also one without members is a level.
        Strict { left: within }.within::<A::Error>()?;
        Ok(Value::Object(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match object(text.as_bytes(), 3) {
            Ok(members) => Value::Object(members).to_string(),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn one_member_has_one_value() {
        assert_eq!(told(r#"{"a":[1,-2,0.5,"b",null,true]}"#), r#"{"a":[1,-2,0.5,"b",null,true]}"#);
        assert_eq!(told(r#"{"a":1,"a":1}"#), "its member `a` is there twice");
        assert_eq!(told(r#"{"b":{"a":1,"\u0061":1}}"#), "its member `a` is there twice");
        assert_eq!(told("[]"), "it is no JSON object");
        assert_eq!(told("{} {}"), "it is no JSON");
        assert_eq!(told(r#"{"a":"#), "it is no JSON");
    }

    #[test]
    fn depth_has_a_limit() {
        assert_eq!(told(r#"{"a":[{}]}"#), r#"{"a":[{}]}"#);
        assert_eq!(told(r#"{"a":[[[]]]}"#), "it is nested deeper than 3");
        assert_eq!(told(r#"{"a":[{"b":{}}]}"#), "it is nested deeper than 3");
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert_eq!(told(&deep), "it is nested deeper than 3");
    }
}
