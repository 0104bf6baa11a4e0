//! Tasks on the thread of a bus.
//!
//! tokio compiles all that it does with a task once more for each kind of future, some twenty
//! functions. There are many kinds here, so they are boxed before it gets them: then there is one
//! for each kind of outcome.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

/// A future that lives on the bus's one thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Begins a task on this thread.
#[track_caller]
pub fn spawn_local<T: 'static>(task: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    tokio::task::spawn_local(boxed(task))
}

/// A task for a `JoinSet`.
pub(crate) fn boxed<'a, T>(task: impl Future<Output = T> + 'a) -> LocalFuture<'a, T> {
    Box::pin(task)
}
