//! Requests that a provider has not answered yet: what they are, and who waits.

use std::fmt;
use std::time::Duration;

use crate::channel::Ticket;
use crate::tool::ToolName;

/// What a provider was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Method {
    Describe,
    Configure,
    Execute {
        action: ToolName,
        /// How people know this call; the action's name if they have no other.
        label: Option<String>,
        gives_outputs: bool,
    },
    Shutdown,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Describe => f.write_str("`describe`"),
            Method::Configure => f.write_str("`configure`"),
            Method::Execute { action, label: None, .. } => write!(f, "`execute` of `{action}`"),
            Method::Execute { label: Some(label), .. } => write!(f, "`execute` of `{label}`"),
            Method::Shutdown => f.write_str("`shutdown`"),
        }
    }
}

/// A request without an answer.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: Method,
    /// `None` once cancelled, and for what we ask of our own accord: the answer is awaited all
    /// the same.
    pub(super) ticket: Option<Ticket>,
    /// How long it may take, for people.
    pub(super) patience: Option<Duration>,
}

impl Request {
    /// What we ask of our own accord, and wait for as long as the hands do.
    pub(super) fn own(method: Method) -> Request {
        Request { method, ticket: None, patience: None }
    }
}
