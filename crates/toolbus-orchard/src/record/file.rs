//! How a record gets to a disk and back: private, and true whenever we are killed.
//!
//! A small record is written whole, beside its place, and then moved there: at every start and
//! end of a node. A large one would cost more with each node, so from a certain size on what
//! changed is appended to a log beside the file, a node a line, and the file is written whole
//! only when the log has grown as large as it is, when a while has passed, and at the end. A
//! record is read by [`load`], which puts the log into the file first. The lines of a log are
//! whole nodes, so that putting them in twice does no harm.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::pretty::pretty;
use super::{ErrorRecord, NodeRecord, Record, Recorded, Status, TeardownRecord, time};
use std::collections::BTreeMap;

/// Up to this size a record is written whole at each change.
const WHOLE_BYTES_MAX: usize = 128 << 10;
/// With a log, the file itself is never older than this while something happens.
const FOLD_AFTER: Duration = Duration::from_secs(1);

/// A record that is being written.
pub struct RecordFile {
    /// `None` if no record is wanted.
    place: Option<Place>,
    /// What it says now.
    pub record: Record,
}

struct Place {
    path: PathBuf,
    /// How large the file was when it was last written whole.
    bytes: usize,
    log: Option<Log>,
}

struct Log {
    file: File,
    bytes: usize,
    folded: Instant,
    line: Vec<u8>,
}

/// One line of the log.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// This node is now so.
    Node(usize, Box<NodeRecord>),
    /// The rest of the record is now so.
    Run(Box<RunLine>),
}

/// All of a record that changes, but its nodes.
#[derive(Serialize, Deserialize)]
struct RunLine {
    status: Status,
    ended_at: Option<String>,
    outputs: BTreeMap<String, Recorded>,
    error: Option<ErrorRecord>,
    teardown: Option<TeardownRecord>,
}

/// Why a record cannot be written or read.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The folder cannot be made.
    #[error("cannot make the folder `{}` for the record", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write the record `{}`", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("cannot read the record `{}`", path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no record.
    #[error("`{}` is no record of a run", path.display())]
    NoRecord {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It was written by a program of another time.
    #[error("the record `{}` is of format {found}, this program reads 1.0", path.display())]
    Format {
        /// Where.
        path: PathBuf,
        /// What it says.
        found: String,
    },
}

impl RecordFile {
    /// Writes a new record into a folder, which is made if it is missing. Gives it with its path.
    pub fn create(folder: &Path, record: Record) -> Result<RecordFile, RecordError> {
        fs::create_dir_all(folder)
            .map_err(|source| RecordError::Folder { path: folder.to_owned(), source })?;
        let path = folder.join(file_name(&record.scenario, &record.run_id));
        let mut file = RecordFile { place: Some(Place::new(path)), record };
        file.write_whole(true)?;
        Ok(file)
    }

    /// A record that is kept in memory only.
    pub fn nowhere(record: Record) -> RecordFile {
        RecordFile { place: None, record }
    }

    /// One that was read, to be written again.
    pub fn of(path: PathBuf, record: Record) -> RecordFile {
        RecordFile { place: Some(Place::new(path)), record }
    }

    /// Where it is.
    pub fn path(&self) -> Option<&Path> {
        self.place.as_ref().map(|place| &*place.path)
    }

    /// A node has changed.
    pub fn node_changed(&mut self, index: usize) -> Result<(), RecordError> {
        let node = self.record.nodes[index].clone();
        self.changed(|| Line::Node(index, Box::new(node)))
    }

    /// Something else has changed, and nothing more will for a while.
    pub fn run_changed(&mut self) -> Result<(), RecordError> {
        let Record { status, ended_at, outputs, error, teardown, .. } = self.record.clone();
        let run = RunLine { status, ended_at, outputs, error, teardown };
        if self.place.as_ref().is_some_and(|place| place.log.is_some()) {
            self.append(&Line::Run(Box::new(run)))?;
        }
        self.write_whole(true)
    }

    fn changed(&mut self, line: impl FnOnce() -> Line) -> Result<(), RecordError> {
        let Some(place) = &mut self.place else { return Ok(()) };
        if place.log.is_none() && place.bytes <= WHOLE_BYTES_MAX {
            return self.write_whole(false);
        }
        self.append(&line())?;
        let Some(Place { bytes, log: Some(log), .. }) = &self.place else { return Ok(()) };
        if *bytes < log.bytes || FOLD_AFTER <= log.folded.elapsed() {
            self.write_whole(false)?;
        }
        Ok(())
    }

    fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        let Some(place) = &mut self.place else { return Ok(()) };
        let fail = |source| RecordError::Write { path: log_path(&place.path), source };
        let log = match &mut place.log {
            Some(log) => log,
            None => {
                let mut options = OpenOptions::new();
                options.append(true).create(true).mode(0o600);
                let file = options.open(log_path(&place.path)).map_err(fail)?;
                let (folded, line) = (Instant::now(), Vec::new());
                place.log.insert(Log { file, bytes: 0, folded, line })
            }
        };
        log.line.clear();
        serde_json::to_writer(&mut log.line, line).map_err(|error| fail(error.into()))?;
        log.line.push(b'\n');
        // One write, so that a line is there or is not.
        log.file.write_all(&log.line).map_err(fail)?;
        log.bytes += log.line.len();
        Ok(())
    }

    /// Writes the file, and removes the log, all of which is in it then.
    fn write_whole(&mut self, for_good: bool) -> Result<(), RecordError> {
        let Some(place) = &mut self.place else { return Ok(()) };
        place.bytes = write(&place.path, &self.record, for_good)?;
        if let Some(log) = &mut place.log {
            let fail = |source| RecordError::Write { path: log_path(&place.path), source };
            log.file.set_len(0).map_err(fail)?;
            log.bytes = 0;
            log.folded = Instant::now();
            if for_good {
                remove(&log_path(&place.path))?;
                place.log = None;
            }
        }
        Ok(())
    }
}

impl Place {
    fn new(path: PathBuf) -> Place {
        Place { path, bytes: 0, log: None }
    }
}

/// Eight digits of chance behind the time.
pub fn run_id(now: SystemTime, chance: u32) -> String {
    format!("{}_{chance:08x}", time::compact(now))
}

/// How the file of a record is called.
pub fn file_name(scenario: &str, run_id: &str) -> String {
    let is_fine = |char: char| char.is_ascii_alphanumeric() || "_.-".contains(char);
    let spelled: String =
        scenario.chars().map(|char| if is_fine(char) { char } else { '_' }).collect();
    format!("orchard_{spelled}_run_{run_id}.json")
}

/// Reads a record; a log beside it is put into the file first, unless its process still runs.
pub fn load(path: &Path) -> Result<Record, RecordError> {
    let mut record = read(path)?;
    if fold(path, &mut record)? && !record.process.is_alive() {
        write(path, &record, true)?;
        remove(&log_path(path))?;
    }
    Ok(record)
}

/// Puts the log beside a record into it. Was there one?
fn fold(path: &Path, record: &mut Record) -> Result<bool, RecordError> {
    let log_path = log_path(path);
    let log = match fs::read(&log_path) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(RecordError::Read { path: log_path, source }),
    };
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        // The last line may be half written: then what it says had not begun.
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let Ok(line) = serde_json::from_slice(line) else { break };
        match line {
            Line::Node(index, node) => {
                if let Some(place) = record.nodes.get_mut(index) {
                    *place = *node;
                }
            }
            Line::Run(run) => {
                let RunLine { status, ended_at, outputs, error, teardown } = *run;
                (record.status, record.ended_at, record.outputs) = (status, ended_at, outputs);
                (record.error, record.teardown) = (error, teardown);
            }
        }
    }
    Ok(true)
}

fn read(path: &Path) -> Result<Record, RecordError> {
    let text = fs::read_to_string(path)
        .map_err(|source| RecordError::Read { path: path.to_owned(), source })?;
    #[derive(Deserialize)]
    struct Version {
        format_version: String,
    }
    let no_record = |source| RecordError::NoRecord { path: path.to_owned(), source };
    let Version { format_version: found } = serde_json::from_str(&text).map_err(no_record)?;
    if found.split('.').next() != super::FORMAT_VERSION.split('.').next() {
        return Err(RecordError::Format { path: path.to_owned(), found });
    }
    serde_json::from_str(&text).map_err(no_record)
}

/// The records in a folder, newest first, by the times in their names.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some((_, id)) = name.strip_suffix(".json").and_then(|name| name.rsplit_once("_run_"))
        else {
            continue;
        };
        if name.starts_with("orchard_") {
            let second = id.split('_').next().unwrap_or_default().to_owned();
            found.push((second, id.to_owned(), folder.join(name)));
        }
    }
    // Of those that began in one second their records tell which was the later.
    let mut seconds: BTreeMap<String, usize> = BTreeMap::new();
    found.iter().for_each(|(second, ..)| *seconds.entry(second.clone()).or_default() += 1);
    let key = |(second, id, path): &(String, String, PathBuf)| {
        let is_alone = seconds.get(second) == Some(&1);
        let began = if is_alone { None } else { read(path).ok().map(|record| record.started_at) };
        (second.clone(), began, id.clone())
    };
    found.sort_by_cached_key(|one| std::cmp::Reverse(key(one)));
    Ok(found.into_iter().map(|(.., path)| path).collect())
}

/// Writes a record beside its place and moves it there. Says how large it is.
fn write(path: &Path, record: &Record, for_good: bool) -> Result<usize, RecordError> {
    let fail = |source| RecordError::Write { path: path.to_owned(), source };
    let text = serde_json::to_string(record).map_err(|error| fail(error.into()))?;
    let text = pretty(&text);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("record");
    let beside = path.with_file_name(format!(".{name}.tmp"));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&beside).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    if for_good {
        // Survives the end of the power, too; in between the end of the process is enough.
        file.sync_data().map_err(fail)?;
    }
    fs::rename(&beside, path).map_err(fail)?;
    Ok(text.len())
}

fn remove(path: &Path) -> Result<(), RecordError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RecordError::Write { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn log_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

#[cfg(test)]
mod tests;
