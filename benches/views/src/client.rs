//! A client of MCP, over pipes and over HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, fs};

use crate::server::between;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A request, without its end of line.
pub(crate) fn request(id: usize, method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}{META}}}}}"#)
}

/// A call of a tool with a text of 64 bytes.
pub(crate) fn call(id: usize, tool: &str) -> String {
    let text = "x".repeat(64);
    request(id, "tools/call", &format!(r#""name":"{tool}","arguments":{{"text":"{text}"}}"#))
}

/// The address of a server of so many tools, as a config has it.
pub(crate) fn address(tools: usize) -> String {
    let own = env::current_exe().expect("it runs");
    format!("mcp+stdio:'{}' server {tools}", own.display())
}

/// `toolbus mcp` on pipes.
pub(crate) struct Piped {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    next_id: usize,
}

impl Piped {
    /// `before` are words before those of the program, as `valgrind`.
    pub(crate) fn start(before: &[&str], toolbus: &Path, words: &[&str]) -> Piped {
        let toolbus = toolbus.to_str().expect("paths are text");
        let all = [before, &[toolbus, "mcp"], words].concat();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if before.is_empty() { Stdio::null() } else { Stdio::piped() });
        let mut child = command.spawn().expect("it can be started");
        let input = child.stdin.take().expect("is piped");
        let output = BufReader::new(child.stdout.take().expect("is piped"));
        Piped { child, input, output, line: String::new(), next_id: 0 }
    }

    pub(crate) fn call(&mut self, tool: &str) {
        self.next_id += 1;
        let line = call(self.next_id, tool) + "\n";
        self.input.write_all(line.as_bytes()).expect("it reads");
        self.line.clear();
        self.output.read_line(&mut self.line).expect("it answers");
        assert!(self.line.contains("\"done\""), "{}", self.line);
    }

    /// How long it has been on a processor, in nanoseconds.
    pub(crate) fn processor_time(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let of_task = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        tasks.flatten().filter_map(of_task).sum()
    }

    /// Hangs up, and gives what it said on standard error.
    pub(crate) fn end(mut self) -> String {
        drop(self.input);
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said).expect("it says text");
        }
        self.child.wait().expect("it ends");
        said
    }
}

/// `toolbus serve` with one MCP front over HTTP.
pub(crate) struct Served {
    child: Child,
    /// `127.0.0.1:4711`
    host: String,
}

impl Served {
    pub(crate) fn start(toolbus: &Path, config: &str) -> Served {
        let mut command = Command::new(toolbus);
        command.args(["serve", "--config", config]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let mut stderr = BufReader::new(child.stderr.take().expect("is piped"));
        let mut line = String::new();
        let host = loop {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).expect("it says text"), 0, "it listens");
            if let Some(host) = between(&line, "listening on http://", &['/']) {
                break host.to_owned();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Served { child, host }
    }

    /// What it has in memory, in MiB.
    pub(crate) fn memory(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let kib = between(&status, "VmRSS:", &['k']).map(str::trim);
        kib.and_then(|kib| kib.parse::<f64>().ok()).expect("it is told") / 1024.0
    }

    pub(crate) fn connect(&self, token: &str) -> Posting {
        let stream = TcpStream::connect(&self.host).expect("it listens");
        stream.set_nodelay(true).expect("it is a socket");
        let input = BufReader::with_capacity(1 << 20, stream.try_clone().expect("it is a socket"));
        Posting { stream, input, host: self.host.clone(), token: token.to_owned(), body: Vec::new() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // What cannot be killed is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection.
pub(crate) struct Posting {
    stream: TcpStream,
    input: BufReader<TcpStream>,
    host: String,
    token: String,
    body: Vec<u8>,
}

impl Posting {
    /// What is answered to a request, as text.
    pub(crate) fn post(&mut self, method: &str, name: &str, body: &str) -> &str {
        let token = match self.token.as_str() {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let name = match name {
            "" => String::new(),
            name => format!("Mcp-Name: {name}\r\n"),
        };
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}{token}Content-Length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream.write_all([&head, body].concat().as_bytes()).expect("it reads");
        self.read();
        str::from_utf8(&self.body).expect("JSON is text")
    }

    fn read(&mut self) {
        let (mut length, mut is_chunked) = (0, false);
        let mut line = String::new();
        loop {
            line.clear();
            self.input.read_line(&mut line).expect("it answers");
            let field = line.trim_end().to_ascii_lowercase();
            if field.is_empty() {
                break;
            }
            if let Some(bytes) = field.strip_prefix("content-length: ") {
                length = bytes.parse().expect("a number");
            }
            is_chunked |= field == "transfer-encoding: chunked";
        }
        self.body.clear();
        if !is_chunked {
            self.body.resize(length, 0);
            return self.input.read_exact(&mut self.body).expect("it answers");
        }
        loop {
            line.clear();
            self.input.read_line(&mut line).expect("it answers");
            let bytes = usize::from_str_radix(line.trim_end(), 16).expect("a length");
            let from = self.body.len();
            self.body.resize(from + bytes + 2, 0);
            self.input.read_exact(&mut self.body[from..]).expect("it answers");
            self.body.truncate(from + bytes);
            if bytes == 0 {
                return;
            }
        }
    }

    /// All pages of the list: how many tools there are on them.
    pub(crate) fn list(&mut self) -> usize {
        let (mut count, mut cursor) = (0, String::new());
        loop {
            let params = match cursor.as_str() {
                "" => String::new(),
                cursor => format!(r#""cursor":"{cursor}""#),
            };
            let page = self.post("tools/list", "", &request(1, "tools/list", &params));
            assert!(page.contains("\"result\""), "{}", &page[..page.len().min(500)]);
            count += page.matches("\"inputSchema\"").count();
            match between(page, "\"nextCursor\":\"", &['"']) {
                Some(next) => cursor = next.to_owned(),
                None => return count,
            }
        }
    }
}
