//! The calling end over HTTP as the hands see it: a stream a request, opened by us.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::{HttpClient, Parting, Purpose, Reading, Request};
use crate::channel::{
    Calling, Down, Flow, Goodbye, Machine, Notice, Outbox, Readiness, StreamId, StreamLost,
    Streams, Ticket, Up, Writing,
};
use crate::http::{RequestHead, ResponseHead};
use crate::limit::reason_of;
use crate::mcp::http::headers::{BadMirror, mirrored};
use crate::mcp::http::inputs::Inputs;
use crate::tool::{Call, Failure, FailureKind, Outcome, ToolSpec, What};

/// How often one request may be sent elsewhere.
const REDIRECTS_MAX: u32 = 5;
/// How often one request may be made again with another token: once for a token of ours, and once
/// for one that another process has got meanwhile.
const RENEWALS_MAX: u32 = 2;
/// HTTP has no codes for a stream that is given up.
const NO_CODE: u64 = 0;

impl Streams for HttpClient {
    type Opening = RequestHead;
    type Answer = ResponseHead;

    /// Servers open no streams.
    fn handle_opened(&mut self, _now: Instant, _stream: StreamId, _head: RequestHead) -> Flow {
        Flow::Close
    }

    fn handle_answered(&mut self, now: Instant, stream: StreamId, head: ResponseHead) -> Flow {
        if let Some(path) = self.elsewhere(stream, &head)
            && let Some(request) = self.take(stream)
        {
            let Request { is_repeated, resumed, redirects, .. } = request;
            let again = Request {
                path: Some(path),
                redirects: redirects + 1,
                is_repeated,
                resumed,
                seen: request.seen,
                retry: request.retry,
                why: request.why,
                ..Request::new(request.purpose, request.message)
            };
            self.open(again);
            return Flow::Close;
        }
        if self.may_be_made_again(stream, &head)
            && let Some(request) = self.take(stream)
        {
            let renewals = request.renewals + 1;
            let again = Request { body: None, reading: Reading::Nothing, renewals, ..request };
            self.open(again);
            return Flow::Close;
        }
        let Some(request) = self.requests.get_mut(&stream) else { return Flow::Close };
        let media_type = head.header("Content-Type").unwrap_or_default();
        request.reading =
            Reading::new(head.status, media_type, self.settings.calling.line_bytes_max);
        if request.asks("initialize") && head.status == 200 {
            self.session = head.header("Mcp-Session-Id").map(str::to_owned);
        }
        if request.purpose == Purpose::Listen {
            self.listens();
            self.settle(now);
        }
        Flow::More
    }

    fn handle_bytes(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        // What the server says to an answer is read to its end: only then can the next go out.
        let waits = |request: &Request| !request.is_answer() || request.reading.is_stream();
        if self.owes_much() && self.requests.get(&stream).is_some_and(waits) {
            if !self.unheard.contains(&stream) {
                self.unheard.push(stream);
            }
            return Flow::Pause;
        }
        let Some(request) = self.requests.get_mut(&stream) else {
            input.clear();
            return Flow::Close;
        };
        let heard = request.reading.read(input);
        if !heard.is_empty() {
            self.handle_heard(now, stream, heard);
            self.settle(now);
        }
        if self.requests.contains_key(&stream) { Flow::More } else { Flow::Close }
    }

