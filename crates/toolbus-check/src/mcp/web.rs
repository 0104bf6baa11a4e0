//! A server that listens, and is talked to over HTTP.

use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use toolbus_proto::frame::sse::Events;
use toolbus_proto::mcp::wire::{Era, REPLY_BYTES_MAX, Revision};
use toolbus_proto::printable::printable;

use super::ANSWER_PATIENCE;
use super::message::{Heard, NOBODYS, Question, Reply, notification};
use toolbus::wire::mcp::back_http::Options;
use toolbus_engine::transport::http::{Body, CallError, HeaderMap, Method, StatusCode};

/// How much of a body is shown.
const BODY_SHOWN_MAX: usize = 200;

/// One conversation.
pub(super) struct Web {
    options: Rc<Options>,
    pub(super) session: Option<String>,
    /// What the server answered `initialize` with.
    pub(super) version: Option<String>,
}

/// What came back for one request.
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) reply: Option<Reply>,
    body: Bytes,
}

impl Web {
    pub(super) fn new(options: Rc<Options>) -> Web {
        Web { options, session: None, version: None }
    }

    /// Does a server listen there?
    pub(super) async fn is_there(&self) -> Result<(), CallError> {
        self.options.ask(Method::GET, &[], Bytes::new()).await.map(drop)
    }

    pub(super) async fn ask(
        &mut self,
        question: &Question<'_>,
        patience: Duration,
    ) -> Result<Reply, String> {
        let headers = self.headers(Some(question));
        let answered = self.post(&question.to_text(), &headers, patience).await?;
        answered.reply.clone().ok_or_else(|| answered.shown())
    }

    /// Tells something that is not answered.
    pub(super) async fn tell(&mut self, era: Era, method: &str) -> Result<(), String> {
        let mut headers = self.headers(None);
        if era == Era::Modern {
            headers.extend(pairs(&[
                ("mcp-protocol-version", Revision::MODERN.as_str()),
                ("mcp-method", method),
            ]));
        }
        let answered = self.post(&notification(method), &headers, ANSWER_PATIENCE).await?;
        match answered.status.is_success() && answered.body.is_empty() {
            true => Ok(()),
            false => Err(answered.shown()),
        }
    }

    /// The headers that go with a question.
    pub(super) fn headers(&self, question: Option<&Question<'_>>) -> Vec<(String, String)> {
        let mut headers = pairs(&[
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ]);
        if let Some(session) = &self.session {
            headers.extend(pairs(&[("mcp-session-id", session)]));
        }
        match question {
            Some(question) if question.era == Era::Modern => {
                headers.extend(pairs(&[
                    ("mcp-protocol-version", question.version),
                    ("mcp-method", question.method),
                ]));
                if question.method == "tools/call" {
                    headers.extend(pairs(&[("mcp-name", NOBODYS)]));
                }
            }
            _ => {
                let version = self
                    .version
                    .as_deref()
                    .map(|version| ("mcp-protocol-version".to_owned(), version.to_owned()));
                headers.extend(version);
            }
        }
        headers
    }

    /// Sends one message, and hears the answer as far as it matters.
    pub(super) async fn post(
        &mut self,
        message: &str,
        headers: &[(String, String)],
        patience: Duration,
    ) -> Result<Answered, String> {
        let body = Bytes::copy_from_slice(message.as_bytes());
        let answered = tokio::time::timeout(patience, self.exchange(headers, body)).await;
        answered.map_err(|_| format!("it said nothing within {patience:?}"))?
    }

    async fn exchange(
        &mut self,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Answered, String> {
        let asked = self.options.ask(Method::POST, headers, body).await;
        let response = asked.map_err(|error| error.to_string())?;
        let (head, mut body) = response.into_parts();
        if let Some(session) = text(&head.headers, "mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let is_stream = text(&head.headers, "content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        let status = head.status;
        if is_stream {
            let reply = first_reply(&mut body).await?;
            return Ok(Answered { status, reply: Some(reply), body: Bytes::new() });
        }
        let body = body.collect(REPLY_BYTES_MAX, ANSWER_PATIENCE).await;
        let body = body.map_err(|error| error.to_string())?;
        let reply = match Heard::read(&body) {
            Heard::Reply(reply) => Some(reply),
            Heard::Another | Heard::Noise => None,
        };
        Ok(Answered { status, reply, body })
    }
}

impl Answered {
    /// For people.
    pub(super) fn shown(&self) -> String {
        let body = printable(&self.body, BODY_SHOWN_MAX);
        let between = if body.is_empty() { "" } else { ": " };
        let status = self.status.as_u16();
        let hint = match status {
            401 | 403 => " (give a token by `--token-env`, or what else it asks for by `--header`)",
            _ => "",
        };
        format!("it answered {status}{between}{body}{hint}")
    }
}

/// The first answer in a stream of messages.
async fn first_reply(body: &mut Body) -> Result<Reply, String> {
    let mut events = Events::new(REPLY_BYTES_MAX);
    let mut input = BytesMut::new();
    loop {
        while let Some(event) = events.next(&mut input) {
            let event = event.map_err(|too_long| too_long.to_string())?;
            if let Heard::Reply(reply) = Heard::read(&event.data) {
                return Ok(reply);
            }
        }
        match body.next().await {
            Ok(Some(chunk)) => input.extend_from_slice(&chunk),
            Ok(None) => return Err("its stream ended without an answer".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

pub(super) fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
