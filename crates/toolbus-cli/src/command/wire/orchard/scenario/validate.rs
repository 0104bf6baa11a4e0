//! `toolbus orchard validate`: what is wrong with files, without providers and values.

use std::path::PathBuf;
use std::rc::Rc;

use toolbus_orchard::diagnostic::Problem;
use toolbus_orchard::disk::Disk;
use toolbus_orchard::model::{Choice, Content, load};
use toolbus_orchard::plan::variables::{self, Given};
use toolbus_orchard::plan::{Request, check, check_component};
use toolbus_orchard::project::{Opened, sources_of};
use toolbus_orchard::secrets::Secrets;
use toolbus_orchard::show::{Invalid, validated};
use toolbus_orchard::source::Sources;

use super::Face;
use super::opening::{ValueArgs, read, tell};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::render;

/// Check files of scenarios and components, without providers and values
///
/// Prints `valid: FILE` for each file in which nothing is wrong. No provider is asked, so what
/// its schema would refuse is not found; variables need no values.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard validate shop.hcl
  toolbus orchard validate scenarios/*.hcl components/*.hcl")]
pub(super) struct ValidateArgs {
    /// Files to check
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    values: ValueArgs,
}

pub(super) fn run(args: &ValidateArgs, face: Face) -> Result<(), Failed> {
    let given = args.values.given()?;
    let choice = args.values.scenario.as_deref().map_or(Choice::All, Choice::Named);
    let mut worst = Ok(());
    for path in &args.files {
        let opened = read(path)?;
        let Validated { problems, sources, scenario, secrets } = validate(&opened, choice, &given);
        if face.json {
            let (scenario, path) = (scenario.as_deref(), &*opened.path);
            let (problems, sources) = (&problems[..], &*sources);
            let line = validated(&Invalid { scenario, path, problems, sources, error: None });
            render::print(&secrets.masked(&line))?;
        }
        let told = tell(&problems, &sources, &opened.shown, &secrets, face);
        if told.is_ok() && !face.json {
            render::print(&format!("valid: {}\n", opened.shown))?;
        }
        worst = worst.and(told.map_err(|_| ()));
    }
    worst.map_err(|()| Failed::quietly(Exit::Usage))
}

struct Validated {
    problems: Vec<Problem>,
    sources: Rc<Sources>,
    /// The name of the only scenario.
    scenario: Option<String>,
    secrets: Secrets,
}

fn validate(opened: &Opened, choice: Choice<'_>, given: &Given) -> Validated {
    let Opened { path, shown, bytes } = opened;
    let loaded = load(&Disk, path.clone(), shown, bytes, choice);
    let (mut sources, mut problems) = (loaded.sources, loaded.problems);
    let secrets = Secrets::new();
    let mut scenario = None;
    match loaded.content {
        Content::Scenarios(scenarios) => {
            if let [only] = &scenarios[..] {
                scenario = Some(only.body.name.text.clone());
            }
            let mut requests = Vec::new();
            for scenario in scenarios {
                let body = &scenario.body;
                let variables = variables::values(body, given, false, &mut sources, &mut problems);
                variables.values().for_each(|value| secrets.hide_sensitive(value));
                sources_of(&scenario, &sources, &mut problems);
                requests.push((scenario, variables));
            }
            let sources = Rc::new(sources.clone());
            for (scenario, variables) in requests {
                let (files, sources, targets) = (Rc::new(Disk), sources.clone(), Vec::new());
                let request = Request { files, sources, scenario, variables, targets };
                problems = check(request, problems).problems;
            }
        }
        Content::Component(component) => {
            let sources = Rc::new(sources.clone());
            problems = check_component(Rc::new(Disk), sources, &component, problems).problems;
        }
        Content::Broken => {}
    }
    Validated { problems, sources: Rc::new(sources), scenario, secrets }
}
