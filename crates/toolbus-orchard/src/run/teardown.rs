//! Undoing what a run did, by its record: another `execute` for each node that says how, in
//! reverse order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use toolbus::Failure;
use toolbus_proto::json::Json;

use super::judge::{Fault, Judged, judge};
use super::{Event, Stop, Surface};
use crate::provider::{Execute, Provider};
use crate::record::file::RecordFile;
use crate::record::value::{ReadError, Variables};
use crate::record::{
    ErrorRecord, NodeRecord, NodeTeardown, Record, Recorded, State, Status, TeardownRecord,
    TeardownState, json, time,
};
use crate::secrets::Secrets;
use crate::value::Value;

/// What is done about one node.
#[derive(Debug)]
pub struct Step {
    /// Its index in the record.
    pub node: usize,
    /// What the provider gets.
    pub what: What,
}

/// What is done about a node.
#[derive(Debug)]
pub enum What {
    /// It is undone with these attributes.
    Undo(Json),
    /// It cannot be, because of this.
    Skip(String),
    /// The attributes cannot be read from the record.
    Lost(ReadError),
}

/// How a teardown went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Undone.
    pub done: usize,
    /// Tried in vain.
    pub failed: usize,
    /// Left out, though something may be left behind.
    pub skipped: usize,
    /// Have nothing to undo.
    pub without: usize,
    /// The exit code because of it.
    pub exit_code: u8,
}

/// May this node have done something?
fn has_effect(node: &NodeRecord) -> bool {
    matches!(
        node.state,
        State::Succeeded | State::ExecutedBadOutputs | State::Unknown | State::Running
    )
}

/// Has this node something to undo that was not undone yet?
pub fn is_left(node: &NodeRecord) -> bool {
    let is_open = |teardown: &NodeTeardown| teardown.state != TeardownState::Succeeded;
    has_effect(node) && node.teardown.as_ref().is_some_and(is_open)
}

/// What is to be undone, the last first. `evaluated` are attributes that stand in for those of the
/// record, by address; `again` also what was undone already.
pub fn todo(
    record: &Record,
    variables: &Variables,
    again: bool,
    evaluated: &BTreeMap<String, Json>,
) -> Vec<Step> {
    let mut steps: Vec<(u64, Step)> = Vec::new();
    for (index, node) in record.nodes.iter().enumerate().filter(|(_, node)| has_effect(node)) {
        let Some(teardown) = &node.teardown else { continue };
        if teardown.state == TeardownState::Succeeded && !again {
            continue;
        }
        let what = match (evaluated.get(&node.address), &teardown.attrs) {
            (Some(attrs), _) => What::Undo(attrs.clone()),
            (None, Some(attrs)) => match rebuilt(attrs, variables) {
                Ok(attrs) => What::Undo(attrs),
                Err(error) => What::Lost(error),
            },
            (None, None) => What::Skip(match node.state {
                State::Unknown | State::Running => {
                    "its teardown needs what it gave, and it gave no answer: something may be \
                     left behind"
                        .to_owned()
                }
                _ => "its teardown could not be evaluated: something may be left behind".to_owned(),
            }),
        };
        steps.push((node.seq.unwrap_or(0), Step { node: index, what }));
    }
    steps.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Attributes of a record, as they are sent.
pub fn rebuilt(
    attrs: &BTreeMap<String, Recorded>,
    variables: &Variables,
) -> Result<Json, ReadError> {
    let mut values = Variables::new();
    for (name, value) in attrs {
        let value = crate::record::value::read(&json(value), variables)?;
        values.insert(name.clone(), value);
    }
    let whole = Value::object(values);
    whole.to_json().map_err(|error| ReadError::Broken(error.to_string()))
}

/// The variables of a record that need nothing else; those that do are in `given`.
pub fn variables(record: &Record, given: &Variables) -> Variables {
    let mut variables = given.clone();
    for (name, value) in &record.variables {
        if let Ok(value) = crate::record::value::read(&json(value), given) {
            variables.entry(name.clone()).or_insert(value);
        }
    }
    variables
}

/// Who undoes, and who is told.
pub struct Undoing<'a> {
    /// The instances of providers that still live.
    pub providers: &'a BTreeMap<String, Rc<dyn Provider>>,
    /// The folders of the files that hold the actions, by address.
    pub folders: &'a BTreeMap<String, PathBuf>,
    /// Who is told.
    pub surface: &'a dyn Surface,
    /// What must not be told.
    pub secrets: &'a Secrets,
    /// How long each may take.
    pub action_timeout: Option<Duration>,
}

