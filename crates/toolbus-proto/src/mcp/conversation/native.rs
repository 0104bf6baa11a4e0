//! What passes as it is between a client and a server of one era (`docs/protocols/mcp.md` 2.4 to 2.6).
//!
//! A notification travels as a part of the call it belongs to, `{"method":…,"params"?:…}`;
//! a question as `{"method":…,"params"?:…}`, its answer as `{"result":…}` or `{"error":…}`.

use std::time::Instant;

use bytes::Bytes;

use super::hub::in_flight;
use super::requests::{Read, Request};
use super::session::{Memo, tag};
use super::{Conversation, InFlight, Job, Listening, Origin, Pass, Place, Said, Saying};
use crate::channel::{AskId, Ticket};
use crate::json::Json;
use crate::json::edit;
use crate::jsonrpc::Id;
use crate::mcp::WIRE;
use crate::mcp::wire::{self, Era, Level, Revision, SUBSCRIPTION_KEY};
use crate::tool::What;

/// How often a server may be lost before we stop listening to it.
const LOSSES_MAX: u32 = 10;

impl Conversation {
    pub(super) fn pass(&mut self, now: Instant, request: &Request<'_>, revision: Revision) {
        if revision.era() == Era::Legacy {
            self.relink(now);
        }
        let body = request.params.map(|params| request.read.in_a_line(params));
        let uri = || request.params.and_then(|params| edit::text(params, "uri"));
        let said = || body.clone().unwrap_or_default();
        let memo = match request.method {
            "logging/setLevel" => Some(Memo::Level(said())),
            "resources/subscribe" => uri().map(|uri| Memo::Subscribe(uri.into_owned(), said())),
            "resources/unsubscribe" => uri().map(|uri| Memo::Unsubscribe(uri.into_owned())),
            _ => None,
        };
        let pass = Pass {
            token: request.token(),
            level: request.level(),
            listening: (request.method == "subscriptions/listen").then(|| Listening {
                params: said(),
                is_acknowledged: false,
                losses: 0,
            }),
            memo,
        };
        let what = native(request.method, body);
        self.ask(now, in_flight(request, revision, Job::Pass(pass)), what, None);
    }

    pub(super) fn pass_notification(
        &mut self,
        now: Instant,
        read: &Read<'_>,
        method: &str,
        params: Option<&str>,
    ) {
        let body = params.map(|params| read.in_a_line(params));
        let origin = Origin { place: Place::SESSION, batch: None };
        let (id, revision) = (Id::NULL, Revision::LAST_LEGACY);
        let call = Box::new(InFlight { id, origin, revision, job: Job::Aside });
        self.ask(now, call, native(method, body), None);
    }

    /// A notification of the server, for the client that listens under `id` or in the session.
    pub(super) fn pass_on(
        &mut self,
        place: Place,
        ticket: Ticket,
        id: Option<&Id>,
        notification: &Json,
    ) {
        let raw = notification.as_str();
        let Some(method) = edit::text(raw, "method") else { return };
        let mut params = edit::member(raw, "params").map(str::to_owned);
        if let Some(id) = id {
            params = params.map(|params| with_subscription(&params, id).unwrap_or(params));
        }
        if method == "notifications/cancelled" {
            // The server takes back a question; the client knows it by another id.
            let ask = withdrawn(notification);
            let mut questions = self.questions.iter();
            let question = questions.find(|(_, (of, known))| *of == ticket && Some(*known) == ask);
            let Some((&question, _)) = question else { return };
            self.questions.remove(&question);
            params = params
                .and_then(|params| edit::replaced(&params, "requestId", &question.to_string()));
        }
        let params = params.map(Bytes::from);
        self.say(place, wire::notification(&method, params.as_ref()));
    }

    /// A server that a client listens to was lost: it is asked to be listened to again, unless
    /// it seems to die of that. Gives the listening back if it is over.
    pub(super) fn listen_again(
        &mut self,
        now: Instant,
        mut call: Box<InFlight>,
    ) -> Option<Box<InFlight>> {
        let listening = match &mut call.job {
            Job::Pass(pass) => pass.listening.as_mut().filter(|listening| listening.may_go_on()),
            _ => None,
        };
        let Some(listening) = listening else { return Some(call) };
        listening.is_acknowledged = false;
        listening.losses += 1;
        let what = native("subscriptions/listen", Some(listening.params.clone()));
        self.ask(now, call, what, None);
        None
    }

    /// The client knows that it listens. But what it listens to was started again, and may have
    /// other lists than before.
    pub(super) fn listens_again(&mut self, place: Place, id: &Id, acknowledged: &Json) {
        let params = edit::member(acknowledged.as_str(), "params").unwrap_or("{}");
        let agreed = edit::member(params, "notifications").unwrap_or("{}");
        let told = Bytes::from(format!("{{\"_meta\":{}}}", tag(id)));
        for list in ["tools", "prompts", "resources"] {
            if edit::member(agreed, &format!("{list}ListChanged")) == Some("true") {
                let method = format!("notifications/{list}/list_changed");
                self.say(place, wire::notification(&method, Some(&told)));
            }
        }
    }

    /// A log message of the server, if it is grave enough for the client that asked for some.
    pub(super) fn pass_log(&mut self, place: Place, era: Era, level: Option<Level>, params: &Json) {
        let grave = edit::text(params.as_str(), "level").and_then(|name| Level::named(&name));
        let is_wanted = match (era, level) {
            (Era::Legacy, None) => true,
            (Era::Modern, None) => false,
            (_, Some(level)) => grave.is_some_and(|grave| level <= grave),
        };
        if is_wanted {
            let method = "notifications/message";
            let text = wire::notification(method, Some(params.as_bytes()));
            self.said.push_back(Said { place, what: Saying::Guess, text });
        }
    }

    /// A question of the server, with an id of ours.
    pub(super) fn pass_question(&mut self, place: Place, ticket: Ticket, ask: AskId, asked: &Json) {
        let id = self.next_question;
        self.questions.insert(id, (ticket, ask));
        let Some(method) = edit::text(asked.as_str(), "method") else { return self.decline(id) };
        self.next_question += 1;
        let params = edit::member(asked.as_str(), "params");
        let params = params.map(|params| asked.as_bytes().slice_ref(params.as_bytes()));
        let text = wire::request(Some(id), &method, params.as_ref());
        self.said.push_back(Said { place, what: Saying::Question(id), text });
    }
}

/// The question that a server takes back by this notification.
pub(super) fn withdrawn(notification: &Json) -> Option<AskId> {
    let raw = notification.as_str();
    let is_it = edit::text(raw, "method").as_deref() == Some("notifications/cancelled");
    let asked = edit::member(edit::member(raw, "params")?, "requestId")?;
    asked.parse().ok().map(AskId).filter(|_| is_it)
}

impl Listening {
    fn may_go_on(&self) -> bool {
        self.is_acknowledged && self.losses < LOSSES_MAX
    }
}

fn native(method: &str, body: Option<Bytes>) -> What {
    let method = match method {
        // What is said most often needs no room of its own.
        "tools/call" => Bytes::from_static(b"tools/call"),
        _ => Bytes::copy_from_slice(method.as_bytes()),
    };
    What::Native { wire: WIRE, method, body: body.unwrap_or_default() }
}

/// What belongs to a listening, under the id that its client knows; `None` if it names none.
pub(super) fn with_subscription(raw: &str, id: &Id) -> Option<String> {
    edit::replaced_inside(raw, "_meta", SUBSCRIPTION_KEY, id.to_json().as_str())
}
