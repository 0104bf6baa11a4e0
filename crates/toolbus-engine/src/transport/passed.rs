//! Sockets that another process opened for us and passed on, as a service manager does: they listen
//! before we are there, and while we are started anew.

use std::fmt;
use std::io;
use std::net as blocking;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net as local;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::sockopt::socket_type;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType, getsockname};
use tokio::net::{TcpListener, UnixListener};

use super::Whereabouts;

/// A socket that listens already. It stays open, for whoever takes it next, as long as a clone of
/// this is there.
#[derive(Clone)]
pub struct PassedSocket {
    socket: Rc<OwnedFd>,
    number: RawFd,
    whereabouts: Whereabouts,
}

impl PassedSocket {
    /// Takes over the descriptor of this number, which the process was started with. Programs that
    /// we start do not get it.
    ///
    /// To be called once for a number, by the program that it was passed to.
    pub fn take_over(number: RawFd) -> io::Result<PassedSocket> {
        // Another's descriptor must not be closed by us, even if we were told that it is ours.
        if number <= 2 {
            return Err(Errno::BADF.into());
        }
        // SAFETY: whoever started us says that it is ours and open; no other part of the program
        // knows its number. If it is not open, each use of it fails, as does closing it.
        #[allow(unsafe_code)]
        let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
        if socket_type(borrowed)? != SocketType::STREAM || !listens(borrowed)? {
            return Err(io::Error::other("it does not listen"));
        }
        let whereabouts = whereabouts(borrowed)?;
        // SAFETY: it is open, and owned by nothing else.
        #[allow(unsafe_code)]
        let socket = Rc::new(unsafe { OwnedFd::from_raw_fd(number) });
        Ok(PassedSocket { socket, number, whereabouts })
    }

    /// Where it listens.
    pub fn whereabouts(&self) -> &Whereabouts {
        &self.whereabouts
    }

    /// A second hold of it.
    fn duplicate(&self) -> io::Result<OwnedFd> {
        let socket = self.socket.try_clone()?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(socket)
    }

    pub(super) fn tcp(&self) -> io::Result<TcpListener> {
        TcpListener::from_std(blocking::TcpListener::from(self.duplicate()?))
    }

    pub(super) fn unix(&self) -> io::Result<UnixListener> {
        UnixListener::from_std(local::UnixListener::from(self.duplicate()?))
    }
}

#[cfg(not(target_vendor = "apple"))]
fn listens(socket: impl AsFd) -> rustix::io::Result<bool> {
    rustix::net::sockopt::socket_acceptconn(socket)
}

/// That cannot be asked there.
#[cfg(target_vendor = "apple")]
fn listens(_: impl AsFd) -> rustix::io::Result<bool> {
    Ok(true)
}

/// Where a socket is bound.
fn whereabouts(socket: impl AsFd) -> io::Result<Whereabouts> {
    let address: SocketAddrAny = getsockname(socket)?;
    match address.address_family() {
        AddressFamily::UNIX => {
            let address = SocketAddrUnix::try_from(address)?;
            let path = address.path_bytes().unwrap_or_default();
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
            Ok(Whereabouts::Unix(std::path::absolute(&path).unwrap_or(path)))
        }
        _ => Ok(Whereabouts::Tcp(address.try_into()?)),
    }
}

impl fmt::Display for PassedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fd {})", self.whereabouts, self.number)
    }
}

impl fmt::Debug for PassedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PassedSocket({self})")
    }
}
