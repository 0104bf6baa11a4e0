//! Calling: one origin, its connections kept for the next call.
//!
//! HTTP/1.1 in clear, and over TLS whatever both sides like best. A call is repeated on
//! another connection only if nothing of it was written. Dropping an answer, or its body
//! before the end, closes the exchange: that is how a call is cancelled.

mod pool;

use std::error::Error as StdError;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::http::{HeaderValue, Request, Response, Uri, header};
use thiserror::Error;
use tokio::time::timeout;

use self::pool::Pool;
use super::body::{Body, Owner};
use super::proxy::{Proxy, ProxyError};
use super::sink::{BodySink, Pipe, Pushed};
use crate::transport::tcp::{self, ConnectError, Vet};
#[cfg(feature = "tls")]
use crate::transport::tls::{ClientTls, TlsError};

pub(super) use self::pool::Lease;

/// Whom a client calls.
#[derive(Debug, Clone)]
pub struct Origin {
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// For `https`; in clear without it.
    #[cfg(feature = "tls")]
    pub tls: Option<ClientTls>,
}

/// How long one call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, handshake included.
    pub connect: Duration,
    /// For the head of the answer, from when there is a connection; `None` is for ever.
    pub head: Option<Duration>,
}

/// Calls one origin. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Client(Rc<Pool>);

/// The answer to a call, as soon as its head is there. Dropping it cancels the call.
#[must_use = "a call that is not awaited is cancelled"]
pub struct Answer(Pin<Box<dyn Future<Output = Result<Response<Body>, CallError>>>>);

impl Client {
    /// Calls `origin` over at most `connections_max` connections at a time (HTTP/2: one).
    /// Further calls wait in line. A connection that is not used for `idle_timeout` is closed.
    pub fn new(origin: Origin, connections_max: usize, idle_timeout: Duration) -> Client {
        Client(Rc::new(Pool::new(origin, None, connections_max, idle_timeout)))
    }

    /// The same, but its connections go through a proxy: in a tunnel where they are safe, else
    /// the proxy is asked to ask.
    pub fn through(
        proxy: Proxy,
        origin: Origin,
        connections_max: usize,
        idle_timeout: Duration,
    ) -> Client {
        Client(Rc::new(Pool::new(origin, Some(proxy), connections_max, idle_timeout)))
    }

    /// Calls `origin` over one connection, at addresses that pass `vet`: who named it may not be
    /// trusted with where it leads.
    pub fn vetted(origin: Origin, vet: Vet, idle_timeout: Duration) -> Client {
        Client(Rc::new(Pool::new(origin, None, 1, idle_timeout).vetted(vet)))
    }

    /// Begins a call; its body follows by the sink, while the answer is awaited.
    ///
    /// Of the URI only path and query count. Must be called inside a `LocalSet`.
    pub fn start(&self, head: Request<()>, timeouts: Timeouts) -> (BodySink, Answer) {
        let pipe = Rc::new(Pipe::default());
        let sink = BodySink::new(pipe.clone());
        (sink, Answer(Box::pin(call(self.0.clone(), head, pipe, timeouts))))
    }

    /// Calls with all there is to say.
    pub fn ask(&self, request: Request<Bytes>, timeouts: Timeouts) -> Answer {
        let (head, body) = request.into_parts();
        let pipe = Rc::new(Pipe::default());
        pipe.fill_whole(&body);
        Answer(Box::pin(call(self.0.clone(), Request::from_parts(head, ()), pipe, timeouts)))
    }
}

