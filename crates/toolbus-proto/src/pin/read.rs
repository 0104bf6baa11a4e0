//! Reads a lock file. All of it is checked before any of it is used: a definition that does not
//! fit its digest was changed by hand.

use std::ops::Range;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::definition::{Definition, Held, KEYS, Layouts, PinKind, Shape, compact};
use super::digest::Digest;
use super::lock::{Lock, Pinned, Visible};
use super::value::JsonTree;

/// The largest file that is read.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// Why a lock file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct LockError {
    /// Counted from one.
    pub line: usize,
    /// What is wrong there.
    pub problem: LockProblem,
}

/// What can be wrong with a lock file. Names are whole, as in `back.weather.tool.forecast`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum LockProblem {
    #[error("not TOML: {message}")]
    Syntax { message: String },
    #[error("there is no key `{key}`")]
    UnknownKey { key: String },
    #[error("`{key}` is missing")]
    Missing { key: String },
    #[error("`{key}` must be {expected}")]
    WrongType { key: String, expected: &'static str },
    #[error("`{key}` is no JSON")]
    NotJson { key: String },
    #[error("`{key}` does not fit its digest")]
    Digest { key: String },
    #[error("it is larger than {} MiB", BYTES_MAX >> 20)]
    TooLarge,
}

impl Lock {
    /// Reads what [`Lock::write`] has written; `layouts` gives those of a wire by its name.
    pub fn read(text: &str, layouts: &dyn Fn(&str) -> Layouts) -> Result<Lock, LockError> {
        if BYTES_MAX < text.len() {
            return Err(LockError { line: 1, problem: LockProblem::TooLarge });
        }
        // As a checkout on another system has it.
        let unified;
        let text = match text.contains("\r\n") {
            true => {
                unified = text.replace("\r\n", "\n");
                &unified
            }
            false => text,
        };
        let reader = LockReader { text, layouts };
        let table = DeTable::parse(text).map_err(|error| {
            let problem = LockProblem::Syntax { message: error.message().to_owned() };
            reader.error(&error.span().unwrap_or(0..0), problem)
        })?;
        reader.lock(table.get_ref())
    }
}

struct LockReader<'a> {
    text: &'a str,
    layouts: &'a dyn Fn(&str) -> Layouts,
}

/// A key with its value, and where it stands.
struct TableEntry<'a> {
    path: String,
    name: &'a str,
    at: Range<usize>,
    value: &'a DeValue<'a>,
}

