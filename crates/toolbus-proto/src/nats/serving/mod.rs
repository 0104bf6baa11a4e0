//! The answering end: a node, which is a micro service and more to other toolbuses.
//!
//! It asks for the tools behind it by itself, subscribes to a subject for each, and says that it is
//! ready once the server has confirmed that. Plain requests get one answer; calls of other toolbuses
//! are talks, which `talk` leads.

mod answer;
mod running;
mod talk;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use self::answer::PlainAnswer;
use self::running::{CallIn, How, Peer};
use super::WIRE;
use super::headers::Headers;
use super::link::{Arrived, Link};
use super::protocol::{Message, put_pub, put_sub, put_unsub};
use super::service::{About, NodeIdentity, Offer, QUEUE, ping};
use super::subject;
use super::translate;
use super::wire::{Info, ListRequest, NodeState};
use crate::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use crate::counted::Counted;
use crate::json::{Json, Kind};
use crate::tool::{Call, CallerId, Failure, FailureKind, Outcome, ToolName, ToolSpec, What, Wire};

/// How many calls one peer may have under way, how many all, and how many peers are remembered.
const CALLS_OF_PEER_MAX: usize = 1024;
const CALLS_MAX: usize = 8192;
const PEERS_MAX: usize = 1024;
/// The longest time that a request may ask for: a day.
const TIMEOUT_MS_MAX: u64 = 86_400_000;
/// The number of a caller that another machine named stands above so many bits of the peer's.
const CALLER_BITS: u32 = 32;
/// By which we ask for our own tools.
const TOOLS: Ticket = Ticket(0);

/// What else is known of a tool.
type Abouts = Box<dyn Fn(&ToolSpec) -> Option<About>>;

/// The number of a caller by its name, where what a message says of that is believed; nothing of
/// one that is not known.
pub type Trusted = Box<dyn Fn(&str) -> Option<u32>>;

/// What a node has to know.
pub struct ServerSettings {
    /// Who it is.
    pub identity: NodeIdentity,
    /// The server it is connected to, `HOST:PORT`.
    pub at: String,
    /// What that said about itself.
    pub info: Info,
    /// What the subjects begin with on which running calls go on.
    pub inbox: String,
    /// The wires whose results may pass as they are.
    pub wires: Vec<Wire>,
    /// What callers may send before they are given more, in bytes: counted here.
    pub windows: Rc<Cell<u64>>,
    /// How many calls the node has under way, on all its connections: counted here.
    pub in_flight: Rc<Cell<usize>>,
    /// Whose calls are believed to be those of callers that other machines name; nobody's, unless
    /// that was asked for.
    pub trusted: Option<Trusted>,
    /// What is known of a tool besides its description; a tool of which nothing is is not offered.
    pub about: Abouts,
}

