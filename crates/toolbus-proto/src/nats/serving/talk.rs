//! Calls of other toolbuses: many messages in both directions, with credits.

use std::time::Instant;

use bytes::Bytes;

use super::peers::peer_of;
use super::requests::timeout;
use super::running::{CallIn, CallTalk, How, Wants};
use super::{Server, answer};
use crate::channel::{AskId, Asked, Down, Ticket, Up};
use crate::json::Json;
use crate::nats::flow::{self, Item, Mark, Receiver, Sender, WholeItem};
use crate::nats::headers::{Block, Headers};
use crate::nats::protocol::{Message, put_pub};
use crate::nats::service::NodeIdentity;
use crate::nats::subject::SESSIONS;
use crate::nats::{HOPS_MAX, WIRE, subject, translate};
use crate::tool::{Call, Failure, FailureKind, Outcome, ToolName, Wire};

/// What is given out to one peer, and on the connection, before windows become small.
const GIVEN_TO_PEER_MAX: u64 = 16 << 20;
const GIVEN_MAX: u64 = 32 << 20;
/// With so much waiting for credit the back is told to wait.
const WAITING_MAX: usize = 256 << 10;
/// What a caller may say that it takes.
const WINDOWS: std::ops::RangeInclusive<u64> = 64..=2_147_483_647;

