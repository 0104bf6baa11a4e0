//! The programs of the tour: this one, started as others would start it.

use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use toolbus_check::fixture::Fixture;

use crate::exit::Exit;
use crate::failed::Failed;
use crate::stdio;

/// Where this program is, and a folder for what peers tell of themselves.
pub(super) struct Peers {
    program: String,
    folder: PathBuf,
}

impl Peers {
    pub(super) fn prepare() -> Result<Peers, Failed> {
        let cannot = |error: io::Error| {
            Failed::new(Exit::Failed, "cannot prepare the tour").caused_by(&error)
        };
        if stdio::is_guest() {
            return Err(cannot(stdio::needs_process()));
        }
        let program = env::current_exe().map_err(cannot)?;
        let folder = env::temp_dir().join(format!("toolbus-demo-{}", process::id()));
        fs::create_dir_all(&folder).map_err(cannot)?;
        Ok(Peers { program: program.to_string_lossy().into_owned(), folder })
    }

    /// Where what is started may write.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where this program is.
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// Words that start this program.
    pub(super) fn ourselves(&self, words: &[&str]) -> String {
        let words = words.iter().map(|word| quoted(word));
        [quoted(&self.program)].into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }

    /// This program as a peer, which serves the tools at `address`.
    pub(super) fn serving(&self, fixture: &Fixture, address: &str) -> String {
        let words = self.ourselves(&[fixture.words, &[address]].concat());
        format!("{}{words}", fixture.scheme)
    }

    /// A peer with our built-in tools, started by a shell that first does `before` and leaves
    /// its process ids in a file of this name.
    pub(super) fn serving_after(&self, fixture: &Fixture, before: &str, name: &str) -> String {
        let file = self.file(name);
        let script = format!(
            "{before} echo $$ >> {}; exec {}",
            quoted(&file.to_string_lossy()),
            self.ourselves(&[fixture.words, &["builtin:"]].concat())
        );
        format!("{}sh -c {}", fixture.scheme, quoted(&script))
    }

    /// The process ids in the file of this name, once there are so many.
    pub(super) fn pids(&self, name: &str, count: usize) -> Option<Vec<i32>> {
        let text = fs::read_to_string(self.file(name)).ok()?;
        let pids: Vec<_> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (count <= pids.len()).then_some(pids)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // It is not needed any more; if it cannot be removed, the system will.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A word that the shell, and our own splitting, take as it is.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:+=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
