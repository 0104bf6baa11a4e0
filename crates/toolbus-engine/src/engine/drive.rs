//! The reactor pump: drives one channel over a pair of streams, on the bus's one thread.
//!
//! Reads what is there, lets the channel handle it, writes what that made ready in one go.
//! Reading goes on while a write waits, or two full pipes would wait for each other for ever.

use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{Flow, Outbox};

use super::pace::Pace;
use crate::scope::Scope;
use crate::transport::buffers::WHOLE_FROM;
use crate::transport::io::{Sink, Source};
use crate::wake::{Wake, turn};

/// So much is written even if more is about to follow.
const WRITE_FROM: usize = 64 * 1024;

/// What the pump drives: a channel with all that hangs on it. The methods are called with
/// nothing borrowed, so that they may call into other peers and be called back.
pub(crate) trait Drivable {
    /// Takes what was read. Asked again without new bytes whenever something changed.
    fn bytes(&self, now: Instant, input: &mut BytesMut) -> ReadNext;
    /// The stream has ended, and the channel would read on. Told again whenever something
    /// changed, as long as that is so: a machine may take frames one by one, as it answers.
    fn eof(&self, now: Instant, input: &mut BytesMut) -> ReadNext;
    fn timeout(&self, now: Instant);
    fn poll_timeout(&self) -> Option<Instant>;
    /// Appends what is to be written. What cannot be said on the wire is refused in its turn, so
    /// something may be passed on by this too.
    fn transmit(&self, out: &mut Outbox) -> Forwarded;
    /// So many bytes wait to be written, and so many are the beginning of a message whose rest has
    /// not come.
    fn report_buffered(&self, unwritten: usize, half_read: usize);
    /// All that was handed out has been written. Gives what is next for a channel that is read,
    /// where that is known without asking it.
    fn sent(&self) -> Option<ReadNext>;
    /// The stream broke while it was read; its end is told as well.
    fn read_failed(&self, _error: io::Error) {}
    /// The other side does not listen any more, or the stream broke. What it wrote before is
    /// still read, unless [`Drivable::closing`] says otherwise.
    fn write_failed(&self, now: Instant, error: io::Error);
    /// Is our writing side to be closed?
    fn closing(&self) -> Closing;
    /// Before something new is said: has the other side ended, though the machine was not told yet?
    fn has_ended(&self, now: Instant) -> bool;
    /// Rung when something changed from another side: a call, a reply, room.
    fn wake(&self) -> &Wake;
    /// How long the other side may read nothing, once it has said all it will say.
    fn unread_max(&self) -> Option<Duration> {
        None
    }
    /// How many frames in a row the other side has sent that served no purpose: that belong to no
    /// call, or break a rule.
    fn noise(&self) -> usize {
        0
    }
    /// Rung when the caller that filled up has read what it was given: [`ReadNext::Turn`] need not
    /// wait for all others then.
    fn caller_drained(&self) -> Option<&Wake> {
        None
    }
}

/// What the pump does next with its reading side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadNext {
    Read,
    /// A consumer was given a lot: others have their turn, then the channel is asked again.
    Turn,
    /// Nothing, until the channel's bell rings.
    Wait,
    /// Write what is left to write, and be done.
    Close,
}

/// What came of passing on what a machine had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Forwarded {
    Nothing,
    Something,
    /// The consumer needs a turn before the rest can be passed on.
    EnoughForNow,
}

impl ReadNext {
    /// What to do after a machine has spoken; `None` is to ask it again at once, because what
    /// was passed on may have made room in it.
    pub(crate) fn after(flow: Flow, passed: Forwarded) -> Option<ReadNext> {
        match (passed, flow) {
            (Forwarded::EnoughForNow, _) => Some(ReadNext::Turn),
            (_, Flow::More) => Some(ReadNext::Read),
            (_, Flow::Close) => Some(ReadNext::Close),
            (Forwarded::Something, Flow::Pause) => None,
            (Forwarded::Nothing, Flow::Pause) => Some(ReadNext::Wait),
        }
    }
}

/// What becomes of our writing side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    AfterWriting,
    /// Whatever still waits is thrown away.
    Now,
}

