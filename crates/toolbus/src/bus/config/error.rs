//! What can be wrong with a config: the line, the key, and what was probably meant. Never a
//! value that may be a secret.

use std::error::Error;
use std::fmt;

use thiserror::Error;

use crate::address::AddressError;
use crate::peer::at::AtError;
use crate::units::{DurationError, SizeError};

/// What is wrong with a config: all of it, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub mistakes: Vec<Mistake>,
}

impl ConfigError {
    /// What the reader can do about it, if there is one mistake. Of several each has its own.
    pub fn hint(&self) -> Option<String> {
        match self.mistakes.as_slice() {
            [only] => only.hint(),
            _ => None,
        }
    }
}

/// Each mistake has a line.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{mistake}")?;
        }
        Ok(())
    }
}

impl Error for ConfigError {}

/// One thing that is wrong with a config, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct Mistake {
    /// Counted from one.
    pub line: usize,
    /// What is wrong there.
    pub problem: Box<Problem>,
}

impl Mistake {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        self.problem.hint()
    }
}

impl Problem {
    /// The key that it is about; `None` if the file is not even TOML.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Problem::Syntax { .. } => None,
            Problem::UnknownKey { key, .. }
            | Problem::Misplaced { key, .. }
            | Problem::Missing { key }
            | Problem::WrongType { key, .. }
            | Problem::Duration { key, .. }
            | Problem::NoUnit { key, .. }
            | Problem::Size { key, .. }
            | Problem::Address { key, .. }
            | Problem::Listen { key, .. }
            | Problem::CannotServe { key, .. }
            | Problem::Name { key, .. }
            | Problem::Unset { key, .. }
            | Problem::Unreadable { key, .. }
            | Problem::NoProgram { key, .. }
            | Problem::Empty { key }
            | Problem::NotThere { key, .. }
            | Problem::MatchesNothing { key, .. }
            | Problem::NoTool { key, .. }
            | Problem::NoNameOfTool { key, .. }
            | Problem::SameName { key, .. }
            | Problem::FixedTwice { key, .. }
            | Problem::NoRate { key, .. }
            | Problem::SameCredential { key, .. }
            | Problem::NothingToShow { key, .. }
            | Problem::CannotTellApart { key }
            | Problem::NoClientCa { key }
            | Problem::NoCarrier { key, .. }
            | Problem::NoCallers { key }
            | Problem::NotTogether { key, .. }
            | Problem::Said { key, .. }
            | Problem::Unclosed { key } => Some(key),
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Problem::UnknownKey { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `{nearest}`?"))
            }
            Problem::UnknownKey { known, .. } => Some(format!("it can be {}", known.join(", "))),
            Problem::Address { why, .. } => why.hint(),
            Problem::Listen { why, .. } => Some(why.hint()),
            Problem::Unset { variable, .. } => {
                Some(format!("set it: `export {variable}=…`, or take it out of the config"))
            }
            Problem::NotThere { nearest, .. } => {
                Some(format!("did you mean `{}`?", nearest.as_ref()?))
            }
            Problem::MatchesNothing { pattern, .. } => {
                Some(format!("write `{pattern}.*` for all tools of a back"))
            }
            Problem::NoNameOfTool { .. } => {
                Some("letters, digits, `_` and `-`, at most 64".to_owned())
            }
            Problem::NoRate { .. } => {
                Some("write `60/1m`: so many calls in so much time".to_owned())
            }
            Problem::NothingToShow { needs, .. } => Some(format!("it needs {needs}")),
            Problem::NoCallers { .. } => {
                Some("take it out to let in whom the front lets in by itself".to_owned())
            }
            Problem::Said { hint, .. } => hint.clone(),
            Problem::NotTogether { .. } => Some("give the token to a caller".to_owned()),
            Problem::Empty { key } => {
                let name = key.rsplit('.').next().unwrap_or(key);
                Some(format!(
                    "give `{name}` a value, see that the variable or file it names has one, or take it out of the config"
                ))
            }
            _ => None,
        }
    }
}

/// What can be wrong with a config. Names of keys are whole, as in `back.math.timeout`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Problem {
    #[error("not TOML: {message}")]
    Syntax { message: String },
    #[error("there is no key `{key}`")]
    UnknownKey { key: String, nearest: Option<String>, known: Vec<String> },
    #[error("`{key}` is only for {whose}")]
    Misplaced { key: String, whose: &'static str },
    #[error("`{key}` is missing")]
    Missing { key: String },
    #[error("`{key}` must be {expected}")]
    WrongType { key: String, expected: &'static str },
    #[error("`{key}`: {why}")]
    Duration { key: String, why: DurationError },
    #[error("`{key}`: `{text}` has no unit: write `500ms`, `2s` or `1m`")]
    NoUnit { key: String, text: String },
    #[error("`{key}`: {why}")]
    Size { key: String, why: SizeError },
    #[error("`{key}`: {why}")]
    Address { key: String, why: AddressError },
    #[error("`{key}`: {why}")]
    Listen { key: String, why: AtError },
    #[error("`{key}`: cannot listen on `{address}`")]
    CannotServe { key: String, address: String },
    #[error("`{name}` is no name: letters, digits, `_` and `-` make one, and `toolbus` is taken")]
    Name { key: String, name: String },
    #[error("`{key}` asks for the environment variable `{variable}`, which is not set")]
    Unset { key: String, variable: String },
    #[error("`{key}` asks for the file `{path}`, which cannot be read: {why}")]
    Unreadable { key: String, path: String, why: String },
    #[error("back.{back}: `idle_stop` is for programs that keep running")]
    NoProgram { key: String, back: String },
    #[error("`{key}` is empty")]
    Empty { key: String },
    #[error("`{key}`: there is no {what} `{name}`")]
    NotThere { key: String, what: &'static str, name: String, nearest: Option<String> },
    #[error("`{key}`: `{pattern}` can match no tool")]
    MatchesNothing { key: String, pattern: String },
    #[error("`{key}`: `{name}` is no tool: write BACK.TOOL")]
    NoTool { key: String, name: String },
    #[error("`{key}`: `{name}` is no name of a tool")]
    NoNameOfTool { key: String, name: String },
    #[error("`{key}`: both `{}` and `{}` would be called `{name}`", .tools[0], .tools[1])]
    SameName { key: String, tools: [String; 2], name: String },
    #[error(
        "`{key}`: views `{}` and `{}` fix `{argument}` of `{tool}` to different values",
        .views[0], .views[1]
    )]
    FixedTwice { key: String, views: [String; 2], argument: String, tool: String },
    #[error("`{key}`: `{text}` is not a rate")]
    NoRate { key: String, text: String },
    #[error("`{key}`: `caller.{first}` has the same")]
    SameCredential { key: String, first: String },
    #[error("`{key}`: caller `{caller}` has nothing to show there")]
    NothingToShow { key: String, caller: String, needs: &'static str },
    #[error("`{key}` is only for fronts that can tell callers apart")]
    CannotTellApart { key: String },
    #[error("`{key}`: `serve` has no `client_ca`")]
    NoClientCa { key: String },
    #[error("`{key}`: there is no {what} front {over}")]
    NoCarrier { key: String, what: String, over: String },
    #[error("`{key}` is empty")]
    NoCallers { key: String },
    #[error("`{key}` and `{other}` do not go together")]
    NotTogether { key: String, other: String },
    #[error("{message}")]
    Said { key: String, message: String, hint: Option<String> },
    #[error("`{key}` has a `${{` without its `}}`")]
    Unclosed { key: String },
}
