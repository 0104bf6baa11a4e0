//! Drives one run of `godex exec`: the requests over HTTP, the tools over the bus, the clock.
//!
//! What is asked, retried and printed is decided by [`Run`]; who shows it is a [`Surface`].

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use tokio::task::JoinSet;
use toolbus_proto::channel::Flow;
use toolbus_proto::godex::base_url::BaseUrl;
use toolbus_proto::godex::{Exchange, Lost, Run, Signal, Target, ToolCall, ToolOutput};
use toolbus_proto::http::ResponseHead;
use toolbus_proto::tool::{Call, Failure, FailureKind, ToolName};

use crate::bus::Bus;
use crate::bus::back::{LocalFuture, unknown_tool};
use crate::engine::calls::Inbox;
use crate::engine::drive::until;
use crate::task::boxed;
use crate::transport::http::{AnswerReader, Client, Origin, Proxy, Timeouts};
use crate::transport::io::{Lost as StreamError, Reader as _, Source as _};

/// Shows what a run says. What it has taken and not shown yet it keeps: a call that is dropped
/// half-way loses nothing.
pub trait Surface {
    /// Shows what there is. An error ends the run.
    fn show(&mut self, run: &mut Run) -> impl Future<Output = io::Result<()>>;

    /// Has the user to be asked whether this tool may run?
    fn must_ask(&self, _call: &ToolCall) -> bool {
        false
    }

    /// Asks whether it may.
    fn ask(&mut self, _call: &ToolCall) -> LocalFuture<'static, bool> {
        Box::pin(async { true })
    }

    /// The user has answered.
    fn asked(&mut self) {}

    /// These tools begin to run.
    fn calling(&mut self, _call: &ToolCall) {}

    /// This one has ended.
    fn called(&mut self, _index: usize) {}
}

/// What is asked of whom.
pub struct Exec<'a> {
    /// Where the server is.
    pub base_url: &'a BaseUrl,
    /// Where tokens are renewed.
    pub refresh_url: Option<&'a BaseUrl>,
    /// The bus that has a tool of that name.
    pub bus_of: &'a dyn Fn(&ToolName) -> Option<Bus>,
    /// How long each tool may take.
    pub tool_timeout: Duration,
}

/// How long the last words may take after an interruption.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Exec<'_> {
    /// Leads a run to its end. Must be called inside a `LocalSet`.
    ///
    /// Fails only if what it says cannot be shown.
    pub async fn lead(
        &self,
        run: &mut Run,
        surface: &mut impl Surface,
        interrupted: impl Future<Output = Signal>,
    ) -> io::Result<()> {
        let mut interrupted = std::pin::pin!(interrupted);
        let mut web = Web::new(self.base_url, self.refresh_url);
        let mut open: Option<Open> = None;
        let mut input = BytesMut::new();
        let mut calls = JoinSet::new();
        // One question at a time; tools that need none do not wait for it.
        let mut to_ask: VecDeque<ToolCall> = VecDeque::new();
        let mut question: Option<(ToolCall, LocalFuture<'static, bool>)> = None;
        run.start(now());
        loop {
            tokio::select! {
                biased;
                shown = surface.show(run) => shown?,
                signal = &mut interrupted => {
                    run.interrupt(signal);
                    // A reader that takes nothing must not keep us.
                    let shown = tokio::time::timeout(LAST_WORDS, surface.show(run)).await;
                    return shown.unwrap_or(Ok(()));
                }
            }
            if run.ended().is_some() {
                return Ok(());
            }
            while let Some(exchange) = run.poll_exchange() {
                input.clear();
                open = Some(web.open(exchange));
            }
            if !run.is_asking() {
                open = None;
            }
            while let Some(call) = run.poll_call() {
                match surface.must_ask(&call) {
                    true => to_ask.push_back(call),
                    false => self.call(run, surface, &mut calls, call),
                }
            }
            if question.is_none()
                && let Some(call) = to_ask.pop_front()
            {
                let answer = surface.ask(&call);
                question = Some((call, answer));
            }
            tokio::select! {
                biased;
                signal = &mut interrupted => run.interrupt(signal),
                step = next(&mut open, &mut input) => self.handle(run, &mut open, &mut input, step),
                Some(done) = calls.join_next(), if !calls.is_empty() => {
                    if let Ok((index, text, is_error)) = done {
                        surface.called(index);
                        run.handle_output(now(), index, text, is_error);
                    }
                }
                (call, may_run) = answered(&mut question) => {
                    surface.asked();
                    match may_run {
                        true => self.call(run, surface, &mut calls, call),
                        false => {
                            let why = "the user did not allow this call";
                            let failure = Failure::new(FailureKind::Cancelled, why);
                            let text = ToolOutput::failed(&failure);
                            run.handle_output(now(), call.index, text, true);
                        }
                    }
                }
                () = until(run.poll_timeout()) => run.handle_timeout(now()),
            }
        }
    }

    /// One tool begins to run, if there is one of that name.
    fn call(
        &self,
        run: &mut Run,
        surface: &mut impl Surface,
        calls: &mut JoinSet<(usize, String, bool)>,
        call: ToolCall,
    ) {
        surface.calling(&call);
        match (self.bus_of)(&call.tool) {
            Some(bus) => {
                calls.spawn_local(boxed(run_tool(bus, call, self.tool_timeout)));
            }
            None => {
                let text = ToolOutput::failed(&unknown_tool(&call.tool, []));
                run.handle_output(now(), call.index, text, true);
            }
        }
    }

    fn handle(&self, run: &mut Run, open: &mut Option<Open>, input: &mut BytesMut, step: Step) {
        let now = now();
        let flow = match step {
            Step::Head(head) => run.handle_answered(now, SystemTime::now(), head),
            Step::Chunk => run.handle_bytes(now, input),
            Step::End => {
                run.handle_eof(now, input);
                Flow::Close
            }
            Step::Lost(why) => {
                let target = open.as_ref().map_or(Target::Server, |open| open.target);
                let url = match target {
                    Target::Server => self.base_url,
                    Target::Refresh => self.refresh_url.unwrap_or(self.base_url),
                };
                let message = format!("cannot reach {}: {why}", url.as_str());
                run.handle_lost(now, input, &Lost { message });
                Flow::Close
            }
        };
        if flow == Flow::Close {
            *open = None;
        }
    }
}

