//! The shell behind the bus: one tool, `exec`, that runs a command to its end.
//!
//! It is an oracle of our own, so a Cairo program may call it natively. Each command is waited
//! for on a thread of its own.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, PipeWriter};
use std::rc::Rc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;
use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::oracle::Settings;
use toolbus_proto::oracle::shell::Exec;
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind, Outcome, What, Wire};

use super::settings::OracleSettings;
use crate::address::{Address, Scheme};
use crate::bus::back::{Back, LocalFuture};
use crate::bus::config::{Key, KeyKind, Values};
use crate::child::shell::{self, Limits, Ran};
use crate::engine::calls::{Answerer, Pressure, ReplyTo, RunningCall};
use crate::peer::pins::Pins;
use crate::peer::settings::Settings as BackSettings;
use crate::peer::{OpenError, PeerKind};
use crate::task::spawn_local;
use crate::wake::Wake;

/// Commands that run at the same time.
const RUNNING_MAX: usize = 64;

/// The shell, for the registry.
pub static SHELL: ShellKind = ShellKind;

/// What is to be known of the shell.
pub struct ShellKind;

impl PeerKind for ShellKind {
    fn name(&self) -> &'static str {
        "shell"
    }

    fn wire(&self) -> Wire {
        toolbus_proto::oracle::WIRE
    }

    fn summary(&self) -> &'static str {
        "the shell"
    }

    fn schemes(&self) -> &'static [Scheme] {
        const { &[Scheme::alone("shell:")] }
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[("shell:", "one tool, `exec`; off unless `--allow-shell` is given")]
    }

    fn back_keys(&self) -> &'static [Key] {
        const ALLOW_SHELL: Key = Key::new(
            "allow_shell",
            KeyKind::Bool,
            "the back `shell:`",
            "Whether callers may run any command",
        )
        .default("false");
        &[ALLOW_SHELL]
    }

    fn configure(&self, values: &Values, settings: BackSettings) -> BackSettings {
        let allow_shell = values.bool("allow_shell").unwrap_or_default();
        BackSettings { allow_shell, ..settings }
    }

    fn pins(&self) -> Option<&'static dyn Pins> {
        None
    }

    fn open(&self, _: &Address, settings: &BackSettings) -> Result<Rc<dyn Back>, OpenError> {
        match settings.allow_shell {
            true => Ok(Rc::new(Shell::new(settings.wire.get::<OracleSettings>().wire()))),
            false => Err(OpenError::ShellIsOff),
        }
    }

    fn generic_tools(&self) -> &'static [&'static str] {
        &["invoke"]
    }
}

/// The shell as a back. Dropping it kills whatever still runs.
pub struct Shell {
    inner: Rc<Inner>,
}

struct Inner {
    settings: Settings,
    running: RefCell<HashMap<Ticket, Running>>,
    next_ticket: Cell<u64>,
    /// Rung when a command has ended.
    ended: Wake,
}

struct Running {
    /// Closed in order to kill the command.
    cancel: Option<PipeWriter>,
    thread: JoinHandle<()>,
}

impl Shell {
    /// `settings` say how much a command may write and how felts are read.
    pub fn new(settings: Settings) -> Shell {
        let inner = Inner {
            settings,
            running: RefCell::default(),
            next_ticket: Cell::new(0),
            ended: Wake::default(),
        };
        Shell { inner: Rc::new(inner) }
    }
}

impl Back for Shell {
    fn wire(&self) -> Wire {
        toolbus_proto::oracle::WIRE
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let started = match call.what {
            What::Tools => Err(Ok(Outcome::Tools(Exec::tools()))),
            _ => self.inner.start(&call, down.clone()).map_err(Err),
        };
        match started {
            Ok(ticket) => RunningCall::new(self.inner.clone(), ticket),
            Err(outcome) => {
                let _ = down.send(Down::Done(outcome));
                RunningCall::ended()
            }
        }
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            self.inner.cancel_all();
            while !self.inner.running.borrow().is_empty() {
                self.inner.ended.rung().await;
            }
        })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.inner.cancel_all();
        for (_, running) in self.inner.running.borrow_mut().drain() {
            // It kills its command before it ends; no caller waits for its answer.
            let _ = running.thread.join();
        }
    }
}

impl Inner {
    fn start(self: &Rc<Inner>, call: &Call, down: ReplyTo) -> Result<Ticket, Failure> {
        let exec = Exec::read(&call.what, self.settings.leniency)?;
        if RUNNING_MAX <= self.running.borrow().len() {
            let message = format!("more than {RUNNING_MAX} commands run already");
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        let deadline = call.deadline;
        let limits = Limits {
            stdout_bytes_max: self.settings.line_bytes_max,
            give_up_at: deadline.instant(deadline.asked),
        };
        let command = exec.command().to_owned();
        let (cancel, thread, ran) = run(command, limits).map_err(|error| {
            let message = format!("cannot run a command: {error}");
            Failure::new(FailureKind::Unavailable, message)
        })?;
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        self.running.borrow_mut().insert(ticket, Running { cancel: Some(cancel), thread });

        let this = self.clone();
        spawn_local(async move {
            // The thread ended without an answer: our own fault.
            let ran = ran.await.unwrap_or_else(|_| {
                Err(Failure::new(
                    FailureKind::Gone,
                    "the thread that ran the command ended without an answer",
                ))
            });
            this.running.borrow_mut().remove(&ticket);
            this.ended.ring();
            let _ = down.send(Down::Done(outcome(&exec, &deadline, ran)));
        });
        Ok(ticket)
    }

    fn cancel_all(&self) {
        for running in self.running.borrow_mut().values_mut() {
            running.cancel = None;
        }
    }
}

impl Answerer for Inner {
    fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up
            && let Some(running) = self.running.borrow_mut().get_mut(&ticket)
        {
            running.cancel = None;
        }
        Pressure::Ready
    }

    fn resume(&self, _ticket: Ticket) {}
}

type Run = (PipeWriter, JoinHandle<()>, oneshot::Receiver<Result<Ran, Failure>>);

fn run(command: String, limits: Limits) -> io::Result<Run> {
    let (cancelled, cancel) = io::pipe()?;
    let (tell, ran) = oneshot::channel();
    let thread = thread::Builder::new().name("toolbus shell".into()).spawn(move || {
        // The back may have been dropped meanwhile.
        let _ = tell.send(shell::run(&command, &limits, Some(&cancelled)));
    })?;
    Ok((cancel, thread, ran))
}

fn outcome(
    exec: &Exec,
    deadline: &Deadline,
    ran: Result<Ran, Failure>,
) -> Result<Outcome, Failure> {
    match ran {
        Ok(Ran { code, stdout }) => exec.outcome(code, &stdout),
        Err(failure) if failure.kind == FailureKind::TimedOut => Err(deadline.missed()),
        Err(failure) => Err(failure),
    }
}
