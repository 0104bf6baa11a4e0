//! `toolbus` as a server that listens: where, how it is signalled, how it ends.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::patience::{PATIENCE, awaited};

use crate::page::command;

/// On how many threads `toolbus serve` is to run in these tests, where the test itself says nothing.
const THREADS: &str = "TOOLBUS_TEST_THREADS";

/// A run of `toolbus` that listens. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    /// What it says on standard error, line by line.
    lines: Receiver<String>,
    /// What it listens on, in the order of its lines.
    pub(crate) urls: Vec<String>,
    /// What else it said before it listened.
    said: String,
    /// That its backs are there, which may be said at any time.
    ready: Receiver<String>,
}

impl Server {
    /// Starts it and awaits so many lines that say where it listens.
    pub(crate) fn start(words: &[&str], count: usize) -> Server {
        Server::start_with(words, count, &[])
    }

    /// The same with more in its environment.
    pub(crate) fn start_with(words: &[&str], count: usize, env: &[(&str, &str)]) -> Server {
        let mut command = command(words);
        let says_nothing = words.first() == Some(&"serve") && !words.contains(&"--threads");
        if let Some(threads) = env::var_os(THREADS).filter(|_| says_nothing) {
            command.arg("--threads").arg(threads);
        }
        command.envs(env.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Server::run(command, count)
    }

    /// As [`Server::start`], with all but standard error said of it.
    pub(crate) fn run(mut command: Command, count: usize) -> Server {
        command.stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was built for this test");
        let stderr = BufReader::new(child.stderr.take().expect("is piped"));
        let ((tell, lines), (tell_ready, ready)) = (mpsc::channel(), mpsc::channel());
        thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| {
                let tell = if line.starts_with("ready: ") { &tell_ready } else { &tell };
                // The test may have heard enough.
                let _ = tell.send(line);
            });
        });
        let mut server = Server { child, lines, urls: Vec::new(), said: String::new(), ready };
        while server.urls.len() < count {
            let line = server.hear();
            match line.strip_prefix("listening on ") {
                Some(url) => server.urls.push(url.to_owned()),
                None => server.said.push_str(&format!("{line}\n")),
            }
        }
        server
    }

    /// Its next line on standard error.
    #[track_caller]
    pub(crate) fn hear(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        line.unwrap_or_else(|_| panic!("it says no other line; said {}", self.said))
    }

    /// Its next line, if it has said one.
    pub(crate) fn heard(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// What it says when its backs are there.
    #[track_caller]
    pub(crate) fn ready(&self) -> String {
        self.ready.recv_timeout(PATIENCE).expect("it says that it is ready")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self) -> &str {
        &self.urls[0]
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it has not been collected");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        awaited("it ends", || self.child.try_wait().expect("can be waited for"))
    }

    /// Waits for its end: what else it said, and how it ended.
    pub(crate) fn end(mut self) -> String {
        let status = self.wait();
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.lines.iter().map(|line| format!("{line}\n")));
        format!("{said}{status}\n").replace("exit status: ", "exit ")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