/// The answering end of a node, on one connection.
pub struct Server {
    settings: ServerSettings,
    link: Link,
    stage: NodeStage,
    out: Outbox,
    offer: Offer,
    /// The place of each tool by its subject.
    places: HashMap<String, usize>,
    /// What we subscribed to.
    subscribed: BTreeMap<String, u64>,
    next_sid: u64,
    next_confirm: u64,
    /// The tools are being asked for, and once more if they changed meanwhile.
    asks_tools: bool,
    asks_again: bool,
    ups: VecDeque<(Ticket, Asked)>,
    notices: VecDeque<Notice>,
    calls: Counted<Ticket, CallIn>,
    next_ticket: u64,
    /// Talks that may have something to say.
    stirred: BTreeSet<Ticket>,
    /// Those whose caller takes more again.
    room: VecDeque<Ticket>,
    peers: HashMap<String, Peer>,
    next_caller: u64,
    kept: usize,
    next_look: Option<Instant>,
    has_warned: bool,
    ended: Option<Ended>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeStage {
    /// What there is has not been subscribed to, or not been confirmed.
    Opening,
    Ready,
    /// The server forbids something that we need.
    Hampered,
    /// No call is taken; `is_confirmed` if the server sends no more of them.
    Draining {
        is_confirmed: bool,
    },
    /// Another connection of this node takes all calls from now on; the same of `is_confirmed`.
    Moving {
        is_confirmed: bool,
    },
}

/// Confirmed by the server: that we subscribed, that we left.
const SUBSCRIBED: u64 = 0;
const LEFT: u64 = 1;

/// The number of the caller that another machine named and that is believed.
pub fn trusted_number(caller: CallerId) -> Option<u32> {
    u32::try_from((caller.0 >> CALLER_BITS).checked_sub(1)?).ok()
}

impl Server {
    /// A node on a connection that is ready.
    pub fn new(now: Instant, settings: ServerSettings) -> Server {
        let link = Link::new(now, settings.at.clone(), settings.info.clone());
        let mut server = Server {
            link,
            settings,
            stage: NodeStage::Opening,
            out: Outbox::new(),
            offer: Offer::default(),
            places: HashMap::new(),
            subscribed: BTreeMap::new(),
            next_sid: 1,
            next_confirm: 0,
            asks_tools: false,
            asks_again: false,
            ups: VecDeque::new(),
            notices: VecDeque::new(),
            calls: Counted::default(),
            next_ticket: 1,
            stirred: BTreeSet::new(),
            room: VecDeque::new(),
            peers: HashMap::new(),
            next_caller: 1,
            kept: 0,
            next_look: None,
            has_warned: false,
            ended: None,
        };
        server.ask_tools(now);
        server
    }

    /// Is everything subscribed to, and confirmed?
    pub fn is_ready(&self) -> bool {
        self.stage == NodeStage::Ready
    }

    /// Does the server send us no more calls, since we are about to stop?
    pub fn has_left(&self) -> bool {
        self.stage == NodeStage::Draining { is_confirmed: true }
    }

    /// Does the server forbid what this node needs?
    pub fn is_hampered(&self) -> bool {
        self.stage == NodeStage::Hampered
    }

    /// Leaves all calls to another connection of this node; those under way go on here. That one
    /// may be told to serve once [`Server::has_moved`].
    pub fn move_away(&mut self, now: Instant) {
        if matches!(self.stage, NodeStage::Draining { .. } | NodeStage::Moving { .. }) {
            return;
        }
        self.stage = NodeStage::Moving { is_confirmed: false };
        let inbox = format!("{}.*", self.settings.inbox);
        let left: Vec<String> = self.subscribed.keys().cloned().collect();
        for subject in left.iter().filter(|subject| **subject != inbox) {
            self.unsubscribe(subject);
        }
        self.next_confirm += 1;
        self.link.confirm(now, &mut self.out, LEFT + 2 * self.next_confirm);
    }

    /// Does the server send no more calls here, since another connection takes them?
    pub fn has_moved(&self) -> bool {
        self.stage == NodeStage::Moving { is_confirmed: true }
    }

    /// Is no call under way?
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.ups.is_empty()
    }

    /// What the server says about itself by now.
    pub fn info(&self) -> &Info {
        self.link.info()
    }

    /// What outlives this connection, for the next one of this node.
    pub fn take_memory(&mut self) -> NodeMemory {
        let mut peers = std::mem::take(&mut self.peers);
        peers.values_mut().for_each(|peer| (peer.calls, peer.given) = (0, 0));
        NodeMemory {
            offer: std::mem::take(&mut self.offer),
            peers,
            next_caller: self.next_caller,
            next_ticket: self.next_ticket,
        }
    }

    /// Goes on where another connection of this node has ended.
    #[must_use]
    pub fn with_memory(mut self, memory: NodeMemory) -> Server {
        let NodeMemory { offer, peers, next_caller, next_ticket } = memory;
        (self.offer, self.peers) = (offer, peers);
        (self.next_caller, self.next_ticket) = (next_caller, next_ticket);
        self
    }

