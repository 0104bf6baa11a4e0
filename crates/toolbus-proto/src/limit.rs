//! How many calls may be made in a time, and at once. A bucket is driven by the instants it is given.
//!
//! Nothing waits here: a call that is over a limit is refused, with the time until the next.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::json::Json;
use crate::tool::{Failure, FailureKind};

/// The most calls that a limit can allow.
pub const CALLS_MAX: u32 = 1_000_000;

/// So many calls in so much time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    calls: u32,
    time: Duration,
    text: Arc<str>,
}

impl Rate {
    /// So many calls in so much time, as `text` says it; `None` unless there are some of both.
    pub fn new(calls: u32, time: Duration, text: &str) -> Option<Rate> {
        let is_rate = (1..=CALLS_MAX).contains(&calls) && !time.is_zero();
        is_rate.then(|| Rate { calls, time, text: text.into() })
    }

    /// As it was written: `60/1m`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// What is set about the calls of one caller, of one front or to one back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many in a time.
    pub rate: Option<Rate>,
    /// How many at once.
    pub in_flight: Option<u32>,
}

impl Limits {
    /// Is nothing limited?
    pub fn is_empty(&self) -> bool {
        self.rate.is_none() && self.in_flight.is_none()
    }
}

/// A token bucket: full at the start, refilled evenly, never above what it holds.
#[derive(Debug, Clone)]
pub struct Bucket {
    rate: Rate,
    /// What one token is, and the whole, in parts of a token.
    token: u128,
    room: u128,
    /// What is missing until it is full, in parts of a token: each token is as many parts as its
    /// rate has nanoseconds, and each nanosecond brings as many parts as its rate has calls. So
    /// nothing is ever rounded.
    missing: u128,
    /// Until when it was refilled.
    refilled: Option<Instant>,
}

impl Bucket {
    /// A full one.
    pub fn new(rate: Rate) -> Bucket {
        let token = rate.time.as_nanos();
        let room = token * u128::from(rate.calls);
        Bucket { rate, token, room, missing: 0, refilled: None }
    }

    /// How fast it is refilled.
    pub fn rate(&self) -> &Rate {
        &self.rate
    }

    /// How long until there is a token; `None` if there is one.
    pub fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.refill(now);
        let over = (self.missing + self.token).checked_sub(self.room).filter(|over| 0 < *over)?;
        let nanos = over.div_ceil(u128::from(self.rate.calls));
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Takes a token, which there must be: nobody has to [wait](Bucket::wait), asked at the same
    /// time.
    pub fn take(&mut self) {
        self.missing += self.token;
    }

    fn refill(&mut self, now: Instant) {
        // Mostly it is full.
        if self.missing == 0 {
            self.refilled = Some(self.refilled.map_or(now, |last| last.max(now)));
            return;
        }
        let since =
            self.refilled.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let came = since.as_nanos() * u128::from(self.rate.calls);
        self.missing = self.missing.saturating_sub(came);
        // An instant of before takes nothing back.
        self.refilled = Some(self.refilled.map_or(now, |last| last.max(now)));
    }
}

/// Whose limit a call was over, as its caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All calls on the front.
    Front,
    /// All calls of the caller.
    Caller,
    /// Those of the caller that go to some tools.
    CallerOfTool,
    /// All calls to the back.
    Back,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Whose::Front => "on this front",
            Whose::Caller => "by this caller",
            Whose::CallerOfTool => "by this caller of this tool",
            Whose::Back => "to this back",
        })
    }
}

