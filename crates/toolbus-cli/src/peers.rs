//! Whom a command works with: the addresses on its command line, or the backs of the config.
//!
//! Everything on the bus happens on one thread, and ends the same way whatever ends it: the
//! work is dropped, the peers are told goodbye, and only then do we leave.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use tokio::time::{timeout, timeout_at};
use toolbus::address::{Address, AddressError, Place};
use toolbus::bus::Bus;
use toolbus::bus::config::{BackConfig, Config, JournalConfig};
use toolbus::bus::run::{AskedAs, Elsewhere, NotUsed, Sources, Stamp};
use toolbus::peer::OpenError;
use toolbus::peer::access::token_of;
use toolbus::peer::settings::{Askable, Clients, Settings};
use toolbus::wire::found;
use toolbus_proto::caller::CallerName;
use toolbus_proto::did_you_mean::nearest;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Deadline, Failure, FailureKind, LastWords};

use crate::args::view::ViewArgs;
use crate::args::{Globals, peer};
use crate::config;
use crate::failed::Failed;
use crate::observers;
use crate::render::failure;
use crate::render::spinner::Spinner;
use crate::runtime::{self, Signals};
use crate::{spans, stderr};

/// What a goodbye may take beyond the time that a user has given all of a command.
const GOODBYE: Duration = Duration::from_millis(500);
/// Work that looks at the clock itself says more of what was late, and is given so long to do so.
const SAYS_MORE: Duration = Duration::from_millis(200);

/// How long a `toolbus serve` that has greeted is waited for.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The peers that a command line names, read but not opened.
#[derive(Clone)]
pub(crate) struct Peers {
    whom: Whom,
    /// When all must be done, if the user says so; the clock runs from when that was said.
    deadline: Option<Deadline>,
    /// Their wires must be known before a bus is made of them.
    learns_wires: bool,
    /// What goes wrong is the caller's to tell.
    tells_nothing: bool,
    /// In which view, and whose calls are made.
    seen: ViewArgs,
    /// By what a `toolbus serve` of their config is known.
    stamp: Option<Stamp>,
    /// May it do the work?
    is_served: bool,
    /// Is there a user who fills in forms?
    takes_forms: bool,
    globals: Globals,
}

#[derive(Clone)]
enum Whom {
    Addresses(Vec<Address>, Box<Settings>),
    Config(Box<Config>),
}

impl Peers {
    /// The addresses, or the config where there are none.
    pub(crate) fn of(
        addresses: &[impl AsRef<str>],
        globals: &Globals,
        settings: Settings,
    ) -> Result<Peers, Failed> {
        let mut stamp = None;
        let takes_forms = matches!(&settings.clients, Clients::User(Askable { forms: true, .. }));
        let whom = match addresses {
            [] => {
                let (config, own) = config(globals.config.as_deref(), &settings)?;
                stamp = own;
                Whom::Config(Box::new(config))
            }
            texts => {
                let read = |text: &_| {
                    Address::parse(AsRef::<str>::as_ref(text)).map_err(|error| no_address(&error))
                };
                let addresses = texts.iter().map(read).collect::<Result<_, _>>()?;
                Whom::Addresses(addresses, Box::new(settings))
            }
        };
        Ok(Peers { takes_forms, stamp, ..Peers::to(whom, globals) })
    }

    fn to(whom: Whom, globals: &Globals) -> Peers {
        Peers {
            whom,
            deadline: None,
            learns_wires: false,
            tells_nothing: false,
            seen: ViewArgs::default(),
            stamp: None,
            is_served: false,
            takes_forms: false,
            globals: globals.clone(),
        }
    }

    /// The backs of a config that was read already.
    pub(crate) fn of_config(config: Config, globals: &Globals) -> Peers {
        Peers::to(Whom::Config(Box::new(config)), globals)
    }

    /// A `toolbus serve` of the same config does the work if there is one, and if it may.
    pub(crate) fn served_if(self, may_be: bool) -> Peers {
        Peers { is_served: may_be, ..self }
    }

    /// All backs are opened and asked at the start, whatever the lock has of them.
    pub(crate) fn fresh_if(mut self, is_fresh: bool) -> Peers {
        if let Whom::Config(config) = &mut self.whom {
            config.locking.is_fresh |= is_fresh;
        }
        self
    }

