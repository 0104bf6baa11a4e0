//! `toolbus tools`: which tools are there, and what do they take?

use crate::args::Globals;
use crate::exit::Exit;
use crate::failed::Failed;

/// List the tools of the config, or of the given addresses
///
/// Each ADDRESS is started or connected to and asked for its tools. The list is a table;
/// with `--json` it is one tool a line, sorted by name, with the schema of its input.
///
/// An address that cannot be reached is reported, the others are listed, and the exit code
/// is 3.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  toolbus tools builtin:\n  toolbus tools --json builtin: stdio:./my-oracle"
)]
pub(crate) struct ToolsArgs {
    /// Peers to ask, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<String>,
}

pub(crate) fn run(_args: &ToolsArgs, _globals: &Globals) -> Result<(), Failed> {
    Err(Failed::new(Exit::Failed, "`toolbus tools` is not there yet"))
}
