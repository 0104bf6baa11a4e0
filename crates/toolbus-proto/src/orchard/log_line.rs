//! A line of a provider's standard error, as people are shown it.

use std::borrow::Cow;
use std::fmt;

use crate::json::{Kind, Scanner, edit};
use crate::jsonrpc::{kind, string};

/// What a line says, and how important it is, if it tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// The word that the provider has for it.
    pub level: Option<Cow<'a, str>>,
    /// What it says.
    pub text: Cow<'a, str>,
}

impl<'a> LogLine<'a> {
    /// A JSON object with `level` and `msg` is read, any other line is its own text.
    pub fn read(line: &'a str) -> LogLine<'a> {
        structured(line).unwrap_or(LogLine { level: None, text: Cow::Borrowed(line) })
    }
}

fn structured(line: &str) -> Option<LogLine<'_>> {
    if !line.starts_with('{') {
        return None;
    }
    let mut scanner = Scanner::new(line);
    let object = scanner.value().ok().filter(|value| kind(value) == Kind::Object)?;
    scanner.end().ok()?;
    let [level, text] = edit::pick(object, ["level", "msg"]);
    Some(LogLine { level: Some(string(level?)?), text: string(text?)? })
}

impl fmt::Display for LogLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.level {
            Some(level) => write!(f, "{level}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_lines_are_told_plainly() {
        for (line, shown) in [
            ("plain {text}", "plain {text}"),
            (r#"{"time":"x","level":"INFO","msg":"ready\u0021"}"#, "INFO: ready!"),
            (r#"{"level":3,"msg":"ready"}"#, r#"{"level":3,"msg":"ready"}"#),
            (r#"{"level":"INFO"}"#, r#"{"level":"INFO"}"#),
            (r#"{"level":"INFO","msg":"x"} more"#, r#"{"level":"INFO","msg":"x"} more"#),
            ("{", "{"),
        ] {
            assert_eq!(LogLine::read(line).to_string(), shown);
        }
    }
}
