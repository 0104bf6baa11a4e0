//! Values in a record: plain JSON, but what is sensitive is a template of the variables it was
//! made of, so that a record gives nothing away, and can be torn down with the same values.

use std::collections::BTreeMap;

use thiserror::Error;
use toolbus_proto::json::{Json, edit, write_string};

use crate::secrets::Secrets;
use crate::value::{Kind, Value, from_any_json};

/// The only key of an object that stands for a sensitive value.
const MARK: &str = "$sensitive";

/// Variables by name.
pub type Variables = BTreeMap<String, Value>;

/// How values are written down.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'a> {
    /// The sensitive variables, with their values.
    pub sensitive: &'a Variables,
    /// All that must not be written.
    pub secrets: &'a Secrets,
    /// Everything is written as it is.
    pub with_secrets: bool,
}

impl Writing<'_> {
    /// The value as it stands in a record.
    pub fn value(&self, value: &Value) -> Json {
        let mut out = Vec::new();
        self.write(value, &mut out);
        Json::from_trusted(out)
    }

    /// Values by name, as they stand in a record.
    pub fn members<'v>(&self, members: impl IntoIterator<Item = (&'v String, &'v Value)>) -> Json {
        let mut out = Vec::new();
        self.write_members(members, &mut out);
        Json::from_trusted(out)
    }

    fn write(&self, value: &Value, out: &mut Vec<u8>) {
        if !self.with_secrets && (value.is_sensitive() || self.is_secret(value)) {
            return self.write_sensitive(value, out);
        }
        match value.kind() {
            Kind::List(all) | Kind::Set(all) | Kind::Tuple(all) => {
                out.push(b'[');
                for (index, element) in all.items().iter().enumerate() {
                    if 0 < index {
                        out.push(b',');
                    }
                    self.write(element, out);
                }
                out.push(b']');
            }
            Kind::Map(all) | Kind::Object(all) => self.write_members(all.items(), out),
            // What is not known was never sent.
            _ => {
                let json = value.to_json();
                out.extend_from_slice(json.as_ref().map_or(b"null", |json| json.as_bytes()));
            }
        }
    }

    fn write_members<'v>(
        &self,
        members: impl IntoIterator<Item = (&'v String, &'v Value)>,
        out: &mut Vec<u8>,
    ) {
        out.push(b'{');
        for (index, (name, member)) in members.into_iter().enumerate() {
            if 0 < index {
                out.push(b',');
            }
            match name.starts_with('$') {
                true => write_string(out, &format!("${name}")),
                false => write_string(out, &self.key(name)),
            }
            out.push(b':');
            self.write(member, out);
        }
        out.push(b'}');
    }

    fn key(&self, name: &str) -> String {
        match self.with_secrets {
            true => name.to_owned(),
            false => self.secrets.masked(name).into_owned(),
        }
    }

    /// Must a text not be written, whether it is tainted or not?
    fn is_secret(&self, value: &Value) -> bool {
        value.as_str().is_some_and(|text| self.secrets.are_in(text))
    }

    fn write_sensitive(&self, value: &Value, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"$sensitive\":");
        match self.template(value) {
            Some(template) => write_string(out, &template),
            None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }

    /// The template that gives the value again.
    fn template(&self, value: &Value) -> Option<String> {
        let json = value.to_json().ok()?;
        let is_whole = |(_, variable): &(&String, &Value)| {
            variable.to_json().is_ok_and(|variable| variable.as_str() == json.as_str())
        };
        if let Some((name, _)) = self.sensitive.iter().find(is_whole) {
            return Some(format!("${{var.{name}}}"));
        }
        let mut spellings: Vec<(String, &String)> = Vec::new();
        for (name, variable) in self.sensitive {
            let text = match variable.kind() {
                Kind::String(text) => text.to_string(),
                Kind::Number(number) if value.is_sensitive() => number.to_string(),
                _ => continue,
            };
            if !text.is_empty() {
                spellings.push((text, name));
            }
        }
        // Of two that fit the longer one says more.
        spellings.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let mut template = String::new();
        let mut literal = String::new();
        let mut is_made_of_any = false;
        let mut rest = value.as_str()?;
        while let Some(char) = rest.chars().next() {
            match spellings.iter().find(|(text, _)| rest.starts_with(&**text)) {
                Some((text, name)) => {
                    self.end_literal(&mut literal, &mut template)?;
                    template.push_str(&format!("${{var.{name}}}"));
                    is_made_of_any = true;
                    rest = &rest[text.len()..];
                }
                None => {
                    literal.push(char);
                    rest = &rest[char.len_utf8()..];
                }
            }
        }
        self.end_literal(&mut literal, &mut template)?;
        is_made_of_any.then_some(template)
    }

    /// Text between two variables, in which no other secret may stand.
    fn end_literal(&self, literal: &mut String, template: &mut String) -> Option<()> {
        if self.secrets.are_in(literal) {
            return None;
        }
        template.push_str(&literal.replace("${", "$${").replace("%{", "%%{"));
        literal.clear();
        Some(())
    }
}

/// Why a value of a record cannot be had again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// A sensitive variable is needed and was not given.
    #[error("the sensitive variable `{name}` is needed and is not in the record")]
    Variable {
        /// Which.
        name: String,
    },
    /// It was made of sensitive values in a way that the record does not hold.
    #[error("a sensitive value is not in the record")]
    Lost,
    /// It is not as we write it.
    #[error("a value in the record is broken: {0}")]
    Broken(String),
}

