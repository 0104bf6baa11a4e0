//! The legacy session and the modern ways to learn and hear the same (`docs/protocols/mcp.md` 2.2, 2.5).
//!
//! Behind a session of ours with one MCP server stands one long native call, `initialize`:
//! its head is what the server said of itself, its parts are what the server tells no request
//! in particular, and it is asked anew when the server had to be started again.

use std::time::Instant;

use bytes::Bytes;

use super::hub::in_flight;
use super::requests::Request;
use super::{Behind, Conversation, InFlight, Job, Origin, Place};
use crate::channel::{Asked, Notice, Ticket, Up};
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::jsonrpc::{Id, kind};
use crate::mcp::WIRE;
use crate::mcp::wire::{
    self, INVALID_PARAMS, INVALID_REQUEST, Level, Refusal, Revision, SERVER_KEY, SUBSCRIPTION_KEY,
    put_member,
};
use crate::tool::What;

/// What the hub can do.
const TOOLS_ONLY: &str = r#"{"tools":{"listChanged":true}}"#;
/// How many subscriptions are restored when a server was started again.
const RESTORED_MAX: usize = 1024;

/// What was agreed with a legacy client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) revision: Revision,
    /// From which level on it hears log messages; all, if it never said.
    pub(super) level: Option<Level>,
    /// The long call to the server; none where there is no server, or where it was lost.
    pub(super) link: Option<Ticket>,
    params: Bytes,
    /// What its client answers while a call runs; nothing of one that takes no question.
    pub(super) asks: Option<Json>,
    /// The server is of the other era.
    is_crossed: bool,
    /// It was told that there is a log to be heard.
    has_log: bool,
    /// What the server has to be told again after a restart.
    level_said: Option<Bytes>,
    subscriptions: Vec<(String, Bytes)>,
}

impl Session {
    /// Does it lead to a server of the other era, which is there?
    pub(super) fn is_crossed(&self) -> bool {
        self.is_crossed && self.link.is_some()
    }
}

/// An `initialize` that is being answered.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) ticket: Ticket,
    pub(super) revision: Revision,
}

/// A modern client that wants to hear of changes; the hub has no others than of its tools.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) id: Id,
    pub(super) place: Place,
    tools: bool,
}

/// What to remember of a request once the server has agreed to it.
#[derive(Debug)]
pub(super) enum Memo {
    Level(Bytes),
    Subscribe(String, Bytes),
    Unsubscribe(String),
}

/// What a server behind us says of itself, each raw.
struct Greeting {
    capabilities: String,
    server: String,
    instructions: Option<String>,
}

impl Conversation {
    pub(super) fn initialize(
        &mut self,
        now: Instant,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        if request.origin.batch.is_some() {
            let message = "initialize cannot be part of a batch";
            return Err(Refusal::new(INVALID_REQUEST, message));
        }
        let params = request.params.unwrap_or("{}");
        let Some(version) = edit::text(params, "protocolVersion") else {
            let message = "initialize needs protocolVersion, a string";
            return Err(Refusal::new(INVALID_PARAMS, message));
        };
        let revision = Revision::legacy(&version).unwrap_or(Revision::LAST_LEGACY);
        let params = request.read.in_a_line(params);
        let what = self.greeting_call("initialize", params.clone());
        let call = in_flight(request, revision, Job::Initialize { params });
        let ticket = self.ask(now, call, what, None);
        self.opening = Some(Opening { ticket, revision });
        Ok(())
    }

    pub(super) fn discover(&mut self, now: Instant, request: &Request<'_>) {
        let params = request
            .params
            .map_or_else(|| Bytes::from_static(b"{}"), |params| request.read.in_a_line(params));
        let what = self.greeting_call("server/discover", params);
        let call = in_flight(request, Revision::MODERN, Job::Discover);
        self.ask(now, call, what, None);
    }

    /// Asks what stands behind to be there, and what it says of itself.
    fn greeting_call(&self, method: &'static str, body: Bytes) -> What {
        match self.settings.behind {
            Behind::Hub => What::Tools,
            Behind::Several | Behind::Server => {
                let method = Bytes::from_static(method.as_bytes());
                What::Native { wire: WIRE, method, body }
            }
        }
    }

