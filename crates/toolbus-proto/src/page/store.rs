//! The calls that are shown: those that run, and of those that ended as many as somebody can look
//! at. All are counted.
//!
//! Of calls that end within the same tenth of a second fifty are kept, failures before others. So
//! what is kept, told and sent is bounded however many calls there are.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::history::History;
use super::record::{RecordEnd, RecordNames};
use super::stats::{CountedAs, Stats};
use super::values::{CallValues, since};
use super::{
    CallFilter, CallRecord, HeardOf, JsonMembers, LastMinute, Masks, PageTime, Takes, Tally, cut,
};
use crate::json::Json;
use crate::tool::{Failure, Outcome, ToolName};

/// So many calls that ended are kept.
const ENDED_MAX: usize = 2000;
/// So many of those that end in one slot.
const SLOT_CALLS_MAX: usize = 50;
/// How long a slot is.
const SLOT: Duration = Duration::from_millis(100);
/// So many calls that run are told, the oldest.
const RUNNING_MAX: usize = 500;
/// So many of them are told even where a slot is full.
const RUNNING_OF_FULL_SLOT: usize = 10;
/// What may be kept of the values of all calls.
const VALUES_BYTES_MAX: usize = 16 << 20;
/// So many calls a snapshot tells.
pub const RECORDS_OF_SNAPSHOT: usize = 200;

/// What is known of a call when it begins, or better when it ends.
#[derive(Debug, Clone)]
pub struct CallBegun<'a> {
    /// When its caller asked.
    pub asked: Instant,
    /// The front that it came by.
    pub front: &'a Arc<str>,
    /// Who called there.
    pub caller: Option<&'a Arc<str>>,
    /// In which view.
    pub view: Option<&'a Arc<str>>,
    /// Whose tool it is.
    pub back: Option<&'a Arc<str>>,
    /// What that speaks.
    pub wire: Option<&'static str>,
    /// The tool.
    pub tool: &'a ToolName,
    /// The id of its trace.
    pub trace: Option<&'a str>,
    /// Its back is not told to its caller, and it is not counted as its.
    pub is_hidden: bool,
    /// What it was given.
    pub arguments: Option<&'a Json>,
    /// Bytes so far.
    pub bytes_in: u64,
    /// Bytes so far.
    pub bytes_out: u64,
    /// How many parts came so far.
    pub parts: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
pub struct CallEnded<'a> {
    /// `ok`, or the kind of failure.
    pub outcome: &'static str,
    /// Why it was refused, if a limit or the lock did so.
    pub reason: Option<&'static str>,
    /// How long it took.
    pub duration: Duration,
    /// What was answered, if that is known.
    pub result: Option<&'a Outcome>,
    /// Why it failed, if that is known.
    pub failure: Option<&'a Failure>,
}

impl CallEnded<'_> {
    fn has_failed(&self) -> bool {
        self.outcome != "ok"
    }
}

/// One page of calls.
#[derive(Debug, Clone, Copy)]
pub struct CallsPage<'a> {
    /// Which are meant.
    pub filter: &'a CallFilter,
    /// Those before this one.
    pub before: Option<u64>,
    /// So many at most.
    pub limit: usize,
}

/// What viewers are told of what happened.
#[derive(Debug)]
pub struct PageFrame {
    /// The number of the last change that is in it.
    pub change: u64,
    /// Its members, behind those of whoever sends it, without the closing brace.
    pub members: Vec<u8>,
}

struct RunningRecord {
    record: CallRecord,
    counted: Option<CountedAs>,
    is_told: bool,
}

/// Calls that ended in the slot that goes on.
#[derive(Default)]
struct Slot {
    began: Option<Instant>,
    ok: VecDeque<CallRecord>,
    failed: VecDeque<CallRecord>,
    /// Those that are among the ended by now.
    settled: usize,
}

