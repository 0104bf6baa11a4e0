//! Requests of tools: what all of them are checked by, and those of plain clients, which get one
//! answer.

use std::time::{Duration, Instant};

use super::Server;
use super::answer::{self, PlainAnswer};
use super::peers::peer_of;
use super::running::{CallIn, How};
use crate::channel::Notice;
use crate::channel::{Asked, Ticket};
use crate::nats::flow;
use crate::nats::headers::Headers;
use crate::nats::protocol::{Message, put_pub};
use crate::nats::service::NodeIdentity;
use crate::nats::{subject, translate};
use crate::tool::{Call, CallerId, Failure, FailureKind, Outcome, ToolName};

/// The longest time that a request may ask for: a day.
const TIMEOUT_MS_MAX: u64 = 86_400_000;
/// The number of a caller that another machine named stands above so many bits of the peer's.
const CALLER_BITS: u32 = 32;
/// The number of the caller that another machine named and that is believed.
pub fn trusted_number(caller: CallerId) -> Option<u32> {
    u32::try_from((caller.0 >> CALLER_BITS).checked_sub(1)?).ok()
}

impl Server {
    /// A request of a tool, plain or by another toolbus.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        place: Option<usize>,
        headers: &Headers,
        message: Message,
    ) {
        let Some(reply) = message.reply.clone() else {
            if let Some(place) = place {
                let error = Some("400:no reply subject".to_owned());
                self.offer.tools[place].stats.count(Duration::ZERO, error);
            }
            if !std::mem::replace(&mut self.has_warned, true) {
                let what = format!("a request to \"{}\" has no reply subject", message.subject);
                self.notices.push_back(Notice::Warning(what));
            }
            return;
        };
        if headers.get(flow::HEADER).is_some() {
            return self.handle_call(now, place, headers, &reply, &message);
        }
        let call = self.plain_call(now, place, headers, &reply, &message);
        match call {
            Ok((call, tool)) => {
                let peer = peer_of(&reply).to_owned();
                let how = How::Plain(Box::default());
                let ticket = self.enter(
                    now,
                    &peer,
                    CallIn { reply, peer: peer.clone(), tool, begun: now, how },
                );
                self.ups.push_back((ticket, Asked::Call(call)));
            }
            Err(failure) => {
                let number = answer::number(&failure);
                let answer = answer::error(&failure, number, self.link.info().max_payload);
                self.respond(now, place, &reply, now, answer);
            }
        }
    }

    pub(super) fn plain_call(
        &mut self,
        now: Instant,
        place: Option<usize>,
        headers: &Headers,
        reply: &str,
        message: &Message,
    ) -> Result<(Call, ToolName), Failure> {
        if self.has_left() {
            return Err(answer::unavailable("draining", "the node is about to stop"));
        }
        let tool = self.tool_at(place, &message.subject, headers)?;
        if let Some(bytes) = message.too_large {
            let what = format!("the request has {bytes} bytes");
            return Err(Failure::new(FailureKind::TooLarge, what));
        }
        self.check_digest(place, headers)?;
        let bad = |what: String| Failure::new(FailureKind::InvalidArguments, what);
        let total = timeout(headers).map_err(bad)?;
        let args = translate::maybe_json(&message.payload, "the request").map_err(|why| {
            let why = why.replacen("the request is ", "the request is not JSON: ", 1);
            bad(why.replacen("not JSON: not JSON: ", "not JSON: ", 1))
        })?;
        self.check_room(reply)?;
        let mut call = Call::tool(now, tool.clone(), args);
        call.deadline.total = total;
        call.trace = translate::trace(headers);
        call.provenance = translate::provenance(headers);
        if let Some(provenance) = &mut call.provenance {
            // A plain client takes no question.
            provenance.asks = None;
        }
        let caller = self.caller(now, peer_of(reply));
        call.caller = self.named(caller, headers)?;
        Ok((call, tool))
    }

    /// The one who asks; one that is believed to be a caller of its own has its number above that.
    pub(super) fn named(&self, peer: CallerId, headers: &Headers) -> Result<CallerId, Failure> {
        let name = self.settings.trusted.as_ref().zip(headers.get("Toolbus-Caller"));
        let Some((trusted, name)) = name else { return Ok(peer) };
        let number = trusted(name).ok_or_else(|| {
            answer::unavailable("unknown_caller", format!("there is no caller `{name}` here"))
        })?;
        Ok(CallerId(peer.0 | (u64::from(number) + 1) << CALLER_BITS))
    }

    pub(super) fn tool_at(
        &self,
        place: Option<usize>,
        subject: &str,
        headers: &Headers,
    ) -> Result<ToolName, Failure> {
        match place {
            Some(place) => Ok(self.offer.tools[place].spec.name.clone()),
            None => {
                let NodeIdentity { id, prefix, .. } = &self.settings.identity;
                let node = format!("{prefix}.toolbus.node.{id}.");
                let tool = subject.strip_prefix(&node).unwrap_or(subject);
                // A caller that is believed has names of its own, and they are the bus's to know.
                let is_believed =
                    self.settings.trusted.is_some() && headers.get("Toolbus-Caller").is_some();
                let name = subject::tool_of(tool).filter(|name| !name.starts_with("toolbus."));
                if let Some(name) = name.filter(|_| is_believed) {
                    return Ok(name.into());
                }
                Err(Failure::new(FailureKind::UnknownTool, format!("no such tool: {tool}")))
            }
        }
    }

    pub(super) fn check_digest(
        &self,
        place: Option<usize>,
        headers: &Headers,
    ) -> Result<(), Failure> {
        let tool = place.map(|place| &self.offer.tools[place]);
        match (tool, headers.get("Toolbus-Digest")) {
            (Some(tool), Some(digest)) if tool.digest != digest => {
                let what = format!("`{}` is another version here", tool.spec.name);
                Err(answer::unavailable("changed", what))
            }
            _ => Ok(()),
        }
    }

    /// Answers a plain request.
    pub(super) fn respond(
        &mut self,
        now: Instant,
        place: Option<usize>,
        reply: &str,
        begun: Instant,
        answer: PlainAnswer,
    ) {
        if let Some(place) = place {
            let took = now.saturating_duration_since(begun);
            self.offer.tools[place].stats.count(took, answer.error);
        }
        put_pub(&mut self.out, reply, None, answer.head.as_deref(), &answer.payload);
    }

    /// Where a tool stands by its name.
    pub(super) fn place_of(&self, tool: &ToolName) -> Option<usize> {
        self.offer.tools.binary_search_by(|known| known.spec.name.cmp(tool)).ok()
    }

    pub(super) fn finish_plain(
        &mut self,
        now: Instant,
        ticket: Ticket,
        result: Result<Outcome, Failure>,
    ) {
        let Some(running) = self.leave(ticket) else { return };
        let answer = answer::answer(result, self.link.info().max_payload);
        let place = self.place_of(&running.tool);
        self.respond(now, place, &running.reply, running.begun, answer);
    }
}

/// How long the caller waits in all.
pub(super) fn timeout(headers: &Headers) -> Result<Option<Duration>, String> {
    let Some(text) = headers.get("Toolbus-Timeout-Ms") else { return Ok(None) };
    match text.parse() {
        Ok(ms @ 1..=TIMEOUT_MS_MAX) => Ok(Some(Duration::from_millis(ms))),
        _ => Err(format!("`Toolbus-Timeout-Ms` is from 1 to {TIMEOUT_MS_MAX}")),
    }
}
