//! The transport of 2024-11-05, HTTP+SSE (`docs/protocols/mcp.md` 2.14): a stream that says where
//! to post, and messages that are posted there and answered on the stream.
//!
//! A session is a conversation as on a pipe, of the old era alone. It ends with its stream.

use std::time::Instant;

use bytes::Bytes;

use super::super::entrance::{Answer, MESSAGES_PATH};
use super::Endpoint;
use super::exchange::{AnswerState, Exchange, QUIET_FOR, event_stream};
use super::requests::in_a_line;
use super::saying::event;
use super::session::Kind;
use crate::channel::StreamId;
use crate::http::RequestHead;
use crate::json::{JsonError, edit};
use crate::jsonrpc::{Id, Invalid, Message, Why};
use crate::mcp::conversation::{Place, Read, id_in_front};
use crate::mcp::wire::{
    self, Era, INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, Refusal, Revision, UNKNOWN_METHOD,
};

/// The parameter of the query by which a session is known.
const SESSION: &str = "session";

impl Endpoint {
    /// A client opens a stream, and a session with it.
    pub(super) fn open_pair(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
    ) -> Result<(), Answer> {
        if !self.make_room() {
            let message = format!("more than {} sessions", self.sessions_max);
            return Err(Answer::refusal(503, &Id::NULL, INTERNAL_ERROR, message));
        }
        let name = (self.fresh)();
        let kind = Kind::Pair { name: name.clone(), stream, visit: None };
        let talk = self.begin_talk(now, kind, head);
        let endpoint = format!("event: endpoint\ndata: {MESSAGES_PATH}?{SESSION}={name}\n\n");
        self.pairs.insert(name, talk);
        self.begin(stream, event_stream());
        self.put(stream, &endpoint.into());
        let comment_at = now + QUIET_FOR;
        let stage = AnswerState::Streaming { stream: None, comment_at };
        let exchange = Exchange::new(talk, head, stage).ending_with_its_token();
        exchange.wake_at().into_iter().for_each(|at| self.wake(at));
        self.exchanges.insert(stream, exchange);
        Ok(())
    }

    /// A message for a session: it is taken, or refused at once. The answer comes on the stream.
    pub(super) fn post_to_pair(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        body: &Bytes,
    ) -> Result<(), Answer> {
        let refuse = |status, message| Answer::refusal(status, &Id::NULL, INVALID_REQUEST, message);
        if head.parameter(SESSION).is_none() {
            return Err(refuse(400, "the parameter `session` is missing"));
        }
        let talk = self.pair_of(head).ok_or_else(|| refuse(404, "there is no such session"))?;
        let unread = |why| {
            let is_deep = why == Why::NotJson(JsonError::TooDeep);
            Invalid { why, id: if is_deep { id_in_front(body) } else { None } }
        };
        let line = in_a_line(body).map_err(unread);
        let line = line.map_err(|invalid| self.not_taken(now, talk, invalid))?;
        let read = match Read::of_one_line(&line) {
            Err(Why::Batch) if self.takes_batch(talk, &line) => None,
            read => {
                let read = read.map_err(unread).and_then(checked);
                Some(read.map_err(|invalid| self.not_taken(now, talk, invalid))?)
            }
        };
        self.check_room(talk, &Id::NULL)?;
        if let Some(Kind::Pair { visit, .. }) = self.talks.get_mut(&talk).map(|talk| &mut talk.kind)
        {
            *visit = head.visit().cloned();
        }
        self.answer(stream, Answer::empty(202));
        match read.as_ref().and_then(too_new) {
            Some(refusal) => self.say_to_pair(now, talk, &refusal),
            None => self.with(now, talk, |conversation| {
                let _ = match &read {
                    Some(read) => conversation.handle_read(now, Place::SESSION, read, None),
                    None => conversation.handle_message(now, Place::SESSION, &line),
                };
            }),
        }
        Ok(())
    }

    /// The session that a message is posted to.
    pub(super) fn pair_of(&self, head: &RequestHead) -> Option<u64> {
        let talk = self.pairs.get(head.parameter(SESSION)?).copied()?;
        self.is_holder_of(talk, head).then_some(talk)
    }

    /// Can this session have several messages at once, and are there some?
    fn takes_batch(&self, talk: u64, line: &[u8]) -> bool {
        let revision = self.talks.get(&talk).and_then(|talk| talk.conversation.revision());
        revision == Some(Revision::V2025_03_26)
            && edit::elements(str::from_utf8(line).unwrap_or_default()).next().is_some()
    }

    /// What is no message is refused; what is not even JSON is told on the stream as well, where
    /// the client waits for its answers.
    fn not_taken(&mut self, now: Instant, talk: u64, invalid: Invalid) -> Answer {
        let (code, message) = wire::said(&invalid);
        let refusal = Refusal::new(code, message).answer(&invalid.id.unwrap_or(Id::NULL)).take();
        if code == PARSE_ERROR {
            self.say_to_pair(now, talk, &refusal);
        }
        Answer::json(400, refusal)
    }

    fn say_to_pair(&mut self, now: Instant, talk: u64, message: &Bytes) {
        if let Some(&Kind::Pair { stream, .. }) = self.talks.get(&talk).map(|talk| &talk.kind) {
            self.write_piece(now, stream, event(message));
        }
    }
}

/// Is it a message, whatever becomes of it?
fn checked(read: Read<'_>) -> Result<Read<'_>, Invalid> {
    match read.message() {
        Ok(Message::Response { id, result: None, error: None }) => {
            Err(Invalid { why: Why::Neither, id: Some(id) })
        }
        // A malformed notification, which is dropped as on a pipe.
        Ok(_) | Err(Invalid { why: Why::Params, id: None }) => Ok(read),
        Err(invalid) => Err(invalid),
    }
}

/// The answer to a request of the era that came long after this transport.
fn too_new(read: &Read<'_>) -> Option<Bytes> {
    let Ok(Message::Request { id, method, .. }) = read.message() else { return None };
    if read.meta.era(&method) == Era::Legacy {
        return None;
    }
    let refusal = match &*method {
        "server/discover" | "subscriptions/listen" => {
            Refusal::new(UNKNOWN_METHOD, format!("method not found: {method}"))
        }
        _ => {
            let message = format!("{} is not spoken over HTTP+SSE", Revision::MODERN);
            Refusal::new(INVALID_REQUEST, message)
        }
    };
    Some(refusal.answer(&id).take())
}
