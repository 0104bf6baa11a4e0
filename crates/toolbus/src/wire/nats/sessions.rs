//! Requests of sessions that other nodes have, carried there for a front of another wire; and those
//! that others carry to us.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Instant;

use toolbus_proto::channel::Down;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::nats::Retry;
use toolbus_proto::nats::subject::SESSIONS;
use toolbus_proto::tool::{Call, CallOptions, Deadline, Failure, FailureKind, What};

use super::WIRE;
use super::back::{BackOptions, Nats};
use super::reach::Reach;
use crate::bus::back::Back as _;
use crate::bus::{Route, TIMEOUT};
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::peer::forward::{self, ForwardSession};

/// The way to the other nodes of a front.
pub(super) struct Carrier {
    /// Who we are among them.
    pub(super) id: String,
    /// The name that all of them have.
    pub(super) name: String,
    /// What the subjects of one begin with that did not say so yet.
    pub(super) prefix: String,
    pub(super) reach: Reach,
    /// Made by the first request.
    pub(super) nodes: OnceCell<Nats>,
}

impl Carrier {
    fn nodes(&self) -> &Nats {
        self.nodes.get_or_init(|| {
            let options = BackOptions {
                name: self.name.clone(),
                service: Some(self.name.clone()),
                id: None,
                retry: Retry::Never,
                timeout: TIMEOUT,
                asks_state: false,
                is_served: true,
            };
            let nodes = Nats::new(options, self.reach.another());
            // So that it knows who is there without being asked.
            nodes.watch(Rc::new(|| {}));
            nodes
        })
    }
}

impl ForwardSession for Carrier {
    fn node(&self) -> String {
        self.id.clone()
    }

    fn forward(&self, node: &str, request: Json, down: ReplyTo) -> RunningCall {
        let method = format!("{} {node}", self.prefix).into_bytes();
        let what =
            What::Native { wire: WIRE, method: method.into(), body: request.as_bytes().clone() };
        let now = Instant::now();
        // A stream may be quiet for as long as its client likes.
        let mut call = Call::of(now, what);
        call.deadline = Deadline::never(now);
        call.options = CallOptions { sends_parts: true, ..CallOptions::default() };
        self.nodes().start(call, down)
    }

    fn is_away(&self, failure: &Failure) -> bool {
        let is_said = failure
            .detail
            .as_ref()
            .is_some_and(|detail| edit::text(detail.as_str(), "reason").is_some());
        match failure.kind {
            FailureKind::Unavailable => !is_said && !failure.from_peer,
            FailureKind::Gone => failure.message.starts_with("lost the connection"),
            _ => false,
        }
    }
}

/// The way to the tools of a bus, and to the sessions of the front that shares them by ours.
pub(super) struct WithSessions {
    /// The name of our front.
    pub(super) front: String,
    pub(super) route: Rc<dyn Route>,
}

impl Route for WithSessions {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let args = match &call.what {
            What::Tool { name, args } if name.as_str() == SESSIONS => args.clone(),
            _ => return self.route.start(call, down),
        };
        let path = args
            .as_ref()
            .and_then(|args| edit::text(args.as_str(), "path").map(std::borrow::Cow::into_owned));
        let taker = path.and_then(|path| forward::taker(&self.front, &path));
        match taker {
            Some(taker) => taker.take(call, down),
            None => {
                let message = format!("no such tool: {SESSIONS}");
                let failure = Failure::new(FailureKind::UnknownTool, message);
                let _ = down.send(Down::Done(Err(failure)));
                RunningCall::ended()
            }
        }
    }
}
