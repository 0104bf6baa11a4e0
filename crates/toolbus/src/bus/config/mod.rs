//! `toolbus.toml`: which backs there are, which fronts, and what is kept of their calls.
//!
//! Reading it is a function of the text and the environment and nothing else. Everything is
//! checked here, also what nobody uses yet, so that a mistake is told with its line and not
//! found out later.

mod error;
mod keys;
mod secrets;
mod tables;

use std::path::PathBuf;
use std::time::Duration;

use toolbus_proto::tool::ToolName;

use crate::address::Address;
use crate::wire::settings::{Clients, MediocreSettings, Settings};

pub use error::{ConfigError, Problem};

/// The whole config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Who answers, in the order of the file.
    pub backs: Vec<BackConfig>,
    /// Who is served, in the order of the file.
    pub fronts: Vec<FrontConfig>,
    /// What is written down of each call.
    pub journal: Option<Journal>,
    /// Health and metrics.
    pub admin: Option<Admin>,
}

impl Config {
    /// Reads the text of a `toolbus.toml`; `env` gives the value of an environment variable.
    pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        tables::read(text, env)
    }

    /// The same for many clients at a time, as there are where we listen.
    pub fn for_many_clients(mut self) -> Config {
        for back in &mut self.backs {
            back.settings.mcp.clients = Clients::Many;
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
    /// For the mediocre wire.
    pub mediocre: MediocreSettings,
    /// For the mediocre wire: what becomes of slow and silent clients.
    pub clients: ClientSettings,
    /// For MCP over HTTP: the environment variable that holds the bearer token.
    pub token_env: Option<String>,
    /// For MCP over HTTP: do without a token where one is asked for.
    pub insecure: bool,
    /// For MCP over HTTP: allowed besides our own.
    pub origins: Vec<String>,
}

/// How long and how much the clients of a mediocre front are waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// What is read of a stream that nobody wants any more.
    pub drain_bytes_max: Option<usize>,
    /// How long that may take.
    pub drain_timeout: Option<Duration>,
    /// How long a connection may be without a call.
    pub idle_timeout: Option<Duration>,
    /// How long a call may be quiet.
    pub call_timeout: Option<Duration>,
}

/// `[journal]`: one line of JSON a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The file.
    pub path: PathBuf,
    /// Write the arguments of calls too.
    pub arguments: bool,
    /// Write their results too.
    pub results: bool,
    /// How large it may grow before it is rotated.
    pub bytes_max: usize,
}

/// `[admin]`: health and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Host and port.
    pub listen: String,
}

#[cfg(test)]
mod tests;
