//! What one request over HTTP asks for: which era, which session, which stream.

use std::time::Instant;

use bytes::Bytes;

use super::endpoint::{Endpoint, SESSION_HEADER, SESSIONS_MAX};
use super::exchange::{Exchange, ExchangeId, QUIET_FOR, Stage, Write, begin};
use super::gate::{Answer, EVENT_STREAM, Head, Verb, accepts};
use super::headers::Mirror;
use super::session::{Kind, Session, Talk};
use super::stream::read_event_id;
use crate::json::edit;
use crate::json::{Json, JsonError, Kind as JsonKind};
use crate::jsonrpc::{Id, Invalid, Why, string};
use crate::mcp::conversation::{Place, id_in_front, unsupported};
use crate::mcp::wire::{
    self, Era, HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, Meta, Revision,
};

impl Endpoint {
    pub(super) fn handle_post(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        head: &Head<'_>,
        body: &Bytes,
    ) -> Result<(), Answer> {
        let refuse = |why| {
            let id = if why == Why::NotJson(JsonError::TooDeep) { id_in_front(body) } else { None };
            let (code, message) = wire::said(&Invalid { why, id: None });
            Answer::refusal(400, &id.unwrap_or(Id::NULL), code, message)
        };
        let json = Json::parse(body.clone()).map_err(|error| refuse(Why::NotJson(error)))?;
        // Line breaks must not reach wires that are made of lines.
        let json = if has_line_breaks(json.as_bytes()) { json.compact() } else { json };
        let text = json.as_str();
        let mirror = Mirror::read(head.headers.iter().copied());
        let says = mirror.version().map(Revision::legacy);
        if json.kind() == JsonKind::Array && says.is_none_or(|says| says.is_some()) {
            return self.handle_legacy(now, exchange, head, json.as_bytes());
        }
        match json.kind() {
            JsonKind::Object => {}
            JsonKind::Array => return Err(refuse(Why::Batch)),
            _ => return Err(refuse(Why::NotAnObject)),
        }
        let params = edit::member(text, "params");
        let method = edit::text(text, "method").unwrap_or_default();
        match says {
            Some(Some(legacy)) => {
                if let Some(version) = Meta::read(params).version {
                    let message = format!(
                        "MCP-Protocol-Version is `{legacy}`, the body says `{}`",
                        string(version).unwrap_or_default()
                    );
                    return Err(Answer::refusal(400, &id_of(&json), HEADER_MISMATCH, message));
                }
                self.handle_legacy(now, exchange, head, json.as_bytes())
            }
            None if wire::era(&method, params) == Era::Legacy => {
                self.handle_legacy(now, exchange, head, json.as_bytes())
            }
            Some(None) | None => {
                let tool = params.and_then(|params| edit::text(params, "name"));
                let mirror = mirror.by_input(tool.and_then(|tool| self.inputs.of(&tool)));
                self.handle_modern(now, exchange, head, &json, &mirror)
            }
        }
    }

    fn handle_modern(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        head: &Head<'_>,
        json: &Json,
        mirror: &Mirror,
    ) -> Result<(), Answer> {
        let has = |name: &str| edit::member(json.as_str(), name).is_some();
        if !has("method") && (has("result") || has("error")) {
            let message = "no responses in 2026-07-28";
            return Err(Answer::refusal(400, &id_of(json), INVALID_REQUEST, message));
        }
        if has("method") && !has("id") {
            return Err(Answer::empty(202));
        }
        // A legacy client of a version that nobody knows, and told so: it never heard of the
        // members that it would otherwise be told to lack.
        let is_modern_body = Meta::read(edit::member(json.as_str(), "params")).version.is_some();
        if let Some(version) = mirror.version()
            && Revision::named(version).is_none()
            && !is_modern_body
        {
            return Err(Answer::json(400, unsupported(version).answer(&id_of(json)).take()));
        }
        let talk = self.begin_talk(now, Kind::Modern);
        self.begin_exchange(now, exchange, talk, accepts(head, EVENT_STREAM), false);
        self.with(now, talk, |conversation| {
            let place = Place(exchange.0);
            conversation.handle_message(now, place, json.as_bytes(), Some(mirror));
        });
        Ok(())
    }