    fn ask_tools(&mut self, now: Instant) {
        if self.asks_tools {
            self.asks_again = true;
            return;
        }
        self.asks_tools = true;
        self.ups.push_back((TOOLS, Asked::Call(Call::of(now, What::Tools))));
    }

    fn handle_tools(&mut self, now: Instant, outcome: Result<Outcome, Failure>) {
        self.asks_tools = false;
        if std::mem::take(&mut self.asks_again) {
            self.ask_tools(now);
        }
        let specs = match outcome {
            Ok(Outcome::Tools(specs)) => specs,
            Ok(_) => return,
            Err(failure) => {
                // What is subscribed to by now stays.
                let what = format!("the tools for NATS cannot be listed: {}", failure.message);
                self.notices.push_back(Notice::Warning(what));
                match self.stage {
                    NodeStage::Opening => [].into(),
                    _ => return,
                }
            }
        };
        let before = self.offer.digest.clone();
        let payload_max = self.link.info().max_payload;
        let left_out =
            self.offer.set(&self.settings.identity, payload_max, &specs, &self.settings.about);
        for (tool, why) in left_out {
            let what = format!("tool `{tool}` is left out of NATS: {why}");
            self.notices.push_back(Notice::Warning(what));
        }
        let places = self.offer.tools.iter().enumerate();
        self.places = places.map(|(at, tool)| (tool.subject.clone(), at)).collect();
        let has_changed = before != self.offer.digest;
        if self.subscribe() || self.stage == NodeStage::Opening {
            self.next_confirm += 1;
            self.link.confirm(now, &mut self.out, SUBSCRIBED + 2 * self.next_confirm);
        }
        if has_changed && self.stage == NodeStage::Ready {
            self.tell_here(Some("changed"));
        }
    }

    /// Subscribes to what is missing, and leaves what is there no more. Tells whether there was
    /// anything to do.
    fn subscribe(&mut self) -> bool {
        if matches!(self.stage, NodeStage::Draining { .. } | NodeStage::Moving { .. }) {
            return false;
        }
        let NodeIdentity { name, id, prefix, .. } = &self.settings.identity;
        let mut wanted: BTreeMap<String, bool> = BTreeMap::new();
        for verb in ["PING", "INFO", "STATS"] {
            wanted.insert(format!("$SRV.{verb}"), false);
            wanted.insert(format!("$SRV.{verb}.{name}"), false);
            wanted.insert(format!("$SRV.{verb}.{name}.{id}"), false);
        }
        wanted.insert(format!("{prefix}.toolbus.tools"), true);
        wanted.insert(format!("{prefix}.toolbus.state"), false);
        wanted.insert(format!("{prefix}.toolbus.node.{id}.>"), false);
        wanted.insert(format!("{}.*", self.settings.inbox), false);
        wanted.extend(self.offer.tools.iter().map(|tool| (tool.subject.clone(), true)));
        let before = self.next_sid;
        let gone: Vec<String> =
            self.subscribed.keys().filter(|known| !wanted.contains_key(*known)).cloned().collect();
        for subject in &gone {
            self.unsubscribe(subject);
        }
        for (subject, is_shared) in wanted {
            if !self.subscribed.contains_key(&subject) {
                let queue = is_shared.then_some(QUEUE);
                put_sub(&mut self.out, &subject, queue, self.next_sid);
                self.subscribed.insert(subject, self.next_sid);
                self.next_sid += 1;
            }
        }
        before < self.next_sid || !gone.is_empty()
    }

    fn unsubscribe(&mut self, subject: &str) {
        if let Some(sid) = self.subscribed.remove(subject) {
            put_unsub(&mut self.out, sid);
        }
    }