/// Waits for the answer to the question, if there is one.
async fn answered(
    question: &mut Option<(ToolCall, LocalFuture<'static, bool>)>,
) -> (ToolCall, bool) {
    let Some((_, answer)) = question else { return std::future::pending().await };
    let may_run = answer.await;
    match question.take() {
        Some((call, _)) => (call, may_run),
        None => std::future::pending().await,
    }
}

/// The runtime's clock, which a test can move.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// One tool, from its call to what the model is told.
async fn run_tool(bus: Bus, call: ToolCall, patience: Duration) -> (usize, String, bool) {
    let (inbox, reply_to) = Inbox::new();
    let mut asked = Call::tool(now(), call.tool, Some(call.args));
    // However often it is heard of: it has so long.
    asked.deadline.quiet = Some(patience);
    asked.deadline.total = Some(patience);
    let running = bus.start(asked, reply_to);
    let mut output = ToolOutput::within(patience);
    loop {
        let down = inbox.next(&running).await;
        if let Some((text, is_error)) = output.take(down) {
            running.forget();
            return (call.index, text, is_error);
        }
    }
}

/// The clients for those who are asked, made when they are.
struct Web<'a> {
    base_url: &'a BaseUrl,
    refresh_url: Option<&'a BaseUrl>,
    server: Option<Client>,
}

/// A request that is out, or why it is not. Dropping it closes the exchange.
struct Open {
    target: Target,
    answer: Result<AnswerReader, String>,
}

enum Step {
    Head(ResponseHead),
    Chunk,
    End,
    Lost(String),
}

/// Connections are waited for as long as the run waits for anything.
const TIMEOUTS: Timeouts = Timeouts { connect: Duration::from_secs(24 * 3600), head: None };

impl<'a> Web<'a> {
    fn new(base_url: &'a BaseUrl, refresh_url: Option<&'a BaseUrl>) -> Web<'a> {
        Web { base_url, refresh_url, server: None }
    }

    fn open(&mut self, exchange: Exchange) -> Open {
        let Exchange { target, head, body } = exchange;
        let client = match (target, &self.server) {
            (Target::Server, Some(client)) => Ok(client.clone()),
            (Target::Server, None) => client(self.base_url),
            (Target::Refresh, _) => client(self.refresh_url.unwrap_or(self.base_url)),
        };
        if target == Target::Server {
            self.server = client.as_ref().ok().cloned();
        }
        let answer = client.map(|client| AnswerReader::ask(&client, &head, body, TIMEOUTS));
        Open { target, answer }
    }
}

async fn next(open: &mut Option<Open>, input: &mut BytesMut) -> Step {
    let Some(open) = open else { return std::future::pending().await };
    let answer = match &mut open.answer {
        Ok(answer) => answer,
        Err(why) => return Step::Lost(std::mem::take(why)),
    };
    match answer {
        AnswerReader::Head(_) => match answer.head().await {
            Ok(head) => Step::Head(head),
            Err(lost) => Step::Lost(lost.failure.message),
        },
        AnswerReader::Body(_) => match answer.read(input).await {
            Ok(1..) => Step::Chunk,
            Ok(0) => Step::End,
            Err(error) => Step::Lost(StreamError::of(error).failure.message),
        },
    }
}

/// A client of one server, through the proxy that the environment names, never for our own
/// machine.
fn client(url: &BaseUrl) -> Result<Client, String> {
    const IDLE: Duration = Duration::from_secs(90);
    let origin = origin(url)?;
    if url.is_loopback() {
        return Ok(Client::new(origin, 1, IDLE));
    }
    let variable = |name: &str| std::env::var(name).ok();
    let proxy = Proxy::of(variable, url.is_secure, &url.host, url.port);
    Ok(match proxy.map_err(|error| error.to_string())? {
        Some(proxy) => Client::through(proxy, origin, 1, IDLE),
        None => Client::new(origin, 1, IDLE),
    })
}

#[cfg(feature = "tls")]
fn origin(url: &BaseUrl) -> Result<Origin, String> {
    use crate::transport::tls::{ClientTls, Inside};
    let tls = url.is_secure.then(|| ClientTls::load(None, None, Inside::Http)).transpose();
    let tls = tls.map_err(|error| format!("toolbus cannot speak TLS: {error}"))?;
    Ok(Origin { host: url.host.clone(), port: url.port, tls })
}

#[cfg(not(feature = "tls"))]
fn origin(url: &BaseUrl) -> Result<Origin, String> {
    match url.is_secure {
        true => Err("toolbus was built without TLS".to_owned()),
        false => Ok(Origin { host: url.host.clone(), port: url.port }),
    }
}