/// What is told for a call that came too soon: when to come again.
pub fn too_fast(whose: Whose, rate: &Rate, wait: Duration) -> Failure {
    let wait = wait.as_nanos().div_ceil(1_000_000).max(1);
    let message = format!("too many calls {whose}: at most {}, retry in {wait} ms", rate.as_str());
    let detail = format!(r#"{{"reason":"{RATE_LIMITED}","retry_after_ms":{wait}}}"#);
    refusal(message, detail)
}

/// What is told for one call too many at once.
pub fn too_many(whose: Whose, in_flight: u32) -> Failure {
    let message = format!("too many calls {whose}: at most {in_flight} at once");
    refusal(message, format!(r#"{{"reason":"{BUSY}"}}"#))
}

fn refusal(message: String, detail: String) -> Failure {
    let detail = Some(Json::from_trusted(detail));
    Failure { detail, ..Failure::new(FailureKind::Unavailable, message) }
}

const RATE_LIMITED: &str = "rate_limited";
const BUSY: &str = "busy";
/// The user has to sign in.
pub const NEEDS_SIGN_IN: &str = "needs_sign_in";
/// Why a call may be refused whose tool is there: by a limit, by the lock, or for want of a sign-in.
pub const REASONS: [&str; 12] = [
    RATE_LIMITED,
    BUSY,
    "changed",
    "program_changed",
    "not_locked",
    "unverified",
    NEEDS_SIGN_IN,
    "forbidden",
    "refresh_failed",
    "refused",
    "insecure",
    "store",
];

/// Was it the lock that refused a call for this reason?
pub fn is_of_lock(reason: &str) -> bool {
    REASONS[2..6].contains(&reason)
}

/// Was it for want of a token?
pub fn is_of_sign_in(reason: &str) -> bool {
    REASONS[6..].contains(&reason)
}

/// The command that signs in, of a failure that needs nothing else.
pub fn login_of(failure: &Failure) -> Option<String> {
    reason_of(failure).filter(|reason| *reason == NEEDS_SIGN_IN)?;
    let login = crate::json::edit::text(failure.detail.as_ref()?.as_str(), "login")?;
    Some(login.into_owned())
}

/// Why a call was refused by a limit or the lock, ours or that of a peer: one of [`REASONS`].
pub fn reason_of(failure: &Failure) -> Option<&'static str> {
    let detail = failure.detail.as_ref().filter(|_| failure.kind == FailureKind::Unavailable)?;
    reason_in(detail.as_str())
}

/// What a peer says of a refusal of its, where that is one of a limit or the lock: the detail that our own
/// would have. `told` is the object in which the peer's wire has it.
pub fn told_by_peer(told: &str) -> Option<Json> {
    let reason = reason_in(told)?;
    let wait = crate::json::edit::member(told, "retry_after_ms")
        .filter(|wait| wait.bytes().all(|byte| byte.is_ascii_digit()) && wait.len() <= 15);
    let wait = wait.map(|wait| format!(r#","retry_after_ms":{wait}"#)).unwrap_or_default();
    let text = |name: &str| match crate::json::edit::text(told, name) {
        Some(text) if is_of_sign_in(reason) => format!(",\"{name}\":{}", Json::of(&*text)),
        _ => String::new(),
    };
    let (login, scope) = (text("login"), text("scope"));
    Some(Json::from_trusted(format!(r#"{{"reason":"{reason}"{wait}{login}{scope}}}"#)))
}

fn reason_in(object: &str) -> Option<&'static str> {
    let reason = crate::json::edit::text(object, "reason")?;
    REASONS.into_iter().find(|known| *known == reason)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(calls: u32, time: Duration) -> Rate {
        Rate::new(calls, time, "x").unwrap()
    }

    #[test]
    fn a_bucket_is_full_at_first_and_refilled_evenly() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut bucket = Bucket::new(rate(2, Duration::from_secs(1)));
        let mut call = |millis| match bucket.wait(at(millis)) {
            None => {
                bucket.take();
                "ok".to_owned()
            }
            Some(wait) => format!("{wait:?}"),
        };
        assert_eq!([call(0), call(0), call(0)], ["ok", "ok", "500ms"]);
        assert_eq!([call(499), call(500), call(500)], ["1ms", "ok", "500ms"]);
        // Never more than it holds, however long nobody called.
        assert_eq!([call(60_000), call(60_000), call(60_000)], ["ok", "ok", "500ms"]);
        // A clock that goes back gives nothing and takes nothing.
        assert_eq!([call(59_000), call(60_500)], ["500ms", "ok"]);
    }

    #[test]
    fn a_refusal_says_when_to_come_again() {
        let rate = Rate::new(60, Duration::from_secs(60), "60/1m").unwrap();
        let refused = too_fast(Whose::Caller, &rate, Duration::from_micros(899_001));
        assert_eq!(
            refused.to_string(),
            "too many calls by this caller: at most 60/1m, retry in 900 ms"
        );
        let detail = r#"{"reason":"rate_limited","retry_after_ms":900}"#;
        assert_eq!(refused.detail.as_ref().unwrap().as_str(), detail);
        assert_eq!(reason_of(&refused), Some("rate_limited"));
        assert!(too_fast(Whose::Front, &rate, Duration::ZERO).message.ends_with("retry in 1 ms"));
        let refused = too_many(Whose::CallerOfTool, 4);
        assert_eq!(
            refused.to_string(),
            "too many calls by this caller of this tool: at most 4 at once"
        );
        assert_eq!(refused.detail.as_ref().unwrap().as_str(), r#"{"reason":"busy"}"#);
    }

    #[test]
    fn only_what_a_limit_says_is_read_back() {
        let told = |text| told_by_peer(text).map(|detail| detail.to_string());
        let whole = r#"{"kind":"unavailable","reason":"rate_limited","retry_after_ms":7}"#;
        assert_eq!(told(whole).unwrap(), r#"{"reason":"rate_limited","retry_after_ms":7}"#);
        assert_eq!(
            told(r#"{"reason":"busy","retry_after_ms":-1}"#).unwrap(),
            r#"{"reason":"busy"}"#
        );
        assert_eq!(told(r#"{"reason":"changed"}"#).unwrap(), r#"{"reason":"changed"}"#);
        assert!(is_of_lock("not_locked") && !is_of_lock("busy") && !is_of_lock("x"));
        assert_eq!(told(r#"{"reason":"forbidden"}"#).unwrap(), r#"{"reason":"forbidden"}"#);
        assert_eq!(told(r#"{"reason":"elsewhere"}"#), None);
        assert_eq!(told("[]"), None);
    }

    proptest! {
        /// In no stretch of time are there more calls than the rate has and what the bucket holds.
        #[test]
        fn no_more_than_the_rate(calls in 1u32..50, millis in 1u64..5000, steps in prop::collection::vec(0u64..400, 1..200)) {
            let start = Instant::now();
            let time = Duration::from_millis(millis);
            let mut bucket = Bucket::new(rate(calls, time));
            let (mut now, mut taken) = (start, 0u128);
            for step in steps {
                now += Duration::from_millis(step);
                match bucket.wait(now) {
                    None => { bucket.take(); taken += 1; }
                    Some(wait) => {
                        // It is not told to come too soon, nor too late.
                        let mut later = bucket.clone();
                        prop_assert_eq!(later.wait(now + wait), None);
                        let mut before = bucket.clone();
                        if Duration::from_nanos(1) < wait {
                            prop_assert!(before.wait(now + wait - Duration::from_nanos(1)).is_some());
                        }
                    }
                }
                let most = u128::from(calls) + (now - start).as_nanos() * u128::from(calls) / time.as_nanos();
                prop_assert!(taken <= most);
            }
        }
    }
}
