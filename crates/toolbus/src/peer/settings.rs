//! What can be set about a back besides where it is: by the config, or by flags.
//!
//! What only one wire has is in that wire's own `settings.rs`, and carried here by its type.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use super::credentials::Credentials;
pub use super::missing::Missing;
pub use crate::child::supervisor::Restart;

/// All that can be set about a back. What is `None` is as the wire's spec says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// What the log calls it; else what [`peer_name`] says.
    ///
    /// [`peer_name`]: crate::address::Address::peer_name
    pub name: Option<String>,
    /// How long a call may be quiet.
    pub timeout: Option<Duration>,
    /// How long until it must be ready.
    pub start_timeout: Option<Duration>,
    /// How long from the goodbye to SIGTERM.
    pub stop_timeout: Option<Duration>,
    /// May it be started again once it has died?
    pub restart: Option<Restart>,
    /// A program of which nothing was asked for so long is told goodbye, and started again by the
    /// next call.
    pub idle_stop: Option<Duration>,
    /// Does it keep state between calls? Else as its wire usually does.
    pub pin: Option<bool>,
    /// How many clients there may be before it at a time.
    pub clients: Clients,
    /// The only generation of its protocol that a peer is spoken to in; else it is found out.
    pub era: Option<Generation>,
    /// For programs.
    pub program: ProgramSettings,
    /// What one reply may weigh, for wires that have a limit of their own for it.
    pub reply_bytes_max: Option<usize>,
    /// For peers over HTTP.
    pub credentials: Credentials,
    /// May `shell:` be opened?
    pub allow_shell: bool,
    /// What it needs and is not there: then it is not started, and fails with this.
    pub missing: Option<Missing>,
    /// For backs of one wire.
    pub wire: WireSettings,
}

impl Settings {
    /// The same, with those of one wire alone.
    #[must_use]
    pub fn with<T: Any + fmt::Debug + PartialEq + Send + Sync>(self, own: T) -> Settings {
        Settings { wire: WireSettings::of(own), ..self }
    }
}

/// The surroundings of a program that is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramSettings {
    /// Set in its environment.
    pub env: Vec<(String, Secret<String>)>,
    /// Passed on from ours where the environment is otherwise clean.
    pub env_pass: Vec<String>,
    /// Where it runs.
    pub cwd: Option<PathBuf>,
}

/// How many clients there may be before a back at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Clients {
    /// One on a pipe, or a program that does not speak the peer's protocol.
    #[default]
    One,
    /// A user of the command line, who can be asked this.
    User(Askable),
    /// All that come to a port of ours.
    Many,
}

/// What peers may ask a user of the command line for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Askable {
    /// Forms can be filled in at a terminal.
    pub forms: bool,
    /// A model answers on behalf of the user.
    pub model: bool,
    /// The folders to work in, by their absolute paths; if there are none, peers cannot ask.
    pub roots: Vec<PathBuf>,
}

/// Which generation of its protocol a peer is spoken to in, for wires that have two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The older.
    Legacy,
    /// The newer.
    Modern,
}

/// The settings that only one wire has, or those of several, each found by its type.
#[derive(Debug, Clone, Default)]
pub struct WireSettings(Vec<Arc<dyn Setting>>);

impl WireSettings {
    /// Those of one wire.
    pub fn of<T: Any + fmt::Debug + PartialEq + Send + Sync>(settings: T) -> WireSettings {
        WireSettings::default().with(settings)
    }

    /// The same and those of one more wire, in place of those it had.
    #[must_use]
    pub fn with<T: Any + fmt::Debug + PartialEq + Send + Sync>(mut self, settings: T) -> Self {
        self.0.retain(|known| !known.as_any().is::<T>());
        self.0.push(Arc::new(settings));
        self
    }

    /// Those of this type; the default if nothing was set.
    pub fn get<T: Any + Clone + Default>(&self) -> T {
        let found = self.0.iter().find_map(|known| known.as_any().downcast_ref::<T>());
        found.cloned().unwrap_or_default()
    }
}

impl PartialEq for WireSettings {
    fn eq(&self, other: &WireSettings) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(ours, theirs)| ours.equals(&**theirs))
    }
}

impl Eq for WireSettings {}

/// Whatever a wire keeps as its settings.
trait Setting: fmt::Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn Setting) -> bool;
}

impl<T: Any + fmt::Debug + PartialEq + Send + Sync> Setting for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Setting) -> bool {
        other.as_any().downcast_ref::<T>() == Some(self)
    }
}

/// Something that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// From now on it is not shown.
    pub fn new(value: T) -> Secret<T> {
        Secret(value)
    }

    /// For a caller that has to hand it on.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
