//! Micro services behind the bus: one connection, made by the first call and again when it is lost.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use toolbus_proto::nats::{
    Client as Machine, ClientMemory, ClientSettings, Retry, SeenNode, random_id,
};
use toolbus_proto::tool::{Call, Failure, FailureKind, Wire};

use super::WIRE;
use super::front::is_own;
use super::numbers::{CONNECTED, NODES, RECONNECTS, RESENT, WINDOWS, reading};
use super::reach::Reach;
use super::settings::{self, NatsSettings, Unfit};
use crate::address::{Address, Place};
use crate::bus::TIMEOUT;
use crate::bus::back::{Back, LocalFuture};
use crate::bus::meters::{self, Meter, MeterReading};
use crate::chance::OsRandom;
use crate::engine::calls::{ReplyTo, RunningCall, Sharing};
use crate::engine::client::Client;
use crate::engine::relay::Relay;
use crate::engine::waiting::WaitingCalls;
use crate::peer::open::unfit;
use crate::peer::settings::{Clients, Settings};
use crate::peer::{OpenError, Registry};
use crate::task::boxed;

/// How long is waited before servers that are away are tried again, and how that grows.
pub(super) const AGAIN: Duration = Duration::from_millis(250);
pub(super) const AGAIN_MAX: Duration = Duration::from_secs(5);
/// How long a connection whose server is about to stop stays for its calls.
pub(super) const LEAVING: Duration = Duration::from_secs(30);

/// What a back has to know besides its servers.
#[derive(Debug, Clone)]
pub struct BackOptions {
    /// What the log calls it.
    pub name: String,
    /// The service; none for all of them.
    pub service: Option<String>,
    /// One instance alone.
    pub id: Option<String>,
    /// When a call is sent again.
    pub retry: Retry,
    /// How long a call may be quiet.
    pub timeout: Duration,
    /// Ask nodes how they are.
    pub asks_state: bool,
    /// Callers may come at any time: who is there is asked again and again.
    pub is_served: bool,
}

/// Services that are reached by the first call.
pub struct Nats {
    inner: Rc<Ties>,
}

type Joined = Client<Machine<OsRandom>>;

struct Ties {
    this: Weak<Ties>,
    options: BackOptions,
    reach: Reach,
    stage: RefCell<TiesStage>,
    /// The calls for which a connection is being made, as they are counted.
    dialled_for: Rc<WaitingCalls>,
    /// A front wants to be told of changes.
    watched: Cell<bool>,
    /// Who is there is asked again and again.
    looks_round: Rc<Cell<bool>>,
    /// What our subjects for answers begin with: another connection beside one that is being left
    /// has others.
    inbox: RefCell<String>,
    memory: Rc<ClientMemory>,
    /// A call waits for the next attempt.
    hurry: Notify,
    watchers: RefCell<Vec<Rc<dyn Fn()>>>,
    keepers: RefCell<JoinSet<()>>,
    was_lost: Cell<bool>,
    reconnects: Cell<u64>,
    /// What was counted on connections that are over.
    resent: RefCell<BTreeMap<&'static str, u64>>,
}

enum TiesStage {
    Idle,
    /// A connection is being made, for these.
    Dialling(Vec<Rc<Relay>>),
    Open(Rc<Joined>),
    Closed,
}

impl Nats {
    /// Connects to nobody yet. Must be called inside a `LocalSet`.
    pub fn new(options: BackOptions, reach: Reach) -> Nats {
        let inbox = new_inbox(&reach);
        let is_served = options.is_served;
        let dialled_for = WaitingCalls::new(format!("`{}`", options.name));
        let inner = Rc::new_cyclic(|this| Ties {
            this: this.clone(),
            options,
            reach,
            inbox: RefCell::new(inbox),
            stage: RefCell::new(TiesStage::Idle),
            dialled_for,
            watched: Cell::new(false),
            looks_round: Rc::new(Cell::new(is_served)),
            memory: Rc::default(),
            hurry: Notify::new(),
            watchers: RefCell::default(),
            keepers: RefCell::default(),
            was_lost: Cell::new(false),
            reconnects: Cell::new(0),
            resent: RefCell::default(),
        });
        let meter: Rc<dyn Meter> = inner.clone();
        meters::watch(&meter);
        Nats { inner }
    }

    /// Who is there, as found out anew.
    pub async fn nodes(&self) -> Result<Vec<SeenNode>, Failure> {
        self.tools().await?;
        let client = match &*self.inner.stage.borrow() {
            TiesStage::Open(client) => Some(client.clone()),
            _ => None,
        };
        Ok(client.map(|client| client.ask(Machine::nodes)).unwrap_or_default())
    }

