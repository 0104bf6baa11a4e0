//! What commands ask for, and how the bus answers.

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use toolbus_proto::caller::CallerName;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::run::{
    CALL, Destination, FRESH_TOOLS, FRONTS, RemoteCall, TOOLS, WIRES, write_tools,
};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolName, What, Wire};
use toolbus_proto::view::Rule;

use super::socket::RunHost;
use crate::bus::observe::{Kept, Observed};
use crate::bus::{Bus, Member, answer, hand_to};
use crate::engine::Route;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::peer::Registry;

/// The way from a command to the bus.
pub(super) struct RunRoute(Rc<RunHost>);

impl RunRoute {
    pub(super) fn new(shared: Rc<RunHost>) -> RunRoute {
        RunRoute(shared)
    }

    /// Answers by what is known of one back, once that is known.
    fn about_back<T>(
        &self,
        (call, body): (&Call, &Bytes),
        down: ReplyTo,
        look: impl FnOnce(Rc<Member>) -> T + 'static,
    ) -> RunningCall
    where
        T: Future<Output = Result<Json, Failure>>,
    {
        let name = String::from_utf8_lossy(body);
        match self.0.bus().member(&name).cloned() {
            Some(member) => {
                answer(call.deadline, down, async move { look(member).await.map(Outcome::Value) })
            }
            None => done(&down, Err(no_back(&name))),
        }
    }
}

impl Route for RunRoute {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let What::Native { method, body, .. } = &call.what else {
            return done(&down, Err(unreadable()));
        };
        match &method[..] {
            CALL => match RemoteCall::read(Instant::now(), body, wire_named) {
                Some(asked) => {
                    let RemoteCall { front, view, caller, to, call: mut asked } = asked;
                    asked.caller = call.caller;
                    let caller = caller.as_deref().map(CallerName::new);
                    let bus = self.0.bus().for_front(&front);
                    let bus = match view.is_some() || caller.is_some() {
                        true => bus.seen_by(view.as_deref(), caller.as_ref()),
                        false => bus,
                    };
                    bus.start_for(to, asked, down)
                }
                None => done(&down, Err(unreadable())),
            },
            TOOLS => self.about_back((&call, body), down, async |member| {
                let tools = member.tools().await;
                // A command that starts a program itself hears what is wrong with it.
                let tools = tools.map_err(|failure| member.health.explained(failure))?;
                Ok(write_tools(member.back.wire(), &tools))
            }),
            FRESH_TOOLS => self.about_back((&call, body), down, async |member| {
                let tools = match &member.guard {
                    Some(guard) => guard.tools_asked_anew().await?,
                    None => {
                        let tools = member.tools().await;
                        tools.map_err(|failure| member.health.explained(failure))?
                    }
                };
                Ok(write_tools(member.back.wire(), &tools))
            }),
            WIRES => self.about_back((&call, body), down, async |member| {
                if member.address.is_bare() {
                    // What it speaks is found out by this, if it can be.
                    let _ = member.tools().await;
                }
                Ok(Json::of(member.back.wire().name()))
            }),
            FRONTS => done(&down, Ok(Outcome::Value(Json::of(&self.0.fronts())))),
            _ => done(&down, Err(unreadable())),
        }
    }
}

impl Bus {
    /// The back of this name.
    fn member(&self, name: &str) -> Option<&Rc<Member>> {
        self.members.iter().find(|member| *member.name == *name)
    }

    /// Makes a call of which a command has found out whose it is.
    fn start_for(&self, to: Destination, call: Call, down: ReplyTo) -> RunningCall {
        self.scope.enter(|| {
            self.observers.start(call, down, |call, down, seen| match to {
                Destination::Tool { back, own } => match self.member(&back) {
                    Some(member) if member.allows(&own) => {
                        let rule = self.selection().and_then(|of| of.rule(&back, own.as_str()));
                        self.start_at_tool(member, (own, rule.map(Rc::new)), call, down, seen)
                    }
                    _ => done(&down, Err(no_back(&back))),
                },
                Destination::Back(back) => match self.member(&back) {
                    Some(member) => self.hand_natively(member, call, down, seen),
                    None => done(&down, Err(no_back(&back))),
                },
                Destination::Nowhere { why, hidden } => {
                    if let What::Tool { name, .. } = &call.what {
                        self.see_refusal(seen, name, &why);
                    }
                    if let (Some(seen), Some((back, own))) = (seen, hidden) {
                        seen.keep(&back.into(), &own, Kept::Hidden);
                    }
                    done(&down, Err(*why))
                }
            })
        })
    }

    /// Makes a call of this tool of this back, by its own name, with what a view changes about it.
    fn start_at_tool(
        &self,
        member: &Member,
        (own, rule): (ToolName, Option<Rc<Rule>>),
        mut call: Call,
        down: ReplyTo,
        seen: Option<&Rc<Observed>>,
    ) -> RunningCall {
        match &self.gate {
            Some(gate) => self.start_found(gate, (member, own, rule), call, down, seen),
            None => {
                if let What::Tool { name, .. } = &mut call.what {
                    *name = own;
                }
                hand_to(member, self.observers.caller(), call, down, seen)
            }
        }
    }
}

fn done(down: &ReplyTo, outcome: Result<Outcome, Failure>) -> RunningCall {
    let _ = down.send(Down::Done(outcome));
    RunningCall::ended()
}

fn wire_named(name: &str) -> Option<Wire> {
    Registry::default().find(name).map(crate::peer::PeerKind::wire)
}

fn no_back(name: &str) -> Failure {
    Failure::new(FailureKind::Unavailable, format!("`{name}` is not served any more"))
}

fn unreadable() -> Failure {
    Failure::new(FailureKind::BrokeProtocol, "the request cannot be read")
}
