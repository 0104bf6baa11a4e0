//! A program of which nothing is asked for long is told goodbye, and started again by the next
//! call: `idle_stop`.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::AbortHandle;
use toolbus_proto::channel::{Down, Notice, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, CallerId, Failure, LastWords, Outcome, ToolSpec, What, Wire};

use super::back::{Back, Connection, LocalFuture};
use crate::engine::calls::{Answerer, Asker, Pressure, ReplyTo, RunningCall};
use crate::peer::pins::{AskedOf, Keeps, Pins};
use crate::task::spawn_local;

/// A back that is stopped when nothing is asked of it.
pub(crate) struct Idle {
    this: Weak<Idle>,
    inner: Rc<dyn Back>,
    name: Arc<str>,
    after: Duration,
    pins: Option<&'static dyn Pins>,
    /// The calls that are under way, but for those that last.
    busy: Cell<usize>,
    /// The callers that want to hear of something it keeps, each as often as it said so.
    keeping: RefCell<Vec<CallerId>>,
    timer: RefCell<Option<AbortHandle>>,
    stops: Cell<u64>,
    /// It was stopped, and nothing was asked of it since: lists are as they were last.
    is_resting: Cell<bool>,
    /// Its tools as they were listed last.
    tools: RefCell<Option<Arc<[ToolSpec]>>>,
    /// What it answered to lists in the words of its wire, the oldest first.
    lists: RefCell<VecDeque<(List, Bytes)>>,
    /// Those whose sessions it has known.
    sessions: RefCell<HashSet<CallerId>>,
    /// What it is told of sessions again before anything else, once it is started again.
    put_by: RefCell<Vec<(Call, Rc<Counted>)>>,
}

/// How a call counts that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    /// It does not: the back is busy with it.
    No,
    /// It is the session of its caller.
    Session,
    /// Nothing is done for it.
    Heard,
}

/// A list that was asked for in the words of a wire: the method, and the parameters.
type List = (Bytes, Bytes);

/// How many such answers are kept.
const LISTS_MAX: usize = 64;
/// How many sessions are remembered.
const SESSIONS_MAX: usize = 4096;

impl Idle {
    pub(crate) fn new(
        inner: Rc<dyn Back>,
        name: Arc<str>,
        after: Duration,
        pins: Option<&'static dyn Pins>,
    ) -> Rc<Idle> {
        Rc::new_cyclic(|this| Idle {
            this: this.clone(),
            inner,
            name,
            after,
            pins,
            busy: Cell::default(),
            keeping: RefCell::default(),
            timer: RefCell::default(),
            stops: Cell::default(),
            is_resting: Cell::default(),
            tools: RefCell::default(),
            lists: RefCell::default(),
            sessions: RefCell::default(),
            put_by: RefCell::default(),
        })
    }

    /// What is asked for, if that is a list in the words of its wire.
    fn list_of(&self, call: &Call) -> Option<List> {
        let (What::Native { method, body, .. }, Some(pins)) = (&call.what, self.pins) else {
            return None;
        };
        let is_list = matches!(pins.asked(method, body), AskedOf::List(_));
        is_list.then(|| (method.clone(), body.clone()))
    }

    /// What it answered last, where it need not be started to say so again.
    fn as_it_was(&self, call: &Call) -> Option<Outcome> {
        if !self.is_resting.get() {
            return None;
        }
        if let What::Tools = call.what {
            return self.tools.borrow().clone().map(Outcome::Tools);
        }
        let list = self.list_of(call)?;
        let lists = self.lists.borrow();
        let (_, answer) = lists.iter().find(|(known, _)| *known == list)?;
        Some(Outcome::Native(answer.clone()))
    }

    fn remember(&self, list: Option<&List>, outcome: &Outcome) {
        match (outcome, list) {
            (Outcome::Tools(tools), _) => drop(self.tools.replace(Some(tools.clone()))),
            (Outcome::Native(answer), Some(list)) => {
                let mut lists = self.lists.borrow_mut();
                lists.retain(|(known, _)| known != list);
                if LISTS_MAX <= lists.len() {
                    lists.pop_front();
                }
                lists.push_back((list.clone(), answer.clone()));
            }
            _ => {}
        }
    }

