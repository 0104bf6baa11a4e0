//! The end of `toolbus serve`: it greets, and is asked for what a bus can do.
//!
//! It knows nothing of what is asked: a request becomes a native call of [`WIRE`], and what answers
//! it reads the body. A command that says what cannot be read is left.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::BytesMut;

use super::translate::{read_up, write_down};
use super::wire::{Frame, Frames, Greeting};
use super::{CALL, FRESH_TOOLS, FRONTS, TOOLS, WIRE, WIRES};
use crate::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use crate::counted::CountedSet;
use crate::tool::{Call, CallerId, What};

/// Requests that run at a time; a command that asks for more waits until one has ended.
const REQUESTS_MAX: usize = 1024;

/// Our end of one conversation with a command.
#[derive(Debug)]
pub struct Server {
    caller: CallerId,
    frames: Frames,
    running: CountedSet<u64>,
    ups: VecDeque<(Ticket, Asked)>,
    ended: Option<Ended>,
    out: Outbox,
}

impl Server {
    /// Greets; whatever is asked is asked by `caller`.
    pub fn new(greeting: &Greeting, caller: CallerId) -> Server {
        let mut out = Outbox::new();
        out.put(greeting.write().as_bytes());
        Server {
            caller,
            frames: Frames::new(),
            running: CountedSet::default(),
            ups: VecDeque::new(),
            ended: None,
            out,
        }
    }

    fn handle_frame(&mut self, now: Instant, frame: Frame) -> Result<(), String> {
        let Frame { head, payload } = frame;
        let ticket = Ticket(head.id);
        let method = [CALL, TOOLS, FRESH_TOOLS, WIRES, FRONTS]
            .into_iter()
            .find(|method| *method == head.say.as_bytes());
        if let Some(method) = method {
            if !self.running.insert(head.id) {
                return Err(format!("request {} runs already", head.id));
            }
            let (method, body) = (method.into(), payload.unwrap_or_default());
            let mut call = Call::of(now, What::Native { wire: WIRE, method, body });
            call.caller = self.caller;
            self.ups.push_back((ticket, Asked::Call(call)));
            return Ok(());
        }
        let (id, say) = (head.id, head.say.clone());
        let up =
            read_up(Frame { head, payload }).ok_or_else(|| format!("`{say}` cannot be read"))?;
        let is_running = match up {
            Up::Cancel(_) => self.running.remove(&id),
            _ => self.running.contains(&id),
        };
        // Else its answer is under way.
        if is_running {
            self.ups.push_back((ticket, Asked::Up(up)));
        }
        Ok(())
    }

    fn flow(&self) -> Flow {
        match &self.ended {
            Some(_) => Flow::Close,
            None if REQUESTS_MAX <= self.running.len() => Flow::Pause,
            None => Flow::More,
        }
    }
}

impl Machine for Server {
    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }
}

impl Channel for Server {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while self.flow() == Flow::More {
            let Some(frame) = self.frames.next(input) else { break };
            if let Err(why) = frame.and_then(|frame| self.handle_frame(now, frame)) {
                self.ended = Some(Ended::Broke(why));
            }
        }
        self.flow()
    }

    /// A command that has closed its end waits for nothing any more.
    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        self.handle_bytes(now, input);
        self.ended.get_or_insert(Ended::Well);
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        out.append(&mut self.out);
    }
}

impl Serving for Server {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    fn down(&mut self, _now: Instant, ticket: Ticket, down: Down) -> Flow {
        let is_running = match down {
            Down::Done(_) => self.running.remove(&ticket.0),
            _ => self.running.contains(&ticket.0),
        };
        if is_running {
            write_down(ticket.0, down).write(&mut self.out);
        }
        self.flow()
    }

    fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }
}
