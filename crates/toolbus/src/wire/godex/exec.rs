//! Leads one run of `godex exec`: its machine between the servers that it asks, over HTTP, and the
//! bus, whose tools it calls.
//!
//! What is asked, retried and printed is decided by [`Run`]; who shows it is a [`Surface`].

use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use toolbus_proto::channel::StreamLost;
use toolbus_proto::godex::base_url::BaseUrl;
use toolbus_proto::godex::{Ended, Permission, Run, Signal, Target, ToolCall};
use toolbus_proto::http::RequestHead;
use toolbus_proto::tool::{Failure, FailureKind};

use crate::bus::Bus;
use crate::bus::back::LocalFuture;
use crate::engine::front::Front;
use crate::transport::http::{
    AnswerReader, Client, HeaderMap, HttpOpener, Origin, Proxy, RequestWriter, Timeouts,
};
use crate::transport::io::Opener;

/// Shows what a run says, and asks the user.
pub trait Surface {
    /// Takes what there is to show.
    fn take(&mut self, run: &mut Run);

    /// Shows what was taken. An error ends the run. What is not shown yet when this is dropped
    /// half-way is kept.
    fn show(&mut self) -> impl Future<Output = io::Result<()>>;

    /// Asks whether a tool may run.
    fn ask(&mut self, call: &ToolCall) -> LocalFuture<'static, Permission>;

    /// The user has answered.
    fn asked(&mut self);
}

/// What is asked of whom.
pub struct Exec {
    /// Where the server is.
    pub base_url: BaseUrl,
    /// Where tokens are renewed.
    pub refresh_url: Option<BaseUrl>,
    /// Whose tools are called.
    pub bus: Bus,
}

/// How long the last words may take after an interruption.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Exec {
    /// Leads a run to its end. Must be called inside a `LocalSet`.
    ///
    /// Fails only if what it says cannot be shown.
    pub async fn lead(
        self,
        run: Run,
        surface: &mut impl Surface,
        interrupted: impl Future<Output = Signal>,
    ) -> io::Result<Option<Ended>> {
        let Exec { base_url, refresh_url, bus } = self;
        let web = Web { base_url, refresh_url, server: RefCell::default() };
        let front = Front::over(run, Rc::new(bus), None, web);
        front.tell_machine(|run, now| run.start(now, SystemTime::now()));
        let shown = tokio::select! {
            shown = show(&front, surface, interrupted) => shown,
            () = front.run() => Ok(()),
        };
        // Its streams hold it.
        front.disconnected();
        shown.map(|()| front.ask(|run| run.ended().cloned()))
    }
}

/// Shows what the run says, and asks what it wants to know, until it has ended.
async fn show(
    front: &Front<Run>,
    surface: &mut impl Surface,
    interrupted: impl Future<Output = Signal>,
) -> io::Result<()> {
    let mut interrupted = pin!(interrupted);
    let mut question = None;
    loop {
        front.tell_machine(|run, now| {
            surface.take(run);
            run.handle_taken(now);
        });
        tokio::select! {
            biased;
            shown = surface.show() => shown?,
            signal = &mut interrupted => return last_words(front, surface, signal).await,
        }
        front.tell_machine(Run::handle_shown);
        if front.ask(|run| run.ended().is_some() && !run.is_untold()) {
            return Ok(());
        }
        let mut asked = None;
        front.tell_machine(|run, _| asked = run.poll_question());
        if let Some(call) = asked {
            question = Some(surface.ask(&call));
        }
        tokio::select! {
            biased;
            signal = &mut interrupted => return last_words(front, surface, signal).await,
            () = front.until(Run::has_news) => {}
            permission = answered(&mut question) => {
                question = None;
                surface.asked();
                front.tell_machine(|run, now| run.handle_permission(now, permission));
            }
        }
    }
}

/// Ends the run, and shows what it still says. A reader that takes nothing must not keep us.
async fn last_words(
    front: &Front<Run>,
    surface: &mut impl Surface,
    signal: Signal,
) -> io::Result<()> {
    front.tell_machine(|run, _| {
        run.interrupt(signal);
        surface.take(run);
    });
    let shown = tokio::time::timeout(LAST_WORDS, surface.show()).await;
    shown.unwrap_or(Ok(()))
}

/// Waits for the answer to the question, if there is one.
async fn answered(question: &mut Option<LocalFuture<'static, Permission>>) -> Permission {
    match question {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

/// Those who are asked, with the connections to the server.
struct Web {
    base_url: BaseUrl,
    refresh_url: Option<BaseUrl>,
    server: RefCell<Option<Client>>,
}

/// Connections are waited for as long as the run waits for anything.
const TIMEOUTS: Timeouts = Timeouts { connect: Duration::from_secs(24 * 3600), head: None };

impl Web {
    fn client(&self, target: Target) -> Result<Client, String> {
        if target == Target::Refresh {
            return client(self.refresh_url.as_ref().unwrap_or(&self.base_url));
        }
        let known = self.server.borrow().clone();
        let client = known.map_or_else(|| client(&self.base_url), Ok)?;
        Ok(self.server.borrow_mut().insert(client).clone())
    }
}

impl Opener<Run> for Web {
    type Reader = AnswerReader;
    type Writer = RequestWriter;

    async fn open(
        &self,
        (target, head): (Target, RequestHead),
    ) -> Result<(AnswerReader, RequestWriter), StreamLost> {
        let client = self.client(target).map_err(|why| {
            let failure = Failure::new(FailureKind::Unavailable, why);
            StreamLost { code: None, failure }
        })?;
        let opener = HttpOpener { client, timeouts: TIMEOUTS, headers: HeaderMap::new() };
        Ok(opener.begin(&head))
    }
}

/// A client of one server, through the proxy that the environment names, never for our own
/// machine.
fn client(url: &BaseUrl) -> Result<Client, String> {
    const IDLE: Duration = Duration::from_secs(90);
    let origin = origin(url)?;
    if url.is_loopback() {
        return Ok(Client::new(origin, 1, IDLE));
    }
    let variable = |name: &str| std::env::var(name).ok();
    let proxy = Proxy::of(variable, url.is_secure, &url.host, url.port);
    Ok(match proxy.map_err(|error| error.to_string())? {
        Some(proxy) => Client::through(proxy, origin, 1, IDLE),
        None => Client::new(origin, 1, IDLE),
    })
}

#[cfg(feature = "tls")]
fn origin(url: &BaseUrl) -> Result<Origin, String> {
    use crate::transport::tls::{ClientTls, Inside};
    let tls = url.is_secure.then(|| ClientTls::load(None, None, Inside::Http)).transpose();
    let tls = tls.map_err(|error| format!("toolbus cannot speak TLS: {error}"))?;
    Ok(Origin { host: url.host.clone(), port: url.port, tls })
}

#[cfg(not(feature = "tls"))]
fn origin(url: &BaseUrl) -> Result<Origin, String> {
    match url.is_secure {
        true => Err("toolbus was built without TLS".to_owned()),
        false => Ok(Origin { host: url.host.clone(), port: url.port }),
    }
}
