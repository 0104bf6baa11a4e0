//! The oracle: our end when an executor calls our tools (`docs/protocols/oracle.md` 9).
//!
//! Requests are answered strictly in order, one at a time; what arrives meanwhile stays where
//! it was read to. Nothing that arrives ends the conversation but a goodbye, a wrong
//! acknowledgement, or the end of the stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::codec;
use super::felt::{Felt, Leniency};
use super::signature::Function;
use super::translate::{Answer, Binding};
use super::wire::{self, Invoke};
use super::{Settings, felts, known};
use crate::channel::{Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket};
use crate::collect::Collector;
use crate::frame::lines::{Lines, TooLong};
use crate::json::{Json, Kind, edit, write_string};
use crate::jsonrpc::{self, Id, Message, Why, kind, string};
use crate::limit::reason_of;
use crate::listing;
use crate::tool::{Call, Code, Failure, FailureKind, Outcome, ToolName, What};

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;

/// What may be read ahead while a call runs, and no more than a line.
const AHEAD_BYTES_MAX: usize = 256 * 1024;

/// A tool and the function it is offered as; that function's name is its selector.
#[derive(Debug, Clone)]
pub struct Served {
    /// The tool's name on the bus.
    pub tool: ToolName,
    /// What it takes and gives, in Cairo's types.
    pub binding: Binding,
}

/// An oracle behind the bus. Whatever selectors it has can be called: felts pass as they are.
#[derive(Debug, Clone)]
pub struct Behind {
    /// What its selectors begin with here: nothing, or the name of its back and a dot.
    pub prefix: String,
    /// Its generic tool `invoke`.
    pub invoke: ToolName,
    /// Functions that it has and does not offer, by their selectors here. Calls of these are checked.
    pub functions: Vec<Function>,
}

/// Our end of one conversation with an executor.
#[derive(Debug)]
pub struct Server {
    leniency: Leniency,
    served: BTreeMap<String, Arc<Served>>,
    behind: Vec<Behind>,
    reserved: [Arc<Served>; 2],
    lines: Lines,
    ahead_bytes_max: usize,
    state: ServerState,
    next_ticket: u64,
    ups: VecDeque<(Ticket, Asked)>,
    notices: VecDeque<Notice>,
    out: Outbox,
}

#[derive(Debug)]
enum ServerState {
    /// `ready` is out, its answer is not in.
    Greeting,
    Listening,
    Answering(OpenCall),
    Over(Ended),
}

#[derive(Debug)]
struct OpenCall {
    ticket: Ticket,
    id: Id,
    reading: Reading,
    collector: Collector,
}

/// How felts are made of the reply to a call.
#[derive(Debug)]
enum Reading {
    /// By the signature of a tool.
    Tool(Arc<Served>),
    /// They are felts, those that this function gives, if it is known.
    Felts(Option<Function>),
}

/// Lists the tools as JSON.
const TOOLS: &str = "toolbus.tools";
/// Calls any tool with JSON.
const CALL: &str = "toolbus.call";

impl Server {
    /// Says that it is ready, as soon as it is asked what to write.
    pub fn new(settings: &Settings, served: Vec<Served>) -> Server {
        Server::before(settings, served, Vec::new())
    }

    /// The same before oracles, of which selectors can be called that they do not offer.
    pub fn before(settings: &Settings, served: Vec<Served>, behind: Vec<Behind>) -> Server {
        Server::listing(settings, served, Vec::new(), behind)
    }