impl Undoing<'_> {
    /// Undoes one after the other; one that fails does not stop the others. The record is
    /// written after each.
    pub async fn undo(&self, file: &mut RecordFile, steps: Vec<Step>, mut stop: Stop) -> Tally {
        let mut tally = Tally::default();
        let is_without = |node: &&NodeRecord| has_effect(node) && node.teardown.is_none();
        tally.without = file.record.nodes.iter().filter(is_without).count();
        let mut fault: Option<Fault> = None;
        let mut dead: Vec<String> = Vec::new();
        file.record.teardown = Some(TeardownRecord {
            status: Status::Running,
            started_at: time::rfc3339(SystemTime::now()),
            ended_at: None,
        });
        self.keep(file, None);
        for Step { node: index, what } in steps {
            if 0 < stop.times() {
                break;
            }
            let node = &file.record.nodes[index];
            let (address, name) = (node.address.clone(), node.provider.clone());
            let provider = self.providers.get(&name).filter(|_| !dead.contains(&name));
            let todo = match (what, provider) {
                (What::Undo(attrs), Some(provider)) => Ok((attrs, provider.clone())),
                (What::Undo(_), None) => Err(format!("provider `{name}` has ended")),
                (What::Skip(reason), _) => Err(reason),
                (What::Lost(error), _) => Err(error.to_string()),
            };
            let (attrs, provider) = match todo {
                Ok(todo) => todo,
                Err(reason) => {
                    tally.skipped += 1;
                    fault = fault.max(Some(Fault::Failed));
                    self.end(file, index, State::Skipped, None, None, Some(&reason));
                    continue;
                }
            };
            let event = Event::NodeStarted { address: &address, attempt: 1, attempts_max: 1 };
            self.surface.tell(&event);
            let since = Instant::now();
            let execute = Execute {
                action: node.ty.clone(),
                attrs,
                folder: self.folders.get(&address).cloned().unwrap_or_else(|| ".".into()),
                label: address,
                timeout: self.action_timeout,
            };
            let answer = tokio::select! {
                biased;
                answer = provider.execute(execute) => answer,
                () = stop.more_than(1) => {
                    provider.kill();
                    Err(Failure::cancelled())
                }
            };
            let (state, error) = match answer {
                Ok(_) => (State::Succeeded, None),
                Err(failure) => {
                    if provider.dies_by(&failure) {
                        dead.push(name.clone());
                    }
                    let Judged { state, fault: worse, error } =
                        judge(&failure, &name, self.secrets);
                    fault = fault.max(Some(worse));
                    (state, Some(error))
                }
            };
            match state {
                State::Succeeded => tally.done += 1,
                _ => tally.failed += 1,
            }
            self.end(file, index, state, Some(since), error, None);
        }
        let status = match (stop.times(), fault) {
            (0, None) => Status::Succeeded,
            (0, Some(_)) => Status::Failed,
            _ => Status::Interrupted,
        };
        if let Some(teardown) = &mut file.record.teardown {
            teardown.status = status;
            teardown.ended_at = Some(time::rfc3339(SystemTime::now()));
        }
        self.keep(file, None);
        tally.exit_code = fault.map_or(0, Fault::exit_code);
        tally
    }

    fn end(
        &self,
        file: &mut RecordFile,
        index: usize,
        state: State,
        since: Option<Instant>,
        error: Option<ErrorRecord>,
        reason: Option<&str>,
    ) {
        let duration_ms =
            since.map(|since| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        let node = &mut file.record.nodes[index];
        let address = node.address.clone();
        if let Some(teardown) = &mut node.teardown {
            teardown.state = match state {
                State::Succeeded => TeardownState::Succeeded,
                State::Unknown => TeardownState::Unknown,
                State::Skipped => TeardownState::Skipped,
                _ => TeardownState::Failed,
            };
            teardown.error = error.clone().map(|error| ErrorRecord { provider: None, ..error });
            teardown.ended_at = since.map(|_| time::rfc3339(SystemTime::now()));
        }
        self.keep(file, Some(index));
        self.surface.tell(&Event::TeardownEnded {
            address: &address,
            state,
            duration_ms,
            error: error.as_ref(),
            reason,
        });
    }

    fn keep(&self, file: &mut RecordFile, node: Option<usize>) {
        let written = match node {
            Some(node) => file.node_changed(node),
            None => file.run_changed(),
        };
        if let Err(error) = written {
            self.surface.tell(&Event::Warning { message: &error.to_string(), provider: None });
        }
    }
}
