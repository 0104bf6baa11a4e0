//! The bus for fronts that can do with less: who cannot be reached is left out of the list of
//! tools, and asked again with the next list, or with the next call that may be for it.
//!
//! A front does not wait for one that is slow, either: its tools are offered when they are
//! there, and whoever is told of changes is told of that.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::spawn_local;
use toolbus_proto::tool::{
    Call, CallerId, Failure, FailureKind, Outcome, ToolName, ToolSpec, What, Wire,
};

use super::Route;
use super::back::tools_in;
use super::observe::Observed;
use crate::bus::{Bus, Listed, Member};
use crate::child::stderr::SHOWN;
use crate::engine::calls::{Inbox, ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::engine::wake::Wake;

/// How long a list that is for others too waits for one back: less than the two seconds after
/// which a client of ours doubts what it talks to.
pub const SLOW: Duration = Duration::from_millis(1500);

/// The bus, asked for its tools whenever a client wants to know them.
pub struct LenientBus(Rc<Offered>);

impl LenientBus {
    /// No back is asked before a client wants to know.
    pub fn new(bus: Rc<Bus>) -> LenientBus {
        LenientBus::telling(bus, Rc::default())
    }

    /// As [`LenientBus::new`]; `changed` is rung when others are offered than the client was told.
    pub(crate) fn telling(bus: Rc<Bus>, changed: Rc<Wake>) -> LenientBus {
        LenientBus::with(bus, changed, Some(SLOW))
    }

    /// As [`LenientBus::new`], but a list is complete: who is slow is waited for.
    pub(super) fn patient(bus: Rc<Bus>) -> LenientBus {
        LenientBus::with(bus, Rc::default(), None)
    }

    fn with(bus: Rc<Bus>, changed: Rc<Wake>, patience: Option<Duration>) -> LenientBus {
        bus.offer_own();
        let slow = bus.members.iter().map(|_| Cell::new(false)).collect();
        LenientBus(Rc::new_cyclic(|this| Offered {
            this: this.clone(),
            bus,
            heard: Cell::new(Heard::None),
            changed,
            patience,
            slow,
            listed: RefCell::default(),
        }))
    }
}

impl LenientBus {
    /// The tools of all who can be reached.
    pub(super) async fn tools(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        self.0.ask(&Asking::default()).await
    }
}

impl Route for LenientBus {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let must_ask = match &call.what {
            What::Tools => true,
            What::Tool { name, .. } => self.0.may_be_left_out(name),
            What::Native { .. } => false,
        };
        self.0.bus.observers.start(call, down, |call, down, seen| match must_ask {
            true => later(self.0.clone(), call, down, seen),
            false => self.0.bus.start_seen(call, down, seen),
        })
    }

    fn refuse(&self, call: Call, down: ReplyTo, why: Failure) {
        self.0.bus.refuse(call, down, why);
    }
}

/// What the bus offered when it was last asked.
struct Offered {
    this: Weak<Offered>,
    bus: Rc<Bus>,
    heard: Cell<Heard>,
    /// Rung when others are offered than the client was told.
    changed: Rc<Wake>,
    /// How long one back may keep the list of all waiting.
    patience: Option<Duration>,
    /// Which backs have been asked, took too long and have not answered yet.
    slow: Vec<Cell<bool>>,
    /// What the backs said last.
    listed: RefCell<Vec<Listed>>,
}

/// Who was heard when the bus was last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// No back was asked yet, or no list could be made.
    None,
    /// A back did not answer.
    Some,
    All,
}

/// One time that all backs are asked.
struct Round {
    answers: RefCell<Vec<Option<Answer>>>,
    /// Rung by each answer.
    answered: Wake,
    /// Nobody waits for the rest: who answers now is late.
    is_over: Cell<bool>,
}

type Answer = Result<Arc<[ToolSpec]>, Failure>;

/// Who asks for the tools: a back that speaks the same is asked in its caller's own words.
#[derive(Debug, Clone, Default)]
struct Asking {
    caller: CallerId,
    wire: Option<Wire>,
    request: Option<Bytes>,
}

impl Asking {
    fn of(call: &Call) -> Asking {
        let (caller, wire) = (call.caller, call.options.native);
        Asking { caller, wire, request: call.request.clone() }
    }

