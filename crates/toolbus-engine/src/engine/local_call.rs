//! One call that takes its time: what comes up waits here, what goes down waits for room.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Poll, ready};
use std::time::Instant;

use tokio::task::unconstrained;
use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::collect::InputCollector;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Deadline, Failure, FailureKind, Outcome, Part};

use crate::engine::calls::{Answerer, BYTES_WAITING_MAX, ITEMS_WAITING_MAX, Pressure, ReplyTo};
use crate::engine::drive::until;
use crate::engine::moment::Moment;
use crate::panics::caught;
use crate::wake::Wake;

/// The calls of one back that take their time.
#[derive(Default)]
pub struct LocalCalls(RefCell<Vec<Weak<Conversation>>>);

impl LocalCalls {
    /// One more; its reply goes to `reply_to`.
    pub fn begin(&self, reply_to: ReplyTo) -> Rc<Conversation> {
        let conversation = Rc::new(Conversation::new(reply_to));
        let mut running = self.0.borrow_mut();
        running.retain(|earlier| earlier.strong_count() > 0);
        running.push(Rc::downgrade(&conversation));
        conversation
    }

    /// Cancels all of them and waits until their callers have been told.
    pub async fn shutdown(&self) {
        let running: Vec<_> = self.0.take().iter().filter_map(Weak::upgrade).collect();
        for conversation in running {
            conversation.cancel();
            conversation.finished().await;
        }
    }
}

/// The tool's end of one call.
pub struct Conversation {
    reply_to: ReplyTo,
    /// What the caller sent and the tool has not taken yet.
    input: RefCell<VecDeque<Up>>,
    input_bytes: Cell<usize>,
    /// The caller was told to wait.
    is_full: Cell<bool>,
    /// The caller takes more.
    has_room: Cell<bool>,
    /// Last sign of life of either side.
    heard: Cell<Instant>,
    /// When something was said since the tool had its turn, or in it.
    moment: Moment,
    /// There is input, or room.
    bell: Wake,
    cancelled: Wake,
    finished: Wake,
}

/// What the tool gets of its input.
pub enum Input {
    /// One element.
    Part(Part),
    /// There is no more, and maybe a last value.
    End(Option<Json>),
}

impl Conversation {
    /// A call whose reply goes there.
    pub fn new(reply_to: ReplyTo) -> Conversation {
        Conversation {
            reply_to,
            input: RefCell::default(),
            input_bytes: Cell::new(0),
            is_full: Cell::new(false),
            has_room: Cell::new(true),
            heard: Cell::new(now()),
            moment: Moment::default(),
            bell: Wake::default(),
            cancelled: Wake::default(),
            finished: Wake::default(),
        }
    }

    /// Sends the next of the reply, at once, and waits until more would be welcome.
    pub fn send(&self, down: Down) -> impl Future<Output = ()> {
        let sent = self.send_pressed(down);
        async {
            let _ = sent.await;
        }
    }

    /// The same, and tells whether more was welcome at once.
    pub fn send_pressed(&self, down: Down) -> impl Future<Output = Pressure> {
        // Before it is sent: the caller may take it and make room in the same breath.
        self.has_room.set(false);
        self.heard.set(self.moment.now(now));
        let room = self.reply_to.send(down);
        async move {
            while room == Pressure::Full && !self.has_room.get() {
                self.bell.rung().await;
            }
            // A caller who takes everything at once must not keep all others waiting.
            tokio::task::consume_budget().await;
            room
        }
    }

    /// The next of the input, as it comes.
    pub fn input(&self) -> impl Future<Output = Input> {
        poll_fn(|context| {
            loop {
                match self.take_input() {
                    Some(Up::Part(part)) => return Poll::Ready(Input::Part(part)),
                    Some(Up::End(end)) => return Poll::Ready(Input::End(end)),
                    Some(Up::Answer(..) | Up::Cancel(_)) => {}
                    None => ready!(self.bell.poll_rung(context)),
                }
            }
        })
    }

    fn take_input(&self) -> Option<Up> {
        let (up, is_last) = {
            let mut input = self.input.borrow_mut();
            (input.pop_front()?, input.is_empty())
        };
        self.input_bytes.set(self.input_bytes.get() - up.weight());
        // More comes only when others have had their turn: no other task is kept waiting here.
        if is_last && self.is_full.take() {
            self.reply_to.resume();
        }
        Some(up)
    }

    /// All of the input at once, for a tool that takes no parts.
    pub async fn collect(&self, args: Option<Json>) -> Result<Option<Json>, Failure> {
        let mut collector = InputCollector::new(args);
        loop {
            let up = match self.input().await {
                Input::Part(part) => Up::Part(part),
                Input::End(end) => Up::End(end),
            };
            if let Some(args) = collector.take(up) {
                return args;
            }
        }
    }

