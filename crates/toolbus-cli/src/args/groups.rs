//! The commands by what people come for: as `toolbus --help`, the manual page and the shells list
//! them.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::StyledStr;

use super::GLOBAL;
use crate::command::wire;
use crate::render::{style, width};

/// Commands that belong together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) title: &'static str,
}

pub(crate) static USE: Group = Group { title: "Use tools" };
pub(crate) static SERVE: Group = Group { title: "Serve tools" };
pub(crate) static SCENARIOS: Group = Group { title: "Scenarios and models" };
pub(crate) static AUTHORS: Group = Group { title: "For authors" };

/// The commands that are of no single wire, in the order in which they are listed. Those of single
/// wires say themselves where they belong, and are listed behind these.
static COMMANDS: [(&Group, &str); 21] = [
    (&USE, "demo"),
    (&USE, "tools"),
    (&USE, "search"),
    (&USE, "describe"),
    (&USE, "call"),
    (&USE, "login"),
    (&USE, "logout"),
    (&USE, "auth"),
    (&SERVE, "init"),
    (&SERVE, "add"),
    (&SERVE, "remove"),
    (&SERVE, "link"),
    (&SERVE, "unlink"),
    (&SERVE, "config"),
    (&SERVE, "doctor"),
    (&SERVE, "lock"),
    (&SERVE, "serve"),
    (&SERVE, "log"),
    (&SERVE, "page"),
    (&AUTHORS, "check"),
    (&AUTHORS, "decode"),
];
/// Listed behind all others of their group.
static LAST: [(&Group, &str); 2] = [(&USE, "completions"), (&USE, "man")];

/// The groups in their order, those that one wire has for itself last.
fn groups() -> Vec<&'static Group> {
    let mut groups = vec![&USE, &SERVE, &SCENARIOS, &AUTHORS];
    for (group, _) in wire::grouped() {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// All commands that are shown, each with its group.
fn listed() -> Vec<(&'static Group, &'static str)> {
    let mut of_wires: Vec<_> = wire::grouped().collect();
    of_wires.sort_by_key(|(_, name)| *name);
    let all: Vec<_> = COMMANDS.into_iter().chain(of_wires).chain(LAST).collect();
    let of = |group| all.iter().copied().filter(move |(its, _)| *its == group);
    groups().into_iter().flat_map(of).collect()
}

/// The commands of `toolbus` in their groups.
pub(crate) fn grouped(toolbus: &Command) -> Vec<(&'static Group, Vec<&Command>)> {
    let listed = listed();
    let of = |group| {
        let names = listed.iter().filter(|(its, _)| *its == group);
        (group, names.filter_map(|(_, name)| toolbus.find_subcommand(name)).collect())
    };
    groups().into_iter().map(of).collect()
}

/// The names of all commands that are shown, in their order.
pub(crate) fn names() -> Vec<&'static str> {
    listed().into_iter().map(|(_, name)| name).collect()
}

/// What `toolbus --help` looks like. Clap knows one list of commands; these are several.
pub(super) fn template(toolbus: &Command, columns: usize) -> StyledStr {
    let (header, literal) = (style::HELP.get_header(), style::HELP.get_literal());
    let longest = names().iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    for (group, commands) in grouped(toolbus) {
        let _ = writeln!(text, "{header}{}:{header:#}", group.title);
        for command in commands {
            let name = command.get_name();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let room = columns.saturating_sub(longest + 4);
            for (at, line) in width::wrapped(&about, room).iter().enumerate() {
                let (name, blanks) = match at {
                    0 => (name, longest - name.len()),
                    _ => ("", longest),
                };
                let _ = writeln!(text, "  {literal}{name}{literal:#}{:blanks$}  {line}", "");
            }
        }
        text.push('\n');
    }
    let _ = write!(text, "{header}{GLOBAL}:{header:#}\n{{options}}{{after-help}}");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn each_command_is_in_one_group() {
        let toolbus = args::command();
        let shown = toolbus.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<_> = shown.map(Command::get_name).collect();
        let mut grouped = names();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn a_narrow_terminal_has_the_sentences_under_each_other() {
        let help = template(&args::command(), 50).to_string();
        let lines: Vec<_> = help.lines().skip_while(|line| !line.starts_with("  call ")).collect();
        assert_eq!(lines[0], "  call             Call one tool and print its");
        assert_eq!(lines[1], "                   answer");
    }
}
