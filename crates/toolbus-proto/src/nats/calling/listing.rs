//! Finding out who is there and what they offer, and keeping that true.
//!
//! A round asks all instances of the service to say that they are there, and each that does for its
//! tools. While someone wants to be told of changes there is a round every few seconds; what nodes
//! say by themselves holds at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::instances::{Instance, InstanceTool, Key, of_foreign, read_ping};
use super::{Client, HERE, shown};
use crate::chance::Random;
use crate::channel::Notice;
use crate::json::Json;
use crate::nats::headers::Headers;
use crate::nats::protocol::{Message, put_sub};
use crate::nats::subject;
use crate::nats::wire::{ListPage, ListRequest, NodeState, ServiceInfo};
use crate::tool::{Failure, FailureKind, Outcome, too_many_tools};

/// A round ends when no further instance has answered for so long, at the latest after so long.
const QUIET: Duration = Duration::from_millis(250);
const ROUND_MAX: Duration = Duration::from_secs(2);
/// How often there is a round while someone wants to be told of changes, and how often foreign
/// services are asked what they offer.
const ROUND_EVERY: Duration = Duration::from_secs(5);
const FOREIGN_EVERY: Duration = Duration::from_secs(30);
/// How often is looked after calls and instances while there is a reason.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// An instance that was silent for so long is asked alone, and again after so long, so often.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
const ASK_AGAIN: Duration = Duration::from_secs(2);
const ASK_AGAIN_IDLE: Duration = Duration::from_secs(1);
const ASKED_MAX: u32 = 3;

/// What was asked that is no call.
#[derive(Debug)]
pub(super) enum Inquiry {
    /// Who is there?
    Round,
    /// How are you? To all nodes of a prefix.
    States,
    /// How are you? To one.
    NodeState,
    /// Are you there? To one.
    Alone(Key),
    /// A page of the list of a node.
    Page { key: Key, digest: Option<String>, tools: Vec<InstanceTool>, bytes: usize },
    /// What a foreign service offers.
    Info(Key),
}

/// A round under way.
#[derive(Debug)]
pub(super) struct Round {
    begun: Instant,
    /// When the last answer came.
    heard: Option<Instant>,
    /// The number by which all are asked.
    number: u64,
    /// Lists that are awaited, and until when.
    awaited: Vec<(u64, Instant)>,
    /// Nobody is there, says the server.
    is_empty: bool,
}

impl Round {
    pub(super) fn poll_timeout(&self) -> Instant {
        let gathered = match (self.is_empty, self.heard) {
            (true, _) => self.begun,
            (_, Some(heard)) => (heard + QUIET).min(self.begun + ROUND_MAX),
            (_, None) => self.begun + ROUND_MAX,
        };
        let awaited = self.awaited.iter().map(|(_, until)| *until).max();
        awaited.map_or(gathered, |awaited| awaited.max(gathered))
    }

    /// Is all in that will come?
    fn is_over(&self, now: Instant) -> bool {
        if !self.awaited.is_empty() {
            return self.poll_timeout() <= now;
        }
        let is_gathered = match self.heard {
            Some(heard) => heard + QUIET <= now,
            None => self.is_empty,
        };
        is_gathered || self.begun + ROUND_MAX <= now
    }
}

impl<R: Random> Client<R> {
    /// Asks who is there, unless that is being asked.
    pub(super) fn begin_round(&mut self, now: Instant) {
        if self.round.is_some() {
            return;
        }
        let subject = match (&self.settings.service, &self.settings.id) {
            (Some(name), Some(id)) => format!("$SRV.PING.{name}.{id}"),
            (Some(name), None) => format!("$SRV.PING.{name}"),
            (None, _) => "$SRV.PING".to_owned(),
        };
        let number = self.ask(&subject, &Bytes::new(), Inquiry::Round);
        self.round =
            Some(Round { begun: now, heard: None, number, awaited: Vec::new(), is_empty: false });
        let prefixes: Vec<String> = self.prefixes.iter().cloned().collect();
        for prefix in prefixes {
            self.ask(&format!("{prefix}.toolbus.state"), &Bytes::new(), Inquiry::States);
        }
        self.next_round = Some(now + ROUND_EVERY);
    }

