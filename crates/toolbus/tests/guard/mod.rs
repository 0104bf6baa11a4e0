//! Kills a host of child processes with SIGKILL at all sorts of moments: no process may be left.
//!
//! The program is test, host and guard in one. A test starts the host, which is this program again, with a pipe as standard output that every child and grandchild
//! inherits; the pipe ends when the last of them is dead, and not before. The guard does not hold
//! it: it holds nothing.

use std::io::{self, PipeReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio, exit};
use std::time::{Duration, Instant};
use std::{env, fs, mem};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal as RawSignal};
use toolbus_engine::child::{Process, Program, Signal, guard};
use toolbus_testkit::form;
use toolbus_testkit::patience::PATIENCE;
use toolbus_testkit::skipped::skipped;

/// Ignores every polite request, and has children of its own that do the same; one of them is
/// in a group of its own.
const STUBBORN: &str =
    "trap '' TERM INT HUP; timeout 5000 sleep 600 & (sleep 600 & sleep 600) & echo up; wait";

/// Has a child that leaves the session, and is gone before it.
const DAEMON: &str =
    "setsid sh -c 'trap \"\" TERM INT HUP; echo up; sleep 600; sleep 600' & exec sleep 600";

/// A test, given the form of the guard that it is to run with.
type Test = fn(&str);

/// Each is run with both forms of the guard.
const TESTS: [(&str, Test); 10] = [
    ("killed_while_starting", killed_while_starting),
    ("killed_while_serving", killed_while_serving),
    ("killed_while_stopping", killed_while_stopping),
    ("killed_while_failing_to_start", killed_while_failing_to_start),
    ("the_guard_holds_nothing_and_goes_with_us", the_guard_holds_nothing_and_goes_with_us),
    ("the_guard_ignores_polite_signals", the_guard_ignores_polite_signals),
    ("a_guard_that_dies_is_started_again", a_guard_that_dies_is_started_again),
    ("a_guard_that_hangs_is_replaced", a_guard_that_hangs_is_replaced),
    ("children_die_with_us_and_the_guard", children_die_with_us_and_the_guard),
    ("setsid_does_not_lead_out_of_a_cgroup", setsid_does_not_lead_out_of_a_cgroup),
];

/// Goes on as what this process was started to be, if it was by one of the tests below.
pub(crate) fn be_guard_or_host() {
    if env::var_os("GUARD").is_none_or(|form| form == "program") {
        guard::run_if_asked();
    }
    if let Ok(window) = env::var("HOST") {
        host(&window);
    }
}

pub(crate) fn tests() -> impl Iterator<Item = (String, crate::Test)> {
    TESTS.into_iter().flat_map(|(name, test)| {
        ["program", "script"].map(|form| {
            let run: crate::Test = Box::new(move || test(form));
            (format!("guard::{name}_{form}"), run)
        })
    })
}

fn killed_while_starting(form: &str) {
    killed_at_random("starting", form);
}

fn killed_while_serving(form: &str) {
    for _ in 0..kills() {
        let mut host = Host::serving(form);
        host.kill();
        host.expect_none_left();
    }
}

fn killed_while_stopping(form: &str) {
    killed_at_random("stopping", form);
}

fn killed_while_failing_to_start(form: &str) {
    killed_at_random("failing", form);
}

fn killed_at_random(window: &str, form: &str) {
    let mut seed = form::seed();
    let mut between_fork_and_exec = 0;
    for _ in 0..kills() {
        // Any moment will do: which it is depends on the machine, too.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = Duration::from_micros((seed >> 33) % 40_000);
        let mut host = Host::start(window, form);
        host.wait_readable(moment);
        // A child that has not yet become another program still has our name.
        between_fork_and_exec += u32::from(!host.children_named("host").is_empty());
        host.kill();
        host.expect_none_left();
    }
    println!("{window}: {} kills, {between_fork_and_exec} between fork and exec", kills());
}