    /// How does a call count?
    fn lasts(&self, call: &Call) -> Lasting {
        let (What::Native { method, body, .. }, Some(pins)) = (&call.what, self.pins) else {
            return Lasting::No;
        };
        match pins.keeps(method) {
            Some(Keeps::Begins) => self.keeping.borrow_mut().push(call.caller),
            Some(Keeps::Ends) => {
                let mut keeping = self.keeping.borrow_mut();
                if let Some(at) = keeping.iter().position(|caller| *caller == call.caller) {
                    keeping.swap_remove(at);
                }
            }
            None => {}
        }
        match pins.asked(method, body) {
            AskedOf::Greeting { is_legacy: true } => Lasting::Session,
            AskedOf::Told if !pins.keeps_while_heard(method, body) => Lasting::Heard,
            _ => Lasting::No,
        }
    }

    /// Is this said again of a session because its process was stopped? Nothing is asked by it.
    fn is_said_again(&self, call: &Call, lasting: Lasting) -> bool {
        let is_repeated = || match (&call.what, self.pins) {
            (What::Native { method, .. }, Some(pins)) => pins.is_repeated(method),
            _ => false,
        };
        self.is_resting.get()
            && self.sessions.borrow().contains(&call.caller)
            && (lasting == Lasting::Session || lasting == Lasting::Heard && is_repeated())
    }

    /// It is told what was put by.
    fn rise(&self) {
        self.is_resting.set(false);
        for (call, counted) in self.put_by.take() {
            if !counted.is_over.get() {
                self.make(call, &counted);
            }
        }
    }

    fn make(&self, call: Call, counted: &Rc<Counted>) {
        let running = self.inner.start(call, ReplyTo::new(counted.clone(), TICKET));
        match counted.is_over.get() {
            true => running.forget(),
            false => drop(counted.up.replace(Some(Rc::new(running)))),
        }
    }

    /// The session of this caller is over, and with it all that it wanted to hear of.
    fn session_over(&self, caller: CallerId) {
        self.keeping.borrow_mut().retain(|of| *of != caller);
        self.settle();
    }

    fn begun(&self) {
        self.busy.set(self.busy.get() + 1);
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        self.rise();
    }

    fn ended(&self) {
        self.busy.set(self.busy.get().saturating_sub(1));
        self.settle();
    }

    /// From now on it is idle, if it is.
    fn settle(&self) {
        if self.busy.get() != 0 || !self.keeping.borrow().is_empty() {
            return;
        }
        let (this, after) = (self.this.clone(), self.after);
        let timer = spawn_local(async move {
            tokio::time::sleep(after).await;
            let Some(idle) = this.upgrade() else { return };
            if idle.busy.get() == 0 && idle.keeping.borrow().is_empty() && idle.inner.rest() {
                idle.stops.set(idle.stops.get() + 1);
                idle.is_resting.set(true);
                tracing::info!("back.{}: idle for {}, stopped", idle.name, shown(idle.after));
            }
        });
        if let Some(before) = self.timer.replace(Some(timer.abort_handle())) {
            before.abort();
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }
}

/// A time as a config writes it.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds, time.subsec_millis()) {
        (0, millis) => format!("{millis}ms"),
        (seconds, 0) if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        (seconds, 0) if seconds % 60 == 0 => format!("{}m", seconds / 60),
        (seconds, 0) => format!("{seconds}s"),
        _ => format!("{}s", time.as_secs_f64()),
    }
}

