//! Running a plan: the providers that were started are configured, the nodes executed in the order
//! of what they need, and all of it is recorded.
//!
//! What is told while that goes on goes to a [`Surface`]; signals come in by a [`Stop`].

pub mod event;
mod judge;
mod nodes;
mod started;
pub mod teardown;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use toolbus_proto::json::Json;

use crate::diagnostic::FileId;
use crate::model::Scenario;
use crate::plan::{Chance, Evaluation, Plan, PlannedAttrs};
use crate::provider::Provider;
use crate::record::file::{RecordError, RecordFile, run_id};
use crate::record::value::{Variables, Writing};
use crate::record::{
    ErrorRecord, FORMAT_VERSION, FileHash, NodeRecord, NodeTeardown, ProcessMark, ProviderRecord,
    Record, Recorded, State, Status, TeardownState, recorded, time,
};
use crate::secrets::Secrets;
use crate::source::Sources;
use crate::value::Value;
pub use event::{Counts, Event, Summary, Surface};
use judge::{Fault, judge};
use nodes::Nodes;
pub use started::{NotStarted, Started, start};

/// How a run goes.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many nodes may be in flight.
    pub parallel: usize,
    /// Nodes that do not need one that failed still run.
    pub keep_going: bool,
    /// What was done is undone if something failed.
    pub teardown_on_failure: bool,
    /// How long a node may take that says nothing itself.
    pub action_timeout: Option<Duration>,
    /// The folder of the record, if one is wanted, as the user named it.
    pub record_folder: Option<PathBuf>,
    /// Secrets are written into the record.
    pub record_secrets: bool,
    /// What the random functions are fed with.
    pub seed: u64,
    /// The eight digits of the run.
    pub chance: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parallel: 1,
            keep_going: false,
            teardown_on_failure: false,
            action_timeout: None,
            record_folder: None,
            record_secrets: false,
            seed: 0,
            chance: 0,
        }
    }
}

/// How often we were told to stop: the first time what runs may end, the second time it must.
#[derive(Debug, Clone)]
pub struct Stop(tokio::sync::watch::Receiver<u32>);

/// Tells a run to stop.
#[derive(Debug)]
pub struct Stopper(tokio::sync::watch::Sender<u32>);

impl Stop {
    /// Not told yet, and who tells.
    pub fn new() -> (Stopper, Stop) {
        let (sender, receiver) = tokio::sync::watch::channel(0);
        (Stopper(sender), Stop(receiver))
    }

    /// How often we were told.
    pub fn times(&self) -> u32 {
        *self.0.borrow()
    }

    /// Waits until we were told more often than `times`.
    pub async fn more_than(&mut self, times: u32) {
        // The stopper is gone: no signal will be told any more.
        if self.0.wait_for(|told| times < *told).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Stopper {
    /// Once more.
    pub fn stop(&self) {
        self.0.send_modify(|times| *times += 1);
    }
}

/// One run.
pub struct Run<'a> {
    plan: &'a Plan,
    providers: &'a [Rc<dyn Provider>],
    options: &'a Options,
    surface: &'a dyn Surface,
    secrets: &'a Secrets,
    evaluation: Evaluation,
    /// The sensitive variables.
    sensitive: Variables,
    record: RecordFile,
    /// A record that cannot be written is told once.
    is_record_broken: bool,
    fault: Option<Fault>,
    /// What was no node's fault.
    error: Option<ErrorRecord>,
}

/// Runs a plan with the providers that were started for it, in the order of the plan's. What is
/// sensitive in the variables is known to `secrets` already. Must be called inside a `LocalSet`.
pub async fn run(
    plan: &Plan,
    providers: &[Rc<dyn Provider>],
    options: &Options,
    surface: &dyn Surface,
    secrets: &Secrets,
    stop: Stop,
) -> Result<Summary, RecordError> {
    let mut run = Run::begin(plan, providers, options, surface, secrets)?;
    if !run.configure(stop.clone()).await {
        run.skip_all();
        return Ok(run.end(Vec::new(), &stop).await);
    }
    Nodes::new(&run).execute(&mut run, stop.clone()).await;
    let outputs = run.outputs();
    Ok(run.end(outputs, &stop).await)
}

impl<'a> Run<'a> {
    fn begin(
        plan: &'a Plan,
        providers: &'a [Rc<dyn Provider>],
        options: &'a Options,
        surface: &'a dyn Surface,
        secrets: &'a Secrets,
    ) -> Result<Run<'a>, RecordError> {
        let seed = options.seed;
        let evaluation = plan.evaluation(Chance::Known { seed, clock: Rc::new(unix_time) });
        let sensitive = sensitive_variables(plan);
        let now = SystemTime::now();
        let record = new_record(plan, options, now, secrets, &sensitive);
        let record = match &options.record_folder {
            Some(folder) => RecordFile::create(folder, record)?,
            None => RecordFile::nowhere(record),
        };
        let path = record.path().map(shown_path);
        surface.tell(&Event::RunStarted {
            run_id: &record.record.run_id,
            scenario: plan.name(),
            record: path.as_deref(),
            nodes: plan.nodes.len(),
        });
        Ok(Run {
            plan,
            providers,
            options,
            surface,
            secrets,
            evaluation,
            sensitive,
            record,
            is_record_broken: false,
            fault: None,
            error: None,
        })
    }

