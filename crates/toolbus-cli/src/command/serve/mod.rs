//! `toolbus serve`: every front of the config at once, until a signal.

mod admin;
mod front;
mod socket;
mod sockets;

use std::cell::OnceCell;
use std::convert::Infallible;
use std::mem;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet, spawn_local};
use tokio::time::{Instant, timeout_at};
use toolbus::address::Address;
use toolbus::bus::admin::AdminPlan;
use toolbus::bus::config::{Config, JournalConfig, ThreadCount};
use toolbus::bus::journal::Journal;
use toolbus::bus::lenient::{SLOW, forget_left_out, is_back, left_out};
use toolbus::bus::observe::Observer;
use toolbus::bus::run::{RunSocket, Stamp};
use toolbus::bus::{Bus, Listed};
use toolbus::peer::{Circumstances, PeerKind, Registry};
use toolbus_engine::transport::Threads;
use toolbus_proto::tool::Failure;

use self::admin::Pages;
use self::front::{Draining, Front, Plan};
use self::sockets::Sockets;
use super::wire::{self, WireFace};
use crate::args::peer::{FreshArgs, RefusedArgs};
use crate::args::{Globals, value};
use crate::config::{self, Found};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::logging::{self, DONE};
use crate::peers::{learn_wires, not_opened, with_meant};
use crate::runtime::{self, Hangup, Hangups, Signals};
use crate::service::Service;
use crate::{spans, stderr};

/// What the last calls of a front have when we end.
const LAST_CALLS: Duration = Duration::from_secs(5);
/// A config that was read again is told to be so once its new fronts listen, but no later: one of
/// them may have to wait for a hub, or for an address of ours.
const OPENED_SOON: Duration = Duration::from_millis(500);
/// The last calls of a front that is closed have so many times as long as one may be quiet, for
/// they need not be quiet.
const DRAINED_WITHIN: u32 = 10;
/// How often is looked whether an address is free.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Run every front of the config at once, until a signal
///
/// Serves the tools of all backs of the config on each of its fronts. Once one accepts,
/// standard error has the line `listening on URL`, with the real port; and once every back has
/// listed its tools or failed, `ready: 6 of 6 backs, 55 tools`. A back that cannot be opened is left
/// out with a warning, and tried again with the next list or call.
///
/// With `[admin]` in the config, `/healthz`, `/readyz` and `/metrics` are answered over HTTP, on
/// a port of their own, and so is a live page, which `toolbus page` finds.
///
/// SIGHUP reads the config again. Backs and fronts that are set up as before go on as they
/// are; a back that has changed or is gone keeps its calls until they end or time out, and new
/// ones go to the new one at once. If there is a mistake in the config it is told, and
/// everything stays as it was.
///
/// SIGINT and SIGTERM end it, as does the end of the terminal it was started on, unless by `nohup`:
/// calls under way have five seconds, and no process is left. After SIGTERM the exit code is 0.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples())]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    refused: RefusedArgs,
    /// Wait this long for the first list until every back has listed its tools, where a front has
    /// no `list_timeout`; `0` not at all [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = value::duration_or_none,
          allow_negative_numbers = true)]
    list_timeout: Option<Duration>,
    #[command(flatten)]
    fresh: FreshArgs,
    /// Let no command use what runs here: `toolbus call` and others start their own
    #[arg(long)]
    no_run_socket: bool,
    /// Serve connections over HTTP on so many threads; `auto` takes as many as there are cores, at
    /// most 8 [default: `threads` of the config, or 1]
    #[arg(long, value_name = "N", value_parser = ThreadCount::parse)]
    threads: Option<ThreadCount>,
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
    args.refused.check()?;
    let service = Rc::new(Service::of_process()?);
    let asked = Asked {
        globals,
        list_timeout: args.list_timeout,
        is_fresh: args.fresh.fresh,
        service: &service,
        threads: args.threads,
        started: OnceCell::new(),
    };
    let wanted = Wanted::read(&asked, &[])?;
    spans::say_if_missing();
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let mut running = Running::nothing(!args.no_run_socket)?;
        // To the very end: it is told as well that the last calls go on.
        let telling = service.keep_telling();
        let Err(ended) = serve(&mut running, wanted, &mut signals, &asked).await;
        if ended.report.is_none() {
            service.stopping();
        }
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
        let is_orderly = signals.or_kill(goodbye, kill).await;
        running.pages.stop().await;
        telling.iter().for_each(JoinHandle::abort);
        match ended.exit {
            Exit::Done if !is_orderly => Err(Failed::quietly(Exit::Terminated)),
            _ => Err(ended),
        }
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
        begun = running.begin(wanted) => begun?,
        exit = signals.next() => return Err(Failed::quietly(exit.of_listener())),
    }
    running.tell_ready(asked.service);
    loop {
        tokio::select! {
            hangup = hangups.next() => match hangup {
                Hangup::Reload => {}
                Hangup::TerminalClosed => return Err(Failed::quietly(Exit::Terminated)),
            },
            change = running.changes() => match change {
                Change::Broken(failed) => return Err(failed),
                Change::Opened(opened) => {
                    running.settle(opened, asked);
                    continue;
                }
            },
            exit = signals.next() => return Err(Failed::quietly(exit.of_listener())),
        }
        asked.service.reloading();
        tokio::select! {
            taken = running.reload(asked) => match taken {
                Ok(()) => running.tell_ready(asked.service),
                Err(why) => asked.service.not_reloaded(&why),
            },
            exit = signals.next() => return Err(Failed::quietly(exit.of_listener())),
        }
    }
}

