//! What happens between fork and exec: the place for unsafe code.
//!
//! A forked child of a program with threads may do next to nothing (no allocation, no lock), so
//! all that it needs is laid out before the fork.

#![allow(unsafe_code)]

use std::ffi::{CString, NulError, OsStr, OsString, c_char};
use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

#[cfg(target_os = "linux")]
use rustix::process::Signal;
use rustix::process::{Pid, Resource};

use super::guard;
use crate::transport::descriptors;

/// A program to become, as `execve` wants it.
pub(super) struct Image {
    path: CString,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// What `argv` and `envp` point into.
    _strings: Vec<CString>,
}

// SAFETY: the pointers lead to heap memory that `_strings` owns and that is never changed.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    pub(super) fn new<'a>(
        path: &Path,
        words: impl IntoIterator<Item = &'a OsStr>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Image, NulError> {
        let mut strings = Vec::new();
        for word in words {
            strings.push(CString::new(word.as_bytes())?);
        }
        let words = strings.len();
        for (mut variable, value) in environment {
            variable.push("=");
            variable.push(value);
            strings.push(CString::new(variable.as_bytes())?);
        }
        let pointers = |strings: &[CString]| {
            strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
        };
        Ok(Image {
            path: CString::new(path.as_os_str().as_bytes())?,
            argv: pointers(&strings[..words]),
            envp: pointers(&strings[words..]),
            _strings: strings,
        })
    }

    /// Becomes this program, or says why not.
    fn exec(&self) -> io::Error {
        // SAFETY: all three are ended by a null and live as long as `self`.
        unsafe { libc::execve(self.path.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// Makes the child of `command` enter its cgroup, if there is one, begin a session, tell it to the
/// guard and only then become `image`.
///
/// The exec is ours and not the standard library's, because a child that fails to exec must take
/// its session back while it still lives: once it is reaped, another may have its number.
pub(super) fn tell_and_exec(
    command: &mut Command,
    image: Image,
    tell: PipeWriter,
    enter_cgroup: Option<File>,
) {
    let parent = rustix::process::getpid();
    let dies_with_us = is_main_thread();
    let files = descriptors::of_children();
    let hook = move || {
        if let Some(procs) = &enter_cgroup {
            // By 0 the writer means itself. Where the kernel says no, the session has to do.
            let _ = rustix::io::write(procs, b"0");
        }
        if let Some(files) = &files {
            rustix::process::setrlimit(Resource::Nofile, *files)?;
        }
        let session = rustix::process::setsid()?;
        rustix::io::write(&tell, &guard::record(b'+', session))?;
        if dies_with_us {
            die_with(parent)?;
        }
        let error = image.exec();
        rustix::io::write(&tell, &guard::record(b'-', session))?;
        Err(error)
    };
    // SAFETY: the hook makes system calls only; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) };
}

/// The kernel ends a child with the thread that started it. Only the main thread ends with the
/// program, and no earlier.
fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::thread::gettid() == rustix::process::getpid();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Besides the guard, for the case that it is killed together with us.
#[cfg(target_os = "linux")]
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match rustix::process::getppid() == Some(parent) {
        true => Ok(()),
        // It died before it could be asked for.
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}

/// Makes the child of `command` deaf and alone: a session of its own, no signal that people or
/// terminals send, no descriptor but the three standard ones.
pub(super) fn be_alone(command: &mut Command) {
    let hook = || {
        rustix::process::setsid()?;
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
            // SAFETY: ignoring a signal runs no code of ours. What is ignored stays so past exec.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        close_at_exec_from(3);
        Ok(())
    };
    // SAFETY: as in `tell_and_exec`.
    unsafe { command.pre_exec(hook) };
}

/// Marks and does not close: the standard library still needs its own pipe, to report a failure.
fn close_at_exec_from(first: i32) {
    #[cfg(target_os = "linux")]
    {
        // By number, since older C libraries do not have the function.
        // SAFETY: changes a flag of descriptors and no memory.
        let done = unsafe {
            libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
        };
        if done == 0 {
            return;
        }
    }
    // SAFETY: reads a number.
    let max = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    let max = i32::try_from(max).unwrap_or(1024).clamp(first, 1 << 16);
    for fd in first..max {
        // SAFETY: changes a flag of a descriptor; one that is not open is an error we pass over.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// What a guard hears while a child becomes `path`, and how the spawn ended.
    fn heard(path: &str) -> (String, io::Result<()>) {
        let (mut hear, tell) = io::pipe().unwrap();
        let image = Image::new(Path::new(path), [OsStr::new("it")], []).unwrap();
        let mut command = Command::new(path);
        tell_and_exec(&mut command, image, tell, None);
        let spawned = command.spawn().map(|mut child| {
            child.wait().unwrap();
        });
        drop(command);
        let mut heard = String::new();
        hear.read_to_string(&mut heard).unwrap();
        (heard, spawned)
    }

    #[test]
    fn a_child_tells_its_session_before_its_exec() {
        let (heard, spawned) = heard("/bin/true");
        spawned.unwrap();
        assert!(heard.starts_with("+ ") && heard.lines().count() == 1, "{heard}");
    }

    #[test]
    fn a_child_that_cannot_exec_takes_its_session_back() {
        let (heard, spawned) = heard("/nonexistent");
        assert_eq!(spawned.unwrap_err().kind(), io::ErrorKind::NotFound);
        let (told, taken_back) = heard.split_once('\n').unwrap();
        assert_eq!(told.replacen('+', "-", 1), taken_back.trim_end_matches('\n'), "{heard}");
    }
}
