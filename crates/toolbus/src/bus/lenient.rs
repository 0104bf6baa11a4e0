//! The bus for fronts that can do with less: who cannot be reached is left out of the list of
//! tools, and asked again with the next list, or with the next call that may be for it.
//!
//! The first list of a front waits for the backs that were never heard, but not for ever: many
//! clients list once. Who has not come by then is not waited for any more; its tools are offered
//! when they are there, and clients that are told of changes are told of that.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::iter;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::limit;
use toolbus_proto::tool::{
    Call, CallerId, Failure, FailureKind, Outcome, ToolName, ToolSpec, What, Wire,
};

use super::Route;
use super::back::tools_in;
use super::observe::Observed;
use crate::bus::{Bus, Listed, Member};
use crate::child::stderr::SHOWN;
use crate::engine::calls::{Inbox, ReplyTo, RunningCall};
use crate::engine::waiting::WaitingCalls;
use crate::task::spawn_local;
use crate::wake::{Wake, turn};

/// How long the start of fronts waits for backs.
pub const SLOW: Duration = Duration::from_millis(1500);
/// How long a list waits for a back that was heard before: it can be shown as it was last, or was
/// not there even then.
const AGAIN: Duration = Duration::from_secs(2);
/// How often a call of a tool that its caller is not shown may have the backs listed again.
const LISTED_WITHIN: Duration = Duration::from_secs(1);
/// Longer than any call.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// The bus, asked for its tools whenever a client wants to know them.
pub struct LenientBus(Rc<Offered>);

impl LenientBus {
    /// No back is asked before a client wants to know.
    pub fn new(bus: Rc<Bus>) -> LenientBus {
        LenientBus::telling(bus, Rc::default())
    }

    /// As [`LenientBus::new`]; `changed` is rung when others are offered than the client was told.
    pub(crate) fn telling(bus: Rc<Bus>, changed: Rc<Wake>) -> LenientBus {
        let patience = bus.list_timeout();
        LenientBus::with(bus, changed, Some(patience))
    }

    /// As [`LenientBus::new`], but a list is complete: who is slow is waited for.
    pub(super) fn patient(bus: Rc<Bus>) -> LenientBus {
        LenientBus::with(bus, Rc::default(), None)
    }

