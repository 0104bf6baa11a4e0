//! What a run tells while it goes on: for people as lines, for programs as JSON.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use toolbus_proto::json::write_string;

use crate::record::{ErrorRecord, State, Status, time};
use crate::secrets::{MASK, Secrets};
use crate::value::{Kind, Value};

/// Who is told.
pub trait Surface {
    /// Something happened.
    fn tell(&self, event: &Event<'_>);
}

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The command has begun; always the first.
    Start {
        /// `run` or `teardown`.
        command: &'a str,
        /// As the user named it.
        file: &'a str,
    },
    /// A provider has described itself.
    ProviderStarted {
        /// Its instance.
        provider: &'a str,
        /// What it calls itself.
        schema_name: &'a str,
        /// Its own version.
        schema_version: &'a str,
    },
    /// The record is there, and nodes follow.
    RunStarted {
        /// The run.
        run_id: &'a str,
        /// The scenario.
        scenario: &'a str,
        /// Where the record is.
        record: Option<&'a str>,
        /// How many nodes there are.
        nodes: usize,
    },
    /// The teardown of a run begins.
    TeardownStarted {
        /// The scenario.
        scenario: &'a str,
    },
    /// A line of a provider's standard error.
    Log {
        /// Its instance.
        provider: &'a str,
        /// The word that it has for it.
        level: Option<&'a str>,
        /// What it says.
        text: &'a str,
    },
    /// Something is odd.
    Warning {
        /// What.
        message: &'a str,
        /// Whose.
        provider: Option<&'a str>,
    },
    /// A node was begun.
    NodeStarted {
        /// Its address.
        address: &'a str,
        /// For the so-manieth time.
        attempt: u32,
        /// How often it may be tried.
        attempts_max: u32,
    },
    /// A node failed and will be tried again.
    NodeRetry {
        /// Its address.
        address: &'a str,
        /// The attempt that failed.
        attempt: u32,
        /// How.
        error: &'a ErrorRecord,
        /// When the next begins.
        delay: Duration,
    },
    /// A node ended, or never will begin.
    NodeEnded {
        /// Its address.
        address: &'a str,
        /// How.
        state: State,
        /// How long it took.
        duration_ms: Option<u64>,
        /// How often it was tried.
        attempts: u32,
        /// What it gave.
        outputs: Option<&'a Value>,
        /// Why it did not succeed.
        error: Option<&'a ErrorRecord>,
    },
    /// The undoing of a node ended, or was left out.
    TeardownEnded {
        /// Its address.
        address: &'a str,
        /// How: succeeded, failed, unknown or skipped.
        state: State,
        /// How long it took.
        duration_ms: Option<u64>,
        /// Why it did not succeed, or was left out.
        error: Option<&'a ErrorRecord>,
        /// It was left out because of this.
        reason: Option<&'a str>,
    },
    /// It is over; always the last.
    Ended(&'a Summary),
}

/// How a run or a teardown ended.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Was it a teardown?
    pub is_teardown: bool,
    /// How it ended; nothing if it could not begin.
    pub status: Option<Status>,
    /// The exit code of the program.
    pub exit_code: u8,
    /// The scenario's outputs, in declaration order.
    pub outputs: Vec<(String, Value)>,
    /// How many nodes ended how.
    pub counts: Counts,
    /// Where the record is.
    pub record: Option<String>,
    /// How many nodes a teardown could undo.
    pub left_to_undo: usize,
    /// What was no node's fault.
    pub error: Option<ErrorRecord>,
}

/// How many nodes ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Well.
    pub succeeded: usize,
    /// Not well, or with outputs that cannot be used.
    pub failed: usize,
    /// Without an answer.
    pub unknown: usize,
    /// Not begun.
    pub skipped: usize,
}

impl Counts {
    /// One more.
    pub fn count(&mut self, state: State) {
        match state {
            State::Succeeded => self.succeeded += 1,
            State::Failed | State::ExecutedBadOutputs => self.failed += 1,
            State::Unknown => self.unknown += 1,
            State::Skipped | State::Pending | State::Running => self.skipped += 1,
        }
    }
}

/// How an error is written in events: without whose it is, which they say otherwise.
#[derive(Serialize)]
struct Told<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

