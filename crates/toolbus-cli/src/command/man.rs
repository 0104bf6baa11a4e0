//! `toolbus man`: the help texts as manual pages.

use std::io::{self, Write};

use clap::ArgAction;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::args::groups;
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
    let man = Man::new(command.clone())
        .source(concat!("toolbus ", env!("CARGO_PKG_VERSION")))
        .manual("Toolbus Manual");
    man.render_title(page)?;
    man.render_name_section(page)?;
    let mut beginning = Roff::new();
    synopsis(&mut beginning, &command);
    description(&mut beginning, &command);
    beginning.to_writer(page)?;
    man.render_options_section(page)?;
    let mut end = Roff::new();
    if command.has_subcommands() {
        commands(&mut end, &command);
    }
    let examples = command.get_after_long_help().map(ToString::to_string);
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

/// The command with its options and their values; those that all commands take come last.
fn synopsis(page: &mut Roff, command: &clap::Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = vec![bold(name)];
    let flags = command.get_arguments().filter(|arg| !arg.is_positional());
    let (global, own): (Vec<_>, Vec<_>) =
        flags.filter(|arg| !arg.is_hide_set()).partition(|arg| arg.is_global_set());
    let positional = command.get_positionals().filter(|arg| !arg.is_hide_set());
    for arg in own.into_iter().chain(global).chain(positional) {
        let is_optional = !arg.is_required_set();
        line.push(roman(if is_optional { " [" } else { " " }));
        let short = arg.get_short().map(|short| format!("-{short}"));
        let long = arg.get_long().map(|long| format!("--{long}"));
        let names: Vec<_> = short.into_iter().chain(long).collect();
        line.push(bold(names.join("|")));
        if arg.get_action().takes_values() {
            let blank = if names.is_empty() { "" } else { " " };
            let values = arg.get_value_names().unwrap_or_default().join(" ");
            line.extend([roman(blank), italic(values)]);
        }
        line.push(roman(if is_optional { "]" } else { "" }));
        if matches!(arg.get_action(), ArgAction::Count | ArgAction::Append) {
            line.push(roman("..."));
        }
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    page.control("SH", ["SYNOPSIS"]).text(line);
}

/// The story of a command. Tables in it stay tables: their lines are not joined.
fn description(page: &mut Roff, command: &clap::Command) {
    let story = command.get_long_about().or_else(|| command.get_about());
    let story = story.map(ToString::to_string).unwrap_or_default();
    page.control("SH", ["DESCRIPTION"]);
    for (at, paragraph) in story.split("\n\n").enumerate() {
        if at > 0 {
            page.control("PP", []);
        }
        let mut rows = paragraph.lines().peekable();
        while let Some(row) = rows.next() {
            let Some(row) = row.strip_prefix("  ") else {
                page.text([roman(row)]);
                continue;
            };
            page.control("TP", []);
            let (term, meaning) = row.split_once("  ").unwrap_or((row, ""));
            page.text([bold(term)]);
            if !meaning.is_empty() {
                page.text([roman(meaning.trim_start())]);
            }
            while let Some(more) = rows.next_if(|row| row.starts_with("    ")) {
                page.text([roman(more.trim_start())]);
            }
        }
    }
}

/// The commands behind this one, each with the page that tells of it; those of toolbus itself in
/// their groups.
fn commands(page: &mut Roff, of: &clap::Command) {
    page.control("SH", ["COMMANDS"]);
    if of.get_name() != "toolbus" {
        list(page, of.get_subcommands().filter(|command| !command.is_hide_set()));
        return;
    }
    for (group, commands) in groups::grouped(of) {
        page.control("SS", [group.title]);
        list(page, commands.into_iter());
    }
}

fn list<'a>(page: &mut Roff, commands: impl Iterator<Item = &'a clap::Command>) {
    for command in commands {
        let title = format!("{}(1)", command.get_display_name().unwrap_or_default());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        page.control("TP", []);
        page.text([bold(title)]).text([roman(about)]);
    }
}
