//! Where a browser is sent back to: a page of our own on this machine, until the answer is there.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc;
use toolbus_proto::http::RequestHead;
use toolbus_proto::oauth::flow::{BadReturn, Consenting, Judged};
use toolbus_proto::oauth::hidden::Hidden;
use toolbus_proto::oauth::settings::Redirect;

use crate::secrets;
use crate::transport::http::{
    AnswerWriter, Exchange, HeaderValue, Limits, Response, Server, StatusCode, garbled, header,
};
use crate::transport::{Listener, Whereabouts};

/// A browser asks seldom, and little.
const LIMITS: Limits = Limits {
    connections_max: 64,
    silence: Duration::from_secs(1),
    streams_max: 16,
    head_bytes_max: 32 * 1024,
    http2_fields_max: None,
    head_timeout: Duration::from_secs(10),
    first_byte_timeout: Duration::from_secs(30),
    idle_timeout: Duration::from_secs(60),
    write_timeout: Duration::from_secs(10),
    drain_bytes_max: 64 * 1024,
    drains_streams: false,
    drain_timeout: Duration::from_secs(1),
};
/// How long the page may take to be read when all is done.
const LAST_BYTES: Duration = Duration::from_millis(500);
/// How often another free port is tried where one is free for one family of addresses alone.
const TRIES: usize = 20;

const DONE: &str = "You can close this page.";
const FAILED: &str = "The sign-in failed; the terminal says why.";

/// A place on this machine, not answering yet.
pub struct Bound {
    listeners: Vec<Listener>,
    /// As sign-in servers are told it, with the real port.
    pub redirect: Redirect,
}

/// Listens where a browser is to be sent back to.
pub async fn bind(wanted: &Redirect) -> Result<Bound, PortTaken> {
    let mut tries = if wanted.port.is_some() { 1 } else { TRIES };
    loop {
        tries -= 1;
        let first = Listener::tcp("127.0.0.1", wanted.port.unwrap_or(0)).await;
        let port = match first.as_ref().map(Listener::whereabouts) {
            Ok(Ok(Whereabouts::Tcp(address))) => address.port(),
            _ => return Err(PortTaken { port: wanted.port.unwrap_or(0) }),
        };
        let mut listeners: Vec<Listener> = first.into_iter().collect();
        match Listener::tcp("::1", port).await {
            Ok(second) => listeners.push(second),
            // There is no such family of addresses here, or the port is another program's there.
            Err(_) if has_ipv6().await => {
                if tries == 0 {
                    return Err(PortTaken { port });
                }
                continue;
            }
            Err(_) => {}
        }
        let redirect = Redirect { port: Some(port), ..wanted.clone() };
        return Ok(Bound { listeners, redirect });
    }
}

async fn has_ipv6() -> bool {
    Listener::tcp("::1", 0).await.is_ok()
}

/// Answers browsers until it is dropped.
pub struct Callback {
    servers: Vec<Server>,
    answers: mpsc::UnboundedReceiver<Result<Hidden, BadReturn>>,
    judge: Rc<Judge>,
}

struct Judge {
    consenting: Rc<RefCell<Consenting>>,
    tell: mpsc::UnboundedSender<Result<Hidden, BadReturn>>,
    redirect: Redirect,
}

impl Bound {
    /// Where no browser can come; what the user pastes is all there is.
    pub(super) fn nowhere(redirect: Redirect) -> Bound {
        Bound { listeners: Vec::new(), redirect }
    }

    /// From now on browsers are answered. Must be called inside a `LocalSet`.
    pub fn serve(self, consenting: Rc<RefCell<Consenting>>) -> Callback {
        let (tell, answers) = mpsc::unbounded_channel();
        let judge = Rc::new(Judge { consenting, tell, redirect: self.redirect });
        let serve = |listener| {
            let judge = judge.clone();
            Server::start(listener, LIMITS, move |exchange| judge.answer(exchange))
        };
        let servers = self.listeners.into_iter().map(serve).collect();
        Callback { servers, answers, judge }
    }
}

impl Callback {
    /// Waits for the code, or for what ends the sign-in.
    pub async fn answer(&mut self) -> Result<Hidden, BadReturn> {
        match self.answers.recv().await {
            Some(answer) => answer,
            // The judge holds the other end as long as this is there.
            None => std::future::pending().await,
        }
    }

    /// Takes what the user has pasted: the URL that the browser was sent to, or its query. Tells
    /// whether it was the answer.
    pub fn paste(&self, line: &str) -> bool {
        let line = line.trim();
        let query = line.split_once('?').map_or(line, |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        self.judge.take(query)
    }

    /// Lets browsers read the page to its end.
    pub async fn stop(self) {
        for server in self.servers {
            server.shutdown(LAST_BYTES).await;
        }
    }
}

impl Judge {
    fn answer(&self, exchange: Exchange) {
        let (head, _, writer) = exchange.into_stream(garbled);
        let AnswerWriter::Awaiting(responder, _) = writer else { return };
        responder.respond_whole(self.page(&head));
    }

    fn page(&self, head: &RequestHead) -> Response<Bytes> {
        let port = self.redirect.port.unwrap_or_default();
        let ours = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"));
        let host = head.headers.get("host").unwrap_or_default();
        let is_ours = |ours: &String| {
            // A browser leaves out the usual port.
            ours.eq_ignore_ascii_case(host) || port == 80 && ours.trim_end_matches(":80") == host
        };
        let (status, text) = if !ours.iter().any(is_ours) {
            (403, "not the host of this page\n")
        } else if head.path != self.redirect.path {
            (404, "there is nothing here\n")
        } else if head.method != "GET" {
            (405, "only GET is answered here\n")
        } else {
            let query = head.query.as_deref().unwrap_or_default();
            match self.consenting.borrow_mut().judge(query) {
                Judged::NotOurs => (400, FAILED),
                Judged::Code(code) => {
                    self.tell(Ok(code));
                    (200, DONE)
                }
                Judged::Ends(why) => {
                    self.tell(Err(why));
                    (400, FAILED)
                }
            }
        };
        let mut page = Response::new(Bytes::from_static(text.as_bytes()));
        *page.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
        let headers = page.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "no-store"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if status == 405 {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
        }
        page
    }

    /// Takes a query that did not come by a browser.
    fn take(&self, query: &str) -> bool {
        match self.consenting.borrow_mut().judge(query) {
            Judged::NotOurs => false,
            Judged::Code(code) => {
                self.tell(Ok(code));
                true
            }
            Judged::Ends(why) => {
                self.tell(Err(why));
                true
            }
        }
    }

    fn tell(&self, answer: Result<Hidden, BadReturn>) {
        if let Ok(code) = &answer {
            secrets::hide(code.reveal());
        }
        // Nobody waits any more once the sign-in is over.
        let _ = self.tell.send(answer);
    }
}

/// Another program has the port.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("port {port} of the callback is taken")]
pub struct PortTaken {
    /// It.
    pub port: u16,
}
