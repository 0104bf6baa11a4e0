//! An unfinished command line: which command it is, and what stands behind it.

use std::path::PathBuf;

use clap::{Arg, Command};

use super::Candidate;
use crate::args::{self, groups};

/// What was typed before the word that is not finished.
pub(super) struct Line {
    command: Command,
    /// The names of the commands so far.
    pub(super) path: Vec<String>,
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
        let mut line =
            Line { command, path: Vec::new(), positional: Vec::new(), pending: None, config: None };
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
            Some(found) => {
                self.path.push(found.get_name().to_owned());
                self.command = found.clone();
            }
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

    /// The flag that stands last, if it waits for a value.
    pub(super) fn flag_wanted(&self) -> Option<&str> {
        self.pending.as_ref()?.get_long()
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
        let mut commands: Vec<_> = commands.collect();
        if self.path.is_empty() {
            let names = groups::names();
            let place = |name: &str| names.iter().position(|known| *known == name);
            commands.sort_by_key(|command| place(command.get_name()).unwrap_or(usize::MAX));
        }
        let named = commands.into_iter().map(|command| {
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

    /// May the name of a file stand where this word is?
    pub(super) fn takes_files(&self, word: &str) -> bool {
        let Some(arg) = self.pending.as_ref().or_else(|| self.next()) else { return false };
        let name = arg.get_value_names().unwrap_or_default().join("");
        match &*name {
            "FILE" | "DIR" | "FILE|DIR" | "PATH" | "RECORD" | "SOURCE" => true,
            // A program by its path, perhaps behind a scheme.
            "ADDRESS" | "TARGET" | "CONNECTION" => {
                let path = word.rsplit_once(':').map_or(word, |(_, path)| path);
                path.starts_with(['.', '/', '~']) && !path.starts_with("//")
            }
            // The value of an argument, or a file that holds it.
            "ARGUMENT" | "TOOL" => word.contains('=') || word.starts_with('@'),
            _ => false,
        }
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

/// A word without the quote that it begins with, and with what a backslash hides shown.
pub(super) fn unquoted(word: &str) -> String {
    BashLine::read(word, word.len(), "").words.pop().unwrap_or_default()
}

/// A line up to the cursor, as bash has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BashLine {
    /// The last one is not finished.
    pub(super) words: Vec<String>,
    /// How many bytes of the last bash has as words of their own.
    pub(super) hidden: usize,
    /// Has the last a quote before it that is not closed?
    pub(super) is_quoted: bool,
}

impl BashLine {
    /// `breaks` are the letters that part words there besides blanks: colons and equals signs, for
    /// two.
    pub(super) fn read(line: &str, place: usize, breaks: &str) -> BashLine {
        let line = line.get(..place).unwrap_or(line);
        let (mut words, mut word) = (Vec::new(), String::new());
        let (mut quote, mut is_word, mut hidden) = (None, false, 0);
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
                    (is_word, hidden) = (false, 0);
                }
                (_, letter) => {
                    word.push(letter);
                    // In quotes, and behind a backslash, nothing parts words.
                    if quote.is_none() && breaks.contains(letter) {
                        hidden = word.len();
                    }
                }
            }
        }
        words.push(word);
        BashLine { words, hidden, is_quoted: quote.is_some() }
    }

    /// What bash is told to put there for the last word.
    pub(super) fn insert(&self, value: &str) -> Option<String> {
        // An open quote hides the word from its beginning; what comes before it is there already.
        let rest = value.get(self.hidden..)?;
        if self.is_quoted {
            return Some(rest.to_owned());
        }
        let is_plain = |c: char| c.is_alphanumeric() || "+-_./:=@,%".contains(c) || !c.is_ascii();
        let mut inserted = String::new();
        for letter in rest.chars() {
            if !is_plain(letter) {
                inserted.push('\\');
            }
            inserted.push(letter);
        }
        Some(inserted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_parts_words_at_colons_and_equals_signs() {
        let check = |line: &str, words: &[&str], hidden: usize| {
            let read = BashLine::read(line, line.len(), "@=:");
            assert_eq!((read.words, read.hidden), (owned(words), hidden), "{line}");
        };
        check("toolbus call built", &["toolbus", "call", "built"], 0);
        check("toolbus call builtin:", &["toolbus", "call", "builtin:"], 8);
        check("t call b: add a=1 x=", &["t", "call", "b:", "add", "a=1", "x="], 2);
        check("t call x=@fi", &["t", "call", "x=@fi"], 3);
        check("t 'a b' ", &["t", "a b", ""], 0);
        check(r"t a\ b\:c", &["t", "a b:c"], 0);
        check("t 'mcp+stdio:a b", &["t", "mcp+stdio:a b"], 0);
        let read = BashLine::read("toolbus call x", 9, ":");
        assert_eq!(read.words, owned(&["toolbus", "c"]));
    }

    #[test]
    fn a_word_has_no_quotes() {
        assert_eq!(unquoted("'mcp+stdio:npx -y"), "mcp+stdio:npx -y");
        assert_eq!(unquoted(r"a\ b"), "a b");
        assert_eq!(unquoted(""), "");
    }

    #[test]
    fn files_are_proposed_where_they_can_stand() {
        let takes_files = |before: &str, word: &str| {
            let words: Vec<_> = before.split(' ').map(str::to_owned).collect();
            Line::read(&words).takes_files(word)
        };
        assert!(takes_files("toolbus --config", ""));
        assert!(takes_files("toolbus tools", "./my"));
        assert!(takes_files("toolbus tools", "stdio:./my"));
        assert!(!takes_files("toolbus tools", "http://h"));
        assert!(!takes_files("toolbus call", "files.re"));
        assert!(takes_files("toolbus orchard plan", ""));
        assert!(takes_files("toolbus call builtin: upper", "text=@no"));
        assert!(takes_files("toolbus call builtin: upper", "@no"));
        assert!(!takes_files("toolbus call builtin:", "up"));
        assert!(!takes_files("toolbus call builtin: upper", "te"));
        assert!(!takes_files("toolbus call --timeout", ""));
        assert!(!takes_files("toolbus", "x"));
        assert!(!takes_files("toolbus completions", "x"));
        assert!(!takes_files("toolbus serve", ""));
    }

    #[test]
    fn what_bash_would_part_is_escaped() {
        let insert = |line: &str, value: &str| BashLine::read(line, line.len(), ":").insert(value);
        let address = "mcp+stdio:npx -y 'a'";
        assert_eq!(insert("t mcp+stdio:n", address).unwrap(), r"npx\ -y\ \'a\'");
        assert_eq!(insert("t 'mcp+std", "mcp+stdio:npx -y").unwrap(), "mcp+stdio:npx -y");
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }
}
