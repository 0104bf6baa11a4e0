//! What happens on the streams of our callers.

use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};

use super::replies::Reply;
use super::{Answering, Job, Role, Server};
use crate::capture::Side;
use crate::channel::{Asked, Flow, Outbox, StreamId, StreamLost, Streams, Up, Writing};
use crate::frame::length::Lengths;
use crate::orchestra::envelope::{Envelope, put_frame};
use crate::orchestra::waiting::Waiting;
use crate::orchestra::wire::{Request, StreamCancel};

impl Server {
    /// The frame of a request, as far as it is there.
    fn handle_frame(&mut self, now: Instant, number: u64, frame: &Bytes) {
        match Envelope::read(Side::Call, frame) {
            Ok(envelope) => self.handle_request(now, number, &envelope),
            Err(malformed) => self.refuse(now, number, &malformed.to_string()),
        }
    }

    /// What stands behind the request says nothing, but for the cancelling of its stream.
    fn handle_behind(&mut self, now: Instant, number: u64, input: &mut BytesMut) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Job::Running { reply: Reply::Chunks { stream_id, .. }, .. } = &stream.job else {
            stream.behind += input.len();
            let is_too_much = self.settings.drain_bytes_max < stream.behind;
            stream.is_read |= is_too_much && matches!(stream.job, Job::Answered);
            return input.clear();
        };
        let before = input.len();
        let cancelled = loop {
            let Some(frame) = stream.frames.next(input) else { break None };
            let Ok(Ok(envelope)) = frame.map(|frame| Envelope::read(Side::Call, &frame)) else {
                continue;
            };
            if let Ok(Some(Request::StreamCancel(StreamCancel { stream_id: meant, .. }))) =
                envelope.request()
                && meant == *stream_id
            {
                break Some(envelope.body);
            }
        };
        stream.behind += before - input.len();
        match (cancelled, self.settings.role) {
            (None, _) => {}
            // The stream goes on until the plugin ends it, as if that had been asked elsewhere.
            (Some(body), Role::Hub) => self.ask_aside(now, "stream_cancel", body),
            (Some(_), Role::Plugin) => self.cancel_chunks(now, number),
        }
    }

    fn flow(&self, number: u64, unread: usize) -> Flow {
        match self.streams.get(&number) {
            None => Flow::Close,
            Some(stream) => match stream.job {
                // Only once all is handed out: what is not would be lost.
                Job::Answered if stream.is_read => match stream.out.is_empty() {
                    true => Flow::Close,
                    false => Flow::Pause,
                },
                Job::Reading => Flow::More,
                _ if stream.is_read => Flow::Pause,
                // The rest is left where it is until the answer is said: the caller is not cut off.
                _ if self.settings.drain_bytes_max < stream.behind + unread => Flow::Pause,
                _ => Flow::More,
            },
        }
    }

    /// The stream need not be known any more once all is written and all is read.
    pub(super) fn forget(&mut self, number: u64) {
        let is_over = self.streams.get(&number).is_some_and(|stream| {
            let is_written = stream.out.is_empty() && !stream.is_writing;
            matches!(stream.job, Job::Answered) && stream.is_read && is_written
        });
        if is_over {
            self.remove(number);
        }
        // Who has ended by itself needs no alarm.
        while let Some((_, number)) = self.draining.front()
            && self.streams.get(number).is_none_or(|stream| stream.is_read)
        {
            self.draining.pop_front();
        }
    }

    fn remove(&mut self, number: u64) -> Option<Answering> {
        let stream = self.streams.remove(&number)?;
        self.kept_bytes -= stream.weighed;
        Some(stream)
    }

    /// The peer no longer waits for what is said on this stream.
    fn abandon(&mut self, number: u64) {
        let Some(stream) = self.remove(number) else { return };
        if let Job::Running { ticket, .. } = stream.job
            && self.tickets.remove(&ticket).is_some()
        {
            self.ups.push_back((ticket, Asked::Up(Up::Cancel(None))));
        }
    }
}

impl Streams for Server {
    type Opening = ();
    type Answer = ();