fn names_of(call: &CallBegun<'_>) -> RecordNames {
    let short = |name: &Arc<str>| match cut(name) {
        Cow::Borrowed(_) => name.clone(),
        Cow::Owned(cut) => cut.into(),
    };
    RecordNames {
        front: short(call.front),
        caller: call.caller.map(short),
        view: call.view.map(short),
        back: call.back.map(short),
        wire: call.wire,
        tool: cut(call.tool.as_str()).into(),
        trace: call.trace.map(|trace| cut(trace).into()),
    }
}

/// What is kept and counted of the calls of a bus.
pub struct PageStore {
    /// How many calls began.
    begun: u64,
    counts: Tally,
    change: u64,
    /// Calls that run, by the key under which they began.
    numbers: HashMap<u64, u64>,
    running: BTreeMap<u64, RunningRecord>,
    told_running: usize,
    ended: BTreeMap<u64, CallRecord>,
    /// In the order in which they ended.
    ended_order: VecDeque<u64>,
    slot: Slot,
    /// How many calls that ended were never kept, or gave way to others of their slot.
    left_out: u64,
    values: BTreeMap<u64, CallValues>,
    values_weight: usize,
    history: History,
    stats: Stats,
    /// What the last frame told.
    told: ToldSoFar,
}

/// How far frames have told what happened.
#[derive(Debug, Default)]
struct ToldSoFar {
    change: u64,
    left_out: u64,
    second: u64,
}

impl PageStore {
    /// Nothing has happened yet.
    pub fn new(now: PageTime) -> PageStore {
        PageStore {
            begun: 0,
            counts: Tally::default(),
            change: 0,
            numbers: HashMap::new(),
            running: BTreeMap::new(),
            told_running: 0,
            ended: BTreeMap::new(),
            ended_order: VecDeque::new(),
            slot: Slot::default(),
            left_out: 0,
            values: BTreeMap::new(),
            values_weight: 0,
            history: History::new(now),
            stats: Stats::default(),
            told: ToldSoFar { second: now.wall / 1000, ..ToldSoFar::default() },
        }
    }

    /// A call begins, which will be known by this key until it has ended. Gives its number.
    /// `is_listed` tells whether its back has listed its tool; a call that is none of a tool is not
    /// counted among those of tools.
    pub fn begins(
        &mut self,
        now: PageTime,
        key: u64,
        call: &CallBegun<'_>,
        takes: Takes,
        is_listed: Option<&dyn Fn() -> bool>,
        bytes_in_flight: u64,
    ) -> u64 {
        self.begun += 1;
        let n = self.begun;
        self.counts.begins();
        self.history.begins(now, bytes_in_flight);
        let back = call.back.filter(|_| !call.is_hidden);
        let counted = is_listed.map(|is_listed| self.stats.begins(back, call.tool, is_listed));
        if takes.any() {
            self.put_values(n, CallValues::new(takes, call.arguments));
        }
        self.change += 1;
        let record = CallRecord {
            n,
            asked: call.asked,
            began: now.wall_at(call.asked),
            end: None,
            names: names_of(call),
            bytes_in: call.bytes_in,
            bytes_out: call.bytes_out,
            parts: call.parts,
            change: self.change,
        };
        self.numbers.insert(key, n);
        self.running.insert(n, RunningRecord { record, counted, is_told: false });
        n
    }

    /// The number of a call that runs.
    pub fn number(&self, key: u64) -> Option<u64> {
        self.numbers.get(&key).copied()
    }

    /// Something happened in a call that runs.
    pub fn hears(&mut self, now: PageTime, key: u64, call: &CallBegun<'_>, heard: HeardOf<'_>) {
        let Some(n) = self.number(key) else { return };
        let Some(running) = self.running.get_mut(&n) else { return };
        self.change += 1;
        let record = &mut running.record;
        record.change = self.change;
        record.parts = call.parts;
        record.bytes_in = call.bytes_in;
        record.bytes_out = call.bytes_out;
        let at = since(record.asked, now.at);
        self.change_values(n, |values| values.hear(at, heard));
    }

