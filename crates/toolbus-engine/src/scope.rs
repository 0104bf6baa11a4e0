//! What belongs to one bus and no other: the secrets that it knows, and how much may wait in memory
//! for its peers.
//!
//! A bus [enters](Scope::enter) its scope whenever it does something, and the tasks of
//! [`task`](crate::task) stay in the scope in which they were begun. Outside of all there is a scope
//! for each thread.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;

use crate::account::Ledger;
use crate::secrets::Secrets;

/// What belongs to one bus. All clones are the same scope.
#[derive(Clone)]
pub struct Scope(Rc<Belongings>);

struct Belongings {
    secrets: Secrets,
    ledger: Rc<Ledger>,
}

thread_local! {
    static CURRENT: RefCell<Scope> = RefCell::new(Scope(Rc::new(Belongings {
        secrets: Secrets::of_process().clone(),
        ledger: Rc::default(),
    })));
}

impl Scope {
    /// A scope in which so much may wait for all peers together.
    pub fn new(secrets: Secrets, bytes_in_flight_max: usize) -> Scope {
        Scope(Rc::new(Belongings { secrets, ledger: Rc::new(Ledger::new(bytes_in_flight_max)) }))
    }

    /// The one that we are in.
    pub fn current() -> Scope {
        CURRENT.with_borrow(Scope::clone)
    }

    /// The same memory, and these secrets.
    pub fn knowing(&self, secrets: Secrets) -> Scope {
        Scope(Rc::new(Belongings { secrets, ledger: self.0.ledger.clone() }))
    }

    pub(crate) fn secrets() -> Secrets {
        // What is dropped with its thread may still have something to say.
        let secrets = CURRENT.try_with(|current| current.borrow().0.secrets.clone());
        secrets.unwrap_or_else(|_| Secrets::of_process().clone())
    }

    pub(crate) fn ledger() -> Rc<Ledger> {
        CURRENT.with_borrow(|current| current.0.ledger.clone())
    }

    /// Does something in this scope.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = Entered(Some(CURRENT.replace(self.clone())));
        work()
    }

    /// The same of something that takes time.
    pub async fn enter_while<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| self.enter(|| work.as_mut().poll(context))).await
    }
}

/// Goes back to the scope of before, also by a panic.
struct Entered(Option<Scope>);

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            CURRENT.set(before);
        }
    }
}
