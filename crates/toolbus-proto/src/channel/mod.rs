//! The contract between rules and hands: what every wire's machines look like from outside.
//!
//! A [`Machine`] is our end of one conversation. It speaks over one ordered run of bytes, a
//! [`Channel`], or over many [`Streams`]; it asks ([`Calling`]) or answers ([`Serving`]).
//! Everything that crosses between wires goes through these: tools, native calls between two
//! ends of one wire, parts both ways, questions back to the caller, cancellation.

mod outbox;
mod streams;

use std::time::{Duration, Instant};

use bytes::BytesMut;

use crate::json::{Json, Kind};
use crate::tool::{Call, Failure, Outcome, Part};

pub use outbox::Outbox;
pub use streams::{ONLY, StreamId, StreamLost, Streams, Writing};

/// Our end of one conversation: what it has to do with time and with its owner.
///
/// A machine does nothing by itself. After anything was said to it (by a `handle_*`, or by a plain
/// verb such as [`Calling::call`]) the hands ask it, in this order:
///
/// 1. [`Machine::poll_notice`], until there is none;
/// 2. [`Calling::poll_down`] or [`Serving::poll_up`], until there is none or its consumer is full:
///    what is left is asked for when that has room;
/// 3. [`Calling::readiness`] or [`Serving::ended`], since an answer may come with the end;
/// 4. over many streams, [`Streams::poll_open`] and [`Streams::poll_ready`], until there is none;
/// 5. [`Channel::poll_transmit`], once all that happened so far was said, so that it goes out in
///    one write. What cannot be said on the wire is refused by this: then from 1 again;
/// 6. [`Machine::poll_timeout`], last, because all before may have moved it.
pub trait Machine {
    /// Time has passed: at least until [`Machine::poll_timeout`].
    fn handle_timeout(&mut self, now: Instant);

    /// When to call [`Machine::handle_timeout`], if at all.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What happened that is no answer and no call, for the log and for who owns the machine.
    fn poll_notice(&mut self) -> Option<Notice>;

    /// How many bytes it keeps for its peer that the hands cannot see: calls that wait for
    /// their turn, answers that are owed, what is kept in case it is asked for again. Asked
    /// often, so it is to be known without counting.
    fn weight(&self) -> usize {
        0
    }

    /// How many bytes it has collected of answers that are not whole yet: they all come out with
    /// the last word of an answer, which weighs nothing.
    fn collected(&self) -> usize {
        0
    }

    /// How many bytes of answers have come out and were not handed out yet.
    fn untold(&self) -> usize {
        0
    }

    /// The other end of this call takes no more for now, or takes more again. Where a wire gives
    /// each call credit of its own, what was not taken is not given back, and so no call waits for
    /// another; others have no use for it.
    fn hold(&mut self, now: Instant, ticket: Ticket, is_held: bool) {
        let _ = (now, ticket, is_held);
    }

    /// Does the peer take no more of this call for now? [`Machine::poll_room`] tells when it does
    /// again.
    fn is_full(&mut self, ticket: Ticket) -> bool {
        let _ = ticket;
        false
    }

    /// A call of which [`Machine::is_full`] was said, and of which more is taken again.
    fn poll_room(&mut self) -> Option<Ticket> {
        None
    }
}

/// One end of one ordered run of bytes: a pipe, a socket. The hands read and write; the
/// channel decides.
pub trait Channel: Machine {
    /// Takes the whole frames at the front of `input` and leaves the rest there.
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow;

    /// The other side will send no more; `input` holds what never became a whole frame.
    ///
    /// On a calling channel this alone ends no call: the hands find out how the other side
    /// went away and say so by [`Calling::handle_lost`]. On a serving one answers may still
    /// be owed: then it pauses, and the last of them gives [`Flow::Close`].
    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow;

    /// Appends what is to be written. Large payloads stay whole, for one vectored write.
    fn poll_transmit(&mut self, out: &mut Outbox);

    /// All that was handed out by [`Channel::poll_transmit`] has been written. A channel that
    /// paused is then asked again, as after everything that is said to it.
    fn handle_sent(&mut self, now: Instant) {
        let _ = now;
    }

    /// Does something follow from [`Channel::handle_sent`]? Else it is not asked again after that.
    fn heeds_sent(&self) -> bool {
        false
    }

    /// Nothing more will be written: the hands shut down the writing side as soon as all that
    /// was handed out is written. Reading goes on as [`Flow`] says.
    fn is_finished(&self) -> bool {
        false
    }
}

/// What the hands do next with the reading side of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    More,
    /// Read no more until the channel says otherwise: the consumer behind it is slow.
    ///
    /// Whole frames may be left in the input. The hands ask again by
    /// [`Channel::handle_bytes`], with no more bytes than those, whenever something was taken
    /// out of the channel or said to it.
    Pause,
    /// Write what is left to write, then close.
    Close,
}

