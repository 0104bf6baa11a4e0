//! Where what a conversation says is written: to its exchange, or to a stream that is kept.

use std::time::Instant;

use bytes::Bytes;

use super::super::entrance::{Answer, status_of};
use super::exchange::{AnswerState, Exchange, QUIET_FOR, event_stream, place_of, stream_of};
use super::session::{Kind, Talk};
use super::{Endpoint, SESSION_HEADER};
use crate::channel::StreamId;
use crate::frame::sse;
use crate::mcp::conversation::{Place, Said, Saying};

impl Endpoint {
    /// Writes what a conversation says to the exchange it belongs to.
    pub(super) fn say(&mut self, now: Instant, key: u64, said: Said) {
        let Said { place, what, mut text } = said;
        let message = text.take();
        let Some(talk) = self.talks.get(&key) else { return };
        if let Kind::Pair { stream, .. } = talk.kind {
            return match what {
                Saying::Silence => {}
                _ => self.write_piece(now, stream, event(&message)),
            };
        }
        let is_session = matches!(talk.kind, Kind::Legacy(_));
        match (what, is_session) {
            (Saying::Answer | Saying::Error { .. }, false) => {
                self.answer_modern(now, key, place, what, &message);
            }
            (Saying::Answer | Saying::Error { .. }, true) => {
                self.answer_legacy(now, key, place, what, message);
            }
            (Saying::Silence, _) => self.end_silently(now, key, place),
            (Saying::Note | Saying::Guess, false) => {
                let exchange = stream_of(place);
                if self.open_stream(now, exchange) {
                    self.write_piece(now, exchange, event(&message));
                }
            }
            (Saying::Question(question), false) => {
                self.with(now, key, |conversation| conversation.decline(question));
            }
            (what, true) => {
                let is_written = self.say_legacy(now, key, place, what, &message);
                if let Saying::Question(question) = what
                    && !is_written
                {
                    self.with(now, key, |conversation| conversation.decline(question));
                }
            }
        }
    }

    fn answer_modern(
        &mut self,
        now: Instant,
        key: u64,
        place: Place,
        what: Saying,
        message: &Bytes,
    ) {
        let exchange = stream_of(place);
        let lacking = self.exchanges.get(&exchange).and_then(Exchange::lacking);
        match self.exchanges.get(&exchange).map(|exchange| exchange.stage) {
            Some(AnswerState::Pending { .. }) => {
                let status = match what {
                    Saying::Error { code, .. } => status_of(code),
                    _ => 200,
                };
                self.exchanges.remove(&exchange);
                let answer = lacking.unwrap_or_else(|| Answer::json(status, message.clone()));
                self.answer(exchange, answer);
            }
            Some(AnswerState::Streaming { .. }) => {
                self.write_piece(now, exchange, event(message));
                self.exchanges.remove(&exchange);
                self.finish(exchange);
            }
            None => {}
        }
        self.end_talk(key);
    }

    fn answer_legacy(
        &mut self,
        now: Instant,
        key: u64,
        place: Place,
        what: Saying,
        message: Bytes,
    ) {
        let exchange = stream_of(place);
        let is_pending =
            |exchange: &Exchange| matches!(exchange.stage, AnswerState::Pending { .. });
        let pending = self.exchanges.get(&exchange).filter(|exchange| is_pending(exchange));
        if let Some((opens, lacking)) = pending.map(|open| (open.opens, open.lacking())) {
            self.exchanges.remove(&exchange);
            if let Some(refused) = lacking {
                return self.answer(exchange, refused);
            }
            // A message that could not even be named is the fault of the request itself.
            let is_broken = matches!(what, Saying::Error { has_id: false, .. });
            let mut answer = Answer::json(if is_broken { 400 } else { 200 }, message);
            match (opens, what) {
                (true, Saying::Error { .. }) => self.end_talk(key),
                (true, _) => answer = self.opened(key, answer),
                (false, _) => {}
            }
            return self.answer(exchange, answer);
        }
        let Some(Kind::Legacy(session)) = self.talks.get_mut(&key).map(|talk| &mut talk.kind)
        else {
            return;
        };
        let before = session.kept_bytes();
        let Some((piece, reader)) = session.event(place, &message) else { return };
        if let Some(stream) = session.stream_of(place) {
            stream.has_ended = true;
            stream.leave(now);
        }
        session.close_place(place);
        let after = session.kept_bytes();
        self.kept(before, after);
        if let Some(reader) = reader {
            self.write_piece(now, reader, piece);
            self.exchanges.remove(&reader);
            self.finish(reader);
        }
    }

