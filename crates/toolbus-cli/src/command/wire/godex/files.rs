//! Files and standard input, as a run reads and writes them: bounded, private, named in errors.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use toolbus_proto::godex::{FILE_BYTES_MAX, RunError};

use crate::stdio;

/// Reads a file of at most [`FILE_BYTES_MAX`].
pub(super) fn read(path: &Path) -> Result<Vec<u8>, RunError> {
    let shown = path.display();
    let cannot = |error: io::Error| RunError::usage(format!("cannot read `{shown}`: {error}"));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
    match bytes.len() <= FILE_BYTES_MAX {
        true => Ok(bytes),
        false => {
            Err(RunError::usage(format!("`{shown}` is over the limit of {FILE_BYTES_MAX} bytes")))
        }
    }
}

pub(super) fn read_text(path: &Path) -> Result<String, RunError> {
    let shown = path.display();
    String::from_utf8(read(path)?).map_err(|_| RunError::usage(format!("`{shown}` is not UTF-8")))
}

/// All of standard input.
pub(super) async fn read_stdin() -> Result<String, RunError> {
    let cannot = |error: io::Error| RunError::usage(format!("cannot read standard input: {error}"));
    let mut stdin = stdio::stdin().map_err(cannot)?;
    let mut bytes = BytesMut::new();
    while stdin.read(&mut bytes).await.map_err(cannot)? != 0 {
        if FILE_BYTES_MAX < bytes.len() {
            let message = format!("standard input is over the limit of {FILE_BYTES_MAX} bytes");
            return Err(RunError::usage(message));
        }
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| RunError::usage("standard input is not UTF-8"))
}

/// Opens a log: private if it is new.
pub(super) fn log(path: &Path, is_appended: bool) -> Result<File, RunError> {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    match is_appended {
        true => options.append(true),
        false => options.write(true).truncate(true),
    };
    options.open(path).map_err(|error| not_writable(path, &error))
}

fn not_writable(path: &Path, error: &io::Error) -> RunError {
    RunError::usage(format!("cannot write `{}`: {error}", path.display()))
}

/// A file that is written when all has gone well, and keeps what it has if not.
pub(super) struct AtTheEnd {
    path: PathBuf,
    was_there: bool,
}

impl AtTheEnd {
    /// Finds out now whether it can be written.
    pub(super) fn open(path: &Path) -> Result<AtTheEnd, RunError> {
        let was_there = path.exists();
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|error| not_writable(path, &error))?;
        Ok(AtTheEnd { path: path.to_owned(), was_there })
    }

    pub(super) fn write(mut self, text: &str) -> io::Result<()> {
        self.was_there = true;
        fs::write(&self.path, text)
    }
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        if !self.was_there {
            // It was only made to see whether it can be.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Rewrites a file as a whole or not at all, for us alone to read.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // What a link points to is rewritten, and the link stays.
    let path = fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let _ = fs::remove_file(&beside);
    let mut options = OpenOptions::new();
    let written =
        options.write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
    written.and_then(|()| fs::rename(&beside, &path)).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}
