//! One greeting of several backs, and the sessions that a client's session is made of
//! (`docs/protocols/mcp.md` 2.2, 2.7.5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bytes::Bytes;

use super::lists::Kind;
use super::{Job, PATIENCE, Pending, Purpose, Several, at, meta_of, on_behalf, params_of};
use crate::channel::{AskId, Asked, Down, Ticket, Up};
use crate::json::{Json, edit};
use crate::mcp::calling::era_of;
use crate::mcp::wire::{Era, INVALID_PARAMS, Level, Refusal, put_member, quoted};
use crate::tool::{Call, CallOptions, CallerId, Failure, FailureKind, Outcome, Part, What};

/// How many subscriptions of a session are told again to a server that was started again.
const RESTORED_MAX: usize = 1024;
/// What a server may have that has not said yet what it has.
const ANYTHING: &str = r#"{"prompts":{"listChanged":true},"resources":{"listChanged":true}}"#;

/// A session of a legacy client: one with each server.
#[derive(Debug)]
pub(super) struct Session {
    /// The call that lasts as long as the session.
    front: Ticket,
    params: Bytes,
    level: Option<Bytes>,
    subscriptions: Vec<(String, usize, Bytes)>,
    links: BTreeMap<usize, Link>,
    /// Servers that were missing in a list which the client was shown.
    missed: BTreeSet<usize>,
}

#[derive(Debug)]
struct Link {
    ticket: Ticket,
    is_open: bool,
    /// The client knew this server before it was lost.
    is_again: bool,
}

impl Session {
    /// What its client has said of itself.
    pub(super) fn params(&self) -> Bytes {
        self.params.clone()
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.links.values().map(|link| link.ticket)
    }
}

impl Several {
    /// Greets a client at once: what a server can do that has not said it yet is supposed, since
    /// an empty list does no harm, and a capability that is missing stays missing.
    pub(super) fn greet(&mut self, now: Instant, front: Ticket, call: Call) {
        let era = era_of(&call);
        let caller = (era == Era::Legacy).then_some(call.caller);
        if let Some(caller) = caller {
            // Begun anew, it knows nothing of what was said in the one before.
            self.end_session(caller);
            let params = Bytes::copy_from_slice(params_of(&call).as_bytes());
            self.sessions.insert(
                caller,
                Session {
                    front,
                    params,
                    level: None,
                    subscriptions: Vec::new(),
                    links: BTreeMap::new(),
                    missed: BTreeSet::new(),
                },
            );
        }
        for back in 0..self.backs.len() {
            if self.backs[back].peer.speaks_mcp {
                self.ask_greeting(now, front, back, &call, None);
            } else if !std::mem::replace(&mut self.backs[back].is_asked, true) {
                let options = CallOptions::default();
                let what = Call { options, ..call.clone() };
                let what = Call { what: What::Tools, request: None, ..what };
                self.ask(back, what, Purpose::Start { back });
            }
        }
        let head = self.greeting(era);
        match caller {
            Some(caller) => {
                self.jobs.insert(front, Job::Session(caller));
                self.begin_telling(front);
                let head = Some(Json::from_trusted(head));
                self.downs.push_back((front, Down::Begin { head, parts: None }));
            }
            None => self.succeed(front, head),
        }
    }

    fn greeting(&self, era: Era) -> Bytes {
        // The front itself knows best who we are, then.
        if self.has_only_tools() && self.shown.instructions().is_none() {
            return Bytes::from_static(b"{}");
        }
        let said: Vec<_> = self
            .servers()
            .map(|back| {
                let known = self.backs[back].greetings[at(era)].as_ref().map(Json::as_str);
                let capabilities = match known {
                    Some(known) => edit::member(known, "capabilities").unwrap_or_default(),
                    None => ANYTHING,
                };
                (back, capabilities, known.and_then(|known| edit::text(known, "instructions")))
            })
            .collect();
        let mut head = vec![b'{'];
        let capabilities = said.iter().map(|(_, capabilities, _)| *capabilities);
        let united = united(&capabilities.collect::<Vec<_>>());
        put_member(&mut head, "capabilities", self.shown.capabilities(&united));
        put_member(&mut head, "serverInfo", self.us.as_bytes());
        let paragraphs = said.iter().filter_map(|(back, _, text)| {
            Some(format!("{}: {}", self.backs[*back].peer.name, text.as_ref()?))
        });
        let instructions = match self.shown.instructions() {
            Some(instructions) => instructions.to_owned(),
            None => paragraphs.collect::<Vec<_>>().join("\n\n"),
        };
        if !instructions.is_empty() {
            put_member(&mut head, "instructions", quoted(&instructions));
        }
        head.push(b'}');
        head.into()
    }

