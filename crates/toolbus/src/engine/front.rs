//! A serving end before the bus, one file a protocol.
//!
//! [`Front`] joins any serving machine to whoever answers its calls: what the machine is
//! asked goes to the route, what comes back goes to the machine, and the pump moves the bytes.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Channel, Down, Ended, Flow, Notice, Outbox, Serving, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind};

use crate::bus::Route;
use crate::engine::calls::{
    Asker, Backlog, ByTicket, Pressure, ReplyTo, RunningCall, Sharing, Tickets,
};
use crate::engine::drive::{Closing, Drivable, Forwarded, ReadNext, Sink, Source, drive};
use crate::engine::moment::Moment;
use crate::engine::wake::Wake;

/// A serving machine and the calls it has under way.
pub struct Front<S: Serving + Channel + 'static> {
    this: Weak<Front<S>>,
    pub(crate) machine: RefCell<S>,
    route: Rc<dyn Route>,
    /// How long a call may be quiet.
    timeout: Option<Duration>,
    sharing: Sharing,
    /// The calls under way; `None` until the route has given its uplink.
    running: RefCell<ByTicket<Option<Rc<RunningCall>>>>,
    /// Calls whose back has been given all that it can take for now.
    slow: RefCell<Tickets>,
    /// What waits to be written, and whose replies wait until the other side reads on.
    backlog: Backlog,
    /// The latest progress of calls, where the other side does not even read the earlier.
    progress: RefCell<ByTicket<Down>>,
    /// The stream broke: whatever is asked, no answer can be given.
    nobody_listens: Cell<bool>,
    /// Nothing more will be asked.
    is_all_asked: Cell<bool>,
    /// No call is under way, and every answer is written.
    is_idle: Cell<bool>,
    /// Rung when that has come to be.
    idle: Wake,
    wake: Wake,
    /// Rung when the back has taken all it was given, where no other call waits.
    taken: Wake,
    /// When something was said that the pump has not heard yet.
    moment: Moment,
}

