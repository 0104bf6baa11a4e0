//! One connection to a peer that answers: its streams, and what becomes of it.

use toolbus_proto::orchestra::{Client as Machine, ClientSettings};
use toolbus_proto::tool::{Call, Failure};

use super::ids::uuids;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::client::Client;
use crate::transport::quic::Connection;

/// Our asking end of one connection. Dropping it closes the connection and ends its calls.
pub struct Link {
    connection: Connection,
    client: Client<Machine>,
}

impl Link {
    /// Asks over `connection`; `name` is what the log calls the peer. Must be called inside a
    /// `LocalSet`.
    pub fn new(name: &str, connection: Connection, settings: ClientSettings) -> Link {
        let machine = Machine::new(settings, uuids());
        let client = Client::over(name, machine, connection.opener());
        Link { connection, client }
    }

    /// Asks, at once.
    pub fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.client.start(call, down)
    }

    /// Can calls go out?
    pub fn takes_calls(&self) -> bool {
        self.client.takes_calls() && !self.connection.is_closed()
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Its peer is gone, though the connection does not tell: ends it, and its calls.
    pub fn fail(&self, why: Failure) {
        self.client.fail(why);
        self.connection.close();
    }

    /// Waits until the connection is over, and tells why; its calls have ended by then.
    pub async fn closed(&self) -> Failure {
        let why = self.connection.closed().await;
        self.client.fail(why.clone());
        why
    }

    /// Waits until its peer has lost count of our streams: new calls belong on a further
    /// connection. One task at a time may wait, here or for its last answer.
    pub async fn starved(&self) {
        if !self.client.until(Machine::is_starved).await {
            std::future::pending::<()>().await;
        }
    }

    /// Leaves calls of which nothing is written to `further`, waits for the last answer and
    /// says goodbye.
    pub async fn leave_to(&self, further: &Link) {
        self.client.hand_over(|call, down| further.start(call, down));
        tokio::select! {
            _ = self.closed() => {}
            _ = self.client.until(Machine::is_idle) => self.connection.say_goodbye().await,
        }
    }
}
