//! One string names a peer everywhere: on the command line, in the config, in a scenario.
//!
//! It is read once, here, into a [`Place`]; nobody else looks at the text. Two addresses are
//! the same if they are written the same. Who may write one may start programs, so no wire
//! ever brings one in.

mod url;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use toolbus_proto::tool::Wire;

use crate::child::words::{self, WordsError};

pub use url::{Transport, Url, UrlError};

/// Names one peer, as it was written. Cheap to clone.
#[derive(Clone)]
pub struct Address(Arc<Read>);

/// An address that was read.
struct Read {
    text: String,
    place: Place,
}

/// Where a peer is, and what it speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The tools inside toolbus itself.
    Builtin,
    /// The shell, as one tool.
    Shell,
    /// A program to start, spoken to over its standard input and output.
    Command {
        /// What it speaks.
        wire: Wire,
        /// The program and its arguments; never empty.
        words: Vec<String>,
    },
    /// A socket file, for the mediocre wire.
    Unix(PathBuf),
    /// A host to connect to, or to listen on.
    Url(Url),
}

/// What an address is for, which decides on the parameters it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To reach somebody.
    Call,
    /// To be reached.
    Serve,
}

/// Wires that are not there yet.
pub(crate) const ORCHARD: Wire = Wire::new("orchard");
pub(crate) const ORCHESTRA: Wire = Wire::new("orchestra");
pub(crate) const GODEX: Wire = Wire::new("godex");

/// What stands before the command of each protocol that is spoken over pipes.
const COMMANDS: [(&str, Wire); 6] = [
    ("stdio:", toolbus_proto::oracle::WIRE),
    ("oracle+stdio:", toolbus_proto::oracle::WIRE),
    ("orchard+stdio:", ORCHARD),
    ("mcp+stdio:", toolbus_proto::mcp::WIRE),
    ("mediocre+stdio:", toolbus_proto::mediocre::WIRE),
    ("godex+stdio:", GODEX),
];
const UNIX: &str = "mediocre+unix:";
const BUILTIN: &str = "builtin:";
const SHELL: &str = "shell:";

/// What a connection string of an oracle may begin with.
const ORACLES: [&str; 3] = ["stdio:", "oracle+stdio:", SHELL];

impl Address {
    /// Reads the address of somebody to call.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        Address::parse_for(Purpose::Call, text)
    }

    /// Reads the connection string of an oracle, as a Cairo program gives it: only its own
    /// schemes, and the shell's (`specs/oracle.md` C1).
    pub fn parse_oracle(text: &str) -> Result<Address, AddressError> {
        if !ORACLES.iter().any(|scheme| text.starts_with(scheme)) {
            return Err(AddressError::NotAnOracle { text: text.to_owned() });
        }
        Address::parse(text)
    }

    /// Reads an address; its parameters are those that make sense for `purpose`.
    pub fn parse_for(purpose: Purpose, text: &str) -> Result<Address, AddressError> {
        let place = Place::parse(purpose, text)?;
        Ok(Address(Arc::new(Read { text: text.to_owned(), place })))
    }

    /// Where the peer is.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether the first word of `[ADDRESS] TOOL` is meant as an address.
    ///
    /// A scheme of two parts is one even if nobody has heard of it: `mpc+stdio:x` is a
    /// spelling mistake to be told, not a tool to be looked for.
    pub fn begins_like_one(word: &str) -> bool {
        let Some((scheme, _)) = word.split_once(':') else {
            return false;
        };
        match scheme.split_once('+') {
            Some((protocol, transport)) => [protocol, transport]
                .iter()
                .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase())),
            None => matches!(scheme, "stdio" | "builtin" | "shell"),
        }
    }

    /// What the peer is called in logs and by fronts that put names before its tools: letters,
    /// digits and `-` (`specs/mcp.md` 2.7).
    pub fn peer_name(&self) -> String {
        let name = match &self.0.place {
            Place::Builtin => "builtin",
            Place::Shell => "shell",
            Place::Command { words, .. } => program_name(words),
            Place::Unix(path) => path.to_str().map_or("unix", file_stem),
            Place::Url(url) => &url.host,
        };
        let spelled = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        name.chars().map(spelled).collect()
    }
}

impl Place {
    fn parse(purpose: Purpose, text: &str) -> Result<Place, AddressError> {
        for (scheme, wire) in COMMANDS {
            if let Some(command) = text.strip_prefix(scheme) {
                let words = words::split(command).map_err(|error| {
                    let protocol = scheme.split_once('+').map_or("oracle", |(before, _)| before);
                    AddressError::of_command(protocol, error)
                })?;
                return Ok(Place::Command { wire, words });
            }
        }
        for (scheme, place) in [(BUILTIN, Place::Builtin), (SHELL, Place::Shell)] {
            match text.strip_prefix(scheme) {
                Some("") => return Ok(place),
                Some(_) => return Err(AddressError::TooMuch { text: text.to_owned(), scheme }),
                None => {}
            }
        }
        if let Some(path) = text.strip_prefix(UNIX) {
            if path.is_empty() {
                return Err(AddressError::NoPath { text: text.to_owned() });
            }
            return Ok(Place::Unix(path.into()));
        }
        match Url::parse(purpose, text) {
            Some(Ok(url)) => Ok(Place::Url(url)),
            // What may be a password is not repeated.
            Some(Err(UrlError::UserInfo)) => {
                let scheme = text.split_inclusive("//").next().unwrap_or_default();
                Err(AddressError::Url { text: format!("{scheme}…"), why: UrlError::UserInfo })
            }
            Some(Err(why)) => Err(AddressError::Url { text: text.to_owned(), why }),
            None => Err(AddressError::Scheme { text: text.to_owned() }),
        }
    }
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

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
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
    /// It begins like no address we know.
    #[error("unsupported connection scheme: {text:?}; supported are {}", supported())]
    Scheme {
        /// The whole text.
        text: String,
    },
    /// It begins like no oracle.
    #[error("unsupported connection scheme: {text:?}; supported are {}", ORACLES.join(", "))]
    NotAnOracle {
        /// The whole text.
        text: String,
    },
    /// The command has a quote that nobody closed.
    #[error("failed to parse {protocol} command: missing closing quote")]
    MissingQuote {
        /// What the command was to speak.
        protocol: &'static str,
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
    fn of_command(protocol: &'static str, error: WordsError) -> AddressError {
        match error {
            WordsError::MissingQuote => AddressError::MissingQuote { protocol },
            WordsError::Empty => AddressError::EmptyCommand { protocol },
        }
    }
}

fn supported() -> String {
    let commands = COMMANDS.map(|(scheme, _)| scheme);
    let others = [UNIX, BUILTIN, SHELL];
    let all: Vec<&str> = commands.into_iter().chain(url::schemes()).chain(others).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests;
