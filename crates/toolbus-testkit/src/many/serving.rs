//! The answering end: each stream that comes is a call, and news have streams of their own.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Down, Ended, Flow, Machine, Notice, Outbox, Serving, StreamId, StreamLost, Streams,
    Ticket, Up, Writing,
};
use toolbus_proto::frame::lines::Lines;

use super::{BROKE, CALL, Limits, NEWS, NO_STREAM, OK, STOPPING, TOOLS_CHANGED};
use crate::plain::wire::{self, SaysDown, SaysUp};

/// The answering end.
#[derive(Debug)]
pub struct Server {
    limits: Limits,
    streams: BTreeMap<StreamId, Stream>,
    next_news: u64,
    is_closing: bool,
    opening: VecDeque<StreamId>,
    ready: VecDeque<StreamId>,
    ups: VecDeque<(Ticket, Asked)>,
}

#[derive(Debug)]
struct Stream {
    stage: Stage,
    lines: Lines,
    out: Outbox,
    has_answer: bool,
    writing: Writing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Awaiting,
    Running,
    Over,
}

impl Server {
    /// Nobody has asked yet.
    pub fn new(limits: Limits) -> Server {
        Server {
            limits,
            streams: BTreeMap::new(),
            next_news: 0,
            is_closing: false,
            opening: VecDeque::new(),
            ready: VecDeque::new(),
            ups: VecDeque::new(),
        }
    }

    fn insert(&mut self, id: StreamId, stage: Stage, writing: Writing) -> &mut Stream {
        let lines = Lines::new(self.limits.line_bytes_max);
        let has_answer = writing == Writing::Open;
        let stream = Stream { stage, lines, out: Outbox::new(), has_answer, writing };
        self.streams.entry(id).or_insert(stream)
    }

    /// Ends a stream; a call that runs on it is cancelled.
    fn end(&mut self, id: StreamId, writing: Writing) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.writing = writing;
        if std::mem::replace(&mut stream.stage, Stage::Over) == Stage::Running {
            self.ups.push_back((ticket(id), Asked::Up(Up::Cancel(None))));
        }
        self.ready.push_back(id);
    }

    fn handle_line(&mut self, now: Instant, id: StreamId, line: &Bytes) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let asked = wire::read::<SaysUp>(line).and_then(|says| says.into_asked(now));
        match (stream.stage, asked) {
            (Stage::Awaiting, Some(asked @ Asked::Call(_))) => {
                stream.stage = Stage::Running;
                self.ups.push_back((ticket(id), asked));
            }
            (Stage::Running, Some(asked @ Asked::Up(_))) => self.ups.push_back((ticket(id), asked)),
            _ => self.end(id, Writing::Reset(BROKE)),
        }
    }

    fn flow(&self, id: StreamId) -> Flow {
        match self.streams.get(&id) {
            Some(stream) if stream.stage != Stage::Over => {
                match self.limits.queue_max <= self.ups.len() {
                    true => Flow::Pause,
                    false => Flow::More,
                }
            }
            _ => Flow::Close,
        }
    }
}

/// A call has the number of its stream.
fn ticket(id: StreamId) -> Ticket {
    match id {
        StreamId::Ours(number) | StreamId::Theirs(number) => Ticket(number),
    }
}

impl Machine for Server {
    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }
}

impl Streams for Server {
    type Opening = String;
    type Answer = String;

    fn handle_opened(&mut self, _now: Instant, id: StreamId, head: String) -> Flow {
        match head == CALL {
            _ if self.is_closing => self.insert(id, Stage::Over, Writing::Reset(STOPPING)),
            true => self.insert(id, Stage::Awaiting, Writing::Open),
            false => self.insert(id, Stage::Over, Writing::Reset(BROKE)),
        };
        self.flow(id)
    }

    fn handle_answered(&mut self, _now: Instant, id: StreamId, head: String) -> Flow {
        if head != OK {
            self.end(id, Writing::Reset(BROKE));
        }
        self.flow(id)
    }

    fn handle_bytes(&mut self, now: Instant, id: StreamId, input: &mut BytesMut) -> Flow {
        while self.flow(id) == Flow::More
            && let Some(stream) = self.streams.get_mut(&id)
        {
            match stream.lines.next(input) {
                Some(Ok(line)) => self.handle_line(now, id, &line),
                Some(Err(_)) => self.end(id, Writing::Reset(BROKE)),
                None => break,
            }
        }
        self.flow(id)
    }

    fn handle_eof(&mut self, now: Instant, id: StreamId, input: &mut BytesMut) -> Flow {
        match self.handle_bytes(now, id, input) {
            Flow::More => {}
            flow => return flow,
        }
        match self.streams.get(&id).map(|stream| stream.stage) {
            // The answer is owed.
            Some(Stage::Running) => Flow::Pause,
            _ => {
                self.end(id, Writing::Reset(BROKE));
                Flow::Close
            }
        }
    }

    fn handle_lost(&mut self, _now: Instant, id: StreamId, _why: StreamLost) {
        self.end(id, NO_STREAM);
    }

    fn handle_stopped(&mut self, _now: Instant, id: StreamId, _code: Option<u64>) {
        self.end(id, NO_STREAM);
    }

    fn handle_closed(&mut self, _now: Instant, id: StreamId) {
        self.end(id, NO_STREAM);
        self.streams.remove(&id);
    }

    fn poll_open(&mut self) -> Option<(StreamId, String)> {
        Some((self.opening.pop_front()?, NEWS.to_owned()))
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.ready.pop_front()
    }

    fn poll_answer(&mut self, id: StreamId) -> Option<String> {
        let stream = self.streams.get_mut(&id)?;
        std::mem::take(&mut stream.has_answer).then(|| OK.to_owned())
    }

    fn poll_transmit(&mut self, id: StreamId, out: &mut Outbox) {
        if let Some(stream) = self.streams.get_mut(&id) {
            out.append(&mut stream.out);
        }
    }

    fn writing(&self, id: StreamId) -> Writing {
        self.streams.get(&id).map_or(NO_STREAM, |stream| stream.writing)
    }
}

impl Serving for Server {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    fn down(&mut self, _now: Instant, ticket: Ticket, down: Down) -> Flow {
        let id = StreamId::Theirs(ticket.0);
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.stage == Stage::Running
        {
            wire::write(&mut stream.out, &SaysDown::of(&down));
            if let Down::Done(_) = down {
                stream.stage = Stage::Over;
                stream.writing = Writing::Finish;
            }
            self.ready.push_back(id);
        }
        self.flow(id)
    }

    fn tell(&mut self, _now: Instant, notice: &Notice) {
        if *notice == Notice::ToolsChanged {
            let id = StreamId::Ours(self.next_news);
            self.next_news += 1;
            let stream = self.insert(id, Stage::Over, Writing::Finish);
            stream.out.put(TOOLS_CHANGED);
            stream.out.put(b"\n");
            self.opening.push_back(id);
        }
    }

    fn close(&mut self, _now: Instant) {
        self.is_closing = true;
    }

    fn give_up(&mut self, _now: Instant) {
        let all: Vec<_> = self.streams.keys().copied().collect();
        all.into_iter().for_each(|id| self.end(id, Writing::Reset(STOPPING)));
    }

    fn ended(&self) -> Option<&Ended> {
        None
    }
}
