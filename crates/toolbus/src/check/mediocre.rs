//! Is it a mediocre-rpc server? The rules of the document that a caller depends on (`specs` §10).
//!
//! Every rule is tried on a connection of its own, so that none spoils another.

use std::path::PathBuf;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::decode::Direction;
use toolbus_proto::mediocre::event::{FramingError, Head, Message, Said};
use toolbus_proto::mediocre::{Decoder, Reading};
use toolbus_proto::tool::{Failure, FailureKind};

use super::{Finding, Verdict};
use crate::transport::{Stream, tcp, unix};

/// How long an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// A method that nobody has.
const NOBODYS: &str = r#"{"method":"toolbus.check"}"#;

/// Who is tested, and what may be called.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Where it listens.
    pub place: Place,
    /// A method that may be called with null, and as an empty stream.
    pub method: Option<String>,
    /// How long connecting may take.
    pub start: Duration,
}

/// Where a server listens.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Tests a server, and tells what became of each rule as soon as that is known.
///
/// Fails only if the server cannot be reached at all.
pub async fn check(subject: &Subject, mut tell: impl FnMut(Finding)) -> Result<(), Failure> {
    let mut tell = |rule, kept| tell(Finding { rule, verdict: Verdict::demanded(kept) });
    drop(subject.connect().await?);
    tell("unknown-method", subject.answers(&[NOBODYS], &[Answer::Err]).await);
    let behind_missing = ["{}", NOBODYS];
    tell("missing-method", subject.answers(&behind_missing, &[Answer::Err; 2]).await);
    tell("pipelined", pipelined(subject).await);
    let spaced = ["\r\n\t ", NOBODYS, NOBODYS, " \n\n", NOBODYS];
    tell("whitespace", subject.answers(&spaced, &[Answer::Err; 3]).await);
    tell("byte-by-byte", byte_by_byte(subject).await);
    let unknown = [r#"{"x":[{"streamEnd":true}],"method":"toolbus.check","y":{"method":1}}"#];
    tell("unknown-fields", subject.answers(&unknown, &[Answer::Err]).await);
    tell("half-close", half_close(subject).await);
    tell("stray-bytes", stray_bytes(subject).await);
    if let Some(method) = &subject.method {
        let method = Json::of(method);
        let single = format!(r#"{{"method":{method}}}"#);
        tell("single-call", subject.answers(&[&single], &[Answer::Any]).await);
        let stream = format!(r#"{{"method":{method},"streamStart":true}}{{"streamEnd":true}}"#);
        tell(
            "stream-call",
            subject.answers(&[&stream, NOBODYS], &[Answer::Any, Answer::Err]).await,
        );
    }
    Ok(())
}

/// What an answer has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Err,
    Any,
}

/// Two calls in one write: the answers come in their order, and neither is lost.
async fn pipelined(subject: &Subject) -> Result<(), String> {
    let both = format!("{{}}{NOBODYS}");
    subject.answers(&[&both, NOBODYS], &[Answer::Err; 3]).await
}

async fn byte_by_byte(subject: &Subject) -> Result<(), String> {
    let bytes: Vec<&str> = NOBODYS.split_inclusive(|_: char| true).collect();
    subject.answers(&bytes, &[Answer::Err]).await
}

async fn half_close(subject: &Subject) -> Result<(), String> {
    let mut talk = subject.talk().await?;
    talk.say(NOBODYS).await;
    talk.hang_up().await;
    talk.answer(Answer::Err).await?;
    talk.ends().await
}

/// Nobody can know what comes behind them: at most one error is said.
async fn stray_bytes(subject: &Subject) -> Result<(), String> {
    let mut talk = subject.talk().await?;
    talk.say("]").await;
    match talk.event().await? {
        None => return Ok(()),
        Some(Said::Head(Head { message: Message::Response { err: Some(_), .. }, .. })) => {}
        Some(_) => return Err("it answered as if nothing was wrong".to_owned()),
    }
    talk.ends().await
}

impl Subject {
    async fn connect(&self) -> Result<Stream, Failure> {
        let connected = match &self.place {
            Place::Tcp { host, port } => {
                tcp::connect(host, *port, self.start).await.map(Stream::Tcp)
            }
            Place::Unix(path) => unix::connect(path, self.start).await.map(Stream::Unix),
        };
        connected.map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))
    }

    async fn talk(&self) -> Result<Talk, String> {
        let stream = self.connect().await.map_err(|failure| failure.message)?;
        let decoder = Decoder::new(Direction::Response, Reading::default());
        Ok(Talk {
            stream,
            decoder,
            input: BytesMut::new(),
            until: Instant::now() + ANSWER_PATIENCE,
        })
    }

    /// Says these, each in a write of its own, and hears those.
    async fn answers(&self, said: &[&str], expected: &[Answer]) -> Result<(), String> {
        let mut talk = self.talk().await?;
        for text in said {
            talk.say(text).await;
        }
        for (index, answer) in expected.iter().enumerate() {
            let number = index + 1;
            talk.answer(*answer).await.map_err(|why| match expected {
                [_] => why,
                _ => format!("answer {number} of {}: {why}", expected.len()),
            })?;
        }
        Ok(())
    }
}

/// One connection to whoever is tested.
struct Talk {
    stream: Stream,
    decoder: Decoder,
    input: BytesMut,
    until: Instant,
}

impl Talk {
    /// Whether it listens is seen by what it answers.
    async fn say(&mut self, text: &str) {
        let _ = timeout_at(self.until, self.stream.write_all(text.as_bytes())).await;
        // So that the next goes in a packet of its own.
        tokio::task::yield_now().await;
    }

    async fn hang_up(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// The next it says; `None` once it has closed.
    async fn event(&mut self) -> Result<Option<Said>, String> {
        let broke = |error: FramingError| format!("it said what cannot be read: {error}");
        loop {
            if let Some(next) = self.decoder.next(&mut self.input) {
                return next.map(|event| Some(event.said)).map_err(broke);
            }
            match timeout_at(self.until, self.stream.read_buf(&mut self.input)).await {
                Ok(Ok(1..)) => {}
                Ok(_) => return self.decoder.end(&self.input).map(|()| None).map_err(broke),
                Err(_) => return Err(format!("it said nothing within {ANSWER_PATIENCE:?}")),
            }
        }
    }

    /// One whole answer.
    async fn answer(&mut self, expected: Answer) -> Result<(), String> {
        let closed = || "it closed the connection".to_owned();
        let Said::Head(head) = self.event().await?.ok_or_else(closed)? else {
            return Err("it said something that is no response".to_owned());
        };
        match (&head.message, expected) {
            (Message::Response { err: None, .. }, Answer::Err) => {
                return Err("it answered without `err`".to_owned());
            }
            _ if !head.is_stream => return Ok(()),
            _ => {}
        }
        loop {
            if let Said::Tail(_) = self.event().await?.ok_or_else(closed)? {
                return Ok(());
            }
        }
    }

    async fn ends(&mut self) -> Result<(), String> {
        match self.event().await? {
            None => Ok(()),
            Some(_) => Err("it went on talking".to_owned()),
        }
    }
}
