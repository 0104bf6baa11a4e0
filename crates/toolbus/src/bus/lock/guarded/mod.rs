//! The guard before a back: lists are answered from the lock, and what a connection shows is
//! compared with it before the first call goes out on it.

mod calls;
mod comparing;
mod listed;
mod native;
mod refusing;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::channel::{Down, Notice};
use toolbus_proto::json::Json;
use toolbus_proto::pin::Pinned;
use toolbus_proto::tool::{
    Call, CallerId, Failure, LastWords, Outcome, ToolName, ToolSpec, What, Wire,
};

use super::standing::Standing;
use super::verdict::Verdict;
use super::{OnNew, Rules};
use crate::address::Address;
use crate::bus::back::{Back, Connection, LocalFuture};
use crate::bus::health::Health;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::peer::pins::Pins;
use crate::peer::settings::Settings;
use crate::task::spawn_local;

/// A back behind its guard.
pub(crate) struct Guarded {
    this: Weak<Guarded>,
    inner: Rc<dyn Back>,
    plan: Plan,
    /// Lists are its own and pass as they are, but for what is held back.
    passes: Cell<bool>,
    /// What came of it for each connection that was compared: one may show what another does not.
    compared: RefCell<HashMap<Compared, Option<Rc<Verdict>>>>,
    compared_at: Cell<Option<Instant>>,
    /// What the last comparison found, as a modern and as a legacy client.
    latest: RefCell<[Option<Rc<Verdict>>; 2]>,
    /// Both of them: what is listed goes by it.
    verdict: RefCell<Option<Rc<Verdict>>>,
    is_other_program: Cell<bool>,
    /// Calls that wait for the comparison of their connection that is under way.
    waiting: RefCell<HashMap<Lane, Vec<Rc<Relay>>>>,
    aside: Cell<Aside>,
    watchers: RefCell<Vec<Rc<dyn Fn()>>>,
    standing: RefCell<Vec<Rc<Standing>>>,
    /// The instructions that a modern and a legacy client were last given by the back, where that
    /// is known.
    instructions: RefCell<[Option<Option<String>>; 2]>,
    /// What was said last of each finding, to which clients, so that it is said once.
    told: RefCell<HashMap<(Finding, bool), String>>,
    /// The tools of the lock, as they are called: what modern and what legacy clients are shown.
    pinned_specs: [OnceCell<BTreeMap<String, ToolSpec>>; 2],
    /// What such clients were shown last: all of them keep the same.
    last_tools: RefCell<[Option<Arc<[ToolSpec]>>; 2]>,
    generic: Vec<ToolSpec>,
}

/// Calls that may go out on one connection. A client of the modern era shares its connection with
/// the others, a session of the legacy era may have one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    Modern,
    Legacy(CallerId),
}

/// A connection that was compared. Over a network the sessions of clients are connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Compared {
    Process(u64),
    Remote(Lane),
}

/// What can be found by comparing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Finding {
    Changed,
    New,
    Gone,
    Instructions,
    Program,
}

/// A comparison for which no call waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Aside {
    #[default]
    None,
    UnderWay,
    /// The peer told of a change meanwhile, so what is being read may be of before.
    ToRepeat,
}

/// All by which a guard is what it is.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) name: Arc<str>,
    pub(crate) address: Address,
    pub(crate) settings: Settings,
    pub(crate) allow: Option<HashSet<ToolName>>,
    pub(crate) rules: Rules,
    /// `None` if the lock does not have the back.
    pub(crate) pinned: Option<Arc<Pinned>>,
    pub(crate) pins: Option<&'static dyn Pins>,
    pub(crate) is_fresh: bool,
    /// Where it is noted whether the back answers.
    pub(crate) health: Rc<Health>,
}

impl Plan {
    /// Would a guard by the other one do the same?
    pub(crate) fn is_as(&self, other: &Plan) -> bool {
        self.address == other.address
            && self.settings == other.settings
            && self.allow == other.allow
            && self.rules == other.rules
            && self.pinned == other.pinned
            && self.is_fresh == other.is_fresh
    }
}

impl Plan {
    /// The back is in the config alone, and that is not enough.
    pub(crate) fn is_shut(&self) -> bool {
        self.pinned.is_none() && self.rules.new == OnNew::Refuse
    }
}

