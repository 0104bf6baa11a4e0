//! The limit: processes that know where in a line each thing stands and look at nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command};

use memchr::memchr;
use toolbus_proto::oracle::felt::Felt;
use toolbus_proto::oracle::felts;

use crate::{Contender, role, start};

const READY: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ready\"}\n";
const ACK: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n";
const ID_AT: usize = br#"{"jsonrpc":"2.0","id":"#.len();
const CALLDATA: &[u8] = br#""calldata":"#;

/// An oracle that gives back its calldata.
pub(crate) fn peer() {
    let (mut input, mut output) = streams();
    let mut out: Vec<u8> = Vec::new();
    let mut lines = Input::new();
    write(&mut output, READY);
    lines.next(&mut input);
    while let Some(line) = lines.next(&mut input) {
        let Some(id_end) = memchr(b',', &line[ID_AT..]) else { return };
        let behind_id = ID_AT + id_end;
        let Some(at) = memchr::memmem::find(&line[behind_id..], CALLDATA) else { return };
        let calldata = &line[behind_id + at + CALLDATA.len()..line.len() - 3];
        out.clear();
        out.extend_from_slice(&line[..behind_id]);
        out.extend_from_slice(b",\"result\":");
        out.extend_from_slice(calldata);
        out.extend_from_slice(b"}\n");
        write(&mut output, &out);
    }
}

/// Gives back each line as it came.
pub(crate) fn lines() {
    let (mut input, mut output) = streams();
    let mut lines = Input::new();
    while let Some(line) = lines.next(&mut input) {
        write(&mut output, line);
    }
}

/// Our standard streams without the buffers that come with them.
fn streams() -> (File, File) {
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

/// An executor that writes the same call again and again.
pub(crate) struct Driver {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    input: Input,
    next_id: u64,
    rest_of_call: Vec<u8>,
    rest_of_answer: Vec<u8>,
    line: Vec<u8>,
}

impl Driver {
    pub(crate) fn new(name: &str, calldata: &[Felt]) -> Driver {
        Driver::start(role(name), calldata)
    }

    pub(crate) fn start(command: Command, calldata: &[Felt]) -> Driver {
        let mut child = start(command);
        let mut stdin = child.stdin.take().expect("it is a pipe");
        let mut stdout = child.stdout.take().expect("it is a pipe");
        let mut input = Input::new();
        assert!(input.next(&mut stdout).is_some_and(|line| line.starts_with(b"{")));
        write(&mut stdin, ACK);
        let mut felts_text = Vec::new();
        felts::write(calldata, &mut felts_text);
        let selector = if calldata.len() == 1 { "f" } else { "page" };
        let call = format!(r#","method":"invoke","params":{{"selector":"{selector}","#);
        let call = [call.as_bytes(), CALLDATA, &felts_text, b"}}\n"];
        Driver {
            child,
            stdin: Some(stdin),
            stdout,
            input,
            next_id: 0,
            rest_of_call: call.concat(),
            rest_of_answer: [b",\"result\":", &felts_text[..], b"}\n"].concat(),
            line: Vec::new(),
        }
    }
}

impl Contender for Driver {
    fn calls(&mut self, count: u32) {
        let stdin = self.stdin.as_mut().expect("open until we are dropped");
        for _ in 0..count {
            let line = &mut self.line;
            line.clear();
            line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
            write!(line, "{}", self.next_id).expect("a Vec takes all");
            let id_end = line.len();
            line.extend_from_slice(&self.rest_of_call);
            write(stdin, line);
            let answer = self.input.next(&mut self.stdout).expect("an answer");
            assert_eq!(answer[ID_AT..id_end], line[ID_AT..id_end]);
            assert_eq!(&answer[id_end..], self.rest_of_answer);
            self.next_id += 1;
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// Writes the same 64 bytes again and again.
pub(crate) struct Lines {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    input: Input,
}

impl Lines {
    pub(crate) fn new(name: &str) -> Lines {
        let mut child = start(role(name));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("it is a pipe");
        Lines { child, stdin, stdout, input: Input::new() }
    }
}

impl Contender for Lines {
    fn calls(&mut self, count: u32) {
        let mut line = [b'x'; 64];
        line[63] = b'\n';
        let stdin = self.stdin.as_mut().expect("open until we are dropped");
        for _ in 0..count {
            write(stdin, &line);
            assert_eq!(self.input.next(&mut self.stdout), Some(&line[..]));
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}
