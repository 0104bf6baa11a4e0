//! Processes as a test looks at them: which of a group are left, and do they move?

use std::fs;
use std::io::{self, PipeWriter};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::patience::eventually;

/// A process group, named by the process it began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group(u32);

impl Group {
    /// The group of a process that was started as the first of its own.
    pub fn of(child: &Child) -> Group {
        Group(child.id())
    }

    /// The group that began with the process `pid`.
    pub fn led_by(pid: u32) -> Group {
        Group(pid)
    }

    /// The processes of it that live. The dead that are not reaped yet do not count.
    pub fn living(self) -> Vec<u32> {
        let all = list().into_iter();
        all.filter(|process| process.group == self.0 && process.lives)
            .map(|process| process.pid)
            .collect()
    }

    /// Waits until no process of it lives.
    #[track_caller]
    pub fn assert_gone(self) {
        eventually(&format!("no process is left of group {}", self.0), || self.living().is_empty());
    }

    /// Kills all of it; no process need be left.
    pub fn kill(self) {
        if let Some(pid) = i32::try_from(self.0).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Closes the end from which the standard output of `child` is read, and waits until no other
/// process has it.
#[track_caller]
pub fn stop_reading(child: &Child, output: impl Sized) {
    drop(output);
    await_no_reader(&format!("/proc/{}/fd/1", child.id()));
}

/// The end for writing of a pipe that no process reads.
#[track_caller]
pub fn unread_pipe() -> PipeWriter {
    let (reader, writer) = io::pipe().expect("a pipe can be made");
    drop(reader);
    await_no_reader(&format!("/proc/self/fd/{}", writer.as_raw_fd()));
    writer
}

/// Waits until no process reads the pipe of this name, `pipe:[NUMBER]`, which we write to.
#[track_caller]
pub fn await_unread(name: &Path) {
    let ours = fs::read_dir("/proc/self/fd").expect("Linux has it").flatten();
    let writers = ours.filter(|file| fs::read_link(file.path()).is_ok_and(|to| to == name));
    writers.for_each(|file| await_no_reader(&file.path().display().to_string()));
}

/// A process that another test is just starting has a copy of all our pipes until it runs its
/// program.
#[track_caller]
fn await_no_reader(pipe: &str) {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    eventually("nobody reads it", || {
        // Its writer has ended, or there is no `/proc`.
        let Ok(writer) = open(pipe, flags, Mode::empty()) else { return true };
        let mut looked = [PollFd::new(&writer, PollFlags::OUT)];
        let seen = poll(&mut looked, Some(&Timespec::default()));
        seen.is_ok() && looked[0].revents().contains(PollFlags::ERR)
    });
}

/// What `/proc` knows of a process that lives.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vitals {
    /// The most memory it ever had, in bytes.
    pub memory_peak: usize,
    /// The memory it has now, in bytes.
    pub memory: usize,
    /// How many files, pipes and sockets it has open.
    pub open_files: usize,
}

#[cfg(target_os = "linux")]
impl Vitals {
    /// Looks at the process `pid`.
    #[track_caller]
    pub fn of(pid: u32) -> Vitals {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()).unwrap_or_default().to_owned()
        };
        let bytes = |name: &str| -> usize {
            let kib: usize = value(name).parse().expect("a size in KiB");
            kib * 1024
        };
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
        let (memory_peak, memory) = (bytes("VmHWM:"), bytes("VmRSS:"));
        Vitals { memory_peak, memory, open_files: open.count() }
    }
}

/// Do the process `pid` and all that it has started sleep, so that only a timer or something
/// from outside could wake one of them?
///
/// No guess: each is looked at twice, first all of them and then all again, and one that has
/// run in between is known by how often it was switched to.
#[cfg(target_os = "linux")]
pub fn stands_still(pid: u32) -> bool {
    // Most often it runs, and then no other process need be looked for.
    if asleep(pid).is_none() {
        return false;
    }
    let look = || family(pid).into_iter().map(asleep).collect::<Option<Vec<_>>>();
    let first = look();
    first.is_some() && first == look()
}

/// A process and all that it has started, and they in turn, unless its parent is dead.
#[cfg(target_os = "linux")]
fn family(pid: u32) -> Vec<u32> {
    let all = list();
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        let children = all.iter().filter(|process| process.parent == parent && process.lives);
        family.extend(children.map(|process| process.pid));
        at += 1;
    }
    family
}

/// A process that sleeps, and how often it was switched to or away from by now.
#[cfg(target_os = "linux")]
fn asleep(pid: u32) -> Option<(u32, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()
    };
    let switches = |name: &str| value(name)?.parse::<u64>().ok();
    let count = switches("voluntary_ctxt_switches:")? + switches("nonvoluntary_ctxt_switches:")?;
    (value("State:")? == "S").then_some((pid, count))
}

struct Process {
    pid: u32,
    #[cfg(target_os = "linux")]
    parent: u32,
    group: u32,
    lives: bool,
}

#[cfg(target_os = "linux")]
fn list() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").expect("processes are listed in /proc");
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            // It may be gone by now: then there is nothing to read.
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // Behind the name, which may hold anything: state, parent, group.
            let (_, behind) = stat.rsplit_once(") ")?;
            let mut fields = behind.split(' ');
            let lives = !matches!(fields.next()?, "Z" | "X");
            let parent = fields.next()?.parse().ok()?;
            let group = fields.next()?.parse().ok()?;
            Some(Process { pid, parent, group, lives })
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn list() -> Vec<Process> {
    let mut ps = std::process::Command::new("ps");
    let output = ps.args(["-A", "-o", "pid=,pgid=,stat="]).output().expect("`ps` can be run");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let pid = fields.next()?.parse().ok()?;
            let group = fields.next()?.parse().ok()?;
            let lives = !fields.next()?.starts_with('Z');
            Some(Process { pid, group, lives })
        })
        .collect()
}
