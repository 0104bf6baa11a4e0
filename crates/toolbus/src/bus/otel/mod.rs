//! Spans for OpenTelemetry: each call of a tool is one, sent to a collector by OTLP over HTTP.
//!
//! A call costs its bus one record in a queue. A thread of its own writes and sends what is in
//! there, so that no collector, fast, slow or gone, is ever waited for by a call.

mod encode;
mod exporter;
mod settings;

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use toolbus_proto::tool::{Failure, Trace, Wire};

use super::observe::{CallEnd, ObservedCall, Observer};
use crate::chance;
use crate::secrets;

pub use exporter::Exporter;
pub use settings::{ENDPOINT, OtelError, OtelSettings};

/// One call of a tool, as a collector is told of it.
#[derive(Debug, Clone)]
struct Span {
    /// 32 hex digits.
    trace: String,
    /// 16 hex digits.
    id: String,
    /// The id of the caller's span, if it has one.
    parent: Option<String>,
    /// The `tracestate` of the caller.
    state: Option<String>,
    begun: SystemTime,
    took: Duration,
    front: String,
    caller: Option<String>,
    view: Option<String>,
    back: Option<String>,
    wire: Option<&'static str>,
    tool: String,
    outcome: &'static str,
    /// What happened, if it failed.
    message: Option<String>,
    bytes_in: u64,
    bytes_out: u64,
}

/// Sees the calls of a bus, and makes spans of them.
pub struct Spans {
    queue: exporter::Queue,
    /// The two clocks at one instant: calls know only the one that never goes back.
    clocks: (Instant, SystemTime),
}

impl Observer for Spans {
    fn begins_traces(&self) -> bool {
        true
    }

    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Result<(), Failure> {
        if let Some(span) = self.span(call, end) {
            self.queue.push(span);
        }
        Ok(())
    }
}

impl Spans {
    fn new(queue: exporter::Queue) -> Spans {
        Spans { queue, clocks: (Instant::now(), SystemTime::now()) }
    }

    /// The span of a call, unless its caller says that its trace is not recorded.
    fn span(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Option<Span> {
        if call.trace.as_ref().is_some_and(|trace| !trace.is_sampled()) {
            return None;
        }
        let passed_on = call.trace_passed_on.as_ref();
        let known = passed_on.or(call.trace.as_ref());
        // What passes as it is has no place for an id of ours.
        let id = passed_on.map_or_else(|| hex(&chance::bytes::<8>()), |it| it.parent_id().into());
        Some(Span {
            trace: known.map_or_else(|| hex(&chance::bytes::<16>()), |it| it.id().into()),
            id,
            parent: call.trace.as_ref().map(|trace| trace.parent_id().to_owned()),
            state: call.trace.as_ref().and_then(Trace::state).map(str::to_owned),
            begun: self.at(call.asked),
            took: end.duration,
            front: call.front.to_string(),
            caller: call.caller.as_deref().map(str::to_owned),
            view: call.view.as_deref().map(str::to_owned),
            back: call.back.as_deref().map(str::to_owned),
            wire: call.wire.map(Wire::name),
            tool: call.tool.to_string(),
            outcome: end.outcome(),
            message: end.failure.map(|failure| secrets::masked(&failure.message).into_owned()),
            bytes_in: call.bytes_in,
            bytes_out: call.bytes_out,
        })
    }

    fn at(&self, instant: Instant) -> SystemTime {
        let (then, at_then) = self.clocks;
        match instant.checked_duration_since(then) {
            Some(since) => at_then + since,
            None => at_then - then.duration_since(instant),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
