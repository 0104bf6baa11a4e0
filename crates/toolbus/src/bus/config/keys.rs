//! The keys of one table: taken one by one, by name and kind; what is left is a mistake.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Mistake, Problem};
use super::key::{Key, KeyKind, Value, Values};
use crate::address::{Address, Purpose};
use crate::did_you_mean::nearest;
use crate::peer::Registry;
use crate::units::{self, DurationError, SizeError};

/// The text of the config, which knows its lines, and its surroundings.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    /// Where it lies: what `${file:PATH}` is relative to.
    pub(super) folder: &'a Path,
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    /// Which peers there are.
    pub(super) registry: &'a Registry,
    /// What is wrong so far.
    pub(super) faults: &'a Faults,
    /// What single backs ask for and is not there.
    pub(super) lacks: &'a Faults,
    /// The same of the back that is read, where that is no mistake of the config.
    pub(super) missing: Option<&'a Faults>,
}

impl Source<'_> {
    pub(super) fn fault(&self, at: &Range<usize>, problem: Problem) -> Fault {
        let mistake = Mistake { line: self.line(at), problem: Box::new(problem) };
        Fault { at: at.start, mistake }
    }

    /// The line of a place, counted from one.
    pub(super) fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        before.bytes().filter(|&byte| byte == b'\n').count() + 1
    }
}

/// A mistake, and its place to the byte: two of one line are told in their order.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) mistake: Mistake,
}

/// Mistakes that reading goes on after, so that all are told at once.
#[derive(Default)]
pub(super) struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    pub(super) fn note(&self, fault: Fault) {
        self.0.borrow_mut().push(fault);
    }

    /// What was read; `None` if that is a mistake, which is noted.
    pub(super) fn noted<T>(&self, read: Result<T, Fault>) -> Option<T> {
        read.map_err(|fault| self.note(fault)).ok()
    }

    /// All of them, in the order of the file.
    pub(super) fn in_order(self) -> Vec<Fault> {
        let mut faults = self.0.into_inner();
        faults.sort_by_key(|fault| fault.at);
        faults
    }

    /// What each is about, in the order in which they were noted.
    pub(super) fn problems(&self) -> Vec<Problem> {
        self.0.borrow().iter().map(|fault| Problem::clone(&fault.mistake.problem)).collect()
    }

    pub(super) fn finish(self) -> Result<(), ConfigError> {
        let faults = self.in_order();
        match faults.is_empty() {
            true => Ok(()),
            false => {
                let mistakes = faults.into_iter().map(|fault| fault.mistake).collect();
                Err(ConfigError { mistakes })
            }
        }
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
    /// Keys that it may have, or may not.
    passed_over: Vec<&'static str>,
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
    /// Where the config lies.
    pub(super) fn folder(&self) -> &'a Path {
        self.source.folder
    }

    pub(super) fn new(
        source: Source<'a>,
        path: String,
        at: Range<usize>,
        table: &'a DeTable<'a>,
    ) -> Keys<'a> {
        let left = entries(source, &path, table);
        let (known, passed_over) = (Vec::new(), Vec::new());
        Keys { source, path, at, left, known, passed_over, foreign: None }
    }

    /// The keys asked for from here on are `whose`, and there are none if `applies` is false.
    pub(super) fn only_for(&mut self, whose: &'static str, applies: bool) {
        self.foreign = (!applies).then_some(whose);
    }

    /// Takes a key that may be absent, or be a mistake, which is noted.
    pub(super) fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Entry<'a>) -> Result<T, Fault>,
    ) -> Option<T> {
        self.taken(name, read)?
    }

    /// Takes a key; `Some(None)` if it is there and a mistake.
    fn taken<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Entry<'a>) -> Result<T, Fault>,
    ) -> Option<Option<T>> {
        if self.foreign.is_none() {
            self.known.push(name);
        }
        let entry = self.removed(name)?;
        let read = match self.foreign {
            None => read(&entry),
            Some(whose) => {
                let problem = Problem::Misplaced { key: entry.path, whose };
                Err(self.source.fault(&entry.key_at, problem))
            }
        };
        Some(self.source.faults.noted(read))
    }

    /// Takes a key that must be there; `None` if it is not, or is a mistake, which is noted.
    pub(super) fn need<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Entry<'a>) -> Result<T, Fault>,
    ) -> Option<T> {
        if let Some(taken) = self.taken(name, read) {
            return taken;
        }
        // It may be there, but misspelled.
        let is_near = |entry: &Entry<'_>| nearest(entry.name, [name]).is_some();
        let fault = match self.left.iter().position(is_near) {
            Some(index) => {
                let entry = self.left.remove(index);
                let (nearest, known) = (Some(name.to_owned()), vec![name.to_owned()]);
                let problem = Problem::UnknownKey { key: entry.path, nearest, known };
                self.source.fault(&entry.key_at, problem)
            }
            None => {
                let key = joined(&self.path, name);
                self.source.fault(&self.at, Problem::Missing { key })
            }
        };
        self.source.faults.note(fault);
        None
    }

    /// Leaves these keys alone: whether they are right cannot be said.
    pub(super) fn pass_over(&mut self, names: impl Iterator<Item = &'static str>) {
        for name in names {
            self.removed(name);
            self.passed_over.push(name);
        }
    }

    fn removed(&mut self, name: &str) -> Option<Entry<'a>> {
        let index = self.left.iter().position(|entry| entry.name == name)?;
        Some(self.left.remove(index))
    }

    /// Nothing may be left.
    pub(super) fn finish(self) {
        for entry in self.left {
            let names = self.known.iter().chain(&self.passed_over).copied();
            let nearest = nearest(entry.name, names).map(str::to_owned);
            let known = self.known.iter().map(ToString::to_string).collect();
            let problem = Problem::UnknownKey { key: entry.path, nearest, known };
            self.source.faults.note(self.source.fault(&entry.key_at, problem));
        }
    }
}

