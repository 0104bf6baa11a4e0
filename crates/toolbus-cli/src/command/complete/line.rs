//! An unfinished command line: which command it is, and what stands behind it.

use std::path::PathBuf;

use clap::{Arg, Command};

use super::Candidate;
use crate::args;

/// What was typed before the word that is not finished.
pub(super) struct Line {
    command: Command,
    pub(super) positional: Vec<String>,
    /// The flag that waits for its value.
    pending: Option<Arg>,
    config: Option<PathBuf>,
}

impl Line {
    /// Reads the words, the program first.
    pub(super) fn read(words: &[String]) -> Line {
        let mut command = args::command();
        // Gives each command the flags it inherits.
        command.build();
        let mut line = Line { command, positional: Vec::new(), pending: None, config: None };
        for word in words.iter().skip(1) {
            line.take(word);
        }
        line
    }

    fn take(&mut self, word: &str) {
        if let Some(flag) = self.pending.take() {
            if flag.get_id() == "config" {
                self.config = Some(word.into());
            }
            return;
        }
        if word.len() > 1 && word.starts_with('-') {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let flag = self.command.get_arguments().find(|flag| {
                let long = flag.get_long().map(|long| format!("--{long}"));
                let short = flag.get_short().map(|short| format!("-{short}"));
                long.as_deref() == Some(name) || short.as_deref() == Some(name)
            });
            let takes_value = flag.is_some_and(|flag| flag.get_action().takes_values());
            match value {
                None if takes_value => self.pending = flag.cloned(),
                Some(value) if name == "--config" => self.config = Some(value.into()),
                _ => {}
            }
            return;
        }
        match self.command.find_subcommand(word).filter(|_| self.positional.is_empty()) {
            Some(found) => self.command = found.clone(),
            None => self.positional.push(word.to_owned()),
        }
    }

    pub(super) fn command_name(&self) -> &str {
        self.command.get_name()
    }

    pub(super) fn config(&self) -> Option<PathBuf> {
        self.config.clone()
    }

    /// The values of the flag that stands last, if it waits for one.
    pub(super) fn values_wanted(&self) -> Option<Vec<Candidate>> {
        self.pending.as_ref().map(values)
    }

    pub(super) fn flags(&self) -> Vec<Candidate> {
        let flags = self.command.get_arguments().filter(|flag| !flag.is_hide_set());
        let named = flags.filter_map(|flag| {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            Some(Candidate::new(format!("--{}", flag.get_long()?), help))
        });
        named.collect()
    }

    /// The commands that may stand here.
    pub(super) fn commands(&self) -> Vec<Candidate> {
        if !self.positional.is_empty() {
            return Vec::new();
        }
        let commands = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        let named = commands.map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            Candidate::new(command.get_name(), about)
        });
        named.collect()
    }

    /// The values that the next word may have, where they are a list.
    pub(super) fn possible_values(&self) -> Vec<Candidate> {
        self.next().map(values).unwrap_or_default()
    }

    /// Is the next word one that names a peer?
    pub(super) fn awaits_address(&self) -> bool {
        let names = |arg: &Arg| arg.get_value_names().unwrap_or_default().join("");
        self.next().is_some_and(|arg| matches!(&*names(arg), "ADDRESS" | "TARGET" | "CONNECTION"))
    }

    /// What the next word is; the last may be there many times.
    fn next(&self) -> Option<&Arg> {
        let mut positional = self.command.get_positionals();
        let last = self.command.get_positionals().last();
        let is_many = |arg: &&Arg| matches!(arg.get_action(), clap::ArgAction::Append);
        positional.nth(self.positional.len()).or_else(|| last.filter(is_many))
    }
}

fn values(of: &Arg) -> Vec<Candidate> {
    let values = of.get_possible_values();
    let help = |value: &clap::builder::PossibleValue| {
        value.get_help().map(ToString::to_string).unwrap_or_default()
    };
    values.iter().map(|value| Candidate::new(value.get_name(), help(value))).collect()
}

/// The words of a line up to the cursor, and how many bytes of the last bash has as words of their
/// own, since colons and equals signs part words there.
pub(super) fn split_by_bash(line: &str, place: usize) -> (Vec<String>, usize) {
    let line = line.get(..place).unwrap_or(line);
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut quote, mut is_word) = (None, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                is_word = true;
            }
            (None | Some('"'), '\\') => word.extend(letters.next()),
            (None, ' ' | '\t') => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (_, letter) => word.push(letter),
        }
    }
    // In quotes nothing parts words.
    let hidden = match quote {
        None => word.rfind([':', '=']).map_or(0, |at| at + 1),
        Some(_) => 0,
    };
    words.push(word);
    (words, hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_parts_words_at_colons_and_equals_signs() {
        let split = |line: &str| split_by_bash(line, line.len());
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(split("toolbus call built"), (words(&["toolbus", "call", "built"]), 0));
        assert_eq!(split("toolbus call builtin:"), (words(&["toolbus", "call", "builtin:"]), 8));
        assert_eq!(
            split("t call b: add a=1 x="),
            (words(&["t", "call", "b:", "add", "a=1", "x="]), 2)
        );
        assert_eq!(split("t 'a b' "), (words(&["t", "a b", ""]), 0));
        assert_eq!(split_by_bash("toolbus call x", 9), (words(&["toolbus", "c"]), 0));
    }
}
