//! `toolbus orchard teardown`: what a run did, undone by its record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use toolbus_engine::child::EnvPolicy;
use toolbus_orchard::model::Choice;
use toolbus_orchard::plan::variables::Given;
use toolbus_orchard::plan::{Chance, Evaluation, Node, Plan};
use toolbus_orchard::project::{Opened, Project};
use toolbus_orchard::provider::{Provider, ProviderSource};
use toolbus_orchard::record::file::{self, RecordError, RecordFile};
use toolbus_orchard::record::value::{ReadError, Variables};
use toolbus_orchard::record::{self, ErrorRecord, Record, State, Status};
use toolbus_orchard::run::teardown::{self, Step, Tally, Undoing, What};
use toolbus_orchard::run::{self, Counts, Event, Started, Summary, Surface};
use toolbus_orchard::secrets::Secrets;
use toolbus_orchard::value::{Value, convert};
use toolbus_proto::json::Json;

use super::super::Face;
use super::super::opening::ValueArgs;
use super::screen::Screen;
use super::{ProviderArgs, hide, listen, not_started, observers, refused, report};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::printable;
use crate::runtime;

/// Undo what a run did
///
/// Executes the `teardown` of every action that the record says was done, the last one first. One
/// that fails does not stop the others; what succeeded is not repeated. Sensitive variables are
/// not in the record and have to be given again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard teardown orchard_shop_run_20260101T120000Z_0a1b2c3d.json
  toolbus orchard teardown --latest --var token=s3cr3t
  toolbus orchard teardown --latest --scenario shop --use-recorded")]
pub(in super::super) struct TeardownArgs {
    /// The record of the run
    #[arg(value_name = "RECORD", conflicts_with = "latest")]
    record: Option<PathBuf>,
    /// Take the newest record in the folder
    #[arg(long)]
    latest: bool,
    /// Look for records in this folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    record_dir: PathBuf,
    #[command(flatten)]
    values: ValueArgs,
    /// Use what the record holds, whatever became of the files
    #[arg(long, conflicts_with = "use_current")]
    use_recorded: bool,
    /// Evaluate the files as they are now
    #[arg(long)]
    use_current: bool,
    /// Also undo again what was undone already
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    providers: ProviderArgs,
}

/// What is known before anything is started.
struct Prepared {
    path: PathBuf,
    record: Record,
    steps: Vec<Step>,
    /// The providers that are needed, with their configs.
    providers: Vec<(String, ProviderSource, Json)>,
    folder: PathBuf,
}

impl TeardownArgs {
    pub(in super::super) fn run(&self, face: Face, config: Option<&Path>) -> Result<(), Failed> {
        let found = self.path().and_then(|path| Ok((path, self.values.given()?)));
        runtime::block_on(async {
            let secrets = Rc::new(Secrets::new());
            let screen = Screen::open(secrets.clone(), face);
            let mut summary = Summary { is_teardown: true, ..Summary::default() };
            let named = found.as_ref().map_or(&self.record_dir, |(path, _)| path);
            let shown = named.strip_prefix(".").unwrap_or(named).display().to_string();
            screen.tell(&Event::Start { command: "teardown", file: &shown });
            let (path, given) = match found {
                Ok(found) => found,
                Err(failed) => return Err(refused(&screen, face, failed, summary)),
            };
            summary.record = Some(shown);
            let led = match self.prepare(path, &given, &secrets).await {
                Ok(prepared) => {
                    self.lead(prepared, face, config, &screen, &secrets, &mut summary).await
                }
                Err(failed) => Err(failed),
            };
            let exit = match led {
                Ok(exit) => exit,
                Err(failed) => return Err(refused(&screen, face, failed, summary)),
            };
            screen.close();
            summary.exit_code = exit.code();
            screen.tell(&Event::Ended(&summary));
            match exit {
                Exit::Done => Ok(()),
                exit => Err(Failed::quietly(exit)),
            }
        })
    }

