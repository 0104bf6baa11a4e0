//! The live page of a bus: which calls are kept, counted and told, and who may ask for it.
//!
//! Instants go in and JSON comes out. [`CallFilter`] says which calls are meant, [`PageStore`] keeps
//! what is shown of them, [`ViewerFrames`] decides what becomes of a frame for one viewer, and
//! [`judge`] which requests are let in. Texts and values leave through the [`Masks`] of whoever
//! shows them.

mod filter;
mod frames;
mod gate;
mod histogram;
mod history;
mod members;
mod parameters;
mod record;
mod stats;
mod store;
mod values;

use std::borrow::Cow;
use std::time::Instant;

pub use filter::{CallFilter, EndedAt, FilterError, FilteredCall, Since, SinceError};
pub use frames::{FrameFate, UNSENT_BYTES_MAX, ViewerFrames, event, resumed_after};
pub use gate::{PageArea, PageDenied, PageMode, allowed_by_site, judge};
pub use histogram::Histogram;
pub use history::LastMinute;
pub use members::{JsonMembers, write_millis};
pub use parameters::{ParameterError, Parameters, QUERY_BYTES_MAX};
pub use record::{CallRecord, cut};
pub use stats::{OTHER_TOOL, Tally};
pub use store::{CallBegun, CallEnded, CallsPage, PageFrame, PageStore, RECORDS_OF_SNAPSHOT};
pub use values::{HeardOf, Takes, code_json, json_of};

use crate::json::Json;

#[cfg(test)]
mod tests;

/// A moment, by the clock that only goes on and by the one on the wall.
#[derive(Debug, Clone, Copy)]
pub struct PageTime {
    /// By the clock that only goes on.
    pub at: Instant,
    /// Milliseconds since 1970.
    pub wall: u64,
}

impl PageTime {
    /// What the wall said at an earlier instant.
    fn wall_at(self, earlier: Instant) -> u64 {
        let ago = self.at.saturating_duration_since(earlier).as_millis();
        self.wall.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))
    }
}

/// Takes the secrets out of what is shown.
pub trait Masks {
    /// A text without the secrets in it.
    fn text<'a>(&self, text: &'a str) -> Cow<'a, str>;
    /// A value without them, however they are escaped there.
    fn json<'a>(&self, value: &'a Json) -> Cow<'a, Json>;
}
