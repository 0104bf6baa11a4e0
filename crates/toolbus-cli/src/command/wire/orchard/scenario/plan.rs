//! `toolbus orchard plan`: what a run would do, and what is wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use toolbus::{Failure, FailureKind, Json};
use toolbus_engine::child::EnvPolicy;
use toolbus_orchard::plan::Planned;
use toolbus_orchard::project::{Project, ProviderFailure};
use toolbus_orchard::provider::Patience;
use toolbus_orchard::secrets::Secrets;
use toolbus_orchard::show::{
    Ink, Invalid, ProviderFailed, invalid, plan_drawn, plan_json, plan_text, secrets_of,
};

use super::Face;
use super::opening::{ValueArgs, read, tell};
use crate::args::value;
use crate::failed::Failed;
use crate::render::{self, failure, printable};
use crate::runtime::{self, Signals};

/// Show what a run would do, in which order and with what
///
/// Nothing is executed: programs are only asked for their schemas, with the argument `schema`,
/// and other peers for their tools. What is known only after the run is told as that, sensitive
/// values are not shown.
///
/// Everything that is wrong is told at once, with its place; the exit code is then 2. It is 3 or
/// 4 if a provider cannot be asked.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard plan scenarios/hello.hcl
  toolbus orchard plan shop.hcl --var token=s3cr3t --json
  toolbus orchard plan shop.hcl --target action.echo.first")]
pub(super) struct PlanArgs {
    /// File with the scenario
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    values: ValueArgs,
    /// Plan only this action, family or component and what it needs; may repeat
    #[arg(long = "target", value_name = "ADDRESS")]
    targets: Vec<String>,
    #[command(flatten)]
    asking: AskingArgs,
}

/// How providers are asked for their schemas.
#[derive(Debug, clap::Args)]
pub(super) struct AskingArgs {
    /// Give up if a provider has not described itself after this long
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "5s",
          allow_negative_numbers = true)]
    pub(super) describe_timeout: Duration,
    /// Give providers no environment but PATH, HOME, LANG and TMPDIR
    #[arg(long)]
    pub(super) scrub_env: bool,
}

impl AskingArgs {
    pub(super) fn patience(&self) -> Patience {
        Patience { describe: self.describe_timeout, ..Patience::default() }
    }

    pub(super) fn environment(&self) -> EnvPolicy {
        match self.scrub_env {
            true => EnvPolicy::Only(["PATH", "HOME", "LANG", "TMPDIR"].map(str::to_owned).to_vec()),
            false => EnvPolicy::Inherit,
        }
    }
}

pub(super) fn run(args: &PlanArgs, face: Face) -> Result<(), Failed> {
    let opened = read(&args.file)?;
    let given = args.values.given()?;
    let project = Project::open(&opened, args.values.choice(), &given, true);
    let scenario = project.scenario.as_ref().map(|scenario| scenario.body.name.text.clone());
    let secrets = Secrets::new();
    project.variables.values().for_each(|value| secrets.hide_sensitive(value));
    let refuse = |problems: &[_]| {
        if face.json {
            let (path, sources) = (&*opened.path, &*project.sources);
            let scenario = scenario.as_deref();
            let line = invalid(&Invalid { scenario, path, problems, sources, error: None });
            render::print(&secrets.masked(&line))?;
        }
        tell(problems, &project.sources, &opened.shown, &secrets, face)
    };
    if project.is_broken {
        return refuse(&project.problems);
    }
    if !project.has_all_sources() {
        return refuse(&project.plan(&[], &args.targets).problems);
    }
    let asked = match ask(&project, &args.asking)? {
        Ok(asked) => asked,
        // What is wrong without any provider is told before it.
        Err(_) if project.is_wrong() => return refuse(&project.problems),
        Err(failed) => return Err(not_asked(&failed, &project, &opened.path, &secrets, face)),
    };
    let Planned { plan, problems } = project.plan(&asked, &args.targets);
    let Some(plan) = plan else { return refuse(&problems) };
    let secrets = secrets_of(&plan);
    if face.json {
        return render::print(&plan_json(&plan, &problems, &secrets));
    }
    tell(&problems, &project.sources, &opened.shown, &secrets, face)?;
    let paint = face.color.paint(&io::stdout());
    if !paint.on {
        return render::print(&plan_text(&plan, &secrets));
    }
    let ink = |ink: Ink, text: &str| {
        let text = &*printable(text);
        match ink {
            Ink::Plain => text.to_owned(),
            Ink::Title => paint.title(text),
            Ink::Run => paint.ok(text),
            Ink::Teardown => paint.error(text),
            Ink::Open => paint.literal(text),
            Ink::Faint => paint.dim(text),
        }
    };
    render::print_own(&plan_drawn(&plan, &secrets, &ink))
}

/// Asks the providers, unless a signal comes first.
fn ask(
    project: &Project,
    asking: &AskingArgs,
) -> Result<Result<Vec<toolbus_orchard::plan::Provider>, ProviderFailure>, Failed> {
    runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let (patience, environment) = (asking.patience(), asking.environment());
        tokio::select! {
            asked = project.ask(&patience, &environment) => Ok(asked),
            exit = signals.next() => Err(Failed::quietly(exit)),
        }
    })
}

fn not_asked(
    failed: &ProviderFailure,
    project: &Project,
    path: &std::path::Path,
    secrets: &Secrets,
    face: Face,
) -> Failed {
    let ProviderFailure { provider, failure } = failed;
    let said: Vec<String> = failure.detail.iter().map(Json::shown).collect();
    if !face.json {
        let said = said.iter().flat_map(|said| said.lines().map(str::to_owned));
        return failure::failed(failure).lines(said);
    }
    let message = failure.to_string();
    let words = failure.last_words.iter().flat_map(|words| words.stderr.iter().cloned());
    let detail = said.into_iter().chain(words).collect::<Vec<_>>().join("\n");
    let detail = Some(detail).filter(|detail| !detail.is_empty());
    let code = error_code(failure);
    let error = ProviderFailed { code, message: &message, provider, detail: detail.as_deref() };
    let scenario = project.scenario.as_ref().map(|scenario| scenario.body.name.text.as_str());
    let line = invalid(&Invalid {
        scenario,
        path,
        problems: &project.problems,
        sources: &project.sources,
        error: Some(error),
    });
    match render::print(&secrets.masked(&line)) {
        Ok(()) => Failed::quietly(failure::exit(failure)),
        Err(failed) => failed,
    }
}

/// Our own codes for what a provider did.
fn error_code(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::TimedOut => "timed_out",
        FailureKind::Gone | FailureKind::Unavailable => "provider_gone",
        _ => "protocol_error",
    }
}
