//! One conversation, spoiled at every byte: cut off, stalled, garbled, flooded.
//!
//! Whatever arrives, a machine must not panic, must not keep more than its limit, and must
//! end each of its calls exactly once. That is all that is asked here; what exactly it says
//! then is for transcripts.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{Asked, Calling, Channel, Down, Flow, Outbox, Serving, Ticket};
use toolbus_proto::tool::{Failure, FailureKind};

use crate::form::is_long;
use crate::pair::{ToCalling, ToServing};

/// What happens to the bytes that arrive.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// They end before the byte at this place.
    Cut { at: usize },
    /// They stop there, and no end is seen.
    Stall { at: usize },
    /// The byte at this place is another.
    Garble { at: usize, byte: u8 },
    /// Before this place comes far more than was agreed.
    Flood { at: usize, with: &'static [u8] },
}

const GARBLED: &[u8] = b"\n\xff\"}0";
const FLOODS: &[&[u8]] = &[b"x", b"\n", b"[{\"", b"\xff\x00\xff\xff"];

/// In the short form of a test a flood comes before one byte in so many.
const FLOODED_SHORT: usize = 8;

/// What can go wrong at every byte of a conversation of `len` bytes: in the long form of a test
/// all of it, in the short one an end and a silence at every byte, and the kinds of garbage and
/// of floods in turn.
fn all(len: usize) -> impl Iterator<Item = Fault> {
    let is_long = is_long();
    (0..=len).flat_map(move |at| {
        let garble = GARBLED.iter().enumerate().filter_map(move |(kind, &byte)| {
            let is_its_turn = is_long || at % GARBLED.len() == kind;
            is_its_turn.then_some(Fault::Garble { at, byte })
        });
        let flood = FLOODS.iter().enumerate().filter_map(move |(kind, &with)| {
            let is_its_turn =
                is_long || at % (FLOODED_SHORT * FLOODS.len()) == FLOODED_SHORT * kind;
            is_its_turn.then_some(Fault::Flood { at, with })
        });
        [Fault::Cut { at }, Fault::Stall { at }].into_iter().chain(garble).chain(flood)
    })
}

impl Fault {
    /// What arrives in place of `bytes`, the first of which is number `from`.
    fn spoil(self, from: usize, bytes: &[u8], flood_bytes: usize) -> Vec<u8> {
        let here = |at: usize| from <= at && at < from + bytes.len();
        match self {
            Fault::Cut { at } | Fault::Stall { at } => {
                bytes[..at.saturating_sub(from).min(bytes.len())].to_vec()
            }
            Fault::Garble { at, byte } if here(at) => {
                let mut garbled = bytes.to_vec();
                garbled[at - from] = byte;
                garbled
            }
            Fault::Flood { at, with } if here(at) => {
                let (before, behind) = bytes.split_at(at - from);
                let flood = with.iter().copied().cycle().take(flood_bytes);
                before.iter().copied().chain(flood).chain(behind.iter().copied()).collect()
            }
            Fault::Garble { .. } | Fault::Flood { .. } => bytes.to_vec(),
        }
    }
}

/// Spoils what a calling machine heard in `recorded` at every byte.
///
/// `bytes_max` is what the machine may leave unread, the limit of a frame it was made with.
/// A call that has a deadline must end by it where the other side falls silent.
pub fn calling<C: Calling + Channel>(
    begun: Instant,
    recorded: &[ToCalling],
    bytes_max: usize,
    mut make: impl FnMut() -> C,
) {
    let len = recorded.iter().map(|fed| match fed {
        ToCalling::Bytes(bytes) => bytes.len(),
        _ => 0,
    });
    for fault in all(len.sum()) {
        let _telling = TellWhich(fault);
        let mut end = Hands::new(begun, fault, bytes_max, make());
        let mut calls = Calls::default();
        for fed in recorded.iter().cloned() {
            let now = end.now;
            match fed {
                ToCalling::Call(ticket, call) => {
                    calls.begin(ticket, call.deadline.instant(now).is_some());
                    end.machine.call(now, ticket, call);
                }
                ToCalling::Up(ticket, up) => end.machine.up(now, ticket, up),
                ToCalling::Close => drop(end.machine.close(now, Duration::ZERO)),
                ToCalling::Bytes(bytes) => {
                    end.feed(&bytes, |machine| calls.learn(machine));
                }
            }
            end.settle();
            calls.learn(&mut end.machine);
        }
        if let Fault::Stall { .. } = fault {
            end.wait();
            calls.learn(&mut end.machine);
            assert!(calls.bounded.is_empty(), "have a deadline and no end: {:?}", calls.bounded);
        } else {
            end.hear_eof();
        }
        let gone = Failure::new(FailureKind::Gone, "gone");
        end.machine.handle_lost(end.now, &gone);
        calls.learn(&mut end.machine);
        assert!(calls.open.is_empty(), "never ended: {:?}", calls.open);
    }
}