    fn handle_eof(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow {
        if let Some(request) = self.take(stream) {
            self.look_at(&request, input);
            let ended = request.reading.end(input);
            self.handle_end(now, request, ended);
            self.settle(now);
        }
        input.clear();
        Flow::Close
    }

    /// Once it was answered, cut or not: what is missing is known by what came.
    fn handle_cut(
        &mut self,
        now: Instant,
        stream: StreamId,
        input: &mut BytesMut,
        why: StreamLost,
    ) -> Flow {
        let reading = self.requests.get(&stream).map(|request| &request.reading);
        // What there is no room for is not read, whatever came of it.
        let is_refused = why.failure.kind == FailureKind::Unavailable;
        if is_refused || matches!(reading, Some(Reading::Nothing)) {
            Streams::handle_lost(self, now, stream, why);
        }
        self.handle_eof(now, stream, input)
    }

    fn handle_lost(&mut self, now: Instant, stream: StreamId, why: StreamLost) {
        let Some(request) = self.take(stream) else { return };
        match self.client.readiness() {
            // A server that is not there need not be asked in another way.
            Readiness::Opening => {
                let failure = Failure { kind: FailureKind::Unavailable, ..why.failure };
                self.client.break_off(failure);
            }
            // What it was reached by was right before. Where it had the request, it may have done
            // what that asks.
            _ => {
                let kind = match why.failure.kind {
                    FailureKind::Gone => FailureKind::Gone,
                    _ => FailureKind::Unavailable,
                };
                // What can be done about a token is said as it is.
                let last_words =
                    why.failure.last_words.clone().filter(|_| reason_of(&why.failure).is_some());
                let failure = Failure { kind, last_words, ..why.failure };
                self.handle_failed(now, request, failure);
            }
        }
        self.settle(now);
    }

    fn poll_open(&mut self) -> Option<(StreamId, RequestHead)> {
        self.opens.pop_front()
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.ready.pop_front()
    }

    fn poll_answer(&mut self, _stream: StreamId) -> Option<ResponseHead> {
        None
    }

    fn poll_transmit(&mut self, stream: StreamId, out: &mut Outbox) {
        let request = self.requests.get_mut(&stream);
        if let Some(mut body) = request.and_then(|request| request.body.take()) {
            out.append(&mut body);
        }
    }

    fn writing(&self, stream: StreamId) -> Writing {
        match self.requests.get(&stream) {
            Some(Request { body: None, .. }) => Writing::Finish,
            Some(Request { body: Some(_), .. }) => Writing::Open,
            None => Writing::Reset(NO_CODE),
        }
    }
}

impl HttpClient {
    /// There is another token: a request that was refused for its token was not carried out.
    fn may_be_made_again(&self, stream: StreamId, head: &ResponseHead) -> bool {
        let request = self.requests.get(&stream);
        head.may_repeat && request.is_some_and(|request| request.renewals < RENEWALS_MAX)
    }

    /// Where the server sends a request instead: another path of its own, and nowhere else.
    fn elsewhere(&self, stream: StreamId, head: &ResponseHead) -> Option<String> {
        let redirects = self.requests.get(&stream)?.redirects;
        if !matches!(head.status, 307 | 308) || REDIRECTS_MAX <= redirects {
            return None;
        }
        let location = head.header("Location")?;
        let origin = &self.settings.origin;
        // Without the port that goes without saying, too.
        let usual = if origin.starts_with("https") { ":443" } else { ":80" };
        let short = origin.strip_suffix(usual).unwrap_or(origin);
        let path = location.strip_prefix(&**origin).or_else(|| location.strip_prefix(short));
        let path = path.unwrap_or(location);
        let is_path = path.starts_with('/') && !path.starts_with("//");
        is_path.then(|| path.to_owned())
    }

    /// Keeps what may be told of a server that does not introduce itself.
    fn look_at(&mut self, request: &Request, body: &[u8]) {
        if self.client.revision().is_none() {
            let path = request.path.as_ref().unwrap_or(&self.settings.path);
            self.strange = request.reading.strange(body, path).or(self.strange.take());
        }
    }

    /// The failure with what may be told of such a server.
    pub(super) fn with_strange(&self, failure: Failure) -> Failure {
        match &self.strange {
            Some(words) if self.client.revision().is_none() && failure.last_words.is_none() => {
                failure.with_last_words(words.clone())
            }
            _ => failure,
        }
    }