    fn handle_opened(&mut self, _now: Instant, stream: StreamId, (): ()) -> Flow {
        let StreamId::Theirs(number) = stream else { return Flow::Close };
        let stream = Answering {
            frames: Lengths::new(self.settings.frame_bytes_max),
            request_id: String::new(),
            job: Job::Reading,
            out: Outbox::new(),
            events: Waiting::default(),
            is_writing: false,
            is_read: false,
            behind: 0,
            weighed: 0,
        };
        self.streams.insert(number, stream);
        Flow::More
    }

    fn handle_answered(&mut self, _now: Instant, _stream: StreamId, (): ()) -> Flow {
        Flow::Close
    }

    fn handle_bytes(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        let StreamId::Theirs(number) = stream else { return Flow::Close };
        let Some(reading) = self.streams.get_mut(&number) else {
            input.clear();
            return Flow::Close;
        };
        if let Job::Reading = reading.job {
            match reading.frames.next(input) {
                None => return Flow::More,
                Some(Ok(frame)) => {
                    // A second frame can only be a short one.
                    reading.frames = Lengths::new(self.settings.drain_bytes_max);
                    self.handle_frame(now, number, &frame);
                }
                Some(Err(too_long)) => self.refuse(now, number, &too_long.to_string()),
            }
        }
        self.handle_behind(now, number, input);
        let flow = self.flow(number, input.len());
        if flow == Flow::Close {
            input.advance(input.len());
        }
        flow
    }

    fn handle_eof(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        let StreamId::Theirs(number) = stream else { return Flow::Close };
        self.handle_bytes(now, stream, input);
        if let Some(Answering { job: Job::Reading, .. }) = self.streams.get(&number) {
            self.refuse(now, number, "it ends before a whole frame");
        }
        input.clear();
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.is_read = true;
        }
        self.forget(number);
        self.flow(number, 0)
    }

    fn handle_lost(&mut self, _now: Instant, stream: StreamId, _why: StreamLost) {
        if let StreamId::Theirs(number) = stream {
            self.abandon(number);
        }
    }

    fn handle_stopped(&mut self, _now: Instant, stream: StreamId, _code: Option<u64>) {
        let StreamId::Theirs(number) = stream else { return };
        if self.streams.contains_key(&number) {
            self.abandon(number);
            self.resets.insert(number);
            self.ready.push_back(stream);
        }
    }

    fn handle_sent(&mut self, _now: Instant, stream: StreamId) {
        let StreamId::Theirs(number) = stream else { return };
        if let Some(answering) = self.streams.get_mut(&number) {
            answering.is_writing = false;
            if !answering.events.is_empty() {
                self.ready.push_back(stream);
            }
        }
        self.forget(number);
    }

    fn handle_closed(&mut self, _now: Instant, stream: StreamId) {
        if let StreamId::Theirs(number) = stream {
            self.abandon(number);
            self.resets.remove(&number);
        }
    }

    fn poll_open(&mut self) -> Option<(StreamId, ())> {
        None
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.ready.pop_front()
    }

    fn poll_answer(&mut self, _stream: StreamId) -> Option<()> {
        None
    }

    fn poll_transmit(&mut self, stream: StreamId, out: &mut Outbox) {
        let StreamId::Theirs(number) = stream else { return };
        let Some(answering) = self.streams.get_mut(&number) else { return };
        let before = out.len();
        out.append(&mut answering.out);
        // Events wait here rather than outside: here the oldest can go.
        if !answering.is_writing {
            while let Some(body) = answering.events.pop() {
                put_frame(out, &answering.request_id, &body);
            }
        }
        answering.weigh(&mut self.kept_bytes);
        answering.is_writing |= before < out.len();
    }

    fn writing(&self, stream: StreamId) -> Writing {
        let StreamId::Theirs(number) = stream else { return Writing::Reset(0) };
        match self.streams.get(&number) {
            _ if self.resets.contains(&number) => Writing::Reset(0),
            None => Writing::Finish,
            Some(stream) => match stream.job {
                Job::Answered if stream.events.is_empty() => Writing::Finish,
                _ => Writing::Open,
            },
        }
    }
}
