//! A command line that makes no sense, told in our own words.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failed::Failed;

/// What is wrong, how it is written, and what was probably meant.
pub(crate) fn failed(error: &clap::Error) -> Failed {
    let mut failed = Failed::usage(message(error));
    let usage = context(error, ContextKind::Usage);
    // In a conflict the usage repeats one of the two options and is of no help.
    if let (Some(usage), false) = (usage, error.kind() == ErrorKind::ArgumentConflict) {
        failed = failed.lines([usage.replacen("Usage:", "usage:", 1)]);
    }
    match hint(error) {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}

fn message(error: &clap::Error) -> String {
    let arg = || name(&context(error, ContextKind::InvalidArg).unwrap_or_default());
    let value = || context(error, ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if arg().starts_with('-') => {
            format!("there is no option `{}`", arg())
        }
        ErrorKind::UnknownArgument => format!("`{}` is one word too many", arg()),
        ErrorKind::InvalidSubcommand => {
            let name = context(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("there is no command `{name}`")
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "a command is missing".to_owned()
        }
        ErrorKind::MissingRequiredArgument => missing(error),
        ErrorKind::InvalidValue if value().is_empty() => format!("`{}` needs a value", arg()),
        ErrorKind::InvalidValue => format!("`{}` cannot be `{}`", arg(), value()),
        ErrorKind::ValueValidation => match error.source() {
            Some(why) => format!("`{}`: {why}", arg()),
            // One of our own, which says all there is to say.
            None if arg().is_empty() => as_told(error),
            None => format!("`{}` cannot be `{}`", arg(), value()),
        },
        ErrorKind::ArgumentConflict => {
            let other = name(&context(error, ContextKind::PriorArg).unwrap_or_default());
            let other = other.trim_end_matches(',');
            // A command that takes no options before it has no argument that would be wrong.
            let this = Some(arg()).filter(|arg| !arg.is_empty());
            let this = this.or_else(|| context(error, ContextKind::InvalidSubcommand));
            let this = this.unwrap_or_default();
            if other == this {
                format!("`{other}` stands twice")
            } else {
                format!("`{this}` and `{other}` do not go together")
            }
        }
        // The rare ones as clap says them.
        _ => as_told(error).replace('\'', "`"),
    }
}

fn as_told(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").to_owned()
}

fn missing(error: &clap::Error) -> String {
    let names: Vec<String> = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.iter().map(|text| name(text)).collect(),
        _ => Vec::new(),
    };
    match names.as_slice() {
        [name] => format!("{name} is missing"),
        names => format!("{} are missing", names.join(" and ")),
    }
}

/// `--timeout <TIME>` is the option `--timeout`, `--json[=<BOOL>]` is `--json`, `<SHELL>` the word
/// SHELL.
fn name(arg: &str) -> String {
    let first = arg.split(' ').next().unwrap_or_default();
    let first = first.split("[=").next().unwrap_or_default();
    first.trim_end_matches("...").trim_matches(['<', '>', '[', ']']).to_owned()
}

fn hint(error: &clap::Error) -> Option<String> {
    let meant = |kind| nearest(error, kind).map(|name| format!("did you mean `{name}`?"));
    let values = || context(error, ContextKind::ValidValue).map(|them| format!("it can be {them}"));
    meant(ContextKind::SuggestedSubcommand)
        .or_else(|| meant(ContextKind::SuggestedArg))
        .or_else(|| meant(ContextKind::SuggestedValue))
        .or_else(values)
        .or_else(|| match error.kind() {
            ErrorKind::ValueValidation => from_environment(error),
            ErrorKind::ArgumentConflict => None,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Some("`--help` shows all commands, and `toolbus demo` is a good start".to_owned())
            }
            ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand => {
                Some("`--help` shows all commands".to_owned())
            }
            _ => Some("`--help` tells more".to_owned()),
        })
}

/// Where a wrong value came from, if it was an environment variable and not the command line.
fn from_environment(error: &clap::Error) -> Option<String> {
    let variable = "TOOLBUS_TIMEOUT";
    let value = context(error, ContextKind::InvalidValue)?;
    (std::env::var(variable).ok()? == value)
        .then(|| format!("it comes from the environment: {variable}={value}"))
}

/// The name that clap thinks nearest to the one that was given; it puts that one last.
fn nearest(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::Strings(names) => names.last().cloned(),
        _ => context(error, kind),
    }
}

/// What clap knows about the error, as words; several of them as a list.
fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => (!texts.is_empty()).then(|| texts.join(", ")),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        ContextValue::StyledStrs(texts) => texts.first().map(ToString::to_string),
        _ => None,
    }
}
