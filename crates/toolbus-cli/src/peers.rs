//! Whom a command works with: the addresses on its command line, or the backs of the config.
//!
//! Everything on the bus happens on one thread, and ends the same way whatever ends it: the
//! work is dropped, the peers are told goodbye, and only then do we leave.

use std::borrow::Cow;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use toolbus::address::{Address, AddressError};
use toolbus::bus::Bus;
use toolbus::bus::config::{BackConfig, Config};
use toolbus::bus::journal::Journal;
use toolbus::wire::found::Look;
use toolbus::wire::settings::Settings;
use toolbus::wire::{OpenError, found};
use toolbus_proto::tool::{Deadline, Failure, LastWords};

use crate::args::{Globals, peer};
use crate::config;
use crate::failed::Failed;
use crate::render::failure;
use crate::render::spinner::Spinner;
use crate::runtime::{self, Signals};
use crate::spans;

/// How long a program that did not get ready is looked at, to see what it does speak.
const SECOND_LOOK: Duration = Duration::from_secs(5);
/// The same for a user who has set a limit for all of the command.
const QUICK_LOOK: Duration = Duration::from_millis(700);

/// The peers that a command line names, read but not opened.
#[derive(Clone)]
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

    /// The same, but finding out what a program speaks may take no longer than this.
    pub(crate) fn within(mut self, limit: Option<Duration>) -> Peers {
        if let (Peers::Addresses(addresses, settings), Some(limit)) = (&mut self, limit)
            && addresses.iter().any(Address::is_bare)
        {
            let start = settings.start_timeout.unwrap_or(limit);
            settings.start_timeout = Some(start.min(limit));
        }
        self
    }

    /// The same with the wire of each program, where that is not said. On a command line one that
    /// does not show it is an error; in a config it is left as it is, to be tried again.
    pub(crate) async fn found_out(&self) -> Result<Cow<'_, Peers>, Failed> {
        match self {
            Peers::Addresses(addresses, settings) if addresses.iter().any(Address::is_bare) => {
                let _spinner = Spinner::while_found_out();
                let mut found = Vec::new();
                for address in addresses {
                    let one = found::found_out(address, settings).await;
                    found.push(one.map_err(|failure| failure::failed(&failure))?);
                }
                Ok(Cow::Owned(Peers::Addresses(found, settings.clone())))
            }
            Peers::Config(config) if config.backs.iter().any(|back| back.address.is_bare()) => {
                let _spinner = Spinner::while_found_out();
                let mut config = config.clone();
                found_out_backs(&mut config, Duration::MAX).await;
                Ok(Cow::Owned(Peers::Config(config)))
            }
            known => Ok(Cow::Borrowed(known)),
        }
    }

    /// The failure of a program that did not get ready, with the address that would work.
    pub(crate) async fn second_look(
        &self,
        bus: &Bus,
        address: &Address,
        failure: Failure,
        limit: Option<Duration>,
    ) -> Failure {
        let settings = match self {
            Peers::Addresses(_, settings) => Some(&**settings),
            Peers::Config(config) => {
                let back = config.backs.iter().find(|back| back.address == *address);
                back.map(|back| &back.settings)
            }
        };
        match settings {
            Some(settings) if is_unproven(&failure) => {
                // Nothing else is asked of them; what they could still say is of no interest.
                let look = second_look(address, settings, failure, limit);
                let (failure, ()) = tokio::join!(look, bus.shutdown());
                failure
            }
            _ => failure,
        }
    }

    /// The same, where it is clear whose failure it is.
    pub(crate) async fn second_look_if_one(
        &self,
        bus: &Bus,
        failure: Failure,
        limit: Option<Duration>,
    ) -> Failure {
        let addresses: Vec<&Address> = match self {
            Peers::Addresses(addresses, _) => addresses.iter().collect(),
            Peers::Config(config) => config.backs.iter().map(|back| &back.address).collect(),
        };
        match addresses.as_slice() {
            [one] => self.second_look(bus, one, failure, limit).await,
            _ => failure,
        }
    }

    /// Makes a bus of them. Nothing is started or connected to before it is asked.
    pub(crate) fn open(&self) -> Result<Bus, Failed> {
        let bus = self.opened()?;
        Ok(match spans::observer() {
            Some(spans) => bus.observed_by(spans),
            None => bus,
        })
    }

    fn opened(&self) -> Result<Bus, Failed> {
        let opened = |bus: Result<Bus, OpenError>| bus.map_err(|error| not_opened(&error));
        match self {
            Peers::Addresses(addresses, settings) => opened(Bus::of_addresses(addresses, settings)),
            Peers::Config(config) => {
                let bus = opened(Bus::of_config(config))?;
                Ok(match &config.journal {
                    Some(journal) => {
                        runtime::survive_file_limits();
                        bus.observed_by(Rc::new(Journal::new(journal)))
                    }
                    None => bus,
                })
            }
        }
    }

    /// Like [`Peers::meet`], but all of it takes no longer than `limit`, the start included.
    pub(crate) fn meet_within<T>(
        &self,
        limit: Option<Duration>,
        work: impl AsyncFnOnce(Rc<Bus>) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        let Some(limit) = limit else { return self.meet(work) };
        let until = Instant::now() + limit;
        // What is looked at before the work begins has a limit of its own.
        self.clone().within(Some(limit)).meet(async |bus| {
            match tokio::time::timeout_at(until.into(), work(bus.clone())).await {
                Ok(worked) => worked,
                Err(_) => {
                    bus.hurry();
                    let words = LastWords { is_unproven: true, ..LastWords::default() };
                    let missed = Deadline::unanswered(limit).with_last_words(words);
                    let missed = self.second_look_if_one(&bus, missed, Some(limit)).await;
                    Err(failure::failed(&missed))
                }
            }
        })
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
            let found = tokio::select! {
                found = self.found_out() => found?,
                exit = signals.next() => return Err(Failed::quietly(exit)),
            };
            let bus = Rc::new(prepare(found.open()?));
            let worked = work(bus.clone(), &mut signals).await;
            signals.or_kill(bus.shutdown(), || bus.kill()).await;
            worked
        })
    }
}

