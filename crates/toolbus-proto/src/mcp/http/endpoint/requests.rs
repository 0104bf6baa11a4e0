//! What one request over HTTP asks for: which era, which session, which stream.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;

use super::super::entrance::{Answer, EVENT_STREAM, Verb, accepts};
use super::super::headers::Mirror;
use super::exchange::{AnswerState, Exchange, PLAIN_FOR, QUIET_FOR, event_stream, place_of};
use super::kept::read_event_id;
use super::session::{Kind, Session, Talk};
use super::{Endpoint, SESSION_HEADER};
use crate::channel::StreamId;
use crate::http::RequestHead;
use crate::json::{Json, JsonError};
use crate::jsonrpc::{Id, Invalid, Members, Why, string};
use crate::mcp::conversation::{Place, Read, id_in_front, unsupported};
use crate::mcp::wire::{
    self, Era, HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, Revision, has_line_breaks,
};

impl Endpoint {
    pub(super) fn handle_post(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        body: &Bytes,
    ) -> Result<(), Answer> {
        let refuse = |why| {
            let id = if why == Why::NotJson(JsonError::TooDeep) { id_in_front(body) } else { None };
            let (code, message) = wire::said(&Invalid { why, id: None });
            Answer::refusal(400, &id.unwrap_or(Id::NULL), code, message)
        };
        let line = in_a_line(body).map_err(refuse)?;
        let mirror = Mirror::read(head.headers.iter());
        let says = mirror.version().map(Revision::legacy);
        let read = match Read::of_one_line(&line) {
            Ok(read) => read,
            Err(Why::Batch) if says.is_none_or(|says| says.is_some()) => {
                return self.handle_legacy(now, stream, head, &line, None);
            }
            Err(why) => return Err(refuse(why)),
        };
        match says {
            Some(Some(legacy)) => {
                if let Some(version) = read.meta.version {
                    let message = format!(
                        "MCP-Protocol-Version is `{legacy}`, the body says `{}`",
                        string(version).unwrap_or_default()
                    );
                    return Err(Answer::refusal(400, &id_of(&read), HEADER_MISMATCH, message));
                }
                self.handle_legacy(now, stream, head, &line, Some(&read))
            }
            None if read.meta.era(&method_of(&read)) == Era::Legacy => {
                self.handle_legacy(now, stream, head, &line, Some(&read))
            }
            Some(None) | None => {
                let input = read.name.and_then(string).and_then(|tool| self.inputs.of(&tool));
                let mirror = match self.inputs.was_listed() {
                    true => mirror.listed(input),
                    false => mirror.by_input(input),
                };
                self.handle_modern(now, stream, head, &read, &mirror)
            }
        }
    }

    fn handle_modern(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        read: &Read<'_>,
        mirror: &Mirror,
    ) -> Result<(), Answer> {
        let Members { id, method, result, error, .. } = read.members;
        if method.is_none() && result.or(error).is_some() {
            let message = "no responses in 2026-07-28";
            return Err(Answer::refusal(400, &id_of(read), INVALID_REQUEST, message));
        }
        if method.is_some() && id.is_none() {
            return Err(Answer::empty(202));
        }
        // A legacy client of a version that we do not know, and told so: it never heard of the
        // members that it would otherwise be told to lack.
        if let Some(version) = mirror.version()
            && Revision::named(version).is_none()
            && read.meta.version.is_none()
        {
            return Err(Answer::json(400, unsupported(version).answer(&id_of(read)).take()));
        }
        let talk = self.begin_talk(now, Kind::Modern, head);
        let takes_stream = accepts(head, EVENT_STREAM);
        let mut exchange = Exchange { takes_stream, ..pending(now, talk, head) };
        if method_of(read) == "subscriptions/listen" {
            exchange = exchange.ending_with_its_token();
        }
        self.begin_exchange(stream, exchange);
        self.with(now, talk, |conversation| {
            conversation.handle_read(now, place_of(stream), read, Some(mirror));
        });
        Ok(())
    }

    /// Of a batch nothing is known but its line.
    fn handle_legacy(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        line: &Bytes,
        read: Option<&Read<'_>>,
    ) -> Result<(), Answer> {
        let id = read.map_or(Id::NULL, id_of);
        let is_opening =
            |read: &Read<'_>| method_of(read) == "initialize" && read.members.id.is_some();
        let opens = read.is_some_and(is_opening);
        let talk = if opens {
            if !self.make_room() {
                let message = format!("more than {} sessions", self.sessions_max);
                return Err(Answer::refusal(503, &id, INTERNAL_ERROR, message));
            }
            self.begin_talk(now, Kind::Legacy(Session::new(now)), head)
        } else {
            self.session(now, head, &id)?
        };
        self.check_room(talk, &id)?;
        // Answers of a batch come together, as plain JSON.
        let takes_stream = read.is_some() && accepts(head, EVENT_STREAM);
        let mut exchange = Exchange { takes_stream, opens, ..pending(now, talk, head) };
        if opens {
            // A stream could no longer carry the id of the session in its head.
            exchange.stage = AnswerState::Pending { until: None };
        }
        self.begin_exchange(stream, exchange);
        let mut is_owed = false;
        self.with(now, talk, |conversation| {
            let place = place_of(stream);
            is_owed = match read {
                Some(read) => conversation.handle_read(now, place, read, None),
                None => conversation.handle_message(now, place, line),
            };
        });
        if !is_owed {
            self.exchanges.remove(&stream);
            self.answer(stream, Answer::empty(202));
        }
        Ok(())
    }

