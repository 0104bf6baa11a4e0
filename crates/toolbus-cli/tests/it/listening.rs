//! `toolbus` as a server that listens: where, how it is signalled, how it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::patience::{PATIENCE, awaited};

use crate::page::command;

/// A run of `toolbus` that listens. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    stderr: Option<BufReader<ChildStderr>>,
    /// What it listens on, in the order of its lines.
    pub(crate) urls: Vec<String>,
}

impl Server {
    /// Starts it and awaits so many lines that say where it listens.
    pub(crate) fn start(words: &[&str], count: usize) -> Server {
        let mut command = command(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was built for this test");
        let stderr = child.stderr.take().expect("is piped");
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut stderr = BufReader::new(stderr);
            let mut lines = vec![String::new(); count];
            for line in &mut lines {
                let _ = stderr.read_line(line);
            }
            tell.send((lines, stderr))
        });
        let (lines, stderr) = told.recv_timeout(PATIENCE).expect("it listens");
        let url = |line: String| {
            let url = line.strip_prefix("listening on ").and_then(|url| url.strip_suffix('\n'));
            url.unwrap_or_else(|| panic!("not where it listens: {line:?}")).to_owned()
        };
        Server { child, stderr: Some(stderr), urls: lines.into_iter().map(url).collect() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.urls[0]
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it has not been collected");
    }

    /// Waits for its end: what else it said, and how it ended.
    pub(crate) fn end(mut self) -> String {
        let status = awaited("it ends", || self.child.try_wait().expect("can be waited for"));
        let mut said = String::new();
        if let Some(mut stderr) = self.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        format!("{said}{status}\n").replace("exit status: ", "exit ")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
