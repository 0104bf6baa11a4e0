//! On how many threads the connections of fronts are served.

use std::thread;

/// How many there are by themselves at most.
const AUTO_MAX: usize = 8;
/// How many may be asked for.
const THREADS_MAX: usize = 64;

/// On how many threads connections are served. One of them has the bus, and all that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadCount {
    /// As many as there are cores, but no more than eight.
    Auto,
    /// So many.
    Count(usize),
}

impl ThreadCount {
    /// How people write [`ThreadCount::Auto`].
    pub const AUTO: &str = "auto";

    /// So many, if there may be as many.
    pub fn of(count: usize) -> Option<ThreadCount> {
        (1..=THREADS_MAX).contains(&count).then_some(ThreadCount::Count(count))
    }

    /// As people type it, or why that is none.
    pub fn parse(text: &str) -> Result<ThreadCount, String> {
        if text == ThreadCount::AUTO {
            return Ok(ThreadCount::Auto);
        }
        let count = text.parse().ok().and_then(ThreadCount::of);
        count.ok_or_else(|| format!("it is `auto` or a number from 1 to {THREADS_MAX}"))
    }

    /// How many that is on this machine.
    pub fn count(self) -> usize {
        match self {
            // Where that cannot be told, one is always there.
            ThreadCount::Auto => {
                thread::available_parallelism().map_or(1, usize::from).min(AUTO_MAX)
            }
            ThreadCount::Count(count) => count,
        }
    }
}

impl Default for ThreadCount {
    fn default() -> ThreadCount {
        ThreadCount::Count(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_number_or_what_the_machine_has() {
        assert_eq!(ThreadCount::parse("auto"), Ok(ThreadCount::Auto));
        assert_eq!(ThreadCount::parse("4"), Ok(ThreadCount::Count(4)));
        for wrong in ["0", "65", "-1", "", "two", "1.5"] {
            let told = ThreadCount::parse(wrong).unwrap_err();
            assert_eq!(told, "it is `auto` or a number from 1 to 64", "{wrong:?}");
        }
        assert!((1..=AUTO_MAX).contains(&ThreadCount::Auto.count()));
    }
}