    /// Was this talk begun by who holds the token of a request? If not, it is unknown to it.
    pub(super) fn is_holder_of(&self, talk: u64, head: &RequestHead) -> bool {
        self.talks.get(&talk).is_some_and(|talk| talk.holder.as_ref() == head.holder())
    }

    /// May this session ask for more?
    pub(super) fn check_room(&self, talk: u64, id: &Id) -> Result<(), Answer> {
        if self.talks.get(&talk).is_some_and(|talk| talk.conversation.has_room()) {
            return Ok(());
        }
        let message = "too many requests of this session wait for their answers";
        Err(Answer::refusal(503, id, INTERNAL_ERROR, message))
    }

    /// The session that a request belongs to.
    fn session(&mut self, now: Instant, head: &RequestHead, id: &Id) -> Result<u64, Answer> {
        let refuse = |status, message| Answer::refusal(status, id, INVALID_REQUEST, message);
        let name = head.header(SESSION_HEADER);
        let name = name.ok_or_else(|| refuse(400, "Mcp-Session-Id is missing"))?;
        let talk = self.by_name.get(name).copied();
        let talk = talk.filter(|talk| self.is_holder_of(*talk, head));
        let talk = talk.ok_or_else(|| refuse(404, "there is no such session"))?;
        if let Some(Kind::Legacy(session)) = self.talks.get_mut(&talk).map(|talk| &mut talk.kind) {
            session.used = now;
        }
        Ok(talk)
    }

    /// `GET` opens or resumes a stream, `DELETE` ends a session; both are legacy.
    pub(super) fn handle_other(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        verb: Verb,
    ) -> Result<(), Answer> {
        let talk = self.session(now, head, &Id::NULL)?;
        if verb == Verb::Delete {
            self.end_talk(talk);
            return Err(Answer::empty(204));
        }
        let Some(Talk { conversation, kind: Kind::Legacy(session), .. }) =
            self.talks.get_mut(&talk).map(|talk| &mut **talk)
        else {
            return Ok(());
        };
        let refuse = |status, message| Answer::refusal(status, &Id::NULL, INVALID_REQUEST, message);
        let mut left = None;
        let (number, events, ends) = if let Some(seen) = head.header("Last-Event-ID") {
            let unknown = || refuse(404, "there is no such event");
            let (number, seen) = read_event_id(seen).ok_or_else(unknown)?;
            let kept = session.stream(number).ok_or_else(unknown)?;
            let missed = kept.since(seen).ok_or_else(unknown)?;
            left = kept.reader;
            if !kept.has_ended {
                kept.resume(stream);
            }
            (number, missed, kept.has_ended)
        } else {
            if session.is_heard() {
                return Err(refuse(409, "this session has a stream already"));
            }
            let (number, first) = session.open(Place::SESSION, stream, conversation.revision());
            (number, vec![first], false)
        };
        if let Some(left) = left.filter(|left| *left != stream) {
            // Who resumes has given up the old connection.
            self.exchanges.remove(&left);
            self.finish(left);
        }
        self.begin(stream, event_stream());
        events.iter().for_each(|event| self.put(stream, event));
        if ends {
            self.finish(stream);
            return Ok(());
        }
        let comment_at = now + QUIET_FOR;
        let stage = AnswerState::Streaming { stream: Some(number), comment_at };
        let exchange = Exchange::new(talk, head, stage).ending_with_its_token();
        exchange.wake_at().into_iter().for_each(|at| self.wake(at));
        self.exchanges.insert(stream, exchange);
        Ok(())
    }
}

/// A request that waits for its answer.
fn pending(now: Instant, talk: u64, head: &RequestHead) -> Exchange {
    let stage = AnswerState::Pending { until: Some(now + PLAIN_FOR) };
    Exchange { is_owed: true, ..Exchange::new(talk, head, stage) }
}

/// A body as one line: line breaks must not reach wires that are made of lines.
pub(super) fn in_a_line(body: &Bytes) -> Result<Bytes, Why> {
    match has_line_breaks(body.trim_ascii()) {
        true => Ok(Json::parse(body.clone()).map_err(Why::NotJson)?.compact().as_bytes().clone()),
        false => Ok(body.clone()),
    }
}

/// The id that a refusal carries.
fn id_of(read: &Read<'_>) -> Id {
    read.members.id.and_then(|raw| Id::part_of(read.line, raw)).unwrap_or(Id::NULL)
}

fn method_of<'a>(read: &Read<'a>) -> Cow<'a, str> {
    read.members.method.and_then(string).unwrap_or_default()
}
