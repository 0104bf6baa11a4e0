//! The journal: one line of JSON for each call of a tool, written before its caller is answered.
//!
//! [`Journal`] observes a bus. `line` is how a line looks, `noted` what is not written yet, `open`
//! how it gets into a file, `file` how that is rotated, [`read`] how it is read again.

mod file;
mod line;
mod noted;
mod open;
pub mod read;

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::time::{Instant, SystemTime};

use toolbus_proto::tool::{Failure, FailureKind};

use self::file::{Cut, JournalFile};
use self::line::LineWriter;
use self::noted::Noted;
use super::config::JournalConfig;
use super::observe::{CallEnd, ObservedCall, Observer};

/// Writes a line for each call.
///
/// Before the answer of a call leaves us, its line was taken by the operating system: if we are
/// killed it is there. The lines of calls that end together are one write. They are not forced to
/// the disk, so what the machine itself loses may be lost.
pub struct Journal {
    config: JournalConfig,
    state: RefCell<State>,
}

struct State {
    file: JournalFile,
    writer: LineWriter,
    noted: Noted,
    /// How often lines were written.
    #[cfg(test)]
    writes: usize,
    trouble: Option<Trouble>,
}

/// Lines cannot be written for now.
struct Trouble {
    why: String,
    lines_lost: u64,
}

impl Journal {
    /// Nothing is opened or made before the first line.
    pub fn new(config: &JournalConfig) -> Journal {
        let file = JournalFile::new(config.path.clone(), config.bytes_max as u64);
        let (writer, noted) = (LineWriter::default(), Noted::default());
        let state = State {
            file,
            writer,
            noted,
            #[cfg(test)]
            writes: 0,
            trouble: None,
        };
        Journal { config: config.clone(), state: RefCell::new(state) }
    }

    /// As it was set up.
    pub fn config(&self) -> &JournalConfig {
        &self.config
    }

    /// Opens the file now, or anew: it may have been moved away. That it cannot be is an error if
    /// it is required, and else told like any other trouble with it.
    pub fn open(&self) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        match state.file.open() {
            Err(error) if self.config.required => Err(error),
            Err(error) => {
                state.failed(&self.config, &error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Gives the number of its line.
    fn take_down(&self, call: &ObservedCall, end: &CallEnd<'_>) -> u64 {
        let state = &mut *self.state.borrow_mut();
        let State { writer, noted, .. } = state;
        let number = noted.line(|line| {
            writer.put(line, &self.config, SystemTime::now(), call, end);
        });
        if noted.is_enough() {
            state.write(&self.config);
        }
        number
    }
}

impl Observer for Journal {
    fn begins(&self, _call: &ObservedCall) -> Result<(), Failure> {
        if !self.config.required {
            return Ok(());
        }
        let state = &mut *self.state.borrow_mut();
        // Better than to find out when the call was made.
        if let Err(error) = state.file.open_if_closed() {
            state.failed(&self.config, &error);
        }
        match &state.trouble {
            // Its line is tried all the same when it ends, which is now.
            Some(trouble) => Err(trouble.refusal(&self.config)),
            None => Ok(()),
        }
    }

    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Result<(), Failure> {
        let number = self.take_down(call, end);
        self.write();
        self.outcome(number)
    }

    fn wants_results(&self) -> bool {
        self.config.results
    }

    fn note(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Option<u64> {
        Some(self.take_down(call, end))
    }

    fn write(&self) {
        self.state.borrow_mut().write(&self.config);
    }

    fn outcome(&self, number: u64) -> Result<(), Failure> {
        self.state.borrow_mut().noted.outcome(number)
    }
}

impl State {
    fn write(&mut self, config: &JournalConfig) {
        if self.noted.text().is_empty() {
            return;
        }
        #[cfg(test)]
        {
            self.writes += 1;
        }
        let appended = self.file.append(Instant::now(), self.noted.text());
        match appended {
            Ok(()) => {
                self.works_again(&config.path);
                self.noted.written();
            }
            Err(Cut { whole, error }) => {
                let lost = self.noted.lines_behind(whole);
                let trouble = self.failed(config, &error);
                trouble.lines_lost += lost;
                let refusal = config.required.then(|| trouble.refusal(config));
                self.noted.lost(lost, refusal);
            }
        }
    }

    /// Says it once, however many lines are lost.
    fn failed(&mut self, config: &JournalConfig, error: &io::Error) -> &mut Trouble {
        let path = config.path.display();
        if self.trouble.is_none() {
            let then = match config.required {
                true => "calls fail until it can (`required = true`)",
                false => "calls go on without it (`required = false`)",
            };
            tracing::error!("the journal `{path}` cannot be written: {error}; {then}");
        }
        let why = error.to_string();
        let trouble = self.trouble.get_or_insert(Trouble { why: String::new(), lines_lost: 0 });
        trouble.why = why;
        trouble
    }

    fn works_again(&mut self, path: &Path) {
        if let Some(trouble) = self.trouble.take() {
            let (path, lost) = (path.display(), lines(trouble.lines_lost));
            tracing::warn!("the journal `{path}` can be written again: {lost} lost");
        }
    }
}

impl Trouble {
    /// Why calls are refused, as long as their lines cannot be written.
    fn refusal(&self, config: &JournalConfig) -> Failure {
        let (path, why) = (config.path.display(), &self.why);
        let message = format!(
            "the journal `{path}` cannot be written ({why}), and without it no call is answered"
        );
        Failure::new(FailureKind::Unavailable, message)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.write();
        if let Some(Trouble { lines_lost: lost @ 1.., .. }) = self.state.get_mut().trouble {
            tracing::error!("the journal `{}`: {} lost", self.config.path.display(), lines(lost));
        }
    }
}

fn lines(count: u64) -> String {
    match count {
        1 => "one line is".to_owned(),
        count => format!("{count} lines are"),
    }
}

#[cfg(test)]
mod tests;
