//! The processes of a server that all its callers share: one for each era that it speaks.
//!
//! Whether a server that serves one era speaks the new one, too, can only be asked of another
//! process. If it does not, that process ends again, and the calls that waited join the others.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Instant;

use bytes::Bytes;
use tokio::task::JoinSet;
use toolbus_proto::mcp::calling::era_of;
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::mcp::{Client, Memory, WIRE};
use toolbus_proto::tool::{Call, LastWords, What};

use super::eras::Eras;
use crate::bus::back::Connection;
use crate::engine::calls::{Inbox, ReplyTo, RunningCall};
use crate::engine::program::Child;
use crate::engine::relay::Relay;
use crate::engine::waiting::WaitingCalls;
use crate::task::{boxed, spawn_local};

/// The processes of one server.
pub(super) struct Processes {
    this: Weak<Processes>,
    make: Box<dyn Fn() -> Child<Client>>,
    eras: Eras,
    legacy: Child<Client>,
    modern: RefCell<Rc<Child<Client>>>,
    /// Calls that wait until it is known whether the server speaks their era.
    waiting: RefCell<Vec<Rc<Relay>>>,
    /// The same, as they are counted.
    asked_for: Rc<WaitingCalls>,
    /// Told goodbye, and not gone yet.
    leaving: RefCell<Vec<Rc<Child<Client>>>>,
    watchers: RefCell<Vec<Rc<dyn Fn()>>>,
}

impl Processes {
    /// Starts nothing yet. All that `make` makes shares this memory of the server's eras.
    /// `name` is what the log calls the server.
    pub(super) fn new(
        name: &str,
        memory: Memory,
        make: impl Fn() -> Child<Client> + 'static,
    ) -> Rc<Processes> {
        Rc::new_cyclic(|this| Processes {
            this: this.clone(),
            eras: Eras::new(memory),
            legacy: make(),
            modern: RefCell::new(Rc::new(make())),
            make: Box::new(make),
            waiting: RefCell::default(),
            asked_for: WaitingCalls::new(format!("`{name}`")),
            leaving: RefCell::default(),
            watchers: RefCell::default(),
        })
    }

    pub(super) fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let era = era_of(&call);
        if era == Era::Modern && self.eras.must_ask() {
            return self.ask_first(call, down);
        }
        self.start_in(self.eras.conversation(era), call, down)
    }

    fn start_in(&self, conversation: Era, call: Call, down: ReplyTo) -> RunningCall {
        match conversation {
            Era::Legacy => self.legacy.start(call, down),
            Era::Modern => self.modern().start(call, down),
        }
    }

    fn modern(&self) -> Rc<Child<Client>> {
        self.modern.borrow().clone()
    }

    /// Finds out in a process of its own whether the server is modern. The call waits for that.
    fn ask_first(&self, call: Call, down: ReplyTo) -> RunningCall {
        let relay = self.asked_for.relay(call, down);
        if !relay.is_waiting() {
            return relay.running_call();
        }
        let is_first = {
            let mut waiting = self.waiting.borrow_mut();
            waiting.push(relay.clone());
            waiting.len() == 1
        };
        if is_first {
            let method = Bytes::from_static(b"server/discover");
            let what = What::Native { wire: WIRE, method, body: Bytes::new() };
            let (inbox, reply_to) = Inbox::new();
            let asked = self.modern().start(Call::of(Instant::now(), what), reply_to);
            let this = self.this.clone();
            spawn_local(async move {
                // Whatever it answers: its era is known by then, or it could not be asked.
                let _ = inbox.whole(asked).await;
                if let Some(this) = this.upgrade() {
                    this.asked();
                }
            });
        }
        relay.running_call()
    }

    /// It was asked whether it is modern: the calls that wait for that go where they belong.
    fn asked(&self) {
        let conversation = self.eras.conversation(Era::Modern);
        if conversation == Era::Legacy {
            self.leave_modern();
        }
        for relay in self.waiting.take() {
            relay.begin(|call, down| self.start_in(conversation, call, down));
        }
    }

    /// The process that was asked is not needed.
    fn leave_modern(&self) {
        let another = Rc::new((self.make)());
        self.watchers.borrow().iter().for_each(|changed| another.watch(changed.clone()));
        let asked = self.modern.replace(another);
        self.leaving.borrow_mut().push(asked.clone());
        let this = self.this.clone();
        spawn_local(async move {
            asked.shutdown().await;
            if let Some(this) = this.upgrade() {
                this.leaving.borrow_mut().retain(|child| !Rc::ptr_eq(child, &asked));
            }
        });
    }

    /// Which process a call would go to; those of the two eras have numbers of their own.
    pub(super) fn connection(&self, call: &Call) -> Connection {
        let era = era_of(call);
        let (child, bit) = match self.eras.would_be(era) {
            Era::Legacy => (self.legacy.run(), 0),
            Era::Modern => (self.modern().run(), 1),
        };
        child.map_or(Connection::None, |run| Connection::Open(run << 1 | bit))
    }

    pub(super) fn watch(&self, changed: Rc<dyn Fn()>) {
        self.legacy.watch(changed.clone());
        self.modern().watch(changed.clone());
        self.watchers.borrow_mut().push(changed);
    }

    pub(super) fn each(&self, tell: impl Fn(&Child<Client>)) {
        tell(&self.legacy);
        tell(&self.modern());
        self.leaving.borrow().iter().for_each(|child| tell(child));
    }

    pub(super) fn rest(&self) -> bool {
        let modern = self.modern().rest();
        self.legacy.rest() || modern
    }

    pub(super) fn is_starting(&self) -> bool {
        self.legacy.is_starting() || self.modern().is_starting()
    }

    /// How the one that is used ended, if it died.
    pub(super) fn last_words(&self) -> Option<LastWords> {
        self.legacy.last_words().or_else(|| self.modern().last_words())
    }

    /// How often one of them was started again.
    pub(super) fn restarts(&self) -> u64 {
        self.legacy.restarts() + self.modern().restarts()
    }

    pub(super) async fn shutdown(&self) {
        let mut others = JoinSet::new();
        let leaving = self.leaving.borrow().clone();
        for child in leaving.into_iter().chain([self.modern()]) {
            others.spawn_local(boxed(async move { child.shutdown().await }));
        }
        tokio::join!(self.legacy.shutdown(), others.join_all());
    }
}
