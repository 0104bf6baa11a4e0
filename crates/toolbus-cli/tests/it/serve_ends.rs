//! What ends `toolbus serve` besides its own signals, and that nothing is left then.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::peer::command_line;
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::terminal;

use crate::listening::Server;
use crate::live::marked;
use crate::serve::{BUILTIN, Config, MCP, back, server_after};

/// A back that only SIGKILL ends, and which leaves its mark there.
fn stubborn(mark: &str) -> String {
    back("stubborn", &server_after(&["ignore-term", "mark", mark], "hm"))
}

/// Serves it on a terminal of its own, whose other end is returned.
fn on_terminal(config: &Config, by: &[&str]) -> (Server, OwnedFd) {
    let (ours, theirs) = terminal::open();
    let mut command = Command::new("env");
    // Tests that are run by `nohup` ignore the signal, and so would all that they start.
    command.args(["--default-signal=HUP", "setsid", "--ctty"]).args(by);
    command.arg(env!("CARGO_BIN_EXE_toolbus"));
    command.args(["serve", "--config", &config.path()]);
    command.stdin(theirs).stdout(Stdio::null());
    (Server::run(command, 1), ours)
}

#[test]
fn it_ends_when_its_terminal_closes() {
    let scratch = Scratch::new();
    let mark = scratch.file("there");
    let config = Config::of(&format!("{}{MCP}", stubborn(&mark)));
    let (server, terminal) = on_terminal(&config, &[]);
    let there = marked(&mark, 1);
    // With the terminal still there, the signal means what it always does.
    config.reload(&server, &format!("{BUILTIN}{}{MCP}", stubborn(&mark)));
    drop(terminal);
    let ended = server.end();
    assert!(ended.ends_with("exit 143\n"), "{ended}");
    there[0].assert_gone();
}

#[test]
fn by_nohup_it_outlives_its_terminal() {
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let (server, terminal) = on_terminal(&config, &["nohup"]);
    drop(terminal);
    // The first is by the end of the terminal, the second ours.
    assert_eq!(server.hear(), "info: the config was read again");
    config.reload(&server, &format!("{BUILTIN}{MCP}"));
    server.signal(Signal::TERM);
    let ended = server.end();
    assert!(ended.ends_with("exit 0\n"), "{ended}");
}

/// The children die by the signal that the kernel sends, where the guard cannot kill any more.
#[test]
fn killed_together_with_its_guard_it_leaves_no_child() {
    let scratch = Scratch::new();
    let mark = scratch.file("there");
    let server = Config::of(&format!("{}{MCP}", stubborn(&mark))).serve(1);
    let there = marked(&mark, 1);
    let guard = guard_of(server.id());
    // So that it does nothing in the moment between the two.
    kill_process(guard, Signal::STOP).unwrap();
    server.signal(Signal::KILL);
    kill_process(guard, Signal::KILL).unwrap();
    there[0].assert_gone();
}

fn guard_of(pid: u32) -> Pid {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let children = threads.flatten().flat_map(|thread| {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    let is_guard = |pid: &String| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.split('\0').next() == Some("toolbus guard"))
    };
    let guard = { children }.find(is_guard).expect("it has a guard");
    Pid::from_raw(guard.parse().unwrap()).unwrap()
}

/// By us when we end, and after our SIGKILL by the guard.
#[test]
fn what_a_back_starts_in_another_session_ends_with_its_cgroup() {
    for signal in [Signal::TERM, Signal::KILL] {
        let scratch = Scratch::new();
        let mark = scratch.file("there");
        let daemon = command_line(&["ignore-term", "mark", &mark, "stay"]);
        let tool = server_after(&[], "hm").replacen("mcp+stdio:", "", 1);
        let script = scratch.file("tool.sh");
        fs::write(&script, format!("setsid {daemon} > /dev/null &\nexec {tool}")).unwrap();
        let address = format!("mcp+stdio:sh {script}");
        let server = Config::of(&format!("{}{MCP}", back("daemon", &address))).serve(1);
        let there = marked(&mark, 1)[0];
        let pid = there.living()[0];
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        if !cgroup.contains(&format!("/toolbus.{}.", server.id())) {
            println!("no cgroup is delegated to us here: `setsid` is a way out");
            return there.kill();
        }
        server.signal(signal);
        there.assert_gone();
        if signal == Signal::TERM {
            assert_eq!(server.end(), "exit 0\n");
        }
    }
}
