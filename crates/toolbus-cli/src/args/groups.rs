//! The commands by what people come for: as `toolbus --help`, the manual page and the shells list
//! them.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::StyledStr;

use super::GLOBAL;
use crate::render::{style, width};

/// Commands that belong together.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    /// Their names, in the order in which they are listed.
    commands: &'static [&'static str],
}

/// All that are shown, each once.
pub(crate) static GROUPS: [Group; 5] = [
    Group {
        title: "Use tools",
        commands: &[
            "demo",
            "tools",
            "describe",
            "call",
            "prompt",
            "resource",
            "completions",
            "man",
        ],
    },
    Group {
        title: "Serve tools",
        commands: &["init", "doctor", "serve", "log", "mcp", "rpc", "oracle", "provider"],
    },
    Group { title: "Scenarios and models", commands: &["orchard", "exec"] },
    Group { title: "For authors", commands: &["check", "decode"] },
    Group { title: "Orchestra", commands: &["orchestrator", "plugin", "transport-stdio", "certs"] },
];

impl Group {
    /// The commands of this group, of those that `toolbus` has.
    pub(crate) fn of<'a>(&self, toolbus: &'a Command) -> impl Iterator<Item = &'a Command> {
        self.commands.iter().filter_map(|name| toolbus.find_subcommand(name))
    }
}

/// Where a command stands in the list of all.
pub(crate) fn place(name: &str) -> usize {
    let mut names = GROUPS.iter().flat_map(|group| group.commands);
    names.position(|known| *known == name).unwrap_or(usize::MAX)
}

/// What `toolbus --help` looks like. Clap knows one list of commands; these are several.
pub(super) fn template(toolbus: &Command, columns: usize) -> StyledStr {
    let (header, literal) = (style::HELP.get_header(), style::HELP.get_literal());
    let names = GROUPS.iter().flat_map(|group| group.commands);
    let longest = names.map(|name| name.len()).max().unwrap_or(0);
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    for group in &GROUPS {
        let _ = writeln!(text, "{header}{}:{header:#}", group.title);
        for command in group.of(toolbus) {
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
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
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
