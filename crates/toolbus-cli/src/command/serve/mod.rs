//! `toolbus serve`: every front of the config at once, until a signal.

mod admin;
mod front;

use std::convert::Infallible;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle, JoinSet, spawn_local};
use toolbus::address::Address;
use toolbus::bus::admin::AdminPlan;
use toolbus::bus::config::{Config, JournalConfig};
use toolbus::bus::journal::Journal;
use toolbus::bus::lenient::{SLOW, forget_left_out, is_back, left_out};
use toolbus::bus::observe::Observer;
use toolbus::bus::{Bus, Listed};
use toolbus::wire::settings::Settings;
use toolbus::wire::{PeerKind, Registry};
use toolbus_proto::tool::Failure;

use self::admin::Pages;
use self::front::{Front, Plan};
use super::wire::{self, WireFace};
use crate::args::Globals;
use crate::args::peer::{self, HttpArgs, ProgramArgs};
use crate::config::{self, Found};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::logging::DONE;
use crate::peers::{found_out_backs, not_opened, second_look};
use crate::runtime::{self, Hangup, Hangups, Signals};
use crate::spans;

/// What calls to a back have that is no longer in the config.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// Run every front of the config at once, until a signal
///
/// Serves the tools of all backs of the config on each of its fronts. Once one accepts,
/// standard error has the line `listening on URL`, with the real port. A back that cannot be
/// opened is left out with a warning, and tried again with the next list or call.
///
/// SIGHUP reads the config again. Backs and fronts that are set up as before go on as they
/// are; calls to a back that is no longer there have five seconds. If there is a mistake in
/// the config it is told, and everything stays as it was.
///
/// SIGINT and SIGTERM end it: calls under way have five seconds, and no process is left. So does
/// the end of the terminal it was started on, unless by `nohup`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples())]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    http: HttpArgs,
}

fn examples() -> String {
    let fronts = front_examples();
    let fronts = fronts.map(|(name, serve)| format!("\n\n  [front.{name}]\n  serve = \"{serve}\""));
    format!(
        "Examples:\n  toolbus serve\n  toolbus serve --config tools.toml\n\n\
         A config:\n  [back.try]\n  connect = \"builtin:\"{}",
        fronts.collect::<String>()
    )
}

/// Names of fronts and what they listen on.
fn front_examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    wire::faces().filter_map(WireFace::front_example)
}

pub(crate) fn run(args: &ServeArgs, globals: &Globals) -> Result<(), Failed> {
    let asked = Asked { globals, peers: args.settings()? };
    let wanted = Wanted::read(&asked)?;
    spans::say_if_missing();
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let mut running = Running::nothing()?;
        let Err(ended) = serve(&mut running, wanted, &mut signals, &asked).await;
        running.hurry();
        let fronts = running.stop_fronts();
        let abort: Vec<_> = fronts.iter().map(JoinHandle::abort_handle).collect();
        let goodbye = async {
            over(fronts).await;
            running.shutdown().await;
        };
        let kill = || {
            abort.iter().for_each(AbortHandle::abort);
            running.kill();
        };
        signals.or_kill(goodbye, kill).await;
        running.pages.stop().await;
        Err(ended)
    })
}

/// Serves until something ends it.
async fn serve(
    running: &mut Running,
    wanted: Wanted,
    signals: &mut Signals,
    asked: &Asked<'_>,
) -> Result<Infallible, Failed> {
    let mut hangups = Hangups::listen()?;
    tokio::select! {
        begun = async { running.follow(wanted.found_out().await, Err).await } => begun?,
        exit = signals.next() => return Err(Failed::quietly(exit)),
    }
    loop {
        tokio::select! {
            hangup = hangups.next() => match hangup {
                Hangup::Reload => {}
                Hangup::TerminalClosed => return Err(Failed::quietly(Exit::Terminated)),
            },
            failed = running.broken() => return Err(failed),
            exit = signals.next() => return Err(Failed::quietly(exit)),
        }
        tokio::select! {
            () = running.reload(asked) => {}
            exit = signals.next() => return Err(Failed::quietly(exit)),
        }
    }
}

/// What the command line says.
struct Asked<'a> {
    globals: &'a Globals,
    /// About all backs.
    peers: Settings,
}

impl ServeArgs {
    fn settings(&self) -> Result<Settings, Failed> {
        Ok(Settings {
            program: self.program.settings()?,
            credentials: self.http.credentials()?,
            ..Settings::default()
        })
    }
}

/// What the config asks for, checked as far as it can be before anything is opened.
struct Wanted {
    config: Config,
    fronts: Vec<Plan>,
    admin: Option<AdminPlan>,
}

