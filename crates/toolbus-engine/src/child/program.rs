//! What to start: words, environment, working directory, and where the program's file is.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use toolbus_proto::notify;

use super::diagnose::{self, SpawnError};
use super::fork::Image;
use crate::secrets::MASK;

/// A program to start, with its arguments and surroundings.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments; see [`words::split`](super::words::split).
    pub words: Vec<String>,
    /// What it gets of our environment.
    pub env: EnvPolicy,
    /// Variables set for it, whatever the policy.
    pub vars: Vec<(String, String)>,
    /// Its working directory, else ours. A relative program path is relative to it.
    pub cwd: Option<PathBuf>,
}

/// What a child gets of our environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvPolicy {
    /// All of it.
    Inherit,
    /// Only [`CLEAN_ENVIRONMENT`] and the variables named here.
    Clean {
        /// Further variables to pass on, where they are set.
        pass: Vec<String>,
    },
    /// Only the variables named here.
    Only(Vec<String>),
}

/// The variables that even a child with a clean environment gets; a `*` stands for any letters.
/// What a package runner needs to fetch a server, and a server to reach its peers, is among them.
pub const CLEAN_ENVIRONMENT: [&str; 21] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_*",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_*",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "*_PROXY",
    "*_proxy",
    "npm_config_*",
    "UV_*",
    "PIP_*",
    "VIRTUAL_ENV",
    "NVM_*",
    "PYENV_*",
];

impl EnvPolicy {
    /// Does a child get our variable of this name? What a service manager tells us is for us alone.
    fn passes(&self, name: &OsStr) -> bool {
        if notify::VARIABLES.iter().any(|ours| name == *ours) {
            return false;
        }
        let is_named = |pass: &[String]| pass.iter().any(|passed| name == passed.as_str());
        let is_usual = |name: &str| {
            CLEAN_ENVIRONMENT.iter().any(|usual| match usual.split_once('*') {
                Some((start, end)) => {
                    start.len() + end.len() < name.len()
                        && name.starts_with(start)
                        && name.ends_with(end)
                }
                None => name == *usual,
            })
        };
        match self {
            EnvPolicy::Inherit => true,
            EnvPolicy::Clean { pass } => is_named(pass) || name.to_str().is_some_and(is_usual),
            EnvPolicy::Only(pass) => is_named(pass),
        }
    }
}

/// Where `execvp` looks when there is no PATH.
const PATH_DEFAULT: &str = "/bin:/usr/bin";

impl fmt::Debug for Program {
    /// What variables hold may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vars: Vec<_> = self.vars.iter().map(|(name, _)| (name, MASK)).collect();
        f.debug_struct("Program")
            .field("words", &self.words)
            .field("env", &self.env)
            .field("vars", &vars)
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl Program {
    /// A program that inherits environment and directory.
    pub fn new(words: Vec<String>) -> Program {
        Program { words, env: EnvPolicy::Inherit, vars: Vec::new(), cwd: None }
    }

    /// The first word: what people call it.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Everything that exec needs, and the path it will be tried with.
    pub(super) fn image(&self) -> Result<(Image, PathBuf), SpawnError> {
        if self.name().is_empty() {
            return Err(SpawnError::Empty);
        }
        let environment = self.environment();
        let path = self.find(environment.get(OsStr::new("PATH")))?;
        let image = Image::new(&path, self.words.iter().map(OsStr::new), environment);
        Ok((image.map_err(|_| SpawnError::Nul { program: self.name().into() })?, path))
    }

    /// The same by way of the shell: what `execvp` does with a script that has no `#!` line.
    pub(super) fn image_as_script(&self, path: &Path) -> Result<Image, SpawnError> {
        let words = [OsStr::new("sh"), path.as_os_str()];
        let words = words.into_iter().chain(self.words[1..].iter().map(OsStr::new));
        Image::new(Path::new("/bin/sh"), words, self.environment())
            .map_err(|_| SpawnError::Nul { program: self.name().into() })
    }

    /// A path as the child will see it from its working directory, seen from ours.
    pub(super) fn seen_from_here(&self, path: &Path) -> PathBuf {
        // By components, so that `./x` is not shown as `/folder/./x`.
        self.cwd.as_deref().unwrap_or(Path::new("")).join(path).components().collect()
    }

    /// The file that is run, if it can be found.
    pub fn file(&self) -> Option<PathBuf> {
        let search = self.environment().get(OsStr::new("PATH")).cloned();
        Some(self.seen_from_here(&self.find(search.as_ref()).ok()?))
    }

    /// The names of those of our variables that it does not get, sorted.
    pub fn held_back(&self) -> Vec<String> {
        let is_set = |name: &OsStr| self.vars.iter().any(|(set, _)| name == set.as_str());
        let ours = env::vars_os().map(|(name, _)| name);
        let ours = ours.filter(|name| !notify::VARIABLES.iter().any(|own| name == *own));
        // What is said to us alone is missed by no program.
        let ours = ours.filter(|name| name != "TOOLBUS_NO_DAEMON");
        let held_back = ours.filter(|name| !self.env.passes(name) && !is_set(name));
        let mut names: Vec<String> = held_back.filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let vars = self.vars.iter().map(|(name, value)| (name.into(), value.into()));
        env::vars_os().filter(|(name, _)| self.env.passes(name)).chain(vars).collect()
    }

    /// Looks through PATH, the child's, for a name without `/`. Any other is left to exec, which
    /// knows better than we do what can be run.
    fn find(&self, search: Option<&OsString>) -> Result<PathBuf, SpawnError> {
        let name = self.name();
        if name.contains('/') {
            return Ok(name.into());
        }
        let search = search.map_or(OsStr::new(PATH_DEFAULT), OsString::as_os_str);
        let mut forbidden = None;
        for folder in env::split_paths(search) {
            // An empty entry is the working directory; a bare name would mean PATH again.
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
            let path = folder.join(name);
            let seen = self.seen_from_here(&path);
            if !seen.is_file() {
                continue;
            }
            match rustix::fs::access(&seen, Access::EXEC_OK) {
                Ok(()) => return Ok(path),
                Err(_) => forbidden = Some(path),
            }
        }
        Err(match forbidden {
            Some(path) => {
                diagnose::spawn_error(self, &path, io::ErrorKind::PermissionDenied.into())
            }
            None => SpawnError::NotInPath {
                program: name.into(),
                here: self.seen_from_here(name.as_ref()).is_file(),
            },
        })
    }
}
