//! Where a call goes: to the node that fits best, or to whichever instance the server chooses.
//!
//! A call that has certainly not begun goes to another node; one that may have is never sent again,
//! unless its tool says that this does no harm and the user wants it.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;

use super::instances::{Instance, Key, Offered};
use super::talking::CallOut;
use super::{Client, traced};
use crate::chance::Random;
use crate::collect::InputCollector;
use crate::json::Json;
use crate::nats::flow::{self, Item, Receiver, Sender};
use crate::nats::headers::Block;
use crate::nats::protocol::put_pub;
use crate::tool::{Call, Failure, FailureKind, What, Wire};

/// So many nodes are tried.
const TRIED_MAX: usize = 8;
/// How long the header may be that says which questions the caller takes.
const ASKS_BYTES_MAX: usize = 4 << 10;
/// What is given out to one node, and on the connection, before windows become small.
const GIVEN_TO_NODE_MAX: u64 = 16 << 20;
const GIVEN_MAX: u64 = 32 << 20;

impl<R: Random> Client<R> {
    /// Sends a call to a node that was not tried, with what was to be said behind it.
    pub(super) fn send_to_node(&mut self, now: Instant, number: u64, behind: VecDeque<Item>) {
        let Some(key) = self.choose(number) else {
            let Some(running) = self.running.get(&number) else { return };
            let tool = &running.offered.spec.name;
            let message = format!("no node takes a call of `{tool}`");
            let detail = format!("{{\"reason\":\"{}\"}}", running.why_not);
            let failure = Failure {
                detail: Some(Json::from_trusted(detail)),
                ..Failure::new(FailureKind::Unavailable, message)
            };
            return self.finish(number, Err(failure));
        };
        let Some(running) = self.running.get_mut(&number) else { return };
        let (mut prefix, mut subject, mut given) =
            (running.offered.back.as_str(), running.offered.subject.as_str(), 0);
        if let Some(instance) = self.instances.all.get_mut(&key) {
            instance.calls += 1;
            given = instance.given;
            if let Some(own) = &instance.prefix {
                // Nodes of one name may have subjects that begin otherwise.
                prefix = own;
                let tool = instance.tool(&running.offered.digest);
                subject = tool.map_or(subject, |tool| &tool.subject);
            }
        }
        let own = subject.strip_prefix(prefix).unwrap_or(subject);
        running.sent_to = format!("{prefix}.toolbus.node.{}{own}", key.1);
        if !running.tried.is_empty() {
            let why = if running.was_sent_again { "gone" } else { running.why_not };
            *self.resent.entry(why).or_default() += 1;
        }
        running.tried.push(key.1.clone());
        let origin = running.call.provenance.as_ref();
        if let Some(passage) = origin.and_then(|origin| origin.passage.as_ref()) {
            passage.sent_to(&key.1);
        }
        running.node = Some(key);
        running.sent = now;
        let is_much = GIVEN_TO_NODE_MAX <= given || GIVEN_MAX <= self.given;
        let window = if is_much { flow::WINDOW_SMALL } else { flow::WINDOW };
        self.given += window;
        let key = running.node.as_ref();
        if let Some(instance) = key.and_then(|key| self.instances.all.get_mut(key)) {
            instance.given += window;
        }
        let piece_max = flow::piece_bytes_max(self.link.info().max_payload);
        running.receiver = Receiver::new(window);
        running.sender = Sender::new(piece_max, 0).gated();
        let item = call_item(running, window, now, &self.settings.wires);
        running.sender.push(item);
        behind.into_iter().for_each(|item| running.sender.push(item));
        self.stirred.insert(number);
    }

    /// The node for a call: of those that offer the listed version and are not draining the one
    /// with the fewest calls of ours; one that keeps state has all of them.
    pub(super) fn choose(&mut self, number: u64) -> Option<Key> {
        let running = self.running.get(&number)?;
        let Offered { service, digest, back, is_pinned, .. } = &running.offered;
        if TRIED_MAX <= running.tried.len() {
            return None;
        }
        if let What::Native { method, .. } = &running.call.what {
            // Of one node, known or not, and of no other.
            let id = str::from_utf8(method).ok()?.rsplit_once(' ')?.1.to_owned();
            let name = self.settings.service.clone()?;
            return running.tried.is_empty().then_some((name, id));
        }
        let offers = |(key, instance): &(&Key, &Instance)| {
            key.0 == *service
                && !instance.is_draining
                && instance.prefix.is_some()
                && !running.tried.contains(&key.1)
                && instance.tool(digest).is_some()
        };
        let fit: Vec<(&Key, usize)> = self
            .instances
            .all
            .iter()
            .filter(offers)
            .map(|(key, instance)| (key, instance.calls))
            .collect();
        let pin = (service.clone(), back.clone());
        if *is_pinned
            && let Some(id) = self.settings.memory.pins.borrow().get(&pin)
            && let Some((key, _)) = fit.iter().find(|(key, _)| key.1 == *id)
        {
            return Some((*key).clone());
        }
        let fewest = fit.iter().map(|(_, calls)| *calls).min()?;
        let equals: Vec<&Key> =
            fit.iter().filter(|(_, calls)| *calls == fewest).map(|(key, _)| *key).collect();
        let mut chance = [0; 4];
        if 1 < equals.len() {
            self.random.fill(&mut chance);
        }
        let chosen = equals[u32::from_le_bytes(chance) as usize % equals.len()].clone();
        if *is_pinned {
            self.settings.memory.pins.borrow_mut().insert(pin, chosen.1.clone());
        }
        Some(chosen)
    }

