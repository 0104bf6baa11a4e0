//! The bus for code that waits on its own thread, without a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use serde::Serialize;
use toolbus_proto::tool::{Failure, FailureKind, ToolName, ToolSpec};

use super::BusHandle;
use crate::bus::Reply;

/// A [`BusHandle`] for code that waits on its own thread, without a runtime.
///
/// What a single call may need besides is said by [`BusHandle::call`], and
/// [`Request::wait`](super::Request::wait) makes it.
#[derive(Clone)]
pub struct BlockingBus(BusHandle);

impl BlockingBus {
    pub(super) fn new(bus: BusHandle) -> BlockingBus {
        BlockingBus(bus)
    }

    /// Calls a tool and waits for the whole reply.
    pub fn call(&self, tool: impl Into<ToolName>, args: impl Serialize) -> Result<Reply, Failure> {
        self.0.call(tool, args).wait()
    }

    /// Asks every back for its tools.
    pub fn tools(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        wait(&self.0, self.0.tools())?
    }

    /// Ends the bus for all who hold it, and waits until no process is left.
    pub fn shutdown(&self) {
        // On its own thread it cannot be waited for, and ends all the same.
        self.0.0.stop.notify_one();
        let _ = wait(&self.0, self.0.shutdown());
    }
}

/// Waits for `work`, which the thread of the bus does: so that thread must not.
pub(super) fn wait<T>(bus: &BusHandle, work: impl Future<Output = T>) -> Result<T, Failure> {
    if bus.0.thread == thread::current().id() {
        let message = "a tool on the bus cannot wait for the bus: its thread would wait for itself";
        return Err(Failure::new(FailureKind::Unavailable, message));
    }
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(done) => return Ok(done),
            Poll::Pending => thread::park(),
        }
    }
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
