//! One request and its answer: sent, refused, tried again, its tokens renewed.

use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::{Reading, Run, RunStage, Target, WallTime};
use crate::channel::{Flow, Outbox, StreamId, StreamLost, Streams, Writing};
use crate::godex::auth::Credential;
use crate::godex::error::RunError;
use crate::godex::notes::Note;
use crate::godex::wire::{an_object, some_text};
use crate::godex::{REFUSAL_BYTES_MAX, retry};
use crate::http::{Headers, RequestHead, ResponseHead};
use crate::json::{Json, edit};

/// A request that is out.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) stream: StreamId,
    /// When the server was heard last, or the request was made.
    pub(super) heard: Instant,
    pub(super) reading: Reading,
}

/// Why the answer is no stream of events.
#[derive(Debug)]
pub(super) struct Refusal {
    head: ResponseHead,
    wall: WallTime,
}

impl Run {
    /// Makes the request, for the first time or again.
    pub(super) fn ask(&mut self, now: Instant) {
        let head = self.head();
        let body = self.settings.request.body();
        self.begin_answer();
        self.open(now, Target::Server, head, body, Reading::Head);
    }

    fn open(
        &mut self,
        now: Instant,
        target: Target,
        mut head: RequestHead,
        body: Bytes,
        reading: Reading,
    ) {
        head.headers.push("content-length", body.len().to_string());
        let stream = StreamId::Ours(self.exchanges);
        self.exchanges += 1;
        self.opening = Some((target, head));
        self.body = body;
        self.enter(RunStage::Asking(Asking { stream, heard: now, reading }));
    }

    fn head(&self) -> RequestHead {
        let mut head = RequestHead::new("POST", self.settings.base_url.responses());
        let headers = &mut head.headers;
        if let Some(bearer) = self.settings.credential.bearer() {
            headers.push("authorization", bearer);
        }
        headers.push("content-type", "application/json");
        headers.push("accept", "text/event-stream");
        headers.push("user-agent", self.settings.user_agent.clone());
        if let Credential::Chatgpt(tokens) = &self.settings.credential {
            headers.push("originator", "toolbus");
            if let Some(account) = &tokens.account_id {
                headers.push("chatgpt-account-id", account.clone());
            }
        }
        headers.push("session_id", self.settings.request.session_id.clone());
        head
    }

    /// The exchange that counts, if this is it.
    fn asking(&mut self, stream: StreamId) -> Option<&mut Asking> {
        match &mut self.stage {
            RunStage::Asking(asking) if asking.stream == stream => Some(asking),
            _ => None,
        }
    }

    fn handle_events(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while self.turn.end().is_none() {
            let (turn, said, is_begun) = (&mut self.turn, &mut self.said, &mut self.is_begun);
            let taken = self.events.next_with(input, |name, data| {
                if !data.is_empty() {
                    *is_begun = true;
                    turn.handle_event(name, data, said);
                }
            });
            match taken {
                None => break,
                Some(Ok(())) => {}
                Some(Err(_)) => self.turn.handle_too_large(),
            }
        }
        if self.events.is_over_limit() {
            self.turn.handle_too_large();
        }
        if self.turn.end().is_none() {
            return if self.is_untold() { Flow::Pause } else { Flow::More };
        }
        input.clear();
        self.handle_turn_end(now);
        Flow::Close
    }

    /// What is pending at the end is an event if it is JSON.
    fn handle_pending(&mut self, input: &mut BytesMut) {
        let Some(Ok(event)) = self.events.last(input) else { return };
        let is_json = Json::parse(String::from_utf8_lossy(&event.data).into_owned()).is_ok();
        if is_json {
            self.is_begun = true;
            self.turn.handle_event(event.name.as_deref(), &event.data, &mut self.said);
        }
    }

    /// The server has said nothing for too long.
    pub(super) fn handle_silence(&mut self) {
        let RunStage::Asking(asking) = &self.stage else { return };
        let error = match &asking.reading {
            // What was refused stays refused.
            Reading::Tokens { refused, .. } => (**refused).clone(),
            _ => RunError::idle(self.settings.idle_timeout),
        };
        self.fail(error);
    }

