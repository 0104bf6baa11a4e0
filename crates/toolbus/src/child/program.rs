//! What to start: words, environment, working directory, and where the program's file is.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

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

/// The variables that even a child with a clean environment gets.
pub const CLEAN_ENVIRONMENT: [&str; 6] = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER"];

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

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let passes = |name: &OsStr| match &self.env {
            EnvPolicy::Inherit => true,
            EnvPolicy::Clean { pass } => CLEAN_ENVIRONMENT
                .into_iter()
                .chain(pass.iter().map(String::as_str))
                .any(|passed| name == passed),
            EnvPolicy::Only(pass) => pass.iter().any(|passed| name == passed.as_str()),
        };
        let vars = self.vars.iter().map(|(name, value)| (name.into(), value.into()));
        env::vars_os().filter(|(name, _)| passes(name)).chain(vars).collect()
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