fn the_guard_holds_nothing_and_goes_with_us(form: &str) {
    let mut host = Host::serving(form);
    let pid = host.guard();
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let mut held: Vec<_> = fs::read_dir(format!("{folder}/fd"))
        .unwrap()
        .map(|fd| fs::read_link(fd.unwrap().path()).unwrap().to_string_lossy().into_owned())
        .collect();
    held.sort();
    assert_eq!(held[..2], ["/dev/null", "/dev/null"]);
    assert!(held[2].starts_with("pipe:") && held.len() == 3, "{held:?}");
    assert_eq!(rustix::process::getsid(Some(pid)), Ok(pid));
    assert_eq!(fs::read_link(format!("{folder}/cwd")).unwrap().to_str(), Some("/"));
    assert_eq!(fs::read(format!("{folder}/environ")).unwrap(), b"");

    let guard = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
    host.kill();
    host.expect_none_left();
    assert!(readable(&guard, PATIENCE), "the guard lives on");
}

fn the_guard_ignores_polite_signals(form: &str) {
    let mut host = Host::serving(form);
    let guard = host.guard();
    for signal in [RawSignal::TERM, RawSignal::INT, RawSignal::HUP, RawSignal::PIPE] {
        rustix::process::kill_process(guard, signal).unwrap();
    }
    host.spawn_another();
    assert_eq!(host.guard(), guard);
    host.kill();
    host.expect_none_left();
}

fn a_guard_that_dies_is_started_again(form: &str) {
    let mut host = Host::serving(form);
    let first = host.guard();
    let watch = rustix::process::pidfd_open(first, PidfdFlags::empty()).unwrap();
    rustix::process::kill_process(first, RawSignal::KILL).unwrap();
    assert!(readable(&watch, PATIENCE));
    // The one who reaps it starts the next before another thread can start a child.
    let until = Instant::now() + PATIENCE;
    while rustix::process::test_kill_process(first).is_ok() {
        assert!(Instant::now() < until, "the dead guard is not replaced");
        std::thread::yield_now();
    }
    host.spawn_another();
    assert_ne!(host.guard(), first);
    host.kill();
    host.expect_none_left();
}

fn a_guard_that_hangs_is_replaced(form: &str) {
    let mut host = Host::serving(form);
    let first = host.guard();
    let watch = rustix::process::pidfd_open(first, PidfdFlags::empty()).unwrap();
    rustix::process::kill_process(first, RawSignal::STOP).unwrap();
    if !form::is_long() {
        // The smallest there is, so that it is full after a few hundred children.
        let pipe = fs::File::open(format!("/proc/{}/fd/0", first.as_raw_nonzero())).unwrap();
        rustix::pipe::fcntl_setpipe_size(pipe, 4096).unwrap();
    }
    let mut spawned = 0;
    while !readable(&watch, Duration::ZERO) {
        host.ask("come and go");
        spawned += 1;
        assert!(spawned < 50_000, "the pipe to the guard is never full");
    }
    host.kill();
    host.expect_none_left();
}

/// What a child itself has started may be left then: the kernel tells children only.
fn children_die_with_us_and_the_guard(form: &str) {
    let mut host = Host::start("without grandchildren", form);
    host.expect_line();
    let guard = host.guard();
    rustix::process::kill_process(guard, RawSignal::STOP).unwrap();
    host.kill();
    rustix::process::kill_process(guard, RawSignal::KILL).unwrap();
    host.expect_none_left();
}

/// Where our cgroup is delegated to us. Else nothing can be tested here, and that is said.
fn setsid_does_not_lead_out_of_a_cgroup(form: &str) {
    let mut host = Host::serving(form);
    let Some(folder) = host.cgroups() else {
        skipped("no cgroup is delegated to us here: `setsid` is a way out");
        host.kill();
        return host.expect_none_left();
    };
    host.ask("spawn a daemon");
    host.kill();
    host.expect_none_left();
    let until = Instant::now() + PATIENCE;
    while folder.exists() {
        assert!(Instant::now() < until, "{folder:?} is left");
        std::thread::yield_now();
    }
}

/// How often a host is killed in each window.
fn kills() -> u32 {
    form::short_or_long(10, 50)
}

/// A program with children, about to be killed.
struct Host {
    child: Child,
    orders: ChildStdin,
    /// Ends when all of them are dead.
    alive: PipeReader,
}

impl Host {
    fn start(window: &str, form: &str) -> Host {
        let (alive, stdout) = io::pipe().unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.env("HOST", window).env("GUARD", form).arg0("host");
        let mut child = command.stdin(Stdio::piped()).stdout(stdout).spawn().unwrap();
        Host { orders: child.stdin.take().unwrap(), child, alive }
    }

    fn serving(form: &str) -> Host {
        let mut host = Host::start("serving", form);
        host.expect_line();
        host
    }