    /// An answer to what was asked.
    pub(super) fn handle_asked(
        &mut self,
        now: Instant,
        number: u64,
        headers: &Headers,
        message: &Message,
    ) {
        let nobody = headers.status == Some(503);
        let answer = match self.asked.get(&number) {
            // Several may answer.
            Some(Inquiry::Round) if !nobody => return self.handle_pong(now, &message.payload),
            Some(Inquiry::Round) => {
                if let Some(round) = self.round.as_mut().filter(|round| round.number == number) {
                    round.is_empty = true;
                }
                self.asked.remove(&number);
                self.nobody_is_there(now);
                return self.end_round_if_over(now);
            }
            Some(Inquiry::States) => {
                if !nobody {
                    self.handle_state(now, &message.payload, false);
                }
                return;
            }
            Some(_) => self.asked.remove(&number),
            None => return,
        };
        match answer {
            Some(Inquiry::Alone(key)) if nobody => self.instance_is_gone(now, &key),
            Some(Inquiry::Alone(_)) => self.handle_pong(now, &message.payload),
            Some(Inquiry::NodeState) if !nobody => self.handle_state(now, &message.payload, false),
            Some(Inquiry::Page { key, digest, tools, bytes }) if !nobody => {
                self.handle_page(now, key, digest, tools, bytes, headers, message);
            }
            Some(Inquiry::Info(key)) if !nobody => self.handle_info(now, &key, &message.payload),
            _ => {}
        }
        if let Some(round) = &mut self.round {
            round.awaited.retain(|(awaited, _)| *awaited != number);
        }
        self.end_round_if_over(now);
    }

    fn handle_pong(&mut self, now: Instant, payload: &[u8]) {
        let Some(ping) = read_ping(payload) else {
            let what = "an answer to PING that is not what the services API has is passed over";
            return self.warn(what.to_owned());
        };
        let is_other = self.settings.service.as_ref().is_some_and(|name| *name != ping.name)
            || self.settings.id.as_ref().is_some_and(|id| *id != ping.id);
        if is_other || (self.settings.own)(&ping.id) {
            if let Some(round) = self.round.as_mut().filter(|_| !is_other) {
                round.heard = Some(now);
            }
            return;
        }
        let key: Key = (ping.name.as_str().into(), ping.id.as_str().into());
        let begun = match &mut self.round {
            Some(round) => {
                round.heard = Some(now);
                Some(round.begun)
            }
            None => None,
        };
        let is_new = match self.instances.heard(now, &ping) {
            Ok(is_new) => is_new,
            Err(why) => return self.warn(why),
        };
        let Some(instance) = self.instances.all.get_mut(&key) else { return };
        if let Some(begun) = begun {
            instance.rtt.get_or_insert(now.saturating_duration_since(begun));
        }
        let is_foreign = instance.prefix.is_none();
        let is_old = instance.listed.is_none_or(|listed| listed + FOREIGN_EVERY <= now);
        let asks_anew = !self.settings.watched.get() && begun.is_some();
        if is_new || (is_foreign && is_old) || asks_anew {
            self.list(now, &key);
        }
        if self.settings.asks_state && !is_foreign {
            self.ask_state(&key);
        }
    }

    /// Asks an instance what it offers.
    fn list(&mut self, now: Instant, key: &Key) {
        let Some(instance) = self.instances.all.get_mut(key) else { return };
        instance.listed = Some(now);
        let (name, id) = key;
        let number = match instance.prefix.clone() {
            Some(prefix) => {
                let known = instance.digest.clone().map(|digest| vec![digest]);
                let request = Json::of(&ListRequest { cursor: None, known });
                let is_heard = match &self.settings.service {
                    Some(service) => *service == prefix,
                    None => !prefix.contains('.'),
                };
                if self.prefixes.insert(prefix.clone()) && !is_heard {
                    let here = format!("{prefix}.{HERE}");
                    put_sub(&mut self.out, &here, None, self.next_sid);
                    self.next_sid += 1;
                }
                let subject = format!("{prefix}.toolbus.node.{id}.toolbus.tools");
                let asked =
                    Inquiry::Page { key: key.clone(), digest: None, tools: Vec::new(), bytes: 0 };
                self.ask(&subject, request.as_bytes(), asked)
            }
            None => {
                let subject = format!("$SRV.INFO.{name}.{id}");
                self.ask(&subject, &Bytes::new(), Inquiry::Info(key.clone()))
            }
        };
        if let Some(round) = &mut self.round {
            round.awaited.push((number, now + ROUND_MAX));
        }
    }

