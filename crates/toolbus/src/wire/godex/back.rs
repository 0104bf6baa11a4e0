//! Asking a model through a `godex exec` program (`docs/protocols/godex.md` 8): one process a
//! call, from the pool that all such backs share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::task::JoinHandle;
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::godex::ask::{self, Ask, Reader, TOOL};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, LastWords, Outcome, ToolSpec, What, Wire};

use super::WIRE;
use super::child::{Child, PrivateFile};
use crate::bus::back::{Back, LocalFuture, unknown_tool};
use crate::child::{Patience, Program, wait_is_told};
use crate::engine::calls::{Pressure, ReplyTo, RunningCall};
use crate::engine::drive::until;
use crate::engine::local_call::Conversation;
use crate::engine::pool::{Limits, Pool, Supply};
use crate::engine::tell_wait;
use crate::task::spawn_local;
use crate::wake::Wake;

/// How many processes there are at once.
pub const PROCESSES_MAX: usize = 16;
/// How many calls wait for one of them.
const WAITING_MAX: usize = 1024;

/// What is set about such a program.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the log calls it.
    pub name: String,
    /// What is started, without what a call adds.
    pub program: Program,
    /// How long it may take to end when all is said.
    pub stop: Duration,
    /// How long a call may be quiet.
    pub timeout: Duration,
}

/// A program that asks a model.
pub struct Godex {
    pool: Rc<Pool<Programs>>,
    is_hurried: Rc<Cell<bool>>,
    timeout: Duration,
}

impl Godex {
    /// Starts nothing yet. Must be called inside a `LocalSet`.
    pub fn new(options: Options) -> Godex {
        let is_hurried = Rc::new(Cell::new(false));
        let limits = Limits {
            kept_max: PROCESSES_MAX,
            waiting_max: WAITING_MAX,
            idle: Duration::ZERO,
            stop: options.stop,
        };
        let (name, timeout) = (options.name.clone(), options.timeout);
        let programs = Programs { options: Rc::new(options), is_hurried: is_hurried.clone() };
        Godex { pool: Pool::new(name, limits, programs), is_hurried, timeout }
    }
}

impl Back for Godex {
    fn wire(&self) -> Wire {
        WIRE
    }

    /// Known without starting anything.
    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async { Ok(Arc::from([ask::tool()])) })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let refusal = match &call.what {
            What::Tools => Some(Ok(Outcome::Tools(Arc::from([ask::tool()])))),
            What::Tool { name, .. } if name.as_str() != TOOL => {
                let words = LastWords { is_unproven: true, ..LastWords::default() };
                Some(Err(unknown_tool(name, [TOOL]).with_last_words(words)))
            }
            // What comes in parts is looked at when it is whole.
            What::Tool { args, .. } if !call.options.sends_parts => {
                Ask::read(args.as_ref()).err().map(Err)
            }
            What::Tool { .. } => None,
            What::Native { .. } => {
                let message = "a `godex exec` program takes no calls of another wire";
                Some(Err(Failure::new(FailureKind::UnknownTool, message)))
            }
        };
        if let Some(done) = refusal {
            let _ = down.send(Down::Done(done));
            return RunningCall::ended();
        }
        self.pool.start(call, down)
    }

    fn text_of(&self, answer: &Json) -> Option<String> {
        ask::text_of(answer)
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.pool.shutdown())
    }

    fn hurry(&self) {
        self.is_hurried.set(true);
    }

    fn kill(&self) {
        drop(self.pool.close());
    }
}

/// Makes processes, each for one call.
struct Programs {
    options: Rc<Options>,
    is_hurried: Rc<Cell<bool>>,
}

/// Room for one process at a time. Dropping it kills the one there is.
struct Place {
    process: RefCell<Option<JoinHandle<()>>>,
    is_taken: Rc<Cell<bool>>,
    left: Rc<Wake>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.abort();
        }
    }
}

impl Supply for Programs {
    type Carrier = Place;

    async fn make(&self, _until: Option<Instant>) -> Result<Place, Failure> {
        Ok(Place {
            process: RefCell::default(),
            is_taken: Rc::new(Cell::new(false)),
            left: Rc::default(),
        })
    }