    /// The same, with tools that it does not speak of: callers know them otherwise.
    pub fn listing(
        settings: &Settings,
        served: Vec<Served>,
        untold: Vec<Served>,
        behind: Vec<Behind>,
    ) -> Server {
        let by_name =
            |served: Served| (served.binding.function().name().to_owned(), Arc::new(served));
        let mut served: BTreeMap<_, _> = served.into_iter().map(by_name).collect();
        let tools = served.values().map(|served| served.binding.function());
        let declared = behind.iter().flat_map(|oracle| &oracle.functions);
        let functions: BTreeMap<_, _> =
            tools.chain(declared).map(|function| (function.name(), function.canonical())).collect();
        let functions: Vec<_> = functions.into_values().collect();
        let mut out = Outbox::new();
        wire::write_ready(&mut out, &functions);
        for (name, untold) in untold.into_iter().map(by_name) {
            served.entry(name).or_insert(untold);
        }
        Server {
            leniency: settings.leniency,
            served,
            behind,
            reserved: reserved(),
            lines: Lines::new(settings.line_bytes_max),
            ahead_bytes_max: AHEAD_BYTES_MAX.min(settings.line_bytes_max),
            state: ServerState::Greeting,
            next_ticket: 0,
            ups: VecDeque::new(),
            notices: VecDeque::new(),
            out,
        }
    }

    /// Has the executor acknowledged us?
    pub fn is_serving(&self) -> bool {
        matches!(self.state, ServerState::Listening | ServerState::Answering(_))
    }

    fn handle_line(&mut self, now: Instant, line: Result<Bytes, TooLong>) {
        if let Ok(line) = &line
            && line.iter().all(u8::is_ascii_whitespace)
        {
            return;
        }
        match (&self.state, line) {
            (ServerState::Greeting, Ok(line)) => self.handle_greeting(&line),
            (ServerState::Greeting, Err(too_long)) => self.end(Ended::Broke(too_long.to_string())),
            (_, Ok(line)) => self.handle_message(now, &line),
            (_, Err(too_long)) => self.refuse(&Id::NULL, INVALID_REQUEST, &too_long.to_string()),
        }
    }

    /// What comes before anything else must be the answer to `ready` (O2).
    fn handle_greeting(&mut self, line: &Bytes) {
        let unexpected = || {
            let shown = crate::printable::printable(line, 200);
            Ended::Broke(format!("expected the answer to ready, got: {shown}"))
        };
        let ended = match wire::RULES.read(line) {
            Ok(Message::Response { id, error, .. }) if id.as_number() == Some(0) => {
                match error.filter(|raw| kind(raw) != Kind::Null) {
                    None => {
                        self.state = ServerState::Listening;
                        return;
                    }
                    Some(error) => Ended::Refused(wire::failure(line, error).message),
                }
            }
            Ok(Message::Notification { method, .. }) if method == "shutdown" => Ended::Well,
            _ => unexpected(),
        };
        self.end(ended);
    }

    fn handle_message(&mut self, now: Instant, line: &Bytes) {
        match wire::RULES.read(line) {
            Ok(Message::Request { id, method, params }) if method == "invoke" => {
                self.handle_invoke(now, id, params);
            }
            Ok(Message::Request { id, method, .. }) => {
                let message = format!("unknown request method: {}", quoted(&method));
                self.refuse(&id, UNKNOWN_METHOD, &message);
            }
            Ok(Message::Notification { method, .. }) if method == "shutdown" => {
                self.end(Ended::Well);
            }
            Ok(Message::Notification { method, .. }) => {
                self.ignore(format!("notification {}", quoted(&method)));
            }
            Ok(Message::Response { id, result: None, error: None }) => {
                self.refuse(&id, INVALID_REQUEST, &Why::Neither.to_string());
            }
            Ok(Message::Response { id, .. }) => self.ignore(format!("response {}", id.to_json())),
            // An answer to nothing that we asked: it gets no answer itself.
            Err(jsonrpc::Invalid { why: Why::NoId, .. }) => self.ignore("response".to_owned()),
            Err(invalid) => {
                let is_broken = invalid.why.is_parse_error();
                let code = if is_broken { PARSE_ERROR } else { INVALID_REQUEST };
                let id = invalid.id.clone().unwrap_or(Id::NULL);
                self.refuse(&id, code, &invalid.to_string());
            }
        }
    }

    fn handle_invoke(&mut self, now: Instant, id: Id, params: Option<&str>) {
        let (reading, what) = match self.read_invoke(params) {
            Ok(asked) => asked,
            Err(message) => return self.refuse(&id, INVALID_PARAMS, &message),
        };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.ups.push_back((ticket, Asked::Call(Call::of(now, what))));
        let collector = Collector::new();
        self.state = ServerState::Answering(OpenCall { ticket, id, reading, collector });
    }

