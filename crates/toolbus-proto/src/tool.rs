//! What every wire translates to and from: tools, calls, replies, failures.
//!
//! These types cross between protocols and are the wire format of no protocol, so none of them knows
//! serde: a room's `translate.rs` says how each looks on its wire.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::http::Visit;
use crate::json::Json;

pub use crate::trace::Trace;

/// The name a tool is called by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Arc<str>);

impl ToolName {
    /// A tool of this name; any text is one.
    pub fn new(name: impl Into<Arc<str>>) -> ToolName {
        ToolName(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for ToolName {
    fn from(name: &str) -> ToolName {
        ToolName::new(name)
    }
}

impl From<String> for ToolName {
    fn from(name: String) -> ToolName {
        ToolName::new(name)
    }
}

/// What is known of a tool before it is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ToolSpec {
    /// The name it is called by.
    pub name: ToolName,
    /// A name for people.
    pub title: Option<String>,
    /// What it does, for people and models.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub input: Json,
    /// JSON Schema of its result, if that is known.
    pub output: Option<Json>,
    /// What calling it may do to the world.
    pub hints: Option<Hints>,
    /// How its own wire describes it, for a front of the same wire.
    pub native: Option<Native>,
}

/// How a tool is described on its own wire.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Native {
    /// The wire.
    pub wire: Wire,
    /// The description, as the wire writes it.
    pub text: Bytes,
}

impl ToolSpec {
    /// A tool of which only the name and the schema of its arguments are known.
    pub fn new(name: impl Into<ToolName>, input: Json) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            title: None,
            description: None,
            input,
            output: None,
            hints: None,
            native: None,
        }
    }
}

/// What calling a tool may do to the world, as far as its author said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// Calling it twice does no more than calling it once.
    pub idempotent: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
}

/// The protocol that a peer speaks, known by its name.
///
/// Each room has its own as a const, e.g. [`oracle::WIRE`](crate::oracle::WIRE), and a wire
/// that is made elsewhere makes one itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wire(&'static str);

impl Wire {
    /// No wire at all: tools inside toolbus itself.
    pub const INSIDE: Wire = Wire::new("inside");

    /// The wire of that name; there must be no other of it.
    pub const fn new(name: &'static str) -> Wire {
        Wire(name)
    }

    /// Its name, as it stands in addresses.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One call on its way from a caller to a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// What is asked.
    pub what: What,
    /// Who asks; two calls of one caller carry the same id.
    pub caller: CallerId,
    /// When to give up. Only the calling machine looks at it.
    pub deadline: Deadline,
    /// The W3C `traceparent` of the caller.
    pub trace: Option<Trace>,
    /// What the caller's wire carries beside the call for traces and logs, an object: `debug`
    /// of mediocre-rpc. For the tool to see; it is not passed on to other peers. Boxed, since
    /// few calls have one and all are moved about.
    pub debug: Option<Box<Json>>,
    /// What the caller can make use of besides the answer.
    pub options: CallOptions,
    /// The request of a tool, or of a list of them, as the caller wrote it in the wire that
    /// [`CallOptions::native`] names: a back that speaks it, too, passes it on as it is, under
    /// the tool's own name.
    pub request: Option<Bytes>,
    /// The list of tools is for this one: no other back than its own need be waited for, and
    /// what is known of the others will do.
    pub sought: Option<ToolName>,
    /// What is known of its caller beyond this machine's own front, and of its way. Boxed, since
    /// few calls have one.
    pub provenance: Option<Box<Provenance>>,
    /// The request that it is a part of, if that shows a token of a sign-in server: for the bus,
    /// and for no wire.
    pub visit: Option<Arc<Visit>>,
}

/// Where a call comes from and which way it takes, for wires that pass it on to other machines.
#[derive(Debug, Clone, Default)]
pub struct Provenance {
    /// What its caller answers while the call runs, by the names that the clients of MCP give it:
    /// an object, with `elicitation` for one. `None` for one that takes no question.
    pub asks: Option<Json>,
    /// The name of the caller at the front where the call came in; of one that came from another
    /// machine that is what this says.
    pub caller: Option<Arc<str>>,
    /// How many buses it has passed through before this one.
    pub hops: u32,
    /// Where its back tells which way it took, for those who observe calls.
    pub passage: Option<Arc<Passage>>,
}

/// Which way a call took behind a back that many machines answer for.
#[derive(Debug, Default)]
pub struct Passage {
    node: Mutex<Option<Arc<str>>>,
    tries: AtomicU32,
}

impl Passage {
    /// It is sent to this one now.
    pub fn sent_to(&self, node: &str) {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(node.into());
        self.tries.fetch_add(1, Ordering::Relaxed);
    }

    /// To which it was sent last.
    pub fn node(&self) -> Option<Arc<str>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often it was sent.
    pub fn tries(&self) -> u32 {
        self.tries.load(Ordering::Relaxed)
    }
}

