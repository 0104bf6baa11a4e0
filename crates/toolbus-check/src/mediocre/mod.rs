//! Is it a mediocre-rpc server? The rules of the document that a caller depends on (`docs/protocols/mediocre.md` §10).
//!
//! Every rule is tried on a connection of its own, so that none spoils another; over HTTP on an
//! exchange for each call, and without the rules that HTTP keeps by itself.

mod line;
mod place;
mod rules;

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::{Instant, timeout_at};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::decode::Direction;
use toolbus_proto::mediocre::event::{FramingError, Message, Said};
use toolbus_proto::mediocre::{Decoder, Reading};
use toolbus_proto::tool::Failure;

use toolbus::address::{Address, Purpose};
use toolbus::bus::back::LocalFuture;
use toolbus::wire::mediocre::address;

use self::line::Line;
use crate::{CheckKind, CheckOption, Finding, Target, TargetError, Verdict, Wanted};

use self::place::Place;

/// How long an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// A method that no server has.
const NOBODYS: &str = r#"{"method":"toolbus.check"}"#;

/// Who is tested, and what may be called.
#[derive(Debug, Clone)]
struct Subject {
    /// Where it is.
    pub place: Place,
    /// A method that may be called with null, and as an empty stream.
    pub method: Option<String>,
    /// How long connecting may take.
    pub start: Duration,
}