    fn ask_state(&mut self, key: &Key) {
        let prefix = self.instances.all.get(key).and_then(|instance| instance.prefix.clone());
        if let Some(prefix) = prefix {
            let subject = format!("{prefix}.toolbus.node.{}.toolbus.state", key.1);
            let _ = self.ask(&subject, &Bytes::new(), Inquiry::NodeState);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what was asked, and the answer to it")]
    fn handle_page(
        &mut self,
        now: Instant,
        key: Key,
        digest: Option<String>,
        mut tools: Vec<InstanceTool>,
        bytes: usize,
        headers: &Headers,
        message: &Message,
    ) {
        let Some(instance) = self.instances.all.get_mut(&key) else { return };
        instance.heard = now;
        if headers.get("Nats-Service-Error").is_some() {
            // The list changed while it was read: once more, from the beginning.
            if headers.get("Nats-Service-Error-Code") == Some("409") && digest.is_some() {
                instance.digest = None;
                self.list(now, &key);
            }
            return;
        }
        let Ok(page) = serde_json::from_slice::<ListPage>(&message.payload) else {
            instance.passed_over();
            let what = format!("the list of {} cannot be read", shown(&key));
            return self.warn(what);
        };
        let Some(listed) = page.tools else {
            // What is known is what there is.
            return self.changed();
        };
        let bytes = bytes + message.payload.len();
        let wires = &self.settings.wires;
        tools.extend(listed.iter().filter_map(|tool| InstanceTool::of_node(tool, wires)));
        if let Some(failure) = too_many_tools(tools.len(), bytes) {
            instance.passed_over();
            return self.warn(format!("{}: {}", shown(&key), failure.message));
        }
        if let Some(next) = page.next {
            let prefix = instance.prefix.clone().unwrap_or_default();
            let request = Json::of(&ListRequest { cursor: Some(next), known: None });
            let subject = format!("{prefix}.toolbus.node.{}.toolbus.tools", key.1);
            let asked = Inquiry::Page { key, digest: Some(page.digest), tools, bytes };
            let number = self.ask(&subject, request.as_bytes(), asked);
            if let Some(round) = &mut self.round {
                round.awaited.push((number, now + ROUND_MAX));
            }
            return;
        }
        instance.offers(tools);
        instance.digest = Some(page.digest);
        self.changed();
    }

    fn handle_info(&mut self, now: Instant, key: &Key, payload: &Bytes) {
        let Some(instance) = self.instances.all.get_mut(key) else { return };
        instance.heard = now;
        let read = serde_json::from_slice::<ServiceInfo>(payload).ok();
        let Some(info) = read.filter(|info| info.is_of(key)) else {
            instance.passed_over();
            let (name, id) = key;
            let what = format!("the INFO of instance {id} of `{name}`");
            return self
                .warn(format!("{what} is not what the services API has: it is passed over"));
        };
        let (tools, passed_over) = of_foreign(&info);
        if let Some(failure) = too_many_tools(tools.len(), payload.len()) {
            instance.passed_over();
            return self.warn(format!("{}: {}", shown(key), failure.message));
        }
        instance.offers(tools);
        for subject in passed_over {
            let what = format!(
                "the endpoint \"{subject}\" of `{}` has wildcards and is not offered",
                key.0
            );
            self.desk.notice(Notice::PassedOver(what));
        }
        self.changed();
    }

    /// What a node says about itself.
    fn handle_state(&mut self, now: Instant, payload: &[u8], is_unasked: bool) {
        let Ok(state) = serde_json::from_slice::<NodeState>(payload) else { return };
        let is_other = self.settings.service.as_ref().is_some_and(|name| *name != state.name)
            || self.settings.id.as_ref().is_some_and(|id| *id != state.id);
        if is_other || (self.settings.own)(&state.id) {
            return;
        }
        let key: Key = (state.name.as_str().into(), state.id.as_str().into());
        let Some(instance) = self.instances.all.get_mut(&key) else {
            if is_unasked && state.event.as_deref() != Some("down") && subject::is_literal(&key.0) {
                self.ask_alone(now, &key);
            }
            return;
        };
        (instance.heard, instance.asked) = (now, None);
        instance.in_flight = Some(state.in_flight);
        if state.event.as_deref() == Some("down") {
            return self.instance_is_gone(now, &key);
        }
        let has_changed = instance.digest.as_ref() != Some(&state.digest);
        if std::mem::replace(&mut instance.is_draining, state.draining) != state.draining {
            self.changed();
        }
        if state.in_flight == 0 {
            // It lost its connection meanwhile, and its calls with that.
            self.node_has_none(now, &key, state.event.as_deref() == Some("up"));
        }
        if has_changed && !state.draining {
            self.list(now, &key);
        }
    }

    /// What a node says by itself.
    pub(super) fn handle_here(&mut self, now: Instant, message: &Message) {
        if message.subject.strip_suffix(HERE).is_some_and(|before| before.ends_with('.')) {
            self.handle_state(now, &message.payload, true);
        }
    }

    pub(super) fn ask_alone(&mut self, now: Instant, key: &Key) {
        if let Some(instance) = self.instances.all.get_mut(key) {
            let times = instance.asked.map_or(0, |(_, times)| times);
            instance.asked = Some((now, times + 1));
        }
        let subject = format!("$SRV.PING.{}.{}", key.0, key.1);
        let _ = self.ask(&subject, &Bytes::new(), Inquiry::Alone(key.clone()));
    }

    fn nobody_is_there(&mut self, now: Instant) {
        let all: Vec<Key> = self.instances.all.keys().cloned().collect();
        for key in all {
            self.instance_is_gone(now, &key);
        }
    }

    fn end_round_if_over(&mut self, now: Instant) {
        if self.round.as_ref().is_some_and(|round| round.is_over(now)) {
            self.end_round(now);
        }
    }

    /// All that will come has come.
    fn end_round(&mut self, now: Instant) {
        let Some(round) = self.round.take() else { return };
        self.asked.remove(&round.number);
        self.asked.retain(|_, asked| !matches!(asked, Inquiry::States));
        let is_first = !std::mem::replace(&mut self.is_listed, true);
        self.changed();
        // Those that did not answer may be slow.
        let silent = self.instances.all.iter().filter(|(_, it)| it.heard < round.begun);
        let silent: Vec<Key> = silent.map(|(key, _)| key.clone()).collect();
        for key in silent {
            self.ask_alone(now, &key);
        }
        let is_unknown = !self.instances.all.values().any(Instance::is_listed);
        if is_unknown {
            self.settings.memory.told.borrow_mut().get_or_insert_default();
        }
        let outcome = match is_unknown {
            true => Err(self.nobody()),
            false => {
                let specs: Vec<_> = self.offer.values().map(|tool| tool.spec.clone()).collect();
                Ok(Outcome::Tools(specs.into()))
            }
        };
        for (ticket, _) in std::mem::take(&mut self.listeners) {
            self.desk.done(ticket, outcome.clone());
        }
        if is_first {
            while let Some(waiting) = self.desk.queue.pop() {
                self.start(now, waiting.ticket, waiting.call, waiting.ups);
            }
        }
        self.look_soon(now);
    }

    /// It cannot be asked who is there.
    pub(super) fn end_round_with(&mut self, failure: &Failure) {
        if self.round.take().is_none() {
            return;
        }
        for (ticket, _) in std::mem::take(&mut self.listeners) {
            self.desk.done(ticket, Err(failure.clone()));
        }
        self.desk.lost(failure);
    }

    /// What is offered may be something else now.
    fn changed(&mut self) {
        if !self.is_listed {
            return;
        }
        let (offer, warnings) = self.instances.merge(self.settings.service.is_none());
        warnings.into_iter().for_each(|warning| self.warn(warning));
        let all = self.instances.all.values();
        if all.into_iter().all(|instance| instance.is_draining || !instance.is_listed()) {
            // Nobody is left, or none has said what it offers: the last list stays, and its calls
            // are unavailable.
            return;
        }
        let digests = offer.iter().map(|(name, it)| (name.clone(), it.digest.clone())).collect();
        self.offer = offer;
        // What was listed on a connection before this one counts as well; the first list is none
        // that has changed.
        let before = self.settings.memory.told.borrow_mut().replace(digests);
        if before.is_some() && before != *self.settings.memory.told.borrow() {
            self.desk.notice(Notice::ToolsChanged);
        }
    }

    /// An instance is there no more: its calls end.
    pub(super) fn instance_is_gone(&mut self, now: Instant, key: &Key) {
        let Some(instance) = self.instances.all.remove(key) else { return };
        self.settings.memory.pins.borrow_mut().retain(|_, id| **id != *key.1);
        if 0 < instance.calls {
            self.node_is_gone(now, key);
        }
        self.foreign_may_be_gone(now);
        self.changed();
    }

    /// Looks after what may have happened without a word.
    pub(super) fn look(&mut self, now: Instant) {
        let late = self.listeners.extract_if(.., |(_, until)| until.is_some_and(|at| at <= now));
        let late: Vec<_> = late.map(|(ticket, _)| ticket).collect();
        for ticket in late {
            let message = self.name_for_people();
            self.desk.done(ticket, Err(Failure::new(FailureKind::TimedOut, message)));
        }
        self.end_round_if_over(now);
        let is_watched = self.settings.watched.get();
        if is_watched && self.next_round.is_some_and(|at| at <= now) && self.desk.is_open() {
            self.begin_round(now);
        }
        if self.next_look.is_none_or(|look| now < look) {
            return;
        }
        self.next_look = None;
        self.look_at_calls(now);
        // Of a foreign service it is not known which instance has a call.
        let late = self.running.values().filter_map(|running| running.awaits_foreign(now));
        let awaited: BTreeSet<&Key> = late.flatten().collect();
        let silent = self
            .instances
            .all
            .iter()
            .filter(|(key, instance)| instance.is_silent(now, awaited.contains(key)));
        let silent: Vec<(Key, bool)> =
            silent.map(|(key, it)| (key.clone(), it.was_asked_enough())).collect();
        for (key, is_enough) in silent {
            match is_enough {
                true => self.instance_is_gone(now, &key),
                false => self.ask_alone(now, &key),
            }
        }
        self.look_soon(now);
    }

    /// Looks again in a moment, if there is a reason.
    pub(super) fn look_soon(&mut self, now: Instant) {
        let is_needed = !self.running.is_empty()
            || !self.given_up.is_empty()
            || self.instances.all.values().any(|instance| instance.asked.is_some());
        if is_needed && self.next_look.is_none() {
            self.next_look = Some(now + LOOK_EVERY);
        }
    }

    fn warn(&mut self, what: String) {
        let message = format!("{}: {what}", self.link.at());
        self.desk.notice(Notice::Warning(message));
    }
}

impl Instance {
    /// Is it to be asked alone whether it is there? `is_awaited` if a call of a foreign one is late.
    fn is_silent(&self, now: Instant, is_awaited: bool) -> bool {
        match self.asked {
            Some((asked, _)) => {
                let again = if 0 < self.calls { ASK_AGAIN } else { ASK_AGAIN_IDLE };
                asked + again <= now
            }
            None => (0 < self.calls || is_awaited) && self.heard + SILENCE <= now,
        }
    }

    fn was_asked_enough(&self) -> bool {
        self.asked.is_some_and(|(_, times)| ASKED_MAX <= times)
    }
}
