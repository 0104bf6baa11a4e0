//! The tool loop: the calls of a turn run together, and the next request tells what they said.

use std::time::Instant;

use super::{Permission, Run, RunStage, ToolCall};
use crate::channel::{Asked, Down, Ended, Flow, Serving, Ticket};
use crate::godex::calls::Call as FunctionCall;
use crate::godex::functions::{Function, Origin, arguments};
use crate::godex::mock::Mode;
use crate::godex::notes::Note;
use crate::godex::output::ToolOutput;
use crate::godex::request::{Choice, call_output};
use crate::godex::wire::Object;
use crate::json::Json;
use crate::tool::{Call, Failure, FailureKind, ToolName};

/// The calls of one turn, in the order in which they were done.
#[derive(Debug)]
pub(super) struct Running(Vec<OneCall>);

#[derive(Debug)]
struct OneCall {
    call_id: String,
    name: String,
    progress: Progress,
}

/// How far a call is.
#[derive(Debug)]
enum Progress {
    /// The user may have to allow it.
    Waiting(WantedTool),
    Running(Ticket, ToolOutput),
    /// What it said, and whether that is an error.
    Done(String, bool),
}

/// What the model wants to be called.
#[derive(Debug)]
struct WantedTool {
    tool: ToolName,
    args: Json,
    is_harmless: bool,
}

impl Running {
    /// The calls under way.
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.0.iter().filter_map(|call| match call.progress {
            Progress::Running(ticket, _) => Some(ticket),
            Progress::Waiting(..) | Progress::Done(..) => None,
        })
    }
}

impl OneCall {
    /// What is to be called, as long as it was not.
    fn waiting(&self) -> Option<ToolCall> {
        let Progress::Waiting(WantedTool { tool, args, .. }) = &self.progress else { return None };
        let (call_id, tool, args) = (self.call_id.clone(), tool.clone(), args.clone());
        Some(ToolCall { call_id, tool, args })
    }
}

impl Progress {
    fn failed(failure: &Failure) -> Progress {
        Progress::Done(ToolOutput::failed(failure), true)
    }
}

impl Run {
    /// The calls of the turn that ended, if they are to be run here.
    pub(super) fn running(&self) -> Option<Running> {
        if !self.settings.request.runs_tools || self.settings.mock == Some(Mode::ToolCall) {
            return None;
        }
        let request = &self.settings.request;
        let is_ours = |name: &str| {
            let function = request.function(name);
            function.is_none_or(|function| function.origin != Origin::Declared)
        };
        let calls: Vec<_> = self.turn.calls().collect();
        // A mock without any tool calls one that there is not, and has told its end already.
        let is_mocked = self.settings.mock.is_some() && request.first_of_bus().is_none();
        if calls.is_empty() || is_mocked || !calls.iter().all(|call| is_ours(&call.name)) {
            return None;
        }
        let calls = calls.into_iter().map(|call| {
            let progress = match prepare(request.function(&call.name), call) {
                Ok(wanted) => Progress::Waiting(wanted),
                Err(failure) => Progress::failed(&failure),
            };
            OneCall { call_id: call.call_id.clone(), name: call.name.clone(), progress }
        });
        Some(Running(calls.collect()))
    }

    /// Starts together all that the user need not be asked about.
    pub(super) fn run_tools(&mut self, now: Instant, running: Running) {
        let count = running.0.len();
        self.enter(RunStage::Tools(running));
        (0..count).for_each(|index| self.start_if_allowed(now, index));
        self.go_on_if_all_done(now);
    }

    fn start_if_allowed(&mut self, now: Instant, index: usize) {
        let RunStage::Tools(Running(calls)) = &self.stage else { return };
        if let Progress::Waiting(WantedTool { tool, is_harmless, .. }) = &calls[index].progress
            && (!self.settings.asks_user || *is_harmless || self.allowed.contains(tool))
        {
            self.start_tool(now, index);
        }
    }

    fn start_tool(&mut self, now: Instant, index: usize) {
        let RunStage::Tools(Running(calls)) = &mut self.stage else { return };
        let Some(call) = calls[index].waiting() else { return };
        let (ticket, timeout) = (Ticket(self.tickets), self.settings.tool_timeout);
        self.tickets += 1;
        calls[index].progress = Progress::Running(ticket, ToolOutput::within(timeout));
        let mut asked = Call::tool(now, call.tool.clone(), Some(call.args.clone()));
        // However often it is heard of: it has so long.
        asked.deadline.quiet = Some(timeout);
        asked.deadline.total = Some(timeout);
        self.asked.push_back((ticket, Asked::Call(asked)));
        self.said.notes.push_back(Note::Calling(ticket, call));
    }