impl Wanted {
    /// The same with the wire of each program, where that is not said; but one that is slow to
    /// show it does not keep the others from being served.
    async fn found_out(mut self) -> Wanted {
        found_out_backs(&mut self.config, SLOW).await;
        self
    }

    fn read(asked: &Asked<'_>) -> Result<Wanted, Failed> {
        let found = config::read(asked.globals.config.as_deref())?;
        let Found { path, mut config } = found.ok_or_else(|| {
            Failed::usage(format!("there is no `{}` here or above", config::USUAL))
                .hint("name a config by `--config FILE`; `toolbus init` writes one")
        })?;
        if config.fronts.is_empty() {
            let hint = front_examples().next().map(|(name, serve)| {
                format!("add one: `[front.{name}]` and under it `serve = \"{serve}\"`")
            });
            let failed = Failed::usage(format!("`{}` names no fronts", path.display()));
            return Err(failed.hint_if_any(hint));
        }
        let fronts = config.fronts.iter().map(Plan::of).collect::<Result<_, _>>()?;
        let admin = admin::plan(&config)?;
        peer::add_to(&mut config, &asked.peers);
        Ok(Wanted { config: config.for_many_clients(), fronts, admin })
    }
}

/// The backs and fronts that run.
struct Running {
    bus: Bus,
    journal: Option<Rc<Journal>>,
    fronts: Vec<Front>,
    /// How many fronts were ever opened.
    opened: u64,
    /// Where a front says that it cannot go on.
    breaking: mpsc::UnboundedSender<Failed>,
    broken: mpsc::UnboundedReceiver<Failed>,
    leaving: Vec<Leaving>,
    /// Waits for the backs to list their tools.
    looking: JoinSet<()>,
    pages: Pages,
    spans: Option<Rc<dyn Observer>>,
}

/// Backs that are no longer in the config.
struct Leaving {
    bus: Bus,
    /// Waits for their last calls and says goodbye, once no front leads to them.
    goodbye: Option<JoinHandle<()>>,
}

impl Running {
    fn nothing() -> Result<Running, Failed> {
        let bus = Bus::of_config(&Config::default()).map_err(|error| not_opened(&error))?;
        let (breaking, broken) = mpsc::unbounded_channel();
        Ok(Running {
            bus,
            journal: None,
            fronts: Vec::new(),
            opened: 0,
            breaking,
            broken,
            leaving: Vec::new(),
            looking: JoinSet::new(),
            pages: Pages::default(),
            spans: spans::observer(),
        })
    }

    async fn broken(&mut self) -> Failed {
        // We hold a sender ourselves, so it never comes to its end.
        self.broken.recv().await.unwrap_or_else(|| Failed::quietly(Exit::Failed))
    }

    /// Reads the config again. What is wrong is told, and does not end us.
    async fn reload(&mut self, asked: &Asked<'_>) {
        let told = |failed: Failed| {
            failed.told(asked.globals);
            Ok(())
        };
        let followed = match Wanted::read(asked) {
            Ok(wanted) => self.follow(wanted.found_out().await, told).await,
            Err(failed) => Err(failed),
        };
        match followed {
            Ok(()) => tracing::warn!(target: DONE, "the config was read again"),
            Err(failed) => {
                failed.told(asked.globals);
                tracing::warn!("the config was not taken: everything stays as it was");
            }
        }
    }

    /// Becomes what is wanted. A front that cannot be opened is given to `failing`, which says
    /// whether that is the end.
    async fn follow(
        &mut self,
        wanted: Wanted,
        failing: impl Fn(Failed) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let bus = self.bus.reloaded(&wanted.config).map_err(|error| not_opened(&error))?;
        // A file that cannot be opened is told before anything changes.
        let journal = self.journal_of(wanted.config.journal.as_ref())?;
        // Before the backs are opened: who looks sees how far the start has come.
        let names = wanted.config.fronts.iter().map(|front| front.name.clone()).collect();
        match self.pages.follow(wanted.admin, &bus, names).await {
            Ok(()) => {}
            Err(failed) => failing(failed)?,
        }
        self.journal = journal;
        let journal = self.journal.clone().map(|journal| journal as Rc<dyn Observer>);
        // Last, so that they count what the journal makes of a call.
        let spans = self.spans.clone();
        let all = [journal, spans, self.pages.metrics()];
        let bus = bus.observed_only_by(all.into_iter().flatten());
        let before = mem::replace(&mut self.bus, bus);
        self.leaving.retain(|leaving| !leaving.is_gone());
        self.leaving.push(Leaving { bus: before.without(&self.bus), goodbye: None });
        self.look_for_missing(wanted.config.clone()).await;

        let mut fronts: Vec<_> = mem::take(&mut self.fronts).into_iter().map(Some).collect();
        let mut to_open = Vec::new();
        for plan in wanted.fronts {
            let fits = |front: &mut Front| front.can_become(&plan, &before, &self.bus);
            match fronts.iter_mut().find_map(|front| front.take_if(fits)) {
                Some(front) => {
                    front.lead_to(&self.bus);
                    self.pages.listens(front.name());
                    self.fronts.push(front);
                }
                None => to_open.push(plan),
            }
        }
        // Their addresses may be wanted by those that are opened now.
        over(fronts.into_iter().flatten().map(Front::stop).collect()).await;
        for plan in to_open {
            self.opened += 1;
            match Front::open(plan, &self.bus, self.opened, &self.breaking).await {
                Ok(front) => {
                    self.pages.listens(front.name());
                    self.fronts.push(front);
                }
                Err(failed) => failing(failed)?,
            }
        }
        self.pages.announce();
        self.leaving.iter_mut().for_each(Leaving::begin);
        Ok(())
    }

