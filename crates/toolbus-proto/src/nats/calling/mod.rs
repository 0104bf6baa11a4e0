//! The asking end: who is there, what they offer, and calls to them.
//!
//! One connection carries all of it. `listing` finds instances and keeps what is known of them
//! true, `instances` makes one list of theirs, `talking` leads the calls.

mod answer;
mod gone;
mod hearing;
mod instances;
mod listing;
mod sending;
mod talking;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use self::instances::{Instances, Key, Offered};
use self::listing::{Inquiry, Round};
use self::talking::CallOut;
use super::WIRE;
use super::headers::{Block, Headers};
use super::link::{Arrived, Link};
use super::protocol::{Message, put_pub, put_sub};
use super::wire::Info;
use crate::chance::Random;
use crate::channel::{
    Calling, Channel, Down, Farewell, Fault, Flow, Goodbye, Machine, Notice, Outbox, Readiness,
    Ticket, Up,
};
use crate::counted::Counted;
use crate::outstanding::{Desk, Outstanding};
use crate::tool::{Call, Failure, FailureKind, ToolName, What, Wire};

/// How many calls may be under way, and how many may wait until it is known who is there.
const CALLS_MAX: usize = 8192;
const WAITING_MAX: usize = 1024;

/// May a call be sent a second time if the node that had it is gone?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retry {
    /// Never.
    #[default]
    Never,
    /// If the tool says that calling it twice does no more than calling it once.
    Idempotent,
}

/// What an asking end has to know.
pub struct ClientSettings {
    /// The server it is connected to, `HOST:PORT`.
    pub at: String,
    /// What that said about itself.
    pub info: Info,
    /// The service whose tools are called; none for all of them.
    pub service: Option<String>,
    /// This instance alone.
    pub id: Option<String>,
    /// What the subjects begin with on which answers are taken: nobody else's.
    pub inbox: String,
    /// When to send a call again.
    pub retry: Retry,
    /// The wires whose results may pass as they are.
    pub wires: Vec<Wire>,
    /// The nodes of our own process, which are not called.
    pub own: Rc<dyn Fn(&str) -> bool>,
    /// Does someone want to be told of changes?
    pub watched: Rc<Cell<bool>>,
    /// What is known from connections before this one.
    pub memory: Rc<ClientMemory>,
    /// Ask each node how it is, for those who look at nodes.
    pub asks_state: bool,
}

/// What outlives a connection: the next one takes answers on the same subjects.
#[derive(Debug)]
pub struct ClientMemory {
    /// What was listed last, with the digest of each tool: what else is listed has changed.
    pub told: RefCell<Option<BTreeMap<ToolName, String>>>,
    /// The node of each back that keeps state, by its service and its name.
    pins: RefCell<HashMap<(String, String), String>>,
    /// The next number of a call, and of a question that is none. None is given out twice: an
    /// answer may come late.
    next_call: Cell<u64>,
    next_asked: Cell<u64>,
}

impl Default for ClientMemory {
    fn default() -> ClientMemory {
        ClientMemory {
            told: RefCell::default(),
            pins: RefCell::default(),
            next_call: Cell::new(0),
            next_asked: Cell::new(ASKED_FROM),
        }
    }
}

/// An instance, for those who look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNode {
    /// The name of the service.
    pub service: String,
    /// The id of the instance.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Is it a toolbus?
    pub is_toolbus: bool,
    /// How many tools it offers.
    pub tools: usize,
    /// How many calls it has under way, if it says so.
    pub in_flight: Option<usize>,
    /// It takes no more calls.
    pub is_draining: bool,
    /// How long it took to answer.
    pub rtt: Duration,
}

/// How one connection is, for those who count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenTraffic {
    /// How many instances are there.
    pub nodes: usize,
    /// What others may send before they are given more, in bytes.
    pub windows: u64,
    /// How many calls were sent once more, by why.
    pub resent: BTreeMap<&'static str, u64>,
}

