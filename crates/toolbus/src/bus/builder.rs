//! Puts a bus together: which backs there are, and where the bus is to live.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;
use tokio::runtime::{Builder, Handle, LocalOptions, LocalRuntime};
use toolbus_proto::tool::ToolName;

use toolbus_engine::account::BYTES_IN_FLIGHT_MAX;

use super::assembly::unused;
use super::back::Back;
use super::catalogue::Naming;
use super::config::Config;
use super::{Bus, BusHandle, Member};
use crate::address::{Address, AddressError, Purpose};
use crate::peer::open::open_one_of;
use crate::peer::settings::Settings;
use crate::peer::{OpenError, Registry, open};
use crate::scope::Scope;
use crate::secrets::Secrets;

/// Puts a bus together: which backs there are, and where the bus is to live.
///
/// Nothing is started or connected to before a call needs it.
///
/// | made by | where the bus lives |
/// |---|---|
/// | [`spawn`](BusBuilder::spawn) | on a thread of its own: usable from any thread and any runtime, or none |
/// | [`run`](BusBuilder::run) | on this thread, while a future runs |
/// | [`build`](BusBuilder::build) | on this thread, in the local runtime it is in |
///
/// # Names
///
/// If all backs are mere addresses, tools keep their own names, and two of one name are a
/// failure. As soon as one back has a name, by [`back`](BusBuilder::back),
/// [`foreign`](BusBuilder::foreign) or a config, every tool is `<back>.<tool>`.
///
/// ```
/// use toolbus::author::{Nothing, Tools};
/// use toolbus::{Bus, json};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = Bus::builder()
///     .back("math", "builtin:", Default::default())?
///     .foreign("mine", || Tools::new("mine", "1.0.0").tool("hi", |_: Nothing| "hello").into_back());
/// let (sum, hello) = builder.run(async |bus| {
///     (bus.call("math.add", json!({"a": 1, "b": 2})).await, bus.call("mine.hi", ()).await)
/// })?;
/// assert_eq!((sum?.text(), hello?.text()), ("3".into(), "hello".into()));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct BusBuilder {
    registry: Registry,
    entries: Vec<Entry>,
    plain_names: bool,
    timeout: Option<Duration>,
    secrets: Secrets,
    bytes_in_flight_max: usize,
}

/// One back to be.
struct Entry {
    /// `None` for a mere address.
    name: Option<String>,
    source: Source,
}

enum Source {
    Address {
        address: Address,
        settings: Box<Settings>,
        allow: Option<Vec<ToolName>>,
        is_of_config: bool,
    },
    Foreign(Box<dyn FnOnce() -> Rc<dyn Back> + Send>),
}

impl BusBuilder {
    pub(super) fn new() -> BusBuilder {
        BusBuilder {
            registry: Registry::default(),
            entries: Vec::new(),
            plain_names: false,
            timeout: None,
            secrets: Secrets::within(),
            bytes_in_flight_max: BYTES_IN_FLIGHT_MAX,
        }
    }

    /// The addresses that follow may be of these kinds; else of those that are compiled in.
    pub fn registry(mut self, registry: Registry) -> BusBuilder {
        self.registry = registry;
        self
    }

    /// The peer at an address, such as `mcp+stdio:COMMAND`, without a name of its own.
    pub fn address(self, address: &str) -> Result<BusBuilder, AddressError> {
        self.peer(None, address, Settings::default())
    }

    /// The peer at an address, under a name and with settings.
    pub fn back(
        self,
        name: &str,
        address: &str,
        settings: Settings,
    ) -> Result<BusBuilder, AddressError> {
        self.peer(Some(name.to_owned()), address, settings)
    }

    /// All backs of a `toolbus.toml`.
    pub fn config(mut self, config: &Config) -> BusBuilder {
        self.secrets.learn(&config.secrets);
        self.entries.extend(config.backs.iter().map(|back| Entry {
            name: Some(back.name.clone()),
            source: Source::Address {
                address: back.address.clone(),
                settings: Box::new(back.settings.clone()),
                allow: back.allow.clone(),
                is_of_config: true,
            },
        }));
        self
    }