/// Spoils what a serving machine heard in `recorded` at every byte.
///
/// Its tools answer whatever they are asked. `bytes_max` is as in [`calling`].
pub fn serving<S: Serving + Channel>(
    begun: Instant,
    recorded: &[ToServing],
    bytes_max: usize,
    mut make: impl FnMut() -> S,
) {
    let len = recorded.iter().map(|fed| match fed {
        ToServing::Bytes(bytes) => bytes.len(),
        ToServing::Down(..) => 0,
    });
    for fault in all(len.sum()) {
        let _telling = TellWhich(fault);
        let mut end = Hands::new(begun, fault, bytes_max, make());
        let mut served = Served::default();
        for fed in recorded.iter().cloned() {
            match fed {
                ToServing::Down(ticket, down) => {
                    served.say(&down, ticket);
                    end.machine.down(end.now, ticket, down);
                }
                ToServing::Bytes(bytes) => end.feed(&bytes, |machine| served.learn(machine)),
            }
            end.settle();
            served.learn(&mut end.machine);
        }
        end.wait();
        let is_stalled = matches!(fault, Fault::Stall { .. });
        // As often as there is something to answer: who answers in order hands out one call
        // after the other.
        loop {
            if !is_stalled {
                end.hear_eof();
            }
            served.learn(&mut end.machine);
            if served.open.is_empty() {
                break;
            }
            for ticket in std::mem::take(&mut served.open) {
                let failure = Failure::new(FailureKind::Failed, "enough");
                end.machine.down(end.now, ticket, Down::Done(Err(failure)));
            }
        }
        end.settle();
        let is_over = end.machine.ended().is_some() || is_stalled;
        assert!(is_over, "all is answered, nothing will come, and it has not ended");
    }
}

/// The hands of a machine whose bytes are spoiled.
struct Hands<M> {
    now: Instant,
    fault: Fault,
    bytes_max: usize,
    machine: M,
    heard: usize,
    input: BytesMut,
    flow: Flow,
}

impl<M: Channel> Hands<M> {
    fn new(now: Instant, fault: Fault, bytes_max: usize, machine: M) -> Hands<M> {
        let (heard, input, flow) = (0, BytesMut::new(), Flow::More);
        Hands { now, fault, bytes_max, machine, heard, input, flow }
    }

    /// Feeds bytes as the fault leaves them; `learn` takes out what the machine has learned.
    fn feed(&mut self, bytes: &[u8], mut learn: impl FnMut(&mut M)) {
        let spoiled = self.fault.spoil(self.heard, bytes, 3 * self.bytes_max);
        self.heard += bytes.len();
        for chunk in spoiled.chunks(self.bytes_max.max(1)) {
            if self.flow == Flow::Close {
                return;
            }
            self.input.extend_from_slice(chunk);
            loop {
                let before = self.input.len();
                self.flow = self.machine.handle_bytes(self.now, &mut self.input);
                learn(&mut self.machine);
                self.settle();
                if self.flow != Flow::Pause || self.input.len() == before {
                    break;
                }
            }
            // What a pausing machine leaves is the hands' business: they read no further.
            let kept = self.input.len();
            let is_bounded = self.flow != Flow::More || kept <= self.bytes_max;
            assert!(is_bounded, "{kept} bytes are kept, the limit is {}", self.bytes_max);
        }
    }

    /// Takes what is to be written and noticed.
    fn settle(&mut self) {
        self.machine.poll_transmit(&mut Outbox::new());
        self.machine.handle_sent(self.now);
        while self.machine.poll_notice().is_some() {}
    }

    /// Lets time pass until the machine waits for nothing more.
    fn wait(&mut self) {
        for _ in 0..1000 {
            let Some(at) = self.machine.poll_timeout() else {
                return;
            };
            self.now = self.now.max(at) + Duration::from_millis(1);
            self.machine.handle_timeout(self.now);
            self.settle();
        }
        panic!("asks to be woken again and again");
    }

    fn hear_eof(&mut self) {
        if self.flow != Flow::Close {
            self.machine.handle_eof(self.now, &mut self.input);
            self.settle();
        }
    }
}

/// The calls of a calling machine that have not ended.
#[derive(Debug, Default)]
struct Calls {
    open: BTreeSet<Ticket>,
    /// Those of them that have a deadline.
    bounded: BTreeSet<Ticket>,
}

impl Calls {
    fn begin(&mut self, ticket: Ticket, has_deadline: bool) {
        self.open.insert(ticket);
        if has_deadline {
            self.bounded.insert(ticket);
        }
    }

    fn learn(&mut self, machine: &mut (impl Calling + Channel)) {
        while let Some((ticket, down)) = machine.poll_down() {
            assert!(self.open.contains(&ticket), "{ticket:?} is over and gets {down:?}");
            if let Down::Done(_) = down {
                self.open.remove(&ticket);
                self.bounded.remove(&ticket);
            }
        }
    }
}

/// The calls of a serving machine that are not answered.
#[derive(Debug, Default)]
struct Served {
    open: BTreeSet<Ticket>,
    all: BTreeSet<Ticket>,
}

impl Served {
    fn say(&mut self, down: &Down, ticket: Ticket) {
        if let Down::Done(_) = down {
            self.open.remove(&ticket);
        }
    }

    fn learn(&mut self, machine: &mut (impl Serving + Channel)) {
        while let Some((ticket, asked)) = machine.poll_up() {
            match asked {
                Asked::Call(_) => {
                    assert!(self.all.insert(ticket), "{ticket:?} was given out before");
                    self.open.insert(ticket);
                }
                Asked::Up(up) => {
                    assert!(self.open.contains(&ticket), "{ticket:?} is over and gets {up:?}");
                }
            }
        }
    }
}

/// Says which fault it was if a machine panics.
struct TellWhich(Fault);

impl Drop for TellWhich {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with this fault: {}", self.0);
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Cut { at } => write!(f, "cut off before byte {at}"),
            Fault::Stall { at } => write!(f, "stalled before byte {at}"),
            Fault::Garble { at, byte } => write!(f, "byte {at} garbled to 0x{byte:02x}"),
            Fault::Flood { at, with } => {
                write!(f, "flooded before byte {at} with `{}`", with.escape_ascii())
            }
        }
    }
}

#[cfg(test)]
mod tests;
