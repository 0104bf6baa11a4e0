//! What a node offers: it asks for its tools, subscribes to a subject for each, and tells of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::answer::{self, PlainAnswer};
use super::{NodeStage, SUBSCRIBED, Server, TOOLS};
use crate::channel::{Asked, Notice};
use crate::json::{Json, Kind};
use crate::nats::protocol::{Message, put_pub, put_sub, put_unsub};
use crate::nats::service::{NodeIdentity, QUEUE, ping};
use crate::nats::wire::{ListRequest, NodeState};
use crate::tool::{Call, Failure, FailureKind, Outcome, What};

impl Server {
    pub(super) fn ask_tools(&mut self, now: Instant) {
        if self.asks_tools {
            self.asks_again = true;
            return;
        }
        self.asks_tools = true;
        self.ups.push_back((TOOLS, Asked::Call(Call::of(now, What::Tools))));
    }

    pub(super) fn handle_tools(&mut self, now: Instant, outcome: Result<Outcome, Failure>) {
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
    pub(super) fn subscribe(&mut self) -> bool {
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

    pub(super) fn unsubscribe(&mut self, subject: &str) {
        if let Some(sid) = self.subscribed.remove(subject) {
            put_unsub(&mut self.out, sid);
        }
    }

    pub(super) fn state(&self, event: Option<&str>) -> Bytes {
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

    pub(super) fn tell_here(&mut self, event: Option<&str>) {
        let subject = format!("{}.toolbus.here", self.settings.identity.prefix);
        let state = self.state(event);
        put_pub(&mut self.out, &subject, None, None, &state);
    }

    /// `$SRV.VERB`, `$SRV.VERB.NAME` or `$SRV.VERB.NAME.ID`: what we did not subscribe to does not
    /// arrive.
    pub(super) fn handle_service(&mut self, message: &Message) {
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

    pub(super) fn handle_list(&mut self, message: &Message) {
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
}
