//! The files of a journal: it is rotated when it is full, and found again when it is gone.
//!
//! Several processes may write to one journal. One that finds its file full, or gone, looks at what
//! is there now: it rotates if no other has, or goes on in the new file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::open::{Open, begin_of_line};

/// How many files are kept besides the one that is written.
pub(super) const KEPT: usize = 3;

/// How long a file that cannot be rotated is just appended to.
const ROTATE_AGAIN: Duration = Duration::from_secs(10);

/// The file that an old journal is kept in: `1` is the youngest.
pub(super) fn kept(path: &Path, number: usize) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

/// Not all lines could be written.
#[derive(Debug)]
pub(super) struct Cut {
    /// So many bytes of them are in the file, which are whole lines.
    pub(super) whole: usize,
    pub(super) error: io::Error,
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Cut {
        Cut { whole: 0, error }
    }
}

/// Where the first of these lines ends.
pub(super) fn end_of_line(lines: &[u8]) -> usize {
    lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |end| end + 1)
}

pub(super) struct JournalFile {
    path: PathBuf,
    bytes_max: u64,
    open: Option<Open>,
    /// Not before then, if it could not be rotated.
    rotate_again: Option<Instant>,
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

    /// Appends lines, each with its end, in as few writes as there are files that take them.
    pub(super) fn append(&mut self, now: Instant, lines: &[u8]) -> Result<(), Cut> {
        let mut whole = 0;
        while whole < lines.len() {
            if let Err(cut) = self.append_some(now, &lines[whole..], &mut whole) {
                // By the next line there may be another file, or room in this one.
                self.open = None;
                return Err(Cut { whole: whole + cut.whole, ..cut });
            }
        }
        Ok(())
    }

    /// Appends as many of the lines as the file has room for, the first in any case.
    fn append_some(&mut self, now: Instant, lines: &[u8], whole: &mut usize) -> Result<(), Cut> {
        self.open_if_closed()?;
        if let Some(open) = &mut self.open
            && !open.is_current(now, &self.path)?
        {
            self.open()?;
        }
        let first = end_of_line(lines);
        let is_full = |open: &Open| open.is_full(self.bytes_max, first);
        if self.open.as_ref().is_some_and(is_full)
            && self.rotate_again.is_none_or(|again| again <= now)
        {
            self.rotate(now)?;
        }
        let Some(open) = &mut self.open else {
            return Err(io::Error::from(ErrorKind::NotFound).into());
        };
        let room = open.room(self.bytes_max);
        let fitting = match lines.len() <= room {
            true => lines.len(),
            false => begin_of_line(lines, room).max(first),
        };
        open.write(&lines[..fitting])?;
        *whole += fitting;
        Ok(())
    }

    /// Goes on in a new file, unless another process has begun one.
    fn rotate(&mut self, now: Instant) -> io::Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        let Some(_rotating) = RotationLock::take(&self.path) else {
            // Another process rotates right now: this line may still go to the old file.
            return Ok(());
        };
        if open.is_at(&self.path)?
            && let Err(error) = make_room(&self.path)
        {
            let path = self.path.display();
            tracing::warn!("the journal `{path}` cannot be rotated, and grows: {error}");
            self.rotate_again = Some(now + ROTATE_AGAIN);
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

/// Held by the process that rotates. It is a lock on the folder: those on the files are shared by
/// all who write.
struct RotationLock {
    _folder: Option<File>,
}

impl RotationLock {
    /// `None` if another process has it.
    fn take(path: &Path) -> Option<RotationLock> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // A folder that may not be read, or a file system without locks: then it goes without.
        let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) else {
            return Some(RotationLock { _folder: None });
        };
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => None,
            _ => Some(RotationLock { _folder: Some(folder) }),
        }
    }
}