/// The asking end of a wire.
pub trait Calling: Machine {
    /// Asks. A refusal is [`Down::Done`] with a failure: there is one way to end.
    ///
    /// May be called before the channel is [`Readiness::Open`]; the call then waits.
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call);

    /// Goes on with a call that runs. Nothing happens if it has ended already.
    fn up(&mut self, now: Instant, ticket: Ticket, up: Up);

    /// Says the wire's own goodbye; no call follows. A peer that answers the goodbye has
    /// `patience` for that.
    ///
    /// Said as well when the conversation broke, if [`Farewell::Goodbye`] asks for that: then the
    /// calls that still wait go on waiting, until [`Calling::handle_lost`] says how it ended.
    fn close(&mut self, now: Instant, patience: Duration) -> Goodbye;

    /// What comes back, in one queue: progress cannot overtake its answer.
    fn poll_down(&mut self) -> Option<(Ticket, Down)>;

    /// Can calls go out, not yet, or never again?
    fn readiness(&self) -> &Readiness;

    /// Calls of which no byte has been written yet: another channel may take them over.
    ///
    /// Not among them is who has already gone on with its call by [`Calling::up`].
    fn take_unsent(&mut self) -> Vec<(Ticket, Call)>;

    /// What being [`Readiness::Open`], or the failure to be, shows of the other side. Where the
    /// two ends agree on being ready, that is all there is to show.
    fn proof(&self) -> Proof {
        Proof::Ready
    }

    /// The channel is lost: ends every call that is still in its hands with `why`.
    fn handle_lost(&mut self, now: Instant, why: &Failure);
}

/// How far a calling channel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// The two ends have not yet agreed that they are ready.
    Opening,
    /// Calls go out.
    Open,
    /// The conversation cannot go on.
    Broken(Fault),
}

/// What is known of whether the other side speaks our wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It does if it is ready.
    Ready,
    /// The same; but it was first asked in a way that it does not know, and may have complained.
    ReadyAtLast,
    /// It counts as ready, and has not answered anything yet.
    None,
    /// The same, and it was asked something that is answered at once.
    Awaited,
    /// It went away because of a question, and the next of its kind is asked another one: it may
    /// be started at once.
    AskAnother,
}

/// What follows our goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goodbye {
    /// Nothing: once it is written, the peer's input may be closed.
    Said,
    /// The peer's answer: its input stays open until [`Channel::is_finished`].
    Asked,
}

impl Readiness {
    /// The conversation cannot go on, and the peer has lost the right to a goodbye.
    pub fn outlawed(failure: Failure) -> Readiness {
        Readiness::Broken(Fault { failure, farewell: Farewell::Abrupt })
    }
}

/// Why a conversation cannot go on, and how to part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What to tell the callers that still wait.
    pub failure: Failure,
    /// How to part.
    pub farewell: Farewell,
}

/// How to part from a process whose conversation cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// It is told goodbye, by [`Calling::close`], and then as [`Farewell::Patient`].
    Goodbye,
    /// It was told what was wrong: close its input and give it the time of a goodbye.
    Patient,
    /// It lost the right to a goodbye.
    Abrupt,
}

/// The answering end of a wire.
pub trait Serving: Machine {
    /// A new call, or more of one that runs.
    fn poll_up(&mut self) -> Option<(Ticket, Asked)>;

    /// Goes on with the reply to `ticket`. Nothing happens if that call is over.
    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow;

    /// Ends what belongs to holders of tokens who are no longer let in: `stays` says of each whether
    /// it is.
    fn keep_holders(&mut self, _now: Instant, _stays: &dyn Fn(&str) -> bool) {}

    /// Something changed behind that belongs to no call, such as the tools there are. A wire
    /// that can tells its peer.
    fn tell(&mut self, now: Instant, notice: &Notice) {
        let _ = (now, notice);
    }

    /// We are about to stop. Takes no more calls, and lets go those who only listen; calls
    /// under way go on, and are answered.
    fn close(&mut self, now: Instant) {
        let _ = now;
    }

    /// What is still under way has had its time: ends whatever streams are left, as the wire
    /// ends what it will not answer.
    fn give_up(&mut self, now: Instant) {
        let _ = now;
    }

    /// Why the conversation is over, once it is.
    fn ended(&self) -> Option<&Ended>;
}

/// Why a serving conversation is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The other side said goodbye, or closed.
    Well,
    /// The other side would not have us, and said why.
    Refused(String),
    /// The other side said what its protocol does not allow.
    Broke(String),
    /// The other side reads no more, though it had not said goodbye.
    PeerStoppedReading,
}

/// Names one call between a machine and its hands. Given out by the side that makes the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Names one question inside one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AskId(pub u64);

