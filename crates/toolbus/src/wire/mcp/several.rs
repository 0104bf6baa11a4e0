//! The way from an MCP front to several backs.
//!
//! Tools are listed and called through the bus, as every front does. All else is made one by
//! [`Several`], which decides; here is who asks the backs and wakes it.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

use tokio::task::JoinHandle;
use toolbus_proto::channel::{Asked, Down, Ticket, Up};
use toolbus_proto::mcp::calling::era_of;
use toolbus_proto::mcp::several::{Peer, Several, SeveralNotice};
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::tool::{Call, What};

use super::WIRE;
use crate::bus::lenient::{LenientBus, left_out};
use crate::bus::{Bus, Route};
use crate::engine::alarm::Alarm;
use crate::engine::calls::{
    self, Answerer, Asker, ByTicket, Pressure, ReplyTo, RunningCall, RunningCalls,
};
use crate::task::spawn_local;
use crate::wake::Wake;

/// Several backs, as an MCP front sees them.
pub(super) struct SeveralBacks {
    this: Weak<SeveralBacks>,
    bus: Rc<Bus>,
    tools: LenientBus,
    machine: RefCell<Several>,
    /// Where the answers to clients go.
    askers: RefCell<ByTicket<ReplyTo>>,
    /// What backs are busy with.
    running: RunningCalls,
    next_ticket: Cell<u64>,
    /// What the machine says is being carried: a caller that adds to it meanwhile leaves it at that.
    is_carrying: Cell<bool>,
    alarm: Rc<Alarm>,
    keeper: JoinHandle<()>,
}

impl SeveralBacks {
    /// No back is asked before a client wants something. `changed` is rung when others tools are
    /// offered than clients were told. Must be called inside a `LocalSet`.
    pub(super) fn new(bus: Rc<Bus>, changed: Rc<Wake>) -> Rc<SeveralBacks> {
        let peers = bus.backs().map(|(name, wire)| Peer { name, speaks_mcp: wire == WIRE });
        let machine = Several::new(env!("CARGO_PKG_VERSION"), bus.list_timeout(), peers.collect());
        let alarm = Rc::new(Alarm::default());
        Rc::new_cyclic(|this| SeveralBacks {
            this: this.clone(),
            tools: LenientBus::telling(bus.clone(), changed),
            bus,
            machine: RefCell::new(machine),
            askers: RefCell::default(),
            running: RunningCalls::default(),
            next_ticket: Cell::new(0),
            is_carrying: Cell::new(false),
            keeper: spawn_local(keep(this.clone(), alarm.clone())),
            alarm,
        })
    }

    /// The tools are others than before: the clients that listen are told.
    pub(super) fn tools_changed(&self) {
        self.machine.borrow_mut().tools_changed();
        let _ = self.carry();
    }

    /// Other backs take the place of these.
    pub(super) fn close(&self) {
        self.machine.borrow_mut().close();
        let _ = self.carry();
    }

    fn start_native(&self, call: Call, down: ReplyTo) -> RunningCall {
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        self.askers.borrow_mut().insert(ticket, down);
        self.machine.borrow_mut().call(Instant::now(), ticket, call);
        let _ = self.carry();
        match self.this.upgrade() {
            Some(this) => RunningCall::new(this, ticket),
            None => RunningCall::ended(),
        }
    }

    /// Servers that were started again are told of the session first, so that they know whom they
    /// may ask.
    fn relink(&self, call: &Call) {
        if era_of(call) != Era::Legacy {
            return;
        }
        let now = Instant::now();
        match &call.what {
            What::Tools => self.machine.borrow_mut().relink_all(now, call.caller),
            What::Tool { name, .. } => {
                let Some(owner) = self.bus.owner(name) else { return };
                self.machine.borrow_mut().relink(now, call.caller, owner);
            }
            What::Native { .. } => return,
        }
        let _ = self.carry();
    }

    /// Carries what the machine says until it has nothing more to say. Nothing stays borrowed:
    /// the front or back that is told may say more at once.
    fn carry(&self) -> Pressure {
        let mut pressure = Pressure::Ready;
        if self.is_carrying.replace(true) {
            return pressure;
        }
        loop {
            let ask = self.machine.borrow_mut().poll_ask();
            if let Some((back, ticket, asked)) = ask {
                self.ask(back, ticket, asked);
                continue;
            }
            let down = self.machine.borrow_mut().poll_down();
            let Some((front, down)) = down else { break };
            pressure = pressure.max(calls::answer(&self.askers, &front, down));
        }
        self.is_carrying.set(false);
        self.tell_log();
        self.alarm.set(self.machine.borrow().poll_timeout());
        pressure
    }

    fn ask(&self, back: usize, ticket: Ticket, asked: Asked) {
        match asked {
            Asked::Call(call) => {
                let Some(this) = self.this.upgrade() else { return };
                let start = || self.bus.start_at(back, call, ReplyTo::new(this, ticket));
                self.running.start(ticket, (), start);
            }
            Asked::Up(up) => {
                let _ = self.running.send(ticket, up);
            }
        }
    }

    fn tell_log(&self) {
        loop {
            let notice = self.machine.borrow_mut().poll_notice();
            match notice {
                Some(SeveralNotice::LeftOut { back, failure }) => {
                    if let Some((name, _)) = self.bus.backs().nth(back) {
                        left_out(&name, &failure);
                    }
                }
                Some(SeveralNotice::SameName(told)) => {
                    tracing::warn!("the second is left out: {told}");
                }
                None => return,
            }
        }
    }
}

impl Drop for SeveralBacks {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Looks at the clock for the machine.
async fn keep(backs: Weak<SeveralBacks>, alarm: Rc<Alarm>) {
    let poll_timeout = || backs.upgrade()?.machine.borrow().poll_timeout();
    let handle_timeout = || {
        if let Some(backs) = backs.upgrade() {
            backs.machine.borrow_mut().handle_timeout(Instant::now());
            let _ = backs.carry();
        }
    };
    alarm.keep(poll_timeout, handle_timeout).await;
}

impl Route for SeveralBacks {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        match &call.what {
            What::Native { .. } => self.start_native(call, down),
            What::Tools | What::Tool { .. } => {
                if matches!(call.what, What::Tools) && call.sought.is_none() {
                    self.machine.borrow_mut().begin_list(Instant::now());
                }
                self.relink(&call);
                self.tools.start(call, down)
            }
        }
    }
}

impl Asker for SeveralBacks {
    fn receive(&self, ticket: Ticket, down: Down) -> Pressure {
        if let Down::Done(_) = down {
            self.running.end(ticket);
        }
        self.machine.borrow_mut().down(Instant::now(), ticket, down);
        self.carry()
    }

    fn resume(&self, _ticket: Ticket) {}
}

impl Answerer for SeveralBacks {
    fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        self.machine.borrow_mut().up(ticket, up);
        self.carry()
    }

    /// The client takes more again.
    fn resume(&self, ticket: Ticket) {
        let calls = self.machine.borrow().calls_of(ticket);
        calls.into_iter().for_each(|call| self.running.resume(call));
    }
}
