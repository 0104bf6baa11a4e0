//! What clients of the back's own wire ask: answered from the lock, or edited on its way where the
//! only server of a front passes through.

use std::rc::{Rc, Weak};

use bytes::Bytes;
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::pin::{PinKind, Pinned};
use toolbus_proto::tool::{Call, Outcome, Part, What};

use super::comparing::approved_instructions;
use super::{Guarded, done};
use crate::bus::back::Connection;
use crate::bus::lock::OnChange;
use crate::engine::calls::{Asker, Pressure, ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::peer::pins::{AskedOf, Pins, WhichList};
use crate::task::spawn_local;

impl Guarded {
    pub(super) fn native(&self, call: Call, down: ReplyTo, pins: &'static dyn Pins) -> RunningCall {
        let What::Native { method, body, .. } = &call.what else { return self.guard(call, down) };
        let asked = pins.asked(method, body);
        if self.passes.get() && self.plan.pinned.is_some() {
            return match asked {
                AskedOf::Greeting { is_legacy } => {
                    let down = self.edited(down, Edit::Greeting { is_legacy });
                    self.guard_program(call, down)
                }
                AskedOf::List(WhichList::Pinned(kind)) => {
                    let down = self.edited(down, Edit::List(kind, Rc::new(call.clone())));
                    self.guard_program(call, down)
                }
                AskedOf::Entry(kind, name) => self.guard_entry(call, down, Some(&(kind, name))),
                AskedOf::List(_) | AskedOf::Told | AskedOf::Other => self.guard_program(call, down),
            };
        }
        let is_legacy = pins.is_legacy(&call);
        let is_open = matches!(self.inner.connection(&call), Connection::Open(_));
        let empty = Pinned::default();
        let pinned = self.plan.pinned.as_deref().unwrap_or(&empty);
        match asked {
            AskedOf::Greeting { is_legacy: true } => {
                let head = Some(self.greeting(pins, true));
                self.stand(call, true, down, Down::Begin { head, parts: None })
            }
            AskedOf::Greeting { is_legacy: false } => {
                let greeting = self.greeting(pins, false).as_bytes().clone();
                done(&down, Ok(Outcome::Native(greeting)))
            }
            AskedOf::List(WhichList::Pinned(kind))
                if self.plan.is_fresh && !self.is_shut() && !self.is_compared(&call) =>
            {
                self.fresh_list(call, down, pins, kind)
            }
            AskedOf::List(WhichList::Pinned(kind)) => {
                let list = pins.native_list(
                    is_legacy,
                    WhichList::Pinned(kind),
                    &self.objects(kind, is_legacy),
                );
                done(&down, Ok(Outcome::Native(list)))
            }
            AskedOf::List(WhichList::Resources) if pinned.resources.as_deref() != Some("some") => {
                let list = pins.native_list(is_legacy, WhichList::Resources, &[]);
                done(&down, Ok(Outcome::Native(list)))
            }
            AskedOf::Told if is_legacy && pins.is_repeated(method) => {
                let said_on = self.connection(&call).filter(|_| is_open);
                self.stand_aside(call.clone(), said_on);
                match is_open {
                    true => self.guard_entry(call, down, None),
                    false => done(&down, Ok(Outcome::Native(Bytes::from_static(b"{}")))),
                }
            }
            AskedOf::Told if !is_open => match pins.told(method, body) {
                Some(first) => {
                    let first = Down::Part(Part::Json(first));
                    self.stand(call, false, down, first)
                }
                None => done(&down, Ok(Outcome::Native(Bytes::from_static(b"{}")))),
            },
            _ if self.is_shut() => done(&down, Err(self.not_locked())),
            AskedOf::Entry(kind, name) => self.guard_entry(call, down, Some(&(kind, name))),
            _ => self.guard_entry(call, down, None),
        }
    }

    /// A list of a back that is asked before it is answered for.
    pub(super) fn fresh_list(
        &self,
        call: Call,
        down: ReplyTo,
        pins: &'static dyn Pins,
        kind: PinKind,
    ) -> RunningCall {
        let relay = Relay::new(call.clone(), down);
        let Some(this) = self.this.upgrade() else { return RunningCall::ended() };
        let asked = relay.clone();
        spawn_local(async move {
            let compared = match this.program_refusal() {
                Some(failure) => Err(failure),
                None => this.compare(&call).await,
            };
            asked.finish(compared.map(|_| {
                let is_legacy = pins.is_legacy(&call);
                let objects = this.objects(kind, is_legacy);
                Outcome::Native(pins.native_list(is_legacy, WhichList::Pinned(kind), &objects))
            }));
        });
        relay.set_alarm();
        relay.running_call()
    }

    fn edited(&self, down: ReplyTo, edit: Edit) -> ReplyTo {
        let guarded = self.this.clone();
        ReplyTo::new(Rc::new(Edited { down, edit, guarded }), Ticket(0))
    }

    /// A greeting with the instructions that were approved.
    pub(super) fn greeted(&self, greeting: &Json, is_legacy: bool) -> Json {
        let (Some(pinned), Some(pins)) = (&self.plan.pinned, self.plan.pins) else {
            return greeting.clone();
        };
        self.introduced(greeting, is_legacy);
        if self.plan.rules.changed == OnChange::Warn {
            return greeting.clone();
        }
        pins.with_instructions(greeting, approved_instructions(pinned, is_legacy))
    }
}

/// An answer that is looked at on its way to the client of a server that passes through.
struct Edited {
    down: ReplyTo,
    edit: Edit,
    guarded: Weak<Guarded>,
}

enum Edit {
    Greeting {
        is_legacy: bool,
    },
    /// With the call that asks for it.
    List(PinKind, Rc<Call>),
}

impl Edited {
    fn edit(&self, down: Down) -> Down {
        let Some(guarded) = self.guarded.upgrade() else { return down };
        match (&self.edit, down) {
            (&Edit::Greeting { is_legacy }, Down::Begin { head: Some(head), parts }) => {
                Down::Begin { head: Some(guarded.greeted(&head, is_legacy)), parts }
            }
            (&Edit::Greeting { is_legacy }, Down::Done(Ok(Outcome::Native(raw)))) => {
                let edited = match Json::parse(raw.clone()) {
                    Ok(greeting) => guarded.greeted(&greeting, is_legacy).as_bytes().clone(),
                    Err(_) => raw,
                };
                Down::Done(Ok(Outcome::Native(edited)))
            }
            (Edit::List(kind, call), Down::Done(Ok(Outcome::Native(raw)))) => {
                let Some(pins) = guarded.plan.pins else {
                    return Down::Done(Ok(Outcome::Native(raw)));
                };
                let is_shown = |object: &str| guarded.is_shown(*kind, object);
                let filtered = pins.native_filtered(&raw, *kind, &is_shown);
                // What is taken out is told, though nothing has been called yet.
                if filtered != raw && !guarded.is_compared(call) {
                    guarded.compare_aside(Call::clone(call));
                }
                Down::Done(Ok(Outcome::Native(filtered)))
            }
            (_, down) => down,
        }
    }
}

impl Asker for Edited {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        self.down.send(self.edit(down))
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}
