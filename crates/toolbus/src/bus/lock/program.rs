//! What a command starts, as far as it can be pinned: a file, or a package.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use toolbus_proto::pin::Noted;

use crate::address::{Address, Place};
use crate::child::{EnvPolicy, Program};
use crate::peer::open::program;
use crate::peer::settings::Settings;

/// A larger program is not hashed.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;
/// How much of it is read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// What a command starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The file that is run, as the command names it.
    pub program: Option<String>,
    /// The SHA-256 of its bytes.
    pub sha256: Option<String>,
    /// The package that is run.
    pub package: Option<String>,
    /// Its version, if the command names one.
    pub version: Option<String>,
}

impl Identity {
    /// Of the program at this address; of nothing if there is none.
    pub fn of(address: &Address, settings: &Settings) -> Identity {
        let Place::Command(words) = address.place() else { return Identity::default() };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_file = |word: &str| {
            let cwd = settings.program.cwd.as_deref().unwrap_or(Path::new(""));
            cwd.join(word).is_file()
        };
        match named(&words, is_file) {
            Named::Nothing => Identity::default(),
            Named::Package(package) => {
                let (name, version) = versioned(package);
                let (package, version) = (Some(name.to_owned()), version.map(str::to_owned));
                Identity { package, version, ..Identity::default() }
            }
            Named::Argument(file) => {
                let cwd = settings.program.cwd.as_deref().unwrap_or(Path::new(""));
                let sha256 = hash(&cwd.join(file));
                Identity { program: Some(file.to_owned()), sha256, ..Identity::default() }
            }
            Named::Program(word) => {
                let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
                let env = EnvPolicy::Clean { pass: settings.program.env_pass.clone() };
                let found: Program = program(&words, settings, env);
                let sha256 = found.file().and_then(|file| hash(&file));
                Identity { program: Some(word.to_owned()), sha256, ..Identity::default() }
            }
        }
    }

    /// What is pinned of it is put there.
    pub fn note(self, noted: &mut Noted) {
        noted.program = self.program;
        noted.program_sha256 = self.sha256;
        noted.package = self.package;
        noted.package_version = self.version;
    }

    /// Is it what was pinned?
    pub fn is_as(&self, noted: &Noted) -> bool {
        let Identity { program, sha256, package, version } = self;
        *program == noted.program
            && *sha256 == noted.program_sha256
            && *package == noted.package
            && *version == noted.package_version
    }

    /// What people call it.
    pub fn shown(&self) -> &str {
        self.program.as_deref().or(self.package.as_deref()).unwrap_or("none")
    }
}

/// What a command names.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    /// A file that its interpreter runs.
    Argument(&'a str),
    /// The program itself.
    Program(&'a str),
    Package(&'a str),
    Nothing,
}

fn named<'a>(words: &[&'a str], is_file: impl Fn(&str) -> bool) -> Named<'a> {
    let Some((first, rest)) = words.split_first() else { return Named::Nothing };
    let name = first.rsplit('/').next().unwrap_or(first);
    let is_python = name
        .strip_prefix("python3.")
        .is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()));
    match (name, rest) {
        _ if is_python => interpreted(rest, is_file),
        (
            "python" | "python3" | "node" | "deno" | "bun" | "ruby" | "perl" | "php" | "java"
            | "sh" | "bash",
            _,
        ) => interpreted(rest, is_file),
        ("npx" | "bunx" | "uvx", _) => package(rest),
        ("pipx", ["run", rest @ ..]) | ("pnpm", ["dlx", rest @ ..]) => package(rest),
        ("uv", ["tool", "run", rest @ ..]) => package(rest),
        ("docker" | "podman", _) => Named::Nothing,
        _ => Named::Program(first),
    }
}

fn interpreted<'a>(words: &[&'a str], is_file: impl Fn(&str) -> bool) -> Named<'a> {
    words.iter().find(|word| is_file(word)).map_or(Named::Nothing, |word| Named::Argument(word))
}

