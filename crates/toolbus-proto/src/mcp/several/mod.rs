//! Several servers behind one front: one greeting, one list of each kind, and for each request
//! the server that it is meant for (`docs/protocols/mcp.md` 2.7).
//!
//! [`Several`] stands between the conversations with clients and the backs. Native calls of the
//! clients go in by [`Several::call`]; what is to be asked of which back comes out of
//! [`Several::poll_ask`], and what the clients are to hear of [`Several::poll_down`]. Tools are
//! not here: every front lists and calls those through the bus.

mod changes;
mod entry;
mod greeting;
mod listening;
mod lists;
mod lone;
mod routing;
mod shown;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::greeting::Session;
use self::listening::Listen;
use self::lists::{Kind, List};
use self::lone::{Edit, Lone};
use super::WIRE;
use super::calling::era_of;
use super::wire::{self, Era, INTERNAL_ERROR, Refusal, UNKNOWN_METHOD};
use crate::channel::{AskId, Asked, Down, Ticket, Up};
use crate::counted::Counted;
use crate::json::{Json, edit};
use crate::tool::{
    Call, CallOptions, CallerId, Code, Deadline, Failure, FailureKind, Outcome, What,
};

pub(super) use self::entry::tool;
pub use self::lone::Kept;
pub use self::shown::Shown;

/// How long a list waits for a back that was listed before, and a subscription for its backs.
const PATIENCE: Duration = Duration::from_secs(2);

/// A back, as the front knows it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its name, which stands before the names of its prompts.
    pub name: Arc<str>,
    /// Is it an MCP server? Others have only tools.
    pub speaks_mcp: bool,
}

/// Several backs as one server.
#[derive(Debug)]
pub struct Several {
    /// Who we say we are.
    us: Json,
    /// How long the first list waits for backs that have not said anything yet.
    list_timeout: Duration,
    /// Until when that is, since the first list was asked for.
    first_until: Option<Instant>,
    backs: Vec<Back>,
    /// What clients asked, by their tickets.
    jobs: Counted<Ticket, Job>,
    /// What backs were asked, by our own tickets.
    asked: Counted<Ticket, Purpose>,
    /// What waits until a back has said what it can do.
    pending: Vec<Pending>,
    sessions: HashMap<CallerId, Session>,
    /// Questions that came for a session and name no call of it, by the id we gave them.
    questions: HashMap<u64, (Ticket, AskId)>,
    /// The names of prompts that were already told to fall together.
    warned: HashSet<String>,
    /// What clients are shown.
    shown: Shown,
    /// Which changes of the lists of backs clients have been told of that are shown a part of them.
    told: HashMap<(Ticket, usize), [u64; Kind::COUNT]>,
    /// What is known of the only server, if there is but one.
    lone: Lone,
    /// What is changed about calls that are to be asked.
    changed: Counted<Ticket, crate::view::Changed>,
    kept: VecDeque<Kept>,
    next_ticket: u64,
    next_question: u64,
    asks: VecDeque<(usize, Ticket, Asked)>,
    downs: VecDeque<(Ticket, Down)>,
    notices: VecDeque<SeveralNotice>,
}

/// Something for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeveralNotice {
    /// This back is left out of a greeting or a list.
    LeftOut {
        /// Which one.
        back: usize,
        /// Why.
        failure: Failure,
    },
    /// Two prompts would have one name: a sentence for people.
    SameName(String),
    /// Two tools of the only server would: a sentence for people.
    SameTool(String),
}

#[derive(Debug)]
struct Back {
    peer: Peer,
    /// What it said of itself, by era.
    greetings: [Option<Json>; 2],
    /// A `server/discover` that is under way.
    discovering: Option<Ticket>,
    lists: [List; Kind::COUNT],
    /// It is no MCP server, and was asked to start.
    is_asked: bool,
    /// A modern client was shown a list in which it was missing.
    is_missed: bool,
}

/// What is to become of a call of a client.
#[derive(Debug)]
enum Job {
    /// A session that is open; its call lasts as long as it does.
    Session(CallerId),
    /// A page of a list.
    List {
        call: Call,
        kind: Kind,
        from: usize,
        waits: BTreeSet<usize>,
        asked: Instant,
        until: Instant,
    },
    /// A request for which the right back is looked for in the lists.
    Find {
        call: Call,
        waits: BTreeSet<(usize, Kind)>,
        until: Instant,
    },
    /// One back answers.
    Pass {
        back: usize,
        ticket: Ticket,
    },
    Listen(Listen),
    /// A request whose name is looked for in the lists of the only server.
    Seek {
        call: Box<Call>,
        until: Instant,
    },
}

