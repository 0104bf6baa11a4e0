//! A bare MCP client: calls `echo` with a text, so many calls in flight, and counts the answers.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::cpu;
use crate::lines::Lines;

/// What a client says before its first call.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"between","version":"0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Below this a message and its answer fit into empty pipes, and who waits need not look at both.
const FITS: usize = 16 * 1024;

/// So much may wait to be written before no further call is put behind it.
const UNWRITTEN_MAX: usize = 256 * 1024;

pub(crate) struct Client {
    to: OwnedFd,
    from: OwnedFd,
    lines: Lines,
    next: u64,
    /// The processes between, and the server where we started it.
    children: Vec<Child>,
}

/// What one turn has found.
pub(crate) struct Turn {
    pub(crate) calls: u64,
    pub(crate) took: Duration,
    /// The middle one of the times until an answer.
    pub(crate) latency: Duration,
    /// How long all of them, this client too, had the core.
    pub(crate) cpu: Duration,
}

impl Client {
    /// Opens a session. `children` begins with the one whose standard output is ours.
    pub(crate) fn open(to: impl Into<OwnedFd>, mut children: Vec<Child>) -> Client {
        let from = children[0].stdout.take().expect("piped").into();
        let mut client = Client { to: to.into(), from, lines: Lines::new(), next: 1, children };
        client.say(INITIALIZE);
        let greeting = client.line();
        assert!(greeting.contains("serverInfo"), "no greeting: {greeting}");
        client.say(INITIALIZED);
        client
    }

    /// One call, whose answer is compared in full.
    pub(crate) fn check(&mut self, size: usize) {
        let text = text(size);
        let id = self.next;
        self.next += 1;
        let mut request = Vec::new();
        put_request(&mut request, id, &text);
        request.pop();
        self.say(std::str::from_utf8(&request).expect("it is text"));
        let answer = self.line();
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("an answer");
        let expected: String = serde_json::from_str(&format!("\"{text}\"")).expect("a string");
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"]["content"][0]["text"], expected);
    }

    /// Makes calls for so long.
    pub(crate) fn turn(&mut self, long: Duration, size: usize, in_flight: usize) -> Turn {
        let end = Instant::now() + long;
        self.run(size, in_flight, |_, now| now < end)
    }

    /// Makes so many calls.
    pub(crate) fn calls(&mut self, count: u64, size: usize, in_flight: usize) -> Turn {
        self.run(size, in_flight, |issued, _| issued < count)
    }

    fn run(
        &mut self,
        size: usize,
        in_flight: usize,
        goes_on: impl Fn(u64, Instant) -> bool,
    ) -> Turn {
        let text = text(size);
        let waits = in_flight == 1 && size <= FITS;
        rustix::io::ioctl_fionbio(&self.to, !waits).expect("a pipe");
        rustix::io::ioctl_fionbio(&self.from, !waits).expect("a pipe");
        let mut out = Vec::new();
        let mut written = 0;
        let mut times = Vec::new();
        // Of the calls that are not answered; the first is that of the call `answered`.
        let mut asked = std::collections::VecDeque::new();
        let (mut issued, mut first) = (0, self.next);
        let cpu_before = self.cpu();
        let began = Instant::now();
        loop {
            let now = Instant::now();
            while asked.len() < in_flight
                && out.len() - written < UNWRITTEN_MAX
                && goes_on(issued, now)
            {
                if written == out.len() {
                    out.clear();
                    written = 0;
                }
                put_request(&mut out, self.next, &text);
                asked.push_back(Some(now));
                self.next += 1;
                issued += 1;
            }
            if asked.is_empty() {
                break;
            }
            if written < out.len() {
                match rustix::io::write(&self.to, &out[written..]) {
                    Ok(count) => written += count,
                    Err(Errno::AGAIN) => {}
                    Err(error) => panic!("cannot write: {error}"),
                }
            }
            if !waits && !self.wait(written < out.len()) {
                continue;
            }
            match self.lines.read(&self.from) {
                Ok(0) => panic!("the other side has ended"),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("cannot read: {error}"),
            }
            let now = Instant::now();
            while let Some(line) = self.lines.next() {
                assert!(size < line.len(), "{}", String::from_utf8_lossy(line));
                let at = (id_of(line) - first) as usize;
                let asked_at: Instant = asked[at].take().expect("answered once");
                times.push(now - asked_at);
                while asked.front().is_some_and(Option::is_none) {
                    asked.pop_front();
                    first += 1;
                }
            }
        }
        let took = began.elapsed();
        let cpu = self.cpu() - cpu_before;
        rustix::io::ioctl_fionbio(&self.to, false).expect("a pipe");
        rustix::io::ioctl_fionbio(&self.from, false).expect("a pipe");
        times.sort_unstable();
        Turn { calls: issued, took, latency: times[times.len() / 2], cpu }
    }

    fn cpu(&self) -> Duration {
        let others = self.children.iter().map(|child| cpu::of_tree(child.id()));
        cpu::own() + others.sum::<Duration>()
    }

    /// Is there something to read? Waits for that, or for room to write.
    fn wait(&self, wants_to_write: bool) -> bool {
        let mut both =
            [PollFd::new(&self.from, PollFlags::IN), PollFd::new(&self.to, PollFlags::OUT)];
        let count = if wants_to_write { 2 } else { 1 };
        rustix::event::poll(&mut both[..count], None).expect("pipes can be waited for");
        !both[0].revents().is_empty()
    }

    fn say(&mut self, line: &str) {
        let mut line = format!("{line}\n").into_bytes();
        while !line.is_empty() {
            let count = rustix::io::write(&self.to, &line).expect("the other side reads");
            line.drain(..count);
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(line) = self.lines.next() {
                return String::from_utf8_lossy(line).into_owned();
            }
            let count = self.lines.read(&self.from).expect("a pipe");
            assert!(count > 0, "the other side has ended");
        }
    }
}

impl Drop for Client {
    /// Ends the session as clients do, by closing its end.
    fn drop(&mut self) {
        let (end, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("there is another descriptor");
        self.to = end;
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// A text as it stands in JSON, about so long: words and lines, as a file has them.
fn text(size: usize) -> String {
    let line = "the quick brown fox jumps over the lazy dog, and then it goes home\\n";
    let mut text: String = line.chars().cycle().take(size).collect();
    if text.ends_with('\\') {
        text.pop();
        text.push('.');
    }
    text
}

fn put_request(out: &mut Vec<u8>, id: u64, text: &str) {
    write!(
        out,
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    )
    .expect("memory does not fail");
    out.push(b'\n');
}

/// Ours are numbers, and whoever answers writes them near the beginning.
fn id_of(line: &[u8]) -> u64 {
    let at = memchr::memmem::find(&line[..line.len().min(100)], b"\"id\":").expect("an id");
    let digits = line[at + 5..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |id, digit| id * 10 + u64::from(digit - b'0'))
}
