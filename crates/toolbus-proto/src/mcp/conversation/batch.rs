//! Several messages in one array, as 2025-03-26 has them (`docs/protocols/mcp.md` 2.1.6).

use std::time::Instant;

use bytes::Bytes;

use super::{Conversation, Origin, Place, Said, Saying};
use crate::channel::Outbox;
use crate::json::Json;
use crate::json::edit;
use crate::jsonrpc::{Id, Invalid, Why};
use crate::mcp::wire::{self, INVALID_REQUEST, Refusal, Revision};

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
        let key = self.batches.begin();
        let origin = Origin { place, batch: Some(key) };
        let mut is_owed = false;
        for element in edit::elements(batch.as_str()) {
            let element = batch.as_bytes().slice_ref(element.as_bytes());
            is_owed |= self.handle_one(now, origin, &element);
        }
        if let Some(text) = self.batches.settle(key, None) {
            self.say_whole(place, text);
        }
        is_owed
    }

    /// The revision that is spoken, or will be when `initialize` is answered.
    fn agreed(&self) -> Option<Revision> {
        let opening = self.opening.as_ref().map(|opening| opening.revision);
        opening.or(self.revision())
    }

    /// The answer to a request: alone, or with the others of its batch when all are there.
    pub(super) fn answer_as(&mut self, origin: Origin, what: Saying, text: Outbox) {
        match origin.batch {
            Some(key) => {
                if let Some(text) = self.batches.settle(key, Some(text)) {
                    self.say_whole(origin.place, text);
                }
            }
            None => self.say_answer(origin.place, what, text),
        }
    }

    /// The request was cancelled: its batch need not wait for it.
    pub(super) fn leave_unanswered(&mut self, origin: Origin) {
        let place = origin.place;
        let whole = match origin.batch {
            Some(key) => self.batches.settle(key, None),
            None => Some(Outbox::new()),
        };
        match whole {
            Some(text) if text.is_empty() => {
                self.said.push_back(Said { place, what: Saying::Silence, text });
            }
            Some(text) => self.say_whole(place, text),
            None => {}
        }
    }

    /// All answers of a batch, if there are any.
    fn say_whole(&mut self, place: Place, text: Outbox) {
        if !text.is_empty() {
            self.say_answer(place, Saying::Answer, text);
        }
    }
}