    /// A call has ended.
    pub fn ends(
        &mut self,
        now: PageTime,
        key: u64,
        call: &CallBegun<'_>,
        end: &CallEnded<'_>,
        bytes_in_flight: u64,
    ) {
        let Some(n) = self.numbers.remove(&key) else { return };
        let Some(RunningRecord { mut record, counted, is_told }) = self.running.remove(&n) else {
            return;
        };
        let has_failed = end.has_failed();
        self.counts.ends(has_failed);
        self.history.ends(now, end.duration, has_failed, bytes_in_flight);
        if let Some(counted) = &counted {
            self.stats.ends(counted, end.duration, has_failed);
        }
        self.change += 1;
        if !is_told && !self.has_room(now, has_failed) {
            self.left_out += 1;
            self.drop_values(n);
            return;
        }
        record.change = self.change;
        record.end = Some(RecordEnd {
            wall: now.wall,
            duration: end.duration,
            outcome: end.outcome,
            reason: end.reason,
        });
        // Whose it was may not have been known before.
        record.names = names_of(call);
        record.bytes_in = call.bytes_in;
        record.bytes_out = call.bytes_out;
        record.parts = call.parts;
        self.change_values(n, |values| {
            values.given(call.arguments);
            values.end(end.duration, end.result, end.failure, has_failed);
        });
        match (is_told, has_failed) {
            (true, _) => {
                self.told_running -= 1;
                self.settle(record);
            }
            (false, true) => self.slot.failed.push_back(record),
            (false, false) => self.slot.ok.push_back(record),
        }
    }

    /// Is there room for one more call in the slot? Another one goes for it where that counts less.
    fn has_room(&mut self, now: PageTime, has_failed: bool) -> bool {
        if self.slot.began.is_none_or(|began| began + SLOT <= now.at) {
            self.settle_slot();
            self.slot = Slot { began: Some(now.at), ..Slot::default() };
        }
        let Slot { ok, failed, settled, .. } = &mut self.slot;
        if *settled + ok.len() + failed.len() < SLOT_CALLS_MAX {
            return true;
        }
        let gone = match has_failed {
            true => ok.pop_front().or_else(|| failed.pop_front()),
            false => ok.pop_front(),
        };
        if let Some(gone) = &gone {
            self.left_out += 1;
            self.drop_values(gone.n);
        }
        gone.is_some()
    }

    /// What ended in the slot so far can be looked at: none of it goes for another any more.
    fn settle_slot(&mut self) {
        let ok = std::mem::take(&mut self.slot.ok);
        let failed = std::mem::take(&mut self.slot.failed);
        self.slot.settled += ok.len() + failed.len();
        let mut all: Vec<CallRecord> = ok.into_iter().chain(failed).collect();
        all.sort_unstable_by_key(|record| record.change);
        all.into_iter().for_each(|record| self.settle(record));
    }

    fn settle(&mut self, record: CallRecord) {
        self.ended_order.push_back(record.n);
        self.ended.insert(record.n, record);
        while ENDED_MAX < self.ended.len() {
            let Some(oldest) = self.ended_order.pop_front() else { break };
            self.ended.remove(&oldest);
            self.drop_values(oldest);
        }
    }

    fn put_values(&mut self, n: u64, values: CallValues) {
        self.values_weight += values.weight;
        self.values.insert(n, values);
        while VALUES_BYTES_MAX < self.values_weight {
            let Some((_, oldest)) = self.values.pop_first() else { break };
            self.values_weight -= oldest.weight;
        }
    }

    fn change_values(&mut self, n: u64, change: impl FnOnce(&mut CallValues)) {
        let Some(mut values) = self.values.remove(&n) else { return };
        self.values_weight -= values.weight;
        change(&mut values);
        self.put_values(n, values);
    }

