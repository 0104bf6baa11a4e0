//! Calls over the connections to one peer: mostly one, and a further one beside it when the peer
//! has lost count of our streams.
//!
//! Who owns the links decides when to dial and which of them is used; here calls are carried,
//! and those that could not be sent move on to the next link.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::task::AbortHandle;
use toolbus_proto::channel::Down;
use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::link::{Link, LinkNews};
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::task::spawn_local;
use crate::transport::quic::Connection;

/// One connection, by a number that its owner gives.
pub(super) type LinkId = u64;

/// What happens to a link.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// The peer has lost count of our streams: calls need another link.
    Starved(LinkId),
    /// The last answer on a link that was left is in, and it is closed.
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
    open: RefCell<Vec<Open>>,
    used: Cell<Option<LinkId>>,
}

struct Open {
    id: LinkId,
    link: Rc<Link>,
    watching: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.watching.abort();
        self.link.connection().close();
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
            open: RefCell::default(),
            used: Cell::new(None),
        })
    }

    /// Calls go over this connection from now on. One that was used before is left: what waits
    /// for a stream there moves here. Must be called inside a `LocalSet`.
    pub(super) fn add(&self, id: LinkId, connection: Connection) {
        let link = Rc::new(Link::new(&self.name, connection, self.settings.clone()));
        let watching = spawn_local(watch(self.this.clone(), id, link.clone())).abort_handle();
        let before = self.used.replace(Some(id));
        if let Some(before) = self.open.borrow_mut().iter_mut().find(|it| Some(it.id) == before) {
            before.watching.abort();
            let leaving = leave(self.this.clone(), before.id, before.link.clone(), link.clone());
            before.watching = spawn_local(leaving).abort_handle();
        }
        self.open.borrow_mut().push(Open { id, link, watching });
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
        let closed = {
            let mut open = self.open.borrow_mut();
            open.iter().position(|it| it.id == id).map(|at| open.remove(at))
        };
        // Nothing is borrowed while its calls end.
        drop(closed);
    }

    /// Closes all of them, and waits until the peer has been told.
    pub(super) async fn say_goodbye(&self) {
        let open = self.open.take();
        self.used.set(None);
        for Open { link, .. } in &open {
            link.connection().say_goodbye().await;
        }
    }

    /// Asks, at once.
    pub(super) fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        let used = self.used.get();
        let link = {
            let open = self.open.borrow();
            open.iter().find(|it| Some(it.id) == used).map(|it| it.link.clone())
        };
        match link {
            Some(link) => link.start(call, reply),
            None => {
                let failure = Failure::new(FailureKind::Unavailable, "not connected");
                let _ = reply.send(Down::Done(Err(failure)));
                RunningCall::ended()
            }
        }
    }

    fn tell(this: &Weak<Links>, event: LinkEvent) {
        if let Some(links) = this.upgrade() {
            (links.happened)(event);
        }
    }
}

/// Tells what becomes of a link.
async fn watch(links: Weak<Links>, id: LinkId, link: Rc<Link>) {
    if let LinkNews::Lost(failure) = link.news().await {
        return lost(&links, id, failure);
    }
    Links::tell(&links, LinkEvent::Starved(id));
    // Until there is another it goes on as it is.
    let failure = link.connection().closed().await;
    link.fail(failure.clone());
    lost(&links, id, failure);
}

/// Leaves a link when its last answer is in.
async fn leave(links: Weak<Links>, id: LinkId, link: Rc<Link>, further: Rc<Link>) {
    link.leave_to(&further).await;
    drop((link, further));
    Links::tell(&links, LinkEvent::Idle(id));
    if let Some(links) = links.upgrade() {
        links.close(id);
    }
}

fn lost(links: &Weak<Links>, id: LinkId, failure: Failure) {
    if let Some(links) = links.upgrade() {
        // Aborts the task that we are in, which waits for nothing any more.
        links.close(id);
        (links.happened)(LinkEvent::Lost(id, failure));
    }
}
