//! What a run says, on standard output, standard error and in files.

use std::fs::File;
use std::io::{self, IoSlice, Write as _};
use std::path::PathBuf;

use toolbus::LocalFuture;
use toolbus::wire::godex::exec::Surface;
use toolbus_engine::transport::pipe::Output;
use toolbus_proto::channel::Ticket;
use toolbus_proto::godex::auth::Tokens;
use toolbus_proto::godex::{Note, Permission, Run, ToolCall};

use super::{consent, files};
use crate::render::printable;
use crate::render::spinner::Spinner;
use crate::stderr;
use crate::stdio;
use crate::stdio::Terminal as _;

/// Where everything goes.
pub(super) struct Screen {
    out: Output,
    /// Taken from the run, and not written yet.
    pending: Vec<u8>,
    written: usize,
    /// What is on the terminal ends in the middle of a line.
    is_mid_line: bool,
    is_json: bool,
    is_terminal: bool,
    /// Both streams are on a terminal, where what is written to one must not overtake the other.
    is_shared: bool,
    /// What waits until the text before it is written.
    notes: Vec<String>,
    /// Tools that began or ended behind that text.
    tools_told: Vec<Told>,
    is_quiet: bool,
    log_requests: Option<File>,
    log_responses: Option<File>,
    auth_file: Option<PathBuf>,
    spinner: Option<Spinner>,
    /// The tools that run.
    tools: Vec<(Ticket, String)>,
    /// A question stands on the terminal.
    is_asking: bool,
}

/// What becomes of a tool.
enum Told {
    Begins(Ticket, ToolCall),
    Ends(Ticket),
}

impl Screen {
    pub(super) fn open(
        is_json: bool,
        is_quiet: bool,
        logs: (Option<File>, Option<File>),
        auth_file: Option<PathBuf>,
    ) -> io::Result<Screen> {
        let has_spinner = !is_json && !is_quiet && Spinner::can_turn();
        Ok(Screen {
            out: stdio::stdout()?,
            pending: Vec::new(),
            written: 0,
            is_mid_line: false,
            is_json,
            is_terminal: io::stdout().is_terminal(),
            is_shared: io::stdout().is_terminal() && io::stderr().is_terminal(),
            notes: Vec::new(),
            tools_told: Vec::new(),
            is_quiet,
            log_requests: logs.0,
            log_responses: logs.1,
            auth_file,
            spinner: has_spinner.then(Spinner::start),
            tools: Vec::new(),
            is_asking: false,
        })
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.written == self.pending.len() {
            self.pending.clear();
            self.written = 0;
        }
        self.pending.extend_from_slice(bytes);
    }

    fn note(&mut self, run: &Run, note: Note) {
        let masked = |text: &str| printable(&run.secrets().masked(text)).into_owned();
        let line = match note {
            Note::Warning(text) if !self.is_quiet => format!("warning: {}", masked(&text)),
            Note::Warning(_) => return,
            Note::Error(text) => format!("error: {}", masked(&text)),
            Note::Hint(text) => format!("hint: {}", masked(&text)),
            Note::Call { name, arguments } => {
                format!("call {} {}", masked(&name), masked(&arguments))
            }
            Note::Calling(ticket, call) => return self.tools_told.push(Told::Begins(ticket, call)),
            Note::Called(ticket) => return self.tools_told.push(Told::Ends(ticket)),
            Note::Trace(event) => run.secrets().masked(&event).into_owned(),
            Note::Request(body) => return self.log_request(run, &body),
            Note::Refreshed(tokens) => return self.rewrite(&tokens),
        };
        match self.is_shared {
            true => self.notes.push(line),
            false => self.tell(&line),
        }
    }

    fn tell(&self, line: &str) {
        stderr::write(&format!("{line}\n"));
        self.await_stderr();
    }

    /// There is something to see: the spinner is gone before it comes.
    fn rest(&self) {
        if let Some(spinner) = &self.spinner
            && spinner.rest()
        {
            self.await_stderr();
        }
    }

    /// Standard error is written by a thread of its own, which must not be late where people look.
    fn await_stderr(&self) {
        if self.is_shared {
            stderr::flush();
        }
    }