    fn path(&self) -> Result<PathBuf, Failed> {
        if let Some(path) = &self.record {
            return Ok(path.clone());
        }
        if !self.latest {
            let hint = "`--latest` takes the newest record, `toolbus orchard runs` lists them";
            return Err(Failed::usage("RECORD is missing").hint(hint));
        }
        let folder = &self.record_dir;
        let none = || {
            let message = format!("there is no record in the folder `{}`", folder.display());
            Failed::usage(message).hint("records are in the folder of `--record-dir`")
        };
        let paths = file::list(folder).map_err(|error| none().caused_by(&error))?;
        let is_wanted = |path: &PathBuf| match &self.values.scenario {
            None => true,
            Some(name) => file::load(path).is_ok_and(|record| record.scenario == *name),
        };
        paths.into_iter().find(is_wanted).ok_or_else(none)
    }

    /// Reads everything and finds what is to be done; whatever is missing is told here.
    async fn prepare(
        &self,
        path: PathBuf,
        given: &Given,
        secrets: &Rc<Secrets>,
    ) -> Result<Prepared, Failed> {
        let record = file::load(&path).map_err(|error| unreadable(&error))?;
        if record.process.is_alive() {
            let message = format!("the run still goes on, as process {}", record.process.pid);
            return Err(Failed::usage(message).hint("end it first, e.g. by Ctrl-C"));
        }
        if !self.use_recorded && !self.use_current {
            check_files(&record)?;
        }
        let scenario_path = PathBuf::from(&record.scenario_path);
        let folder = scenario_path.parent().unwrap_or(Path::new("/")).to_owned();
        let mut project = open(&scenario_path, &record, given);
        if project.is_none() && self.use_current {
            let message = format!("cannot read the scenario `{}`", record.scenario_path);
            return Err(Failed::usage(message).hint("`--use-recorded` does without it"));
        }
        let mut again = match &project {
            Some(project) => project.variables.clone(),
            None => as_text(given),
        };
        // What is in the record is as it was in the run; only what is not is taken from now.
        let recorded = teardown::variables(&record, &Variables::new());
        again.extend(recorded);
        hide(secrets, &sensitive(&record, &again));
        let mut evaluated = BTreeMap::new();
        if let Some(project) = project.as_mut().filter(|_| !self.use_recorded) {
            let all = teardown::todo(&record, &again, self.force, &evaluated);
            let is_open = |step: &&Step| !matches!(step.what, What::Undo(_));
            let open: Vec<usize> = match self.use_current {
                true => all.iter().map(|step| step.node).collect(),
                false => all.iter().filter(is_open).map(|step| step.node).collect(),
            };
            if !open.is_empty() {
                project.variables.clone_from(&again);
                evaluated = self.evaluate(project, &record, &again, &open).await?;
            }
        }
        let steps = teardown::todo(&record, &again, self.force, &evaluated);
        for step in &steps {
            if let What::Lost(error @ ReadError::Variable { .. }) = &step.what {
                return Err(lost(error));
            }
        }
        let providers = needed(&record, &steps, &folder, &again)?;
        Ok(Prepared { path, record, steps, providers, folder })
    }

    /// The attributes of teardowns that the record does not hold, made of the files.
    async fn evaluate(
        &self,
        project: &Project,
        record: &Record,
        variables: &Variables,
        open: &[usize],
    ) -> Result<BTreeMap<String, Json>, Failed> {
        let patience = self.providers.patience(false);
        let Ok(providers) = project.ask(&patience, &EnvPolicy::Inherit).await else {
            return Ok(BTreeMap::new());
        };
        let Some(plan) = project.plan(&providers, &[]).plan else {
            let message = format!("the scenario `{}` cannot be planned", record.scenario_path);
            let hint = format!("`toolbus orchard plan {}` tells why", record.scenario_path);
            return match self.use_current {
                true => Err(Failed::usage(message).hint(hint)),
                false => Ok(BTreeMap::new()),
            };
        };
        let seed = record.seed;
        let evaluation = plan.evaluation(Chance::Known { seed, clock: Rc::new(now) });
        let outputs = outputs(&plan, record, variables, &evaluation);
        let mut evaluated = BTreeMap::new();
        for index in open {
            let address = &record.nodes[*index].address;
            let Some(node) = plan.nodes.iter().find(|node| node.address == *address) else {
                continue;
            };
            let own = outputs.get(address);
            if node.teardown_needs_self && own.is_none() {
                continue;
            }
            let Some(Ok(attrs)) = evaluation.teardown(node, own) else { continue };
            let values = attrs.into_iter().map(|(name, attr)| (name, attr.value)).collect();
            if let Ok(json) = Value::object(values).to_json() {
                evaluated.insert(address.clone(), json);
            }
        }
        Ok(evaluated)
    }

