//! HTTP exchanges as streams of a conversation: what is read and written is a body, and heads
//! go ahead of it.

use std::io::{self, IoSlice};

use bytes::BytesMut;
use toolbus_proto::channel::{Outbox, StreamLost, Streams};
use toolbus_proto::http::{RequestHead, ResponseHead};
use toolbus_proto::tool::{Failure, FailureKind};

use super::{
    Answer, Body, BodySink, CallError, Client, Exchange, HeaderMap, HeaderName, HeaderValue,
    Request, Responder, Response, StatusCode, Timeouts, Uri, header, request,
};
use crate::account::Account;
use crate::causes::causes;
use crate::transport::Whereabouts;
use crate::transport::io::{Lost, Opener, Reader, Sink, Source, Stop, Writer};
use toolbus_proto::did_you_mean::hinted;

/// Asks one server: each stream is a request.
pub struct HttpOpener {
    /// Who asks.
    pub client: Client,
    /// How long each request waits.
    pub timeouts: Timeouts,
    /// Sent with every request, unless its own head says otherwise.
    pub headers: HeaderMap,
}

impl<M: Streams<Opening = RequestHead, Answer = ResponseHead>> Opener<M> for HttpOpener {
    type Reader = AnswerReader;
    type Writer = RequestWriter;

    async fn open(&self, head: RequestHead) -> Result<(AnswerReader, RequestWriter), StreamLost> {
        Ok(self.begin(&head))
    }
}

impl HttpOpener {
    /// Begins at once: who waits for a connection waits for the answer.
    pub fn begin(&self, head: &RequestHead) -> (AnswerReader, RequestWriter) {
        let (sink, answer) = self.client.start(to_request(head, &self.headers), self.timeouts);
        (AnswerReader::Head(answer), RequestWriter(sink))
    }
}

/// What a server answers.
pub enum AnswerReader {
    /// The head of the answer is not there yet.
    Head(Answer),
    /// Its body is being read.
    Body(Body),
}

impl Reader for AnswerReader {
    type Head = ResponseHead;

    async fn head(&mut self) -> Result<ResponseHead, StreamLost> {
        let AnswerReader::Head(answer) = self else { return Ok(ResponseHead::default()) };
        let (head, body) = answer.await.map_err(|error| lost(&error))?.into_parts();
        *self = AnswerReader::Body(body);
        let headers = texts(&head.headers, plain).collect();
        Ok(ResponseHead { headers, ..ResponseHead::new(head.status.as_u16()) })
    }
}

impl Source for AnswerReader {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        match self {
            AnswerReader::Head(_) => Ok(0),
            AnswerReader::Body(body) => read(body, input).await,
        }
    }
}

/// What we ask.
pub struct RequestWriter(BodySink);

impl Sink for RequestWriter {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        write(self, pieces).await
    }

    async fn take_from(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        fill(&self.0, outbox).await
    }
}

impl Writer for RequestWriter {
    type Head = ResponseHead;

    fn answer(&mut self, _head: ResponseHead) {}

    fn charge_to(&self, account: &Account) {
        self.0.charge_to(account);
    }

    fn finish(self) {
        self.0.end();
    }

    fn reset(self, _code: u64) {
        self.0.abort();
    }

    /// A server that has heard enough may still answer: the next write finds out.
    fn stopped(&self) -> impl Future<Output = Stop> + 'static {
        std::future::pending()
    }
}

/// What we answer to one request.
pub enum AnswerWriter {
    /// Nothing has been said, and this client waits for it.
    Awaiting(Responder, Whereabouts),
    /// The head is out.
    Begun(BodySink),
    /// There is nothing to answer any more.
    Over,
}

impl AnswerWriter {
    fn take(&mut self) -> AnswerWriter {
        std::mem::replace(self, AnswerWriter::Over)
    }
}

impl Sink for AnswerWriter {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        write(self, pieces).await
    }

    async fn take_from(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        match self {
            AnswerWriter::Begun(sink) => fill(sink, outbox).await,
            AnswerWriter::Awaiting(..) | AnswerWriter::Over => {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }
}

impl Writer for AnswerWriter {
    type Head = ResponseHead;

    fn answer(&mut self, head: ResponseHead) {
        *self = match self.take() {
            AnswerWriter::Awaiting(responder, peer) => {
                if let ResponseHead { status, why: Some(why), .. } = &head {
                    tracing::info!(peer = %peer, "refused with HTTP status {status}: {why}");
                }
                AnswerWriter::Begun(responder.respond(to_response(&head)))
            }
            writer => writer,
        };
    }

    fn charge_to(&self, account: &Account) {
        if let AnswerWriter::Begun(sink) = self {
            sink.charge_to(account);
        }
    }

    fn finish(mut self) {
        if let AnswerWriter::Begun(sink) = self.take() {
            sink.end();
        }
    }

    /// Without a head it is an answer all the same: 500.
    fn reset(self, _code: u64) {}

    fn stopped(&self) -> impl Future<Output = Stop> + 'static {
        let gone = match self {
            AnswerWriter::Awaiting(responder, _) => Some(responder.gone()),
            AnswerWriter::Begun(_) | AnswerWriter::Over => None,
        };
        async {
            match gone {
                Some(gone) => gone.await,
                None => std::future::pending().await,
            }
            let failure = Failure::new(FailureKind::Gone, "the client has left");
            Stop::Lost(StreamLost { code: None, failure })
        }
    }
}