    fn log_request(&mut self, run: &Run, body: &[u8]) {
        if let Some(log) = &mut self.log_requests {
            let text = String::from_utf8_lossy(body);
            let line = format!("{}\n", run.secrets().masked(&text));
            if let Err(error) = log.write_all(line.as_bytes()) {
                self.log_requests = None;
                self.tell(&format!("warning: cannot write the log of requests: {error}"));
            }
        }
    }

    fn log_lines(&mut self, run: &Run, lines: &[u8]) {
        if let Some(log) = &mut self.log_responses {
            let text = String::from_utf8_lossy(lines);
            if let Err(error) = log.write_all(run.secrets().masked(&text).as_bytes()) {
                self.log_responses = None;
                self.tell(&format!("warning: cannot write the log of responses: {error}"));
            }
        }
    }

    /// The file may have changed since it was read: what stands there now is kept.
    fn rewrite(&self, tokens: &Tokens) {
        let Some(path) = &self.auth_file else { return };
        let text = std::fs::read_to_string(path).ok().and_then(|text| tokens.rewritten(&text));
        let done = match text {
            Some(text) => files::replace(path, &text).map_err(|error| error.to_string()),
            None => Err("it is no JSON object any more".to_owned()),
        };
        if let Err(why) = done {
            self.tell(&format!("warning: cannot rewrite `{}`: {why}", path.display()));
        }
    }

    /// Nothing of ours is left on the terminal.
    pub(super) fn close(&mut self) {
        self.spinner = None;
    }
}

impl Surface for Screen {
    fn take(&mut self, run: &mut Run) {
        let lines = std::mem::take(run.said().lines());
        if !lines.is_empty() {
            self.log_lines(run, &lines);
            if self.is_json {
                self.put(&lines);
            }
        }
        while let Some(text) = run.said().poll_text() {
            self.rest();
            match self.is_terminal {
                true => self.put(printable(&text).as_bytes()),
                false => self.put(text.as_bytes()),
            }
            self.is_mid_line = self.is_terminal && !text.ends_with('\n');
        }
        let is_over = run.ended().is_some();
        if is_over && !self.is_json && self.is_terminal && !run.said().is_at_line_start() {
            self.put(b"\n");
        }
        while let Some(note) = run.said().poll_note() {
            self.note(run, note);
        }
    }

    async fn show(&mut self) -> io::Result<()> {
        while self.written < self.pending.len() {
            let count = self.out.write(&[IoSlice::new(&self.pending[self.written..])]).await?;
            self.written += count;
        }
        for line in std::mem::take(&mut self.notes) {
            self.tell(&line);
        }
        for told in std::mem::take(&mut self.tools_told) {
            match told {
                Told::Begins(ticket, call) => self.begins(ticket, &call),
                Told::Ends(ticket) => self.ends(ticket),
            }
        }
        Ok(())
    }

    fn ask(&mut self, call: &ToolCall) -> LocalFuture<'static, Permission> {
        self.rest();
        if std::mem::take(&mut self.is_mid_line) {
            stderr::write("\n");
        }
        self.is_asking = true;
        consent::ask(call)
    }

    fn asked(&mut self) {
        self.is_asking = false;
        self.turn();
    }
}

impl Screen {
    /// A tool begins to run.
    fn begins(&mut self, ticket: Ticket, call: &ToolCall) {
        if self.spinner.is_none() {
            return;
        }
        let arguments = toolbus_proto::printable::beginning(call.args.as_str());
        let (tool, arguments) = (printable(call.tool.as_str()), printable(&arguments));
        // The model may have spoken, and not ended its line.
        let line_end = if self.is_mid_line || self.is_asking { "\n" } else { "" };
        self.tell(&format!("{line_end}running {tool} {arguments}"));
        self.is_mid_line = false;
        self.tools.push((ticket, call.tool.as_str().to_owned()));
        self.turn();
    }

    fn ends(&mut self, ticket: Ticket) {
        self.tools.retain(|(known, _)| *known != ticket);
        if let Some(spinner) = &self.spinner {
            spinner.say(&self.running());
        }
    }

    /// There is nothing to see until the tools are done.
    fn turn(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.say(&self.running());
            if !self.is_asking {
                spinner.wait();
            }
        }
    }

    fn running(&self) -> String {
        let names: Vec<_> = self.tools.iter().map(|(_, name)| &**name).collect();
        names.join(", ")
    }
}