    /// Configures one provider after the other. Did all of them take it, and were we not told to
    /// stop?
    async fn configure(&mut self, mut stop: Stop) -> bool {
        for (index, instance) in self.plan.providers.iter().enumerate() {
            let config = match self.evaluation.config(self.plan, instance) {
                Ok(config) => config,
                Err(problems) => {
                    self.fail_run(evaluation_error(&problems, self.secrets), Fault::Failed);
                    return false;
                }
            };
            config.values().for_each(|attr| self.secrets.hide_sensitive(&attr.value));
            let recorded = self.recorded_attrs(&config);
            self.record.record.providers[index].config = recorded;
            let configured = tokio::select! {
                biased;
                configured = self.providers[index].configure(sent(&config)) => configured,
                () = stop.more_than(0) => return false,
            };
            if let Err(failure) = configured {
                let judged = judge(&failure, &instance.name, self.secrets);
                self.fail_run(judged.error, judged.fault);
                return false;
            }
        }
        // A teardown configures them likewise, also after we were killed.
        self.keep(RecordFile::run_changed);
        stop.times() == 0
    }

    fn fail_run(&mut self, error: ErrorRecord, fault: Fault) {
        self.error = Some(error);
        self.fault = self.fault.max(Some(fault));
    }

    /// What the scenario gives, if all nodes succeeded.
    fn outputs(&mut self) -> Vec<(String, Value)> {
        let is_done = |node: &NodeRecord| node.state == State::Succeeded;
        if !self.record.record.nodes.iter().all(is_done) {
            return Vec::new();
        }
        let mut outputs = Vec::new();
        for output in &self.plan.outputs {
            match self.evaluation.output(&output.name) {
                Ok(value) => {
                    self.secrets.hide_sensitive(&value);
                    outputs.push((output.name.clone(), self.secrets.tainted(value)));
                }
                Err(problem) => {
                    self.fail_run(evaluation_error(&[problem], self.secrets), Fault::Failed);
                }
            }
        }
        outputs
    }

    fn skip_all(&mut self) {
        for node in &mut self.record.record.nodes {
            node.state = State::Skipped;
        }
    }

    async fn end(mut self, outputs: Vec<(String, Value)>, stop: &Stop) -> Summary {
        self.late_teardowns();
        let is_interrupted = 0 < stop.times();
        let status = match (is_interrupted, self.fault) {
            (true, _) => Status::Interrupted,
            (false, None) => Status::Succeeded,
            (false, Some(_)) => Status::Failed,
        };
        let mut counts = Counts::default();
        self.record.record.nodes.iter().for_each(|node| counts.count(node.state));
        let writing = self.writing();
        let recorded_outputs =
            outputs.iter().map(|(name, value)| (name.clone(), recorded(&writing.value(value))));
        let recorded_outputs = recorded_outputs.collect();
        let record = &mut self.record.record;
        record.outputs = recorded_outputs;
        record.status = status;
        record.ended_at = Some(time::rfc3339(SystemTime::now()));
        record.error.clone_from(&self.error);
        self.keep(RecordFile::run_changed);
        if self.options.teardown_on_failure && self.fault.is_some() && !is_interrupted {
            self.tear_down().await;
        }
        let nodes = &self.record.record.nodes;
        Summary {
            is_teardown: false,
            status: Some(status),
            exit_code: self.fault.map_or(0, Fault::exit_code),
            outputs,
            counts,
            record: self.record.path().map(shown_path),
            left_to_undo: nodes.iter().filter(|node| teardown::is_left(node)).count(),
            error: self.error,
        }
    }