    /// The same, but the words may also be names of backs of the config, which are meant then.
    pub(crate) fn of_words(
        words: &[String],
        globals: &Globals,
        settings: Settings,
    ) -> Result<Peers, Failed> {
        let mut peers = match words.is_empty() || !are_backs(words, globals) {
            true => return Peers::of(words, globals, settings),
            false => Peers::of(&[] as &[&str], globals, settings)?,
        };
        if let Whom::Config(config) = &mut peers.whom {
            config.backs.retain(|back| words.contains(&back.name));
        }
        Ok(peers)
    }

    /// Leaves out the backs that a tool of this name cannot belong to, so that they
    /// are not started in vain. If none is left all stay: then the name is wrong.
    pub(crate) fn only_for_tool(mut self, tool: &str) -> Peers {
        // What tools are called in a view says nothing of whose they are.
        if self.seen.flag().is_some() {
            return self;
        }
        if let Whom::Config(config) = &mut self.whom {
            let back = tool.split_once('.').map_or(tool, |(back, _)| back);
            if config.backs.iter().any(|known| known.name == back) {
                config.backs.retain(|known| known.name == back);
            }
        }
        self
    }

    /// The same, seen in this view and called by this caller.
    pub(crate) fn seen_as(self, seen: &ViewArgs) -> Result<Peers, Failed> {
        let Some(flag) = seen.flag() else { return Ok(self) };
        let Whom::Config(config) = &self.whom else {
            let message =
                format!("`{flag}` is for the tools of a config, and addresses stand in its place");
            return Err(Failed::usage(message));
        };
        let views = config.views.iter().map(|view| &*view.name);
        let callers = config.callers.iter().map(|caller| caller.name.as_str());
        named("view", seen.view.as_deref(), views)?;
        named("caller", seen.caller.as_deref(), callers)?;
        Ok(Peers { seen: seen.clone(), ..self })
    }

    /// Each by itself, with its name.
    pub(crate) fn apart(self) -> Vec<(String, Peers)> {
        let with = |whom| Peers { whom, ..self.clone() };
        match &self.whom {
            Whom::Addresses(addresses, settings) => {
                let alone = |address: &Address| {
                    let whom = Whom::Addresses(vec![address.clone()], settings.clone());
                    (address.to_string(), with(whom))
                };
                addresses.iter().map(alone).collect()
            }
            Whom::Config(config) => {
                let alone = |back: &BackConfig| {
                    let mut config = Config::clone(config);
                    config.backs.retain(|it| it.name == back.name);
                    (back.name.clone(), with(Whom::Config(Box::new(config))))
                };
                config.backs.iter().map(alone).collect()
            }
        }
    }

    /// All that is done with them takes no longer than this, from now on, and half a second for
    /// the goodbye. What goes wrong is told before that.
    pub(crate) fn within(self, total: Option<Duration>) -> Peers {
        let deadline = Deadline { total, ..Deadline::never(Instant::now()) };
        Peers { deadline: Some(deadline), ..self }
    }

    /// It is found out what programs speak before a bus is made of them, for those to whom it makes
    /// a difference.
    pub(crate) fn knowing_wires(self) -> Peers {
        Peers { learns_wires: true, ..self }
    }

    /// What goes wrong is not told here, and may be nothing to the user.
    pub(crate) fn telling_nothing(self) -> Peers {
        Peers { tells_nothing: true, ..self }
    }

    /// On a command line one that does not show what it speaks is an error; in a config it is left
    /// as it is, to be tried again.
    async fn learn_wires(&self) -> Result<(), Failed> {
        if !self.learns_wires || !self.addresses().any(Address::is_bare) {
            return Ok(());
        }
        let _spinner = Spinner::while_found_out();
        match &self.whom {
            Whom::Addresses(addresses, settings) => {
                for address in addresses {
                    let learned = found::learn(address, settings).await;
                    learned.map_err(|failure| failure::failed(&failure))?;
                }
            }
            Whom::Config(config) => learn_wires(config, Duration::MAX).await,
        }
        Ok(())
    }

    /// The failure with what would work, where it is clear whose failure it is.
    pub(crate) fn with_meant_if_one(&self, failure: Failure) -> Failure {
        let mut addresses = self.addresses();
        match (addresses.next(), addresses.next()) {
            (Some(one), None) => with_meant_or_bare(one, failure),
            _ => failure,
        }
    }

    fn addresses(&self) -> impl Iterator<Item = &Address> {
        let (typed, backs) = match &self.whom {
            Whom::Addresses(addresses, _) => (&addresses[..], &[][..]),
            Whom::Config(config) => (&[][..], &config.backs[..]),
        };
        typed.iter().chain(backs.iter().map(|back: &BackConfig| &back.address))
    }