    /// A cancelled request gets no answer, but its exchange must end.
    fn end_silently(&mut self, now: Instant, key: u64, place: Place) {
        let mut exchange = stream_of(place);
        if let Some(Kind::Legacy(session)) = self.talks.get_mut(&key).map(|talk| &mut talk.kind)
            && let Some(stream) = session.stream_of(place)
        {
            exchange = stream.reader.unwrap_or(exchange);
            stream.has_ended = true;
            stream.leave(now);
            session.close_place(place);
        }
        let Some(Exchange { stage, takes_stream, .. }) = self.exchanges.remove(&exchange) else {
            return;
        };
        match (stage, takes_stream) {
            (AnswerState::Streaming { .. }, _) => self.finish(exchange),
            (AnswerState::Pending { .. }, true) => {
                self.begin(exchange, event_stream());
                self.finish(exchange);
            }
            (AnswerState::Pending { .. }, false) => self.answer(exchange, Answer::empty(202)),
        }
    }

    /// `initialize` was answered well: a session begins.
    fn opened(&mut self, key: u64, mut answer: Answer) -> Answer {
        let shared = self.shared.as_mut().and_then(|shared| shared());
        let name = shared.unwrap_or_else(|| (self.fresh)());
        if let Some(Kind::Legacy(session)) = self.talks.get_mut(&key).map(|talk| &mut talk.kind) {
            session.name = Some(name.clone());
            self.by_name.insert(name.clone(), key);
            answer.head.headers.push(SESSION_HEADER, name);
        }
        answer
    }

    /// Tells whether it was written, or kept for a client that may come back.
    fn say_legacy(
        &mut self,
        now: Instant,
        key: u64,
        place: Place,
        what: Saying,
        message: &Bytes,
    ) -> bool {
        let Some(Kind::Legacy(session)) = self.talks.get_mut(&key).map(|talk| &mut talk.kind)
        else {
            return false;
        };
        // What was said to no call in particular belongs on the session's own stream.
        let is_guess = matches!(what, Saying::Guess | Saying::Question(_));
        let place = if is_guess && session.is_heard() { Place::SESSION } else { place };
        if place != Place::SESSION && session.stream_of(place).is_none() {
            self.open_stream(now, stream_of(place));
        }
        let Some(Kind::Legacy(session)) = self.talks.get_mut(&key).map(|talk| &mut talk.kind)
        else {
            return false;
        };
        let before = session.kept_bytes();
        let Some((piece, reader)) = session.event(place, message) else { return false };
        let after = session.kept_bytes();
        self.kept(before, after);
        if let Some(reader) = reader {
            self.write_piece(now, reader, piece);
        }
        true
    }

    /// Makes a stream of an exchange, if it is none yet and may become one.
    fn open_stream(&mut self, now: Instant, exchange: StreamId) -> bool {
        let Some(open) = self.exchanges.get(&exchange) else { return false };
        if let AnswerState::Pending { .. } = open.stage {
            if !open.takes_stream || open.opens {
                return false;
            }
            self.begin_stream(now, exchange);
        }
        true
    }

    pub(super) fn begin_stream(&mut self, now: Instant, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let comment_at = now + QUIET_FOR;
        let (stream, first) = match self.talks.get_mut(&exchange.talk).map(|talk| &mut **talk) {
            Some(Talk { conversation, kind: Kind::Legacy(session), .. }) => {
                let (number, first) = session.open(place_of(id), id, conversation.revision());
                (Some(number), first)
            }
            _ => (None, Bytes::new()),
        };
        exchange.stage = AnswerState::Streaming { stream, comment_at };
        self.begin(id, event_stream());
        self.put(id, &first);
        self.wake(comment_at);
    }

    pub(super) fn write_piece(&mut self, now: Instant, exchange: StreamId, piece: Bytes) {
        if let Some(Exchange { stage: AnswerState::Streaming { comment_at, .. }, .. }) =
            self.exchanges.get_mut(&exchange)
        {
            *comment_at = now + QUIET_FOR;
            self.put(exchange, &piece);
        }
    }
}

/// A message as an event of a stream that cannot be resumed.
pub(super) fn event(message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 32);
    sse::write_event(&mut event, None, message);
    event.into()
}
