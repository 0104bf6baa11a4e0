//! All that descends from one child of ours: the session it was started in.
//!
//! A process may make a group of its own (`timeout` does) and stays in its session; only
//! `setsid` leads out of it, and then a [`Cgroup`] holds the process where there is one. Linux can
//! signal a group but not a session, so its members are looked up in `/proc`. Signals are sent while the leader is not reaped: until then no other
//! session can have its number.

use rustix::process::Pid;

use super::cgroup::Cgroup;
use super::process::Signal;

/// A session, named by the process it began with, which is also the first of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    leader: Pid,
    cgroup: Option<Cgroup>,
}

/// How often members are looked for that were started while others were killed.
#[cfg(target_os = "linux")]
const ROUNDS_MAX: usize = 100;

impl Session {
    pub(super) fn new(leader: Pid, cgroup: Option<Cgroup>) -> Session {
        Session { leader, cgroup }
    }

    /// Signals all of it. A killed session has started nothing new when this returns.
    ///
    /// What has left it and is still in its cgroup is asked nothing and only killed.
    pub(crate) fn signal(self, signal: Signal) {
        let raw = match signal {
            Signal::Term => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        // The group first and at once: mostly that is all of it. Fails if no process is left,
        // or for one that changed its user: neither can be helped.
        let _ = rustix::process::kill_process_group(self.leader, raw);
        #[cfg(target_os = "linux")]
        self.signal_others(signal, raw);
        if signal == Signal::Kill
            && let Some(cgroup) = self.cgroup
        {
            cgroup.kill();
        }
    }

    /// Does any process of it live besides its leader?
    ///
    /// Costs a look at every process of the system. Where there is no `/proc` the answer is yes
    /// as long as the leader is not reaped: no process is missed, but some are signalled in vain.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_left(self) -> bool {
        linux::processes().is_none_or(|mut all| all.any(|pid| pid != self.leader && self.has(pid)))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn is_left(self) -> bool {
        rustix::process::test_kill_process_group(self.leader).is_ok()
    }

    /// The names and numbers of those that live besides its leader.
    #[cfg(target_os = "linux")]
    pub(crate) fn members(self) -> Vec<(String, i32)> {
        let held = self.cgroup.map(Cgroup::processes).unwrap_or_default();
        let all = linux::processes().into_iter().flatten();
        let is_member = |pid: &Pid| {
            let is_held = held.contains(&pid.as_raw_nonzero().get()) && linux::is_alive(*pid);
            *pid != self.leader && (is_held || self.has(*pid))
        };
        let named =
            all.filter(is_member).map(|pid| (linux::name_of(pid), pid.as_raw_nonzero().get()));
        named.collect()
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn members(self) -> Vec<(String, i32)> {
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
impl Session {
    /// Signals those outside of the leader's group; a kill goes on until it meets none that it
    /// has not killed already.
    fn signal_others(self, signal: Signal, raw: rustix::process::Signal) {
        let mut signalled = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let before = signalled.len();
            for pid in linux::processes().into_iter().flatten() {
                let is_new = pid != self.leader && !signalled.contains(&pid);
                if is_new && linux::group_of(pid) != Some(self.leader) && self.has(pid) {
                    self.signal_one(pid, raw);
                    signalled.push(pid);
                }
            }
            if signal == Signal::Term || signalled.len() == before {
                return;
            }
        }
    }

    /// By a descriptor, so that a process which gets the number of a dead one is not met.
    fn signal_one(self, pid: Pid, raw: rustix::process::Signal) {
        use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) if self.has(pid) => {
                let _ = pidfd_send_signal(process, raw);
            }
            Ok(_) | Err(rustix::io::Errno::SRCH) => {}
            // Kernels before 5.3 and some sandboxes do not have it.
            Err(_) => {
                let _ = kill_process(pid, raw);
            }
        }
    }

    /// Is this process a living member?
    fn has(self, pid: Pid) -> bool {
        // The kernel makes up a whole page for `stat`, so only members are asked for it.
        linux::session_of(pid) == Some(self.leader) && linux::is_alive(pid)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::process::Pid;

    /// Every process of the system, if `/proc` tells.
    pub(super) fn processes() -> Option<impl Iterator<Item = Pid>> {
        let entries = std::fs::read_dir("/proc").ok()?;
        let pid = |name: &str| name.parse().ok().and_then(Pid::from_raw);
        Some(entries.flatten().filter_map(move |entry| entry.file_name().to_str().and_then(pid)))
    }

    /// Not by `rustix`, which takes it for granted that there is a session: threads of the
    /// kernel are in none.
    #[allow(unsafe_code)]
    pub(super) fn session_of(pid: Pid) -> Option<Pid> {
        // SAFETY: asks for a number; an unknown process is an error, -1.
        Pid::from_raw(unsafe { libc::getsid(pid.as_raw_nonzero().get()) }.max(0))
    }

    #[allow(unsafe_code)]
    pub(super) fn group_of(pid: Pid) -> Option<Pid> {
        // SAFETY: as above.
        Pid::from_raw(unsafe { libc::getpgid(pid.as_raw_nonzero().get()) }.max(0))
    }

    /// What the system calls a process: its program, cut to 15 bytes.
    pub(super) fn name_of(pid: Pid) -> String {
        let name = std::fs::read(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        String::from_utf8_lossy(&name.unwrap_or_default()).trim_end().to_owned()
    }

    pub(super) fn is_alive(pid: Pid) -> bool {
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| is_of_the_living(&stat))
    }

    /// Is this line of `/proc/<pid>/stat` of a process that is neither a zombie nor dead? The
    /// name of the program, in brackets, may hold anything, brackets too.
    fn is_of_the_living(stat: &[u8]) -> bool {
        let name_end = stat.iter().rposition(|&byte| byte == b')');
        let state = name_end.and_then(|at| stat.get(at + 2));
        state.is_some_and(|state| !b"ZX".contains(state))
    }

    #[test]
    fn the_living_are_told_from_the_dead() {
        assert!(is_of_the_living(b"12 (sh) S 1 10 10 0 -1"));
        assert!(is_of_the_living(b"12 (a) Z 1 9 (b) R 1 10 10 0 -1"));
        assert!(!is_of_the_living(b"12 (sh) Z 1 10 10 0 -1"));
        assert!(!is_of_the_living(b"12 (sh) X 1 10 10 0 -1"));
        assert!(!is_of_the_living(b"12 (sh)"));
        assert!(!is_of_the_living(b""));
    }
}
