//! A command that did not work out: how the program ends, and what it tells the user before.
//!
//! Commands only build one; `render/report.rs` alone decides how it looks.

use std::error::Error;
use std::io;

use crate::args::Globals;
use crate::exit::Exit;
use crate::{render, stderr};

#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) exit: Exit,
    /// `None` where the reader of standard error has gone.
    pub(crate) report: Option<Report>,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) message: String,
    /// From the nearest cause to the first.
    pub(crate) causes: Vec<String>,
    /// What else is known, e.g. an exit status and the last lines of stderr.
    pub(crate) lines: Vec<String>,
    /// What the user can do about it.
    pub(crate) hint: Option<String>,
    /// What else is wrong, each told in the same way.
    pub(crate) more: Box<[Report]>,
}

/// So many mistakes of one input are told.
const TOLD_MAX: usize = 20;

impl Failed {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failed {
        let report = Report { message: message.into(), ..Report::default() };
        Failed { exit, report: Some(report) }
    }

    /// The input is wrong and nothing was started.
    pub(crate) fn usage(message: impl Into<String>) -> Failed {
        Failed::new(Exit::Usage, message)
    }

    /// Ends without a word.
    pub(crate) fn quietly(exit: Exit) -> Failed {
        Failed { exit, report: None }
    }

    /// Mistakes of one input, each with its own hint; of very many the first.
    pub(crate) fn several(mistakes: Vec<Failed>) -> Failed {
        let left_out = mistakes.len().saturating_sub(TOLD_MAX);
        let rest = (0 < left_out).then(|| Failed::usage(format!("and {left_out} more")));
        Failed::together(mistakes.into_iter().take(TOLD_MAX).chain(rest))
    }

    /// All of them, told one after the other. The first says how we end.
    pub(crate) fn together(all: impl IntoIterator<Item = Failed>) -> Failed {
        let mut all = all.into_iter();
        let Some(first) = all.next() else { return Failed::quietly(Exit::Failed) };
        let more = all.filter_map(|failed| failed.report).collect();
        first.with(|report| report.more = more)
    }

    /// Tells the user now, so that only the exit code is left to tell.
    pub(crate) fn told(self, globals: &Globals) -> Failed {
        if let Some(report) = &self.report {
            let paint = globals.color.paint(&io::stderr());
            // If even this cannot be written, the exit code has to do.
            stderr::write(&render::report::told(report, globals.log_format, paint));
        }
        Failed::quietly(self.exit)
    }

    /// What happened, and why, as one sentence.
    pub(crate) fn message(&self) -> String {
        let Some(report) = &self.report else { return String::new() };
        let causes = report.causes.iter().map(|cause| format!(": {cause}"));
        report.message.clone() + &causes.collect::<String>()
    }

    /// The same with what to do about it, where there is one line for all.
    pub(crate) fn message_and_hint(&self) -> String {
        let hint = self.report.as_ref().and_then(|report| report.hint.as_ref());
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        self.message() + &hint
    }

    /// Adds an error and all that caused it.
    pub(crate) fn caused_by(self, error: &dyn Error) -> Failed {
        let chain = std::iter::successors(Some(error), |&error| error.source());
        self.with(|report| report.causes.extend(chain.map(ToString::to_string)))
    }

    /// Adds what caused it, from the nearest cause to the first.
    pub(crate) fn causes(self, causes: impl IntoIterator<Item = String>) -> Failed {
        self.with(|report| report.causes.extend(causes))
    }

    pub(crate) fn lines(self, lines: impl IntoIterator<Item = String>) -> Failed {
        self.with(|report| report.lines.extend(lines))
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Failed {
        self.with(|report| report.hint = Some(hint.into()))
    }

    pub(crate) fn hint_if_any(self, hint: Option<String>) -> Failed {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Report)) -> Failed {
        if let Some(report) = &mut self.report {
            change(report);
        }
        self
    }
}
