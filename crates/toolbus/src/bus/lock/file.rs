//! `toolbus.lock` on the disk.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;
use toolbus_proto::pin::{Layouts, Lock, LockError, SPEC};

use crate::peer::Registry;

/// Why a lock file cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// What stands in it is wrong.
    #[error("`{path}` {wrong}")]
    Wrong {
        /// Which.
        path: String,
        /// What.
        wrong: LockError,
    },
}

impl FileError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            FileError::Unreadable { .. } => None,
            FileError::Wrong { .. } => {
                Some("delete it and run `toolbus lock` to write it anew".to_owned())
            }
        }
    }
}

/// Where the lock of a config lies.
pub fn path_of(config: &Path) -> PathBuf {
    config.with_extension("lock")
}

/// Reads a lock; `None` if there is none.
pub fn read(path: &Path) -> Result<Option<Lock>, FileError> {
    let shown = || path.display().to_string();
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(FileError::Unreadable { path: shown(), source }),
    };
    let text = String::from_utf8(bytes).map_err(|_| {
        let source = io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
        FileError::Unreadable { path: shown(), source }
    })?;
    let lock = Lock::read(&text, &layouts);
    lock.map(Some).map_err(|wrong| FileError::Wrong { path: shown(), wrong })
}

/// How the definitions of a wire stand in the file.
fn layouts(wire: &str) -> Layouts {
    let registry = Registry::default();
    let pins = registry.find(wire).and_then(crate::peer::PeerKind::pins);
    pins.map_or(SPEC, crate::peer::pins::Pins::layouts)
}

/// Writes a lock beside its place and renames it; tells whether any byte has changed.
pub fn write(path: &Path, lock: &Lock) -> io::Result<bool> {
    let text = lock.write();
    // A link is followed, and stays one.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let before = fs::metadata(&path).ok();
    if before.is_some() && fs::read(&path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(false);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&beside)?;
        if let Some(before) = &before {
            file.set_permissions(fs::Permissions::from_mode(before.permissions().mode()))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        drop(file);
        fs::rename(&beside, &path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map(|()| true)
}