/// Drives `driven` until it wants no more.
pub(crate) async fn drive(driven: &impl Drivable, mut source: impl Source, sink: impl Sink) {
    let mut sink = Some(sink);
    let mut input = BytesMut::new();
    let mut outbox = Outbox::new();
    let mut next = ReadNext::Read;
    let mut end = End::Ahead;
    let mut has_ended = false;
    let mut pace = Pace::new();
    let ledger = Scope::ledger();
    let mut freed = ledger.times_freed();
    let mut timer = pin!(Timer::default());
    let mut unread = Unread::default();
    loop {
        if !has_ended
            && driven.transmit(&mut outbox) == Forwarded::EnoughForNow
            && next != ReadNext::Close
        {
            next = ReadNext::Turn;
        }
        if let Some(sink) = &mut sink {
            sink.begin();
        }
        match driven.closing() {
            Closing::Now => sink = None,
            Closing::AfterWriting if outbox.is_empty() => {
                if let Some(mut sink) = sink.take() {
                    sink.end();
                }
            }
            Closing::AfterWriting | Closing::No => {}
        }
        if sink.is_none() && !outbox.is_empty() {
            outbox = Outbox::new();
        }
        driven.report_buffered(outbox.len(), input.len() + pace.kept_back());
        ledger.cut_off_who_is_over();
        if next == ReadNext::Close && outbox.is_empty() {
            return;
        }
        let may_read = next == ReadNext::Read && end == End::Ahead && pace.rest.is_none();
        // What is set off by one read goes out together, as far as it is not much.
        let goes_on = next == ReadNext::Turn && outbox.len() < WRITE_FROM;
        let may_write = !(outbox.is_empty() || goes_on) || end == End::Told;
        let is_owed = sink.is_some() && !outbox.is_empty();
        unread.look(driven.unread_max(), is_owed, end != End::Ahead);
        let (mut has_waited, mut has_rung, shown) = (false, false, input.len());
        // Each arm may be dropped half-way without loss.
        tokio::select! {
            biased;
            wrote = write(&mut outbox, sink.as_mut()), if may_write => match wrote {
                Ok(()) => {
                    unread.moved();
                    if !outbox.is_empty() {
                        continue;
                    }
                    match (next, driven.sent()) {
                        (ReadNext::Turn, _) => continue,
                        (ReadNext::Read, Some(known)) if end == End::Ahead => {
                            next = known;
                            continue;
                        }
                        // What is out may have been all that it waited for.
                        _ => {}
                    }
                }
                Err(error) => {
                    sink = None;
                    driven.write_failed(Instant::now(), error);
                    if next == ReadNext::Turn {
                        continue;
                    }
                }
            },
            () = turn_or(driven.caller_drained()), if next == ReadNext::Turn => {}
            read = async {
                match may_read {
                    true => Some(source.read(&mut input).await),
                    false => {
                        source.ended().await;
                        None
                    }
                }
            }, if may_read || unread.watches_end() => match read {
                Some(read) => {
                    pace.listen(&input[shown..]);
                    pace.keep_back(&mut input, shown);
                    // A stream that breaks has ended: what came before is all there is.
                    if matches!(read, Ok(0) | Err(_)) || source.is_at_end() {
                        end = End::Seen;
                    }
                    if let Err(error) = read {
                        driven.read_failed(error);
                    }
                }
                // What was sent before the end is read when there is room for its answers.
                None => {
                    unread.has_ended = true;
                    continue;
                }
            },
            () = driven.wake().rung(), if next != ReadNext::Turn => has_rung = true,
            // It may have waited for those who did not read what they were given.
            () = ledger.freed_since(freed), if next == ReadNext::Wait => {}
            () = async {
                // The last arm is looked at only if all others have to wait, and then all
                // other peers have their turn.
                has_waited = true;
                let timeouts = [driven.poll_timeout(), unread.give_up, pace.rest];
                timer.as_mut().until(timeouts.into_iter().flatten().min()).await;
            }, if next != ReadNext::Turn => {
                if unread.is_over(Instant::now()) {
                    sink = None;
                    driven.write_failed(Instant::now(), io::ErrorKind::TimedOut.into());
                }
            }
        }
        let now = Instant::now();
        // One look at the machine is for all that happened until now.
        if next != ReadNext::Turn && (has_rung | driven.wake().hush()) {
            // The end that is seen will be read in a moment; until then nothing is said.
            has_ended = end == End::Ahead && driven.has_ended(now);
        }
        if next != ReadNext::Close {
            if next == ReadNext::Turn || has_waited {
                pace.turn_passed(now, next);
            } else if pace.is_too_long(now) {
                next = ReadNext::Turn;
                continue;
            }
            freed = ledger.times_freed();
            next = ask(driven, now, &mut input, &mut end, &mut pace);
            pace.judge(driven.noise());
        }
    }
}

