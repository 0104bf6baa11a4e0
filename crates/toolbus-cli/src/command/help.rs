//! `toolbus help COMMAND`: for those who ask that way; the same as `COMMAND --help`.

use crate::args::{self, Globals};
use crate::failed::Failed;
use crate::{command, render};

/// Show the help of a command
#[derive(Debug, clap::Args)]
pub(crate) struct HelpArgs {
    /// Command to describe, e.g. `call` or `oracle invoke`
    #[arg(value_name = "COMMAND")]
    names: Vec<String>,
}

pub(crate) fn run(args: &HelpArgs, globals: &Globals) -> Result<(), Failed> {
    let help = command::named(&args.names)?.render_long_help();
    render::print_own(&args::shown(&help, globals.color))
}
