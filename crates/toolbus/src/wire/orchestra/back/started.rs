//! A plugin that we start ourselves, as a hub would: with certificates of its own, in a folder
//! that goes when we go, and with somebody to register with.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::timeout;
use toolbus_proto::orchestra::envelope::request_body;
use toolbus_proto::orchestra::wire::ShutdownRequest;
use toolbus_proto::tool::{Call, Exit, Failure, FailureKind, LastWords, What};

use super::host::unreachable;
use crate::bus::Route;
use crate::bus::back::{LocalFuture, causes, hinted};
use crate::child::stderr::Tail;
use crate::child::{Patience, Process, Program, Signal};
use crate::engine::calls::{Inbox, ReplyTo, RunningCall};
use crate::transport::pipe::{Input, Watch};
use crate::transport::quic::{Clients, Connection, Dialler, HANDSHAKE, Idle, Listener};
use crate::wire::orchestra::caller::{Caller, Reach};
use crate::wire::orchestra::certificates::{Folder, Identity};
use crate::wire::orchestra::front::serve;
use crate::wire::orchestra::{HostPort, WIRE, tls};

/// What a hub is called towards a plugin whose id it does not know.
const OUR_NAME: &str = "orchestrator-to-plugin";

/// What is started, and how long it is waited for.
pub(in crate::wire::orchestra) struct StartedOptions {
    pub(in crate::wire::orchestra) name: String,
    pub(in crate::wire::orchestra) program: Program,
    pub(in crate::wire::orchestra) patience: Patience,
}

/// A plugin that is started when it is needed.
pub(in crate::wire::orchestra) struct Started {
    options: StartedOptions,
    dialler: Dialler,
    home: RefCell<Option<Rc<Home>>>,
    running: RefCell<Option<Rc<Running>>>,
}

impl Started {
    pub(in crate::wire::orchestra) fn new(options: StartedOptions) -> Started {
        Started {
            options,
            dialler: Dialler::new(),
            home: RefCell::default(),
            running: RefCell::default(),
        }
    }

    /// Asks it to end, then makes it.
    pub(super) async fn stop(&self, caller: &Caller) {
        let running = self.running.borrow().clone();
        let Some(running) = running else { return };
        let Patience { stop, signal, .. } = self.options.patience;
        let seconds = i32::try_from(stop.as_secs()).unwrap_or(i32::MAX);
        let request = ShutdownRequest { timeout_seconds: seconds, ..ShutdownRequest::default() };
        let method = Bytes::from_static(b"shutdown");
        let what = What::Native { wire: WIRE, method, body: request_body(request) };
        let mut call = Call::of(Instant::now(), what);
        call.deadline.total = Some(stop);
        let (inbox, down) = Inbox::new();
        let running_call = caller.start(call, down);
        tokio::select! {
            _ = inbox.whole(running_call) => {}
            _ = running.exited() => {}
        }
        // There are plugins that answer and do not end.
        let grace = Duration::from_millis(300).min(stop);
        if timeout(grace, running.exited()).await.is_err() {
            running.signal(Signal::Term);
            if timeout(signal, running.exited()).await.is_err() {
                running.signal(Signal::Kill);
                let _ = timeout(signal, running.exited()).await;
            }
        }
        self.kill();
    }

    /// Who we are to it.
    pub(in crate::wire::orchestra) async fn identity(&self) -> Result<Identity, Failure> {
        let home = self.home().await?;
        let identity = tls::load(&home.folder, OUR_NAME).await;
        identity.map_err(|error| tls::unfit(&error))
    }

    /// Waits until it has ended, and tells how; nothing if it does not run.
    pub(in crate::wire::orchestra) async fn exited(&self) -> Option<Exit> {
        let running = self.running.borrow().clone()?;
        running.exited().await;
        running.process.borrow().exit_seen()
    }

    /// Ends it at once.
    pub(in crate::wire::orchestra) fn kill(&self) {
        drop(self.running.take());
        drop(self.home.take());
    }

