//! Does a `godex exec` program keep the output contract? It is run as `ask` would run
//! it, with a mock in place of a model.

mod rules;

use std::collections::HashMap;
use std::time::Duration;

use bytes::BytesMut;
use serde_json::Value;
use toolbus_proto::godex::ask::Ask;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Exit, Failure, FailureKind};

use toolbus::bus::back::LocalFuture;
use toolbus::peer::open::program;
use toolbus::wire::godex::child::Child;
use toolbus_engine::child::{EnvPolicy, Patience, Program};

use crate::{CheckKind, Finding, Target, TargetError, Verdict, Wanted};

/// The program that is tested.
struct Subject {
    pub(super) program: Program,
    /// How long one run may take.
    pub(super) patience: Duration,
    pub(super) stop: Duration,
}

/// The types of events that the document knows.
const KNOWN: [&str; 7] = [
    "response.output_text.delta",
    "response.content_part.added",
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.output_item.done",
    "response.completed",
    "error",
];

/// What one run of it said.
struct Run {
    lines: Vec<String>,
    stderr: Vec<String>,
    exit: Option<Exit>,
}

async fn check(subject: &Subject, tell: &mut dyn FnMut(Finding)) -> Result<(), Failure> {
    let mut say = |rule: &'static str, verdict: Verdict| tell(Finding { rule, verdict });
    let text = run(subject, &["--mock", "--mock-mode", "text"]).await?;
    let call = run(subject, &["--mock", "--mock-mode", "tool-call"]).await?;
    let runs = [("text", &text), ("tool-call", &call)];
    let all = |judge: &dyn Fn(&Run) -> Result<(), String>| {
        runs.iter().try_for_each(|(mode, run)| judge(run).map_err(|why| format!("{mode}: {why}")))
    };
    say("lines-are-events", Verdict::demanded(all(&are_events)));
    say("known-types", Verdict::wished(all(&are_known)));
    say("text", Verdict::demanded(has_text(&text)));
    say("calls", Verdict::demanded(are_calls(&call)));
    say("deltas-add-up", Verdict::demanded(deltas_add_up(&call)));
    say("one-terminal-line", Verdict::demanded(all(&is_terminated)));
    say("usage", Verdict::demanded(all(&has_usage)));
    say("exit-code", Verdict::demanded(all(&exits_rightly)));
    say("stderr-apart", Verdict::demanded(all(&keeps_apart)));
    let wrong = run(subject, &["--no-such-flag-of-any-program"]).await?;
    say("bad-flag", Verdict::demanded(refuses(&wrong)));
    Ok(())
}

