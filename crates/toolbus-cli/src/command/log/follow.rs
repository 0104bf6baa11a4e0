//! A journal as it is written, from one file to the next.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use toolbus::bus::journal::read::{self, Lines};
use toolbus_proto::page::CallFilter;

use super::filter::taken;
use super::rows::Rows;
use super::{Bad, cannot_read};
use crate::args::Globals;
use crate::failed::Failed;
use crate::runtime::{self, Signals};

/// How often it is looked whether there is more.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How many lines are read before signals have their turn.
const LINES_AT_ONCE: usize = 10_000;

/// What is there, and what comes, until a signal.
pub(super) fn follow(path: &Path, filter: &CallFilter, globals: &Globals) -> Result<(), Failed> {
    let mut rows = Rows::new(globals);
    let mut bad = Bad::default();
    let ended = runtime::block_on(async {
        let mut signals = Signals::listen()?;
        let mut following = Following::default();
        loop {
            let read = following.read(path, |line| {
                bad.or_entry(line, |entry, line| match taken(filter, entry) {
                    true => rows.add(entry, line),
                    false => Ok(()),
                })
            })?;
            rows.finish()?;
            let pause = if read == Read::All { LOOK_AGAIN } else { Duration::ZERO };
            tokio::select! {
                biased;
                exit = signals.next() => return Err(Failed::quietly(exit)),
                () = tokio::time::sleep(pause) => {}
            }
        }
    });
    bad.tell(path);
    ended
}

#[derive(Debug, PartialEq, Eq)]
enum Read {
    /// All that is there.
    All,
    Some,
}

/// Where we are in the journal.
#[derive(Default)]
struct Following {
    /// The files that are to be read, the last of them as it grows.
    files: VecDeque<Lines<File>>,
}

impl Following {
    /// Reads on.
    fn read(
        &mut self,
        path: &Path,
        mut take: impl FnMut(&[u8]) -> Result<(), Failed>,
    ) -> Result<Read, Failed> {
        let cannot = |error: io::Error| cannot_read(path, &error);
        if self.files.is_empty() {
            match read::open_all(path) {
                Ok(files) => self.files.extend(files.into_iter().map(Lines::new)),
                // It is made by the first call.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::All),
                Err(error) => return Err(cannot(error)),
            }
        }
        let mut left = LINES_AT_ONCE;
        while let Some(first) = self.files.front() {
            let is_last = self.files.len() == 1;
            // Asked before it is read to its end: what is written later goes to the next file.
            let behind = match is_last {
                true => read::behind(path, first.source()).map_err(cannot)?,
                false => None,
            };
            let Some(lines) = self.files.front_mut() else { break };
            while let Some(line) = lines.next_line().map_err(cannot)? {
                take(line)?;
                left -= 1;
                if left == 0 {
                    return Ok(Read::Some);
                }
            }
            if !is_last {
                take(lines.unfinished())?;
                self.files.pop_front();
                continue;
            }
            let next = behind.and_then(|behind| File::open(behind).ok());
            let Some(next) = next.filter(|next| !is_same(next, lines.source())) else { break };
            take(lines.unfinished())?;
            self.files.push_back(Lines::new(next));
            self.files.pop_front();
        }
        Ok(Read::All)
    }
}

fn is_same(one: &File, other: &File) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
