//! `transport.stdio`: MCP on lines, in front of a hub (`docs/protocols/orchestra.md` 12).
//!
//! [`Transport`] reads JSON-RPC a line at a time and hands out native calls of this wire;
//! [`Uplink`] says what is told of the way to the hub. `lines.rs` is what a line is, `methods.rs` what
//! it asks for, `answers.rs` how the hub's answer is told, `full.rs` what `--profile full`
//! adds.

mod answers;
mod full;
mod lines;
mod methods;
mod uplink;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::WIRE;
use crate::channel::{Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket};
use crate::counted::Counted;
use crate::frame::lines::Lines;
use crate::jsonrpc::{self, Batches, Id};
use crate::tool::{Call, CallOptions, Deadline, What};

use methods::Purpose;

pub use uplink::{Uplink, UplinkNews, UplinkSettings};

/// What is the document's, and no other's.
pub const LINE_BYTES_MAX: usize = 10 * 1024 * 1024;
/// How long calls may go on once we are asked to end.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL_ERROR: i64 = -32603;
pub(super) const PARSE_ERROR: i64 = -32700;

/// Which methods there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Those of the document.
    Tools,
    /// What newer transports have as well.
    Full,
}

/// What can be set about the transport.
#[derive(Debug, Clone)]
pub struct TransportSettings {
    /// Which methods there are.
    pub profile: Profile,
    /// How long the hub may take to answer.
    pub timeout: Duration,
    /// A line is read when the one before is answered.
    pub in_order: bool,
    /// How long a line may be, its end not counted.
    pub line_bytes_max: usize,
    /// How many requests may wait for the hub.
    pub in_flight_max: usize,
    /// Tells this client from others where sessions count: a UUID.
    pub session_id: String,
}

impl Default for TransportSettings {
    fn default() -> TransportSettings {
        TransportSettings {
            profile: Profile::Tools,
            timeout: Duration::from_secs(60),
            in_order: false,
            line_bytes_max: LINE_BYTES_MAX,
            in_flight_max: 1024,
            session_id: String::new(),
        }
    }
}

/// The revisions of MCP that are told apart here, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
}

impl Revision {
    /// The one of this name; of any other name the newest.
    fn named(name: &str) -> Revision {
        match name {
            "2024-11-05" => Revision::V2024_11_05,
            "2025-03-26" => Revision::V2025_03_26,
            "2025-06-18" => Revision::V2025_06_18,
            _ => Revision::V2025_11_25,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
        }
    }
}

/// Our end of the client's lines.
#[derive(Debug)]
pub struct Transport {
    settings: TransportSettings,
    lines: Lines,
    revision: Revision,
    stage: LineServerState,
    in_flight: Counted<Ticket, InFlight>,
    next_ticket: u64,
    /// What requests in flight keep.
    kept_bytes: usize,
    batches: Batches,
    gathers: Counted<u64, full::Gather>,
    next_number: u64,
    ups: VecDeque<(Ticket, Asked)>,
    out: Outbox,
    notices: VecDeque<Notice>,
}

#[derive(Debug)]
enum LineServerState {
    Open,
    /// No line follows; what is under way is finished, by then if we are in a hurry.
    Finishing {
        until: Option<Instant>,
    },
    Over(Ended),
}

/// A request that waits for the hub.
#[derive(Debug)]
struct InFlight {
    origin: Origin,
    purpose: Purpose,
    /// The client wants to know how far it is, by this token.
    progress_token: Option<Bytes>,
}

impl InFlight {
    /// What it keeps of the request.
    fn weight(&self) -> usize {
        self.origin.id.as_bytes().len() + self.progress_token.as_ref().map_or(0, Bytes::len)
    }
}

/// Whose answer it is, and whether it goes into an array of them.
#[derive(Debug, Clone)]
struct Origin {
    id: Id,
    batch: Option<u64>,
}

/// Why a request is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    code: i64,
    message: String,
}

impl Refusal {
    fn new(code: i64, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }
}

impl Transport {
    /// Waits for the client's first line.
    pub fn new(settings: TransportSettings) -> Transport {
        Transport {
            lines: Lines::new(settings.line_bytes_max),
            settings,
            revision: Revision::V2024_11_05,
            stage: LineServerState::Open,
            in_flight: Counted::default(),
            next_ticket: 0,
            kept_bytes: 0,
            batches: Batches::default(),
            gathers: Counted::default(),
            next_number: 0,
            ups: VecDeque::new(),
            out: Outbox::new(),
            notices: VecDeque::new(),
        }
    }

    /// A signal: no line is read any more, and what is under way has a little time.
    pub fn stop(&mut self, now: Instant) {
        if !matches!(self.stage, LineServerState::Over(_)) {
            self.stage = LineServerState::Finishing { until: Some(now + PATIENCE) };
            self.settle(now);
        }
    }

