//! What happens on the streams of our requests.

use std::time::Instant;

use bytes::BytesMut;

use super::{Ask, Client, ConnectionState, Purpose};
use crate::channel::{Flow, Outbox, StreamId, StreamLost, Streams, Writing};
use crate::tool::{Failure, FailureKind, Outcome};

impl Client {
    /// The bytes of a stream whose answer is awaited.
    fn handle_frames(&mut self, now: Instant, number: u64, input: &mut BytesMut) {
        while let Some(ask) = self.asks.get_mut(&number)
            && let ConnectionState::Sent = ask.stage
            && let Some(frame) = ask.frames.next(input)
        {
            let too_long = match frame {
                Ok(frame) => {
                    self.handle_frame(now, number, &frame);
                    continue;
                }
                Err(too_long) => too_long,
            };
            let (bytes, limit) = (too_long.bytes, too_long.bytes_max);
            let message = format!("answer of {bytes} bytes is over the limit of {limit}");
            self.fail(now, number, Failure::new(FailureKind::TooLarge, message));
        }
    }

    /// What comes behind an answer is not kept.
    fn drain(&mut self, number: u64, input: &mut BytesMut) -> Flow {
        let drained_max = self.settings.drain_bytes_max;
        let Some(Ask { stage: ConnectionState::Draining { bytes }, .. }) =
            self.asks.get_mut(&number)
        else {
            return Flow::More;
        };
        *bytes += input.len();
        input.clear();
        if *bytes <= drained_max {
            return Flow::More;
        }
        self.remove(number);
        Flow::Close
    }

    /// The stream went otherwise than by an answer: its call fails, and no other.
    pub(super) fn fail(&mut self, now: Instant, number: u64, failure: Failure) {
        self.settle(now, number);
        let Some(ask) = self.remove(number) else { return };
        self.ready.push_back(StreamId::Ours(number));
        self.done(ask.ticket, Err(failure));
    }
}

impl Streams for Client {
    type Opening = ();
    type Answer = ();

    /// A server never asks its client. What a peer opens is not known here, and so is reset.
    fn handle_opened(&mut self, _now: Instant, stream: StreamId, (): ()) -> Flow {
        self.ready.push_back(stream);
        Flow::Close
    }

    fn handle_answered(&mut self, _now: Instant, _stream: StreamId, (): ()) -> Flow {
        Flow::More
    }

    fn handle_bytes(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        let StreamId::Ours(number) = stream else {
            input.clear();
            return Flow::Close;
        };
        self.handle_frames(now, number, input);
        if !self.asks.contains_key(&number) {
            input.clear();
            return Flow::Close;
        }
        self.drain(number, input)
    }

    fn handle_eof(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        let flow = self.handle_bytes(now, stream, input);
        input.clear();
        let StreamId::Ours(number) = stream else { return flow };
        match self.asks.get(&number) {
            Some(Ask { stage: ConnectionState::Draining { .. }, .. }) => {
                self.remove(number);
                self.forget_drained();
            }
            // That the stream has ended is all the answer there is.
            Some(Ask {
                purpose: Purpose::Native { is_unanswered: true } | Purpose::Events,
                ticket,
                ..
            }) => {
                let ticket = *ticket;
                self.settle(now, number);
                self.remove(number);
                self.done(ticket, Ok(Outcome::Native(bytes::Bytes::new())));
            }
            Some(_) => {
                let message = "the stream ended before an answer";
                self.fail(now, number, Failure::new(FailureKind::BrokeProtocol, message));
            }
            None => {}
        }
        Flow::Close
    }

    fn handle_lost(&mut self, now: Instant, stream: StreamId, why: StreamLost) {
        let StreamId::Ours(number) = stream else { return };
        let failure = match why.code {
            Some(code) => {
                let message = format!("the stream was reset (code {code})");
                Failure::new(FailureKind::Gone, message)
            }
            None => why.failure,
        };
        match self.asks.get(&number) {
            Some(Ask { stage: ConnectionState::Draining { .. }, .. }) => {
                self.remove(number);
            }
            _ => self.fail(now, number, failure),
        }
    }

    /// Whatever the hands saw: no caller may be left waiting.
    fn handle_closed(&mut self, now: Instant, stream: StreamId) {
        self.handle_eof(now, stream, &mut BytesMut::new());
    }

    fn poll_open(&mut self) -> Option<(StreamId, ())> {
        loop {
            let number = self.to_open.pop_front()?;
            if self.asks.contains_key(&number) {
                return Some((StreamId::Ours(number), ()));
            }
        }
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.ready.pop_front()
    }

    fn poll_answer(&mut self, _stream: StreamId) -> Option<()> {
        None
    }

    /// Asked once the stream is open: from then on the request counts as sent.
    fn poll_transmit(&mut self, stream: StreamId, out: &mut Outbox) {
        let StreamId::Ours(number) = stream else { return };
        let Some(ask) = self.asks.get_mut(&number) else { return };
        if let ConnectionState::Unopened { frame, .. } = &mut ask.stage {
            self.kept_bytes -= frame.len();
            out.append(frame);
            ask.stage = ConnectionState::Sent;
            self.unanswered += 1;
            self.forget_opened();
        }
    }

    /// The end stands in the same packet as the last byte of the request: a peer that answers
    /// before it would never read it, and never give the stream back.
    fn writing(&self, stream: StreamId) -> Writing {
        let StreamId::Ours(number) = stream else { return Writing::Reset(0) };
        match self.asks.get(&number) {
            Some(Ask { stage: ConnectionState::Unopened { .. }, .. }) => Writing::Open,
            Some(_) => Writing::Finish,
            None => Writing::Reset(0),
        }
    }
}