impl Server {
    /// The first message of a call by another toolbus.
    pub(super) fn handle_call(
        &mut self,
        now: Instant,
        place: Option<usize>,
        headers: &Headers,
        reply: &str,
        message: &Message,
    ) {
        let opened = self.open_talk(now, place, headers, reply, &message.subject);
        let (mut running, mark) = match opened {
            Ok(opened) => opened,
            Err((why, failure)) => return self.refuse(now, place, reply, why, &failure),
        };
        let How::Toolbus(talk) = &mut running.how else { return };
        let heard = talk.receiver.take(mark, headers.clone(), message.payload.clone());
        let window = talk.receiver.window();
        self.settings.windows.set(self.settings.windows.get() + window);
        let peer = running.peer.clone();
        let ticket = self.enter(now, &peer, running);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.given += window;
        }
        self.stirred.insert(ticket);
        match heard {
            Ok(Some(heard)) => self.handle_heard(now, ticket, heard),
            Ok(None) => {}
            Err(why) => self.breach(now, ticket, why),
        }
    }

    fn open_talk(
        &mut self,
        now: Instant,
        place: Option<usize>,
        headers: &Headers,
        reply: &str,
        subject: &str,
    ) -> Result<(CallIn, Mark), (&'static str, Failure)> {
        let wire = |what: &str| ("wire", Failure::new(FailureKind::BrokeProtocol, what));
        let mark =
            Mark::read(headers).ok_or_else(|| wire("the header `Toolbus` cannot be read"))?;
        if mark.kind != "call" || mark.seq != 0 {
            return Err(wire("a call begins with `call 0`"));
        }
        if headers.get("Toolbus-Wire") != Some("1") {
            return Err(wire("this node speaks version 1"));
        }
        let credit = headers.get("Toolbus-Window").and_then(|credit| credit.parse().ok());
        let Some(credit) = credit.filter(|credit| WINDOWS.contains(credit)) else {
            return Err(wire("`Toolbus-Window` is from 64 to 2147483647"));
        };
        if let super::NodeStage::Draining { .. } = self.stage {
            return Err(("draining", answer::unavailable("draining", "the node is about to stop")));
        }
        let NodeIdentity { id, prefix, .. } = &self.settings.identity;
        // A request of a session is no tool, and no plain client can make one.
        let tool: ToolName = match subject == subject::of_sessions(prefix, id) {
            true => SESSIONS.into(),
            false => {
                self.tool_at(place, subject, headers).map_err(|failure| ("unknown", failure))?
            }
        };
        self.check_digest(place, headers).map_err(|failure| ("changed", failure))?;
        let hops: u32 = headers.get("Toolbus-Hops").and_then(|hops| hops.parse().ok()).unwrap_or(0);
        if HOPS_MAX <= hops {
            let what = format!("passed through {HOPS_MAX} toolbuses: is there a loop?");
            return Err(("hops", answer::unavailable("hops", what)));
        }
        self.check_room(reply).map_err(|failure| ("full", failure))?;
        timeout(headers).map_err(|what| wire(&what))?;
        let peer = peer_of(reply).to_owned();
        self.caller(now, &peer);
        let given = self.peers.get(&peer).map_or(0, |peer| peer.given);
        let is_much = GIVEN_TO_PEER_MAX <= given || GIVEN_MAX <= self.settings.windows.get();
        let window = if is_much { flow::WINDOW_SMALL } else { flow::WINDOW };
        let piece_max = flow::piece_bytes_max(self.link.info().max_payload);
        let mut talk = CallTalk::new(
            Sender::new(piece_max, credit),
            Receiver::new(window),
            self.wants(headers),
        );
        talk.asked = Some(headers.clone());
        let how = How::Toolbus(Box::new(talk));
        Ok((CallIn { reply: reply.to_owned(), peer, tool, begun: now, how }, mark))
    }

    fn wants(&self, headers: &Headers) -> Wants {
        let mut wants = Wants::default();
        for want in headers.get("Toolbus-Wants").unwrap_or_default().split(", ") {
            match want {
                "progress" => wants.progress = true,
                "log" => wants.log = true,
                other => {
                    let wire = other.strip_prefix("native=");
                    wants.native = wire.and_then(|wire| native(wire, &self.settings.wires));
                }
            }
        }
        wants
    }

    fn refuse(
        &mut self,
        now: Instant,
        place: Option<usize>,
        reply: &str,
        why: &str,
        failure: &Failure,
    ) {
        if let Some(place) = place {
            let error = Some(format!("{}:{}", answer::number(failure), failure.message));
            let _ = now;
            self.offer.tools[place].stats.count(std::time::Duration::ZERO, error);
        }
        let block = Block::new().with(flow::HEADER, "refused 0").with("Toolbus-Why", why).end();
        let payload = Json::of(&translate::says(failure));
        put_pub(&mut self.out, reply, None, Some(&block), payload.as_bytes());
    }

    /// More of a call.
    pub(super) fn handle_up(
        &mut self,
        now: Instant,
        ticket: Ticket,
        headers: Headers,
        message: &Message,
    ) {
        let Some(running) = self.calls.get_mut(&ticket) else { return };
        if headers.status == Some(503) {
            let peer = running.peer.clone();
            return self.peer_is_gone(&peer);
        }
        if let Some(peer) = self.peers.get_mut(&running.peer) {
            peer.heard = now;
        }
        let How::Toolbus(talk) = &mut running.how else { return };
        let Some(mark) = Mark::read(&headers) else {
            return self.breach(now, ticket, "the header `Toolbus` cannot be read".to_owned());
        };
        let heard = talk.receiver.take(mark, headers, message.payload.clone());
        // Nothing is given back while the back takes nothing.
        if !talk.is_held {
            talk.give_back();
        }
        self.stirred.insert(ticket);
        match heard {
            Ok(Some(heard)) => self.handle_heard(now, ticket, heard),
            Ok(None) => {}
            Err(why) => self.breach(now, ticket, why),
        }
    }

    fn handle_heard(&mut self, now: Instant, ticket: Ticket, heard: WholeItem) {
        let Some(running) = self.calls.get_mut(&ticket) else { return };
        let How::Toolbus(talk) = &mut running.how else { return };
        let up = match heard.kind.as_str() {
            "call" => match talk.asked.take() {
                Some(headers) => return self.begin(now, ticket, &headers, &heard.payload),
                None => Err("a second `call`".to_owned()),
            },
            "credit" => {
                let bytes = heard.headers.get("Toolbus-Credit").and_then(|text| text.parse().ok());
                match bytes.is_some_and(|bytes| talk.sender.grant(bytes)) {
                    true => return,
                    false => Err("a `credit` that cannot be".to_owned()),
                }
            }
            "part" => {
                let part = translate::part(&heard, talk.run_up);
                talk.run_up = heard.more;
                part.map(Up::Part)
            }
            "end" => translate::maybe_json(&heard.payload, "the end of the input").map(Up::End),
            "answer" => {
                let ask = heard.headers.get("Toolbus-Ask").and_then(|ask| ask.parse().ok());
                let answer = translate::answer(&heard.payload);
                match ask.filter(|ask| talk.asked_now.remove(ask)) {
                    Some(ask) => answer.map(|answer| Up::Answer(AskId(ask), answer)),
                    None => Err("an `answer` to no question".to_owned()),
                }
            }
            "cancel" => {
                let why = Json::parse(heard.payload).ok();
                return self.cancel(now, ticket, why);
            }
            // Unknown kinds are skipped.
            _ => {
                talk.receiver.took(heard.owed);
                return;
            }
        };
        match up {
            Ok(_) if !talk.has_started => {
                self.breach(now, ticket, format!("`{}` came before the call", heard.kind));
            }
            Ok(up) if talk.is_held => {
                talk.held.push_back((up, heard.owed));
            }
            Ok(up) => {
                talk.receiver.took(heard.owed);
                talk.give_back();
                self.ups.push_back((ticket, Asked::Up(up)));
            }
            Err(why) => self.breach(now, ticket, why),
        }
    }

    /// The arguments are whole.
    fn begin(&mut self, now: Instant, ticket: Ticket, headers: &Headers, payload: &Bytes) {
        let args = match translate::maybe_json(payload, "the call") {
            Ok(args) => args,
            Err(why) => {
                let failure = Failure::new(FailureKind::InvalidArguments, why);
                return self.talk_down(now, ticket, Down::Done(Err(failure)));
            }
        };
        let Some(running) = self.calls.get_mut(&ticket) else { return };
        let How::Toolbus(talk) = &mut running.how else { return };
        let mut call = Call::tool(now, running.tool.clone(), args);
        call.deadline.total = timeout(headers).ok().flatten();
        call.trace = translate::trace(headers);
        call.options.progress = talk.wants.progress;
        call.options.native = talk.wants.native;
        call.options.sends_parts = headers.get("Toolbus-Input") == Some("parts");
        call.provenance = translate::provenance(headers);
        talk.asks = call.asks().cloned();
        let peer = running.peer.clone();
        let caller = self.caller(now, &peer);
        call.caller = match self.named(caller, headers) {
            Ok(caller) => caller,
            Err(failure) => return self.talk_down(now, ticket, Down::Done(Err(failure))),
        };
        if let Some(CallIn { how: How::Toolbus(talk), .. }) = self.calls.get_mut(&ticket) {
            talk.has_started = true;
        }
        self.ups.push_back((ticket, Asked::Call(call)));
    }

    fn cancel(&mut self, now: Instant, ticket: Ticket, why: Option<Json>) {
        self.cut(now, ticket, Failure::cancelled(), why);
    }

    /// The caller said what cannot be.
    fn breach(&mut self, now: Instant, ticket: Ticket, why: String) {
        self.cut(now, ticket, Failure::new(FailureKind::BrokeProtocol, why), None);
    }

    /// Ends a call whose caller reads no further: what has no credit by now is never said.
    fn cut(&mut self, now: Instant, ticket: Ticket, failure: Failure, why: Option<Json>) {
        let Some(CallIn { how: How::Toolbus(talk), .. }) = self.calls.get_mut(&ticket) else {
            return;
        };
        talk.is_cut = true;
        let is_running = talk.has_started && !talk.is_done;
        self.stirred.insert(ticket);
        self.talk_down(now, ticket, Down::Done(Err(failure)));
        if is_running {
            self.ups.push_back((ticket, Asked::Up(Up::Cancel(why))));
        }
    }

    /// What comes back for such a call.
    pub(super) fn talk_down(&mut self, now: Instant, ticket: Ticket, down: Down) {
        let Some(running) = self.calls.get_mut(&ticket) else { return };
        let How::Toolbus(talk) = &mut running.how else { return };
        if talk.is_done {
            return;
        }
        self.stirred.insert(ticket);
        let item = match down {
            Down::Begin { head, parts } => {
                talk.has_parts = true;
                let head = head.map(|head| head.as_bytes().clone()).unwrap_or_default();
                Item::new("head", head).maybe("Toolbus-Parts", parts.map(|parts| parts.to_string()))
            }
            Down::Part(part) => {
                let goes_on = talk.run_down;
                talk.run_down = matches!(&part, crate::tool::Part::Bytes(piece) if !piece.last);
                translate::part_item(part, goes_on)
            }
            Down::Progress(progress) if talk.wants.progress => {
                Item::new("progress", progress.as_bytes().clone())
            }
            Down::Log(log) if talk.wants.log => Item::new("log", log.as_bytes().clone()),
            Down::Progress(_) | Down::Log(_) => return,
            Down::Ask(ask, question) => {
                let takes = talk.asks.as_ref().is_some_and(|it| translate::takes(it, &question));
                if !takes {
                    let answer = Json::from_trusted(translate::no_answer());
                    let answer = Asked::Up(Up::Answer(ask, answer));
                    return self.ups.push_back((ticket, answer));
                }
                talk.asked_now.insert(ask.0);
                Item::new("ask", question.as_bytes().clone()).with("Toolbus-Ask", ask.0.to_string())
            }
            Down::Done(result) => {
                let error = result
                    .as_ref()
                    .err()
                    .map(|failure| format!("{}:{}", answer::number(failure), failure.message));
                let item = last(result, talk.wants.native);
                if item.kind() == "fail" {
                    // It is not worth waiting for what was to be said before.
                    talk.sender.clear();
                }
                talk.is_done = true;
                let (tool, took) =
                    (running.tool.clone(), now.saturating_duration_since(running.begun));
                talk.sender.push(item);
                if let Some(place) = self.place_of(&tool) {
                    self.offer.tools[place].stats.count(took, error);
                }
                return;
            }
        };
        talk.sender.push(item);
    }

    /// Publishes what may leave.
    pub(super) fn flush(&mut self) {
        while let Some(ticket) = self.stirred.pop_first() {
            let Some(running) = self.calls.get_mut(&ticket) else { continue };
            let How::Toolbus(talk) = &mut running.how else { continue };
            // It goes to its back, or waits for the rest of its arguments.
            let has_begun = talk.has_started || !talk.is_done;
            if std::mem::take(&mut talk.owes_begun) && has_begun {
                let window = talk.receiver.window().to_string();
                let begun = Item::new("begun", Bytes::new())
                    .with("Toolbus-Node", self.settings.identity.id.as_str())
                    .with("Toolbus-Window", window);
                talk.sender.push_first(begun);
            }
            let up = format!("{}.{}", self.settings.inbox, ticket.0);
            while let Some(message) = talk.sender.next() {
                let has_reply = matches!(message.kind, "begun" | "alive");
                let reply = has_reply.then_some(up.as_str());
                put_pub(
                    &mut self.out,
                    &running.reply,
                    reply,
                    Some(&message.head),
                    &message.payload,
                );
            }
            let after = talk.sender.bytes();
            let weight = talk.weight();
            self.kept = self.kept - std::mem::replace(&mut talk.counted, weight) + weight;
            if talk.told_full && after < WAITING_MAX / 2 {
                talk.told_full = false;
                self.room.push_back(ticket);
            }
            if talk.is_done && (talk.is_cut || talk.sender.is_empty()) {
                self.leave(ticket);
            }
        }
    }

    pub(super) fn is_talk_full(&mut self, ticket: Ticket) -> bool {
        let Some(CallIn { how: How::Toolbus(talk), .. }) = self.calls.get_mut(&ticket) else {
            return false;
        };
        // What has credit leaves in a moment.
        talk.told_full = !talk.is_done && WAITING_MAX <= talk.sender.waiting_for_credit();
        talk.told_full
    }

    pub(super) fn hold_talk(&mut self, _now: Instant, ticket: Ticket, is_held: bool) {
        let Some(CallIn { how: How::Toolbus(talk), .. }) = self.calls.get_mut(&ticket) else {
            return;
        };
        talk.is_held = is_held;
        if is_held {
            return;
        }
        for (up, owed) in std::mem::take(&mut talk.held) {
            talk.receiver.took(owed);
            self.ups.push_back((ticket, Asked::Up(up)));
        }
        talk.give_back();
        self.stirred.insert(ticket);
    }
}

