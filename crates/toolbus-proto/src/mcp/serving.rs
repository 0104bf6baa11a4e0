//! The serving end on a pipe: a message a line (`docs/protocols/mcp.md` 1.4, 2.1, 2.2).

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::conversation::{Conversation, Place, Saying, Settings};
use crate::channel::{Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket};
use crate::frame::lines::{Lines, TooLong};

/// How long calls may go on after the client has closed its end.
const LAST_CALLS: Duration = Duration::from_secs(5);

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Our end of a pipe whose other end a client holds.
#[derive(Debug)]
pub struct Server {
    conversation: Conversation,
    lines: Lines,
    stage: PipeState,
}

#[derive(Debug)]
enum PipeState {
    /// Not a line has come: it may begin with a byte order mark.
    Fresh,
    Open,
    /// Nothing more will come; what is under way may still be answered.
    Finishing {
        until: Instant,
    },
    Over(Ended),
}

impl Server {
    /// Waits for the client to begin.
    pub fn new(settings: Settings) -> Server {
        let lines = Lines::new(settings.line_bytes_max);
        Server { conversation: Conversation::new(settings), lines, stage: PipeState::Fresh }
    }

    fn handle_line(&mut self, now: Instant, line: Result<Bytes, TooLong>) {
        let is_fresh = matches!(self.stage, PipeState::Fresh);
        if is_fresh {
            self.stage = PipeState::Open;
        }
        let Ok(mut line) = line else { return self.conversation.handle_too_long(Place::SESSION) };
        if is_fresh && line.starts_with(BYTE_ORDER_MARK) {
            line = line.slice(BYTE_ORDER_MARK.len()..);
        }
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            self.conversation.handle_message(now, Place::SESSION, &line);
        }
    }

    /// The end, as soon as no answer is owed.
    fn settle(&mut self, now: Instant) {
        let PipeState::Finishing { until } = self.stage else { return };
        if self.conversation.in_flight() == 0 || until <= now {
            self.conversation.cancel_all();
            self.stage = PipeState::Over(Ended::Well);
        }
    }

    fn flow(&self) -> Flow {
        match self.stage {
            PipeState::Over(_) => Flow::Close,
            PipeState::Finishing { .. } => Flow::Pause,
            _ if !self.conversation.has_room() => Flow::Pause,
            // One at a time: who answers at once never has many in its hands.
            _ if self.conversation.has_asked() => Flow::Pause,
            PipeState::Fresh | PipeState::Open => Flow::More,
        }
    }
}

impl Machine for Server {
    fn handle_timeout(&mut self, now: Instant) {
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            PipeState::Finishing { until } => Some(until),
            _ => None,
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.conversation.poll_notice()
    }

    fn collected(&self) -> usize {
        self.conversation.collected()
    }

    fn untold(&self) -> usize {
        self.conversation.untold()
    }
}

impl Channel for Server {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while self.flow() == Flow::More {
            let Some(line) = self.lines.next(input) else { break };
            self.handle_line(now, line);
        }
        self.flow()
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        if let PipeState::Fresh | PipeState::Open = self.stage {
            // Room or not: no more than has been read already can follow.
            while let Some(line) = self.lines.next(input) {
                self.handle_line(now, line);
            }
            if let Some(line) = self.lines.last(input) {
                self.handle_line(now, line);
            }
            self.conversation.handle_end();
            self.stage = PipeState::Finishing { until: now + LAST_CALLS };
            self.settle(now);
        }
        self.flow()
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        while let Some(mut said) = self.conversation.poll_said() {
            if said.what != Saying::Silence {
                out.append(&mut said.text);
                out.put(b"\n");
                self.conversation.reuse(said.text);
            }
        }
    }
}

impl Serving for Server {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.conversation.poll_up()
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        self.conversation.down(now, ticket, down);
        self.settle(now);
        self.flow()
    }

    fn tell(&mut self, _now: Instant, notice: &Notice) {
        self.conversation.tell(notice);
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.stage {
            PipeState::Over(ended) => Some(ended),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::conversation::Behind;
    use crate::tool::{CallerId, Failure, FailureKind, Outcome, Part, Piece};

    #[test]
    fn what_is_collected_of_replies_is_counted_until_they_are_told() {
        let mut server = Server::new(Settings::new("1", CallerId(1), Behind::Hub));
        let now = Instant::now();
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let mut tickets = [1, 2, 3].map(|id| {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"f","_meta":{meta}}}}}"#
            );
            let _ = server.handle_bytes(now, &mut BytesMut::from(&*format!("{line}\n")));
            server.poll_up().expect("it is asked").0
        });
        assert_eq!(server.collected(), 0);
        let piece =
            |last| Piece { data: Bytes::from(vec![0; 3000]), media_type: None, len: None, last };
        for (at, ticket) in tickets.iter().enumerate() {
            let _ = server.down(now, *ticket, Down::Part(Part::Bytes(piece(false))));
            // Once for the block, once for what may be shown collected.
            assert_eq!(server.collected(), (at + 1) * 6000);
        }
        let _ = server.down(now, tickets[0], Down::Part(Part::Bytes(piece(true))));
        let weight = server.collected();
        assert!(2 * 6000 + 6000 + 8000 <= weight, "{weight}");
        let failure = Failure::new(FailureKind::Gone, "gone");
        let _ = server.down(now, tickets[1], Down::Done(Err(failure)));
        assert_eq!(server.collected(), weight - 6000);
        // Before it is told, it is found out what the tool lists.
        let _ = server.down(now, tickets[0], Down::Done(Ok(Outcome::End(None))));
        tickets[0] = server.poll_up().expect("the tools are listed").0;
        assert_eq!(server.collected(), weight - 6000);
        let _ = server.down(now, tickets[0], Down::Done(Ok(Outcome::Tools([].into()))));
        assert_eq!(server.collected(), 6000);
        let told = server.untold();
        assert!(8000 <= told, "{told}");
        let mut out = Outbox::new();
        server.poll_transmit(&mut out);
        assert!(told <= out.len() && server.untold() == 0, "{} {told}", out.len());
        server.conversation.cancel_all();
        assert_eq!(server.collected(), 0);
    }
}
