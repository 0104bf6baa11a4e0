//! The serving end over HTTP as the hands see it: a stream a request, opened by clients.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;

use super::super::entrance::{Answer, Verb};
use super::exchange::Arriving;
use super::{Conversation, Endpoint, Forwarded, SESSION_HEADER};
use crate::channel::{
    Asked, Down, Ended, Flow, Machine, Notice, Outbox, Serving, StreamId, StreamLost, Streams,
    Ticket, Writing,
};
use crate::http::{RequestHead, ResponseHead};
use crate::jsonrpc::Id;
use crate::mcp::wire::INTERNAL_ERROR;
use crate::tool::{FailureKind, Outcome};

impl Streams for Endpoint {
    type Opening = RequestHead;
    type Answer = ResponseHead;

    /// Who may not come in is told so before a body is read.
    fn handle_opened(&mut self, now: Instant, stream: StreamId, head: RequestHead) -> Flow {
        if let Some(cors) = self.settings.entrance.admission.cors(&head) {
            self.cors.insert(stream, cors);
        }
        match self.settings.entrance.admit(&head) {
            Ok(verb) => {
                let arriving = Arriving::new(now, head, verb);
                self.wake(arriving.late_at());
                self.arriving.insert(stream, arriving);
            }
            Err(answer) => self.answer(stream, answer),
        }
        self.flow(stream)
    }

    /// We open no streams.
    fn handle_answered(&mut self, _now: Instant, _stream: StreamId, _head: ResponseHead) -> Flow {
        Flow::Close
    }

    /// A body waits in the input until it is whole.
    fn handle_bytes(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        let bytes_max = self.settings.entrance.body_bytes_max;
        match self.arriving.get_mut(&stream) {
            Some(_) if bytes_max < input.len() => {
                self.arriving.remove(&stream);
                *input = BytesMut::new();
                let answer = self.settings.entrance.too_long();
                self.answer(stream, answer);
            }
            Some(arriving) => arriving.handle_bytes(now, input.len()),
            None => input.clear(),
        }
        self.flow(stream)
    }

    fn handle_eof(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        if let Some(Arriving { head, verb, .. }) = self.arriving.remove(&stream) {
            let body = input.split().freeze();
            self.handle_request(now, stream, &head, verb, &body);
            self.settle();
        }
        self.flow(stream)
    }

    /// A body that we have no room for is refused; one that broke off has nobody to be told.
    fn handle_cut(
        &mut self,
        now: Instant,
        stream: StreamId,
        input: &mut BytesMut,
        why: StreamLost,
    ) -> Flow {
        *input = BytesMut::new();
        if why.failure.kind == FailureKind::Unavailable && self.arriving.remove(&stream).is_some() {
            let message = why.failure.message;
            self.answer(stream, Answer::refusal(503, &Id::NULL, INTERNAL_ERROR, message));
            return self.flow(stream);
        }
        self.handle_lost(now, stream, why);
        Flow::Close
    }

    fn handle_lost(&mut self, now: Instant, stream: StreamId, _why: StreamLost) {
        self.arriving.remove(&stream);
        self.unsent.remove(&stream);
        self.cors.remove(&stream);
        self.handle_gone(now, stream);
        self.settle();
    }

    /// Who reads no more has gone: a body says nothing that is not asked for.
    fn handle_stopped(&mut self, now: Instant, stream: StreamId, _code: Option<u64>) {
        self.unsent.remove(&stream);
        self.handle_gone(now, stream);
        self.settle();
    }

    fn handle_closed(&mut self, _now: Instant, stream: StreamId) {
        self.cors.remove(&stream);
    }

    fn poll_open(&mut self) -> Option<(StreamId, RequestHead)> {
        None
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.ready.pop_front()
    }

    fn poll_answer(&mut self, stream: StreamId) -> Option<ResponseHead> {
        let head = self.unsent.get_mut(&stream)?.head.take();
        self.hand_out(stream);
        head
    }

