//! The keys of one table: taken one by one, by name and kind; what is left is a mistake.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Problem};
use super::key::{KeyKind, Value};
use crate::address::{Address, Purpose};
use crate::did_you_mean::nearest;
use crate::units::{self, DurationError, SizeError};
use crate::wire::Registry;

/// The text of the config, which knows its lines, and its surroundings.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    /// Where it lies: what `${file:PATH}` is relative to.
    pub(super) folder: &'a Path,
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    /// Which peers there are.
    pub(super) registry: &'a Registry,
}

impl Source<'_> {
    pub(super) fn error(&self, at: &Range<usize>, problem: Problem) -> ConfigError {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        ConfigError { line, problem: Box::new(problem) }
    }
}

/// The keys of one table that were not read yet.
pub(super) struct Keys<'a> {
    source: Source<'a>,
    /// The table, as in `back.math`; nothing for the whole file.
    path: String,
    at: Range<usize>,
    left: Vec<Entry<'a>>,
    known: Vec<&'static str>,
    /// Whose keys those asked for now are, where they are not this table's.
    foreign: Option<&'static str>,
}

/// A key and its value, with their places.
pub(super) struct Entry<'a> {
    pub(super) source: Source<'a>,
    /// The whole name, as in `back.math.timeout`.
    pub(super) path: String,
    pub(super) name: &'a str,
    key_at: Range<usize>,
    pub(super) value: &'a DeValue<'a>,
    at: Range<usize>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(
        source: Source<'a>,
        path: String,
        at: Range<usize>,
        table: &'a DeTable<'a>,
    ) -> Keys<'a> {
        let left = entries(source, &path, table);
        Keys { source, path, at, left, known: Vec::new(), foreign: None }
    }

    /// The keys asked for from here on are `whose`, and there are none if `applies` is false.
    pub(super) fn only_for(&mut self, whose: &'static str, applies: bool) {
        self.foreign = (!applies).then_some(whose);
    }

    /// Takes a key that may be absent.
    pub(super) fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Entry<'a>) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        if self.foreign.is_none() {
            self.known.push(name);
        }
        let Some(index) = self.left.iter().position(|entry| entry.name == name) else {
            return Ok(None);
        };
        let entry = self.left.remove(index);
        match self.foreign {
            None => read(&entry).map(Some),
            Some(whose) => {
                let problem = Problem::Misplaced { key: entry.path, whose };
                Err(self.source.error(&entry.key_at, problem))
            }
        }
    }

    /// Takes a key that must be there.
    pub(super) fn need<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Entry<'a>) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        let taken = self.take(name, read)?;
        taken.ok_or_else(|| {
            // It may be there, but misspelled.
            let is_near = |entry: &&Entry<'_>| nearest(entry.name, [name]).is_some();
            if let Some(entry) = self.left.iter().find(is_near) {
                let nearest = Some(name.to_owned());
                let key = entry.path.clone();
                let known = vec![name.to_owned()];
                let problem = Problem::UnknownKey { key, nearest, known };
                return self.source.error(&entry.key_at, problem);
            }
            let key = joined(&self.path, name);
            self.source.error(&self.at, Problem::Missing { key })
        })
    }

    /// Nothing may be left.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        let Some(entry) = self.left.first() else { return Ok(()) };
        let nearest = nearest(entry.name, self.known.iter().copied()).map(str::to_owned);
        let known = self.known.iter().map(ToString::to_string).collect();
        let problem = Problem::UnknownKey { key: entry.path.clone(), nearest, known };
        Err(self.source.error(&entry.key_at, problem))
    }
}

impl<'a> Entry<'a> {
    pub(super) fn error(&self, problem: Problem) -> ConfigError {
        self.source.error(&self.at, problem)
    }

    pub(super) fn key_error(&self, problem: Problem) -> ConfigError {
        self.source.error(&self.key_at, problem)
    }

    pub(super) fn wrong_type(&self, expected: &'static str) -> ConfigError {
        self.error(Problem::WrongType { key: self.path.clone(), expected })
    }

