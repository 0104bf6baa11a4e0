//! A serving end before the bus, one file a protocol.
//!
//! [`Front`] joins any serving machine to whoever answers its calls: what the machine is
//! asked goes to the route, what comes back goes to the machine, and the pump moves the bytes.

pub mod oracle;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{Asked, Down, Ended, Flow, Notice, Outbox, Serving, Ticket, Up};
use toolbus_proto::tool::Call;

use crate::bus::Bus;
use crate::link::{Asker, BYTES_WAITING_MAX, Room, Slot, Uplink};
use crate::pump::reactor::{Closing, Driven, Sink, Source, drive};
use crate::pump::wake::Wake;

/// Whoever answers the calls of a front: the bus, or one back.
pub trait Route {
    /// Asks, at once. What comes back goes to `down`.
    fn start(&self, call: Call, down: Slot) -> Uplink;
}

impl Route for Bus {
    fn start(&self, call: Call, down: Slot) -> Uplink {
        Bus::start(self, call, down)
    }
}

/// A serving machine and the calls it has under way.
pub struct Front<S: Serving + 'static> {
    this: Weak<Front<S>>,
    machine: RefCell<S>,
    route: Rc<dyn Route>,
    /// How long a call may be quiet.
    timeout: Option<Duration>,
    /// The calls under way; `None` until the route has given its uplink.
    running: RefCell<HashMap<Ticket, Option<Rc<Uplink>>>>,
    /// Calls whose reply waits until the other side reads on.
    held_back: RefCell<HashSet<Ticket>>,
    /// Bytes that wait to be written, as far as is known.
    waiting: Cell<usize>,
    /// A back takes our parts slowly, and we wait for it.
    is_paused: Cell<bool>,
    closing: Cell<Closing>,
    wake: Wake,
}

impl<S: Serving + 'static> Front<S> {
    /// Joins `machine` to `route`.
    pub fn new(machine: S, route: Rc<dyn Route>, timeout: Option<Duration>) -> Rc<Front<S>> {
        Rc::new_cyclic(|this| Front {
            this: this.clone(),
            machine: RefCell::new(machine),
            route,
            timeout,
            running: RefCell::default(),
            held_back: RefCell::default(),
            waiting: Cell::new(0),
            is_paused: Cell::new(false),
            closing: Cell::new(Closing::No),
            wake: Wake::default(),
        })
    }

    /// Serves until the conversation is over, and says how it ended.
    pub async fn serve(&self, source: impl Source, sink: impl Sink) -> Ended {
        drive(self, source, sink).await;
        self.cancel_all();
        self.machine.borrow().ended().cloned().unwrap_or(Ended::Well)
    }

    /// Ends what is under way: nobody waits for it any more.
    pub fn cancel_all(&self) {
        let running = std::mem::take(&mut *self.running.borrow_mut());
        drop(running);
    }

    /// Passes on what the machine was asked. Nothing stays borrowed meanwhile: a call may be
    /// answered before it has been started.
    fn route(&self) {
        loop {
            let asked = self.machine.borrow_mut().poll_up();
            match asked {
                Some((ticket, Asked::Call(call))) => self.start(ticket, call),
                Some((ticket, Asked::Up(up))) => self.go_on(ticket, up),
                None => break,
            }
        }
        loop {
            let notice = self.machine.borrow_mut().poll_notice();
            match notice {
                Some(Notice::Ignored(what)) => tracing::debug!("ignored {what}"),
                Some(notice) => tracing::debug!("{notice:?}"),
                None => break,
            }
        }
    }

    fn start(&self, ticket: Ticket, mut call: Call) {
        let Some(this) = self.this.upgrade() else { return };
        call.deadline.quiet = call.deadline.quiet.or(self.timeout);
        self.running.borrow_mut().insert(ticket, None);
        let uplink = self.route.start(call, Slot::new(this, ticket));
        match self.running.borrow_mut().get_mut(&ticket) {
            Some(place) => *place = Some(Rc::new(uplink)),
            None => uplink.forget(),
        }
    }

    fn go_on(&self, ticket: Ticket, up: Up) {
        let is_cancel = matches!(up, Up::Cancel(_));
        let uplink = match is_cancel {
            true => self.running.borrow_mut().remove(&ticket).flatten(),
            false => self.running.borrow().get(&ticket).cloned().flatten(),
        };
        let Some(uplink) = uplink else { return };
        if uplink.send(up) == Room::Full {
            self.is_paused.set(true);
        }
    }

    fn flow(&self, flow: Flow) -> Flow {
        if flow == Flow::More && self.is_paused.get() { Flow::Pause } else { flow }
    }
}

impl<S: Serving + 'static> Asker for Front<S> {
    fn receive(&self, ticket: Ticket, down: Down) -> Room {
        if !self.running.borrow().contains_key(&ticket) {
            return Room::Enough;
        }
        self.waiting.set(self.waiting.get() + down.weight());
        let is_done = matches!(down, Down::Done(_));
        self.machine.borrow_mut().down(Instant::now(), ticket, down);
        self.wake.ring();
        if is_done {
            self.held_back.borrow_mut().remove(&ticket);
            if let Some(Some(uplink)) = self.running.borrow_mut().remove(&ticket)
                && let Some(uplink) = Rc::into_inner(uplink)
            {
                uplink.forget();
            }
        } else if BYTES_WAITING_MAX <= self.waiting.get() {
            self.held_back.borrow_mut().insert(ticket);
            return Room::Full;
        }
        Room::Enough
    }

    fn resume(&self, _ticket: Ticket) {
        self.is_paused.set(false);
        self.wake.ring();
    }
}

impl<S: Serving + 'static> Driven for Front<S> {
    fn bytes(&self, now: Instant, input: &mut BytesMut) -> Flow {
        if self.is_paused.get() {
            return Flow::Pause;
        }
        let flow = self.machine.borrow_mut().handle_bytes(now, input);
        self.route();
        self.flow(flow)
    }

    fn eof(&self, now: Instant, input: &mut BytesMut) -> Flow {
        let flow = self.machine.borrow_mut().handle_eof(now, input);
        self.route();
        flow
    }

    fn timeout(&self, now: Instant) {
        self.machine.borrow_mut().handle_timeout(now);
        self.route();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.borrow().poll_timeout()
    }

    fn transmit(&self, out: &mut Outbox) {
        self.machine.borrow_mut().poll_transmit(out);
        self.waiting.set(out.len());
    }

    fn wrote(&self, left: usize) {
        self.waiting.set(left);
        if BYTES_WAITING_MAX / 2 < left || self.held_back.borrow().is_empty() {
            return;
        }
        for ticket in std::mem::take(&mut *self.held_back.borrow_mut()) {
            let uplink = self.running.borrow().get(&ticket).cloned().flatten();
            if let Some(uplink) = uplink {
                uplink.resume();
            }
        }
    }

    /// Nobody reads what we write any more; what is still being asked is not answered either.
    fn write_failed(&self, _now: Instant, _error: io::Error) -> Flow {
        self.closing.set(Closing::Now);
        Flow::Close
    }

    fn closing(&self) -> Closing {
        self.closing.get()
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }
}