    fn read_invoke(&self, params: Option<&str>) -> Result<(Reading, What), String> {
        let Invoke { selector, calldata } = Invoke::read(params)?;
        let calldata = felts::read(calldata, self.leniency).map_err(|error| error.to_string())?;
        let reserved =
            self.reserved.iter().find(|served| served.binding.function().name() == selector);
        let Some(served) = reserved.or_else(|| self.served.get(&*selector)) else {
            return self.pass_on(&selector, &calldata);
        };
        let args = served.binding.arguments(&calldata).map_err(|error| error.to_string())?;
        let args = Json::from_trusted(args);
        let what = match &*selector {
            TOOLS => What::Tools,
            CALL => any_call(&args)?,
            _ => What::Tool { name: served.tool.clone(), args: Some(args) },
        };
        Ok((Reading::Tool(served.clone()), what))
    }

    /// A selector of an oracle behind us: it knows best what it has.
    fn pass_on(&self, selector: &str, calldata: &[Felt]) -> Result<(Reading, What), String> {
        let own = |oracle: &Behind| Some(selector.strip_prefix(&oracle.prefix)?.to_owned());
        let found = self.behind.iter().find_map(|oracle| Some((oracle, own(oracle)?)));
        let (oracle, own) = found.ok_or_else(|| self.unknown_selector(selector))?;
        let function = oracle.functions.iter().find(|function| function.name() == selector);
        if let Some(function) = function {
            let fits = codec::decode_args(function, codec::ArgsForm::Signature, calldata);
            fits.map_err(|error| error.to_string())?;
        }
        let mut args = b"{\"selector\":".to_vec();
        write_string(&mut args, &own);
        args.extend_from_slice(b",\"calldata\":");
        felts::write(calldata, &mut args);
        args.push(b'}');
        let args = Some(Json::from_trusted(args));
        let what = What::Tool { name: oracle.invoke.clone(), args };
        Ok((Reading::Felts(function.cloned()), what))
    }

    fn unknown_selector(&self, selector: &str) -> String {
        let provided: Vec<_> = self.served.keys().map(|name| quoted(name)).collect();
        let provided = if provided.is_empty() { "nothing".into() } else { provided.join(", ") };
        format!("unknown selector: {}, this oracle provides: {provided}", quoted(selector))
    }

    fn answer(&mut self, call: &OpenCall, outcome: Result<Outcome, Failure>) {
        let id = &call.id;
        let felts = outcome.and_then(|outcome| call.reading.felts(&outcome, self.leniency));
        match felts {
            Ok(found) => {
                let mut text = Vec::new();
                felts::write(&found, &mut text);
                jsonrpc::write_result(&mut self.out, id, &text.into());
            }
            Err(failure) => {
                let code = match failure.kind {
                    FailureKind::UnknownTool | FailureKind::InvalidArguments => INVALID_PARAMS,
                    _ => INTERNAL_ERROR,
                };
                let data = failure_data(&failure);
                jsonrpc::write_error(&mut self.out, id, code, &failure.message, Some(&data));
            }
        }
    }

    fn refuse(&mut self, id: &Id, code: i64, message: &str) {
        self.notices.push_back(Notice::Refused(message.to_owned()));
        jsonrpc::write_error(&mut self.out, id, code, message, None);
    }

    fn ignore(&mut self, what: String) {
        self.notices.push_back(Notice::Ignored(what));
    }

    fn end(&mut self, ended: Ended) {
        self.state = ServerState::Over(ended);
    }

    fn flow(&self, input: &BytesMut) -> Flow {
        match self.state {
            ServerState::Over(_) => Flow::Close,
            ServerState::Answering(_) if self.ahead_bytes_max <= input.len() => Flow::Pause,
            _ => Flow::More,
        }
    }
}

