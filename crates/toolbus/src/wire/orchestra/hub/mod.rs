//! A hub: what `toolbus orchestrator` runs (`docs/protocols/orchestra.md` 7 to 10).
//!
//! The rules decide; here their orders are carried out. `callers.rs` is who asks, `plugins.rs`
//! who answers, `config.rs` the file that says which plugins there are.

mod callers;
mod config;
mod plugins;
mod yaml;

use std::cell::{Cell, OnceCell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::task::JoinSet;
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::counted::Counted;
use toolbus_proto::orchestra::hub::{Asker, Hub, Order};
use toolbus_proto::tool::{Call, CallerId, Failure, FailureKind};

use super::certificates::{CertificatesError, Folder};
use super::ids::uuids;
use super::{HostPort, ORCHESTRA, WIRE, tls};
use crate::bus::observe::{Observed, Observer, Observers};
use crate::engine::alarm::Alarm;
use crate::engine::calls::{self, Pressure, ReplyTo, RunningCalls};
use crate::engine::program::DetachedProgram;
use crate::task::boxed;
use crate::transport::quic::{Clients, Dialler, Listener, TlsSetupError};
use crate::transport::tcp::ListenError;
use crate::transport::{self, Whereabouts};
use crate::wake::Wake;
use plugins::Slot;

pub use config::{HubConfig, HubConfigError, PluginEntry};
pub use plugins::{comeback, gone};

/// How often certificates are looked at while the hub runs.
const CERTIFICATES_LOOKED_AT: Duration = Duration::from_secs(24 * 60 * 60);
/// The name of the hub's own certificate.
const ORCHESTRATOR: &str = "orchestrator";
/// How long the last words to those who are connected may take.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A hub that listens.
pub struct Orchestrator {
    inner: Rc<Inner>,
    listener: Rc<Listener>,
    tcp: Option<transport::Listener>,
    clients: Clients,
}

pub(super) struct Inner {
    this: Weak<Inner>,
    hub: RefCell<Hub>,
    folder: Folder,
    entries: Vec<PluginEntry>,
    /// Where plugins find us.
    address: String,
    dialler: Dialler,
    /// Writes a line for people and scripts.
    say: Box<dyn Fn(&str)>,
    /// The calls of those who asked.
    asked: RefCell<Counted<Asker, Asking>>,
    /// What plugins were asked.
    running: RunningCalls,
    observers: OnceCell<Observers>,
    next_caller: Cell<u64>,
    plugins: Vec<Slot>,
    is_settling: Cell<bool>,
    alarm: Alarm,
    /// Every connection is to be closed.
    closing: Wake,
    is_over: Cell<bool>,
    over: Wake,
}

/// A call that came to us.
struct Asking {
    /// Where its answer goes.
    reply: ReplyTo,
    /// It is observed, and no plugin was asked for it yet.
    unrouted: Option<Weak<Observed>>,
    /// The call of a plugin that waits until the asker reads on.
    slow: Option<Ticket>,
}

impl Orchestrator {
    /// Reads its certificates and listens; nothing is started yet. `say` writes the lines that
    /// people and scripts rely on.
    pub async fn open(
        config: HubConfig,
        say: impl Fn(&str) + 'static,
    ) -> Result<Orchestrator, HubError> {
        let folder = Folder::at(&config.certs_dir);
        let identity = folder.identity(ORCHESTRATOR)?;
        for entry in config.plugins.iter().filter(|entry| entry.config.is_enabled) {
            // What is wrong with these is wrong for good, so it is told before anything runs.
            folder.identity(&plugins::client_name(&entry.config.id))?;
        }
        identity.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let clients = match config.allow_anonymous {
            true => Clients::KnownOrAnonymous,
            false => Clients::Known,
        };
        let server = tls::server(&identity, clients)?;
        let HostPort { host, port } = &config.listen_addr;
        let listener = Listener::bind(host, *port, &server).await?;
        let tcp = match &config.tcp_addr {
            None => None,
            Some(HostPort { host, port }) => Some(transport::Listener::tcp(host, *port).await?),
        };
        let address = listener.addresses().first().map(reachable).unwrap_or_default();
        let rules = config.plugins.iter().map(|entry| entry.config.clone()).collect();
        let inner = Rc::new_cyclic(|this| Inner {
            this: this.clone(),
            hub: RefCell::new(Hub::new(config.settings.clone(), rules, uuids())),
            folder,
            plugins: config.plugins.iter().map(|_| Slot::default()).collect(),
            entries: config.plugins,
            address,
            dialler: Dialler::new(),
            say: Box::new(say),
            asked: RefCell::default(),
            running: RunningCalls::default(),
            observers: OnceCell::new(),
            next_caller: Cell::new(0),
            is_settling: Cell::new(false),
            alarm: Alarm::default(),
            closing: Wake::default(),
            is_over: Cell::new(false),
            over: Wake::default(),
        });
        for address in listener.addresses() {
            (inner.say)(&format!("orchestrator listening on {address}"));
        }
        if let Some(tcp) = &tcp {
            let address = match tcp.whereabouts() {
                Ok(Whereabouts::Tcp(address)) => address.to_string(),
                _ => config.tcp_addr.map(|address| address.to_string()).unwrap_or_default(),
            };
            (inner.say)(&format!(
                "warning: tcp_addr {address} lets anyone who can connect call every tool"
            ));
            (inner.say)(&format!("orchestrator TCP server listening on {address}"));
        }
        Ok(Orchestrator { inner, listener: Rc::new(listener), tcp, clients })
    }

    /// Starts the plugins and serves, until it was stopped and all have ended. Must be called
    /// inside a `LocalSet`.
    pub async fn run(mut self) {
        let inner = self.inner.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn_local(boxed(callers::accept(inner.clone(), self.listener.clone())));
        if let Some(tcp) = self.tcp.take() {
            tasks.spawn_local(boxed(callers::accept_tcp(inner.clone(), tcp)));
        }
        tasks.spawn_local(boxed(keep(inner.clone())));
        tasks.spawn_local(boxed(renew(inner.clone(), self.listener.clone(), self.clients)));
        inner.act(|hub, _| hub.start());
        inner.close_when_told(&self.listener).await;
    }

    /// The same; these are told of each call of a tool that comes to it.
    #[must_use]
    pub fn observed_by(self, all: impl IntoIterator<Item = Rc<dyn Observer>>) -> Orchestrator {
        let _ = self.inner.observers.set(Observers::new(ORCHESTRATOR, all));
        self
    }

    /// How to stop it while it runs.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.inner.clone())
    }
}