    fn state(&self, event: Option<&str>) -> Bytes {
        let NodeIdentity { name, id, .. } = &self.settings.identity;
        let state = NodeState {
            event: event.map(str::to_owned),
            id: id.clone(),
            name: name.clone(),
            digest: self.offer.digest.clone(),
            tools: self.offer.tools.len(),
            in_flight: self.settings.in_flight.get(),
            draining: matches!(self.stage, NodeStage::Draining { .. }),
        };
        Json::of(&state).as_bytes().clone()
    }

    fn tell_here(&mut self, event: Option<&str>) {
        let subject = format!("{}.toolbus.here", self.settings.identity.prefix);
        let state = self.state(event);
        put_pub(&mut self.out, &subject, None, None, &state);
    }

    fn handle_event(&mut self, now: Instant, event: Arrived) {
        match event {
            Arrived::Message(message) => self.handle_message(now, message),
            Arrived::Confirmed(what) if what % 2 == SUBSCRIBED => {
                if self.stage == NodeStage::Opening && what == 2 * self.next_confirm {
                    self.stage = NodeStage::Ready;
                    self.tell_here(Some("up"));
                }
            }
            Arrived::Confirmed(_) => {
                if let NodeStage::Draining { is_confirmed } | NodeStage::Moving { is_confirmed } =
                    &mut self.stage
                {
                    *is_confirmed = true;
                }
            }
            Arrived::Info => {}
            Arrived::Denied { subject, is_subscription: true } => {
                let what = format!("the NATS server does not let us subscribe to \"{subject}\"");
                match self.stage {
                    NodeStage::Opening => self.ended = Some(Ended::Refused(what)),
                    _ => {
                        self.stage = NodeStage::Hampered;
                        self.notices.push_back(Notice::Warning(what));
                    }
                }
            }
            Arrived::Denied { subject, .. } => {
                let what = format!("the NATS server does not let us publish to \"{subject}\"");
                self.notices.push_back(Notice::Warning(what));
            }
            Arrived::Complaint(what) => self.notices.push_back(Notice::Ignored(what)),
            Arrived::Over(failure) => self.ended = Some(Ended::Broke(failure.message)),
        }
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        let headers = match &message.head {
            None => Headers::default(),
            Some(block) => match Headers::read(block) {
                Some(headers) => headers,
                None => {
                    let what = "a message with a malformed header block".to_owned();
                    return self.notices.push_back(Notice::Stray(what));
                }
            },
        };
        let inbox = message.subject.strip_prefix(self.settings.inbox.as_str());
        if let Some(token) = inbox.and_then(|rest| rest.strip_prefix('.')) {
            if let Ok(number) = token.parse() {
                self.handle_up(now, Ticket(number), headers, &message);
            }
            return;
        }
        if message.subject.starts_with("$SRV.") {
            return self.handle_service(&message);
        }
        let NodeIdentity { id, prefix, .. } = &self.settings.identity;
        let own =
            message.subject.strip_prefix(prefix.as_str()).and_then(|own| own.strip_prefix('.'));
        let Some(own) = own else { return };
        let node = own
            .strip_prefix("toolbus.node.")
            .and_then(|own| own.strip_prefix(id.as_str()))
            .and_then(|own| own.strip_prefix('.'));
        match node.unwrap_or(own) {
            "toolbus.state" => {
                if let Some(reply) = &message.reply {
                    let state = self.state(None);
                    put_pub(&mut self.out, reply, None, None, &state);
                }
            }
            "toolbus.tools" => self.handle_list(&message),
            tool => {
                let subject = match node {
                    Some(_) => format!("{prefix}.{tool}"),
                    None => message.subject.clone(),
                };
                let place = self.places.get(&subject).copied();
                self.handle_request(now, place, &headers, message);
            }
        }
    }

