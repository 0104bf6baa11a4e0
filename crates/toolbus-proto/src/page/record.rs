//! One call as it is shown in lists: what a line of the journal says, also while it runs.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::values::CallValues;
use super::{EndedAt, FilteredCall, JsonMembers, Masks, PageTime};

/// So many characters of a name are kept.
const NAME_CHARS_MAX: usize = 200;

/// What is known of a call.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// Counted from 1 in the order in which calls began.
    pub n: u64,
    pub(super) asked: Instant,
    /// When it was asked, in milliseconds since 1970.
    pub(super) began: u64,
    pub(super) end: Option<RecordEnd>,
    pub(super) names: RecordNames,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) parts: u64,
    /// When it changed last, by the count of all changes.
    pub(super) change: u64,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub(super) struct RecordEnd {
    pub(super) wall: u64,
    pub(super) duration: Duration,
    /// `ok`, or the kind of failure.
    pub(super) outcome: &'static str,
    pub(super) reason: Option<&'static str>,
}

/// Who called what.
#[derive(Debug, Clone)]
pub(super) struct RecordNames {
    pub(super) front: Arc<str>,
    pub(super) caller: Option<Arc<str>>,
    pub(super) view: Option<Arc<str>>,
    pub(super) back: Option<Arc<str>>,
    pub(super) wire: Option<&'static str>,
    pub(super) tool: Arc<str>,
    pub(super) trace: Option<Arc<str>>,
}

impl CallRecord {
    /// As a filter looks at it.
    pub(super) fn filtered(&self, now: PageTime) -> FilteredCall<'_> {
        let names = &self.names;
        let taken = self.end.as_ref().map(|end| end.duration);
        let taken = taken.unwrap_or_else(|| now.at.saturating_duration_since(self.asked));
        FilteredCall {
            back: names.back.as_deref(),
            tool: &names.tool,
            front: &names.front,
            caller: names.caller.as_deref(),
            outcome: self.end.as_ref().map_or("running", |end| end.outcome),
            trace: names.trace.as_deref(),
            ended: self.end.as_ref().map_or(EndedAt::NotYet, |end| EndedAt::Wall(end.wall)),
            millis: taken.as_secs_f64() * 1000.0,
        }
    }

    /// Writes the members of a record.
    pub(super) fn write(
        &self,
        members: &mut JsonMembers<'_>,
        masks: &dyn Masks,
        values: Option<&CallValues>,
    ) {
        let RecordNames { front, caller, view, back, wire, tool, trace } = &self.names;
        let masked =
            |name: &Option<Arc<str>>| name.as_deref().map(|name| masks.text(name).into_owned());
        members.number("n", self.n);
        members.time("began", self.began);
        if let Some(end) = &self.end {
            members.time("time", end.wall);
        }
        members.text("front", &masks.text(front));
        members.text_if("caller", masked(caller).as_deref());
        members.text_if("view", masked(view).as_deref());
        members.text_if("back", masked(back).as_deref());
        members.text_if("wire", *wire);
        members.text("tool", &masks.text(tool));
        members.text("outcome", self.end.as_ref().map_or("running", |end| end.outcome));
        if let Some(end) = &self.end {
            members.text_if("reason", end.reason);
            members.millis("duration", end.duration);
        }
        members.object("bytes", |bytes| {
            bytes.number("in", self.bytes_in);
            bytes.number("out", self.bytes_out);
        });
        members.text_if("trace", masked(trace).as_deref());
        if 0 < self.parts {
            members.number("parts", self.parts);
        }
        if let Some(progress) = values.and_then(CallValues::progress) {
            progress.write(members.key("progress"), masks);
        }
    }
}

/// A name of at most 200 characters; of one that is longer its beginning.
pub fn cut(name: &str) -> Cow<'_, str> {
    // Few are longer in bytes, and none else in characters.
    if name.len() <= NAME_CHARS_MAX {
        return Cow::Borrowed(name);
    }
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}
