//! `toolbus` while it runs: said to and heard line by line, signalled, left alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::patience::{PATIENCE, awaited};
use toolbus_testkit::process::Group;

use crate::page::command;

/// A run of `toolbus`. Dropping it kills it.
pub(crate) struct Live {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Its lines, then the end.
    lines: Receiver<String>,
    stderr: Receiver<String>,
    /// Nothing is read before this is dropped.
    deaf: Option<Sender<()>>,
}

impl Live {
    pub(crate) fn start(words: &[&str]) -> Live {
        let mut live = Live::deaf(words);
        live.listen();
        live
    }

    /// As [`Live::start`], but nothing that it says is read before [`Live::listen`].
    pub(crate) fn deaf(words: &[&str]) -> Live {
        Live::run(command(words))
    }

    /// As [`Live::deaf`], with all but the pipes said of it.
    pub(crate) fn run(mut command: Command) -> Live {
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was built for this test");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("is piped"));
        let mut errors = child.stderr.take().expect("is piped");
        let (tell, lines) = mpsc::channel();
        let (deaf, is_deaf) = mpsc::channel::<()>();
        thread::spawn(move || {
            // Nothing is ever sent: it ends when the other half is dropped.
            let _ = is_deaf.recv();
            stdout.lines().map_while(Result::ok).try_for_each(|l| tell.send(l))
        });
        let (tell, stderr) = mpsc::channel();
        thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            tell.send(text)
        });
        Live { child, stdin, lines, stderr, deaf: Some(deaf) }
    }

    pub(crate) fn listen(&mut self) {
        self.deaf = None;
    }

    /// Its standard input, for a test that writes on a thread of its own.
    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("has not hung up")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An oracle of ours that an executor has acknowledged.
    pub(crate) fn serving(words: &[&str]) -> Live {
        let mut live = Live::start(&[&["oracle", "serve"], words].concat());
        let ready = live.hear();
        assert!(ready.starts_with(r#"{"jsonrpc":"2.0","id":0,"method":"ready""#), "{ready}");
        live.say(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
        live
    }

    pub(crate) fn say(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("has not hung up");
        stdin.write_all(bytes).expect("it reads");
    }

    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Its next line.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it says another line")
    }

    /// Says a line and gives the one it answers.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it has not been collected");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for its end: what else it said, and how it ended.
    #[track_caller]
    pub(crate) fn end(mut self) -> String {
        let said: String = self.rest();
        let stderr = self.stderr.recv_timeout(PATIENCE).expect("it closes its standard error");
        let status = awaited("it ends", || self.child.try_wait().expect("can be waited for"));
        format!("{said}{stderr}{status}\n").replace("exit status: ", "exit ")
    }

    fn rest(&mut self) -> String {
        let mut said = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => said.push_str(&format!("{line}\n")),
                Err(mpsc::RecvTimeoutError::Disconnected) => return said,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end; said {said}"),
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        Group::of(&self.child).kill();
        // Collects it, so that the next test sees no dead.
        let _ = self.child.wait();
    }
}

/// The processes that have left their mark in this file by now, at least `count` of them.
#[track_caller]
pub(crate) fn marked(file: &str, count: usize) -> Vec<Group> {
    awaited("a process leaves its mark", || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let pids: Vec<_> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (count <= pids.len()).then(|| pids.into_iter().map(Group::led_by).collect())
    })
}