/// The asking end of one connection.
pub struct Client<R> {
    settings: ClientSettings,
    random: R,
    link: Link,
    desk: Desk,
    out: Outbox,
    instances: Instances,
    offer: BTreeMap<ToolName, Offered>,
    /// The offer is what the instances said, as far as they answered.
    is_listed: bool,
    round: Option<Round>,
    /// Those who asked for the list.
    listeners: Vec<(Ticket, Option<Instant>)>,
    /// Calls whose answer is awaited, by the last token of their reply subject.
    outstanding: Outstanding,
    running: Counted<u64, CallOut>,
    numbers: Counted<Ticket, u64>,
    /// Other questions, the same way.
    asked: Counted<u64, Inquiry>,
    /// Calls that were given up before their node had said where to say so.
    given_up: Counted<u64, Instant>,
    stirred: BTreeSet<u64>,
    room: VecDeque<Ticket>,
    /// What the subjects of nodes begin with.
    prefixes: BTreeSet<String>,
    next_sid: u64,
    next_look: Option<Instant>,
    next_round: Option<Instant>,
    kept: usize,
    given: u64,
    resent: BTreeMap<&'static str, u64>,
}

/// The numbers of questions that are no calls are beyond those of calls.
const ASKED_FROM: u64 = 1 << 48;
/// What nodes say by themselves stands behind their prefix.
const HERE: &str = "toolbus.here";
/// Confirmed: the subscription of our inbox.
const INBOX: u64 = 0;

impl<R: Random> Client<R> {
    /// Asks on a connection that is ready.
    pub fn new(now: Instant, settings: ClientSettings, random: R) -> Client<R> {
        let link = Link::new(now, settings.at.clone(), settings.info.clone());
        let outstanding = Outstanding::new(settings.memory.next_call.get(), CALLS_MAX);
        let mut client = Client {
            link,
            random,
            desk: Desk::new(WAITING_MAX, "the list of this service"),
            out: Outbox::new(),
            instances: Instances::default(),
            offer: BTreeMap::new(),
            is_listed: false,
            round: None,
            listeners: Vec::new(),
            outstanding,
            running: Counted::default(),
            numbers: Counted::default(),
            asked: Counted::default(),
            given_up: Counted::default(),
            stirred: BTreeSet::new(),
            room: VecDeque::new(),
            prefixes: BTreeSet::new(),
            next_sid: 3,
            next_look: None,
            next_round: None,
            kept: 0,
            given: 0,
            resent: BTreeMap::new(),
            settings,
        };
        let inbox = format!("{}.*", client.settings.inbox);
        put_sub(&mut client.out, &inbox, None, 1);
        // What nodes say by themselves: most have their subjects begin with the name.
        let here = format!("{}.{HERE}", client.settings.service.as_deref().unwrap_or("*"));
        put_sub(&mut client.out, &here, None, 2);
        client.link.confirm(now, &mut client.out, INBOX);
        client
    }

    /// Who is there, in order.
    pub fn nodes(&self) -> Vec<SeenNode> {
        let all = self.instances.all.iter();
        let nodes = all.map(|((service, id), instance)| SeenNode {
            service: service.clone(),
            id: id.clone(),
            version: instance.version.clone(),
            is_toolbus: instance.prefix.is_some(),
            tools: instance.tools.len(),
            in_flight: instance.in_flight,
            is_draining: instance.is_draining,
            rtt: instance.rtt.unwrap_or_default(),
        });
        nodes.collect()
    }