impl Call {
    /// A call of a tool, by no caller in particular and without a deadline.
    pub fn tool(now: Instant, name: impl Into<ToolName>, args: Option<Json>) -> Call {
        Call::of(now, What::Tool { name: name.into(), args })
    }

    /// A call of anything, by no caller in particular and without a deadline.
    pub fn of(now: Instant, what: What) -> Call {
        Call {
            what,
            caller: CallerId::default(),
            deadline: Deadline::never(now),
            trace: None,
            debug: None,
            options: CallOptions::default(),
            request: None,
            sought: None,
            provenance: None,
            visit: None,
        }
    }

    /// What its caller answers while it runs.
    pub fn asks(&self) -> Option<&Json> {
        self.provenance.as_ref()?.asks.as_ref()
    }

    /// What it weighs in a queue.
    pub fn weight(&self) -> usize {
        let debug = self.debug.as_ref().map_or(0, |debug| debug.as_bytes().len());
        debug
            + match &self.what {
                What::Tools => 0,
                What::Tool { args, .. } => args.as_ref().map_or(0, |args| args.as_bytes().len()),
                What::Native { method, body, .. } => method.len() + body.len(),
            }
    }
}

/// How many tools one peer may offer.
pub const TOOLS_MAX: usize = 10_000;
/// How many bytes the tools of one peer may take on the wire.
pub const TOOLS_BYTES_MAX: usize = 16 << 20;

/// Why the tools that a peer offers are not taken, if they are too many or too large.
pub fn too_many_tools(count: usize, bytes: usize) -> Option<Failure> {
    let message = if TOOLS_MAX < count {
        format!("it offers more than {TOOLS_MAX} tools, which is the limit for one peer")
    } else if TOOLS_BYTES_MAX < bytes {
        let mib = TOOLS_BYTES_MAX >> 20;
        format!("its tools take more than {mib} MiB, which is the limit for one peer")
    } else {
        return None;
    };
    Some(Failure::new(FailureKind::TooLarge, message))
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Which tools there are. The outcome is [`Outcome::Tools`].
    Tools,
    /// A tool, in the terms of the hub.
    Tool {
        /// Which one.
        name: ToolName,
        /// Its arguments as raw JSON; `None` if the caller gave none.
        args: Option<Json>,
    },
    /// Something both ends say in the same protocol: nothing is translated.
    Native {
        /// The protocol of both ends.
        wire: Wire,
        /// What the wire calls the request.
        method: Bytes,
        /// The request, as the wire writes it.
        body: Bytes,
    },
}

/// Tells callers apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CallerId(pub u64);

/// When a call has waited long enough, counted from when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// When the caller asked.
    pub asked: Instant,
    /// How long it may be quiet. What breaks the quiet is each wire's own rule.
    pub quiet: Option<Duration>,
    /// How long it may take in all.
    pub total: Option<Duration>,
}

impl Deadline {
    /// Wait for ever.
    pub fn never(asked: Instant) -> Deadline {
        Deadline { asked, quiet: None, total: None }
    }

    /// The instant to give up if the last sign of life was at `heard`.
    pub fn instant(&self, heard: Instant) -> Option<Instant> {
        let quiet = self.quiet.map(|quiet| heard + quiet);
        let total = self.total.map(|total| self.asked + total);
        match (quiet, total) {
            (Some(quiet), Some(total)) => Some(quiet.min(total)),
            (quiet, total) => quiet.or(total),
        }
    }
}

impl Deadline {
    /// What is told when it has passed.
    pub fn missed(&self) -> Failure {
        let shorter = self.quiet.into_iter().chain(self.total).min();
        match shorter {
            Some(patience) => Deadline::unanswered(patience),
            None => Failure::new(FailureKind::TimedOut, "no answer in time"),
        }
    }

    /// What is told when there was no answer for so long.
    pub fn unanswered(patience: Duration) -> Failure {
        Failure::new(FailureKind::TimedOut, format!("no answer within {patience:?}"))
    }
}

/// What a caller can make use of besides the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Progress while the call runs.
    pub progress: bool,
    /// The caller sends parts behind its arguments, and ends them with [`Up::End`].
    ///
    /// [`Up::End`]: crate::channel::Up::End
    pub sends_parts: bool,
    /// How many parts it will send, if it knows.
    pub parts: Option<u64>,
    /// What the answering peer said in its own wire, event by event, as [`Down::Log`] and as
    /// `toolbus decode` prints it, with the `debug` of the response where there is one. For
    /// people who look at a wire; not every wire can.
    ///
    /// [`Down::Log`]: crate::channel::Down::Log
    pub events: bool,
    /// The text that an answer has besides what is for programs, where it has one: the text
    /// blocks of an MCP result, for one.
    pub text: bool,
    /// A text that the tool's output schema says to be the JSON of a number, a boolean, an array
    /// or an object is read as that, where the wire has no other way to say so.
    pub typed: bool,
    /// The result of a tool as this wire writes it, [`Outcome::Native`], from a back that
    /// speaks it, too: nothing of it is lost on the way through the hub.
    pub native: Option<Wire>,
    /// What the request says besides, where the serving end of that wire has read it: then all
    /// these options are what it says, and no other end need look through it.
    pub known: Option<Known>,
}

