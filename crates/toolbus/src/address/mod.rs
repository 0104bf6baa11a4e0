//! One string names a peer everywhere: on the command line, in the config, in a scenario.
//!
//! It is read once, here, into a [`Place`] and the [kind of peer](PeerKind) that is there; no
//! other module looks at the text. Which addresses there are is said by the [`Registry`]. Two addresses are
//! the same if they are written the same. Who may write one may start programs, so no wire
//! ever brings one in.

mod meant;
mod scheme;
mod url;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use toolbus_proto::tool::Wire;

use crate::child::words::{self, WordsError};
use crate::local::builtin::BUILTIN;
use crate::peer::{PeerKind, Registry};
use crate::secrets;

pub use scheme::{Form, Query, Scheme, UrlForm};
pub use url::{Transport, Url, UrlError};

/// Names one peer, as it was written. Cheap to clone.
#[derive(Clone)]
pub struct Address(Arc<Read>);

/// An address that was read.
struct Read {
    text: String,
    kind: &'static dyn PeerKind,
    /// How it begins; a command may have none.
    scheme: Option<&'static Scheme>,
    place: Place,
}

/// Where a peer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this process.
    Inside,
    /// A program to start, spoken to over its standard input and output: its name and its
    /// arguments; never empty.
    Command(Vec<String>),
    /// A socket file.
    Unix(PathBuf),
    /// A host to connect to, or to listen on.
    Url(Url),
}

/// What an address is for, which decides on the parameters it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To reach a peer.
    Call,
    /// To be reached.
    Serve,
}

impl Address {
    /// Reads the address of a peer to call.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        Address::parse_for(Purpose::Call, text)
    }

    /// Reads an address; its parameters are those that make sense for `purpose`.
    pub fn parse_for(purpose: Purpose, text: &str) -> Result<Address, AddressError> {
        Registry::default().address(purpose, text)
    }

    pub(crate) fn read(
        registry: &Registry,
        purpose: Purpose,
        text: &str,
    ) -> Result<Address, AddressError> {
        let begins = |scheme: &&Scheme| text.starts_with(scheme.prefix);
        let found = registry.kinds().find_map(|kind| {
            let scheme = kind.schemes().iter().find(begins)?;
            Some((kind, scheme))
        });
        let Some((kind, scheme)) = found else {
            if let Some(address) = Address::read_command(registry, purpose, text)? {
                return Ok(address);
            }
            // What may be a password is not repeated.
            let text = match text.contains("://") {
                true => url::without_values(text).into_owned(),
                false => text.to_owned(),
            };
            if let Some(wire) = registry.left_out(&text) {
                return Err(AddressError::NotInThisBuild { text, wire });
            }
            let (listed, hint) = (meant::listed(registry), meant::hint(registry, purpose, &text));
            return Err(AddressError::Scheme { text, listed, hint });
        };
        let place = Place::read(kind, scheme, purpose, text)?;
        if let Place::Url(Url { path, parameters, .. }) = &place
            && parameters.is_empty()
        {
            url::query_values(path).for_each(|value| secrets::hide_if_long(&value));
        }
        let (text, scheme) = (text.to_owned(), Some(scheme));
        Ok(Address(Arc::new(Read { text, kind, scheme, place })))
    }

    /// Reads a command that has no scheme, where the registry finds out what such programs speak.
    fn read_command(
        registry: &Registry,
        purpose: Purpose,
        text: &str,
    ) -> Result<Option<Address>, AddressError> {
        let is_scheme = registry.kinds().flat_map(PeerKind::schemes).any(|s| s.name() == text);
        let kind = registry.kinds().find(|kind| kind.is_found_out());
        let Some(kind) = kind.filter(|_| !is_scheme && is_command(purpose, text)) else {
            return Ok(None);
        };
        let place = match words::split(text) {
            Ok(words) => Place::Command(words),
            Err(WordsError::MissingQuote) => {
                return Err(AddressError::OpenQuote { text: text.to_owned() });
            }
            Err(WordsError::Empty) => return Ok(None),
        };
        Ok(Some(Address(Arc::new(Read { text: text.to_owned(), kind, scheme: None, place }))))
    }

    /// Must be found out what is spoken there?
    pub fn is_bare(&self) -> bool {
        self.0.kind.is_found_out()
    }

    /// What kind of peer is there.
    pub fn kind(&self) -> &'static dyn PeerKind {
        self.0.kind
    }

    /// What is spoken there.
    pub fn wire(&self) -> Wire {
        self.0.kind.wire()
    }

    /// What it begins with, e.g. `mcp+http://`; nothing where that is a command.
    pub fn scheme(&self) -> &'static str {
        self.0.scheme.map_or("", |scheme| scheme.prefix)
    }

    /// Stands for a back that is no peer but a part of this program; its name is all there is.
    pub(crate) fn inside(name: &str) -> Address {
        let (text, place) = (name.to_owned(), Place::Inside);
        Address(Arc::new(Read { text, kind: &BUILTIN, scheme: None, place }))
    }

    /// Where the peer is.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The address as it was written, with the secrets that may stand in the query of a peer's
    /// own. As people see it, it is its [`Display`](fmt::Display).
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether the first word of `[ADDRESS] TOOL` is meant as an address.
    ///
    /// A scheme of two parts is one even if no wire has it: `mpc+stdio:x` is a
    /// spelling mistake to be told, not a tool to be looked for.
    pub fn begins_like_one(word: &str) -> bool {
        meant::begins_like_one(&Registry::default(), word)
    }

    /// What the peer is called in logs and by fronts that put names before its tools: letters,
    /// digits and `-` (`docs/protocols/mcp.md` 2.7).
    pub fn peer_name(&self) -> String {
        let name = match &self.0.place {
            Place::Inside => self.0.kind.name(),
            Place::Command(words) => program_name(words),
            Place::Unix(path) => path.to_str().map_or("unix", file_stem),
            Place::Url(url) => &url.host,
        };
        let spelled = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        name.chars().map(spelled).collect()
    }
}

