//! One open file of a journal: whole lines are appended to it, whatever others write there.
//!
//! Lines that come together are one write behind all that is there, so those of two processes never
//! mix. What was left half-way, by a process that was killed or on a full disk, is found out in two ways: who has the
//! file alone ends that line, and who shares it looks behind each write of its own. A look before
//! the write would not do: another process may be in the middle of its line just then, and an end
//! put behind that would be an empty line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::file::{Cut, end_of_line};

/// How often it is looked whether the file was moved away by others.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often it is tried to share a file which another process has for itself. Ours have it so for
/// the moment that ending a line takes; a stranger may keep it, and we do not wait for that.
const SHARE_TRIES: usize = 50;
const SHARE_AGAIN: Duration = Duration::from_millis(1);

/// What a write to a pipe may have, if it shall not be cut in two by the writes of others.
const PIPE_BYTES_MAX: u64 = 4096;

/// The file that is written to.
pub(super) struct Open {
    file: File,
    /// Only such files can be rotated, and have positions.
    is_regular: bool,
    /// All who write to it share a lock on it. `false` as long as we could not have our part.
    is_shared: bool,
    /// Its length as we last saw it.
    len: u64,
    /// Where the last line that we wrote ends. What begins there begins a line.
    line_end: u64,
    looked: Instant,
}

impl Open {
    pub(super) fn at(path: &Path, now: Instant) -> io::Result<Open> {
        let options = &mut OpenOptions::new();
        // Whatever it is, it must not keep us waiting. It is read for the ends of lines.
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
        let is_regular = file.metadata()?.is_file();
        let mut open =
            Open { file, is_regular, is_shared: false, len: 0, line_end: 0, looked: now };
        if is_regular {
            open.share();
            open.len = open.file.metadata()?.len();
            open.mend();
        }
        Ok(open)
    }

    /// Would it be longer than this with so many bytes more? An empty one never is.
    pub(super) fn is_full(&self, bytes_max: u64, more: usize) -> bool {
        self.is_regular && 0 < self.len && bytes_max < self.len + more as u64
    }

    /// How many bytes are to be written at once, if it shall not be longer than this.
    pub(super) fn room(&self, bytes_max: u64) -> usize {
        let room = match self.is_regular {
            true => bytes_max.saturating_sub(self.len),
            // More than that mixes with what others write to a pipe.
            false => PIPE_BYTES_MAX,
        };
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Is it still what lies at `path`, as far as one can tell at this price? Looks at its length.
    pub(super) fn is_current(&mut self, now: Instant, path: &Path) -> io::Result<bool> {
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
            self.mend();
        }
        if LOOK_AGAIN <= now.saturating_duration_since(self.looked) {
            self.looked = now;
            return self.is_at(path);
        }
        Ok(true)
    }

    pub(super) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        match fs::metadata(path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Appends lines, each with its end.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), Cut> {
        if self.is_regular && !self.is_shared {
            let _ = self.try_to_share();
        }
        let mut spoiled = self.write_once(lines)?;
        // One that stands behind half a line is spoiled like that one, and ends it: the second
        // begins a line, unless yet another process was killed between the two.
        while let Some(line) = spoiled.pop() {
            match self.write_once(&lines[line.clone()]) {
                Ok(again) if again.is_empty() => {}
                Ok(_) => spoiled.push(line),
                Err(Cut { error, .. }) => {
                    let first = spoiled.iter().map(|line| line.start).fold(line.start, usize::min);
                    return Err(Cut { whole: first, error });
                }
            }
        }
        Ok(())
    }

    /// Gives those that do not stand on a line of their own.
    fn write_once(&mut self, lines: &[u8]) -> Result<Vec<Range<usize>>, Cut> {
        let mut spoiled: Vec<Range<usize>> = Vec::new();
        let mut begin = None;
        let mut at = 0;
        while at < lines.len() {
            let written = match rustix::io::write(&self.file, &lines[at..]) {
                Ok(0) => Err(ErrorKind::WriteZero.into()),
                // All of it, unless the disk is full right here.
                Ok(written) => Ok(written),
                Err(Errno::INTR) => continue,
                Err(error) => Err(io::Error::from(error)),
            };
            let written = match written {
                Ok(written) => written,
                Err(error) => {
                    let whole = match begin.is_some_and(|begin| self.is_alone(begin)) {
                        true => spoiled.first().map_or(begin_of_line(lines, at), |line| line.start),
                        false => 0,
                    };
                    return Err(Cut { whole, error });
                }
            };
            let from = at;
            at += written;
            // Where the write ended is known only to us, however many write.
            let Some(end) = self.position() else { continue };
            let start = end.saturating_sub(written as u64);
            let is_next = from == 0 || start == self.len;
            self.len = end;
            begin = begin.or(Some(start));
            let line = begin_of_line(lines, from);
            if !is_next && (line < from || !self.is_alone(start)) {
                // Others wrote meanwhile, behind the first part of a line of ours or half of theirs.
                spoiled.push(line..from + end_of_line(&lines[from..]));
            }
        }
        let Some(begin) = begin else { return Ok(spoiled) };
        let first = 0..end_of_line(lines);
        if !self.is_alone(begin) && spoiled.first() != Some(&first) {
            spoiled.push(first);
        }
        self.line_end = self.len;
        Ok(spoiled)
    }

    /// Does a line begin here, where we have begun to write?
    fn is_alone(&self, begin: u64) -> bool {
        begin == self.line_end || !self.is_within_line(begin)
    }

    /// Behind our last write; `None` where there are no positions.
    fn position(&self) -> Option<u64> {
        self.is_regular.then(|| rustix::fs::tell(&self.file).ok()).flatten()
    }