    /// Undoes what was done, through the providers that still live.
    async fn tear_down(&mut self) {
        let mut variables = self.sensitive.clone();
        variables.extend(self.plan.variables.clone());
        let by_name = self.plan.providers.iter().zip(self.providers);
        let providers: BTreeMap<String, Rc<dyn Provider>> =
            by_name.map(|(instance, provider)| (instance.name.clone(), provider.clone())).collect();
        let folders: BTreeMap<String, PathBuf> = (self.plan.nodes.iter())
            .map(|node| (node.address.clone(), self.plan.folder_of(node).to_owned()))
            .collect();
        let todo = teardown::todo(&self.record.record, &variables, false, &BTreeMap::new());
        let undoing = teardown::Undoing {
            providers: &providers,
            folders: &folders,
            surface: self.surface,
            secrets: self.secrets,
            action_timeout: self.options.action_timeout,
        };
        self.surface.tell(&Event::TeardownStarted { scenario: self.plan.name() });
        let mut record = std::mem::replace(
            &mut self.record,
            RecordFile::nowhere(new_record(
                self.plan,
                self.options,
                SystemTime::now(),
                self.secrets,
                &self.sensitive,
            )),
        );
        let (_, stop) = Stop::new();
        undoing.undo(&mut record, todo, stop).await;
        self.record = record;
    }

    /// Teardown attributes that needed what only came later, or never did.
    fn late_teardowns(&mut self) {
        for index in 0..self.plan.nodes.len() {
            let is_open = |node: &NodeRecord| {
                let teardown = node.teardown.as_ref();
                teardown.is_some_and(|teardown| teardown.attrs.is_none())
                    && matches!(node.state, State::Succeeded | State::ExecutedBadOutputs)
            };
            if is_open(&self.record.record.nodes[index]) {
                self.teardown_attrs(index, None);
            }
        }
    }

    /// Evaluates how a node is undone, if that can be told by now.
    fn teardown_attrs(&mut self, index: usize, own: Option<&Value>) {
        let node = &self.plan.nodes[index];
        let has = |node: &NodeRecord| node.teardown.as_ref().is_some_and(|it| it.attrs.is_none());
        if !has(&self.record.record.nodes[index]) || (node.teardown_needs_self && own.is_none()) {
            return;
        }
        let Some(Ok(attrs)) = self.evaluation.teardown(node, own) else { return };
        if attrs.values().any(|attr| attr.value.contains_unknown()) {
            return;
        }
        attrs.values().for_each(|attr| self.secrets.hide_sensitive(&attr.value));
        let recorded = self.recorded_attrs(&attrs);
        if let Some(teardown) = &mut self.record.record.nodes[index].teardown {
            teardown.attrs = Some(recorded);
        }
    }

    fn writing(&self) -> Writing<'_> {
        let with_secrets = self.options.record_secrets;
        Writing { sensitive: &self.sensitive, secrets: self.secrets, with_secrets }
    }

    fn recorded_attrs(&self, attrs: &PlannedAttrs) -> BTreeMap<String, Recorded> {
        recorded_attrs(&self.writing(), attrs)
    }

    /// Writes the record; if that cannot be done the run goes on, and people are told.
    fn keep(&mut self, write: impl FnOnce(&mut RecordFile) -> Result<(), RecordError>) {
        let Err(error) = write(&mut self.record) else { return };
        if !std::mem::replace(&mut self.is_record_broken, true) {
            let cause = std::error::Error::source(&error).map(|source| format!(": {source}"));
            let message = format!("{error}{}", cause.unwrap_or_default());
            self.surface.tell(&Event::Warning { message: &message, provider: None });
        }
    }
}

/// Why a provider refused, and the exit code because of it.
pub fn refusal(failure: &toolbus::Failure, provider: &str, secrets: &Secrets) -> (u8, ErrorRecord) {
    let judged = judge(failure, provider, secrets);
    (judged.fault.exit_code(), judged.error)
}

