//! The same over HTTP/1.1 and HTTP/2, on one port: each exchange is one call.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tokio::task::spawn_local;
use toolbus_proto::channel::Outbox;
use toolbus_proto::mediocre::Exchange as Machine;
use toolbus_proto::mediocre::frames::Random;
use toolbus_proto::mediocre::http::{self, AnswerHead, Refusal};

use super::{Mediocre, STOP_PATIENCE};
use crate::chance::OsRandom;
use crate::engine::calls::Sharing;
use crate::engine::exchange::{Answering, Exchanged, answer};
use crate::engine::front::{CancelAll, Front};
use crate::transport::Listener;
use crate::transport::http::{
    BodyError, Exchange, HeaderName, HeaderValue, Limits, Response, Server, StatusCode,
};

/// How many calls may be under way at once; more are told to come back later.
const EXCHANGES_MAX: usize = 4096;

impl Mediocre {
    /// Serves whoever calls by HTTP at `path`, until it is told to stop and the last call is
    /// over.
    pub async fn listen_http(&self, listener: Listener, path: &str) {
        let settings = &self.settings;
        let limits = Limits {
            first_byte_timeout: settings.idle_timeout,
            idle_timeout: settings.idle_timeout,
            write_timeout: settings.call_timeout,
            drain_bytes_max: usize::try_from(settings.drain_bytes_max).unwrap_or(usize::MAX),
            drain_timeout: settings.drain_timeout,
            ..Limits::default()
        };
        let site =
            Rc::new(Site { server: self.clone(), path: path.to_owned(), under_way: Cell::new(0) });
        let server = Server::start(listener, limits, move |exchange| {
            spawn_local(site.clone().welcome(exchange));
        });
        self.stopped().await;
        server.shutdown(STOP_PATIENCE).await;
    }
}

/// One path of one listener.
struct Site {
    server: Mediocre,
    path: String,
    under_way: Cell<usize>,
}

impl Site {
    async fn welcome(self: Rc<Site>, exchange: Exchange) {
        let terms = match self.admit(&exchange) {
            Ok(terms) => terms,
            Err(refusal) => return refuse(exchange, &refusal),
        };
        let _under_way = UnderWay::new(&self.under_way);
        let Mediocre { route, settings, .. } = &self.server;
        let machine = Machine::new(Instant::now(), *settings, terms, OsRandom::new());
        // The machine itself says how long its call may be quiet.
        let front = Front::with_sharing(machine, route.clone(), None, Sharing::Alone);
        let _cancels = CancelAll(&*front);
        answer(&*front, exchange).await;
    }

    fn admit(&self, exchange: &Exchange) -> Result<http::Terms, Refusal> {
        let head = &exchange.head;
        let field = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let request =
            http::Request { method: head.method.as_str(), path: head.uri.path(), field: &field };
        let terms = http::admit(&self.path, &request)?;
        let busy = |why: &str| Err(Refusal::new(503, "unavailable", why));
        if *self.server.is_stopping.borrow() {
            return busy("the server is stopping");
        }
        if EXCHANGES_MAX <= self.under_way.get() {
            return busy(&format!("more than {EXCHANGES_MAX} calls are under way"));
        }
        Ok(terms)
    }
}

/// Answers with a status. What is left of the request is the transport's to throw away.
fn refuse(exchange: Exchange, refusal: &Refusal) {
    let mut out = Outbox::new();
    let head = refusal.write(&mut out);
    exchange.responder.respond_whole(response(&head).map(|()| out.take()));
}

fn response(head: &AnswerHead) -> Response<()> {
    let mut response = Response::new(());
    // All that are ever said are known.
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or_default();
    for (name, value) in head.fields() {
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(value)) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

impl<C: Random + 'static> Exchanged for Front<Machine<C>> {
    fn cut(&self, _error: BodyError) {
        self.machine.borrow_mut().handle_cut();
    }

    fn is_complete(&self) -> bool {
        self.machine.borrow().is_complete()
    }
}

impl<C: Random + 'static> Answering for Front<Machine<C>> {
    fn head(&self) -> Response<()> {
        response(&self.machine.borrow().answer())
    }
}

/// An exchange is counted as long as this lives.
struct UnderWay<'a>(&'a Cell<usize>);

impl UnderWay<'_> {
    fn new(count: &Cell<usize>) -> UnderWay<'_> {
        count.set(count.get() + 1);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