    /// The journal that is wanted: that of before, with its file opened anew, or another.
    fn journal_of(&self, wanted: Option<&JournalConfig>) -> Result<Option<Rc<Journal>>, Failed> {
        let Some(wanted) = wanted else { return Ok(None) };
        let same = self.journal.as_ref().filter(|journal| journal.config() == wanted);
        let journal = same.cloned().unwrap_or_else(|| Rc::new(Journal::new(wanted)));
        runtime::survive_file_limits();
        journal.open().map_err(|error| {
            let path = wanted.path.display();
            Failed::usage(format!("cannot open the journal `{path}`, which is required"))
                .caused_by(&error)
        })?;
        Ok(Some(journal))
    }

    /// Opens all backs before a client is served; but one that is slow does not keep the others
    /// from being served.
    async fn look_for_missing(&mut self, config: Config) {
        let bus = self.bus.clone();
        // A back that is still waited for under the last config is of no interest any more.
        self.looking = JoinSet::new();
        forget_left_out();
        self.looking.spawn_local(async move {
            let listed = bus.list().await;
            warn_of_missing(&bus, &listed);
            for Listed { back, address, tools } in &listed {
                let settings = config.backs.iter().find(|known| *known.name == **back);
                if let (Err(failure), Some(known)) = (tools, settings) {
                    tell_of_wire(back, address, &known.settings, failure).await;
                }
            }
        });
        let _ = tokio::time::timeout(SLOW, self.looking.join_next()).await;
    }

    fn stop_fronts(&mut self) -> Vec<JoinHandle<()>> {
        self.looking.abort_all();
        let names = self.fronts.iter().map(|front| front.name().to_owned()).collect();
        self.pages.part(&self.bus, names);
        self.fronts.drain(..).map(Front::stop).collect()
    }

    /// The buses that were not told goodbye yet.
    fn living(&self) -> impl Iterator<Item = &Bus> {
        self.leaving.iter().map(|leaving| &leaving.bus).chain([&self.bus])
    }

    fn hurry(&self) {
        self.living().for_each(Bus::hurry);
    }

    async fn shutdown(&self) {
        let mut leaving = JoinSet::new();
        for bus in self.living() {
            let bus = bus.clone();
            leaving.spawn_local(async move { bus.shutdown().await });
        }
        leaving.join_all().await;
    }

    fn kill(&self) {
        self.living().for_each(Bus::kill);
    }
}

impl Leaving {
    fn is_gone(&self) -> bool {
        self.bus.is_empty() || self.goodbye.as_ref().is_some_and(JoinHandle::is_finished)
    }

    fn begin(&mut self) {
        let bus = self.bus.clone();
        self.goodbye.get_or_insert_with(|| {
            spawn_local(async move {
                tokio::time::sleep(LAST_CALLS).await;
                bus.shutdown().await;
            })
        });
    }
}

/// Tells which tools cannot be called for now.
fn warn_of_missing(bus: &Bus, listed: &[Listed]) {
    for Listed { back, tools, .. } in listed {
        match tools {
            Ok(_) => is_back(back),
            Err(failure) => left_out(back, failure),
        }
    }
    for front in Registry::default().wires().filter_map(PeerKind::front) {
        // Says which names fall together there.
        let _ = front.name_tools(bus.clone()).offer(listed);
    }
}

/// Tells the address that would work for a program that speaks another wire than it says.
async fn tell_of_wire(back: &str, address: &Address, settings: &Settings, failure: &Failure) {
    let hint = |failure: &Failure| failure.last_words.as_ref().and_then(|words| words.hint.clone());
    let looked_at = second_look(address, settings, failure.clone(), None).await;
    if let Some(found) = hint(&looked_at).filter(|_| hint(&looked_at) != hint(failure)) {
        tracing::warn!(peer = %back, "hint: {found}");
    }
}

async fn over(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        // One that was aborted is over, too.
        let _ = task.await;
    }
}
