//! How a run fails: one line, one message on standard error, one exit code.

use std::time::Duration;

use super::run::Signal;
use super::usage::Usage;
use super::wire::Object;

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// What happened, for people.
    pub message: String,
    /// What happened, for programs.
    pub code: Option<String>,
    /// The status of an HTTP answer.
    pub status: Option<u16>,
    /// Which parameter the server does not like.
    pub param: Option<String>,
    /// Why an answer is incomplete.
    pub reason: Option<String>,
    /// What it cost all the same. Boxed, since few errors have it and all are passed about.
    pub usage: Option<Box<Usage>>,
    /// What the user can do about it, where that is a line of its own. Boxed for the same reason.
    pub hint: Option<Box<String>>,
    /// The status that the program exits with.
    pub exit: u8,
}

impl RunError {
    pub(super) fn new(exit: u8, code: &str, message: impl Into<String>) -> RunError {
        RunError {
            message: message.into(),
            code: Some(code.to_owned()),
            status: None,
            param: None,
            reason: None,
            usage: None,
            hint: None,
            exit,
        }
    }

    /// A wrong flag, or input that cannot be used.
    pub fn usage(message: impl Into<String>) -> RunError {
        RunError::new(2, "usage", message)
    }

    /// The user ended it.
    pub fn interrupted(signal: Signal) -> RunError {
        let exit = match signal {
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
        };
        RunError::new(exit, "interrupted", "interrupted")
    }

    /// No server could be reached.
    pub fn unreachable(message: impl Into<String>) -> RunError {
        RunError::new(3, "unreachable", message)
    }

    /// A back of the tool loop cannot be started, or its tools cannot be listed.
    pub fn unavailable(message: impl Into<String>) -> RunError {
        RunError::new(3, "unavailable", message)
    }

    /// More came than may be kept.
    pub(super) fn too_large(what: &str, bytes_max: usize) -> RunError {
        RunError::new(3, "too_large", format!("{what} is over the limit of {bytes_max} bytes"))
    }

    pub(super) fn stream_ended() -> RunError {
        RunError::new(1, "stream_ended", "stream ended before response.completed")
    }

    pub(super) fn idle(patience: Duration) -> RunError {
        RunError::new(4, "idle_timeout", format!("no data for {}", seconds(patience)))
    }

    /// All of it took too long.
    pub fn not_in_time(patience: Duration) -> RunError {
        RunError::new(4, "timeout", format!("not done within {}", seconds(patience)))
    }

    /// The line that says so, with its newline.
    pub fn line(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_line(&mut out);
        out
    }

    pub(super) fn write_line(&self, out: &mut Vec<u8>) {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let mut line = Object::line(out, "error");
        line.text("message", &self.message);
        if let Some(code) = some(&self.code) {
            line.text("code", &code);
        }
        if let Some(status) = self.status {
            line.number("status", status.into());
        }
        if let Some(param) = some(&self.param) {
            line.text("param", &param);
        }
        if let Some(reason) = some(&self.reason) {
            line.text("reason", &reason);
        }
        if let Some(usage) = &self.usage {
            line.object("usage", |out| usage.write(out));
        }
        line.end_line();
    }

    /// The same with the parts of it that may hold foreign text changed.
    pub(super) fn map_texts(mut self, change: impl Fn(&str) -> String) -> RunError {
        self.message = change(&self.message);
        for text in [&mut self.code, &mut self.param, &mut self.reason].into_iter().flatten() {
            *text = change(text);
        }
        self
    }
}

/// A duration as people write it: `0.5s`.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}