    /// `$SRV.VERB`, `$SRV.VERB.NAME` or `$SRV.VERB.NAME.ID`: what we did not subscribe to does not
    /// arrive.
    fn handle_service(&mut self, message: &Message) {
        let Some(reply) = &message.reply else { return };
        let identity = &self.settings.identity;
        let answer = match message.subject.split('.').nth(1) {
            Some("PING") => ping(identity),
            Some("INFO") => self.offer.info(identity),
            Some("STATS") => self.offer.stats(identity),
            _ => return,
        };
        put_pub(&mut self.out, reply, None, None, &answer.into());
    }

    fn handle_list(&mut self, message: &Message) {
        let Some(reply) = &message.reply else { return };
        let max = self.link.info().max_payload;
        let request = match message.payload.is_empty() {
            true => Ok(ListRequest::default()),
            // serde would take an array for the members in their order.
            false => Json::parse(message.payload.clone())
                .ok()
                .filter(|json| json.kind() == Kind::Object)
                .and_then(|json| json.read().ok())
                .ok_or(()),
        };
        let page = match request {
            Ok(request) => self.offer.page(&request, max),
            Err(()) => Err((400, "the request is no object with `cursor` and `known`")),
        };
        let answer = match page {
            Ok(page) => PlainAnswer { head: None, payload: page.into(), error: None },
            Err((number, what)) => {
                let kind = if number == 400 {
                    FailureKind::InvalidArguments
                } else {
                    FailureKind::Unavailable
                };
                answer::error(&Failure::new(kind, what), number, max)
            }
        };
        self.offer.list_stats.count(Duration::ZERO, answer.error.clone());
        put_pub(&mut self.out, reply, None, answer.head.as_deref(), &answer.payload);
    }

    /// A request of a tool, plain or by another toolbus.
    fn handle_request(
        &mut self,
        now: Instant,
        place: Option<usize>,
        headers: &Headers,
        message: Message,
    ) {
        let Some(reply) = message.reply.clone() else {
            if let Some(place) = place {
                let error = Some("400:no reply subject".to_owned());
                self.offer.tools[place].stats.count(Duration::ZERO, error);
            }
            if !std::mem::replace(&mut self.has_warned, true) {
                let what = format!("a request to \"{}\" has no reply subject", message.subject);
                self.notices.push_back(Notice::Warning(what));
            }
            return;
        };
        if headers.get(super::flow::HEADER).is_some() {
            return self.handle_call(now, place, headers, &reply, &message);
        }
        let call = self.plain_call(now, place, headers, &reply, &message);
        match call {
            Ok((call, tool)) => {
                let peer = peer_of(&reply).to_owned();
                let how = How::Plain(Box::default());
                let ticket = self.enter(
                    now,
                    &peer,
                    CallIn { reply, peer: peer.clone(), tool, begun: now, how },
                );
                self.ups.push_back((ticket, Asked::Call(call)));
            }
            Err(failure) => {
                let number = answer::number(&failure);
                let answer = answer::error(&failure, number, self.link.info().max_payload);
                self.respond(now, place, &reply, now, answer);
            }
        }
    }

    fn plain_call(
        &mut self,
        now: Instant,
        place: Option<usize>,
        headers: &Headers,
        reply: &str,
        message: &Message,
    ) -> Result<(Call, ToolName), Failure> {
        if self.has_left() {
            return Err(answer::unavailable("draining", "the node is about to stop"));
        }
        let tool = self.tool_at(place, &message.subject, headers)?;
        if let Some(bytes) = message.too_large {
            let what = format!("the request has {bytes} bytes");
            return Err(Failure::new(FailureKind::TooLarge, what));
        }
        self.check_digest(place, headers)?;
        let bad = |what: String| Failure::new(FailureKind::InvalidArguments, what);
        let total = timeout(headers).map_err(bad)?;
        let args = translate::maybe_json(&message.payload, "the request").map_err(|why| {
            let why = why.replacen("the request is ", "the request is not JSON: ", 1);
            bad(why.replacen("not JSON: not JSON: ", "not JSON: ", 1))
        })?;
        self.check_room(reply)?;
        let mut call = Call::tool(now, tool.clone(), args);
        call.deadline.total = total;
        call.trace = translate::trace(headers);
        call.provenance = translate::provenance(headers);
        if let Some(provenance) = &mut call.provenance {
            // A plain client takes no question.
            provenance.asks = None;
        }
        let caller = self.caller(now, peer_of(reply));
        call.caller = self.named(caller, headers)?;
        Ok((call, tool))
    }

