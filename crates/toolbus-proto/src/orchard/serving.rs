//! The provider: our end when a host executes our tools.
//!
//! Requests run side by side and are answered as they are ready. Whatever a host writes is
//! answered, and reading goes on; only `shutdown` and the end of its output end the
//! conversation, after the calls that run have had their time.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::number;
use super::schema::AttrError;
use super::translate::{self, Provider};
use super::wire::{self, Request};
use crate::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use crate::collect::Collector;
use crate::frame::lines::{Lines, TooLong};
use crate::json::{Json, Kind, edit::members};
use crate::jsonrpc::{kind, string};
use crate::tool::{Call, Failure, Outcome, What};

/// How long calls may go on after the host has said goodbye or closed its end.
const LAST_CALLS: Duration = Duration::from_secs(5);
/// Calls that run at a time; a host that asks for more waits until one has ended.
const CALLS_MAX: usize = 1024;

const INVALID_REQUEST: &str = "invalid_request";

/// What can be set about the serving end.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The longest line, without its newline.
    pub line_bytes_max: usize,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings { line_bytes_max: 16 << 20 }
    }
}

/// Our end of one conversation with a host.
#[derive(Debug)]
pub struct Server {
    provider: Provider,
    /// The schema as it is told, written once.
    schema: Json,
    lines: Lines,
    stage: ProviderState,
    is_configured: bool,
    running: BTreeMap<Ticket, Running>,
    next_ticket: u64,
    ups: VecDeque<(Ticket, Asked)>,
    notices: VecDeque<Notice>,
    out: Outbox,
}

#[derive(Debug)]
enum ProviderState {
    Open,
    /// Nothing more is read; what runs may still be answered, and `shutdown` last of all.
    Finishing {
        until: Instant,
        shutdown: Option<i64>,
    },
    Over(Ended),
}

/// A call that is not answered yet.
#[derive(Debug)]
struct Running {
    id: i64,
    action: String,
    collector: Collector,
}

