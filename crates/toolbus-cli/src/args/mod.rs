//! The words of the command line, read once.
//!
//! Each command keeps its own arguments in its own file; here are those that all commands
//! share, and the one place where a command line becomes something to run.

pub(crate) mod access;
pub(crate) mod asked;
pub(crate) mod groups;
pub(crate) mod peer;
mod usage;
pub(crate) mod value;
pub(crate) mod view;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{
    Arg, ArgAction, Args as _, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum,
};
use toolbus::peer::{PeerKind, Registry};
use tracing::level_filters::LevelFilter;

use crate::command::Command;
use crate::command::wire::{self, WireCommand, WireFace};
use crate::exit;
use crate::failed::Failed;
use crate::logging::LogFormat;
use crate::render::style::{self, ColorWhen};
use crate::render::width;

#[derive(Debug, Parser)]
#[command(
    name = "toolbus",
    version,
    about = ABOUT,
    long_about = story(),
    max_term_width = WIDTH_MAX,
    subcommand_required = true,
    disable_help_flag = true,
    disable_version_flag = true,
    disable_help_subcommand = true,
    propagate_version = true,
    styles = style::HELP
)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

const ABOUT: &str = "Call any tool from anywhere, whatever protocol each side speaks";

fn story() -> String {
    format!(
        "{ABOUT}

Programs that offer functions to other programs keep inventing the same thing: start a
process, agree that it is ready, send JSON, match the answer, survive its death. toolbus
does that once and well, and lets any caller reach any tool.

A peer is named by one string, its ADDRESS:

{}
Standard output carries answers and nothing else, so that it can be piped; everything
for people goes to standard error.",
        addresses()
    )
}

/// The addresses there are, each with what it means.
fn addresses() -> String {
    const WIDTH: usize = 19;
    let helps: Vec<_> = Registry::default().kinds().flat_map(PeerKind::help).collect();
    let line = |(address, meaning): &(&str, &str)| match WIDTH <= address.len() {
        true => format!("  {address}\n  {:WIDTH$}{meaning}\n", ""),
        false => format!("  {address:WIDTH$}{meaning}\n"),
    };
    helps.into_iter().map(line).collect()
}

const GLOBAL: &str = "Global options";

/// Wider lines are hard to read.
const WIDTH_MAX: usize = 100;

/// Flags that every command takes, before or behind its name.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = GLOBAL)]
pub(crate) struct Globals {
    /// Read this config, ours or an editor's [default: toolbus.toml, here or above]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print lines of JSON, failures included
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more: -v what happens, -vv every detail
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Say less: errors only, no warnings
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Colour words for people: auto (on a terminal), always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub(crate) color: ColorWhen,
    /// Log as text, or as lines of json
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub(crate) log_format: LogFormat,
}

impl Globals {
    /// Those of a command that says nothing but its answer.
    pub(crate) fn quiet(config: Option<PathBuf>) -> Globals {
        let (color, log_format) = (ColorWhen::Never, LogFormat::Text);
        Globals { config, json: false, verbose: 0, quiet: true, color, log_format }
    }

    pub(crate) fn log_level(&self) -> LevelFilter {
        match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (false, 0) => LevelFilter::WARN,
            (false, 1) => LevelFilter::INFO,
            (false, _) => LevelFilter::DEBUG,
        }
    }
}

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A help text or the version, as it goes to standard output.
    Show(String),
    Run(Box<Command>, Globals),
}

pub(crate) fn parse(words: &[OsString]) -> Result<Parsed, Failed> {
    let words = &crate::command::spelled_out(words);
    let cli = match wire::of_program(words) {
        Some(face) => as_program(face, words),
        None => called_toolbus(command())
            .try_get_matches_from(words)
            .and_then(|matches| Cli::from_arg_matches(&matches)),
    };
    match cli {
        Ok(Cli { globals, command }) => Ok(Parsed::Run(Box::new(command), globals)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Ok(Parsed::Show(shown(&error.render(), color_when(words))))
            }
            _ => Err(usage::failed(&error)),
        },
    }
}

/// Started under the name of a wire's own program, we are that program.
fn as_program(face: &dyn WireFace, words: &[OsString]) -> Result<Cli, clap::Error> {
    let name = face.program().unwrap_or_default();
    let own = face.command();
    let about = own.get_about().cloned().unwrap_or_default();
    let command = clap::Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(WIDTH_MAX)
        .styles(style::HELP)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .propagate_version(true)
        .subcommand(own);
    // The flags bring a text of their own, which is about them alone.
    let command = Globals::augment_args(command).about(about);
    let matches = command.try_get_matches_from(words)?;
    let globals = Globals::from_arg_matches(&matches)?;
    let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
    let (_, own) = matches.subcommand().ok_or_else(missing)?;
    Ok(Cli { globals, command: Command::Wire(WireCommand::of(face, own)?) })
}

/// A help text as it goes to standard output, without the blanks that clap leaves on empty lines.
pub(crate) fn shown(help: &StyledStr, color: ColorWhen) -> String {
    let colored = color.paint(&io::stdout()).on;
    let text = if colored { help.ansi().to_string() } else { help.to_string() };
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// The whole command line as clap knows it: for parsing, help, man pages and completions.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let columns = width::of_stdout().unwrap_or(WIDTH_MAX).min(WIDTH_MAX);
    let help = groups::template(&command, columns);
    command
        .help_template(help)
        .after_long_help(exit::help())
        .arg(
            Arg::new("help")
                .short('h')
                .long("help")
                .help("Show help: -h in short, --help with the story and examples")
                .help_heading(GLOBAL)
                .global(true)
                .action(ArgAction::Help),
        )
        .arg(
            Arg::new("version")
                .short('V')
                .long("version")
                .help("Show the version")
                .help_heading(GLOBAL)
                .global(true)
                .action(ArgAction::Version),
        )
}

/// `toolbus call --version` is asked of toolbus, not of a program `toolbus-call`.
fn called_toolbus(command: clap::Command) -> clap::Command {
    command.display_name("toolbus").mut_subcommands(called_toolbus)
}

/// What `--color` says, read by hand: a command line that could not be parsed has one too.
pub(crate) fn color_when(words: &[OsString]) -> ColorWhen {
    option(words, "--color", Some(("--no-color", ColorWhen::Never)))
}

/// What `--log-format` says, read in the same way.
pub(crate) fn log_format(words: &[OsString]) -> LogFormat {
    option(words, "--log-format", None)
}

/// The last of what is said of an option, in its long form or by a flag that means one value.
fn option<T: ValueEnum + Default>(words: &[OsString], name: &str, flag: Option<(&str, T)>) -> T {
    let mut asked = T::default();
    let mut words = words.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if let Some((_, meant)) = flag.as_ref().filter(|(flag, _)| *flag == word) {
            asked = meant.clone();
        }
        let value = match word.split_once('=') {
            _ if word == "--" => break,
            Some((said, value)) if said == name => Some(value.to_owned()),
            None if word == name => words.next().map(Into::into),
            _ => None,
        };
        if let Some(value) = value.and_then(|value| T::from_str(&value, false).ok()) {
            asked = value;
        }
    }
    asked
}

#[cfg(test)]
mod tests;
