//! Where commands come in: a file of our own that goes with us.

use std::cell::{Cell, RefCell};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use toolbus_proto::run::{Greeting, PROTOCOL, Server};
use toolbus_proto::tool::CallerId;

use super::route::RunRoute;
use super::stamp::Stamp;
use crate::bus::Bus;
use crate::engine::calls::Sharing;
use crate::engine::front::Front;
use crate::task::spawn_local;
use crate::transport::tcp::ListenError;
use crate::transport::{Arrival, Listener};

/// Connections at a time; who comes then waits unanswered.
const CONNECTIONS_MAX: usize = 256;
/// The longest path of a socket that every system takes, its final zero counted.
const PATH_BYTES_MAX: usize = 104;
/// A connection is open as soon as it is there; over a Unix socket this is never waited for.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(1);
/// How often, and how long, another process is waited for that looks for a place in the same folder.
const TURNS: u32 = 100;
const TURN: Duration = Duration::from_millis(10);

/// The socket of a `toolbus serve`. Dropping it closes it; calls under way are then cancelled.
pub struct RunSocket {
    shared: Rc<RunHost>,
    path: PathBuf,
    serving: Option<JoinHandle<()>>,
}

/// What all connections have in common.
pub(super) struct RunHost {
    bus: RefCell<Bus>,
    stamp: RefCell<Stamp>,
    /// The fronts and what was said of where they listen.
    fronts: RefCell<Vec<(String, String)>>,
    /// How long calls in flight have, once none is taken any more.
    stop: watch::Sender<Option<Duration>>,
    /// Counts those who came.
    came: Cell<u64>,
}

/// Why a `toolbus serve` has no run socket.
#[derive(Debug, Error)]
pub enum NoRunSocket {
    /// Others might have put it there.
    #[error("the folder `{folder}` {why}", folder = .folder.display())]
    Folder {
        /// Where it would be.
        folder: PathBuf,
        /// What is wrong with that.
        why: String,
    },
    /// No system would take it.
    #[error("the path `{path}` has {bytes} bytes, and {PATH_BYTES_MAX} fit", path = .path.display())]
    TooLong {
        /// Where it would be.
        path: PathBuf,
        /// How long that is.
        bytes: usize,
    },
    /// Another `toolbus serve` has it.
    #[error("another `toolbus serve` of this config has it")]
    Taken,
    /// The system does not let us.
    #[error(transparent)]
    Listen(ListenError),
}

impl NoRunSocket {
    /// Is it as it should be, or ought the user to look?
    pub fn is_usual(&self) -> bool {
        matches!(self, NoRunSocket::TooLong { .. } | NoRunSocket::Taken)
    }
}