    /// The `toolbus serve` that does the work, if one may and does.
    async fn elsewhere(&self) -> Option<Rc<Elsewhere>> {
        let stamp = self.stamp.as_ref().filter(|_| self.is_served)?;
        let found = match runtime::sockets() {
            Some(folder) => Elsewhere::find(&folder, stamp).await,
            None => Err(NotUsed::Nobody),
        };
        match found {
            Ok(elsewhere) => {
                tracing::info!("using toolbus serve (pid {})", elsewhere.pid());
                Some(Rc::new(elsewhere))
            }
            Err(why) => {
                tracing::info!("{why}");
                None
            }
        }
    }

    /// As what, and for whom, another process is asked.
    fn asking(&self) -> AskedAs {
        let forms = || Json::from_trusted(r#"{"elicitation":{"form":{}}}"#);
        let ViewArgs { view, caller } = self.seen.clone();
        let is_fresh = self.config().is_some_and(|config| config.locking.is_fresh);
        let asks = self.takes_forms.then(forms);
        AskedAs { view, caller, asks, is_fresh, observers: spans::observer().into_iter().collect() }
    }

    /// Makes a bus of them. Nothing is started or connected to before it is asked.
    pub(crate) fn open(&self) -> Result<Bus, Failed> {
        self.open_by(None)
    }

    /// The same; what there is to do is done by that process, if there is one.
    fn open_by(&self, elsewhere: Option<Rc<Elsewhere>>) -> Result<Bus, Failed> {
        let bus = self.opened(elsewhere)?;
        let bus = match spans::observer() {
            Some(spans) => bus.observed_by(spans),
            None => bus,
        };
        let ViewArgs { view, caller } = &self.seen;
        Ok(match self.seen.flag() {
            Some(_) => {
                bus.seen_by(view.as_deref(), caller.as_deref().map(CallerName::new).as_ref())
            }
            None => bus,
        })
    }

    /// Their config, if they are those of one.
    pub(crate) fn config(&self) -> Option<&Config> {
        match &self.whom {
            Whom::Addresses(..) => None,
            Whom::Config(config) => Some(config),
        }
    }

    /// The journal of their config.
    fn journal(&self) -> Option<&JournalConfig> {
        match &self.whom {
            Whom::Addresses(..) => None,
            Whom::Config(config) => config.journal.as_ref(),
        }
    }

    fn opened(&self, elsewhere: Option<Rc<Elsewhere>>) -> Result<Bus, Failed> {
        let opened = |bus: Result<Bus, OpenError>| bus.map_err(|error| not_opened(&error));
        match &self.whom {
            Whom::Addresses(addresses, settings) => opened(Bus::of_addresses(addresses, settings)),
            Whom::Config(config) => {
                let bus = opened(Bus::of_config(config))?;
                let bus = match elsewhere {
                    Some(elsewhere) => bus.lent_to(elsewhere, self.asking()),
                    None => bus,
                };
                Ok(match self.journal() {
                    Some(journal) => bus.observed_by(observers::journal(journal)),
                    None => bus,
                })
            }
        }
    }

    /// Like [`Peers::meet`], for work that does not look at the clock itself.
    pub(crate) fn meet_within<T>(
        &self,
        limit: Option<Duration>,
        work: impl AsyncFnOnce(Rc<Bus>) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        let peers = self.clone().within(limit);
        let until = peers.until();
        peers.meet(async |bus| match (until, limit) {
            (Some(until), Some(limit)) => timeout_at(until.into(), work(bus))
                .await
                .unwrap_or_else(|_| Err(failure::failed(&Deadline::unanswered(limit)))),
            _ => work(bus).await,
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
                worked = self.bounded(work(bus.clone())) => worked.and_then(|worked| worked),
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
            let found = async {
                let elsewhere = self.elsewhere().await;
                let bus = match &elsewhere {
                    Some(_) => self.open_by(elsewhere)?,
                    None => {
                        self.learn_wires().await?;
                        return self.open();
                    }
                };
                if self.learns_wires && !bus.learn_lent_wires().await {
                    self.learn_wires().await?;
                }
                Ok(bus)
            };
            let bus = tokio::select! {
                found = self.bounded(found) => found??,
                exit = signals.next() => return Err(Failed::quietly(exit)),
            };
            let bus = Rc::new(prepare(bus));
            let worked = work(bus.clone(), &mut signals).await;
            // Told before the goodbye, which may take its time.
            let worked = worked.map_err(|failed| self.told(failed));
            self.say_goodbye(&mut signals, bus.shutdown(), || bus.kill()).await;
            worked
        })
    }

    /// Ends work that has a goodbye of its own to say: what went wrong is told before, and the
    /// goodbye has the time that is left.
    pub(crate) async fn over<T>(
        &self,
        worked: Result<T, Failed>,
        goodbye: impl Future<Output = ()>,
    ) -> Result<T, Failed> {
        let worked = worked.map_err(|failed| self.told(failed));
        match self.until() {
            Some(until) => drop(timeout_at(until.into(), goodbye).await),
            None => goodbye.await,
        }
        worked
    }

    /// Tells at once what went wrong where all of it has to end in time.
    fn told(&self, failed: Failed) -> Failed {
        match self.until() {
            Some(_) if !self.tells_nothing => failed.told(&self.globals),
            _ => failed,
        }
    }

    /// Waits for the goodbye, for as long as there is time for it.
    pub(crate) async fn say_goodbye(
        &self,
        signals: &mut Signals,
        goodbye: impl Future<Output = ()>,
        kill: impl Fn(),
    ) {
        let until = self.until().map(|until| until + GOODBYE);
        let bounded = async {
            let mut goodbye = pin!(goodbye);
            if let Some(until) = until
                && timeout_at(until.into(), &mut goodbye).await.is_ok()
            {
                return;
            }
            if until.is_some() {
                kill();
            }
            goodbye.await;
        };
        signals.or_kill(bounded, &kill).await;
    }

    /// When all must be done.
    fn until(&self) -> Option<Instant> {
        self.deadline.and_then(|deadline| Some(deadline.asked + deadline.total?))
    }

    /// Ends what takes too long and does not say so itself. What says more has its time from when
    /// we are here to hear it, for on a busy machine that may be late.
    async fn bounded<T>(&self, work: impl Future<Output = T>) -> Result<T, Failed> {
        let total = self.deadline.and_then(|deadline| deadline.total);
        let (Some(until), Some(total)) = (self.until(), total) else {
            return Ok(work.await);
        };
        let mut work = pin!(work);
        if let Ok(worked) = timeout_at(until.into(), &mut work).await {
            return Ok(worked);
        }
        let worked = timeout(SAYS_MORE, work).await;
        worked.map_err(|_| failure::failed(&Deadline::unanswered(total)))
    }
}

/// The `toolbus serve` that runs with the config at this path, whatever of it has changed since.
pub(crate) fn serve_of(path: &Path) -> Option<RunningServe> {
    let sources = Sources { path, text: "", toml: None, lock: None };
    let (stamp, folder) = (Stamp::of(sources, |_| None).ok()?, runtime::sockets()?);
    let asked = runtime::block_on(async {
        let Ok(elsewhere) = Elsewhere::find_any(&folder, &stamp).await else { return Ok(None) };
        let fronts = timeout(ANSWERS_WITHIN, elsewhere.fronts()).await.unwrap_or_default();
        Ok(Some(RunningServe { pid: elsewhere.pid(), fronts }))
    });
    asked.ok().flatten()
}

/// Says how a change of this config reaches the `toolbus serve` that runs with it, if one does.
pub(crate) fn say_how_to_reload(path: &Path, globals: &Globals) {
    if let Some(RunningServe { pid, .. }) = serve_of(path) {
        let hint = globals.color.paint(&io::stderr()).hint("hint:");
        stderr::write(&format!(
            "{hint} `toolbus serve` runs with this config: `kill -HUP {pid}` makes it read the \
             change\n"
        ));
    }
}

/// A `toolbus serve` that runs.
pub(crate) struct RunningServe {
    pub(crate) pid: u32,
    /// Its fronts by their names, and what was said of where they listen.
    pub(crate) fronts: Vec<(String, String)>,
}

/// Are all of these names of backs of the config? What is wrong with the config is told to those
/// who need it.
pub(crate) fn are_backs(words: &[impl AsRef<str>], globals: &Globals) -> bool {
    // No other word can be one.
    let is_name = |word: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !word.is_empty() && word.chars().all(is_part)
    };
    if !words.iter().all(|word| is_name(word.as_ref())) {
        return false;
    }
    let Ok(Some(found)) = config::read(globals.config.as_deref()) else { return false };
    let backs = found.config.backs;
    words.iter().all(|word| backs.iter().any(|back| back.name == word.as_ref()))
}

