//! Our ends of the conversations with the processes of one program, over their pipes: a machine
//! for each process that is not forgotten yet. Told how they stand, the supervisor decides; what
//! it decides about calls is done here, what it decides about processes leaves as [`Order`]s.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Deref;
use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{Calling, Channel, Down, Flow, Notice, Outbox, Ticket, Up};
use toolbus_proto::tool::{Call, Failure};

use super::{Event, Order, RunId, Supervisor};

/// Our ends of the conversations with the processes of one program. Who drives them may hold
/// each machine as well, behind a pointer `P`.
pub struct Conversations<C, P = Box<RefCell<C>>> {
    supervisor: Supervisor,
    make: Box<dyn FnMut() -> C + Send>,
    machines: Vec<(RunId, P)>,
    /// What comes back to callers from conversations that are over, or never began.
    downs: VecDeque<(Ticket, Down)>,
    orders: VecDeque<(RunId, Order)>,
}

impl<C, P> Conversations<C, P>
where
    C: Calling + Channel,
    P: Deref<Target = RefCell<C>> + From<RefCell<C>>,
{
    /// Starts nothing yet: the first call does. `make` gives our end of each new conversation.
    pub fn new(supervisor: Supervisor, make: impl FnMut() -> C + Send + 'static) -> Self {
        Conversations {
            supervisor,
            make: Box::new(make),
            machines: Vec::new(),
            downs: VecDeque::new(),
            orders: VecDeque::new(),
        }
    }

    /// Who decides about the processes.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Tells the supervisor something, and does what it wants done with calls.
    pub fn act<T>(&mut self, now: Instant, tell: impl FnOnce(&mut Supervisor) -> T) -> T {
        let told = tell(&mut self.supervisor);
        self.settle(now);
        told
    }

    /// Our end of the conversation with this process, which is begun if need be.
    pub fn machine(&mut self, run: RunId) -> &P {
        let at = self.machines.iter().rposition(|(of, _)| *of == run).unwrap_or_else(|| {
            self.machines.push((run, P::from(RefCell::new((self.make)()))));
            self.machines.len() - 1
        });
        &self.machines[at].1
    }

    /// Asks; starts the program if it does not run.
    pub fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        match self.supervisor.wake(now) {
            Ok(run) => {
                self.machine(run).borrow_mut().call(now, ticket, call);
                self.look(run, || now);
            }
            Err(failure) => self.downs.push_back((ticket, Down::Done(Err(failure)))),
        }
    }

    /// Goes on with a call that runs.
    pub fn up(&mut self, now: Instant, ticket: Ticket, up: &Up) {
        self.each(now, |machine| machine.up(now, ticket, up.clone()));
    }

    /// Something happened to a process.
    pub fn handle(&mut self, now: Instant, run: RunId, event: Event<'_>) {
        self.act(now, |supervisor| supervisor.handle(now, run, event));
    }

    /// This process wrote something to its output, which its machine may not have heard yet.
    pub fn handle_output(&mut self, run: RunId, bytes: &[u8]) {
        self.supervisor.handle_output(run, bytes);
    }

    /// Bytes arrived from this process.
    pub fn handle_bytes(&mut self, now: Instant, run: RunId, input: &mut BytesMut) -> Flow {
        let Some(machine) = self.find(run) else { return Flow::Close };
        let flow = machine.borrow_mut().handle_bytes(now, input);
        self.look(run, || now);
        if flow == Flow::Close {
            self.handle(now, run, Event::Unread);
        }
        flow
    }

    /// This process closed its output; its machine was told, or is told now with what is left of
    /// its `input`.
    pub fn handle_eof(&mut self, now: Instant, run: RunId, input: Option<&mut BytesMut>) {
        let Some((_, machine)) = self.machines.iter().find(|(of, _)| *of == run) else { return };
        let mut machine = machine.borrow_mut();
        if let Some(input) = input {
            machine.handle_eof(now, input);
        }
        let event = Event::Eof(machine.readiness(), machine.proof());
        self.supervisor.handle(now, run, event);
        drop(machine);
        self.settle(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.act(now, |supervisor| supervisor.handle_timeout(now));
        self.each(now, |machine| {
            if machine.poll_timeout().is_some_and(|until| until <= now) {
                machine.handle_timeout(now);
            }
        });
    }

    /// When to call [`Conversations::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let machines = self.machines.iter().filter_map(|(_, it)| it.borrow().poll_timeout());
        machines.chain(self.supervisor.poll_timeout()).min()
    }

    /// What is to be written to this process.
    pub fn poll_transmit(&self, run: RunId, out: &mut Outbox) {
        self.find(run).into_iter().for_each(|machine| machine.borrow_mut().poll_transmit(out));
    }

    /// What comes back to the callers.
    pub fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        if !self.downs.is_empty() {
            return self.downs.pop_front();
        }
        let mut machines = self.machines.iter();
        machines.find_map(|(run, machine)| {
            let (ticket, down) = machine.borrow_mut().poll_down()?;
            Some((ticket, self.supervisor.with_last_words(*run, down)))
        })
    }

    /// What is worth a line in the log.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        let mut machines = self.machines.iter();
        let notice = self.supervisor.poll_notice();
        notice.or_else(|| machines.find_map(|(_, machine)| machine.borrow_mut().poll_notice()))
    }

    /// Has a program become ready since this was last asked?
    pub fn take_ready(&mut self) -> bool {
        self.supervisor.take_ready()
    }

    /// What is to be done with a process next.
    pub fn poll_order(&mut self) -> Option<(RunId, Order)> {
        self.orders.pop_front()
    }

    /// Tells the supervisor how a conversation stands, after something was said in it.
    pub fn look(&mut self, run: RunId, now: impl FnOnce() -> Instant) {
        let Some((_, machine)) = self.machines.iter().rev().find(|(of, _)| *of == run) else {
            return;
        };
        let machine = machine.borrow();
        let (readiness, proof) = (machine.readiness(), machine.proof());
        if !self.supervisor.is_news(run, readiness, proof) {
            return;
        }
        let now = now();
        self.supervisor.handle(now, run, Event::Stands(readiness, proof));
        if machine.is_finished() {
            self.supervisor.handle(now, run, Event::Finished);
        }
        drop(machine);
        self.settle(now);
    }

    fn find(&self, run: RunId) -> Option<&P> {
        self.machines.iter().find(|(of, _)| *of == run).map(|(_, machine)| machine)
    }

    fn each(&mut self, now: Instant, mut tell: impl FnMut(&mut C)) {
        // Those that go may begin another, which comes behind all.
        let mut before = RunId(u64::MAX);
        while let Some((run, machine)) = self.machines.iter().rev().find(|(of, _)| *of < before) {
            before = *run;
            tell(&mut machine.borrow_mut());
            self.look(before, || now);
        }
    }

    /// Does what the supervisor wants done with calls.
    fn settle(&mut self, now: Instant) {
        while let Some((run, order)) = self.supervisor.poll_order() {
            match order {
                Order::Close(patience) => {
                    let goodbye = self.machine(run).borrow_mut().close(now, patience);
                    self.supervisor.handle(now, run, Event::Goodbye(goodbye));
                }
                Order::MoveOn => {
                    let unsent = self.machine(run).borrow_mut().take_unsent();
                    for (ticket, call) in unsent {
                        self.call(now, ticket, call);
                    }
                }
                Order::Fail(failure) => {
                    self.lose(now, run, &failure);
                }
                Order::Forget => {
                    self.machines.retain(|(of, _)| *of != run);
                    self.orders.push_back((run, order));
                }
                Order::Spawn => {
                    self.machine(run);
                    self.orders.push_back((run, order));
                }
                order => self.orders.push_back((run, order)),
            }
        }
    }

    /// Ends the calls of a conversation that may be over, and takes what it has to say, while its
    /// process is known.
    fn lose(&mut self, now: Instant, run: RunId, failure: &Failure) {
        let Some((_, machine)) = self.machines.iter().find(|(of, _)| *of == run) else { return };
        let mut machine = machine.borrow_mut();
        self.supervisor.out.notices.extend(std::iter::from_fn(|| machine.poll_notice()));
        machine.handle_lost(now, failure);
        while let Some((ticket, down)) = machine.poll_down() {
            self.downs.push_back((ticket, self.supervisor.with_last_words(run, down)));
        }
    }
}
