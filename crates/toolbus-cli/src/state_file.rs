//! The file by which `toolbus page` finds the page of a `toolbus serve` that runs: where it is, and
//! the token that has to be shown there. Only its user may read it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageState {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) page: String,
    pub(crate) pid: u32,
    pub(crate) boot: String,
    pub(crate) config: PathBuf,
}

/// Where the state of the page of one config stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatePlace {
    folder: PathBuf,
    id: String,
    /// The config, with links resolved.
    pub(crate) config: PathBuf,
}

impl StatePlace {
    /// That of the config at this path; `None` if the user has no folder for it.
    pub(crate) fn of(config: &Path) -> Option<StatePlace> {
        let config = fs::canonicalize(config).or_else(|_| std::path::absolute(config)).ok()?;
        let hash = Sha256::digest(config.as_os_str().as_encoded_bytes());
        let id = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Some(StatePlace { folder: folder()?, id, config })
    }

    /// The file itself.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.id))
    }

    /// A page that leads to the page, so that no list of processes has its token.
    fn link(&self) -> PathBuf {
        self.folder.join(format!("{}.html", self.id))
    }

    pub(crate) fn read(&self) -> Option<PageState> {
        serde_json::from_slice(&fs::read(self.file()).ok()?).ok()
    }

    pub(crate) fn write(&self, state: &PageState) -> io::Result<()> {
        self.put(&self.file(), &serde_json::to_vec(state)?)
    }

    /// Writes the page that leads to this address, and gives its path.
    pub(crate) fn write_link(&self, address: &str) -> io::Result<PathBuf> {
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
             <meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0;url={address}\"><title>toolbus</title>\n"
        );
        let path = self.link();
        self.put(&path, page.as_bytes())?;
        Ok(path)
    }

    /// Removes both, if they are of this start of `serve`.
    pub(crate) fn remove(&self, boot: &str) {
        if self.read().is_some_and(|state| state.boot == boot) {
            let _ = fs::remove_file(self.file());
            let _ = fs::remove_file(self.link());
        }
    }

    /// By a new file that takes the place of the old one: no process reads the half of it.
    fn put(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let beside = self.folder.join(format!("{}.{}.new", self.id, std::process::id()));
        let _ = fs::remove_file(&beside);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut file: File| file.write_all(text))
            .and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

/// `$XDG_STATE_HOME/toolbus/page`, or where that is by default.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = named.filter(|path| path.is_absolute()).or_else(|| {
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty())?;
        Some(home.join(".local/state"))
    })?;
    Some(state.join("toolbus/page"))
}
