//! What a line is: a request, a notification, an array of them, or nothing that we know.

use std::time::Instant;

use bytes::Bytes;

use super::{INVALID_REQUEST, Origin, PARSE_ERROR, Refusal, Revision, Transport};
use crate::channel::Notice;
use crate::frame::lines::TooLong;
use crate::json::edit;
use crate::json::{Found, Json, JsonError, Scanner};
use crate::jsonrpc::{Id, Invalid, Message, Rules, Why};
use crate::printable::printable;

/// An id of `null` is read, to be told from one of a wrong kind; it counts as none.
const RULES: Rules = Rules { null_id: true, any_params: true };

impl Transport {
    pub(super) fn handle_line(&mut self, now: Instant, line: Result<Bytes, TooLong>) {
        let line = match line {
            Ok(line) => line,
            Err(TooLong { bytes_max }) => {
                let message = format!("line too long: the limit is {bytes_max} bytes");
                return self.refuse_without_id(Refusal::new(INVALID_REQUEST, message));
            }
        };
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() {
            return;
        }
        let line = line.slice_ref(trimmed);
        match RULES.read(&line) {
            Err(Invalid { why: Why::Batch, .. }) => self.handle_array(now, &line),
            message => self.handle_message(now, &line, None, message),
        }
    }

    fn handle_array(&mut self, now: Instant, line: &Bytes) {
        let invalid =
            |why: String| Refusal::new(INVALID_REQUEST, format!("invalid request: {why}"));
        if self.revision != Revision::V2025_03_26 {
            let revision = self.revision.as_str();
            return self.refuse_without_id(invalid(format!("no batches in {revision}")));
        }
        // Read before: it is valid.
        let Ok(array) = Json::parse(line.clone()) else { return };
        if edit::elements(array.as_str()).next().is_none() {
            return self.refuse_without_id(invalid("an empty batch".to_owned()));
        }
        let batch = self.batches.begin();
        for element in edit::elements(array.as_str()) {
            let element = line.slice_ref(element.as_bytes());
            let message = RULES.read(&element);
            self.handle_message(now, &element, Some(batch), message);
        }
        self.settle_batch(batch, None);
    }

    fn handle_message(
        &mut self,
        now: Instant,
        line: &Bytes,
        batch: Option<u64>,
        message: Result<Message<'_>, Invalid>,
    ) {
        match message {
            // No answer, whatever the method; and nothing is carried out.
            Ok(Message::Request { id, method, params }) if id.is_null() => {
                self.handle_notification(now, &method, params);
            }
            Ok(Message::Notification { method, params }) => {
                self.handle_notification(now, &method, params);
            }
            Ok(Message::Request { method, params, .. }) if method.starts_with("notifications/") => {
                self.handle_notification(now, &method, params);
            }
            Ok(Message::Request { id, method, params }) => {
                self.batches.owe(batch);
                let origin = Origin { id, batch };
                if let Err(refusal) = self.handle_request(now, line, &origin, &method, params) {
                    self.refuse(&origin, &refusal);
                }
            }
            Ok(
                Message::Response { result: Some(_), .. }
                | Message::Response { error: Some(_), .. },
            )
            | Err(Invalid { why: Why::NoId, .. }) => {
                let notice = format!("the client answers nothing: {}", printable(line, 80));
                self.notices.push_back(Notice::Ignored(notice));
            }
            Ok(Message::Response { id, .. }) => {
                let why = "method is missing".to_owned();
                self.refuse_invalid(batch, id, &why);
            }
            Err(Invalid { why: Why::NotJson(error), .. }) => {
                self.batches.owe(batch);
                let message = format!("parse error: {}", told(line, error));
                let origin = Origin { id: Id::NULL, batch };
                self.refuse(&origin, &Refusal::new(PARSE_ERROR, message));
            }
            Err(Invalid { why, id }) => {
                let why = match why {
                    Why::Batch | Why::NotAnObject => "not an object".to_owned(),
                    Why::Version => "jsonrpc must be \"2.0\"".to_owned(),
                    Why::Id => "id must be a string or a number".to_owned(),
                    Why::Method => "method must be a string".to_owned(),
                    Why::Neither => "method is missing".to_owned(),
                    why => why.to_string(),
                };
                self.refuse_invalid(batch, id.unwrap_or(Id::NULL), &why);
            }
        }
    }

    fn refuse_invalid(&mut self, batch: Option<u64>, id: Id, why: &str) {
        self.batches.owe(batch);
        let refusal = Refusal::new(INVALID_REQUEST, format!("invalid request: {why}"));
        self.refuse(&Origin { id, batch }, &refusal);
    }

    /// Refuses what has no id.
    fn refuse_without_id(&mut self, refusal: Refusal) {
        self.refuse(&Origin { id: Id::NULL, batch: None }, &refusal);
    }
}

/// What is wrong with text that is no JSON.
fn told(line: &[u8], error: JsonError) -> String {
    match error {
        JsonError::Unexpected { found: Found::End, .. } => "unexpected end".to_owned(),
        JsonError::Unexpected { offset: 0, .. } => "expected a value".to_owned(),
        JsonError::Unexpected { .. } => {
            let text = std::str::from_utf8(line).unwrap_or_default();
            match Scanner::new(text).value() {
                Ok(_) => "more than one value".to_owned(),
                Err(_) => error.to_string(),
            }
        }
        error => error.to_string(),
    }
}