/// What the command line says.
struct Asked<'a> {
    globals: &'a Globals,
    /// About fronts that say nothing of it.
    list_timeout: Option<Duration>,
    /// All backs are asked at the start.
    is_fresh: bool,
    /// Who started us.
    service: &'a Service,
    /// On how many threads, whatever the config says.
    threads: Option<ThreadCount>,
    /// How many were started, and those besides ours.
    started: OnceCell<(usize, Threads)>,
}

impl Asked<'_> {
    /// The threads that connections are served on. They are started once.
    fn threads(&self, config: &Config) -> Result<Threads, Failed> {
        let count = self.threads.unwrap_or(config.threads).count();
        if let Some((started, threads)) = self.started.get() {
            if count != *started {
                tracing::warn!(
                    "`serve.threads`: {count} threads are there after the next start; for now it \
                     stays at {started}"
                );
            }
            return Ok(threads.clone());
        }
        let threads = Threads::start(count - 1).map_err(|error| {
            Failed::new(Exit::Failed, format!("cannot start {count} threads")).caused_by(&error)
        })?;
        let _ = self.started.set((count, threads.clone()));
        Ok(threads)
    }
}

/// What the config asks for, checked as far as it can be before anything is opened.
struct Wanted {
    config: Config,
    fronts: Vec<Plan>,
    admin: Option<AdminPlan>,
    source: ConfigSource,
    sockets: Sockets,
    /// By what commands see whether they have the same.
    stamp: Option<Stamp>,
}

/// Where a config comes from.
struct ConfigSource {
    path: PathBuf,
    text: String,
    loaded: SystemTime,
}

