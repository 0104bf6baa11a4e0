//! Answers that wait until what was taken down of their calls is written.
//!
//! They go on in a task of their own, which has its turn behind all that could run when the first
//! of them came: whatever else ends until then is in the same write.

use std::cell::{Cell, RefCell};

use super::observed::Held;
use crate::task::spawn_local;

thread_local! {
    static WAITING: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    /// A task will see to them.
    static IS_SEEN_TO: Cell<bool> = const { Cell::new(false) };
}

/// Keeps an answer until its call is written. Must be called inside a `LocalSet`.
pub(super) fn hold(held: Held) {
    WAITING.with_borrow_mut(|waiting| waiting.push(held));
    if !IS_SEEN_TO.replace(true) {
        let seen_to = SeenTo;
        drop(spawn_local(async move { drop(seen_to) }));
    }
}

/// Lets all go on that wait, also when the task is dropped before it had its turn.
struct SeenTo;

impl Drop for SeenTo {
    fn drop(&mut self) {
        // A thread that ends has nothing left to answer.
        let _ = IS_SEEN_TO.try_with(|is_seen_to| is_seen_to.set(false));
        let Ok(waiting) = WAITING.try_with(RefCell::take) else { return };
        waiting.iter().for_each(Held::write);
        waiting.into_iter().for_each(Held::go_on);
    }
}
