//! A plugin that we start ourselves, as a hub would: with certificates of its own, in a folder
//! that goes when we go, and with somebody to register with.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use toolbus_proto::orchestra::envelope::request_body;
use toolbus_proto::orchestra::wire::ShutdownRequest;
use toolbus_proto::tool::{Call, Exit, Failure, FailureKind, LastWords, What};

use super::host::unreachable;
use crate::bus::Route;
use crate::bus::back::{LocalFuture, causes, hinted};
use crate::child::supervisor::{Departure, Restart, RunId, Why};
use crate::child::{Patience, Program, SpawnError, scratch};
use crate::engine::calls::{Inbox, ReplyTo, RunningCall};
use crate::engine::program::{DetachedOptions, DetachedProgram, Life};
use crate::task::{boxed, spawn_local};
use crate::transport::quic::{Clients, Connection, Dialler, HANDSHAKE, Idle, Listener};
use crate::wire::orchestra::caller::{Caller, Reach};
use crate::wire::orchestra::certificates::{Folder, Identity};
use crate::wire::orchestra::front::serve;
use crate::wire::orchestra::{HostPort, WIRE, tls};

/// What a hub is called towards a plugin whose id it does not know.
const OUR_NAME: &str = "orchestrator-to-plugin";

/// What is started, and how long it is waited for.
pub struct StartedOptions {
    /// What errors and the log call it.
    pub name: String,
    /// What is started.
    pub program: Program,
    /// How long it may take.
    pub patience: Patience,
}

/// A plugin that is started when it is needed.
pub struct Started {
    options: StartedOptions,
    dialler: Dialler,
    kept: RefCell<Option<Rc<Kept>>>,
}

impl Started {
    /// Nothing is started before it is reached for.
    pub fn new(options: StartedOptions) -> Started {
        Started { options, dialler: Dialler::new(), kept: RefCell::default() }
    }

    /// Asks it to end, then makes it.
    pub(super) async fn stop(&self, caller: &Caller) {
        let kept = self.kept.borrow().clone();
        let Some(kept) = kept else { return };
        if kept.present().is_some() {
            let stop = self.options.patience.stop;
            let seconds = i32::try_from(stop.as_secs()).unwrap_or(i32::MAX);
            let request =
                ShutdownRequest { timeout_seconds: seconds, ..ShutdownRequest::default() };
            let method = Bytes::from_static(b"shutdown");
            let what = What::Native { wire: WIRE, method, body: request_body(request) };
            let mut call = Call::of(Instant::now(), what);
            call.deadline.total = Some(stop);
            let (inbox, down) = Inbox::new();
            let running_call = caller.start(call, down);
            kept.program.stop();
            tokio::select! {
                _ = inbox.whole(running_call) => kept.program.end_goodbye(),
                () = kept.program.gone() => {}
            }
        } else {
            kept.program.stop();
        }
        kept.program.gone().await;
        self.kill();
    }

    /// How often it was started again.
    pub(super) fn restarts(&self) -> u64 {
        self.kept.borrow().as_ref().map_or(0, |kept| kept.program.restarts())
    }

    /// Who we are to it.
    pub async fn identity(&self) -> Result<Identity, Failure> {
        let kept = self.kept().await?;
        let identity = tls::load(&kept.home.folder, OUR_NAME).await;
        identity.map_err(|error| tls::unfit(&error))
    }

    /// Waits until it has ended, and tells how; nothing if it does not run.
    pub async fn exited(&self) -> Option<Exit> {
        let kept = self.kept.borrow().clone()?;
        let run = kept.run.get()?;
        kept.departed(run).await.last_words.exit
    }

    /// Ends it at once.
    pub fn kill(&self) {
        drop(self.kept.take());
    }

    async fn kept(&self) -> Result<Rc<Kept>, Failure> {
        if let Some(kept) = &*self.kept.borrow() {
            return Ok(kept.clone());
        }
        let home = Home::make().await?;
        let kept = Kept::new(&self.options, home);
        *self.kept.borrow_mut() = Some(kept.clone());
        Ok(kept)
    }

