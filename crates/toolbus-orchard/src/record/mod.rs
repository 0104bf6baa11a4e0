//! The run record: what a run did, enough to tear it down after we were killed.
//!
//! [`Record`] is the documented file as it is; [`value`] is how values stand in it, [`mod@file`] how
//! it gets to a disk and back. What is told in it is the runner's.

pub mod file;
mod pretty;
pub mod value;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolbus_proto::json::Json;

pub use toolbus_engine::time;

/// The version of the format.
pub const FORMAT_VERSION: &str = "1.0";

/// A value as it stands in a record: plain JSON, but for what is sensitive.
pub type Recorded = Box<RawValue>;

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Of the format.
    pub format_version: String,
    /// Of the program that wrote it.
    pub toolbus_version: String,
    /// When it began, and eight digits of chance.
    pub run_id: String,
    /// The scenario's name.
    pub scenario: String,
    /// Its file, absolute.
    pub scenario_path: String,
    /// Every scenario and component file.
    pub files: Vec<FileHash>,
    /// How it stands.
    pub status: Status,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// What the random functions were fed with.
    pub seed: u64,
    /// Who ran it.
    pub process: ProcessMark,
    /// The scenario's variables.
    pub variables: BTreeMap<String, Recorded>,
    /// The instances of providers, in the order of their start.
    pub providers: Vec<ProviderRecord>,
    /// The nodes, in plan order.
    pub nodes: Vec<NodeRecord>,
    /// The scenario's outputs.
    pub outputs: BTreeMap<String, Recorded>,
    /// Why it failed, if that was no node's fault.
    #[serde(default)]
    pub error: Option<ErrorRecord>,
    /// The last teardown.
    #[serde(default)]
    pub teardown: Option<TeardownRecord>,
}

/// A file, and what was in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHash {
    /// Where it is, absolute.
    pub path: String,
    /// The digest of its bytes.
    pub sha256: String,
}

/// How a run stands, or a teardown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It has not ended, or was killed.
    Running,
    /// All went well.
    Succeeded,
    /// Something did not.
    Failed,
    /// A signal ended it.
    Interrupted,
}

impl Status {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Interrupted => "interrupted",
        }
    }
}

/// Which process runs it: numbers are given again, the time of the start is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Its number.
    pub pid: u32,
    /// When it began, in ticks since the start of the system; where that can be told.
    pub started: Option<u64>,
}

impl ProcessMark {
    /// This process.
    pub fn ours() -> ProcessMark {
        let pid = std::process::id();
        ProcessMark { pid, started: started(pid) }
    }

    /// Does it still run?
    pub fn is_alive(&self) -> bool {
        match (started(self.pid), self.started) {
            (Some(now), Some(then)) => now == then,
            // Where that cannot be told, one that is gone is gone.
            (None, Some(_)) => false,
            (_, None) => {
                let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
                pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
            }
        }
    }
}

/// Field 22 of `/proc/PID/stat`, of a process that is not dead.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may hold anything; field 3 stands behind it.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok()).flatten()
}

/// One instance of a provider.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProviderRecord {
    /// What the scenario calls it: `NAME` or `NAME.ALIAS`.
    pub name: String,
    /// Where it comes from.
    pub source: String,
    /// What it calls itself.
    pub schema_name: String,
    /// Its own version.
    pub schema_version: String,
    /// What `configure` got.
    pub config: BTreeMap<String, Recorded>,
}

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not begun.
    Pending,
    /// Begun, and not ended.
    Running,
    /// Done.
    Succeeded,
    /// The provider said no, or it could not be asked.
    Failed,
    /// No answer: the effect may have happened.
    Unknown,
    /// Done, but what it gave cannot be used.
    ExecutedBadOutputs,
    /// Not begun, and never will be.
    Skipped,
}

impl State {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Failed => "failed",
            State::Unknown => "unknown",
            State::ExecutedBadOutputs => "executed_bad_outputs",
            State::Skipped => "skipped",
        }
    }
}

/// One node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its address.
    pub address: String,
    /// Which action of its provider.
    #[serde(rename = "type")]
    pub ty: String,
    /// The instance of the provider.
    pub provider: String,
    /// The addresses of what it needs.
    pub depends_on: Vec<String>,
    /// The place of its start among all starts.
    pub seq: Option<u64>,
    /// How it stands.
    pub state: State,
    /// When it began.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// How often it was tried.
    pub attempts: u32,
    /// What the provider got.
    pub attrs: Option<BTreeMap<String, Recorded>>,
    /// What came.
    pub outputs: Option<Recorded>,
    /// Why it did not succeed.
    #[serde(default)]
    pub error: Option<ErrorRecord>,
    /// How it is undone, if it can be.
    #[serde(default)]
    pub teardown: Option<NodeTeardown>,
}

impl NodeRecord {
    /// Of a node that needs nothing, is not undone, and has not begun.
    pub fn pending(address: String, ty: String, provider: String) -> NodeRecord {
        NodeRecord {
            address,
            ty,
            provider,
            depends_on: Vec::new(),
            seq: None,
            state: State::Pending,
            started_at: None,
            ended_at: None,
            duration_ms: None,
            attempts: 0,
            attrs: None,
            outputs: None,
            error: None,
            teardown: None,
        }
    }
}

/// How a node is undone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeTeardown {
    /// How that stands.
    pub state: TeardownState,
    /// What the provider gets, once that is known.
    pub attrs: Option<BTreeMap<String, Recorded>>,
    /// Why it did not succeed.
    #[serde(default)]
    pub error: Option<ErrorRecord>,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<String>,
}

/// How the undoing of a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeardownState {
    /// Not tried.
    Pending,
    /// Done.
    Succeeded,
    /// The provider said no.
    Failed,
    /// No answer.
    Unknown,
    /// It could not be tried.
    Skipped,
}

/// Why something did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// A word for scripts.
    pub code: String,
    /// What happened.
    pub message: String,
    /// Whose fault it was.
    #[serde(default)]
    pub provider: Option<String>,
    /// More of it.
    #[serde(default)]
    pub detail: Option<String>,
}

/// The last teardown of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeardownRecord {
    /// How it stands.
    pub status: Status,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
}

impl Record {
    /// How many nodes succeeded.
    pub fn done(&self) -> usize {
        self.nodes.iter().filter(|node| node.state == State::Succeeded).count()
    }
}

/// JSON that we made ourselves, for a place in a record.
pub fn recorded(json: &Json) -> Recorded {
    RawValue::from_string(json.as_str().to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// What stands in a record, as JSON.
pub fn json(recorded: &RawValue) -> Json {
    Json::from_trusted(recorded.get().to_owned())
}
