//! `toolbus completions`: so that the shell knows our commands and options.

use clap_complete::Shell;

use crate::failed::Failed;
use crate::{args, render};

/// Print the completion script for a shell
///
/// The script goes to standard output; put it where your shell looks for completions.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus completions bash > ~/.local/share/bash-completion/completions/toolbus
  toolbus completions zsh > ~/.zfunc/_toolbus
  toolbus completions fish > ~/.config/fish/completions/toolbus.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell to print it for
    pub(crate) shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failed> {
    // Into memory first: the generator panics where a pipe would break.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "toolbus", &mut script);
    render::print_own(&String::from_utf8_lossy(&script))
}