    /// The one who asks; one that is believed to be a caller of its own has its number above that.
    fn named(&self, peer: CallerId, headers: &Headers) -> Result<CallerId, Failure> {
        let name = self.settings.trusted.as_ref().zip(headers.get("Toolbus-Caller"));
        let Some((trusted, name)) = name else { return Ok(peer) };
        let number = trusted(name).ok_or_else(|| {
            answer::unavailable("unknown_caller", format!("there is no caller `{name}` here"))
        })?;
        Ok(CallerId(peer.0 | (u64::from(number) + 1) << CALLER_BITS))
    }

    fn tool_at(
        &self,
        place: Option<usize>,
        subject: &str,
        headers: &Headers,
    ) -> Result<ToolName, Failure> {
        match place {
            Some(place) => Ok(self.offer.tools[place].spec.name.clone()),
            None => {
                let NodeIdentity { id, prefix, .. } = &self.settings.identity;
                let node = format!("{prefix}.toolbus.node.{id}.");
                let tool = subject.strip_prefix(&node).unwrap_or(subject);
                // A caller that is believed has names of its own, and they are the bus's to know.
                let is_believed =
                    self.settings.trusted.is_some() && headers.get("Toolbus-Caller").is_some();
                let name = subject::tool_of(tool).filter(|name| !name.starts_with("toolbus."));
                if let Some(name) = name.filter(|_| is_believed) {
                    return Ok(name.into());
                }
                Err(Failure::new(FailureKind::UnknownTool, format!("no such tool: {tool}")))
            }
        }
    }

    fn check_digest(&self, place: Option<usize>, headers: &Headers) -> Result<(), Failure> {
        let tool = place.map(|place| &self.offer.tools[place]);
        match (tool, headers.get("Toolbus-Digest")) {
            (Some(tool), Some(digest)) if tool.digest != digest => {
                let what = format!("`{}` is another version here", tool.spec.name);
                Err(answer::unavailable("changed", what))
            }
            _ => Ok(()),
        }
    }

    fn check_room(&self, reply: &str) -> Result<(), Failure> {
        let peer = self.peers.get(peer_of(reply)).map_or(0, |peer| peer.calls);
        match peer < CALLS_OF_PEER_MAX && self.calls.len() < CALLS_MAX {
            true => Ok(()),
            false => Err(answer::unavailable("full", "too many calls are under way here")),
        }
    }