    fn poll_transmit(&mut self, stream: StreamId, out: &mut Outbox) {
        if let Some(unsent) = self.unsent.get_mut(&stream) {
            out.append(&mut unsent.out);
            self.hand_out(stream);
        }
    }

    /// What is forgotten was answered to its end.
    fn writing(&self, stream: StreamId) -> Writing {
        let is_open = self.arriving.contains_key(&stream) || self.exchanges.contains_key(&stream);
        let ends = self.unsent.get(&stream).map_or(!is_open, |unsent| unsent.ends);
        if ends { Writing::Finish } else { Writing::Open }
    }

    /// A legacy session, once the request says that it is one.
    fn owner(&self, stream: StreamId) -> Option<u64> {
        let talk = match (self.exchanges.get(&stream), self.arriving.get(&stream)) {
            (Some(exchange), _) => exchange.talk,
            (None, Some(Arriving { head, verb: Verb::PostPair, .. })) => self.pair_of(head)?,
            (None, arriving) => {
                let head = &arriving?.head;
                let talk = *self.by_name.get(head.header(SESSION_HEADER)?)?;
                self.is_holder_of(talk, head).then_some(talk)?
            }
        };
        self.talks.get(&talk).is_some_and(|talk| talk.is_session()).then_some(talk)
    }
}

impl Endpoint {
    fn flow(&self, stream: StreamId) -> Flow {
        match (self.arriving.contains_key(&stream), self.exchanges.contains_key(&stream)) {
            (true, _) => Flow::More,
            (false, true) => Flow::Pause,
            (false, false) => Flow::Close,
        }
    }

    /// Forgets what was handed out.
    fn hand_out(&mut self, stream: StreamId) {
        let is_out = |unsent: &super::Unsent| unsent.head.is_none() && unsent.out.is_empty();
        if self.unsent.get(&stream).is_some_and(is_out) {
            self.unsent.remove(&stream);
        }
    }
}

impl Machine for Endpoint {
    fn handle_timeout(&mut self, now: Instant) {
        if self.wake_at.is_some_and(|at| at <= now) {
            self.expire(now);
            self.settle();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wake_at
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.kept_bytes
    }
}

impl Serving for Endpoint {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        if let Down::Done(Ok(Outcome::Tools(tools))) = &down {
            self.tools = Some(tools.clone());
        }
        let forwarded = self.calls.get(&ticket).copied();
        let Some(Forwarded { talk, lists_tools }) = forwarded else { return Flow::More };
        if let Down::Done(Ok(Outcome::Native(page))) = &down
            && lists_tools
        {
            self.inputs.learn(str::from_utf8(page).unwrap_or_default());
        }
        if let Down::Done(_) = down {
            self.calls.remove(&ticket);
        }
        self.with(now, talk, |conversation| conversation.down(now, ticket, down));
        self.settle();
        Flow::More
    }

    fn keep_holders(&mut self, _now: Instant, stays: &dyn Fn(&str) -> bool) {
        let is_out = |holder: &Option<Arc<str>>| holder.as_ref().is_some_and(|it| !stays(it));
        let out = self.talks.iter().filter(|(_, talk)| talk.is_session() && is_out(&talk.holder));
        let mut out: Vec<_> = out.map(|(key, _)| *key).collect();
        out.sort_unstable();
        out.into_iter().for_each(|key| self.end_talk(key));
        self.settle();
    }

    fn tell(&mut self, now: Instant, notice: &Notice) {
        if *notice == Notice::ToolsChanged {
            self.tools = None;
        }
        let talks: Vec<_> = self.talks.keys().copied().collect();
        for talk in talks {
            self.with(now, talk, |conversation| conversation.tell(notice));
        }
    }

    fn close(&mut self, now: Instant) {
        self.is_closing = true;
        let talks: Vec<_> = self.talks.keys().copied().collect();
        for talk in talks {
            self.with(now, talk, Conversation::handle_end);
        }
        self.settle();
    }

    fn give_up(&mut self, _now: Instant) {
        self.end_exchanges();
    }

    /// It serves every client that comes, until the hands stop.
    fn ended(&self) -> Option<&Ended> {
        None
    }
}
