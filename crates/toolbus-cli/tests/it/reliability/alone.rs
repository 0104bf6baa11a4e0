//! A bad caller on pipes: a front there has one caller, so there are no others to notice anything.

use std::fs;
use std::io::PipeWriter;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::form;
use toolbus_testkit::patience::awaited;
use toolbus_testkit::peer;
use toolbus_testkit::process::{Group, stands_still};

use super::run::Seen;
use super::{Case, Fault, bad_callers};
use crate::page::command;

/// Until it takes no more, has taken enough, or has been trickled at for a while; then SIGTERM.
pub(super) fn run(case: &Case) -> Seen {
    let words: &[&str] = match case.wire {
        "oracle" => &["oracle", "serve", "builtin:"],
        "mcp" => &["mcp", "builtin:"],
        _ => &["rpc", "serve", "--listen", "stdio:", "builtin:"],
    };
    let (asked, asks) = std::io::pipe().unwrap();
    let (answers, answered) = std::io::pipe().unwrap();
    let mut command = command(words);
    command.stdin(asked).stdout(answered).stderr(Stdio::null());
    let mut toolbus = Killed(command.spawn().unwrap());
    let steps = bad_callers::steps(case);
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let mut bad = peer::command(&steps);
    bad.process_group(0).stdin(answers).stdout(asks.try_clone().unwrap());
    let bad = Killed(bad.spawn().unwrap());
    // The pipes are theirs alone, but for our look at one.
    drop((command, steps));
    let pid = toolbus.0.id();
    let begun = reads(pid);
    // How much a flood should be at least: many times what is read at once.
    let fill = form::short_or_long(1 << 20, 4 << 20);
    awaited("it has had its fill", || {
        let is_enough = match case.fault {
            Fault::DoesNotRead => is_full(&asks) && stands_still(pid),
            Fault::Trickles => begun.1 + 20 < reads(pid).1,
            Fault::Floods | Fault::FloodsStderr => begun.0 + fill < reads(pid).0,
        };
        is_enough.then_some(())
    });
    let mut seen = Seen::default();
    seen.look_at_memory(pid);
    kill_process(Pid::from_child(&toolbus.0), Signal::TERM).unwrap();
    let status = awaited("it ends", || toolbus.0.try_wait().unwrap());
    drop(bad);
    seen.look_at_status(status);
    seen
}

/// A process that does not outlive its test, nor do those it has started.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        Group::of(&self.0).kill();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many bytes a process has read so far, and how often.
fn reads(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().parse().ok()).unwrap()
    };
    (value("rchar:"), value("syscr:"))
}

/// Does a pipe take nothing before something is read from it?
fn is_full(pipe: &PipeWriter) -> bool {
    let mut polled = [PollFd::new(pipe, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec::default())).unwrap() == 0
}
