//! Why a program did not start, in words that help: what is wrong with which file, and what to do.
//!
//! The kernel says `ENOENT` for a missing program, a missing directory and a missing interpreter
//! alike; here they are told apart.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use thiserror::Error;
use toolbus_proto::tool::{Failure, FailureKind, LastWords};

use super::{Exit, Program};

/// Why a program could not be started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// There is no first word, or it is empty.
    #[error("there is no program to start: the command is empty")]
    Empty,
    /// A word or a variable cannot be handed to a program.
    #[error("cannot start `{program}`: a word or variable of it contains a NUL byte")]
    Nul {
        /// As the user wrote it.
        program: String,
    },
    /// A name without `/` that is in no folder of PATH.
    #[error("there is no program `{program}` in PATH")]
    NotInPath {
        /// As the user wrote it.
        program: String,
        /// There is such a file in the working directory.
        here: bool,
    },
    /// A path where nothing is.
    #[error("there is no program `{program}`")]
    NoFile {
        /// As the user wrote it.
        program: String,
        /// The directory that a relative path is relative to.
        cwd: Option<PathBuf>,
    },
    /// The working directory is none.
    #[error("cannot start `{program}` in `{}`: there is no such directory", cwd.display())]
    NoDirectory {
        /// As the user wrote it.
        program: String,
        /// The directory to start in.
        cwd: PathBuf,
    },
    /// The path leads to a directory.
    #[error("`{}` is a directory, not a program", path.display())]
    Directory {
        /// Where it is.
        path: PathBuf,
    },
    /// The file lacks the permission to be run.
    #[error("`{}` is not executable", path.display())]
    NotExecutable {
        /// Where it is.
        path: PathBuf,
    },
    /// The file is there, but what should run it is not.
    #[error("`{}` needs `{interpreter}` to run, and that is not there", path.display())]
    NoInterpreter {
        /// Where it is.
        path: PathBuf,
        /// What its `#!` line or its header names.
        interpreter: String,
    },
    /// A program for another machine.
    #[error("`{}` is a program for {built_for}, not for this machine", path.display())]
    WrongMachine {
        /// Where it is.
        path: PathBuf,
        /// A processor or an operating system.
        built_for: &'static str,
    },
    /// Neither a program nor a script.
    #[error("`{}` is not a program that can be run here", path.display())]
    NotAProgram {
        /// Where it is.
        path: PathBuf,
    },
    /// More words and variables than the kernel takes.
    #[error("cannot start `{program}`: its arguments and environment are too long")]
    TooLong {
        /// As the user wrote it.
        program: String,
    },
    /// The process that sees to it that no child outlives us.
    #[error("cannot start the guard of our child processes")]
    Guard {
        /// What the system said.
        source: io::Error,
    },
    /// Whatever else the system may say: no memory, too many processes or open files.
    #[error("cannot start `{program}`")]
    Failed {
        /// As the user wrote it.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

/// What the user can do where no more files can be opened.
const OPEN_FILES: &str = "raise the limit of open files, `ulimit -n`";

fn is_full(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl SpawnError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            SpawnError::NotInPath { program, here: true } => format!(
                "a name without `/` is looked for in PATH; for the file here write `./{program}`"
            ),
            SpawnError::NotInPath { program, .. } => {
                format!("install `{program}`, or give its path")
            }
            SpawnError::NoFile { program, cwd: Some(cwd) } => {
                format!("`{program}` is relative to `{}`", cwd.display())
            }
            SpawnError::NoFile { cwd: None, .. } => "nothing is at that path: correct it".into(),
            SpawnError::NoDirectory { .. } => "create it, or change `cwd`".into(),
            SpawnError::Directory { .. } => "name a program inside it".into(),
            SpawnError::NotExecutable { path } => {
                format!("make it executable: `chmod +x {}`", path.display())
            }
            SpawnError::NoInterpreter { interpreter, .. } if interpreter.ends_with("\\r") => {
                "its `#!` line ends in CR LF; save the file with LF alone".into()
            }
            SpawnError::NoInterpreter { interpreter, .. } => {
                format!("install `{interpreter}`, or change what asks for it")
            }
            SpawnError::WrongMachine { .. } => {
                format!("build it for {}", std::env::consts::ARCH)
            }
            SpawnError::NotAProgram { .. } => "a script needs a first line like `#!/bin/sh`".into(),
            SpawnError::Guard { source } if is_full(source) => OPEN_FILES.into(),
            SpawnError::Guard { .. } => "is there a `/bin/sh`?".into(),
            SpawnError::Failed { source, .. } if is_full(source) => OPEN_FILES.into(),
            SpawnError::Failed { source, .. } => match rustix::io::Errno::from_io_error(source)? {
                rustix::io::Errno::TXTBSY => "somebody is still writing the file".into(),
                rustix::io::Errno::AGAIN => "raise the limit of processes, `ulimit -u`".into(),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// What to tell the callers that wait for the program.
    pub fn to_failure(&self) -> Failure {
        let mut message = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        let words = LastWords { hint: self.hint(), ..LastWords::default() };
        Failure::new(FailureKind::Unavailable, message).with_last_words(words)
    }
}

/// What the exit of a program that had only just started suggests, if anything.
pub fn early_exit(exit: Exit) -> Option<String> {
    Some(match exit {
        Exit::Code(126) => "status 126 is how a shell says: found, but cannot be executed".into(),
        Exit::Code(127) => "status 127 is how a shell says: no such program".into(),
        Exit::Signal(libc::SIGILL) => "it may be built for a newer processor than this".into(),
        Exit::Signal(libc::SIGKILL) => {
            "somebody killed it; if nobody did, the system ran out of memory".into()
        }
        Exit::Signal(libc::SIGSYS) => "a sandbox forbade it a system call".into(),
        _ => return None,
    })
}

/// How package runners, interpreters and shells say that a package, a module or a file is missing
/// or broken.
const MISSING: [&str; 10] = [
    "E404",
    "404 Not Found",
    "MODULE_NOT_FOUND",
    "Cannot find module",
    "ModuleNotFoundError",
    "No module named",
    "not found in the package registry",
    "command not found",
    "No such file or directory",
    "SyntaxError",
];

/// What to tell the user of a program that died at its start without these variables of ours.
pub fn held_back<'a>(names: &[String], said: impl Iterator<Item = &'a str>) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let said: Vec<&str> = said.collect();
    let is_said = |name: &&String| said.iter().any(|line| mentions(line, name));
    let mentioned: Vec<_> = names.iter().filter(is_said).map(String::as_str).collect();
    // What is missing is another thing, and is told by itself.
    let is_told = |line: &&str| MISSING.iter().any(|missing| line.contains(missing));
    if mentioned.is_empty() && said.iter().any(is_told) {
        return None;
    }
    Some(match mentioned.as_slice() {
        [] => format!(
            "it did not get {} of our environment variables; if it needs one, pass it on by \
             `--env-pass NAME` (`env_pass` in the config)",
            names.len()
        ),
        names => format!(
            "{} was not passed on to it: write `--env-pass {}` (`env_pass` in the config)",
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
            names.join(" --env-pass ")
        ),
    })
}