/// Finds out what the programs of a config speak, side by side. One that does not show it within
/// `limit` is not waited for; the look at it goes on.
pub(crate) async fn learn_wires(config: &Config, limit: Duration) {
    let learn = |back: &BackConfig| {
        let (address, settings) = (back.address.clone(), back.settings.clone());
        spawn_local(async move { found::learn(&address, &settings).await })
    };
    let learning: Vec<_> = config.backs.iter().map(learn).collect();
    let all = async {
        for one in learning {
            let _ = one.await;
        }
    };
    let _ = timeout(limit, all).await;
}

/// The failure of a program that did not show that it speaks its wire, with the address that would
/// work if what it said shows that; no process is started to find out.
pub(crate) fn with_meant(address: &Address, failure: Failure) -> Failure {
    match found::meant(address, &failure) {
        Some(meant) => {
            let hint = format!("it is {}: write `{meant}`", meant.kind().summary());
            with_hint(failure, hint)
        }
        None => failure,
    }
}

/// The same for those who take commands without a scheme, too.
pub(crate) fn with_meant_or_bare(address: &Address, failure: Failure) -> Failure {
    match found::meant(address, &failure) {
        None if is_silent(address, &failure) => {
            let (summary, scheme) = (address.kind().summary(), address.scheme());
            let hint =
                format!("is it {summary}? without `{scheme}` it is found out what it speaks");
            with_hint(failure, hint)
        }
        _ => with_meant(address, failure),
    }
}

