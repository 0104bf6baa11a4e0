//! The tools at the far end, one small task for each call.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use toolbus::bus::Route;
use toolbus_engine::calls::{Answerer, ITEMS_WAITING_MAX, Pressure, ReplyTo, RunningCall};
use toolbus_proto::channel::{AskId, Down, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Code, Failure, FailureKind, Outcome, What};

use super::{json, part};

/// All tools, and what became of the calls they got.
#[derive(Default)]
pub(super) struct Tools {
    pub(super) started: Cell<usize>,
    pub(super) ended: Cell<usize>,
    pub(super) cancelled: Cell<usize>,
    /// Told when one has ended, cancelled or not.
    pub(super) news: Notify,
    /// The most bytes of input that ever waited for one call.
    pub(super) bytes_waiting_max: Cell<usize>,
    /// The bytes of all parts that tools have said.
    pub(super) bytes_said: Cell<usize>,
}

impl Tools {
    pub(super) fn new() -> Rc<Tools> {
        Rc::default()
    }

    pub(super) fn running(&self) -> usize {
        self.started.get() - self.ended.get()
    }

    /// Lets everybody have many turns; tells whether no tool got rid of anything meanwhile.
    pub(super) async fn is_quiet(&self) -> bool {
        let before = self.bytes_said.get();
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        0 < before && before == self.bytes_said.get()
    }

    /// Waits until so many calls have been cancelled.
    pub(super) async fn cancelled(&self, count: usize) {
        loop {
            let news = self.news.notified();
            if count <= self.cancelled.get() {
                return;
            }
            news.await;
        }
    }
}

/// The tools as a front asks them.
pub(super) struct Served(pub(super) Rc<Tools>);

impl Route for Served {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let running = Rc::new(Running {
            tools: self.0.clone(),
            down,
            ups: RefCell::default(),
            news: Notify::new(),
            has_ended: Cell::new(false),
            may_send: Cell::new(true),
            task: OnceCell::new(),
        });
        self.0.started.set(self.0.started.get() + 1);
        let task = spawn_local(running.clone().answer(call));
        running.task.set(task.abort_handle()).unwrap();
        RunningCall::new(running, Ticket(0))
    }
}

/// One call.
struct Running {
    tools: Rc<Tools>,
    down: ReplyTo,
    ups: RefCell<VecDeque<Up>>,
    news: Notify,
    has_ended: Cell<bool>,
    may_send: Cell<bool>,
    task: OnceCell<AbortHandle>,
}

impl Answerer for Running {
    fn send(&self, _: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            if !self.has_ended.get() {
                self.tools.cancelled.set(self.tools.cancelled.get() + 1);
            }
            self.end(Err(Failure::new(FailureKind::Cancelled, "cancelled")));
            return Pressure::Ready;
        }
        let mut ups = self.ups.borrow_mut();
        ups.push_back(up);
        let waiting = ups.iter().map(Up::weight).sum();
        self.tools.bytes_waiting_max.set(self.tools.bytes_waiting_max.get().max(waiting));
        self.news.notify_one();
        if ups.len() < ITEMS_WAITING_MAX { Pressure::Ready } else { Pressure::Full }
    }

    fn resume(&self, _: Ticket) {
        self.may_send.set(true);
        self.news.notify_one();
    }
}

impl Running {
    async fn answer(self: Rc<Self>, call: Call) {
        let (name, args) = match call.what {
            What::Tool { name, args } => (name, args.unwrap_or(json("null"))),
            What::Native { body, .. } => return self.end(Ok(Outcome::Native(body))),
            What::Tools => panic!("nobody asks for the tools"),
        };
        let outcome = match name.as_str() {
            "echo" => Ok(Outcome::Value(args)),
            "fail" => Err(Failure {
                code: Some(Code::Word("no_luck".into())),
                ..Failure::new(FailureKind::Failed, "no luck today")
            }),
            "never" => std::future::pending().await,
            "ask" => self.ask(&args).await,
            "progress" => self.progress(&args).await,
            "count" => self.count(&args).await,
            "return" => self.give_back().await,
            "total" => self.total().await,
            "early" => {
                self.next_up().await;
                Ok(Outcome::Value(json("\"enough\"")))
            }
            other => panic!("what is `{other}`?"),
        };
        self.end(outcome);
    }

    async fn ask(&self, question: &Json) -> Result<Outcome, Failure> {
        self.say(Down::Ask(AskId(7), question.clone())).await;
        loop {
            if let Up::Answer(AskId(7), answer) = self.next_up().await {
                return Ok(Outcome::Value(answer));
            }
        }
    }

    async fn progress(&self, count: &Json) -> Result<Outcome, Failure> {
        let count: usize = count.as_str().parse().unwrap();
        for step in 1..=count {
            // Nobody waits for a reader of progress.
            let _ = self.down.send(Down::Progress(json(&step.to_string())));
        }
        Ok(Outcome::Value(json(&count.to_string())))
    }

    /// So many parts of so many bytes.
    async fn count(&self, args: &Json) -> Result<Outcome, Failure> {
        let (count, len): (usize, usize) = serde_json::from_str(args.as_str()).unwrap();
        self.say(Down::Begin { head: None, parts: None }).await;
        for _ in 0..count {
            self.say(Down::Part(part(len))).await;
        }
        Ok(Outcome::End(None))
    }

    /// Every part of the input is a part of the reply.
    async fn give_back(&self) -> Result<Outcome, Failure> {
        self.say(Down::Begin { head: None, parts: None }).await;
        loop {
            match self.next_up().await {
                Up::Part(part) => self.say(Down::Part(part)).await,
                Up::End(end) => return Ok(Outcome::End(end)),
                Up::Answer(..) | Up::Cancel(_) => {}
            }
        }
    }

    async fn total(&self) -> Result<Outcome, Failure> {
        let mut total = 0;
        loop {
            match self.next_up().await {
                Up::Part(part) => total += part.weight(),
                Up::End(_) => return Ok(Outcome::Value(json(&total.to_string()))),
                Up::Answer(..) | Up::Cancel(_) => {}
            }
        }
    }

    async fn next_up(&self) -> Up {
        loop {
            let up = self.ups.borrow_mut().pop_front();
            if let Some(up) = up {
                if self.ups.borrow().is_empty() {
                    self.down.resume();
                }
                return up;
            }
            self.news.notified().await;
        }
    }

    async fn say(&self, down: Down) {
        while !self.may_send.get() {
            self.news.notified().await;
        }
        self.tools.bytes_said.set(self.tools.bytes_said.get() + down.weight());
        if self.down.send(down) == Pressure::Full {
            self.may_send.set(false);
        }
    }

    fn end(&self, outcome: Result<Outcome, Failure>) {
        if !self.has_ended.replace(true) {
            let _ = self.down.send(Down::Done(outcome));
            self.tools.ended.set(self.tools.ended.get() + 1);
            self.tools.news.notify_waiters();
            self.task.get().unwrap().abort();
        }
    }
}

/// What a part weighs, and nothing for anything else.
pub(super) fn weight(down: &Down) -> usize {
    match down {
        Down::Part(part) => part.weight(),
        _ => 0,
    }
}
