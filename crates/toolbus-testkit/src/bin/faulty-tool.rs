//! A program that plays good and bad peers over real pipes, told how by its arguments.
//!
//! The arguments are steps, done one after another; behind the last it exits with 0.
//!
//! ```text
//! say TEXT        a line on stdout          raw TEXT       the same without a newline
//! err TEXT        a line on stderr          flood N TEXT   the line N times, in large writes
//! read            await a line of stdin     readall        read stdin to its end
//! close-in        close stdin               close-out      close stdout
//! stay            block for ever            exit N         exit with this status
//! die SIGNAL      die of it, e.g. `KILL`    ignore-term    ignore SIGTERM from here on
//! mark FILE       append our pid as a line  env NAME       a line `NAME=value`, or `NAME unset`
//! repeat N { … }  the steps N times         forever { … }  the steps for ever
//! once FILE { … } only if FILE is not there yet; makes it
//! if TEXT { … }   only if the line read last has this in it
//! fork { … }      a child of ours does the steps, on the same pipes, and is not waited for
//!
//! pause N         do nothing for so many ms  flood-err N TEXT   as `flood`, on stderr
//! stop            stop ourselves and all of our group, as SIGSTOP does
//! read-http       await a request of HTTP; its body is then the line read last
//! listen FILE { … }    a child of ours does the steps with each connection as its pipes; the
//!                      address is written to FILE
//! connect ADDRESS { … }  a child of ours does the steps with this connection, and we wait
//!
//! ready           say the oracle's greeting and await the answer to it
//! answer JSON     answer the line read last with this result
//! refuse N TEXT   answer it with an error of this code
//! echo-oracle     a good oracle: `ready`, then each call is answered by its calldata
//! ```
//!
//! In TEXT, `\n`, `\r`, `\t`, `\\` and `\xNN` are one byte, `\{41*1024}` is a byte repeated;
//! `$ID` is the id of the line read last, `$LINE` that line. The end of stdin ends a `read`,
//! and so the program, with 0. A reader that is gone ends it with 141, as SIGPIPE would.
//!
//! Nothing but `std`, so that one call of `rustc` builds it (see `build.rs`).

use std::collections::VecDeque;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, exit};
use std::time::Duration;

#[path = "../transcript/escapes.rs"]
#[expect(unreachable_pub, reason = "the file is also a part of the library")]
mod escapes;

use escapes::unescape;

/// Carries the line read last over an exec.
const LINE: &str = "FAULTY_TOOL_LINE";
/// Carries what was read behind that line, escaped.
const BEHIND: &str = "FAULTY_TOOL_BEHIND";
/// How much of stdin is read at once.
const READ_AT_ONCE: usize = 4096;

fn main() {
    let words = env::args().skip(1).collect();
    let line = env::var(LINE).unwrap_or_default();
    let behind = unescape(&env::var(BEHIND).unwrap_or_default());
    let mut play = Play { words, line, behind };
    while let Some(step) = play.words.pop_front() {
        play.step(&step);
    }
}

struct Play {
    /// The steps to come.
    words: VecDeque<String>,
    /// The line read last.
    line: String,
    /// What was read behind it, for the next who reads.
    behind: Vec<u8>,
}