    /// What stands behind is there. `raw` is what an MCP server said of itself, `linked`
    /// tells that the call goes on for as long as the session.
    pub(super) fn greeted(
        &mut self,
        now: Instant,
        ticket: Ticket,
        raw: Option<&str>,
        linked: bool,
    ) {
        let Some(call) = self.forget(ticket) else { return };
        let greeting = self.greeting(raw);
        let is_modern = raw.is_some_and(|raw| edit::member(raw, "supportedVersions").is_some());
        match call.job {
            Job::Initialize { params } => {
                let result = greeting.of_initialize(call.revision);
                self.answer(call.origin, wire::result(&call.id, &result));
                let link = linked.then_some(ticket);
                self.begin_session(Session {
                    revision: call.revision,
                    level: None,
                    link,
                    asks: askable(&params),
                    params,
                    is_crossed: is_modern,
                    has_log: edit::member(&greeting.capabilities, "logging").is_some(),
                    level_said: None,
                    subscriptions: Vec::new(),
                });
                self.opened(now, ticket);
            }
            _ => {
                let result = greeting.of_discover();
                self.answer(call.origin, wire::result(&call.id, &result));
            }
        }
    }

    fn greeting(&self, raw: Option<&str>) -> Greeting {
        let raw = raw.unwrap_or("{}");
        let of_meta = || edit::member(edit::member(raw, "_meta")?, SERVER_KEY);
        let server = edit::member(raw, "serverInfo").or_else(of_meta);
        let capabilities =
            edit::member(raw, "capabilities").unwrap_or(match self.settings.behind {
                Behind::Hub | Behind::Several => TOOLS_ONLY,
                Behind::Server => "{}",
            });
        let ours =
            self.settings.instructions.as_ref().map(|text| Json::of(text).as_str().to_owned());
        Greeting {
            capabilities: capabilities.to_owned(),
            server: server.unwrap_or(self.us.as_str()).to_owned(),
            instructions: edit::member(raw, "instructions").map(str::to_owned).or(ours),
        }
    }

    fn begin_session(&mut self, session: Session) {
        if let Some(old) = self.session.replace(session).and_then(|old| old.link) {
            self.ups.push_back((old, Asked::Up(Up::Cancel(None))));
        }
    }

    /// The `initialize` behind `ticket` is answered, well or not.
    pub(super) fn opened(&mut self, now: Instant, ticket: Ticket) {
        if self.opening.as_ref().is_some_and(|opening| opening.ticket == ticket) {
            self.opening = None;
            self.release(now);
        }
    }

