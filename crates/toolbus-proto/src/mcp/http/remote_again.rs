//! What is asked of a server once more: because its stream broke, it forgot the session, it
//! wants other headers, or it may be too old for us.

use std::time::Instant;

use bytes::Bytes;

use super::gate::Verb;
use super::remote::{Purpose, Remote, Sent};
use super::remote_answer::Heard;
use crate::json::{Kind, edit};
use crate::jsonrpc::kind;
use crate::mcp::wire::HEADER_MISMATCH;
use crate::tool::{Failure, FailureKind, LastWords};

/// How often a stream that broke is resumed.
const RESUMED_MAX: u32 = 3;
/// How many pages of tools are looked at for the headers of a call.
const PAGES_MAX: usize = 100;

impl Remote {
    /// The answer broke off. It is asked for again if an event said how.
    pub(super) fn broken(&mut self, now: Instant, sent: Sent, id: u64, is_stream: bool) {
        if is_stream && sent.seen.is_some() && sent.resumed < RESUMED_MAX {
            return self.put_off(now, sent);
        }
        let message = "the answer broke off and cannot be resumed";
        self.client.fail(now, id, Failure::new(FailureKind::Gone, message));
    }

    pub(super) fn put_off(&mut self, now: Instant, sent: Sent) {
        if sent.resumed < RESUMED_MAX {
            self.resumes.push((now + sent.retry, sent));
        }
    }

    pub(super) fn resume(&mut self, sent: Sent) {
        let seen = sent.seen.clone().map(|seen| ("Last-Event-ID".to_owned(), seen));
        let exchange =
            self.request(Verb::Get, sent.purpose, Bytes::new(), seen.into_iter().collect());
        if let Some(again) = self.exchanges.get_mut(&exchange) {
            again.resumed = sent.resumed + 1;
            again.seen = sent.seen;
            again.retry = sent.retry;
        }
    }

    /// A server of HTTP+SSE takes no `POST` where it gives its events.
    pub(super) fn may_be_too_old(&self, sent: &Sent, status: u16) -> bool {
        Some(&sent.body) == self.greeting.as_ref() && matches!(status, 400 | 404 | 405)
    }

    pub(super) fn look_for_events(&mut self, sent: Sent, why: Failure) {
        let Purpose::Ask(id) = sent.purpose else { return };
        let looking = Purpose::LookForEvents(id);
        let exchange = self.request(Verb::Get, looking, Bytes::new(), Vec::new());
        if let Some(sent) = self.exchanges.get_mut(&exchange) {
            sent.why = Some(why);
        }
    }

    /// Does a 404 mean that the session is unknown, and may the request be made again?
    pub(super) fn has_forgotten(&self, sent: &Sent) -> bool {
        self.session.is_some() && !sent.is_repeated && !sent.body.is_empty()
    }

    /// The server has forgotten the session: the handshake, then what it did not take.
    pub(super) fn reopen(&mut self, sent: Sent) {
        self.repeated.push(Sent { is_repeated: true, ..sent });
        if let Some(greeting) = self.greeting.clone()
            && !self.exchanges.values().any(|sent| sent.purpose == Purpose::Reopen)
        {
            self.request(Verb::Post, Purpose::Reopen, greeting, Vec::new());
        }
    }

    pub(super) fn reopened(&mut self) {
        let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let initialized = Bytes::from_static(initialized);
        self.request(Verb::Post, Purpose::Initialized, initialized, Vec::new());
        for sent in std::mem::take(&mut self.repeated) {
            let exchange = self.request(Verb::Post, sent.purpose, sent.body, Vec::new());
            if let Some(again) = self.exchanges.get_mut(&exchange) {
                again.is_repeated = true;
            }
        }
    }

    /// Nobody waits for a session that does not come. The old one is kept: whoever is refused
    /// with it next tries again.
    pub(super) fn not_reopened(&mut self, now: Instant, failure: &Failure) {
        for sent in std::mem::take(&mut self.repeated) {
            if let Purpose::Ask(id) = sent.purpose {
                self.client.fail(now, id, failure.clone());
            }
        }
    }

