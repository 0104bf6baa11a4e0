//! A client that listens to several servers (`docs/protocols/mcp.md` 2.5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::routing::{Subject, unknown};
use super::{Job, PATIENCE, Purpose, Several, at, params_of};
use crate::channel::{Asked, Down, Ticket, Up};
use crate::json::{Json, Kind, edit};
use crate::jsonrpc::{kind, string};
use crate::mcp::wire::{Era, INVALID_PARAMS, Refusal, SUBSCRIPTION_KEY, put_member};
use crate::tool::{Call, FailureKind, Part};
use crate::view::Sort;

/// How often a server may be lost before we stop listening to it.
const LOSSES_MAX: u32 = 10;
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// A client that listens.
#[derive(Debug)]
pub(super) struct Listen {
    call: Call,
    /// It wants to hear of tools, of which the bus tells.
    tools: bool,
    /// Servers that have not agreed yet.
    waits: BTreeSet<usize>,
    /// The calls by which we listen to servers.
    calls: BTreeMap<usize, Ticket>,
    /// What servers have agreed to, each raw.
    agreed: Vec<String>,
    losses: BTreeMap<usize, u32>,
    /// Until when it is not acknowledged; `None` once it is.
    until: Option<Instant>,
}

impl Listen {
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Was it told that it will hear of this?
    fn hears(&self, method: &str) -> bool {
        let agrees =
            |name: &str| self.agreed.iter().any(|raw| edit::member(raw, name) == Some("true"));
        self.until.is_none()
            && match method {
                "notifications/tools/list_changed" => self.tools,
                "notifications/prompts/list_changed" => agrees("promptsListChanged"),
                _ => agrees("resourcesListChanged"),
            }
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.calls.values().copied()
    }
}

impl Several {
    pub(super) fn listen(&mut self, now: Instant, front: Ticket, call: Call) {
        let wanted = edit::member(params_of(&call), "notifications");
        let Some(wanted) = wanted.filter(|raw| kind(raw) == Kind::Object) else {
            let message = "subscriptions/listen needs notifications, an object";
            return self.refuse(front, &Refusal::new(INVALID_PARAMS, message));
        };
        let uris = edit::member(wanted, "resourceSubscriptions").unwrap_or("[]");
        let hidden = edit::elements(uris).filter_map(string).find(|uri| {
            let is_shown = |back: usize| self.shown.resource(&self.backs[back].peer.name, uri);
            !self.servers().any(is_shown)
        });
        if let Some(uri) = hidden {
            let refusal = unknown(Era::Modern, &Subject::Resource(uri.into_owned()));
            return self.refuse(front, &refusal);
        }
        let mut listen = Listen {
            tools: edit::member(wanted, "toolsListChanged") == Some("true"),
            waits: self.servers().collect(),
            calls: BTreeMap::new(),
            agreed: Vec::new(),
            losses: BTreeMap::new(),
            until: Some(now + PATIENCE),
            call,
        };
        for back in listen.waits.clone() {
            let ticket = self.ask(back, listen.call.clone(), Purpose::Listen { back, front });
            listen.calls.insert(back, ticket);
        }
        let is_ready = listen.waits.is_empty();
        self.jobs.insert(front, Job::Listen(listen));
        self.begin_telling(front);
        if is_ready {
            self.acknowledge(front);
        }
    }

    pub(super) fn listen_down(
        &mut self,
        now: Instant,
        ticket: Ticket,
        back: usize,
        front: Ticket,
        down: Down,
    ) {
        let Some(Job::Listen(listen)) = self.jobs.get_mut(&front) else { return };
        match down {
            Down::Part(Part::Json(note)) => {
                let method = edit::text(note.as_str(), "method").unwrap_or_default();
                if method == ACKNOWLEDGED {
                    let params = edit::member(note.as_str(), "params").unwrap_or("{}");
                    let agreed = edit::member(params, "notifications").unwrap_or("{}");
                    listen.agreed.push(agreed.to_owned());
                    let is_again = listen.losses.contains_key(&back);
                    return match is_again {
                        true => {
                            let lists = changed_lists(agreed);
                            lists.for_each(|method| self.note(front, back, &method));
                        }
                        false => self.settled(front, back),
                    };
                }
                // The bus hears of that, too, and tells it for all backs.
                if method != "notifications/tools/list_changed" {
                    let by = listen.call.clone();
                    self.noted(now, front, back, &by, note);
                }
            }
            Down::Done(outcome) => {
                self.asked.remove(&ticket);
                listen.calls.remove(&back);
                let had_agreed = !listen.waits.contains(&back);
                let losses = listen.losses.entry(back).or_default();
                let is_gone = outcome.is_err_and(|failure| failure.kind == FailureKind::Gone);
                if is_gone && had_agreed && *losses < LOSSES_MAX {
                    *losses += 1;
                    let call = listen.call.clone();
                    let again = self.ask(back, call, Purpose::Listen { back, front });
                    if let Some(Job::Listen(listen)) = self.jobs.get_mut(&front) {
                        listen.calls.insert(back, again);
                    }
                    return;
                }
                self.settled(front, back);
            }
            _ => {}
        }
    }