    /// A tool that the user has to allow, one at a time: [`Run::handle_permission`] tells the
    /// answer. Tools that may run do not wait for it.
    pub fn poll_question(&mut self) -> Option<ToolCall> {
        let index = self.next_question()?;
        let RunStage::Tools(Running(calls)) = &self.stage else { return None };
        self.question = Some(index);
        calls[index].waiting()
    }

    /// The next to ask about, unless a question stands, or something before it is not shown.
    pub(super) fn next_question(&self) -> Option<usize> {
        let RunStage::Tools(Running(calls)) = &self.stage else { return None };
        let is_free = self.question.is_none() && !self.is_untold();
        let waits = |call: &OneCall| matches!(call.progress, Progress::Waiting(..));
        calls.iter().position(waits).filter(|_| is_free)
    }

    /// What the user says to the question.
    pub fn handle_permission(&mut self, now: Instant, permission: Permission) {
        let Some(index) = self.question.take() else { return };
        let RunStage::Tools(Running(calls)) = &mut self.stage else { return };
        match permission {
            Permission::Once => self.start_tool(now, index),
            Permission::Always => {
                self.allowed.extend(calls[index].waiting().map(|call| call.tool));
                (0..calls.len()).for_each(|index| self.start_if_allowed(now, index));
            }
            Permission::No => {
                let why = "the user did not allow this call";
                let failure = Failure::new(FailureKind::Cancelled, why);
                calls[index].progress = Progress::failed(&failure);
                self.go_on_if_all_done(now);
            }
        }
    }

    fn go_on_if_all_done(&mut self, now: Instant) {
        let RunStage::Tools(Running(calls)) = &mut self.stage else { return };
        let is_done = |call: &OneCall| matches!(call.progress, Progress::Done(..));
        if !calls.iter().all(is_done) {
            return;
        }
        let calls = std::mem::take(calls);
        let input = &mut self.settings.request.input;
        input.extend(self.turn.to_input().map(Json::from_trusted));
        self.last_output = None;
        for OneCall { call_id, name, progress } in calls {
            let Progress::Done(text, is_error) = progress else { continue };
            input.push(call_output(&call_id, &text));
            if self.said.wanted.all_events && self.said.wanted.lines {
                let mut line = Object::line(&mut self.said.lines, "toolbus.tool_result");
                line.text("call_id", &call_id).text("name", &name).text("output", &text);
                line.raw("is_error", if is_error { "true" } else { "false" });
                line.end_line();
            }
            self.last_output.get_or_insert(text);
        }
        // It has done what it had to: from here on it may end.
        if let Choice::Required | Choice::Function(_) = self.settings.request.choice {
            self.settings.request.choice = Choice::Auto;
        }
        self.next_turn(now);
    }
}

impl Serving for Run {
    /// What comes before a call is shown before it is made.
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        match self.is_untold() && self.ended().is_none() {
            true => None,
            false => self.asked.pop_front(),
        }
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        let RunStage::Tools(Running(calls)) = &mut self.stage else { return Flow::More };
        let is_its =
            |it: &&mut OneCall| matches!(it.progress, Progress::Running(its, _) if its == ticket);
        if let Some(call) = calls.iter_mut().find(is_its)
            && let Progress::Running(_, output) = &mut call.progress
            && let Some((text, is_error)) =
                output.take(as_called(down, self.settings.request.function(&call.name), &call.name))
        {
            call.progress = Progress::Done(text, is_error);
            self.said.notes.push_back(Note::Called(ticket));
            self.go_on_if_all_done(now);
        }
        Flow::More
    }

    fn ended(&self) -> Option<&Ended> {
        self.ended().map(|_| &Ended::Well)
    }
}

/// What is wrong with the arguments of a function is told by the name by which it was called.
fn as_called(down: Down, function: Option<&Function>, name: &str) -> Down {
    let Down::Done(Err(failure)) = down else { return down };
    let rest = match function.map(|function| &function.origin) {
        Some(Origin::Bus { tool, .. })
            if failure.kind == FailureKind::InvalidArguments && !failure.from_peer =>
        {
            failure.message.strip_prefix(&format!("`{tool}` "))
        }
        _ => None,
    };
    let message = rest.map(|rest| format!("`{name}` {rest}"));
    let message = message.unwrap_or_else(|| failure.message.clone());
    Down::Done(Err(Failure { message, ..failure }))
}

fn prepare(function: Option<&Function>, call: &FunctionCall) -> Result<WantedTool, Failure> {
    let origin = function.map(|function| &function.origin);
    let Some(Origin::Bus { tool, is_wrapped, is_harmless }) = origin else {
        let message = format!("there is no function `{}`", call.name);
        return Err(Failure::new(FailureKind::UnknownTool, message));
    };
    let args = arguments(&call.arguments, *is_wrapped)
        .map_err(|why| Failure::new(FailureKind::InvalidArguments, why))?;
    Ok(WantedTool { tool: tool.clone(), args, is_harmless: *is_harmless })
}
