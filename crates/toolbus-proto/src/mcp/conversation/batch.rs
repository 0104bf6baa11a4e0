//! Several messages in one array, as 2025-03-26 has them (`docs/protocols/mcp.md` 2.1.6).

use std::time::Instant;

use bytes::Bytes;

use super::{Conversation, Origin, Place, Said, Saying};
use crate::channel::Outbox;
use crate::json::Json;
use crate::json::edit;
use crate::jsonrpc::{Id, Invalid, Why};
use crate::mcp::wire::{self, INVALID_REQUEST, Refusal, Revision};

/// The answers to one array of messages.
#[derive(Debug)]
pub(super) struct Batch {
    place: Place,
    /// Requests that are not answered, and one more while the array is being read.
    owed: usize,
    answers: Vec<Outbox>,
}

impl Conversation {
    pub(super) fn handle_batch(&mut self, now: Instant, place: Place, line: &Bytes) -> bool {
        let origin = Origin { place, batch: None };
        let batch = match Json::parse(line.clone()) {
            Err(error) => Err(wire::said(&Invalid { why: Why::NotJson(error), id: None })),
            Ok(_) if self.agreed() != Some(Revision::V2025_03_26) => {
                Err(wire::said(&Invalid { why: Why::Batch, id: None }))
            }
            Ok(batch) if edit::elements(batch.as_str()).next().is_none() => {
                Err((INVALID_REQUEST, "a batch is not empty".into()))
            }
            Ok(batch) => Ok(batch),
        };
        let batch = match batch {
            Ok(batch) => batch,
            Err((code, message)) => {
                self.refuse(origin, &Id::NULL, &Refusal::new(code, message));
                return true;
            }
        };
        let key = self.next_batch;
        self.next_batch += 1;
        self.batches.insert(key, Batch { place, owed: 1, answers: Vec::new() });
        let origin = Origin { place, batch: Some(key) };
        let mut is_owed = false;
        for element in edit::elements(batch.as_str()) {
            let element = batch.as_bytes().slice_ref(element.as_bytes());
            is_owed |= self.handle_one(now, origin, &element);
        }
        self.settle(key, None);
        is_owed
    }

    /// The revision that is spoken, or will be when `initialize` is answered.
    fn agreed(&self) -> Option<Revision> {
        let opening = self.opening.as_ref().map(|opening| opening.revision);
        opening.or(self.revision())
    }

    /// One more request of a batch.
    pub(super) fn owe(&mut self, origin: Origin) {
        if let Some(batch) = origin.batch.and_then(|key| self.batches.get_mut(&key)) {
            batch.owed += 1;
        }
    }

    /// The answer to a request: alone, or with the others of its batch when all are there.
    pub(super) fn answer_as(&mut self, origin: Origin, what: Saying, text: Outbox) {
        match origin.batch {
            Some(key) => self.settle(key, Some(text)),
            None => self.say_answer(origin.place, what, text),
        }
    }

    /// The request was cancelled: its batch need not wait for it.
    pub(super) fn leave_unanswered(&mut self, origin: Origin) {
        let said = self.said.len();
        let is_over = match origin.batch {
            Some(key) => {
                self.settle(key, None);
                !self.batches.contains_key(&key) && self.said.len() == said
            }
            None => true,
        };
        if is_over {
            let (place, what) = (origin.place, Saying::Silence);
            self.said.push_back(Said { place, what, text: Outbox::new() });
        }
    }

    fn settle(&mut self, key: u64, answer: Option<Outbox>) {
        let Some(batch) = self.batches.get_mut(&key) else { return };
        batch.owed -= 1;
        batch.answers.extend(answer);
        if batch.owed > 0 {
            return;
        }
        let Some(Batch { place, answers, .. }) = self.batches.remove(&key) else { return };
        if answers.is_empty() {
            return;
        }
        let mut text = Outbox::new();
        for (index, mut answer) in answers.into_iter().enumerate() {
            text.put(if index == 0 { b"[" } else { b"," });
            text.append(&mut answer);
        }
        text.put(b"]");
        self.say_answer(place, Saying::Answer, text);
    }
}
