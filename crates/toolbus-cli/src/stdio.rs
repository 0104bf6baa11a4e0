//! The three standard streams of a run: those of the process, or what was given to
//! [`run`](crate::run).
//!
//! Commands read, print and ask for a terminal by way of this file and of `stderr.rs`. What was
//! given belongs to the thread of the run, which is the only one that a command has.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Read, Write};
use std::thread;

pub(crate) use toolbus_engine::transport::stdio::input;
use toolbus_engine::transport::{pipe, stdio};

/// What a run reads.
pub enum Input {
    /// Standard input of this process.
    Own,
    /// Something else.
    Given(Box<dyn Read + Send>),
}

/// Where a run writes.
pub enum Output {
    /// Standard output or standard error of this process.
    Own,
    /// Somewhere else.
    Given(Box<dyn Write>),
}

struct Streams {
    stdin: Input,
    stdout: Output,
    stderr: Output,
}

thread_local! {
    static STREAMS: RefCell<Streams> = const {
        RefCell::new(Streams { stdin: Input::Own, stdout: Output::Own, stderr: Output::Own })
    };
}

/// The streams of the run that goes on. Dropped, they are those from before again.
pub(crate) struct Taken {
    before: Option<Streams>,
}

/// From now on these are the standard streams of this thread.
pub(crate) fn take(stdin: Input, stdout: Output, stderr: Output) -> Taken {
    Taken { before: Some(STREAMS.replace(Streams { stdin, stdout, stderr })) }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.before.take().into_iter().for_each(|before| STREAMS.set(before));
    }
}

/// Is this run one inside another program, which keeps what belongs to a process?
pub(crate) fn is_guest() -> bool {
    STREAMS.with_borrow(|streams| {
        let Streams { stdin, stdout, stderr } = streams;
        !matches!((stdin, stdout, stderr), (Input::Own, Output::Own, Output::Own))
    })
}

/// What a guest says of what only a process can do.
pub(crate) fn needs_process() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this command needs a process of its own")
}

/// Writes to standard output and flushes.
pub(crate) fn print(bytes: &[u8]) -> io::Result<()> {
    STREAMS.with_borrow_mut(|streams| match &mut streams.stdout {
        Output::Given(out) => out.write_all(bytes).and_then(|()| out.flush()),
        Output::Own => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
    })
}

/// Writes to the standard error that was given, and says whether there is one.
pub(crate) fn complain(text: &str) -> bool {
    STREAMS.with_borrow_mut(|streams| match &mut streams.stderr {
        Output::Given(out) => {
            // If it cannot be written, there is nowhere left to complain.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            true
        }
        Output::Own => false,
    })
}

/// Standard input, to be read at once. What was given can be had only once.
pub(crate) fn reader() -> Box<dyn Read + Send> {
    STREAMS.with_borrow_mut(|streams| match &mut streams.stdin {
        Input::Given(given) => std::mem::replace(given, Box::new(io::empty())),
        Input::Own => Box::new(io::stdin()),
    })
}

/// Standard input, to be read on the reactor.
pub(crate) fn stdin() -> io::Result<pipe::Input> {
    if STREAMS.with_borrow(|streams| matches!(streams.stdin, Input::Own)) {
        return stdio::stdin();
    }
    let (read, mut write) = io::pipe()?;
    let mut given = reader();
    // Ends with what was given, or with the command, which closes the other end.
    thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || io::copy(&mut given, &mut write))?;
    pipe::Input::from_pipe(read.into())
}

/// Standard output, to be written on the reactor. It needs to be that of a process.
pub(crate) fn stdout() -> io::Result<pipe::Output> {
    match STREAMS.with_borrow(|streams| matches!(streams.stdout, Output::Own)) {
        true => stdio::stdout(),
        false => Err(needs_process()),
    }
}

/// A standard stream that may be a terminal; what is given never is.
pub(crate) trait Terminal {
    fn is_terminal(&self) -> bool;
}

impl Terminal for io::Stdin {
    fn is_terminal(&self) -> bool {
        STREAMS.with_borrow(|streams| matches!(streams.stdin, Input::Own))
            && io::IsTerminal::is_terminal(self)
    }
}

impl Terminal for io::Stdout {
    fn is_terminal(&self) -> bool {
        STREAMS.with_borrow(|streams| matches!(streams.stdout, Output::Own))
            && io::IsTerminal::is_terminal(self)
    }
}

impl Terminal for io::Stderr {
    fn is_terminal(&self) -> bool {
        STREAMS.with_borrow(|streams| matches!(streams.stderr, Output::Own))
            && io::IsTerminal::is_terminal(self)
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Input::Own) { "Own" } else { "Given" })
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Output::Own) { "Own" } else { "Given" })
    }
}