    /// A back that this program brings itself: [`author::Tools`], or whatever implements
    /// [`Back`]. It is made on the thread of the bus, by `make`, so that it need not be `Send`.
    ///
    /// [`author::Tools`]: crate::author::Tools::into_back
    pub fn foreign<B: Back + 'static>(
        mut self,
        name: &str,
        make: impl FnOnce() -> B + Send + 'static,
    ) -> BusBuilder {
        let make = Box::new(move || -> Rc<dyn Back> { Rc::new(make()) });
        self.entries.push(Entry { name: Some(name.to_owned()), source: Source::Foreign(make) });
        self
    }

    /// Tools keep their own names even if their backs have names.
    pub fn plain_names(mut self) -> BusBuilder {
        self.plain_names = true;
        self
    }

    /// How long a call may be quiet, where neither it nor the settings of its back say more.
    pub fn timeout(mut self, timeout: Duration) -> BusBuilder {
        self.timeout = Some(timeout);
        self
    }

    /// So many bytes may wait in memory for all peers of the bus together, 256 MiB unless said, and
    /// a quarter of them for one peer. A call that would have to wait for a peer that does not read
    /// its share is refused; over the whole, the peer for which most waits is cut off.
    pub fn bytes_in_flight_max(mut self, bytes: usize) -> BusBuilder {
        self.bytes_in_flight_max = bytes;
        self
    }

    fn peer(
        mut self,
        name: Option<String>,
        address: &str,
        mut settings: Settings,
    ) -> Result<BusBuilder, AddressError> {
        let scope = Scope::current().knowing(self.secrets.clone());
        let address = scope.enter(|| self.registry.address(Purpose::Call, address))?;
        if settings.name.is_none() {
            settings.name.clone_from(&name);
        }
        let settings = Box::new(settings);
        let source = Source::Address { address, settings, allow: None, is_of_config: false };
        self.entries.push(Entry { name, source });
        Ok(self)
    }

    /// The bus, on a thread of its own that goes with the last handle.
    pub fn spawn(self) -> Result<BusHandle, BuildError> {
        BusHandle::spawn(self)
    }

    /// The bus, on this thread, while `work` runs. Then all backs are told goodbye.
    ///
    /// Inside there is a tokio [`LocalRuntime`]: `work` may use tokio's sockets, timers and
    /// `spawn_local` as well. Called inside of another runtime it fails; use
    /// [`spawn`](BusBuilder::spawn) there.
    pub fn run<T>(self, work: impl AsyncFnOnce(&Bus) -> T) -> Result<T, BuildError> {
        if Handle::try_current().is_ok() {
            return Err(BuildError::InsideRuntime);
        }
        runtime()?.block_on(async {
            let bus = self.open()?;
            let worked = bus.scope.clone().enter_while(work(&bus)).await;
            bus.shutdown().await;
            Ok(worked)
        })
    }

    /// The bus, on this thread, for programs that have a tokio [`LocalRuntime`] or
    /// [`LocalSet`](tokio::task::LocalSet) already.
    ///
    /// # Panics
    ///
    /// In a runtime in which no local task can be spawned, which tokio does not let us ask.
    /// [`run`](BusBuilder::run) and [`spawn`](BusBuilder::spawn) need nothing of the kind.
    #[track_caller]
    pub fn build(self) -> Result<Bus, BuildError> {
        if Handle::try_current().is_err() {
            return Err(BuildError::NoRuntime);
        }
        // Here, where the caller can see what is wrong, and not with the first program.
        drop(tokio::task::spawn_local(async {}));
        self.open()
    }

    /// Opens all backs. There is a local runtime.
    pub(super) fn open(self) -> Result<Bus, BuildError> {
        let scope = Scope::new(self.secrets.clone(), self.bytes_in_flight_max);
        scope.enter(|| self.open_in_scope())
    }

    fn open_in_scope(self) -> Result<Bus, BuildError> {
        let is_named = self.entries.iter().any(|entry| entry.name.is_some());
        let naming = if is_named && !self.plain_names { Naming::Dotted } else { Naming::Plain };
        let mut members: Vec<Rc<Member>> = Vec::new();
        for Entry { name, source } in self.entries {
            if let Some(name) = &name {
                check_name(name, members.iter().map(|member| &*member.name))?;
            }
            let mut member = match source {
                Source::Address { address, settings, allow, is_of_config } => {
                    let back = match is_of_config {
                        true => open_one_of(&address, &settings)?,
                        false => open(&address, &settings)?,
                    };
                    let name = name.unwrap_or_else(|| unused(&address.peer_name(), &members));
                    let allow = allow.map(|allow| allow.into_iter().collect());
                    Member { allow, ..Member::new(name, address, back, &settings) }
                }
                Source::Foreign(make) => Member::foreign(&name.unwrap_or_default(), make()),
            };
            member.settings.timeout = member.settings.timeout.or(self.timeout);
            members.push(Rc::new(member));
        }
        Ok(Bus::new(naming, members))
    }
}

/// A runtime in which a bus can live.
pub(super) fn runtime() -> Result<LocalRuntime, BuildError> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.map_err(BuildError::Runtime)
}

/// Can this be the name of a back beside the others?
pub(super) fn check_name<'a>(
    name: &str,
    mut others: impl Iterator<Item = &'a str>,
) -> Result<(), BuildError> {
    if name.is_empty() || name.contains('.') {
        return Err(BuildError::Name { name: name.to_owned() });
    }
    match others.any(|other| other == name) {
        true => Err(BuildError::NameTaken { name: name.to_owned() }),
        false => Ok(()),
    }
}

/// Why there is no bus.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A back cannot be opened, whatever is there.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A back is named so that its tools could not be called.
    #[error("`{name}` cannot be the name of a back: it must not be empty and have no dot")]
    Name {
        /// The name.
        name: String,
    },
    /// Two backs have one name.
    #[error("two backs are named `{name}`")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A bus on this thread lives in a local runtime, and there is none.
    #[error("there is no tokio runtime here for the bus to live in")]
    NoRuntime,
    /// A runtime of its own cannot be run inside of another.
    #[error("a bus cannot be run inside of a tokio runtime")]
    InsideRuntime,
    /// The system gave no runtime.
    #[error("cannot start the event loop of the bus")]
    Runtime(#[source] io::Error),
    /// The system gave no thread.
    #[error("cannot start the thread of the bus")]
    Thread(#[source] io::Error),
    /// A back panicked while it was made.
    #[error("the thread of the bus ended before the bus was there")]
    Panicked,
}

impl BuildError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            BuildError::Open(error) => error.hint(),
            BuildError::NoRuntime | BuildError::InsideRuntime => {
                Some("`BusBuilder::spawn` gives the bus a thread of its own".to_owned())
            }
            _ => None,
        }
    }
}
