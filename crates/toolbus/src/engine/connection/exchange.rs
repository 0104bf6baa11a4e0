//! One call over HTTP: an exchange of its own in place of a connection.

use std::time::Instant;

use tokio::task::spawn_local;
use toolbus_proto::channel::{Calling, Channel};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::{Connection, Inner};
use crate::bus::back::{causes, hinted};
use crate::engine::calls::{ReplyTo, RunningCall, Sharing};
use crate::engine::exchange::{Asking, Exchanged, ask};
use crate::transport::http::{Answer, BodyError, BodySink, CallError, response};

/// A calling machine whose one call is an exchange.
pub(crate) trait Exchanging: Calling + Channel {
    /// The head to ask with.
    type Head;
    /// Begins the call it was given; `None` if nobody has to be asked.
    fn begin(&mut self) -> Option<Self::Head>;
    /// The head of the answer is there.
    fn handle_status(&mut self, status: u16);
    /// Is all of the call said?
    fn is_said(&self) -> bool;
}

/// Asks at once, in an exchange that `open` begins. Must be called inside a `LocalSet`.
pub(crate) fn exchange<C: Exchanging + 'static>(
    machine: C,
    call: Call,
    down: ReplyTo,
    open: impl FnOnce(C::Head) -> (BodySink, Answer),
) -> (Connection<C>, RunningCall) {
    let inner = Inner::new(machine, Sharing::Alone);
    let ticket = inner.slots.insert(down);
    inner.machine.borrow_mut().call(Instant::now(), ticket, call);
    let head = inner.machine.borrow_mut().begin();
    let uplink = RunningCall::new(inner.clone(), ticket);
    let exchange = head.map(open);
    let driven = inner.clone();
    let pump = spawn_local(async move {
        if let Some((sink, answer)) = exchange {
            ask(&*driven, sink, answer).await;
        }
        driven.end("the connection ended");
    });
    (Connection { inner, pump }, uplink)
}

impl<C: Exchanging> Exchanged for Inner<C> {
    /// Whether anything is missing is for the machine to say.
    fn cut(&self, _error: BodyError) {}

    fn is_complete(&self) -> bool {
        self.machine.borrow().is_said()
    }
}

impl<C: Exchanging> Asking for Inner<C> {
    fn answered(&self, head: &response::Parts) {
        self.machine.borrow_mut().handle_status(head.status.as_u16());
    }

    fn failed(&self, error: CallError) {
        let kind = match &error {
            CallError::Connect(_) | CallError::Host { .. } => FailureKind::Unavailable,
            #[cfg(feature = "tls")]
            CallError::Tls { .. } => FailureKind::Unavailable,
            CallError::TimedOut { .. } => FailureKind::TimedOut,
            CallError::Closed { .. } | CallError::Unfinished { .. } => FailureKind::Gone,
            CallError::NotHttp { .. } => FailureKind::BrokeProtocol,
        };
        let failure = hinted(Failure::new(kind, causes(&error)), error.hint());
        self.ended.borrow_mut().get_or_insert(failure);
    }
}
