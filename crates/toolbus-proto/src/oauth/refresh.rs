//! When a token is refreshed, and what becomes of it: it is kept, replaced, or given up.

use std::time::{Duration, Instant};

use super::identity::IdentityFrom;
use super::stored::SignIn;
use super::token::{AnswerError, Tokens};

/// So long before its end a token is refreshed.
const BEFORE_END_SECONDS: u64 = 60;
/// A token that lives no longer is refreshed in the last tenth of its life.
const SHORT_LIFE_SECONDS: u64 = 600;
/// The longest pause between two refreshes that fail.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Has the token ended, or will it soon?
pub fn is_due(kept: &SignIn, now: u64) -> bool {
    let Some(until) = kept.expires_at else { return kept.access.is_none() };
    let since = kept.refreshed_at.unwrap_or(kept.signed_in_at);
    let life = until.saturating_sub(since);
    let before = match life < SHORT_LIFE_SECONDS {
        true => life / 10,
        false => BEFORE_END_SECONDS,
    };
    kept.access.is_none() || until.saturating_sub(before) <= now
}

/// What became of a refresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refreshed {
    /// This is kept from now on.
    Renewed(SignIn),
    /// The refresh token is dead: this is kept, and the registration is gone, too, if so told.
    GivenUp {
        /// Without the refresh token.
        kept: SignIn,
        /// The sign-in server does not know us any more.
        forgets_client: bool,
    },
    /// Nothing is known: everything stays as it was.
    Failed(AnswerError),
}

/// Judges what was answered to a refresh of `kept`.
pub fn refreshed(kept: &SignIn, now: u64, answer: Result<Tokens, AnswerError>) -> Refreshed {
    match answer {
        Ok(tokens) => {
            let mut renewed = SignIn { refreshed_at: Some(now), ..kept.clone() };
            renewed.take(now, &tokens);
            Refreshed::Renewed(renewed)
        }
        Err(why) if why.refused() == Some("invalid_grant") || why.is_about_client() => {
            let is_registered = kept.identity.from == IdentityFrom::Registration;
            Refreshed::GivenUp {
                kept: SignIn { refresh: None, ..kept.clone() },
                forgets_client: why.is_about_client() && is_registered,
            }
        }
        Err(why) => Refreshed::Failed(why),
    }
}

/// When a refresh that has failed is tried again: after 1, 2, 4 … 30 seconds.
#[derive(Debug, Clone, Default)]
pub struct Pause {
    failures: u32,
    until: Option<Instant>,
    why: String,
}

impl Pause {
    /// It has failed once more.
    pub fn failed(&mut self, now: Instant, why: String) {
        let pause = Duration::from_secs(1 << self.failures.min(5)).min(PAUSE_MAX);
        self.failures += 1;
        self.until = Some(now + pause);
        self.why = why;
    }

    /// It has not.
    pub fn over(&mut self) {
        *self = Pause::default();
    }

    /// Why it is too early to try again, if it is.
    pub fn holds(&self, now: Instant) -> Option<&str> {
        self.until.filter(|until| now < *until).map(|_| &*self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::hidden::Hidden;
    use crate::oauth::stored::tests::sign_in;
    use crate::oauth::token;

    #[test]
    fn a_token_is_refreshed_a_little_before_its_end() {
        let kept = sign_in();
        assert!(!is_due(&kept, 4539) && is_due(&kept, 4540) && is_due(&kept, 9999));
        let short = SignIn { expires_at: Some(1100), ..kept.clone() };
        assert!(!is_due(&short, 1089) && is_due(&short, 1090));
        let shortest = SignIn { expires_at: Some(1005), ..kept.clone() };
        assert!(!is_due(&shortest, 1004) && is_due(&shortest, 1005));
        let unknown = SignIn { expires_at: None, ..kept.clone() };
        assert!(!is_due(&unknown, u64::MAX));
        assert!(is_due(&SignIn { access: None, ..unknown }, 0));
        let later = SignIn { refreshed_at: Some(4000), ..kept };
        assert!(!is_due(&later, 4539) && is_due(&later, 4540));
    }

    fn told(status: u16, body: &str) -> String {
        let kept = sign_in();
        match refreshed(&kept, 2000, token::read(status, body.as_bytes())) {
            Refreshed::Renewed(kept) => {
                let shown = |token: &Option<Hidden>| {
                    token.as_ref().map_or("-".to_owned(), |token| token.reveal().to_owned())
                };
                format!("{} {} {:?}", shown(&kept.access), shown(&kept.refresh), kept.expires_at)
            }
            Refreshed::GivenUp { kept, forgets_client } => {
                assert!(kept.access.is_some() && kept.refresh.is_none());
                format!("given up, forgets {forgets_client}")
            }
            Refreshed::Failed(why) => format!("failed: {why}"),
        }
    }

    #[test]
    fn an_answer_without_a_refresh_token_keeps_the_old_one() {
        let both = r#"{"access_token":"at-2","refresh_token":"rt-2","expires_in":60}"#;
        assert_eq!(told(200, both), "at-2 rt-2 Some(2060)");
        assert_eq!(told(200, r#"{"access_token":"at-2"}"#), "at-2 rt-1 None");
    }

    #[test]
    fn only_a_clear_no_takes_the_refresh_token_away() {
        assert_eq!(told(400, r#"{"error":"invalid_grant"}"#), "given up, forgets false");
        assert_eq!(told(401, r#"{"error":"invalid_client"}"#), "given up, forgets true");
        assert_eq!(told(400, r#"{"error":"unauthorized_client"}"#), "given up, forgets true");
        for (status, body) in
            [(500, ""), (429, r#"{"error":"slow_down"}"#), (200, "<html>"), (404, "{}")]
        {
            assert!(told(status, body).starts_with("failed: "), "{status} {body}");
        }
    }

    #[test]
    fn what_fails_is_tried_again_later_and_later() {
        let (mut pause, mut now) = (Pause::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert_eq!(pause.holds(now), None);
            pause.failed(now, "away".into());
            let before = now;
            while pause.holds(now).is_some() {
                now += Duration::from_secs(1);
            }
            pauses.push((now - before).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        pause.over();
        assert_eq!(pause.holds(now), None);
    }
}