impl Play {
    fn step(&mut self, step: &str) {
        match step {
            "say" => {
                let mut line = self.text();
                line.push(b'\n');
                write(&line);
            }
            "raw" => write(&self.text()),
            "err" => {
                let mut line = self.text();
                line.push(b'\n');
                // The reader may have gone; that is no fault of ours.
                let _ = io::stderr().write_all(&line);
            }
            "flood" => self.flood(write),
            // A reader that is gone is no fault of ours, as with `err`.
            "flood-err" => self.flood(|lines| drop(io::stderr().write_all(lines))),
            "pause" => {
                let time = Duration::from_millis(self.number() as u64);
                #[expect(clippy::disallowed_methods, reason = "to pause is what it is asked for")]
                std::thread::sleep(time);
            }
            "stop" => {
                let _ = Command::new("sh").args(["-c", "kill -s STOP 0"]).status();
            }
            "read" => self.line = self.read_line().unwrap_or_else(|| exit(0)),
            "read-http" => self.line = self.read_http().unwrap_or_else(|| exit(0)),
            "readall" => {
                self.behind.clear();
                drop(io::copy(&mut io::stdin(), &mut io::sink()));
            }
            "listen" => {
                let file = self.word();
                let steps = self.block();
                let listener = TcpListener::bind("127.0.0.1:0").expect("can listen");
                let address = listener.local_addr().expect("has an address").to_string();
                // All of it at once, for those who wait for it.
                fs::write(format!("{file}.new"), address).expect("can write");
                fs::rename(format!("{file}.new"), file).expect("can write");
                for stream in listener.incoming().flatten() {
                    let mut child = with_stream(stream, &steps);
                    std::thread::spawn(move || child.wait());
                }
            }
            "connect" => {
                let address = self.word();
                let steps = self.block();
                let stream = TcpStream::connect(address).expect("it listens");
                let _ = with_stream(stream, &steps).wait();
            }
            "if" => {
                let text = self.word();
                let steps = self.block();
                if self.line.contains(&text) {
                    self.prepend(steps);
                }
            }
            "close-in" => self.again("exec \"$0\" \"$@\" <&-"),
            "close-out" => self.again("exec \"$0\" \"$@\" >&-"),
            "ignore-term" => self.again("trap '' TERM; exec \"$0\" \"$@\""),
            "stay" => stay(),
            "exit" => exit(i32::try_from(self.number()).unwrap_or(1)),
            "die" => {
                let kill = format!("kill -s {} {}", self.word(), std::process::id());
                // The runtime of Rust survives the first SIGSEGV and SIGBUS that it did not
                // cause itself.
                loop {
                    let _ = Command::new("sh").args(["-c", &kill]).status();
                }
            }
            "mark" => {
                let file = self.word();
                let file = OpenOptions::new().create(true).append(true).open(file);
                let pid = format!("{}\n", std::process::id());
                file.and_then(|mut file| file.write_all(pid.as_bytes())).expect("can mark");
            }
            "env" => {
                let name = self.word();
                match env::var(&name) {
                    Ok(value) => write(format!("{name}={value}\n").as_bytes()),
                    Err(_) => write(format!("{name} unset\n").as_bytes()),
                }
            }
            "repeat" => {
                let count = self.number();
                let steps = self.block();
                if count > 0 {
                    let rest = ["repeat".into(), (count - 1).to_string()];
                    self.unroll(&steps, &rest);
                }
            }
            "forever" => {
                let steps = self.block();
                self.unroll(&steps, &["forever".into()]);
            }
            "once" => {
                let file = self.word();
                let steps = self.block();
                if OpenOptions::new().write(true).create_new(true).open(file).is_ok() {
                    self.prepend(steps);
                }
            }
            "fork" => {
                let steps = self.block();
                let mut child = Command::new(own_path());
                // What was read already is ours.
                child.args(&steps).env(LINE, &self.line).env_remove(BEHIND);
                // Left to itself: to outlive us is what it is for.
                drop(child.spawn().expect("can fork"));
            }
            "ready" => {
                write(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ready\"}\n");
                self.line = self.read_line().unwrap_or_else(|| exit(0));
            }
            "answer" => {
                let result = self.text();
                self.answer("result", &result);
            }
            "refuse" => {
                let code = self.word();
                let message = self.word().replace('\\', "\\\\").replace('"', "\\\"");
                let error = format!("{{\"code\":{code},\"message\":\"{message}\"}}");
                self.answer("error", error.as_bytes());
            }
            "echo-oracle" => {
                self.prepend(["ready", "forever", "{", "read", "echo", "}"].map(Into::into).into());
            }
            "echo" => {
                if self.line.contains("\"method\":\"shutdown\"") {
                    exit(0);
                }
                let calldata = member(&self.line, "calldata").to_owned();
                self.answer("result", calldata.as_bytes());
            }
            _ => usage(&format!("`{step}` is no step")),
        }
    }

    fn flood(&mut self, write: impl Fn(&[u8])) {
        let count = self.number();
        let mut line = self.text();
        line.push(b'\n');
        let at_once = (65536 / line.len()).clamp(1, count.max(1));
        let lines = line.repeat(at_once);
        for _ in 0..count / at_once {
            write(&lines);
        }
        write(&line.repeat(count % at_once));
    }

    fn word(&mut self) -> String {
        self.words.pop_front().unwrap_or_else(|| usage("a word is missing at the end"))
    }

    fn number(&mut self) -> usize {
        let word = self.word();
        word.parse().unwrap_or_else(|_| usage(&format!("`{word}` is no number")))
    }

    fn text(&mut self) -> Vec<u8> {
        let mut text = self.word();
        // Escaped anew: what was read is said as it is. It may be long, and is mostly not wanted.
        if text.contains("$ID") {
            let id = escapes::escape(member(&self.line, "id").as_bytes());
            text = text.replace("$ID", &id);
        }
        if text.contains("$LINE") {
            text = text.replace("$LINE", &escapes::escape(self.line.as_bytes()));
        }
        unescape(&text)
    }

