//! What happened in each of the last 900 seconds. Nothing has to look at it meanwhile: seconds in
//! which nothing happened are filled in when somebody does.

use std::collections::VecDeque;
use std::time::Duration;

use super::members::{JsonMembers, write_millis};
use super::{Histogram, PageTime};

/// So many seconds are kept.
const HISTORY_SECONDS: usize = 900;
const MINUTE: u64 = 60;

/// One second.
#[derive(Debug, Clone, Default)]
struct Second {
    /// Since 1970.
    at: u64,
    calls: u64,
    failures: u64,
    /// In microseconds.
    p50: Option<u64>,
    p99: Option<u64>,
    in_flight: u64,
    bytes_in_flight: u64,
    /// A call began in it, or ended.
    is_busy: bool,
}

/// What happened in the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastMinute {
    /// Calls that ended.
    pub calls: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// In microseconds.
    pub p50: Option<u64>,
    /// In microseconds.
    pub p99: Option<u64>,
}

/// The seconds of before, and this one.
#[derive(Debug)]
pub(super) struct History {
    closed: VecDeque<Second>,
    current: Second,
    durations: Histogram,
    /// How long calls took that ended in the closed seconds of the last minute, and what they were.
    minute: VecDeque<(Second, Histogram)>,
    /// Under way now.
    in_flight: u64,
    bytes_in_flight: u64,
}

impl History {
    pub(super) fn new(now: PageTime) -> History {
        History {
            closed: VecDeque::new(),
            current: Second { at: now.wall / 1000, ..Second::default() },
            durations: Histogram::default(),
            minute: VecDeque::new(),
            in_flight: 0,
            bytes_in_flight: 0,
        }
    }

    pub(super) fn begins(&mut self, now: PageTime, bytes_in_flight: u64) {
        self.advance(now);
        self.in_flight += 1;
        self.moved(bytes_in_flight);
    }

    pub(super) fn ends(
        &mut self,
        now: PageTime,
        duration: Duration,
        has_failed: bool,
        bytes_in_flight: u64,
    ) {
        self.advance(now);
        self.moved(bytes_in_flight);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.current.calls += 1;
        self.current.failures += u64::from(has_failed);
        self.durations.add(duration);
    }

    fn moved(&mut self, bytes_in_flight: u64) {
        self.bytes_in_flight = bytes_in_flight;
        let current = &mut self.current;
        current.is_busy = true;
        current.in_flight = current.in_flight.max(self.in_flight);
        current.bytes_in_flight = current.bytes_in_flight.max(bytes_in_flight);
    }

    /// Closes the seconds that are over.
    pub(super) fn advance(&mut self, now: PageTime) {
        let at = now.wall / 1000;
        // A clock that is set back adds to the second that it was.
        if at <= self.current.at {
            return;
        }
        let (in_flight, bytes_in_flight) = (self.in_flight, self.bytes_in_flight);
        let next = Second { at, in_flight, bytes_in_flight, ..Second::default() };
        let mut over = std::mem::replace(&mut self.current, next);
        over.p50 = self.durations.percentile(50);
        over.p99 = self.durations.percentile(99);
        if 0 < over.calls {
            self.minute.push_back((over.clone(), std::mem::take(&mut self.durations)));
        }
        let first_quiet = (over.at + 1).max(at.saturating_sub(HISTORY_SECONDS as u64));
        self.closed.push_back(over);
        for at in first_quiet..at {
            self.closed.push_back(Second { at, in_flight, bytes_in_flight, ..Second::default() });
        }
        let too_many = self.closed.len().saturating_sub(HISTORY_SECONDS);
        self.closed.drain(..too_many);
        while self.minute.front().is_some_and(|(second, _)| second.at + MINUTE <= at) {
            self.minute.pop_front();
        }
    }

    pub(super) fn last_minute(&mut self, now: PageTime) -> LastMinute {
        self.advance(now);
        let mut all = self.durations.clone();
        let mut minute = LastMinute {
            calls: self.current.calls,
            failures: self.current.failures,
            ..LastMinute::default()
        };
        for (second, durations) in &self.minute {
            minute.calls += second.calls;
            minute.failures += second.failures;
            all.add_all(durations);
        }
        LastMinute { p50: all.percentile(50), p99: all.percentile(99), ..minute }
    }

    /// When the second is over, if something happened in it.
    pub(super) fn is_busy(&self) -> bool {
        self.current.is_busy
    }

    /// The second that goes on now.
    pub(super) fn second(&self) -> u64 {
        self.current.at
    }

    /// The closed seconds from this one on in which something happened.
    pub(super) fn write_since(&self, members: &mut JsonMembers<'_>, name: &str, from: u64) {
        let busy = self.closed.iter().filter(|second| from <= second.at && second.is_busy);
        members.array(name, busy, |out, second| {
            let mut members = JsonMembers::begin(out);
            members.time("at", second.at * 1000);
            members.number("calls", second.calls);
            members.number("failures", second.failures);
            for (name, micros) in [("p50", second.p50), ("p99", second.p99)] {
                if let Some(micros) = micros {
                    write_millis(members.key(name), micros);
                }
            }
            members.number("in_flight", second.in_flight);
            members.number("bytes_in_flight", second.bytes_in_flight);
            members.end();
        });
    }

    /// Is there a closed second from this one on in which something happened?
    pub(super) fn has_busy_since(&self, from: u64) -> bool {
        self.closed.iter().rev().take_while(|second| from <= second.at).any(|second| second.is_busy)
    }

    /// All of it, second by second.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let before = HISTORY_SECONDS - self.closed.len();
        let from = self.current.at.saturating_sub(HISTORY_SECONDS as u64);
        let nothing = Second::default();
        let all = || std::iter::repeat_n(&nothing, before).chain(&self.closed);
        let mut members = JsonMembers::begin(out);
        members.time("from", from * 1000);
        members.number("step", 1);
        write_numbers(&mut members, "calls", all().map(|second| second.calls));
        write_numbers(&mut members, "failures", all().map(|second| second.failures));
        write_times(&mut members, "p50", all().map(|second| second.p50));
        write_times(&mut members, "p99", all().map(|second| second.p99));
        write_numbers(&mut members, "in_flight", all().map(|second| second.in_flight));
        let bytes = all().map(|second| second.bytes_in_flight);
        write_numbers(&mut members, "bytes_in_flight", bytes);
        members.end();
    }
}

fn write_numbers(members: &mut JsonMembers<'_>, name: &str, numbers: impl Iterator<Item = u64>) {
    members.array(name, numbers, |out, number| {
        out.extend_from_slice(number.to_string().as_bytes());
    });
}

/// Microseconds as milliseconds, where there are some.
fn write_times(
    members: &mut JsonMembers<'_>,
    name: &str,
    times: impl Iterator<Item = Option<u64>>,
) {
    members.array(name, times, |out, micros| match micros {
        Some(micros) => write_millis(out, micros),
        None => out.extend_from_slice(b"null"),
    });
}