async fn run(subject: &Subject, flags: &[&str]) -> Result<Run, Failure> {
    let ask = Ask::read(Some(&Json::from_trusted(r#"{"prompt":"hi"}"#)))?;
    let words = &subject.program.words;
    let mut arguments = ask.arguments(words, None);
    // Before the prompt, as a user would write them.
    let at = arguments.len().saturating_sub(2);
    arguments.splice(at..at, flags.iter().map(|flag| (*flag).to_owned()));
    let words = words.iter().take(1).cloned().chain(arguments).collect();
    let program = Program { words, ..subject.program.clone() };
    let mut child = Child::start(program.name(), &program, None)?;
    let mut output = BytesMut::new();
    let read = async { while 0 < child.read(&mut output).await {} };
    let is_late = tokio::time::timeout(subject.patience, read).await.is_err();
    if is_late {
        let message = format!("it still runs after {:?}", subject.patience);
        return Err(Failure::new(FailureKind::TimedOut, message));
    }
    let words = child.last_words(subject.stop).await;
    let text = String::from_utf8_lossy(&output);
    let lines = text.lines().map(str::to_owned).collect();
    Ok(Run { lines, stderr: words.stderr, exit: words.exit })
}

impl Run {
    fn events(&self) -> impl Iterator<Item = Value> {
        self.lines.iter().filter_map(|line| serde_json::from_str(line).ok())
    }
}

fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap_or_default()
}

fn is_terminal(event: &Value) -> bool {
    matches!(kind(event), "response.completed" | "error")
}

fn are_events(run: &Run) -> Result<(), String> {
    if run.lines.is_empty() {
        return Err("it printed nothing".to_owned());
    }
    for line in &run.lines {
        let event: Result<Value, _> = serde_json::from_str(line);
        if !event.is_ok_and(|event| event["type"].is_string()) {
            let shown = toolbus_proto::printable::beginning(line);
            return Err(format!("no JSON object with a string `type`: {shown}"));
        }
    }
    Ok(())
}

fn are_known(run: &Run) -> Result<(), String> {
    match run.events().find(|event| !KNOWN.contains(&kind(event))) {
        Some(event) => Err(format!("`{}` is none of the document's types", kind(&event))),
        None => Ok(()),
    }
}

fn has_text(run: &Run) -> Result<(), String> {
    let is_text = |event: &Value| match kind(event) {
        "response.output_text.delta" => event["delta"].as_str().is_some_and(|it| !it.is_empty()),
        "response.content_part.added" => {
            event["part"]["text"].as_str().is_some_and(|it| !it.is_empty())
        }
        _ => false,
    };
    match run.events().any(|event| is_text(&event)) {
        true => Ok(()),
        false => Err("the mock of text said none".to_owned()),
    }
}

/// The function calls that are done.
fn done(run: &Run) -> impl Iterator<Item = Value> {
    let done = run.events().filter(|event| kind(event) == "response.output_item.done");
    done.map(|event| event["item"].clone()).filter(|item| item["type"] == "function_call")
}

fn are_calls(run: &Run) -> Result<(), String> {
    let mut calls = done(run).peekable();
    if calls.peek().is_none() {
        return Err("the mock of a tool call made none that was done".to_owned());
    }
    for item in calls {
        for name in ["call_id", "name", "arguments"] {
            if !item[name].is_string() {
                return Err(format!("a call that is done has no `{name}`"));
            }
        }
    }
    Ok(())
}

fn deltas_add_up(run: &Run) -> Result<(), String> {
    let mut deltas: HashMap<String, String> = HashMap::new();
    for event in run.events() {
        if kind(&event) == "response.function_call_arguments.delta" {
            let id = event["item_id"].as_str().unwrap_or_default().to_owned();
            deltas.entry(id).or_default().push_str(event["delta"].as_str().unwrap_or_default());
        }
    }
    for item in done(run) {
        let arguments = item["arguments"].as_str().unwrap_or_default();
        let said = deltas.get(item["id"].as_str().unwrap_or_default());
        if said.map_or("", String::as_str) != arguments {
            return Err(format!("the deltas say {said:?}, and it is done with `{arguments}`"));
        }
    }
    Ok(())
}

fn is_terminated(run: &Run) -> Result<(), String> {
    let events: Vec<_> = run.events().collect();
    let terminal = events.iter().filter(|event| is_terminal(event)).count();
    match (terminal, events.last().is_some_and(is_terminal)) {
        (1, true) => Ok(()),
        (1, false) => Err("something follows the terminal line".to_owned()),
        (0, _) => Err("there is neither `response.completed` nor `error`".to_owned()),
        (count, _) => Err(format!("there are {count} terminal lines")),
    }
}

fn has_usage(run: &Run) -> Result<(), String> {
    for event in run.events().filter(|event| kind(event) == "response.completed") {
        let usage = &event["response"]["usage"];
        for name in ["input_tokens", "output_tokens", "cached_tokens"] {
            if !usage[name].is_u64() {
                return Err(format!("`{name}` is no integer"));
            }
        }
    }
    Ok(())
}

fn exits_rightly(run: &Run) -> Result<(), String> {
    let is_completed =
        run.events().last().is_some_and(|event| kind(&event) == "response.completed");
    match (is_completed, run.exit) {
        (true, Some(Exit::Code(0))) => Ok(()),
        (false, Some(Exit::Code(code))) if code != 0 => Ok(()),
        (_, Some(exit)) => {
            let said = if is_completed { "completed" } else { "failed" };
            Err(format!("it says that it {said}, and ends with {exit}"))
        }
        (_, None) => Err("it did not end".to_owned()),
    }
}

fn keeps_apart(run: &Run) -> Result<(), String> {
    let is_there = |line: &&String| !line.trim().is_empty() && run.lines.contains(line);
    match run.stderr.iter().find(is_there) {
        Some(line) => Err(format!("standard output and error both say `{line}`")),
        None => Ok(()),
    }
}

fn refuses(run: &Run) -> Result<(), String> {
    if run.exit == Some(Exit::Code(0)) {
        return Err("a flag that there is not was taken".to_owned());
    }
    match run.lines.iter().find(|line| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        !line.trim().is_empty() && kind(&event) != "error"
    }) {
        Some(line) => Err(format!("printed: {}", toolbus_proto::printable::beginning(line))),
        None => Ok(()),
    }
}

/// How a program is tested that should speak it.
pub(crate) struct Check;

impl CheckKind for Check {
    fn rules(&self) -> &'static [(&'static str, &'static str)] {
        rules::RULES
    }

    fn target(&self, text: &str, wanted: &Wanted) -> Result<Box<dyn Target>, TargetError> {
        // A command may stand there without its scheme.
        let command = text.strip_prefix("godex+stdio:").unwrap_or(text);
        let words = toolbus_engine::child::words::split(command).map_err(TargetError::new)?;
        if words.is_empty() {
            return Err(TargetError::new("the command is missing").hint("name one: `./my-godex`"));
        }
        let program = program(&words, &wanted.settings, EnvPolicy::Inherit);
        let start = wanted.start.unwrap_or(Patience::USUAL.start);
        Ok(Box::new(Subject { program, patience: start, stop: wanted.stop }))
    }
}

impl Target for Subject {
    fn check<'a>(
        &'a self,
        tell: &'a mut dyn FnMut(Finding),
    ) -> LocalFuture<'a, Result<(), Failure>> {
        Box::pin(check(self, tell))
    }
}
