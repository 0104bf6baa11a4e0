//! The time of a conversation: it passes only when the conversation says so.

use std::time::{Duration, Instant};

/// A clock that stands still until it is told to go on.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The present.
    pub now: Instant,
}

impl Clock {
    /// A clock that shows some instant.
    #[expect(clippy::new_without_default, reason = "two clocks are not the same")]
    pub fn new() -> Clock {
        Clock { now: Instant::now() }
    }

    /// Lets time pass if that is what `words` say: `wait 0.5`, `time +2000ms` or
    /// `2000 ms pass`. Tells whether it was.
    pub fn happen(&mut self, words: &str) -> bool {
        let millis = |number: &str| number.parse().ok().map(Duration::from_millis);
        let passed = match words.split(' ').collect::<Vec<_>>()[..] {
            ["wait", seconds] => seconds.parse().ok().map(Duration::from_secs_f64),
            ["time", more] => {
                more.strip_prefix('+').and_then(|more| more.strip_suffix("ms")).and_then(millis)
            }
            [number, "ms", "pass"] => millis(number),
            _ => None,
        };
        self.now += passed.unwrap_or_default();
        passed.is_some()
    }
}
