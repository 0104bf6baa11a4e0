//! Which calls are wanted: flags as the filter that the live page has, too.

use std::time::SystemTime;

use toolbus::bus::journal::read::Entry;
use toolbus_proto::page::{CallFilter, EndedAt, FilterError, FilteredCall};

use super::LogArgs;

pub(super) fn of(args: &LogArgs) -> CallFilter {
    CallFilter {
        backs: args.back.clone(),
        tools: args.tool.clone(),
        outcomes: args.outcome.clone(),
        fronts: args.front.clone(),
        callers: args.caller.clone(),
        since: args.since.as_ref().map(|since| since.instant(SystemTime::now())),
        slower: args.slower.map(|slower| slower.as_secs_f64() * 1000.0),
        trace: args.trace.clone(),
        words: Vec::new(),
    }
}

pub(super) fn taken(filter: &CallFilter, entry: &Entry<'_>) -> bool {
    filter.takes(&FilteredCall {
        back: entry.back.as_deref(),
        tool: &entry.tool,
        front: &entry.front,
        caller: entry.caller.as_deref(),
        outcome: &entry.outcome,
        trace: entry.trace.as_deref(),
        ended: EndedAt::Text(&entry.time),
        millis: entry.duration,
    })
}

/// How a call can end, for the command line.
pub(super) fn outcome(text: &str) -> Result<String, FilterError> {
    CallFilter::outcome(text, false)
}
