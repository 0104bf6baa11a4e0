//! One conversation over many streams, spoiled at every byte of every stream.
//!
//! As on one stream: a machine must not panic, must not keep more than its limit, and must end
//! each of its calls exactly once. Beside that a fault on one stream is no fault of another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Calling, Down, Outbox, Serving, StreamId, StreamLost, Streams, Ticket, Up,
};
use toolbus_proto::tool::{Failure, FailureKind};

use super::Fed;

/// What happens to the bytes of one stream.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// It ends before the byte at this place, as if that were its end.
    Cut,
    /// It is reset there.
    Reset,
    /// Nothing more comes, and no end is seen.
    Stall,
    /// The byte at this place is another.
    Garble(u8),
    /// Before this place comes far more than was agreed.
    Flood(&'static [u8]),
}

const FAULTS: &[Fault] = &[
    Fault::Cut,
    Fault::Reset,
    Fault::Stall,
    Fault::Garble(b'\n'),
    Fault::Garble(0xff),
    Fault::Garble(b'"'),
    Fault::Flood(b"x"),
    Fault::Flood(b"\n"),
    Fault::Flood(b"[{\""),
];

/// Feeds a machine what was recorded, with faults.
struct Feeder<'a, M> {
    machine: &'a mut M,
    now: Instant,
    fault: Fault,
    /// Where the fault is: on which stream, at which byte of it.
    place: (StreamId, usize),
    inputs: BTreeMap<StreamId, (usize, BytesMut)>,
    over: BTreeSet<StreamId>,
    bytes_max: usize,
}

/// Every place in what was recorded: each byte of each stream.
fn places(recorded: &[Fed]) -> Vec<(StreamId, usize)> {
    let mut lens = BTreeMap::<StreamId, usize>::new();
    for fed in recorded {
        match fed {
            Fed::Bytes(id, bytes) => *lens.entry(*id).or_default() += bytes.len(),
            Fed::Opened(id, _) | Fed::Answered(id, _) => {
                lens.entry(*id).or_default();
            }
            _ => {}
        }
    }
    lens.into_iter().flat_map(|(id, len)| (0..=len).map(move |at| (id, at))).collect()
}

impl<'a, M: Streams<Opening = String, Answer = String>> Feeder<'a, M> {
    fn new(
        machine: &'a mut M,
        now: Instant,
        fault: Fault,
        place: (StreamId, usize),
        bytes_max: usize,
    ) -> Feeder<'a, M> {
        let (inputs, over) = (BTreeMap::new(), BTreeSet::new());
        Feeder { machine, now, fault, place, inputs, over, bytes_max }
    }

    fn feed(&mut self, fed: Fed, mut taken: impl FnMut(&mut M)) {
        let now = self.now;
        match fed {
            Fed::Opened(id, head) => {
                self.machine.handle_opened(now, id, head);
            }
            Fed::Answered(id, head) => {
                self.machine.handle_answered(now, id, head);
            }
            Fed::Bytes(id, bytes) if !self.over.contains(&id) => {
                let (from, input) = self.inputs.entry(id).or_default();
                let start = *from;
                *from += bytes.len();
                let at = (self.place.0 == id)
                    .then(|| self.place.1.checked_sub(start))
                    .flatten()
                    .filter(|at| *at < bytes.len());
                match (at, self.fault) {
                    (None, _) => input.extend_from_slice(&bytes),
                    (Some(at), Fault::Cut | Fault::Reset | Fault::Stall) => {
                        input.extend_from_slice(&bytes[..at]);
                    }
                    (Some(at), Fault::Garble(byte)) => {
                        input.extend_from_slice(&bytes);
                        let behind = input.len() - bytes.len() + at;
                        input[behind] = byte;
                    }
                    (Some(at), Fault::Flood(with)) => {
                        input.extend_from_slice(&bytes[..at]);
                        let flood = with.iter().copied().cycle().take(4 * self.bytes_max);
                        input.extend(flood);
                        input.extend_from_slice(&bytes[at..]);
                    }
                }
                for _ in 0..64 {
                    self.machine.handle_bytes(now, id, input);
                    taken(self.machine);
                }
                assert!(input.len() <= 5 * self.bytes_max + bytes.len(), "more than it may keep");
                if at.is_some() {
                    let why = StreamLost {
                        code: Some(9),
                        failure: Failure::new(FailureKind::Gone, "reset"),
                    };
                    match self.fault {
                        Fault::Cut => {
                            self.over.insert(id);
                            self.machine.handle_eof(now, id, input);
                        }
                        Fault::Reset => {
                            self.over.insert(id);
                            self.machine.handle_cut(now, id, input, why);
                        }
                        Fault::Stall => {
                            self.over.insert(id);
                        }
                        Fault::Garble(_) | Fault::Flood(_) => {}
                    }
                }
            }
            Fed::Eof(id) if !self.over.contains(&id) => {
                let (_, input) = self.inputs.entry(id).or_default();
                for _ in 0..64 {
                    self.machine.handle_eof(now, id, input);
                    taken(self.machine);
                }
            }
            Fed::Lost(id, why) if !self.over.contains(&id) => {
                Streams::handle_lost(self.machine, now, id, why);
            }
            // What is not over by then is still open.
            Fed::Closed(id) if !self.over.contains(&id) => self.machine.handle_closed(now, id),
            _ => {}
        }
        self.settle();
    }

    /// Does what hands do.
    fn settle(&mut self) {
        while self.machine.poll_open().is_some() {}
        while let Some(id) = self.machine.poll_ready() {
            let mut out = Outbox::new();
            self.machine.poll_answer(id);
            self.machine.poll_transmit(id, &mut out);
            self.machine.handle_sent(self.now, id);
            self.machine.writing(id);
        }
        while self.machine.poll_notice().is_some() {}
    }
}