impl Back for Idle {
    fn wire(&self) -> Wire {
        self.inner.wire()
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async {
            if self.is_resting.get()
                && let Some(tools) = self.tools.borrow().clone()
            {
                return Ok(tools);
            }
            self.begun();
            let ended = AtEnd(self.this.clone());
            let tools = self.inner.tools().await;
            drop(ended);
            if let Ok(tools) = &tools {
                self.tools.replace(Some(tools.clone()));
            }
            tools
        })
    }

    fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        if let Some(outcome) = self.as_it_was(&call) {
            let _ = down.send(Down::Done(Ok(outcome)));
            return RunningCall::ended();
        }
        let lasting = self.lasts(&call);
        if lasting == Lasting::No {
            self.begun();
        }
        let is_said_again = self.is_said_again(&call, lasting);
        let down = match is_said_again && lasting == Lasting::Heard {
            true => {
                let answer = Outcome::Native(Bytes::from_static(b"{}"));
                let _ = down.send(Down::Done(Ok(answer)));
                ReplyTo::new(Rc::new(Nobody), TICKET)
            }
            false => down,
        };
        let counted = Rc::new(Counted {
            idle: self.this.clone(),
            caller: call.caller,
            lasting,
            list: self.list_of(&call),
            is_over: Cell::new(false),
            down,
            up: RefCell::default(),
        });
        match is_said_again {
            true => {
                let mut put_by = self.put_by.borrow_mut();
                // Of what is only to be heard the last one counts.
                put_by.retain(|(_, other)| {
                    lasting != Lasting::Heard
                        || other.lasting != Lasting::Heard
                        || other.caller != counted.caller
                });
                put_by.push((call, counted.clone()));
            }
            false => self.make(call, &counted),
        }
        match counted.is_over.get() || is_said_again && lasting == Lasting::Heard {
            true => RunningCall::ended(),
            false => RunningCall::new(counted, TICKET),
        }
    }

    fn text_of(&self, answer: &Json) -> Option<String> {
        self.inner.text_of(answer)
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        self.inner.watch(changed);
    }

    fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        self.inner.listen(hear);
    }

    fn connection(&self, call: &Call) -> Connection {
        self.inner.connection(call)
    }

    fn is_starting(&self) -> bool {
        self.inner.is_starting()
    }

    fn last_words(&self) -> Option<LastWords> {
        self.inner.last_words()
    }

    fn restarts(&self) -> Option<u64> {
        self.inner.restarts()
    }

    fn rests(&self) -> Option<u64> {
        Some(self.stops.get())
    }

    fn rest(&self) -> bool {
        self.inner.rest()
    }

    fn rouse(&self) {
        self.rise();
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        self.inner.shutdown()
    }

    fn hurry(&self) {
        self.inner.hurry();
    }

    fn kill(&self) {
        self.inner.kill();
    }
}

/// A list that is asked for is over, however.
struct AtEnd(Weak<Idle>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(idle) = self.0.upgrade() {
            idle.ended();
        }
    }
}

const TICKET: Ticket = Ticket(0);

/// One call.
struct Counted {
    idle: Weak<Idle>,
    caller: CallerId,
    lasting: Lasting,
    /// The list that was asked for, if it is one.
    list: Option<List>,
    is_over: Cell<bool>,
    down: ReplyTo,
    up: RefCell<Option<Rc<RunningCall>>>,
}

impl Counted {
    fn over(&self) {
        if self.is_over.replace(true) {
            return;
        }
        let Some(idle) = self.idle.upgrade() else { return };
        match self.lasting {
            Lasting::Session => idle.session_over(self.caller),
            Lasting::Heard => {}
            Lasting::No => idle.ended(),
        }
    }
}

impl Asker for Counted {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if let (Down::Done(Ok(outcome)), Some(idle)) = (&down, self.idle.upgrade()) {
            idle.remember(self.list.as_ref(), outcome);
        }
        if let (Down::Begin { .. }, Lasting::Session, Some(idle)) =
            (&down, self.lasting, self.idle.upgrade())
        {
            let mut sessions = idle.sessions.borrow_mut();
            if SESSIONS_MAX <= sessions.len() {
                sessions.clear();
            }
            sessions.insert(self.caller);
        }
        if let Down::Done(_) = down {
            self.over();
            let running = self.up.take().and_then(Rc::into_inner);
            if let Some(running) = running {
                running.forget();
            }
        }
        self.down.send(down)
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}

impl Answerer for Counted {
    fn send(&self, _: Ticket, up: Up) -> Pressure {
        let is_cancelled = matches!(up, Up::Cancel(_));
        let running = self.up.borrow().clone();
        let pressure = running.map_or(Pressure::Ready, |running| running.send(up));
        if is_cancelled {
            self.over();
            if let (Lasting::Session, Some(idle)) = (self.lasting, self.idle.upgrade()) {
                idle.sessions.borrow_mut().remove(&self.caller);
                idle.put_by.borrow_mut().retain(|(call, _)| call.caller != self.caller);
            }
        }
        pressure
    }

    fn resume(&self, _: Ticket) {
        let running = self.up.borrow().clone();
        if let Some(running) = running {
            running.resume();
        }
    }
}

/// Takes an answer that is of no interest.
struct Nobody;

impl Asker for Nobody {
    fn receive(&self, _: Ticket, _: Down) -> Pressure {
        Pressure::Ready
    }

    fn resume(&self, _: Ticket) {}
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::task::LocalSet;

    use super::*;
    use crate::engine::calls::Inbox;
    use crate::peer::Registry;

    /// A server that notes what it is asked, as long as it is not told goodbye.
    #[derive(Default)]
    struct Noted {
        asked: RefCell<Vec<String>>,
        sessions: RefCell<Vec<ReplyTo>>,
    }

