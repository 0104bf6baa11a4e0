//! The limit: processes that know where in a line each thing stands and look at nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout};

use memchr::memchr;

use crate::{Contender, start};

/// How the provider of all tables describes itself.
pub(crate) const SCHEMA: &str = r#"{"name":"echo","version":"0.1.0","protocol":"1","config":{},"actions":{"echo":{"attrs":{"text":{"type":"string","required":true}},"outputs":{"type":"object({text=string})"}}},"extensions":["parallel"]}"#;

const ID_AT: usize = br#"{"id":"#.len();
const ATTRS: &[u8] = br#""attrs":"#;

/// A provider that gives back its attributes.
pub(crate) fn peer() {
    let (mut input, mut output) = streams();
    let mut out: Vec<u8> = Vec::new();
    let mut lines = Input::new();
    while let Some(line) = lines.next(&mut input) {
        let Some(id_end) = memchr(b',', &line[ID_AT..]) else { return };
        let behind_id = ID_AT + id_end;
        out.extend_from_slice(&line[..behind_id]);
        match memchr::memmem::find(&line[behind_id..], ATTRS) {
            Some(at) => {
                let attrs = &line[behind_id + at + ATTRS.len()..line.len() - 3];
                out.extend_from_slice(b",\"result\":{\"outputs\":");
                out.extend_from_slice(attrs);
                out.extend_from_slice(b"}}\n");
            }
            None if line[behind_id..].starts_with(br#","method":"describe""#) => {
                out.extend_from_slice(b",\"result\":{\"schema\":");
                out.extend_from_slice(SCHEMA.as_bytes());
                out.extend_from_slice(b"}}\n");
            }
            None => out.extend_from_slice(b",\"result\":{}}\n"),
        }
        // What came together is answered together.
        if !lines.has_line() {
            write(&mut output, &out);
            out.clear();
        }
    }
}

/// Our standard streams without the buffers that come with them.
pub(crate) fn streams() -> (File, File) {
    let stdin = io::stdin().as_fd().try_clone_to_owned().expect("it is open");
    let stdout = io::stdout().as_fd().try_clone_to_owned().expect("it is open");
    (stdin.into(), stdout.into())
}

/// Whole lines from a stream, each with its newline.
pub(crate) struct Input {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new() -> Input {
        Input { buffer: vec![0; 1 << 20], begin: 0, end: 0 }
    }

    /// Has another line been read already?
    pub(crate) fn has_line(&self) -> bool {
        memchr(b'\n', &self.buffer[self.begin..self.end]).is_some()
    }

    pub(crate) fn next(&mut self, stream: &mut impl Read) -> Option<&[u8]> {
        let mut searched = self.begin;
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[searched..self.end]) {
                let begin = std::mem::replace(&mut self.begin, searched + at + 1);
                return Some(&self.buffer[begin..self.begin]);
            }
            searched = self.end;
            if self.begin == self.end {
                (self.begin, self.end, searched) = (0, 0, 0);
            }
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.end, 0);
            }
            match stream.read(&mut self.buffer[self.end..]) {
                Ok(count @ 1..) => self.end += count,
                _ => return None,
            }
        }
    }
}

fn write(stream: &mut impl Write, bytes: &[u8]) {
    stream.write_all(bytes).expect("the other end listens");
}

/// The attributes of all calls.
pub(crate) fn attrs(text_bytes: usize) -> String {
    format!(r#"{{"text":"{}"}}"#, "x".repeat(text_bytes))
}

/// A host that writes the same call again and again.
pub(crate) struct Driver {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    input: Input,
    next_id: u64,
    answered: u64,
    in_flight: u32,
    rest_of_call: Vec<u8>,
    rest_of_answer: Vec<u8>,
    lines: Vec<u8>,
}

impl Driver {
    pub(crate) fn new(role: &str, text_bytes: usize, in_flight: u32) -> Driver {
        let mut child = start(role);
        let mut stdin = child.stdin.take().expect("it is a pipe");
        let mut stdout = child.stdout.take().expect("it is a pipe");
        let mut input = Input::new();
        write(&mut stdin, b"{\"id\":1,\"method\":\"configure\",\"params\":{\"config\":{}}}\n");
        assert_eq!(input.next(&mut stdout), Some(&b"{\"id\":1,\"result\":{}}\n"[..]));
        let attrs = attrs(text_bytes);
        let call = format!(
            ",\"method\":\"execute\",\"params\":{{\"action\":\"echo\",\"attrs\":{attrs}}}}}\n"
        );
        let answer = format!(",\"result\":{{\"outputs\":{attrs}}}}}\n");
        Driver {
            child,
            stdin: Some(stdin),
            stdout,
            input,
            next_id: 2,
            answered: 1,
            in_flight,
            rest_of_call: call.into_bytes(),
            rest_of_answer: answer.into_bytes(),
            lines: Vec::new(),
        }
    }

    fn put_call(&mut self) {
        let lines = &mut self.lines;
        write!(lines, r#"{{"id":{}"#, self.next_id).expect("a Vec takes all");
        lines.extend_from_slice(&self.rest_of_call);
        self.next_id += 1;
    }
}

impl Contender for Driver {
    fn calls(&mut self, count: u32) {
        let last = self.answered + u64::from(count);
        for _ in 0..self.in_flight.min(count) {
            self.put_call();
        }
        while self.answered < last {
            let stdin = self.stdin.as_mut().expect("open until we are dropped");
            write(stdin, &self.lines);
            self.lines.clear();
            loop {
                let answer = self.input.next(&mut self.stdout).expect("an answer");
                let id_end = ID_AT + memchr(b',', &answer[ID_AT..]).expect("more than an id");
                assert_eq!(&answer[id_end..], self.rest_of_answer);
                self.answered += 1;
                if self.next_id <= last {
                    self.put_call();
                }
                if !self.input.has_line() {
                    break;
                }
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}
