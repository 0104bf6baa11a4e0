//! Calls whose node is not there any more, or never said that they had begun.

use std::time::{Duration, Instant};

use super::instances::Key;
use super::listing::SILENCE;
use super::talking::CallOut;
use super::{Client, Retry, shown};
use crate::chance::Random;
use crate::tool::{Failure, FailureKind};

/// A node that says nothing to a call for so long is gone.
const BEGUN_WITHIN: Duration = Duration::from_secs(5);

impl<R: Random> Client<R> {
    /// The node of these calls is gone.
    pub(super) fn node_is_gone(&mut self, now: Instant, key: &Key) {
        self.calls_are_gone(now, key, |_| true);
    }

    /// A node says that it has no call under way: those that it has begun are gone. What it says
    /// of one that has ended comes before, but for a moment while it moves to another server.
    pub(super) fn node_has_none(&mut self, now: Instant, key: &Key, is_anew: bool) {
        self.calls_are_gone(now, key, |running| {
            running.up.is_some() && (is_anew || running.sent + SILENCE <= now)
        });
    }

    pub(super) fn calls_are_gone(
        &mut self,
        now: Instant,
        key: &Key,
        which: impl Fn(&CallOut) -> bool,
    ) {
        let of_node =
            self.running.iter().filter(|(_, it)| it.node.as_ref() == Some(key) && which(it));
        let mut numbers: Vec<u64> = of_node.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        for number in numbers {
            let message = format!("{} is gone", shown(key));
            self.call_is_gone(now, number, message);
        }
    }

    pub(super) fn call_is_gone(&mut self, now: Instant, number: u64, message: String) {
        let Some(running) = self.running.get_mut(&number) else { return };
        let hints = running.offered.spec.hints.unwrap_or_default();
        let is_harmless = hints.read_only == Some(true) || hints.idempotent == Some(true);
        let may_again = self.settings.retry == Retry::Idempotent
            && is_harmless
            && !running.was_passed_on
            && !running.was_sent_again
            && !running.call.options.sends_parts;
        if !may_again {
            return self.finish(number, Err(Failure::new(FailureKind::Gone, message)));
        }
        running.was_sent_again = true;
        // To another node, if there is one.
        match running.node.is_some() {
            true => self.send_elsewhere(now, number),
            false => {
                *self.resent.entry("gone").or_default() += 1;
                self.send_to_foreign(now, number);
            }
        }
    }

    /// Calls whose node has not even said that they have begun.
    pub(super) fn look_at_calls(&mut self, now: Instant) {
        self.given_up.retain(|_, until| now < *until);
        let silent = self.running.iter().filter(|(_, running)| {
            running.node.is_some() && running.up.is_none() && running.sent + BEGUN_WITHIN <= now
        });
        let mut silent: Vec<u64> = silent.map(|(number, _)| *number).collect();
        silent.sort_unstable();
        for number in silent {
            let id = self.running.get(&number).and_then(|running| running.node.clone());
            let id = id.map(|(_, id)| id).unwrap_or_default();
            let message = format!("node {id} did not say that it had begun");
            self.call_is_gone(now, number, message);
        }
    }

    /// Ends the calls of foreign services of which no instance is left that was there.
    pub(super) fn foreign_may_be_gone(&mut self, now: Instant) {
        let all = &self.instances.all;
        let gone = self.running.iter().filter(|(_, running)| {
            running.node.is_none()
                && running.collector.is_none()
                && !running.instances.is_empty()
                && !running.instances.iter().any(|key| all.contains_key(key))
        });
        let mut gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
        gone.sort_unstable();
        for number in gone {
            let service = self.running.get(&number).map(|it| it.offered.service.clone());
            let message = format!("no instance of `{}` is left", service.unwrap_or_default());
            self.call_is_gone(now, number, message);
        }
    }
}
