//! The same over HTTP/1.1 and HTTP/2, on one port: each exchange is one call.

use toolbus_proto::http::Admission;
use toolbus_proto::mediocre::HttpServer;

use super::Mediocre;
use crate::chance::OsRandom;
use crate::engine::front::Front;
use crate::transport::Listener;
use crate::transport::http::{Limits, Server, garbled};

impl Mediocre {
    /// Serves every caller that is let in by HTTP at `path`, until it is told to stop and the
    /// last call is over.
    pub async fn listen_http(&self, listener: Listener, path: &str, admission: Admission) {
        let settings = &self.settings;
        let limits = Limits {
            first_byte_timeout: settings.idle_timeout,
            idle_timeout: settings.idle_timeout,
            write_timeout: settings.call_timeout,
            drain_bytes_max: usize::try_from(settings.drain_bytes_max).unwrap_or(usize::MAX),
            drain_timeout: settings.drain_timeout,
            ..Limits::default()
        };
        let machine = HttpServer::new(*settings, admission, path.to_owned(), OsRandom::new);
        // The machine itself says how long its calls may be quiet.
        let front = Front::over_many(machine, self.route.clone(), None);
        let welcomed = front.clone();
        let server = Server::start(listener, limits, move |exchange| {
            let (head, body, writer) = exchange.into_stream(garbled);
            welcomed.welcome(head, body, writer);
        });
        let stopping = async {
            let patience = self.stopped().await;
            tokio::join!(server.shutdown(patience), front.finish(patience));
        };
        tokio::select! {
            () = stopping => {}
            () = front.run() => {}
        }
    }
}
