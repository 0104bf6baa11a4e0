//! A terminal with a shell on it that runs one command after the other.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{self, OpenptFlags};
use rustix::termios::{Winsize, tcsetwinsize};

/// What the shell says when a command has ended: no program says it by accident.
const DONE: &[u8] = b"\x1b]9;xtask: that was it\x07";

pub(crate) struct Terminal {
    shell: Child,
    commands: Option<ChildStdin>,
    screen: File,
}

impl Terminal {
    pub(crate) fn open(columns: usize, rows: usize, programs: &Path) -> Result<Terminal, String> {
        let cannot = |error: &dyn std::fmt::Display| format!("error: no terminal: {error}");
        let (ours, theirs) = pair().map_err(|error| cannot(&error))?;
        let side = |cells: usize| u16::try_from(cells).unwrap_or(u16::MAX);
        let size =
            Winsize { ws_row: side(rows), ws_col: side(columns), ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&theirs, size).map_err(|error| cannot(&error))?;
        let clone = |end: &OwnedFd| end.try_clone().map_err(|error| cannot(&error));
        let mut shell = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .stdin(Stdio::piped())
            .stdout(clone(&theirs)?)
            .stderr(theirs)
            .env("PATH", path(programs))
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .spawn()
            .map_err(|error| cannot(&error))?;
        let commands = shell.stdin.take();
        Ok(Terminal { shell, commands, screen: File::from(ours) })
    }

    /// Runs a command to its end and tells what is shown meanwhile, and how long that took.
    pub(crate) fn run(
        &mut self,
        command: &str,
        mut shown: impl FnMut(Duration, &[u8]),
    ) -> Result<(), String> {
        let done = String::from_utf8_lossy(DONE).replace('\x1b', "\\033").replace('\x07', "\\007");
        // The shell reads the next commands from its input: they are not for this one.
        let line = format!("{{ {command}\n}} </dev/null\nprintf '{done}'\n");
        let commands = self.commands.as_mut().ok_or("error: the shell has no input")?;
        let lost = |error: std::io::Error| format!("error: the shell is gone: {error}");
        commands.write_all(line.as_bytes()).map_err(lost)?;
        let (mut bytes, mut came) = ([0; 4096], Vec::new());
        let mut since = Instant::now();
        loop {
            let count = self.screen.read(&mut bytes).map_err(lost)?;
            came.extend_from_slice(&bytes[..count]);
            let end = came.windows(DONE.len()).position(|window| window == DONE);
            // What may be the beginning of the mark waits for the rest.
            let safe = end.unwrap_or_else(|| {
                came.len()
                    - (1..DONE.len()).rev().find(|n| came.ends_with(&DONE[..*n])).unwrap_or(0)
            });
            if 0 < safe {
                shown(since.elapsed(), &came[..safe]);
                since = Instant::now();
                came.drain(..safe);
            }
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // What it has started ends with it, by the end of its input or of the terminal.
        drop(self.commands.take());
        let _ = self.shell.wait();
    }
}

/// Our own program before all others.
fn path(programs: &Path) -> OsString {
    let usual = env::var_os("PATH").unwrap_or_default();
    let all = [programs.to_owned()].into_iter().chain(env::split_paths(&usual));
    env::join_paths(all).unwrap_or(usual)
}

/// A terminal: its two ends.
fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    let flags = flags | OpenptFlags::CLOEXEC;
    let ours = pty::openpt(flags)?;
    pty::grantpt(&ours)?;
    pty::unlockpt(&ours)?;
    let name = pty::ptsname(&ours, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok((ours, rustix::fs::open(&name, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_run_one_after_the_other_and_share_a_shell() {
        let mut terminal = Terminal::open(80, 24, Path::new("/nowhere")).unwrap();
        let mut said = |command: &str| {
            let mut said = Vec::new();
            terminal.run(command, |_, bytes| said.extend_from_slice(bytes)).unwrap();
            String::from_utf8(said).unwrap()
        };
        assert_eq!(said("here=there"), "");
        assert_eq!(said("echo $here; echo wrong >&2; cat"), "there\r\nwrong\r\n");
        assert_eq!(said("[[ -t 1 && -t 2 ]] && echo yes"), "yes\r\n");
    }
}