impl Machine for Server {
    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl Channel for Server {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while matches!(self.state, ServerState::Greeting | ServerState::Listening) {
            let Some(line) = self.lines.next(input) else { break };
            self.handle_line(now, line);
        }
        self.flow(input)
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        if let Flow::Close = self.handle_bytes(now, input) {
            return Flow::Close;
        }
        // What came before the end is answered first; the hands come back when it is.
        if let ServerState::Answering(_) = self.state {
            return Flow::Pause;
        }
        if let Some(line) = self.lines.last(input) {
            self.handle_line(now, line);
        }
        if let ServerState::Greeting | ServerState::Listening = self.state {
            self.end(Ended::Well);
        }
        self.flow(input)
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
        let ServerState::Answering(answering) = &mut self.state else { return Flow::More };
        if answering.ticket != ticket {
            return Flow::More;
        }
        let Some(outcome) = answering.collector.take(down) else { return Flow::More };
        let ServerState::Answering(answering) =
            std::mem::replace(&mut self.state, ServerState::Listening)
        else {
            return Flow::More;
        };
        self.answer(&answering, outcome);
        Flow::More
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.state {
            ServerState::Over(ended) => Some(ended),
            _ => None,
        }
    }
}

impl Reading {
    fn felts(&self, outcome: &Outcome, leniency: Leniency) -> Result<Vec<Felt>, Failure> {
        let unfit = || broke("the reply is of a kind that felts cannot hold".into());
        let felts = match (self, outcome) {
            (Reading::Tool(served), Outcome::Text(text)) => {
                served.binding.felts(Answer::Text(text))
            }
            (Reading::Tool(served), Outcome::Value(json)) => {
                served.binding.felts(Answer::Json(json.as_str()))
            }
            (Reading::Tool(served), Outcome::Tools(tools)) => {
                served.binding.felts(Answer::Json(listing::tools(&**tools).as_str()))
            }
            (Reading::Felts(function), Outcome::Value(json)) => {
                let felts = felts::read(json.as_str(), leniency);
                let felts = felts.map_err(|error| broke(error.to_string()))?;
                match function {
                    Some(function) => codec::decode_result(function, &felts).map(|_| felts),
                    None => Ok(felts),
                }
            }
            _ => return Err(unfit()),
        };
        felts.map_err(|error| broke(error.to_string()))
    }
}

/// The two selectors that every oracle of ours has, though it does not list them.
fn reserved() -> [Arc<Served>; 2] {
    [known::toolbus_tools(), known::toolbus_call()].map(|function| {
        let tool = ToolName::new(function.name());
        Arc::new(Served { tool, binding: Binding::of_oracle(function) })
    })
}

fn broke(message: String) -> Failure {
    Failure::new(FailureKind::BrokeProtocol, message)
}

/// What the arguments of `toolbus.call` ask for.
fn any_call(args: &Json) -> Result<What, String> {
    let members: BTreeMap<&str, &serde_json::value::RawValue> =
        args.read().map_err(|error| error.to_string())?;
    let tool = members.get("tool").and_then(|raw| string(raw.get()));
    let tool = tool.ok_or("parameter `tool` must be text")?;
    let args = members.get("arguments").map(|raw| Json::from_trusted(raw.get().to_owned()));
    Ok(What::Tool { name: ToolName::new(&*tool), args })
}

/// What a program can make of a failure.
fn failure_data(failure: &Failure) -> Json {
    let mut data = format!("{{\"kind\":\"{}\"", failure.kind).into_bytes();
    match &failure.code {
        Some(Code::Number(number)) => {
            data.extend_from_slice(format!(",\"code\":{number}").as_bytes());
        }
        Some(Code::Word(word)) => {
            data.extend_from_slice(b",\"code\":");
            write_string(&mut data, word);
        }
        None => {}
    }
    if let Some(detail) = failure.detail.as_ref().filter(|_| reason_of(failure).is_some()) {
        for (name, value) in edit::members(detail.as_str()) {
            data.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
        }
    } else if let Some(detail) = &failure.detail {
        data.extend_from_slice(b",\"detail\":");
        data.extend_from_slice(detail.compact().as_bytes());
    }
    data.push(b'}');
    Json::from_trusted(data)
}

fn quoted(text: &str) -> String {
    Json::of(text).to_string()
}