    /// The one who asks, as backs are told.
    fn caller(&mut self, now: Instant, peer: &str) -> CallerId {
        if let Some(known) = self.peers.get_mut(peer) {
            known.heard = now;
            return CallerId(known.caller);
        }
        if PEERS_MAX <= self.peers.len() {
            let idle = self.peers.iter().filter(|(_, peer)| peer.calls == 0);
            let oldest = idle.min_by_key(|(_, peer)| peer.heard).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                self.peers.remove(&oldest);
            }
        }
        let caller = self.next_caller;
        self.next_caller += 1;
        let known = Peer { caller, calls: 0, heard: now, told: now, given: 0 };
        self.peers.insert(peer.to_owned(), known);
        CallerId(caller)
    }

    fn enter(&mut self, now: Instant, peer: &str, running: CallIn) -> Ticket {
        self.caller(now, peer);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.calls += 1;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.calls.insert(ticket, running);
        self.count(1);
        if self.next_look.is_none() {
            self.next_look = Some(now + running::ALIVE_EVERY);
        }
        ticket
    }

    fn leave(&mut self, ticket: Ticket) -> Option<CallIn> {
        let running = self.calls.remove(&ticket)?;
        self.count(-1);
        if let How::Toolbus(talk) = &running.how {
            self.kept -= talk.counted;
            let windows = &self.settings.windows;
            windows.set(windows.get() - talk.receiver.window());
            if let Some(peer) = self.peers.get_mut(&running.peer) {
                peer.given -= talk.receiver.window();
            }
        }
        if let Some(peer) = self.peers.get_mut(&running.peer) {
            peer.calls -= 1;
        }
        Some(running)
    }

    fn count(&self, calls: isize) {
        let in_flight = &self.settings.in_flight;
        in_flight.set(in_flight.get().saturating_add_signed(calls));
    }

    /// Answers a plain request.
    fn respond(
        &mut self,
        now: Instant,
        place: Option<usize>,
        reply: &str,
        begun: Instant,
        answer: PlainAnswer,
    ) {
        if let Some(place) = place {
            let took = now.saturating_duration_since(begun);
            self.offer.tools[place].stats.count(took, answer.error);
        }
        put_pub(&mut self.out, reply, None, answer.head.as_deref(), &answer.payload);
    }

    /// Where a tool stands by its name.
    fn place_of(&self, tool: &ToolName) -> Option<usize> {
        self.offer.tools.binary_search_by(|known| known.spec.name.cmp(tool)).ok()
    }

    fn finish_plain(&mut self, now: Instant, ticket: Ticket, result: Result<Outcome, Failure>) {
        let Some(running) = self.leave(ticket) else { return };
        let answer = answer::answer(result, self.link.info().max_payload);
        let place = self.place_of(&running.tool);
        self.respond(now, place, &running.reply, running.begun, answer);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // With the connection, what was under way on it is over.
        self.count(-(self.calls.len() as isize));
    }
}

/// What outlives a connection of a node: what its endpoints have counted, and who calls, so that
/// each keeps the number by which backs know it.
#[derive(Debug)]
pub struct NodeMemory {
    offer: Offer,
    peers: HashMap<String, Peer>,
    next_caller: u64,
    /// None is given out twice: what is said of a call may come late.
    next_ticket: u64,
}

impl Default for NodeMemory {
    fn default() -> NodeMemory {
        let (offer, peers) = (Offer::default(), HashMap::new());
        NodeMemory { offer, peers, next_caller: 1, next_ticket: 1 }
    }
}

/// A reply subject without its last token.
fn peer_of(reply: &str) -> &str {
    reply.rsplit_once('.').map_or(reply, |(peer, _)| peer)
}

/// How long the caller waits in all.
fn timeout(headers: &Headers) -> Result<Option<Duration>, String> {
    let Some(text) = headers.get("Toolbus-Timeout-Ms") else { return Ok(None) };
    match text.parse() {
        Ok(ms @ 1..=TIMEOUT_MS_MAX) => Ok(Some(Duration::from_millis(ms))),
        _ => Err(format!("`Toolbus-Timeout-Ms` is from 1 to {TIMEOUT_MS_MAX}")),
    }
}

impl Machine for Server {
    fn handle_timeout(&mut self, now: Instant) {
        if let Some(failure) = self.link.handle_timeout(now, &mut self.out) {
            self.ended = Some(Ended::Broke(failure.message));
        }
        if self.next_look.is_some_and(|look| look <= now) {
            self.look_at_peers(now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.link.poll_timeout(), self.next_look].into_iter().flatten().min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.kept
    }

    fn hold(&mut self, now: Instant, ticket: Ticket, is_held: bool) {
        self.hold_talk(now, ticket, is_held);
    }

    fn is_full(&mut self, ticket: Ticket) -> bool {
        self.is_talk_full(ticket)
    }

    fn poll_room(&mut self) -> Option<Ticket> {
        self.room.pop_front()
    }
}

impl Channel for Server {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while self.ended.is_none() {
            let Some(event) = self.link.next(now, input, &mut self.out) else { break };
            self.handle_event(now, event);
        }
        self.flow()
    }

