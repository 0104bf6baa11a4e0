//! A bus on a thread of its own, used from anywhere.
//!
//! The thread is kept in `thread.rs`; here is what others hold of it. Calls go there by one
//! queue, replies come back by a channel for each call, and who finds the other end of one
//! closed knows that the bus is gone.

mod blocking;
mod thread;

use std::pin::Pin;
use std::sync::Arc;
use std::thread::ThreadId;

use serde::Serialize;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use toolbus_proto::channel::Down;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolName, ToolSpec};

use super::{BuildError, BusBuilder, Event, Reply, Request};

pub use blocking::BlockingBus;

/// What may wait for the thread of the bus; further calls wait before they are sent.
const ORDERS_MAX: usize = 1024;
/// What may wait for the reader of a reply; the tool waits then.
const EVENTS_MAX: usize = 4;

/// A bus on a thread of its own. Cheap to clone, and usable from any thread, inside and outside
/// of any runtime.
///
/// The bus goes with the last handle: all backs are told goodbye, and programs end. Dropping
/// does not wait for that, [`BusHandle::shutdown`] does. Should the bus be gone, calls fail as
/// [`FailureKind::Unavailable`], and those under way as [`FailureKind::Gone`]. A back that holds
/// a handle of its own bus keeps that alive: then only `shutdown` ends it.
///
/// ```
/// use toolbus::{Bus, json};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let bus = Bus::builder().address("builtin:")?.spawn()?;
/// let also_bus = bus.clone();
/// let thread = std::thread::spawn(move || {
///     also_bus.blocking().call("upper", json!({"text": "hi"}))
/// });
/// let sum = bus.call("add", json!({"a": 1, "b": 2})).await?;
/// assert_eq!(sum.read::<i64>()?, 3);
/// assert_eq!(thread.join().unwrap()?.text(), "HI");
/// bus.shutdown().await;
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone)]
pub struct BusHandle(Arc<Inner>);

struct Inner {
    orders: mpsc::Sender<Order>,
    /// Says that the bus is to end now, before whatever else waits.
    stop: Arc<Notify>,
    /// Closed by the end of the thread.
    ended: watch::Receiver<()>,
    /// The thread, which must not wait for itself.
    thread: ThreadId,
}

/// What the thread of the bus is asked for.
enum Order {
    Call(Box<Call>, oneshot::Sender<Result<Outcome, Failure>>),
    Stream(Box<Call>, mpsc::Sender<Down>),
    Tools(oneshot::Sender<Result<Arc<[ToolSpec]>, Failure>>),
}

impl BusHandle {
    /// Starts a thread and opens the bus there. Nothing else is started before it is needed.
    pub fn spawn(builder: BusBuilder) -> Result<BusHandle, BuildError> {
        thread::start(builder)
    }

    /// Calls a tool: `handle.call("add", json!({"a": 1, "b": 2})).await`. As [`Bus::call`].
    ///
    /// [`Bus::call`]: super::Bus::call
    pub fn call(&self, tool: impl Into<ToolName>, args: impl Serialize) -> Request<BusHandle> {
        Request::new(self.clone(), tool.into(), &args)
    }

    /// Asks every back for its tools. As [`Bus::tools`].
    ///
    /// [`Bus::tools`]: super::Bus::tools
    pub async fn tools(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        let (answer, answered) = oneshot::channel();
        self.order(Order::Tools(answer)).await?;
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Ends the bus for all who hold it: says goodbye to all backs and waits until no process is left.
    pub async fn shutdown(&self) {
        // Kept for a thread that is just about to wait for it.
        self.0.stop.notify_one();
        // Nothing is ever sent: it is closed in the end.
        while self.0.ended.clone().changed().await.is_ok() {}
    }

    /// The same bus for code that waits on its own thread.
    pub fn blocking(&self) -> BlockingBus {
        BlockingBus::new(self.clone())
    }

    async fn order(&self, order: Order) -> Result<(), Failure> {
        self.0.orders.send(order).await.map_err(|_| gone())
    }
}

/// The bus had gone before it was asked.
fn gone() -> Failure {
    Failure::new(FailureKind::Unavailable, "the bus has been shut down")
}

/// The bus went with the call in its hands.
fn lost() -> Failure {
    Failure::new(FailureKind::Gone, "the bus was shut down before the call had ended")
}

impl Request<BusHandle> {
    /// Makes the call, and gives its parts and progress as they come. As on the bus itself, but
    /// nothing is sent before the stream is first asked.
    pub fn stream(self) -> ReplyStream {
        let (bus, call) = self.with(|call| call.options.progress = true).asked();
        ReplyStream { bus, stage: ReplyState::Waiting(call.map(Box::new)) }
    }

    async fn whole(self) -> Result<Reply, Failure> {
        let (bus, call) = self.asked();
        let (answer, answered) = oneshot::channel();
        bus.order(Order::Call(Box::new(call?), answer)).await?;
        answered.await.unwrap_or_else(|_| Err(lost())).map(Reply::new)
    }

    /// Makes the call and waits for the whole reply on this thread, without a runtime.
    pub fn wait(self) -> Result<Reply, Failure> {
        let bus = self.bus.clone();
        blocking::wait(&bus, self.whole())?
    }
}

impl IntoFuture for Request<BusHandle> {
    type Output = Result<Reply, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.whole())
    }
}

/// A reply that comes bit by bit from a bus on another thread. Dropping it cancels the call.
pub struct ReplyStream {
    bus: BusHandle,
    stage: ReplyState,
}

enum ReplyState {
    /// Not sent yet.
    Waiting(Result<Box<Call>, Failure>),
    Running(mpsc::Receiver<Down>),
    Over,
}

impl ReplyStream {
    /// The next of the reply. [`Event::Done`] or a failure is the last, and then there is
    /// nothing more. A tool whose caller does not ask for more has to wait.
    pub async fn next(&mut self) -> Option<Result<Event, Failure>> {
        if let ReplyState::Waiting(call) = &self.stage {
            let (sender, receiver) = mpsc::channel(EVENTS_MAX);
            // Copied, so that who stops waiting here and comes back has lost nothing.
            let sent = match call.clone() {
                Ok(call) => self.bus.order(Order::Stream(call, sender)).await,
                Err(failure) => Err(failure),
            };
            self.stage = ReplyState::Running(receiver);
            if let Err(failure) = sent {
                return self.end(failure);
            }
        }
        let ReplyState::Running(events) = &mut self.stage else { return None };
        loop {
            match events.recv().await {
                Some(Down::Done(Err(failure))) => return self.end(failure),
                None => return self.end(lost()),
                Some(down) => {
                    let is_done = matches!(down, Down::Done(_));
                    if let Some(event) = Event::of(down) {
                        if is_done {
                            self.stage = ReplyState::Over;
                        }
                        return Some(event);
                    }
                }
            }
        }
    }

    /// The next of the reply, awaited on this thread, without a runtime.
    pub fn wait_next(&mut self) -> Option<Result<Event, Failure>> {
        let bus = self.bus.clone();
        blocking::wait(&bus, self.next()).unwrap_or_else(|failure| self.end(failure))
    }

    fn end(&mut self, failure: Failure) -> Option<Result<Event, Failure>> {
        self.stage = ReplyState::Over;
        Some(Err(failure))
    }
}
