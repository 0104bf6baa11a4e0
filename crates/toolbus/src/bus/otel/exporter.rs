//! The thread that sends spans: in batches, one request at a time, and without a second try.
//!
//! A collector that cannot be reached is said once. What does not fit into the queue meanwhile is
//! dropped: spans are worth less than calls.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Builder;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::settings::{OtelError, OtelSettings};
use super::{Span, Spans, encode};
use crate::bus::back::causes;
use crate::transport::http::{
    Client, HeaderValue, Method, Origin, Request, StatusCode, Timeouts, header,
};

/// How many spans wait at most.
const WAITING_MAX: usize = 2048;
/// How many are sent together.
const BATCH_MAX: usize = 512;
/// How long the first of a batch waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// How long a collector that could not be reached is left alone.
const REST: Duration = Duration::from_secs(5);
/// How long the last spans may take when we are to end.
const LAST_SPANS: Duration = Duration::from_secs(2);
/// How much of what a collector answers is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Sends the spans of a bus. [`Exporter::finish`] sends the last of them.
pub struct Exporter {
    queue: Sender<Span>,
    over: mpsc::Receiver<()>,
}

/// The way into the queue.
pub(super) struct Queue(Sender<Span>);

impl Queue {
    /// Tells whether there was room.
    pub(super) fn push(&self, span: Span) -> bool {
        !matches!(self.0.try_send(span), Err(TrySendError::Full(_)))
    }
}

impl Exporter {
    /// Sends from now on what [`Exporter::spans`] sees.
    pub fn start(settings: OtelSettings) -> Result<Exporter, OtelError> {
        let origin = origin(&settings)?;
        let (queue, spans) = channel(WAITING_MAX);
        let (tell_over, over) = mpsc::channel();
        let cannot = |error: std::io::Error| OtelError::Thread { why: error.to_string() };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let thread = thread::Builder::new().name("spans".to_owned());
        let work = move || {
            let sending = async move { Sending::new(settings, origin).run(spans).await };
            LocalSet::new().block_on(&runtime, sending);
            // Gone is who would wait no longer.
            let _ = tell_over.send(());
        };
        thread.spawn(work).map_err(cannot)?;
        Ok(Exporter { queue, over })
    }

    /// Sees the calls of a bus.
    pub fn spans(&self) -> Spans {
        Spans::new(Queue(self.queue.clone()))
    }

    /// Sends what waits, for two seconds at most. All [`Spans`] must have been dropped, or it
    /// takes that long.
    pub fn finish(self) {
        drop(self.queue);
        let _ = self.over.recv_timeout(LAST_SPANS);
    }
}

#[cfg(feature = "tls")]
fn origin(settings: &OtelSettings) -> Result<Origin, OtelError> {
    use crate::transport::tls::{ClientTls, Inside};
    let tls = match is_secure(settings) {
        true => {
            let tls = ClientTls::load(None, None, Inside::Http);
            Some(tls.map_err(|error| OtelError::Tls { why: error.to_string() })?)
        }
        false => None,
    };
    let (host, port) = place(settings);
    Ok(Origin { host, port, tls })
}

#[cfg(not(feature = "tls"))]
fn origin(settings: &OtelSettings) -> Result<Origin, OtelError> {
    if is_secure(settings) {
        return Err(OtelError::Tls { why: "it was built without TLS".into() });
    }
    let (host, port) = place(settings);
    Ok(Origin { host, port })
}

fn is_secure(settings: &OtelSettings) -> bool {
    settings.url.scheme_str() == Some("https")
}

fn place(settings: &OtelSettings) -> (String, u16) {
    let host = settings.url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let usual = if is_secure(settings) { 443 } else { 80 };
    (host, settings.url.port_u16().unwrap_or(usual))
}

/// The thread at its work.
struct Sending {
    settings: OtelSettings,
    client: Client,
    /// The user knows that the collector does not take them.
    is_told: bool,
    /// It is left alone until then.
    rests_until: Option<Instant>,
}

impl Sending {
    fn new(settings: OtelSettings, origin: Origin) -> Sending {
        let client = Client::new(origin, 1, Duration::from_secs(30));
        Sending { settings, client, is_told: false, rests_until: None }
    }

    async fn run(mut self, mut spans: Receiver<Span>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            if spans.recv_many(&mut batch, BATCH_MAX).await == 0 {
                return;
            }
            // Others may follow soon; once all senders are gone none will, and it is time to go.
            let until = self.rests_until.take();
            let until = until.unwrap_or_else(|| Instant::now() + BATCH_DELAY);
            while batch.len() < BATCH_MAX {
                let room = BATCH_MAX - batch.len();
                tokio::select! {
                    more = spans.recv_many(&mut batch, room) => if more == 0 { break },
                    () = sleep_until(until) => break,
                }
            }
            if self.is_told {
                dropped_until(until, &mut spans).await;
            }
            let sent = self.send(&batch).await;
            self.judge(sent, batch.len());
            batch.clear();
        }
    }

    async fn send(&self, batch: &[Span]) -> Result<(), String> {
        let OtelSettings { url, headers, service, timeout: patience } = &self.settings;
        let mut request = Request::new(Bytes::from(encode::request(service, batch)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.clone();
        request.headers_mut().clone_from(headers);
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        let timeouts = Timeouts { connect: *patience, head: Some(*patience) };
        let answer = self.client.ask(request, timeouts).await.map_err(|error| causes(&error))?;
        let (head, mut body) = answer.into_parts();
        let read = timeout(*patience, body.collect(ANSWER_BYTES_MAX, *patience)).await;
        match head.status {
            StatusCode::OK | StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(()),
            status => {
                let words = read.ok().and_then(Result::ok).unwrap_or_default();
                let words = String::from_utf8_lossy(&words);
                let words: String = words.lines().next().unwrap_or_default().chars().take(200).collect();
                Err(format!("it answers {status}: {words}").trim_end_matches(": ").to_owned())
            }
        }
    }

    fn judge(&mut self, sent: Result<(), String>, count: usize) {
        match sent {
            Ok(()) => {
                if std::mem::take(&mut self.is_told) {
                    tracing::info!("the collector takes spans again");
                }
            }
            Err(why) => {
                self.rests_until = Some(Instant::now() + REST);
                if !std::mem::replace(&mut self.is_told, true) {
                    let url = &self.settings.url;
                    tracing::warn!("spans are lost: cannot send {count} to `{url}`: {why}");
                }
            }
        }
    }
}

/// A collector that is gone is not asked for each batch: what comes until then is dropped, unless
/// it is the end.
async fn dropped_until(until: Instant, spans: &mut Receiver<Span>) {
    let mut dropped = Vec::new();
    loop {
        tokio::select! {
            more = spans.recv_many(&mut dropped, BATCH_MAX) => if more == 0 { return },
            () = sleep_until(until) => return,
        }
        dropped.clear();
    }
}
