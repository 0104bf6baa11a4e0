//! Calls that wait for a peer which cannot be asked yet: it is being started or reached, its tools
//! are being listed, or others are before them.
//!
//! What they weigh is on an account of the peer, so that a peer that is slow to come costs no more
//! than one that does not read: over its share further calls are refused, and over the whole those
//! that wait for it are cut off.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use toolbus_proto::counted::Counted;
use toolbus_proto::tool::{Call, Failure};

use super::calls::ReplyTo;
use super::relay::Relay;
use crate::account::{Account, Charge, CutOff};

/// The calls that wait for one peer.
pub struct WaitingCalls {
    account: Account,
    calls: RefCell<Counted<u64, Weak<Relay>>>,
    next: Cell<u64>,
}

/// The place of a call among them, until it is left.
pub(super) struct InLine {
    calls: Rc<WaitingCalls>,
    number: u64,
    charge: Charge,
}

impl WaitingCalls {
    /// None wait yet. `peer` is what the log and errors call whom they will wait for: `` `git` ``.
    pub fn new(peer: impl Into<String>) -> Rc<WaitingCalls> {
        let account = Account::new(peer.into());
        let calls = RefCell::default();
        let waiting = Rc::new(WaitingCalls { account, calls, next: Cell::default() });
        let end: Weak<WaitingCalls> = Rc::downgrade(&waiting);
        waiting.account.on_cut(end);
        waiting
    }

    /// One more, which waits until it is begun. Over the share of the peer it is refused: then it
    /// [waits](Relay::is_waiting) no longer.
    pub fn relay(self: &Rc<Self>, call: Call, down: ReplyTo) -> Rc<Relay> {
        let relay = Relay::new(call, down);
        if self.account.is_full() {
            relay.finish(Err(self.account.waiting_refusal()));
            return relay;
        }
        let number = self.next.get();
        self.next.set(number + 1);
        self.calls.borrow_mut().insert(number, Rc::downgrade(&relay));
        let charge = Charge::on(&self.account);
        relay.take_place(InLine { calls: self.clone(), number, charge });
        relay
    }
}

impl CutOff for WaitingCalls {
    fn cut_off(&self, why: &Failure) {
        let calls: Vec<_> = self.calls.borrow().values().filter_map(Weak::upgrade).collect();
        calls.iter().for_each(|relay| relay.finish(Err(why.clone())));
    }
}

impl InLine {
    /// So much is kept of the call. However small, it is not free.
    pub(super) fn weigh(&self, bytes: usize) {
        self.charge.set_unread_at_least(bytes + size_of::<Relay>() + size_of::<Call>());
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.calls.calls.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use toolbus_proto::channel::{Down, Up};
    use toolbus_proto::json::Json;
    use toolbus_proto::tool::{FailureKind, Part};

    use super::*;
    use crate::engine::calls::{Inbox, RunningCall};
    use crate::scope::Scope;
    use crate::secrets::Secrets;

    const MIB: usize = 1 << 20;

    /// One call of so many bytes: what its caller holds, and its relay.
    fn call(waiting: &Rc<WaitingCalls>, bytes: usize) -> (Rc<Inbox>, RunningCall, Rc<Relay>) {
        let (inbox, reply_to) = Inbox::new();
        let args = Json::from_trusted(format!("[{}]", " ".repeat(bytes)));
        let relay = waiting.relay(Call::tool(Instant::now(), "t", Some(args)), reply_to);
        (inbox, relay.running_call(), relay)
    }

    /// How the call has ended; it has.
    async fn failure((inbox, running, _): (Rc<Inbox>, RunningCall, Rc<Relay>)) -> Failure {
        inbox.whole(running).await.expect_err("it cannot be made")
    }

    /// A scope in which 4 MiB may wait for one peer, and 16 MiB for all.
    fn scope() -> Scope {
        Scope::new(Secrets::default(), 16 * MIB)
    }

    #[tokio::test]
    async fn over_the_share_of_a_peer_further_calls_are_refused() {
        let scope = scope();
        let (slow, other) =
            scope.enter(|| (WaitingCalls::new("`slow`"), WaitingCalls::new("`other`")));
        let mut taken: Vec<_> = (0..4).map(|_| call(&slow, MIB)).collect();
        let refused = failure(call(&slow, 1)).await;
        assert_eq!(refused.kind, FailureKind::Unavailable);
        assert_eq!(
            refused.message,
            "`slow` is not ready for more calls: 4 MiB of them wait for it, and 4 MiB may for one \
             peer"
        );
        assert!(call(&other, MIB).2.is_waiting(), "others wait for others");
        // Whichever way a call leaves, there is room for another.
        let (inbox, running, relay) = taken.remove(0);
        relay.begin(|_, down| {
            let done = Failure::new(FailureKind::Failed, "made");
            let _ = down.send(Down::Done(Err(done)));
            RunningCall::ended()
        });
        assert_eq!(inbox.whole(running).await.unwrap_err().message, "made");
        let next = call(&slow, MIB);
        assert!(next.2.is_waiting());
        drop((next, taken));
        assert!(slow.calls.borrow().is_empty(), "those whose callers have gone wait no longer");
        assert!(call(&slow, MIB).2.is_waiting());
    }

    #[tokio::test]
    async fn small_calls_are_not_free() {
        let slow = scope().enter(|| WaitingCalls::new("`slow`"));
        let taken: Vec<_> = (0..5000).map(|_| call(&slow, 1)).collect();
        let waiting = taken.iter().filter(|(.., relay)| relay.is_waiting()).count();
        assert!((1000..=4096).contains(&waiting), "{waiting}");
    }

    #[tokio::test]
    async fn what_is_said_behind_a_call_that_waits_counts_too() {
        let slow = scope().enter(|| WaitingCalls::new("`slow`"));
        let (_inbox, running, _relay) = call(&slow, 1);
        while call(&slow, 1).2.is_waiting() {
            let part = Part::Text("x".repeat(100_000));
            let _ = running.send(Up::Part(part));
        }
    }

    #[tokio::test]
    async fn over_the_whole_all_that_wait_for_one_peer_are_cut_off() {
        let scope = scope();
        let peers: Vec<_> = (0..5)
            .map(|number| scope.enter(|| WaitingCalls::new(format!("`peer {number}`"))))
            .collect();
        // Nobody has used up its share.
        let bytes = MIB - 16 * 1024;
        let calls: Vec<_> = peers
            .iter()
            .map(|peer| (0..3).map(|_| call(peer, bytes)).collect::<Vec<_>>())
            .collect();
        let most = call(&peers[3], bytes);
        scope.enter(|| Scope::ledger().cut_off_who_is_over());
        assert!(most.2.is_waiting(), "no more waits than may");
        let last = call(&peers[4], MIB / 2);
        scope.enter(|| Scope::ledger().cut_off_who_is_over());
        for (number, calls) in calls.into_iter().enumerate() {
            for one in calls {
                if number != 3 {
                    assert!(one.2.is_waiting(), "{number}");
                    continue;
                }
                let failure = failure(one).await;
                assert_eq!(failure.kind, FailureKind::Unavailable);
                assert!(failure.message.starts_with("`peer 3` was cut off: "), "{failure}");
            }
        }
        assert!(!most.2.is_waiting() && last.2.is_waiting());
        // It may come back.
        assert!(call(&peers[3], MIB).2.is_waiting());
    }
}
