//! The caller over HTTP: each call is an exchange with a machine of its own, and what is known
//! of the methods is known to all of them (`docs/protocols/mediocre.md` §6).

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};

use super::Client;
use crate::channel::{
    Calling, Channel, Down, Farewell, Fault, Flow, Goodbye, Machine, Notice, Outbox, Readiness,
    StreamId, StreamLost, Streams, Ticket, Up, Writing,
};
use crate::http::{RequestHead, ResponseHead};
use crate::mediocre::decode::Reading;
use crate::mediocre::frames::Random;
use crate::mediocre::methods::Methods;
use crate::tool::{Call, Failure, FailureKind, LastWords};

/// What is kept of an answer's beginning: enough to see that it is of another wire.
const SAID_BYTES_MAX: usize = 4 * 1024;

/// Our end of all exchanges with one server.
#[derive(Debug)]
pub struct HttpClient<C> {
    path: String,
    reading: Reading,
    /// As the server last told.
    methods: Methods,
    chance: fn() -> C,
    readiness: Readiness,
    /// By the number of the call, which is that of its stream too.
    exchanges: HashMap<u64, Exchange<C>>,
    /// Those that may have something to say.
    talking: VecDeque<u64>,
    opening: VecDeque<(u64, RequestHead)>,
    ready: VecDeque<u64>,
    notices: VecDeque<Notice>,
    /// Nothing has to be looked at earlier; perhaps not even then.
    wake_at: Option<Instant>,
}

/// One call.
#[derive(Debug)]
struct Exchange<C> {
    client: Client<C>,
    /// Why the server will not have got all of the request, if that is so.
    broke: Option<Failure>,
    /// How the answer begins, until it is known to be one of this wire.
    said: BytesMut,
}

impl<C: Random> HttpClient<C> {
    /// Calls go to `path`; `chance` is asked for each.
    pub fn new(
        path: String,
        reading: Reading,
        methods: Methods,
        chance: fn() -> C,
    ) -> HttpClient<C> {
        HttpClient {
            path,
            reading,
            methods,
            chance,
            readiness: Readiness::Open,
            exchanges: HashMap::new(),
            talking: VecDeque::new(),
            opening: VecDeque::new(),
            ready: VecDeque::new(),
            notices: VecDeque::new(),
            wake_at: None,
        }
    }

    /// Lets an exchange go on, and keeps what it wants in mind.
    fn with<T>(&mut self, number: u64, act: impl FnOnce(&mut Exchange<C>) -> T) -> Option<T> {
        let exchange = self.exchanges.get_mut(&number)?;
        let done = act(exchange);
        let client = &mut exchange.client;
        while let Some(notice) = client.poll_notice() {
            self.notices.push_back(notice);
        }
        if client.has_learned() {
            self.methods = client.methods().clone();
        }
        let earlier = [self.wake_at, client.poll_timeout()].into_iter().flatten().min();
        self.wake_at = earlier;
        if self.talking.back() != Some(&number) {
            self.talking.push_back(number);
        }
        Some(done)
    }
}

impl<C: Random> Exchange<C> {
    /// Keeps what has come since the last time; `input` may begin with what was there before.
    fn hear(&mut self, input: &[u8]) {
        if self.client.has_answered {
            return;
        }
        let received = self.client.decoder.offset() + input.len() as u64;
        let came = received.saturating_sub(self.client.received) as usize;
        let came = &input[input.len().saturating_sub(came)..];
        let room = SAID_BYTES_MAX.saturating_sub(self.said.len());
        self.said.put_slice(&came[..came.len().min(room)]);
    }

    /// What a caller is told, with what the server said if that was no answer of this wire.
    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        match self.client.poll_down()? {
            (ticket, Down::Done(Err(failure)))
                if failure.kind == FailureKind::BrokeProtocol && !self.client.has_answered =>
            {
                // A body is whole where it ends, whether a line ends there or not.
                self.said.put_u8(b'\n');
                let said: Bytes = self.said.split().freeze();
                let words = failure.last_words.as_deref().cloned().unwrap_or_default();
                let words = LastWords { is_unproven: true, said, ..words };
                Some((ticket, Down::Done(Err(failure.with_last_words(words)))))
            }
            down => Some(down),
        }
    }

    /// Callers that still wait will not be answered.
    fn end(&mut self, now: Instant) {
        let why = match (self.broke.take(), self.client.readiness()) {
            (Some(broke), _) => broke,
            (None, Readiness::Broken(fault)) => fault.failure.clone(),
            (None, _) => Failure::new(FailureKind::Gone, "the connection ended"),
        };
        Calling::handle_lost(&mut self.client, now, &why);
    }
}

/// We open all streams.
fn number(stream: StreamId) -> u64 {
    match stream {
        StreamId::Ours(number) | StreamId::Theirs(number) => number,
    }
}