    /// The server wants other headers than we know of: its tools may have changed since they
    /// were listed, if they ever were. The call is made again when they have been.
    pub(super) fn relist(&mut self, sent: Sent) {
        let is_listing = |sent: &Sent| matches!(sent.purpose, Purpose::Relist { .. });
        if !self.exchanges.values().any(is_listing) {
            self.ask_for_tools(&sent.body, 1, None);
        }
        self.refused.push(Sent { is_repeated: true, ..sent });
    }

    /// The tools were listed once more, or could not be: what was refused is tried again.
    pub(super) fn relisted(&mut self, sent: &Sent, heard: &[Heard]) {
        let next = heard.iter().find_map(|heard| edit::member(heard.result()?, "nextCursor"));
        let next = next.filter(|next| kind(next) != Kind::Null);
        if let (Some(next), Purpose::Relist { page }) = (next, sent.purpose)
            && page < PAGES_MAX
        {
            return self.ask_for_tools(&sent.body, page + 1, Some(next));
        }
        for sent in std::mem::take(&mut self.refused) {
            let text = str::from_utf8(&sent.body).unwrap_or_default();
            let method = edit::text(text, "method").unwrap_or_default();
            let mirror = self.mirror(&method, edit::member(text, "params"));
            let exchange = self.request(Verb::Post, sent.purpose, sent.body, mirror);
            if let Some(again) = self.exchanges.get_mut(&exchange) {
                again.is_repeated = true;
            }
        }
    }

    /// Nobody waits any longer for what was to be asked once more; tells whether somebody did.
    /// The last to go takes along what it waited for, which may never come.
    pub(super) fn give_up(&mut self, purpose: Purpose) -> bool {
        let is_it = |sent: &mut Sent| sent.purpose == purpose;
        let was_repeated = self.repeated.extract_if(.., is_it).count() > 0;
        let was_refused = self.refused.extract_if(.., is_it).count() > 0;
        if was_repeated && self.repeated.is_empty() {
            self.abort(|other| other == Purpose::Reopen);
        }
        if was_refused && self.refused.is_empty() {
            self.abort(|other| matches!(other, Purpose::Relist { .. }));
        }
        was_repeated || was_refused
    }

    /// On behalf of whoever sent `body`.
    fn ask_for_tools(&mut self, body: &Bytes, page: usize, cursor: Option<&str>) {
        let params = edit::member(str::from_utf8(body).unwrap_or_default(), "params");
        let meta = params.and_then(|params| edit::member(params, "_meta")).unwrap_or("{}");
        // Whoever follows the progress of a call does not mean this.
        let meta = edit::without(meta, "progressToken");
        let cursor = cursor.map(|cursor| format!(r#","cursor":{cursor}"#)).unwrap_or_default();
        let params = format!(r#"{{"_meta":{meta}{cursor}}}"#);
        let mirror = self.mirror("tools/list", Some(&params));
        // The ids of others are numbers.
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":"list","method":"tools/list","params":{params}}}"#);
        self.request(Verb::Post, Purpose::Relist { page }, body.into(), mirror);
    }
}

/// Was a call refused because of its headers, for the first time?
pub(super) fn has_wrong_headers(sent: &Sent, heard: &[Heard]) -> bool {
    let calls_tool = |text| edit::text(text, "method").as_deref() == Some("tools/call");
    let is_refused = |heard: &Heard| {
        let error = heard.text().and_then(|text| edit::member(text, "error"));
        let code = error.and_then(|error| edit::member(error, "code"));
        code.and_then(|code| code.parse().ok()) == Some(HEADER_MISMATCH)
    };
    !sent.is_repeated
        && str::from_utf8(&sent.body).is_ok_and(calls_tool)
        && heard.iter().any(is_refused)
}

/// Why we cannot talk to a server that greets with events.
pub(super) fn too_old() -> Failure {
    let message = "the server speaks only HTTP+SSE of 2024-11-05, which toolbus does not";
    let hint = Some("does it have another path for streamable HTTP, such as `/mcp`?".to_owned());
    let words = LastWords { hint, ..LastWords::default() };
    Failure::new(FailureKind::Unavailable, message).with_last_words(words)
}
