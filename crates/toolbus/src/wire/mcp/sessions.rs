//! A process, or a conversation over HTTP, for each legacy session, where servers cannot tell
//! their clients apart (`share = "session"`, `docs/protocols/mcp.md` 2.5).
//!
//! A session is one long call, `initialize`. With the last such call of a caller its process
//! is told goodbye.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use tokio::task::JoinSet;
use toolbus_proto::channel::Down;
use toolbus_proto::tool::{Call, CallerId, Failure, FailureKind, What};

use crate::bus::back::LocalFuture;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::task::{boxed, spawn_local};

/// The process or the conversation over HTTP that belongs to one session.
pub(super) trait SessionPeer {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall;
    /// Says goodbye.
    fn leave(&self) -> LocalFuture<'_, ()>;
    /// How often it was started again.
    fn restarts(&self) -> u64 {
        0
    }
}

/// The processes of one server, by whom they are for.
pub(super) struct Sessions<C> {
    this: Weak<Sessions<C>>,
    make: Box<dyn Fn() -> C>,
    open: RefCell<HashMap<CallerId, Session<C>>>,
    /// Told goodbye, and not gone yet.
    leaving: RefCell<Vec<Rc<C>>>,
    /// How often those were started again that are gone.
    restarts: Cell<u64>,
}

struct Session<C> {
    child: Rc<C>,
    /// The calls of `initialize`: two while a session is begun anew.
    links: usize,
}

impl<C: SessionPeer + 'static> Sessions<C> {
    /// Starts nothing yet; `make` is asked for each session.
    pub(super) fn new(make: impl Fn() -> C + 'static) -> Rc<Sessions<C>> {
        Rc::new_cyclic(|this| Sessions {
            this: this.clone(),
            make: Box::new(make),
            open: RefCell::default(),
            leaving: RefCell::default(),
            restarts: Cell::new(0),
        })
    }

    pub(super) fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        match &call.what {
            What::Native { method, .. } if method == "initialize" => self.link(call, down),
            _ => {
                let open = self.open.borrow();
                let child = open.get(&call.caller).map(|session| session.child.clone());
                drop(open);
                match child {
                    Some(child) => child.start(call, down),
                    None => {
                        let message = "the server of this session has ended";
                        let failure = Failure::new(FailureKind::Gone, message);
                        let _ = down.send(Down::Done(Err(failure)));
                        RunningCall::ended()
                    }
                }
            }
        }
    }

    fn link(&self, call: Call, down: ReplyTo) -> RunningCall {
        let caller = call.caller;
        let child = {
            let mut open = self.open.borrow_mut();
            let session = open
                .entry(caller)
                .or_insert_with(|| Session { child: Rc::new((self.make)()), links: 0 });
            session.links += 1;
            session.child.clone()
        };
        let relay = Relay::new(call, down);
        let this = self.this.clone();
        relay.at_end(move || {
            if let Some(sessions) = this.upgrade() {
                sessions.unlink(caller);
            }
        });
        relay.begin(|call, down| child.start(call, down));
        relay.running_call()
    }

    /// A call of `initialize` is over.
    fn unlink(&self, caller: CallerId) {
        let mut open = self.open.borrow_mut();
        let Some(session) = open.get_mut(&caller) else { return };
        session.links -= 1;
        if 0 < session.links {
            return;
        }
        let (Some(session), Some(this)) = (open.remove(&caller), self.this.upgrade()) else {
            return;
        };
        self.leaving.borrow_mut().push(session.child.clone());
        spawn_local(async move {
            session.child.leave().await;
            this.restarts.set(this.restarts.get() + session.child.restarts());
            this.leaving.borrow_mut().retain(|child| !Rc::ptr_eq(child, &session.child));
        });
    }

    /// The one of this caller.
    pub(super) fn of(&self, caller: CallerId) -> Option<Rc<C>> {
        self.open.borrow().get(&caller).map(|session| session.child.clone())
    }

    /// The servers that have not gone yet.
    pub(super) fn living(&self) -> Vec<Rc<C>> {
        let open = self.open.borrow();
        let leaving = self.leaving.borrow();
        open.values().map(|session| &session.child).chain(leaving.iter()).cloned().collect()
    }

    /// How often one of them was started again.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts.get() + self.living().iter().map(|child| child.restarts()).sum::<u64>()
    }

    pub(super) async fn shutdown(&self) {
        let mut leaving = JoinSet::new();
        for child in self.living() {
            leaving.spawn_local(boxed(async move { child.leave().await }));
        }
        leaving.join_all().await;
    }
}
