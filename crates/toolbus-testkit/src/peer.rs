//! Peers over real pipes, scripted by the steps of `faulty-tool` (see its header for them).
//!
//! The program is built by this crate's build script, so it is there for the tests of every
//! crate that depends on this one, whatever profile, target folder or test runner they use.

use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use std::os::unix::process::CommandExt;

use crate::page::Program;
use crate::process::Group;

/// Where `faulty-tool` is.
pub fn faulty_tool() -> &'static Path {
    Path::new(env!("FAULTY_TOOL"))
}

/// A command that does these steps.
pub fn command(steps: &[&str]) -> Command {
    let mut command = Command::new(faulty_tool());
    command.args(steps);
    command
}

/// A program that does these steps, to be run to its end.
pub fn program(steps: &[&str]) -> Program {
    Program::of(command(steps))
}

/// The same command as one line of shell words: what stands behind `oracle+stdio:`.
pub fn command_line(steps: &[&str]) -> String {
    let path = faulty_tool().to_str().expect("cargo works in folders whose names are text");
    let words = [path].into_iter().chain(steps.iter().copied());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it for one, whatever is in it.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A peer that runs. Dropping it kills it and all it has started.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// What it reads; `None` once closed.
    pub stdin: Option<ChildStdin>,
    /// What it writes.
    pub stdout: ChildStdout,
    /// The process group it is the first of.
    pub group: Group,
}

impl Peer {
    /// Starts a peer that does these steps.
    #[track_caller]
    pub fn start(steps: &[&str]) -> Peer {
        let mut command = command(steps);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("`faulty-tool` can be started");
        let group = Group::of(&child);
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("is piped");
        Peer { child, stdin, stdout, group }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.group.kill();
        // Collects it, so that the next test sees no dead.
        let _ = self.child.wait();
    }
}
