//! `toolbus man`: the help texts as manual pages.

use std::io::{self, Write};

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::exit::Exit;
use crate::failed::Failed;
use crate::{command, render};

/// Print a manual page
///
/// Without COMMAND the page of toolbus itself, else that of the command, in the format of
/// `man`, on standard output.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus man | man -l -
  toolbus man oracle invoke > toolbus-oracle-invoke.1")]
pub(crate) struct ManArgs {
    /// Command to describe, e.g. `call` or `oracle invoke`
    #[arg(value_name = "COMMAND")]
    pub(crate) names: Vec<String>,
}

pub(crate) fn run(args: &ManArgs) -> Result<(), Failed> {
    let command = command::named(&args.names)?;
    let mut page = Vec::new();
    write(command, &mut page).map_err(|error| {
        Failed::new(Exit::Failed, "cannot write the manual page").caused_by(&error)
    })?;
    render::print_own(&String::from_utf8_lossy(&page))
}

fn write(command: clap::Command, page: &mut dyn Write) -> io::Result<()> {
    let examples = command.get_after_long_help().map(ToString::to_string);
    let has_subcommands = command.has_subcommands();
    let man = Man::new(command)
        .source(concat!("toolbus ", env!("CARGO_PKG_VERSION")))
        .manual("Toolbus Manual");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if has_subcommands {
        man.render_subcommands_section(page)?;
    }
    let mut end = Roff::new();
    // The help of toolbus itself ends with the exit codes, which have a form of their own here.
    if let Some(("Example:" | "Examples:", examples)) =
        examples.as_deref().and_then(|text| text.split_once('\n'))
    {
        end.control("SH", ["EXAMPLES"]).control("nf", []);
        end.text([roman(examples)]).control("fi", []);
    }
    end.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        end.control("TP", []);
        end.text([bold(exit.code().to_string())]).text([roman(exit.meaning())]);
    }
    end.to_writer(page)
}