    /// Lets `work` run until it is done, the caller changes its mind or has waited enough.
    pub async fn lead(
        &self,
        deadline: Deadline,
        work: impl Future<Output = Result<Outcome, Failure>>,
    ) -> Result<Outcome, Failure> {
        let mut work = pin!(work);
        // Polled with care: a panic must end this call, not the task before it has told its caller.
        let work = poll_fn(|context| {
            let polled = caught(|| Ok(work.as_mut().poll(context)));
            self.moment.pass();
            polled.unwrap_or_else(|panicked| Poll::Ready(Err(panicked)))
        });
        tokio::select! {
            biased;
            () = self.cancelled.rung() => Err(Failure::new(FailureKind::Cancelled, "cancelled")),
            done = work => done,
            // Work that has always something to do uses up the budget of its task, and a timer
            // that keeps to it would never be looked at.
            () = unconstrained(self.overdue(deadline)) => Err(deadline.missed()),
        }
    }

    async fn overdue(&self, deadline: Deadline) {
        loop {
            let instant = deadline.instant(self.heard.get());
            until(instant).await;
            // A message may have come meanwhile.
            if instant == deadline.instant(self.heard.get()) {
                return;
            }
        }
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.ring();
    }

    /// Tells the caller how it ended.
    pub fn finish(&self, done: Result<Outcome, Failure>) {
        let _ = self.reply_to.send(Down::Done(done));
        self.finished.ring();
    }

    /// Waits until the caller has been told.
    pub(crate) async fn finished(&self) {
        self.finished.rung().await;
    }
}

impl Answerer for Conversation {
    fn send(&self, _ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            self.cancel();
            return Pressure::Ready;
        }
        self.heard.set(self.moment.seen(now));
        let bytes = self.input_bytes.get() + up.weight();
        self.input_bytes.set(bytes);
        let items = {
            let mut input = self.input.borrow_mut();
            input.push_back(up);
            input.len()
        };
        if self.bell.rouse() {
            // The tool is about to have its turn.
            self.moment.now(|| self.heard.get());
        }
        if items < ITEMS_WAITING_MAX && bytes < BYTES_WAITING_MAX {
            // Who was told to wait before still waits, whatever was sent all the same.
            return Pressure::Ready;
        }
        self.is_full.set(true);
        Pressure::Full
    }

    fn resume(&self, _ticket: Ticket) {
        self.has_room.set(true);
        self.bell.ring();
    }
}

/// The reactor's clock, which a test can move.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use crate::engine::calls::Asker;

    /// Counts how often it was told to go on.
    #[derive(Default)]
    struct Patient(Cell<usize>);

    impl Asker for Patient {
        fn receive(&self, _ticket: Ticket, _down: Down) -> Pressure {
            Pressure::Ready
        }

        fn resume(&self, _ticket: Ticket) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[tokio::test]
    async fn who_was_told_to_wait_is_told_to_go_on_whatever_came_meanwhile() {
        let caller = Rc::new(Patient::default());
        let conversation = Conversation::new(ReplyTo::new(caller.clone(), Ticket(0)));
        let send = || Answerer::send(&conversation, Ticket(0), Up::Part(Part::Json(Json::null())));
        let rooms: Vec<_> = (0..ITEMS_WAITING_MAX).map(|_| send()).collect();
        assert_eq!(rooms.last(), Some(&Pressure::Full));
        // The tool takes some; what was under way arrives, and there is room for it.
        for _ in 0..5 {
            conversation.input().await;
        }
        assert_eq!(send(), Pressure::Ready);
        for _ in 0..ITEMS_WAITING_MAX - 4 {
            assert_eq!(caller.0.get(), 0);
            conversation.input().await;
        }
        assert_eq!(caller.0.get(), 1);
    }

    #[tokio::test]
    async fn work_that_never_rests_is_given_up_in_its_time() {
        let conversation = Conversation::new(ReplyTo::new(Rc::<Patient>::default(), Ticket(0)));
        let deadline = Deadline { total: Some(Duration::from_millis(1)), ..Deadline::never(now()) };
        let work = async {
            loop {
                tokio::task::consume_budget().await;
            }
        };
        let done = conversation.lead(deadline, work).await;
        assert_eq!(done, Err(deadline.missed()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_heard_later_counts_as_heard_later() {
        let conversation = Conversation::new(ReplyTo::new(Rc::<Patient>::default(), Ticket(0)));
        let send = || Answerer::send(&conversation, Ticket(0), Up::Part(Part::Json(Json::null())));
        let later = Duration::from_secs(50);
        let tool = async {
            conversation.input().await;
            std::future::pending().await
        };
        let mut tool = pin!(conversation.lead(Deadline::never(now()), tool));
        let mut turn = || tool.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // The tool listens, and is woken by the first of these: all are of one moment.
        assert!(turn().is_pending());
        let _ = send();
        tokio::time::advance(later).await;
        let _ = send();
        assert_eq!(conversation.heard.get() + later, now());
        // It has its turn and listens no more: what the tool says now is heard when it says it.
        assert!(turn().is_pending());
        for _ in 0..2 {
            tokio::time::advance(later).await;
            let _ = send();
            assert_eq!(conversation.heard.get(), now());
        }
    }
}