    /// Asks a server what it can do, in the era of the client; tells whether the call has to wait
    /// for that. A legacy client without a session cannot ask.
    pub(super) fn ask_greeting(
        &mut self,
        now: Instant,
        front: Ticket,
        back: usize,
        call: &Call,
        kind: Option<Kind>,
    ) -> bool {
        let ticket = match era_of(call) {
            Era::Legacy => self.link(now, call.caller, back),
            Era::Modern => Some(self.discover(now, back, call)),
        };
        let Some(ticket) = ticket else { return false };
        self.pending.push(Pending { ticket, front, kind, call: call.clone() });
        true
    }

    fn discover(&mut self, now: Instant, back: usize, call: &Call) -> Ticket {
        if let Some(ticket) = self.backs[back].discovering {
            return ticket;
        }
        let meta = meta_of(call).unwrap_or_else(|| "{}".to_owned());
        let asked = on_behalf(now, call, "server/discover", format!("{{\"_meta\":{meta}}}"));
        let ticket = self.ask(back, asked, Purpose::Discover { back });
        self.backs[back].discovering = Some(ticket);
        ticket
    }

    pub(super) fn discovered(
        &mut self,
        now: Instant,
        ticket: Ticket,
        back: usize,
        outcome: Result<Outcome, Failure>,
    ) {
        self.backs[back].discovering = None;
        let failure = match outcome {
            Ok(Outcome::Native(raw)) => {
                self.backs[back].greetings[at(Era::Modern)] = Some(Json::from_trusted(raw));
                if std::mem::take(&mut self.backs[back].is_missed) {
                    self.tell_of_lists(back);
                }
                None
            }
            Ok(_) => None,
            Err(failure) => Some(failure),
        };
        self.resolved(now, ticket, back, failure.as_ref());
    }

    /// The session with this server, begun if there is none; `None` if the client has none.
    pub(super) fn link(&mut self, now: Instant, caller: CallerId, back: usize) -> Option<Ticket> {
        let session = self.sessions.get(&caller)?;
        if let Some(link) = session.links.get(&back) {
            return Some(link.ticket);
        }
        let is_again = self.backs[back].greetings[at(Era::Legacy)].is_some()
            && matches!(self.jobs.get(&session.front), Some(Job::Session(_)));
        let client = Call { caller, ..Call::of(now, What::Tools) };
        let mut said = vec![on_behalf(now, &client, "initialize", session.params.clone())];
        let level = session.level.clone().filter(|_| self.has_legacy(back, "logging"));
        said.extend(level.map(|level| on_behalf(now, &client, "logging/setLevel", level)));
        let own = session.subscriptions.iter().filter(|(_, of, _)| *of == back);
        let method = "resources/subscribe";
        said.extend(own.map(|(_, _, params)| on_behalf(now, &client, method, params.clone())));
        let mut said = said.into_iter();
        let ticket = self.ask(back, said.next()?, Purpose::Link { caller, back });
        for again in said {
            self.ask(back, again, Purpose::Aside);
        }
        let link = Link { ticket, is_open: false, is_again };
        self.sessions.get_mut(&caller)?.links.insert(back, link);
        Some(ticket)
    }

    /// Makes sure that a server that was started again knows the session of this client.
    pub fn relink(&mut self, now: Instant, caller: CallerId, back: usize) {
        if self.backs.get(back).is_some_and(|back| back.peer.speaks_mcp) {
            self.link(now, caller, back);
        }
    }

