//! A conversation cut at every byte: where a read ends must not matter.

use super::replay::{Cause, TellWhere, counted, play, steps};
use super::{Player, dedent};
use crate::form::short_or_long;

/// More places than this to cut one run of bytes are not tried in the short form of a test, and
/// in the long one; they are spread over it.
const CUTS_MAX: (usize, usize) = (8, 512);

/// Replays `text` a byte at a time, and with each run of bytes that arrives cut in two, in the
/// long form at every byte. What leaves and what our side learns must be what it is without a cut.
///
/// The text may be that of an `expect!`, indented as the code around it.
pub fn sweep<P: Player>(text: &str, mut make_player: impl FnMut() -> P) {
    let text = &dedent(text);
    let whole = outcome(text, &mut make_player, |_, bytes| vec![bytes.to_vec()]);
    let single =
        outcome(text, &mut make_player, |_, bytes| bytes.iter().map(|byte| vec![*byte]).collect());
    assert_same("a byte at a time", &whole, &single);
    let mut runs = Vec::new();
    outcome(text, &mut make_player, |_, bytes| {
        runs.push(bytes.len());
        vec![bytes.to_vec()]
    });
    let cuts_max = short_or_long(CUTS_MAX.0, CUTS_MAX.1);
    for (run, &len) in runs.iter().enumerate() {
        let step = len.div_ceil(cuts_max).max(1);
        // Each run begins elsewhere, so that together they are cut at places of every kind.
        for at in (1 + run % step..len).step_by(step) {
            let halves = outcome(text, &mut make_player, |index, bytes| {
                if index != run {
                    return vec![bytes.to_vec()];
                }
                vec![bytes[..at].to_vec(), bytes[at..].to_vec()]
            });
            assert_same(
                &format!("cut at byte {at} of what arrives as number {run}"),
                &whole,
                &halves,
            );
        }
    }
}

/// What came of one step. Lines that leave and lines that are learned are kept apart: a cut
/// may change which of them is seen first, but neither's order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    leaves: Vec<String>,
    learned: Vec<String>,
}

fn outcome<P: Player>(
    text: &str,
    make_player: &mut impl FnMut() -> P,
    mut cut: impl FnMut(usize, &[u8]) -> Vec<Vec<u8>>,
) -> Vec<Came> {
    let mut run = 0;
    let mut player = make_player();
    let mut outcome = Vec::new();
    for step in steps(text) {
        let _telling = TellWhere { name: "the sweep", step: &step };
        if matches!(step.cause, Cause::Begin) {
            player = make_player();
        }
        let came = play(&mut player, &step.cause, &mut |bytes| {
            run += 1;
            cut(run - 1, bytes)
        });
        let (leaves, learned): (_, Vec<_>) =
            came.into_iter().partition(|line| line.starts_with(">>"));
        outcome.push(Came { leaves, learned: counted(&learned) });
    }
    outcome
}

fn assert_same(how: &str, whole: &[Came], other: &[Came]) {
    for (whole, other) in whole.iter().zip(other) {
        assert_eq!(whole, other, "{how} it came out otherwise (left: whole)");
    }
}