    /// How things stand, a line each, for people who look whether all is well.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![format!("NATS {} at {}", self.link.info().version, self.link.at())];
        if let Some(rtt) = self.link.rtt() {
            remarks[0].push_str(&format!(", RTT {:.1} ms", rtt.as_secs_f64() * 1000.0));
        }
        let is_node = |of: &instances::Instance| of.prefix.is_some();
        let nodes = self.instances.all.values().filter(|of| is_node(of)).count();
        let foreign = self.instances.all.len() - nodes;
        let mut there = format!("{nodes} {}", if nodes == 1 { "node" } else { "nodes" });
        if 0 < foreign {
            there.push_str(&format!(", {foreign} foreign"));
        }
        remarks.push(there);
        for (service, tool, count) in self.instances.in_versions() {
            remarks.push(format!("`{tool}` of `{service}` is there in {count} versions"));
        }
        remarks
    }

    /// How it is, for those who count.
    pub fn traffic(&self) -> SeenTraffic {
        let Client { instances, given, resent, .. } = self;
        SeenTraffic { nodes: instances.all.len(), windows: *given, resent: resent.clone() }
    }

    /// Is no call under way?
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.desk.queue.is_empty()
    }

    /// What the server says about itself by now.
    pub fn info(&self) -> &Info {
        self.link.info()
    }

    fn break_off(&mut self, failure: Failure) {
        if !self.desk.is_broken() {
            self.desk.readiness = Readiness::Broken(Fault { failure, farewell: Farewell::Abrupt });
        }
    }

    fn handle_event(&mut self, now: Instant, event: Arrived) {
        match event {
            Arrived::Message(message) => self.handle_message(now, message),
            Arrived::Confirmed(_) => {
                self.desk.open(now, |call| call.deadline);
                self.begin_round(now);
            }
            Arrived::Info => {}
            Arrived::Denied { subject, is_subscription } => self.denied(&subject, is_subscription),
            Arrived::Complaint(what) => self.desk.notice(Notice::Ignored(what)),
            Arrived::Over(failure) => self.break_off(failure),
        }
    }

    fn denied(&mut self, subject: &str, is_subscription: bool) {
        if is_subscription {
            // Without our inbox nothing can be asked; what nodes tell by themselves is not needed.
            if subject.starts_with(&self.settings.inbox) {
                let message = format!("the NATS server does not let us subscribe to \"{subject}\"");
                self.break_off(Failure::new(FailureKind::Unavailable, message));
            }
            return;
        }
        let message = format!("the NATS server does not let us publish to \"{subject}\"");
        let failure = Failure::new(FailureKind::Unavailable, message.clone());
        let denied = self.running.iter().filter(|(_, running)| running.sent_to == subject);
        let denied: Vec<u64> = denied.map(|(number, _)| *number).collect();
        for number in denied {
            self.finish(number, Err(failure.clone()));
        }
        if subject.starts_with("$SRV.PING") {
            self.end_round_with(&failure);
        }
        self.desk.notice(Notice::Warning(message));
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        let headers = match &message.head {
            None => Headers::default(),
            Some(block) => match Headers::read(block) {
                Some(headers) => headers,
                None => {
                    let what = "a message with a malformed header block".to_owned();
                    return self.desk.notice(Notice::Stray(what));
                }
            },
        };
        let token = message
            .subject
            .strip_prefix(self.settings.inbox.as_str())
            .and_then(|rest| rest.strip_prefix('.'));
        let Some(number) = token.and_then(|token| token.parse::<u64>().ok()) else {
            return self.handle_here(now, &message);
        };
        match ASKED_FROM <= number {
            true => self.handle_asked(now, number, &headers, &message),
            false => self.handle_answer(now, number, headers, message),
        }
    }

    /// Asks something that is no call, and is answered on our inbox.
    fn ask(&mut self, subject: &str, payload: &Bytes, asked: Inquiry) -> u64 {
        let next = &self.settings.memory.next_asked;
        let number = next.replace(next.get() + 1);
        let reply = format!("{}.{number}", self.settings.inbox);
        put_pub(&mut self.out, subject, Some(&reply), None, payload);
        self.asked.insert(number, asked);
        number
    }

    fn name_for_people(&self) -> String {
        let at = self.link.at();
        match &self.settings.service {
            Some(name) => format!("no service `{name}` answers on {at}"),
            None => format!("no service answers on {at}"),
        }
    }
}

