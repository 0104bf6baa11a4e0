//! Moves what an endpoint asks to the route, what comes back to the endpoint, and what it
//! says to whoever waits for it.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use toolbus_proto::channel::{Asked, Down, Notice, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::http::{Answer, Endpoint, ExchangeId, Head, Write};
use toolbus_proto::tool::Call;

use crate::bus::Route;
use crate::engine::calls::{Asker, Pressure, ReplyTo, RunningCall};
use crate::engine::drive::until;
use crate::engine::wake::Wake;
use crate::transport::http::{
    BodyError, BodySink, Exchange, HeaderName, HeaderValue, Method, Responder, Response,
    StatusCode, request,
};

/// How long a client may pause within a body.
const BODY_SILENCE: Duration = Duration::from_secs(30);

/// An endpoint, the calls it has under way, and the exchanges it has not answered to the end.
pub(super) struct Site {
    this: Weak<Site>,
    endpoint: RefCell<Endpoint>,
    route: Rc<dyn Route>,
    timeout: Option<Duration>,
    /// The calls under way; `None` until the route has given its uplink.
    running: RefCell<HashMap<Ticket, Option<Rc<RunningCall>>>>,
    exchanges: RefCell<HashMap<ExchangeId, Open>>,
    /// Streams whose readers are slow, and the calls that wait for them.
    slow: RefCell<HashMap<ExchangeId, Vec<Ticket>>>,
    /// The latest progress of calls that wait.
    progress: RefCell<HashMap<Ticket, Down>>,
    next_exchange: Cell<u64>,
    wake: Wake,
    /// Rung when an exchange is answered to its end.
    answered: Wake,
}

/// An exchange that is not answered to the end.
struct Open {
    way: Way,
    /// Somebody waits for an answer, and does not only listen.
    is_owed: bool,
    /// Dropped with it: whoever waits for the client to leave need not any longer.
    _open: oneshot::Sender<()>,
}

enum Way {
    /// Nothing has been said.
    Waiting(Responder),
    Streaming(BodySink),
}

impl Site {
    pub(super) fn new(
        endpoint: Endpoint,
        route: Rc<dyn Route>,
        timeout: Option<Duration>,
    ) -> Rc<Site> {
        Rc::new_cyclic(|this| Site {
            this: this.clone(),
            endpoint: RefCell::new(endpoint),
            route,
            timeout,
            running: RefCell::default(),
            exchanges: RefCell::default(),
            slow: RefCell::default(),
            progress: RefCell::default(),
            next_exchange: Cell::new(1),
            wake: Wake::default(),
            answered: Wake::default(),
        })
    }

    /// Somebody asks. Answers in a task of its own.
    pub(super) fn welcome(self: Rc<Site>, exchange: Exchange) {
        spawn_local(async move { self.answer(exchange).await });
    }

    /// Keeps time, and does what calls and their replies have left to do.
    pub(super) async fn run(&self) {
        loop {
            self.go_on();
            let timeout = self.endpoint.borrow().poll_timeout();
            tokio::select! {
                () = self.wake.rung() => {}
                () = until(timeout) => self.endpoint.borrow_mut().handle_timeout(Instant::now()),
            }
        }
    }

    /// Something changed behind us; whoever wants to know is told.
    pub(super) fn tell(&self, notice: &Notice) {
        self.endpoint.borrow_mut().tell(Instant::now(), notice);
        self.go_on();
        self.wake.ring();
    }

    /// Waits so long for what is under way, then ends all that is left.
    pub(super) async fn finish(&self, patience: Duration) {
        self.endpoint.borrow_mut().close(Instant::now());
        self.go_on();
        let idle = async {
            while self.exchanges.borrow().values().any(|open| open.is_owed) {
                self.answered.rung().await;
            }
        };
        let _ = tokio::time::timeout(patience, idle).await;
        self.cancel_all();
        for (_, Open { way, .. }) in self.exchanges.take() {
            match way {
                Way::Waiting(responder) => respond_status(responder, 503),
                Way::Streaming(sink) => sink.end(),
            }
        }
    }

