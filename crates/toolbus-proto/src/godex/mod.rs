//! The godex room: a model's answer, streamed as the Responses API does it, made into JSON lines.
//!
//! [`Run`] is one run of `godex exec`: it asks a server, reads its events, runs the tool loop and
//! says what is printed. [`Turn`] is what it does with the events of one answer. [`Request`] and
//! [`flags`] are what is asked, [`auth`] who asks, [`mock`] a server without a network. The other
//! way, [`ask`] reads the lines of a `godex exec` program that we run as a tool.

pub mod ask;
pub mod auth;
pub mod base_url;
mod calls;
pub mod decode;
mod error;
pub mod flags;
pub mod functions;
pub mod mock;
mod notes;
mod output;
mod parts;
mod request;
mod retry;
mod run;
mod said;
mod turn;
mod usage;
mod wire;

pub use error::RunError;
pub use functions::Function;
pub use notes::Note;
pub use output::ToolOutput;
pub use request::{Choice, Request};
pub use run::{Ended, Permission, Run, RunSettings, Signal, Target, ToolCall};
pub use said::{Said, Wanted};
pub use turn::{Turn, TurnEnd};
pub use usage::Usage;

use crate::tool::Wire;

/// This wire, where a call or a reply is native to it.
pub const WIRE: Wire = Wire::new("godex");

/// The largest event of a server, and the longest line of a child.
pub const EVENT_BYTES_MAX: usize = 16 << 20;
/// How much is kept of one answer: arguments of calls, and what is sent back with the next turn.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How much is read of the body of a refusal.
pub const REFUSAL_BYTES_MAX: usize = 256 * 1024;
/// How much of a tool's output the model is told.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// The largest file that is read: a schema, input, credentials, an image, a prompt on stdin.
pub const FILE_BYTES_MAX: usize = 16 << 20;
