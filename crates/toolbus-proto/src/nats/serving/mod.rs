//! The answering end: a node, which is a micro service and more to other toolbuses.
//!
//! It asks for the tools behind it by itself, subscribes to a subject for each, and says that it is
//! ready once the server has confirmed that. `offering` does so; `requests` answers plain clients,
//! `talk` leads the calls of other toolbuses, and `peers` knows who calls.

mod answer;
mod offering;
mod peers;
mod requests;
mod running;
mod talk;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;

pub use self::peers::NodeMemory;
use self::peers::Peer;
pub use self::requests::trusted_number;
use self::running::{CallIn, How};
use super::headers::Headers;
use super::link::{Arrived, Link};
use super::protocol::{Message, put_pub};
use super::service::{About, NodeIdentity, Offer};
use super::translate;
use super::wire::Info;
use crate::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use crate::counted::Counted;
use crate::json::Json;
use crate::tool::{Failure, FailureKind, ToolSpec, Wire};

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
