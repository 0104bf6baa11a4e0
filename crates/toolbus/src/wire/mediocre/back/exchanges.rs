//! Calls over HTTP: each is an exchange of its own (`docs/protocols/mediocre.md` §6).
//!
//! The transport keeps the connections, at most sixteen; further calls wait there, within
//! their deadlines.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::channel::Down;
use toolbus_proto::mediocre::HttpClient;
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::{LIMITS, Options};
use crate::chance::OsRandom;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::client::Client;
use crate::transport::http::{Client as Transport, HttpOpener, Timeouts};
use crate::wire::mediocre::reach::Site;

/// The exchanges with one server.
pub(super) struct Exchanges {
    name: String,
    /// `None` once it is left.
    client: RefCell<Option<Rc<Client<HttpClient<OsRandom>>>>>,
}

impl Exchanges {
    /// Connecting may take as long as `patience`. Must be called inside a `LocalSet`.
    pub(super) fn new(site: Site, options: Options, patience: Duration) -> Self {
        let Site { origin, path, headers } = site;
        let Options { name, reading, methods, .. } = options;
        let machine = HttpClient::new(path.to_string(), reading, methods, OsRandom::new);
        let opener = HttpOpener {
            client: Transport::new(origin, LIMITS.kept_max, LIMITS.idle),
            timeouts: Timeouts { connect: patience, head: None },
            headers,
        };
        let client = Client::over(&name, machine, opener);
        Exchanges { name, client: RefCell::new(Some(Rc::new(client))) }
    }

    pub(super) fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        // Nothing stays borrowed: who is refused may close us at once.
        let client = self.client.borrow().clone();
        let failure = match &client {
            Some(client) if client.streams() < LIMITS.kept_max + LIMITS.waiting_max => {
                return client.start(call, down);
            }
            Some(_) => {
                let waiting_max = LIMITS.waiting_max;
                let message = format!("more than {waiting_max} calls wait for `{}`", self.name);
                Failure::new(FailureKind::Unavailable, message)
            }
            None => {
                let message = format!("`{}` is being left", self.name);
                Failure::new(FailureKind::Cancelled, message)
            }
        };
        let _ = down.send(Down::Done(Err(failure)));
        RunningCall::ended()
    }

    /// Waits a moment for what is under way to be read to its end; what is left is closed.
    pub(super) async fn shutdown(&self) {
        let client = self.client.take();
        if let Some(client) = client {
            let _ = tokio::time::timeout(LIMITS.stop, client.close()).await;
        }
    }

    /// Takes no call any more, and ends those under way.
    pub(super) fn close(&self) {
        drop(self.client.take());
    }
}