/// What a serving channel hands out.
#[derive(Debug, Clone)]
pub enum Asked {
    /// A new call.
    Call(Call),
    /// More of one that runs.
    Up(Up),
}

/// What goes from the caller towards the tool while a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Up {
    /// A part of the input.
    Part(Part),
    /// The input is complete.
    End(Option<Json>),
    /// The answer to a question.
    Answer(AskId, Json),
    /// The caller changed its mind, and may say why.
    Cancel(Option<Json>),
}

/// What goes from the tool towards the caller. [`Down::Done`] is the last, exactly once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Down {
    /// The reply will be parts.
    Begin {
        /// The value before them.
        head: Option<Json>,
        /// How many there will be, if that is known.
        parts: Option<u64>,
    },
    /// A part of the reply.
    Part(Part),
    /// How far the call is.
    Progress(Json),
    /// A message for the caller's log.
    Log(Json),
    /// A question to the caller.
    Ask(AskId, Json),
    /// The end.
    Done(Result<Outcome, Failure>),
}

impl Up {
    /// What it weighs in a queue.
    pub fn weight(&self) -> usize {
        match self {
            Up::Part(part) => part.weight(),
            Up::End(Some(json)) | Up::Answer(_, json) | Up::Cancel(Some(json)) => {
                json.as_bytes().len()
            }
            Up::End(None) | Up::Cancel(None) => 0,
        }
    }
}

impl Down {
    /// What is told of two states of progress if the reader has taken neither: the later, since
    /// of progress only the latest matters. Texts are pieces of one text: they are joined.
    pub fn latest_progress(earlier: &Json, later: Json) -> Json {
        match (earlier.kind(), later.kind()) {
            (Kind::String, Kind::String) => {
                let (earlier, later) = (earlier.as_str(), later.as_str());
                // Between two quotes nothing has to be read or escaped anew.
                let text = [&earlier[..earlier.len() - 1], &later[1..]].concat();
                Json::from_trusted(text)
            }
            _ => later,
        }
    }

    /// What it weighs in a queue.
    pub fn weight(&self) -> usize {
        match self {
            Down::Part(part) => part.weight(),
            Down::Begin { head: Some(json), .. }
            | Down::Progress(json)
            | Down::Log(json)
            | Down::Ask(_, json)
            | Down::Done(Ok(Outcome::Value(json) | Outcome::End(Some(json)))) => {
                json.as_bytes().len()
            }
            Down::Done(Ok(Outcome::Text(text))) => text.len(),
            Down::Done(Ok(Outcome::Native(body))) => body.len(),
            Down::Begin { .. } | Down::Done(_) => 0,
        }
    }
}

/// Something worth a line in the log, or worth telling who owns the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A frame that belongs to nothing; its beginning, for people.
    Stray(String),
    /// What came breaks a rule that we do not insist on: the rule's name on its wire.
    Noted(&'static str),
    /// What came breaks a rule that the conversation cannot go on without: which, and where.
    Broke(String),
    /// What came was answered with a refusal before it became a call: why.
    Refused(String),
    /// What came is not used, and why that is no fault.
    Ignored(String),
    /// The peer offers something that is no tool, which is no fault: a sentence for people.
    PassedOver(String),
    /// The peer offers a tool that only its own wire can describe: its signature.
    Offered(String),
    /// The peer offers something that could not be read, and why.
    LeftOut {
        /// What it wrote.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The peer offers a tool that cannot be called over this wire, and why.
    Unfit {
        /// Its name.
        tool: String,
        /// What is wrong with it.
        why: String,
    },
    /// A message of the peer's own log that reached no caller.
    Logged {
        /// How grave the peer calls it.
        level: &'static str,
        /// What it says, the beginning of its JSON.
        data: String,
        /// Several callers want such messages, and which of them this is for cannot be told.
        is_wanted: bool,
    },
    /// The peer's tools are others than before.
    ToolsChanged,
    /// What came does no harm, and yet the owner should hear of it: a sentence for people.
    Warning(String),
    /// How the peer describes itself, as its own wire writes it; the owner may need more of it
    /// than its tools.
    Described(Json),
    /// A line that the peer's process wrote to its standard error.
    Stderr(String),
    /// Calls in a row timed out and the peer answered nothing else meanwhile: it is replaced.
    Hangs,
    /// What of the peer is waited for already a while; `None` when it no longer is.
    Waiting(Option<String>),
    /// There were as many sessions as there may be: one that was idle had to make room.
    MadeRoom,
}

impl Notice {
    /// Does it tell of a frame that served no purpose? A peer that sends nothing else is heard
    /// less often than the others.
    pub fn is_noise(&self) -> bool {
        matches!(
            self,
            Notice::Stray(_) | Notice::Broke(_) | Notice::Ignored(_) | Notice::Logged { .. }
        )
    }
}