    async fn start(&self) -> Result<Connection, Failure> {
        let kept = self.kept().await?;
        let run = kept.program.wake()?;
        kept.run.set(Some(run));
        let news = kept.ready_or_gone(run).await;
        let at = news.map_err(|departure| self.told(departure, "exited without printing READY"))?;
        let reached = tokio::select! {
            reached = self.dial(&kept, &at) => reached,
            departure = kept.departed(run) => Err(self.told(departure, "has ended")),
        };
        match &reached {
            Ok(_) => {
                kept.program.open(run);
                tracing::info!(peer = self.options.name, "ready");
            }
            Err(failure) => kept.program.break_off(run, failure.clone()),
        }
        reached
    }

    async fn dial(&self, kept: &Kept, at: &str) -> Result<Connection, Failure> {
        let name = &self.options.name;
        let at: HostPort = at.parse().map_err(|error| {
            let message = format!("plugin `{name}` printed `READY {at}`: {error}");
            Failure::new(FailureKind::BrokeProtocol, message)
        })?;
        let identity = tls::load(&kept.home.folder, OUR_NAME).await;
        let identity = identity.map_err(|error| tls::unfit(&error))?;
        let client = tls::client(&identity, Idle::PATIENT).map_err(|error| unavailable(&error))?;
        let target = at.target(None);
        let dialled = self.dialler.dial(&target, &client, HANDSHAKE).await;
        dialled.map_err(|error| unreachable(&target, &error))
    }

    /// Why it cannot be used, with its last words.
    fn told(&self, departure: Departure, exited: &str) -> Failure {
        let StartedOptions { name, patience, .. } = &self.options;
        let (kind, why) = match departure.why {
            Why::Unfit(failure) => return failure,
            Why::Exited(_) => {
                let status = departure.last_words.exit.map(|exit| format!(" ({exit})"));
                (FailureKind::Unavailable, format!("{exited}{}", status.unwrap_or_default()))
            }
            Why::Late => {
                let seconds = patience.start.as_secs_f64();
                let why = format!("did not become ready within {seconds} seconds");
                (FailureKind::TimedOut, why)
            }
        };
        let failure = Failure::new(kind, format!("plugin `{name}` {why}"));
        failure.with_last_words(LastWords { hint: None, ..departure.last_words })
    }
}

impl Reach for Started {
    fn reach(&self) -> LocalFuture<'_, Result<Connection, Failure>> {
        Box::pin(self.start())
    }

    fn gone(&self) -> LocalFuture<'_, Failure> {
        let kept = self.kept.borrow().clone();
        Box::pin(async move {
            let run = kept.as_ref().and_then(|kept| kept.run.get());
            let (Some(kept), Some(run)) = (kept, run) else {
                return std::future::pending().await;
            };
            let departure = kept.departed(run).await;
            Failure { kind: FailureKind::Gone, ..self.told(departure, "has ended") }
        })
    }

    fn lost(&self, peer: &str, why: &Failure) {
        tracing::info!(peer, "lost connection: {}", why.message);
        let kept = self.kept.borrow().clone();
        if let Some(kept) = kept
            && let Some(run) = kept.run.get()
        {
            let why = Failure::new(FailureKind::Unavailable, "its connection was lost");
            kept.program.break_off(run, why);
        }
    }
}

/// The program of a plugin, kept alive, with what it finds. Dropping it kills the whole of it.
struct Kept {
    program: DetachedProgram,
    /// The process that was woken last.
    run: Cell<Option<RunId>>,
    news: watch::Receiver<News>,
    home: Home,
}

/// What is known of the processes of a plugin.
#[derive(Default)]
struct News {
    /// Where one of them listens.
    ready: Option<(RunId, String)>,
    /// The last that was of no use any more.
    departure: Option<Departure>,
}

