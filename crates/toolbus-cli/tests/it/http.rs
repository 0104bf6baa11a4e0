//! HTTP as clients of MCP speak it, byte by byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use toolbus_testkit::patience::PATIENCE;

use crate::mcp::INITIALIZE;

/// One request to an MCP server over a connection of its own.
pub(crate) struct Request {
    pub(crate) stream: TcpStream,
}

impl Request {
    pub(crate) fn connect(url: &str) -> Request {
        let authority = url.strip_prefix("http://").and_then(|url| url.split('/').next());
        let stream = TcpStream::connect(authority.expect("a host")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("more than nothing");
        Request { stream }
    }

    /// The kernel keeps little for it that is not read yet; else it may keep dozens of megabytes.
    pub(crate) fn with_little_room(self) -> Request {
        rustix::net::sockopt::set_socket_recv_buffer_size(&self.stream, 64 << 10)
            .expect("a socket has a buffer");
        self
    }

    pub(crate) fn say(mut self, text: &str) -> Request {
        self.stream.write_all(text.as_bytes()).expect("it is there");
        self
    }

    pub(crate) fn send(url: &str, method: &str, session: &str, body: &str) -> Request {
        let session = match session {
            "" => String::new(),
            session => format!("Mcp-Session-Id: {session}\r\n"),
        };
        let length = body.len();
        Request::connect(url).say(&format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{session}Content-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// A request of 2026-07-28, with the headers that repeat what it says.
    pub(crate) fn modern(url: &str, method: &str, name: &str, body: &str) -> Request {
        Request::connect(url).say_modern(method, name, body)
    }

    /// The same on a connection that is there.
    pub(crate) fn say_modern(self, method: &str, name: &str, body: &str) -> Request {
        let length = body.len();
        self.say(&format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// Reads until this has been said.
    #[track_caller]
    pub(crate) fn hear(&mut self, expected: &str) {
        let mut heard = Vec::new();
        let mut chunk = [0; 4096];
        // A stream that has nothing to say is kept alive, so a read alone may go on for ever.
        let until = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&heard).contains(expected) {
            let count = self.stream.read(&mut chunk).unwrap_or_default();
            let may_come = 0 < count && Instant::now() < until;
            assert!(may_come, "not said: {expected}; but {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&chunk[..count]);
        }
    }

    /// The whole answer: head and body.
    pub(crate) fn answer(mut self) -> String {
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).expect("it answers to the end");
        answer
    }
}

/// Begins a session and gives its name.
pub(crate) fn session(url: &str) -> String {
    let answer = Request::send(url, "POST", "", INITIALIZE).answer();
    let name = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
    });
    name.unwrap_or_else(|| panic!("no session: {answer}"))
}
