//! The plain wire over many streams: a stream for each call, opened by whoever asks.
//!
//! A stream begins with a head, [`CALL`] or [`NEWS`], which is answered by [`OK`]. On a call's
//! the asking end writes lines as on the [`plain`](crate::plain) wire, without numbers, and the
//! answering end likewise; the answer finishes the stream. Giving up a call resets its stream
//! with [`CANCELLED`]. The answering end opens a stream of its own for what is new behind it.

mod calling;
pub mod faults;
mod pair;
mod serving;

use toolbus_proto::channel::{StreamLost, Writing};

pub use calling::Client;
pub use pair::{Fed, Pair};
pub use serving::Server;

/// What one end keeps at most: of each stream, or in all.
pub use crate::plain::Limits;

/// The head of a stream for a call.
pub const CALL: &str = "call";
/// The head of a stream for what is new.
pub const NEWS: &str = "news";
/// How either is answered.
pub const OK: &str = "ok";

/// The code of a stream that nobody needs any more.
pub const CANCELLED: u64 = 1;
/// The code of a stream on which something was said that is not of this wire.
pub const BROKE: u64 = 2;
/// The code of a stream that came too late.
pub const STOPPING: u64 = 3;

/// The line that says that tools have changed.
const TOOLS_CHANGED: &[u8] = b"\"tools_changed\"";

/// A stream that there is not, or no longer.
const NO_STREAM: Writing = Writing::Reset(CANCELLED);

/// How a lost stream is told to a caller.
fn told(why: &StreamLost) -> String {
    match why.code {
        Some(code) => format!("the stream was reset with code {code}"),
        None => why.failure.message.clone(),
    }
}

#[cfg(test)]
mod tests;
