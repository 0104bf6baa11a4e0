//! When a server that could not be reached is tried again (`docs/protocols/mcp.md` 2.10). Pure.

use std::time::Instant;

use toolbus_proto::tool::Failure;

/// How often in a row it could not be reached, and what was wrong the last time.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    failures: u32,
    last: Option<(Instant, Failure)>,
}

impl BackOff {
    /// It was reached.
    pub(super) fn reset(&mut self) {
        *self = BackOff::default();
    }

    /// It could not be reached, and why.
    pub(super) fn failed(&mut self, now: Instant, why: Failure) {
        self.failures += 1;
        let not_before = now + crate::wire::mcp::PATIENCE.back_off(self.failures);
        self.last = Some((not_before, why));
    }

    /// What callers are told until it is tried again: what was wrong, and when that will be.
    /// One list of many backs must not wait for the one that is not there.
    pub(super) fn refusal(&self, now: Instant) -> Option<Failure> {
        let (not_before, why) = self.last.as_ref().filter(|(not_before, _)| now < *not_before)?;
        let millis = not_before.duration_since(now).as_millis();
        let message = format!("{}; next try in {millis} ms", why.message);
        Some(Failure { message, ..why.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolbus_proto::tool::FailureKind;

    use super::*;

    #[test]
    fn the_first_retry_is_free_and_success_forgets_the_past() {
        let mut back_off = BackOff::default();
        let mut now = Instant::now();
        let why = Failure::new(FailureKind::Unavailable, "nothing listens there");
        let mut told = Vec::new();
        for _ in 0..4 {
            assert!(back_off.refusal(now).is_none());
            back_off.failed(now, why.clone());
            told.push(back_off.refusal(now).map(|failure| failure.message));
            now += Duration::from_secs(2);
        }
        let refused = |millis| Some(format!("nothing listens there; next try in {millis} ms"));
        assert_eq!(told, [None, refused(500), refused(1000), refused(2000)]);
        back_off.failed(now, why);
        back_off.reset();
        assert!(back_off.refusal(now).is_none());
    }
}
