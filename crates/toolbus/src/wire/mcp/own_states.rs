//! Calls that are held for modern clients are found again by a token (`docs/protocols/mcp.md` 2.6).
//! It is good for the caller who was given it, and for no other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::view;
use toolbus_proto::mcp::wire::{ERROR_KEY, INVALID_PARAMS};
use toolbus_proto::tool::{Call, Code, Failure, FailureKind, Outcome, What};

use crate::bus::Route;
use crate::engine::calls::{Asker, Pressure, ReplyTo, RunningCall};

/// How many tokens of a caller are known; of more the oldest are forgotten.
const TOKENS_MAX: usize = 1024;

/// The way of one caller.
pub(super) struct OwnStates {
    route: Rc<dyn Route>,
    given: Given,
}

/// Each with who holds the token by which it was asked for, where there is one.
type Given = Rc<RefCell<VecDeque<(Option<Arc<str>>, String)>>>;

impl OwnStates {
    pub(super) fn new(route: Rc<dyn Route>) -> OwnStates {
        OwnStates { route, given: Rc::default() }
    }
}

impl Route for OwnStates {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let said = match &call.what {
            What::Native { body, .. } => Some(body),
            What::Tool { .. } | What::Tools => call.request.as_ref(),
        };
        let holder = call.visit.as_ref().map(|visit| visit.grant().holder.clone());
        let is_foreign = |token| !self.given.borrow().contains(&(holder.clone(), token));
        if said.and_then(|said| view::resumed_by(said)).is_some_and(is_foreign) {
            let _ = down.send(Down::Done(Err(unknown(&call.what))));
            return RunningCall::ended();
        }
        let noting = Noting { down, holder, given: self.given.clone() };
        self.route.start(call, ReplyTo::new(Rc::new(noting), Ticket(0)))
    }

    fn refuse(&self, call: Call, down: ReplyTo, why: Failure) {
        self.route.refuse(call, down, why);
    }
}

/// As who holds calls refuses a token that it never gave.
fn unknown(what: &What) -> Failure {
    let message = "unknown requestState";
    let error = format!("{{\"code\":{INVALID_PARAMS},\"message\":\"{message}\"}}");
    let detail = match what {
        What::Native { .. } => error,
        What::Tool { .. } | What::Tools => format!("{{\"{ERROR_KEY}\":{error}}}"),
    };
    Failure {
        detail: Some(Json::from_trusted(detail)),
        code: Some(Code::Number(INVALID_PARAMS)),
        from_peer: true,
        ..Failure::new(FailureKind::Failed, message)
    }
}

/// Passes a reply on, and notes the token in it.
struct Noting {
    down: ReplyTo,
    holder: Option<Arc<str>>,
    given: Given,
}

impl Asker for Noting {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if let Down::Done(Ok(Outcome::Native(result))) = &down
            && let Some(token) = view::held_by(result)
        {
            let mut given = self.given.borrow_mut();
            if TOKENS_MAX <= given.len() {
                given.pop_front();
            }
            given.push_back((self.holder.clone(), token));
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