impl Wanted {
    /// These fronts serve already, if any do.
    fn read(asked: &Asked<'_>, running: &[&Front]) -> Result<Wanted, Failed> {
        let found = config::read(asked.globals.config.as_deref())?;
        let found = found.ok_or_else(|| {
            Failed::usage(format!("there is no `{}` here or above", config::USUAL))
                .hint("name a config by `--config FILE`; `toolbus init` writes one")
        })?;
        let stamp = found.stamp();
        let Found { path, text, mut config, .. } = found;
        if config.fronts.is_empty() {
            let hint = front_examples().next().map(|(name, serve)| {
                format!("add one: `[front.{name}]` and under it `serve = \"{serve}\"`")
            });
            let failed = Failed::usage(format!("`{}` names no fronts", path.display()));
            return Err(failed.hint_if_any(hint));
        }
        config.locking.is_fresh |= asked.is_fresh;
        for front in &mut config.fronts {
            front.list_timeout = front.list_timeout.or(asked.list_timeout);
        }
        let sockets = Sockets::of(asked.service.sockets(), &config);
        let threads = asked.threads(&config)?;
        let mut wrong = Vec::new();
        let folder = path.parent().unwrap_or(Path::new(""));
        let plans = config.fronts.iter().map(|front| {
            let circumstances = Circumstances {
                folder: folder.to_owned(),
                socket: sockets.of_front(&front.name),
                threads: threads.clone(),
                tls: running.iter().find_map(|running| running.tls_at(&front.serve)),
                ..Circumstances::default()
            };
            Plan::of(front, circumstances)
        });
        let fronts = plans.filter_map(|plan| plan.map_err(|failed| wrong.push(failed)).ok());
        let fronts = fronts.collect();
        let admin = admin::plan(&config).unwrap_or_else(|failed| {
            wrong.push(failed);
            None
        });
        match running {
            [] => wrong.extend(sockets.mistakes()),
            // Who serves goes on.
            _ => sockets.mistakes().for_each(|it| tracing::warn!("{}", it.message())),
        }
        if !wrong.is_empty() {
            return Err(Failed::several(wrong));
        }
        let source = ConfigSource { path, text, loaded: SystemTime::now() };
        Ok(Wanted { config: config.for_many_clients(), fronts, admin, source, sockets, stamp })
    }
}

/// What is wrong with fronts and pages that can be known before they listen, each with the table that
/// asks for it: what would end us with 2.
///
/// Paths are relative to `folder`.
pub(super) fn mistakes(config: &Config, folder: &Path) -> Vec<(String, Failed)> {
    let fronts = config.fronts.iter().map(|front| {
        let table = format!("front.{}", front.name);
        let folder = folder.to_owned();
        let circumstances = Circumstances { folder, ..Circumstances::default() };
        (table, Plan::of(front, circumstances).err())
    });
    let pages = ("admin".to_owned(), admin::plan(config).err());
    let wrong = fronts.chain([pages]).filter_map(|(table, failed)| Some((table, failed?)));
    wrong.filter(|(_, failed)| failed.exit == Exit::Usage).collect()
}

/// The backs and fronts that run.
struct Running {
    bus: Bus,
    /// What it was made of.
    config: Rc<Config>,
    journal: Option<Rc<Journal>>,
    fronts: Vec<Front>,
    /// How many fronts were ever opened.
    opened: u64,
    /// Where a front says that it cannot go on.
    breaking: mpsc::UnboundedSender<Failed>,
    broken: mpsc::UnboundedReceiver<Failed>,
    /// Fronts of the config that do not listen yet.
    opening: JoinSet<Opened>,
    /// Fronts that serve until the one of their name listens elsewhere.
    held: Vec<Front>,
    /// Fronts that take no client any more.
    draining: Vec<Draining>,
    leaving: Vec<Leaving>,
    /// Waits for the backs to list their tools.
    looking: JoinSet<()>,
    /// The fronts listen: before that toolbus is not ready, whatever its backs are.
    listens: watch::Sender<bool>,
    pages: Pages,
    spans: Option<Rc<dyn Observer>>,
    /// Is there to be a run socket?
    has_socket: bool,
    socket: Option<RunSocket>,
}

/// Backs that are no longer in the config.
struct Leaving {
    bus: Bus,
    /// Waits for their last calls and says goodbye.
    goodbye: JoinHandle<()>,
}

/// What became of a front that was to be opened.
struct Opened {
    name: String,
    front: Result<Front, Failed>,
}

/// What happens by itself.
enum Change {
    /// A front cannot go on.
    Broken(Failed),
    Opened(Opened),
}

impl Running {
    fn nothing(has_socket: bool) -> Result<Running, Failed> {
        let bus = Bus::of_config(&Config::default()).map_err(|error| not_opened(&error))?;
        let (breaking, broken) = mpsc::unbounded_channel();
        Ok(Running {
            bus,
            config: Rc::default(),
            journal: None,
            fronts: Vec::new(),
            opened: 0,
            breaking,
            broken,
            opening: JoinSet::new(),
            held: Vec::new(),
            draining: Vec::new(),
            leaving: Vec::new(),
            looking: JoinSet::new(),
            listens: watch::Sender::new(false),
            pages: Pages::default(),
            spans: spans::observer(),
            has_socket,
            socket: None,
        })
    }

