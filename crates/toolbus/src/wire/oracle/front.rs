//! Being an oracle: the tools of the bus for the Cairo program that started us.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use toolbus_proto::channel::Ended;
use toolbus_proto::json::Json;
use toolbus_proto::oracle::signature::{self, Function};
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{Behind, Served, Server, Settings, known};
use toolbus_proto::tool::{ToolName, ToolSpec, Wire};

use crate::bus::Bus;
use crate::engine::front::Front;
use crate::task::{LocalFuture, boxed};
use crate::transport::io::{Sink, Source};
use crate::transport::pipe::{Input, Output};
use crate::wake::Wake;

/// Names that begin so are ours and never a tool's.
const OURS: &str = "toolbus.";

/// What can be set about an oracle of ours.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Signatures to offer tools by, whatever is known of them otherwise.
    pub functions: Vec<Function>,
    /// Limits and leniency of the wire.
    pub settings: Settings,
    /// How long a call may be quiet; else as its back says.
    pub timeout: Option<Duration>,
}

/// Serves the tools of a bus that is open, until the executor has had enough.
///
/// When the executor neither writes nor reads any more, what is under way is cancelled.
///
/// In a box: so it is compiled here, and not once more by who calls it, for size perhaps.
pub fn serve(
    bus: Rc<Bus>,
    options: Options,
    input: Input,
    output: Output,
) -> LocalFuture<'static, Ended> {
    boxed(async move {
        let served = served(&bus, &options.functions);
        let behind = behind(&bus, &options.functions);
        let untold = bindings(&bus, &options.functions, bus.unlisted());
        let machine = Server::listing(&options.settings, served, untold, behind);
        let front = Front::new(machine, bus, options.timeout);
        let output = Rc::new(output);
        let executor = Rc::new(Client::default());
        let source =
            Listening { input: Some(input), output: output.clone(), executor: executor.clone() };
        tokio::select! {
            ended = front.serve(source, Answering(output.clone())) => ended,
            () = executor.is_gone(&output) => {
                front.cancel_all();
                Ended::Well
            }
        }
    })
}

/// Each tool with the signature it is offered by (`docs/protocols/oracle.md` H5).
fn served(bus: &Bus, declared: &[Function]) -> Vec<Served> {
    bindings(bus, declared, bus.offered())
}

fn bindings(bus: &Bus, declared: &[Function], tools: Vec<ToolSpec>) -> Vec<Served> {
    let tools = tools.into_iter();
    let offered = tools.filter(|tool| !tool.name.as_str().starts_with(OURS));
    offered.map(|tool| Served { binding: binding(bus, declared, &tool), tool: tool.name }).collect()
}

/// The oracles behind the bus, each with the functions that are declared and that it does not offer.
fn behind(bus: &Bus, declared: &[Function]) -> Vec<Behind> {
    let tools = callable(bus);
    let is_offered = |function: &Function| is_offered(&tools, function);
    let mut oracles: Vec<Behind> = tools
        .iter()
        .filter_map(|tool| generic(bus, tool))
        .map(|(prefix, invoke)| Behind { prefix, invoke, functions: Vec::new() })
        .collect();
    for function in declared.iter().filter(|function| !is_offered(function)) {
        let oracle = oracles.iter_mut().find(|oracle| function.name().starts_with(&oracle.prefix));
        if let Some(oracle) = oracle {
            oracle.functions.push(function.clone());
        }
    }
    oracles
}

fn is_offered(tools: &[ToolSpec], function: &Function) -> bool {
    tools.iter().any(|tool| tool.name.as_str() == function.name())
}

/// All tools, also those that are not spoken of.
fn callable(bus: &Bus) -> Vec<ToolSpec> {
    let mut tools = bus.offered();
    tools.extend(bus.unlisted());
    tools
}

