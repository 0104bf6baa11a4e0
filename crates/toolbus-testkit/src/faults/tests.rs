use toolbus_proto::channel::{Goodbye, Machine, Notice, Readiness, Up};
use toolbus_proto::tool::Call;

use super::*;
use crate::plain::tests::{SMALL, everything};
use crate::plain::{Client, Server};

#[test]
fn a_call_ends_once_whatever_fault_hits_its_caller() {
    let now = Instant::now();
    let recorded = everything(now).to_calling;
    calling(now, &recorded, SMALL.line_bytes_max, || Client::new(SMALL));
}

#[test]
fn a_server_ends_whatever_fault_hits_it() {
    let now = Instant::now();
    let recorded = everything(now).to_serving;
    serving(now, &recorded, SMALL.line_bytes_max, || Server::new(SMALL));
}

/// A caller with a mistake in it.
struct Mistaken {
    caller: Client,
    mistake: Mistake,
    ended: Option<Ticket>,
}

#[derive(PartialEq)]
enum Mistake {
    EndsTwice,
    NeverEnds,
    KeepsAll,
    ForgetsDeadlines,
}

fn spoil(mistake: fn() -> Mistake) {
    let now = Instant::now();
    let recorded = everything(now).to_calling;
    calling(now, &recorded, SMALL.line_bytes_max, || Mistaken {
        caller: Client::new(SMALL),
        mistake: mistake(),
        ended: None,
    });
}

#[test]
#[should_panic(expected = "is over and gets Done")]
fn a_call_that_ends_twice_is_found() {
    spoil(|| Mistake::EndsTwice);
}

#[test]
#[should_panic(expected = "never ended")]
fn a_call_that_never_ends_is_found() {
    spoil(|| Mistake::NeverEnds);
}

#[test]
#[should_panic(expected = "bytes are kept, the limit is 200")]
fn a_buffer_that_only_grows_is_found() {
    spoil(|| Mistake::KeepsAll);
}

#[test]
#[should_panic(expected = "have a deadline and no end")]
fn a_deadline_that_is_forgotten_is_found() {
    spoil(|| Mistake::ForgetsDeadlines);
}

impl Machine for Mistaken {
    fn handle_timeout(&mut self, now: Instant) {
        self.caller.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.mistake {
            Mistake::ForgetsDeadlines => None,
            _ => self.caller.poll_timeout(),
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.caller.poll_notice()
    }
}

impl Channel for Mistaken {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        match self.mistake {
            Mistake::KeepsAll => Flow::More,
            _ => self.caller.handle_bytes(now, input),
        }
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        self.caller.handle_eof(now, input)
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        self.caller.poll_transmit(out);
    }
}

impl Calling for Mistaken {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        self.caller.call(now, ticket, call);
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        self.caller.up(now, ticket, up);
    }

    fn close(&mut self, now: Instant, patience: Duration) -> Goodbye {
        self.caller.close(now, patience)
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        let next = self.caller.poll_down();
        if let Some((ticket, Down::Done(_))) = next {
            self.ended = Some(ticket);
        }
        next
    }

    fn readiness(&self) -> &Readiness {
        self.caller.readiness()
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        self.caller.take_unsent()
    }

    fn handle_lost(&mut self, now: Instant, why: &Failure) {
        if self.mistake == Mistake::NeverEnds {
            return;
        }
        if self.mistake == Mistake::EndsTwice
            && let Some(ticket) = self.ended.take()
        {
            self.caller.call(now, ticket, Call::tool(now, "again", None));
        }
        self.caller.handle_lost(now, why);
    }
}
