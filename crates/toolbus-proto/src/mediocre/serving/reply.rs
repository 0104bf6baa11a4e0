//! A reply as it is written: one value, one failure, or a stream.

use crate::channel::{Down, Outbox};
use crate::json::Json;
use crate::mediocre::encode::{self, StreamStart, Unwritable, Writer};
use crate::mediocre::frames::Random;
use crate::mediocre::translate;
use crate::tool::{Failure, Outcome};

/// What has been written of a reply that is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Due,
    /// The head of a stream is out: a failure has no place on the wire any more.
    Begun,
}

/// How far a reply is.
pub(super) enum Replied {
    SoFar,
    Whole,
    /// It failed when its head was out.
    TooLate(Failure),
}

impl Reply {
    pub(super) fn write(
        &mut self,
        writer: &mut Writer<impl Random>,
        out: &mut Outbox,
        down: Down,
    ) -> Result<Replied, Unwritable> {
        match down {
            Down::Begin { head, parts } => self.begin(out, head.as_ref(), parts),
            Down::Part(part) => {
                self.begin(out, None, None);
                writer.part(out, &part)?;
            }
            // The wire has no place for these.
            Down::Progress(_) | Down::Log(_) | Down::Ask(..) => {}
            Down::Done(Ok(Outcome::End(value))) => {
                self.begin(out, None, None);
                writer.tail(out, value.as_ref())?;
                return Ok(Replied::Whole);
            }
            Down::Done(Ok(outcome)) => {
                match (self, value(outcome)) {
                    (Reply::Due, Ok(value)) => encode::result(out, &value),
                    (Reply::Due, Err(why)) => encode::failure(out, &translate::internal_error(why)),
                    (Reply::Begun, value) => writer.tail(out, value.ok().as_ref())?,
                }
                return Ok(Replied::Whole);
            }
            Down::Done(Err(failure)) if *self == Reply::Begun => {
                return Ok(Replied::TooLate(failure));
            }
            Down::Done(Err(failure)) => {
                encode::failure(out, &translate::error(&failure));
                return Ok(Replied::Whole);
            }
        }
        Ok(Replied::SoFar)
    }

    /// Writes the head of a stream, unless it is out already.
    fn begin(&mut self, out: &mut Outbox, head: Option<&Json>, parts: Option<u64>) {
        if std::mem::replace(self, Reply::Begun) == Reply::Due {
            encode::response(out, head, StreamStart(parts));
        }
    }
}

/// The one value a reply may be, or why it is none.
fn value(outcome: Outcome) -> Result<Json, &'static str> {
    match outcome {
        Outcome::Value(json) => Ok(json),
        Outcome::Text(text) => Ok(Json::of(&text)),
        Outcome::Tools(tools) => Ok(translate::tools(&tools)),
        Outcome::End(end) => Ok(end.unwrap_or(Json::null())),
        Outcome::Native(_) => Err("the reply is of a kind that this wire cannot carry"),
    }
}