impl LockReader<'_> {
    fn error(&self, at: &Range<usize>, problem: LockProblem) -> LockError {
        let before = self.text.as_bytes().get(..at.start).unwrap_or_default();
        LockError { line: 1 + memchr::memchr_iter(b'\n', before).count(), problem }
    }

    fn wrong(&self, entry: &TableEntry<'_>, expected: &'static str) -> LockError {
        let problem = LockProblem::WrongType { key: entry.path.clone(), expected };
        self.error(&entry.at, problem)
    }

    fn unknown(&self, entry: &TableEntry<'_>) -> LockError {
        self.error(&entry.at, LockProblem::UnknownKey { key: entry.path.clone() })
    }

    fn lock(&self, table: &DeTable<'_>) -> Result<Lock, LockError> {
        let mut lock = Lock::default();
        let mut is_versioned = false;
        for entry in entries("", table) {
            match entry.name {
                "version" => {
                    let integer = entry.value.as_integer();
                    if integer
                        .is_none_or(|integer| integer.radix() != 10 || integer.as_str() != "1")
                    {
                        return Err(self.wrong(&entry, "1, all that this toolbus reads"));
                    }
                    is_versioned = true;
                }
                "back" => {
                    for back in self.tables(&entry)? {
                        lock.backs.insert(back.name.to_owned(), self.back(&back)?);
                    }
                }
                _ => return Err(self.unknown(&entry)),
            }
        }
        match is_versioned {
            true => Ok(lock),
            false => Err(self.error(&(0..0), LockProblem::Missing { key: "version".to_owned() })),
        }
    }

    fn tables<'a>(&self, entry: &TableEntry<'a>) -> Result<Vec<TableEntry<'a>>, LockError> {
        let table = entry.value.as_table().ok_or_else(|| self.wrong(entry, "a table"))?;
        Ok(entries(&entry.path, table))
    }

    fn text(&self, entry: &TableEntry<'_>) -> Result<String, LockError> {
        let text = entry.value.as_str().ok_or_else(|| self.wrong(entry, "a string"))?;
        Ok(text.to_owned())
    }

    fn json(&self, entry: &TableEntry<'_>) -> Result<String, LockError> {
        let text = self.text(entry)?;
        match JsonTree::parse(&text) {
            Ok(value) => Ok(compact(&value)),
            Err(_) => Err(self.error(&entry.at, LockProblem::NotJson { key: entry.path.clone() })),
        }
    }

    fn digest(&self, entry: &TableEntry<'_>) -> Result<Digest, LockError> {
        Digest::read(&self.text(entry)?)
            .ok_or_else(|| self.wrong(entry, "`sha256:` and 64 hexadecimal digits"))
    }

    fn missing(&self, of: &TableEntry<'_>, key: &str) -> LockError {
        self.error(&of.at, LockProblem::Missing { key: format!("{}.{key}", of.path) })
    }

    fn back(&self, back: &TableEntry<'_>) -> Result<Pinned, LockError> {
        let all = self.tables(back)?;
        let wire = all.iter().find(|entry| entry.name == "wire");
        let wire =
            wire.ok_or_else(|| self.missing(back, "wire")).and_then(|wire| self.text(wire))?;
        let layouts = (self.layouts)(&wire);
        let mut pinned = Pinned { wire, ..Pinned::default() };
        let (mut digest, mut connect) = (None, None);
        for entry in &all {
            match entry.name {
                "connect" => connect = Some(self.text(entry)?),
                "wire" => {}
                "era" | "server_name" | "server_version" | "program" | "program_sha256"
                | "package" | "package_version" => {
                    pinned.noted.set(entry.name, self.text(entry)?);
                }
                "resources" => {
                    let said = self.text(entry)?;
                    if said != "none" && said != "some" {
                        return Err(self.wrong(entry, "\"none\" or \"some\""));
                    }
                    pinned.resources = Some(said);
                }
                "capabilities" => pinned.capabilities = Some(self.json(entry)?),
                "digest" => digest = Some(self.digest(entry)?),
                "legacy" => {
                    let mut legacy = Visible::default();
                    for entry in self.tables(entry)? {
                        self.shown(&entry, &layouts, &mut legacy)?;
                    }
                    pinned.legacy = Some(legacy).filter(|legacy| !legacy.is_empty());
                }
                _ => self.shown(entry, &layouts, &mut pinned.shown)?,
            }
        }
        pinned.connect = connect.ok_or_else(|| self.missing(back, "connect"))?;
        let digest = digest.ok_or_else(|| self.missing(back, "digest"))?;
        if digest != pinned.digest() {
            return Err(self.error(&back.at, LockProblem::Digest { key: back.path.clone() }));
        }
        Ok(pinned)
    }

    fn shown(
        &self,
        entry: &TableEntry<'_>,
        layouts: &Layouts,
        shown: &mut Visible,
    ) -> Result<(), LockError> {
        if entry.name == "instructions" {
            shown.instructions = Some(self.text(entry)?);
            return Ok(());
        }
        let kind = PinKind::ALL.into_iter().find(|kind| kind.as_str() == entry.name);
        let kind = kind.ok_or_else(|| self.unknown(entry))?;
        for entry in self.tables(entry)? {
            let definition = self.definition(&entry, kind, layouts)?;
            shown.of_mut(kind).insert(definition.name.clone(), definition);
        }
        Ok(())
    }

    fn definition(
        &self,
        of: &TableEntry<'_>,
        kind: PinKind,
        layouts: &Layouts,
    ) -> Result<Definition, LockError> {
        let layout = layouts.of(kind);
        let (mut digest, mut members) = (None, Vec::new());
        for entry in self.tables(of)? {
            if entry.name == "digest" {
                digest = Some(self.digest(&entry)?);
                continue;
            }
            let known = KEYS.iter().find(|(key, _)| *key == entry.name);
            let is_of_layout = |key: &str| {
                key == super::definition::MORE || layout.members.iter().any(|(own, ..)| *own == key)
            };
            let Some((key, shape)) = known.filter(|(key, _)| is_of_layout(key)) else {
                return Err(self.unknown(&entry));
            };
            let held = match shape {
                Shape::Text => Held::Text(self.text(&entry)?),
                Shape::Json => Held::Json(self.json(&entry)?),
            };
            members.push((*key, held));
        }
        let digest = digest.ok_or_else(|| self.missing(of, "digest"))?;
        let definition = Definition::held(layout, of.name.to_owned(), members);
        match digest == definition.digest {
            true => Ok(definition),
            false => Err(self.error(&of.at, LockProblem::Digest { key: of.path.clone() })),
        }
    }
}

fn entries<'a>(path: &str, table: &'a DeTable<'a>) -> Vec<TableEntry<'a>> {
    let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
        let name: &'a std::borrow::Cow<'a, str> = key.get_ref();
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{name}");
        TableEntry { path, name, at: key.span(), value: value.get_ref() }
    };
    let mut entries: Vec<_> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.at.start);
    entries
}