    /// Asks one back.
    async fn ask(self, member: &Member) -> Answer {
        let Asking { caller, wire, request } = self;
        let back = &member.back;
        if request.is_none() || wire != Some(back.wire()) {
            return member.tools().await;
        }
        let (inbox, reply_to) = Inbox::new();
        let mut call = Call { caller, request, ..Call::of(Instant::now(), What::Tools) };
        call.options.native = wire;
        call.deadline.quiet = back.timeout();
        let outcome = inbox.whole(back.start(call, reply_to)).await;
        let tools = outcome.and_then(tools_in);
        member.health.listed(&tools);
        tools
    }
}

impl Offered {
    fn names(&self) -> Vec<ToolName> {
        self.bus.offered().into_iter().map(|tool| tool.name).collect()
    }

    /// Is it offered by nobody, but may be a tool of a back that was left out?
    fn may_be_left_out(&self, name: &ToolName) -> bool {
        self.heard.get() != Heard::All && !self.bus.is_offered(name)
    }

    /// Has its back been asked for its tools, and not answered yet?
    fn owner_is_slow(&self, name: &ToolName) -> bool {
        self.bus.owner(name).is_some_and(|owner| self.slow[owner].get())
    }

    /// Asks all backs, and offers from now on what they have.
    async fn ask(&self, asking: &Asking) -> Result<Arc<[ToolSpec]>, Failure> {
        let listed = match self.patience {
            None => self.bus.list().await,
            Some(patience) => self.list_within(patience, asking).await,
        };
        let is_slow = self.slow.iter().any(Cell::get);
        let mut first_failure = None;
        for (index, Listed { back, tools, .. }) in listed.iter().enumerate() {
            match tools {
                Err(failure) => {
                    first_failure.get_or_insert(failure);
                    if !self.slow[index].get() {
                        left_out(back, failure);
                    }
                }
                Ok(_) if !self.slow[index].get() => is_back(back),
                Ok(_) => {}
            }
        }
        if let Some(failure) = first_failure
            && !is_slow
            && listed.iter().all(|listed| listed.tools.is_err())
        {
            return Err(failure.clone());
        }
        match self.heard.get() {
            Heard::None => self
                .bus
                .offer(&listed)
                .map_err(|taken| Failure::new(FailureKind::Unavailable, taken.to_string()))?,
            // No back loses a tool because another back came.
            Heard::Some | Heard::All => self.bus.offer_leniently(&listed),
        }
        let is_all = first_failure.is_none() && !is_slow;
        self.heard.set(if is_all { Heard::All } else { Heard::Some });
        // In the order of the backs, each in its own; of a name that falls together the first.
        let mut names = HashSet::new();
        let tools = listed.iter().flat_map(|Listed { back, tools, .. }| {
            tools
                .iter()
                .flat_map(|tools| tools.iter())
                .map(|tool| ToolSpec { name: self.bus.name_of(back, &tool.name), ..tool.clone() })
        });
        let tools = tools.filter(|tool| names.insert(tool.name.clone())).collect();
        self.listed.replace(listed);
        Ok(tools)
    }

