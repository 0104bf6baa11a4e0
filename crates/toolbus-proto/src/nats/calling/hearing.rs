//! What comes back for a call, from a node or a foreign service.

use std::time::Instant;

use bytes::Bytes;

use super::talking::{CallOut, give_back};
use super::{Client, answer};
use crate::chance::Random;
use crate::channel::{AskId, Down};
use crate::nats::flow::{self, Item, Mark, WholeItem};
use crate::nats::headers::{Block, Headers};
use crate::nats::protocol::{Message, put_pub};
use crate::nats::translate;
use crate::nats::wire::FailureSays;
use crate::tool::{Failure, FailureKind, Outcome};

impl<R: Random> Client<R> {
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
    pub(super) fn handle_late(&mut self, number: u64, headers: &Headers, message: &Message) {
        self.given_up.remove(&number);
        let is_begun = Mark::read(headers).is_some_and(|mark| mark.kind == "begun");
        if let Some(up) = message.reply.as_deref().filter(|_| is_begun) {
            let block = Block::new().with(flow::HEADER, "cancel 1").end();
            put_pub(&mut self.out, up, None, Some(&block), &Bytes::new());
        }
    }

    pub(super) fn handle_heard(&mut self, now: Instant, number: u64, heard: WholeItem) {
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

    pub(super) fn pass_on(&mut self, number: u64, down: Down, owed: u64) {
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

    pub(super) fn handle_refused(&mut self, now: Instant, number: u64, heard: &WholeItem) {
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

    /// A node goes on with a call that was lost with the connection before this one.
    pub(super) fn handle_stray(&mut self, headers: &Headers, message: &Message) {
        let is_alive = Mark::read(headers).is_some_and(|mark| mark.kind == "alive");
        if let Some(up) = message.reply.as_ref().filter(|_| is_alive) {
            let head = Block::new().with(flow::HEADER, "cancel 1").end();
            put_pub(&mut self.out, up, None, Some(&head), &Bytes::new());
        }
    }

    /// The node said what cannot be.
    pub(super) fn breach(&mut self, now: Instant, number: u64, why: String) {
        self.give_up(now, number, None);
        self.given_up.remove(&number);
        self.finish(number, Err(Failure::new(FailureKind::BrokeProtocol, why)));
    }

    pub(super) fn handle_foreign(
        &mut self,
        now: Instant,
        number: u64,
        headers: &Headers,
        message: &Message,
    ) {
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