/// Spoils what a calling machine heard. A call that has a deadline must end by it where a
/// stream falls silent.
pub fn calling<C>(begun: Instant, recorded: &[Fed], bytes_max: usize, make: impl Fn() -> C)
where
    C: Calling + Streams<Opening = String, Answer = String>,
{
    for place in places(recorded) {
        for fault in FAULTS {
            let mut machine = make();
            let mut calls = Calls::default();
            let mut feeder = Feeder::new(&mut machine, begun, *fault, place, bytes_max);
            for fed in recorded.iter().cloned() {
                match fed {
                    Fed::Call(ticket, call) => {
                        calls.open.insert(ticket, call.deadline.instant(begun).is_some());
                        feeder.machine.call(begun, ticket, call);
                        feeder.settle();
                    }
                    Fed::Up(ticket, up) => feeder.machine.up(begun, ticket, up),
                    fed => feeder.feed(fed, |machine| calls.learn(machine)),
                }
                calls.learn(feeder.machine);
            }
            machine.handle_timeout(begun + Duration::from_secs(3600));
            calls.learn(&mut machine);
            let late = calls.open.iter().find(|(_, has_deadline)| **has_deadline);
            assert_eq!(late, None, "{place:?} {fault:?}: waits behind its deadline");
            Calling::handle_lost(&mut machine, begun, &Failure::new(FailureKind::Gone, "lost"));
            calls.learn(&mut machine);
            assert!(calls.open.is_empty(), "{place:?} {fault:?}: {:?} never end", calls.open);
        }
    }
}

/// The calls that are not over, and whether they have a deadline.
#[derive(Default)]
struct Calls {
    open: BTreeMap<Ticket, bool>,
}

impl Calls {
    fn learn(&mut self, machine: &mut impl Calling) {
        while let Some((ticket, down)) = machine.poll_down() {
            assert!(self.open.contains_key(&ticket), "{ticket:?} was over before {down:?}");
            if let Down::Done(_) = down {
                self.open.remove(&ticket);
            }
        }
    }
}

/// Spoils what a serving machine heard: each call it handed out is handed out once, and goes
/// on only until it is cancelled.
pub fn serving<S>(begun: Instant, recorded: &[Fed], bytes_max: usize, make: impl Fn() -> S)
where
    S: Serving + Streams<Opening = String, Answer = String>,
{
    for place in places(recorded) {
        for fault in FAULTS {
            let mut machine = make();
            let mut calls = BTreeSet::new();
            let mut cancelled = BTreeSet::new();
            let mut take = |machine: &mut S| {
                while let Some((ticket, asked)) = machine.poll_up() {
                    assert!(!cancelled.contains(&ticket), "{place:?} {fault:?}: after its end");
                    match asked {
                        Asked::Call(_) => assert!(calls.insert(ticket), "asked twice"),
                        Asked::Up(Up::Cancel(_)) => {
                            cancelled.insert(ticket);
                        }
                        Asked::Up(_) => assert!(calls.contains(&ticket)),
                    }
                }
            };
            let mut feeder = Feeder::new(&mut machine, begun, *fault, place, bytes_max);
            for fed in recorded.iter().cloned() {
                match fed {
                    Fed::Down(ticket, down) => {
                        feeder.machine.down(begun, ticket, down);
                    }
                    fed => feeder.feed(fed, &mut take),
                }
                take(feeder.machine);
            }
            machine.give_up(begun);
            take(&mut machine);
        }
    }
}