    /// Asks all backs, and waits for none of them longer than `patience`. Who is slow stands in
    /// the list as it was last, if it ever was, and comes late.
    async fn list_within(&self, patience: Duration, asking: &Asking) -> Vec<Listed> {
        let members = &self.bus.members;
        let round = Rc::new(Round {
            answers: RefCell::new(members.iter().map(|_| None).collect()),
            answered: Wake::default(),
            is_over: Cell::new(false),
        });
        let asked: Vec<_> = self.slow.iter().map(|slow| !slow.get()).collect();
        for (index, member) in members.iter().enumerate().filter(|(index, _)| asked[*index]) {
            let (member, round, this) = (member.clone(), round.clone(), self.this.clone());
            let asking = asking.clone();
            spawn_local(async move {
                let tools = asking.ask(&member).await;
                match (round.is_over.get(), this.upgrade()) {
                    (false, _) => round.answers.borrow_mut()[index] = Some(tools),
                    (true, Some(offered)) => offered.came_late(index, tools),
                    // The front has gone meanwhile.
                    (true, None) => {}
                }
                round.answered.ring();
            });
        }
        let is_missing = || {
            round
                .answers
                .borrow()
                .iter()
                .zip(&asked)
                .any(|(answer, asked)| *asked && answer.is_none())
        };
        let all = async {
            while is_missing() {
                round.answered.rung().await;
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
        round.is_over.set(true);
        let answers = round.answers.take();
        members
            .iter()
            .zip(answers)
            .enumerate()
            .map(|(index, (member, answer))| {
                let tools = match answer {
                    Some(tools) => tools.map(|tools| member.allowed(tools)),
                    None => {
                        let name = &member.name;
                        if !self.slow[index].replace(true) {
                            tracing::info!(peer = %name, "is slow to list its tools: they follow");
                        }
                        self.bus.last_tools(index).ok_or_else(|| {
                            let message = format!("`{name}` has not listed its tools yet");
                            Failure::new(FailureKind::Unavailable, message)
                        })
                    }
                };
                Listed { back: member.name.clone(), address: member.address.clone(), tools }
            })
            .collect()
    }

    /// A back that was slow has answered.
    fn came_late(&self, index: usize, tools: Answer) {
        self.slow[index].set(false);
        let member = &self.bus.members[index];
        match &tools {
            Ok(_) => is_back(&member.name),
            Err(failure) => left_out(&member.name, failure),
        }
        let before = self.names();
        let mut listed = self.listed.borrow_mut();
        let Some(last) = listed.get_mut(index) else { return };
        last.tools = tools.map(|tools| member.allowed(tools));
        self.bus.offer_leniently(&listed);
        let is_all =
            listed.iter().all(|listed| listed.tools.is_ok()) && !self.slow.iter().any(Cell::get);
        self.heard.set(if is_all { Heard::All } else { Heard::Some });
        drop(listed);
        if self.names() != before {
            self.changed.ring();
        }
    }
}

thread_local! {
    /// The backs that are left out, and what they said when they were first.
    static LEFT_OUT: RefCell<HashMap<String, Vec<String>>> = RefCell::default();
}

/// Says that a back is left out, why, and what its process said: once, however often its tools
/// are asked for until it is back.
pub fn left_out(back: &str, failure: &Failure) {
    let words = failure.last_words.as_deref();
    let stderr = words.map_or(&[][..], |words| &words.stderr);
    let is_known = LEFT_OUT.with_borrow_mut(|left_out| match left_out.get(back) {
        // A process that now says something else has another reason.
        Some(said) if stderr.is_empty() || *said == stderr => true,
        _ => {
            left_out.insert(back.to_owned(), stderr.to_vec());
            false
        }
    });
    if is_known {
        tracing::info!(peer = %back, "still left out: {failure}");
        return;
    }
    tracing::warn!(peer = %back, "left out: {failure}");
    let show = |line: &String| tracing::warn!(target: SHOWN, peer = %back, "{line}");
    stderr.iter().for_each(show);
    let died = words.filter(|words| words.exit.is_some());
    if let Some(hint) = died.and_then(|words| words.hint.as_ref()) {
        tracing::warn!(peer = %back, "hint: {hint}");
    }
}

/// The back has listed its tools: if it is left out again, that is news.
pub fn is_back(back: &str) {
    LEFT_OUT.with_borrow_mut(|left_out| left_out.remove(back));
}

/// The backs are others now: one of them that is left out is news.
pub fn forget_left_out() {
    LEFT_OUT.with_borrow_mut(HashMap::clear);
}

/// A call that waits until all backs have been asked.
fn later(
    offered: Rc<Offered>,
    call: Call,
    down: ReplyTo,
    seen: Option<&Rc<Observed>>,
) -> RunningCall {
    let seen = seen.cloned();
    let tool = match &call.what {
        What::Tool { name, .. } => Some(name.clone()),
        What::Tools | What::Native { .. } => None,
    };
    let asking = Asking::of(&call);
    let relay = Relay::new(call, down);
    let asked = relay.clone();
    let listing = spawn_local(async move {
        let before = offered.names();
        let was_heard = offered.heard.get() != Heard::None;
        match (offered.ask(&asking).await, tool) {
            (Ok(tools), None) => asked.finish(Ok(Outcome::Tools(tools))),
            (Err(failure), _) => asked.finish(Err(failure)),
            (Ok(_), Some(name)) => {
                // The back that was left out may have come, and this is no list that says so. Who
                // was never told a list knows of none that could have changed.
                if was_heard && offered.names() != before {
                    offered.changed.ring();
                }
                // Its back has just been asked: it need not fail a second time.
                match offered.bus.outage(&name).filter(|_| !offered.owner_is_slow(&name)) {
                    Some(outage) => asked.finish(Err(outage)),
                    None => {
                        asked.begin(|call, down| offered.bus.start_seen(call, down, seen.as_ref()));
                    }
                }
            }
        }
    });
    let listing = listing.abort_handle();
    relay.at_end(move || listing.abort());
    // Who waits for the list waits no longer than for the call.
    relay.set_alarm();
    relay.running_call()
}