impl<'a> Entry<'a> {
    pub(super) fn fault(&self, problem: Problem) -> Fault {
        self.source.fault(&self.at, problem)
    }

    pub(super) fn key_fault(&self, problem: Problem) -> Fault {
        self.source.fault(&self.key_at, problem)
    }

    pub(super) fn wrong_type(&self, expected: &'static str) -> Fault {
        self.fault(Problem::WrongType { key: self.path.clone(), expected })
    }

    pub(super) fn keys(&self) -> Result<Keys<'a>, Fault> {
        let table = self.value.as_table().ok_or_else(|| self.wrong_type("a table"))?;
        Ok(Keys::new(self.source, self.path.clone(), self.key_at.clone(), table))
    }

    /// The entries of a table whose keys are names, in the order of the file.
    pub(super) fn entries(&self) -> Result<Vec<Entry<'a>>, Fault> {
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

    /// Where its key stands, from its first byte to its last.
    pub(super) fn key_range(&self) -> Range<usize> {
        self.key_at.clone()
    }

    /// Where its key stands.
    pub(super) fn start(&self) -> usize {
        self.key_at.start
    }

    /// The same value, called otherwise.
    pub(super) fn called(&self, path: &str) -> Entry<'a> {
        let Entry { source, name, value, .. } = *self;
        let (key_at, at) = (self.key_at.clone(), self.at.clone());
        Entry { source, path: path.to_owned(), name, key_at, value, at }
    }

    /// The same, where something may be missing that the environment or a file should have.
    pub(super) fn lacking<'b>(&'b self, missing: &'b Faults) -> Entry<'b> {
        let (path, name, key_at, at) = (self.path.clone(), self.name, &self.key_at, &self.at);
        let (key_at, at) = (key_at.clone(), at.clone());
        let source = Source { missing: Some(missing), ..self.source };
        Entry { source, path, name, key_at, value: self.value, at }
    }

    /// A value of this kind.
    pub(super) fn value(&self, kind: KeyKind) -> Result<Value, Fault> {
        Ok(match kind {
            KeyKind::Text => Value::Text(self.string()?),
            KeyKind::Texts => Value::Texts(self.strings()?),
            KeyKind::Bool => Value::Bool(self.bool()?),
            KeyKind::Duration => Value::Duration(self.duration()?),
            KeyKind::DurationOrNone => Value::Duration(self.duration_or_none()?),
            KeyKind::Size => Value::Number(self.size()?),
            KeyKind::HeldSize => Value::Number(self.size_by(units::held_size)?),
            KeyKind::Count => Value::Number(self.count()?),
            KeyKind::Choice { words, expected } => {
                let chosen = self.value.as_str().filter(|chosen| words.contains(chosen));
                Value::Text(chosen.ok_or_else(|| self.wrong_type(expected))?.to_owned())
            }
            KeyKind::Secret => Value::Secret(self.secret()?),
            KeyKind::SecretOrFile => Value::Secret(self.secret_or_file()?),
            KeyKind::Secrets => Value::Secrets(self.secrets()?),
            KeyKind::SecretObject => Value::SecretObject(self.secret_object()?),
            KeyKind::OneOrMoreTexts => Value::Texts(self.one_or_more()?),
            KeyKind::TextOrFalse => match self.value.as_bool() {
                Some(false) => Value::Bool(false),
                Some(true) => return Err(self.wrong_type("false or a string")),
                None => {
                    Value::Text(self.string().map_err(|_| self.wrong_type("false or a string"))?)
                }
            },
            KeyKind::TrueOrText => match self.value.as_bool() {
                Some(is_true) => Value::Bool(is_true),
                None => {
                    Value::Text(self.string().map_err(|_| self.wrong_type("true or a string"))?)
                }
            },
            KeyKind::TextsByName => {
                let texts = |entry: &Entry<'_>| {
                    let texts = self.source.faults.noted(entry.strings())?;
                    Some((entry.name.to_owned(), texts))
                };
                Value::TextsByName(self.entries()?.iter().filter_map(texts).collect())
            }
            KeyKind::Table(keys) => Value::Table(self.table(keys)?),
        })
    }

    /// The values of a table that has these keys and no others.
    fn table(&self, known: &'static [Key]) -> Result<Values, Fault> {
        let mut keys = self.keys()?;
        let mut values = Values { folder: keys.folder().to_owned(), ..Values::default() };
        for key in known {
            if let Some(value) = keys.take(key.name, |entry| entry.value(key.kind)) {
                values.read.push((key.name, value));
            }
        }
        keys.finish();
        Ok(values)
    }

    /// A string, or an array of them.
    pub(super) fn one_or_more(&self) -> Result<Vec<String>, Fault> {
        match self.value.as_str() {
            Some(text) => Ok(vec![text.to_owned()]),
            None => {
                let expected = "a string or an array of strings";
                self.strings().map_err(|_| self.wrong_type(expected))
            }
        }
    }

    /// A key below this table, as in `oauth.grant`, or the nearest that is there.
    pub(super) fn fault_below(&self, key: &str, problem: Problem) -> Fault {
        let (first, rest) = match key.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (key, None),
        };
        let entries = self.entries().unwrap_or_default();
        match (entries.iter().find(|entry| entry.name == first), rest) {
            (Some(entry), Some(rest)) => entry.fault_below(rest, problem),
            (Some(entry), None) => entry.key_fault(problem),
            (None, _) => self.key_fault(problem),
        }
    }

    pub(super) fn string(&self) -> Result<String, Fault> {
        let text = self.value.as_str().ok_or_else(|| self.wrong_type("a string"))?;
        Ok(text.to_owned())
    }

    pub(super) fn path_buf(&self) -> Result<PathBuf, Fault> {
        self.string().map(PathBuf::from)
    }

    pub(super) fn strings(&self) -> Result<Vec<String>, Fault> {
        let expected = "an array of strings";
        let elements = self.elements().ok_or_else(|| self.wrong_type(expected))?;
        let string = |element: &Entry<'_>| {
            element.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong_type(expected))
        };
        elements.iter().map(string).collect()
    }

    pub(super) fn bool(&self) -> Result<bool, Fault> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("true or false"))
    }

    pub(super) fn duration(&self) -> Result<Duration, Fault> {
        self.duration_by(units::duration)
    }

    /// The same, or no time at all.
    pub(super) fn duration_or_none(&self) -> Result<Duration, Fault> {
        self.duration_by(units::duration_or_none)
    }

    fn duration_by(
        &self,
        read: impl FnOnce(&str) -> Result<Duration, DurationError>,
    ) -> Result<Duration, Fault> {
        let expected = "a time with its unit, as in \"30s\"";
        let text = self.value.as_str().ok_or_else(|| self.wrong_type(expected))?;
        let key = self.path.clone();
        let duration =
            read(text).map_err(|why| self.fault(Problem::Duration { key: key.clone(), why }))?;
        if text.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
            return Err(self.fault(Problem::NoUnit { key, text: text.to_owned() }));
        }
        Ok(duration)
    }

    pub(super) fn size(&self) -> Result<usize, Fault> {
        self.size_by(units::size)
    }

    fn size_by(&self, read: impl FnOnce(&str) -> Result<usize, SizeError>) -> Result<usize, Fault> {
        let expected = "a size, as in 65536 or \"64KiB\"";
        let text = match self.value {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => return Err(self.wrong_type(expected)),
        };
        read(text).map_err(|why| self.fault(Problem::Size { key: self.path.clone(), why }))
    }

    pub(super) fn count(&self) -> Result<usize, Fault> {
        let count = self.integer().and_then(|integer| usize::try_from(integer).ok());
        count.filter(|&count| 0 < count).ok_or_else(|| self.wrong_type("an integer above zero"))
    }

    pub(super) fn integer(&self) -> Option<i64> {
        let integer = self.value.as_integer()?;
        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    pub(super) fn address(&self, purpose: Purpose) -> Result<Address, Fault> {
        let text = self.string()?;
        let address = self.source.registry.address(purpose, &text);
        address.map_err(|why| self.fault(Problem::Address { key: self.path.clone(), why }))
    }
}

pub(super) fn entries<'a>(
    source: Source<'a>,
    path: &str,
    table: &'a DeTable<'a>,
) -> Vec<Entry<'a>> {
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
