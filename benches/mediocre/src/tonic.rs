//! The foreign contender, `interop/peers/tonic-echo`: a tonic client in a process of its own,
//! with a tonic server in another. It is told on its standard input how many calls to make.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::calls::TEXT;
use crate::table::Contender;

const PROGRAM: &str = "TONIC_ECHO";

pub(crate) struct Tonic {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Tonic {
    pub(crate) fn is_there() -> bool {
        std::env::var_os(PROGRAM).is_some()
    }

    /// Calls with so many elements each way; with none they are single ones.
    pub(crate) fn start(elements: usize) -> Tonic {
        let program = std::env::var_os(PROGRAM).expect("it is there");
        let mut child = Command::new(program)
            .args(["call", TEXT, &elements.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Tonic { child, stdin, stdout }
    }
}

impl Contender for Tonic {
    fn turns(&mut self, count: u32) {
        let stdin = self.stdin.as_mut().expect("open until we are dropped");
        writeln!(stdin, "{count}").expect("it listens");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it answers");
        assert_eq!(line, "done\n");
    }
}

impl Drop for Tonic {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}
