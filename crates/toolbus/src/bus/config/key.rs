//! What a kind of peer may have in the config: its keys, and the values that were read for them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolbus_proto::json::Json;

use crate::address::{Address, Place, Transport};
use crate::peer::settings::Secret;

/// A key that only one kind of peer has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value may be.
    pub kind: KeyKind,
    /// Whose it is, as others are told: `oracle backs`.
    pub only_for: &'static str,
    /// Whose it is, among the peers of its kind.
    pub needs: Needs,
    /// What goes without saying, as it would be written; empty if that is nothing.
    pub default: &'static str,
    /// What it is for.
    pub doc: &'static str,
}

impl Key {
    /// A key of all peers of its kind.
    pub const fn new(
        name: &'static str,
        kind: KeyKind,
        only_for: &'static str,
        doc: &'static str,
    ) -> Key {
        Key { name, kind, only_for, needs: Needs::Nothing, default: "", doc }
    }

    /// A number of bytes, as people write it.
    pub const fn size(name: &'static str, only_for: &'static str, doc: &'static str) -> Key {
        Key::new(name, KeyKind::Size, only_for, doc)
    }

    /// The same, only for peers that are reached by a URL.
    #[must_use]
    pub const fn needs_url(self) -> Key {
        Key { needs: Needs::Url, ..self }
    }

    /// The same, only for peers that are reached over HTTP.
    #[must_use]
    pub const fn needs_http(self) -> Key {
        Key { needs: Needs::Http, ..self }
    }

    /// The same, only for peers that are reached over HTTPS.
    #[must_use]
    pub(crate) const fn needs_https(self) -> Key {
        Key { needs: Needs::Https, ..self }
    }

    /// The same with what goes without saying.
    #[must_use]
    pub const fn default(self, default: &'static str) -> Key {
        Key { default, ..self }
    }

    /// May it be said of this peer, which is of the key's kind?
    pub(super) fn applies_to(&self, address: &Address) -> bool {
        match self.needs {
            Needs::Nothing => true,
            Needs::Url => matches!(address.place(), Place::Url(_)),
            Needs::Http => match address.place() {
                Place::Url(url) => matches!(url.carrier, Transport::Http | Transport::Https),
                _ => false,
            },
            Needs::Https => match address.place() {
                Place::Url(url) => url.carrier == Transport::Https,
                _ => false,
            },
        }
    }
}

/// Which peers of a kind a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// All of them.
    Nothing,
    /// Those that are reached by a URL.
    Url,
    /// Those that are reached over HTTP.
    Http,
    /// Those that are reached over HTTPS.
    Https,
}

/// What the value of a key may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyKind {
    /// Any text.
    Text,
    /// An array of texts.
    Texts,
    /// True or false.
    Bool,
    /// A time with its unit, as in `"30s"`.
    Duration,
    /// The same, or no time at all.
    DurationOrNone,
    /// A number of bytes, or text with a unit, as in `"64KiB"`.
    Size,
    /// The same, of something that has to be held in memory.
    HeldSize,
    /// An integer above zero.
    Count,
    /// One of some words.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// The same as an error tells them: `"all" or "session"`.
        expected: &'static str,
    },
    /// A text that is never shown, may come from the environment or a file, and is not empty.
    Secret,
    /// The same, or the path of a file that holds it, which may be shown.
    SecretOrFile,
    /// A table of texts that are never shown and may come from the environment.
    Secrets,
    /// A table that is never shown, and whose texts may come from the environment.
    SecretObject,
    /// A text, or an array of them.
    OneOrMoreTexts,
    /// A text, or `false`.
    TextOrFalse,
    /// True, or a text.
    TrueOrText,
    /// A table by whose names patterns are, each with an array of texts.
    TextsByName,
    /// A table with keys of its own.
    Table(&'static [Key]),
}

/// The values that were read for the keys of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    pub(super) read: Vec<(&'static str, Value)>,
    /// The folder of the config.
    pub(super) folder: PathBuf,
}

/// What is wrong with values that are well written, each by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadValue {
    /// The key that it is about, as in `oauth.grant`; it need not be there.
    pub(crate) key: String,
    /// What is wrong, for people.
    pub(crate) message: String,
    /// What the reader can do about it.
    pub(crate) hint: Option<String>,
}

impl BadValue {
    /// One without a hint.
    pub(crate) fn new(key: impl Into<String>, message: impl Into<String>) -> BadValue {
        BadValue { key: key.into(), message: message.into(), hint: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Texts(Vec<String>),
    Bool(bool),
    Duration(Duration),
    /// A size or a count.
    Number(usize),
    Secret(Secret<String>),
    Secrets(Vec<(String, Secret<String>)>),
    SecretObject(Secret<Json>),
    TextsByName(Vec<(String, Vec<String>)>),
    Table(Values),
}

macro_rules! of_kind {
    ($($(#[$doc:meta])* $name:ident: $variant:ident -> $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self, key: &str) -> Option<$type> {
            match self.find(key)? {
                Value::$variant(value) => Some(value.clone()),
                _ => None,
            }
        }
    )*};
}

impl Values {
    of_kind! {
        /// The text, or the word that was chosen.
        text: Text -> String;
        /// The texts.
        texts: Texts -> Vec<String>;
        /// True or false.
        bool: Bool -> bool;
        /// The time.
        duration: Duration -> Duration;
        /// The size or count.
        number: Number -> usize;
        /// The secret.
        secret: Secret -> Secret<String>;
        /// The table of secrets, in the order of the file.
        secrets: Secrets -> Vec<(String, Secret<String>)>;
        /// The secret table, as JSON.
        secret_object: SecretObject -> Secret<Json>;
        /// The texts by name, in the order of the file.
        texts_by_name: TextsByName -> Vec<(String, Vec<String>)>;
        /// The values of a table.
        table: Table -> Values;
    }

    /// Is there a value of this key, or was there one that could not be read?
    pub(crate) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// What the paths of files in them are relative to.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn find(&self, key: &str) -> Option<&Value> {
        self.read.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}
