//! Calls over HTTP: each is an exchange of its own (`specs` §6).
//!
//! The transport keeps the connections, at most sixteen; further calls wait there, within
//! their deadlines.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use toolbus_proto::channel::Down;
use toolbus_proto::mediocre::frames::Random;
use toolbus_proto::mediocre::http::RequestHead;
use toolbus_proto::mediocre::{self, Methods, Reading};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::Options;
use super::pool::{CONNECTIONS_MAX, IDLE, STOP_PATIENCE, WAITING_MAX};
use crate::chance::OsRandom;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::connection::{Exchanging, exchange};
use crate::transport::http::{
    Client, HeaderName, HeaderValue, Method, Origin, Request, Timeouts, Uri,
};

/// The exchanges with one server.
pub(super) struct Exchanges {
    client: Client,
    path: Uri,
    name: String,
    reading: Reading,
    /// As the server last told.
    methods: Rc<RefCell<Methods>>,
    /// How long connecting may take.
    patience: Duration,
    running: RefCell<JoinSet<()>>,
    is_closed: Cell<bool>,
}

impl Exchanges {
    pub(super) fn new(origin: Origin, path: Uri, options: Options, patience: Duration) -> Self {
        let Options { name, reading, methods } = options;
        Exchanges {
            client: Client::new(origin, CONNECTIONS_MAX, IDLE),
            path,
            name,
            reading,
            methods: Rc::new(RefCell::new(methods)),
            patience,
            running: RefCell::default(),
            is_closed: Cell::new(false),
        }
    }

    pub(super) fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let mut running = self.running.borrow_mut();
        while running.try_join_next().is_some() {}
        let refused = if self.is_closed.get() {
            Some((FailureKind::Cancelled, format!("`{}` is being left", self.name)))
        } else if CONNECTIONS_MAX + WAITING_MAX <= running.len() {
            let message = format!("more than {WAITING_MAX} calls wait for `{}`", self.name);
            Some((FailureKind::Unavailable, message))
        } else {
            None
        };
        if let Some((kind, message)) = refused {
            drop(running);
            let _ = down.send(Down::Done(Err(Failure::new(kind, message))));
            return RunningCall::ended();
        }
        let methods = self.methods.borrow().clone();
        let machine =
            mediocre::Client::over_http(Instant::now(), self.reading, methods, OsRandom::new());
        let timeouts = Timeouts { connect: self.patience, head: None };
        let open = |head: RequestHead| self.client.start(self.request(&head), timeouts);
        let (connection, uplink) = exchange(machine, call, down, open);
        let methods = self.methods.clone();
        running.spawn_local(async move {
            connection.until(mediocre::Client::is_answered).await;
            *methods.borrow_mut() = connection.ask(|caller| caller.methods().clone());
            connection.over().await;
        });
        uplink
    }

    fn request(&self, head: &RequestHead) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        for (name, value) in head.fields() {
            // A trace may be spelled in ways that no header can be.
            if let Ok(value) = HeaderValue::from_str(&value) {
                request.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        request
    }

    /// Waits a moment for what is under way to be read to its end; what is left is closed.
    pub(super) async fn shutdown(&self) {
        let mut running = self.close();
        let all = async { while running.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(STOP_PATIENCE, all).await;
        running.shutdown().await;
    }

    /// Takes no call any more; dropping what it gives ends those under way.
    pub(super) fn close(&self) -> JoinSet<()> {
        self.is_closed.set(true);
        self.running.take()
    }
}

impl<C: Random> Exchanging for mediocre::Client<C> {
    type Head = RequestHead;

    fn begin(&mut self) -> Option<RequestHead> {
        mediocre::Client::begin(self)
    }

    fn handle_status(&mut self, status: u16) {
        mediocre::Client::handle_status(self, status);
    }

    fn is_said(&self) -> bool {
        mediocre::Client::is_said(self)
    }
}
