//! What a run or a teardown says: lines on standard output, or events; logs and warnings on
//! standard error, and on a terminal what is under way.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::SystemTime;

use toolbus_orchard::record::{ErrorRecord, State};
use toolbus_orchard::run::{Event, Surface};
use toolbus_orchard::secrets::Secrets;

use super::super::Face;
use super::live::Live;
use crate::render::style::{ColorWhen, Paint};
use crate::render::{self, printable};
use crate::stderr;
use crate::stdio::Terminal as _;

/// Where everything goes.
pub(super) struct Screen {
    secrets: Rc<Secrets>,
    is_json: bool,
    is_quiet: bool,
    out: Paint,
    live: Option<Live>,
    /// How many nodes are under way.
    in_flight: Cell<usize>,
    failures: RefCell<Vec<(String, ErrorRecord)>>,
}

impl Screen {
    /// Must be called inside a `LocalSet`.
    pub(super) fn open(secrets: Rc<Secrets>, face: Face) -> Rc<Screen> {
        let is_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_never = face.color == ColorWhen::Never;
        let is_live = is_terminal
            && !face.json
            && !face.quiet
            && !no_color
            && !is_never
            && !crate::logging::is_json();
        Rc::new(Screen {
            secrets,
            is_json: face.json,
            is_quiet: face.quiet,
            out: face.color.paint(&io::stdout()),
            live: is_live.then(Live::start),
            in_flight: Cell::new(0),
            failures: RefCell::default(),
        })
    }

    /// A line of the result. A closed standard output does not stop a run.
    pub(super) fn line(&self, text: &str) {
        if self.is_json {
            return;
        }
        self.wipe();
        let _ = render::print_own(&format!("{text}\n"));
    }

    /// A line of JSON, if that is wanted.
    pub(super) fn event_line(&self, line: &str) {
        if self.is_json {
            let _ = render::print(&format!("{line}\n"));
        }
    }

    /// Something for people that stands in no event.
    pub(super) fn tell_people(&self, text: &str) {
        self.wipe();
        stderr::write(&format!("{text}\n"));
    }

    /// The first signal came: says what happens now, and what a second one does.
    pub(super) fn tell_of_signal(&self) {
        if self.is_json || self.is_quiet {
            return;
        }
        let what = match self.in_flight.get() {
            0 => "ends now; Ctrl-C again kills it".to_owned(),
            1 => "ends after this action; Ctrl-C again kills it".to_owned(),
            count => format!("ends after these {count} actions; Ctrl-C again kills them"),
        };
        // The terminal has shown `^C` where the text begins.
        let start = if io::stderr().is_terminal() { "\r" } else { "" };
        self.tell_people(&format!("{start}{what}"));
    }

    /// Nothing of ours is left on the terminal but what stays.
    pub(super) fn close(&self) {
        if let Some(live) = &self.live {
            live.stop();
        }
    }

    /// What went wrong with nodes, in the order in which it did.
    pub(super) fn failures(&self) -> Vec<(String, ErrorRecord)> {
        self.failures.borrow().clone()
    }

    pub(super) fn wipe(&self) {
        if let Some(live) = &self.live {
            live.wipe();
        }
    }

    /// `ok ADDRESS (Nms)` and the like.
    fn ended(
        &self,
        address: &str,
        state: State,
        duration_ms: Option<u64>,
        error: Option<&ErrorRecord>,
        reason: Option<&str>,
    ) {
        if let Some(live) = &self.live {
            live.ended(address);
        }
        let (word, paint): (_, fn(Paint, &str) -> String) = match state {
            State::Succeeded => ("ok", Paint::ok),
            State::Unknown => ("unknown", Paint::error),
            State::Skipped | State::Pending | State::Running => ("skipped", Paint::dim),
            State::Failed | State::ExecutedBadOutputs => ("failed", Paint::error),
        };
        let mut line = format!("{} {}", paint(self.out, word), printable(address));
        if let Some(duration) = duration_ms {
            line.push_str(&format!(" ({duration}ms)"));
        }
        if let Some(ErrorRecord { code, message, .. }) = error {
            line.push_str(&format!(": {}: {}", one_line(code), one_line(message)));
        }
        if let Some(reason) = reason {
            line.push_str(&format!(": {}", one_line(&self.secrets.masked(reason))));
        }
        self.line(&line);
        if let Some(error) = error {
            self.failures.borrow_mut().push((address.to_owned(), error.clone()));
        }
    }
}

/// A text of others, on one line.
fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

impl Surface for Screen {
    fn tell(&self, event: &Event<'_>) {
        if self.is_json {
            self.event_line(&event.line(SystemTime::now(), &self.secrets));
            return;
        }
        match *event {
            Event::RunStarted { scenario, .. } => {
                self.line(&format!("scenario: {}", printable(scenario)));
                self.line("executing...");
            }
            Event::TeardownStarted { .. } => self.line("tearing down..."),
            Event::NodeStarted { address, attempt, attempts_max } => {
                // A further attempt is no further node.
                if attempt == 1 {
                    self.in_flight.set(self.in_flight.get() + 1);
                }
                if let Some(live) = &self.live {
                    live.started(address, attempt, attempts_max);
                }
            }
            Event::NodeEnded { address, state, duration_ms, error, attempts, .. } => {
                // One that never began ends as well.
                if 0 < attempts {
                    self.in_flight.set(self.in_flight.get().saturating_sub(1));
                }
                self.ended(address, state, duration_ms, error, None);
            }
            Event::TeardownEnded { address, state, duration_ms, error, reason } => {
                // What is left out took no time.
                if duration_ms.is_some() {
                    self.in_flight.set(self.in_flight.get().saturating_sub(1));
                }
                self.ended(address, state, duration_ms, error, reason);
            }
            Event::NodeRetry { address, attempt, error, delay } if !self.is_quiet => {
                let ErrorRecord { code, message, .. } = error;
                let (code, message) = (one_line(code), one_line(message));
                let address = printable(address);
                self.tell_people(&format!(
                    "note: {address}: attempt {attempt} failed, the next follows in {delay:?}: \
                     {code}: {message}"
                ));
            }
            Event::Log { provider, level, text } if !self.is_quiet => {
                let level = level.map(|level| format!("{}: ", one_line(level)));
                let level = level.unwrap_or_default();
                self.tell_people(&format!("[{}] {level}{}", printable(provider), one_line(text)));
            }
            Event::Warning { message, .. } if !self.is_quiet => {
                let message = self.secrets.masked(message);
                self.tell_people(&format!("warning: {}", one_line(&message)));
            }
            _ => {}
        }
    }
}