    impl Back for Noted {
        fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
            let asked = match &call.what {
                What::Native { method, .. } => String::from_utf8_lossy(method).into_owned(),
                What::Tool { name, .. } => name.to_string(),
                What::Tools => "tools".to_owned(),
            };
            let _ = match &*asked {
                "initialize" => {
                    let head = Some(Json::from_trusted("{}"));
                    let pressure = down.send(Down::Begin { head, parts: None });
                    self.sessions.borrow_mut().push(down);
                    pressure
                }
                "tools" => down.send(Down::Done(Ok(Outcome::Tools(Arc::from([]))))),
                _ => down.send(Down::Done(Ok(Outcome::Native(Bytes::from_static(b"{}"))))),
            };
            self.asked.borrow_mut().push(asked);
            RunningCall::ended()
        }

        fn rest(&self) -> bool {
            for session in self.sessions.take() {
                let _ = session.send(Down::Done(Err(Failure::cancelled())));
            }
            !self.asked.borrow().is_empty()
        }
    }

    fn native(method: &'static str, body: &'static str) -> Call {
        let wire = Registry::default().find("mcp").expect("it is built in").wire();
        let method = Bytes::from_static(method.as_bytes());
        let what = What::Native { wire, method, body: Bytes::from_static(body.as_bytes()) };
        Call { caller: CallerId(7), ..Call::of(Instant::now(), what) }
    }

    /// What is asked of one that rests; all of it is over at once.
    fn start(idle: &Idle, call: Call) -> RunningCall {
        idle.start(call, ReplyTo::new(Rc::new(Nobody), TICKET))
    }

    fn on_a_thread(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    fn idle() -> (Rc<Noted>, Rc<Idle>) {
        let inner = Rc::new(Noted::default());
        let pins = Registry::default().find("mcp").and_then(crate::peer::PeerKind::pins);
        let idle = Idle::new(inner.clone(), "a".into(), Duration::from_millis(1), pins);
        (inner, idle)
    }

    async fn rested(idle: &Idle) {
        while !idle.is_resting.get() {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn a_list_does_not_start_it_though_a_session_is_begun_anew() {
        on_a_thread(async {
            let (inner, idle) = idle();
            let session = start(&idle, native("initialize", "{}"));
            let (inbox, down) = Inbox::new();
            let listing = idle.start(Call::of(Instant::now(), What::Tools), down);
            assert!(inbox.whole(listing).await.is_ok());
            rested(&idle).await;
            session.forget();
            inner.asked.take();
            let again =
                [native("initialize", "{}"), native("logging/setLevel", r#"{"level":"x"}"#)];
            let again = again.map(|call| start(&idle, call));
            drop(start(&idle, Call::of(Instant::now(), What::Tools)));
            assert!(inner.asked.borrow().is_empty() && idle.is_resting.get());
            let _call = start(&idle, Call::tool(Instant::now(), "x", None));
            assert_eq!(*inner.asked.borrow(), ["initialize", "logging/setLevel", "x"]);
            again.into_iter().for_each(RunningCall::forget);
        });
    }

    #[test]
    fn who_listens_for_a_resource_keeps_it_awake() {
        let pins = Registry::default().find("mcp").and_then(crate::peer::PeerKind::pins).unwrap();
        let listens = |wanted: &'static str| {
            pins.keeps_while_heard(b"subscriptions/listen", &Bytes::from_static(wanted.as_bytes()))
        };
        assert!(listens(r#"{"notifications":{"resourceSubscriptions":["f:1"]}}"#));
        assert!(!listens(r#"{"notifications":{"toolsListChanged":true}}"#));
        assert!(!listens(r#"{"notifications":{"resourceSubscriptions":[]}}"#));
    }

    #[test]
    fn a_log_level_ends_no_subscription() {
        on_a_thread(async {
            let (_, idle) = idle();
            let calls = ["initialize", "resources/subscribe", "logging/setLevel"];
            let calls = calls.map(|method| start(&idle, native(method, "{}")));
            assert_eq!(*idle.keeping.borrow(), [CallerId(7)]);
            calls.into_iter().for_each(RunningCall::forget);
        });
    }

    #[test]
    fn times_are_shown_as_they_are_written() {
        for (time, expected) in [
            (Duration::from_secs(600), "10m"),
            (Duration::from_secs(7200), "2h"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_millis(300), "300ms"),
            (Duration::from_millis(1500), "1.5s"),
        ] {
            assert_eq!(shown(time), expected);
        }
    }
}
