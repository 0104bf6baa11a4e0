//! The way from an MCP front to several backs.
//!
//! Tools are listed and called through the bus, as every front does. All else is made one by
//! [`Several`], which decides; here is who asks the backs and wakes it.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

use tokio::task::JoinHandle;
use toolbus_proto::channel::{Asked, Down, Ticket, Up};
use toolbus_proto::json::{Json, edit};
use toolbus_proto::mcp::calling::era_of;
use toolbus_proto::mcp::several::{Kept, Peer, Several, SeveralNotice, Shown};
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::tool::{Call, Outcome, ToolName, What};

use super::WIRE;
use crate::bus::lenient::{LenientBus, left_out};
use crate::bus::view::warn_of_same_name;
use crate::bus::{Bus, Route};
use crate::engine::alarm::Alarm;
use crate::engine::calls::{
    self, Answerer, Asker, ByTicket, Inbox, Pressure, ReplyTo, RunningCall, RunningCalls,
};
use crate::task::spawn_local;
use crate::wake::Wake;

/// Several backs, as an MCP front sees them.
pub(super) struct SeveralBacks {
    this: Weak<SeveralBacks>,
    bus: RefCell<Rc<Bus>>,
    tools: LenientBus,
    machine: RefCell<Several>,
    /// Where the answers to clients go.
    askers: RefCell<ByTicket<ReplyTo>>,
    /// What backs are busy with.
    running: RunningCalls,
    next_ticket: Cell<u64>,
    /// What the machine says is being carried: a caller that adds to it meanwhile leaves it at that.
    is_carrying: Cell<bool>,
    /// By what the tools are known again as a client saw them last, where not all are shown.
    seen: Rc<Cell<Option<u64>>>,
    alarm: Rc<Alarm>,
    keeper: JoinHandle<()>,
}

impl SeveralBacks {
    /// No back is asked before a client wants something. `changed` is rung when others tools are
    /// offered than clients were told. Must be called inside a `LocalSet`.
    pub(super) fn new(bus: Rc<Bus>, changed: Rc<Wake>) -> Rc<SeveralBacks> {
        let peers = bus.backs().map(|(name, wire)| Peer { name, speaks_mcp: wire == WIRE });
        let mut machine =
            Several::new(env!("CARGO_PKG_VERSION"), bus.list_timeout(), peers.collect());
        machine.show(shown_by(&bus));
        for (index, greetings) in bus.known_greetings() {
            machine.know(index, greetings);
        }
        let alarm = Rc::new(Alarm::default());
        Rc::new_cyclic(|this| SeveralBacks {
            this: this.clone(),
            tools: LenientBus::telling(bus.clone(), changed),
            bus: RefCell::new(bus),
            machine: RefCell::new(machine),
            askers: RefCell::default(),
            running: RunningCalls::default(),
            next_ticket: Cell::new(0),
            is_carrying: Cell::new(false),
            seen: Rc::default(),
            keeper: spawn_local(keep(this.clone(), alarm.clone())),
            alarm,
        })
    }

    /// These take the place of others, whose clients they have from now on.
    pub(super) fn follow(&self, before: &SeveralBacks) {
        self.seen.set(before.seen.get());
    }

    /// Are the tools others than clients saw them last? They are listed again to know.
    pub(super) async fn have_changed(&self) -> bool {
        let Some(before) = self.seen.get() else { return true };
        let (inbox, down) = Inbox::new();
        let listing = self.tools.start(Call::of(Instant::now(), What::Tools), down);
        match inbox.whole(listing).await {
            Ok(Outcome::Tools(now)) => {
                let now = self.bus.borrow().sum_of_list(&now);
                self.seen.set(Some(now));
                now != before
            }
            _ => true,
        }
    }

    /// The tools are others than before: the clients that listen are told.
    pub(super) fn tools_changed(&self) {
        self.machine.borrow_mut().tools_changed();
        let _ = self.carry();
    }

    /// The only server is asked by this bus from now on, and shown as that does; tells whether
    /// clients may see it otherwise than before.
    pub(super) fn lead_to(&self, bus: Rc<Bus>) -> bool {
        let shown = shown_by(&bus);
        self.bus.replace(bus);
        let is_other = {
            let mut machine = self.machine.borrow_mut();
            let is_other = machine.shown().selection != shown.selection;
            machine.show(shown);
            if is_other {
                machine.lists_anew(Instant::now());
            }
            is_other
        };
        let _ = self.carry();
        is_other
    }

    /// Other backs take the place of these.
    pub(super) fn close(&self) {
        self.machine.borrow_mut().close();
        let _ = self.carry();
    }

