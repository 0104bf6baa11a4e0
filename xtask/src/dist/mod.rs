//! `cargo xtask dist`: the program as it is shipped, in every package that it is shipped in.
//!
//! Twice the same tree gives twice the same bytes: times are those of the commit, entries are
//! sorted, owners are 0:0, and the paths of this machine are not in the program. Each package has a
//! file of its own; what goes into several of them is in `contents`.

mod archive;
mod bom;
mod build;
mod contents;
mod deb;
mod elf;
mod npm;
mod oci;
mod sums;
#[cfg(test)]
mod tests;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::contents::Contents;

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    out: Option<PathBuf>,
    program: Option<PathBuf>,
    allows_dirty: bool,
}

/// A release: what all packages of it say of themselves.
struct Release {
    version: String,
    /// For which machines the program is: `x86_64-unknown-linux-gnu`.
    triple: String,
    /// Seconds since 1970, the time of all files.
    time: u64,
    /// Where the source is.
    repository: String,
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packed {
    /// Its path, without a `/` at its begin; that of a folder ends in one.
    path: String,
    bytes: Vec<u8>,
    is_program: bool,
}

impl Packed {
    fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Packed {
        Packed { path: path.into(), bytes: bytes.into(), is_program: false }
    }

    fn program(path: impl Into<String>, bytes: &[u8]) -> Packed {
        Packed { is_program: true, ..Packed::file(path, bytes) }
    }

    fn folder(path: &str) -> Packed {
        Packed::file(path, [])
    }

    fn is_folder(&self) -> bool {
        self.path.ends_with('/')
    }

    fn mode(&self) -> u32 {
        if self.is_program || self.is_folder() { 0o755 } else { 0o644 }
    }
}

/// Packs the program; the words are those behind `dist`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let wish = wish(words)?;
    if !wish.allows_dirty {
        check_clean(root)?;
    }
    let release = release(root)?;
    let program = match &wish.program {
        Some(program) => program.clone(),
        None => build::build(root, &release)?,
    };
    let out = wish.out.unwrap_or_else(|| root.join("target/dist"));
    let files = packages(root, &release, &program)?;
    fs::create_dir_all(&out).map_err(|error| format!("cannot make {}: {error}", out.display()))?;
    for file in &files {
        write(&out, file)?;
        println!("{:>9}  {}", file.bytes.len(), file.path);
    }
    Ok(())
}

fn wish(words: &[&str]) -> Result<Wish, String> {
    let mut wish = Wish::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut path = || {
            let path = words.next().map(PathBuf::from);
            path.ok_or_else(|| format!("error: `{word}` needs a path"))
        };
        match *word {
            "--out" => wish.out = Some(path()?),
            "--program" => wish.program = Some(path()?),
            "--allow-dirty" => wish.allows_dirty = true,
            other => {
                return Err(format!(
                    "error: `dist` knows no `{other}`\nhint: cargo xtask dist [--out DIR] [--program FILE] [--allow-dirty]"
                ));
            }
        }
    }
    Ok(wish)
}

/// All packages, by name.
fn packages(root: &Path, release: &Release, program: &Path) -> Result<Vec<Packed>, String> {
    let contents = Contents::read(root, program)?;
    if let elf::Needs::Glibc(major, minor) = contents.needs {
        eprintln!(
            "note: the program needs a C library (GNU {major}.{minor} or later), which the image does not have"
        );
    }
    let install = read(&root.join("contrib/install.sh"))?;
    let mut files = vec![
        archive::package(release, &contents)?,
        deb::package(release, &contents)?,
        oci::package(release, &contents)?,
        npm::package(release, &contents)?,
        wheel::package(release, &contents)?,
        bom::file(root, release)?,
        Packed::program("install.sh", &install),
    ];
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files.push(sums::file(&files));
    Ok(files)
}

fn release(root: &Path) -> Result<Release, String> {
    let manifest = text(&root.join("Cargo.toml"))?;
    let of = |key: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        let value = line.and_then(|rest| rest.strip_suffix('"'));
        value.map(str::to_owned).ok_or_else(|| format!("error: Cargo.toml has no `{key}`"))
    };
    let compiler = output(root, Command::new("rustc").arg("-vV"))?;
    let triple = compiler.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(Release {
        version: of("version")?,
        triple: triple.ok_or("error: rustc does not name its host")?.to_owned(),
        time: time(root)?,
        repository: of("repository")?,
    })
}

/// The time that all files have.
fn time(root: &Path) -> Result<u64, String> {
    let told = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(told) => told,
        Err(_) => output(root, Command::new("git").args(["log", "-1", "--format=%ct"]))?,
    };
    told.trim().parse().map_err(|_| {
        format!("error: `{}` is no time\nhint: SOURCE_DATE_EPOCH is in seconds", told.trim())
    })
}

/// What is shipped is what is committed.
fn check_clean(root: &Path) -> Result<(), String> {
    let changes = output(root, Command::new("git").args(["status", "--porcelain"]))?;
    match changes.lines().next() {
        None => Ok(()),
        Some(_) => Err(format!(
            "error: the tree has changes that are not committed\n{}\nhint: `--allow-dirty` packs it all the same",
            changes.trim_end()
        )),
    }
}

/// What a command says, if it goes well.
fn output(folder: &Path, command: &mut Command) -> Result<String, String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let done = command.current_dir(folder).output();
    let done = done.map_err(|error| format!("error: cannot run {shown}: {error}"))?;
    match done.status.success() {
        true => String::from_utf8(done.stdout).map_err(|_| format!("error: {shown} is no text")),
        false => {
            let told = String::from_utf8_lossy(&done.stderr);
            Err(format!("error: {shown} ended with {}\n{}", done.status, told.trim_end()))
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("error: cannot read {}: {error}", path.display()))
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = read(path)?;
    String::from_utf8(bytes).map_err(|_| format!("error: {} is no text", path.display()))
}

fn write(out: &Path, file: &Packed) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = out.join(&file.path);
    let written = fs::write(&path, &file.bytes)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(file.mode())));
    written.map_err(|error| format!("error: cannot write {}: {error}", path.display()))
}