impl Future for Answer {
    type Output = Result<Response<Body>, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl Origin {
    pub(super) fn shown(&self) -> String {
        tcp::shown(&self.host, self.port)
    }

    fn is_secure(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Host and port as they stand in a request: without the port that goes without saying.
    fn authority(&self) -> Result<Authority, CallError> {
        let usual = if self.is_secure() { 443 } else { 80 };
        let shown = self.shown();
        let text = match self.port == usual {
            true => shown.trim_end_matches(&format!(":{usual}")),
            false => &shown,
        };
        text.parse().map_err(|_| CallError::Host { host: self.host.clone() })
    }
}

async fn call(
    pool: Rc<Pool>,
    head: Request<()>,
    pipe: Rc<Pipe>,
    timeouts: Timeouts,
) -> Result<Response<Body>, CallError> {
    let target = Target::of(&pool, head.uri())?;
    let mut request = head.map(|()| Pushed::new(pipe.clone(), None, ()));
    loop {
        let mut kept = pool.take(timeouts.connect).await?;
        target.write(&mut request, kept.is_http2());
        let sent = kept.sender.send(request);
        let sent = match timeouts.head {
            Some(patience) => {
                let too_late = |_| CallError::TimedOut { at: pool.origin.shown(), patience };
                timeout(patience, sent).await.map_err(too_late)?
            }
            None => sent.await,
        };
        match sent {
            Ok(response) => {
                let owner = match kept.is_http2() {
                    true => Owner::None,
                    false => Owner::Lease(Lease::new(kept, pool, pipe)),
                };
                return Ok(response.map(|incoming| Body::new(incoming, owner)));
            }
            Err(mut error) => match error.take_message() {
                // It had been closed behind our back; each time one less is kept.
                Some(unsent) if kept.was_used => {
                    request = unsent;
                    if kept.is_http2() {
                        pool.forget_shared();
                    }
                }
                _ => return Err(CallError::of(&pool.origin, error)),
            },
        }
    }
}

type Sent = Result<Response<Incoming>, TrySendError<Request<Pushed<()>>>>;

/// How each version wants to be told whom and what is asked.
struct Target {
    authority: Authority,
    scheme: Scheme,
    path: PathAndQuery,
    /// Whom a proxy is to ask for us, if it is one.
    proxy: Option<Proxy>,
}

impl Target {
    fn of(pool: &Pool, uri: &Uri) -> Result<Target, CallError> {
        let origin = &pool.origin;
        let proxy = pool.proxy.clone().filter(|_| !origin.is_secure());
        let scheme = if origin.is_secure() { Scheme::HTTPS } else { Scheme::HTTP };
        let path = uri.path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Target { authority: origin.authority()?, scheme, path, proxy })
    }

    fn write<B>(&self, request: &mut Request<B>, is_http2: bool) {
        let mut parts = hyper::http::uri::Parts::default();
        parts.path_and_query = Some(self.path.clone());
        if is_http2 {
            parts.scheme = Some(self.scheme.clone());
            parts.authority = Some(self.authority.clone());
            request.headers_mut().remove(header::HOST);
        } else if let Ok(host) = HeaderValue::from_str(self.authority.as_str()) {
            request.headers_mut().insert(header::HOST, host);
            if let Some(proxy) = &self.proxy {
                parts.scheme = Some(self.scheme.clone());
                parts.authority = Some(self.authority.clone());
                let value = proxy.authorization.as_deref().map(HeaderValue::from_str);
                if let Some(Ok(value)) = value {
                    request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
                }
            }
        }
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

/// Why a call has no answer.
#[derive(Debug, Error)]
pub enum CallError {
    /// No server could be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A server was reached, but the TLS handshake failed.
    #[cfg(feature = "tls")]
    #[error("no safe connection to {at}")]
    Tls {
        /// Host and port.
        at: String,
        /// Why not.
        source: TlsError,
    },
    /// There is no way through the proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The host can stand in no request.
    #[error("`{host}` is no host")]
    Host {
        /// What was given.
        host: String,
    },
    /// The server takes its time.
    #[error("no answer from {at} within {patience:?}")]
    TimedOut {
        /// Host and port.
        at: String,
        /// How long was waited.
        patience: Duration,
    },
    /// The connection ended before the answer.
    #[error("{at} closed the connection without an answer")]
    Closed {
        /// Host and port.
        at: String,
        /// How it ended.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// What came back is not HTTP.
    #[error("{at} does not answer in HTTP")]
    NotHttp {
        /// Host and port.
        at: String,
        /// What is wrong with it.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// We broke off the request ourselves.
    #[error("the request to {at} was not completed")]
    Unfinished {
        /// Host and port.
        at: String,
    },
}

impl CallError {
    fn of(origin: &Origin, error: TrySendError<Request<Pushed<()>>>) -> CallError {
        let at = origin.shown();
        let error = error.into_error();
        if error.is_parse() {
            return CallError::NotHttp { at, source: Box::new(error) };
        }
        match error.is_user() {
            true => CallError::Unfinished { at },
            false => CallError::Closed { at, source: Box::new(error) },
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            CallError::Connect(error) => error.hint(),
            #[cfg(feature = "tls")]
            CallError::Tls { source, .. } => source.hint(),
            CallError::NotHttp { .. } => {
                Some("is it an HTTP server, and if so, is it `https`?".into())
            }
            _ => None,
        }
    }
}