    fn start_native(&self, call: Call, down: ReplyTo) -> RunningCall {
        if let Some((back, call)) = self.held_prompt(&call) {
            if era_of(&call) == Era::Legacy {
                self.machine.borrow_mut().relink(Instant::now(), call.caller, back);
                let _ = self.carry();
            }
            let bus = self.bus.borrow().clone();
            return bus.start_at(back, call, down);
        }
        let changed = self.machine.borrow().changed_call(&call);
        if let Some(changed) = changed {
            let down = self.remembering_tasks(down);
            let bus = self.bus.borrow().clone();
            return bus.start_changed_at(0, call, changed, down);
        }
        self.learn_greetings(&call);
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

    /// The way of a reply on which it is seen whether its call has become a task, where that matters.
    fn remembering_tasks(&self, down: ReplyTo) -> ReplyTo {
        if !self.machine.borrow().tells_of_tasks() {
            return down;
        }
        ReplyTo::new(Rc::new(RememberingTasks { down, backs: self.this.clone() }), Ticket(0))
    }

    /// The call of a prompt that the lock holds back: it is in no list, and its back says why.
    fn held_prompt(&self, call: &Call) -> Option<(usize, Call)> {
        let What::Native { wire, method, body } = &call.what else { return None };
        if method != "prompts/get" {
            return None;
        }
        let bus = self.bus.borrow().clone();
        if bus.backs().count() < 2 {
            return None;
        }
        let params = str::from_utf8(body).ok()?;
        let (back, own) = bus.held_prompt(&edit::text(params, "name")?)?;
        let own = Json::of(&own);
        let body = edit::replaced(params, "name", own.as_str())?.into();
        let what = What::Native { wire: *wire, method: method.clone(), body };
        Some((back, Call { what, ..call.clone() }))
    }

    /// A client wants to know who is there: what the lock says of backs may have changed.
    fn learn_greetings(&self, call: &Call) {
        let What::Native { method, .. } = &call.what else { return };
        if method != "initialize" && method != "server/discover" {
            return;
        }
        let known = self.bus.borrow().known_greetings();
        for (index, greetings) in known {
            self.machine.borrow_mut().know(index, greetings);
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
                let Some(owner) = self.bus.borrow().owner(name) else { return };
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
        self.tell_observers();
        self.alarm.set(self.machine.borrow().poll_timeout());
        pressure
    }

    fn ask(&self, back: usize, ticket: Ticket, asked: Asked) {
        match asked {
            Asked::Call(call) => {
                let Some(this) = self.this.upgrade() else { return };
                let bus = self.bus.borrow().clone();
                let changed = self.machine.borrow_mut().changed(ticket);
                let reply_to = ReplyTo::new(this, ticket);
                let start = || match changed {
                    None => bus.start_at(back, call, reply_to),
                    Some(changed) => bus.start_changed_at(back, call, changed, reply_to),
                };
                self.running.start(ticket, (), start);
            }
            Asked::Up(up) => {
                let _ = self.running.send(ticket, up);
            }
        }
    }

    /// Those who keep count of calls hear of such as no back hears of, too.
    fn tell_observers(&self) {
        loop {
            let kept = self.machine.borrow_mut().poll_kept();
            let Some(Kept { call, failure, hidden }) = kept else { return };
            let bus = self.bus.borrow().clone();
            bus.refuse_at(0, call, failure, hidden.map(ToolName::from));
        }
    }

    fn tell_log(&self) {
        loop {
            let notice = self.machine.borrow_mut().poll_notice();
            match notice {
                Some(SeveralNotice::LeftOut { back, failure }) => {
                    if let Some((name, _)) = self.bus.borrow().backs().nth(back) {
                        left_out(&name, &failure);
                    }
                }
                Some(SeveralNotice::SameName(told)) => {
                    tracing::warn!("the second is left out: {told}");
                }
                Some(SeveralNotice::SameTool(told)) => warn_of_same_name(&told),
                None => return,
            }
        }
    }
}

/// What the clients of this bus are shown.
fn shown_by(bus: &Bus) -> Shown {
    let (selection, is_closed) = (bus.selection().cloned(), bus.doors().is_some());
    let greets_first = bus.offers_sign_in();
    Shown { selection, is_closed, lists_tools: bus.may_search(), greets_first }
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
                let is_list = matches!(call.what, What::Tools);
                let is_cut = {
                    let bus = self.bus.borrow();
                    bus.selection().is_some() || bus.may_search()
                };
                let down = match is_list && is_cut {
                    true => {
                        let (seen, bus) = (self.seen.clone(), self.bus.borrow().clone());
                        ReplyTo::new(Rc::new(Seeing { down, seen, bus }), Ticket(0))
                    }
                    false => down,
                };
                self.tools.start(call, down)
            }
        }
    }
}

/// Passes a list on, and keeps by what it is known again.
struct Seeing {
    down: ReplyTo,
    seen: Rc<Cell<Option<u64>>>,
    bus: Rc<Bus>,
}

impl Asker for Seeing {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if let Down::Done(Ok(Outcome::Tools(tools))) = &down {
            self.seen.set(Some(self.bus.sum_of_list(tools)));
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

/// Passes a reply on, and keeps the task that its call has become, if it has.
struct RememberingTasks {
    down: ReplyTo,
    backs: Weak<SeveralBacks>,
}

impl Asker for RememberingTasks {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if let Down::Done(Ok(Outcome::Native(result))) = &down
            && let Some(backs) = self.backs.upgrade()
        {
            backs.machine.borrow_mut().answered(result);
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