/// Can a function that is declared be called: as a tool, or as a selector of an oracle?
pub fn is_callable(bus: &Bus, function: &Function) -> bool {
    let tools = callable(bus);
    let oracles = || tools.iter().filter_map(|tool| generic(bus, tool));
    is_offered(&tools, function)
        || oracles().any(|(prefix, _)| function.name().starts_with(&prefix))
}

/// If a tool is the generic one of an oracle: what selectors of that oracle begin with here, and the
/// tool's name.
fn generic(bus: &Bus, tool: &ToolSpec) -> Option<(String, ToolName)> {
    let (back, own) = bus.resolve(&tool.name)?;
    let invoke = known::generic_invoke();
    let native =
        tool.native.as_ref().filter(|native| native.wire == toolbus_proto::oracle::WIRE)?;
    let is_generic = back.wire() == toolbus_proto::oracle::WIRE
        && own.as_str() == invoke.name()
        && native.text == invoke.canonical();
    let prefix = tool.name.as_str().strip_suffix(invoke.name()).filter(|_| is_generic)?;
    Some((prefix.to_owned(), tool.name.clone()))
}

fn binding(bus: &Bus, declared: &[Function], tool: &ToolSpec) -> Binding {
    let name = tool.name.as_str();
    let input = tool.input.as_str();
    if let Some(function) = declared.iter().find(|function| function.name() == name) {
        return Binding::declared(function.clone(), input);
    }
    if bus.may_search()
        && let Some(function) = known::search(name)
    {
        return Binding::declared(function, input);
    }
    if let Some(native) =
        tool.native.as_ref().filter(|native| native.wire == toolbus_proto::oracle::WIRE)
        && let Ok(text) = str::from_utf8(&native.text)
        && let Ok([function]) = signature::parse(text).as_deref()
    {
        return Binding::of_oracle(function.renamed(name));
    }
    if let Some((back, own)) = bus.resolve(&tool.name)
        && back.wire() == Wire::INSIDE
        && let Some(function) = known::builtin(own.as_str())
    {
        let rule = bus.rule_of(&tool.name);
        let is_fixed = |param: &str| rule.as_ref().is_some_and(|rule| rule.fixed.has(param));
        let function = function.without(is_fixed);
        return Binding::declared(function.renamed(name), input);
    }
    Binding::from_schemas(name, input, tool.output.as_ref().map(Json::as_str))
}

/// What the executor writes. That it reads no more counts as the end, too (O3).
struct Listening {
    input: Option<Input>,
    output: Rc<Output>,
    executor: Rc<Client>,
}

impl Source for Listening {
    async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        let Some(input) = &mut self.input else { return Ok(0) };
        tokio::select! {
            biased;
            read = input.read(into) => {
                if !matches!(read, Ok(1..)) {
                    self.executor.has_ended.set(true);
                    self.executor.changed.ring();
                }
                read
            }
            () = self.output.closed() => {
                *self.executor.unread.borrow_mut() = self.input.take();
                self.executor.changed.ring();
                Ok(0)
            }
        }
    }

    async fn ended(&self) {
        if let Some(input) = &self.input {
            input.ended().await;
        }
    }
}

/// What the executor reads.
struct Answering(Rc<Output>);

impl Sink for Answering {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write(pieces).await
    }
}

/// How far the executor has left.
#[derive(Default)]
struct Client {
    /// It writes no more.
    has_ended: Cell<bool>,
    /// It reads no more, but may still write.
    unread: RefCell<Option<Input>>,
    changed: Wake,
}

impl Client {
    /// Waits until it neither writes nor reads.
    async fn is_gone(&self, output: &Output) {
        loop {
            self.changed.rung().await;
            if self.has_ended.get() {
                return output.closed().await;
            }
            let unread = self.unread.borrow_mut().take();
            if let Some(mut input) = unread {
                let mut thrown_away = BytesMut::new();
                while let Ok(1..) = input.read(&mut thrown_away).await {
                    thrown_away.clear();
                }
                return;
            }
        }
    }
}
