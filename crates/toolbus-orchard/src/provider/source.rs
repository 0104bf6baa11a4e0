//! Where a provider comes from: what stands behind `source`.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toolbus::address::{Place, Purpose};
use toolbus::peer::Registry;
use toolbus::wire::orchard::WIRE;
use toolbus::{Address, AddressError, Wire};

use crate::builtin;

/// How the source of a program begins.
const EXEC: &str = "exec:";

/// Where a provider comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderSource {
    /// Toolbus itself has it, under this name.
    Builtin(String),
    /// A program that speaks Orchard on its standard streams.
    Program {
        /// The program and its arguments.
        words: Vec<String>,
        /// Where it runs, if not where we do.
        cwd: Option<PathBuf>,
    },
    /// Another peer, whose tools are actions.
    Address(Address),
}

/// Why a source is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// There is no such built-in provider.
    #[error("there is no built-in provider `{name}`")]
    NoBuiltin {
        /// The name.
        name: String,
    },
    /// It is left out of this program.
    #[error("the built-in provider `{name}` is not in this build of toolbus")]
    NotInThisBuild {
        /// The name.
        name: String,
    },
    /// There is no such program.
    #[error("there is no program `{}`", path.display())]
    NoProgram {
        /// Where it should be.
        path: PathBuf,
    },
    /// The file is no program.
    #[error("`{}` is not an executable file", path.display())]
    NotExecutable {
        /// Where it is.
        path: PathBuf,
    },
    /// It is an address, but a wrong one.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// It is nothing that we know.
    #[error("`{text}` is no source of a provider")]
    Unknown {
        /// As it is written.
        text: String,
    },
}

impl SourceError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            SourceError::NoBuiltin { .. } => {
                let names: Vec<_> = builtin::NAMES
                    .iter()
                    .map(|name| format!("`{}{name}`", builtin::PREFIX))
                    .collect();
                format!("there are {}", names.join(", "))
            }
            SourceError::NotInThisBuild { name } => {
                format!("build toolbus with the feature `{name}`")
            }
            SourceError::NoProgram { .. } => {
                "the path is relative to the folder of the scenario file".to_owned()
            }
            SourceError::NotExecutable { path } => {
                format!("allow it to be run: `chmod +x {}`", path.display())
            }
            SourceError::Address(_) => return None,
            SourceError::Unknown { .. } => {
                "write `builtin/exec`, `exec:./program`, or an address such as `mcp+stdio:COMMAND`"
                    .to_owned()
            }
        })
    }
}

impl ProviderSource {
    /// Reads a source; paths are relative to `folder`, that of the scenario's file.
    pub fn parse(text: &str, folder: &Path) -> Result<ProviderSource, SourceError> {
        if let Some(name) = text.strip_prefix(builtin::PREFIX) {
            return match builtin::schema(name) {
                Some(_) => Ok(ProviderSource::Builtin(name.to_owned())),
                None if builtin::NAMES.contains(&name) => {
                    Err(SourceError::NotInThisBuild { name: name.to_owned() })
                }
                None => Err(SourceError::NoBuiltin { name: name.to_owned() }),
            };
        }
        if let Some(path) = text.strip_prefix(EXEC) {
            let path: PathBuf = crate::source::tidy(&folder.join(path));
            check_program(&path)?;
            let words = vec![path.to_string_lossy().into_owned()];
            return Ok(ProviderSource::Program { words, cwd: None });
        }
        if !Address::begins_like_one(text) {
            return Err(SourceError::Unknown { text: text.to_owned() });
        }
        let address = Registry::default().address(Purpose::Call, text)?;
        match address.place() {
            // A scenario says what its providers speak.
            _ if address.is_bare() => Err(SourceError::Unknown { text: text.to_owned() }),
            Place::Command(words) if address.wire() == WIRE => {
                let (words, cwd) = (words.clone(), Some(folder.to_owned()));
                Ok(ProviderSource::Program { words, cwd })
            }
            _ => Ok(ProviderSource::Address(address)),
        }
    }

    /// What it speaks.
    pub(crate) fn wire(&self) -> Wire {
        match self {
            ProviderSource::Builtin(_) | ProviderSource::Program { .. } => WIRE,
            ProviderSource::Address(address) => address.wire(),
        }
    }
}

/// As it stands in plans and records.
impl fmt::Display for ProviderSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProviderSource::Builtin(name) => write!(f, "{}{name}", builtin::PREFIX),
            ProviderSource::Program { words, cwd: None } => write!(f, "{EXEC}{}", words.join(" ")),
            ProviderSource::Program { words, cwd: Some(_) } => {
                write!(f, "orchard+stdio:{}", words.join(" "))
            }
            ProviderSource::Address(address) => f.write_str(address.as_str()),
        }
    }
}

fn check_program(path: &Path) -> Result<(), SourceError> {
    let Ok(metadata) = std::fs::metadata(path) else {
        return Err(SourceError::NoProgram { path: path.to_owned() });
    };
    let can_be_run = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    match metadata.is_file() && can_be_run {
        true => Ok(()),
        false => Err(SourceError::NotExecutable { path: path.to_owned() }),
    }
}