    fn spawn_another(&mut self) {
        self.ask("spawn");
    }

    fn ask(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        self.expect_line();
    }

    fn expect_line(&mut self) {
        let mut byte = [0];
        while byte[0] != b'\n' {
            assert!(self.wait_readable(PATIENCE), "the host says nothing");
            self.alive.read_exact(&mut byte).expect("the host has ended");
        }
    }

    fn wait_readable(&self, patience: Duration) -> bool {
        readable(&self.alive, patience)
    }

    fn guard(&self) -> Pid {
        let guards = self.children_named("toolbus guard");
        assert_eq!(guards.len(), 1, "one guard");
        guards[0]
    }

    /// The folder of its children's cgroups, if it has any.
    fn cgroups(&self) -> Option<PathBuf> {
        let shell = *self.children_named("sh").iter().find(|&&child| child != self.guard())?;
        let cgroups =
            fs::read_to_string(format!("/proc/{}/cgroup", shell.as_raw_nonzero())).unwrap();
        let own = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        own.contains(&format!("toolbus.{}.", self.child.id())).then_some(())?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut mounts = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
        let cgroup = Path::new(mounts.next()?.split(' ').nth(4)?).join(own);
        Some(cgroup.parent().unwrap().to_owned())
    }

    /// The children of the host that have this among their words.
    fn children_named(&self, name: &str) -> Vec<Pid> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut named = Vec::new();
        for task in tasks {
            // The task, a thread, may have ended.
            let children = fs::read_to_string(task.unwrap().path().join("children"));
            for pid in children.unwrap_or_default().split_whitespace() {
                let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                if line.split('\0').any(|word| word == name) {
                    named.push(Pid::from_raw(pid.parse().unwrap()).unwrap());
                }
            }
        }
        named
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn expect_none_left(mut self) {
        let mut said = [0; 1024];
        loop {
            assert!(self.wait_readable(PATIENCE), "a process is left");
            if self.alive.read(&mut said).unwrap() == 0 {
                return;
            }
        }
    }
}

fn readable(fd: impl std::os::fd::AsFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).unwrap();
    let mut ready = [PollFd::new(&fd, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut ready, Some(&patience)) {
            Ok(count) => return count == 1,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The life of the host, up to the moment when it is killed.
fn host(window: &str) -> ! {
    // Inherited by all children, unlike the original, whose place is taken by their own pipes.
    mem::forget(rustix::io::dup(io::stdout()).unwrap());
    let stubborn = Program::new(["sh", "-c", STUBBORN].map(String::from).to_vec());
    let daemon = Program::new(["sh", "-c", DAEMON].map(String::from).to_vec());
    let mut children = Vec::new();
    match window {
        "starting" => loop {
            children.push(Process::spawn(&stubborn).unwrap());
            if children.len() == 8 {
                children.clear();
            }
        },
        "stopping" => loop {
            let mut child = Process::spawn(&stubborn).unwrap();
            child.signal_session(Signal::Term);
            child.signal_session(Signal::Kill);
            child.wait_exit(PATIENCE).unwrap();
            child.finish().unwrap();
        },
        "failing" => loop {
            Process::spawn(&Program::new(vec!["/".into()])).unwrap_err();
            children.push(Process::spawn(&stubborn).unwrap());
            children.truncate(4);
        },
        "without grandchildren" => {
            let sleep = Program::new(["sleep", "600"].map(String::from).to_vec());
            children.extend((0..3).map(|_| Process::spawn(&sleep).unwrap()));
        }
        _ => {
            for _ in 0..3 {
                children.push(spawn_and_see(&stubborn));
            }
        }
    }
    println!("serving");
    for order in io::stdin().lines() {
        match order.unwrap().as_str() {
            "spawn a daemon" => children.push(spawn_and_see(&daemon)),
            "spawn" => children.push(spawn_and_see(&stubborn)),
            _ => drop(Process::spawn(&Program::new(vec!["true".into()])).unwrap()),
        }
        println!("done");
    }
    exit(1);
}

fn spawn_and_see(program: &Program) -> Process {
    let mut child = Process::spawn(program).unwrap();
    let stdout = child.stdout.take().unwrap();
    let mut up = [0; 3];
    fs::File::from(stdout).read_exact(&mut up).unwrap();
    child
}
