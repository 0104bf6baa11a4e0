//! A calling end behind the bus, one file a protocol.
//!
//! [`Back`] is all that a front, the command line, a scenario or the tool loop may see of
//! whoever answers.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::tool::{Call, Failure, FailureKind, LastWords, ToolName, ToolSpec, Wire};

use crate::did_you_mean::nearest;
use crate::engine::calls::{ReplyTo, RunningCall};

/// A future that lives on the bus's one thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Whoever answers calls: a process, a server, toolbus itself.
pub trait Back {
    /// The protocol it speaks. A front of the same one may send it native calls.
    fn wire(&self) -> Wire;

    /// Its tools. Starts it if that is needed to know them.
    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>>;

    /// Asks, at once. What comes back goes to `down`; dropping the uplink cancels.
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall;

    /// Calls this whenever it says that its tools have changed.
    fn watch(&self, _changed: Rc<dyn Fn()>) {}

    /// Says goodbye and waits until nobody is left.
    fn shutdown(&self) -> LocalFuture<'_, ()>;

    /// Somebody wants us gone: the goodbye that follows is to be a short one, where the wire's
    /// spec says so.
    fn hurry(&self) {}

    /// Cuts the goodbye short: whoever is left is killed.
    fn kill(&self) {}
}

/// What went wrong, and why, as one sentence.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text.push_str(&format!(": {deeper}"));
        cause = deeper.source();
    }
    text
}

/// A failure that says what the reader can do about it, if there is anything.
pub(crate) fn hinted(failure: Failure, hint: Option<String>) -> Failure {
    match hint {
        Some(_) => failure.with_last_words(LastWords { hint, ..LastWords::default() }),
        None => failure,
    }
}

/// What is told to whoever asks for a tool that is not there.
pub(crate) fn unknown_tool<'a>(
    name: &ToolName,
    known: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let failure = Failure::new(FailureKind::UnknownTool, format!("no such tool: `{name}`"));
    hinted(failure, nearest(name.as_str(), known).map(|meant| format!("did you mean `{meant}`?")))
}