impl Event<'_> {
    /// The event as one line of JSON, without its end and without secrets.
    pub fn line(&self, now: SystemTime, secrets: &Secrets) -> String {
        let mut line = Line::new(self.name(), now);
        match *self {
            Event::Start { command, file } => {
                line.text("format_version", "1.0").text("command", command).text("file", file);
            }
            Event::ProviderStarted { provider, schema_name, schema_version } => {
                line.text("provider", provider);
                line.text("schema_name", schema_name).text("schema_version", schema_version);
            }
            Event::RunStarted { run_id, scenario, record, nodes } => {
                line.text("run_id", run_id).text("scenario", scenario);
                line.json("record", &record).json("nodes", &nodes);
            }
            Event::TeardownStarted { scenario } => {
                line.text("scenario", scenario);
            }
            Event::Log { provider, level, text } => {
                line.text("provider", provider).json("level", &level).text("text", text);
            }
            Event::Warning { message, provider } => {
                line.text("message", message);
                if let Some(provider) = provider {
                    line.text("provider", provider);
                }
            }
            Event::NodeStarted { address, attempt, .. } => {
                line.text("address", address).json("attempt", &attempt);
            }
            Event::NodeRetry { address, attempt, error, delay } => {
                line.text("address", address).json("attempt", &attempt).error(Some(error));
                line.json("delay_ms", &(delay.as_millis() as u64));
            }
            Event::NodeEnded { address, state, duration_ms, attempts, outputs, error } => {
                line.text("address", address).text("state", state.as_str());
                line.json("duration_ms", &duration_ms).json("attempts", &attempts);
                match outputs {
                    Some(outputs) => line.raw("outputs", &shown(outputs)),
                    None => line.raw("outputs", "null"),
                };
                line.error(error);
            }
            Event::TeardownEnded { address, state, duration_ms, error, reason } => {
                line.text("address", address).text("state", state.as_str());
                line.json("duration_ms", &duration_ms).error(error);
                if let Some(reason) = reason {
                    line.text("reason", reason);
                }
            }
            Event::Ended(summary) => line.summary(summary),
        }
        secrets.masked(&line.end()).into_owned()
    }

    fn name(&self) -> &'static str {
        match self {
            Event::Start { .. } => "start",
            Event::ProviderStarted { .. } => "provider_started",
            Event::RunStarted { .. } => "run_started",
            Event::TeardownStarted { .. } => "teardown_started",
            Event::Log { .. } => "log",
            Event::Warning { .. } => "warning",
            Event::NodeStarted { .. } => "node_started",
            Event::NodeRetry { .. } => "node_retry",
            Event::NodeEnded { .. } | Event::TeardownEnded { .. } => "node_ended",
            Event::Ended(Summary { is_teardown: true, .. }) => "teardown_ended",
            Event::Ended(_) => "run_ended",
        }
    }
}

/// A line of JSON in the making.
struct Line(Vec<u8>);

impl Line {
    fn new(event: &str, now: SystemTime) -> Line {
        let mut line = Line(Vec::with_capacity(256));
        line.0.extend_from_slice(b"{\"event\":");
        write_string(&mut line.0, event);
        line.text("at", &time::rfc3339(now));
        line
    }

    fn raw(&mut self, name: &str, json: &str) -> &mut Line {
        self.0.push(b',');
        write_string(&mut self.0, name);
        self.0.push(b':');
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    fn text(&mut self, name: &str, text: &str) -> &mut Line {
        self.0.push(b',');
        write_string(&mut self.0, name);
        self.0.push(b':');
        write_string(&mut self.0, text);
        self
    }

    fn json(&mut self, name: &str, value: &impl Serialize) -> &mut Line {
        let json = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
        self.raw(name, &json)
    }

    fn error(&mut self, error: Option<&ErrorRecord>) -> &mut Line {
        let told = error.map(|ErrorRecord { code, message, provider, detail }| Told {
            code,
            message,
            provider: provider.as_deref(),
            detail: detail.as_deref(),
        });
        self.json("error", &told)
    }

    fn summary(&mut self, summary: &Summary) {
        let Summary { status, exit_code, outputs, counts, record, error, .. } = summary;
        self.text("status", status.map_or("invalid", Status::as_str));
        self.json("exit_code", exit_code);
        let members: Vec<String> = outputs
            .iter()
            .map(|(name, value)| {
                let mut name_text = Vec::new();
                write_string(&mut name_text, name);
                format!("{}:{}", String::from_utf8_lossy(&name_text), shown(value))
            })
            .collect();
        self.raw("outputs", &format!("{{{}}}", members.join(",")));
        self.json("counts", counts).json("record", record).error(error.as_ref());
    }

    fn end(mut self) -> String {
        self.0.push(b'}');
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// The value as JSON with the string `(sensitive)` in place of what must not be shown.
pub fn shown(value: &Value) -> String {
    let mut out = Vec::new();
    write_shown(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_shown(value: &Value, out: &mut Vec<u8>) {
    if value.is_sensitive() {
        return write_string(out, MASK);
    }
    match value.kind() {
        Kind::List(all) | Kind::Set(all) | Kind::Tuple(all) => {
            out.push(b'[');
            for (index, element) in all.items().iter().enumerate() {
                if 0 < index {
                    out.push(b',');
                }
                write_shown(element, out);
            }
            out.push(b']');
        }
        Kind::Map(all) | Kind::Object(all) => {
            out.push(b'{');
            for (index, (name, member)) in all.items().iter().enumerate() {
                if 0 < index {
                    out.push(b',');
                }
                write_string(out, name);
                out.push(b':');
                write_shown(member, out);
            }
            out.push(b'}');
        }
        _ => match value.to_json() {
            Ok(json) => out.extend_from_slice(json.as_bytes()),
            Err(_) => out.extend_from_slice(b"null"),
        },
    }
}
