//! `toolbus serve` as the service of a manager such as systemd: what it was given, and what it tells.
//!
//! The texts are those of [`notify`]; here are the environment, the socket and the clock.

use std::cell::Cell;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process;
use std::rc::Rc;

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use toolbus_engine::secrets::masked;
use toolbus_engine::transport::PassedSocket;
use toolbus_proto::notify::{self, FromManager, Notice, NotifySocket, PassedFd};

use crate::failed::Failed;
use crate::stdio;

/// What the service manager gave us, if one started us.
pub(crate) struct Service {
    given: FromManager,
    /// Sends to the manager; `None` if nothing is to be told.
    notify: Option<UnixDatagram>,
    /// That the manager takes nothing was told.
    is_told: Cell<bool>,
    sockets: Vec<Passed>,
}

/// A socket of the manager's.
pub(crate) struct Passed {
    pub(crate) socket: PassedSocket,
    /// What the manager calls it.
    pub(crate) name: Option<String>,
}

impl Service {
    /// What the variables say that we were started with. They reach no program that we start.
    ///
    /// To be called once: the sockets are ours from then on.
    pub(crate) fn of_process() -> Result<Service, Failed> {
        let given = match stdio::is_guest() {
            // They are meant for the program that we are a guest of.
            true => FromManager::default(),
            false => FromManager::of(process::id(), |name| std::env::var(name).ok()),
        };
        let sockets = given.sockets.iter().map(take_over).collect::<Result<_, _>>()?;
        let notify = given.notify.as_ref().and_then(|_| sender().ok());
        Ok(Service { given, notify, is_told: Cell::new(false), sockets })
    }

    /// The sockets to listen on.
    pub(crate) fn sockets(&self) -> &[Passed] {
        &self.sockets
    }

    /// So much is served from now on.
    pub(crate) fn ready(&self, fronts: usize, backs: usize) {
        self.tell(&Notice::Ready { status: &notify::serving(fronts, backs) });
    }

    /// The config is about to be read again.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        let since = u128::from(seconds) * 1_000_000 + u128::from(nanos) / 1000;
        self.tell(&Notice::Reloading { since });
    }

    /// It was not taken, and all goes on.
    pub(crate) fn not_reloaded(&self, why: &str) {
        self.tell(&Notice::Ready { status: &masked(&notify::not_taken(why)) });
    }

    /// We end.
    pub(crate) fn stopping(&self) {
        self.tell(&Notice::Stopping);
    }

    /// Tells as often as the manager wants that we are alive, as long as the thread of the bus is.
    /// Must be called inside a `LocalSet`.
    pub(crate) fn keep_telling(self: &Rc<Service>) -> Option<JoinHandle<()>> {
        let every = self.given.alive_every?;
        let service = self.clone();
        Some(tokio::task::spawn_local(async move {
            let mut ticks = interval_at(Instant::now() + every, every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                service.tell(&Notice::Alive);
            }
        }))
    }

    /// A manager that takes nothing is told of once, and is no reason to end.
    fn tell(&self, notice: &Notice<'_>) {
        let (Some(notify), Some(to)) = (&self.notify, &self.given.notify) else { return };
        if let Err(error) = send(notify, to, &notice.datagram())
            && !self.is_told.replace(true)
        {
            let shown = match to {
                NotifySocket::Path(path) => path.clone(),
                NotifySocket::Abstract(name) => format!("@{name}"),
            };
            tracing::info!("the service manager at `{shown}` takes nothing: {error}");
        }
    }
}

fn take_over(passed: &PassedFd) -> Result<Passed, Failed> {
    let PassedFd { number, name } = passed;
    let socket = PassedSocket::take_over(*number).map_err(|error| {
        let message = format!("fd {number}, which we were given, is no socket that listens");
        Failed::usage(message).caused_by(&error)
    })?;
    Ok(Passed { socket, name: name.clone() })
}

/// One that does not wait: a manager that hangs must not hold up calls.
fn sender() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn send(from: &UnixDatagram, to: &NotifySocket, datagram: &str) -> io::Result<()> {
    let to = match to {
        NotifySocket::Path(path) => SocketAddr::from_pathname(Path::new(path))?,
        NotifySocket::Abstract(name) => named(name)?,
    };
    from.send_to_addr(datagram.as_bytes(), &to).map(drop)
}

#[cfg(target_os = "linux")]
fn named(name: &str) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    SocketAddr::from_abstract_name(name)
}

/// Elsewhere a socket has a file.
#[cfg(not(target_os = "linux"))]
fn named(_: &str) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