    async fn home(&self) -> Result<Rc<Home>, Failure> {
        if let Some(home) = &*self.home.borrow() {
            return Ok(home.clone());
        }
        let home = Rc::new(Home::make().await?);
        *self.home.borrow_mut() = Some(home.clone());
        Ok(home)
    }

    async fn start(&self) -> Result<Connection, Failure> {
        let StartedOptions { name, program, patience } = &self.options;
        // Of one that lost its connection nothing is left.
        drop(self.running.take());
        let home = self.home().await?;
        let mut program = program.clone();
        program.words.extend([
            format!("--orchestrator-addr={}", home.address),
            "--listen-addr=localhost:0".to_owned(),
            format!("--certs-dir={}", home.folder.path().display()),
        ]);
        let (running, ready) = Running::start(name, &program)?;
        let running = Rc::new(running);
        let at = tokio::select! {
            biased;
            ready = timeout(patience.start, ready) => match ready {
                Ok(Ok(at)) => at,
                // Its standard error has ended, so it soon will.
                Ok(Err(_)) => {
                    let _ = timeout(patience.exit, running.exited()).await;
                    return Err(running.died(name, "exited without printing READY"));
                }
                Err(_) => {
                    let seconds = patience.start.as_secs_f64();
                    let why = format!("did not become ready within {seconds} seconds");
                    let died = running.died(name, &why);
                    return Err(Failure { kind: FailureKind::TimedOut, ..died });
                }
            },
            _ = running.exited() => {
                // What it said last is on its way.
                let _ = timeout(patience.last_words, running.is_silent()).await;
                return Err(running.died(name, "exited without printing READY"));
            }
        };
        let at: HostPort = at.parse().map_err(|error| {
            let message = format!("plugin `{name}` printed `READY {at}`: {error}");
            Failure::new(FailureKind::BrokeProtocol, message)
        })?;
        let identity = self.identity().await?;
        let client = tls::client(&identity, Idle::PATIENT).map_err(|error| unavailable(&error))?;
        let target = at.target(None);
        let dialled = self.dialler.dial(&target, &client, HANDSHAKE).await;
        let connection = dialled.map_err(|error| unreachable(&target, &error))?;
        *self.running.borrow_mut() = Some(running);
        Ok(connection)
    }
}