/// Stops a hub that runs.
#[derive(Clone)]
pub struct Stopper(Rc<Inner>);

impl Stopper {
    /// Says goodbye to all plugins; the hub then ends. `signal` is how people call it.
    pub fn stop(&self, signal: &str) {
        self.0.act(|hub, now| hub.stop(now, signal));
    }

    /// Kills all plugins at once.
    pub fn kill(&self) {
        self.0.kill_all();
    }
}

impl Inner {
    /// Tells the rules something and does what that makes necessary.
    fn act(&self, tell: impl FnOnce(&mut Hub, Instant)) {
        tell(&mut self.hub.borrow_mut(), Instant::now());
        let _ = self.settle();
    }

    /// Carries out all orders. Tells whether somebody who was answered cannot take more.
    fn settle(&self) -> Pressure {
        // What an order leads to waits for its turn behind the others.
        if self.is_settling.replace(true) {
            return Pressure::Ready;
        }
        let mut pressure = Pressure::Ready;
        loop {
            let order = self.hub.borrow_mut().poll_order();
            let Some(order) = order else { break };
            pressure = pressure.max(self.obey(order));
        }
        self.is_settling.set(false);
        self.alarm.set(self.hub.borrow().poll_timeout());
        pressure
    }

    fn obey(&self, order: Order) -> Pressure {
        match order {
            Order::Down(asker, down) => return self.answer(asker, down),
            Order::Call(index, ticket, call) => self.call(index, ticket, *call),
            Order::Up(_, ticket, up) => {
                let _ = self.running.send(ticket, up);
            }
            Order::Start(index) => self.start(index),
            Order::Dial(index, address) => self.dial(index, address),
            Order::Advance(index) => self.tell(index, DetachedProgram::advance),
            Order::Serve(index) => self.tell(index, DetachedProgram::open),
            Order::Break(index, why) => {
                let why = Failure::new(FailureKind::Unavailable, why);
                self.tell(index, |apart, run| apart.break_off(run, why));
            }
            Order::Stop(index) => self.stop(index),
            Order::EndGoodbye(index) => self.tell(index, |apart, _| apart.end_goodbye()),
            Order::Say(line) => (self.say)(&line),
            Order::Log(line) => tracing::info!("{line}"),
            Order::Warn(line) => tracing::warn!("{line}"),
            Order::Close => self.closing.ring(),
            Order::Exit => {
                self.is_over.set(true);
                self.over.ring();
            }
        }
        Pressure::Ready
    }

    /// Goes on with the answer to a caller.
    fn answer(&self, asker: Asker, down: Down) -> Pressure {
        let reply = match down {
            Down::Done(_) => self.asked.borrow_mut().remove(&asker).map(|asking| asking.reply),
            _ => self.asked.borrow().get(&asker).map(|asking| asking.reply.clone()),
        };
        reply.map_or(Pressure::Ready, |reply| reply.send(down))
    }

