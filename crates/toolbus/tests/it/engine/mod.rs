//! The engine in memory: a caller, two connections, two fronts and tools behind them.
//!
//! ```text
//! Inbox ─ Connection ═ cable ═ Front ─ Connection ═ cable ═ Front ─ Tools
//! ```

mod calls;
mod chance;
#[cfg(target_os = "linux")]
mod flood;
#[cfg(feature = "http")]
mod http;
mod many;
mod memory;
#[cfg(feature = "quic")]
mod quic;
mod slow;
mod tools;

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Instant;

use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use toolbus::bus::Route;
use toolbus_engine::calls::{Inbox, ReplyTo, RunningCall};
use toolbus_engine::client::{Client as Connection, Sharing};
use toolbus_engine::front::Front;
use toolbus_engine::transport::io::Sink;
use toolbus_proto::channel::{Down, Ended};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, Outcome, Part};
use toolbus_testkit::plain::{Client, Limits, Server};
use toolbus_testkit::runtime::run;

use tools::{Served, Tools};

/// A caller with tools behind two hops.
struct Chain {
    near: Connection<Client>,
    /// Kept, as a bus keeps its backs: a front that ends must not take them along.
    far: Rc<Over>,
    near_cable: Cable,
    far_cable: Cable,
    fronts: Vec<JoinHandle<Ended>>,
    tools: Rc<Tools>,
}

impl Chain {
    fn new(sharing: Sharing, buffer: usize) -> Chain {
        let tools = Tools::new();
        let (far, far_cable, far_front) = hop(sharing, buffer, Rc::new(Served(tools.clone())));
        let far = Rc::new(Over(far));
        let (near, near_cable, near_front) = hop(sharing, buffer, far.clone());
        Chain { near, far, near_cable, far_cable, fronts: vec![near_front, far_front], tools }
    }

    fn call(&self, call: Call) -> (Rc<Inbox>, RunningCall) {
        let (inbox, slot) = Inbox::new();
        let uplink = self.near.start(call, slot);
        (inbox, uplink)
    }

    async fn outcome(&self, call: Call) -> Result<Outcome, Failure> {
        let (inbox, uplink) = self.call(call);
        inbox.whole(uplink).await
    }

    /// Ends everything and waits until everybody has noticed.
    async fn end(self) -> Rc<Tools> {
        drop(self.near);
        self.near_cable.cut();
        self.far_cable.cut();
        for front in self.fronts {
            // Well, or ended by the test itself.
            assert!(front.await.map_or_else(|error| error.is_cancelled(), |_| true));
        }
        self.tools
    }
}

/// A connection, and a front at its other end that passes on to `route`.
fn hop(
    sharing: Sharing,
    buffer: usize,
    route: Rc<dyn Route>,
) -> (Connection<Client>, Cable, JoinHandle<Ended>) {
    let (cable, near, far) = Cable::new(buffer);
    let connection =
        Connection::new("peer", Client::new(Limits::default()), sharing, near.0, near.1);
    let front = Front::with_sharing(Server::new(Limits::default()), route, None, sharing);
    let serving = spawn_local(async move { front.serve(far.0, far.1).await });
    (connection, cable, serving)
}

/// Whoever answers at the other end of a connection.
struct Over(Connection<Client>);

impl Route for Over {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.0.start(call, down)
    }
}

/// Carries bytes both ways until it is cut.
struct Cable {
    there: JoinHandle<()>,
    back: JoinHandle<()>,
    cut: Rc<Cut>,
}

/// Tells writers that nobody reads any more, as a pipe does.
#[derive(Default)]
struct Cut {
    is_cut: Cell<bool>,
    told: Notify,
}

/// A way to write into a cable.
struct Plug(DuplexStream, Rc<Cut>);

type Ends = (DuplexStream, Plug);

impl Cable {
    fn new(buffer: usize) -> (Cable, Ends, Ends) {
        let (near_out, there_in) = duplex(buffer);
        let (there_out, far_in) = duplex(buffer);
        let (far_out, back_in) = duplex(buffer);
        let (back_out, near_in) = duplex(buffer);
        let cut = Rc::<Cut>::default();
        let near = (near_in, Plug(near_out, cut.clone()));
        let far = (far_in, Plug(far_out, cut.clone()));
        let there = spawn_local(carry(there_in, there_out));
        let back = spawn_local(carry(back_in, back_out));
        (Cable { there, back, cut }, near, far)
    }

    fn cut(&self) {
        self.there.abort();
        self.back.abort();
        self.cut.is_cut.set(true);
        self.cut.told.notify_waiters();
    }
}

impl Sink for Plug {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(pieces).await
    }

    async fn closed(&self) {
        let told = self.1.told.notified();
        if !self.1.is_cut.get() {
            told.await;
        }
    }
}

async fn carry(mut from: DuplexStream, mut to: DuplexStream) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

fn call(tool: &str, args: &str) -> Call {
    Call::tool(Instant::now(), tool, Some(json(args)))
}

/// A call whose input comes in parts.
fn stream(tool: &str, args: &str) -> Call {
    let mut call = call(tool, args);
    call.options.sends_parts = true;
    call
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn value(text: &str) -> Result<Outcome, Failure> {
    Ok(Outcome::Value(json(text)))
}

fn part(len: usize) -> Part {
    Part::Text("x".repeat(len))
}

fn is_done(down: &Down) -> bool {
    matches!(down, Down::Done(_))
}