    async fn lead(
        &self,
        prepared: Prepared,
        face: Face,
        config: Option<&Path>,
        screen: &Rc<Screen>,
        secrets: &Rc<Secrets>,
        summary: &mut Summary,
    ) -> Result<Exit, Failed> {
        let Prepared { path, record, steps, providers, folder } = prepared;
        let observers = observers(config)?;
        summary.status = Some(Status::Succeeded);
        if steps.is_empty() {
            screen.line("nothing to tear down");
            return Ok(Exit::Done);
        }
        screen.line(&format!("scenario: {}", printable(&record.scenario)));
        screen.line("tearing down...");
        let (stop, first) = listen(screen)?;
        let surface: Rc<dyn Surface> = screen.clone();
        let patience = self.providers.patience(false);
        let mut started = Started::none(&folder, &patience, surface, secrets.clone());
        let sources = providers.iter().map(|(name, source, _)| (name.clone(), source.clone()));
        if let Err(why) = started.start_all(sources.collect(), &stop).await {
            let (exit, error) = not_started(&why, first.get());
            summary.status = Some(Status::Failed);
            return Ok(told(face, exit, error, summary));
        }
        started.observe(observers);
        let mut running: BTreeMap<String, Rc<dyn Provider>> = BTreeMap::new();
        for (name, _, config) in &providers {
            let Some(provider) = started.find(name) else { continue };
            if let Err(failure) = provider.configure(config.clone()).await {
                let (exit_code, error) = run::refusal(&failure, name, secrets);
                started.shutdown(stop).await;
                summary.status = Some(Status::Failed);
                return Ok(told(face, Exit::of(exit_code), Some(error), summary));
            }
            running.insert(name.clone(), provider);
        }
        let folders = BTreeMap::from_iter(
            record.nodes.iter().map(|node| (node.address.clone(), folder.clone())),
        );
        let undoing = Undoing {
            providers: &running,
            folders: &folders,
            surface: &**screen,
            secrets,
            action_timeout: self.providers.action_timeout,
        };
        let mut file = RecordFile::of(path, record);
        let tally = undoing.undo(&mut file, steps, stop.clone()).await;
        started.shutdown(stop.clone()).await;
        let exit = match first.get() {
            Some(exit) => exit,
            None => Exit::of(tally.exit_code),
        };
        let status = file.record.teardown.as_ref().map(|teardown| teardown.status);
        self.end(face, screen, tally, status, summary);
        Ok(exit)
    }

    fn end(
        &self,
        face: Face,
        screen: &Screen,
        tally: Tally,
        status: Option<Status>,
        summary: &mut Summary,
    ) {
        let Tally { done, failed, skipped, without, .. } = tally;
        screen.line(&format!(
            "teardown: {done} done, {failed} failed, {skipped} skipped, {without} without teardown"
        ));
        summary.status = status;
        summary.counts = Counts { succeeded: done, failed, unknown: 0, skipped };
        if !face.json {
            for (address, error) in screen.failures() {
                screen.close();
                report(face, Some(&address), &error, None);
            }
        }
    }
}

fn told(face: Face, exit: Exit, error: Option<ErrorRecord>, summary: &mut Summary) -> Exit {
    if let Some(error) = error.as_ref().filter(|_| !face.json) {
        report(face, None, error, None);
    }
    summary.error = error;
    exit
}