    fn drop_values(&mut self, n: u64) {
        if let Some(values) = self.values.remove(&n) {
            self.values_weight -= values.weight;
        }
    }

    /// Forgets all values, and takes none of the calls that run.
    pub fn forget_values(&mut self) {
        self.values.clear();
        self.values_weight = 0;
    }

    /// Takes no more than this of the calls that run, but of those of one front.
    pub fn take_only(&mut self, takes: Takes, but_front: &str) {
        for (n, values) in &mut self.values {
            let running = self.running.get(n);
            if running.is_some_and(|running| &*running.record.names.front != but_front) {
                values.take_only(takes);
            }
        }
    }

    /// Forgets the numbers of backs that are gone.
    pub fn keep_backs(&mut self, is_there: impl Fn(&str) -> bool) {
        self.stats.keep(is_there);
    }

    /// Has something happened since the last frame?
    pub fn has_news(&mut self, now: PageTime) -> bool {
        self.history.advance(now);
        self.change != self.told.change || self.history.has_busy_since(self.told.second)
    }

    /// When the second is over that goes on, if something happened in it: then there is news.
    pub fn second_over(&self) -> Option<u64> {
        self.history.is_busy().then(|| (self.history.second() + 1) * 1000)
    }

    /// The number of the last change.
    pub fn change(&self) -> u64 {
        self.change
    }

    /// Calls since the start.
    pub fn counts(&self) -> Tally {
        self.counts
    }

    /// Calls to this back.
    pub fn of_back(&self, back: &str) -> Tally {
        self.stats.of_back(back)
    }

    /// What happened in the last minute.
    pub fn last_minute(&mut self, now: PageTime) -> LastMinute {
        self.history.last_minute(now)
    }

    /// Writes the numbers of each second.
    pub fn write_history(&mut self, now: PageTime, out: &mut Vec<u8>) {
        self.history.advance(now);
        self.history.write(out);
    }

    /// Writes the numbers of each tool.
    pub fn write_stats(&self, out: &mut Vec<u8>, masks: &dyn Masks) {
        self.stats.write(out, masks);
    }

    /// How many calls that ended are not kept.
    fn forgotten(&self) -> u64 {
        let slot = self.slot.ok.len() + self.slot.failed.len();
        self.counts.calls - (self.ended.len() + slot) as u64
    }

    /// Tells of calls that run, the oldest: so many more at most.
    fn tell_running(&mut self, more_max: usize, asked_before: Option<Instant>) {
        let room = RUNNING_MAX.saturating_sub(self.told_running).min(more_max);
        let is_due = |running: &&mut RunningRecord| {
            !running.is_told && asked_before.is_none_or(|before| running.record.asked < before)
        };
        let due = self.running.values_mut().filter(is_due).take(room);
        let mut told = 0;
        for running in due {
            running.is_told = true;
            // It is news to those who look.
            self.change += 1;
            running.record.change = self.change;
            told += 1;
        }
        self.told_running += told;
    }

    /// The calls that are kept and told, the latest first.
    fn shown(&self) -> impl Iterator<Item = &CallRecord> {
        let told = self.running.values().rev().filter(|running| running.is_told);
        let mut running = told.map(|running| &running.record).peekable();
        let mut ended = self.ended.values().rev().peekable();
        std::iter::from_fn(move || match (running.peek(), ended.peek()) {
            (Some(one), Some(other)) if one.n < other.n => ended.next(),
            (Some(_), _) => running.next(),
            (None, _) => ended.next(),
        })
    }

    /// Writes a page of calls: `{"calls":[…],"more":…,"forgotten":…}`.
    pub fn write_calls(
        &mut self,
        now: PageTime,
        out: &mut Vec<u8>,
        page: CallsPage<'_>,
        masks: &dyn Masks,
    ) {
        self.settle_slot();
        self.tell_running(usize::MAX, None);
        let meant = |record: &&CallRecord| {
            page.before.is_none_or(|before| record.n < before)
                && page.filter.takes(&record.filtered(now))
        };
        let mut meant = self.shown().filter(meant);
        let calls: Vec<_> = meant.by_ref().take(page.limit).collect();
        let more = meant.next().is_some();
        let mut members = JsonMembers::begin(out);
        self.write_records(&mut members, calls.into_iter(), masks);
        members.bool("more", more);
        members.number("forgotten", self.forgotten());
        members.end();
    }