impl<R: Random> Machine for Client<R> {
    fn handle_timeout(&mut self, now: Instant) {
        if let Some(failure) = self.link.handle_timeout(now, &mut self.out) {
            self.break_off(failure);
        }
        self.desk.expire(now);
        for (number, _) in self.outstanding.expire(now) {
            self.expired(now, number);
        }
        self.look(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let of_round = self.round.as_ref().map(listing::Round::poll_timeout);
        let listeners = self.listeners.iter().filter_map(|(_, until)| *until).min();
        let next_round = self.next_round.filter(|_| self.settings.watched.get());
        [
            self.link.poll_timeout(),
            self.desk.queue.poll_timeout(),
            self.outstanding.poll_timeout(),
            of_round,
            listeners,
            self.next_look,
            next_round,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.desk.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.kept + self.desk.queue.weight()
    }

    fn hold(&mut self, _now: Instant, ticket: Ticket, is_held: bool) {
        self.hold_call(ticket, is_held);
    }

    fn is_full(&mut self, ticket: Ticket) -> bool {
        self.is_call_full(ticket)
    }

    fn poll_room(&mut self) -> Option<Ticket> {
        self.room.pop_front()
    }
}

impl<R: Random> Channel for Client<R> {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while !self.desk.is_broken() {
            let Some(event) = self.link.next(now, input, &mut self.out) else { break };
            self.handle_event(now, event);
        }
        self.flow()
    }

    fn handle_eof(&mut self, _now: Instant, _input: &mut BytesMut) -> Flow {
        self.break_off(self.link.lost());
        self.flow()
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        self.flush();
        out.append(&mut self.out);
    }
}

impl<R: Random> Client<R> {
    fn flow(&self) -> Flow {
        if self.desk.is_broken() { Flow::Close } else { Flow::More }
    }
}

impl<R: Random> Calling for Client<R> {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        if let Readiness::Broken(fault) = &self.desk.readiness {
            let why = fault.failure.clone();
            return self.desk.done(ticket, Err(why));
        }
        match &call.what {
            What::Tools => {
                let until = call.deadline.instant(now);
                self.listeners.push((ticket, until));
                if self.desk.is_open() {
                    self.begin_round(now);
                }
            }
            What::Tool { .. } if self.is_listed => self.start(now, ticket, call, Vec::new()),
            What::Tool { .. } => {
                let deadline = call.deadline;
                self.desk.wait(ticket, call, &deadline);
            }
            What::Native { wire, .. } if *wire == WIRE => match self.is_listed {
                true => self.start(now, ticket, call, Vec::new()),
                false => {
                    let deadline = call.deadline;
                    self.desk.wait(ticket, call, &deadline);
                }
            },
            What::Native { .. } => {
                let message = format!("a native call of another wire than {}", WIRE.name());
                self.desk.done(ticket, Err(Failure::new(FailureKind::InvalidArguments, message)));
            }
        }
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        if let Some(number) = self.numbers.get(&ticket).copied() {
            return self.go_on(now, number, up);
        }
        let listener = self.listeners.iter().position(|(known, _)| *known == ticket);
        match listener {
            Some(at) if matches!(up, Up::Cancel(_)) => {
                self.listeners.remove(at);
                self.desk.done(ticket, Err(Failure::cancelled()));
            }
            Some(_) => {}
            None => {
                if let Some(failure) = self.desk.queue.up(ticket, up) {
                    self.desk.done(ticket, Err(failure));
                }
            }
        }
    }

    fn close(&mut self, _now: Instant, _patience: Duration) -> Goodbye {
        Goodbye::Said
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.desk.downs.pop_front()
    }

    fn readiness(&self) -> &Readiness {
        &self.desk.readiness
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        self.desk.take_unsent()
    }

    fn handle_lost(&mut self, _now: Instant, why: &Failure) {
        self.break_off(why.clone());
        self.desk.lost(why);
        for (ticket, _) in std::mem::take(&mut self.listeners) {
            self.desk.done(ticket, Err(why.clone()));
        }
        let mut numbers: Vec<u64> = self.running.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            self.finish(number, Err(why.clone()));
        }
    }
}

/// The headers that every request may have.
fn traced(block: Block, call: &Call) -> Block {
    let trace = call.trace.as_ref();
    block
        .maybe("traceparent", trace.map(crate::tool::Trace::parent))
        .maybe("tracestate", trace.and_then(crate::tool::Trace::state))
}

/// An instance, for a sentence.
fn shown((service, id): &Key) -> String {
    format!("node {id} of `{service}`")
}