    async fn changes(&mut self) -> Change {
        tokio::select! {
            // We hold a sender ourselves, so it never comes to its end.
            Some(failed) = self.broken.recv() => Change::Broken(failed),
            Some(Ok(opened)) = self.opening.join_next() => Change::Opened(opened),
            else => std::future::pending().await,
        }
    }

    /// Opens everything for the first time. A front that cannot be opened is the end.
    async fn begin(&mut self, wanted: Wanted) -> Result<(), Failed> {
        learn_wires(&wanted.config, SLOW).await;
        let (_, unserved) = self.lead_to_backs(&wanted).await?;
        if let Some(failed) = unserved {
            return Err(failed);
        }
        self.look_for_missing();
        let _ = tokio::time::timeout(SLOW, self.looking.join_next()).await;
        if let Some(stamp) = wanted.stamp.filter(|_| self.has_socket) {
            self.socket = socket::open(stamp, &self.bus).await;
        }
        for plan in wanted.fronts {
            self.opened += 1;
            let front = Front::open(plan, &self.bus, self.opened, &self.breaking).await?;
            self.pages.listens(front.name(), front.line());
            self.fronts.push(front);
            self.tell_fronts();
        }
        self.pages.announce();
        self.listens.send_replace(true);
        Ok(())
    }

    /// Tells who started us what is served.
    fn tell_ready(&self, service: &Service) {
        service.ready(self.config.fronts.len(), self.config.backs.len());
    }

    /// Reads the config again. What is wrong is told, and does not end us: then it is why the config
    /// was not taken.
    async fn reload(&mut self, asked: &Asked<'_>) -> Result<(), String> {
        let fronts: Vec<_> = self.fronts.iter().chain(&self.held).collect();
        let followed = match Wanted::read(asked, &fronts) {
            Ok(mut wanted) => {
                learn_wires(&wanted.config, SLOW).await;
                let stamp = wanted.stamp.take();
                let followed = self.follow(wanted, asked).await;
                if let (Ok(()), Some(socket), Some(stamp)) = (&followed, &self.socket, stamp) {
                    socket.lead_to(self.bus.clone(), stamp);
                }
                followed
            }
            Err(failed) => Err(failed),
        };
        if let Err(failed) = followed {
            let why = failed.message();
            failed.told(asked.globals);
            tracing::warn!("the config was not taken: everything stays as it was");
            return Err(why);
        }
        let until = Instant::now() + OPENED_SOON;
        while let Ok(Some(Ok(opened))) = timeout_at(until, self.opening.join_next()).await {
            self.settle(opened, asked);
        }
        self.tell_fronts();
        self.pages.announce();
        tracing::warn!(target: DONE, "the config was read again");
        Ok(())
    }

    /// Becomes what is wanted, at once: no call, client or back is waited for.
    async fn follow(&mut self, wanted: Wanted, asked: &Asked<'_>) -> Result<(), Failed> {
        let (before, unserved) = self.lead_to_backs(&wanted).await?;
        if let Some(failed) = unserved {
            failed.told(asked.globals);
        }
        // What does not listen yet is planned anew.
        self.opening = JoinSet::new();
        let fronts = self.fronts.drain(..).chain(self.held.drain(..));
        // One that passes its only back through cannot do so with another.
        let (mut fronts, mut closing): (Vec<_>, Vec<_>) =
            fronts.partition(|front| front.can_lead_to(&before, &self.bus));
        fronts.iter().chain(&closing).for_each(|front| {
            front.warn_of_new_names(&before, &self.bus);
        });
        let mut to_open = Vec::new();
        for plan in wanted.fronts {
            match fronts.iter().position(|front| front.is_set_up_as(&plan)) {
                Some(same) => {
                    let mut front = fronts.swap_remove(same);
                    front.take_over(plan.config());
                    front.lead_to(&self.bus);
                    self.pages.listens(front.name(), front.line());
                    self.fronts.push(front);
                }
                None => to_open.push(plan),
            }
        }
        // A front goes on while the one that takes its place may turn out not to listen; unless
        // it is in the way itself.
        for front in fronts {
            let is_followed = to_open.iter().any(|plan| plan.config().name == front.name());
            let is_free = !to_open.iter().any(|plan| front.is_in_the_way_of(plan.config()));
            if is_followed && is_free {
                front.lead_to(&self.bus);
                self.held.push(front);
            } else {
                closing.push(front);
            }
        }
        // Those that end in their own time need no more; who only listens goes with the last.
        let patience = before.patience() * DRAINED_WITHIN;
        self.draining.retain(|draining| !draining.is_over());
        self.draining.extend(closing.into_iter().map(|front| front.drain(patience)));
        to_open.into_iter().for_each(|plan| self.open(plan));
        self.leave(before.without(&self.bus));
        self.look_for_missing();
        Ok(())
    }