/// A refusal: its code and message.
type Refused = (&'static str, String);

impl Server {
    /// Waits for the host to begin.
    pub fn new(settings: &ServerSettings, provider: Provider) -> Server {
        Server {
            schema: provider.schema().write(),
            provider,
            lines: Lines::new(settings.line_bytes_max),
            stage: ProviderState::Open,
            is_configured: false,
            running: BTreeMap::new(),
            next_ticket: 1,
            ups: VecDeque::new(),
            notices: VecDeque::new(),
            out: Outbox::new(),
        }
    }

    fn handle_line(&mut self, now: Instant, line: Result<Bytes, TooLong>) {
        let line = match line {
            Ok(line) => line,
            Err(TooLong { bytes_max }) => {
                let glimpse = self.lines.take_glimpse().unwrap_or_default();
                let id = Request::id_in_front(&glimpse.head).and_then(integer).unwrap_or(0);
                let message = format!("line is longer than {bytes_max} bytes");
                return self.refuse(id, INVALID_REQUEST, &message);
            }
        };
        let text = wire::without_return(&line);
        if text.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let Some(request) = Request::read(text) else {
            return self.refuse(0, INVALID_REQUEST, "line is not a JSON object");
        };
        let id = match request.id {
            None => return self.refuse(0, INVALID_REQUEST, "id is missing"),
            Some(id) => match integer(id) {
                None => return self.refuse(0, INVALID_REQUEST, "id must be an integer"),
                Some(id) => id,
            },
        };
        if let Err((code, message)) = self.handle_request(now, &line, id, &request) {
            self.refuse(id, code, &message);
        }
    }

    /// The order of these checks is a part of the protocol.
    fn handle_request(
        &mut self,
        now: Instant,
        line: &Bytes,
        id: i64,
        request: &Request<'_>,
    ) -> Result<(), Refused> {
        let invalid = |message: &str| (INVALID_REQUEST, message.to_owned());
        let method = request.method.ok_or_else(|| invalid("method is missing"))?;
        let method = string(method).ok_or_else(|| invalid("method must be a string"))?;
        let params = request.params.map_or(Kind::Null, kind);
        if params != Kind::Null && params != Kind::Object {
            return Err(invalid("params must be an object"));
        }
        match &*method {
            "describe" => {
                let schema = self.schema.as_bytes();
                wire::write_result(&mut self.out, id, "{\"schema\":", schema, "}");
            }
            "configure" => {
                self.configure(request.config)?;
                self.write_empty(id);
            }
            "execute" if !self.is_configured => return Err(invalid("execute before configure")),
            "execute" => {
                let action = request.action.and_then(string);
                let action = action.ok_or_else(|| invalid("action is missing"))?;
                self.execute(now, line, id, &action, request.attrs)?;
            }
            "shutdown" => self.finish(now, Some(id)),
            other => return Err(("unknown_method", format!("unknown method: {other}"))),
        }
        Ok(())
    }

    /// Nothing about us can be configured; that it was done is all that counts.
    fn configure(&mut self, config: Option<&str>) -> Result<(), Refused> {
        let failed = |message| ("configure_failed", message);
        let config = config.unwrap_or("null");
        if !matches!(kind(config), Kind::Null | Kind::Object) {
            let got = super::value::kind_shown(kind(config));
            return Err(failed(format!("config: want object, got {got}")));
        }
        if let Some((name, _)) = members(config).next() {
            return Err(failed(format!("unknown config attribute: {name}")));
        }
        self.is_configured = true;
        Ok(())
    }

    fn execute(
        &mut self,
        now: Instant,
        line: &Bytes,
        id: i64,
        action: &str,
        attrs: Option<&str>,
    ) -> Result<(), Refused> {
        let served = self.provider.served(action);
        let served =
            served.ok_or_else(|| ("unknown_action", format!("unknown action: {action}")))?;
        let args = served.arguments(line, attrs);
        let args = args.map_err(|error: AttrError| ("validation_failed", error.to_string()))?;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let call = Call::of(now, What::Tool { name: served.tool().clone(), args });
        self.ups.push_back((ticket, Asked::Call(call)));
        let running = Running { id, action: action.to_owned(), collector: Collector::new() };
        self.running.insert(ticket, running);
        Ok(())
    }

    fn answer(&mut self, running: &Running, outcome: Result<Outcome, Failure>) {
        let served = self.provider.served(&running.action);
        let outputs = outcome.and_then(|outcome| match served {
            Some(served) => served.outputs(&outcome),
            None => Ok(Bytes::from_static(b"{}")),
        });
        match outputs {
            Ok(outputs) => {
                wire::write_result(&mut self.out, running.id, "{\"outputs\":", &outputs, "}");
            }
            Err(failure) => {
                let detail = translate::detail(&failure);
                let code = translate::code(failure.kind);
                let (id, message) = (running.id, &failure.message);
                wire::write_error(&mut self.out, id, code, message, detail.as_deref());
            }
        }
    }

    fn write_empty(&mut self, id: i64) {
        wire::write_result(&mut self.out, id, "", &Bytes::from_static(b"{}"), "");
    }

    fn refuse(&mut self, id: i64, code: &str, message: &str) {
        self.notices.push_back(Notice::Refused(message.to_owned()));
        wire::write_error(&mut self.out, id, code, message, None);
    }

    /// Reads no further, and ends as soon as no answer is owed.
    fn finish(&mut self, now: Instant, shutdown: Option<i64>) {
        self.stage = ProviderState::Finishing { until: now + LAST_CALLS, shutdown };
        self.settle(now);
    }

    fn settle(&mut self, now: Instant) {
        let ProviderState::Finishing { until, shutdown } = self.stage else { return };
        if until <= now {
            for (ticket, running) in std::mem::take(&mut self.running) {
                self.ups.push_back((ticket, Asked::Up(Up::Cancel(None))));
                let message = "the provider was shut down before the call ended";
                self.refuse(running.id, "cancelled", message);
            }
        }
        if self.running.is_empty() {
            if let Some(id) = shutdown {
                self.write_empty(id);
            }
            self.stage = ProviderState::Over(Ended::Well);
        }
    }

    fn flow(&self) -> Flow {
        match self.stage {
            ProviderState::Over(_) => Flow::Close,
            ProviderState::Finishing { .. } => Flow::Pause,
            ProviderState::Open if CALLS_MAX <= self.running.len() => Flow::Pause,
            ProviderState::Open => Flow::More,
        }
    }
}

impl Machine for Server {
    fn handle_timeout(&mut self, now: Instant) {
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            ProviderState::Finishing { until, .. } => Some(until),
            ProviderState::Open | ProviderState::Over(_) => None,
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
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
        // Too many calls may run to read on: then the rest is looked at when some have ended.
        if self.handle_bytes(now, input) == Flow::More {
            if let Some(line) = self.lines.last(input) {
                self.handle_line(now, line);
            }
            if let ProviderState::Open = self.stage {
                self.finish(now, None);
            }
        }
        self.flow()
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        out.append(&mut self.out);
    }
}

impl Serving for Server {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        let Some(running) = self.running.get_mut(&ticket) else { return self.flow() };
        let Some(outcome) = running.collector.take(down) else { return self.flow() };
        if let Some(running) = self.running.remove(&ticket) {
            self.answer(&running, outcome);
        }
        self.settle(now);
        self.flow()
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.stage {
            ProviderState::Over(ended) => Some(ended),
            ProviderState::Open | ProviderState::Finishing { .. } => None,
        }
    }
}

/// The whole number that a raw value means, however it is written.
fn integer(raw: &str) -> Option<i64> {
    Some(raw).filter(|raw| kind(raw) == Kind::Number).and_then(number::integer)
}
