//! What the pages say: `/healthz`, `/readyz` and `/metrics`.

use std::fs;
use std::time::UNIX_EPOCH;

use toolbus_proto::tool::FailureKind;

use super::exposition::{Kind, Page};
use super::metrics::{BOUNDS, Metrics, Series};
use crate::bus::{Bus, meters};
use crate::transport::crowd::{MadeRoom, made_room};
use toolbus_engine::account;

/// What is not ready, a line each; nothing if all is.
pub(super) fn not_ready(bus: &Bus, missing_fronts: &[String]) -> String {
    let is_told = |(name, _): &(String, String)| !missing_fronts.contains(name);
    let away = meters::outages().into_iter().filter(is_told);
    let away = away.map(|(name, why)| format!("front.{name}: {}\n", one_line(&why)));
    let fronts = missing_fronts.iter().map(|name| format!("front.{name}: does not listen\n"));
    let fronts = fronts.chain(away);
    let backs = bus.outages().into_iter();
    fronts.chain(backs.map(|(name, why)| format!("back.{name}: {}\n", one_line(&why)))).collect()
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join(" ")
}

/// All numbers.
pub(super) fn metrics(metrics: &Metrics, bus: &Bus) -> String {
    let mut page = Page::default();
    of_tools(&mut page, metrics);
    let mut fronts =
        page.family("toolbus_front_calls_total", Kind::Counter, "Calls that came by a front.");
    for (front, count) in metrics.by_front() {
        fronts.put(&[("front", &front)], count);
    }
    let help = "Calls that the bus answered itself, because no back could be found for them.";
    let mut refused = page.family("toolbus_refused_calls_total", Kind::Counter, help);
    for (kind, count) in FailureKind::ALL.iter().zip(&metrics.refused) {
        if 0 < count.get() {
            refused.put(&[("kind", kind.as_str())], count.get());
        }
    }
    let searches = metrics.searches();
    if !searches.is_empty() {
        let help = "Searches for tools by a front, and whether they found something.";
        let mut family = page.family("toolbus_searches_total", Kind::Counter, help);
        for ((front, has_found), count) in &searches {
            let found = if *has_found { "yes" } else { "no" };
            family.put(&[("front", front), ("found", found)], *count);
        }
    }
    of_callers(&mut page, metrics);
    of_backs(&mut page, bus, metrics);
    of_wires(&mut page);
    of_made_room(&mut page);
    of_process(&mut page, metrics);
    page.into_text()
}

fn of_tools(page: &mut Page, metrics: &Metrics) {
    let series = metrics.series();
    let mut each = |name, kind, help, value: &dyn Fn(&Series) -> u64| {
        let mut family = page.family(name, kind, help);
        for ((back, tool), series) in &series {
            family.put(&[("back", back), ("tool", tool)], value(series));
        }
    };
    let counter = Kind::Counter;
    each("toolbus_calls_total", counter, "Calls that have ended.", &|series| series.ended.get());
    each("toolbus_calls_in_flight", Kind::Gauge, "Calls under way.", &Series::in_flight);
    let help = "Bytes of arguments that were sent to a tool.";
    each("toolbus_request_bytes_total", counter, help, &|series| series.request_bytes.get());
    let help = "Bytes of answers that came from a tool.";
    each("toolbus_response_bytes_total", counter, help, &|series| series.response_bytes.get());
    let help = "Calls that have failed, by the way they did.";
    let mut failures = page.family("toolbus_call_failures_total", counter, help);
    for ((back, tool), series) in &series {
        for (kind, count) in FailureKind::ALL.iter().zip(&series.failed) {
            if 0 < count.get() {
                let labels = [("back", &**back), ("tool", &**tool), ("kind", kind.as_str())];
                failures.put(&labels, count.get());
            }
        }
    }
    let help = "How long calls took, from the bus to the tool and back.";
    let mut durations = page.family("toolbus_call_duration_seconds", Kind::Histogram, help);
    for ((back, tool), series) in &series {
        let labels = [("back", &**back), ("tool", &**tool)];
        let mut up_to_here = 0;
        for ((bound, _), count) in BOUNDS.iter().zip(&series.buckets) {
            up_to_here += count.get();
            let labels = [labels[0], labels[1], ("le", bound)];
            durations.put_as("_bucket", &labels, up_to_here);
        }
        let labels_of_all = [labels[0], labels[1], ("le", "+Inf")];
        durations.put_as("_bucket", &labels_of_all, series.ended.get());
        durations.put_as("_sum", &labels, series.took.get().as_secs_f64());
        durations.put_as("_count", &labels, series.ended.get());
    }
}