impl<S: Serving + Channel + 'static> Front<S> {
    /// Joins `machine` to `route`; many calls may share its wire, and none waits for another.
    pub fn new(machine: S, route: Rc<dyn Route>, timeout: Option<Duration>) -> Rc<Front<S>> {
        Front::with_sharing(machine, route, timeout, Sharing::Shared)
    }

    /// Like [`Front::new`], for a wire that may carry one call at a time: what its back cannot
    /// take yet is not read.
    pub fn with_sharing(
        machine: S,
        route: Rc<dyn Route>,
        timeout: Option<Duration>,
        sharing: Sharing,
    ) -> Rc<Front<S>> {
        Rc::new_cyclic(|this| Front {
            this: this.clone(),
            machine: RefCell::new(machine),
            route,
            timeout,
            sharing,
            running: RefCell::default(),
            slow: RefCell::default(),
            backlog: Backlog::default(),
            progress: RefCell::default(),
            nobody_listens: Cell::new(false),
            is_all_asked: Cell::new(false),
            is_idle: Cell::new(true),
            idle: Wake::default(),
            wake: Wake::default(),
            taken: Wake::default(),
            moment: Moment::default(),
        })
    }

    /// Serves until the conversation is over, and says how it ended. What still runs then, or
    /// when this is dropped, is cancelled.
    pub async fn serve(&self, source: impl Source, sink: impl Sink) -> Ended {
        let _cancels = CancelAll(self);
        drive(self, source, sink).await;
        let unsaid = match self.nobody_listens.get() && !self.is_all_asked.get() {
            true => Ended::PeerStoppedReading,
            false => Ended::Well,
        };
        self.machine.borrow().ended().cloned().unwrap_or(unsaid)
    }

    /// Waits until no call is under way and every answer is written. One task may wait.
    pub async fn idle(&self) {
        while !self.is_idle.get() {
            self.idle.rung().await;
        }
    }

    /// Something changed behind us that whoever is served may want to know.
    pub fn tell(&self, notice: &Notice) {
        self.machine.borrow_mut().tell(Instant::now(), notice);
        self.wake.ring();
    }

    /// Ends what is under way: nobody waits for it any more.
    pub fn cancel_all(&self) {
        // Nothing stays borrowed while it is dropped, which is what cancels it.
        let running = self.running.take();
        drop(running);
        self.slow.take();
        self.progress.take();
    }

    /// Passes on what the machine was asked. Nothing stays borrowed meanwhile: a call may be
    /// answered before it has been started.
    fn pass_on(&self) -> Forwarded {
        let mut passed = Forwarded::Nothing;
        loop {
            let asked = self.machine.borrow_mut().poll_up();
            let Some((ticket, asked)) = asked else { break };
            passed = Forwarded::Something;
            match asked {
                Asked::Call(call) => {
                    // Whoever answers has a turn before the input is read, which may be broken.
                    let goes_on = call.options.sends_parts;
                    self.start(ticket, call);
                    if goes_on {
                        return Forwarded::EnoughForNow;
                    }
                }
                Asked::Up(Up::Cancel(why)) => self.cancel(ticket, why),
                Asked::Up(up) => match self.go_on(ticket, up) {
                    Pressure::Ready => {}
                    Pressure::Full => return Forwarded::EnoughForNow,
                },
            }
        }
        loop {
            let notice = self.machine.borrow_mut().poll_notice();
            match notice {
                Some(Notice::Noted(rule)) => tracing::info!("note: {rule}"),
                Some(Notice::Ignored(what)) => tracing::debug!("ignored {what}"),
                Some(notice) => tracing::debug!("{notice:?}"),
                None => return passed,
            }
        }
    }

    fn start(&self, ticket: Ticket, mut call: Call) {
        let Some(this) = self.this.upgrade() else { return };
        call.deadline.quiet = call.deadline.quiet.or(self.timeout);
        self.is_idle.set(false);
        self.running.borrow_mut().insert(ticket, None);
        let uplink = self.route.start(call, ReplyTo::new(this, ticket));
        match self.running.borrow_mut().get_mut(&ticket) {
            Some(place) => *place = Some(Rc::new(uplink)),
            None => uplink.forget(),
        }
    }

    fn cancel(&self, ticket: Ticket, why: Option<Json>) {
        if let Some(uplink) = self.end(ticket) {
            uplink.cancel(why);
        }
    }

    /// Says [`Pressure::Full`] once: when the back has just got all that it can take.
    fn go_on(&self, ticket: Ticket, up: Up) -> Pressure {
        let uplink = self.running.borrow().get(&ticket).cloned().flatten();
        let Some(uplink) = uplink else { return Pressure::Ready };
        if self.sharing == Sharing::Shared && self.slow.borrow().contains(&ticket) {
            let message = "the input was not taken in time, and others wait behind it";
            let failure = Failure::new(FailureKind::TooLarge, message);
            let _ = self.receive(ticket, Down::Done(Err(failure)));
            // The last one who holds it: dropping it cancels.
            return Pressure::Ready;
        }
        let room = uplink.send(up);
        // It may have been answered meanwhile, and then takes anything.
        match room == Pressure::Full && self.running.borrow().contains_key(&ticket) {
            true if self.slow.borrow_mut().insert(ticket) => Pressure::Full,
            _ => Pressure::Ready,
        }
    }

    /// The call is over, or as good as.
    fn end(&self, ticket: Ticket) -> Option<RunningCall> {
        self.slow.borrow_mut().remove(&ticket);
        self.progress.borrow_mut().remove(&ticket);
        self.backlog.forget(ticket);
        let uplink = self.running.borrow_mut().remove(&ticket);
        uplink.flatten().and_then(Rc::into_inner)
    }

    /// Nothing more is read: a back cannot take it, or the other side has not read what it
    /// was answered.
    fn is_paused(&self) -> bool {
        let is_held_back = self.sharing == Sharing::Alone && !self.slow.borrow().is_empty();
        is_held_back || self.backlog.is_unread()
    }
}