    fn close(&self) {
        if let TiesStage::Dialling(waiting) = self.inner.stage.replace(TiesStage::Closed) {
            let failure = self.inner.is_left();
            waiting.iter().for_each(|relay| relay.finish(Err(failure.clone())));
        }
        drop(self.inner.keepers.take());
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.close();
    }
}

impl Ties {
    fn is_left(&self) -> Failure {
        Failure::new(FailureKind::Cancelled, format!("`{}` is being left", self.options.name))
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let open = match &*self.stage.borrow() {
            TiesStage::Open(client) if client.takes_calls() => Some(client.clone()),
            _ => None,
        };
        if let Some(client) = open {
            return client.start(call, down);
        }
        let relay = self.dialled_for.relay(call, down);
        let running = relay.running_call();
        if relay.is_waiting() {
            self.wait(relay);
        }
        running
    }

    fn wait(&self, relay: Rc<Relay>) {
        let mut stage = self.stage.borrow_mut();
        match &mut *stage {
            TiesStage::Dialling(waiting) => {
                relay.set_alarm();
                waiting.push(relay);
                self.hurry.notify_one();
            }
            TiesStage::Closed => {
                drop(stage);
                relay.finish(Err(self.is_left()));
            }
            TiesStage::Idle | TiesStage::Open(_) => {
                relay.set_alarm();
                *stage = TiesStage::Dialling(vec![relay]);
                drop(stage);
                self.keep();
            }
        }
    }

    /// Connects, and looks after the connection until it is lost; then again, if someone wants to
    /// be told of changes.
    fn keep(&self) {
        let Some(this) = self.this.upgrade() else { return };
        let mut keepers = self.keepers.borrow_mut();
        while keepers.try_join_next().is_some() {}
        keepers.spawn_local(boxed(async move {
            let mut again = Duration::ZERO;
            loop {
                let reached = this.connect().await;
                let waiting = match this.stage.replace(TiesStage::Idle) {
                    TiesStage::Dialling(waiting) => waiting,
                    TiesStage::Closed => return drop(this.stage.replace(TiesStage::Closed)),
                    TiesStage::Idle | TiesStage::Open(_) => Vec::new(),
                };
                match reached {
                    Ok(client) => {
                        let begun = Instant::now();
                        this.stage.replace(TiesStage::Open(client.clone()));
                        for relay in waiting {
                            relay.begin(|call, down| client.start(call, down));
                        }
                        if this.was_lost.take() {
                            this.reconnects.set(this.reconnects.get() + 1);
                            let at = this.reach.shown();
                            tracing::info!(
                                "`{}` is connected to NATS at {at} again",
                                this.options.name
                            );
                        }
                        this.look_after(client).await;
                        again = after(begun, again);
                    }
                    Err(failure) => {
                        // They are told that there is nothing, so what comes is a change.
                        this.memory.told.borrow_mut().get_or_insert_default();
                        waiting.iter().for_each(|relay| relay.finish(Err(failure.clone())));
                    }
                }
                if matches!(&*this.stage.borrow(), TiesStage::Closed) || !this.watched.get() {
                    return;
                }
                if let TiesStage::Idle = &*this.stage.borrow() {
                } else {
                    return;
                }
                this.stage.replace(TiesStage::Dialling(Vec::new()));
                tokio::select! {
                    () = tokio::time::sleep(jittered(again)) => {}
                    () = this.hurry.notified() => {}
                }
                again = (2 * again).clamp(AGAIN, AGAIN_MAX);
            }
        }));
    }

    async fn connect(&self) -> Result<Rc<Joined>, Failure> {
        let connected = self.reach.connect().await?;
        let BackOptions { name, service, id, retry, asks_state, .. } = self.options.clone();
        let settings = ClientSettings {
            at: connected.at,
            info: connected.info,
            service,
            id,
            inbox: self.inbox.borrow().clone(),
            retry,
            wires: wires(),
            own: Rc::new(is_own),
            watched: self.looks_round.clone(),
            memory: self.memory.clone(),
            asks_state,
        };
        let machine = Machine::new(Instant::now(), settings, OsRandom::new());
        let (source, sink) = (connected.source, connected.sink);
        let client = Rc::new(Client::new(&name, machine, Sharing::Credited, source, sink));
        let this = self.this.clone();
        client.watch(Rc::new(move || {
            if let Some(this) = this.upgrade() {
                let watchers = this.watchers.borrow().clone();
                watchers.iter().for_each(|changed| changed());
            }
        }));
        Ok(client)
    }