impl Place {
    /// Reads an address that begins with the scheme of this kind.
    fn read(
        kind: &'static dyn PeerKind,
        scheme: &'static Scheme,
        purpose: Purpose,
        text: &str,
    ) -> Result<Place, AddressError> {
        let rest = &text[scheme.prefix.len()..];
        match &scheme.form {
            Form::Command => {
                let words = words::split(rest);
                let words = words.map_err(|error| AddressError::of_command(kind.name(), error))?;
                Ok(Place::Command(words))
            }
            Form::Alone if rest.is_empty() => Ok(Place::Inside),
            Form::Alone => {
                Err(AddressError::TooMuch { text: text.to_owned(), scheme: scheme.prefix })
            }
            Form::Unix if rest.is_empty() => Err(AddressError::NoPath { text: text.to_owned() }),
            Form::Unix => Ok(Place::Unix(rest.into())),
            Form::Url(form) => match Url::parse(form, purpose, rest) {
                Ok(url) => Ok(Place::Url(url)),
                // What may be a password is not repeated.
                Err(why @ (UrlError::UserInfo | UrlError::Credentials { .. })) => {
                    let text = format!("{}…", scheme.prefix);
                    Err(AddressError::Url { text, why })
                }
                Err(why) => {
                    let text = match form.query.known(purpose) {
                        None => url::without_values(text).into_owned(),
                        Some(_) => text.to_owned(),
                    };
                    Err(AddressError::Url { text, why })
                }
            },
        }
    }
}

/// The scheme that a word is spelled like, if one is near.
pub(crate) fn near_scheme(word: &str) -> Option<&'static str> {
    meant::near_scheme(&Registry::default(), word)
}

/// The file name of what is run; an interpreter only lends its hands.
fn program_name(words: &[String]) -> &str {
    let program = words.first().map_or("", |program| file_stem(program));
    let script = words.iter().skip(1).find(|word| !word.starts_with('-'));
    match script {
        Some(script) if is_interpreter(program) => file_stem(script),
        _ => program,
    }
}