/// The last message of a call.
fn last(result: Result<Outcome, Failure>, native: Option<Wire>) -> Item {
    let of_wire = |wire: Wire| format!("native {}", wire.name());
    let (how, payload) = match result {
        Ok(Outcome::Value(json)) => ("value".to_owned(), json.as_bytes().clone()),
        Ok(Outcome::Text(text)) => ("text".to_owned(), text.into()),
        Ok(Outcome::End(end)) => {
            ("parts".to_owned(), end.map(|end| end.as_bytes().clone()).unwrap_or_default())
        }
        Ok(Outcome::Native(body)) => (native.map(of_wire).unwrap_or_default(), body),
        Ok(Outcome::Tools(_)) => {
            let message = "an answer that this wire cannot carry";
            return failed(&Failure::new(FailureKind::BrokeProtocol, message));
        }
        Err(failure) => return failed(&failure),
    };
    let (bytes, max) = (payload.len(), flow::ITEM_BYTES_MAX);
    if max < bytes {
        let message = format!("the answer has {bytes} bytes, and a message may have {max}");
        return failed(&Failure::new(FailureKind::TooLarge, message));
    }
    Item::new("end", payload).with("Toolbus-Answer", how)
}

fn failed(failure: &Failure) -> Item {
    Item::new("fail", Json::of(&translate::says(failure)).as_bytes().clone())
}

/// Whether the results of this wire may pass as they are.
fn native(name: &str, wires: &[Wire]) -> Option<Wire> {
    wires.iter().copied().find(|wire| wire.name() == name && *wire != WIRE)
}
