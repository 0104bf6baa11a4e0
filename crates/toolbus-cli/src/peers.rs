//! Whom a command works with: the addresses on its command line, or the backs of the config.
//!
//! Everything on the bus happens on one thread, and ends the same way whatever ends it: the
//! work is dropped, the peers are told goodbye, and only then do we leave.

use std::path::Path;
use std::rc::Rc;

use toolbus::address::{Address, AddressError};
use toolbus::bus::Bus;
use toolbus::bus::config::{BackConfig, Config};
use toolbus::wire::OpenError;
use toolbus::wire::settings::Settings;

use crate::args::{Globals, peer};
use crate::config;
use crate::failed::Failed;
use crate::runtime::{self, Signals};

/// The peers that a command line names, read but not opened.
pub(crate) enum Peers {
    Addresses(Vec<Address>, Box<Settings>),
    Config(Config),
}

impl Peers {
    /// The addresses, or the config where there are none.
    pub(crate) fn of(
        addresses: &[impl AsRef<str>],
        globals: &Globals,
        settings: Settings,
    ) -> Result<Peers, Failed> {
        if addresses.is_empty() {
            return config(globals.config.as_deref(), &settings).map(Peers::Config);
        }
        let read = |text: &_| {
            Address::parse(AsRef::<str>::as_ref(text)).map_err(|error| no_address(&error))
        };
        let addresses = addresses.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Peers::Addresses(addresses, Box::new(settings)))
    }

    /// Leaves out the backs that a tool of this name cannot belong to, so that they
    /// are not started in vain. If none is left all stay: then the name is wrong.
    pub(crate) fn only_for_tool(mut self, tool: &str) -> Peers {
        if let Peers::Config(config) = &mut self {
            let back = tool.split_once('.').map_or(tool, |(back, _)| back);
            if config.backs.iter().any(|known| known.name == back) {
                config.backs.retain(|known| known.name == back);
            }
        }
        self
    }

    /// Each by itself, with its name.
    pub(crate) fn apart(self) -> Vec<(String, Peers)> {
        match self {
            Peers::Addresses(addresses, settings) => {
                let alone = |address: Address| {
                    let name = address.to_string();
                    (name, Peers::Addresses(vec![address], settings.clone()))
                };
                addresses.into_iter().map(alone).collect()
            }
            Peers::Config(config) => {
                let alone = |back: &BackConfig| {
                    let config = Config { backs: vec![back.clone()], ..Config::default() };
                    (back.name.clone(), Peers::Config(config))
                };
                config.backs.iter().map(alone).collect()
            }
        }
    }

    /// Makes a bus of them. Nothing is started or connected to before it is asked.
    pub(crate) fn open(&self) -> Result<Bus, Failed> {
        let bus = match self {
            Peers::Addresses(addresses, settings) => Bus::of_addresses(addresses, settings),
            Peers::Config(config) => Bus::of_config(config),
        };
        bus.map_err(|error| not_opened(&error))
    }

    /// Opens the peers, works with them and says goodbye.
    pub(crate) fn meet<T>(
        &self,
        work: impl AsyncFnOnce(Rc<Bus>) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        self.meet_as(|bus| bus, work)
    }

    /// Like [`Peers::meet`], on the bus that `prepare` makes of theirs.
    pub(crate) fn meet_as<T>(
        &self,
        prepare: impl FnOnce(Bus) -> Bus,
        work: impl AsyncFnOnce(Rc<Bus>) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        self.meet_with_signals(prepare, async |bus, signals| {
            tokio::select! {
                worked = work(bus.clone()) => worked,
                exit = signals.next() => {
                    bus.hurry();
                    Err(Failed::quietly(exit))
                }
            }
        })
    }

    /// Like [`Peers::meet_as`], for work that does not just break off when it is told to end.
    pub(crate) fn meet_with_signals<T>(
        &self,
        prepare: impl FnOnce(Bus) -> Bus,
        work: impl AsyncFnOnce(Rc<Bus>, &mut Signals) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        runtime::block_on(async {
            let mut signals = Signals::listen()?;
            let bus = Rc::new(prepare(self.open()?));
            let worked = work(bus.clone(), &mut signals).await;
            signals.or_kill(bus.shutdown(), || bus.kill()).await;
            worked
        })
    }
}

fn config(asked: Option<&Path>, settings: &Settings) -> Result<Config, Failed> {
    let found = config::read(asked)?.ok_or_else(|| {
        let usual = config::USUAL;
        Failed::usage(format!("no ADDRESS is given, and there is no `{usual}` here or above"))
            .hint("name a peer, e.g. `builtin:`, or a config by `--config FILE`; `toolbus init` writes one")
    })?;
    let mut config = found.config;
    for back in &mut config.backs {
        let start_timeout = &mut back.settings.start_timeout;
        *start_timeout = settings.start_timeout.or(*start_timeout);
        back.settings.clients = settings.clients;
    }
    peer::add_to(&mut config, settings);
    Ok(config)
}

/// Text that is no address.
pub(crate) fn no_address(error: &AddressError) -> Failed {
    Failed::usage(error.to_string()).hint_if_any(error.hint())
}

/// An address that cannot be opened, whether or not a peer is there.
pub(crate) fn not_opened(error: &OpenError) -> Failed {
    Failed::usage(error.to_string()).hint_if_any(error.hint())
}
