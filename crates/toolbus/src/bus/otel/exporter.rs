//! The thread that sends spans: in batches, one request at a time, and without a second try.
//!
//! A collector that cannot be reached is said once. What does not fit into the queue meanwhile is
//! dropped: spans are worth less than calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Builder;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
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
    queue: Queue,
    finish: oneshot::Sender<()>,
    over: mpsc::Receiver<()>,
}

/// The way to the thread.
#[derive(Clone)]
pub(super) struct Queue {
    spans: Sender<Span>,
    /// How many there was no room for.
    lost: Arc<AtomicU64>,
}

impl Queue {
    /// Takes a span along, if there is room.
    pub(super) fn push(&self, span: Span) {
        if let Err(TrySendError::Full(_)) = self.spans.try_send(span) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Exporter {
    /// Sends from now on what [`Exporter::spans`] sees.
    pub fn start(settings: OtelSettings) -> Result<Exporter, OtelError> {
        let origin = origin(&settings)?;
        let (sender, spans) = channel(WAITING_MAX);
        let queue = Queue { spans: sender, lost: Arc::default() };
        let (finish, finishing) = oneshot::channel();
        let (tell_over, over) = mpsc::channel();
        let cannot = |error: std::io::Error| OtelError::Thread { why: error.to_string() };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let lost = queue.lost.clone();
        let work = move || {
            let sending = async move {
                Sending::new(settings, origin, lost).run(spans, finishing).await;
            };
            LocalSet::new().block_on(&runtime, sending);
            // Gone is who would wait no longer.
            let _ = tell_over.send(());
        };
        thread::Builder::new().name("spans".to_owned()).spawn(work).map_err(cannot)?;
        Ok(Exporter { queue, finish, over })
    }

    /// Sees the calls of a bus.
    pub fn spans(&self) -> Spans {
        Spans::new(self.queue.clone())
    }

    /// Sends what waits, for two seconds at most.
    pub fn finish(self) {
        let _ = self.finish.send(());
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
    lost: Arc<AtomicU64>,
    /// The collector did not take the last batch, and the user knows.
    is_down: bool,
    /// The user knows that the collector is too slow.
    is_slow: bool,
}

impl Sending {
    fn new(settings: OtelSettings, origin: Origin, lost: Arc<AtomicU64>) -> Sending {
        let client = Client::new(origin, 1, Duration::from_secs(30));
        Sending { settings, client, lost, is_down: false, is_slow: false }
    }

    async fn run(mut self, mut spans: Receiver<Span>, mut finish: oneshot::Receiver<()>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut is_last = false;
        while !is_last {
            is_last = self.gather(&mut spans, &mut finish, &mut batch).await;
            while is_last && let Ok(span) = spans.try_recv() {
                batch.push(span);
            }
            for part in batch.chunks(BATCH_MAX) {
                let sent = self.send(part).await;
                self.judge(sent, part.len());
            }
            batch.clear();
        }
    }

    /// Waits for a batch, and tells whether it is the last. A collector that is down is left
    /// alone for a while, and what there is no room for meanwhile is dropped.
    async fn gather(
        &self,
        spans: &mut Receiver<Span>,
        finish: &mut oneshot::Receiver<()>,
        batch: &mut Vec<Span>,
    ) -> bool {
        let mut until = None;
        loop {
            let alarm = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let more = tokio::select! {
                _ = &mut *finish => return true,
                () = alarm => return false,
                more = spans.recv_many(batch, BATCH_MAX) => more,
            };
            if more == 0 {
                return true;
            }
            let delay = if self.is_down { REST } else { BATCH_DELAY };
            until.get_or_insert_with(|| Instant::now() + delay);
            match self.is_down {
                true => batch.truncate(BATCH_MAX),
                false if BATCH_MAX <= batch.len() => return false,
                false => {}
            }
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
                let words: String =
                    words.lines().next().unwrap_or_default().chars().take(200).collect();
                Err(format!("it answers {status}: {words}").trim_end_matches(": ").to_owned())
            }
        }
    }

    fn judge(&mut self, sent: Result<(), String>, count: usize) {
        let url = &self.settings.url;
        let lost = self.lost.swap(0, Ordering::Relaxed);
        match sent {
            Ok(()) => {
                if std::mem::take(&mut self.is_down) {
                    tracing::info!("the collector at `{url}` takes spans again");
                }
                if 0 < lost && !std::mem::replace(&mut self.is_slow, true) {
                    tracing::warn!("{lost} spans are lost: the collector at `{url}` is too slow");
                }
            }
            Err(why) => {
                if !std::mem::replace(&mut self.is_down, true) {
                    tracing::warn!("cannot send {count} spans to `{url}`, they are lost: {why}");
                }
            }
        }
    }
}
