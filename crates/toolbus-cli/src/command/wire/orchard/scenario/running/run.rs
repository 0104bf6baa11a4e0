//! `toolbus orchard run`: a scenario, executed.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use toolbus_engine::chance;
use toolbus_engine::child::words::quoted;
use toolbus_orchard::plan::{self, Plan};
use toolbus_orchard::project::Project;
use toolbus_orchard::record::{ErrorRecord, Status};
use toolbus_orchard::run::{self, Event, Options, Started, Stop, Summary, Surface};
use toolbus_orchard::secrets::Secrets;
use toolbus_orchard::value::Value;

use super::super::Face;
use super::super::opening::{ValueArgs, read};
use super::screen::Screen;
use super::{
    ProviderArgs, hide, listen, not_started, observers, random_seed, refused, report, show_problems,
};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render::printable;
use crate::runtime;

/// Run a scenario
///
/// Starts its providers, executes its actions in the order of their references, and records what
/// happened, so that `toolbus orchard teardown` can undo it. A line for each action goes to
/// standard output as it ends, and the outputs behind them; what providers log goes to standard
/// error.
///
/// The first Ctrl-C lets what runs come to its end, the second one kills it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard run shop.hcl --var token=s3cr3t
  toolbus orchard run shop.hcl --parallel 4 --keep-going --record-dir records
  toolbus orchard run shop.hcl --target component.greeter.g --json")]
pub(in super::super) struct RunArgs {
    /// The scenario's file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    values: ValueArgs,
    /// Only this action or component and what it needs; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    target: Vec<String>,
    /// Execute so many actions at a time
    #[arg(long, value_name = "COUNT", default_value = "1", allow_negative_numbers = true)]
    parallel: std::num::NonZeroUsize,
    /// After a failure still execute what does not need it
    #[arg(long)]
    keep_going: bool,
    /// After a failure undo what was done
    #[arg(long)]
    teardown_on_failure: bool,
    /// Refuse providers that write anything but messages, or describe themselves in two ways
    #[arg(long)]
    strict: bool,
    /// Feed the random functions with this number [default: chosen and recorded]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Write the record into this folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    record_dir: PathBuf,
    /// Write no record: what was done cannot be undone by toolbus
    #[arg(long, conflicts_with = "record_dir")]
    no_record: bool,
    /// Write sensitive values into the record as they are
    #[arg(long)]
    record_secrets: bool,
    #[command(flatten)]
    providers: ProviderArgs,
}

impl RunArgs {
    pub(in super::super) fn run(&self, face: Face, config: Option<&Path>) -> Result<(), Failed> {
        let read = read(&self.file).and_then(|opened| Ok((opened, self.values.given()?)));
        let choice = self.values.choice();
        runtime::block_on(async {
            let secrets = Rc::new(Secrets::new());
            let screen = Screen::open(secrets.clone(), face);
            let shown = self.file.display().to_string();
            screen.tell(&Event::Start { command: "run", file: &shown });
            let (opened, given) = match read {
                Ok(read) => read,
                Err(failed) => return Err(refused(&screen, face, failed, Summary::default())),
            };
            let project = Project::open(&opened, choice, &given, true);
            hide(&secrets, &project.variables);
            let summary = self.lead(face, config, &project, &opened.shown, &screen, &secrets).await;
            let summary = match summary {
                Ok(summary) => summary,
                Err(failed) => return Err(refused(&screen, face, failed, Summary::default())),
            };
            screen.close();
            screen.tell(&Event::Ended(&summary));
            match summary.exit_code {
                0 => Ok(()),
                code => Err(Failed::quietly(Exit::of(code))),
            }
        })
    }