fn unreadable(error: &RecordError) -> Failed {
    let causes = std::error::Error::source(error).map(ToString::to_string);
    Failed::usage(error.to_string()).causes(causes)
}

fn lost(error: &ReadError) -> Failed {
    Failed::usage(error.to_string()).hint_if_any(error.hint())
}

/// Are the files as they were?
fn check_files(record: &Record) -> Result<(), Failed> {
    for known in &record.files {
        let what = match std::fs::read(&known.path) {
            Ok(bytes) if run::sha256(&bytes) == known.sha256 => continue,
            Ok(_) => format!("`{}` has changed since the run", known.path),
            Err(error) => format!("cannot read `{}`: {error}", known.path),
        };
        return Err(Failed::usage(what).hint(
            "`--use-recorded` undoes with what the record holds, `--use-current` by the files as \
             they are now",
        ));
    }
    Ok(())
}

/// The scenario, if its file can still be read.
fn open(path: &Path, record: &Record, given: &Given) -> Option<Project> {
    let bytes = std::fs::read(path).ok()?;
    let opened = Opened { path: path.to_owned(), shown: path.display().to_string(), bytes };
    let project = Project::open(&opened, Choice::Named(&record.scenario), given, false);
    (!project.is_broken).then_some(project)
}

/// Values without their types: all that is known without the scenario.
fn as_text(given: &Given) -> Variables {
    let flags = given.flags.iter().map(|(name, text)| (name, text));
    let text = |(name, text): (&String, &String)| (name.clone(), Value::string(text.as_str()));
    given.environment.iter().chain(flags).map(text).collect()
}

/// Those variables that the record does not hold.
fn sensitive(record: &Record, variables: &Variables) -> Variables {
    let is_held = |name: &String| {
        let value = record.variables.get(name);
        value.is_some_and(|value| !value.get().contains("$sensitive"))
    };
    let hidden = variables.iter().filter(|(name, _)| !is_held(name));
    hidden.map(|(name, value)| (name.clone(), value.clone().sensitive())).collect()
}

/// The providers that something is asked of, with their configs.
fn needed(
    record: &Record,
    steps: &[Step],
    folder: &Path,
    variables: &Variables,
) -> Result<Vec<(String, ProviderSource, Json)>, Failed> {
    let mut needed = Vec::new();
    for known in &record.providers {
        let is_asked = |step: &Step| {
            matches!(step.what, What::Undo(_)) && record.nodes[step.node].provider == known.name
        };
        if !steps.iter().any(is_asked) {
            continue;
        }
        let source = ProviderSource::parse(&known.source, folder).map_err(|error| {
            Failed::usage(format!("provider `{}`: {error}", known.name)).hint_if_any(error.hint())
        })?;
        let config = teardown::rebuilt(&known.config, variables).map_err(|error| lost(&error))?;
        needed.push((known.name.clone(), source, config));
    }
    Ok(needed)
}

/// What the nodes gave in the run; the evaluation knows it from now on.
fn outputs(
    plan: &Plan,
    record: &Record,
    variables: &Variables,
    evaluation: &Evaluation,
) -> BTreeMap<String, Value> {
    let mut outputs = BTreeMap::new();
    for node in &record.nodes {
        let planned = plan.nodes.iter().find(|planned| planned.address == node.address);
        let is_done = matches!(node.state, State::Succeeded | State::ExecutedBadOutputs);
        let (Some(planned), Some(recorded)) = (planned.filter(|_| is_done), &node.outputs) else {
            continue;
        };
        let value = record::value::read(&record::json(recorded), variables).ok();
        let Some(value) = value.and_then(|value| typed(plan, planned, value)) else { continue };
        if node.state == State::Succeeded {
            evaluation.record(planned, value.clone());
        }
        outputs.insert(node.address.clone(), value);
    }
    outputs
}

fn typed(plan: &Plan, node: &Node, value: Value) -> Option<Value> {
    match &plan.schema_of(node).outputs {
        Some(declared) => {
            convert(&value, &declared.ty).ok().map(|value| value.with_sensitive(declared.sensitive))
        }
        None => Some(value),
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