    /// The same for all servers, since all will be asked for their tools.
    pub fn relink_all(&mut self, now: Instant, caller: CallerId) {
        let servers: Vec<_> = self.servers().collect();
        for back in servers {
            self.link(now, caller, back);
        }
    }

    /// Other backs take the place of these: sessions and those who listen begin anew with them.
    pub fn close(&mut self) {
        let gone = || Failure::new(FailureKind::Gone, "the config was read again");
        let mut open: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, job)| matches!(job, Job::Session(_) | Job::Listen(_)))
            .map(|(front, _)| *front)
            .collect();
        open.sort_unstable();
        for front in open {
            self.cancelled(front);
            self.fail(front, gone());
        }
    }

    pub(super) fn link_down(
        &mut self,
        now: Instant,
        ticket: Ticket,
        caller: CallerId,
        back: usize,
        down: Down,
    ) {
        let Some(session) = self.sessions.get_mut(&caller) else { return };
        let front = session.front;
        match down {
            Down::Begin { head, .. } => {
                let Some(link) = session.links.get_mut(&back) else { return };
                link.is_open = true;
                let is_again = link.is_again;
                let is_late = session.missed.remove(&back);
                let head = head.unwrap_or_else(|| Json::from_trusted("{}"));
                self.backs[back].greetings[at(Era::Legacy)] = Some(head);
                self.resolved(now, ticket, back, None);
                if is_again || is_late {
                    self.tell_changes(front, back, is_again);
                }
            }
            Down::Part(Part::Json(note)) => {
                let method = edit::text(note.as_str(), "method").unwrap_or_default();
                match &*method {
                    // The bus hears of that, too, and tells it for all backs.
                    "notifications/tools/list_changed" => return,
                    "notifications/cancelled" => return self.withdrawn(front, ticket, &note),
                    _ => {}
                }
                self.noted_by_session(now, front, back, caller, note);
            }
            Down::Ask(ask, asked) => {
                let question = self.next_question;
                self.next_question += 1;
                self.questions.insert(question, (ticket, ask));
                self.downs.push_back((front, Down::Ask(AskId(question), asked)));
            }
            Down::Log(params) => self.downs.push_back((front, Down::Log(params))),
            Down::Done(outcome) => {
                self.asked.remove(&ticket);
                self.questions.retain(|_, (of, _)| *of != ticket);
                let was_open = session.links.remove(&back).is_some_and(|link| link.is_open);
                if let (false, Err(failure)) = (was_open, outcome) {
                    self.resolved(now, ticket, back, Some(&failure));
                }
            }
            Down::Part(_) | Down::Progress(_) => {}
        }
    }

    /// A server takes back a question; the client's side knows it by our id.
    fn withdrawn(&mut self, front: Ticket, link: Ticket, note: &Json) {
        let params = edit::member(note.as_str(), "params").unwrap_or("{}");
        let own = edit::member(params, "requestId").and_then(|raw| raw.parse().ok()).map(AskId);
        let known = self.questions.iter().find(|(_, (of, ask))| *of == link && Some(*ask) == own);
        let Some((&question, _)) = known else { return };
        self.questions.remove(&question);
        let params = edit::replaced(params, "requestId", &question.to_string());
        let note = params.and_then(|params| edit::replaced(note.as_str(), "params", &params));
        if let Some(note) = note {
            self.downs.push_back((front, Down::Part(Part::Json(Json::from_trusted(note)))));
        }
    }

    /// A server came late, or again: its lists are others than the client knows.
    fn tell_changes(&mut self, front: Ticket, back: usize, is_again: bool) {
        let greeting = self.backs[back].greetings[at(Era::Legacy)].clone();
        let greeting = greeting.as_ref().map_or("{}", Json::as_str);
        let capabilities = edit::member(greeting, "capabilities").unwrap_or("{}");
        for list in ["tools", "prompts", "resources"] {
            let Some(capability) = edit::member(capabilities, list) else { continue };
            let says_so = edit::member(capability, "listChanged") == Some("true");
            // The bus tells of tools that come late.
            let is_told = if is_again { says_so } else { list != "tools" };
            if is_told {
                let method = format!("notifications/{list}/list_changed");
                self.backs[back].changed(&method);
                let note = Json::from_trusted(format!("{{\"method\":\"{method}\"}}"));
                self.downs.push_back((front, Down::Part(Part::Json(note))));
            }
        }
    }

    /// A server is there that modern clients were shown lists without.
    fn tell_of_lists(&mut self, back: usize) {
        for list in ["prompts", "resources"] {
            if self.has(back, Era::Modern, list) == Some(true) {
                let method = format!("notifications/{list}/list_changed");
                self.backs[back].changed(&method);
                self.tell_listening(&method);
            }
        }
    }

    /// A back of another wire is there, or is not.
    pub(super) fn started(&mut self, back: usize, failure: Option<Failure>) {
        if let Some(failure) = failure {
            // The next client has it tried again.
            self.backs[back].is_asked = false;
            self.left_out(back, failure);
        }
    }

    /// A client is shown a list in which this server is missing.
    pub(super) fn missed(&mut self, era: Era, caller: CallerId, back: usize) {
        match (era, self.sessions.get_mut(&caller)) {
            (Era::Legacy, Some(session)) => drop(session.missed.insert(back)),
            (Era::Legacy, None) => {}
            (Era::Modern, _) => self.backs[back].is_missed = true,
        }
    }

    /// A server has said what it can do, or cannot be asked: what waited for that goes on.
    fn resolved(&mut self, now: Instant, ticket: Ticket, back: usize, failure: Option<&Failure>) {
        let waited: Vec<_> =
            self.pending.extract_if(.., |pending| pending.ticket == ticket).collect();
        // Whatever else a back is asked meanwhile fails by itself, and says so.
        if let Some(failure) = failure.filter(|_| !waited.is_empty()) {
            self.left_out(back, failure.clone());
        }
        for Pending { front, kind, call, .. } in waited {
            match (kind, self.jobs.get_mut(&front), failure) {
                (Some(kind), Some(_), None) => {
                    let is_asked = self.read_list(now, front, back, kind, &call);
                    if !is_asked {
                        self.list_settled(now, front, back, kind);
                    }
                }
                (Some(kind), Some(_), Some(_)) => {
                    self.backs[back].lists[kind as usize].is_left_out = true;
                    self.list_settled(now, front, back, kind);
                }
                _ => {}
            }
        }
    }

    pub(super) fn end_session(&mut self, caller: CallerId) {
        let Some(session) = self.sessions.remove(&caller) else { return };
        for (back, link) in session.links {
            self.asked.remove(&link.ticket);
            self.questions.retain(|_, (of, _)| *of != link.ticket);
            self.asks.push_back((back, link.ticket, Asked::Up(Up::Cancel(None))));
        }
        if let Some(Job::Session(_)) = self.jobs.get(&session.front) {
            self.jobs.remove(&session.front);
        }
    }

    /// What a legacy client wants to hear of the logs of all servers that have one.
    pub(super) fn set_level(&mut self, now: Instant, front: Ticket, call: &Call) {
        if let Err(message) = Level::read("level", edit::member(params_of(call), "level")) {
            return self.refuse(front, &Refusal::new(INVALID_PARAMS, message));
        }
        let params = Bytes::copy_from_slice(params_of(call).as_bytes());
        let servers: Vec<_> = self.servers().collect();
        for back in servers {
            if self.has_legacy(back, "logging") && self.link(now, call.caller, back).is_some() {
                let asked = on_behalf(now, call, "logging/setLevel", params.clone());
                self.ask(back, asked, Purpose::Aside);
            }
        }
        if let Some(session) = self.sessions.get_mut(&call.caller) {
            session.level = Some(params);
        }
        self.succeed(front, Bytes::from_static(b"{}"));
    }

    /// What a legacy client tells each server.
    pub(super) fn tell_servers(&mut self, now: Instant, front: Ticket, call: &Call) {
        let linked = self.sessions.get(&call.caller);
        let linked: Vec<_> =
            linked.into_iter().flat_map(|session| session.links.keys().copied()).collect();
        let What::Native { body, .. } = &call.what else { return };
        for back in linked {
            let method = "notifications/roots/list_changed";
            let told = on_behalf(now, call, method, body.clone());
            self.ask(back, told, Purpose::Aside);
        }
        self.succeed(front, Bytes::from_static(b"{}"));
    }

    /// A session subscribes to a resource of this back, or does so no longer.
    pub(super) fn remember(
        &mut self,
        caller: CallerId,
        back: usize,
        uri: &str,
        params: Option<Bytes>,
    ) {
        let Some(session) = self.sessions.get_mut(&caller) else { return };
        session.subscriptions.retain(|(known, _, _)| known != uri);
        if let Some(params) = params.filter(|_| session.subscriptions.len() < RESTORED_MAX) {
            session.subscriptions.push((uri.to_owned(), back, params));
        }
    }

    fn has_legacy(&self, back: usize, capability: &str) -> bool {
        self.has(back, Era::Legacy, capability) == Some(true)
    }

    /// Can this back do that, as far as it has said?
    pub(super) fn has(&self, back: usize, era: Era, capability: &str) -> Option<bool> {
        let greeting = self.backs[back].greetings[at(era)].as_ref()?;
        let capabilities = edit::member(greeting.as_str(), "capabilities").unwrap_or("{}");
        Some(edit::member(capabilities, capability).is_some())
    }

    /// Has every server said that it cannot do that?
    pub(super) fn lacks(&self, era: Era, capability: &str) -> bool {
        self.servers().all(|back| self.has(back, era, capability) == Some(false))
    }

    /// How long a list waits for a back that it knows already.
    pub(super) fn patience(now: Instant) -> Instant {
        now + PATIENCE
    }
}

