//! The tasks of one process: its bytes, its standard error, its end.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{Calling, Channel, Flow, Outbox};

use super::Inner;
use super::handle::{ChildHandle, Ends};
use crate::child::supervisor::RunId;
use crate::engine::drive::{Closing, Drivable, Forwarded, ReadNext, drive};
use crate::task::spawn_local;
use crate::transport::pipe::{Input, Watch};
use crate::wake::{Wake, turn_after_stderr};

/// Begins to read, write and wait for one process.
pub(super) fn begin<C: Calling + Channel + 'static>(
    inner: &Rc<Inner<C>>,
    run: RunId,
    hand: &Rc<ChildHandle>,
    ends: Ends,
) {
    let conversation = Conversation { inner: inner.clone(), run, hand: hand.clone() };
    let (stdout, stdin) = ends.io;
    let tasks = [
        spawn_local(async move { drive(&conversation, stdout, stdin).await }),
        spawn_local(read_stderr(inner.clone(), run, ends.stderr)),
        spawn_local(await_exit(inner.clone(), run, hand.clone(), ends.exit)),
    ];
    hand.tasks.borrow_mut().extend(tasks);
}

/// The bytes of one process, as the pump sees them.
struct Conversation<C: Calling + Channel + 'static> {
    inner: Rc<Inner<C>>,
    run: RunId,
    hand: Rc<ChildHandle>,
}

impl<C: Calling + Channel + 'static> Conversation<C> {
    fn is_paused(&self) -> bool {
        self.inner.lane.is_held() || self.inner.calls.are_all_full()
    }
}

impl<C: Calling + Channel + 'static> Drivable for Conversation<C> {
    fn bytes(&self, now: Instant, input: &mut BytesMut) -> ReadNext {
        if !input.is_empty() {
            self.hand.heard.set(now);
        }
        self.inner.lane.turn_passed();
        loop {
            let flow = match self.is_paused() {
                true => Flow::Pause,
                false => self.inner.supervisor.borrow_mut().handle_bytes(now, self.run, input),
            };
            let passed = self.inner.settle();
            // What the machine said may be all that its hearers can take.
            let flow = match flow {
                Flow::More if self.is_paused() => Flow::Pause,
                flow => flow,
            };
            if let Some(next) = ReadNext::after(flow, passed) {
                return next;
            }
        }
    }

    fn eof(&self, _now: Instant, input: &mut BytesMut) -> ReadNext {
        self.inner.act(|supervisor, now| supervisor.handle_eof(now, self.run, input));
        self.hand.closing.set(Closing::Now);
        // A call that was not written yet goes to another process.
        self.inner.wake();
        ReadNext::Close
    }

    /// The keeper looks at the clock for all processes.
    fn timeout(&self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn transmit(&self, out: &mut Outbox) -> Forwarded {
        self.inner.moment.pass();
        self.inner.supervisor.borrow_mut().poll_transmit(self.run, out);
        self.inner.weigh();
        self.inner.settle()
    }

    fn left(&self, unwritten: usize, half_read: usize) {
        self.hand.charge.set(unwritten, half_read);
        self.inner.calls.left(&self.inner.lane, unwritten);
    }

    fn sent(&self, now: Instant) {
        self.inner.supervisor.borrow_mut().handle_sent(now, self.run);
    }

    fn write_failed(&self, _now: Instant, _error: io::Error) {
        self.inner.act(|supervisor, now| supervisor.handle_write_failed(now, self.run));
        self.inner.wake();
    }

    fn closing(&self) -> Closing {
        self.hand.closing.get()
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.hand.has_ended(now)
    }

    fn wake(&self) -> &Wake {
        &self.hand.wake
    }

    fn noise(&self) -> usize {
        self.inner.lane.noise.get()
    }

    fn taken(&self) -> Option<&Wake> {
        Some(&self.inner.lane.taken)
    }
}

async fn read_stderr<C: Calling + Channel + 'static>(
    inner: Rc<Inner<C>>,
    run: RunId,
    mut stderr: Input,
) {
    let mut bytes = BytesMut::new();
    while let Ok(1..) = stderr.read(&mut bytes).await {
        let (since, count) = (Instant::now(), bytes.len());
        // Told when nothing is borrowed: whoever hears of it may call right back.
        let mut lines = Vec::new();
        let log = |line: &str| lines.push(line.to_owned());
        inner.supervisor.borrow_mut().handle_stderr(run, &bytes, log);
        bytes.clear();
        inner.stderr(lines);
        if inner.supervisor.borrow().has_judge() {
            inner.act(|supervisor, now| supervisor.be_judged(now, run));
        }
        turn_after_stderr(since, count).await;
    }
    let mut lines = Vec::new();
    let log = |line: &str| lines.push(line.to_owned());
    inner.act(|supervisor, now| supervisor.handle_stderr_closed(now, run, log));
    inner.stderr(lines);
}

async fn await_exit<C: Calling + Channel + 'static>(
    inner: Rc<Inner<C>>,
    run: RunId,
    hand: Rc<ChildHandle>,
    exit: Watch,
) {
    exit.ready().await;
    let seen = hand.process.borrow().as_ref().and_then(|process| {
        let seen = process.exit_seen()?;
        Some((seen, process.session_left()))
    });
    if let Some((seen, session_left)) = seen {
        match inner.supervisor.borrow().is_our_doing(run, seen) {
            true => tracing::info!(peer = inner.name, "ended, as we asked"),
            false => tracing::info!(peer = inner.name, "ended with {seen}"),
        }
        inner.act(|supervisor, now| supervisor.handle_exited(now, run, seen, session_left));
        inner.wake();
    }
}
