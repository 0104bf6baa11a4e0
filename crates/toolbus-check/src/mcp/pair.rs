//! A server of the old HTTP+SSE: what it says comes on one stream, what it is told is posted.

use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use toolbus_proto::frame::sse::{Event, Events};
use toolbus_proto::mcp::wire::REPLY_BYTES_MAX;
use toolbus_proto::printable::printable;

use super::ANSWER_PATIENCE;
use super::message::{Heard, Question, Reply};
use super::web::pairs;
use toolbus::wire::mcp::back_http::Options;
use toolbus_engine::transport::http::{Body, CallError, Method};

/// How much of what it says is shown.
const SHOWN_MAX: usize = 200;

/// One conversation.
pub(super) struct Pair {
    options: Rc<Options>,
    /// Or why there is none.
    stream: Result<Stream, String>,
}

struct Stream {
    body: Body,
    events: Events,
    input: BytesMut,
    /// Where messages are posted.
    path: String,
}

impl Pair {
    /// Opens the stream. Fails only if no server listens there.
    pub(super) async fn open(options: Rc<Options>, start: Duration) -> Result<Pair, CallError> {
        let headers = pairs(&[("accept", "text/event-stream")]);
        let response = options.ask(Method::GET, &headers, Bytes::new()).await?;
        let (head, body) = response.into_parts();
        let kind = head.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let stream = match head.status.as_u16() {
            200 if is_stream => {
                let began = tokio::time::timeout(start, Stream::begin(&options, body)).await;
                let silence = |_| format!("its stream said nothing within {start:?}");
                began.map_err(silence).flatten()
            }
            200 => Err("it answered GET with something that is no stream of events".to_owned()),
            status => Err(format!("it answered GET with {status}")),
        };
        Ok(Pair { options, stream })
    }

    pub(super) async fn ask(
        &mut self,
        question: &Question<'_>,
        patience: Duration,
    ) -> Result<Reply, String> {
        self.tell(&question.to_text()).await?;
        self.reply(patience).await
    }

    /// Posts a message, which must be taken.
    pub(super) async fn tell(&mut self, message: &str) -> Result<(), String> {
        match self.post(message).await? {
            200 | 202 => Ok(()),
            status => Err(format!("it answered {status}")),
        }
    }

    /// Posts anything, and tells the status.
    pub(super) async fn post(&mut self, message: &str) -> Result<u16, String> {
        let path = self.stream.as_ref().map_err(Clone::clone)?.path.clone();
        self.post_at(&path, message).await
    }

    /// Posts to a session that is not there, and tells the status.
    pub(super) async fn post_to_none(&mut self, message: &str) -> Result<u16, String> {
        let path = &self.stream.as_ref().map_err(Clone::clone)?.path;
        let hidden = |c: char| if c.is_ascii_alphanumeric() { '0' } else { c };
        let elsewhere = match path.split_once('=') {
            Some((before, value)) => {
                format!("{before}={}", value.chars().map(hidden).collect::<String>())
            }
            None => return Err("its URL for messages names no session".to_owned()),
        };
        self.post_at(&elsewhere, message).await
    }

    async fn post_at(&self, path: &str, message: &str) -> Result<u16, String> {
        let headers = pairs(&[("content-type", "application/json")]);
        let body = Bytes::copy_from_slice(message.as_bytes());
        let asked = self.options.ask_at(path, Method::POST, &headers, body);
        let answered = tokio::time::timeout(ANSWER_PATIENCE, asked).await;
        let answered = answered.map_err(|_| "it did not take what was posted".to_owned())?;
        answered.map(|answer| answer.status().as_u16()).map_err(|error| error.to_string())
    }

    /// Its next answer, whatever else it says before.
    pub(super) async fn reply(&mut self, patience: Duration) -> Result<Reply, String> {
        let stream = self.stream.as_mut().map_err(|why| why.clone())?;
        let heard = tokio::time::timeout(patience, async {
            loop {
                if let Heard::Reply(reply) = Heard::read(&stream.next().await?.data) {
                    return Ok(reply);
                }
            }
        });
        heard.await.map_err(|_| format!("it said nothing within {patience:?}"))?
    }
}

impl Stream {
    async fn begin(options: &Options, body: Body) -> Result<Stream, String> {
        let (events, input) = (Events::new(REPLY_BYTES_MAX), BytesMut::new());
        let mut stream = Stream { body, events, input, path: String::new() };
        let first = stream.next().await?;
        let name = printable(first.name.as_deref().unwrap_or(b"message"), SHOWN_MAX);
        if name != "endpoint" {
            return Err(format!("its stream begins with the event `{name}`, not with `endpoint`"));
        }
        let url = printable(&first.data, SHOWN_MAX);
        let wrong = |why| format!("it wants messages posted to `{url}`, which {why}");
        stream.path = options.resolve(&url).map_err(wrong)?;
        Ok(stream)
    }

    /// The next event that carries something.
    async fn next(&mut self) -> Result<Event, String> {
        loop {
            while let Some(event) = self.events.next(&mut self.input) {
                let event = event.map_err(|too_long| too_long.to_string())?;
                if !event.data.is_empty() {
                    return Ok(event);
                }
            }
            match self.body.next().await {
                Ok(Some(chunk)) => self.input.extend_from_slice(&chunk),
                Ok(None) => return Err("its stream ended".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
