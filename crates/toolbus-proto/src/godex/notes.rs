//! What a run says besides its output: for standard error, for files, for who owns it.

use bytes::Bytes;

use super::auth::Tokens;
use super::run::ToolCall;
use crate::channel::Ticket;

/// What a run says besides its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Something is odd, and the run goes on: `warning: …` on standard error.
    Warning(String),
    /// Why the run failed: `error: …` on standard error.
    Error(String),
    /// What can be done about that: `hint: …` behind it.
    Hint(String),
    /// The model asks for a tool that toolbus will not run.
    Call {
        /// Which.
        name: String,
        /// Its arguments, byte for byte.
        arguments: String,
    },
    /// This tool begins to run.
    Calling(Ticket, ToolCall),
    /// It has ended.
    Called(Ticket),
    /// An event of the server as it came, one line of JSON.
    Trace(String),
    /// The body of a request, before it is sent.
    Request(Bytes),
    /// The credentials were renewed: the file that holds them is to be rewritten.
    Refreshed(Tokens),
}