    /// Is there a line before `at` that has no end?
    fn is_within_line(&self, at: u64) -> bool {
        let mut before = [b'\n'];
        // What cannot be read is taken for right.
        at != 0 && self.file.read_at(&mut before, at - 1).is_ok() && before != [b'\n']
    }

    /// Ends a line that was left half-way, if no other process can be about to go on with it.
    fn mend(&mut self) {
        if !self.is_shared || !self.is_within_line(self.len) {
            return;
        }
        // What we have of the lock is given up for that, and is to be asked for again.
        self.is_shared = false;
        if flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // The process that we saw in the middle of its line may have ended it and gone since.
            self.len = self.file.metadata().map_or(self.len, |found| found.len());
            if self.is_within_line(self.len) && rustix::io::write(&self.file, b"\n") == Ok(1) {
                self.len += 1;
            }
        }
        self.share();
    }

    fn share(&mut self) {
        for _ in 0..SHARE_TRIES {
            match self.try_to_share() {
                Err(Errno::WOULDBLOCK) => thread::park_timeout(SHARE_AGAIN),
                // Or a file system without locks, where no process has it for itself.
                _ => return,
            }
        }
    }

    fn try_to_share(&mut self) -> Result<(), Errno> {
        flock(&self.file, FlockOperation::NonBlockingLockShared)?;
        self.is_shared = true;
        Ok(())
    }
}

/// Where the line begins that goes on at `at`.
pub(super) fn begin_of_line(lines: &[u8], at: usize) -> usize {
    lines[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;

    use toolbus_testkit::scratch::Scratch;

    use super::*;

    struct Folder(Scratch);

    impl Folder {
        fn new() -> Folder {
            Folder(Scratch::new())
        }

        fn path(&self) -> PathBuf {
            self.0.file("j").into()
        }

        fn open(&self) -> Open {
            Open::at(&self.path(), Instant::now()).unwrap()
        }

        /// By a program that knows no locks.
        fn append(&self, text: &str) {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).create(true).open(self.path()).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn text(&self) -> String {
            fs::read_to_string(self.path()).unwrap()
        }
    }

    #[test]
    fn who_has_it_alone_ends_a_line_that_was_left_half_way() {
        let folder = Folder::new();
        folder.append("ha");
        let mut open = folder.open();
        open.write(b"one\n").unwrap();
        folder.append("lf");
        assert!(open.is_current(Instant::now(), &folder.path()).unwrap());
        open.write(b"two\n").unwrap();
        assert_eq!(folder.text(), "ha\none\nlf\ntwo\n");
    }

    #[test]
    fn a_line_that_another_is_about_to_end_gets_no_second_end() {
        let folder = Folder::new();
        let _other = folder.open();
        folder.append("ha");
        let mut open = folder.open();
        assert!(open.is_current(Instant::now(), &folder.path()).unwrap());
        folder.append("lf\n");
        open.write(b"one\n").unwrap();
        assert_eq!(folder.text(), "half\none\n");
    }

    #[test]
    fn a_line_behind_half_of_another_is_written_again() {
        let folder = Folder::new();
        let _other = folder.open();
        let mut open = folder.open();
        open.write(b"one\n").unwrap();
        folder.append("ha");
        assert!(open.is_current(Instant::now(), &folder.path()).unwrap());
        open.write(b"two\n").unwrap();
        open.write(b"three\n").unwrap();
        assert_eq!(folder.text(), "one\nhatwo\ntwo\nthree\n");
    }

    #[test]
    fn a_stranger_who_has_it_for_itself_is_not_waited_for() {
        let folder = Folder::new();
        folder.append("ha");
        let stranger = File::open(folder.path()).unwrap();
        flock(&stranger, FlockOperation::LockExclusive).unwrap();
        let mut open = folder.open();
        open.write(b"one\n").unwrap();
        assert_eq!(folder.text(), "haone\none\n");
        // Closing it would not do: a process that another test starts right now has it open, too.
        flock(&stranger, FlockOperation::Unlock).unwrap();
        folder.append("lf");
        open.write(b"two\n").unwrap();
        assert!(open.is_shared);
    }

    #[test]
    fn of_many_lines_only_the_one_behind_half_of_another_is_written_again() {
        let folder = Folder::new();
        let _other = folder.open();
        let mut open = folder.open();
        folder.append("ha");
        open.write(b"one\ntwo\nthree\n").unwrap();
        assert_eq!(folder.text(), "haone\ntwo\nthree\none\n");
    }

    /// Lines of many pages, so that each process sees the others in the middle of theirs.
    #[test]
    fn many_who_write_at_once_leave_neither_an_empty_line_nor_half_of_one() {
        const LINES: usize = 50;
        let folder = Folder::new();
        let path = folder.path();
        let write = |letter: u8| {
            let path = path.clone();
            move || {
                let mut line = vec![letter; 200_000];
                line.push(b'\n');
                let two = [&*line, &line].concat();
                let mut open = Open::at(&path, Instant::now()).unwrap();
                for _ in 0..LINES / 2 {
                    assert!(open.is_current(Instant::now(), &path).unwrap());
                    open.write(&two).unwrap();
                }
            }
        };
        let writers: Vec<_> = b"abc".iter().map(|letter| thread::spawn(write(*letter))).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let text = folder.text();
        let mut counts = [0; 3];
        for line in text.lines() {
            let letter = line.bytes().next().expect("no line is empty");
            let is_whole = line.len() == 200_000 && line.bytes().all(|byte| byte == letter);
            assert!(is_whole, "a line of {} bytes", line.len());
            counts[usize::from(letter - b'a')] += 1;
        }
        assert_eq!(counts, [LINES; 3]);
    }
}