    /// All of a refusal is here, or of the new tokens.
    fn handle_whole_body(&mut self, now: Instant) {
        let RunStage::Asking(asking) = &mut self.stage else { return };
        let reading = std::mem::replace(&mut asking.reading, Reading::Head);
        match reading {
            Reading::Head | Reading::Events => {}
            Reading::Refusal { refusal, body } => self.handle_refusal(now, &refusal, &body),
            Reading::Tokens { is_granted, body, refused } => {
                let Credential::Chatgpt(tokens) = &self.settings.credential else { return };
                match tokens.refreshed(&body).filter(|_| is_granted) {
                    Some(tokens) => {
                        self.said.notes.push_back(Note::Refreshed(tokens.clone()));
                        self.settings.credential = Credential::Chatgpt(tokens);
                        self.secrets.add(&self.settings.credential);
                        self.ask(now);
                    }
                    None => self.fail(*refused),
                }
            }
        }
    }

    fn handle_refusal(&mut self, now: Instant, refusal: &Refusal, body: &[u8]) {
        let Refusal { head, wall } = refusal;
        if head.is_success() {
            let found = head.header("content-type").unwrap_or_default();
            let said = message_of(body).map(|message| format!(": {message}")).unwrap_or_default();
            let message = format!("expected text/event-stream, got {found}{said}");
            return self.fail(RunError::new(3, "not_sse", message));
        }
        let error = refused(head.status, body);
        if head.status == 401
            && !self.was_refreshed
            && let Some(url) = self.settings.refresh_url.clone()
            && let Credential::Chatgpt(tokens) = &self.settings.credential
            && let Some(ask) = tokens.refresh_body()
        {
            self.was_refreshed = true;
            let mut head = RequestHead::new("POST", url.path());
            head.headers.push("content-type", "application/json");
            head.headers.push("accept", "application/json");
            head.headers.push("user-agent", self.settings.user_agent.clone());
            let (body, refused) = (BytesMut::new(), Box::new(error));
            let reading = Reading::Tokens { is_granted: false, body, refused };
            return self.open(now, Target::Refresh, head, ask.into(), reading);
        }
        if retry::is_worth_it(head.status) {
            return self.try_again(now, Some(&head.headers), *wall, error);
        }
        self.fail(error);
    }

    /// The request is made again in a while, unless that was tried often enough.
    fn try_again(
        &mut self,
        now: Instant,
        headers: Option<&Headers>,
        wall: WallTime,
        error: RunError,
    ) {
        if self.settings.retries <= self.failed {
            return self.fail(error);
        }
        let wait = retry::wait(headers, wall, self.failed, &mut *self.random);
        if retry::WAIT_MAX < wait {
            return self.fail(error);
        }
        self.failed += 1;
        let (tried, of) = (self.failed, self.settings.retries);
        let why = self.secrets.masked(&error.message).into_owned();
        // People read it, who do not count billionths of a second.
        let shown = (wait.as_secs_f64() * 1000.0).round() / 1000.0;
        self.said.warn(format!("{why}; trying again in {shown}s ({tried} of {of})"));
        self.enter(RunStage::Waiting { until: now + wait });
    }
}

impl Streams for Run {
    type Opening = (Target, RequestHead);
    type Answer = ResponseHead;

    /// A server opens none.
    fn handle_opened(&mut self, _now: Instant, _stream: StreamId, _head: Self::Opening) -> Flow {
        Flow::Close
    }

    fn handle_answered(&mut self, now: Instant, stream: StreamId, head: ResponseHead) -> Flow {
        let wall = self.wall(now);
        let Some(asking) = self.asking(stream) else { return Flow::Close };
        asking.heard = now;
        match &mut asking.reading {
            Reading::Tokens { is_granted, .. } => *is_granted = head.status == 200,
            reading if head.is_success() && is_events(&head) => *reading = Reading::Events,
            reading => {
                let refusal = Refusal { head, wall };
                *reading = Reading::Refusal { refusal, body: BytesMut::new() };
            }
        }
        Flow::More
    }

    fn handle_bytes(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        let Some(asking) = self.asking(stream) else { return Flow::Close };
        if !input.is_empty() {
            asking.heard = now;
        }
        match &mut asking.reading {
            Reading::Head => return Flow::More,
            Reading::Events => return self.handle_events(now, input),
            Reading::Refusal { body, .. } | Reading::Tokens { body, .. } => {
                let room = REFUSAL_BYTES_MAX.saturating_sub(body.len());
                body.extend_from_slice(&input[..room.min(input.len())]);
                input.clear();
                if body.len() < REFUSAL_BYTES_MAX {
                    return Flow::More;
                }
            }
        }
        self.handle_whole_body(now);
        Flow::Close
    }

