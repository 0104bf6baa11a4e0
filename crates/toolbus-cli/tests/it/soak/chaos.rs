//! Kills processes and has the config read again, at random.

use std::time::{Duration, Instant};

use super::Chance;
use super::stage::Stage;

/// The longest rest between two of them, in milliseconds.
const REST_MAX: u64 = 400;

pub(super) async fn reign(stage: &Stage, until: Instant, seed: u64) {
    let mut chance = Chance::new(seed);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20 + chance.below(REST_MAX))).await;
        match chance.below(5) {
            0 | 1 => stage.reload(&mut chance),
            _ => stage.kill(&mut chance),
        }
    }
}