impl Reach for Started {
    fn reach(&self) -> LocalFuture<'_, Result<Connection, Failure>> {
        Box::pin(self.start())
    }

    fn gone(&self) -> LocalFuture<'_, Failure> {
        let running = self.running.borrow().clone();
        Box::pin(async move {
            let Some(running) = running else { return std::future::pending().await };
            running.exited().await;
            let _ = timeout(self.options.patience.last_words, running.is_silent()).await;
            let died = running.died(&self.options.name, "has ended");
            Failure { kind: FailureKind::Gone, ..died }
        })
    }

    fn lost(&self) {
        drop(self.running.take());
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
pub(in crate::wire::orchestra) struct Scratch(PathBuf);

/// A folder for certificates that nobody else has.
pub(in crate::wire::orchestra) fn scratch_folder() -> (Folder, Scratch) {
    let token = u64::from_ne_bytes(crate::chance::bytes());
    let path = std::env::temp_dir().join(format!("toolbus-plugin-{token:016x}"));
    (Folder::at(&path), Scratch(path))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody needs it; if it cannot be removed, the system will.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Home {
    async fn make() -> Result<Home, Failure> {
        let (folder, scratch) = scratch_folder();
        let identity = tls::load(&folder, "orchestrator").await;
        let identity = identity.map_err(|error| tls::unfit(&error))?;
        let server = tls::server(&identity, Clients::Known).map_err(|error| unavailable(&error))?;
        let listener = Listener::bind("127.0.0.1", 0, &server).await;
        let listener = listener.map_err(|error| unavailable(&error))?;
        let address = listener.addresses()[0];
        let mut door = JoinSet::new();
        door.spawn_local(async move {
            while let Some(arrival) = listener.accept().await {
                spawn_local(async move {
                    if let Ok(connection) = arrival.open(HANDSHAKE).await {
                        let never = std::future::pending();
                        serve(&connection, Rc::new(NoTools), HANDSHAKE, never).await;
                    }
                });
            }
        });
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

/// One run of a plugin. Dropping it kills the whole of it.
struct Running {
    process: RefCell<Process>,
    tail: Rc<RefCell<Tail>>,
    exit: watch::Receiver<Option<Exit>>,
    silent: watch::Receiver<bool>,
    _tasks: JoinSet<()>,
}

impl Running {
    /// Starts it; the address at which it is ready is told once it says so.
    fn start(
        name: &str,
        program: &Program,
    ) -> Result<(Running, oneshot::Receiver<String>), Failure> {
        let mut process = Process::spawn(program).map_err(|error| error.to_failure())?;
        let watched = |error: io::Error| {
            let message = format!("cannot watch `{name}`: {error}");
            Failure::new(FailureKind::Unavailable, message)
        };
        let missing = || watched(io::Error::other("a pipe was taken already"));
        drop(process.stdin.take());
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let stdout = Input::from_pipe(stdout).map_err(watched)?;
        let stderr = Input::from_pipe(stderr).map_err(watched)?;
        let end = Watch::new(process.exit_fd()).map_err(watched)?;
        let tail = Rc::<RefCell<Tail>>::default();
        let (tell_ready, ready) = oneshot::channel();
        let (tell_exit, exit) = watch::channel(None);
        let (tell_silent, silent) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn_local(throw_away(stdout));
        let (peer, kept) = (name.to_owned(), tail.clone());
        tasks.spawn_local(async move {
            read_stderr(&peer, stderr, &kept, tell_ready).await;
            tell_silent.send_replace(true);
        });
        tasks.spawn_local(async move {
            end.ready().await;
            // How it ended is looked up by those who want to know.
            tell_exit.send_replace(Some(Exit::Code(0)));
        });
        let process = RefCell::new(process);
        Ok((Running { process, tail, exit, silent, _tasks: tasks }, ready))
    }

    async fn exited(&self) {
        let _ = self.exit.clone().wait_for(Option::is_some).await;
    }

    /// Waits until its standard error has ended.
    async fn is_silent(&self) {
        let _ = self.silent.clone().wait_for(|is_silent| *is_silent).await;
    }

    fn signal(&self, signal: Signal) {
        self.process.borrow().signal_session(signal);
    }

    /// Why it cannot be used, with its last words.
    fn died(&self, name: &str, why: &str) -> Failure {
        let exit = self.process.borrow().exit_seen();
        let stderr = self.tail.borrow().lines().map(str::to_owned).collect();
        Failure::new(FailureKind::Unavailable, format!("plugin `{name}` {why}"))
            .with_last_words(LastWords { exit, stderr, hint: None })
    }
}

/// What a plugin prints is for nobody, and must not stop it.
async fn throw_away(mut input: Input) {
    let mut bytes = BytesMut::new();
    while let Ok(1..) = input.read(&mut bytes).await {
        bytes.clear();
    }
}

async fn read_stderr(
    peer: &str,
    mut stderr: Input,
    tail: &RefCell<Tail>,
    ready: oneshot::Sender<String>,
) {
    let mut ready = Some(ready);
    let mut bytes = BytesMut::new();
    let mut log = |line: &str| {
        if let Some(at) = line.strip_prefix("READY ")
            && let Some(ready) = ready.take()
        {
            let _ = ready.send(at.trim().to_owned());
        }
        tracing::info!(peer, "{line}");
    };
    while let Ok(1..) = stderr.read(&mut bytes).await {
        tail.borrow_mut().push(&bytes, &mut log);
        bytes.clear();
        // A process that never stops complaining must not keep all others waiting.
        tokio::task::yield_now().await;
    }
    tail.borrow_mut().finish(log);
}

fn unavailable(error: &dyn std::error::Error) -> Failure {
    hinted(Failure::new(FailureKind::Unavailable, causes(error)), None)
}
