//! The end of a command: a bus whose backs are another process's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::time::timeout;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::run::{
    self, CALL, Destination, FRESH_TOOLS, FRONTS, Greeting, PROTOCOL, RemoteCall, TOOLS, WIRES,
    read_tools,
};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Provenance, ToolSpec, What, Wire};

use super::socket::is_trusted;
use super::stamp::Stamp;
use crate::bus::back::{Back, LocalFuture};
use crate::bus::observe::{Observer, kind_of};
use crate::bus::{Bus, answer};
use crate::chance;
use crate::engine::calls::{Inbox, ReplyTo, RunningCall};
use crate::engine::client::{Client, Sharing};
use crate::peer::Registry;
use crate::transport::Stream;

/// How long a `toolbus serve` has to greet.
const GREETS_WITHIN: Duration = Duration::from_secs(1);

/// A `toolbus serve` that makes the calls of a bus in its place.
pub struct Elsewhere {
    client: Client<run::Client>,
    pid: u32,
    /// What the backs turned out to speak whose addresses do not say it.
    wires: RefCell<BTreeMap<String, Wire>>,
}

/// As what, and for whom, a command asks.
#[derive(Default)]
pub struct AskedAs {
    /// The view that it was told to look through.
    pub view: Option<String>,
    /// The caller that it was told to be.
    pub caller: Option<String>,
    /// What its user answers, as the clients of MCP say it; `None` if there is no user to be asked.
    pub asks: Option<Json>,
    /// The backs themselves are asked, whatever the lock has of them.
    pub is_fresh: bool,
    /// Who observes its calls here; those who keep count of them are elsewhere, too.
    pub observers: Vec<Rc<dyn Observer>>,
}

/// The way to another process, of one bus.
pub(in crate::bus) struct Lent {
    elsewhere: Rc<Elsewhere>,
    asking: AskedAs,
    observers: Rc<[Rc<dyn Observer>]>,
}

