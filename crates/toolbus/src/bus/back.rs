//! Who answers the calls of a bus.
//!
//! [`Back`] is all that a front, the command line, a scenario or the tool loop may see of it.
//! The wires have theirs, and a program that embeds the bus may bring more.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::channel::Notice;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, LastWords, Outcome, ToolSpec, What, Wire};

use crate::engine::calls::{Inbox, ReplyTo, RunningCall};

pub use crate::causes::causes;
pub use crate::did_you_mean::{hinted, unknown_tool};
pub use crate::task::LocalFuture;

/// Who answers calls: a process, a server, toolbus itself, or a program that embeds it.
///
/// Tools that are known when the bus is made are easier written as [`author::Tools`]. A `Back`
/// decides by itself which tools there are and what becomes of each call. It joins a bus by
/// [`BusBuilder::foreign`] or [`Bus::join`].
///
/// A call that can be answered at once is, and one that takes time by [`answer`], which looks
/// after its deadline and cancels it. [`Down::Done`] is sent exactly once.
///
/// ```
/// use std::sync::Arc;
/// use toolbus::{
///     Back, Bus, Call, Down, Failure, FailureKind, Json, LocalFuture, Outcome, ReplyTo,
///     RunningCall, ToolSpec, What, answer,
/// };
///
/// /// Waits as long as the name of the tool says: `5ms`, `10ms`.
/// struct Waits;
///
/// impl Back for Waits {
///     fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
///         let takes_nothing = Json::parse(r#"{"type":"object"}"#).expect("it is JSON");
///         Box::pin(async { Ok(Arc::from([ToolSpec::new("5ms", takes_nothing)])) })
///     }
///
///     fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
///         let What::Tool { name, .. } = &call.what else { return RunningCall::ended() };
///         let Some(ms) = name.as_str().strip_suffix("ms").and_then(|ms| ms.parse().ok()) else {
///             let failure = Failure::new(FailureKind::UnknownTool, "no such time");
///             let _ = reply.send(Down::Done(Err(failure)));
///             return RunningCall::ended();
///         };
///         answer(call.deadline, reply, async move {
///             tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
///             Ok(Outcome::Text(format!("waited {ms} ms")))
///         })
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bus = Bus::builder().foreign("wait", || Waits);
/// let waited = bus.run(async |bus| bus.call("wait.7ms", ()).await)??;
/// assert_eq!(waited.text(), "waited 7 ms");
/// # Ok(())
/// # }
/// ```
///
/// [`author::Tools`]: crate::author::Tools
/// [`BusBuilder::foreign`]: super::BusBuilder::foreign
/// [`Bus::join`]: super::Bus::join
/// [`answer`]: super::answer
/// [`Down::Done`]: toolbus_proto::channel::Down::Done
pub trait Back {
    /// The protocol it speaks: none, unless said otherwise. A front of the same protocol may
    /// send it native calls.
    fn wire(&self) -> Wire {
        Wire::INSIDE
    }

    /// Its tools. Starts it if that is needed to know them.
    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        let (inbox, reply_to) = Inbox::new();
        let mut call = Call::of(Instant::now(), What::Tools);
        call.deadline.quiet = self.timeout();
        let running = self.start(call, reply_to);
        Box::pin(async move { tools_in(inbox.whole(running).await?) })
    }

    /// How long it may be quiet when it is asked for its tools; as long as its start may take
    /// if there is no such limit.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Asks, at once. What comes back goes to `down`; dropping the
    /// [`RunningCall`] cancels.
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall;

    /// Which of its connections a call would go out on now.
    fn connection(&self, _call: &Call) -> Connection {
        match self.restarts() {
            Some(starts) => Connection::Open(starts),
            None => Connection::Remote,
        }
    }

    /// The text in an answer of its, where it has one besides what is for programs.
    fn text_of(&self, _answer: &Json) -> Option<String> {
        None
    }

    /// May its user be asked to sign in while a call waits? Then its callers have to be known before
    /// it is: what they say of themselves cannot be passed on to it as it is.
    fn offers_sign_in(&self) -> bool {
        false
    }

    /// Calls this whenever it says that its tools have changed.
    fn watch(&self, _changed: Rc<dyn Fn()>) {}

    /// Calls this with all that its peer tells besides answers: warnings, how it describes
    /// itself, what its process writes to standard error. It is called in the middle of other
    /// work and must not call back.
    fn listen(&self, _hear: Rc<dyn Fn(&Notice)>) {}

    /// How often its process was started again, where it is a process that is kept.
    fn restarts(&self) -> Option<u64> {
        None
    }

    /// Is a process of its starting that has not shown yet that it is ready?
    fn is_starting(&self) -> bool {
        false
    }

    /// How the process ended that was started last, and what it said last, if it died.
    fn last_words(&self) -> Option<LastWords> {
        None
    }

    /// How often it was told goodbye because nothing was asked of it, if it may be.
    fn rests(&self) -> Option<u64> {
        None
    }

    /// Nothing was asked of it for long: a process that is kept is told goodbye, and started again
    /// by the next call. Tells whether there was one.
    fn rest(&self) -> bool {
        false
    }

    /// How things stand with what it reached, a line each, for people who look whether all is
    /// well.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// It is to be asked itself from now on, also for what it was last known to have.
    fn rouse(&self) {}

    /// Says goodbye and waits until no process is left.
    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {})
    }

    /// The user wants us gone: the goodbye that follows is to be a short one, where the wire's
    /// spec says so.
    fn hurry(&self) {}

    /// Cuts the goodbye short: what processes are left are killed.
    fn kill(&self) {}
}

/// The connection that a call would go out on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// To this process or session, which has no other of its number.
    Open(u64),
    /// There is none: a process would have to be started.
    None,
    /// Over a network, where one connection cannot be told from another.
    Remote,
}

/// The tools that a back answers with.
pub(crate) fn tools_in(outcome: Outcome) -> Result<Arc<[ToolSpec]>, Failure> {
    match outcome {
        Outcome::Tools(tools) => Ok(tools),
        _ => Err(Failure::new(FailureKind::BrokeProtocol, "expected a list of tools")),
    }
}