/// What a back was asked for.
#[derive(Debug)]
enum Purpose {
    /// A session of a client with this back.
    Link {
        caller: CallerId,
        back: usize,
    },
    Discover {
        back: usize,
    },
    /// A back of another wire: is it there?
    Start {
        back: usize,
    },
    Page {
        back: usize,
        kind: Kind,
        call: Box<Call>,
    },
    Pass {
        front: Ticket,
    },
    /// The same for the only server, where its answer is not shown as it is.
    Shown {
        front: Ticket,
        edit: Edit,
    },
    /// A list of the only server, read for ourselves.
    ReadAlone {
        list: lone::List,
        call: Box<Call>,
    },
    Listen {
        back: usize,
        front: Ticket,
    },
    /// The client does not wait for the answer.
    Aside,
}

/// What waits for the greeting of a back.
#[derive(Debug)]
struct Pending {
    /// The call that brings it.
    ticket: Ticket,
    front: Ticket,
    /// A list to be read then.
    kind: Option<Kind>,
    call: Call,
}

impl Several {
    /// None of the backs is asked yet. The first list waits no longer than `list_timeout` for one
    /// that has not said anything yet.
    pub fn new(version: &str, list_timeout: Duration, peers: Vec<Peer>) -> Several {
        let back = |peer| Back {
            peer,
            greetings: [None, None],
            discovering: None,
            lists: std::array::from_fn(|_| List::default()),
            is_asked: false,
            is_missed: false,
        };
        Several {
            us: wire::introduction("toolbus", version),
            list_timeout,
            first_until: None,
            backs: peers.into_iter().map(back).collect(),
            jobs: Counted::default(),
            asked: Counted::default(),
            pending: Vec::new(),
            sessions: HashMap::new(),
            questions: HashMap::new(),
            warned: HashSet::new(),
            shown: Shown::default(),
            lone: Lone::default(),
            told: HashMap::new(),
            changed: Counted::default(),
            kept: VecDeque::new(),
            next_ticket: 0,
            next_question: 0,
            asks: VecDeque::new(),
            downs: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    /// Clients are shown this from now on. Backs of which nothing can be shown are left alone.
    pub fn show(&mut self, shown: Shown) {
        let count = self.backs.len();
        for back in &mut self.backs {
            if !shown.may_match_any(&back.peer.name) && 1 < count {
                back.peer.speaks_mcp = false;
                back.is_asked = true;
            }
        }
        self.shown = shown;
        self.lone.begin_anew();
    }

    /// What clients are shown.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// What this back says of itself is known before it is asked, to a legacy and to a modern
    /// client.
    pub fn know(&mut self, back: usize, greetings: [Json; 2]) {
        if let Some(back) = self.backs.get_mut(back) {
            back.greetings = greetings.map(Some);
        }
    }

    /// A client asks for a list, perhaps the first: until when backs are waited for that have not
    /// said anything yet.
    pub fn begin_list(&mut self, now: Instant) -> Instant {
        *self.first_until.get_or_insert(now + self.list_timeout)
    }

    /// Is none of the backs an MCP server?
    fn has_only_tools(&self) -> bool {
        self.servers().next().is_none()
    }

    /// Takes a native call of a client.
    pub fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        let What::Native { method, .. } = &call.what else {
            return self.fail(ticket, Failure::new(FailureKind::Unavailable, "not a native call"));
        };
        let method = method.clone();
        let method = str::from_utf8(&method).unwrap_or_default();
        // The only one decides about everything by itself.
        if let [Back { peer: Peer { speaks_mcp: true, .. }, .. }] = self.backs.as_slice()
            && !self.shown.greets_first
        {
            return self.call_alone(now, ticket, call);
        }
        // Whatever else is wrong with it.
        let lacks = |capability: &str| {
            !self.shown.may_show(capability) || self.lacks(era_of(&call), capability)
        };
        if capability_of(method).is_some_and(lacks) {
            return self.refuse(ticket, &unknown_method(method));
        }
        match method {
            "initialize" | "server/discover" => self.greet(now, ticket, call),
            "subscriptions/listen" => self.listen(now, ticket, call),
            "logging/setLevel" => self.set_level(now, ticket, &call),
            "notifications/roots/list_changed" => self.tell_servers(now, ticket, &call),
            _ if method.starts_with("notifications/") => self.succeed(ticket, "{}".into()),
            _ => match Kind::listed_by(method) {
                Some(kind) => self.list(now, ticket, call, kind),
                None => self.find(now, ticket, call),
            },
        }
    }

    /// Goes on with a call of a client.
    pub fn up(&mut self, ticket: Ticket, up: Up) {
        let job = self.jobs.get(&ticket);
        match (job, up) {
            (Some(Job::Pass { back, ticket }), up) => {
                self.asks.push_back((*back, *ticket, Asked::Up(up)));
            }
            (Some(Job::Session(_)), Up::Answer(ask, answer)) => {
                let Some((ticket, own)) = self.questions.remove(&ask.0) else { return };
                let Some(Purpose::Link { back, .. }) = self.asked.get(&ticket) else { return };
                self.asks.push_back((*back, ticket, Asked::Up(Up::Answer(own, answer))));
            }
            (Some(_), Up::Cancel(_)) => {
                self.cancelled(ticket);
                self.fail(ticket, Failure::cancelled());
            }
            _ => {}
        }
    }

    /// The client wants no more of a call that several backs are busy with.
    fn cancelled(&mut self, ticket: Ticket) {
        self.pending.retain(|pending| pending.front != ticket);
        match self.jobs.remove(&ticket) {
            Some(Job::Session(caller)) => self.end_session(caller),
            Some(Job::Listen(listen)) => self.stop_listening(listen),
            _ => {}
        }
    }

    /// Goes on with what a back answers.
    pub fn down(&mut self, now: Instant, ticket: Ticket, down: Down) {
        let Some(purpose) = self.asked.get(&ticket) else { return };
        match (purpose, down) {
            (Purpose::Pass { front }, down) => {
                let front = *front;
                let down = match down {
                    Down::Done(done) => {
                        self.asked.remove(&ticket);
                        self.jobs.remove(&front);
                        Down::Done(done.map(|outcome| match outcome {
                            Outcome::Native(result) => Outcome::Native(self.shown.result(result)),
                            outcome => outcome,
                        }))
                    }
                    down => down,
                };
                self.downs.push_back((front, down));
            }
            (Purpose::Shown { front, edit }, down) => {
                let (front, edit) = (*front, edit.clone());
                self.down_alone(now, ticket, front, &edit, down);
            }
            (Purpose::Link { caller, back }, down) => {
                let (caller, back) = (*caller, *back);
                self.link_down(now, ticket, caller, back, down);
            }
            (Purpose::Listen { back, front }, down) => {
                let (back, front) = (*back, *front);
                self.listen_down(now, ticket, back, front, down);
            }
            (_, Down::Done(outcome)) => match self.asked.remove(&ticket) {
                Some(Purpose::Discover { back }) => self.discovered(now, ticket, back, outcome),
                Some(Purpose::Start { back }) => self.started(back, outcome.err()),
                Some(Purpose::Page { back, kind, call }) => {
                    self.page_came(now, back, kind, &call, outcome);
                }
                Some(Purpose::ReadAlone { list, call }) => {
                    self.page_alone(now, list, &call, outcome);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_due = |job: &Job| job.until().is_some_and(|until| until <= now);
        let mut due: Vec<_> =
            self.jobs.iter().filter(|(_, job)| is_due(job)).map(|(ticket, _)| *ticket).collect();
        due.sort_unstable();
        for ticket in due {
            match self.jobs.get_mut(&ticket) {
                Some(Job::Listen(_)) => self.acknowledge(ticket),
                Some(Job::List { .. } | Job::Find { .. }) => self.wait_no_longer(now, ticket),
                Some(Job::Seek { .. }) => {
                    let why = "the server has not listed what it has in time";
                    self.fail(ticket, Failure::new(FailureKind::TimedOut, why));
                }
                _ => {}
            }
        }
    }

    /// When to call [`Several::handle_timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.jobs.values().filter_map(Job::until).min()
    }

    /// A call for a back, or more of one; by the ticket its reply is known.
    pub fn poll_ask(&mut self) -> Option<(usize, Ticket, Asked)> {
        self.asks.pop_front()
    }

    /// What a client is to hear.
    pub fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.downs.pop_front()
    }

    /// Something for the log.
    pub fn poll_notice(&mut self) -> Option<SeveralNotice> {
        self.notices.pop_front()
    }

    /// The calls to backs that are made because of this call of a client.
    pub fn calls_of(&self, front: Ticket) -> Vec<Ticket> {
        match self.jobs.get(&front) {
            Some(Job::Pass { ticket, .. }) => vec![*ticket],
            Some(Job::Session(caller)) => {
                let session = self.sessions.get(caller);
                session.map(|session| session.tickets().collect()).unwrap_or_default()
            }
            Some(Job::Listen(listen)) => listen.tickets().collect(),
            _ => Vec::new(),
        }
    }

    /// The backs that speak MCP.
    fn servers(&self) -> impl Iterator<Item = usize> + use<'_> {
        let is_server = |(_, back): &(usize, &Back)| back.peer.speaks_mcp;
        self.backs.iter().enumerate().filter(is_server).map(|(index, _)| index)
    }

    fn pass(&mut self, front: Ticket, back: usize, call: Call) {
        let ticket = self.ask(back, call, Purpose::Pass { front });
        self.jobs.insert(front, Job::Pass { back, ticket });
    }

    fn ask(&mut self, back: usize, call: Call, purpose: Purpose) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.asked.insert(ticket, purpose);
        self.asks.push_back((back, ticket, Asked::Call(call)));
        ticket
    }

