//! Calls under way: to nodes, with all that two toolbuses say to each other, and to foreign services.
//!
//! A call that has certainly not begun goes to another node; one that may have is never sent again,
//! unless its tool says that this does no harm and the user wants it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::instances::{Key, Offered};
use super::listing::SILENCE;
use super::{Client, Retry, answer, shown, traced};
use crate::chance::Random;
use crate::channel::{AskId, Down, Ticket, Up};
use crate::collect::InputCollector;
use crate::json::Json;
use crate::nats::flow::{self, Item, Mark, Receiver, Sender, WholeItem};
use crate::nats::headers::{Block, Headers};
use crate::nats::protocol::{Message, put_pub};
use crate::nats::translate;
use crate::nats::wire::FailureSays;
use crate::tool::{Call, Failure, FailureKind, Outcome, Part, What, Wire};

/// A node that says nothing to a call for so long is gone.
const BEGUN_WITHIN: Duration = Duration::from_secs(5);
/// How long a call that was given up waits to say so.
const GIVEN_UP_MAX: Duration = Duration::from_secs(10);
/// So many nodes are tried.
const TRIED_MAX: usize = 8;
/// With so much waiting for credit the caller is told to wait.
const WAITING_MAX: usize = 256 << 10;
/// How long the header may be that says which questions the caller takes.
const ASKS_BYTES_MAX: usize = 4 << 10;
/// What is given out to one node, and on the connection, before windows become small.
const GIVEN_TO_NODE_MAX: u64 = 16 << 20;
const GIVEN_MAX: u64 = 32 << 20;

/// A call under way.
#[derive(Debug)]
pub(super) struct CallOut {
    ticket: Ticket,
    call: Call,
    offered: Offered,
    /// The node that has it; none of a foreign service.
    node: Option<Key>,
    /// Where it was sent.
    pub(super) sent_to: String,
    sent: Instant,
    tried: Vec<String>,
    why_not: &'static str,
    was_sent_again: bool,
    /// Where more of it is sent, once the node has said so.
    up: Option<String>,
    sender: Sender,
    receiver: Receiver,
    /// Parts of the input for a foreign service, which takes all at once.
    collector: Option<Box<InputCollector>>,
    native: Option<Wire>,
    /// The reply said that it comes in parts.
    has_parts: bool,
    run_down: bool,
    run_up: bool,
    /// Something of the reply was passed on.
    was_passed_on: bool,
    is_held: bool,
    held: VecDeque<(Down, u64)>,
    told_full: bool,
    /// The instances of a foreign service that were there when it was sent.
    instances: Vec<Key>,
    /// What of it is counted among what this end keeps.
    counted: usize,
}

impl CallOut {
    /// The instances of a foreign service that may have it, if it was sent a while ago.
    pub(super) fn awaits_foreign(&self, now: Instant) -> Option<&[Key]> {
        let is_late = self.node.is_none() && self.sent + SILENCE <= now;
        is_late.then_some(&self.instances)
    }

    fn weight(&self) -> usize {
        let held: usize = self.held.iter().map(|(down, _)| down.weight()).sum();
        self.sender.bytes() + self.receiver.weight() + held
    }
}

impl<R: Random> Client<R> {
    /// Begins a call; `ups` is what was said behind it while it waited.
    pub(super) fn start(&mut self, now: Instant, ticket: Ticket, call: Call, ups: Vec<Up>) {
        let name = match &call.what {
            What::Tool { name, .. } => name,
            What::Native { method, .. } => {
                let to = String::from_utf8_lossy(method).into_owned();
                return self.start_at(now, ticket, call, Offered::session(&to), ups);
            }
            What::Tools => return,
        };
        let Some(offered) = self.offer.get(name).cloned() else {
            if self.instances.all.is_empty() {
                let nobody = Failure::new(FailureKind::Unavailable, self.name_for_people());
                self.desk.done(ticket, Err(nobody));
                // The next call may find someone.
                return self.begin_round(now);
            }
            let known = self.offer.keys().map(crate::tool::ToolName::as_str);
            let failure = crate::did_you_mean::unknown_tool(name, known);
            return self.desk.done(ticket, Err(failure));
        };
        self.start_at(now, ticket, call, offered, ups);
    }