impl Exchange {
    /// The exchange as a stream that the peer opened. Header fields are taken as `text` reads
    /// them.
    pub fn into_stream(
        self,
        text: fn(&HeaderValue) -> Option<String>,
    ) -> (RequestHead, Body, AnswerWriter) {
        let mut head = to_head(&self.head, text);
        head.certificate = self.identity.certificate;
        (head, self.body, AnswerWriter::Awaiting(self.responder, self.peer))
    }
}

impl Source for Body {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        read(self, input).await
    }
}

/// Header fields that are plain text; others count as absent.
pub fn plain(value: &HeaderValue) -> Option<String> {
    value.to_str().ok().map(str::to_owned)
}

/// Header fields whatever they are: what is not text is garbled, and not left out, so that
/// no request passes a check by being unreadable.
pub fn garbled(value: &HeaderValue) -> Option<String> {
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn texts(
    headers: &HeaderMap,
    text: fn(&HeaderValue) -> Option<String>,
) -> impl Iterator<Item = (String, String)> {
    headers.iter().filter_map(move |(name, value)| Some((name.as_str().to_owned(), text(value)?)))
}

/// The head of a request, and over HTTP/2 the host, which is no header field there.
fn to_head(parts: &request::Parts, text: fn(&HeaderValue) -> Option<String>) -> RequestHead {
    let mut head = RequestHead::new(parts.method.as_str().to_owned(), parts.uri.path());
    head.query = parts.uri.query().map(str::to_owned);
    let host = parts.uri.authority().map(|host| ("host", host.as_str().to_owned()));
    head.headers.extend(host);
    head.headers.extend(texts(&parts.headers, text));
    head
}

fn to_request(head: &RequestHead, headers: &HeaderMap) -> Request<()> {
    let mut request = Request::new(());
    request.headers_mut().clone_from(headers);
    for (name, _) in head.headers.iter() {
        request.headers_mut().remove(name);
    }
    *request.method_mut() = head.method.parse().unwrap_or_default();
    *request.uri_mut() = Uri::try_from(&head.path).unwrap_or_default();
    put(&head.headers, request.headers_mut());
    request
}

fn to_response(head: &ResponseHead) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() =
        StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    put(&head.headers, response.headers_mut());
    response
}

/// What can be no header field is left out: a trace may be spelled in many ways.
fn put(from: &toolbus_proto::http::Headers, headers: &mut HeaderMap) {
    for (name, value) in from.iter() {
        if let Ok(name) = name.parse::<HeaderName>()
            && let Ok(mut value) = HeaderValue::from_str(value)
        {
            value.set_sensitive(name == header::AUTHORIZATION);
            headers.append(name, value);
        }
    }
}

async fn read(body: &mut Body, input: &mut BytesMut) -> io::Result<usize> {
    match body.next().await {
        Ok(Some(chunk)) => {
            input.extend_from_slice(&chunk);
            Ok(chunk.len())
        }
        Ok(None) => Ok(0),
        Err(error) => {
            let failure = Failure::new(FailureKind::Gone, causes(&error));
            Err(Lost(StreamLost { code: None, failure }).into())
        }
    }
}

async fn fill(sink: &BodySink, outbox: &mut Outbox) -> io::Result<()> {
    if sink.is_gone() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    // Dropped while it waits, it has taken nothing. What is too much makes the next wait.
    sink.room().await;
    let _ = sink.send_all(outbox);
    Ok(())
}

async fn write(sink: &mut impl Sink, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut outbox = Outbox::new();
    pieces.iter().for_each(|piece| outbox.put(piece));
    let count = outbox.len();
    sink.take_from(&mut outbox).await?;
    Ok(count)
}

/// Why there is no answer to a request.
pub(crate) fn lost(error: &CallError) -> StreamLost {
    let kind = match error {
        CallError::Connect(_) | CallError::Proxy(_) | CallError::Host { .. } => {
            FailureKind::Unavailable
        }
        #[cfg(feature = "tls")]
        CallError::Tls { .. } => FailureKind::Unavailable,
        CallError::TimedOut { .. } => FailureKind::TimedOut,
        CallError::Closed { .. } | CallError::Unfinished { .. } => FailureKind::Gone,
        CallError::NotHttp { .. } => FailureKind::BrokeProtocol,
    };
    let failure = hinted(Failure::new(kind, causes(error)), error.hint());
    StreamLost { code: None, failure }
}