    fn handle_eof(&mut self, _now: Instant, _input: &mut BytesMut) -> Flow {
        let lost = self.link.lost().message;
        self.ended.get_or_insert(Ended::Broke(lost));
        self.flow()
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        self.flush();
        out.append(&mut self.out);
    }
}

impl Server {
    fn flow(&self) -> Flow {
        if self.ended.is_some() { Flow::Close } else { Flow::More }
    }
}

impl Serving for Server {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        if ticket == TOOLS {
            if let Down::Done(outcome) = down {
                self.handle_tools(now, outcome);
            }
            return self.flow();
        }
        let Some(running) = self.calls.get_mut(&ticket) else { return self.flow() };
        match &mut running.how {
            How::Plain(_) if matches!(down, Down::Ask(..)) => {
                if let Down::Ask(ask, _) = down {
                    let answer = Json::from_trusted(translate::no_answer());
                    self.ups.push_back((ticket, Asked::Up(Up::Answer(ask, answer))));
                }
            }
            How::Plain(collector) => {
                self.kept -= collector.weight();
                let whole = collector.take(down);
                self.kept += collector.weight();
                if let Some(result) = whole {
                    self.kept -= collector.weight();
                    let is_over_limit =
                        matches!(&result, Err(why) if why.kind == FailureKind::TooLarge);
                    self.finish_plain(now, ticket, result);
                    if is_over_limit {
                        self.ups.push_back((ticket, Asked::Up(Up::Cancel(None))));
                    }
                }
            }
            How::Toolbus(_) => self.talk_down(now, ticket, down),
        }
        self.flow()
    }

    fn tell(&mut self, now: Instant, notice: &Notice) {
        let has_left = matches!(self.stage, NodeStage::Draining { .. } | NodeStage::Moving { .. });
        if *notice == Notice::ToolsChanged && !has_left {
            self.ask_tools(now);
        }
    }

    fn close(&mut self, now: Instant) {
        if matches!(self.stage, NodeStage::Draining { .. } | NodeStage::Moving { .. }) {
            return;
        }
        self.stage = NodeStage::Draining { is_confirmed: false };
        self.tell_here(Some("draining"));
        let NodeIdentity { name, id, prefix, .. } = &self.settings.identity;
        let kept = [format!("{prefix}.toolbus.node.{id}.>"), format!("{}.*", self.settings.inbox)];
        let own = format!(".{name}.{id}");
        let left: Vec<String> = self.subscribed.keys().cloned().collect();
        for subject in left {
            let is_own = subject.starts_with("$SRV.") && subject.ends_with(&own);
            if !is_own && !kept.contains(&subject) {
                self.unsubscribe(&subject);
            }
        }
        self.next_confirm += 1;
        self.link.confirm(now, &mut self.out, LEFT + 2 * self.next_confirm);
    }

    fn give_up(&mut self, now: Instant) {
        let is_moving = matches!(self.stage, NodeStage::Moving { .. });
        let why = match is_moving {
            true => self.link.lost(),
            false => Failure::new(FailureKind::Gone, "the node was stopped"),
        };
        let mut tickets: Vec<Ticket> = self.calls.keys().copied().collect();
        tickets.sort_unstable();
        for ticket in tickets {
            let _ = self.down(now, ticket, Down::Done(Err(why.clone())));
        }
        self.flush();
        if !is_moving {
            self.tell_here(Some("down"));
        }
        self.ended.get_or_insert(Ended::Well);
    }

    fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }
}

/// Whether the results of this wire may pass as they are.
fn native(name: &str, wires: &[Wire]) -> Option<Wire> {
    wires.iter().copied().find(|wire| wire.name() == name && *wire != WIRE)
}