/// Does the name of a variable stand in the line? Short ones may be words like any other.
fn mentions(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    3 < name.len()
        && line.match_indices(name).any(|(at, _)| {
            !line[..at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part)
        })
}

/// Finds out what the system meant by refusing to run `path`.
pub(super) fn spawn_error(program: &Program, path: &Path, source: io::Error) -> SpawnError {
    let name = || program.name().to_owned();
    if let Some(cwd) = program.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return SpawnError::NoDirectory { program: name(), cwd: cwd.clone() };
    }
    let seen = program.seen_from_here(path);
    match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => match interpreter(&seen) {
            Some(interpreter) => SpawnError::NoInterpreter { path: seen, interpreter },
            None if seen.exists() => SpawnError::Failed { program: name(), source },
            None => {
                let cwd = program.cwd.clone().or_else(|| std::env::current_dir().ok());
                SpawnError::NoFile { program: name(), cwd: cwd.filter(|_| path.is_relative()) }
            }
        },
        ErrorKind::PermissionDenied if seen.is_dir() => SpawnError::Directory { path: seen },
        ErrorKind::PermissionDenied
            if seen.is_file() && rustix::fs::access(&seen, Access::EXEC_OK).is_err() =>
        {
            SpawnError::NotExecutable { path: seen }
        }
        ErrorKind::ArgumentListTooLong => SpawnError::TooLong { program: name() },
        _ if is_no_format(&source) => match built_for(&head(&seen)) {
            Some(built_for) => SpawnError::WrongMachine { path: seen, built_for },
            None => SpawnError::NotAProgram { path: seen },
        },
        _ => SpawnError::Failed { program: name(), source },
    }
}