    fn start_at(
        &mut self,
        now: Instant,
        ticket: Ticket,
        call: Call,
        offered: Offered,
        ups: Vec<Up>,
    ) {
        let mut deadline = call.deadline;
        deadline.quiet =
            deadline.quiet.map(|quiet| quiet + now.saturating_duration_since(deadline.asked));
        if !self.outstanding.has_room() {
            let what = "too many calls are under way".to_owned();
            return self.desk.done(ticket, Err(Failure::new(FailureKind::Unavailable, what)));
        }
        let number = self.outstanding.ask(ticket, deadline);
        self.settings.memory.next_call.set(number + 1);
        self.numbers.insert(ticket, number);
        let running = CallOut {
            ticket,
            offered,
            node: None,
            sent_to: String::new(),
            sent: now,
            tried: Vec::new(),
            why_not: "no_node",
            was_sent_again: false,
            up: None,
            sender: Sender::default(),
            receiver: Receiver::default(),
            collector: None,
            native: None,
            has_parts: false,
            run_down: false,
            run_up: false,
            was_passed_on: false,
            is_held: false,
            held: VecDeque::new(),
            told_full: false,
            instances: Vec::new(),
            counted: 0,
            call,
        };
        let is_of_node = running.offered.is_of_node;
        self.running.insert(number, running);
        match is_of_node {
            true => self.send_to_node(now, number, VecDeque::new()),
            false => self.send_to_foreign(now, number),
        }
        for up in ups {
            self.go_on(now, number, up);
        }
        self.look_soon(now);
    }