    /// Takes the backs of this config, with those who watch their calls: the backs of before, and
    /// why the pages of `[admin]` cannot be where they are wanted.
    async fn lead_to_backs(&mut self, wanted: &Wanted) -> Result<(Bus, Option<Failed>), Failed> {
        let Wanted { config, admin, source, sockets, .. } = wanted;
        let (admin, passed) = (admin.clone(), sockets.of_admin.clone());
        let bus = self.bus.reloaded(config).map_err(|error| not_opened(&error))?;
        // A file that cannot be opened is told before anything changes.
        let journal = self.journal_of(config.journal.as_ref())?;
        // Before the backs are opened: who looks sees how far the start has come.
        let names = config.fronts.iter().map(|front| front.name.clone()).collect();
        let unserved = self.pages.follow(admin, passed, &bus, names, config, source).await.err();
        self.pages.count_callers(config);
        self.journal = journal;
        let journal = self.journal.clone().map(|journal| journal as Rc<dyn Observer>);
        // Last, so that they count what the journal makes of a call.
        let spans = self.spans.clone();
        let others: Rc<[_]> =
            [journal, spans, self.pages.metrics()].into_iter().flatten().collect();
        self.pages.call_on(&bus, &others);
        let all = others.iter().cloned().chain(self.pages.observer());
        let bus = bus.observed_only_by(all);
        self.config = Rc::new(config.clone());
        Ok((mem::replace(&mut self.bus, bus), unserved))
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

    /// Opens a front, as soon as its address is free of those that we are about to leave.
    fn open(&mut self, plan: Plan) {
        self.opened += 1;
        let (bus, number, breaking) = (self.bus.clone(), self.opened, self.breaking.clone());
        let leaving: Vec<_> = self.draining.iter().map(Draining::watch).collect();
        self.opening.spawn_local(async move {
            let (config, circumstances) = plan.parts();
            let name = config.name.clone();
            let mut plan = Ok(plan);
            let front = loop {
                let opened = match plan {
                    Ok(plan) => Front::open(plan, &bus, number, &breaking).await,
                    Err(failed) => break Err(failed),
                };
                match opened {
                    Err(_) if !leaving.iter().all(AbortHandle::is_finished) => {
                        tokio::time::sleep(LOOK_AGAIN).await;
                        plan = Plan::of(&config, circumstances.clone());
                    }
                    opened => break opened,
                }
            };
            Opened { name, front }
        });
    }

    /// Takes in a front that listens now, or tells why it does not.
    fn settle(&mut self, opened: Opened, asked: &Asked<'_>) {
        let Opened { name, front } = opened;
        let held = self.held.iter().position(|held| held.name() == name);
        let held = held.map(|at| self.held.swap_remove(at));
        match front {
            Ok(front) => {
                self.pages.listens(front.name(), front.line());
                self.fronts.push(front);
                self.draining
                    .extend(held.map(|held| held.drain(self.bus.patience() * DRAINED_WITHIN)));
            }
            Err(failed) => {
                failed.told(asked.globals);
                if let Some(held) = held {
                    tracing::warn!("`front.{name}` goes on as it was");
                    self.pages.listens(held.name(), held.line());
                    self.fronts.push(held);
                }
            }
        }
        self.tell_fronts();
    }

    /// Commands that ask are told where the fronts listen.
    fn tell_fronts(&self) {
        if let Some(socket) = &self.socket {
            socket.set_fronts(self.fronts.iter().filter_map(Front::place).collect());
        }
    }

    /// Says goodbye to these backs when their last call is over, or has timed out.
    fn leave(&mut self, bus: Bus) {
        self.leaving.retain(|leaving| !leaving.goodbye.is_finished());
        if bus.is_empty() {
            return;
        }
        let left = bus.clone();
        let goodbye = spawn_local(async move {
            left.idle().await;
            left.shutdown().await;
        });
        self.leaving.push(Leaving { bus, goodbye });
    }

    /// Asks all backs for their tools, and tells which cannot be reached.
    fn look_for_missing(&mut self) {
        let (bus, mut listens) = (self.bus.clone(), self.listens.subscribe());
        let config = self.config.clone();
        // A back that is still waited for under the last config is of no interest any more.
        self.looking = JoinSet::new();
        forget_left_out();
        self.looking.spawn_local(async move {
            let listed = bus.list().await;
            warn_of_missing(&bus, &listed);
            warn_of_views(&bus, &config, &listed);
            for Listed { back, address, tools } in &listed {
                if let Err(failure) = tools {
                    tell_of_wire(back, address, failure);
                }
            }
            // By itself: what waits for us listens after that.
            spawn_local(async move {
                if listens.wait_for(|listens| *listens).await.is_ok() {
                    say_ready(&listed);
                }
            });
        });
    }

    fn stop_fronts(&mut self) -> Vec<JoinHandle<()>> {
        self.looking.abort_all();
        self.opening.abort_all();
        let names = self.fronts.iter().map(|front| front.name().to_owned()).collect();
        self.pages.part(&self.bus, names);
        // Commands come here no more before anything else ends.
        let socket = self.socket.take().and_then(|socket| socket.stop(LAST_CALLS));
        let fronts = self.fronts.drain(..).chain(self.held.drain(..)).map(Front::stop);
        let draining = self.draining.drain(..).map(|draining| draining.hurry(LAST_CALLS));
        let fronts = socket.into_iter().chain(fronts);
        fronts.chain(draining).chain(self.pages.last_calls()).collect()
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

/// Tells that no back is waited for any more, and how many are there.
fn say_ready(listed: &[Listed]) {
    let there = listed.iter().filter_map(|listed| listed.tools.as_ref().ok());
    let (backs, tools) = there.fold((0, 0), |(backs, tools), own| (backs + 1, tools + own.len()));
    let line = format!("ready: {backs} of {} backs, {tools} tools", listed.len());
    stderr::write(&logging::announcement(&line));
}

/// Tells which tools cannot be called for now.
fn warn_of_missing(bus: &Bus, listed: &[Listed]) {
    for Listed { back, tools, .. } in listed {
        match tools {
            Ok(_) => is_back(back),
            Err(failure) => left_out(back, failure),
        }
    }
    bus.warn_of_allowed_in_vain();
    for front in Registry::default().wires().filter_map(PeerKind::front) {
        // Says which names fall together there.
        let _ = front.name_tools(bus.clone()).offer(listed);
    }
}

/// Tells what of views and limits is surely not meant, and which names fall together in a view.
fn warn_of_views(bus: &Bus, config: &Config, listed: &[Listed]) {
    for view in &config.views {
        for warning in bus.view_told(view, listed).warnings {
            tracing::warn!("{warning}");
        }
    }
    for caller in &config.callers {
        for warning in bus.limits_told(caller, listed) {
            tracing::warn!("{warning}");
        }
    }
}

/// Tells the address that would work for a program that speaks another wire than it says.
fn tell_of_wire(back: &str, address: &Address, failure: &Failure) {
    let hint = |failure: &Failure| failure.last_words.as_ref().and_then(|words| words.hint.clone());
    let looked_at = with_meant(address, failure.clone());
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