    /// Did we say that there is a log to be heard?
    pub(super) fn has_log(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_log)
    }

    pub(super) fn set_level(&mut self, level: Level) {
        if let Some(session) = &mut self.session {
            session.level = Some(level);
        }
    }

    pub(super) fn remember(&mut self, memo: Memo) {
        let Some(session) = &mut self.session else { return };
        match memo {
            Memo::Level(params) => session.level_said = Some(params),
            Memo::Subscribe(uri, params) => {
                session.subscriptions.retain(|(known, _)| *known != uri);
                if session.subscriptions.len() < RESTORED_MAX {
                    session.subscriptions.push((uri, params));
                }
            }
            Memo::Unsubscribe(uri) => session.subscriptions.retain(|(known, _)| *known != uri),
        }
    }

    /// The server was lost. It is started again by whatever the client asks next.
    pub(super) fn link_lost(&mut self, ticket: Ticket) {
        self.questions.retain(|_, (asking, _)| *asking != ticket);
        if let Some(session) = &mut self.session {
            session.link = None;
        }
    }

    /// Makes sure that a server that was started again knows this session.
    pub(super) fn relink(&mut self, now: Instant) {
        let Some(session) = self.session.as_mut().filter(|session| session.link.is_none()) else {
            return;
        };
        let mut said = vec![("initialize", session.params.clone())];
        said.extend(session.level_said.clone().map(|params| ("logging/setLevel", params)));
        let subscriptions = session.subscriptions.iter();
        said.extend(subscriptions.map(|(_, params)| ("resources/subscribe", params.clone())));
        let revision = session.revision;
        let mut link = None;
        for (method, body) in said {
            let method = Bytes::from_static(method.as_bytes());
            let what = What::Native { wire: WIRE, method, body };
            let origin = Origin { place: Place::SESSION, batch: None };
            let call = Box::new(InFlight { id: Id::NULL, origin, revision, job: Job::Aside });
            let ticket = self.ask(now, call, what, None);
            link.get_or_insert(ticket);
        }
        if let Some(ticket) = link {
            self.calls.remove(ticket);
        }
        if let Some(session) = &mut self.session {
            session.link = link;
        }
    }

    /// A server that was started again may have other lists than before.
    pub(super) fn relinked(&mut self, raw: &str) {
        let capabilities = edit::member(raw, "capabilities").unwrap_or("{}");
        // What is put together says by itself whether its tools are others.
        let lists: &[&str] = match self.settings.behind {
            Behind::Several => &["prompts", "resources"],
            _ => &["tools", "prompts", "resources"],
        };
        for list in lists {
            let changes = edit::member(capabilities, list)
                .and_then(|capability| edit::member(capability, "listChanged"));
            if changes == Some("true") {
                let method = format!("notifications/{list}/list_changed");
                self.say(Place::SESSION, wire::notification(&method, None));
            }
        }
    }

    pub(super) fn listen(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted = request.params.and_then(|params| edit::member(params, "notifications"));
        let Some(wanted) = wanted.filter(|raw| kind(raw) == Kind::Object) else {
            let message = "subscriptions/listen needs notifications, an object";
            return Err(Refusal::new(INVALID_PARAMS, message));
        };
        if self.settings.calls_max <= self.listens.len() {
            let message = format!("more than {} subscriptions", self.settings.calls_max);
            return Err(Refusal::new(INVALID_REQUEST, message));
        }
        let tools = edit::member(wanted, "toolsListChanged") == Some("true");
        let agreed = if tools { r#"{"toolsListChanged":true}"# } else { "{}" };
        let tag = tag(&request.id);
        let params = format!("{{\"_meta\":{tag},\"notifications\":{agreed}}}");
        let method = "notifications/subscriptions/acknowledged";
        self.say(request.origin.place, wire::notification(method, Some(&params.into())));
        let (id, place) = (request.id.clone(), request.origin.place);
        self.listens.push(Listen { id, place, tools });
        Ok(())
    }

    pub(super) fn end_listening(&mut self, id: &Id, place: Place) {
        let result = format!("{{\"resultType\":\"complete\",\"_meta\":{}}}", tag(id));
        self.answer(Origin { place, batch: None }, wire::result(id, &result.into()));
    }

    /// Something changed behind; the clients that want to know are told.
    pub fn tell(&mut self, notice: &Notice) {
        // A server says so itself, in the parts of the session and of who listens.
        if *notice != Notice::ToolsChanged || self.settings.behind == Behind::Server {
            return;
        }
        self.tools = None;
        let method = "notifications/tools/list_changed";
        if self.session.is_some() {
            self.say(Place::SESSION, wire::notification(method, None));
        }
        let listens = self.listens.iter().filter(|listen| listen.tools);
        let told: Vec<_> = listens.map(|listen| (listen.place, tag(&listen.id))).collect();
        for (place, tag) in told {
            let params = format!("{{\"_meta\":{tag}}}");
            self.say(place, wire::notification(method, Some(&params.into())));
        }
    }
}

/// The `_meta` of what belongs to a listening.
pub(super) fn tag(id: &Id) -> Json {
    Json::from_trusted(format!("{{\"{SUBSCRIPTION_KEY}\":{}}}", id.to_json()))
}

impl Greeting {
    fn of_initialize(&self, revision: Revision) -> Bytes {
        let mut result = vec![b'{'];
        put_member(&mut result, "protocolVersion", format!("\"{revision}\""));
        put_member(&mut result, "capabilities", &self.capabilities);
        put_member(&mut result, "serverInfo", &self.server);
        if let Some(instructions) = &self.instructions {
            put_member(&mut result, "instructions", instructions);
        }
        result.push(b'}');
        result.into()
    }

    fn of_discover(&self) -> Bytes {
        let mut result = vec![b'{'];
        put_member(&mut result, "resultType", "\"complete\"");
        put_member(&mut result, "supportedVersions", format!("[\"{}\"]", Revision::MODERN));
        put_member(&mut result, "capabilities", &self.capabilities);
        if let Some(instructions) = &self.instructions {
            put_member(&mut result, "instructions", instructions);
        }
        put_member(&mut result, "ttlMs", "0");
        put_member(&mut result, "cacheScope", "\"private\"");
        put_member(&mut result, "_meta", format!("{{\"{SERVER_KEY}\":{}}}", self.server));
        result.push(b'}');
        result.into()
    }
}

/// What a client says in its `initialize` that it answers, if it takes questions.
fn askable(params: &Bytes) -> Option<Json> {
    let capabilities = edit::member(str::from_utf8(params).ok()?, "capabilities")?;
    let takes = |name: &str| edit::member(capabilities, name).is_some();
    let is_asked = ["roots", "sampling", "elicitation"].into_iter().any(takes);
    is_asked.then(|| Json::part_of(params, capabilities).compact())
}
