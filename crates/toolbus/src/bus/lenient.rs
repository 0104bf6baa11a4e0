//! The bus for fronts that can do with less: who cannot be reached is left out of the list of
//! tools, and asked again with the next list, or with the next call that may be for it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::spawn_local;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolName, ToolSpec, What};

use super::Route;
use crate::bus::{Bus, Listed};
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::engine::wake::Wake;

/// The bus, asked for its tools whenever somebody wants to know them.
pub struct LenientBus(Rc<Offered>);

impl LenientBus {
    /// Nobody is asked before somebody wants to know.
    pub fn new(bus: Rc<Bus>) -> LenientBus {
        LenientBus::telling(bus, Rc::default())
    }

    /// As [`LenientBus::new`]; `changed` is rung when others are offered than the client was told.
    pub(crate) fn telling(bus: Rc<Bus>, changed: Rc<Wake>) -> LenientBus {
        bus.offer_own();
        LenientBus(Rc::new(Offered { bus, heard: Cell::new(Heard::Nobody), changed }))
    }
}

impl LenientBus {
    /// The tools of all who can be reached.
    pub(super) async fn tools(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        self.0.ask().await
    }
}

impl Route for LenientBus {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let must_ask = match &call.what {
            What::Tools => true,
            What::Tool { name, .. } => self.0.may_be_left_out(name),
            What::Native { .. } => false,
        };
        match must_ask {
            true => later(self.0.clone(), call, down),
            false => self.0.bus.start(call, down),
        }
    }
}

/// What the bus offered when it was last asked.
struct Offered {
    bus: Rc<Bus>,
    heard: Cell<Heard>,
    /// Rung when others are offered than the client was told.
    changed: Rc<Wake>,
}

/// Who was heard when the bus was last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// Nobody was asked yet, or no list could be made.
    Nobody,
    /// Somebody did not answer.
    Some,
    All,
}

impl Offered {
    fn names(&self) -> Vec<ToolName> {
        self.bus.offered().into_iter().map(|tool| tool.name).collect()
    }

    /// Is it a tool of nobody, but may be one of a back that was left out?
    fn may_be_left_out(&self, name: &ToolName) -> bool {
        self.heard.get() != Heard::All && self.bus.resolve(name).is_none()
    }

    /// Asks all backs, and offers from now on what they have.
    async fn ask(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        let listed = self.bus.list().await;
        let mut first_failure = None;
        for Listed { back, tools, .. } in &listed {
            if let Err(failure) = tools {
                tracing::warn!(peer = %back, "left out: {failure}");
                first_failure.get_or_insert(failure);
            }
        }
        if let Some(failure) = first_failure
            && listed.iter().all(|listed| listed.tools.is_err())
        {
            return Err(failure.clone());
        }
        match self.bus.offer(&listed) {
            Ok(()) => {}
            Err(taken) if self.heard.get() == Heard::Nobody => {
                return Err(Failure::new(FailureKind::Unavailable, taken.to_string()));
            }
            // Nobody loses a tool because another one came.
            Err(taken) => {
                tracing::warn!("the list stays as it was: {taken}");
                return Ok(self.bus.offered().into());
            }
        }
        self.heard.set(if first_failure.is_none() { Heard::All } else { Heard::Some });
        // In the order of the backs, each in its own.
        let tools = listed.iter().flat_map(|Listed { back, tools, .. }| {
            tools
                .iter()
                .flat_map(|tools| tools.iter())
                .map(|tool| ToolSpec { name: self.bus.name_of(back, &tool.name), ..tool.clone() })
        });
        Ok(tools.collect())
    }
}

/// A call that waits until all backs have been asked.
fn later(offered: Rc<Offered>, call: Call, down: ReplyTo) -> RunningCall {
    let lists_tools = call.what == What::Tools;
    let relay = Relay::new(call, down);
    let asked = relay.clone();
    let asking = spawn_local(async move {
        let before = offered.names();
        match offered.ask().await {
            Ok(tools) if lists_tools => asked.finish(Ok(Outcome::Tools(tools))),
            Err(failure) => asked.finish(Err(failure)),
            Ok(_) => {
                // Whoever was left out may have come, and this is no list that says so.
                if offered.names() != before {
                    offered.changed.ring();
                }
                asked.begin(|call, down| offered.bus.start(call, down));
            }
        }
    });
    let asking = asking.abort_handle();
    relay.at_end(move || asking.abort());
    // Who waits for the list waits no longer than for the call.
    relay.set_alarm();
    relay.running_call()
}
