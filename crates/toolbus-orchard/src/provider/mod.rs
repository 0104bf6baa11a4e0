//! Providers as a host sees them, whatever they are: programs that speak Orchard, any other peer
//! of toolbus, and those inside toolbus itself.

mod address;
mod inside;
mod observed;
mod program;
mod source;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use toolbus::peer::OpenError;
use toolbus::{Failure, FailureKind, Json, LocalFuture};
use toolbus_proto::channel::Notice;
use toolbus_proto::orchard::schema::ProviderSchema;

pub use inside::InProcess;
pub(crate) use observed::ObservedProvider;
pub use source::{ProviderSource, SourceError};

/// What can be set about the providers of a run.
#[derive(Debug, Clone)]
pub struct Patience {
    /// How long `describe` may take, and the schema probe.
    pub describe: Duration,
    /// How long `configure` may take.
    pub configure: Duration,
    /// How long `shutdown` may take.
    pub stop: Duration,
    /// The longest frame of a provider.
    pub frame_bytes_max: usize,
    /// Lines that are no frames end the conversation.
    pub is_strict: bool,
    /// May `shell:` be opened?
    pub allow_shell: bool,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            describe: Duration::from_secs(5),
            configure: Duration::from_secs(30),
            stop: Duration::from_secs(5),
            frame_bytes_max: 16 << 20,
            is_strict: false,
            allow_shell: false,
        }
    }
}

/// One action to execute.
#[derive(Debug, Clone)]
pub struct Execute {
    /// Which.
    pub action: String,
    /// What it gets: converted by the schema, defaults included.
    pub attrs: Json,
    /// How people know it: the address of its node.
    pub label: String,
    /// The folder of the file that holds the action.
    pub folder: PathBuf,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// An instance of a provider, from its start to its end.
pub trait Provider {
    /// Starts it, and asks how it describes itself.
    fn describe(&self) -> LocalFuture<'_, Result<Rc<ProviderSchema>, Failure>>;

    /// Gives it its config: converted by the schema, defaults included.
    fn configure(&self, config: Json) -> LocalFuture<'_, Result<(), Failure>>;

    /// Executes an action and gives its outputs as they came.
    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>>;

    /// Is it of no more use after this?
    fn dies_by(&self, failure: &Failure) -> bool {
        let is_death = matches!(failure.kind, FailureKind::Gone | FailureKind::BrokeProtocol);
        !failure.from_peer && is_death
    }

    /// Calls this with what it writes to standard error, and what is odd about it.
    fn listen(&self, _hear: Rc<dyn Fn(&Notice)>) {}

    /// Says goodbye and waits until no process is left.
    fn shutdown(&self) -> LocalFuture<'_, ()>;

    /// Kills what is left of it.
    fn kill(&self);
}

/// Makes a provider of a source; nothing is started yet. `name` is what people call it, `folder`
/// that of the scenario's file. Must be called inside a `LocalSet`.
pub fn open(
    name: &str,
    source: &ProviderSource,
    folder: &Path,
    patience: &Patience,
) -> Result<Rc<dyn Provider>, OpenError> {
    Ok(match source {
        ProviderSource::Builtin(builtin) => match InProcess::builtin(name, builtin) {
            Some(inside) => Rc::new(inside),
            // A source that names none was refused when it was read.
            None => Rc::new(InProcess::missing(name)),
        },
        ProviderSource::Program { words, cwd } => {
            Rc::new(program::Program::new(name, words.clone(), cwd.clone(), patience))
        }
        ProviderSource::Address(address) => {
            Rc::new(address::Peer::open(name, address, folder, patience)?)
        }
    })
}

/// Asks a source for its schema, without running it as a provider where that can be.
pub async fn probe(
    name: &str,
    source: &ProviderSource,
    folder: &Path,
    patience: &Patience,
    env: toolbus_engine::child::EnvPolicy,
) -> Result<Rc<ProviderSchema>, Failure> {
    match source {
        ProviderSource::Program { words, cwd } => {
            let program = toolbus_engine::child::Program::new(words.clone());
            let program = toolbus_engine::child::Program { cwd: cwd.clone(), env, ..program };
            let probed = toolbus::wire::orchard::probe::probe(name, &program, patience.describe);
            probed.await.map(|(schema, _)| Rc::new(schema))
        }
        _ => {
            let provider = open(name, source, folder, patience)
                .map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
            let schema = provider.describe().await;
            provider.shutdown().await;
            schema
        }
    }
}