impl RunSocket {
    /// Lets commands in from now on, by a file in this folder, to the backs of `bus`. Must be called
    /// inside a `LocalSet`.
    pub async fn open(folder: &Path, stamp: Stamp, bus: Bus) -> Result<RunSocket, NoRunSocket> {
        let path = stamp.socket_in(folder);
        let bytes = path.as_os_str().as_bytes().len();
        if PATH_BYTES_MAX < bytes {
            return Err(NoRunSocket::TooLong { path, bytes });
        }
        let strange = |why: String| NoRunSocket::Folder { folder: folder.to_owned(), why };
        own(folder).map_err(strange)?;
        // Of two that find the same dead socket one alone may take its place.
        let turn =
            turn(folder).await.map_err(|error| strange(format!("cannot be locked: {error}")))?;
        let listener = Listener::unix(&path).map_err(|error| match error {
            ListenError::InUse { .. } => NoRunSocket::Taken,
            error => NoRunSocket::Listen(error),
        })?;
        drop(turn);
        let shared = Rc::new(RunHost {
            bus: RefCell::new(bus),
            stamp: RefCell::new(stamp),
            fronts: RefCell::default(),
            stop: watch::Sender::new(None),
            came: Cell::new(0),
        });
        let serving = spawn_local(shared.clone().serve(listener));
        Ok(RunSocket { shared, path, serving: Some(serving) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls go to the backs of `bus` from now on, which was made of this.
    pub fn lead_to(&self, bus: Bus, stamp: Stamp) {
        self.shared.bus.replace(bus);
        self.shared.stamp.replace(stamp);
    }

    /// Those who ask are told where fronts listen: each by its name, and what was said of it.
    pub fn set_fronts(&self, fronts: Vec<(String, String)>) {
        self.shared.fronts.replace(fronts);
    }

    /// Lets no command in any more, and removes the file; calls under way have so long to end.
    pub fn stop(mut self, patience: Duration) -> Option<JoinHandle<()>> {
        self.shared.stop.send_replace(Some(patience));
        self.serving.take()
    }
}

impl RunHost {
    async fn serve(self: Rc<Self>, listener: Listener) {
        let mut connections = JoinSet::new();
        let stopped = self.stopped();
        let mut stopped = std::pin::pin!(stopped);
        let patience = loop {
            let has_room = connections.len() < CONNECTIONS_MAX;
            tokio::select! {
                biased;
                patience = &mut stopped => break patience,
                Some(_) = connections.join_next() => {}
                arrival = listener.accept(), if has_room => {
                    connections.spawn_local(self.clone().welcome(arrival));
                }
            }
        };
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(patience, all).await;
    }

    async fn welcome(self: Rc<Self>, arrival: Arrival) {
        let Ok(stream) = arrival.open(HANDSHAKE_PATIENCE).await else { return };
        match stream.identity().uid {
            Some(uid) if is_trusted(uid) => {}
            uid => {
                let uid = uid.map_or_else(|| "unknown".to_owned(), |uid| uid.to_string());
                return tracing::info!(
                    "run socket: a process of another user, {uid}, is not heard"
                );
            }
        }
        let caller = CallerId(self.came.get() + 1);
        self.came.set(caller.0);
        let machine = Server::new(&self.greeting(), caller);
        let route = Rc::new(RunRoute::new(self.clone()));
        let front = Front::with_sharing(machine, route, None, Sharing::Alone);
        front.set_peer("a command".to_owned());
        let (source, sink, rest) = stream.split();
        let stopped = async {
            let patience = self.stopped().await;
            let _ = tokio::time::timeout(patience, front.idle()).await;
        };
        tokio::select! {
            biased;
            _ = front.serve(source, sink) => return,
            () = stopped => {}
        }
        rest.close().await;
    }

    fn greeting(&self) -> Greeting {
        let Stamp { path, digest, env } = self.stamp.borrow().clone();
        Greeting {
            toolbus: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            pid: std::process::id(),
            config: path.display().to_string(),
            digest,
            env,
        }
    }

    /// Waits until no call is to be taken any more, and gives how long those in flight have.
    async fn stopped(&self) -> Duration {
        let mut stop = self.stop.subscribe();
        // Cannot fail: the sender is ours.
        let asked = stop.wait_for(Option::is_some).await;
        asked.ok().and_then(|asked| *asked).unwrap_or_default()
    }

    pub(super) fn bus(&self) -> Bus {
        self.bus.borrow().clone()
    }

    pub(super) fn fronts(&self) -> Vec<(String, String)> {
        self.fronts.borrow().clone()
    }
}

impl Drop for RunSocket {
    fn drop(&mut self) {
        self.shared.stop.send_if_modified(|stop| {
            let is_first = stop.is_none();
            stop.get_or_insert(Duration::ZERO);
            is_first
        });
    }
}

/// May a process of this user be at the other end? It can do all that we can.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Makes the folder, and looks whether no other user can put anything there.
fn own(folder: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let cannot = |error: io::Error| format!("cannot be made: {error}");
    let there = match (fs::symlink_metadata(folder), made) {
        (Ok(there), _) => there,
        (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(cannot(error)),
    };
    if !there.is_dir() {
        return Err("is no folder".to_owned());
    }
    if there.uid() != geteuid().as_raw() {
        return Err("belongs to another user".to_owned());
    }
    match there.mode() & 0o777 {
        0o700 => Ok(()),
        mode => Err(format!("has the mode {mode:04o}, and must have 0700")),
    }
}

/// Waits for our turn to look for a place in this folder. It is over when the file is dropped.
async fn turn(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    for _ in 0..TURNS {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => sleep(TURN).await,
            Err(error) => return Err(error.into()),
            Ok(()) => break,
        }
    }
    // Who holds it for so long does not look for a place.
    Ok(file)
}
