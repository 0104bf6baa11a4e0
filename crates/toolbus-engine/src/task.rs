//! Tasks on the thread of a bus.
//!
//! tokio compiles all that it does with a task once more for each kind of future, some twenty
//! functions. There are many kinds here, so they are boxed before it gets them: then there is one
//! for each kind of outcome.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

use crate::scope::Scope;

/// A future that lives on the bus's one thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Begins a task on this thread, which stays in the scope that we are in.
#[track_caller]
pub fn spawn_local<T: 'static>(task: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    tokio::task::spawn_local(boxed(task))
}

/// A task for a `JoinSet`. It stays in the scope that we are in.
pub fn boxed<'a, T: 'a>(task: impl Future<Output = T> + 'a) -> LocalFuture<'a, T> {
    Box::pin(Scope::current().enter_while(task))
}
