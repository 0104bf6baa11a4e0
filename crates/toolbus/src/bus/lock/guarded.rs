//! The guard before a back: lists are answered from the lock, and what a connection shows is
//! compared with it before the first call goes out on it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{Down, Notice, Ticket};
use toolbus_proto::did_you_mean::hinted;
use toolbus_proto::json::Json;
use toolbus_proto::pin::{Definition, PinKind, Pinned, escaped};
use toolbus_proto::tool::{
    Call, CallerId, Failure, FailureKind, LastWords, Outcome, ToolName, ToolSpec, What, Wire,
};

use super::standing::Standing;
use super::verdict::{Stand, Verdict};
use super::{Identity, NOT_LOCKED, OnChange, OnNew, OnProgram, Rules, refused, shown};
use crate::address::Address;
use crate::bus::back::{Back, Connection, LocalFuture};
use crate::bus::health::Health;
use crate::engine::calls::{Asker, Pressure, ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::peer::pins::{AskedOf, Pins, WhichList, Who};
use crate::peer::settings::Settings;
use crate::secrets;
use crate::task::spawn_local;

/// How old a comparison over a network may be.
const AGE_MAX: Duration = Duration::from_secs(300);
/// How many connections are remembered as compared.
const CONNECTIONS_MAX: usize = 4096;
/// How long a call waits for the comparison, unless the config says how long a start may take.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// What fails to start says more of why, and is given so long to do so.
const SAYS_MORE: Duration = Duration::from_millis(200);

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

    /// How it differs from the lock, as far as is known.
    pub(crate) fn differs(&self) -> Option<Differs> {
        let name = &self.plan.name;
        let Some(pinned) = &self.plan.pinned else {
            return (self.plan.rules.new == OnNew::Refuse).then_some(Differs::NotLocked);
        };
        let verdict = self.verdict.borrow().clone();
        let tools = verdict.as_ref().map_or(0, |verdict| verdict.tools());
        if 0 < tools {
            return Some(Differs::Tools(tools));
        }
        if let Some(sentence) = verdict.as_ref().and_then(|verdict| others_differ(verdict)) {
            return Some(Differs::Otherwise(sentence));
        }
        if self.plan.rules.program != OnProgram::Ignore {
            let identity = Identity::of(&self.plan.address, &self.plan.settings);
            if !identity.is_as(&pinned.noted) {
                return Some(Differs::Otherwise(program_message(name, &identity)));
            }
        }
        let verdict = verdict.filter(|verdict| verdict.has_other_instructions);
        verdict.map(|_| {
            Differs::Otherwise(format!(
                "the instructions of back `{name}` have changed since they were locked"
            ))
        })
    }

    /// How many tools, prompts and templates are held back.
    pub(crate) fn held_back(&self) -> usize {
        let verdict = self.verdict.borrow().clone();
        let Some(verdict) = verdict else { return 0 };
        let is_held = |(_, _, stand): &(PinKind, &str, &Stand)| match stand {
            Stand::Changed(_) => self.plan.rules.changed == OnChange::Refuse,
            Stand::New => self.plan.rules.new == OnNew::Refuse,
            Stand::Gone => false,
        };
        verdict.all().filter(is_held).count()
    }

    /// How its tools stand to the lock that it refuses or warns of, with what they are now where
    /// they are held back: `changed` or `new`.
    #[allow(dead_code, reason = "a build may have no page")]
    pub(crate) fn standings(&self) -> Vec<(String, &'static str, Option<ToolSpec>)> {
        let Some(verdict) = self.verdict.borrow().clone() else { return Vec::new() };
        let standing = |(name, stand): (&str, &Stand)| {
            let (state, is_held) = match stand {
                Stand::Changed(_) => ("changed", self.plan.rules.changed == OnChange::Refuse),
                Stand::New if self.plan.rules.new == OnNew::Allow => return None,
                Stand::New => ("new", self.plan.rules.new == OnNew::Refuse),
                Stand::Gone => return None,
            };
            let now = verdict.now(PinKind::Tool, name).filter(|_| is_held);
            let spec = now.and_then(|now| self.spec(self.plan.pins?, now));
            Some((name.to_owned(), state, spec))
        };
        verdict.of_kind(PinKind::Tool).filter_map(standing).collect()
    }

    /// Another number for each comparison with the lock.
    #[allow(dead_code, reason = "a build may have no page")]
    pub(crate) fn compared_as(&self) -> usize {
        self.verdict.borrow().as_ref().map_or(0, |verdict| Rc::as_ptr(verdict) as usize)
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.plan.is_shut()
    }

    /// Is it there already?
    pub(crate) fn runs(&self) -> bool {
        let call = Call::of(Instant::now(), What::Tools);
        matches!(self.inner.connection(&call), Connection::Open(_))
    }

    fn specs(&self, is_legacy: bool) -> &BTreeMap<String, ToolSpec> {
        self.pinned_specs[usize::from(is_legacy)].get_or_init(|| {
            let (Some(pinned), Some(pins)) = (&self.plan.pinned, self.plan.pins) else {
                return BTreeMap::new();
            };
            let spec = |(name, shown): (&String, &Definition)| {
                let legacy = pinned.legacy_definition(PinKind::Tool, name);
                let definition = legacy.filter(|_| is_legacy).unwrap_or(shown);
                Some((name.clone(), self.spec(pins, definition)?))
            };
            pinned.shown.tools.iter().filter_map(spec).collect()
        })
    }

    fn spec(&self, pins: &dyn Pins, definition: &Definition) -> Option<ToolSpec> {
        let object = definition.object(pins.layouts().of(PinKind::Tool));
        pins.read(&Json::from_trusted(object))
    }

    /// The tools that such clients are shown: those of the lock, but for what is known to differ.
    fn tools_now(&self, is_legacy: bool) -> Arc<[ToolSpec]> {
        if self.is_other_program.get() && self.plan.rules.program == OnProgram::Refuse {
            return Arc::new([]);
        }
        let mut all = self.specs(is_legacy).clone();
        for own in &self.generic {
            all.entry(own.name.to_string()).or_insert_with(|| own.clone());
        }
        let verdict = self.verdict.borrow().clone();
        if let (Some(verdict), Some(pins)) = (verdict, self.plan.pins) {
            for (name, stand) in verdict.of_kind(PinKind::Tool) {
                let is_shown = match stand {
                    Stand::Changed(_) => self.plan.rules.changed == OnChange::Warn,
                    Stand::New => self.plan.rules.new != OnNew::Refuse,
                    Stand::Gone => false,
                };
                all.remove(name);
                let now = verdict.now(PinKind::Tool, name).filter(|_| is_shown);
                if let Some(spec) = now.and_then(|now| self.spec(pins, now)) {
                    all.insert(name.to_owned(), spec);
                }
            }
        }
        let now: Arc<[ToolSpec]> = all.into_values().collect();
        let mut last = self.last_tools.borrow_mut();
        match &mut last[usize::from(is_legacy)] {
            Some(last) if *last == now => last.clone(),
            last => last.insert(now).clone(),
        }
    }

    /// The objects of a kind that are shown, as the wire writes them.
    fn objects(&self, kind: PinKind, is_legacy: bool) -> Vec<String> {
        let (Some(pinned), Some(pins)) = (&self.plan.pinned, self.plan.pins) else {
            return Vec::new();
        };
        let layouts = pins.layouts();
        let verdict = self.verdict.borrow().clone().unwrap_or_default();
        let mut all: BTreeMap<&str, String> = BTreeMap::new();
        for name in pinned.shown.of(kind).keys() {
            let definition = match is_legacy {
                true => pinned.legacy_definition(kind, name),
                false => pinned.shown.of(kind).get(name),
            };
            if let Some(definition) = definition {
                all.insert(name, definition.object(layouts.of(kind)));
            }
        }
        for (name, stand) in verdict.of_kind(kind) {
            let is_shown = match stand {
                Stand::Changed(_) => self.plan.rules.changed == OnChange::Warn,
                Stand::New => self.plan.rules.new != OnNew::Refuse,
                Stand::Gone => false,
            };
            all.remove(name);
            if let Some(now) = verdict.now(kind, name).filter(|_| is_shown) {
                all.insert(name, now.object(layouts.of(kind)));
            }
        }
        all.into_values().collect()
    }

    /// Is what is listed by this object as the lock has it, or let through?
    fn is_shown(&self, kind: PinKind, object: &str) -> bool {
        let (Some(pinned), Some(pins)) = (&self.plan.pinned, self.plan.pins) else { return true };
        let read = Definition::read(pins.layouts().of(kind), object, &super::mask);
        let Some(now) = read else { return true };
        let known = pinned.shown.of(kind).get(&now.name);
        let legacy = pinned.legacy_definition(kind, &now.name);
        match known {
            None => self.plan.rules.new != OnNew::Refuse,
            Some(known) => {
                let is_same = |known: &Definition| known.digest == now.digest;
                self.plan.rules.changed == OnChange::Warn
                    || is_same(known)
                    || legacy.is_some_and(is_same)
            }
        }
    }

    /// The name in full.
    fn full(&self, name: &str) -> String {
        format!("{}.{}", self.plan.name, escaped(name))
    }

    /// Why a tool or prompt cannot be called, as far as the lock and this verdict know.
    fn refusal(&self, kind: PinKind, name: &str, verdict: Option<&Verdict>) -> Option<Failure> {
        let pinned = self.plan.pinned.as_ref()?;
        // What comes with the program stands in no lock.
        self.plan.pins?;
        if kind == PinKind::Tool && self.generic.iter().any(|own| own.name.as_str() == name) {
            return None;
        }
        let full = || self.full(name);
        match verdict.and_then(|verdict| verdict.stand(kind, name)) {
            Some(Stand::Changed(keys)) if self.plan.rules.changed == OnChange::Refuse => {
                let (what, full) = (kind.as_str(), full());
                let message = format!(
                    "{what} `{full}` has changed since it was locked: {}; see `toolbus lock diff {full}`",
                    keys.join(", ")
                );
                Some(refused("changed", message))
            }
            Some(Stand::Gone) => Some(unknown(kind, &full(), None)),
            Some(Stand::New) if self.plan.rules.new != OnNew::Refuse => None,
            Some(Stand::Changed(_)) => None,
            Some(Stand::New) => Some(self.not_offered(kind, &full())),
            None if pinned.shown.of(kind).contains_key(name) => None,
            None if self.plan.rules.new == OnNew::Refuse => Some(self.not_offered(kind, &full())),
            None => None,
        }
    }

    /// What is said of a tool of this back that is not offered under the name that a caller used.
    pub(crate) fn refusal_of(&self, called: &ToolName, own: &str) -> Option<Failure> {
        if self.is_shut() {
            return Some(self.not_locked());
        }
        let verdict = self.verdict.borrow().clone();
        let refusal = self.refusal(PinKind::Tool, own, verdict.as_deref())?;
        Some(match refusal.kind {
            FailureKind::UnknownTool => {
                Failure { message: format!("no such tool: `{called}`"), ..refusal }
            }
            _ => refusal,
        })
    }

    /// What the back says of itself to a legacy and to a modern client, as the lock has it.
    pub(crate) fn greetings(&self) -> Option<[Json; 2]> {
        if !self.is_answered_for() || self.passes.get() {
            return None;
        }
        let pins = self.plan.pins?;
        Some([true, false].map(|is_legacy| self.greeting(pins, is_legacy)))
    }

    /// What the back says of itself to such a client: as the lock has it, but for instructions
    /// that may be others.
    fn greeting(&self, pins: &dyn Pins, is_legacy: bool) -> Json {
        let empty = Pinned::default();
        let pinned = self.plan.pinned.as_deref().unwrap_or(&empty);
        let greeting = pins.greeting(is_legacy, pinned);
        let now = self.instructions.borrow()[usize::from(is_legacy)].clone();
        match now.filter(|_| self.plan.rules.changed == OnChange::Warn) {
            Some(now) => pins.with_instructions(&greeting, now.as_deref()),
            None => greeting,
        }
    }

    /// The back has said this of itself to such a client.
    pub(super) fn introduced(&self, greeting: &Json, is_legacy: bool) {
        let Some(pins) = self.plan.pins else { return };
        let now = pins.instructions(greeting).map(|text| secrets::masked(&text).into_owned());
        self.instructed(now, is_legacy);
    }

    /// These are the instructions for such clients now.
    fn instructed(&self, now: Option<String>, is_legacy: bool) {
        let Some(pinned) = &self.plan.pinned else { return };
        let is_other = approved_instructions(pinned, is_legacy) != now.as_deref();
        self.instructions.borrow_mut()[usize::from(is_legacy)] = Some(now);
        let name = &self.plan.name;
        let told = is_other
            .then(|| format!("back.{name}: its instructions have changed since they were locked"));
        self.tell_once(Finding::Instructions, is_legacy, told);
    }

    fn not_offered(&self, kind: PinKind, full: &str) -> Failure {
        let back = &self.plan.name;
        let hint = format!(
            "what `toolbus.lock` does not have is not offered; `toolbus lock diff {back}` shows what is new"
        );
        unknown(kind, full, Some(hint))
    }

    fn not_locked(&self) -> Failure {
        let name = &self.plan.name;
        let message = format!(
            "back `{name}` is not in `toolbus.lock`; `toolbus lock approve {name}` takes it in"
        );
        refused(NOT_LOCKED, message)
    }

    /// The tools of a program that must not be started are not listed either.
    fn look_at_program(&self) {
        let list = Call::of(Instant::now(), What::Tools);
        if self.plan.rules.program == OnProgram::Refuse && self.connection(&list).is_none() {
            let _ = self.program_refusal();
        }
    }

    /// Looks at the program before it is started.
    fn program_refusal(&self) -> Option<Failure> {
        let pinned = self.plan.pinned.as_ref()?;
        if self.plan.rules.program == OnProgram::Ignore {
            return None;
        }
        let identity = Identity::of(&self.plan.address, &self.plan.settings);
        let is_other = !identity.is_as(&pinned.noted);
        self.is_other_program.set(is_other);
        let name = &self.plan.name;
        let told = is_other.then(|| {
            let shown = identity.shown();
            format!("back.{name}: its program has changed since it was locked: {shown}")
        });
        self.tell_once(Finding::Program, false, told);
        (is_other && self.plan.rules.program == OnProgram::Refuse)
            .then(|| refused("program_changed", program_message(name, &identity)))
    }

    /// Tells of a finding, or that there is none any more; again only if it is another one.
    fn tell_once(&self, finding: Finding, is_legacy: bool, sentence: Option<String>) {
        let mut told = self.told.borrow_mut();
        let is_told = sentence.is_some() && told.get(&(finding, !is_legacy)) == sentence.as_ref();
        let before = match &sentence {
            Some(sentence) => told.insert((finding, is_legacy), sentence.clone()),
            None => told.remove(&(finding, is_legacy)),
        };
        drop(told);
        if let Some(sentence) = sentence.filter(|now| !is_told && before.as_ref() != Some(now)) {
            tracing::warn!("{sentence}");
        }
    }

    /// The connection that a call would go out on, if there is one.
    fn connection(&self, call: &Call) -> Option<Compared> {
        match self.inner.connection(call) {
            Connection::Open(number) => Some(Compared::Process(number)),
            Connection::None => None,
            Connection::Remote => Some(Compared::Remote(self.lane(call))),
        }
    }

    fn is_compared(&self, call: &Call) -> bool {
        self.connection(call).is_some_and(|known| self.compared.borrow().contains_key(&known))
    }

    /// Makes a call once the connection that it goes out on has been compared.
    fn guard(&self, call: Call, down: ReplyTo) -> RunningCall {
        let entry = self.entry_of(&call);
        self.guard_entry(call, down, entry.as_ref())
    }

    /// The same, if it is known already what the call names.
    fn guard_entry(
        &self,
        call: Call,
        down: ReplyTo,
        entry: Option<&(PinKind, String)>,
    ) -> RunningCall {
        let refusal = |verdict: Option<&Verdict>| self.refusal_for(&call, entry?, verdict);
        let connection = self.connection(&call);
        let known = connection.and_then(|known| self.compared.borrow().get(&known).cloned());
        if let Some(verdict) = known {
            if let Some(failure) = refusal(verdict.as_deref()) {
                return done(&down, Err(failure));
            }
            if matches!(connection, Some(Compared::Remote(_)))
                && self.compared_at.get().is_none_or(|at| AGE_MAX <= at.elapsed())
            {
                self.compare_aside(call.clone());
            }
            return self.make(call, down);
        }
        // What the lock does not have is not looked for. What was changed when the back was last
        // asked may be as it was again, now that there is another connection.
        if let Some(failure) = refusal(None) {
            return done(&down, Err(failure));
        }
        if !matches!(connection, Some(Compared::Process(_)))
            && let Some(failure) = self.program_refusal()
        {
            return done(&down, Err(failure));
        }
        if self.plan.pins.is_none() || self.plan.pinned.is_none() {
            return self.make(call, down);
        }
        let relay = Relay::new(call.clone(), down);
        relay.set_alarm();
        let lane = self.lane(&call);
        let is_first = {
            let mut waiting = self.waiting.borrow_mut();
            let lane = waiting.entry(lane).or_default();
            lane.push(relay.clone());
            lane.len() == 1
        };
        let Some(this) = self.this.upgrade().filter(|_| is_first) else {
            return relay.running_call();
        };
        spawn_local(async move {
            let compared = this.compare(&call).await;
            let waiting = this.waiting.borrow_mut().remove(&lane);
            for relay in waiting.unwrap_or_default() {
                match &compared {
                    Ok(verdict) => {
                        relay.begin(|call, down| this.admit(call, down, verdict.as_deref()));
                    }
                    Err(failure) => relay.fail(failure.clone()),
                }
            }
        });
        relay.running_call()
    }

    fn lane(&self, call: &Call) -> Lane {
        match self.plan.pins.is_some_and(|pins| pins.is_legacy(call)) {
            true => Lane::Legacy(call.caller),
            false => Lane::Modern,
        }
    }

    /// Makes a call whose connection was compared just now, with this verdict.
    fn admit(&self, call: Call, down: ReplyTo, verdict: Option<&Verdict>) -> RunningCall {
        let entry = self.entry_of(&call);
        match entry.and_then(|entry| self.refusal_for(&call, &entry, verdict)) {
            Some(failure) => done(&down, Err(failure)),
            None => self.make(call, down),
        }
    }

    /// Why this call cannot be made, in the words of its caller.
    fn refusal_for(
        &self,
        call: &Call,
        (kind, name): &(PinKind, String),
        verdict: Option<&Verdict>,
    ) -> Option<Failure> {
        let failure = self.refusal(*kind, name, verdict)?;
        Some(match (&call.what, failure.kind) {
            (What::Native { .. }, FailureKind::UnknownTool) => {
                Failure { message: format!("unknown {}: {name}", kind.as_str()), ..failure }
            }
            _ => failure,
        })
    }

    fn make(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.wake_standing(&call);
        self.inner.start(call, down)
    }

    /// What a call names.
    fn entry_of(&self, call: &Call) -> Option<(PinKind, String)> {
        match &call.what {
            What::Tool { name, .. } => Some((PinKind::Tool, name.to_string())),
            What::Native { method, body, .. } => match self.plan.pins?.asked(method, body) {
                AskedOf::Entry(kind, name) => Some((kind, name)),
                _ => None,
            },
            What::Tools => None,
        }
    }

    /// The sessions that a call belongs to are begun, and those who listen are known.
    fn wake_standing(&self, call: &Call) {
        let all = self.standing.borrow().clone();
        if all.is_empty() {
            return;
        }
        let is_legacy = self.plan.pins.is_some_and(|pins| pins.is_legacy(call));
        let connection = self.connection(call);
        for standing in all {
            if !standing.is_legacy || is_legacy && standing.caller() == call.caller {
                standing.wake(&*self.inner, connection);
            }
        }
    }

    /// Asks the back what it shows, on the connection of this call.
    async fn compare(&self, call: &Call) -> Result<Option<Rc<Verdict>>, Failure> {
        let (Some(pins), Some(pinned)) = (self.plan.pins, &self.plan.pinned) else {
            return Ok(None);
        };
        let is_legacy = pins.is_legacy(call);
        self.inner.rouse();
        self.wake_standing(call);
        let who = if is_legacy { Who::Legacy(call.caller) } else { Who::Modern };
        let within = self.plan.settings.start_timeout.unwrap_or(START_TIMEOUT);
        let surveyed = tokio::time::timeout(within + SAYS_MORE, pins.survey(&*self.inner, who));
        let surveyed = surveyed.await.unwrap_or_else(|_| {
            let message = format!("its lists have not come within {within:?}");
            Err(Failure::new(FailureKind::TimedOut, message))
        });
        let survey = match surveyed {
            Ok(survey) => survey,
            Err(failure) => {
                // Who is not there fails as ever, and is asked again by the next call.
                let is_away = matches!(self.inner.connection(call), Connection::None)
                    || matches!(failure.kind, FailureKind::Unavailable | FailureKind::Gone);
                if is_away {
                    self.plan.health.is_away(&failure);
                    return Err(failure);
                }
                if self.plan.rules.changed == OnChange::Warn {
                    // It is not asked again before every call.
                    self.remember(call, None);
                    return Ok(None);
                }
                let name = &self.plan.name;
                let message = format!(
                    "the tools of `{name}` could not be compared with `toolbus.lock`: {}",
                    failure.message
                );
                let unverified = refused("unverified", message);
                return Err(Failure { last_words: failure.last_words, ..unverified });
            }
        };
        let seen = shown(&survey.seen, pins, self.plan.allow.as_ref());
        let verdict = Rc::new(Verdict::of(pinned, seen, is_legacy, !is_legacy));
        self.remember(call, Some(verdict.clone()));
        self.compared_at.set(Some(Instant::now()));
        self.settle(verdict.clone(), is_legacy);
        self.plan.health.listed(self.tools_now(false));
        Ok(Some(verdict))
    }

    /// The connection of this call has been compared.
    fn remember(&self, call: &Call, verdict: Option<Rc<Verdict>>) {
        if let Some(connection) = self.connection(call) {
            let mut compared = self.compared.borrow_mut();
            if CONNECTIONS_MAX <= compared.len() {
                compared.clear();
            }
            compared.insert(connection, verdict);
        }
    }

    /// Takes the outcome of a comparison, and tells of it.
    fn settle(&self, verdict: Rc<Verdict>, is_legacy: bool) {
        let before = self.shown_names();
        self.tell(&verdict, is_legacy);
        let mut latest = self.latest.borrow_mut();
        latest[usize::from(is_legacy)] = Some(verdict);
        let both = match &*latest {
            [Some(modern), Some(legacy)] => Some(Rc::new(modern.with(legacy))),
            [one, other] => one.clone().or_else(|| other.clone()),
        };
        drop(latest);
        self.verdict.replace(both);
        if self.shown_names() != before {
            let watchers = self.watchers.borrow().clone();
            watchers.iter().for_each(|changed| changed());
        }
    }

    /// What is shown, by its texts.
    fn shown_names(&self) -> (Arc<[ToolSpec]>, Vec<String>, Vec<String>) {
        let prompts = self.objects(PinKind::Prompt, false);
        (self.tools_now(false), prompts, self.objects(PinKind::Template, false))
    }

    fn tell(&self, verdict: &Verdict, is_legacy: bool) {
        let Plan { name, rules, .. } = &self.plan;
        let changed = verdict.listed(|stand| matches!(stand, Stand::Changed(_))).map(|listed| {
            let held = if rules.changed == OnChange::Refuse { " and held back" } else { "" };
            format!(
                "back.{name}: not as `toolbus.lock` has it{held}: {listed}; see `toolbus lock diff {name}`"
            )
        });
        self.tell_once(Finding::Changed, is_legacy, changed);
        let new = verdict.listed(|stand| *stand == Stand::New).and_then(|listed| match rules.new {
            OnNew::Refuse => Some(format!(
                "back.{name}: new and not offered: {listed}; `toolbus lock approve {name}` takes it in"
            )),
            OnNew::Warn => Some(format!("back.{name}: new since `toolbus.lock`: {listed}")),
            OnNew::Allow => None,
        });
        self.tell_once(Finding::New, is_legacy, new);
        let gone = verdict.listed(|stand| *stand == Stand::Gone);
        let gone = gone.map(|listed| format!("back.{name}: gone since `toolbus.lock`: {listed}"));
        self.tell_once(Finding::Gone, is_legacy, gone);
        // What a legacy client is told of it comes with its session.
        if !is_legacy {
            self.instructed(verdict.instructions.clone(), false);
        }
    }

    /// Is this tool one that the lock does not have, and that is let through?
    pub(crate) fn lets_through(&self, own: &str) -> bool {
        let verdict = self.verdict.borrow().clone();
        let stand = verdict.as_ref().and_then(|verdict| verdict.stand(PinKind::Tool, own));
        stand == Some(&Stand::New) && self.plan.rules.new != OnNew::Refuse
    }

    /// Is this prompt held back, so that it is not in the lists?
    pub(crate) fn holds_prompt(&self, own: &str) -> bool {
        let verdict = self.verdict.borrow().clone();
        let stand = verdict.as_ref().and_then(|verdict| verdict.stand(PinKind::Prompt, own));
        matches!(stand, Some(Stand::Changed(_))) && self.plan.rules.changed == OnChange::Refuse
    }

    /// The peer says that its tools are others, or it is time to look again.
    fn peer_changed(&self) {
        match self.plan.pinned {
            Some(_) => {
                // Whatever connection it was: what is called next waits until it was looked at.
                self.compared.borrow_mut().clear();
                match self.aside.get() {
                    Aside::None => self.compare_again(),
                    Aside::UnderWay | Aside::ToRepeat => self.aside.set(Aside::ToRepeat),
                }
            }
            None => {
                let watchers = self.watchers.borrow().clone();
                watchers.iter().for_each(|changed| changed());
            }
        }
    }

    /// Compares what a client of the modern era is shown, and nothing waits for it.
    pub(crate) fn compare_again(&self) {
        self.compare_aside(Call::of(Instant::now(), What::Tools));
    }

    /// Compares the connection of this call, and nothing waits for it.
    fn compare_aside(&self, call: Call) {
        let Some(this) = self.this.upgrade() else { return };
        if self.aside.get() != Aside::None {
            return;
        }
        spawn_local(async move {
            loop {
                this.aside.set(Aside::UnderWay);
                let _ = this.compare(&call).await;
                if this.aside.replace(Aside::None) == Aside::UnderWay {
                    return;
                }
            }
        });
    }

    /// Its tools, once it was asked itself.
    pub(crate) async fn tools_asked_anew(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        self.tools_asked(true).await
    }

    async fn tools_asked(&self, is_fresh: bool) -> Result<Arc<[ToolSpec]>, Failure> {
        if self.is_shut() {
            return Ok(Arc::from([]));
        }
        if self.plan.pins.is_none() || self.plan.pinned.is_none() {
            return self.inner.tools().await;
        }
        if is_fresh {
            self.compared().await?;
        }
        self.look_at_program();
        Ok(self.tools_now(false))
    }

    /// Compares now, and says why that was not possible.
    async fn compared(&self) -> Result<(), Failure> {
        if let Some(failure) = self.program_refusal() {
            return Err(failure);
        }
        self.compare(&Call::of(Instant::now(), What::Tools)).await.map(|_| ())
    }

    fn native(&self, call: Call, down: ReplyTo, pins: &'static dyn Pins) -> RunningCall {
        let What::Native { method, body, .. } = &call.what else { return self.guard(call, down) };
        let asked = pins.asked(method, body);
        if self.passes.get() && self.plan.pinned.is_some() {
            return match asked {
                AskedOf::Greeting { is_legacy } => {
                    let down = self.edited(down, Edit::Greeting { is_legacy });
                    self.guard_program(call, down)
                }
                AskedOf::List(WhichList::Pinned(kind)) => {
                    let down = self.edited(down, Edit::List(kind, Rc::new(call.clone())));
                    self.guard_program(call, down)
                }
                AskedOf::Entry(kind, name) => self.guard_entry(call, down, Some(&(kind, name))),
                AskedOf::List(_) | AskedOf::Told | AskedOf::Other => self.guard_program(call, down),
            };
        }
        let is_legacy = pins.is_legacy(&call);
        let is_open = matches!(self.inner.connection(&call), Connection::Open(_));
        let empty = Pinned::default();
        let pinned = self.plan.pinned.as_deref().unwrap_or(&empty);
        match asked {
            AskedOf::Greeting { is_legacy: true } => {
                let head = Some(self.greeting(pins, true));
                self.stand(call, true, down, Down::Begin { head, parts: None })
            }
            AskedOf::Greeting { is_legacy: false } => {
                let greeting = self.greeting(pins, false).as_bytes().clone();
                done(&down, Ok(Outcome::Native(greeting)))
            }
            AskedOf::List(WhichList::Pinned(kind))
                if self.plan.is_fresh && !self.is_shut() && !self.is_compared(&call) =>
            {
                self.fresh_list(call, down, pins, kind)
            }
            AskedOf::List(WhichList::Pinned(kind)) => {
                let list = pins.native_list(
                    is_legacy,
                    WhichList::Pinned(kind),
                    &self.objects(kind, is_legacy),
                );
                done(&down, Ok(Outcome::Native(list)))
            }
            AskedOf::List(WhichList::Resources) if pinned.resources.as_deref() != Some("some") => {
                let list = pins.native_list(is_legacy, WhichList::Resources, &[]);
                done(&down, Ok(Outcome::Native(list)))
            }
            AskedOf::Told if is_legacy && pins.is_repeated(method) => {
                let said_on = self.connection(&call).filter(|_| is_open);
                self.stand_aside(call.clone(), said_on);
                match is_open {
                    true => self.guard_entry(call, down, None),
                    false => done(&down, Ok(Outcome::Native(Bytes::from_static(b"{}")))),
                }
            }
            AskedOf::Told if !is_open => match pins.told(method, body) {
                Some(first) => {
                    let first = Down::Part(toolbus_proto::tool::Part::Json(first));
                    self.stand(call, false, down, first)
                }
                None => done(&down, Ok(Outcome::Native(Bytes::from_static(b"{}")))),
            },
            _ if self.is_shut() => done(&down, Err(self.not_locked())),
            AskedOf::Entry(kind, name) => self.guard_entry(call, down, Some(&(kind, name))),
            _ => self.guard_entry(call, down, None),
        }
    }

    /// A list of a back that is asked before it is answered for.
    fn fresh_list(
        &self,
        call: Call,
        down: ReplyTo,
        pins: &'static dyn Pins,
        kind: PinKind,
    ) -> RunningCall {
        let relay = Relay::new(call.clone(), down);
        let Some(this) = self.this.upgrade() else { return RunningCall::ended() };
        let asked = relay.clone();
        spawn_local(async move {
            let compared = match this.program_refusal() {
                Some(failure) => Err(failure),
                None => this.compare(&call).await,
            };
            asked.finish(compared.map(|_| {
                let is_legacy = pins.is_legacy(&call);
                let objects = this.objects(kind, is_legacy);
                Outcome::Native(pins.native_list(is_legacy, WhichList::Pinned(kind), &objects))
            }));
        });
        relay.set_alarm();
        relay.running_call()
    }

    /// A call that names nothing: only the program is looked at.
    fn guard_program(&self, call: Call, down: ReplyTo) -> RunningCall {
        if self.connection(&call).is_none()
            && let Some(failure) = self.program_refusal()
        {
            return done(&down, Err(failure));
        }
        self.inner.start(call, down)
    }

    /// A call that lasts: it is answered now, and made when the back is opened.
    fn stand(&self, call: Call, is_legacy: bool, down: ReplyTo, first: Down) -> RunningCall {
        let (is_open, connection) = (self.is_compared(&call), self.connection(&call));
        let standing = Standing::new(call, is_legacy, down, self.this.clone());
        {
            let mut all = self.standing.borrow_mut();
            all.retain(|known| !known.is_over());
            all.push(standing.clone());
        }
        standing.say(first);
        if is_open {
            standing.wake(&*self.inner, connection);
        }
        standing.running_call()
    }

    /// Something that is told the back on each connection, and whose answer is of no interest;
    /// what was to be told before counts no longer.
    fn stand_aside(&self, call: Call, said_on: Option<Compared>) {
        let mut all = self.standing.borrow_mut();
        all.retain(|known| !known.is_replaced_by(&call));
        let down = ReplyTo::new(Rc::new(Nobody), Ticket(0));
        all.push(Standing::repeated(call, down, said_on));
    }

    fn edited(&self, down: ReplyTo, edit: Edit) -> ReplyTo {
        let guarded = self.this.clone();
        ReplyTo::new(Rc::new(Edited { down, edit, guarded }), Ticket(0))
    }

    /// A greeting with the instructions that were approved.
    fn greeted(&self, greeting: &Json, is_legacy: bool) -> Json {
        let (Some(pinned), Some(pins)) = (&self.plan.pinned, self.plan.pins) else {
            return greeting.clone();
        };
        self.introduced(greeting, is_legacy);
        if self.plan.rules.changed == OnChange::Warn {
            return greeting.clone();
        }
        pins.with_instructions(greeting, approved_instructions(pinned, is_legacy))
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

/// An answer that is looked at on its way to the client of a server that passes through.
struct Edited {
    down: ReplyTo,
    edit: Edit,
    guarded: Weak<Guarded>,
}

enum Edit {
    Greeting {
        is_legacy: bool,
    },
    /// With the call that asks for it.
    List(PinKind, Rc<Call>),
}

impl Edited {
    fn edit(&self, down: Down) -> Down {
        let Some(guarded) = self.guarded.upgrade() else { return down };
        match (&self.edit, down) {
            (&Edit::Greeting { is_legacy }, Down::Begin { head: Some(head), parts }) => {
                Down::Begin { head: Some(guarded.greeted(&head, is_legacy)), parts }
            }
            (&Edit::Greeting { is_legacy }, Down::Done(Ok(Outcome::Native(raw)))) => {
                let edited = match Json::parse(raw.clone()) {
                    Ok(greeting) => guarded.greeted(&greeting, is_legacy).as_bytes().clone(),
                    Err(_) => raw,
                };
                Down::Done(Ok(Outcome::Native(edited)))
            }
            (Edit::List(kind, call), Down::Done(Ok(Outcome::Native(raw)))) => {
                let Some(pins) = guarded.plan.pins else {
                    return Down::Done(Ok(Outcome::Native(raw)));
                };
                let is_shown = |object: &str| guarded.is_shown(*kind, object);
                let filtered = pins.native_filtered(&raw, *kind, &is_shown);
                // What is taken out is told, though nothing has been called yet.
                if filtered != raw && !guarded.is_compared(call) {
                    guarded.compare_aside(Call::clone(call));
                }
                Down::Done(Ok(Outcome::Native(filtered)))
            }
            (_, down) => down,
        }
    }
}

impl Asker for Edited {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        self.down.send(self.edit(down))
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}

/// Takes what is of no interest.
struct Nobody;

impl Asker for Nobody {
    fn receive(&self, _: Ticket, _: Down) -> Pressure {
        Pressure::Ready
    }

    fn resume(&self, _: Ticket) {}
}

fn done(down: &ReplyTo, outcome: Result<Outcome, Failure>) -> RunningCall {
    let _ = down.send(Down::Done(outcome));
    RunningCall::ended()
}

fn unknown(kind: PinKind, full: &str, hint: Option<String>) -> Failure {
    let message = match kind {
        PinKind::Tool => format!("no such tool: `{full}`"),
        PinKind::Prompt | PinKind::Template => format!("unknown {}: {full}", kind.as_str()),
    };
    hinted(Failure::new(FailureKind::UnknownTool, message), hint)
}

/// The instructions that were approved, for such clients.
fn approved_instructions(pinned: &Pinned, is_legacy: bool) -> Option<&str> {
    match is_legacy {
        true => pinned.legacy_instructions(),
        false => pinned.shown.instructions.as_deref(),
    }
}

/// A sentence about prompts and templates that are not the same.
fn others_differ(verdict: &Verdict) -> Option<String> {
    let is_other = |(kind, ..): &(PinKind, &str, &Stand)| *kind != PinKind::Tool;
    let kinds: Vec<_> = verdict.all().filter(is_other).map(|(kind, ..)| kind.as_str()).collect();
    match kinds.as_slice() {
        [] => None,
        [one] => Some(format!("1 {one} is not as toolbus.lock has it")),
        all => {
            Some(format!("{} prompts and templates are not as toolbus.lock has them", all.len()))
        }
    }
}

fn program_message(name: &str, identity: &Identity) -> String {
    format!(
        "the program of back `{name}` has changed since it was locked: {}; see `toolbus lock diff {name}`",
        identity.shown()
    )
}