/// Finds out what the programs of a config speak, side by side. One that does not show it within
/// `limit` is left as it is; the look at it goes on.
pub(crate) async fn found_out_backs(config: &mut Config, limit: Duration) {
    let look = |back: &BackConfig| {
        let (address, settings) = (back.address.clone(), back.settings.clone());
        spawn_local(async move { found::found_out(&address, &settings).await })
    };
    let looking: Vec<_> = config.backs.iter().map(look).collect();
    let began = Instant::now();
    for (back, looking) in config.backs.iter_mut().zip(looking) {
        let left = limit.saturating_sub(began.elapsed());
        if let Ok(Ok(Ok(address))) = tokio::time::timeout(left, looking).await {
            back.address = address;
        }
    }
}

/// The failure of a program that did not show that it speaks its wire, with the address that
/// would work. A user who has set a `limit` for all of a command does not wait long for that.
pub(crate) async fn second_look(
    address: &Address,
    settings: &Settings,
    failure: Failure,
    limit: Option<Duration>,
) -> Failure {
    if !is_unproven(&failure) {
        return failure;
    }
    let (start_timeout, look) = match limit {
        None => (Some(SECOND_LOOK), Look::Again),
        Some(_) => (Some(QUICK_LOOK), Look::Quick),
    };
    let settings = Settings { start_timeout, ..settings.clone() };
    let Some(meant) = found::meant(address, &settings, look).await else {
        return failure;
    };
    let hint = Some(format!("it is {}: write `{meant}`", meant.kind().summary()));
    let words = failure.last_words.as_deref().cloned().unwrap_or_default();
    failure.with_last_words(LastWords { hint, ..words })
}

/// Did its process never show that it speaks its wire?
fn is_unproven(failure: &Failure) -> bool {
    failure.last_words.as_ref().is_some_and(|words| words.is_unproven)
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
        back.settings.clients = settings.clients.clone();
        back.settings.era = settings.era;
        back.settings.reply_bytes_max = settings.reply_bytes_max;
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