/// What a request says of itself, by the numbers that the room of its wire gives them. Small,
/// since every call carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The revision of the wire that it is written in.
    pub revision: u8,
    /// From which level on the caller wants to hear the log of the tool.
    pub log_level: Option<u8>,
}

/// A piece of a reply or of an input that comes bit by bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Some text.
    Text(String),
    /// One JSON value.
    Json(Json),
    /// A piece of a run of bytes, handed on before the rest is there.
    Bytes(Piece),
}

impl Part {
    /// What it weighs in a queue.
    pub fn weight(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            Part::Json(json) => json.as_bytes().len(),
            Part::Bytes(piece) => piece.data.len(),
        }
    }
}

/// A piece of a run of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The bytes; may be none in a piece that only ends the run.
    pub data: Bytes,
    /// Their media type, told with the first piece; none means `application/octet-stream`.
    pub media_type: Option<Arc<str>>,
    /// The length of the whole run, told with the first piece by a source that cannot fail;
    /// a wire that announces it can no longer give up half-way.
    pub len: Option<u64>,
    /// The run ends with this piece.
    pub last: bool,
}

/// How a call that went well ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The reply is one JSON value.
    Value(Json),
    /// The reply is one text.
    Text(String),
    /// The reply was parts; this is the value behind the last of them.
    End(Option<Json>),
    /// The answer to a native call, as the wire writes it.
    Native(Bytes),
    /// The answer to [`What::Tools`].
    Tools(Arc<[ToolSpec]>),
}

/// Why a call has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which of the nine ways it went wrong.
    pub kind: FailureKind,
    /// The peer's own code.
    pub code: Option<Code>,
    /// What happened, for people: small letter first, no full stop.
    pub message: String,
    /// What the peer added for programs.
    pub detail: Option<Json>,
    /// The peer said so; else we found it before the call left us, or while it was away.
    pub from_peer: bool,
    /// How a process ended and what it said last.
    pub last_words: Option<Box<LastWords>>,
}

impl Failure {
    /// A failure of which only the kind and a message are known.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            code: None,
            message: message.into(),
            detail: None,
            from_peer: false,
            last_words: None,
        }
    }

    /// The caller changed its mind.
    pub fn cancelled() -> Failure {
        Failure::new(FailureKind::Cancelled, "cancelled")
    }

    /// The same failure with how the process ended.
    #[must_use]
    pub fn with_last_words(mut self, words: LastWords) -> Failure {
        self.last_words = Some(Box::new(words));
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Failure {}

/// The ways a call can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// There is no tool of that name.
    UnknownTool,
    /// The tool cannot take these arguments.
    InvalidArguments,
    /// The tool tried and said no.
    Failed,
    /// No answer in time.
    TimedOut,
    /// The caller changed its mind.
    Cancelled,
    /// The other side went away with the call in its hands.
    Gone,
    /// The other side said what its protocol does not allow.
    BrokeProtocol,
    /// The other side cannot be reached or started.
    Unavailable,
    /// A limit was met.
    TooLarge,
}

impl FailureKind {
    /// All of them.
    pub const ALL: [FailureKind; 9] = [
        FailureKind::UnknownTool,
        FailureKind::InvalidArguments,
        FailureKind::Failed,
        FailureKind::TimedOut,
        FailureKind::Cancelled,
        FailureKind::Gone,
        FailureKind::BrokeProtocol,
        FailureKind::Unavailable,
        FailureKind::TooLarge,
    ];

    /// The name used in `--json` output and on the wires.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureKind::UnknownTool => "unknown_tool",
            FailureKind::InvalidArguments => "invalid_arguments",
            FailureKind::Failed => "failed",
            FailureKind::TimedOut => "timed_out",
            FailureKind::Cancelled => "cancelled",
            FailureKind::Gone => "gone",
            FailureKind::BrokeProtocol => "broke_protocol",
            FailureKind::Unavailable => "unavailable",
            FailureKind::TooLarge => "too_large",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The code a peer gave its failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// A number.
    Number(i64),
    /// A word.
    Word(String),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Number(number) => write!(f, "{number}"),
            Code::Word(word) => f.write_str(word),
        }
    }
}

/// How a process ended and what it said last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastWords {
    /// How it ended, if that could be seen.
    pub exit: Option<Exit>,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
    /// What the reader can do about it.
    pub hint: Option<String>,
    /// The process never showed that it speaks the wire it was spoken to in: it may speak
    /// another.
    pub is_unproven: bool,
    /// What such a process wrote to its standard output, as far as it was kept.
    pub said: Bytes,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit status {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}