impl<S: Serving + Channel + 'static> Asker for Front<S> {
    fn receive(&self, ticket: Ticket, down: Down) -> Pressure {
        if !self.running.borrow().contains_key(&ticket) {
            return Pressure::Ready;
        }
        let is_done = matches!(down, Down::Done(_));
        if matches!(down, Down::Progress(_)) && self.backlog.is_full() {
            self.progress.borrow_mut().insert(ticket, down);
            return Pressure::Ready;
        }
        let weight = down.weight();
        self.machine.borrow_mut().down(self.moment.now(Instant::now), ticket, down);
        self.wake.ring();
        let room = self.backlog.add(ticket, weight);
        if !is_done {
            return room;
        }
        if let Some(uplink) = self.end(ticket) {
            uplink.forget();
        }
        Pressure::Ready
    }

    fn resume(&self, ticket: Ticket) {
        let was_slow = self.slow.borrow_mut().remove(&ticket);
        if was_slow && self.sharing == Sharing::Alone {
            self.taken.ring();
        }
        self.wake.ring();
    }
}

impl<S: Serving + Channel + 'static> Drivable for Front<S> {
    fn bytes(&self, now: Instant, input: &mut BytesMut) -> ReadNext {
        if self.nobody_listens.get() {
            return ReadNext::Close;
        }
        loop {
            let flow = match self.is_paused() {
                true => Flow::Pause,
                false => self.machine.borrow_mut().handle_bytes(now, input),
            };
            if let Some(next) = ReadNext::after(flow, self.pass_on()) {
                return next;
            }
        }
    }

    fn eof(&self, now: Instant, input: &mut BytesMut) -> ReadNext {
        self.is_all_asked.set(true);
        let flow = self.machine.borrow_mut().handle_eof(now, input);
        ReadNext::after(flow, self.pass_on()).unwrap_or(ReadNext::Turn)
    }

    fn timeout(&self, now: Instant) {
        self.machine.borrow_mut().handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.borrow().poll_timeout()
    }

    fn transmit(&self, out: &mut Outbox) -> Forwarded {
        self.moment.pass();
        self.machine.borrow_mut().poll_transmit(out);
        Forwarded::Nothing
    }

    fn left(&self, bytes: usize) {
        let is_idle = bytes == 0 && self.running.borrow().is_empty();
        if !self.is_idle.replace(is_idle) && is_idle {
            self.idle.ring();
        }
        let was_unread = self.backlog.is_unread();
        let may_go_on = self.backlog.set(bytes);
        if was_unread && !self.backlog.is_unread() {
            self.wake.ring();
        }
        if !self.backlog.is_full() && !self.progress.borrow().is_empty() {
            for (ticket, progress) in self.progress.take() {
                let _ = self.receive(ticket, progress);
            }
        }
        for ticket in may_go_on {
            let uplink = self.running.borrow().get(&ticket).cloned().flatten();
            if let Some(uplink) = uplink {
                uplink.resume();
            }
        }
    }

    fn sent(&self, now: Instant) {
        self.machine.borrow_mut().handle_sent(now);
    }

    fn read_failed(&self, _now: Instant) {
        self.nobody_listens.set(true);
    }

    fn write_failed(&self, _now: Instant, _error: io::Error) {
        self.nobody_listens.set(true);
    }

    fn closing(&self) -> Closing {
        match self.machine.borrow().is_finished() {
            true => Closing::AfterWriting,
            false => Closing::No,
        }
    }

    fn has_ended(&self, _now: Instant) -> bool {
        false
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }

    fn taken(&self) -> Option<&Wake> {
        Some(&self.taken)
    }
}

/// Cancels what a front has under way, however its serving ends.
pub(crate) struct CancelAll<'a, S: Serving + Channel + 'static>(pub(crate) &'a Front<S>);

impl<S: Serving + Channel + 'static> Drop for CancelAll<'_, S> {
    fn drop(&mut self) {
        self.0.cancel_all();
    }
}
