//! One peer that is called: dialled by the first call, kept, and dialled again on demand.
//!
//! A peer that has lost count of our streams gets a further connection, and the old one is left
//! when its last answer is in. A call that was under way on a lost connection is never repeated.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use tokio::task::JoinSet;
use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::link::{Link, LinkNews};
use crate::bus::back::LocalFuture;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::task::boxed;
use crate::transport::quic::Connection;

/// The way to a peer.
pub trait Reach: 'static {
    /// Connects to it; starts it first, where that is ours to do.
    fn reach(&self) -> LocalFuture<'_, Result<Connection, Failure>>;

    /// Waits until it is known to be gone, though its connection may not tell for long.
    fn gone(&self) -> LocalFuture<'_, Failure> {
        Box::pin(std::future::pending())
    }

    /// Its connection is lost; it is reached again if there is another call.
    fn lost(&self) {}
}

/// One peer that is called. Dropping it closes its connections and ends its calls.
pub(crate) struct Caller {
    inner: Rc<Inner>,
}

struct Inner {
    this: Weak<Inner>,
    name: String,
    settings: ClientSettings,
    reach: Rc<dyn Reach>,
    stage: RefCell<Stage>,
    /// Those that look after connections.
    keepers: RefCell<JoinSet<()>>,
}

enum Stage {
    /// There is no connection.
    Idle,
    /// One is being made, for these.
    Dialling(Vec<Rc<Relay>>),
    Open(Rc<Link>),
    /// No call is taken any more.
    Closed,
}

impl Caller {
    /// Connects to nobody yet. Must be called inside a `LocalSet`.
    pub(crate) fn new(name: String, settings: ClientSettings, reach: Rc<dyn Reach>) -> Caller {
        let inner = Rc::new_cyclic(|this| Inner {
            this: this.clone(),
            name,
            settings,
            reach,
            stage: RefCell::new(Stage::Idle),
            keepers: RefCell::default(),
        });
        Caller { inner }
    }

    /// Asks, at once or as soon as there is a connection.
    pub(crate) fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let open = match &*self.inner.stage.borrow() {
            Stage::Open(link) if link.takes_calls() => Some(link.clone()),
            _ => None,
        };
        if let Some(link) = open {
            return link.start(call, down);
        }
        let relay = Relay::new(call, down);
        let running = relay.running_call();
        self.inner.wait_in_line(relay);
        running
    }

    /// Takes no more calls, and says goodbye.
    pub(crate) async fn shutdown(&self) {
        let stage = self.inner.stage.replace(Stage::Closed);
        if let Stage::Open(link) = stage {
            link.connection().say_goodbye().await;
        }
        self.close();
    }

    /// Takes no more calls, and ends those under way.
    pub(crate) fn close(&self) {
        let stage = self.inner.stage.replace(Stage::Closed);
        if let Stage::Dialling(waiting) = stage {
            let failure = self.inner.is_left();
            waiting.iter().for_each(|relay| relay.finish(Err(failure.clone())));
        }
        drop(self.inner.keepers.take());
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    fn is_left(&self) -> Failure {
        Failure::new(FailureKind::Cancelled, format!("`{}` is being left", self.name))
    }

    fn wait_in_line(&self, relay: Rc<Relay>) {
        {
            let mut stage = self.stage.borrow_mut();
            match &mut *stage {
                Stage::Dialling(waiting) => {
                    relay.set_alarm();
                    return waiting.push(relay);
                }
                Stage::Closed => {}
                Stage::Idle | Stage::Open(_) => {
                    relay.set_alarm();
                    *stage = Stage::Dialling(vec![relay]);
                    drop(stage);
                    return self.keep(None);
                }
            }
        }
        relay.finish(Err(self.is_left()));
    }

    /// Makes a connection and looks after it; what it takes over of an old one is left there.
    fn keep(&self, old: Option<Rc<Link>>) {
        let Some(this) = self.this.upgrade() else { return };
        let mut keepers = self.keepers.borrow_mut();
        while keepers.try_join_next().is_some() {}
        keepers.spawn_local(boxed(async move {
            let reached = this.reach.reach().await;
            let waiting = match this.stage.replace(Stage::Idle) {
                Stage::Dialling(waiting) => waiting,
                Stage::Closed => return drop(this.stage.replace(Stage::Closed)),
                Stage::Idle | Stage::Open(_) => Vec::new(),
            };
            let connection = match reached {
                Ok(connection) => connection,
                Err(failure) => {
                    return waiting.iter().for_each(|relay| relay.finish(Err(failure.clone())));
                }
            };
            let link = Rc::new(Link::new(&this.name, connection, this.settings.clone()));
            this.stage.replace(Stage::Open(link.clone()));
            if let Some(old) = old {
                let further = link.clone();
                let mut keepers = this.keepers.borrow_mut();
                keepers.spawn_local(boxed(async move { old.leave_to(&further).await }));
            }
            for relay in waiting {
                relay.begin(|call, down| link.start(call, down));
            }
            this.look_after(link).await;
        }));
    }

    async fn look_after(&self, link: Rc<Link>) {
        let news = tokio::select! {
            news = link.news() => news,
            why = self.reach.gone() => {
                link.fail(why.clone());
                LinkNews::Lost(why)
            }
        };
        let is_present = match &*self.stage.borrow() {
            Stage::Open(open) => Rc::ptr_eq(open, &link),
            _ => false,
        };
        match news {
            LinkNews::Starved if is_present => {
                tracing::debug!(peer = self.name, "streams are not given back; dialling again");
                self.stage.replace(Stage::Dialling(Vec::new()));
                self.keep(Some(link));
            }
            LinkNews::Starved => {}
            LinkNews::Lost(why) => {
                tracing::info!(peer = self.name, "lost connection: {}", why.message);
                if is_present {
                    self.stage.replace(Stage::Idle);
                    self.reach.lost();
                }
            }
        }
    }
}