    fn succeed(&mut self, front: Ticket, result: Bytes) {
        self.jobs.remove(&front);
        self.downs.push_back((front, Down::Done(Ok(Outcome::Native(result)))));
    }

    fn fail(&mut self, front: Ticket, failure: Failure) {
        self.jobs.remove(&front);
        self.downs.push_back((front, Down::Done(Err(failure))));
    }

    fn refuse(&mut self, front: Ticket, refusal: &Refusal) {
        self.fail(front, refused(refusal));
    }

    fn left_out(&mut self, back: usize, failure: Failure) {
        if failure.kind != FailureKind::Cancelled {
            self.notices.push_back(SeveralNotice::LeftOut { back, failure });
        }
    }
}

impl Job {
    fn until(&self) -> Option<Instant> {
        match self {
            Job::List { until, .. } | Job::Find { until, .. } | Job::Seek { until, .. } => {
                Some(*until)
            }
            Job::Listen(listen) => listen.until(),
            Job::Session(_) | Job::Pass { .. } => None,
        }
    }
}

/// A refusal as the front passes it on: the error object is the detail of what a peer said.
fn refused(refusal: &Refusal) -> Failure {
    let kind = match refusal.code {
        INTERNAL_ERROR => FailureKind::Unavailable,
        _ => FailureKind::Failed,
    };
    let detail = Some(Json::from_trusted(refusal.to_json()));
    let code = Some(Code::Number(refusal.code));
    Failure { detail, code, from_peer: true, ..Failure::new(kind, &*refusal.message) }
}

