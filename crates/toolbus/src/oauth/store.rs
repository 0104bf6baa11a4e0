//! Where tokens are kept: a folder of the user's own, a file for each sign-in.
//!
//! A file is written beside and put in place whole; one that others may read is not used. Who
//! changes a sign-in that is there holds its lock, so that processes share one refresh.

use std::env;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use toolbus_proto::oauth::identity::Registration;
use toolbus_proto::oauth::metadata::is_same_issuer;
use toolbus_proto::oauth::stored::{Damaged, SignIn};

use super::cores;
use crate::chance;
use crate::secrets;

/// No file of ours is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How often it is looked whether a lock is free.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The time as the files have it.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The folder where tokens are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

/// A sign-in and its file.
#[derive(Debug, Clone)]
pub struct KeptSignIn {
    /// What is in it.
    pub sign_in: SignIn,
    /// Where it is.
    pub path: PathBuf,
    /// The file as it was when it was read.
    pub seen: FileSeen,
}

/// By what it is known that a file is as it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileSeen {
    place: (u64, u64),
    changed: (i64, i64),
    bytes: u64,
    mode: u32,
}

/// Which sign-in is looked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sought<'a> {
    /// The server, as files have it.
    pub server: &'a str,
    /// The account; `None` for any, the nameless before others.
    pub account: Option<&'a str>,
    /// The client id, if the config has one.
    pub client_id: Option<&'a str>,
    /// The sign-in servers that the config allows; none for any.
    pub issuers: &'a [String],
}

impl Sought<'_> {
    fn fits(&self, sign_in: &SignIn) -> bool {
        sign_in.server == self.server
            && self.account.is_none_or(|account| account == sign_in.account)
            && self.client_id.is_none_or(|id| id == sign_in.identity.id)
            && (self.issuers.is_empty()
                || self.issuers.iter().any(|issuer| is_same_issuer(issuer, &sign_in.issuer)))
    }
}

impl Store {
    /// That of the user.
    pub fn of_user() -> Result<Store, StoreError> {
        // A path that is not absolute is to be ignored, its specification says.
        let folder =
            |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let usual = || Some(folder("HOME")?.join(".local/state"));
        let state = folder("XDG_STATE_HOME").or_else(usual).ok_or(StoreError::NoHome)?;
        Ok(Store { folder: state.join("toolbus/oauth") })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a sign-in is kept.
    pub fn path_of(&self, sign_in: &SignIn) -> PathBuf {
        self.folder.join(sign_in.name() + ".json")
    }

    /// Can something be kept here? Makes, syncs, renames and removes a file.
    pub fn try_out(&self) -> Result<(), StoreError> {
        let number = u64::from_be_bytes(chance::bytes());
        let path = self.folder.join(format!(".try-{number:016x}"));
        self.write(&path, "")?;
        fs::remove_file(&path).map_err(|source| self.cannot(source))
    }

    /// Is the folder as it was?
    pub fn seen(&self) -> Option<FileSeen> {
        fs::metadata(&self.folder).ok().map(|metadata| FileSeen::of(&metadata))
    }

    /// All sign-ins, and what is wrong with files that should be some.
    pub fn sign_ins(&self) -> (Vec<KeptSignIn>, Vec<StoreError>) {
        let (mut found, mut broken) = (Vec::new(), Vec::new());
        let Ok(entries) = fs::read_dir(&self.folder) else { return (found, broken) };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.starts_with("token-") || !name.ends_with(".json") {
                continue;
            }
            match read_sign_in(&path) {
                Ok(Some(kept)) => found.push(kept),
                Ok(None) => {}
                Err(error) => broken.push(error),
            }
        }
        (found, broken)
    }

    /// The newest sign-in that fits, or what is wrong with the only file that may be one.
    pub fn find(&self, sought: Sought<'_>) -> (Option<KeptSignIn>, Vec<StoreError>) {
        let (found, broken) = self.sign_ins();
        let fitting = found.into_iter().filter(|kept| sought.fits(&kept.sign_in));
        let newest = fitting.max_by_key(|kept| {
            (kept.sign_in.account.is_empty(), kept.sign_in.signed_in_at, kept.seen.changed)
        });
        let may_be = |error: &StoreError| match error {
            StoreError::Open { sign_in: Some(sign_in), .. } => sought.fits(sign_in),
            _ => true,
        };
        (newest, broken.into_iter().filter(may_be).collect())
    }

    /// Keeps a sign-in in place of what was there of it.
    pub fn save(&self, sign_in: &SignIn) -> Result<KeptSignIn, StoreError> {
        let path = self.path_of(sign_in);
        let seen = self.write(&path, &(sign_in.to_text() + "\n"))?;
        Ok(KeptSignIn { sign_in: sign_in.clone(), path, seen })
    }

    /// Reads a sign-in anew; `None` if it is gone.
    pub fn read_again(&self, path: &Path) -> Result<Option<KeptSignIn>, StoreError> {
        read_sign_in(path)
    }

