//! The other way: a `godex exec` program that we run, as a tool that asks a model.
//!
//! Each call is one process. [`Ask`] is what it is started with, [`Reader`] reads its lines in
//! every dialect that such programs speak, and ends the call at the first line that ends the run.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::EVENT_BYTES_MAX;
use super::notes::Note;
use super::request::message;
use super::said::{Said, Wanted};
use super::turn::{Completed, Turn, TurnEnd};
use super::usage::Usage;
use super::wire::Object;
use crate::collect::COLLECTED_BYTES_MAX;
use crate::frame::lines::Lines;
use crate::json::{Json, Kind, edit};
use crate::jsonrpc::{kind, string};
use crate::printable::{printable, size};
use crate::tool::{Code, Exit, Failure, FailureKind, LastWords, Outcome, ToolSpec};

/// The one tool of a child.
pub const TOOL: &str = "ask";
/// How long a text may be that stands among the arguments of a process.
pub const ARGUMENT_BYTES_MAX: usize = 100_000;
/// How much of a line is shown that makes no sense.
const SHOWN_CHARS_MAX: usize = 200;

/// The tool, which is known without starting anything.
pub fn tool() -> ToolSpec {
    let text = |what: &str| format!(r#"{{"type":"string","description":"{what}"}}"#);
    let (prompt, instructions) = (text("What to ask"), text("The system prompt"));
    let model = text("Which model to ask");
    let input = format!(
        r#"{{"type":"object","properties":{{"prompt":{prompt},"instructions":{instructions},"model":{model}}},"required":["prompt"],"additionalProperties":false}}"#
    );
    let usage = r#"{"type":"object","properties":{"input_tokens":{"type":"integer"},"output_tokens":{"type":"integer"},"cached_tokens":{"type":"integer"}},"required":["input_tokens","output_tokens","cached_tokens"]}"#;
    let call = r#"{"type":"object","properties":{"call_id":{"type":"string"},"name":{"type":"string"},"arguments":{"type":"string"}},"required":["call_id","name","arguments"]}"#;
    let output = format!(
        r#"{{"type":"object","properties":{{"text":{{"type":"string"}},"usage":{usage},"refusal":{{"type":"string"}},"tool_calls":{{"type":"array","items":{call}}}}},"required":["text","usage"]}}"#
    );
    let mut tool = ToolSpec::new(TOOL, Json::from_trusted(input));
    tool.description = Some("Ask a model, and get its answer as text".to_owned());
    tool.output = Some(Json::from_trusted(output));
    tool
}

/// What a model said, of an answer of the tool: its text, or why it would not.
pub fn text_of(answer: &Json) -> Option<String> {
    let [text, refusal] = edit::pick(answer.as_str(), ["text", "refusal"]);
    let text = text.and_then(string)?;
    let refusal = refusal.and_then(string).filter(|_| text.is_empty());
    Some(refusal.unwrap_or(text).into_owned())
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The prompt.
    pub prompt: String,
    instructions: Option<String>,
    model: Option<String>,
}

impl Ask {
    /// Reads the arguments of a call, or says what is wrong with them.
    pub fn read(args: Option<&Json>) -> Result<Ask, Failure> {
        let wrong = |message: String| Err(Failure::new(FailureKind::InvalidArguments, message));
        let args = args.map_or("{}", Json::as_str);
        if kind(args) != Kind::Object {
            return wrong("the arguments are not a JSON object".to_owned());
        }
        let (mut prompt, mut instructions, mut model) = (None, None, None);
        for (name, raw) in edit::members(args) {
            let place = match &*name {
                "prompt" => &mut prompt,
                "instructions" => &mut instructions,
                "model" => &mut model,
                _ => {
                    return wrong(format!(
                        "`{name}` is not known; there are `prompt`, \
                                           `instructions` and `model`"
                    ));
                }
            };
            let Some(text) = string(raw) else {
                return wrong(format!("`{name}` must be a string"));
            };
            if text.contains('\0') {
                return wrong(format!("`{name}` has a NUL, which no argument of a process may"));
            }
            *place = Some(text.into_owned());
        }
        let Some(prompt) = prompt.filter(|prompt: &String| !prompt.trim().is_empty()) else {
            return wrong("`prompt` is missing".to_owned());
        };
        for (name, text) in [("instructions", &instructions), ("model", &model)] {
            if text.as_ref().is_some_and(|text| ARGUMENT_BYTES_MAX < text.len()) {
                let message = format!("`{name}` is over the limit of {ARGUMENT_BYTES_MAX} bytes");
                return Err(Failure::new(FailureKind::TooLarge, message));
            }
        }
        Ok(Ask { prompt, instructions, model })
    }

    /// What goes into a file because it is too long for an argument.
    pub fn file(&self) -> Option<String> {
        let is_long = ARGUMENT_BYTES_MAX < self.prompt.len();
        is_long.then(|| format!("[{}]", message(&self.prompt, &[])))
    }

    /// The words that follow the first of `words`, which is the program. `file` is the path of
    /// what [`Ask::file`] gives.
    pub fn arguments(&self, words: &[String], file: Option<&str>) -> Vec<String> {
        let mut arguments: Vec<_> = words.iter().skip(1).cloned().collect();
        if !arguments.iter().any(|word| word == "exec") {
            arguments.push("exec".to_owned());
        }
        if !arguments.iter().any(|word| word == "--json") {
            arguments.push("--json".to_owned());
        }
        let (flag, value) = match file {
            Some(file) => ("--input-json", file),
            None => ("--prompt", self.prompt.as_str()),
        };
        arguments.extend([flag.to_owned(), value.to_owned()]);
        for (flag, value) in [("--instructions", &self.instructions), ("--model", &self.model)] {
            if let Some(value) = value {
                arguments.extend([flag.to_owned(), value.clone()]);
            }
        }
        arguments
    }
}

/// Reads what a child writes to its standard output.
#[derive(Debug)]
pub struct Reader {
    lines: Lines,
    turn: Turn,
    said: Said,
    text: String,
    progress: VecDeque<String>,
    /// It has written an event.
    has_answered: bool,
    outcome: Option<Result<Outcome, Failure>>,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

impl Reader {
    /// Nothing read yet.
    pub fn new() -> Reader {
        Reader {
            lines: Lines::new(EVENT_BYTES_MAX),
            turn: Turn::new(1),
            said: Said::new(Wanted { text: true, ..Wanted::default() }),
            text: String::new(),
            progress: VecDeque::new(),
            has_answered: false,
            outcome: None,
        }
    }

    /// Takes the whole lines at the front of `input`.
    pub fn handle_bytes(&mut self, input: &mut BytesMut) {
        while self.outcome.is_none()
            && let Some(line) = self.lines.next(input)
        {
            self.handle_line(line.map_err(|error| error.to_string()));
        }
        if self.outcome.is_some() {
            input.clear();
        }
    }

    /// The child has closed its standard output.
    pub fn handle_eof(&mut self, input: &mut BytesMut) {
        self.handle_bytes(input);
        if self.outcome.is_none()
            && let Some(line) = self.lines.last(input)
        {
            self.handle_line(line.map_err(|error| error.to_string()));
        }
    }

    /// The child has ended, and no line of it is unread.
    pub fn handle_exit(&mut self, words: LastWords) {
        if self.outcome.is_some() {
            return;
        }
        let failure = match words.exit {
            Some(Exit::Code(0)) => Failure::new(
                FailureKind::BrokeProtocol,
                "ended without response.completed or error",
            ),
            Some(exit) => Failure::new(
                FailureKind::Gone,
                format!("the program ended with {exit} before it had answered"),
            ),
            None => Failure::new(FailureKind::Gone, "the program is gone"),
        };
        let words = LastWords { is_unproven: !self.has_answered, ..words };
        self.outcome = Some(Err(failure.with_last_words(words)));
    }

    fn handle_line(&mut self, line: Result<Bytes, String>) {
        let line = match line {
            Ok(line) => line,
            Err(too_long) => {
                let message = format!("the program wrote a {too_long}");
                self.outcome = Some(Err(Failure::new(FailureKind::TooLarge, message)));
                return;
            }
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        match self.turn.handle_line(&text, &mut self.said) {
            Ok(_) => self.has_answered = true,
            Err(_) => {
                let shown = printable(&line, SHOWN_CHARS_MAX);
                self.said.warn(format!("skipped a line that is no event: {shown}"));
            }
        }
        while let Some(piece) = self.said.poll_text() {
            self.text.push_str(&piece);
            self.progress.push_back(piece);
        }
        self.outcome = match self.turn.end() {
            Some(TurnEnd::Completed(completed)) => Some(Ok(self.answer(completed))),
            Some(TurnEnd::Failed(error)) => {
                let is_large = error.code.as_deref() == Some("too_large") && error.exit == 3;
                let kind = if is_large { FailureKind::TooLarge } else { FailureKind::Failed };
                let mut failure = Failure::new(kind, error.message.clone());
                failure.code = error.code.clone().filter(|code| !code.is_empty()).map(Code::Word);
                failure.from_peer = !is_large;
                Some(Err(failure))
            }
            None if COLLECTED_BYTES_MAX < self.text.len() => {
                let limit = size(COLLECTED_BYTES_MAX);
                let message = format!("the answer is over the limit of {limit}");
                Some(Err(Failure::new(FailureKind::TooLarge, message)))
            }
            None => None,
        };
    }

    fn answer(&self, completed: &Completed) -> Outcome {
        let usage = completed.usage().cloned().unwrap_or_else(Usage::default);
        let mut text = Vec::new();
        let mut answer = Object::begin(&mut text);
        answer.text("text", &self.text).object("usage", |out| usage.write(out));
        if let Some(refusal) = completed.refusal() {
            answer.text("refusal", refusal);
        }
        let calls: Vec<_> = self
            .turn
            .calls()
            .map(|call| {
                let mut text = Vec::new();
                let mut object = Object::begin(&mut text);
                object.text("call_id", &call.call_id).text("name", &call.name);
                object.text("arguments", &call.arguments);
                object.end();
                String::from_utf8(text).unwrap_or_default()
            })
            .collect();
        if !calls.is_empty() {
            answer.raw("tool_calls", &format!("[{}]", calls.join(",")));
        }
        answer.end();
        Outcome::Value(Json::from_trusted(text))
    }

    /// The next piece of text, or, for a reader that is slow, all that waits as one.
    pub fn poll_progress(&mut self, is_slow: bool) -> Option<String> {
        let mut next = self.progress.pop_front()?;
        if is_slow {
            self.progress.drain(..).for_each(|piece| next.push_str(&piece));
        }
        Some(next)
    }

    /// What is odd about what it wrote.
    pub fn poll_warning(&mut self) -> Option<String> {
        loop {
            if let Note::Warning(warning) = self.said.poll_note()? {
                return Some(warning);
            }
        }
    }

    /// How the call ended, once it has: at the first line that ends the run, not at the exit.
    pub fn outcome(&self) -> Option<&Result<Outcome, Failure>> {
        self.outcome.as_ref()
    }
}
