//! Calls under way: to nodes, with all that two toolbuses say to each other, and to foreign services.
//!
//! `sending` chooses where one goes, `hearing` takes what comes back, `gone` ends those whose node is
//! not there any more.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Client;
use super::instances::{Key, Offered};
use super::listing::SILENCE;
use crate::chance::Random;
use crate::channel::{Down, Ticket, Up};
use crate::collect::InputCollector;
use crate::json::Json;
use crate::nats::flow::{Item, Receiver, Sender};
use crate::nats::protocol::put_pub;
use crate::nats::translate;
use crate::tool::{Call, Failure, FailureKind, Outcome, Part, What, Wire};

/// How long a call that was given up waits to say so.
const GIVEN_UP_MAX: Duration = Duration::from_secs(10);
/// With so much waiting for credit the caller is told to wait.
const WAITING_MAX: usize = 256 << 10;
/// A call under way.
#[derive(Debug)]
pub(super) struct CallOut {
    pub(super) ticket: Ticket,
    pub(super) call: Call,
    pub(super) offered: Offered,
    /// The node that has it; none of a foreign service.
    pub(super) node: Option<Key>,
    /// Where it was sent.
    pub(super) sent_to: String,
    pub(super) sent: Instant,
    pub(super) tried: Vec<String>,
    pub(super) why_not: &'static str,
    pub(super) was_sent_again: bool,
    /// Where more of it is sent, once the node has said so.
    pub(super) up: Option<String>,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Parts of the input for a foreign service, which takes all at once.
    pub(super) collector: Option<Box<InputCollector>>,
    pub(super) native: Option<Wire>,
    /// The reply said that it comes in parts.
    pub(super) has_parts: bool,
    pub(super) run_down: bool,
    pub(super) run_up: bool,
    /// Something of the reply was passed on.
    pub(super) was_passed_on: bool,
    pub(super) is_held: bool,
    pub(super) held: VecDeque<(Down, u64)>,
    pub(super) told_full: bool,
    /// The instances of a foreign service that were there when it was sent.
    pub(super) instances: Vec<Key>,
    /// What of it is counted among what this end keeps.
    pub(super) counted: usize,
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

    pub(super) fn start_at(
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
    pub(super) fn give_up(&mut self, now: Instant, number: u64, why: Option<Json>) {
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

    pub(super) fn forget(&mut self, number: u64) -> Option<CallOut> {
        let running = self.running.remove(&number)?;
        self.outstanding.remove(number);
        self.numbers.remove(&running.ticket);
        self.kept -= running.counted;
        self.leave_node(running.node.as_ref(), running.receiver.window());
        Some(running)
    }

    pub(super) fn leave_node(&mut self, key: Option<&Key>, window: u64) {
        self.given -= window;
        // One that is gone may be there again, without what it was given.
        if let Some(instance) = key.and_then(|key| self.instances.all.get_mut(key)) {
            instance.calls = instance.calls.saturating_sub(1);
            instance.given = instance.given.saturating_sub(window);
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

/// What was taken is given back, as soon as that is worth a message.
pub(super) fn give_back(running: &mut CallOut) {
    if let Some(bytes) = running.receiver.give_back() {
        let credit = Item::new("credit", Bytes::new());
        running.sender.push_urgent(credit.with("Toolbus-Credit", bytes.to_string()));
    }
}
