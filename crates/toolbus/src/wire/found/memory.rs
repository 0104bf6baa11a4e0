//! What programs spoke, by the words of their commands: in this process, and from one to the next
//! in a small file, where the program that embeds us wants that.
//!
//! It only saves time. A file that cannot be read or written, or says what is not so, costs that
//! time and nothing else: a caller of what is remembered here checks it by what the program says.
//! Commands stand in it as numbers, since secrets may be among their words.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::address::{Address, Place};
use crate::peer::settings::Settings;
use crate::peer::{PeerKind, Registry};

/// The name of the file.
const FILE: &str = "programs";
/// How many programs are remembered; the oldest make room.
const PROGRAMS_MAX: usize = 256;
/// A larger file is not ours.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What is remembered of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    program: u64,
    /// The name of its kind.
    kind: String,
}

#[derive(Default)]
struct Memory {
    learned: HashMap<u64, &'static dyn PeerKind>,
    folder: Option<PathBuf>,
}

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

thread_local! {
    /// Whose turn it is to find out what a program speaks.
    static TURNS: RefCell<HashMap<u64, Rc<tokio::sync::Mutex<()>>>> = RefCell::default();
}

/// Held by the one who tries a program, so that the others who would can wait for what it finds.
pub(super) fn turn(address: &Address, settings: &Settings) -> Rc<tokio::sync::Mutex<()>> {
    let program = match address.place() {
        Place::Command(words) => number(words, settings),
        _ => 0,
    };
    TURNS.with_borrow_mut(|turns| turns.entry(program).or_default().clone())
}

fn with<T>(act: impl FnOnce(&mut Memory) -> T) -> T {
    act(&mut MEMORY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// From now on what programs speak is remembered in a file in this folder, which is made when
/// there is something to remember.
pub fn remember_in(folder: impl Into<PathBuf>) {
    let folder = folder.into();
    with(|memory| memory.folder = Some(folder));
}

/// What the program is, as this process has learned before.
pub(super) fn learned(words: &[String], settings: &Settings) -> Option<&'static dyn PeerKind> {
    let program = number(words, settings);
    with(|memory| memory.learned.get(&program).copied())
}

/// This process is to take the program for this.
pub(super) fn learn(words: &[String], settings: &Settings, kind: &'static dyn PeerKind) {
    let program = number(words, settings);
    with(|memory| memory.learned.insert(program, kind));
}

/// What the program was when it was last found out.
pub(super) fn kind_of(words: &[String], settings: &Settings) -> Option<&'static dyn PeerKind> {
    let program = number(words, settings);
    let folder = with(|memory| match memory.learned.get(&program) {
        Some(&kind) => Err(kind),
        None => Ok(memory.folder.clone()),
    });
    let folder = match folder {
        Ok(folder) => folder?,
        Err(kind) => return Some(kind),
    };
    let found = read(&folder).into_iter().find(|entry| entry.program == program)?;
    Registry::default().find(&found.kind).filter(|kind| !kind.is(&super::DETECTED))
}

/// It has shown that it is of this kind.
pub(super) fn remember(words: &[String], settings: &Settings, kind: &'static dyn PeerKind) {
    learn(words, settings, kind);
    let entry = Entry { program: number(words, settings), kind: kind.name().to_owned() };
    change(entry.program, Some(entry));
}

/// It is not what it was.
pub(super) fn forget(words: &[String], settings: &Settings) {
    let program = number(words, settings);
    with(|memory| memory.learned.remove(&program));
    change(program, None);
}

/// Puts this in place of what is known of the program.
fn change(program: u64, entry: Option<Entry>) {
    let Some(folder) = with(|memory| memory.folder.clone()) else { return };
    let before = read(&folder);
    let known = before.iter().find(|known| known.program == program);
    if known == entry.as_ref() {
        return;
    }
    let others = before.into_iter().filter(|known| known.program != program);
    let mut entries: Vec<_> = others.chain(entry).collect();
    entries.drain(..entries.len().saturating_sub(PROGRAMS_MAX));
    // Without it the program is found out again.
    if let Err(error) = write(&folder, &entries) {
        tracing::debug!("cannot write what programs speak to `{}`: {error}", folder.display());
    }
}

/// The entries of the file, the oldest first. Lines that are none are left out.
fn read(folder: &Path) -> Vec<Entry> {
    let mut text = Vec::new();
    let file = File::open(folder.join(FILE));
    let read = file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&text);
    let entry = |line: &str| {
        let (program, kind) = line.split_once(' ')?;
        let program = u64::from_str_radix(program, 16).ok()?;
        Some(Entry { program, kind: kind.to_owned() })
    };
    text.lines().filter_map(entry).collect()
}

/// Replaces the file at once, so that who reads it meanwhile sees the old one or the new.
fn write(folder: &Path, entries: &[Entry]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let next = folder.join(format!("{FILE}.{}", std::process::id()));
    let lines = entries.iter().map(|entry| format!("{:016x} {}\n", entry.program, entry.kind));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&next)
        .and_then(|mut file| file.write_all(lines.collect::<String>().as_bytes()))
        .and_then(|()| fs::rename(&next, folder.join(FILE)));
    if written.is_err() {
        let _ = fs::remove_file(&next);
    }
    written
}

/// Stands for a command and the folder it runs in: FNV-1a, which is the same in every build.
fn number(words: &[String], settings: &Settings) -> u64 {
    let cwd = settings.program.cwd.clone().or_else(|| std::env::current_dir().ok());
    let cwd = cwd.unwrap_or_default();
    let parts = words.iter().map(String::as_bytes).chain([cwd.as_os_str().as_encoded_bytes()]);
    let mut number = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.flat_map(|part| part.iter().copied().chain([0])) {
        number = (number ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(program: u64, kind: &str) -> Entry {
        Entry { program, kind: kind.to_owned() }
    }

    /// A folder that is removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("toolbus-memory-{name}-{}", std::process::id());
            Folder(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_written_is_read_and_is_for_the_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new("kept");
        assert_eq!(read(&folder.0), []);
        let entries = [entry(1, "mcp"), entry(u64::MAX, "oracle")];
        write(&folder.0, &entries).unwrap();
        assert_eq!(read(&folder.0), entries);
        write(&folder.0, &entries[1..]).unwrap();
        assert_eq!(read(&folder.0), entries[1..]);
        let mode = fs::metadata(folder.0.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_broken_says_what_can_be_read_of_it() {
        let folder = Folder::new("broken");
        fs::create_dir_all(&folder.0).unwrap();
        let text = b"\xff\xfe\n0000000000000007 mcp\nxyz mcp\n\n12\n0000000000000008 oracle";
        fs::write(folder.0.join(FILE), text).unwrap();
        assert_eq!(read(&folder.0), [entry(7, "mcp"), entry(8, "oracle")]);
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is() {
        assert!(write(Path::new("/dev/null/toolbus"), &[entry(1, "mcp")]).is_err());
        assert_eq!(read(Path::new("/dev/null/toolbus")), []);
    }

    #[test]
    fn a_program_is_its_words_and_its_folder() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let mut there = Settings::default();
        there.program.cwd = Some("/".into());
        let here = Settings::default();
        let numbers = [
            number(&words(&["a", "b"]), &there),
            number(&words(&["ab"]), &there),
            number(&words(&["a", "b"]), &here),
        ];
        assert_eq!(numbers[0], number(&words(&["a", "b"]), &there));
        assert!(numbers[0] != numbers[1] && numbers[0] != numbers[2], "{numbers:?}");
    }
}
