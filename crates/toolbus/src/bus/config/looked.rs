//! A config looked at for what is wrong with it, and not to be used: all mistakes, what is likely
//! to fail, and where each of them stands. Nothing is started, opened or connected to.

use std::collections::HashMap;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::{Mistake, Problem};
use super::keys::{Fault, Faults, Source};
use super::{BackConfig, Config, tables};
use crate::address::Place;
use crate::child::EnvPolicy;
use crate::peer::Registry;
use crate::peer::open::program;

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// The config, without the tables that could not be read.
    pub config: Config,
    /// What is wrong with it, in the order of the file.
    pub mistakes: Vec<Remark>,
    /// What is likely to fail, in the order of the file.
    pub warnings: Vec<Remark>,
    /// How many tables there are below `back`.
    pub backs: usize,
    /// How many tables there are below `front`.
    pub fronts: usize,
    /// The lines of tables and of their keys, by their whole names.
    lines: HashMap<String, usize>,
}

/// One thing that is to be said of a config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remark {
    /// Where it stands, counted from one.
    pub line: Option<usize>,
    /// The key that it is about, with its whole name.
    pub key: Option<String>,
    /// What is to be said, without file and line.
    pub message: String,
    /// What the reader can do about it.
    pub hint: Option<String>,
    /// The variable that is not set, if that is it.
    pub variable: Option<String>,
}

impl Looked {
    /// Looks at the text of a file in this folder.
    pub fn at(folder: &Path, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Looked {
        let registry = Registry::default();
        let tables::ReadConfig { config, faults, missing } =
            tables::read_all(&registry, folder, text, env);
        let mut looked = Looked {
            config,
            mistakes: faults.in_order().into_iter().map(Remark::of).collect(),
            ..Looked::default()
        };
        let Ok(table) = DeTable::parse(text) else { return looked };
        let table = table.into_inner();
        looked.backs = tables_below(&table, "back");
        looked.fronts = tables_below(&table, "front");
        let (noted, lacks) = (Faults::default(), Faults::default());
        let source = Source {
            text,
            folder,
            env,
            registry: &registry,
            faults: &noted,
            lacks: &lacks,
            missing: None,
        };
        looked.lines = lines(source, &table);
        looked.warnings = missing.in_order().into_iter().map(Remark::of).collect();
        for (name, variable) in token_variables(&table) {
            let is_read = looked.config.backs.iter().any(|back| back.name == name);
            if is_read && env(&variable).is_none() {
                let key = format!("back.{name}.token_env");
                let line = looked.line_of(&key);
                let problem = Problem::Unset { key, variable };
                looked.warnings.push(Remark { line, ..Remark::about(&problem) });
            }
        }
        looked
    }

    /// Programs start in this folder, and what is said of where they do is relative to it.
    pub fn start_programs_in(&mut self, folder: &Path) {
        self.config.start_programs_in(folder);
    }

    /// Warns of programs that are not there.
    pub fn look_for_programs(&mut self) {
        let missing = |back: &BackConfig| {
            let name = missing_program(back)?;
            let key = format!("back.{}.connect", back.name);
            let place = if name.contains('/') { "" } else { " in PATH" };
            Some(Remark {
                line: self.line_of(&key),
                message: format!("`{key}`: there is no program `{name}`{place}"),
                key: Some(key),
                ..Remark::default()
            })
        };
        let missing: Vec<_> = self.config.backs.iter().filter_map(missing).collect();
        self.warnings.extend(missing);
    }

    /// The line of a key, or of the table that would have it.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        let longest = std::iter::successors(Some(key), |key| Some(key.rsplit_once('.')?.0));
        longest.into_iter().find_map(|key| self.lines.get(key).copied())
    }

    /// What is wrong is told without the line where it stands.
    pub fn forget_lines(&mut self) {
        self.lines.clear();
        let remarks = self.mistakes.iter_mut().chain(&mut self.warnings);
        remarks.for_each(|remark| remark.line = None);
    }

    /// Is something wrong with this table, or with a key in it?
    pub fn is_mistaken(&self, table: &str) -> bool {
        self.mistakes.iter().filter_map(|mistake| mistake.key.as_deref()).any(|key| {
            key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

impl Remark {
    fn of(fault: Fault) -> Remark {
        let Mistake { line, problem } = fault.mistake;
        Remark { line: Some(line), ..Remark::about(&problem) }
    }

    fn about(problem: &Problem) -> Remark {
        Remark {
            line: None,
            key: problem.key().map(str::to_owned),
            message: problem.to_string(),
            hint: problem.hint(),
            variable: match problem {
                Problem::Unset { variable, .. } => Some(variable.clone()),
                _ => None,
            },
        }
    }
}

/// The program of a back, as it names it, if there is no such file.
fn missing_program(back: &BackConfig) -> Option<String> {
    let Place::Command(words) = back.address.place() else { return None };
    let name = words.first()?;
    let pass = back.settings.program.env_pass.clone();
    let found = program(words, &back.settings, EnvPolicy::Clean { pass });
    let is_there = found.file().is_some_and(|file| file.is_file());
    (!is_there).then(|| name.clone())
}

fn tables_below(table: &DeTable<'_>, name: &str) -> usize {
    let below = table.get(name).and_then(|value| value.get_ref().as_table());
    below.map_or(0, |tables| tables.iter().count())
}

/// The variables that hold tokens of backs, by the names of these.
fn token_variables(table: &DeTable<'_>) -> Vec<(String, String)> {
    let backs = table.get("back").and_then(|backs| backs.get_ref().as_table());
    let variable = |value: &DeValue<'_>| {
        let variable = value.as_table()?.get("token_env")?.get_ref().as_str()?;
        Some(variable.to_owned())
    };
    let of = |(name, value): (_, &toml::Spanned<DeValue<'_>>)| {
        let name: &toml::Spanned<std::borrow::Cow<'_, str>> = name;
        Some((name.get_ref().to_string(), variable(value.get_ref())?))
    };
    backs.into_iter().flatten().filter_map(of).collect()
}

/// Where tables and keys stand, down to the keys of `[back.x]`.
fn lines(source: Source<'_>, table: &DeTable<'_>) -> HashMap<String, usize> {
    let mut lines = HashMap::new();
    let mut note = |path: &str, at: std::ops::Range<usize>| {
        lines.insert(path.to_owned(), source.line(&at));
    };
    for entry in super::keys::entries(source, "", table) {
        note(&entry.path, entry.key_range());
        for entry in entry.entries().unwrap_or_default() {
            note(&entry.path, entry.key_range());
            for entry in entry.entries().unwrap_or_default() {
                note(&entry.path, entry.key_range());
            }
        }
    }
    lines
}