    /// The words between the brace that stands here and the one that closes it.
    fn block(&mut self) -> Vec<String> {
        let open = self.word();
        if open != "{" {
            usage(&format!("`{{` must stand in place of `{open}`"));
        }
        let mut depth = 1;
        let mut steps = Vec::new();
        loop {
            let word = self.word();
            match word.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return steps;
            }
            steps.push(word);
        }
    }

    /// Does `steps` next, and behind them `again` with them as its block.
    fn unroll(&mut self, steps: &[String], again: &[String]) {
        let open = ["{".to_owned()];
        let close = ["}".to_owned()];
        self.prepend([steps, again, &open, steps, &close].concat());
    }

    fn prepend(&mut self, steps: Vec<String>) {
        for word in steps.into_iter().rev() {
            self.words.push_front(word);
        }
    }

    /// Becomes this program anew through a line of shell, for what `std` cannot do; the steps
    /// to come are done by it, as the same process.
    fn again(&mut self, shell: &str) {
        let mut command = Command::new("sh");
        command.args(["-c", shell]).arg(own_path()).args(&self.words);
        command.env(LINE, &self.line).env(BEHIND, escapes::escape(&self.behind));
        usage(&format!("cannot go on: {}", command.exec()));
    }

    /// A line of stdin without its end, or `None` at the end of stdin.
    fn read_line(&mut self) -> Option<String> {
        let mut searched = 0;
        loop {
            // Where there is none that is seen at once, without a call for each byte.
            let new = Some(&self.behind[searched..]).filter(|new| new.contains(&b'\n'));
            if let Some(at) = new.and_then(|new| new.iter().position(|byte| *byte == b'\n')) {
                let rest = self.behind.split_off(searched + at + 1);
                let mut line = std::mem::replace(&mut self.behind, rest);
                line.pop();
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            searched = self.behind.len();
            self.read_more()?;
        }
    }

    /// The body of a request, or `None` at the end of stdin.
    fn read_http(&mut self) -> Option<String> {
        let mut length = 0;
        loop {
            let line = self.read_line()?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
        }
        while self.behind.len() < length {
            self.read_more()?;
        }
        let rest = self.behind.split_off(length);
        let body = std::mem::replace(&mut self.behind, rest);
        Some(String::from_utf8_lossy(&body).into_owned())
    }

    /// Waits for more of stdin; `None` at its end.
    fn read_more(&mut self) -> Option<()> {
        // `io::stdin` would keep what is meant for the program that goes on with these pipes.
        let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
        let before = self.behind.len();
        self.behind.extend_from_slice(&[0; READ_AT_ONCE]);
        let count = stdin.read(&mut self.behind[before..]).unwrap_or(0);
        self.behind.truncate(before + count);
        (0 < count).then_some(())
    }

    fn answer(&self, member_name: &str, value: &[u8]) {
        let id = member(&self.line, "id");
        let mut line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member_name}\":").into_bytes();
        line.extend_from_slice(value);
        line.extend_from_slice(b"}\n");
        write(&line);
    }
}

/// The raw value of a member of `line`, which is JSON as toolbus writes it; `null` if there
/// is none.
fn member<'a>(line: &'a str, name: &str) -> &'a str {
    let Some((_, value)) = line.split_once(&format!("\"{name}\":")) else {
        return "null";
    };
    let end = match value.as_bytes() {
        [b'[', ..] => value.find(']').map(|at| at + 1),
        [b'"', ..] => value[1..].find('"').map(|at| at + 2),
        _ => value.find([',', '}']),
    };
    &value[..end.unwrap_or(value.len())]
}

/// A child of ours that does these steps with a connection as its pipes.
fn with_stream(stream: TcpStream, steps: &[String]) -> Child {
    let stream = OwnedFd::from(stream);
    let second = stream.try_clone().expect("descriptors are left");
    let mut child = Command::new(own_path());
    child.env_remove(BEHIND).args(steps).stdin(stream).stdout(second).spawn().expect("can fork")
}

fn write(bytes: &[u8]) {
    let mut stdout = io::stdout();
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        exit(141);
    }
}

fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

fn own_path() -> std::path::PathBuf {
    env::current_exe().expect("a program knows its path")
}

fn usage(why: &str) -> ! {
    eprintln!("faulty-tool: {why}");
    exit(64);
}
