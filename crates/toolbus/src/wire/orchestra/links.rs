//! Calls over the connections to one peer: mostly one, and a further one beside it when the peer
//! has lost count of our streams.
//!
//! Who owns the links decides when to dial and which of them is used; here calls are carried,
//! and those that could not be sent move on to the next link.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::task::{AbortHandle, spawn_local};
use toolbus_proto::channel::Down;
use toolbus_proto::orchestra::{self, ClientSettings};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::uuids;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::client::Client;
use crate::transport::quic::Connection;

/// One connection, by a number that its owner gives.
pub(super) type LinkId = u64;

/// What happens to a link.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// The peer has lost count of our streams: calls need another link.
    Starved(LinkId),
    /// The last answer on a starved link is in.
    Idle(LinkId),
    /// The connection is gone, and its calls have failed.
    Lost(LinkId, Failure),
}

/// The links to one peer. Dropping it closes them and ends whatever calls they have.
pub(super) struct Links {
    this: Weak<Links>,
    name: String,
    settings: ClientSettings,
    happened: Box<dyn Fn(LinkEvent)>,
    links: RefCell<Vec<Link>>,
    used: Cell<Option<LinkId>>,
}

struct Link {
    id: LinkId,
    client: Rc<Client<orchestra::Client>>,
    connection: Connection,
    watching: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.watching.abort();
        self.connection.close();
    }
}

impl Links {
    /// No link yet. What happens to them is told to `happened`; `name` is what the log calls the
    /// peer.
    pub(super) fn new(
        name: &str,
        settings: ClientSettings,
        happened: impl Fn(LinkEvent) + 'static,
    ) -> Rc<Links> {
        Rc::new_cyclic(|this| Links {
            this: this.clone(),
            name: name.to_owned(),
            settings,
            happened: Box::new(happened),
            links: RefCell::default(),
            used: Cell::new(None),
        })
    }

    /// Calls go over this connection from now on; those that wait for a stream on the one before
    /// move here. Must be called inside a `LocalSet`.
    pub(super) fn add(&self, id: LinkId, connection: Connection) {
        let machine = orchestra::Client::new(self.settings.clone(), uuids());
        let client = Rc::new(Client::over(&self.name, machine, connection.opener()));
        let watch = watch(self.this.clone(), id, client.clone(), connection.clone());
        let watching = spawn_local(watch).abort_handle();
        let before = self.used.replace(Some(id));
        let before = self.client(before);
        self.links.borrow_mut().push(Link { id, client: client.clone(), connection, watching });
        if let Some(before) = before {
            before.hand_over(|call, reply| client.start(call, reply));
        }
    }

    /// Which link is used?
    pub(super) fn used(&self) -> Option<LinkId> {
        self.used.get()
    }

    /// Closes a link, with code 0.
    pub(super) fn close(&self, id: LinkId) {
        if self.used.get() == Some(id) {
            self.used.set(None);
        }
        let link = {
            let mut links = self.links.borrow_mut();
            links.iter().position(|link| link.id == id).map(|at| links.remove(at))
        };
        // Nothing is borrowed while its calls end.
        drop(link);
    }

    /// Closes all of them, and waits until the peer has been told.
    pub(super) async fn say_goodbye(&self) {
        let links = self.links.take();
        self.used.set(None);
        for link in &links {
            link.connection.say_goodbye().await;
        }
    }

    /// Asks, at once.
    pub(super) fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        match self.client(self.used.get()) {
            Some(client) => client.start(call, reply),
            None => {
                let failure = Failure::new(FailureKind::Unavailable, "not connected");
                let _ = reply.send(Down::Done(Err(failure)));
                RunningCall::ended()
            }
        }
    }

    fn client(&self, id: Option<LinkId>) -> Option<Rc<Client<orchestra::Client>>> {
        let links = self.links.borrow();
        links.iter().find(|link| Some(link.id) == id).map(|link| link.client.clone())
    }
}

/// Tells what happens to one link, to its end.
async fn watch(
    links: Weak<Links>,
    id: LinkId,
    client: Rc<Client<orchestra::Client>>,
    connection: Connection,
) {
    let tell = |event| {
        if let Some(links) = links.upgrade() {
            (links.happened)(event);
        }
    };
    let starving = async {
        if client.until(orchestra::Client::is_starved).await {
            tell(LinkEvent::Starved(id));
        }
        let is_left = || links.upgrade().is_some_and(|links| links.used.get() != Some(id));
        if client.until(|machine| is_left() && machine.is_idle()).await {
            tell(LinkEvent::Idle(id));
        }
        std::future::pending::<()>().await;
    };
    let failure = tokio::select! {
        failure = connection.closed() => failure,
        () = starving => return,
    };
    client.fail(failure.clone());
    // Dropped before its owner is told, who may open another in its place.
    drop((client, connection));
    if let Some(links) = links.upgrade() {
        if links.used.get() == Some(id) {
            links.used.set(None);
        }
        let link = {
            let mut open = links.links.borrow_mut();
            open.iter().position(|link| link.id == id).map(|at| open.remove(at))
        };
        // Aborts this task, which has no await left.
        drop(link);
        (links.happened)(LinkEvent::Lost(id, failure));
    }
}
