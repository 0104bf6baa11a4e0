//! `toolbus orchard`, also `orchard`: scenarios, from a first file to a plan.

mod graph;
mod init;
mod list;
mod opening;
mod plan;
mod running;
mod schema;
mod validate;

use clap::{ArgMatches, Args as _, FromArgMatches as _};

use super::super::{Run, Verb};
use crate::args::Globals;
use crate::args::groups::{self, Group};
use crate::failed::Failed;
use crate::render::style::ColorWhen;

pub(in crate::command::wire) static VERB: OrchardVerb = OrchardVerb;

pub(in crate::command::wire) struct OrchardVerb;

impl Verb for OrchardVerb {
    fn name(&self) -> &'static str {
        "orchard"
    }

    fn group(&self) -> &'static Group {
        &groups::SCENARIOS
    }

    fn command(&self) -> clap::Command {
        let command = clap::Command::new(self.name());
        OrchardArgs::augment_args(command.arg_required_else_help(true))
            .about("Plan and run scenarios: actions of providers, in the order of their references")
            .long_about(STORY)
            .after_long_help(EXAMPLES)
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(OrchardArgs::from_arg_matches(matches)?))
    }

    fn is_program(&self) -> bool {
        true
    }
}

const STORY: &str = "Plan and run scenarios: actions of providers, in the order of their references

A scenario is a file of HCL that names providers and the actions to execute with them. A
provider is a program that speaks Orchard, any other peer that toolbus can call, or one that is
built in. What an action gives can be used by others, which then wait for it.

`plan` shows what would be done and what is wrong, and does nothing. Plans, lists and data go to
standard output; what is wrong goes to standard error, with its place and what to do.

Started under the name `orchard` (a link to toolbus) it is this command.";

const EXAMPLES: &str = "Examples:
  toolbus orchard init
  toolbus orchard plan scenarios/hello.hcl
  toolbus orchard validate scenarios/*.hcl";

#[derive(Debug, clap::Args)]
struct OrchardArgs {
    /// Print without colours
    #[arg(long, global = true)]
    no_color: bool,
    #[command(subcommand)]
    command: OrchardCommand,
}

#[derive(Debug, clap::Subcommand)]
enum OrchardCommand {
    Init(init::InitArgs),
    Validate(validate::ValidateArgs),
    Plan(plan::PlanArgs),
    List(list::ListArgs),
    Schema(schema::SchemaArgs),
    Graph(graph::GraphArgs),
    Run(running::run::RunArgs),
    Teardown(running::teardown::TeardownArgs),
    Runs(running::runs::RunsArgs),
}

impl Run for OrchardArgs {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        let face = Face {
            color: if self.no_color { ColorWhen::Never } else { globals.color },
            json: globals.json,
            quiet: globals.quiet,
        };
        match &self.command {
            OrchardCommand::Init(args) => init::run(args, face),
            OrchardCommand::Validate(args) => validate::run(args, face),
            OrchardCommand::Plan(args) => plan::run(args, face),
            OrchardCommand::List(args) => list::run(args, face),
            OrchardCommand::Schema(args) => schema::run(args, face),
            OrchardCommand::Graph(args) => graph::run(args, face),
            OrchardCommand::Run(args) => args.run(face, globals.config.as_deref()),
            OrchardCommand::Teardown(args) => args.run(face, globals.config.as_deref()),
            OrchardCommand::Runs(args) => args.run(face),
        }
    }
}

/// How the commands of scenarios show themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Face {
    pub(super) color: ColorWhen,
    pub(super) json: bool,
    pub(super) quiet: bool,
}