    /// The end, as soon as no answer is owed.
    fn settle(&mut self, now: Instant) {
        let LineServerState::Finishing { until } = self.stage else { return };
        if until.is_some_and(|until| until <= now) {
            let mut left: Vec<_> = self.in_flight.keys().copied().collect();
            left.sort_unstable();
            // The hub is not told that they are cancelled: the connection is closed behind this.
            for ticket in left {
                self.fail(ticket, "shutting down");
            }
        }
        if !self.owes_answers() {
            self.stage = LineServerState::Over(Ended::Well);
        }
    }

    fn flow(&self) -> Flow {
        match self.stage {
            LineServerState::Over(_) => Flow::Close,
            LineServerState::Finishing { .. } => Flow::Pause,
            LineServerState::Open if self.settings.in_order && self.owes_answers() => Flow::Pause,
            LineServerState::Open => Flow::More,
        }
    }

    /// Does the client wait for anything? Events are no answers.
    fn owes_answers(&self) -> bool {
        self.in_flight.values().any(|in_flight| in_flight.purpose != Purpose::Events)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Asks the hub.
    fn ask(&mut self, now: Instant, asking: Asking) {
        let Asking { method, body, in_flight } = asking;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let method = Bytes::from_static(method.as_bytes());
        let progress = in_flight.progress_token.is_some();
        let what = What::Native { wire: WIRE, method, body };
        let call = Call {
            deadline: match in_flight.purpose {
                Purpose::Events => Deadline::never(now),
                _ => Deadline { asked: now, quiet: Some(self.settings.timeout), total: None },
            },
            options: CallOptions { progress, ..CallOptions::default() },
            ..Call::of(now, what)
        };
        self.kept_bytes += in_flight.weight();
        self.in_flight.insert(ticket, in_flight);
        self.ups.push_back((ticket, Asked::Call(call)));
    }

    /// The hub is not waited for any more.
    fn take_in_flight(&mut self, ticket: Ticket) -> Option<InFlight> {
        let in_flight = self.in_flight.remove(&ticket)?;
        self.kept_bytes -= in_flight.weight();
        Some(in_flight)
    }

    /// Says a good answer.
    fn answer(&mut self, origin: &Origin, result: impl Into<Bytes>) {
        let mut text = Outbox::new();
        jsonrpc::write_result(&mut text, &origin.id, &result.into());
        self.put(origin.batch, text);
    }

    fn refuse(&mut self, origin: &Origin, refusal: &Refusal) {
        let mut text = Outbox::new();
        jsonrpc::write_error(&mut text, &origin.id, refusal.code, &refusal.message, None);
        self.put(origin.batch, text);
    }
}

impl Transport {
    /// A line is to be written: at once, or with the others of its array.
    fn put(&mut self, batch: Option<u64>, mut line: Outbox) {
        let Some(batch) = batch else { return self.out.append(&mut line) };
        // Without the newline that ends it where it stands alone.
        let line = line.take();
        let mut answer = Outbox::new();
        answer.put_shared(&line.slice(..line.len() - 1));
        self.settle_batch(batch, Some(answer));
    }

    /// One request less to answer; with the last of them the array is written.
    fn settle_batch(&mut self, batch: u64, answer: Option<Outbox>) {
        let whole = self.batches.settle(batch, answer);
        if let Some(mut whole) = whole.filter(|whole| !whole.is_empty()) {
            self.out.append(&mut whole);
            self.out.put(b"\n");
        }
    }
}

/// A request to the hub.
struct Asking {
    method: &'static str,
    body: Bytes,
    in_flight: InFlight,
}

impl Machine for Transport {
    fn handle_timeout(&mut self, now: Instant) {
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            LineServerState::Finishing { until } => until,
            _ => None,
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.kept_bytes + self.batches.weight() + self.out.len()
    }
}

impl Channel for Transport {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while self.flow() == Flow::More {
            let Some(line) = self.lines.next(input) else { break };
            self.handle_line(now, line);
        }
        self.flow()
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        if self.handle_bytes(now, input) != Flow::More {
            return self.flow();
        }
        // A last line without its end counts.
        if let Some(line) = self.lines.last(input) {
            self.handle_line(now, line);
        }
        self.stage = LineServerState::Finishing { until: None };
        self.settle(now);
        self.flow()
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        out.append(&mut self.out);
    }
}

impl Serving for Transport {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        self.handle_down(ticket, down);
        self.settle(now);
        self.flow()
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.stage {
            LineServerState::Over(ended) => Some(ended),
            _ => None,
        }
    }
}
