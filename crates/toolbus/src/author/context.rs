//! How a tool talks to its caller before it answers.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde::Serialize;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Outcome, Part, Piece};

use crate::engine::blocking::serving::Caller;

/// One call, for a function that is called in place.
///
/// Callers whose protocol has no parts get them collected behind the last; progress goes to
/// those alone who asked for it.
pub struct Context<'a> {
    caller: &'a mut dyn Caller,
    asked: Asked,
    has_parts: bool,
}

impl<'a> Context<'a> {
    pub(super) fn new(asked: Asked, caller: &'a mut dyn Caller) -> Context<'a> {
        Context { caller, asked, has_parts: false }
    }

    /// Tells how far the call is: so much of so much, and in words, if there is something to
    /// say. `done` rises from one to the next.
    pub fn progress(&mut self, done: u64, total: Option<u64>, message: &str) {
        if self.asked.wants_progress {
            self.caller.tell(progress(done, total, message));
        }
    }

    /// Answers a part of the reply now: text.
    pub fn text(&mut self, text: impl Into<String>) {
        self.part(Part::Text(text.into()));
    }

    /// Answers a part of the reply now: a value.
    pub fn json(&mut self, value: &impl Serialize) {
        self.part(Part::Json(Json::of(value)));
    }

    /// Answers a part of the reply now: bytes of a media type such as `image/png`.
    pub fn bytes(&mut self, bytes: impl Into<Bytes>, media_type: &str) {
        self.part(blob(bytes.into(), media_type));
    }

    /// Has the caller changed its mind, or gone away? What is answered then goes nowhere, so
    /// a function that takes long asks now and then and returns.
    pub fn is_cancelled(&mut self) -> bool {
        self.caller.is_gone()
    }

    /// Until when the caller waits, if it said so.
    pub fn deadline(&self) -> Option<Instant> {
        self.asked.deadline
    }

    /// What the caller sent beside the call for traces and logs: a JSON object, as it wrote
    /// it. Only mediocre-rpc has a place for that, `debug`. The answer must not depend on it.
    pub fn debug(&self) -> Option<&str> {
        self.asked.debug()
    }

    fn part(&mut self, part: Part) {
        if !std::mem::replace(&mut self.has_parts, true) {
            self.caller.tell(BEGIN);
        }
        self.caller.tell(Down::Part(part));
    }

    pub(super) fn end(&self, outcome: Outcome) -> Outcome {
        if self.has_parts { behind_parts(outcome) } else { outcome }
    }
}

/// What a tool may want to know of its call.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) wants_progress: bool,
    pub(super) deadline: Option<Instant>,
    debug: Option<Box<Json>>,
}

impl Asked {
    pub(super) fn of(call: &Call) -> Asked {
        let deadline = call.deadline.instant(call.deadline.asked);
        Asked { wants_progress: call.options.progress, deadline, debug: call.debug.clone() }
    }

    pub(super) fn debug(&self) -> Option<&str> {
        self.debug.as_deref().map(Json::as_str)
    }
}

pub(super) const BEGIN: Down = Down::Begin { head: None, parts: None };

pub(super) fn progress(done: u64, total: Option<u64>, message: &str) -> Down {
    let mut told = format!("{{\"progress\":{done}");
    if let Some(total) = total {
        told += &format!(",\"total\":{total}");
    }
    if !message.is_empty() {
        told += &format!(",\"message\":{}", Json::of(message));
    }
    told.push('}');
    Down::Progress(Json::from_trusted(told))
}

pub(super) fn blob(data: Bytes, media_type: &str) -> Part {
    let (media_type, len) = (Some(Arc::from(media_type)), Some(data.len() as u64));
    Part::Bytes(Piece { data, media_type, len, last: true })
}

/// What a function returns that has sent parts stands behind the last of them.
pub(super) fn behind_parts(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Value(value) => Outcome::End(Some(value).filter(|value| !value.is_null())),
        Outcome::Text(text) => Outcome::End(Some(Json::of(&text))),
        other => other,
    }
}