impl ReadError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ReadError::Variable { name } => Some(format!(
                "give it again: `--var {name}=…`, or by the variable TOOLBUS_VAR_{name}"
            )),
            ReadError::Lost => {
                Some("tear down with the files: without `--use-recorded`".to_owned())
            }
            ReadError::Broken(_) => None,
        }
    }
}

/// The value that stands in a record; `variables` are the sensitive ones.
pub fn read(json: &Json, variables: &Variables) -> Result<Value, ReadError> {
    let value = from_any_json(json).map_err(|error| ReadError::Broken(error.to_string()))?;
    rebuilt(&value, variables)
}

/// The members of an object that stands in a record, by name.
pub fn read_members(json: &Json, variables: &Variables) -> Result<Variables, ReadError> {
    let mut members = Variables::new();
    for (name, member) in edit::members(json.as_str()) {
        let name = name.strip_prefix('$').unwrap_or(&name).to_owned();
        members.insert(name, read(&Json::part_of(json.as_bytes(), member), variables)?);
    }
    Ok(members)
}

fn rebuilt(value: &Value, variables: &Variables) -> Result<Value, ReadError> {
    if let Some(elements) = value.elements() {
        let all: Result<Vec<_>, _> = elements.iter().map(|one| rebuilt(one, variables)).collect();
        return all.map(Value::tuple);
    }
    let Some(members) = value.members() else { return Ok(value.clone()) };
    if let Some(template) = members.get(MARK).filter(|_| members.len() == 1) {
        return match template.as_str() {
            Some(template) => Ok(filled(template, variables)?.sensitive()),
            None => Err(ReadError::Lost),
        };
    }
    let mut all = Variables::new();
    for (name, member) in members {
        let name = name.strip_prefix('$').unwrap_or(name).to_owned();
        all.insert(name, rebuilt(member, variables)?);
    }
    Ok(Value::object(all))
}

/// The template with its variables in it; a lone one is its value, whatever that is.
fn filled(template: &str, variables: &Variables) -> Result<Value, ReadError> {
    let variable = |name: &str| {
        let missing = || ReadError::Variable { name: name.to_owned() };
        variables.get(name).ok_or_else(missing)
    };
    let mut text = String::new();
    let mut rest = template;
    while let Some(char) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("$${").or_else(|| rest.strip_prefix("%%{")) {
            text.push(char);
            text.push('{');
            rest = behind;
        } else if let Some((name, behind)) =
            rest.strip_prefix("${var.").and_then(|behind| behind.split_once('}'))
        {
            let value = variable(name)?;
            if behind.is_empty() && rest.len() == template.len() {
                return Ok(value.clone());
            }
            match value.kind() {
                Kind::String(value) => text.push_str(value),
                Kind::Number(number) => text.push_str(&number.to_string()),
                _ => return Err(ReadError::Broken(format!("`var.{name}` is no text"))),
            }
            rest = behind;
        } else {
            text.push(char);
            rest = &rest[char.len_utf8()..];
        }
    }
    Ok(Value::string(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(json: &str) -> Variables {
        let all = from_any_json(&Json::parse(json.to_owned()).unwrap()).unwrap();
        all.members().unwrap().clone()
    }

    /// Writes a value, reads it again, and gives what was written.
    fn round_trip(value: &Value, sensitive: &Variables) -> (String, Result<Value, ReadError>) {
        let secrets = Secrets::new();
        sensitive.values().for_each(|value| secrets.hide(value));
        let written = Writing { sensitive, secrets: &secrets, with_secrets: false }.value(value);
        let again = read(&written, sensitive);
        (written.to_string(), again)
    }

    #[test]
    fn values_are_held_as_the_golden_file_says() {
        let golden = include_str!("../../../../transcripts/orchard/record.jsonl");
        for line in golden.lines() {
            let line = Json::parse(line.to_owned()).unwrap();
            let [value, tainted, sensitive, record] =
                edit::pick(line.as_str(), ["value", "tainted", "sensitive", "record"]);
            let value = from_any_json(&Json::parse(value.unwrap().to_owned()).unwrap()).unwrap();
            let value = value.with_sensitive(tainted == Some("true"));
            let (written, again) = round_trip(&value, &variables(sensitive.unwrap()));
            let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(parsed(&written), parsed(record.unwrap()));
            match written.contains("null}") {
                true => assert_eq!(again.unwrap_err(), ReadError::Lost),
                false => assert_eq!(
                    again.unwrap().to_json().unwrap().as_str(),
                    value.to_json().unwrap().as_str()
                ),
            }
        }
    }

    #[test]
    fn other_secrets_are_not_written_between_variables() {
        let sensitive = variables(r#"{"token":"s3cr3t","port":5432}"#);
        let secrets = Secrets::new();
        secrets.hide_text("hunter22");
        sensitive.values().for_each(|value| secrets.hide(value));
        let writing = Writing { sensitive: &sensitive, secrets: &secrets, with_secrets: false };
        let written = |text: &str| writing.value(&Value::string(text).sensitive()).to_string();
        assert_eq!(written("s3cr3t and hunter22"), r#"{"$sensitive":null}"#);
        assert_eq!(written("%{x}:5432"), r#"{"$sensitive":"%%{x}:${var.port}"}"#);
        let plain = Writing { with_secrets: true, ..writing };
        assert_eq!(plain.value(&Value::string("s3cr3t")).as_str(), r#""s3cr3t""#);
    }

    #[test]
    fn a_variable_that_is_needed_is_named() {
        let json = Json::parse(r#"["a",{"$sensitive":"x ${var.token}"}]"#).unwrap();
        let error = read(&json, &Variables::new()).unwrap_err();
        assert_eq!(error, ReadError::Variable { name: "token".into() });
        assert!(error.hint().unwrap().contains("--var token="));
    }
}