    fn handle_eof(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        self.handle_bytes(now, stream, input);
        let Some(asking) = self.asking(stream) else { return Flow::Close };
        match asking.reading {
            Reading::Head => {}
            Reading::Events => {
                self.handle_pending(input);
                self.turn.handle_end();
                self.handle_turn_end(now);
            }
            Reading::Refusal { .. } | Reading::Tokens { .. } => self.handle_whole_body(now),
        }
        Flow::Close
    }

    /// There is no answer, or what came of it broke off.
    fn handle_cut(
        &mut self,
        now: Instant,
        stream: StreamId,
        input: &mut BytesMut,
        why: StreamLost,
    ) -> Flow {
        let Some(asking) = self.asking(stream) else { return Flow::Close };
        match &asking.reading {
            Reading::Head => {
                let url = self.settings.base_url.as_str();
                let message = format!("cannot reach {url}: {}", why.failure.message);
                let error = RunError::unreachable(message);
                self.try_again(now, None, WallTime::UNIX_EPOCH, error);
            }
            Reading::Events => {
                self.handle_pending(input);
                if self.is_begun {
                    self.turn.handle_end();
                    self.handle_turn_end(now);
                } else {
                    let error = RunError::stream_ended();
                    self.try_again(now, None, WallTime::UNIX_EPOCH, error);
                }
            }
            Reading::Refusal { .. } => {
                self.handle_eof(now, stream, input);
            }
            Reading::Tokens { refused, .. } => {
                let refused = (**refused).clone();
                self.fail(refused);
            }
        }
        Flow::Close
    }

    fn handle_lost(&mut self, now: Instant, stream: StreamId, why: StreamLost) {
        self.handle_cut(now, stream, &mut BytesMut::new(), why);
    }

    fn poll_open(&mut self) -> Option<(StreamId, Self::Opening)> {
        let RunStage::Asking(asking) = &self.stage else { return None };
        Some((asking.stream, self.opening.take()?))
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.stirred.take()
    }

    fn poll_answer(&mut self, _stream: StreamId) -> Option<ResponseHead> {
        None
    }

    fn poll_transmit(&mut self, stream: StreamId, out: &mut Outbox) {
        if self.asking(stream).is_some() {
            out.put_shared(&std::mem::take(&mut self.body));
        }
    }

    fn writing(&self, stream: StreamId) -> Writing {
        match &self.stage {
            RunStage::Asking(asking) if asking.stream == stream => Writing::Finish,
            _ => Writing::Reset(0),
        }
    }
}

/// Is it a stream of events? One that does not say counts as such.
fn is_events(head: &ResponseHead) -> bool {
    head.header("content-type").is_none_or(|value| {
        let media_type = value.split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case("text/event-stream")
    })
}

/// How long the beginning of a body is that stands in for a message.
const SHOWN_CHARS_MAX: usize = 500;

fn refused(status: u16, body: &[u8]) -> RunError {
    let shown = || {
        let text = String::from_utf8_lossy(body);
        let shown: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
        Some(shown).filter(|shown| !shown.is_empty())
    };
    let message = message_of(body).or_else(shown).unwrap_or_else(|| format!("HTTP {status}"));
    let json = Json::parse(Bytes::copy_from_slice(body)).ok();
    let inner = json.as_ref().and_then(|json| an_object(edit::member(json.as_str(), "error")));
    let [code, param] = inner.map_or([None; 2], |inner| edit::pick(inner, ["code", "param"]));
    let text = |raw| some_text(raw).map(std::borrow::Cow::into_owned);
    let code = text(code).unwrap_or_else(|| format!("http_{status}"));
    let error = RunError::new(3, &code, message);
    RunError { status: Some(status), param: text(param), ..error }
}

/// What an error body says, in one of the ways in which servers do.
fn message_of(body: &[u8]) -> Option<String> {
    let json = Json::parse(Bytes::copy_from_slice(body)).ok()?;
    let [error, detail, message] = edit::pick(json.as_str(), ["error", "detail", "message"]);
    let nested = an_object(error).and_then(|error| edit::member(error, "message"));
    let found = [nested, error, detail, message].into_iter().find_map(some_text);
    found.map(std::borrow::Cow::into_owned)
}
