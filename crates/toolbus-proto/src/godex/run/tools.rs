//! The tool loop: the calls of a turn run together, and the next request tells what they said.

use std::time::Instant;

use super::{Run, Stage, ToolCall};
use crate::godex::functions::{Function, Origin, arguments};
use crate::godex::mock::Mode;
use crate::godex::output::ToolOutput;
use crate::godex::request::{Choice, call_output};
use crate::godex::wire::Object;
use crate::json::Json;
use crate::tool::{Failure, FailureKind};

/// The calls of one turn, in the order in which they were done.
#[derive(Debug)]
pub(super) struct Running(Vec<OneCall>);

#[derive(Debug)]
struct OneCall {
    call_id: String,
    name: String,
    arguments: String,
    /// What it said, and whether that is an error.
    output: Option<(String, bool)>,
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
        let calls = calls.into_iter().map(|call| OneCall {
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            output: None,
        });
        Some(Running(calls.collect()))
    }

    /// Starts all of them together; those that cannot be called are answered here.
    pub(super) fn run_tools(&mut self, now: Instant, mut running: Running) {
        for (index, call) in running.0.iter_mut().enumerate() {
            let function = self.settings.request.function(&call.name);
            match prepare(function, call) {
                Ok((tool, args)) => {
                    let call_id = call.call_id.clone();
                    self.calls.push_back(ToolCall { index, call_id, tool, args });
                }
                Err(failure) => call.output = Some((ToolOutput::failed(&failure), true)),
            }
        }
        self.stage = Stage::Tools(running);
        self.go_on_if_all_done(now);
    }

    /// A tool has ended, and said this.
    pub fn handle_output(&mut self, now: Instant, index: usize, text: String, is_error: bool) {
        let Stage::Tools(Running(calls)) = &mut self.stage else { return };
        if let Some(call) = calls.get_mut(index) {
            call.output.get_or_insert((text, is_error));
        }
        self.go_on_if_all_done(now);
    }

    fn go_on_if_all_done(&mut self, now: Instant) {
        let Stage::Tools(Running(calls)) = &mut self.stage else { return };
        if calls.iter().any(|call| call.output.is_none()) {
            return;
        }
        let calls = std::mem::take(calls);
        let input = &mut self.settings.request.input;
        input.extend(self.turn.to_input().map(Json::from_trusted));
        for OneCall { call_id, name, output, .. } in &calls {
            let Some((text, is_error)) = output else { continue };
            input.push(call_output(call_id, text));
            if self.said.wanted.all_events && self.said.wanted.lines {
                let mut line = Object::line(&mut self.said.lines, "toolbus.tool_result");
                line.text("call_id", call_id).text("name", name).text("output", text);
                line.raw("is_error", if *is_error { "true" } else { "false" });
                line.end_line();
            }
        }
        self.last_output = calls.into_iter().find_map(|call| Some(call.output?.0));
        // It has done what it had to: from here on it may end.
        if let Choice::Required | Choice::Function(_) = self.settings.request.choice {
            self.settings.request.choice = Choice::Auto;
        }
        self.next_turn(now);
    }
}

fn prepare(
    function: Option<&Function>,
    call: &OneCall,
) -> Result<(crate::tool::ToolName, Json), Failure> {
    let Some(Function { origin: Origin::Bus { tool, is_wrapped }, .. }) = function else {
        let message = format!("there is no function `{}`", call.name);
        return Err(Failure::new(FailureKind::UnknownTool, message));
    };
    let args = arguments(&call.arguments, *is_wrapped)
        .map_err(|why| Failure::new(FailureKind::InvalidArguments, why))?;
    Ok((tool.clone(), args))
}