/// What one or the other of several servers can do, besides tools, which there always are.
fn united(capabilities: &[&str]) -> String {
    let mut out = b"{".to_vec();
    put_member(&mut out, "tools", r#"{"listChanged":true}"#);
    for (name, flags) in [
        ("prompts", &["listChanged"][..]),
        ("resources", &["subscribe", "listChanged"]),
        ("completions", &[]),
        ("logging", &[]),
    ] {
        let said: Vec<_> = capabilities.iter().filter_map(|raw| edit::member(raw, name)).collect();
        if said.is_empty() {
            continue;
        }
        let mut united = b"{".to_vec();
        for flag in flags {
            if said.iter().any(|raw| edit::member(raw, flag) == Some("true")) {
                put_member(&mut united, flag, "true");
            }
        }
        united.push(b'}');
        put_member(&mut out, name, united);
    }
    for name in ["experimental", "extensions"] {
        let mut known = Vec::new();
        let mut united = b"{".to_vec();
        let said = capabilities.iter().filter_map(|raw| edit::member(raw, name));
        for (key, value) in said.flat_map(edit::members) {
            // Of two servers that say it the first counts.
            if !known.contains(&key) {
                put_member(&mut united, &key, value);
                known.push(key);
            }
        }
        if !known.is_empty() {
            united.push(b'}');
            put_member(&mut out, name, united);
        }
    }
    out.push(b'}');
    String::from_utf8(out).expect("made of text")
}

#[cfg(test)]
mod tests {
    use super::united;

    #[test]
    fn what_one_can_do_all_can() {
        let one = r#"{"prompts":{},"logging":{},"extensions":{"a":{"x":1.0}}}"#;
        let other = r#"{"tools":{},"prompts":{"listChanged":true},"resources":{"subscribe":true},"extensions":{"a":{},"b":{}}}"#;
        assert_eq!(
            united(&[one, other]),
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"extensions":{"a":{"x":1.0},"b":{}}}"#
        );
        assert_eq!(united(&[]), r#"{"tools":{"listChanged":true}}"#);
    }
}