    /// Until it is lost, or its server is about to stop: then another is made beside it.
    async fn look_after(&self, client: Rc<Joined>) {
        let is_leaving = client.until(|machine| machine.info().ldm).await;
        self.reach.remember(&client.ask(|machine| machine.info().clone()));
        for (why, count) in client.ask(Machine::traffic).resent {
            *self.resent.borrow_mut().entry(why).or_default() += count;
        }
        if is_leaving {
            self.stage.replace(TiesStage::Idle);
            self.inbox.replace(new_inbox(&self.reach));
            let keepers = &mut *self.keepers.borrow_mut();
            keepers.spawn_local(boxed(async move {
                let _ = tokio::time::timeout(LEAVING, client.until(Machine::is_idle)).await;
            }));
            return;
        }
        // A call may have found it lost before, and have another made.
        let is_ours = match &*self.stage.borrow() {
            TiesStage::Closed => return,
            TiesStage::Open(open) => Rc::ptr_eq(open, &client),
            TiesStage::Idle | TiesStage::Dialling(_) => false,
        };
        if is_ours {
            self.stage.replace(TiesStage::Idle);
        }
        self.was_lost.set(true);
        let at = self.reach.shown();
        tracing::warn!("`{}` lost the connection to NATS at {at}", self.options.name);
    }
}

impl Meter for Ties {
    fn read(&self) -> Vec<MeterReading> {
        let traffic = match &*self.stage.borrow() {
            TiesStage::Open(client) => Some(client.ask(Machine::traffic)),
            _ => None,
        };
        let back = [("back", self.options.name.as_str())];
        let is_connected = u64::from(traffic.is_some());
        let traffic = traffic.unwrap_or_default();
        let mut resent = self.resent.borrow().clone();
        for (why, count) in &traffic.resent {
            *resent.entry(why).or_default() += count;
        }
        let mut read = vec![
            reading(&CONNECTED, &back, is_connected),
            reading(&RECONNECTS, &[], self.reconnects.get()),
            reading(&NODES, &back, traffic.nodes as u64),
            reading(&WINDOWS, &back, traffic.windows),
        ];
        for (why, count) in resent {
            read.push(reading(&RESENT, &[back[0], ("why", why)], count));
        }
        read
    }
}

/// What the subjects begin with on which one connection takes answers.
pub(super) fn new_inbox(reach: &Reach) -> String {
    format!("{}.{}", reach.inbox(), random_id(&mut OsRandom::new()))
}

/// How long is waited for the next connection after one that was there since `begun`: not at all,
/// unless it was hardly there.
pub(super) fn after(begun: Instant, again: Duration) -> Duration {
    if begun.elapsed() < AGAIN { again.max(AGAIN) } else { Duration::ZERO }
}

/// A random 0.75 to 1 of it, so that many do not come at once.
pub(super) fn jittered(time: Duration) -> Duration {
    let [chance] = crate::chance::bytes();
    time * 3 / 4 + time / 4 * u32::from(chance) / 255
}

/// The wires whose results may pass as they are.
pub(super) fn wires() -> Vec<Wire> {
    Registry::default().wires().map(crate::peer::PeerKind::wire).collect()
}

impl Back for Nats {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.inner.options.timeout)
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.inner.start(call, down)
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        self.inner.watched.set(true);
        self.inner.looks_round.set(true);
        self.inner.watchers.borrow_mut().push(changed);
    }

    fn remarks(&self) -> Vec<String> {
        match &*self.inner.stage.borrow() {
            TiesStage::Open(client) => client.ask(Machine::remarks),
            _ => Vec::new(),
        }
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            self.close();
        })
    }

    fn kill(&self) {
        self.close();
    }
}

/// How the servers of an address are reached, and the service that it names.
pub fn reach_of(
    address: &Address,
    settings: &Settings,
) -> Result<(Reach, Option<String>), OpenError> {
    let Place::Url(url) = address.place() else { return Err(unfit(address, "a URL")) };
    let wrong = |unfit: Unfit| OpenError::unusable(address, unfit.message).hinted(unfit.hint);
    let own: NatsSettings = settings.wire.get();
    let service = settings::name(url).map_err(wrong)?;
    let servers = own.servers(url, service).map_err(wrong)?;
    Ok((Reach::new(servers, settings.start_timeout), service.map(str::to_owned)))
}

/// The back of an address; `asks_state` for those who look at nodes.
pub fn back(address: &Address, settings: &Settings, asks_state: bool) -> Result<Nats, OpenError> {
    let Place::Url(url) = address.place() else { return Err(unfit(address, "a URL")) };
    let own: NatsSettings = settings.wire.get();
    let (reach, service) = reach_of(address, settings)?;
    let name = service.clone().unwrap_or_else(|| address.peer_name());
    let options = BackOptions {
        name: settings.name.clone().unwrap_or(name),
        service,
        id: url.parameter("id").map(str::to_owned),
        retry: own.retry,
        timeout: settings.timeout.unwrap_or(TIMEOUT),
        asks_state,
        is_served: settings.clients == Clients::Many,
    };
    Ok(Nats::new(options, reach))
}