/// Tests a server, and tells what became of each rule as soon as that is known.
///
/// Fails only if the server cannot be reached at all. Must be called inside a `LocalSet`.
async fn check(subject: &Subject, mut tell: impl FnMut(Finding)) -> Result<(), Failure> {
    let mut tell = |rule, kept| tell(Finding { rule, verdict: Verdict::demanded(kept) });
    subject.place.reach(subject.start).await?;
    tell("unknown-method", subject.answers(&[&[NOBODYS]], &[Answer::Err]).await);
    tell("missing-method", subject.answers(&[&["{}"], &[NOBODYS]], &[Answer::Err; 2]).await);
    if !subject.place.is_http() {
        tell("pipelined", pipelined(subject).await);
    }
    let spaced: [&[&str]; 3] = [&["\r\n\t ", NOBODYS], &[NOBODYS], &[" \n\n", NOBODYS, "\n"]];
    tell("whitespace", subject.answers(&spaced, &[Answer::Err; 3]).await);
    let bytes: Vec<&str> = NOBODYS.split_inclusive(|_: char| true).collect();
    tell("byte-by-byte", subject.answers(&[&bytes], &[Answer::Err]).await);
    let unknown = r#"{"x":[{"streamEnd":true}],"method":"toolbus.check","y":{"method":1}}"#;
    tell("unknown-fields", subject.answers(&[&[unknown]], &[Answer::Err]).await);
    if !subject.place.is_http() {
        tell("half-close", half_close(subject).await);
    }
    tell("stray-bytes", stray_bytes(subject).await);
    if let Some(method) = &subject.method {
        let method = Json::of(method);
        let single = format!(r#"{{"method":{method}}}"#);
        tell("single-call", subject.answers(&[&[&single]], &[Answer::Any]).await);
        let stream = format!(r#"{{"method":{method},"streamStart":true}}{{"streamEnd":true}}"#);
        let behind = [Answer::Any, Answer::Err];
        tell("stream-call", subject.answers(&[&[&stream], &[NOBODYS]], &behind).await);
    }
    Ok(())
}

/// What an answer has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Err,
    Any,
}

/// Three calls in one write: the answers come in their order, and none is lost.
async fn pipelined(subject: &Subject) -> Result<(), String> {
    let all = format!("{{}}{NOBODYS}{NOBODYS}");
    subject.answers(&[&[&all]], &[Answer::Err; 3]).await
}

async fn half_close(subject: &Subject) -> Result<(), String> {
    let mut talk = subject.talk().await?;
    talk.say(NOBODYS).await;
    talk.hang_up().await;
    talk.answer(Answer::Err).await?;
    talk.ends().await
}

/// What comes behind them cannot be known: at most one error is said.
async fn stray_bytes(subject: &Subject) -> Result<(), String> {
    let mut talk = subject.talk().await?;
    talk.say("]").await;
    if subject.place.is_http() {
        talk.hang_up().await;
    }
    match talk.event().await? {
        None => return Ok(()),
        Some(Said::Head(head))
            if matches!(head.message, Message::Response { err: Some(_), .. }) => {}
        Some(_) => return Err("it answered as if nothing was wrong".to_owned()),
    }
    talk.ends().await
}

impl Subject {
    async fn talk(&self) -> Result<Talk, String> {
        let line = self.place.connect(self.start).await.map_err(|failure| failure.message)?;
        let decoder = Decoder::new(Direction::Response, Reading::default());
        Ok(Talk { line, decoder, input: BytesMut::new(), until: Instant::now() + ANSWER_PATIENCE })
    }

    /// Says these calls, each piece in a write of its own, and hears those answers.
    async fn answers(&self, calls: &[&[&str]], expected: &[Answer]) -> Result<(), String> {
        let numbered = |index: usize, why: String| match expected {
            [_] => why,
            _ => format!("answer {} of {}: {why}", index + 1, expected.len()),
        };
        if self.place.is_http() {
            for (index, (call, answer)) in calls.iter().zip(expected).enumerate() {
                let answered = self.exchange(call, *answer).await;
                answered.map_err(|why| numbered(index, why))?;
            }
            return Ok(());
        }
        let mut talk = self.talk().await?;
        for piece in calls.iter().copied().flatten() {
            talk.say(piece).await;
        }
        for (index, answer) in expected.iter().enumerate() {
            talk.answer(*answer).await.map_err(|why| numbered(index, why))?;
        }
        Ok(())
    }

    async fn exchange(&self, call: &[&str], answer: Answer) -> Result<(), String> {
        let mut talk = self.talk().await?;
        for piece in call {
            talk.say(piece).await;
        }
        talk.hang_up().await;
        talk.answer(answer).await?;
        talk.ends().await
    }
}

/// One connection to the server under test, or one exchange with it.
struct Talk {
    line: Line,
    decoder: Decoder,
    input: BytesMut,
    until: Instant,
}

impl Talk {
    /// Whether it listens is seen by what it answers.
    async fn say(&mut self, text: &str) {
        let _ = timeout_at(self.until, self.line.write(text.as_bytes())).await;
        // So that the next goes in a packet of its own.
        tokio::task::yield_now().await;
    }

    async fn hang_up(&mut self) {
        let _ = timeout_at(self.until, self.line.hang_up()).await;
    }

    /// The next it says; `None` once it has closed.
    async fn event(&mut self) -> Result<Option<Said>, String> {
        let broke = |error: FramingError| format!("it said what cannot be read: {error}");
        loop {
            if let Some(next) = self.decoder.next(&mut self.input) {
                return next.map(|event| Some(event.said)).map_err(broke);
            }
            match timeout_at(self.until, self.line.read(&mut self.input)).await {
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

/// How a program is tested that should speak it.
pub(crate) struct Check;

impl CheckKind for Check {
    fn rules(&self) -> &'static [(&'static str, &'static str)] {
        rules::RULES
    }

    fn options(&self) -> &'static [CheckOption] {
        &[CheckOption {
            name: "method",
            value_name: "NAME",
            help: "Method of a mediocre-rpc server that may be called with null, and as an empty \
                   stream",
            only_for: "mediocre-rpc servers",
        }]
    }

    fn target(&self, text: &str, wanted: &Wanted) -> Result<Box<dyn Target>, TargetError> {
        // A command with blanks or a path can be nothing else. A URL is not looked at as that of
        // another wire, to which what stands behind its `?` would be a secret.
        let is_command = !text.contains("://")
            && Address::begins_like_one(text)
            && Address::parse(text).is_ok_and(|address| address.is_bare());
        let address = match is_command {
            true => address(Purpose::Call, &format!("stdio:{text}"))?,
            false => address(Purpose::Call, text)?,
        };
        Ok(Box::new(Subject {
            place: Place::of(&address, &wanted.settings).map_err(TargetError::new)?,
            method: wanted.option("method").map(str::to_owned),
            start: wanted.start.unwrap_or(toolbus::wire::mediocre::PATIENCE.start),
        }))
    }
}

impl Target for Subject {
    fn check<'a>(
        &'a self,
        tell: &'a mut dyn FnMut(Finding),
    ) -> LocalFuture<'a, Result<(), Failure>> {
        Box::pin(check(self, tell))
    }
}
