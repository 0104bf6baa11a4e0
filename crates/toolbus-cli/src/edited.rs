//! Files that people and other programs keep, changed in place: written beside and renamed, and not
//! at all if another program has changed them meanwhile.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use toolbus_proto::edit::diff;

use crate::exit::Exit;
use crate::failed::Failed;

/// A larger file is no config.
const BYTES_MAX: u64 = 16 << 20;
/// So many links are followed, as the system does.
const LINKS_MAX: usize = 40;

/// A file as it was read, or the place of one that is to be made.
pub(crate) struct EditedFile {
    /// As people are told of it.
    pub(crate) shown: String,
    /// Where it really is: a link is followed.
    place: PathBuf,
    /// What it holds; `None` if there is none.
    pub(crate) text: Option<String>,
}

impl EditedFile {
    /// Reads it; the reason if it is there and cannot be read.
    pub(crate) fn read(path: &Path) -> Result<EditedFile, String> {
        let shown = shown(path);
        let place = led_to(path);
        let text = match fs::metadata(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(format!("cannot read `{shown}`: {error}")),
            Ok(found) if BYTES_MAX < found.len() => {
                return Err(format!("`{shown}` is larger than {} MiB", BYTES_MAX >> 20));
            }
            // A reader of a pipe waits for its writer.
            Ok(found) if !found.is_file() && !found.is_dir() => {
                return Err(format!("`{shown}` is no file"));
            }
            Ok(_) => {
                let bytes = fs::read(&place);
                let bytes = bytes.map_err(|error| format!("cannot read `{shown}`: {error}"))?;
                let text = String::from_utf8(bytes);
                Some(text.map_err(|_| format!("`{shown}` is not UTF-8"))?)
            }
        };
        Ok(EditedFile { shown, place, text })
    }

    /// The change as people read it.
    pub(crate) fn diff(&self, new: &str) -> String {
        diff::unified(&self.shown, self.text.as_deref().unwrap_or_default(), new)
    }

    /// Gives it this text. `mode` is that of a new one, or one that it is to have from now on.
    pub(crate) fn write(&self, new: &str, mode: Mode) -> Result<(), Failed> {
        if self.text.as_deref() == Some(new) {
            return Ok(());
        }
        let cannot = |error: io::Error| {
            Failed::new(Exit::Failed, format!("cannot write `{}`", self.shown)).caused_by(&error)
        };
        if let Mode::Private { makes_folders: true } = mode
            && let Some(folder) = self.place.parent()
        {
            make_folders(folder).map_err(cannot)?;
        }
        if self.text.is_some() {
            // Renaming asks only what the folder allows.
            OpenOptions::new().append(true).open(&self.place).map_err(cannot)?;
        }
        let before = fs::metadata(&self.place).ok();
        let beside = self.beside();
        let written = (|| {
            let mut options = OpenOptions::new();
            let wanted = if matches!(mode, Mode::Usual) { 0o644 } else { 0o600 };
            options.write(true).create_new(true).mode(wanted);
            let mut file = options.open(&beside)?;
            if let Some(before) = &before {
                let kept = before.permissions().mode() & 0o7777;
                let kept = if matches!(mode, Mode::Secret) { 0o600 } else { kept };
                file.set_permissions(fs::Permissions::from_mode(kept))?;
                let made = file.metadata()?;
                if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
                    // Who may not give files away has written it as their own.
                    let (uid, gid) = (Some(before.uid()), Some(before.gid()));
                    let _ = std::os::unix::fs::fchown(&file, uid, gid);
                }
            }
            file.write_all(new.as_bytes())?;
            file.sync_all()
        })();
        let done = written.map_err(cannot).and_then(|()| {
            // As late as can be.
            self.check_unchanged()?;
            fs::rename(&beside, &self.place).map_err(cannot)
        });
        if done.is_err() {
            let _ = fs::remove_file(&beside);
        }
        done
    }

    /// Takes it away.
    pub(crate) fn remove(&self) -> Result<(), Failed> {
        self.check_unchanged()?;
        fs::remove_file(&self.place).map_err(|error| {
            Failed::new(Exit::Failed, format!("cannot remove `{}`", self.shown)).caused_by(&error)
        })
    }

    /// Is it still what was read?
    fn check_unchanged(&self) -> Result<(), Failed> {
        let is_unchanged = match (fs::read(&self.place), &self.text) {
            (Ok(bytes), Some(text)) => bytes == text.as_bytes(),
            (Err(error), None) => error.kind() == ErrorKind::NotFound,
            _ => false,
        };
        match is_unchanged {
            true => Ok(()),
            false => {
                let message = format!("`{}` was changed by another program meanwhile", self.shown);
                Err(Failed::new(Exit::Failed, message))
            }
        }
    }

    fn beside(&self) -> PathBuf {
        let name = self.place.file_name().unwrap_or_default().to_string_lossy();
        self.place.with_file_name(format!(".{name}.{}", std::process::id()))
    }
}

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A new one: as the umask of the user says. One that is there stays as it is.
    Usual,
    /// A new one: only we, folders that are made with it included. One that is there stays as it is.
    Private {
        /// Its folders are made where they are missing.
        makes_folders: bool,
    },
    /// Only we, from now on.
    Secret,
}

/// Where a path leads, also if nothing is there yet.
fn led_to(path: &Path) -> PathBuf {
    let mut place = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        if let Ok(real) = fs::canonicalize(&place) {
            return real;
        }
        let Ok(target) = fs::read_link(&place) else { return place };
        place = place.parent().unwrap_or(Path::new("")).join(target);
    }
    place
}

fn make_folders(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A path as people are told of it: relative if it is below the folder that is worked in.
pub(crate) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let whole = absolute(path);
    let below = whole.strip_prefix(&here).ok().filter(|below| !below.as_os_str().is_empty());
    below.unwrap_or(&whole).display().to_string()
}

/// The whole path, without `.` and `..`; links stay.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut clean = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}
