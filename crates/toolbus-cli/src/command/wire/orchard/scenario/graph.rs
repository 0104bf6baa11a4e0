//! `toolbus orchard graph`: which action needs which.

use std::path::PathBuf;

use clap::ValueEnum;
use toolbus_orchard::diagnostic::Code;
use toolbus_orchard::plan::{Checked, check};
use toolbus_orchard::project::Project;
use toolbus_orchard::secrets::Secrets;
use toolbus_orchard::show::graph;

use super::Face;
use super::opening::{ValueArgs, read, tell};
use crate::failed::Failed;
use crate::render;

/// Draw which action needs which
///
/// Nodes come in the order of the plan, then edges, from what is needed to what needs it. No
/// provider is started.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchard graph shop.hcl | dot -Tsvg > shop.svg
  toolbus orchard graph shop.hcl --format mermaid")]
pub(super) struct GraphArgs {
    /// File with the scenario
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    values: ValueArgs,
    /// Draw only this action, family or component and what it needs; may repeat
    #[arg(long = "target", value_name = "ADDRESS")]
    targets: Vec<String>,
    /// Language of the drawing: dot, mermaid or json
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "dot",
        hide_possible_values = true
    )]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Dot,
    Mermaid,
    Json,
}

pub(super) fn run(args: &GraphArgs, face: Face) -> Result<(), Failed> {
    let opened = read(&args.file)?;
    let given = args.values.given()?;
    let mut project = Project::open(&opened, args.values.choice(), &given, false);
    // No provider is needed to draw what its actions need.
    project.problems.retain(|problem| problem.code != Code::ProviderSource);
    let secrets = Secrets::new();
    project.variables.values().for_each(|value| secrets.hide_sensitive(value));
    // The flag of all commands means the format here; what is wrong goes to people in any case.
    let format = if face.json { Format::Json } else { args.format };
    let face = Face { json: false, ..face };
    let checked = match project.request(&args.targets) {
        Some(request) if !project.is_broken => check(request, project.problems.clone()),
        _ => Checked { graph: None, problems: project.problems.clone() },
    };
    tell(&checked.problems, &project.sources, &opened.shown, &secrets, face)?;
    let Some(found) = checked.graph else { return Ok(()) };
    let name = project.scenario.as_ref().map_or("", |scenario| &scenario.body.name.text);
    let text = match format {
        Format::Dot => graph::dot(name, &found),
        Format::Mermaid => graph::mermaid(&found),
        Format::Json => graph::json(name, &found),
    };
    render::print(&text)
}
