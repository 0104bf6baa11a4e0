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
    #[error("`{key}`: nobody can listen on `{address}`")]
    CannotServe { key: String, address: String },
    #[error("`{name}` is no name: letters, digits, `_` and `-` make one, and `toolbus` is taken")]
    Name { name: String },
    #[error("`{key}` asks for the environment variable `{variable}`, which is not set")]
    Unset { key: String, variable: String },
    #[error("`{key}` asks for the file `{path}`, which cannot be read: {why}")]
    Unreadable { key: String, path: String, why: String },
    #[error("`{key}` is empty")]
    Empty { key: String },
    #[error("`{key}` has a `${{` without its `}}`")]
    Unclosed { key: String },
}
