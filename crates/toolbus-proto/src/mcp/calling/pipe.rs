//! The calling end on a pipe: a message a line (`docs/protocols/mcp.md` 2.3, 2.10).

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::{MessageClient, Outgoing, RequestId, Settings};
use crate::channel::{
    Calling, Channel, Down, Flow, Goodbye, Machine, Notice, Outbox, Proof, Readiness, Ticket, Up,
};
use crate::frame::lines::{Lines, TooLong};
use crate::mcp::wire::Revision;
use crate::tool::{Call, Failure};

/// Our end of a pipe whose other end a server holds. It lives as long as one process of the
/// server.
#[derive(Debug)]
pub struct Client {
    client: MessageClient,
    lines: Lines,
}

impl Client {
    /// A conversation that has not begun; the first call decides which era is tried first.
    pub fn new(settings: Settings) -> Client {
        let lines = Lines::new(settings.line_bytes_max);
        Client { client: MessageClient::new(settings).carrying_both(), lines }
    }

    /// What the server speaks, once that is known.
    pub fn revision(&self) -> Option<Revision> {
        self.client.revision()
    }

    fn handle_line(&mut self, now: Instant, line: Result<Bytes, TooLong>) {
        let mut line = match line {
            Ok(line) => line,
            Err(too_long) => {
                let glimpse = self.lines.take_glimpse();
                return self.client.handle_too_long(&too_long, glimpse.as_ref());
            }
        };
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            self.client.handle_message(now, &line);
        }
    }

    fn is_broken(&self) -> bool {
        matches!(self.client.readiness(), Readiness::Broken(_))
    }
}

impl Channel for Client {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while !self.is_broken() {
            // A server that asks and does not read our answers is not listened to.
            if self.client.owes_much() {
                return Flow::Pause;
            }
            let Some(line) = self.lines.next(input) else { return Flow::More };
            self.handle_line(now, line);
        }
        // What it says now is read and thrown away, so that it does not block on its way out.
        input.clear();
        Flow::More
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        if let Some(line) = self.lines.last(input) {
            self.handle_line(now, line);
        }
        self.client.handle_end();
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        if !out.is_empty() {
            // The server never hears of a request that was given up before it was written.
            self.client.skip_cancels(|id| out.withdraw(id));
        }
        while out.has_room()
            && let Some(message) = self.client.poll_message()
        {
            let line = |out: &mut Outbox| {
                message.write(out);
                out.put(b"\n");
            };
            match message {
                Outgoing::Request { id: RequestId::Number(id), .. } => out.put_frame(id, line),
                _ => line(out),
            }
        }
    }
}

impl Machine for Client {
    fn handle_timeout(&mut self, now: Instant) {
        self.client.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.client.poll_timeout()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.client.poll_notice()
    }

    fn weight(&self) -> usize {
        self.client.weight()
    }
}

impl Calling for Client {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        self.client.call(now, ticket, call);
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        self.client.up(now, ticket, up);
    }

    fn close(&mut self, now: Instant, patience: Duration) -> Goodbye {
        self.client.close(now, patience)
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.client.poll_down()
    }

    fn readiness(&self) -> &Readiness {
        self.client.readiness()
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        self.client.take_unsent()
    }

    fn proof(&self) -> Proof {
        self.client.proof()
    }

    fn handle_lost(&mut self, now: Instant, why: &Failure) {
        self.client.handle_lost(now, why);
    }
}