    /// Is this of the back for clients who are shown only a part of it?
    pub(super) fn is_told(&self, back: usize, method: &str, note: &Json) -> bool {
        let name = &self.backs[back].peer.name;
        let Some(selection) = &self.shown.selection else { return true };
        match method {
            "notifications/resources/updated" => {
                let params = edit::member(note.as_str(), "params").unwrap_or("{}");
                edit::text(params, "uri").is_none_or(|uri| self.shown.resource(name, &uri))
            }
            "notifications/prompts/list_changed" => selection.may_match(Sort::Prompt, name),
            "notifications/resources/list_changed" => selection.may_match(Sort::Resource, name),
            _ => true,
        }
    }

    fn settled(&mut self, front: Ticket, back: usize) {
        if let Some(Job::Listen(listen)) = self.jobs.get_mut(&front) {
            listen.waits.remove(&back);
            if listen.waits.is_empty() {
                self.acknowledge(front);
            }
        }
    }

    /// Tells the client what it will hear of; only once.
    pub(super) fn acknowledge(&mut self, front: Ticket) {
        let Some(Job::Listen(listen)) = self.jobs.get_mut(&front) else { return };
        if listen.until.take().is_none() {
            return;
        }
        // A server that has not agreed by now is not waited for. One that has not even come is
        // supposed to have all that we said we had.
        let backs = &self.backs;
        let waits = std::mem::take(&mut listen.waits);
        let wanted = edit::member(params_of(&listen.call), "notifications").unwrap_or("{}");
        if waits.iter().any(|back| backs[*back].greetings[at(Era::Modern)].is_none()) {
            let mut supposed = vec![b'{'];
            for name in ["promptsListChanged", "resourcesListChanged"] {
                if edit::member(wanted, name) == Some("true") {
                    put_member(&mut supposed, name, "true");
                }
            }
            supposed.push(b'}');
            listen.agreed.push(String::from_utf8(supposed).unwrap_or_default());
        }
        let mut agreed = vec![b'{'];
        if listen.tools {
            put_member(&mut agreed, "toolsListChanged", "true");
        }
        for name in ["promptsListChanged", "resourcesListChanged"] {
            if listen.agreed.iter().any(|raw| edit::member(raw, name) == Some("true")) {
                put_member(&mut agreed, name, "true");
            }
        }
        let wanted = edit::member(wanted, "resourceSubscriptions").unwrap_or("[]");
        let is_agreed = |uri: &&str| {
            let name = "resourceSubscriptions";
            let agreed = listen.agreed.iter().filter_map(|raw| edit::member(raw, name));
            agreed.flat_map(edit::elements).any(|other| string(other) == string(uri))
        };
        let uris: Vec<_> = edit::elements(wanted).filter(is_agreed).collect();
        if !uris.is_empty() {
            put_member(&mut agreed, "resourceSubscriptions", format!("[{}]", uris.join(",")));
        }
        agreed.push(b'}');
        let agreed = String::from_utf8(agreed).unwrap_or_default();
        let params = format!("{},\"notifications\":{agreed}}}", tagged());
        let note = format!("{{\"method\":\"{ACKNOWLEDGED}\",\"params\":{params}}}");
        self.downs.push_back((front, Down::Part(Part::Json(Json::from_trusted(note)))));
    }

    fn note(&mut self, front: Ticket, back: usize, method: &str) {
        self.backs[back].changed(method);
        self.tell(front, method);
    }

    fn tell(&mut self, front: Ticket, method: &str) {
        let note = format!("{{\"method\":\"{method}\",\"params\":{}}}}}", tagged());
        self.downs.push_back((front, Down::Part(Part::Json(Json::from_trusted(note)))));
    }

    /// The tools of the bus are others than before: the clients that listen are told.
    pub fn tools_changed(&mut self) {
        self.tell_listening("notifications/tools/list_changed");
    }

    /// Tells the clients that listen for that kind of change.
    pub(super) fn tell_listening(&mut self, method: &str) {
        let listening = self.jobs.iter().filter(|(_, job)| match job {
            Job::Listen(listen) => listen.hears(method),
            _ => false,
        });
        let mut told: Vec<_> = listening.map(|(front, _)| *front).collect();
        told.sort_unstable();
        told.into_iter().for_each(|front| self.tell(front, method));
    }

    pub(super) fn stop_listening(&mut self, listen: Listen) {
        for (back, ticket) in listen.calls {
            self.asked.remove(&ticket);
            self.asks.push_back((back, ticket, Asked::Up(Up::Cancel(None))));
        }
    }
}

/// The beginning of parameters that belong to a listening; its client's id is put there.
fn tagged() -> String {
    format!("{{\"_meta\":{{\"{SUBSCRIPTION_KEY}\":0}}")
}

/// What a server that was started again may have changed of what was agreed.
fn changed_lists(agreed: &str) -> impl Iterator<Item = String> {
    let lists = ["prompts", "resources"].into_iter();
    let told =
        lists.filter(|list| edit::member(agreed, &format!("{list}ListChanged")) == Some("true"));
    let told: Vec<_> = told.map(|list| format!("notifications/{list}/list_changed")).collect();
    told.into_iter()
}