impl<C: Random> Machine for HttpClient<C> {
    fn handle_timeout(&mut self, now: Instant) {
        if self.wake_at.is_none_or(|at| now < at) {
            return;
        }
        for (number, Exchange { client, .. }) in &mut self.exchanges {
            if client.poll_timeout().is_some_and(|at| at <= now) {
                client.handle_timeout(now);
                self.talking.push_back(*number);
                self.ready.push_back(*number);
            }
        }
        let clients = self.exchanges.values().map(|exchange| &exchange.client);
        self.wake_at = clients.filter_map(Machine::poll_timeout).min();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wake_at
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl<C: Random> Streams for HttpClient<C> {
    type Opening = RequestHead;
    type Answer = ResponseHead;

    fn handle_opened(&mut self, _now: Instant, _stream: StreamId, _head: RequestHead) -> Flow {
        Flow::Close
    }

    fn handle_answered(&mut self, _now: Instant, stream: StreamId, head: ResponseHead) -> Flow {
        let answered = self.with(number(stream), |exchange| {
            exchange.client.handle_status(head.status);
        });
        answered.map_or(Flow::Close, |()| Flow::More)
    }

    fn handle_bytes(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        let flow = self.with(number(stream), |exchange| {
            exchange.hear(input);
            Channel::handle_bytes(&mut exchange.client, now, input)
        });
        flow.unwrap_or(Flow::Close)
    }

    fn handle_eof(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        let flow = self.with(number(stream), |exchange| {
            exchange.hear(input);
            let flow = Channel::handle_eof(&mut exchange.client, now, input);
            if flow == Flow::Close {
                exchange.end(now);
            }
            flow
        });
        flow.unwrap_or(Flow::Close)
    }

    /// Whether anything is missing from an answer is for its machine to say.
    fn handle_cut(
        &mut self,
        now: Instant,
        stream: StreamId,
        input: &mut BytesMut,
        why: StreamLost,
    ) -> Flow {
        let is_answered = |exchange: &Exchange<C>| exchange.client.status().is_some();
        if self.exchanges.get(&number(stream)).is_some_and(is_answered) {
            return self.handle_eof(now, stream, input);
        }
        Streams::handle_lost(self, now, stream, why);
        Flow::Close
    }

    fn handle_lost(&mut self, now: Instant, stream: StreamId, why: StreamLost) {
        self.with(number(stream), |exchange| {
            exchange.broke.get_or_insert(why.failure);
            exchange.end(now);
        });
    }

    /// The answer may still come.
    fn handle_stopped(&mut self, _now: Instant, stream: StreamId, _code: Option<u64>) {
        if let Some(exchange) = self.exchanges.get_mut(&number(stream)) {
            let why = Failure::new(FailureKind::Gone, "the connection broke: broken pipe");
            exchange.broke.get_or_insert(why);
        }
    }

    fn handle_sent(&mut self, now: Instant, stream: StreamId) {
        self.with(number(stream), |exchange| Channel::handle_sent(&mut exchange.client, now));
    }

    fn handle_closed(&mut self, _now: Instant, stream: StreamId) {
        self.exchanges.remove(&number(stream));
    }

    fn poll_open(&mut self) -> Option<(StreamId, RequestHead)> {
        self.opening.pop_front().map(|(number, head)| (StreamId::Ours(number), head))
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.ready.pop_front().map(StreamId::Ours)
    }

    fn poll_answer(&mut self, _stream: StreamId) -> Option<ResponseHead> {
        None
    }

    fn poll_transmit(&mut self, stream: StreamId, out: &mut Outbox) {
        self.with(number(stream), |exchange| Channel::poll_transmit(&mut exchange.client, out));
    }

    fn writing(&self, stream: StreamId) -> Writing {
        let Some(Exchange { client, .. }) = self.exchanges.get(&number(stream)) else {
            return Writing::Reset(0);
        };
        match client.readiness() {
            Readiness::Broken(Fault { farewell: Farewell::Abrupt, .. }) => Writing::Reset(0),
            _ if client.is_said() => Writing::Finish,
            _ => Writing::Open,
        }
    }
}

impl<C: Random> Calling for HttpClient<C> {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        let methods = self.methods.clone();
        let mut client = Client::over_http(now, self.reading, methods, (self.chance)());
        client.call(now, ticket, call);
        if let Readiness::Broken(Fault { failure, .. }) = &self.readiness {
            Calling::handle_lost(&mut client, now, failure);
        }
        if let Some(head) = client.begin() {
            self.opening.push_back((ticket.0, head.head(&self.path)));
        }
        self.exchanges.insert(ticket.0, Exchange { client, broke: None, said: BytesMut::new() });
        self.with(ticket.0, |_| {});
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        self.ready.push_back(ticket.0);
        self.with(ticket.0, |exchange| exchange.client.up(now, ticket, up));
    }

    /// What is under way is still answered.
    fn close(&mut self, _now: Instant, _patience: Duration) -> Goodbye {
        Goodbye::Said
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        loop {
            let number = *self.talking.front()?;
            let down = self.exchanges.get_mut(&number).and_then(Exchange::poll_down);
            if down.is_some() {
                return down;
            }
            self.talking.pop_front();
            // Who was refused before it had a stream is forgotten at once.
            let is_refused = |exchange: &Exchange<C>| exchange.client.never_asked();
            if self.exchanges.get(&number).is_some_and(is_refused) {
                self.exchanges.remove(&number);
            }
        }
    }

    fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        Vec::new()
    }

    fn handle_lost(&mut self, now: Instant, why: &Failure) {
        self.readiness =
            Readiness::Broken(Fault { failure: why.clone(), farewell: Farewell::Abrupt });
        self.opening.clear();
        for (number, exchange) in &mut self.exchanges {
            Calling::handle_lost(&mut exchange.client, now, why);
            self.talking.push_back(*number);
            self.ready.push_back(*number);
        }
    }
}