    fn start(&self, place: &Place, call: Call, down: ReplyTo) -> RunningCall {
        let conversation = Rc::new(Conversation::new(down));
        let running = RunningCall::new(conversation.clone(), Ticket(0));
        place.is_taken.set(true);
        let (options, is_hurried) = (self.options.clone(), self.is_hurried.clone());
        let (is_taken, left) = (place.is_taken.clone(), place.left.clone());
        let process = spawn_local(async move {
            let mut child = None;
            let deadline = call.deadline;
            let work = answer(&options, &conversation, call, &mut child);
            let done = conversation.lead(deadline, work).await;
            // A program that has said its last may end by itself; one that is given up is told to.
            let is_wanted = done.as_ref().err().is_none_or(|failure| failure.from_peer);
            conversation.finish(done);
            if let Some(child) = child {
                let hurry = if is_hurried.get() { Patience::USUAL.hurry } else { Duration::MAX };
                let patience = if is_wanted { options.stop } else { Duration::ZERO };
                child.leave(patience.min(hurry)).await;
            }
            is_taken.set(false);
            left.ring();
        });
        *place.process.borrow_mut() = Some(process);
        running
    }

    async fn freed(&self, place: &Place) -> bool {
        while place.is_taken.get() {
            place.left.rung().await;
        }
        true
    }

    async fn over(&self, _place: &Place) {
        std::future::pending::<()>().await;
    }

    fn is_good(&self, _place: &Place) -> bool {
        true
    }
}

async fn answer(
    options: &Options,
    conversation: &Conversation,
    call: Call,
    child: &mut Option<Child>,
) -> Result<Outcome, Failure> {
    let (wants_progress, sends_parts) = (call.options.progress, call.options.sends_parts);
    let What::Tool { mut args, .. } = call.what else {
        return Err(Failure::new(FailureKind::UnknownTool, "no such tool"));
    };
    if sends_parts {
        args = conversation.collect(args).await?;
    }
    let ask = Ask::read(args.as_ref())?;
    let child = child.insert(start(options, &ask)?);
    let mut reader = Reader::new();
    let mut input = BytesMut::new();
    let mut is_first = true;
    let mut tell_wait_at = Some(Instant::now() + wait_is_told());
    loop {
        let count = tokio::select! {
            count = child.read(&mut input) => count,
            () = until(tell_wait_at) => {
                tell_wait_at = None;
                tell_wait(&options.name, Some("the first event of a `godex exec` program"));
                continue;
            }
        };
        if is_first && tell_wait_at.take().is_none() {
            tell_wait(&options.name, None);
        }
        is_first = false;
        match count {
            0 => reader.handle_eof(&mut input),
            _ => reader.handle_bytes(&mut input),
        }
        while let Some(warning) = reader.poll_warning() {
            tracing::warn!(peer = options.name, "{warning}");
        }
        // While the caller is slow nothing is read, and what was read becomes one piece.
        let mut pressure = Pressure::Ready;
        while let Some(text) = reader.poll_progress(pressure == Pressure::Full) {
            if wants_progress {
                pressure = conversation.send_pressed(Down::Progress(Json::of(&text))).await;
            }
        }
        if count == 0 && reader.outcome().is_none() {
            reader.handle_exit(child.last_words(options.stop).await);
        }
        if let Some(outcome) = reader.outcome() {
            return outcome.clone();
        }
        // A program that never stops talking must not keep all others waiting.
        tokio::task::consume_budget().await;
    }
}

fn start(options: &Options, ask: &Ask) -> Result<Child, Failure> {
    let cannot = |error: std::io::Error| {
        let message = format!("cannot write a file for the prompt: {error}");
        Failure::new(FailureKind::Unavailable, message)
    };
    let file = ask.file().map(|text| PrivateFile::write(&text)).transpose().map_err(cannot)?;
    let path = file.as_ref().map(|file| file.path().display().to_string());
    let words = &options.program.words;
    let arguments = ask.arguments(words, path.as_deref());
    let words = words.iter().take(1).cloned().chain(arguments).collect();
    let program = Program { words, ..options.program.clone() };
    Child::start(&options.name, &program, file)
}