    /// Ends what is under way: nobody waits for it any more.
    pub(super) fn cancel_all(&self) {
        // Nothing stays borrowed while it is dropped, which is what cancels it.
        let running = self.running.take();
        drop(running);
        self.progress.take();
    }

    async fn answer(&self, exchange: Exchange) {
        let Exchange { head: parts, mut body, responder, .. } = exchange;
        let headers = headers(&parts);
        let headers = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        let head = Head { method: parts.method.as_str(), path: parts.uri.path(), headers };
        let gate = self.endpoint.borrow().gate().clone();
        if let Err(answer) = gate.admit(&head) {
            return responder.respond_whole(response(answer));
        }
        let body = match body.collect(gate.body_bytes_max, BODY_SILENCE).await {
            Ok(body) => body,
            Err(BodyError::TooLarge { .. }) => {
                return responder.respond_whole(response(gate.too_long()));
            }
            Err(BodyError::Silent { .. }) => return respond_status(responder, 408),
            // Whoever sent half of it does not wait for an answer.
            Err(BodyError::Cut { .. }) => return,
        };
        let id = ExchangeId(self.next_exchange.get());
        self.next_exchange.set(id.0 + 1);
        let (open, over) = oneshot::channel();
        let gone = responder.gone();
        let is_owed = parts.method == Method::POST;
        let open = Open { way: Way::Waiting(responder), is_owed, _open: open };
        self.exchanges.borrow_mut().insert(id, open);
        self.endpoint.borrow_mut().handle_request(Instant::now(), id, &head, &body);
        self.go_on();
        // When to wake next may have changed.
        self.wake.ring();
        tokio::select! {
            _ = over => {}
            () = gone => self.lose(id),
        }
        self.answered.ring();
    }

    /// The client of an exchange went away.
    fn lose(&self, exchange: ExchangeId) {
        let lost = self.exchanges.borrow_mut().remove(&exchange);
        drop(lost);
        self.endpoint.borrow_mut().handle_gone(Instant::now(), exchange);
        self.go_on();
        self.wake.ring();
    }

    /// Passes on what the endpoint was asked, and writes what it says. Nothing stays borrowed
    /// meanwhile: a call may be answered before it has been started.
    fn go_on(&self) {
        loop {
            let asked = self.endpoint.borrow_mut().poll_up();
            let Some((ticket, asked)) = asked else { break };
            match asked {
                Asked::Call(call) => self.start(ticket, call),
                Asked::Up(Up::Cancel(why)) => self.cancel(ticket, why),
                Asked::Up(up) => {
                    let uplink = self.running.borrow().get(&ticket).cloned().flatten();
                    // Answers to questions are small and few, whoever takes them.
                    let _ = uplink.map(|uplink| uplink.send(up));
                }
            }
        }
        self.write();
        while let Some(notice) = self.endpoint.borrow_mut().poll_notice() {
            tracing::debug!("{notice:?}");
        }
    }

    fn start(&self, ticket: Ticket, mut call: Call) {
        let Some(this) = self.this.upgrade() else { return };
        call.deadline.quiet = call.deadline.quiet.or(self.timeout);
        self.running.borrow_mut().insert(ticket, None);
        let uplink = self.route.start(call, ReplyTo::new(this, ticket));
        match self.running.borrow_mut().get_mut(&ticket) {
            Some(place) => *place = Some(Rc::new(uplink)),
            None => uplink.forget(),
        }
    }

    fn cancel(&self, ticket: Ticket, why: Option<Json>) {
        if let Some(uplink) = self.end(ticket) {
            uplink.cancel(why);
        }
    }

    /// The call is over, or as good as.
    fn end(&self, ticket: Ticket) -> Option<RunningCall> {
        self.progress.borrow_mut().remove(&ticket);
        let uplink = self.running.borrow_mut().remove(&ticket);
        uplink.flatten().and_then(Rc::into_inner)
    }