/// A peer that has said all it will say and does not read what it is owed: it is not waited
/// for for ever. One that may still speak is, since it may be slow for a good reason.
#[derive(Default)]
struct Unread {
    /// Its end was seen behind bytes that are not read yet.
    has_ended: bool,
    is_owed: bool,
    patience: Option<Duration>,
    give_up: Option<Instant>,
}

impl Unread {
    fn look(&mut self, patience: Option<Duration>, is_owed: bool, has_ended: bool) {
        self.has_ended |= has_ended;
        self.is_owed = is_owed;
        self.patience = patience;
        match patience.filter(|_| self.has_ended && is_owed) {
            Some(patience) => drop(self.give_up.get_or_insert_with(|| Instant::now() + patience)),
            None => self.give_up = None,
        }
    }

    /// It took some.
    fn moved(&mut self) {
        self.give_up = None;
    }

    /// Must be known whether its end is there, though it is not read?
    fn watches_end(&self) -> bool {
        self.is_owed && !self.has_ended && self.patience.is_some()
    }

    fn is_over(&self, now: Instant) -> bool {
        self.give_up.is_some_and(|give_up| give_up <= now)
    }
}

/// How far the end of the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Ahead,
    Seen,
    Told,
}

fn ask(
    driven: &impl Drivable,
    now: Instant,
    input: &mut BytesMut,
    end: &mut End,
    pace: &mut Pace,
) -> ReadNext {
    pace.asked();
    // Looked at each time: a peer that never stops talking must not stop the clock.
    if driven.poll_timeout().is_some_and(|timeout| timeout <= now) {
        driven.timeout(now);
    }
    let bytes = input.len();
    let next = driven.bytes(now, input);
    if next == ReadNext::Read && pace.show_more(input) {
        return ReadNext::Turn;
    }
    if input.is_empty() && WHOLE_FROM <= bytes {
        // A long frame must not leave its room behind, and a buffer is wanted for the next read.
        *input = BytesMut::new();
    }
    match (next, *end) {
        (ReadNext::Read, End::Seen | End::Told) => {
            *end = End::Told;
            driven.eof(now, input)
        }
        _ => next,
    }
}

async fn write(outbox: &mut Outbox, sink: Option<&mut impl Sink>) -> io::Result<()> {
    let Some(sink) = sink else { return std::future::pending().await };
    if outbox.is_empty() {
        // What is owed behind the end may have no reader left.
        sink.closed().await;
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    sink.take_from(outbox).await
}

/// Lets others have their turn, until the one who needs it most has had it.
async fn turn_or(taken: Option<&Wake>) {
    match taken {
        Some(taken) => tokio::select! {
            biased;
            () = taken.rung() => {}
            () = turn() => {}
        },
        None => turn().await,
    }
}

/// Waits until then, or for ever.
pub async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

/// One timer that is set anew only when it must ring earlier: deadlines mostly move away.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Timer {
    async fn until(self: Pin<&mut Self>, instant: Option<Instant>) {
        let Some(instant) = instant else { return std::future::pending().await };
        let instant = tokio::time::Instant::from_std(instant);
        let sleep = &mut self.get_mut().sleep;
        let is_early_enough = sleep.as_ref().is_some_and(|sleep| sleep.deadline() <= instant);
        if !is_early_enough {
            match sleep {
                Some(sleep) => sleep.as_mut().reset(instant),
                None => *sleep = Some(Box::pin(tokio::time::sleep_until(instant))),
            }
        }
        if let Some(sleep) = sleep.as_mut() {
            sleep.as_mut().await;
        }
        // Rung, perhaps too early: the machine that asked looks at the time and asks again.
        *sleep = None;
    }
}