/// Why no `toolbus serve` is asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotUsed {
    /// There is none.
    #[error("no toolbus serve runs for this config")]
    Nobody,
    /// There is one that would do something else.
    #[error("toolbus serve (pid {pid}) is not used: {why}")]
    Unlike {
        /// Its process.
        pid: u32,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Elsewhere {
    /// The `toolbus serve` whose socket is in this folder, if it has the same bus.
    pub async fn find(folder: &Path, stamp: &Stamp) -> Result<Elsewhere, NotUsed> {
        let (stream, greeting) = greeted(folder, stamp).await?;
        let unlike = |why| Err(NotUsed::Unlike { pid: greeting.pid, why });
        match () {
            () if greeting.digest != stamp.digest => unlike("it has another version of the config"),
            () if greeting.env != stamp.env => unlike("its environment differs"),
            () => Ok(Elsewhere::over(stream, greeting.pid)),
        }
    }

    /// The same, whatever it makes of the config: for what is no call.
    pub async fn find_any(folder: &Path, stamp: &Stamp) -> Result<Elsewhere, NotUsed> {
        let (stream, greeting) = greeted(folder, stamp).await?;
        Ok(Elsewhere::over(stream, greeting.pid))
    }

    fn over(stream: UnixStream, pid: u32) -> Elsewhere {
        let (source, sink, _rest) = Stream::Unix(stream).split();
        let machine = run::Client::new(pid);
        let client = Client::new("toolbus serve", machine, Sharing::Alone, source, sink);
        Elsewhere { client, pid, wires: RefCell::default() }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where its fronts listen: each by its name, and the line that was said of it.
    pub async fn fronts(&self) -> Vec<(String, String)> {
        let asked = self.ask(FRONTS, Bytes::new()).await;
        match asked {
            Ok(Outcome::Value(fronts)) => fronts.read().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// This back speaks the wire of this name.
    fn learn(&self, back: &str, wire: &str) {
        if let Some(kind) = Registry::default().find(wire) {
            self.wires.borrow_mut().insert(back.to_owned(), kind.wire());
        }
    }

    /// Is it still there?
    fn is_there(&self) -> bool {
        self.client.takes_calls()
    }

    async fn ask(&self, method: &'static [u8], body: Bytes) -> Result<Outcome, Failure> {
        let (inbox, reply_to) = Inbox::new();
        let running = self.client.start(asked(method, body), reply_to);
        inbox.whole(running).await
    }

    /// Says goodbye, and waits until all that was said is on its way.
    async fn close(&self) {
        if self.is_there() {
            // It closes when it has heard that nothing more comes, which takes no time.
            let _ = timeout(GREETS_WITHIN, self.client.close()).await;
        }
    }
}

/// Connects, and hears the greeting.
async fn greeted(folder: &Path, stamp: &Stamp) -> Result<(UnixStream, Greeting), NotUsed> {
    let path = stamp.socket_in(folder);
    let connected = timeout(GREETS_WITHIN, UnixStream::connect(&path)).await;
    let Ok(Ok(mut stream)) = connected else { return Err(NotUsed::Nobody) };
    // What is said there is for our own eyes.
    let credentials = stream.peer_cred().map_err(|_| NotUsed::Nobody)?;
    if !is_trusted(credentials.uid()) {
        return Err(NotUsed::Nobody);
    }
    let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default();
    let unlike = |why| NotUsed::Unlike { pid, why };
    let said = timeout(GREETS_WITHIN, first_line(&mut stream)).await;
    let Ok(Ok(line)) = said else { return Err(unlike("it does not answer")) };
    let why = "it is another version of toolbus";
    let greeting = Greeting::read(&line).ok_or_else(|| unlike(why))?;
    match greeting.protocol == PROTOCOL {
        true => Ok((stream, greeting)),
        false => Err(NotUsed::Unlike { pid: greeting.pid, why }),
    }
}

/// Nothing may come behind it before something was asked.
async fn first_line(stream: &mut UnixStream) -> io::Result<Bytes> {
    let mut line = BytesMut::with_capacity(1024);
    while !line.ends_with(b"\n") {
        if stream.read_buf(&mut line).await? == 0 || Greeting::BYTES_MAX < line.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(line.freeze())
}

fn asked(method: &'static [u8], body: Bytes) -> Call {
    let method = Bytes::from_static(method);
    Call::of(Instant::now(), What::Native { wire: run::WIRE, method, body })
}

impl Bus {
    /// The same bus, whose backs are those of that process as long as it is there.
    #[must_use]
    pub fn lent_to(mut self, elsewhere: Rc<Elsewhere>, mut asking: AskedAs) -> Bus {
        for member in &mut self.members {
            // No other has it: this bus has just been made.
            if let Some(member) = Rc::get_mut(member) {
                member.back = Rc::new(RemoteBack {
                    name: member.name.clone(),
                    elsewhere: elsewhere.clone(),
                    is_fresh: asking.is_fresh,
                    is_bare: member.address.is_bare(),
                    own: member.back.clone(),
                });
            }
        }
        let observers = std::mem::take(&mut asking.observers).into();
        Bus { lent: Some(Rc::new(Lent { elsewhere, asking, observers })), ..self }
    }

    /// Finds out which wires its backs speak whose addresses do not say so, if another process has
    /// them. Tells whether that is so.
    pub async fn learn_lent_wires(&self) -> bool {
        let Some(lent) = self.lent() else { return false };
        for member in &self.members {
            if member.address.is_bare() {
                let name = Bytes::copy_from_slice(member.name.as_bytes());
                let wire = lent.elsewhere.ask(WIRES, name).await;
                if let Ok(Outcome::Value(name)) = wire {
                    let name = name.string().unwrap_or_default();
                    lent.elsewhere.learn(&member.name, &name);
                }
            }
        }
        lent.elsewhere.is_there()
    }

    /// Waits until all that was said to the other process is on its way.
    pub(in crate::bus) async fn part_from_lent(&self) {
        if let Some(lent) = &self.lent {
            lent.elsewhere.close().await;
        }
    }

    /// The process that makes its calls, if one does.
    pub(in crate::bus) fn lent(&self) -> Option<&Rc<Lent>> {
        self.lent.as_ref().filter(|lent| lent.elsewhere.is_there())
    }

    /// Makes a call by the other process. Whose it is, and what is said of a name that no tool has,
    /// is found out here, as if there were no other.
    pub(in crate::bus) fn start_elsewhere(
        &self,
        lent: &Rc<Lent>,
        call: Call,
        down: ReplyTo,
    ) -> RunningCall {
        let observers = self.observers.replaced(lent.observers.clone());
        observers.start(call, down, |mut call, down, seen| {
            let to = match &call.what {
                What::Tool { name, .. } => match self.look_up(name) {
                    Some((member, own, _)) => {
                        let to = Destination::Tool { back: member.name.to_string(), own };
                        if let Some(seen) = seen {
                            if let Some(trace) = &mut call.trace {
                                *trace = trace.passed_on(chance::bytes());
                            }
                            let (wire, kind) = (member.back.wire(), member.address.kind());
                            if let Err(failure) = seen.begin(&member.name, wire, kind, &mut call) {
                                return done(&down, Err(failure));
                            }
                        }
                        to
                    }
                    None => {
                        let why = self.outage(name).unwrap_or_else(|| self.unknown(name));
                        self.see_refusal(seen, name, &why);
                        let hidden = match why.kind {
                            FailureKind::UnknownTool => self.hidden(name),
                            _ => None,
                        };
                        let hidden = hidden.map(|(back, own)| (back.to_string(), own));
                        Destination::Nowhere { why: Box::new(why), hidden }
                    }
                },
                What::Native { wire, .. } => match self.only(*wire) {
                    Ok(member) => Destination::Back(member.name.to_string()),
                    Err(failure) => return done(&down, Err(failure)),
                },
                What::Tools => {
                    return done(&down, Ok(Outcome::Tools(self.offered().into())));
                }
            };
            match is_free(&call) {
                false => self.send(lent, to, call, down),
                true => self.send_or_make(lent.clone(), to, call, down),
            }
        })
    }

    fn send(&self, lent: &Lent, to: Destination, mut call: Call, down: ReplyTo) -> RunningCall {
        let AskedAs { view, caller, asks, .. } = &lent.asking;
        if let Some(asks) = asks
            && call.provenance.is_none()
        {
            let known = Provenance { asks: Some(asks.clone()), ..Provenance::default() };
            call.provenance = Some(Box::new(known));
        }
        let (front, caller) = (self.observers.front_name().to_owned(), caller.clone());
        let sent = RemoteCall { front, view: view.clone(), caller, to, call };
        lent.elsewhere.client.start(asked(CALL, sent.write(Instant::now())), down)
    }

    /// Asks for what can be asked for again: the other process may end before it answers.
    fn send_or_make(
        &self,
        lent: Rc<Lent>,
        to: Destination,
        call: Call,
        down: ReplyTo,
    ) -> RunningCall {
        let bus = self.clone();
        answer(call.deadline, down, async move {
            let (inbox, reply_to) = Inbox::new();
            let running = bus.send(&lent, to, call.clone(), reply_to);
            match inbox.whole(running).await {
                Err(_) if !lent.elsewhere.is_there() => {}
                ended => return ended,
            }
            let (inbox, reply_to) = Inbox::new();
            let running = bus.start(call, reply_to);
            inbox.whole(running).await
        })
    }
}

/// Is it no call of a tool, nor anything else that counts as a call?
fn is_free(call: &Call) -> bool {
    match &call.what {
        What::Native { wire, method, body } => {
            kind_of(*wire).is_none_or(|kind| kind.counted_as(method, body).is_none())
        }
        _ => false,
    }
}

fn done(down: &ReplyTo, outcome: Result<Outcome, Failure>) -> RunningCall {
    let _ = down.send(Down::Done(outcome));
    RunningCall::ended()
}

/// A back of the other process; ours if that is gone.
struct RemoteBack {
    name: Arc<str>,
    elsewhere: Rc<Elsewhere>,
    is_fresh: bool,
    /// Its address does not say what it speaks.
    is_bare: bool,
    own: Rc<dyn Back>,
}

impl Back for RemoteBack {
    fn wire(&self) -> Wire {
        let learned = self.elsewhere.wires.borrow().get(&*self.name).copied();
        learned.filter(|_| self.is_bare).unwrap_or_else(|| self.own.wire())
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async {
            if self.elsewhere.is_there() {
                let method = if self.is_fresh { FRESH_TOOLS } else { TOOLS };
                let name = Bytes::copy_from_slice(self.name.as_bytes());
                match self.elsewhere.ask(method, name).await {
                    Ok(Outcome::Value(sent)) => {
                        let (wire, tools) = read_tools(&sent).ok_or_else(|| {
                            let message = "its list of tools cannot be read";
                            Failure::new(FailureKind::BrokeProtocol, message)
                        })?;
                        self.elsewhere.learn(&self.name, &wire);
                        return Ok(tools);
                    }
                    Err(failure) if self.elsewhere.is_there() => return Err(failure),
                    _ => {}
                }
            }
            self.own.tools().await
        })
    }

    fn timeout(&self) -> Option<Duration> {
        self.own.timeout()
    }

    /// What the other process does not do, we do ourselves.
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.own.start(call, down)
    }

    fn text_of(&self, answer: &Json) -> Option<String> {
        self.own.text_of(answer)
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        self.own.shutdown()
    }

    fn hurry(&self) {
        self.own.hurry();
    }

    fn kill(&self) {
        self.own.kill();
    }
}
