//! `toolbus.toml`: which backs there are, which fronts, and what is kept of their calls.
//!
//! Reading it is a function of the text, the environment and the files of secrets that it
//! names. Everything is
//! checked here, also what is not used yet, so that a mistake is told with its line and not
//! found out later.

mod error;
mod key;
mod keys;
mod secrets;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolbus_proto::tool::ToolName;

use crate::address::{Address, Place};
use crate::peer::Registry;
use crate::peer::access::AccessSettings;
use crate::peer::at::At;
use crate::peer::settings::{Clients, Settings, WireSettings};

pub use error::{ConfigError, Mistake, Problem};
pub use key::{Key, KeyKind, Needs, Values};

/// The whole config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Who answers, in the order of the file.
    pub backs: Vec<BackConfig>,
    /// Who is served, in the order of the file.
    pub fronts: Vec<FrontConfig>,
    /// What is written down of each call.
    pub journal: Option<JournalConfig>,
    /// Health and metrics.
    pub admin: Option<Admin>,
}

impl Config {
    /// Reads the text of a `toolbus.toml`; `env` gives the value of an environment variable.
    pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        Config::parse_with(&Registry::default(), text, env)
    }

    /// The same, where other peers may be named than those compiled in.
    pub fn parse_with(
        registry: &Registry,
        text: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        tables::read(registry, Path::new(""), text, env)
    }

    /// The same of a file in this folder: the files that it names are found from there, and
    /// programs start where we do.
    pub fn parse_beside(
        folder: &Path,
        text: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        let mut config = tables::read(&Registry::default(), folder, text, env)?;
        if let Some(journal) = &mut config.journal {
            journal.path = folder.join(&journal.path);
        }
        Ok(config)
    }

    /// The same of a file in this folder, to which its relative paths are relative.
    pub fn parse_in(
        folder: &Path,
        text: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        let mut config = Config::parse_beside(folder, text, env)?;
        for back in &mut config.backs {
            if let Place::Command(_) = back.address.place() {
                let cwd = &mut back.settings.program.cwd;
                *cwd = Some(folder.join(cwd.as_deref().unwrap_or(Path::new(""))));
            }
        }
        Ok(config)
    }

    /// The same for many clients at a time, as there are where we listen.
    pub fn for_many_clients(mut self) -> Config {
        for back in &mut self.backs {
            back.settings.clients = Clients::Many;
        }
        self
    }
}

/// One `[back.x]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackConfig {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: Address,
    /// Its tools that may be called, by their own names; `None` for all.
    pub allow: Option<Vec<ToolName>>,
    /// All else.
    pub settings: Settings,
}

/// One `[front.x]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontConfig {
    /// Its name.
    pub name: String,
    /// What it listens on.
    pub serve: Address,
    /// How long its first list waits for backs that were never listed.
    pub list_timeout: Option<Duration>,
    /// What else is set about it.
    pub settings: WireSettings,
}

/// `[journal]`: one line of JSON a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalConfig {
    /// The file.
    pub path: PathBuf,
    /// Write the arguments of calls too.
    pub arguments: bool,
    /// Write their results too.
    pub results: bool,
    /// How large it may grow before it is rotated.
    pub bytes_max: usize,
    /// Calls fail as long as it cannot be written; else they go on without it.
    pub required: bool,
}

/// `[admin]`: health and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Host and port.
    pub listen: At,
    /// Who may look.
    pub access: AccessSettings,
}

#[cfg(test)]
mod tests;
