//! How an async tool talks to its caller before it answers.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use serde::Serialize;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Outcome, Part};

use super::context::{Asked, BEGIN, behind_parts, blob, progress};
use crate::engine::local_call::Conversation;

/// One call, for an async function. Cheap to clone.
///
/// Should the caller change its mind, the future is dropped. Whatever is sent waits while the
/// caller is slow.
#[derive(Clone)]
pub struct AsyncContext {
    conversation: Rc<Conversation>,
    asked: Asked,
    has_parts: Rc<Cell<bool>>,
}

impl AsyncContext {
    pub(super) fn new(asked: Asked, conversation: Rc<Conversation>) -> AsyncContext {
        AsyncContext { conversation, asked, has_parts: Rc::default() }
    }

    /// What the caller sent beside the call for traces and logs: a JSON object, as it wrote
    /// it. Only mediocre-rpc has a place for that, `debug`. The answer must not depend on it.
    pub fn debug(&self) -> Option<&str> {
        self.asked.debug()
    }

    /// Tells how far the call is: so much of so much, and in words, if there is something to
    /// say. `done` rises from one to the next.
    pub async fn progress(&self, done: u64, total: Option<u64>, message: &str) {
        if self.asked.wants_progress {
            self.conversation.send(progress(done, total, message)).await;
        }
    }

    /// Answers a part of the reply now: text.
    pub async fn text(&self, text: impl Into<String>) {
        self.part(Part::Text(text.into())).await;
    }

    /// Answers a part of the reply now: a value.
    pub async fn json(&self, value: &impl Serialize) {
        self.part(Part::Json(Json::of(value))).await;
    }

    /// Answers a part of the reply now: bytes of a media type such as `image/png`.
    pub async fn bytes(&self, bytes: impl Into<Bytes>, media_type: &str) {
        self.part(blob(bytes.into(), media_type)).await;
    }

    /// Until when the caller waits, if it said so.
    pub fn deadline(&self) -> Option<Instant> {
        self.asked.deadline
    }

    async fn part(&self, part: Part) {
        if !self.has_parts.replace(true) {
            self.conversation.send(BEGIN).await;
        }
        self.conversation.send(Down::Part(part)).await;
    }

    pub(super) fn end(&self, outcome: Outcome) -> Outcome {
        if self.has_parts.get() { behind_parts(outcome) } else { outcome }
    }
}