/// The kernel does not know the format of a file, which reads like a text: a script for the shell.
pub(super) fn is_plain_script(source: &io::Error, path: &Path) -> bool {
    is_no_format(source) && !head(path).contains(&0) && !head(path).starts_with(b"#!")
}

fn is_no_format(source: &io::Error) -> bool {
    source.raw_os_error() == Some(libc::ENOEXEC)
}

/// The first bytes of a file, as far as they can be read.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(4096).read_to_end(&mut head);
    }
    head
}

/// What a file asks to be run by: the program of its `#!` line, or the loader in its ELF header.
fn interpreter(path: &Path) -> Option<String> {
    let head = head(path);
    let name = match head.strip_prefix(b"#!") {
        Some(line) => {
            let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii_start();
            line.split(|&byte| byte == b' ' || byte == b'\t').next()?
        }
        None => elf_loader(&head)?,
    };
    // Escaped, for it comes from a file and goes to a terminal.
    Some(String::from_utf8_lossy(name).escape_debug().to_string())
}

/// The PT_INTERP entry of a 64-bit little-endian ELF file, if it is near the beginning.
fn elf_loader(head: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: u32 = 3;
    let number = |at: usize| -> Option<usize> {
        let bytes = head.get(at..at.checked_add(8)?)?;
        usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let short = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (number(0x20)?, usize::from(short(0x36)?), short(0x38)?);
    (0..usize::from(count)).find_map(|entry| {
        let at = table.checked_add(entry * size)?;
        let kind = u32::from_le_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?);
        let (start, length) = (number(at.checked_add(8)?)?, number(at.checked_add(32)?)?);
        let loader = head.get(start..start.checked_add(length)?)?;
        (kind == PT_INTERP).then(|| loader.strip_suffix(b"\0").unwrap_or(loader))
    })
}

/// The machine a foreign program is for, by its first bytes; `None` for ours or what is no program.
fn built_for(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x7f, b'E', b'L', b'F', ..] => {
            let machine = u16::from_le_bytes([*head.get(18)?, *head.get(19)?]);
            (machine != this_machine()).then(|| machine_name(machine))
        }
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => Some("macOS"),
        [b'M', b'Z', ..] => Some("Windows"),
        _ => None,
    }
}

/// As `e_machine` of an ELF header counts them.
fn this_machine() -> u16 {
    match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        "x86" => 3,
        "arm" => 40,
        "riscv64" => 243,
        _ => 0,
    }
}

fn machine_name(machine: u16) -> &'static str {
    match machine {
        62 => "x86-64",
        183 => "ARM (64 bits)",
        3 => "x86 (32 bits)",
        40 => "ARM (32 bits)",
        243 => "RISC-V",
        _ => "another processor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_where_they_may_be_what_is_missing() {
        let names = ["WEATHER_KEY".to_owned(), "SHLVL".to_owned()];
        let hint = |said: &str| held_back(&names, [said].into_iter()).unwrap_or_default();
        assert!(hint("no WEATHER_KEY").starts_with("`WEATHER_KEY` was not passed on to it"));
        assert!(hint("who are you?").starts_with("it did not get 2 of our"));
        for said in [
            "npm error code E404",
            "  code: 'MODULE_NOT_FOUND',",
            "ModuleNotFoundError: No module named 'mcp'",
            "sh: 1: exec: server: No such file or directory",
        ] {
            assert_eq!(hint(said), "", "{said}");
        }
        // One that names a variable besides says enough.
        assert!(hint("No such file or directory: WEATHER_KEY").contains("--env-pass WEATHER_KEY"));
    }
}
