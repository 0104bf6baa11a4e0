//! Standard error, written without ever blocking the one thread that everything runs on.
//!
//! A thread of its own does the writing. What it has not written yet is bounded: over the
//! bound whole lines are dropped and counted, and a line says how many as soon as there is
//! room again. Our own mode of the descriptor stays as it is, since we share it with others.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{logging, stdio};

/// What may wait to be written.
const WAITING_BYTES_MAX: usize = 256 * 1024;
/// How long the end of the program waits for a reader that takes nothing.
const LAST_LINES: Duration = Duration::from_secs(1);

static STDERR: LazyLock<Arc<Lines>> = LazyLock::new(|| {
    let lines = Arc::new(Lines::default());
    let written = Arc::clone(&lines);
    // Without a thread nothing could be written; then lines are dropped, which is all that can be done.
    let _ = thread::Builder::new()
        .name("stderr".to_owned())
        .spawn(move || written.write_to(&mut io::stderr()));
    lines
});

/// What wipes the line that the cursor is in.
const WIPE: &str = "\r\x1b[K";
/// A line stands there that is to go before anything else is written.
static IS_TRANSIENT: AtomicBool = AtomicBool::new(false);

/// Writes whole lines, as soon as the reader takes them.
pub(crate) fn write(text: &str) {
    let text = &*logging::formed(text);
    match !stdio::is_guest() && IS_TRANSIENT.swap(false, Ordering::Relaxed) {
        true => push(&format!("{WIPE}{text}"), WAITING_BYTES_MAX),
        false => push(text, WAITING_BYTES_MAX),
    }
}

/// Shows a line of a terminal until something else is written or it is wiped.
pub(crate) fn write_transient(line: &str) {
    IS_TRANSIENT.store(true, Ordering::Relaxed);
    STDERR.push(&format!("\r{line}\x1b[K"), WAITING_BYTES_MAX);
}

/// Nothing of a transient line is left. Says whether there was one.
pub(crate) fn wipe() -> bool {
    let was_there = IS_TRANSIENT.swap(false, Ordering::Relaxed);
    if was_there {
        STDERR.push(WIPE, WAITING_BYTES_MAX);
    }
    was_there
}

/// The same for lines that scripts wait for: there is room for them where others are dropped.
pub(crate) fn write_awaited(text: &str) {
    push(&logging::formed(text), 2 * WAITING_BYTES_MAX);
}

/// The same for a line that is no word for people but part of a protocol: it stays as it is.
pub(crate) fn write_protocol(text: &str) {
    push(text, 2 * WAITING_BYTES_MAX);
}

/// Into the standard error of the run, which takes it at once where it is not our own.
fn push(text: &str, bytes_max: usize) {
    if !stdio::complain(text) {
        STDERR.push(text, bytes_max);
    }
}

/// Waits until all is written, as long as the reader takes anything at all.
pub(crate) fn flush() {
    // Nothing was ever said, or it was written at once.
    if !stdio::is_guest() && LazyLock::get(&STDERR).is_some() {
        STDERR.flush(LAST_LINES);
    }
}

/// Whole lines that wait to be written, between the threads that write them and the one
/// that brings them out.
#[derive(Default)]
struct Lines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<String>,
    bytes: usize,
    dropped: u64,
    /// Something was taken out and is not written yet.
    is_writing: bool,
    /// How often something was written.
    written: u64,
}

impl Lines {
    fn push(&self, text: &str, bytes_max: usize) {
        let mut state = self.lock();
        // A line longer than all the room there is still has its turn when nothing waits.
        if bytes_max < state.bytes + text.len() && state.bytes != 0 {
            state.dropped += text.lines().count() as u64;
            return;
        }
        state.add(text.to_owned());
        self.changed.notify_all();
    }

    /// Brings out what comes, for ever.
    fn write_to(&self, out: &mut impl io::Write) {
        let mut state = self.lock();
        loop {
            state = self
                .changed
                .wait_while(state, |state| state.waiting.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            let text: String = state.waiting.drain(..).collect();
            // Its room is free only when it is written: else twice as much would wait.
            state.is_writing = true;
            drop(state);
            // If it cannot be written, there is nowhere left to complain.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            state = self.lock();
            state.bytes -= text.len();
            state.is_writing = false;
            state.written += 1;
            if let Some(note) = dropped_note(std::mem::take(&mut state.dropped)) {
                state.add(note);
            }
            self.changed.notify_all();
        }
    }

    /// Gives up when the reader has taken nothing for so long.
    fn flush(&self, patience: Duration) {
        let mut state = self.lock();
        let (mut seen, mut until) = (state.written, Instant::now() + patience);
        while !state.waiting.is_empty() || state.is_writing {
            let now = Instant::now();
            if seen != state.written {
                (seen, until) = (state.written, now + patience);
            }
            if until <= now {
                return;
            }
            let waited = self.changed.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, text: String) {
        self.bytes += text.len();
        self.waiting.push_back(text);
    }
}

fn dropped_note(lines: u64) -> Option<String> {
    let noun = if lines == 1 { "line was" } else { "lines were" };
    let count = crate::render::grouped(lines);
    (lines != 0).then(|| {
        let message = format!("{count} {noun} dropped here: standard error was not read in time");
        logging::line(tracing::Level::WARN, &message)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that takes one write at a time, when it is told to.
    struct Reader {
        may_take: mpsc::Receiver<()>,
        taken: mpsc::Sender<String>,
    }

    impl io::Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.may_take.recv().map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.taken.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_who_is_late_learns_what_was_dropped() {
        let (take, may_take) = mpsc::channel();
        let (taken, read) = mpsc::channel();
        let lines = Arc::new(Lines::default());
        let writer = Arc::clone(&lines);
        thread::spawn(move || writer.write_to(&mut Reader { may_take, taken }));
        let long = format!("{}\n", "x".repeat(WAITING_BYTES_MAX - 8));
        lines.push("first\n", WAITING_BYTES_MAX);
        // Nothing is taken yet: one long line more fits, and the rest does not.
        lines.push(&long[8..], WAITING_BYTES_MAX);
        for _ in 0..1234 {
            lines.push("one too many\n", WAITING_BYTES_MAX);
        }
        lines.flush(Duration::from_millis(1));
        let mut told = String::new();
        while !told.ends_with("in time\n") {
            take.send(()).unwrap();
            told.push_str(&read.recv().unwrap());
        }
        let note = "warning: 1,234 lines were dropped here: standard error was not read in time\n";
        assert_eq!(told, format!("first\n{}{note}", &long[8..]));
        lines.flush(Duration::from_secs(60));
        take.send(()).unwrap();
        lines.push("last\n", WAITING_BYTES_MAX);
        assert_eq!(read.recv().unwrap(), "last\n");
    }
}