    /// Writes what the endpoint says; gives the streams that have no room for more.
    fn write(&self) -> Vec<ExchangeId> {
        let mut full = Vec::new();
        loop {
            let write = self.endpoint.borrow_mut().poll_write();
            let Some((id, write)) = write else { return full };
            // Whoever is gone is not written to.
            let Some(mut open) = self.exchanges.borrow_mut().remove(&id) else { continue };
            open.way = match (write, open.way) {
                (Write::Whole(answer), Way::Waiting(responder)) => {
                    responder.respond_whole(response(answer));
                    continue;
                }
                (Write::Begin(answer), Way::Waiting(responder)) => {
                    Way::Streaming(responder.respond(response(answer).map(|_| ())))
                }
                (Write::Piece(piece), Way::Streaming(sink)) => {
                    if sink.send(&piece) == Pressure::Full && !full.contains(&id) {
                        full.push(id);
                    }
                    Way::Streaming(sink)
                }
                (Write::End, Way::Streaming(sink)) => {
                    sink.end();
                    continue;
                }
                (_, way) => way,
            };
            self.exchanges.borrow_mut().insert(id, open);
        }
    }

    /// What a call says was written to a stream whose reader is slow.
    fn hold(&self, ticket: Ticket, stream: ExchangeId) {
        let mut slow = self.slow.borrow_mut();
        let waiting = slow.entry(stream).or_default();
        if waiting.is_empty()
            && let Some(this) = self.this.upgrade()
        {
            spawn_local(async move {
                poll_fn(|context| this.poll_room(context, stream)).await;
                this.release(stream);
            });
        }
        if !waiting.contains(&ticket) {
            waiting.push(ticket);
        }
    }

    fn poll_room(&self, context: &mut Context<'_>, stream: ExchangeId) -> Poll<()> {
        match self.exchanges.borrow().get(&stream) {
            Some(Open { way: Way::Streaming(sink), .. }) => pin!(sink.room()).poll(context),
            _ => Poll::Ready(()),
        }
    }

    fn release(&self, stream: ExchangeId) {
        let waited = self.slow.borrow_mut().remove(&stream).unwrap_or_default();
        for ticket in waited {
            let progress = self.progress.borrow_mut().remove(&ticket);
            let _ = progress.map(|progress| self.receive(ticket, progress));
            let uplink = self.running.borrow().get(&ticket).cloned().flatten();
            if let Some(uplink) = uplink {
                uplink.resume();
            }
        }
    }

    fn is_held(&self, ticket: Ticket) -> bool {
        self.slow.borrow().values().any(|waiting| waiting.contains(&ticket))
    }
}

impl Asker for Site {
    fn receive(&self, ticket: Ticket, down: Down) -> Pressure {
        if !self.running.borrow().contains_key(&ticket) {
            return Pressure::Ready;
        }
        if matches!(down, Down::Progress(_)) && self.is_held(ticket) {
            self.progress.borrow_mut().insert(ticket, down);
            return Pressure::Ready;
        }
        let is_done = matches!(down, Down::Done(_));
        self.endpoint.borrow_mut().down(Instant::now(), ticket, down);
        let full = self.write();
        // It may ask for more, and has to be woken at another time.
        self.wake.ring();
        if is_done {
            if let Some(uplink) = self.end(ticket) {
                uplink.forget();
            }
            return Pressure::Ready;
        }
        for stream in &full {
            self.hold(ticket, *stream);
        }
        if full.is_empty() { Pressure::Ready } else { Pressure::Full }
    }

    fn resume(&self, _ticket: Ticket) {}
}

/// All headers, and over HTTP/2 the host, which is none there. What is not text stays there,
/// garbled: nobody may pass a check by being unreadable.
fn headers(parts: &request::Parts) -> Vec<(&str, Cow<'_, str>)> {
    let host = parts.uri.authority().map(|host| ("host", Cow::from(host.as_str())));
    let text = |value| String::from_utf8_lossy(HeaderValue::as_bytes(value));
    let headers = parts.headers.iter().map(|(name, value)| (name.as_str(), text(value)));
    host.into_iter().chain(headers).collect()
}

fn response(answer: Answer) -> Response<Bytes> {
    let mut response = Response::new(answer.body);
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::try_from(value)
            && let Ok(name) = name.parse::<HeaderName>()
        {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn respond_status(responder: Responder, status: u16) {
    let answer = Answer { status, headers: Vec::new(), body: Bytes::new() };
    responder.respond_whole(response(answer));
}