    fn write_records<'a>(
        &self,
        members: &mut JsonMembers<'_>,
        records: impl Iterator<Item = &'a CallRecord>,
        masks: &dyn Masks,
    ) {
        members.array("calls", records, |out, record| {
            let mut members = JsonMembers::begin(out);
            record.write(&mut members, masks, self.values.get(&record.n));
            members.end();
        });
    }

    /// Writes all that is known of a call; tells whether it is kept. Values may be hidden.
    pub fn write_detail(
        &mut self,
        out: &mut Vec<u8>,
        n: u64,
        are_values_hidden: bool,
        masks: &dyn Masks,
    ) -> bool {
        self.settle_slot();
        self.tell_running(usize::MAX, None);
        let running = self.running.get(&n).filter(|running| running.is_told);
        let record = running.map(|running| &running.record).or_else(|| self.ended.get(&n));
        let Some(record) = record else { return false };
        let values = self.values.get(&n).filter(|_| !are_values_hidden);
        let kind = record.end.as_ref().map(|end| end.outcome).filter(|outcome| *outcome != "ok");
        let mut members = JsonMembers::begin(out);
        record.write(&mut members, masks, values);
        members.text(
            "values",
            match (values, are_values_hidden) {
                (Some(_), _) => "kept",
                (None, true) => "hidden",
                (None, false) => "not_kept",
            },
        );
        match (values, kind) {
            (Some(values), kind) => values.write(&mut members, masks, kind),
            (None, Some(kind)) => members.object("failure", |members| members.text("kind", kind)),
            (None, None) => {}
        }
        members.end();
        true
    }

    /// What happened since the last frame. Whoever sends it writes what it knows besides before.
    pub fn frame(
        &mut self,
        now: PageTime,
        masks: &dyn Masks,
        before: impl FnOnce(&mut JsonMembers<'_>, Tally),
    ) -> PageFrame {
        self.history.advance(now);
        let slot_began = self.slot.began;
        self.settle_slot();
        let told = self.told.change;
        let is_new = |record: &&CallRecord| told < record.change;
        let ended = self.ended.values().filter(is_new).count();
        match SLOT_CALLS_MAX.saturating_sub(ended) {
            0 => self.tell_running(RUNNING_OF_FULL_SLOT, slot_began),
            room => self.tell_running(room, None),
        }
        let mut out = Vec::new();
        let mut members = JsonMembers::begin(&mut out);
        before(&mut members, self.counts);
        let mut changed: Vec<_> = self.shown().filter(is_new).collect();
        changed.reverse();
        self.write_records(&mut members, changed.into_iter(), masks);
        members.number("left_out", self.left_out - self.told.left_out);
        self.history.write_since(&mut members, "seconds", self.told.second);
        members.end();
        self.told = ToldSoFar {
            change: self.change,
            left_out: self.left_out,
            second: self.history.second(),
        };
        PageFrame { change: self.change, members: out }
    }

    /// The latest calls; for a viewer that has seen all up to a change, those that changed since.
    pub fn write_snapshot(
        &mut self,
        members: &mut JsonMembers<'_>,
        resumed_after: Option<u64>,
        masks: &dyn Masks,
    ) {
        self.settle_slot();
        self.tell_running(usize::MAX, None);
        match resumed_after {
            Some(change) => {
                let changed = self.shown().filter(|record| change < record.change);
                self.write_records(members, changed, masks);
            }
            None => self.write_records(members, self.shown().take(RECORDS_OF_SNAPSHOT), masks),
        }
    }
}
