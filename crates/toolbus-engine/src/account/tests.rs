use super::*;
use crate::secrets::Secrets;

/// What may wait for one peer.
const PEER_BYTES_MAX: usize = BYTES_IN_FLIGHT_MAX / PEER_PART;

/// What a peer has, and why it was cut off.
struct Peer {
    charge: Charge,
    cut: RefCell<Vec<String>>,
}

impl CutOff for Peer {
    fn cut_off(&self, why: &Failure) {
        assert_eq!(why.kind, FailureKind::Unavailable);
        self.cut.borrow_mut().push(why.message.clone());
        self.charge.set(0, 0);
    }
}

fn peer(name: &str) -> (Account, Rc<Peer>) {
    let account = Account::new(name.to_owned());
    let peer = Rc::new(Peer { charge: Charge::on(&account), cut: RefCell::default() });
    let end: Weak<Peer> = Rc::downgrade(&peer);
    account.on_cut(end);
    (account, peer)
}

fn bytes() -> usize {
    Scope::ledger().bytes.get()
}

#[test]
fn over_its_share_a_peer_is_full_and_no_other() {
    let ((mine, peer), (yours, _)) = (peer("mine"), peer("yours"));
    peer.charge.set(PEER_BYTES_MAX - 1, PEER_BYTES_MAX);
    assert!(!mine.is_full() && !mine.is_half_full() && !Scope::ledger().is_any_full());
    peer.charge.add(GRAIN);
    assert!(mine.is_full() && !yours.is_full() && Scope::ledger().is_any_full());
    assert_eq!(
        mine.refusal().message,
        "mine does not read: 64 MiB wait for it, and 64 MiB may for one peer"
    );
    let freed = Scope::ledger().times_freed();
    let another = Charge::on(&mine);
    another.set(0, GRAIN);
    assert!(another.is_half_full() && peer.charge.is_half_full());
    drop((another, peer));
    assert!(!mine.is_full() && !mine.is_half_full() && !Scope::ledger().is_any_full());
    assert_eq!((Scope::ledger().times_freed(), bytes()), (freed + 1, 0));
}

#[test]
fn over_the_whole_who_holds_most_is_cut_off_and_nobody_else() {
    let peers: Vec<_> = (0..5).map(|number| peer(&format!("peer {number}"))).collect();
    for (number, (_, peer)) in peers.iter().enumerate() {
        peer.charge.set((50 + number) << 20, 0);
        Scope::ledger().cut_off_who_is_over();
    }
    let cut: Vec<_> = peers.iter().map(|(_, peer)| peer.cut.borrow().clone()).collect();
    assert_eq!(cut[..4], [const { Vec::<String>::new() }; 4]);
    assert_eq!(
        cut[4],
        ["peer 4 was cut off: 260 MiB wait for all peers, 54 MiB of them for this one, and \
             256 MiB may in all"]
    );
    let others = (50 + 51 + 52 + 53) << 20;
    assert_eq!(bytes(), others);
    // It may come back.
    let (_, last) = &peers[4];
    last.charge.set(GRAIN, 0);
    assert_eq!(bytes(), others + GRAIN);
    drop(peers);
    assert_eq!(bytes(), 0);
}

#[test]
fn what_is_not_let_go_at_once_counts_no_more() {
    let (account, first) = peer("first");
    let held = Charge::on(&account);
    held.set(BYTES_IN_FLIGHT_MAX, 0);
    let (_, second) = peer("second");
    second.charge.set(0, GRAIN);
    Scope::ledger().cut_off_who_is_over();
    Scope::ledger().cut_off_who_is_over();
    assert_eq!((first.cut.borrow().len(), second.cut.borrow().len()), (1, 0));
    assert_eq!(bytes(), GRAIN);
    drop(held);
    first.charge.set(2 * GRAIN, 0);
    assert_eq!(bytes(), 3 * GRAIN);
}

#[test]
fn a_charge_moves_with_all_it_has() {
    let ((one, _), (other, _)) = (peer("one"), peer("other"));
    let charge = Charge::default();
    charge.set(5 * GRAIN, 6 * GRAIN + 1);
    assert_eq!(bytes(), 0);
    charge.move_to(&one);
    charge.move_to(&other);
    charge.move_to(&other);
    assert_eq!((one.0.held(), other.0.held(), bytes()), (0, 11 * GRAIN, 11 * GRAIN));
}

#[tokio::test]
async fn who_waits_for_room_is_woken_by_any_that_is_freed() {
    let (_, peer) = peer("mine");
    peer.charge.set(PEER_BYTES_MAX, 0);
    let ledger = Scope::ledger();
    let seen = ledger.times_freed();
    let freed = async { peer.charge.set(0, 0) };
    tokio::join!(biased; ledger.freed_since(seen), freed);
    // What has happened already is not waited for.
    ledger.freed_since(seen).await;
}

#[test]
fn two_buses_on_one_thread_share_no_memory() {
    let scopes = [4 << 20, 16 << 20].map(|max| Scope::new(Secrets::default(), max));
    let [(small, _of_small), (large, peer_of_large)] =
        [("small", &scopes[0]), ("large", &scopes[1])]
            .map(|(name, scope)| scope.enter(|| peer(name)));
    // Charged from anywhere, it counts for the bus that it was opened in.
    let held = Charge::on(&small);
    held.set(2 << 20, 0);
    peer_of_large.charge.set(3 << 20, 0);
    assert!(small.is_full() && small.is_any_full());
    assert!(!large.is_full() && !large.is_any_full());
    assert_eq!(
        small.refusal().message,
        "small does not read: 2 MiB wait for it, and 1 MiB may for one peer"
    );
    let held_by = |scope: &Scope| scope.enter(bytes);
    assert_eq!(scopes.each_ref().map(held_by), [2 << 20, 3 << 20]);
    assert_eq!(bytes(), 0);
    held.set(5 << 20, 0);
    scopes[1].enter(|| Scope::ledger().cut_off_who_is_over());
    assert_eq!(scopes.each_ref().map(held_by), [5 << 20, 3 << 20]);
    scopes[0].enter(|| Scope::ledger().cut_off_who_is_over());
    assert_eq!(scopes.each_ref().map(held_by), [0, 3 << 20]);
}
