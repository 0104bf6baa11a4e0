//! `csvdecode`: lines of values between commas (RFC 4180).

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, too_big};
use crate::diagnostic::excerpt;
use crate::value::{ELEMENTS_MAX, Field, Type, Value};

pub(super) const FUNCTIONS: &[Function] =
    &[function("csvdecode(s)", &[Parameter::Text], gives::any, csvdecode)];

/// An object for each row, by the names in the first one.
fn csvdecode(call: &Call<'_>) -> Outcome {
    let mut rows = Rows { text: call.text(0), line: 1 };
    let Some(names) = rows.next_row()? else {
        return Err(bad("there is no header row").of(0));
    };
    let mut seen = BTreeSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(bad(format!("the header names {} twice", excerpt(name))).of(0));
    }
    let mut objects = Vec::new();
    loop {
        let line = rows.line;
        let Some(row) = rows.next_row()? else { break };
        if row.len() != names.len() {
            let message =
                format!("line {line} has {} values, the header {}", row.len(), names.len());
            return Err(bad(message).of(0));
        }
        let members = names.iter().cloned().zip(row.into_iter().map(Value::from));
        objects.push(Value::object(members.collect::<BTreeMap<_, _>>()));
        if ELEMENTS_MAX < objects.len().saturating_mul(names.len() + 1) {
            return Err(too_big());
        }
    }
    let field = |name: String| (name, Field::required(Type::String));
    let element = Type::Object(names.into_iter().map(field).collect());
    Ok(Value::list(element, objects))
}

struct Rows<'a> {
    text: &'a str,
    line: usize,
}

impl Rows<'_> {
    /// The values of the next row; empty lines are none.
    fn next_row(&mut self) -> Result<Option<Vec<String>>, Fault> {
        while let Some(rest) = self.text.strip_prefix("\r\n").or(self.text.strip_prefix('\n')) {
            self.text = rest;
            self.line += 1;
        }
        if self.text.is_empty() {
            return Ok(None);
        }
        let mut row = Vec::new();
        loop {
            row.push(match self.text.strip_prefix('"') {
                Some(rest) => self.quoted(rest)?,
                None => {
                    let end = self.text.find([',', '\n']).unwrap_or(self.text.len());
                    let (value, rest) = self.text.split_at(end);
                    self.text = rest;
                    let at_line_end = !rest.starts_with(',');
                    let value = if at_line_end { value.trim_end_matches('\r') } else { value };
                    if value.contains('"') {
                        let message = format!(
                            "line {} has a quote inside a value that is not quoted",
                            self.line
                        );
                        return Err(bad(message).of(0));
                    }
                    value.to_owned()
                }
            });
            if ELEMENTS_MAX < row.len() {
                return Err(too_big());
            }
            match self.text.strip_prefix(',') {
                Some(rest) => self.text = rest,
                None => break,
            }
        }
        let rest = self.text.strip_prefix("\r\n").or(self.text.strip_prefix('\n'));
        match rest {
            Some(rest) => {
                self.text = rest;
                self.line += 1;
            }
            None if self.text.is_empty() => {}
            None => {
                let message = format!("line {} has text behind a closing quote", self.line);
                return Err(bad(message).of(0));
            }
        }
        Ok(Some(row))
    }

    /// What stands between quotes; two of them are one.
    fn quoted(&mut self, text: &str) -> Result<String, Fault> {
        let begun = self.line;
        let mut value = String::new();
        let mut rest = text;
        loop {
            let Some(end) = rest.find('"') else {
                return Err(bad(format!("the quote on line {begun} is never closed")).of(0));
            };
            value.push_str(&rest[..end]);
            self.line += rest[..end].matches('\n').count();
            rest = &rest[end + 1..];
            let Some(behind) = rest.strip_prefix('"') else { break };
            value.push('"');
            rest = behind;
        }
        // The same text, further on.
        self.text = &self.text[self.text.len() - rest.len()..];
        Ok(value)
    }
}
