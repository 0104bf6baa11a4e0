//! What a caller gets back: the whole reply, or what comes of it bit by bit.

use std::fmt;

use serde::de::DeserializeOwned;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Failure, FailureKind, Outcome, Part};

/// The whole reply to a call that went well. It displays as text.
///
/// A reply that came in parts is one value here: `{"elements":[…]}` with the value before them as
/// `res` and the one behind them as `tail`, or one text if all of it was text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply(Outcome);

impl Reply {
    pub(super) fn new(outcome: Outcome) -> Reply {
        Reply(outcome)
    }

    /// The reply as JSON: text is a JSON string, no value is `null`.
    pub fn json(&self) -> Json {
        match &self.0 {
            Outcome::Value(value) | Outcome::End(Some(value)) => value.clone(),
            Outcome::Text(text) => Json::of(text),
            // Nothing, or nothing that a tool answers.
            _ => Json::null(),
        }
    }

    /// The reply as text: text and JSON strings as they are, anything else as compact JSON.
    pub fn text(&self) -> String {
        match &self.0 {
            Outcome::Text(text) => text.clone(),
            _ => self.json().shown(),
        }
    }

    /// Reads the reply into a type. One that does not fit is [`FailureKind::BrokeProtocol`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.json().read().map_err(|error| {
            let message = format!("the reply is not as expected: {error}");
            Failure::new(FailureKind::BrokeProtocol, message)
        })
    }

    /// The reply as it crossed the bus.
    pub fn outcome(&self) -> &Outcome {
        &self.0
    }

    /// The reply as it crossed the bus.
    pub fn into_outcome(self) -> Outcome {
        self.0
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// What comes of a reply while the call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The reply will be parts.
    Begin {
        /// The value before them.
        head: Option<Json>,
        /// How many there will be, if that is known.
        parts: Option<u64>,
    },
    /// A part of the reply.
    Part(Part),
    /// How far the call is: an object with `progress`, and perhaps `total` and `message`.
    Progress(Json),
    /// A message for the caller's log.
    Log(Json),
    /// The end, and the last: the whole reply, or what stands behind its parts.
    Done(Reply),
}

impl Event {
    /// What a caller is shown of this, if anything.
    pub(super) fn of(down: Down) -> Option<Result<Event, Failure>> {
        Some(Ok(match down {
            Down::Begin { head, parts } => Event::Begin { head, parts },
            Down::Part(part) => Event::Part(part),
            Down::Progress(progress) => Event::Progress(progress),
            Down::Log(log) => Event::Log(log),
            // Who is asked and says nothing has nothing to say.
            Down::Ask(..) => return None,
            Down::Done(Ok(outcome)) => Event::Done(Reply::new(outcome)),
            Down::Done(Err(failure)) => return Some(Err(failure)),
        }))
    }
}