    /// One request, to whichever instance the server chooses.
    pub(super) fn send_to_foreign(&mut self, now: Instant, number: u64) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let What::Tool { args, .. } = &running.call.what else { return };
        if running.call.options.sends_parts && running.collector.is_none() {
            running.collector = Some(Box::new(InputCollector::new(args.clone())));
            return;
        }
        let args = args.clone();
        self.publish_foreign(now, number, args);
    }

    pub(super) fn publish_foreign(&mut self, now: Instant, number: u64, args: Option<Json>) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let payload = args.map(|args| args.as_bytes().clone()).unwrap_or_default();
        let head = running.call.trace.is_some().then(|| traced(Block::new(), &running.call).end());
        let bytes = payload.len() + head.as_ref().map_or(0, Vec::len);
        let max = self.link.info().max_payload;
        if max < bytes {
            let message =
                format!("the arguments have {bytes} bytes, and this NATS server takes {max}");
            return self.finish(number, Err(Failure::new(FailureKind::TooLarge, message)));
        }
        let reply = format!("{}.{number}", self.settings.inbox);
        running.sent_to.clone_from(&running.offered.subject);
        running.sent = now;
        let service = &running.offered.service;
        let there = self.instances.all.keys().filter(|(name, _)| name == service);
        running.instances = there.cloned().collect();
        put_pub(&mut self.out, &running.sent_to, Some(&reply), head.as_deref(), &payload);
    }

    /// A call that has certainly not begun goes to another node.
    pub(super) fn send_elsewhere(&mut self, now: Instant, number: u64) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let behind = running.sender.take_behind();
        let window = running.receiver.window();
        let key = running.node.take();
        running.receiver = Receiver::default();
        running.sender = Sender::default();
        running.up = None;
        self.leave_node(key.as_ref(), window);
        self.send_to_node(now, number, behind);
    }
}

/// The first item of a call.
fn call_item(running: &mut CallOut, window: u64, now: Instant, wires: &[Wire]) -> Item {
    let Call { what, options, deadline, trace, .. } = &running.call;
    let args = match what {
        What::Tool { args: Some(args), .. } => args.as_bytes().clone(),
        What::Native { body, .. } => body.clone(),
        _ => Bytes::new(),
    };
    let left = deadline.total.map(|total| {
        let left = (deadline.asked + total).saturating_duration_since(now);
        left.as_millis().max(1).to_string()
    });
    let of_tool = running.offered.spec.native.as_ref().map(|native| native.wire);
    running.native = options.native.filter(|wire| wires.contains(wire) && of_tool == Some(*wire));
    let asks = running.call.asks().map(Json::compact);
    let asks = asks.filter(|asks| asks.as_bytes().len() <= ASKS_BYTES_MAX);
    let origin = running.call.provenance.as_deref();
    let hops = origin.map_or(0, |origin| origin.hops) + 1;
    let mut wants = Vec::new();
    if options.progress {
        wants.push("progress".to_owned());
    }
    if options.known.is_some_and(|known| known.log_level.is_some()) {
        wants.push("log".to_owned());
    }
    wants.extend(running.native.map(|wire| format!("native={}", wire.name())));
    Item::new("call", args)
        .free()
        .with("Toolbus-Wire", "1")
        .maybe("Toolbus-Digest", Some(running.offered.digest.as_str()).filter(|it| !it.is_empty()))
        .with("Toolbus-Window", window.to_string())
        .maybe("Toolbus-Timeout-Ms", left)
        .maybe("Toolbus-Wants", (!wants.is_empty()).then(|| wants.join(", ")))
        .maybe("Toolbus-Asks", asks.map(|asks| asks.to_string()))
        .maybe("Toolbus-Caller", origin.and_then(|origin| origin.caller.as_deref()))
        .with("Toolbus-Hops", hops.to_string())
        .maybe("Toolbus-Input", options.sends_parts.then_some("parts"))
        .maybe("traceparent", trace.as_ref().map(crate::tool::Trace::parent))
        .maybe("tracestate", trace.as_ref().and_then(crate::tool::Trace::state))
}
