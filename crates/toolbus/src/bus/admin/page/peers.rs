//! How backs and fronts are, as far as is known without asking them.

use std::rc::Rc;
use std::time::Instant;

use toolbus_proto::page::{JsonMembers, PageTime, Tally};
use toolbus_proto::tool::{Call, LastWords, What};

use super::Page;
use crate::bus::Member;
use crate::bus::admin::pages;
use crate::bus::back::Connection;
use crate::secrets;
use crate::time::rfc3339;
use toolbus_engine::account;
use toolbus_proto::page::write_millis;

/// So many lines of what a process said last.
const LINES_MAX: usize = 40;
/// So much of each.
const LINE_CHARS_MAX: usize = 1000;

/// Name, state, why it is in that, how often it was started again, how many tools it has.
type PeerTold = (String, &'static str, Option<String>, Option<u64>, usize);

/// What viewers were last told of peers, to find out what is new.
#[derive(Default, PartialEq, Eq)]
pub(super) struct PeersTold {
    pub(super) peers: Vec<PeerTold>,
    pub(super) is_ready: bool,
    /// By which it is known whether the tools are others.
    pub(super) digest: String,
}

/// How one back is.
struct BackNow {
    state: &'static str,
    why: Option<String>,
    stderr: Vec<String>,
}

impl Page {
    pub(super) fn write_state(&self, now: PageTime, out: &mut Vec<u8>) {
        let facts = self.facts.borrow().clone();
        let settings = self.settings.get();
        let journal = facts.journal.as_ref();
        let folder = facts.config.parent().and_then(|folder| folder.file_name());
        let name = folder.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut members = JsonMembers::begin(out);
        members.text("version", env!("CARGO_PKG_VERSION"));
        members.text("boot", &self.identity.boot);
        members.time("now", now.wall);
        members.text("since", &rfc3339(self.since));
        members.text("name", &secrets::masked(&name));
        members.text("config", &secrets::masked(&facts.config.display().to_string()));
        members.text("page", settings.mode.as_str());
        members.object("values", |members| {
            members.bool("allowed", settings.values);
            members.bool("arguments", journal.is_some_and(|journal| journal.arguments));
            members.bool("results", journal.is_some_and(|journal| journal.results));
            members.number("watching", self.watching());
        });
        members.bool("journal", journal.is_some());
        members.bool("ready", self.is_ready());
        let (counts, minute) = {
            let mut store = self.store.borrow_mut();
            (store.counts(), store.last_minute(now))
        };
        write_counts(&mut members, counts);
        members.object("last_minute", |members| {
            members.number("calls", minute.calls);
            members.number("failures", minute.failures);
            for (name, micros) in [("p50", minute.p50), ("p99", minute.p99)] {
                if let Some(micros) = micros {
                    write_millis(members.key(name), micros);
                }
            }
        });
        write_memory(&mut members);
        let tools = self.known_tools();
        members.object("tools", |members| {
            members.number("count", tools.count() as u64);
            members.text("digest", &tools.digest);
        });
        members.number("viewers", self.viewers.borrow().len() as u64);
        self.write_peers(&mut members);
        members.end();
    }

    /// Writes the backs and fronts.
    pub(super) fn write_peers(&self, members: &mut JsonMembers<'_>) {
        let Some(bus) = self.bus() else { return };
        let tools = self.known_tools();
        members.array("backs", bus.members.iter().enumerate(), |out, (index, member)| {
            let BackNow { state, why, stderr } = back_now(member);
            let mut members = JsonMembers::begin(out);
            members.text("name", &secrets::masked(&member.name));
            members.text("address", &secrets::masked(&member.address.to_string()));
            members.text("wire", member.back.wire().name());
            members.text("state", state);
            members.text_if("why", why.as_deref());
            if !stderr.is_empty() {
                members.array("stderr", &stderr, |out, line| {
                    toolbus_proto::json::write_string(out, line);
                });
            }
            if let Some(restarts) = member.back.restarts() {
                members.number("restarts", restarts);
            }
            members.number("tools", tools.of_back(index) as u64);
            let tally = self.store.borrow().of_back(&member.name);
            write_tally(&mut members, tally);
            members.end();
        });
        let facts = self.facts.borrow().clone();
        let outages = self.front_outages();
        let counts = self.told.upgrade().map(|told| told.metrics.by_front()).unwrap_or_default();
        members.array("fronts", &facts.fronts, |out, (name, address, wire)| {
            let why = outages.iter().find(|(front, _)| front == name).map(|(_, why)| why);
            let mut members = JsonMembers::begin(out);
            members.text("name", &secrets::masked(name));
            let known = self.addresses.borrow().get(name).cloned();
            members.text("address", &secrets::masked(known.as_deref().unwrap_or(address)));
            members.text("wire", wire);
            members.text("state", if why.is_some() { "down" } else { "listening" });
            members.text_if("why", why.map(String::as_str));
            members.number("calls", counts.get(name.as_str()).copied().unwrap_or_default());
            members.end();
        });
    }

    /// The fronts that do not listen, or cannot be reached, and why.
    fn front_outages(&self) -> Vec<(String, String)> {
        let Some(told) = self.told.upgrade() else { return Vec::new() };
        let missing = told.missing_fronts.borrow().clone();
        let silent = missing.into_iter().map(|name| (name, "does not listen".to_owned()));
        let away = crate::bus::meters::outages();
        let away = away.into_iter().map(|(name, why)| (name, shown_line(&why)));
        silent.chain(away).collect()
    }

    pub(super) fn is_ready(&self) -> bool {
        let Some(told) = self.told.upgrade() else { return false };
        let bus = told.bus.borrow().clone();
        pages::not_ready(&bus, &told.missing_fronts.borrow()).is_empty()
    }

    /// How peers are, as far as viewers are told when that changes.
    pub(super) fn peers_now(&self) -> PeersTold {
        let Some(bus) = self.bus() else { return PeersTold::default() };
        let tools = self.known_tools();
        let back = |(index, member): (usize, &Rc<Member>)| {
            let BackNow { state, why, .. } = back_now(member);
            let restarts = member.back.restarts();
            (format!("back.{}", member.name), state, why, restarts, tools.of_back(index))
        };
        let mut peers: Vec<_> = bus.members.iter().enumerate().map(back).collect();
        let outages = self.front_outages();
        let facts = self.facts.borrow();
        peers.extend(facts.fronts.iter().map(|(name, ..)| {
            let why = outages.iter().find(|(front, _)| front == name).map(|(_, why)| why.clone());
            let state = if why.is_some() { "down" } else { "listening" };
            (format!("front.{name}"), state, why, None, 0)
        }));
        PeersTold { peers, is_ready: self.is_ready(), digest: tools.digest.clone() }
    }
}

pub(super) fn write_counts(members: &mut JsonMembers<'_>, counts: Tally) {
    members.object("counts", |members| write_tally(members, counts));
}

fn write_tally(members: &mut JsonMembers<'_>, tally: Tally) {
    members.number("calls", tally.calls);
    members.number("failures", tally.failures);
    members.number("in_flight", tally.in_flight);
}

pub(super) fn write_memory(members: &mut JsonMembers<'_>) {
    let (bytes, bytes_max) = account::bytes_in_flight();
    members.object("memory", |members| {
        members.number("bytes_in_flight", bytes as u64);
        members.number("bytes_in_flight_max", bytes_max as u64);
        if let Some(resident) = pages::resident_bytes() {
            members.number("resident", resident);
        }
    });
}

fn back_now(member: &Member) -> BackNow {
    let is_answered_for = member.is_answered_for();
    let words = member.bare.last_words();
    let said = || {
        let lines = words.as_ref().map(|words| words.stderr.clone()).unwrap_or_default();
        let from = lines.len().saturating_sub(LINES_MAX);
        lines[from..].iter().map(|line| shown_line(line)).collect()
    };
    let plain = |state| BackNow { state, why: None, stderr: Vec::new() };
    if let Some(outage) = member.health.down() {
        let why = Some(shown_line(&outage.why));
        let state = if outage.needs_sign_in { "sign_in" } else { "down" };
        return BackNow { state, why, stderr: said() };
    }
    if member.health.is_unknown() && !is_answered_for || member.bare.is_starting() {
        return plain("starting");
    }
    let guard = member.guard.as_ref();
    if guard.is_some_and(|guard| guard.is_shut() || !guard.standings().is_empty()) {
        return plain("changed");
    }
    let call = Call::of(Instant::now(), What::Tools);
    if member.bare.connection(&call) == Connection::None {
        let exit = words.as_ref().and_then(|words: &LastWords| words.exit);
        let why = exit.map(|exit| format!("ended with {exit}"));
        return BackNow { state: "idle", why, stderr: said() };
    }
    plain("ready")
}

/// One line without secrets, of which the rest is left out if it is long.
fn shown_line(text: &str) -> String {
    let masked = secrets::masked(text);
    let line = masked.split(['\n', '\r']).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => line[..end].to_owned(),
        None => line,
    }
}
