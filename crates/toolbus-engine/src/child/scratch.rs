//! A folder for what must not outlive us: keys that were made for one run, prompts that are too long
//! for a command line.
//!
//! There is one for each process, among temporary files, made when it is needed first. The guard
//! knows its name and removes it when we are gone, however we went; if the guard was killed, too, the
//! next process of ours that needs such a folder removes it. Whether a folder is still in use is told
//! by a lock on a file in it, which ends with its owner.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;

use super::guard;
use crate::chance;

/// How the names of such folders begin, and what follows is random; the second is that of older
/// versions.
const PREFIXES: [&str; 2] = ["toolbus-scratch-", "toolbus-plugin-"];
/// The file that is locked as long as its folder is in use.
const ALIVE: &str = "alive";
/// A folder without that file is being made, or of an older version, or has been forgotten.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

/// The folder of this process, whether or not it has been made.
pub(super) fn name() -> &'static Path {
    static NAME: OnceLock<PathBuf> = OnceLock::new();
    NAME.get_or_init(|| {
        let token = u64::from_ne_bytes(chance::bytes());
        std::env::temp_dir().join(format!("{}{token:016x}", PREFIXES[0]))
    })
}

/// The folder of this process, which only we may look into.
#[allow(dead_code, reason = "a build may have only wires that keep nothing there")]
pub fn folder() -> io::Result<&'static Path> {
    static ALIVE_FILE: Mutex<Option<File>> = Mutex::new(None);
    let mut alive = ALIVE_FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = name();
    // A user who cleans up may have removed it.
    if alive.is_none() || !folder.is_dir() {
        sweep(&std::env::temp_dir());
        // Before there is anything to remove, or what is made before the first child would be left.
        drop(guard::listening()?);
        *alive = Some(make(folder)?);
    }
    Ok(folder)
}

/// Makes the folder; it is in use as long as the file is open.
fn make(folder: &Path) -> io::Result<File> {
    DirBuilder::new().mode(0o700).create(folder)?;
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(folder.join(ALIVE))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Removes the folder of a process that is gone. Not being there is what is wanted.
pub(super) fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}

/// Removes the folders of those who were killed together with their guards.
fn sweep(among: &Path) {
    let Ok(entries) = fs::read_dir(among) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours =
            PREFIXES.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
        if is_ours && is_left(&entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Is it a folder of this user that no process uses any more?
fn is_left(folder: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(folder) else { return false };
    let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_own {
        return false;
    }
    match File::open(folder.join(ALIVE)) {
        Ok(file) => rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(_) => {
            let age = found.modified().map(|at| SystemTime::now().duration_since(at));
            age.is_ok_and(|age| age.is_ok_and(|age| FORGOTTEN < age))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for one test, gone with it.
    struct Among(PathBuf);

    impl Among {
        fn new() -> Among {
            let token = u64::from_ne_bytes(chance::bytes());
            let path = std::env::temp_dir().join(format!("toolbus-test-{token:016x}"));
            fs::create_dir(&path).unwrap();
            Among(path)
        }
    }

    impl Drop for Among {
        fn drop(&mut self) {
            remove(&self.0);
        }
    }

    #[test]
    fn what_no_process_uses_is_swept() {
        let among = Among::new();
        let [used, left, made, other] =
            ["toolbus-scratch-1", "toolbus-scratch-2", "toolbus-scratch-3", "toolbus-else"]
                .map(|name| among.0.join(name));
        let _in_use = make(&used).unwrap();
        drop(make(&left).unwrap());
        fs::write(left.join("ca.key"), "secret").unwrap();
        // One that is being made right now has no file yet, and one of another name is not ours.
        fs::create_dir(&made).unwrap();
        drop(make(&other).unwrap());
        sweep(&among.0);
        assert_eq!(
            [&used, &left, &made, &other].map(|path| path.exists()),
            [true, false, true, true]
        );
    }

    #[test]
    fn what_an_older_version_left_behind_is_swept_after_a_day() {
        let among = Among::new();
        let [old, new] = ["toolbus-plugin-1", "toolbus-plugin-2"].map(|name| among.0.join(name));
        fs::create_dir(&old).unwrap();
        fs::create_dir(&new).unwrap();
        let two_days_ago = SystemTime::now() - FORGOTTEN * 2;
        File::open(&old).unwrap().set_modified(two_days_ago).unwrap();
        sweep(&among.0);
        assert_eq!([&old, &new].map(|path| path.exists()), [false, true]);
    }

    #[test]
    fn the_folder_of_this_process_is_there_once_it_is_asked_for() {
        let folder = folder().unwrap();
        assert!(folder.join(ALIVE).is_file());
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
        assert!(!is_left(folder));
    }
}