    fn handle_legacy(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        head: &Head<'_>,
        body: &Bytes,
    ) -> Result<(), Answer> {
        let text = str::from_utf8(body).unwrap_or_default();
        let json = Json::from_trusted(body.clone());
        let opens = edit::text(text, "method").as_deref() == Some("initialize")
            && edit::member(text, "id").is_some();
        let talk = if opens {
            if SESSIONS_MAX <= self.by_name.len() {
                let message = format!("more than {SESSIONS_MAX} sessions");
                return Err(Answer::refusal(503, &id_of(&json), INTERNAL_ERROR, message));
            }
            self.begin_talk(now, Kind::Legacy(Session::new(now)))
        } else {
            self.session(now, head, &id_of(&json))?
        };
        let has_room = self.talks.get(&talk).is_some_and(|talk| talk.conversation.has_room());
        if !has_room {
            let message = "too many requests of this session wait for their answers";
            return Err(Answer::refusal(503, &id_of(&json), INTERNAL_ERROR, message));
        }
        // Answers of a batch come together, as plain JSON.
        let takes_stream = json.kind() != JsonKind::Array && accepts(head, EVENT_STREAM);
        self.begin_exchange(now, exchange, talk, takes_stream, opens);
        let mut is_owed = false;
        self.with(now, talk, |conversation| {
            is_owed = conversation.handle_message(now, Place(exchange.0), body, None);
        });
        if !is_owed {
            self.exchanges.remove(&exchange);
            self.writes.push_back((exchange, Write::Whole(Answer::empty(202))));
        }
        Ok(())
    }

    /// The session that a request belongs to.
    fn session(&mut self, now: Instant, head: &Head<'_>, id: &Id) -> Result<u64, Answer> {
        let refuse = |status, message| Answer::refusal(status, id, INVALID_REQUEST, message);
        let name = head.header(SESSION_HEADER);
        let name = name.ok_or_else(|| refuse(400, "Mcp-Session-Id is missing"))?;
        let talk = self.by_name.get(name).copied();
        let talk = talk.ok_or_else(|| refuse(404, "there is no such session"))?;
        if let Some(Talk { kind: Kind::Legacy(session), .. }) = self.talks.get_mut(&talk) {
            session.used = now;
        }
        Ok(talk)
    }

    /// `GET` opens or resumes a stream, `DELETE` ends a session; both are legacy.
    pub(super) fn handle_other(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        head: &Head<'_>,
        verb: Verb,
    ) -> Result<(), Answer> {
        let talk = self.session(now, head, &Id::NULL)?;
        if verb == Verb::Delete {
            self.end_talk(talk);
            return Err(Answer::empty(204));
        }
        let Some(Talk { conversation, kind: Kind::Legacy(session) }) = self.talks.get_mut(&talk)
        else {
            return Ok(());
        };
        let refuse = |status, message| Answer::refusal(status, &Id::NULL, INVALID_REQUEST, message);
        let mut writes = vec![begin()];
        let mut ends = false;
        let mut left = None;
        let number = if let Some(seen) = head.header("Last-Event-ID") {
            let unknown = || refuse(404, "there is no such event");
            let (number, seen) = read_event_id(seen).ok_or_else(unknown)?;
            let stream = session.stream(number).ok_or_else(unknown)?;
            let missed = stream.since(seen).ok_or_else(unknown)?;
            writes.extend(missed.into_iter().map(Write::Piece));
            ends = stream.has_ended;
            left = stream.reader;
            if !ends {
                stream.resume(exchange);
            }
            number
        } else {
            if session.is_heard() {
                return Err(refuse(409, "this session has a stream already"));
            }
            let revision = conversation.revision();
            let (number, first) = session.open(Place::SESSION, exchange, revision);
            writes.extend(
                Some(Write::Piece(first)).filter(|_| revision >= Some(Revision::V2025_11_25)),
            );
            number
        };
        if let Some(left) = left.filter(|left| *left != exchange) {
            // Whoever resumes has given up the old connection.
            self.exchanges.remove(&left);
            self.writes.push_back((left, Write::End));
        }
        self.writes.extend(writes.into_iter().map(|write| (exchange, write)));
        if ends {
            self.writes.push_back((exchange, Write::End));
            return Ok(());
        }
        let comment_at = now + QUIET_FOR;
        let stage = Stage::Streaming { stream: Some(number), comment_at };
        let streaming = Exchange { talk, takes_stream: true, opens: false, stage };
        self.exchanges.insert(exchange, streaming);
        self.wake(comment_at);
        Ok(())
    }
}

fn has_line_breaks(text: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', text).is_some()
}

/// The id that a refusal of this message carries.
fn id_of(json: &Json) -> Id {
    let raw = edit::member(json.as_str(), "id");
    raw.and_then(|raw| Id::part_of(json.as_bytes(), raw)).unwrap_or(Id::NULL)
}
