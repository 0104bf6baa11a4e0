//! Starting programs, watching them end, and why they did not start.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::{Expect, expect};
use rustix::process::Pid;
use toolbus_engine::child::{EnvPolicy, Exit, Process, Program, Signal, diagnose, words};
use toolbus_testkit::skipped::skipped;

use crate::PATIENCE;

fn program(command: &str) -> Program {
    Program::new(words::split(command).unwrap())
}

fn spawn(command: &str) -> Process {
    Process::spawn(&program(command)).unwrap()
}

fn read_all(fd: &mut Option<OwnedFd>) -> String {
    let mut text = String::new();
    File::from(fd.take().unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Runs a program to its end and returns what it wrote.
fn output(program: &Program) -> String {
    let mut process = Process::spawn(program).unwrap();
    process.stdin = None;
    let text = read_all(&mut process.stdout);
    assert_eq!(process.wait_exit(PATIENCE), Some(Exit::Code(0)));
    text
}

#[test]
fn all_three_streams_are_pipes() {
    let mut process = spawn("sh -c 'cat; echo oops >&2'");
    let stdin = process.stdin.take().unwrap();
    assert_eq!(rustix::pipe::fcntl_getpipe_size(&stdin), Ok(1 << 20));
    File::from(stdin).write_all(b"hello").unwrap();
    assert_eq!(read_all(&mut process.stdout), "hello");
    assert_eq!(read_all(&mut process.stderr), "oops\n");
}

#[test]
fn an_exit_is_seen_before_it_is_reaped() {
    let mut process = spawn("sh -c 'read line; exit 3'");
    assert_eq!((process.exit_seen(), process.finish()), (None, None));
    process.stdin = None;
    assert_eq!(process.wait_exit(PATIENCE), Some(Exit::Code(3)));
    let status = format!("/proc/{}/status", process.pid());
    assert!(fs::read_to_string(&status).unwrap().contains("zombie"));
    assert_eq!(process.finish(), Some(Exit::Code(3)));
    assert!(!Path::new(&status).exists());
    assert_eq!(process.finish(), Some(Exit::Code(3)));
    assert_eq!(process.exit_seen(), Some(Exit::Code(3)));
}

#[test]
fn a_signal_reaches_the_whole_session() {
    let mut process = spawn("sh -c 'sleep 600 & echo up; wait'");
    let mut stdout = File::from(process.stdout.take().unwrap());
    stdout.read_exact(&mut [0; 3]).unwrap();
    process.signal_session(Signal::Term);
    // Both held it.
    assert_eq!(stdout.read(&mut [0]).unwrap(), 0);
    assert_eq!(process.wait_exit(PATIENCE), Some(Exit::Signal(15)));
    assert_eq!(process.finish().unwrap().to_string(), "signal 15");
    // Its id may be that of another process by now, which must not be signalled.
    process.signal_session(Signal::Kill);
}

#[test]
fn those_left_behind_by_their_leader_are_known_and_killed() {
    let mut process = spawn("sh -c 'trap \"\" TERM; sleep 600 & exit 7'");
    assert_eq!(process.wait_exit(PATIENCE), Some(Exit::Code(7)));
    assert!(process.session_left());
    process.signal_session(Signal::Term);
    assert!(process.session_left());
    assert_eq!(process.finish(), Some(Exit::Code(7)));
    assert!(!process.session_left());
    assert_eq!(read_all(&mut process.stdout), "");
}

#[test]
fn a_leader_without_followers_leaves_no_process() {
    let process = spawn("true");
    process.wait_exit(PATIENCE).unwrap();
    assert!(!process.session_left());
}

#[test]
fn dropping_a_process_kills_its_session() {
    let mut process = spawn("sh -c 'trap \"\" TERM; sleep 600 & echo up; wait'");
    let mut stdout = File::from(process.stdout.take().unwrap());
    stdout.read_exact(&mut [0; 3]).unwrap();
    let pid = process.pid();
    drop(process);
    assert_eq!(stdout.read(&mut [0]).unwrap(), 0);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "neither alive nor a zombie");
}

/// Where no cgroup is delegated to us that process is left, and is ended by the test.
#[test]
fn what_left_the_session_is_killed_with_its_cgroup() {
    let script = r#"cat /proc/self/cgroup; setsid sh -c 'echo "up $$"; exec sleep 600' & wait"#;
    let words = ["sh", "-c", script].map(String::from).to_vec();
    let mut process = Process::spawn(&Program::new(words)).unwrap();
    let mut lines = BufReader::new(File::from(process.stdout.take().unwrap())).lines();
    let mut line = || lines.next().transpose().unwrap();
    let mut is_held = false;
    let escaped = loop {
        let line = line().unwrap();
        is_held |= line.contains(&format!("/toolbus.{}.", std::process::id()));
        if let Some(pid) = line.strip_prefix("up ") {
            break Pid::from_raw(pid.parse().unwrap()).unwrap();
        }
    };
    process.signal_session(Signal::Kill);
    assert_eq!(process.wait_exit(PATIENCE), Some(Exit::Signal(9)));
    if !is_held {
        skipped("no cgroup is delegated to us here: `setsid` is a way out");
        rustix::process::kill_process(escaped, rustix::process::Signal::KILL).unwrap();
    }
    // The pipe ends when the last process that holds it is dead.
    assert_eq!(line(), None);
}

#[test]
fn a_child_begins_with_a_clean_slate() {
    // No descriptor beyond those that any child of ours has.
    let list = "ls /proc/self/fd";
    let any_child = Command::new("sh").args(["-c", list]).output().unwrap();
    let text = output(&program(&format!("sh -c '{list}'")));
    assert_eq!(text, String::from_utf8(any_child.stdout).unwrap());

    // Nothing blocked, and SIGPIPE not ignored, as it is in every Rust program.
    let text = output(&program("grep -E 'Sig(Blk|Ign)' /proc/self/status"));
    let masks: Vec<u64> = text
        .lines()
        .map(|line| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap())
        .collect();
    assert_eq!(
        (masks[0], masks[1] & (1 << (rustix::process::Signal::PIPE.as_raw() - 1))),
        (0, 0),
        "{text}"
    );

    // A group of its own.
    let mut process = spawn("cat");
    let pid = rustix::process::Pid::from_raw(process.pid());
    assert_eq!(rustix::process::getpgid(pid).ok(), pid);
    process.stdin = None;
}

#[test]
fn a_clean_environment_is_clean() {
    let mut clean = program("env");
    clean.env = EnvPolicy::Clean { pass: vec!["CARGO_MANIFEST_DIR".into(), "NOT_SET".into()] };
    clean.vars = vec![("LANG".into(), "C".into()), ("KEY".into(), "a b=c".into())];
    let text = output(&clean);
    let names: Vec<&str> = text.lines().map(|line| line.split('=').next().unwrap()).collect();
    assert!(text.contains("LANG=C\n") && text.contains("KEY=a b=c\n"), "{text}");
    assert!(names.contains(&"CARGO_MANIFEST_DIR") && names.contains(&"PATH"), "{text}");
    assert!(!names.contains(&"CARGO") && !names.contains(&"NOT_SET"), "{text}");

    let mut inherits = program("env");
    inherits.vars = vec![("CARGO".into(), "mine".into())];
    let text = output(&inherits);
    assert!(text.contains("\nCARGO=mine\n") || text.starts_with("CARGO=mine\n"), "{text}");
    assert!(text.contains("CARGO_MANIFEST_DIR="), "{text}");
}

#[test]
fn programs_are_found_from_their_own_directory_and_path() {
    let folder = Folder::new("found");
    folder.file("tools/greet", 755, "#!/bin/sh\necho hello from $(basename $PWD)\n");
    let mut relative = program("./greet");
    relative.cwd = Some(folder.path("tools"));
    assert_eq!(output(&relative), "hello from tools\n");

    let mut by_path = program("greet");
    by_path.vars = vec![("PATH".into(), format!("/nowhere:tools:{}", env!("PATH")))];
    by_path.cwd = Some(folder.path(""));
    assert_eq!(output(&by_path), "hello from found\n");
}

#[test]
fn a_script_without_a_first_line_is_the_shells() {
    let folder = Folder::new("plain");
    folder.file("script", 755, "echo \"$0 $1\"\n");
    let mut script = program("./script 'a b'");
    script.cwd = Some(folder.path(""));
    assert_eq!(output(&script), "./script a b\n");
}

#[test]
fn why_a_program_does_not_start() {
    let folder = Folder::new("why");
    folder.file("notes.txt", 644, "#!/bin/sh\n");
    folder.file("lost", 755, "#!/opt/none/python3 -u\n");
    folder.file("dos", 755, "#!/bin/sh\r\n");
    folder.file("junk", 755, "\0\u{1}\u{2}");
    folder.file("win.exe", 755, "MZ\0");
    folder.file("alien", 755, "\u{7f}ELF\u{2}\u{1}\u{1}\0\0\0\0\0\0\0\0\0\u{2}\0\u{16}\0");
    folder.file("sub/x", 755, "");

    let check = |command: &str, expected: Expect| {
        let mut program = program(command);
        program.cwd = Some(folder.0.clone());
        let error = Process::spawn(&program).unwrap_err();
        let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        let page = format!("{error}\n{hint}").replace(folder.0.to_str().unwrap(), "/here");
        expected.assert_eq(&page);
    };
    check(
        "no-such-program",
        expect![[r#"
        there is no program `no-such-program` in PATH
        hint: install `no-such-program`, or give its path
    "#]],
    );
    check(
        "lost",
        expect![[r#"
        there is no program `lost` in PATH
        hint: a name without `/` is looked for in PATH; for the file here write `./lost`
    "#]],
    );
    check(
        "./none",
        expect![[r#"
            there is no program `./none`
            hint: `./none` is relative to `/here`
        "#]],
    );
    check(
        "/none/at/all",
        expect![[r#"
            there is no program `/none/at/all`
            hint: nothing is at that path: correct it
        "#]],
    );
    check(
        "notes.txt/x",
        expect![[r#"
            there is no program `notes.txt/x`
            hint: `notes.txt/x` is relative to `/here`
        "#]],
    );
    check(
        "''",
        expect![[r#"
            there is no program to start: the command is empty
        "#]],
    );
    check(
        "./notes.txt",
        expect![[r#"
            `/here/notes.txt` is not executable
            hint: make it executable: `chmod +x /here/notes.txt`
        "#]],
    );
    check(
        "./sub",
        expect![[r#"
            `/here/sub` is a directory, not a program
            hint: name a program inside it
        "#]],
    );
    check(
        "./lost",
        expect![[r#"
            `/here/lost` needs `/opt/none/python3` to run, and that is not there
            hint: install `/opt/none/python3`, or change what asks for it
        "#]],
    );
    check(
        "./dos",
        expect![[r#"
            `/here/dos` needs `/bin/sh\r` to run, and that is not there
            hint: its `#!` line ends in CR LF; save the file with LF alone
        "#]],
    );
    check(
        "./junk",
        expect![[r#"
            `/here/junk` is not a program that can be run here
            hint: a script needs a first line like `#!/bin/sh`
        "#]],
    );
    check(
        "./win.exe",
        expect![[r#"
            `/here/win.exe` is a program for Windows, not for this machine
            hint: build it for x86_64
        "#]],
    );
    check(
        "./alien",
        expect![[r#"
            `/here/alien` is a program for another processor, not for this machine
            hint: build it for x86_64
        "#]],
    );
}

#[test]
fn what_else_can_be_wrong_with_a_command() {
    let check = |program: &Program, expected: Expect| {
        let error = Process::spawn(program).unwrap_err();
        let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
        expected.assert_eq(&format!("{error}\n{hint}"));
    };
    let mut lost = program("true");
    lost.cwd = Some("/none".into());
    check(
        &lost,
        expect![[r#"
        cannot start `true` in `/none`: there is no such directory
        hint: create it, or change `cwd`
    "#]],
    );
    check(
        &program(&format!("true {}", "x".repeat(8 << 20))),
        expect![[r#"
            cannot start `true`: its arguments and environment are too long
        "#]],
    );
    check(
        &Program::new(vec!["true".into(), "a\0b".into()]),
        expect![[r#"
            cannot start `true`: a word or variable of it contains a NUL byte
        "#]],
    );
    check(
        &Program::new(Vec::new()),
        expect![[r#"
        there is no program to start: the command is empty
    "#]],
    );
}

#[test]
fn an_early_exit_may_say_something() {
    let process = spawn("sh -c no-such-program");
    let exit = process.wait_exit(PATIENCE).unwrap();
    let hint = diagnose::early_exit(exit).unwrap();
    assert_eq!(
        format!("{exit}; {hint}"),
        "exit status 127; status 127 is how a shell says: no such program"
    );
    assert_eq!(diagnose::early_exit(Exit::Code(1)), None);
}

/// A folder for the files of one test, made anew.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Another process writes the file: a descriptor of ours could be copied by a fork in another
    /// test, and a file that is open for writing cannot be run.
    fn file(&self, name: &str, mode: u32, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let octal: String = text.bytes().map(|byte| format!("\\{byte:03o}")).collect();
        let script = "printf \"$1\" > \"$0\" && chmod \"$2\" \"$0\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(path).args([octal, mode.to_string()]);
        assert!(shell.status().unwrap().success());
    }
}