impl Kept {
    /// Starts nothing yet.
    fn new(options: &StartedOptions, home: Home) -> Rc<Kept> {
        let StartedOptions { name, program, patience } = options;
        let mut program = program.clone();
        program.words.extend([
            format!("--orchestrator-addr={}", home.address),
            "--listen-addr=localhost:0".to_owned(),
            format!("--certs-dir={}", home.folder.path().display()),
        ]);
        let (tell, news) = watch::channel(News::default());
        let peer = name.clone();
        let happened = move |life: Life<'_>| match life {
            Life::Line(run, line) => {
                tracing::info!(peer, "{line}");
                let Some(at) = line.strip_prefix("READY ") else { return };
                tell.send_if_modified(|news| {
                    let is_first = news.ready.as_ref().is_none_or(|(before, _)| *before != run);
                    if is_first {
                        news.ready = Some((run, at.trim().to_owned()));
                    }
                    is_first
                });
            }
            Life::Departed(departure) => {
                if let Some(exit) = departure.last_words.exit {
                    tracing::info!(peer, "ended with {exit}");
                }
                tell.send_modify(|news| news.departure = Some(departure));
            }
            Life::Spawned(_, pid) => tracing::info!(peer, "started, process {pid}"),
            Life::Stopped => {}
        };
        let options = DetachedOptions {
            name: name.clone(),
            program,
            patience: *patience,
            restart: Restart::OnDemand,
            unspawned: Box::new(SpawnError::to_failure),
        };
        let program = DetachedProgram::new(options, happened);
        Rc::new(Kept { program, run: Cell::new(None), news, home })
    }

    /// The process that can be called, if there is one.
    fn present(&self) -> Option<RunId> {
        let run = self.run.get()?;
        let news = self.news.borrow();
        let is_gone = news.departure.as_ref().is_some_and(|departure| departure.run == run);
        (!is_gone).then_some(run)
    }

    /// Waits until this process says where it listens, or is of no use.
    async fn ready_or_gone(&self, run: RunId) -> Result<String, Departure> {
        let mut news = self.news.clone();
        let ready = async {
            let is_ready = |news: &News| news.ready.as_ref().is_some_and(|(of, _)| *of == run);
            match news.wait_for(is_ready).await {
                Ok(news) => news.ready.clone().map(|(_, at)| at).unwrap_or_default(),
                // The program was let go, and we with it.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            departure = self.departed(run) => Err(departure),
            at = ready => Ok(at),
        }
    }

    /// Waits until this process is of no use.
    async fn departed(&self, run: RunId) -> Departure {
        let mut news = self.news.clone();
        let is_gone = |news: &News| news.departure.as_ref().is_some_and(|gone| gone.run == run);
        match news.wait_for(is_gone).await.map(|news| news.departure.clone()) {
            Ok(Some(departure)) => departure,
            _ => std::future::pending().await,
        }
    }
}

/// What a plugin finds: a folder of certificates, and a hub that takes it as it is.
struct Home {
    folder: Folder,
    address: SocketAddr,
    /// Answers what the plugin asks.
    _door: JoinSet<()>,
    /// Removed in the end.
    _scratch: Scratch,
}

/// Removes a folder in the end.
pub struct Scratch(PathBuf);

/// A folder for the certificates of this process alone, which is removed even if we are killed: it
/// holds the key of a CA.
pub fn scratch_folder() -> Result<(Folder, Scratch), Failure> {
    let ours = scratch::folder().map_err(|error| unavailable(&error))?;
    let token = u64::from_ne_bytes(crate::chance::bytes());
    let path = ours.join(format!("plugin-{token:016x}"));
    Ok((Folder::at(&path), Scratch(path)))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it cannot be removed now, the guard will do it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Home {
    async fn make() -> Result<Home, Failure> {
        let (folder, scratch) = scratch_folder()?;
        let identity = tls::load(&folder, "orchestrator").await;
        let identity = identity.map_err(|error| tls::unfit(&error))?;
        let server = tls::server(&identity, Clients::Known).map_err(|error| unavailable(&error))?;
        let listener = Listener::bind("127.0.0.1", 0, &server).await;
        let listener = listener.map_err(|error| unavailable(&error))?;
        let address = listener.addresses()[0];
        let mut door = JoinSet::new();
        door.spawn_local(boxed(async move {
            while let Some(arrival) = listener.accept().await {
                spawn_local(async move {
                    if let Ok(connection) = arrival.open(HANDSHAKE).await {
                        let never = std::future::pending();
                        serve(&connection, Rc::new(NoTools), HANDSHAKE, never).await;
                    }
                });
            }
        }));
        Ok(Home { folder, address, _door: door, _scratch: scratch })
    }
}

/// A hub without tools: all it does is to accept who registers.
struct NoTools;

impl Route for NoTools {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let outcome = match call.what {
            What::Tools => Ok(toolbus_proto::tool::Outcome::Tools(Vec::new().into())),
            _ => Err(Failure::new(FailureKind::UnknownTool, "there are no tools here")),
        };
        let _ = down.send(toolbus_proto::channel::Down::Done(outcome));
        RunningCall::ended()
    }
}

fn unavailable(error: &dyn std::error::Error) -> Failure {
    hinted(Failure::new(FailureKind::Unavailable, causes(error)), None)
}
