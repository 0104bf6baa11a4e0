//! Processes as a test looks at them: is anybody of this group left?

use std::process::Child;

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

    /// The processes of it that live. The dead that nobody has collected do not count.
    pub fn living(self) -> Vec<u32> {
        let all = list().into_iter();
        all.filter(|process| process.group == self.0 && process.lives)
            .map(|process| process.pid)
            .collect()
    }

    /// Waits until nobody of it lives.
    #[track_caller]
    pub fn assert_gone(self) {
        eventually(&format!("nobody is left of group {}", self.0), || self.living().is_empty());
    }

    /// Kills all of it; nobody may be left to kill.
    pub fn kill(self) {
        if let Some(pid) = i32::try_from(self.0).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// What `/proc` knows of a process that lives.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vitals {
    /// The most memory it ever had, in bytes.
    pub memory_peak: usize,
    /// It waits for something.
    pub is_asleep: bool,
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
        let kib: usize = value("VmHWM:").parse().expect("a size in KiB");
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
        let is_asleep = value("State:") == "S";
        Vitals { memory_peak: kib * 1024, is_asleep, open_files: open.count() }
    }
}

struct Process {
    pid: u32,
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
            let group = fields.nth(1)?.parse().ok()?;
            Some(Process { pid, group, lives })
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