/// What a server must be able to do for a request to make sense; `None` if any can.
fn capability_of(method: &str) -> Option<&'static str> {
    match method {
        "logging/setLevel" => Some("logging"),
        "completion/complete" => Some("completions"),
        _ if method.starts_with("prompts/") => Some("prompts"),
        _ if method.starts_with("resources/") => Some("resources"),
        _ => None,
    }
}

fn unknown_method(method: &str) -> Refusal {
    Refusal::new(UNKNOWN_METHOD, format!("method not found: {method}"))
}

/// The parameters of a native call, an object.
fn params_of(call: &Call) -> &str {
    match &call.what {
        What::Native { body, .. } => {
            str::from_utf8(body).ok().filter(|params| !params.is_empty()).unwrap_or("{}")
        }
        What::Tool { .. } | What::Tools => "{}",
    }
}

/// A call of ours on behalf of a client's.
fn on_behalf(now: Instant, call: &Call, method: &'static str, body: impl Into<Bytes>) -> Call {
    let method = Bytes::from_static(method.as_bytes());
    let what = What::Native { wire: WIRE, method, body: body.into() };
    let options = CallOptions { native: Some(WIRE), ..CallOptions::default() };
    Call { caller: call.caller, deadline: Deadline::never(now), options, ..Call::of(now, what) }
}

/// The `_meta` of a client's request for a request of ours in its place: without what belongs to
/// that request alone.
fn meta_of(call: &Call) -> Option<String> {
    let meta = edit::member(params_of(call), "_meta")?;
    Some(edit::without(meta, "progressToken")).filter(|meta| meta != "{}")
}

/// The two eras, as an index.
fn at(era: Era) -> usize {
    match era {
        Era::Legacy => 0,
        Era::Modern => 1,
    }
}
