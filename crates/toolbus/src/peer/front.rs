//! Serving callers in a wire: planned from a config, opened, led to other backs, stopped.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use tokio::sync::oneshot;
use toolbus_proto::channel::Ended;

use super::circumstances::Circumstances;
use super::settings::WireSettings;
use crate::address::Address;
use crate::bus::Bus;
use crate::bus::back::LocalFuture;
use crate::bus::config::{BadValue, Key, Values};
#[cfg(feature = "tls")]
use crate::transport::tls::ServerTls;

/// How callers are served in a wire.
pub trait FrontKind: Sync {
    /// What a config may say about a front of this kind.
    fn keys(&self) -> &'static [Key] {
        &[]
    }

    /// What is wrong with values that are well written, each by itself. `table` is the name of
    /// theirs: `front.web`.
    fn mistakes(&self, _table: &str, _values: &Values) -> Vec<BadValue> {
        Vec::new()
    }

    /// What the values of those keys mean.
    fn settings(&self, _values: &Values) -> WireSettings {
        WireSettings::default()
    }

    /// May this address be listened on? Not if its callers only come on standard streams.
    fn can_listen(&self, _address: &Address) -> bool {
        false
    }

    /// Can only one front listen at its address? Otherwise one of another config stands beside it.
    fn takes_its_address(&self) -> bool {
        true
    }

    /// The bus, with its tools named as callers of this wire see them.
    fn name_tools(&self, bus: Bus) -> Bus {
        bus
    }

    /// Who its callers are: `MCP clients`.
    fn callers(&self) -> &'static str;

    /// What fronts are called that carry the requests of sessions to the machines that have them, if
    /// this is one.
    fn carries_sessions(&self) -> Option<&'static str> {
        None
    }

    /// Does everything pass as it is, before a single back of the same wire?
    fn passes_through(&self) -> bool {
        false
    }

    /// Can it listen on a socket that was opened for it?
    fn takes_sockets(&self) -> bool {
        false
    }

    /// Checks all that can be checked before it listens.
    fn plan(
        &self,
        address: &Address,
        _settings: &WireSettings,
        _circumstances: Circumstances,
    ) -> Result<FrontPlan, FrontError> {
        Err(FrontError::usage(format!("cannot listen on `{address}`")))
    }

    /// Serves the tools of the bus on standard input and output, until the caller has had
    /// enough. Called inside a `LocalSet`.
    ///
    /// A caller that starts its peers by flags has them among `words`, and what it waits for on
    /// standard error is written by `say`, a line at a time.
    fn serve_stdio(&self, bus: Bus, words: &[String], say: fn(&str)) -> ServedOnce;
}

/// How the one conversation on standard streams ends.
pub type ServedOnce = LocalFuture<'static, io::Result<Ended>>;

/// A front that could be opened: it accepts from then on.
///
/// The number is another for each front before the same backs. Called inside a `LocalSet`.
pub type FrontPlan =
    Box<dyn FnOnce(Bus, u64) -> LocalFuture<'static, Result<Listening, FrontError>>>;

/// A front that listens.
pub struct Listening {
    /// What people and scripts are told: `listening on URL`, with the real port.
    pub line: Option<String>,
    /// The same of a front that waits for what it listens at; nothing comes if it is stopped before.
    pub later: Option<oneshot::Receiver<String>>,
    /// What can be done with it while it serves.
    pub front: RunningFront,
    /// By what it shows itself, if that is a certificate in a file.
    #[cfg(feature = "tls")]
    pub tls: Option<ServerTls>,
    /// Serves, until it is stopped and the last call is over.
    pub serving: LocalFuture<'static, Result<(), FrontError>>,
}

/// A front that serves.
pub struct RunningFront {
    lead_to: Box<dyn Fn(Bus)>,
    stop: Box<dyn Fn(Option<Duration>)>,
}

impl RunningFront {
    /// Is led to other backs by `lead_to`, and takes no caller any more after `stop`: what is
    /// under way has the time that is given there, or as long as is usual for the wire.
    pub fn new(
        lead_to: impl Fn(Bus) + 'static,
        stop: impl Fn(Option<Duration>) + 'static,
    ) -> RunningFront {
        RunningFront { lead_to: Box::new(lead_to), stop: Box::new(stop) }
    }

    /// Calls go to the backs of `bus` from now on.
    pub fn lead_to(&self, bus: Bus) {
        (self.lead_to)(bus);
    }

    /// Takes no caller any more; what is under way may end, but not for long.
    pub fn stop(&self) {
        (self.stop)(None);
    }

    /// Takes no caller any more; what is under way has so long to end.
    pub fn drain(&self, patience: Duration) {
        (self.stop)(Some(patience));
    }
}

/// Why a front cannot be opened, or cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontError {
    /// Is what was asked for wrong? Otherwise the system is to blame.
    pub is_usage: bool,
    /// The key of the config that is to blame.
    pub key: Option<&'static str>,
    /// What happened.
    pub message: String,
    /// Why, from the nearest cause to the first.
    pub causes: Vec<String>,
    /// What the reader can do about it.
    pub hint: Option<String>,
}

impl FrontError {
    /// What was asked for is wrong; nothing was opened.
    pub fn usage(message: impl Into<String>) -> FrontError {
        FrontError { is_usage: true, ..FrontError::failed(message) }
    }

    /// The system does not let us.
    pub fn failed(message: impl Into<String>) -> FrontError {
        FrontError {
            is_usage: false,
            key: None,
            message: message.into(),
            causes: Vec::new(),
            hint: None,
        }
    }

    /// The same, and this key of the config is to blame.
    #[must_use]
    pub fn by_key(self, key: &'static str) -> FrontError {
        FrontError { key: Some(key), ..self }
    }

    /// The same because of an error, and of all that caused that.
    #[must_use]
    pub fn caused_by(mut self, error: &dyn Error) -> FrontError {
        let chain = std::iter::successors(Some(error), |&error| error.source());
        self.causes.extend(chain.map(ToString::to_string));
        self
    }

    /// The same, with what the reader can do about it.
    #[must_use]
    pub fn hint(self, hint: Option<String>) -> FrontError {
        FrontError { hint, ..self }
    }
}

impl fmt::Display for FrontError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for FrontError {}