fn with_hint(failure: Failure, hint: String) -> Failure {
    let words = failure.last_words.as_deref().cloned().unwrap_or_default();
    failure.with_last_words(LastWords { hint: Some(hint), ..words })
}

/// Did a program whose wire is said live and say nothing?
fn is_silent(address: &Address, failure: &Failure) -> bool {
    let says_nothing = |words: &LastWords| {
        let LastWords { exit, hint, said, is_unproven, .. } = words;
        *is_unproven && said.is_empty() && exit.is_none() && hint.is_none()
    };
    failure.kind == FailureKind::TimedOut
        && matches!(address.place(), Place::Command(_))
        && !address.is_bare()
        && failure.last_words.as_deref().is_some_and(says_nothing)
}

fn config(asked: Option<&Path>, settings: &Settings) -> Result<(Config, Option<Stamp>), Failed> {
    let found = config::read(asked)?.ok_or_else(|| {
        let usual = config::USUAL;
        Failed::usage(format!("no ADDRESS is given, and there is no `{usual}` here or above"))
            .hint("name a peer, e.g. `builtin:`, or a config by `--config FILE`; `toolbus init` writes one")
    })?;
    let stamp = found.stamp();
    let mut config = found.config;
    for back in &mut config.backs {
        let start_timeout = &mut back.settings.start_timeout;
        *start_timeout = settings.start_timeout.or(*start_timeout);
        back.settings.clients = settings.clients.clone();
        back.settings.era = settings.era;
        back.settings.reply_bytes_max = settings.reply_bytes_max;
    }
    // What the command line says of all is wrong for all.
    let is_url = |back: &BackConfig| matches!(back.address.place(), Place::Url(_));
    if let Some(variable) = &settings.credentials.token_env
        && config.backs.iter().any(is_url)
    {
        token_of(variable).map_err(|error| Failed::usage(error.to_string()).hint(error.hint()))?;
    }
    peer::add_to(&mut config, settings);
    Ok((config, stamp))
}

/// There must be one of this name, if one is named.
fn named<'a>(
    what: &str,
    name: Option<&str>,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Failed> {
    let Some(name) = name.filter(|name| !known.clone().any(|known| known == *name)) else {
        return Ok(());
    };
    let meant = nearest(name, known).map(|nearest| format!("did you mean `{nearest}`?"));
    Err(Failed::usage(format!("there is no {what} `{name}`")).hint_if_any(meant))
}

/// Lists and offers the tools that a view shows, for those who call without having listed them. Two
/// that would have one name are the user's to part.
pub(crate) async fn offer_seen(bus: &Bus, deadline: Deadline) -> Result<(), Failed> {
    if bus.selection().is_none() {
        return Ok(());
    }
    let listed = bus.list_by(deadline).await;
    bus.offer(&listed).map_err(|taken| Failed::usage(taken.to_string()).hint_if_any(taken.hint()))
}

/// Text that is no address.
pub(crate) fn no_address(error: &AddressError) -> Failed {
    Failed::usage(error.to_string()).hint_if_any(error.hint())
}

/// An address that cannot be opened, whether or not a peer is there.
pub(crate) fn not_opened(error: &OpenError) -> Failed {
    Failed::usage(error.to_string()).hint_if_any(error.hint())
}
