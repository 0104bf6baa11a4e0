//! Orchestra: vectors and conversations of `transcripts/orchestra/`, faults and chance.
//!
//! Every conversation is replayed here but those of a hub, which belong to the crate that has the
//! supervisor of its plugins, and one that is about TLS and needs the hands:
//! `who_may_connect.txt`.
//!
//! Of those that are, some lines are told by the player, since the hands will write them: what
//! is listened on (`READY …`), and that a dial took too long.

mod certificates;
mod decisions;
mod faults;
mod plugin;
mod stdio;
mod vectors;
mod weights;

use toolbus_testkit::orchestra::{
    ELSEWHERE, FOLDER, OF_A_HUB, arrivals, conversations, ids, more_ids, number, on_wire, passing,
    shown,
};
use toolbus_testkit::transcript;

#[test]
fn every_conversation_is_replayed_somewhere() {
    let replayed = [stdio::BEGIN, OF_A_HUB, plugin::BEGIN, certificates::BEGIN]
        .map(|begin| conversations(begin).len());
    let all = transcript::files(FOLDER).len();
    assert_eq!(replayed.iter().sum::<usize>() + ELSEWHERE.len(), all, "{replayed:?}");
    assert_eq!(all, 69);
}