/// How much is not as the lock has it, for those who look after a bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Differs {
    /// The lock does not have the back.
    NotLocked,
    /// So many tools.
    Tools(usize),
    /// Its prompts and templates, its program or its instructions: a sentence.
    Otherwise(String),
}

impl Guarded {
    pub(crate) fn new(inner: Rc<dyn Back>, plan: Plan) -> Rc<Guarded> {
        let generic = plan.pins.map(Pins::generic).unwrap_or_default();
        Rc::new_cyclic(|this: &Weak<Guarded>| {
            let again = this.clone();
            let changed: Rc<dyn Fn()> = Rc::new(move || {
                if let Some(guarded) = again.upgrade() {
                    guarded.peer_changed();
                }
            });
            inner.watch(changed);
            Guarded {
                this: this.clone(),
                inner,
                plan,
                passes: Cell::default(),
                compared: RefCell::default(),
                compared_at: Cell::default(),
                latest: RefCell::default(),
                verdict: RefCell::default(),
                is_other_program: Cell::default(),
                waiting: RefCell::default(),
                aside: Cell::default(),
                watchers: RefCell::default(),
                standing: RefCell::default(),
                instructions: RefCell::default(),
                told: RefCell::default(),
                pinned_specs: [OnceCell::new(), OnceCell::new()],
                last_tools: RefCell::default(),
                generic,
            }
        })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Is it answered for by the lock, so that it need not be there for a list?
    pub(crate) fn is_answered_for(&self) -> bool {
        !self.plan.is_fresh && (self.plan.pinned.is_some() || self.is_shut())
    }

    /// The only server of a front passes as it is.
    pub(crate) fn pass_through(&self) {
        self.passes.set(true);
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.plan.is_shut()
    }

    /// Is it there already?
    pub(crate) fn runs(&self) -> bool {
        let call = Call::of(Instant::now(), What::Tools);
        matches!(self.inner.connection(&call), Connection::Open(_))
    }
}

impl Back for Guarded {
    fn wire(&self) -> Wire {
        if self.plan.address.is_bare()
            && let Some(pinned) = &self.plan.pinned
            && let Some(kind) = crate::peer::Registry::default().find(&pinned.wire)
        {
            return kind.wire();
        }
        self.inner.wire()
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(self.tools_asked(self.plan.is_fresh))
    }

    fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        if self.plan.pinned.is_none() && !self.is_shut() {
            return self.inner.start(call, down);
        }
        match (&call.what, self.plan.pins) {
            (What::Tools, Some(_)) if !self.plan.is_fresh || self.is_shut() => {
                let tools = match self.is_shut() {
                    true => Arc::from([]),
                    false => {
                        self.look_at_program();
                        self.tools_now(self.plan.pins.is_some_and(|pins| pins.is_legacy(&call)))
                    }
                };
                done(&down, Ok(Outcome::Tools(tools)))
            }
            (What::Native { .. }, Some(pins)) => self.native(call, down, pins),
            _ if self.is_shut() => done(&down, Err(self.not_locked())),
            (What::Tools, Some(_)) => {
                let relay = Relay::new(call, down);
                let Some(this) = self.this.upgrade() else { return RunningCall::ended() };
                let asked = relay.clone();
                spawn_local(async move {
                    asked.finish(this.tools().await.map(Outcome::Tools));
                });
                relay.set_alarm();
                relay.running_call()
            }
            _ => self.guard(call, down),
        }
    }

    fn text_of(&self, answer: &Json) -> Option<String> {
        self.inner.text_of(answer)
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        self.watchers.borrow_mut().push(changed);
    }

    fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        self.inner.listen(hear);
    }

    fn connection(&self, call: &Call) -> Connection {
        self.inner.connection(call)
    }

    fn is_starting(&self) -> bool {
        self.inner.is_starting()
    }

    fn last_words(&self) -> Option<LastWords> {
        self.inner.last_words()
    }

    fn restarts(&self) -> Option<u64> {
        self.inner.restarts()
    }

    fn rest(&self) -> bool {
        self.inner.rest()
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        self.inner.shutdown()
    }

    fn hurry(&self) {
        self.inner.hurry();
    }

    fn kill(&self) {
        self.inner.kill();
    }
}

fn done(down: &ReplyTo, outcome: Result<Outcome, Failure>) -> RunningCall {
    let _ = down.send(Down::Done(outcome));
    RunningCall::ended()
}
