//! An MCP server somewhere else: its tools are tools, and whatever an MCP client says to it
//! passes as it is.
//!
//! Each era has a conversation of its own, begun by the first call that is made in it. One
//! that cannot go on fails its calls, and the next call begins another; if none can be begun,
//! calls are refused for a while.

mod back_off;
mod options;
mod talk;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::channel::Down;
use toolbus_proto::mcp::calling::era_of;
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolSpec, What, Wire};

use self::back_off::BackOff;
use self::talk::Talk;
use crate::bus::back::{Back, LocalFuture};
use crate::engine::calls::{Inbox, ReplyTo, RunningCall};

pub use options::{Options, OptionsError};

/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// An MCP server that is reached over HTTP when it is first called.
pub struct McpHttp {
    options: Rc<Options>,
    legacy: RefCell<Option<Rc<Talk>>>,
    modern: RefCell<Option<Rc<Talk>>>,
    /// Whom to tell that the tools have changed.
    watchers: Watchers,
    back_off: RefCell<BackOff>,
}

type Watchers = Rc<RefCell<Vec<Rc<dyn Fn()>>>>;

impl McpHttp {
    /// Connects to nobody yet.
    pub fn new(options: Options) -> McpHttp {
        let options = Rc::new(options);
        McpHttp {
            options,
            legacy: RefCell::default(),
            modern: RefCell::default(),
            watchers: Rc::default(),
            back_off: RefCell::default(),
        }
    }

    fn place(&self, era: Era) -> &RefCell<Option<Rc<Talk>>> {
        match era {
            Era::Legacy => &self.legacy,
            Era::Modern => &self.modern,
        }
    }

    /// Why it is too early to try again, if it is.
    fn refusal(&self, now: Instant, era: Era) -> Option<Failure> {
        let talk = self.place(era).borrow().clone();
        let mut back_off = self.back_off.borrow_mut();
        match talk {
            Some(talk) if talk.was_open() => back_off.reset(),
            Some(talk) => {
                if let Some((at, why)) = talk.take_failed_start() {
                    back_off.failed(at, why);
                }
            }
            None => {}
        }
        back_off.refusal(now)
    }

    /// The conversation of that era, anew if the last one has ended.
    fn talk(&self, era: Era) -> Rc<Talk> {
        let mut place = self.place(era).borrow_mut();
        match &*place {
            Some(talk) if !talk.has_ended() => talk.clone(),
            _ => {
                let talk = Talk::begin(self.options.clone(), self.watchers.clone());
                place.insert(talk).clone()
            }
        }
    }
}

impl Back for McpHttp {
    fn wire(&self) -> Wire {
        toolbus_proto::mcp::WIRE
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async {
            let (inbox, slot) = Inbox::new();
            let mut call = Call::of(Instant::now(), What::Tools);
            call.deadline.quiet = Some(self.options.timeout);
            let uplink = self.start(call, slot);
            match inbox.whole(uplink).await? {
                Outcome::Tools(tools) => Ok(tools),
                _ => Err(Failure::new(FailureKind::BrokeProtocol, "expected a list of tools")),
            }
        })
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let era = era_of(&call);
        if let Some(failure) = self.refusal(Instant::now(), era) {
            let _ = down.send(Down::Done(Err(failure)));
            return RunningCall::ended();
        }
        self.talk(era).start(call, down)
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        self.watchers.borrow_mut().push(changed);
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            let close = async |talk: Option<Rc<Talk>>| {
                let Some(talk) = talk else { return };
                let _ = tokio::time::timeout(GOODBYE, talk.close()).await;
                talk.end(&leaving());
            };
            tokio::join!(close(self.legacy.take()), close(self.modern.take()));
        })
    }

    fn kill(&self) {
        for talk in [self.legacy.take(), self.modern.take()].into_iter().flatten() {
            talk.end(&leaving());
        }
    }
}

impl Drop for McpHttp {
    fn drop(&mut self) {
        self.kill();
    }
}

fn leaving() -> Failure {
    Failure::new(FailureKind::Gone, "toolbus said goodbye to the server")
}
