//! One call that is about to be made, and its reply on the bus's own thread.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, ToolName, Trace};

use super::back::LocalFuture;
use super::{Bus, Event, Reply, Route};
use crate::engine::calls::{Inbox, RunningCall};

/// A call that is about to be made: await it for the whole reply.
///
/// ```
/// use std::time::Duration;
/// use toolbus::{Bus, FailureKind, json};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// Bus::builder().address("builtin:")?.run(async |bus| {
///     let sleep = bus.call("sleep", json!({"ms": 60_000})).timeout(Duration::from_millis(10));
///     assert_eq!(sleep.await.unwrap_err().kind, FailureKind::TimedOut);
/// })?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before it is awaited"]
pub struct Request<B> {
    pub(super) bus: B,
    /// Or why there cannot be one.
    pub(super) call: Result<Call, Failure>,
}

impl<B> Request<B> {
    pub(super) fn new<T: Serialize + ?Sized>(bus: B, tool: ToolName, args: &T) -> Request<B> {
        let call = Json::try_of(args).map_err(|error| {
            let message = format!("the arguments cannot be written as JSON: {error}");
            Failure::new(FailureKind::InvalidArguments, message)
        });
        // Who has nothing to say says `()`, which is written as `null`.
        let given = |args: Json| Some(args).filter(|args| !args.is_null());
        let call = call.map(|args| Call::tool(now(), tool, given(args)));
        Request { bus, call }
    }

    /// How long the call may be quiet. What breaks the quiet is each protocol's own rule:
    /// progress on MCP, any byte on mediocre-rpc. Unless something is said, it is what the
    /// back's settings say, or [`TIMEOUT`](super::TIMEOUT).
    pub fn timeout(self, timeout: Duration) -> Request<B> {
        self.with(|call| call.deadline.quiet = Some(timeout))
    }

    /// How long the call may take in all.
    pub fn timeout_total(self, timeout: Duration) -> Request<B> {
        self.with(|call| call.deadline.total = Some(timeout))
    }

    /// Of which larger piece of work the call is a part.
    pub fn trace(self, trace: Trace) -> Request<B> {
        self.with(|call| call.trace = Some(trace))
    }

    pub(super) fn with(mut self, set: impl FnOnce(&mut Call)) -> Request<B> {
        if let Ok(call) = &mut self.call {
            set(call);
        }
        self
    }

    /// The call, as of now.
    pub(super) fn asked(self) -> (B, Result<Call, Failure>) {
        let Request { bus, call } = self.with(|call| call.deadline.asked = now());
        (bus, call)
    }
}

/// The runtime's clock, which a test can move.
fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

impl Request<&Bus> {
    /// Makes the call and gives its parts and progress as they come.
    ///
    /// ```
    /// use toolbus::{Bus, Event, Part, json};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let counted = Bus::builder().address("builtin:")?.run(async |bus| {
    ///     let mut counted = Vec::new();
    ///     let mut reply = bus.call("count", json!({"n": 3})).stream();
    ///     while let Some(event) = reply.next().await {
    ///         if let Event::Part(Part::Json(number)) = event? {
    ///             counted.push(number.to_string());
    ///         }
    ///     }
    ///     Ok::<_, toolbus::Failure>(counted)
    /// })??;
    /// assert_eq!(counted, ["0", "1", "2"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(self) -> LocalReplyStream {
        let (bus, call) = self.with(|call| call.options.progress = true).asked();
        let (inbox, down) = Inbox::new();
        let running = match call {
            Ok(call) => bus.lenient().start(call, down),
            Err(failure) => {
                let _ = down.send(Down::Done(Err(failure)));
                RunningCall::ended()
            }
        };
        LocalReplyStream { inbox, running: Some(running) }
    }

    async fn whole(self) -> Result<Reply, Failure> {
        let (bus, call) = self.asked();
        let (inbox, down) = Inbox::new();
        let running = bus.lenient().start(call?, down);
        inbox.whole(running).await.map(Reply::new)
    }
}

impl<'a> IntoFuture for Request<&'a Bus> {
    type Output = Result<Reply, Failure>;
    type IntoFuture = LocalFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.whole())
    }
}

/// A reply that comes bit by bit, on the bus's own thread. Dropping it cancels the call.
pub struct LocalReplyStream {
    inbox: Rc<Inbox>,
    /// `None` once the call has ended.
    running: Option<RunningCall>,
}

impl LocalReplyStream {
    /// The next of the reply. [`Event::Done`] or a failure is the last, and then there is
    /// nothing more. A tool whose caller does not ask for more has to wait.
    pub async fn next(&mut self) -> Option<Result<Event, Failure>> {
        loop {
            let down = self.inbox.next(self.running.as_ref()?).await;
            if let Down::Done(_) = down
                && let Some(running) = self.running.take()
            {
                running.forget();
            }
            if let Some(event) = Event::of(down) {
                return Some(event);
            }
        }
    }
}