    /// Asks a plugin.
    fn call(&self, index: usize, ticket: Ticket, mut call: Call) {
        let Some(this) = self.this.upgrade() else { return };
        if let Err(failure) = self.routed(index, ticket, &mut call) {
            return self.hub.borrow_mut().down(Instant::now(), ticket, Down::Done(Err(failure)));
        }
        let Some(link) = self.plugins[index].link() else {
            let failure = Failure::new(FailureKind::Unavailable, "plugin is not connected");
            return self.hub.borrow_mut().down(Instant::now(), ticket, Down::Done(Err(failure)));
        };
        self.running.start(ticket, (), || link.start(call, ReplyTo::new(this, ticket)));
    }

    /// Observers learn which plugin a call goes to; an error refuses it.
    fn routed(&self, index: usize, ticket: Ticket, call: &mut Call) -> Result<(), Failure> {
        let asker = self.hub.borrow().asker_of(ticket);
        let mut asked = self.asked.borrow_mut();
        let asking = asker.and_then(|asker| asked.get_mut(&asker));
        let seen = asking.and_then(|asking| asking.unrouted.take()?.upgrade());
        drop(asked);
        let id = &self.entries[index].config.id;
        seen.map_or(Ok(()), |seen| seen.begin(&id.as_str().into(), WIRE, &ORCHESTRA, call))
    }

    /// An asker reads on: so does the call of the plugin that waited for that.
    fn read_on(&self, slow: Option<Ticket>) {
        if let Some(slow) = slow {
            self.running.resume(slow);
        }
    }

    async fn close_when_told(&self, listener: &Listener) {
        self.closing.rung().await;
        let goodbye = async {
            for slot in &self.plugins {
                slot.say_goodbye().await;
            }
            listener.close();
            crate::wake::turn().await;
            crate::wake::turn().await;
        };
        let _ = tokio::time::timeout(LAST_WORDS, goodbye).await;
        while !self.is_over.get() {
            self.over.rung().await;
        }
    }

    fn next_caller(&self) -> CallerId {
        self.next_caller.set(self.next_caller.get() + 1);
        CallerId(self.next_caller.get())
    }
}

/// What plugins answer.
impl calls::Asker for Inner {
    fn receive(&self, ticket: Ticket, down: Down) -> Pressure {
        if let Down::Done(_) = down {
            self.running.end(ticket);
        }
        let asker = match &down {
            Down::Part(_) => self.hub.borrow().asker_of(ticket),
            _ => None,
        };
        self.hub.borrow_mut().down(Instant::now(), ticket, down);
        let pressure = self.settle();
        if pressure == Pressure::Full
            && let Some(asker) = asker
            && let Some(asking) = self.asked.borrow_mut().get_mut(&asker)
        {
            asking.slow = Some(ticket);
            return Pressure::Full;
        }
        Pressure::Ready
    }

    fn resume(&self, _ticket: Ticket) {}
}

/// Looks at the clock for the rules.
async fn keep(inner: Rc<Inner>) {
    let poll_timeout = || inner.hub.borrow().poll_timeout();
    inner.alarm.keep(poll_timeout, || inner.act(Hub::handle_timeout)).await;
}

/// Looks at the hub's own certificate now and then. Those towards plugins are looked at whenever
/// one is dialled.
async fn renew(inner: Rc<Inner>, listener: Rc<Listener>, clients: Clients) {
    loop {
        tokio::time::sleep(CERTIFICATES_LOOKED_AT).await;
        let renewed = inner.folder.identity(ORCHESTRATOR).map_err(HubError::from);
        let renewed = renewed.and_then(|identity| {
            identity.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            Ok(tls::server(&identity, clients)?)
        });
        match renewed {
            Ok(server) => listener.set_server(&server),
            Err(error) => tracing::warn!("{}", crate::bus::back::causes(&error)),
        }
    }
}

/// An address that listens everywhere is reached on this machine.
fn reachable(address: &SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port()).to_string()
}

/// The file, read; programs are relative to its folder.
pub fn read_config(path: &Path) -> Result<HubConfig, HubFileError> {
    let unreadable = |source| HubFileError::Unreadable { path: path.to_owned(), source };
    let text = std::fs::read(path).map_err(unreadable)?;
    let text = String::from_utf8(text)
        .map_err(|_| unreadable(std::io::Error::other("it is not UTF-8 text")))?;
    let full = std::path::absolute(path).map_err(unreadable)?;
    let folder = full.parent().unwrap_or(Path::new("/"));
    HubConfig::read(&text, folder)
        .map_err(|source| HubFileError::Wrong { path: path.to_owned(), source })
}

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub enum HubFileError {
    /// It cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Unreadable {
        /// Which.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}: {source}", .path.display())]
    Wrong {
        /// Which.
        path: std::path::PathBuf,
        /// What, and where.
        source: HubConfigError,
    },
}

/// Why a hub cannot be opened.
#[derive(Debug, Error)]
pub enum HubError {
    /// There is no certificate to show.
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    /// The certificate cannot be used.
    #[error("cannot use the certificates")]
    Tls(#[from] TlsSetupError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
}
