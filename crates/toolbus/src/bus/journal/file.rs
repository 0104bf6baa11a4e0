//! The file of a journal: lines are appended whole, and it is rotated when it is full.
//!
//! Several processes may write to one file. Each line is one write behind all others, and a
//! process that finds its file full, or gone, looks at what is there now: it rotates if no other
//! has, or goes on in the new file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// How many files are kept besides the one that is written.
pub(super) const KEPT: usize = 3;

/// How often it is looked whether the file was moved away by others.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a file that cannot be rotated is just appended to.
const ROTATE_AGAIN: Duration = Duration::from_secs(10);

/// The file that an old journal is kept in: `1` is the youngest.
pub(super) fn kept(path: &Path, number: usize) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

pub(super) struct JournalFile {
    path: PathBuf,
    bytes_max: u64,
    open: Option<Open>,
    /// Not before then, if it could not be rotated.
    rotate_again: Option<Instant>,
}

/// The file that is written to.
struct Open {
    file: File,
    /// Only such files can be rotated.
    is_regular: bool,
    /// Its length behind our last line.
    len: u64,
    /// It does not end with the end of a line: the next begins with one.
    is_torn: bool,
    looked: Instant,
}

impl JournalFile {
    pub(super) fn new(path: PathBuf, bytes_max: u64) -> JournalFile {
        JournalFile { path, bytes_max, open: None, rotate_again: None }
    }

    /// Opens it, or what is there now in its place.
    pub(super) fn open(&mut self) -> io::Result<()> {
        self.open = Some(Open::at(&self.path, Instant::now())?);
        Ok(())
    }

    /// The same, unless it is open.
    pub(super) fn open_if_closed(&mut self) -> io::Result<()> {
        if self.open.is_some() { Ok(()) } else { self.open() }
    }

    /// Appends a line, which stands between two ends of lines: the first is written only where
    /// the line before has none.
    pub(super) fn append(&mut self, now: Instant, line: &[u8]) -> io::Result<()> {
        let appended = self.try_append(now, line);
        if appended.is_err() {
            // By the next line there may be another file, or room in this one.
            self.open = None;
        }
        appended
    }

    fn try_append(&mut self, now: Instant, line: &[u8]) -> io::Result<()> {
        self.open_if_closed()?;
        if let Some(open) = &mut self.open
            && !open.is_current(now, &self.path)?
        {
            self.open()?;
        }
        if self.is_full(line.len()) && self.rotate_again.is_none_or(|again| again <= now) {
            self.rotate(now)?;
        }
        match &mut self.open {
            Some(open) => open.write(line),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn is_full(&self, more: usize) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| {
            open.is_regular && 0 < open.len && self.bytes_max < open.len + more as u64
        })
    }

    /// Goes on in a new file, unless another process has begun one.
    fn rotate(&mut self, now: Instant) -> io::Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        match flock(&open.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            // Another process rotates right now: this line may still go to the old file.
            Err(Errno::WOULDBLOCK) => return Ok(()),
            // A file system without locks.
            Err(_) => {}
        }
        if open.is_at(&self.path)?
            && let Err(error) = make_room(&self.path)
        {
            let path = self.path.display();
            tracing::warn!("the journal `{path}` cannot be rotated, and grows: {error}");
            self.rotate_again = Some(now + ROTATE_AGAIN);
            // The lock is held by the open file.
            let _ = flock(&open.file, FlockOperation::Unlock);
            return Ok(());
        }
        self.rotate_again = None;
        // As long as there is no new file, the old one is better than none.
        if let Ok(open) = Open::at(&self.path, now) {
            self.open = Some(open);
        }
        Ok(())
    }
}

/// Moves the files on by one, the oldest out. What was left half-way by a process that was killed
/// is a gap, up to which they move.
fn make_room(path: &Path) -> io::Result<()> {
    let gap = (1..KEPT).find(|number| !kept(path, *number).exists()).unwrap_or(KEPT);
    for number in (1..gap).rev() {
        fs::rename(kept(path, number), kept(path, number + 1))?;
    }
    fs::rename(path, kept(path, 1))
}

impl Open {
    fn at(path: &Path, now: Instant) -> io::Result<Open> {
        let options = &mut OpenOptions::new();
        // Whatever it is, it must not keep us waiting. It is read for its last byte.
        options.read(true).append(true).create(true).mode(0o600);
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file = match options.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(Path::new(""));
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                options.open(path)?
            }
            opened => opened?,
        };
        let found = file.metadata()?;
        let (is_regular, len) = (found.is_file(), found.len());
        let mut open = Open { file, is_regular, len, is_torn: false, looked: now };
        open.look_at_end();
        Ok(open)
    }

    /// A line that was left half-way by a process or machine that died is not gone on with.
    fn look_at_end(&mut self) {
        let mut last = [b'\n'];
        if self.is_regular && 0 < self.len && self.file.read_at(&mut last, self.len - 1).is_ok() {
            self.is_torn = last != [b'\n'];
        }
    }

    /// Is it still what lies at `path`, as far as one can tell at this price? Looks at its length.
    fn is_current(&mut self, now: Instant, path: &Path) -> io::Result<bool> {
        if !self.is_regular {
            return Ok(true);
        }
        // Asked for each line: this is the cheapest way to ask.
        let found = rustix::fs::fstat(&self.file)?;
        if found.st_nlink == 0 {
            return Ok(false);
        }
        let len = u64::try_from(found.st_size).unwrap_or(0);
        if len != self.len {
            // Others wrote to it, or emptied it.
            self.len = len;
            self.is_torn = false;
            self.look_at_end();
        }
        if LOOK_AGAIN <= now.saturating_duration_since(self.looked) {
            self.looked = now;
            return self.is_at(path);
        }
        Ok(true)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        match fs::metadata(path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut left = if self.is_torn { line } else { &line[1..] };
        while !left.is_empty() {
            match rustix::io::write(&self.file, left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                // All of it, unless the disk is full right here.
                Ok(written) => {
                    self.len += written as u64;
                    left = &left[written..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.is_torn = false;
        Ok(())
    }
}
