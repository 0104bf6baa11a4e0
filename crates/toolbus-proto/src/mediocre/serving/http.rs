//! The server over HTTP: each stream is an [`Exchange`], and they have one door (`docs/protocols/mediocre.md` §6).

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bytes::BytesMut;

use super::{Exchange, ServerSettings};
use crate::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, StreamId, StreamLost,
    Streams, Ticket, Writing,
};
use crate::http::{Admission, RequestHead, ResponseHead};
use crate::mediocre::frames::Random;
use crate::mediocre::http::{Refusal, Terms, admit};

/// How many calls may be under way at once; more are told to come back later.
const EXCHANGES_MAX: usize = 4096;

/// Our end of all exchanges at one path.
#[derive(Debug)]
pub struct HttpServer<C> {
    settings: ServerSettings,
    admission: Admission,
    path: String,
    chance: fn() -> C,
    /// By the number of the stream, which is that of the call too.
    exchanges: HashMap<u64, Exchange<C>>,
    /// Those that may have asked something.
    asking: VecDeque<u64>,
    ready: VecDeque<u64>,
    notices: VecDeque<Notice>,
    is_closing: bool,
    /// Nothing has to be looked at earlier; perhaps not even then.
    wake_at: Option<Instant>,
}

impl<C: Random> HttpServer<C> {
    /// Serves one path; `chance` is asked for each exchange.
    pub fn new(
        settings: ServerSettings,
        admission: Admission,
        path: String,
        chance: fn() -> C,
    ) -> HttpServer<C> {
        HttpServer {
            settings,
            admission,
            path,
            chance,
            exchanges: HashMap::new(),
            asking: VecDeque::new(),
            ready: VecDeque::new(),
            notices: VecDeque::new(),
            is_closing: false,
            wake_at: None,
        }
    }

    fn admit(&self, head: &RequestHead) -> Result<Terms, Refusal> {
        let terms = admit(&self.admission, &self.path, head)?;
        let busy = |why: &str| Err(Refusal::new(503, "unavailable", why));
        if self.is_closing {
            return busy("the server is stopping");
        }
        if EXCHANGES_MAX <= self.exchanges.len() {
            return busy(&format!("more than {EXCHANGES_MAX} calls are under way"));
        }
        Ok(terms)
    }

    /// Lets an exchange go on, and keeps what it wants in mind. One that is over is
    /// [`Flow::Close`].
    fn with(&mut self, number: u64, act: impl FnOnce(&mut Exchange<C>) -> Flow) -> Flow {
        let Some(exchange) = self.exchanges.get_mut(&number) else { return Flow::Close };
        let flow = act(exchange);
        while let Some(notice) = exchange.poll_notice() {
            self.notices.push_back(notice);
        }
        let earlier = [self.wake_at, exchange.poll_timeout()].into_iter().flatten().min();
        self.wake_at = earlier;
        if self.asking.back() != Some(&number) {
            self.asking.push_back(number);
        }
        flow
    }
}

/// The peer opens all streams.
fn number(stream: StreamId) -> u64 {
    match stream {
        StreamId::Ours(number) | StreamId::Theirs(number) => number,
    }
}

impl<C: Random> Machine for HttpServer<C> {
    fn handle_timeout(&mut self, now: Instant) {
        if self.wake_at.is_none_or(|at| now < at) {
            return;
        }
        for (number, exchange) in &mut self.exchanges {
            if exchange.poll_timeout().is_some_and(|at| at <= now) {
                exchange.handle_timeout(now);
                self.ready.push_back(*number);
            }
        }
        self.wake_at = self.exchanges.values().filter_map(Machine::poll_timeout).min();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wake_at
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl<C: Random> Streams for HttpServer<C> {
    type Opening = RequestHead;
    type Answer = ResponseHead;

    fn handle_opened(&mut self, now: Instant, stream: StreamId, head: RequestHead) -> Flow {
        let exchange = match self.admit(&head) {
            Ok(terms) => Exchange::new(now, self.settings, terms, (self.chance)())
                .visiting(head.visit().cloned()),
            Err(refusal) => Exchange::refused(now, self.settings, &refusal, (self.chance)()),
        };
        self.exchanges.insert(number(stream), exchange);
        self.with(number(stream), |exchange| exchange.flow())
    }

    fn handle_answered(&mut self, _now: Instant, _stream: StreamId, _head: ResponseHead) -> Flow {
        Flow::Close
    }

    fn handle_bytes(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        self.with(number(stream), |exchange| Channel::handle_bytes(exchange, now, input))
    }

    fn handle_eof(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        self.with(number(stream), |exchange| Channel::handle_eof(exchange, now, input))
    }

    /// Some clients still read an answer to a request that they cut short.
    fn handle_cut(
        &mut self,
        now: Instant,
        stream: StreamId,
        input: &mut BytesMut,
        _why: StreamLost,
    ) -> Flow {
        self.with(number(stream), |exchange| {
            Exchange::handle_cut(exchange);
            Channel::handle_eof(exchange, now, input)
        })
    }

    fn handle_lost(&mut self, _now: Instant, stream: StreamId, _why: StreamLost) {
        self.with(number(stream), Exchange::handle_gone);
    }

    fn handle_stopped(&mut self, _now: Instant, stream: StreamId, _code: Option<u64>) {
        self.with(number(stream), Exchange::handle_gone);
    }

    fn handle_sent(&mut self, now: Instant, stream: StreamId) {
        if let Some(exchange) = self.exchanges.get_mut(&number(stream)) {
            Channel::handle_sent(exchange, now);
        }
    }

    fn handle_closed(&mut self, _now: Instant, stream: StreamId) {
        self.exchanges.remove(&number(stream));
    }

    fn poll_open(&mut self) -> Option<(StreamId, RequestHead)> {
        None
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.ready.pop_front().map(StreamId::Theirs)
    }

    fn poll_answer(&mut self, stream: StreamId) -> Option<ResponseHead> {
        self.exchanges.get_mut(&number(stream))?.poll_answer()
    }

    fn poll_transmit(&mut self, stream: StreamId, out: &mut Outbox) {
        if let Some(exchange) = self.exchanges.get_mut(&number(stream)) {
            Channel::poll_transmit(exchange, out);
        }
    }

    fn writing(&self, stream: StreamId) -> Writing {
        match self.exchanges.get(&number(stream)) {
            None => Writing::Reset(0),
            Some(exchange) if exchange.is_complete() => Writing::Finish,
            Some(exchange) if exchange.is_finished() => Writing::BreakOff(0),
            Some(_) => Writing::Open,
        }
    }
}

impl<C: Random> Serving for HttpServer<C> {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        loop {
            let number = *self.asking.front()?;
            let asked = self.exchanges.get_mut(&number).and_then(Serving::poll_up);
            match asked {
                Some((_, asked)) => return Some((Ticket(number), asked)),
                None => self.asking.pop_front(),
            };
        }
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        self.ready.push_back(ticket.0);
        self.with(ticket.0, |exchange| exchange.down(now, ticket, down))
    }

    fn close(&mut self, _now: Instant) {
        self.is_closing = true;
    }

    fn ended(&self) -> Option<&Ended> {
        None
    }
}
