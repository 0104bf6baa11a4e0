//! Files of the folder: read with who else may, written beside and put in place whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::CertificatesError;
use crate::chance;

/// The file that whoever makes something holds locked.
pub(super) const LOCK: &str = ".lock";
/// Making takes milliseconds: who waits so long waits for a program that hangs.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// No certificate and no key is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Who may read a file besides its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Owner,
    Group,
    World,
}

/// Lets another program go on before its files are looked at once more: it tells nobody when it
/// is done.
#[expect(clippy::disallowed_methods, reason = "how often to look, no guess how long it takes")]
pub(super) fn look_again() {
    std::thread::sleep(LOOK_AGAIN);
}

/// What is in a file, and who may read it; `None` if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<(Vec<u8>, Access)>, CertificatesError> {
    let failed = |source| CertificatesError::File { what: "read", path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    let access = match mode {
        _ if mode & 0o007 != 0 => Access::World,
        _ if mode & 0o070 != 0 => Access::Group,
        _ => Access::Owner,
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some((bytes, access)))
}

/// Puts a file in place of the one that is there, if any: readers see one or the other.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), CertificatesError> {
    let beside = Beside::write(path, text)?;
    fs::rename(&beside.0, path).map_err(|source| wrote(path, source))
}

/// Puts a file in place where none is. If there is one by now, it stays.
pub(super) fn link(path: &Path, text: &str) -> Result<(), CertificatesError> {
    let beside = Beside::write(path, text)?;
    match fs::hard_link(&beside.0, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Not every file system has links. We hold the lock, so that none of ours is replaced.
        Err(_) if !path.exists() => {
            fs::rename(&beside.0, path).map_err(|source| wrote(path, source))
        }
        linked => linked.map_err(|source| wrote(path, source)),
    }
}

/// Gives a file another name, in place of what has it.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), CertificatesError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed.map_err(|source| wrote(to, source)),
    }
}

fn wrote(path: &Path, source: io::Error) -> CertificatesError {
    CertificatesError::File { what: "write", path: path.to_owned(), source }
}

/// A file that is not in its place yet. Dropping it removes what is left of it.
struct Beside(PathBuf);

impl Beside {
    fn write(path: &Path, text: &str) -> Result<Beside, CertificatesError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = u64::from_be_bytes(chance::bytes());
        let beside = Beside(path.with_file_name(format!(".{name}.{number:016x}")));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside.0)?;
            file.write_all(text.as_bytes())?;
            // A name that outlives a crash must not lead to an empty file.
            file.sync_all()
        };
        write().map_err(|source| wrote(path, source))?;
        Ok(beside)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Renamed, it is not there any more.
        let _ = fs::remove_file(&self.0);
    }
}

/// The right to make something in the folder, which only one has at a time.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Makes the folder if it is not there, and waits until nobody else is at work.
    pub(super) fn take(folder: &Path) -> Result<Lock, CertificatesError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| wrote(folder, source))?;
        let path = folder.join(LOCK);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|source| wrote(&path, source))?;
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(wrote(&path, error.into())),
            }
            if until <= Instant::now() {
                return Err(CertificatesError::Locked { folder: folder.to_owned() });
            }
            look_again();
        }
    }
}