    pub(super) fn keys(&self) -> Result<Keys<'a>, ConfigError> {
        let table = self.value.as_table().ok_or_else(|| self.wrong_type("a table"))?;
        Ok(Keys::new(self.source, self.path.clone(), self.key_at.clone(), table))
    }

    /// The entries of a table whose keys are names, in the order of the file.
    pub(super) fn entries(&self) -> Result<Vec<Entry<'a>>, ConfigError> {
        let table = self.value.as_table().ok_or_else(|| self.wrong_type("a table"))?;
        Ok(entries(self.source, &self.path, table))
    }

    /// The elements of an array.
    pub(super) fn elements(&self) -> Option<Vec<Entry<'a>>> {
        let element = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| Entry {
            source: self.source,
            path: format!("{}[{index}]", self.path),
            name: self.name,
            key_at: self.key_at.clone(),
            value: value.get_ref(),
            at: value.span(),
        };
        Some(self.value.as_array()?.iter().enumerate().map(element).collect())
    }

    /// A value of this kind.
    pub(super) fn value(&self, kind: KeyKind) -> Result<Value, ConfigError> {
        Ok(match kind {
            KeyKind::Text => Value::Text(self.string()?),
            KeyKind::Texts => Value::Texts(self.strings()?),
            KeyKind::Bool => Value::Bool(self.bool()?),
            KeyKind::Duration => Value::Duration(self.duration()?),
            KeyKind::Size => Value::Number(self.size()?),
            KeyKind::HeldSize => Value::Number(self.size_by(units::held_size)?),
            KeyKind::Count => Value::Number(self.count()?),
            KeyKind::Choice { words, expected } => {
                let chosen = self.value.as_str().filter(|chosen| words.contains(chosen));
                Value::Text(chosen.ok_or_else(|| self.wrong_type(expected))?.to_owned())
            }
            KeyKind::Secret => Value::Secret(self.secret()?),
            KeyKind::Secrets => Value::Secrets(self.secrets()?),
            KeyKind::SecretObject => Value::SecretObject(self.secret_object()?),
        })
    }

    pub(super) fn string(&self) -> Result<String, ConfigError> {
        let text = self.value.as_str().ok_or_else(|| self.wrong_type("a string"))?;
        Ok(text.to_owned())
    }

    pub(super) fn path_buf(&self) -> Result<PathBuf, ConfigError> {
        self.string().map(PathBuf::from)
    }

    pub(super) fn strings(&self) -> Result<Vec<String>, ConfigError> {
        let expected = "an array of strings";
        let elements = self.elements().ok_or_else(|| self.wrong_type(expected))?;
        let string = |element: &Entry<'_>| {
            element.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong_type(expected))
        };
        elements.iter().map(string).collect()
    }

    pub(super) fn bool(&self) -> Result<bool, ConfigError> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("true or false"))
    }

    pub(super) fn duration(&self) -> Result<Duration, ConfigError> {
        self.duration_by(units::duration)
    }

    /// The same, or no time at all.
    pub(super) fn duration_or_none(&self) -> Result<Duration, ConfigError> {
        self.duration_by(units::duration_or_none)
    }

    fn duration_by(
        &self,
        read: impl FnOnce(&str) -> Result<Duration, DurationError>,
    ) -> Result<Duration, ConfigError> {
        let expected = "a time with its unit, as in \"30s\"";
        let text = self.value.as_str().ok_or_else(|| self.wrong_type(expected))?;
        let key = self.path.clone();
        let duration =
            read(text).map_err(|why| self.error(Problem::Duration { key: key.clone(), why }))?;
        if text.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
            return Err(self.error(Problem::NoUnit { key, text: text.to_owned() }));
        }
        Ok(duration)
    }

    pub(super) fn size(&self) -> Result<usize, ConfigError> {
        self.size_by(units::size)
    }

    fn size_by(
        &self,
        read: impl FnOnce(&str) -> Result<usize, SizeError>,
    ) -> Result<usize, ConfigError> {
        let expected = "a size, as in 65536 or \"64KiB\"";
        let text = match self.value {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => return Err(self.wrong_type(expected)),
        };
        read(text).map_err(|why| self.error(Problem::Size { key: self.path.clone(), why }))
    }

    pub(super) fn count(&self) -> Result<usize, ConfigError> {
        let count = self.integer().and_then(|integer| usize::try_from(integer).ok());
        count.filter(|&count| 0 < count).ok_or_else(|| self.wrong_type("an integer above zero"))
    }

    pub(super) fn integer(&self) -> Option<i64> {
        let integer = self.value.as_integer()?;
        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    pub(super) fn address(&self, purpose: Purpose) -> Result<Address, ConfigError> {
        let text = self.string()?;
        let address = self.source.registry.address(purpose, &text);
        address.map_err(|why| self.error(Problem::Address { key: self.path.clone(), why }))
    }
}

fn entries<'a>(source: Source<'a>, path: &str, table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
        let name: &'a std::borrow::Cow<'a, str> = key.get_ref();
        Entry {
            source,
            path: joined(path, name),
            name,
            key_at: key.span(),
            value: value.get_ref(),
            at: value.span(),
        }
    };
    let mut entries: Vec<_> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.key_at.start);
    entries
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