    /// Removes a sign-in, which need not be there.
    pub fn remove(&self, path: &Path) -> Result<(), StoreError> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.cannot(error)),
            _ => Ok(()),
        }
    }

    /// What was registered with this very issuer.
    pub fn registration(&self, issuer: &str) -> Result<Option<Registration>, StoreError> {
        let path = self.folder.join(Registration::file_name(issuer));
        let Some((text, _)) = read(&path)? else { return Ok(None) };
        let read = Registration::read(&text);
        let read = read.map_err(|why| StoreError::Damaged { path: path.clone(), why })?;
        read.identity.secret.iter().for_each(|secret| secrets::hide(secret.reveal()));
        Ok(Some(read).filter(|read| read.issuer == issuer))
    }

    /// Keeps a registration.
    pub fn save_registration(&self, kept: &Registration) -> Result<(), StoreError> {
        let path = self.folder.join(Registration::file_name(&kept.issuer));
        self.write(&path, &(kept.to_text() + "\n")).map(drop)
    }

    /// Forgets what was registered with an issuer.
    pub fn forget_registration(&self, issuer: &str) -> Result<(), StoreError> {
        self.remove(&self.folder.join(Registration::file_name(issuer)))
    }

    /// Waits for the lock of a sign-in; `None` if another process has kept it for so long.
    pub async fn lock(&self, name: &str, patience: Duration) -> Result<Option<Locked>, StoreError> {
        self.make_folder()?;
        let path = self.folder.join(format!("{name}.lock"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(|source| self.cannot(source))?;
        let until = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Locked { _file: file })),
                Err(TryLockError::WouldBlock) if until <= Instant::now() => return Ok(None),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_AGAIN).await,
                Err(TryLockError::Error(source)) => return Err(self.cannot(source)),
            }
        }
    }

    fn make_folder(&self) -> Result<(), StoreError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|source| self.cannot(source))
    }

    /// Puts a file in place whole: readers see what was there before, or all of this.
    fn write(&self, path: &Path, text: &str) -> Result<FileSeen, StoreError> {
        self.make_folder()?;
        let number = u64::from_be_bytes(chance::bytes());
        let beside = self.folder.join(format!(".new-{number:016x}"));
        let write = || {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(text.as_bytes())?;
            // A name that outlives a crash must not lead to an empty file.
            file.sync_all()?;
            fs::rename(&beside, path)?;
            File::open(&self.folder)?.sync_all()?;
            Ok(FileSeen::of(&file.metadata()?))
        };
        write().map_err(|source| {
            // Renamed, it is not there any more.
            let _ = fs::remove_file(&beside);
            self.cannot(source)
        })
    }

    fn cannot(&self, source: io::Error) -> StoreError {
        StoreError::Unusable { folder: self.folder.clone(), why: source.to_string() }
    }
}

impl FileSeen {
    /// A file as it is now; `None` if it is not there.
    pub fn at(path: &Path) -> Option<FileSeen> {
        fs::symlink_metadata(path).ok().map(|metadata| FileSeen::of(&metadata))
    }

    fn of(metadata: &Metadata) -> FileSeen {
        FileSeen {
            place: (metadata.dev(), metadata.ino()),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
            mode: metadata.mode(),
        }
    }

    /// Has it changed so lately that another change might not show?
    pub fn is_fresh(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, nanos) = self.changed;
        let changed =
            Duration::new(seconds.unsigned_abs(), nanos.unsigned_abs().try_into().unwrap_or(0));
        now.saturating_sub(changed) < Duration::from_millis(50)
    }
}

/// The right to change a sign-in, which only one has at a time.
#[derive(Debug)]
pub struct Locked {
    _file: File,
}

fn read_sign_in(path: &Path) -> Result<Option<KeptSignIn>, StoreError> {
    let (text, seen) = match read(path) {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(None),
        Err(error) => return Err(error),
    };
    let sign_in = SignIn::read(&text);
    let sign_in = sign_in.map_err(|why| StoreError::Damaged { path: path.to_owned(), why })?;
    cores::hold_tokens();
    sign_in.secrets().for_each(|secret| secrets::hide(secret.reveal()));
    Ok(Some(KeptSignIn { sign_in, path: path.to_owned(), seen }))
}

/// What is in a plain file of ours that others cannot read; `None` if it is not there.
fn read(path: &Path) -> Result<Option<(Vec<u8>, FileSeen)>, StoreError> {
    let failed = |source: io::Error| StoreError::Unreadable {
        path: path.to_owned(),
        why: source.to_string(),
    };
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(no_follow).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if FileSeen::at(path).is_some_and(|seen| !is_plain(seen.mode)) => {
            return Err(StoreError::Strange { path: path.to_owned() });
        }
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.is_file() || !is_ours {
        return Err(StoreError::Strange { path: path.to_owned() });
    }
    let mut text = Vec::new();
    (&file).take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        let sign_in = SignIn::read(&text).ok().map(Box::new);
        return Err(StoreError::Open { path: path.to_owned(), mode, sign_in });
    }
    Ok(Some((text, FileSeen::of(&metadata))))
}

fn is_plain(mode: u32) -> bool {
    mode & 0o170_000 == 0o100_000
}

/// Why nothing is kept, or what is kept is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum StoreError {
    #[error("cannot keep tokens: neither `XDG_STATE_HOME` nor `HOME` is set")]
    NoHome,
    #[error("cannot keep tokens in {}: {why}", folder.display())]
    Unusable { folder: PathBuf, why: String },
    #[error("cannot read {}: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("{} is no plain file of this user", path.display())]
    Strange { path: PathBuf },
    #[error("{} can be read by others (mode {mode:04o})", path.display())]
    Open { path: PathBuf, mode: u32, sign_in: Option<Box<SignIn>> },
    #[error("{} cannot be used: {why}", path.display())]
    Damaged { path: PathBuf, why: Damaged },
}

impl StoreError {
    /// What the reader can do about it. `login` is the command that signs in.
    pub fn hint(&self, login: &str) -> Option<String> {
        match self {
            StoreError::Open { path, .. } => Some(format!("chmod 600 {}", path.display())),
            StoreError::Damaged { .. } => Some(format!("`{login}` replaces it")),
            StoreError::Strange { path } => {
                Some(format!("remove {}, and run `{login}`", path.display()))
            }
            StoreError::NoHome | StoreError::Unusable { .. } | StoreError::Unreadable { .. } => {
                None
            }
        }
    }
}
