//! The conversation with one process, over its pipes: the joint of its machine.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::task::AbortHandle;
use toolbus_proto::channel::{Calling, Channel, Flow, ONLY};

use super::Inner;
use super::processes::{Owner, taken};
use crate::child::Process;
use crate::child::supervisor::{Event, RunId};
use crate::engine::drive::{Closing, Forwarded, ReadNext, drive};
use crate::engine::joint::{Direction, Joint, Lanes, Stream};
use crate::engine::lane::Lane;
use crate::task::spawn_local;
use crate::transport::io::Source;
use crate::transport::pipe::{Input, Output};

/// After so much quiet a process is looked at before it is written to. Until then the last
/// thing heard of it was that it lives.
const QUIET: Duration = Duration::from_millis(1);

/// Our end of the conversation with one process.
pub(super) struct Conversation<C: Calling + Channel + 'static> {
    child: Rc<Inner<C>>,
    pub(super) run: RunId,
    pub(super) machine: Rc<RefCell<C>>,
    pub(super) lanes: Lanes<Conversation<C>>,
    /// A second hold on its output, in order to look whether it has ended.
    stdout: RefCell<Option<OwnedFd>>,
    heard: Cell<Instant>,
    /// Moves its bytes, and looks at the clock for its machine.
    task: RefCell<Option<AbortHandle>>,
}

impl<C: Calling + Channel + 'static> Conversation<C> {
    /// Nothing is written or read yet: there may be no process.
    pub(super) fn new(child: Rc<Inner<C>>, run: RunId) -> Rc<Conversation<C>> {
        let machine = child.conversations.borrow_mut().machine(run).clone();
        Rc::new_cyclic(|this| Conversation {
            lanes: Lanes::new(this.clone(), child.account.clone()),
            child,
            run,
            machine,
            stdout: RefCell::default(),
            heard: Cell::new(Instant::now()),
            task: RefCell::default(),
        })
    }

    /// Speaks to the process that was spawned for it.
    pub(super) fn begin(self: &Rc<Self>, process: &mut Process) -> io::Result<()> {
        let (stdin, stdout) = (taken(&mut process.stdin)?, taken(&mut process.stdout)?);
        *self.stdout.borrow_mut() = Some(stdout.try_clone()?);
        let source = Heard { stdout: Input::from_pipe(stdout)?, by: self.clone() };
        let sink = Output::from_pipe(stdin)?;
        let this = self.clone();
        let task = spawn_local(async move {
            drive(&Stream { joint: &*this, id: ONLY, lane: &this.lanes.only }, source, sink).await;
            this.task.take();
            // What it may still write is not read: its end will not be seen.
            this.child.act(|supervisor, now| supervisor.handle(now, this.run, Event::Unread));
        });
        *self.task.borrow_mut() = Some(task.abort_handle());
        Ok(())
    }

    /// Does a loop look at the clock for its machine?
    pub(super) fn is_driven(&self) -> bool {
        self.task.borrow().is_some()
    }

    pub(super) fn close_stdin(&self, closing: Closing) {
        let lane = &self.lanes.only;
        if lane.closing.get() != Closing::Now {
            lane.closing.set(closing);
            lane.wake.ring();
        }
    }

    pub(super) fn let_go(&self) {
        self.task.take().iter().for_each(AbortHandle::abort);
    }
}

impl<C: Calling + Channel + 'static> Joint for Conversation<C> {
    type Machine = C;

    fn machine(&self) -> &RefCell<C> {
        &self.machine
    }

    fn lanes(&self) -> &Lanes<Conversation<C>> {
        &self.lanes
    }

    fn pass_on(&self, lane: Option<&Rc<Lane>>) -> Forwarded {
        self.child.conversations.borrow_mut().look(self.run, Instant::now);
        self.child.settle_on(lane)
    }

    /// What cannot be said on the wire is refused in its turn.
    fn handed_out(&self, lane: &Rc<Lane>) -> Forwarded {
        self.pass_on(Some(lane))
    }

    fn is_paused(&self, lane: &Lane) -> bool {
        lane.is_held() || self.child.calls.are_all_full()
    }

    fn has_ended(&self, now: Instant) -> bool {
        if now.duration_since(self.heard.get()) < QUIET {
            return false;
        }
        let stdout = self.stdout.borrow();
        let Some(stdout) = &*stdout else { return false };
        let mut stdout = [PollFd::new(stdout, PollFlags::empty())];
        let polled = rustix::event::poll(&mut stdout, Some(&Timespec::default()));
        polled.is_ok() && stdout[0].revents().contains(PollFlags::HUP)
    }

    /// How the process ended says more than that its output has: until that is known, calls wait.
    /// Those of which nothing was written go to another process.
    fn ended(&self, _flow: Flow) -> Option<ReadNext> {
        self.child.say(|it| it.handle_eof(Instant::now(), self.run, None));
        self.lanes.only.closing.set(Closing::Now);
        self.child.wake();
        Some(ReadNext::Close)
    }

    fn report_unwritten(&self, lane: &Lane, bytes: usize) {
        self.child.calls.report_unwritten(lane, bytes);
    }

    fn broke(&self, direction: Direction, _error: &io::Error) {
        if direction == Direction::Writing {
            self.child.act(|supervisor, now| supervisor.handle(now, self.run, Event::Deaf));
        }
    }
}

/// The output of a process, of which the supervisor hears as well.
struct Heard<C: Calling + Channel + 'static> {
    stdout: Input,
    by: Rc<Conversation<C>>,
}

impl<C: Calling + Channel + 'static> Source for Heard<C> {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        let before = input.len();
        let count = self.stdout.read(input).await?;
        if 0 < count {
            self.by.heard.set(Instant::now());
            let mut conversations = self.by.child.conversations.borrow_mut();
            conversations.handle_output(self.by.run, &input[before..]);
        }
        Ok(count)
    }

    async fn ended(&self) {
        self.stdout.ended().await;
    }
}