/// There are none where the config has neither callers nor limits.
fn of_callers(page: &mut Page, metrics: &Metrics) {
    let callers = metrics.by_caller();
    let help = "Calls of a caller that have ended, also those that got to no back.";
    let mut calls = page.family("toolbus_caller_calls_total", Kind::Counter, help);
    for (caller, series) in &callers {
        calls.put(&[("caller", caller)], series.ended.get());
    }
    let help = "Calls of a caller that have failed, by the way they did.";
    let mut failures = page.family("toolbus_caller_failures_total", Kind::Counter, help);
    for (caller, series) in &callers {
        for (kind, count) in FailureKind::ALL.iter().zip(&series.failed) {
            if 0 < count.get() {
                failures.put(&[("caller", caller), ("kind", kind.as_str())], count.get());
            }
        }
    }
    let help = "Calls of a caller that are under way.";
    let mut in_flight = page.family("toolbus_caller_calls_in_flight", Kind::Gauge, help);
    for (caller, series) in &callers {
        in_flight.put(&[("caller", caller)], series.in_flight());
    }
    let help = "Calls that were refused because a limit was reached, by limit and reason.";
    let mut limited = page.family("toolbus_limited_calls_total", Kind::Counter, help);
    for ((limit, reason), count) in metrics.limited() {
        limited.put(&[("limit", &limit), ("reason", reason)], count);
    }
}

fn of_made_room(page: &mut Page) {
    let MadeRoom { connections, sessions } = made_room();
    for (name, count, help) in [
        (
            "toolbus_sessions_made_room_total",
            sessions,
            "Sessions that ended because there were as many as there may be.",
        ),
        (
            "toolbus_connections_made_room_total",
            connections,
            "Connections that were closed because there were as many as there may be.",
        ),
    ] {
        if 0 < count {
            page.family(name, Kind::Counter, help).put(&[], count);
        }
    }
}

fn of_backs(page: &mut Page, bus: &Bus, metrics: &Metrics) {
    let help = "Whether a back answered when it was asked last: 1 if it did.";
    let mut up = page.family("toolbus_back_up", Kind::Gauge, help);
    for (name, health) in bus.healths() {
        up.put(&[("back", name)], u8::from(health.outage().is_none()));
    }
    let help = "How often the process of a back was started again.";
    let mut restarts = page.family("toolbus_back_restarts_total", Kind::Counter, help);
    for (name, count) in bus.restarts() {
        if let Some(count) = count {
            restarts.put(&[("back", name)], count);
        }
    }
    let held_back: Vec<_> = bus.held_back().collect();
    if !held_back.is_empty() {
        let help = "Tools, prompts and templates that are not as the lock has them and held back.";
        let mut held = page.family("toolbus_lock_held_back", Kind::Gauge, help);
        held_back.iter().for_each(|(name, count)| held.put(&[("back", name)], count));
    }
    let refused = metrics.lock_refused();
    if !refused.is_empty() {
        let help = "Calls that the lock refused, by back, tool and reason.";
        let mut family = page.family("toolbus_lock_refused_total", Kind::Counter, help);
        for ((back, tool, reason), count) in &refused {
            let labels = [("back", &**back), ("tool", &**tool), ("reason", *reason)];
            family.put(&labels, *count);
        }
    }
    let rests: Vec<_> = bus.rests().collect();
    if !rests.is_empty() {
        let help = "How often a back was told goodbye because nothing was asked of it.";
        let mut stops = page.family("toolbus_back_idle_stops_total", Kind::Counter, help);
        rests.iter().for_each(|(name, count)| stops.put(&[("back", name)], count));
    }
    let (bytes, bytes_max) = account::bytes_in_flight();
    let help = "Bytes that wait in memory for peers to read them, or to send the rest.";
    page.family("toolbus_bytes_in_flight", Kind::Gauge, help).put(&[], bytes);
    let help = "How many bytes may; over it the peer that holds most is cut off.";
    page.family("toolbus_bytes_in_flight_max", Kind::Gauge, help).put(&[], bytes_max);
}

/// What wires count of their own.
fn of_wires(page: &mut Page) {
    for (measure, readings) in meters::all() {
        let kind = if measure.is_counter { Kind::Counter } else { Kind::Gauge };
        let mut family = page.family(measure.name, kind, measure.help);
        for (labels, value) in readings {
            let labels: Vec<_> = labels.iter().map(|(name, of)| (*name, of.as_str())).collect();
            family.put(&labels, value);
        }
    }
}

fn of_process(page: &mut Page, metrics: &Metrics) {
    let help = "The version that runs.";
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.family("toolbus_build_info", Kind::Gauge, help).put(&version, 1);
    let since = metrics.since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let help = "When the process began, in seconds since 1970.";
    let mut start = page.family("process_start_time_seconds", Kind::Gauge, help);
    start.put(&[], since.as_secs_f64());
    // Both are known on Linux only.
    if let Some(bytes) = resident_bytes() {
        let help = "Memory that the process takes.";
        page.family("process_resident_memory_bytes", Kind::Gauge, help).put(&[], bytes);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        let help = "Files and sockets that the process has open.";
        page.family("process_open_fds", Kind::Gauge, help).put(&[], files.count());
    }
}

pub(super) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}
