//! `toolbus.toml`: which backs there are, which fronts, and what is kept of their calls.
//!
//! Reading it is a function of the text, the environment and the files of secrets that it
//! names. Everything is
//! checked here, also what is not used yet, so that a mistake is told with its line and not
//! found out later.

mod callers;
#[cfg(feature = "unstable")]
pub mod described;
mod error;
mod key;
mod keys;
#[cfg(feature = "unstable")]
pub mod looked;
mod references;
mod secrets;
mod tables;
#[cfg(not(feature = "unstable"))]
mod threads;
#[cfg(feature = "unstable")]
pub mod threads;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolbus_proto::caller::{CallerName, Digest, Subject};
use toolbus_proto::limit::Limits;
#[cfg(feature = "oauth")]
use toolbus_proto::oauth::claims::WantedClaims;
use toolbus_proto::page::PageMode;
use toolbus_proto::search::Search;
use toolbus_proto::tool::ToolName;
use toolbus_proto::view::{Pattern, View};

use crate::address::{Address, Place};
use crate::bus::lock::Locking;
use crate::bus::view::ViewOrCaller;
#[cfg(feature = "oauth")]
use crate::oauth::tokens::FrontOauth;
use crate::peer::Registry;
use crate::peer::access::AccessSettings;
use crate::peer::at::At;
use crate::peer::settings::{Clients, Settings, WireSettings};
use crate::secrets::Secrets;

pub use error::{ConfigError, Mistake, Problem};
pub use key::{BadValue, Key, KeyKind, Needs, Values};
pub use threads::ThreadCount;

/// The whole config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Who answers, in the order of the file.
    pub backs: Vec<BackConfig>,
    /// Who is served, in the order of the file.
    pub fronts: Vec<FrontConfig>,
    /// What is shown, in the order of the file.
    pub views: Vec<Arc<View>>,
    /// Who calls, in the order of the file.
    pub callers: Vec<CallerConfig>,
    /// Views and callers by their names, in the order of the file.
    pub views_and_callers: Vec<ViewOrCaller>,
    /// What is written down of each call.
    pub journal: Option<JournalConfig>,
    /// Health, metrics and the live page.
    pub admin: Option<Admin>,
    /// On how many threads connections are served.
    pub threads: ThreadCount,
    /// What is pinned of the backs. Reading a config reads no lock: that is for those who know
    /// where it lies.
    pub locking: Locking,
    /// What in it is masked wherever we say something.
    pub(crate) secrets: Secrets,
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
        config.start_programs_in(folder);
        Ok(config)
    }

    /// Programs start in this folder, and what is said of where they do is relative to it.
    fn start_programs_in(&mut self, folder: &Path) {
        for back in &mut self.backs {
            if let Place::Command(_) = back.address.place() {
                let cwd = &mut back.settings.program.cwd;
                *cwd = Some(folder.join(cwd.as_deref().unwrap_or(Path::new(""))));
            }
        }
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
    /// Is it locked, if there is a lock?
    pub lock: bool,
    /// How many calls it may be given.
    pub limits: Limits,
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
    /// Whether its tools are searched for, if that is said here.
    pub search: Option<Search>,
    /// The tools that are listed even so: patterns over `<back>.<tool>`.
    pub always: Option<Vec<Pattern>>,
    /// Whom it is for; `None` for all whom it lets in by itself.
    pub callers: Option<Vec<CallerName>>,
    /// The name of the view of all its callers.
    pub view: Option<String>,
    /// How many calls may be made on it.
    pub limits: Limits,
    /// What it asks of tokens of sign-in servers, if it lets them in.
    #[cfg(feature = "oauth")]
    pub oauth: Option<Arc<FrontOauth>>,
    /// What else is set about it.
    pub settings: WireSettings,
}

impl FrontConfig {
    /// Does it let in only who shows something that tells who it is?
    pub fn is_closed(&self) -> bool {
        #[cfg(feature = "oauth")]
        if self.oauth.is_some() {
            return true;
        }
        self.callers.is_some()
    }
}

/// One `[caller.x]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerConfig {
    /// Its name.
    pub name: CallerName,
    /// By which keys it is known.
    pub known_by: Vec<&'static str>,
    /// The SHA-256 of its tokens.
    pub tokens: Vec<Digest>,
    /// The SHA-256 of its certificates.
    pub certificates: Vec<Digest>,
    /// The subjects of its certificates.
    pub subjects: Vec<Subject>,
    /// The users whose processes it is.
    pub uids: Vec<u32>,
    /// Of which tokens of sign-in servers it is known.
    #[cfg(feature = "oauth")]
    pub oauth: Option<Arc<WantedClaims>>,
    /// The name of its view.
    pub view: Option<String>,
    /// How many calls it may make.
    pub limits: Limits,
    /// How many of what a pattern matches, sorted by pattern.
    pub limits_by_pattern: Vec<(Pattern, Limits)>,
}

impl CallerConfig {
    /// One of whom nothing else is known.
    fn new(name: CallerName) -> CallerConfig {
        CallerConfig {
            name,
            known_by: Vec::new(),
            tokens: Vec::new(),
            certificates: Vec::new(),
            subjects: Vec::new(),
            uids: Vec::new(),
            #[cfg(feature = "oauth")]
            oauth: None,
            view: None,
            limits: Limits::default(),
            limits_by_pattern: Vec::new(),
        }
    }

    fn known_by(&mut self, key: &'static str, count: usize) {
        if 0 < count {
            self.known_by.push(key);
        }
    }

    /// Has the other a credential of ours that this key can say?
    fn shares(&self, other: &CallerConfig, key: &str) -> bool {
        fn both<T: PartialEq>(ours: &[T], theirs: &[T]) -> bool {
            ours.iter().any(|own| theirs.contains(own))
        }
        match key {
            "token" | "token_sha256" => both(&self.tokens, &other.tokens),
            "cert_sha256" => both(&self.certificates, &other.certificates),
            "cert_subject" => both(&self.subjects, &other.subjects),
            // The first that fits is meant.
            "oauth" => false,
            _ => both(&self.uids, &other.uids),
        }
    }
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

/// `[admin]`: health, metrics and the live page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Host and port.
    pub listen: At,
    /// Who may look.
    pub access: AccessSettings,
    /// What the live page may do.
    pub page: PageMode,
    /// It may tell what calls are given and what they answer.
    pub page_values: bool,
}

#[cfg(test)]
mod tests;