/// Flags of package runners behind which a value stands that is no package to be run.
const OTHER_FLAGS: [&str; 16] = [
    "--with",
    "--with-editable",
    "--with-requirements",
    "--python",
    "--index",
    "--index-url",
    "--default-index",
    "--extra-index-url",
    "--find-links",
    "--directory",
    "--project",
    "--config-file",
    "--pip-args",
    "--registry",
    "--cache",
    "--prefix",
];

fn package<'a>(words: &[&'a str]) -> Named<'a> {
    const FLAGS: [&str; 4] = ["--from", "--spec", "-p", "--package"];
    let mut rest = words.iter().enumerate();
    while let Some((at, word)) = rest.next() {
        if FLAGS.contains(word) {
            return words.get(at + 1).map_or(Named::Nothing, |named| Named::Package(named));
        }
        let given = word.split_once('=').filter(|(flag, _)| FLAGS.contains(flag));
        if let Some((_, named)) = given {
            return Named::Package(named);
        }
        if OTHER_FLAGS.contains(word) {
            let _ = rest.next();
        } else if !word.starts_with('-') {
            // What follows is for the package itself.
            return Named::Package(word);
        }
    }
    Named::Nothing
}

/// A package and the version that is asked for; one that does not begin with a digit may mean
/// another package tomorrow.
fn versioned(package: &str) -> (&str, Option<&str>) {
    let at = package.rfind('@').filter(|at| 0 < *at).map(|at| (at, 1));
    let equals = package.rfind("==").map(|at| (at, 2));
    let Some((at, len)) = equals.or(at) else { return (package, None) };
    let version = &package[at + len..];
    let is_version = version.starts_with(|first: char| first.is_ascii_digit());
    (&package[..at], Some(version).filter(|_| is_version))
}

/// The SHA-256 of a file, if it can be read and is not too large.
fn hash(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || PROGRAM_BYTES_MAX < about.len() {
        return None;
    }
    let mut file = file.take(PROGRAM_BYTES_MAX + 1);
    let (mut hasher, mut len) = (Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut chunk).ok()?;
        if read == 0 {
            break;
        }
        len += read as u64;
        hasher.update(&chunk[..read]);
    }
    let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
    (len <= PROGRAM_BYTES_MAX).then(|| hex(&hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_is_told_by_the_words() {
        let named = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let is_file = |word: &str| word.ends_with(".py") || word.ends_with(".js");
            match named(&words, is_file) {
                Named::Nothing => "nothing".to_owned(),
                Named::Argument(file) => format!("file {file}"),
                Named::Program(word) => format!("program {word}"),
                Named::Package(package) => {
                    let (name, version) = versioned(package);
                    format!("package {name} {}", version.unwrap_or("newest"))
                }
            }
        };
        for (line, expected) in [
            ("python3 -u a.py b.py", "file a.py"),
            ("/usr/bin/python3.12 a.py", "file a.py"),
            ("python3 -m weather", "nothing"),
            ("./server --x", "program ./server"),
            ("python3.x a.py", "program python3.x"),
            ("npx -y @scope/server@1.2.3 x", "package @scope/server 1.2.3"),
            ("npx @scope/server", "package @scope/server newest"),
            ("npx server@latest", "package server newest"),
            ("npx -y -p server@2 run", "package server 2"),
            ("uvx --from=server==0.4 run", "package server 0.4"),
            ("uvx server==0.4", "package server 0.4"),
            ("uv tool run server", "package server newest"),
            ("uv run server", "program uv"),
            ("pipx run --spec s==1 s", "package s 1"),
            ("pnpm dlx server@1", "package server 1"),
            ("uvx --with rich --python 3.12 server==0.4 --from x", "package server 0.4"),
            ("uvx --with rich --from server==0.4 run", "package server 0.4"),
            ("docker run -i image", "nothing"),
        ] {
            assert_eq!(named(line), expected, "{line}");
        }
    }
}
