//! From an address to a back that answers, and what the wires share on that way.

use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use thiserror::Error;

use super::missing::{self, Missing};
use super::settings::{ProgramSettings, Settings};
use crate::address::Address;
use crate::bus::back::Back;
use crate::child::{EnvPolicy, Patience, Program};

/// Makes a back of an address. Nothing is started or connected to before it is asked.
pub fn open(address: &Address, settings: &Settings) -> Result<Rc<dyn Back>, OpenError> {
    match &settings.missing {
        None => address.kind().open(address, settings),
        Some(missing) => Ok(missing::back(address, missing)),
    }
}

/// The same for one of several backs: what is not there for it is no matter to the others.
pub(crate) fn open_one_of(
    address: &Address,
    settings: &Settings,
) -> Result<Rc<dyn Back>, OpenError> {
    match open(address, settings) {
        Err(OpenError::Missing { missing, .. }) => Ok(missing::back(address, &missing)),
        opened => opened,
    }
}

/// What an address needs and this build was made without.
pub fn not_in_this_build(address: &Address, what: &'static str) -> OpenError {
    OpenError::NotInThisBuild { address: address.clone(), what }
}

/// An address of a form that none of the wire's schemes has.
pub fn unfit(address: &Address, wants: &'static str) -> OpenError {
    OpenError::unusable(address, format!("it has to be {wants}"))
}

/// What the log calls a program that has no other name.
pub fn file_name(words: &[String]) -> String {
    let program = words.first().map_or("", String::as_str);
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

/// What is started, in the surroundings that are set.
pub fn program(words: &[String], settings: &Settings, env: EnvPolicy) -> Program {
    let ProgramSettings { env: vars, cwd, .. } = &settings.program;
    let vars = vars.iter().map(|(name, value)| (name.clone(), value.reveal().clone()));
    Program { env, vars: vars.collect(), cwd: cwd.clone(), ..Program::new(words.to_vec()) }
}

/// The patience of a wire, but for what is set.
pub(crate) fn patience(usual: Patience, settings: &Settings) -> Patience {
    Patience {
        start: settings.start_timeout.unwrap_or(usual.start),
        stop: settings.stop_timeout.unwrap_or(usual.stop),
        ..usual
    }
}

/// What a kind of peer makes of an address: a back, or why it cannot.
pub type Opened = Result<Rc<dyn Back>, OpenError>;

/// Why an address cannot be opened, whatever is there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Something that it needs was left out when this program was built.
    #[error("cannot open `{address}`: {what} is not in this build")]
    NotInThisBuild {
        /// What was to be opened.
        address: Address,
        /// What is missing.
        what: &'static str,
    },
    /// It cannot be opened as it is written or set up.
    #[error("cannot open `{address}`: {why}")]
    Unusable {
        /// What was to be opened.
        address: Address,
        /// What is wrong.
        why: String,
        /// What the reader can do about it.
        hint: Option<String>,
        /// What caused it.
        #[source]
        cause: Option<Cause>,
    },
    /// Something that it needs is not there, such as a variable that holds its token.
    #[error("cannot open `{address}`: {}", missing.message)]
    Missing {
        /// What was to be opened.
        address: Address,
        /// What it needs.
        missing: Missing,
    },
    /// Only a user who allows the shell gets it.
    #[error("`shell:` is off: whoever calls it can run any command")]
    ShellIsOff,
}

impl OpenError {
    /// It cannot be opened as it is written or set up.
    pub fn unusable(address: &Address, why: impl Into<String>) -> OpenError {
        let (address, why) = (address.clone(), why.into());
        OpenError::Unusable { address, why, hint: None, cause: None }
    }

    /// The same, with what the reader can do about it.
    #[must_use]
    pub fn hinted(self, hint: Option<String>) -> OpenError {
        match self {
            OpenError::Unusable { address, why, cause, .. } => {
                OpenError::Unusable { address, why, hint, cause }
            }
            other => other,
        }
    }

    /// The same because of an error.
    #[must_use]
    pub fn caused_by(self, error: impl Error + Send + Sync + 'static) -> OpenError {
        match self {
            OpenError::Unusable { address, why, hint, .. } => {
                OpenError::Unusable { address, why, hint, cause: Some(Cause(Arc::new(error))) }
            }
            other => other,
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            OpenError::NotInThisBuild { .. } => None,
            OpenError::Unusable { hint, .. } => hint.clone(),
            OpenError::Missing { missing, .. } => missing.hint.clone(),
            OpenError::ShellIsOff => {
                Some("allow it by `--allow-shell`, or `allow_shell = true` in the config".into())
            }
        }
    }
}

/// The error that caused another. Two are equal if they say the same.
#[derive(Debug, Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}