    /// From the files to the end; everything is told but the last event.
    async fn lead(
        &self,
        face: Face,
        config: Option<&Path>,
        project: &Project,
        shown: &str,
        screen: &Rc<Screen>,
        secrets: &Rc<Secrets>,
    ) -> Result<Summary, Failed> {
        let invalid = |problems: &[toolbus_orchard::diagnostic::Problem]| {
            show_problems(screen, face, problems, &project.sources, shown, secrets);
            Summary { exit_code: Exit::Usage.code(), ..Summary::default() }
        };
        let Some(request) = project.request(&self.target).filter(|_| !project.is_broken) else {
            return Ok(invalid(&project.problems));
        };
        let scenario = request.scenario.clone();
        let folder = project.sources.file(scenario.body.file()).folder().to_owned();
        let checked = plan::check(request, project.problems.clone());
        if checked.graph.is_none() {
            return Ok(invalid(&checked.problems));
        }
        let observers = observers(config)?;
        let (stop, first) = listen(screen)?;
        let surface: Rc<dyn Surface> = screen.clone();
        let patience = self.providers.patience(self.strict);
        let started = run::start(
            &scenario,
            &project.providers,
            &folder,
            &patience,
            surface,
            secrets.clone(),
            &stop,
        )
        .await;
        let mut started = match started {
            Ok(started) => started,
            Err(why) => {
                let (exit, error) = not_started(&why, first.get());
                return Ok(told(face, exit, error));
            }
        };
        started.observe(observers);
        let planned = project.plan(&started.providers(&project.providers), &self.target);
        let Some(plan) = planned.plan else {
            let summary = invalid(&planned.problems);
            started.shutdown(stop).await;
            return Ok(summary);
        };
        show_problems(screen, face, &planned.problems, &project.sources, shown, secrets);
        let ran = self.execute(&plan, &mut started, screen, secrets, &stop).await;
        let mut summary = match ran {
            Ok(summary) => summary,
            Err(Refused::Start(why)) => {
                let (exit, error) = not_started(&why, first.get());
                started.shutdown(stop).await;
                return Ok(told(face, exit, error));
            }
            Err(Refused::Record(error)) => {
                started.shutdown(stop).await;
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let message = format!("{error}{}", cause.unwrap_or_default());
                let code = "record_failed".to_owned();
                let error = ErrorRecord { code, message, provider: None, detail: None };
                return Ok(told(face, Exit::Failed, Some(error)));
            }
        };
        started.shutdown(stop.clone()).await;
        if let (Some(exit), Some(Status::Interrupted)) = (first.get(), summary.status) {
            summary.exit_code = exit.code();
        }
        if !face.json {
            print(face, screen, &plan, &summary);
        }
        Ok(summary)
    }

    async fn execute(
        &self,
        plan: &Plan,
        started: &mut Started,
        screen: &Rc<Screen>,
        secrets: &Rc<Secrets>,
        stop: &Stop,
    ) -> Result<Summary, Refused> {
        let instances = started.instances(plan, stop).await.map_err(Refused::Start)?;
        let options = Options {
            parallel: self.parallel.get(),
            keep_going: self.keep_going,
            teardown_on_failure: self.teardown_on_failure,
            action_timeout: self.providers.action_timeout,
            record_folder: (!self.no_record).then(|| self.record_dir.clone()),
            record_secrets: self.record_secrets,
            seed: self.seed.unwrap_or_else(random_seed),
            chance: u32::from_le_bytes(chance::bytes()),
        };
        let ran = run::run(plan, &instances, &options, &**screen, secrets, stop.clone());
        ran.await.map_err(Refused::Record)
    }
}

enum Refused {
    Start(run::NotStarted),
    Record(toolbus_orchard::record::file::RecordError),
}

/// It ended before it began.
fn told(face: Face, exit: Exit, error: Option<ErrorRecord>) -> Summary {
    if let Some(error) = error.as_ref().filter(|_| !face.json) {
        report(face, None, error, None);
    }
    let status = error.as_ref().map(|_| Status::Failed).unwrap_or(Status::Interrupted);
    Summary { status: Some(status), exit_code: exit.code(), error, ..Summary::default() }
}

/// The outputs, what went wrong, and where the record is.
fn print(face: Face, screen: &Screen, plan: &Plan, summary: &Summary) {
    for (name, value) in &summary.outputs {
        screen.line(&format!("{} = {}", printable(name), shown(value)));
    }
    for (address, error) in screen.failures() {
        let node = plan.nodes.iter().find(|node| node.address == address);
        let place = node.map(|node| {
            let file = plan.sources.file(node.action.header.file);
            let (line, column) = file.line_column(node.action.header.range.start);
            let instance = &plan.providers[node.provider];
            let (name, schema) = (&instance.name, &instance.schema);
            format!(
                "{}:{line}:{column}, provider `{name}` ({} {})",
                file.shown, schema.name, schema.version
            )
        });
        screen.close();
        report(face, Some(&address), &error, place);
    }
    if let Some(error) = &summary.error {
        screen.close();
        let message = format!("{}: {}", error.code, error.message);
        report(face, None, &ErrorRecord { message, ..error.clone() }, None);
    }
    if let Some(record) = &summary.record {
        if summary.status != Some(Status::Succeeded) && 0 < summary.left_to_undo {
            screen.tell_people(&undo_hint(face, plan, record));
        }
        screen.tell_people(&format!("record: {record}"));
    }
}

/// The line that undoes what was done. What is sensitive is not in the record.
fn undo_hint(face: Face, plan: &Plan, record: &str) -> String {
    let mut line = format!("toolbus orchard teardown {}", quoted(record));
    for name in run::sensitive_variables(plan).keys() {
        line.push_str(&format!(" --var {name}=…"));
    }
    let hint = face.color.paint(&io::stderr()).hint("hint:");
    format!("{hint} undo what was done: {}", printable(&line))
}

/// Text bare, everything else as JSON.
fn shown(value: &Value) -> String {
    match value.as_str().filter(|text| !value.is_sensitive() && !text.contains(char::is_control)) {
        Some(text) => printable(text).into_owned(),
        None => printable(&value.shown()).into_owned(),
    }
}
