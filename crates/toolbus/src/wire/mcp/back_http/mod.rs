//! An MCP server somewhere else: its tools are tools, and whatever an MCP client says to it
//! passes as it is.
//!
//! Each era that it speaks has a conversation of its own, begun by the first call that is made in
//! it; or each legacy session has, if that is asked for. One that cannot go on fails its calls, and
//! the next call begins another; if none can be begun, calls are refused for a while.

mod back_off;
mod options;
#[cfg(feature = "oauth")]
mod probe;
#[cfg(feature = "oauth")]
mod signed;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use toolbus_proto::channel::Down;
use toolbus_proto::limit;
use toolbus_proto::mcp::calling::era_of;
use toolbus_proto::mcp::http::HttpClient;
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::tool::{Call, Failure, FailureKind, Wire};

use self::back_off::BackOff;
use super::eras::Eras;
use super::sessions::{SessionPeer, Sessions};
use super::settings::Share;
use crate::bus::back::{Back, LocalFuture};
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::client::Client;

#[cfg(feature = "oauth")]
pub(super) use options::whose;
pub use options::{Options, OptionsError};
#[cfg(feature = "oauth")]
pub(super) use probe::probe;

/// How long the goodbye may take.
const GOODBYE: Duration = crate::wire::mcp::PATIENCE.goodbye;

/// An MCP server that is reached over HTTP when it is first called.
pub struct McpHttp {
    options: Rc<Options>,
    eras: Eras,
    /// The conversations of legacy sessions, where each has its own.
    sessions: Option<Rc<Sessions<Conversation>>>,
    legacy: RefCell<Option<Rc<Conversation>>>,
    modern: RefCell<Option<Rc<Conversation>>>,
    /// Whom to tell that the tools have changed.
    watchers: Rc<RefCell<Watchers>>,
    back_off: RefCell<BackOff>,
}

type Conversation = Client<HttpClient>;
type Watchers = Vec<Rc<dyn Fn()>>;

impl McpHttp {
    /// Connects to no server yet.
    pub fn new(options: Options) -> McpHttp {
        let (options, watchers): (_, Rc<RefCell<Watchers>>) = (Rc::new(options), Rc::default());
        #[cfg(feature = "oauth")]
        if let Some(credential) = &options.credential {
            let watchers = Rc::downgrade(&watchers);
            credential.watch(Rc::new(move || {
                let watchers = watchers.upgrade();
                watchers.iter().for_each(|all| all.borrow().iter().for_each(|told| told()));
            }));
        }
        let sessions = (options.share == Share::Session).then(|| {
            let (options, watchers) = (options.clone(), Rc::clone(&watchers));
            Sessions::new(move || begin(&options, &watchers))
        });
        McpHttp {
            eras: Eras::new(options.settings.calling.memory.clone()),
            options,
            sessions,
            legacy: RefCell::default(),
            modern: RefCell::default(),
            watchers,
            back_off: RefCell::default(),
        }
    }

    fn place(&self, era: Era) -> &RefCell<Option<Rc<Conversation>>> {
        match era {
            Era::Legacy => &self.legacy,
            Era::Modern => &self.modern,
        }
    }

    /// Why it is too early to try again, if it is. A conversation that never began counts once.
    fn refusal(&self, now: Instant, era: Era) -> Option<Failure> {
        let known = self.place(era).borrow().clone();
        let judge = |machine: &HttpClient| (machine.was_open(), machine.broken());
        match known.map(|conversation| conversation.ask(judge)) {
            Some((true, _)) => self.back_off.borrow_mut().reset(),
            Some((false, Some((at, why)))) => {
                // The next sign-in may be there with the next call.
                if !is_about_sign_in(&why) {
                    self.back_off.borrow_mut().failed(at, why);
                }
                self.place(era).take();
            }
            Some((false, None)) | None => {}
        }
        self.back_off.borrow().refusal(now)
    }

    /// The conversation of that era, anew if the last one has ended.
    fn conversation(&self, era: Era) -> Rc<Conversation> {
        let known = self.place(era).borrow().clone();
        known.filter(|known| known.takes_calls()).unwrap_or_else(|| {
            let anew = Rc::new(begin(&self.options, &self.watchers));
            self.place(era).replace(Some(anew.clone()));
            anew
        })
    }
}

/// Says nothing before it is asked. Must be called inside a `LocalSet`.
fn begin(options: &Options, watchers: &Rc<RefCell<Watchers>>) -> Conversation {
    let machine = HttpClient::new(options.settings.clone()).listing_first();
    let name = &options.settings.calling.name;
    let conversation = Client::over(name, machine, options.opener());
    let watchers = watchers.clone();
    conversation.watch(Rc::new(move || watchers.borrow().iter().for_each(|told| told())));
    conversation
}

/// Says goodbye to a server.
async fn close(conversation: &Conversation) {
    conversation.fail(leaving());
    let _ = tokio::time::timeout(GOODBYE, conversation.close()).await;
}

impl SessionPeer for Conversation {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        Client::start(self, call, down)
    }

    fn leave(&self) -> LocalFuture<'_, ()> {
        Box::pin(close(self))
    }
}

impl Back for McpHttp {
    fn wire(&self) -> Wire {
        toolbus_proto::mcp::WIRE
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.options.timeout)
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let own = era_of(&call);
        if let (Some(sessions), Era::Legacy) = (&self.sessions, own) {
            return sessions.start(call, down);
        }
        let era = self.eras.conversation(own);
        if let Some(failure) = self.refusal(Instant::now(), era) {
            let _ = down.send(Down::Done(Err(failure)));
            return RunningCall::ended();
        }
        self.conversation(era).start(call, down)
    }

    #[cfg(feature = "oauth")]
    fn offers_sign_in(&self) -> bool {
        self.options.credential.as_ref().is_some_and(|credential| credential.may_offer())
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        self.watchers.borrow_mut().push(changed);
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            let end = async |conversation: Option<Rc<Conversation>>| {
                if let Some(conversation) = conversation {
                    close(&conversation).await;
                }
            };
            let sessions = async {
                if let Some(sessions) = &self.sessions {
                    sessions.shutdown().await;
                }
            };
            tokio::join!(end(self.legacy.take()), end(self.modern.take()), sessions);
        })
    }

    fn kill(&self) {
        for conversation in [self.legacy.take(), self.modern.take()].into_iter().flatten() {
            conversation.fail(leaving());
        }
        let sessions = self.sessions.iter().flat_map(|sessions| sessions.living());
        sessions.for_each(|conversation| conversation.fail(leaving()));
    }
}

impl Drop for McpHttp {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Does it fail for want of a token? Then it was reached.
fn is_about_sign_in(why: &Failure) -> bool {
    limit::reason_of(why).is_some_and(limit::is_of_sign_in)
}

fn leaving() -> Failure {
    Failure::new(FailureKind::Gone, "toolbus said goodbye to the server")
}