/// Attributes as they are sent.
fn sent(attrs: &PlannedAttrs) -> Json {
    let mut out = Vec::new();
    out.push(b'{');
    for (index, (name, attr)) in attrs.iter().enumerate() {
        if 0 < index {
            out.push(b',');
        }
        toolbus_proto::json::write_string(&mut out, name);
        out.push(b':');
        // What is unknown is not sent: a node starts when all it needs is known.
        match attr.value.to_json() {
            Ok(json) => out.extend_from_slice(json.as_bytes()),
            Err(_) => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    Json::from_trusted(out)
}

fn recorded_attrs(writing: &Writing<'_>, attrs: &PlannedAttrs) -> BTreeMap<String, Recorded> {
    let one = |(name, attr): (&String, &crate::plan::PlannedAttr)| {
        (name.clone(), recorded(&writing.value(&attr.value)))
    };
    attrs.iter().map(one).collect()
}

/// The variables that must not be shown, with their values.
pub fn sensitive_variables(plan: &Plan) -> Variables {
    let is_sensitive = |name: &String| {
        plan.scenario.body.variables.get(name).is_some_and(|variable| variable.sensitive)
    };
    let all = plan
        .variables
        .iter()
        .filter(|(name, value)| is_sensitive(name) || value.contains_sensitive());
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The first of what is wrong, as the error of a node.
fn evaluation_error(problems: &[crate::diagnostic::Problem], secrets: &Secrets) -> ErrorRecord {
    let masked = |text: &str| secrets.masked(text).into_owned();
    match problems.first() {
        Some(problem) => ErrorRecord {
            code: problem.code.as_str().to_owned(),
            message: masked(&problem.message),
            provider: None,
            detail: problem.help.as_deref().map(masked),
        },
        None => ErrorRecord {
            code: "internal_error".to_owned(),
            message: "it cannot be evaluated".to_owned(),
            provider: None,
            detail: None,
        },
    }
}

fn new_record(
    plan: &Plan,
    options: &Options,
    now: SystemTime,
    secrets: &Secrets,
    sensitive: &Variables,
) -> Record {
    let writing = Writing { sensitive, secrets, with_secrets: options.record_secrets };
    let address = |index: &usize| plan.nodes[*index].address.clone();
    let nodes = plan.nodes.iter().map(|node| NodeRecord {
        depends_on: node.depends_on.iter().map(address).collect(),
        teardown: node.teardown.as_ref().map(|_| NodeTeardown {
            state: TeardownState::Pending,
            attrs: None,
            error: None,
            ended_at: None,
        }),
        ..NodeRecord::pending(
            node.address.clone(),
            node.action_type.clone(),
            plan.providers[node.provider].name.clone(),
        )
    });
    let providers = plan.providers.iter().map(|instance| ProviderRecord {
        name: instance.name.clone(),
        source: instance.source.to_string(),
        schema_name: instance.schema.name.clone(),
        schema_version: instance.schema.version.clone(),
        config: BTreeMap::new(),
    });
    let variable = |(name, value): (&String, &Value)| {
        let value = match sensitive.contains_key(name) {
            true => value.clone().sensitive(),
            false => value.clone(),
        };
        (name.clone(), recorded(&writing.value(&value)))
    };
    Record {
        format_version: FORMAT_VERSION.to_owned(),
        toolbus_version: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: run_id(now, options.chance),
        scenario: plan.name().to_owned(),
        scenario_path: plan.file().path.display().to_string(),
        files: file_hashes(&plan.scenario, &plan.sources),
        status: Status::Running,
        started_at: time::rfc3339(now),
        ended_at: None,
        seed: options.seed,
        process: ProcessMark::ours(),
        variables: plan.variables.iter().map(variable).collect(),
        providers: providers.collect(),
        nodes: nodes.collect(),
        outputs: BTreeMap::new(),
        error: None,
        teardown: None,
    }
}

/// Every scenario and component file, with what is in it; files of values are none of them.
pub fn file_hashes(scenario: &Scenario, sources: &Sources) -> Vec<FileHash> {
    let mut files = vec![scenario.body.file()];
    let mut bodies = vec![scenario.body.clone()];
    while let Some(body) = bodies.pop() {
        for component in body.components.iter().filter_map(|block| block.definition.as_ref()) {
            if !files.contains(&component.body.file()) {
                files.push(component.body.file());
                bodies.push(component.body.clone());
            }
        }
    }
    files.sort();
    let hash = |file: FileId| {
        let file = sources.file(file);
        FileHash { path: file.path.display().to_string(), sha256: sha256(&file.bytes()) }
    };
    files.into_iter().map(hash).collect()
}

/// The digest of some bytes.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown_path(path: &std::path::Path) -> String {
    let path = path.strip_prefix(".").unwrap_or(path);
    path.display().to_string()
}

fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