    /// Sends a call to a node that was not tried, with what was to be said behind it.
    fn send_to_node(&mut self, now: Instant, number: u64, behind: VecDeque<Item>) {
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
    fn choose(&mut self, number: u64) -> Option<Key> {
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
        let offers = |(key, instance): &(&Key, &super::instances::Instance)| {
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
    fn send_to_foreign(&mut self, now: Instant, number: u64) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let What::Tool { args, .. } = &running.call.what else { return };
        if running.call.options.sends_parts && running.collector.is_none() {
            running.collector = Some(Box::new(InputCollector::new(args.clone())));
            return;
        }
        let args = args.clone();
        self.publish_foreign(now, number, args);
    }

    fn publish_foreign(&mut self, now: Instant, number: u64, args: Option<Json>) {
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

    /// More of a call.
    pub(super) fn go_on(&mut self, now: Instant, number: u64, up: Up) {
        let Some(running) = self.running.get_mut(&number) else { return };
        if let Up::Cancel(why) = up {
            self.give_up(now, number, why);
            return self.finish(number, Err(Failure::cancelled()));
        }
        if let Some(collector) = &mut running.collector {
            match collector.take(up) {
                None => {}
                Some(Ok(args)) => {
                    running.collector = None;
                    self.publish_foreign(now, number, args);
                }
                Some(Err(failure)) => self.finish(number, Err(failure)),
            }
            return;
        }
        if running.node.is_none() {
            return;
        }
        let item = match up {
            Up::Part(part) => {
                let goes_on = running.run_up;
                running.run_up = matches!(&part, Part::Bytes(piece) if !piece.last);
                translate::part_item(part, goes_on)
            }
            Up::End(end) => {
                Item::new("end", end.map(|end| end.as_bytes().clone()).unwrap_or_default())
            }
            Up::Answer(ask, answer) => {
                self.outstanding.heard(now, number);
                Item::new("answer", translate::answer_payload(&answer))
                    .with("Toolbus-Ask", ask.0.to_string())
            }
            Up::Cancel(_) => return,
        };
        running.sender.push(item);
        self.stirred.insert(number);
    }

    /// Tells the node that the call is given up; as soon as it says where, if it has not.
    fn give_up(&mut self, now: Instant, number: u64, why: Option<Json>) {
        let Some(running) = self.running.get_mut(&number) else { return };
        if running.node.is_none() {
            return;
        }
        running.sender.clear();
        let Some(up) = running.up.clone() else {
            self.given_up.insert(number, now + GIVEN_UP_MAX);
            return;
        };
        let payload = why.map(|why| why.as_bytes().clone()).unwrap_or_default();
        // A reason is worth no more than the node takes.
        let payload = if running.sender.takes(payload.len()) { payload } else { Bytes::new() };
        running.sender.push_urgent(Item::new("cancel", payload));
        while let Some(piece) = running.sender.next() {
            put_pub(&mut self.out, &up, None, Some(&piece.head), &piece.payload);
        }
    }

    /// The time of a call is over.
    pub(super) fn expired(&mut self, now: Instant, number: u64) {
        let Some(running) = self.running.get(&number) else { return };
        let failure = running.call.deadline.missed();
        self.give_up(now, number, None);
        self.finish(number, Err(failure));
    }

    /// The call is over.
    pub(super) fn finish(&mut self, number: u64, outcome: Result<Outcome, Failure>) {
        let Some(running) = self.forget(number) else { return };
        for (down, _) in running.held {
            self.desk.downs.push_back((running.ticket, down));
        }
        self.desk.done(running.ticket, outcome);
    }

    fn forget(&mut self, number: u64) -> Option<CallOut> {
        let running = self.running.remove(&number)?;
        self.outstanding.remove(number);
        self.numbers.remove(&running.ticket);
        self.kept -= running.counted;
        self.leave_node(running.node.as_ref(), running.receiver.window());
        Some(running)
    }

    fn leave_node(&mut self, key: Option<&Key>, window: u64) {
        self.given -= window;
        // One that is gone may be there again, without what it was given.
        if let Some(instance) = key.and_then(|key| self.instances.all.get_mut(key)) {
            instance.calls = instance.calls.saturating_sub(1);
            instance.given = instance.given.saturating_sub(window);
        }
    }

    /// An answer, or a part of one.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        number: u64,
        headers: Headers,
        message: Message,
    ) {
        if self.given_up.contains_key(&number) {
            return self.handle_late(number, &headers, &message);
        }
        let Some(running) = self.running.get_mut(&number) else {
            return self.handle_stray(&headers, &message);
        };
        let Some(key) = running.node.clone() else {
            return self.handle_foreign(now, number, &headers, &message);
        };
        let has_begun = running.up.is_some();
        if headers.status == Some(503) && message.payload.is_empty() {
            if !has_begun {
                running.why_not = "no_node";
                self.send_elsewhere(now, number);
                // Asked behind all that was sent to it, which is told the same first.
                if self.instances.all.get(&key).is_some_and(|it| it.asked.is_none()) {
                    self.ask_alone(now, &key);
                }
                return;
            }
            return;
        }
        if let Some(instance) = self.instances.all.get_mut(&key) {
            (instance.heard, instance.asked) = (now, None);
        }
        let Some(mark) = Mark::read(&headers) else {
            let why = "a message without a header `Toolbus`".to_owned();
            return self.breach(now, number, why);
        };
        if !matches!(mark.kind.as_str(), "credit" | "alive") {
            self.outstanding.heard(now, number);
        }
        if matches!(mark.kind.as_str(), "begun" | "alive") && running.up.is_none() {
            running.up.clone_from(&message.reply);
        }
        let heard = running.receiver.take(mark, headers, message.payload);
        if !running.is_held {
            give_back(running);
        }
        self.stirred.insert(number);
        match heard {
            Ok(Some(heard)) => self.handle_heard(now, number, heard),
            Ok(None) => {}
            Err(why) => self.breach(now, number, why),
        }
    }

    /// A call that was given up before its node had said where to say so.
    fn handle_late(&mut self, number: u64, headers: &Headers, message: &Message) {
        self.given_up.remove(&number);
        let is_begun = Mark::read(headers).is_some_and(|mark| mark.kind == "begun");
        if let Some(up) = message.reply.as_deref().filter(|_| is_begun) {
            let block = Block::new().with(flow::HEADER, "cancel 1").end();
            put_pub(&mut self.out, up, None, Some(&block), &Bytes::new());
        }
    }

    fn handle_heard(&mut self, now: Instant, number: u64, heard: WholeItem) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let down = match heard.kind.as_str() {
            "begun" => {
                let window = heard.headers.get("Toolbus-Window").and_then(|n| n.parse().ok());
                return match window.is_some_and(|window| running.sender.grant(window)) {
                    true => running.sender.open_gate(),
                    false => self.breach(now, number, "a `begun` without a window".to_owned()),
                };
            }
            "refused" => return self.handle_refused(now, number, &heard),
            "credit" => {
                let bytes = heard.headers.get("Toolbus-Credit").and_then(|n| n.parse().ok());
                return match bytes.is_some_and(|bytes| running.sender.grant(bytes)) {
                    true => {}
                    false => self.breach(now, number, "a `credit` that cannot be".to_owned()),
                };
            }
            "head" => translate::maybe_json(&heard.payload, "the head").map(|head| {
                running.has_parts = true;
                let parts = heard.headers.get("Toolbus-Parts").and_then(|n| n.parse().ok());
                Down::Begin { head, parts }
            }),
            "part" => {
                let part = translate::part(&heard, running.run_down);
                (running.run_down, running.has_parts) = (heard.more, true);
                part.map(Down::Part)
            }
            "progress" => translate::json(&heard.payload, "progress").map(Down::Progress),
            "log" => translate::json(&heard.payload, "a line of the log").map(Down::Log),
            "ask" => {
                let ask = heard.headers.get("Toolbus-Ask").and_then(|ask| ask.parse().ok());
                let question = translate::json(&heard.payload, "a question");
                match ask {
                    Some(ask) if running.call.asks().is_some() => {
                        // While the caller thinks about it, the call is not late.
                        self.outstanding.hold(number);
                        question.map(|question| Down::Ask(AskId(ask), question))
                    }
                    Some(ask) => {
                        let refused = Item::new("answer", translate::no_answer());
                        running.sender.push(refused.with("Toolbus-Ask", ask.to_string()));
                        running.receiver.took(heard.owed);
                        return give_back(running);
                    }
                    None => Err("an `ask` without a number".to_owned()),
                }
            }
            "end" => outcome(running, &heard).map(|outcome| Down::Done(Ok(outcome))),
            "fail" => match serde_json::from_slice::<FailureSays>(&heard.payload) {
                Ok(says) => Ok(Down::Done(Err(translate::failure(says)))),
                Err(_) => Err("a failure that cannot be read".to_owned()),
            },
            // `alive`, and what we do not know.
            _ => {
                running.receiver.took(heard.owed);
                return;
            }
        };
        match down {
            Ok(Down::Done(outcome)) => {
                // Whoever is slow gets it behind the rest.
                self.finish(number, outcome);
            }
            Ok(down) => self.pass_on(number, down, heard.owed),
            Err(why) => self.breach(now, number, why),
        }
    }

    fn pass_on(&mut self, number: u64, down: Down, owed: u64) {
        let Some(running) = self.running.get_mut(&number) else { return };
        if matches!(down, Down::Part(_) | Down::Ask(..) | Down::Begin { .. }) {
            running.was_passed_on = true;
        }
        if running.is_held {
            running.held.push_back((down, owed));
            return;
        }
        running.receiver.took(owed);
        give_back(running);
        self.desk.downs.push_back((running.ticket, down));
    }

    fn handle_refused(&mut self, now: Instant, number: u64, heard: &WholeItem) {
        let why = heard.headers.get("Toolbus-Why").unwrap_or_default();
        let Some(running) = self.running.get_mut(&number) else { return };
        let reason = match why {
            "draining" => "draining",
            "full" => "full",
            "changed" => "changed",
            _ => {
                let says = serde_json::from_slice::<FailureSays>(&heard.payload);
                let failure = says.map(translate::failure).unwrap_or_else(|_| {
                    Failure::new(FailureKind::Unavailable, format!("the node refused: {why}"))
                });
                return self.finish(number, Err(failure));
            }
        };
        running.why_not = reason;
        let key = running.node.clone();
        if let Some(instance) = key.as_ref().and_then(|key| self.instances.all.get_mut(key)) {
            match reason {
                "draining" => instance.is_draining = true,
                // It is listed anew with the next round.
                "changed" => (instance.digest, instance.listed) = (None, None),
                _ => {}
            }
        }
        if reason == "changed" {
            self.begin_round(now);
        }
        self.send_elsewhere(now, number);
    }

    /// A call that has certainly not begun goes to another node.
    fn send_elsewhere(&mut self, now: Instant, number: u64) {
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

    /// A node goes on with a call that was lost with the connection before this one.
    fn handle_stray(&mut self, headers: &Headers, message: &Message) {
        let is_alive = Mark::read(headers).is_some_and(|mark| mark.kind == "alive");
        if let Some(up) = message.reply.as_ref().filter(|_| is_alive) {
            let head = Block::new().with(flow::HEADER, "cancel 1").end();
            put_pub(&mut self.out, up, None, Some(&head), &Bytes::new());
        }
    }

    /// The node said what cannot be.
    fn breach(&mut self, now: Instant, number: u64, why: String) {
        self.give_up(now, number, None);
        self.given_up.remove(&number);
        self.finish(number, Err(Failure::new(FailureKind::BrokeProtocol, why)));
    }

    /// The node of these calls is gone.
    pub(super) fn node_is_gone(&mut self, now: Instant, key: &Key) {
        self.calls_are_gone(now, key, |_| true);
    }

    /// A node says that it has no call under way: those that it has begun are gone. What it says
    /// of one that has ended comes before, but for a moment while it moves to another server.
    pub(super) fn node_has_none(&mut self, now: Instant, key: &Key, is_anew: bool) {
        self.calls_are_gone(now, key, |running| {
            running.up.is_some() && (is_anew || running.sent + SILENCE <= now)
        });
    }

    fn calls_are_gone(&mut self, now: Instant, key: &Key, which: impl Fn(&CallOut) -> bool) {
        let of_node =
            self.running.iter().filter(|(_, it)| it.node.as_ref() == Some(key) && which(it));
        let mut numbers: Vec<u64> = of_node.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        for number in numbers {
            let message = format!("{} is gone", shown(key));
            self.call_is_gone(now, number, message);
        }
    }

    fn call_is_gone(&mut self, now: Instant, number: u64, message: String) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let hints = running.offered.spec.hints.unwrap_or_default();
        let is_harmless = hints.read_only == Some(true) || hints.idempotent == Some(true);
        let may_again = self.settings.retry == Retry::Idempotent
            && is_harmless
            && !running.was_passed_on
            && !running.was_sent_again
            && !running.call.options.sends_parts;
        if !may_again {
            return self.finish(number, Err(Failure::new(FailureKind::Gone, message)));
        }
        running.was_sent_again = true;
        // To another node, if there is one.
        match running.node.is_some() {
            true => self.send_elsewhere(now, number),
            false => {
                *self.resent.entry("gone").or_default() += 1;
                self.send_to_foreign(now, number);
            }
        }
    }

    /// Calls whose node has not even said that they have begun.
    pub(super) fn look_at_calls(&mut self, now: Instant) {
        self.given_up.retain(|_, until| now < *until);
        let silent = self.running.iter().filter(|(_, running)| {
            running.node.is_some() && running.up.is_none() && running.sent + BEGUN_WITHIN <= now
        });
        let mut silent: Vec<u64> = silent.map(|(number, _)| *number).collect();
        silent.sort_unstable();
        for number in silent {
            let id = self.running.get(&number).and_then(|running| running.node.clone());
            let id = id.map(|(_, id)| id).unwrap_or_default();
            let message = format!("node {id} did not say that it had begun");
            self.call_is_gone(now, number, message);
        }
    }

    fn handle_foreign(&mut self, now: Instant, number: u64, headers: &Headers, message: &Message) {
        let Some(running) = self.running.get(&number) else { return };
        if running.collector.is_some() {
            return;
        }
        let _ = now;
        let mut downs = answer::downs(headers, message, &running.sent_to);
        let ticket = running.ticket;
        if let Some(Down::Done(outcome)) = downs.pop() {
            for down in downs {
                self.desk.downs.push_back((ticket, down));
            }
            self.finish(number, outcome);
        }
    }

    /// Ends the calls of foreign services of which no instance is left that was there.
    pub(super) fn foreign_may_be_gone(&mut self, now: Instant) {
        let all = &self.instances.all;
        let gone = self.running.iter().filter(|(_, running)| {
            running.node.is_none()
                && running.collector.is_none()
                && !running.instances.is_empty()
                && !running.instances.iter().any(|key| all.contains_key(key))
        });
        let mut gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
        gone.sort_unstable();
        for number in gone {
            let service = self.running.get(&number).map(|it| it.offered.service.clone());
            let message = format!("no instance of `{}` is left", service.unwrap_or_default());
            self.call_is_gone(now, number, message);
        }
    }

    /// Publishes what may leave.
    pub(super) fn flush(&mut self) {
        while let Some(number) = self.stirred.pop_first() {
            let Some(running) = self.running.get_mut(&number) else { continue };
            if running.node.is_none() {
                continue;
            }
            let reply = format!("{}.{number}", self.settings.inbox);
            while let Some(piece) = running.sender.next() {
                let (subject, reply) = match piece.kind {
                    "call" if running.up.is_none() => (running.sent_to.as_str(), Some(&*reply)),
                    _ => (running.up.as_deref().unwrap_or_default(), None),
                };
                put_pub(&mut self.out, subject, reply, Some(&piece.head), &piece.payload);
            }
            let after = running.sender.bytes();
            let weight = running.weight();
            self.kept = self.kept - std::mem::replace(&mut running.counted, weight) + weight;
            if running.told_full && after < WAITING_MAX / 2 {
                running.told_full = false;
                self.room.push_back(running.ticket);
            }
        }
    }

    pub(super) fn is_call_full(&mut self, ticket: Ticket) -> bool {
        let running = self.numbers.get(&ticket).and_then(|number| self.running.get_mut(number));
        running.is_some_and(|running| {
            running.told_full = WAITING_MAX <= running.sender.waiting_for_credit();
            running.told_full
        })
    }

    pub(super) fn hold_call(&mut self, ticket: Ticket, is_held: bool) {
        let Some(number) = self.numbers.get(&ticket).copied() else { return };
        let Some(running) = self.running.get_mut(&number) else { return };
        running.is_held = is_held;
        if is_held || running.node.is_none() {
            return;
        }
        for (down, owed) in std::mem::take(&mut running.held) {
            running.receiver.took(owed);
            self.desk.downs.push_back((ticket, down));
        }
        give_back(running);
        self.stirred.insert(number);
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

/// What the last message of an answer means.
fn outcome(running: &CallOut, heard: &WholeItem) -> Result<Outcome, String> {
    if running.receiver.is_inside() {
        return Err("an `end` inside of an unfinished item".to_owned());
    }
    let how = heard.headers.get("Toolbus-Answer").unwrap_or_default();
    match (how, running.has_parts) {
        ("value", false) => Ok(Outcome::Value(translate::json(&heard.payload, "the answer")?)),
        ("text", false) => match String::from_utf8(heard.payload.to_vec()) {
            Ok(text) => Ok(Outcome::Text(text)),
            Err(_) => Err("an answer of text is not UTF-8".to_owned()),
        },
        ("parts", _) => Ok(Outcome::End(translate::maybe_json(&heard.payload, "the end")?)),
        (how, false) => {
            let wire = how.strip_prefix("native ").unwrap_or_default();
            match running.native.is_some_and(|wanted| wanted.name() == wire) {
                true => Ok(Outcome::Native(heard.payload.clone())),
                false => Err(format!("an `end` of kind `{how}`")),
            }
        }
        (how, true) => Err(format!("an `end` of kind `{how}` behind parts")),
    }
}

fn give_back(running: &mut CallOut) {
    if let Some(bytes) = running.receiver.give_back() {
        let credit = Item::new("credit", Bytes::new());
        running.sender.push_urgent(credit.with("Toolbus-Credit", bytes.to_string()));
    }
}