fn is_interpreter(program: &str) -> bool {
    // `python3` and `python3.12` are the same hands.
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    const INTERPRETERS: [&str; 14] = [
        "bash", "bun", "bunx", "dash", "node", "npx", "perl", "php", "pypy", "python", "ruby",
        "sh", "uvx", "zsh",
    ];
    INTERPRETERS.contains(&name)
}

/// The last part of a path, without its extension.
fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path);
    match name.rsplit_once('.') {
        // The number behind `python3.12` is no extension, and `.hidden` has none.
        Some((stem, extension)) if !stem.is_empty() && !is_number(extension) => stem,
        _ => name,
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Address {
    /// Without what may be a secret: values in a query that is the peer's own. Parameters of
    /// ours are names of files.
    fn shown(&self) -> Cow<'_, str> {
        match &self.0.place {
            Place::Url(url) if url.path.contains('?') => url::without_values(self.as_str()),
            _ => Cow::Borrowed(self.as_str()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Address) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Address {}

/// Why some text is no address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// It begins like no address there is.
    #[error("unsupported connection scheme: {text:?}{listed}")]
    Scheme {
        /// The whole text.
        text: String,
        /// How it might begin, if that is soon said.
        listed: String,
        /// What was probably meant.
        hint: Option<String>,
    },
    /// It is of a wire that was left out when this program was built.
    #[error("`{text}` cannot be reached: the wire `{wire}` is not in this build")]
    NotInThisBuild {
        /// The whole text.
        text: String,
        /// The wire's name, which is that of its feature too.
        wire: &'static str,
    },
    /// It is the address of a peer that speaks another wire.
    #[error("`{text}` is no {wanted}")]
    OtherWire {
        /// The whole text.
        text: String,
        /// What it was to be: `mediocre-rpc server`.
        wanted: &'static str,
        /// How one is named.
        hint: &'static str,
    },
    /// The command has a quote that is not closed.
    #[error("failed to parse {protocol} command: missing closing quote")]
    MissingQuote {
        /// What the command was to speak.
        protocol: &'static str,
    },
    /// The same of a command that has no scheme.
    #[error("the command `{text}` has a quote that is not closed")]
    OpenQuote {
        /// The whole text.
        text: String,
    },
    /// There is no command at all.
    #[error("empty {protocol} command")]
    EmptyCommand {
        /// What the command was to speak.
        protocol: &'static str,
    },
    /// Something stands behind a scheme that is complete by itself.
    #[error("`{text}` is no address: nothing may stand behind `{scheme}`")]
    TooMuch {
        /// The whole text.
        text: String,
        /// What would be enough.
        scheme: &'static str,
    },
    /// A socket without a path.
    #[error("`{text}` is no address: the path of the socket is missing")]
    NoPath {
        /// The whole text.
        text: String,
    },
    /// A URL that makes no sense.
    #[error("`{text}` is no address: {why}")]
    Url {
        /// The whole text.
        text: String,
        /// What is wrong with it.
        why: UrlError,
    },
}

impl AddressError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            AddressError::Scheme { hint, .. } => hint.clone(),
            AddressError::NotInThisBuild { wire, .. } => {
                Some(format!("build toolbus with the feature `{wire}`"))
            }
            AddressError::OtherWire { hint, .. }
            | AddressError::Url { why: UrlError::Credentials { hint }, .. } => {
                Some((*hint).to_owned())
            }
            _ => None,
        }
    }

    fn of_command(protocol: &'static str, error: WordsError) -> AddressError {
        match error {
            WordsError::MissingQuote => AddressError::MissingQuote { protocol },
            WordsError::Empty => AddressError::EmptyCommand { protocol },
        }
    }
}

#[cfg(test)]
mod tests;

/// May this text be a command without a scheme?
fn is_command(purpose: Purpose, text: &str) -> bool {
    let first = text.split([' ', '\t', '\n']).next().unwrap_or_default();
    let program = first.split('/').next().unwrap_or_default();
    purpose == Purpose::Call && !first.is_empty() && !program.contains(':')
}
