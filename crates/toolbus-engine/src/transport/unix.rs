//! Unix sockets: a file that only its owner can connect to, and that is removed with us.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net as blocking;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixStream};

use super::tcp::{ConnectError, ListenError};

/// How many may wait to be accepted, as for TCP.
const BACKLOG: i32 = 1024;
/// What fits into an address, its final zero not counted.
const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A socket that others find by its path. Dropping it removes the file, if it is ours.
pub struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Which file is ours, so that a successor's is left alone; `None` of one that another process
    /// has made.
    file: Option<(u64, u64)>,
}

/// Listens on `path`. A file that a dead server left behind is replaced.
pub fn listen(path: &Path) -> Result<Socket, ListenError> {
    let at = || path.display().to_string();
    let fault = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { at: at() },
        io::ErrorKind::PermissionDenied => ListenError::NotAllowed { at: at() },
        _ => ListenError::Failed { at: at(), source },
    };
    let bytes = path.as_os_str().as_bytes().len();
    if PATH_BYTES_MAX < bytes {
        return Err(ListenError::TooLong { at: at(), bytes, bytes_max: PATH_BYTES_MAX });
    }
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(ListenError::NoSocket { at: at() });
        }
        if is_alive(path).map_err(fault)? {
            return Err(ListenError::InUse { at: at() });
        }
        // Two servers that start in the same moment may both think so, and the later one wins.
        fs::remove_file(path).map_err(fault)?;
    }
    let listener = bind(path).map_err(fault)?;
    let there = fs::symlink_metadata(path).map_err(fault)?;
    let file = Some((there.dev(), there.ino()));
    Ok(Socket { listener, path: path.to_owned(), file })
}

/// Connects to the server that listens on `path`.
pub async fn connect(path: &Path, patience: Duration) -> Result<UnixStream, ConnectError> {
    let at = || path.display().to_string();
    match tokio::time::timeout(patience, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(ConnectError::Refused { at: at() })
        }
        Ok(Err(source)) => Err(ConnectError::Failed { at: at(), source }),
        Err(_) => Err(ConnectError::TimedOut { at: at(), patience }),
    }
}

/// No client can connect before `listen`, and by then the file is its owner's alone.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = socket()?;
    // On Linux the file gets the mode of the socket, so that no other is ever seen.
    let _ = rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR);
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(blocking::UnixListener::from(socket))
}

/// Does a server listen? Only a refused connection counts as no: other errors may come from
/// a live server that is busy. Nothing is waited for.
fn is_alive(path: &Path) -> io::Result<bool> {
    let asked = rustix::net::connect(&socket()?, &SocketAddrUnix::new(path)?);
    Ok(asked != Err(rustix::io::Errno::CONNREFUSED))
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

impl Socket {
    /// One that another process has made, and looks after.
    pub(super) fn passed(listener: UnixListener, path: &Path) -> Socket {
        Socket { listener, path: path.to_owned(), file: None }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|there| Some((there.dev(), there.ino())) == self.file);
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Socket").field(&self.path).finish()
    }
}