    /// The tools that can be called over HTTP.
    fn fit(&mut self, tools: &Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
        if self.pair.is_some() {
            // It repeats no arguments in headers.
            return tools.clone();
        }
        let notices = &mut self.notices;
        let is_fit = |tool: &&ToolSpec| match mirrored(tool.input.as_str()) {
            Ok(_) => true,
            Err(why) => {
                let tool = tool.name.to_string();
                notices.push_back(Notice::Unfit { tool, why: why.to_string() });
                false
            }
        };
        tools.iter().filter(is_fit).cloned().collect()
    }

    /// The same of a page as the server wrote it.
    fn fit_page(&mut self, page: Bytes) -> Bytes {
        let notices = &mut self.notices;
        let unfit = |tool: &str, why: BadMirror| {
            notices.push_back(Notice::Unfit { tool: tool.to_owned(), why: why.to_string() });
        };
        let fit = match self.pair {
            Some(_) => None,
            None => Inputs::fit(str::from_utf8(&page).unwrap_or_default(), unfit),
        };
        fit.unwrap_or(page)
    }
}

impl Machine for HttpClient {
    fn handle_timeout(&mut self, now: Instant) {
        self.client.handle_timeout(now);
        for (_, request) in self.resumes.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            self.resume(request);
        }
        self.expire_beginning(now);
        if self.start_until().is_some_and(|until| until <= now) {
            let patience = self.settings.start_timeout;
            let message = format!("the server did not introduce itself within {patience:?}");
            self.client.break_off(Failure::new(FailureKind::Unavailable, message));
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let resumes = self.resumes.iter().map(|(at, _)| *at);
        let beginning = self.poll_beginning();
        resumes.chain(self.client.poll_timeout()).chain(self.start_until()).chain(beginning).min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front().or_else(|| self.client.poll_notice())
    }

    fn weight(&self) -> usize {
        self.client.weight() + self.posted_bytes + self.owed_bytes
    }
}

impl HttpClient {
    fn start_until(&self) -> Option<Instant> {
        self.start_until.filter(|_| *self.client.readiness() == Readiness::Opening)
    }
}

impl Calling for HttpClient {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        self.start_until.get_or_insert(now + self.settings.start_timeout);
        if matches!(&call.what, What::Native { method, .. } if method == "tools/list") {
            self.lists.insert(ticket);
        }
        self.client.call(now, ticket, call);
        self.settle(now);
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        self.client.up(now, ticket, up);
        self.settle(now);
    }

    /// Ends the session. What is under way is not wanted any more, and the session's own
    /// stream ends with it.
    fn close(&mut self, now: Instant, patience: Duration) -> Goodbye {
        let goodbye = self.client.close(now, patience);
        self.start_until = None;
        self.resumes.clear();
        if self.parting != Parting::Left {
            self.parting = Parting::Leaving;
        }
        self.part();
        goodbye
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        let (ticket, down) = self.client.poll_down()?;
        let is_list = matches!(down, Down::Done(_)) && self.lists.remove(&ticket);
        let down = match down {
            Down::Done(Ok(Outcome::Native(page))) if is_list => {
                Down::Done(Ok(Outcome::Native(self.fit_page(page))))
            }
            Down::Done(Ok(Outcome::Tools(tools))) => {
                Down::Done(Ok(Outcome::Tools(self.fit(&tools))))
            }
            Down::Done(Err(failure)) => Down::Done(Err(self.with_strange(failure))),
            down => down,
        };
        Some((ticket, down))
    }

    fn readiness(&self) -> &Readiness {
        self.client.readiness()
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        let unsent = self.client.take_unsent();
        for (ticket, _) in &unsent {
            self.lists.remove(ticket);
        }
        unsent
    }

    fn handle_lost(&mut self, now: Instant, why: &Failure) {
        self.client.handle_lost(now, why);
        if self.parting == Parting::No {
            self.parting = Parting::Lost;
        }
        self.part();
    }
}