    fn with(bus: Rc<Bus>, changed: Rc<Wake>, patience: Option<Duration>) -> LenientBus {
        bus.offer_own();
        let slow = bus.members.iter().map(|_| Cell::new(false)).collect();
        let waiting = bus.scope.enter(|| WaitingCalls::new("the list of tools"));
        LenientBus(Rc::new_cyclic(|this| Offered {
            this: this.clone(),
            bus,
            heard: Cell::new(Heard::None),
            changed,
            patience,
            first_until: Cell::new(None),
            slow,
            waiting,
            missed: RefCell::default(),
            rounds: RefCell::default(),
            listed: RefCell::default(),
            asked: Cell::new(None),
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
        // What is searched for has to be known.
        let call = match self.0.heard.get() == Heard::None && self.0.bus.is_search(&call) {
            true => return later(self.0.clone(), call, down, None),
            false => match self.0.bus.answered_here(call, &down) {
                Ok(call) => call,
                Err((call, answered)) => return self.0.bus.answer_here(call, down, answered),
            },
        };
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
    /// How long the first list waits for backs that were never heard; `None`: every list waits
    /// for all.
    patience: Option<Duration>,
    /// Until when they are waited for, since the first list began.
    first_until: Cell<Option<Instant>>,
    /// Which backs have been asked, took too long and have not answered yet.
    slow: Vec<Cell<bool>>,
    /// The calls that wait until backs have been asked.
    waiting: Rc<WaitingCalls>,
    /// Which of them have been said to be left out.
    missed: RefCell<HashSet<usize>>,
    /// The lists that may still wait for one of those.
    rounds: RefCell<Vec<Weak<Round>>>,
    /// What the backs said last.
    listed: RefCell<Vec<Listed>>,
    /// When they were last asked.
    asked: Cell<Option<Instant>>,
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

/// One time that backs are asked.
struct Round {
    answers: RefCell<Vec<Option<Answer>>>,
    /// Rung by each answer.
    answered: Wake,
    /// The caller waits for the rest no longer: a back that answers now is late.
    is_over: Cell<bool>,
}

impl Round {
    /// Which of these has not answered?
    fn missing<'a>(&'a self, until: &'a [Option<Instant>]) -> impl Iterator<Item = usize> + 'a {
        let indexes = 0..until.len();
        indexes.filter(|index| until[*index].is_some() && self.answers.borrow()[*index].is_none())
    }

    /// Waits until each of these has answered, or its time is up.
    async fn over(&self, until: &[Option<Instant>]) {
        loop {
            let now = Instant::now();
            let times = self.missing(until).filter_map(|index| until[index]);
            let Some(next) = times.filter(|until| now < *until).min() else { return };
            let _ = tokio::time::timeout_at(next.into(), self.answered.rung()).await;
        }
    }
}

/// What one back said, or is known to have.
struct Said {
    tools: Answer,
    /// It was asked just now, and has answered.
    is_heard: bool,
}

type Answer = Result<Arc<[ToolSpec]>, Failure>;

/// Who asks for the tools: a back that speaks the same is asked in its caller's own words.
#[derive(Debug, Clone, Default)]
struct Asking {
    caller: CallerId,
    wire: Option<Wire>,
    request: Option<Bytes>,
    /// The tool that it is about, if it is about one.
    sought: Option<ToolName>,
}

impl Asking {
    fn of(call: &Call) -> Asking {
        let (caller, wire) = (call.caller, call.options.native);
        let sought = match &call.what {
            What::Tool { name, .. } => Some(name.clone()),
            What::Tools | What::Native { .. } => call.sought.clone(),
        };
        Asking { caller, wire, request: call.request.clone(), sought }
    }

    /// Asks one back.
    async fn ask(self, member: &Member) -> Answer {
        let Asking { caller, wire, request, sought: _ } = self;
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
        member.heard(tools)
    }
}

impl Offered {
    fn names(&self) -> Vec<ToolName> {
        match self.bus.may_search() {
            true => self.bus.offered().into_iter().map(|tool| tool.name).collect(),
            false => self.bus.catalogue.borrow().names().cloned().collect(),
        }
    }

    /// Is it offered by nobody, but may be a tool of a back that was left out?
    fn may_be_left_out(&self, name: &ToolName) -> bool {
        if self.bus.selection().is_none() {
            return self.heard.get() != Heard::All && !self.bus.is_offered(name);
        }
        // What is hidden and what is not there have to be the same to a caller: both have the backs
        // asked again, which may have more by now.
        let is_stale = || self.asked.get().is_none_or(|asked| LISTED_WITHIN <= asked.elapsed());
        !self.bus.is_offered(name) && (self.heard.get() == Heard::None || is_stale())
    }

    /// Has its back been asked for its tools, and not answered yet?
    fn owner_is_slow(&self, name: &ToolName) -> bool {
        self.bus.owner(name).is_some_and(|owner| self.slow[owner].get())
    }

    /// Asks all backs, and offers from now on what they have.
    async fn ask(&self, asking: &Asking) -> Result<Arc<[ToolSpec]>, Failure> {
        self.asked.set(Some(Instant::now()));
        let said = match self.patience {
            None => {
                let listed = self.bus.list().await.into_iter();
                listed.map(|listed| Said { tools: listed.tools, is_heard: true }).collect()
            }
            Some(patience) => self.list_within(patience, asking).await,
        };
        self.bus.warn_of_allowed_in_vain();
        let mut first_failure = None;
        let mut is_all_heard = true;
        let mut listed = Vec::with_capacity(said.len());
        for (index, (member, said)) in self.bus.members.iter().zip(said).enumerate() {
            let Said { tools, is_heard } = said;
            match &tools {
                _ if !self.bus.may_show_tools(index) => {}
                Err(failure) if is_heard => left_out(&member.name, failure),
                Ok(_) if is_heard => is_back(&member.name),
                _ => is_all_heard = false,
            }
            let failure = tools.as_ref().err().cloned();
            // What a sign-in has shown once stays in the list: a call of it says what is to be done.
            let tools = match &failure {
                Some(failure) if limit::login_of(failure).is_some() => {
                    self.last_of(index).or(tools)
                }
                _ => tools,
            };
            first_failure = first_failure.or(failure);
            listed.push(Listed {
                back: member.name.clone(),
                address: member.address.clone(),
                tools,
            });
        }
        if let Some(failure) = &first_failure
            && is_all_heard
            && self.is_all_missing(&listed)
        {
            self.bus.note_failures(&listed);
            return Err(failure.clone());
        }
        match self.heard.get() {
            Heard::None => self
                .bus
                .offer_as_seen(&listed)
                .map_err(|taken| Failure::new(FailureKind::Unavailable, taken.to_string()))?,
            // No back loses a tool because another back came.
            Heard::Some | Heard::All => self.bus.offer_leniently(&listed),
        }
        let is_all = first_failure.is_none() && !self.slow.iter().any(Cell::get);
        self.heard.set(if is_all { Heard::All } else { Heard::Some });
        if self.bus.selection().is_some() {
            self.listed.replace(listed);
            let list = self.bus.catalogue.borrow().list();
            return Ok(match self.bus.may_search() {
                true => self.bus.listed_of(list.to_vec()).into(),
                false => list,
            });
        }
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
        Ok(self.bus.listed_of(tools).into())
    }

    /// Did no back that was asked list its tools?
    fn is_all_missing(&self, listed: &[Listed]) -> bool {
        let mut asked =
            listed.iter().enumerate().filter(|(index, _)| self.bus.may_show_tools(*index));
        asked.all(|(_, listed)| listed.tools.is_err())
    }

    /// Asks the backs, and waits for each as long as it may be waited for. Who has not answered
    /// by then stands in the list as it was last, if it ever was, and comes late.
    async fn list_within(&self, patience: Duration, asking: &Asking) -> Vec<Said> {
        let members = &self.bus.members;
        let round = Rc::new(Round {
            answers: RefCell::new(members.iter().map(|_| None).collect()),
            answered: Wake::default(),
            is_over: Cell::new(false),
        });
        let until = self.until(patience, asking);
        for (index, member) in members.iter().enumerate() {
            if until[index].is_none() || self.slow[index].get() {
                continue;
            }
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
        if round.missing(&until).next().is_some() {
            // Who need not wait for others answers in its turn, however short our patience.
            turn().await;
            self.tell_of_wait(&round, &until, patience);
            self.rounds.borrow_mut().push(Rc::downgrade(&round));
            round.over(&until).await;
        }
        round.is_over.set(true);
        self.rounds.borrow_mut().retain(|other| 0 < other.strong_count());
        let answers = round.answers.take();
        iter::zip(members, answers)
            .enumerate()
            .map(|(index, (member, answer))| match answer {
                Some(tools) => {
                    Said { tools: tools.map(|tools| member.allowed(tools)), is_heard: true }
                }
                None if !self.bus.may_show_tools(index) => {
                    Said { tools: Ok(Arc::default()), is_heard: true }
                }
                None => {
                    let tools = match until[index] {
                        Some(_) => {
                            self.gave_up(index, patience);
                            self.last_of(index)
                        }
                        None => self.as_listed(index),
                    };
                    Said { tools, is_heard: false }
                }
            })
            .collect()
    }

    /// Until when each back is waited for; `None`: it is not even asked.
    fn until(&self, patience: Duration, asking: &Asking) -> Vec<Option<Instant>> {
        let now = Instant::now();
        let indexes = 0..self.bus.members.len();
        // Nothing of such a back is shown.
        let of_interest = |index: usize| self.bus.may_show_tools(index);
        if let Some(tool) = &asking.sought {
            // Its caller knows how long. A back that is being asked already is called right away.
            let is_awaited =
                |index: usize| self.bus.may_own(index, tool) && !self.slow[index].get();
            let until = |index| is_awaited(index).then_some(now + FOR_EVER);
            return indexes.map(until).collect();
        }
        let first_until = self.first_until.get().unwrap_or(now + patience);
        self.first_until.set(Some(first_until));
        let until = |index: usize| {
            if !of_interest(index) {
                return None;
            }
            let is_unheard = self.bus.members[index].health.is_unheard();
            match (is_unheard, self.slow[index].get()) {
                (true, is_slow) => (!is_slow || now < first_until).then_some(first_until),
                (false, is_slow) => (!is_slow).then_some(now + AGAIN),
            }
        };
        indexes.map(until).collect()
    }

    /// Says for whom the first list waits.
    fn tell_of_wait(&self, round: &Round, until: &[Option<Instant>], patience: Duration) {
        let now = Instant::now();
        let is_first = |index: &usize| {
            until[*index] == self.first_until.get() && until[*index].is_some_and(|at| now < at)
        };
        let names = round.missing(until).filter(is_first);
        let names: Vec<_> =
            names.map(|index| format!("`{}`", self.bus.members[index].name)).collect();
        if !names.is_empty() {
            tracing::info!("the first list waits for {}, {patience:?} at most", names.join(", "));
        }
    }

    /// A back has not answered in time.
    fn gave_up(&self, index: usize, patience: Duration) {
        let was_slow = self.slow[index].replace(true);
        let Member { name, health, .. } = &*self.bus.members[index];
        match (health.is_unheard(), was_slow) {
            (true, _) if patience.is_zero() => {
                tracing::info!(peer = %name, "is not waited for: its tools follow");
            }
            (true, _) if !self.missed.borrow_mut().insert(index) => {}
            (true, _) => tracing::warn!(
                peer = %name,
                "left out: it has not listed its tools within {patience:?}; clients are told when \
                 it has"
            ),
            (false, false) => {
                tracing::info!(peer = %name, "is slow to list its tools: they follow");
            }
            (false, true) => {}
        }
    }

    /// What a back that was not asked said when it was.
    fn as_listed(&self, index: usize) -> Answer {
        let listed = self.listed.borrow().get(index).map(|listed| listed.tools.clone());
        listed.unwrap_or_else(|| self.last_of(index))
    }

    /// The tools of a back as they are known, perhaps by another front.
    fn last_of(&self, index: usize) -> Answer {
        let Member { name, health, .. } = &*self.bus.members[index];
        let last = self.bus.last_tools(index).or_else(|| {
            let tools = health.last_tools()?;
            Some(self.bus.members[index].allowed(tools))
        });
        last.ok_or_else(|| {
            let message = format!("`{name}` has not listed its tools yet");
            Failure::new(FailureKind::Unavailable, message)
        })
    }

    /// A back that was slow has answered.
    fn came_late(&self, index: usize, tools: Answer) {
        self.slow[index].set(false);
        self.missed.borrow_mut().remove(&index);
        let rounds: Vec<_> = self.rounds.borrow().iter().filter_map(Weak::upgrade).collect();
        for round in rounds.iter().filter(|round| !round.is_over.get()) {
            round.answers.borrow_mut()[index].get_or_insert_with(|| tools.clone());
            round.answered.ring();
        }
        let member = &self.bus.members[index];
        match &tools {
            Ok(_) => is_back(&member.name),
            Err(failure) => left_out(&member.name, failure),
        }
        self.bus.warn_of_allowed_in_vain();
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
    if let Some(login) = limit::login_of(failure) {
        tracing::warn!("back `{back}` needs a sign-in: run `{login}`");
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

/// The backs are others now: one of them that is left out is news, and so are names that fall
/// together.
pub fn forget_left_out() {
    LEFT_OUT.with_borrow_mut(HashMap::clear);
    super::view::forget_same_names();
}

/// Is it what searches the tools of the bus?
fn asked_search(bus: &Bus, name: &ToolName) -> bool {
    bus.may_search() && super::searching::is_ours(name.as_str())
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
    let mut asking = Asking::of(&call);
    if offered.bus.is_search(&call) {
        asking.sought = None;
    }
    let relay = offered.waiting.relay(call, down);
    if !relay.is_waiting() {
        return relay.running_call();
    }
    let asked = relay.clone();
    let listing = spawn_local(async move {
        let was_told = offered.first_until.get().is_some();
        // A list says itself what is offered now.
        let before = (was_told && tool.is_some()).then(|| offered.names());
        match (offered.ask(&asking).await, tool) {
            (Ok(tools), None) => asked.finish(Ok(Outcome::Tools(tools))),
            // What is not shown is unknown, whichever back is away.
            (Err(_), Some(name))
                if offered.bus.is_hidden(&name) && !asked_search(&offered.bus, &name) =>
            {
                asked.begin(|call, down| offered.bus.start_seen(call, down, seen.as_ref()));
            }
            (Err(failure), _) => asked.finish(Err(failure)),
            (Ok(_), Some(name)) => {
                if asked_search(&offered.bus, &name) {
                    return asked.begin(|call, down| offered.bus.start(call, down));
                }
                // The back that was left out may have come, and this is no list that says so. Who
                // was never told a list knows of none that could have changed.
                if before.is_some_and(|before| offered.names() != before) {
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
