//! What is asked of a server once more: because its stream broke, it forgot the session, it
//! wants other headers, or it may be too old to take what we post.

use std::time::Instant;

use bytes::Bytes;

use super::answer::{Heard, hear, refused};
use super::beginning::Beginning;
use super::{HttpClient, Outgoing, Purpose, Request};
use crate::json::{Kind, edit};
use crate::jsonrpc::kind;
use crate::mcp::calling::RequestId;
use crate::mcp::wire::{self, Era, HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION};
use crate::tool::{Failure, FailureKind};

/// How often a stream that broke is resumed.
const RESUMED_MAX: u32 = 3;
/// How many pages of tools are looked at for the headers of a call.
const PAGES_MAX: usize = 100;

impl HttpClient {
    /// The answer broke off. It is asked for again if an event said how.
    pub(super) fn broke_off(&mut self, now: Instant, request: Request, id: u64, is_stream: bool) {
        if is_stream && request.seen.is_some() && request.resumed < RESUMED_MAX {
            return self.put_off(now, request);
        }
        self.client.fail(now, id, no_answer());
    }

    pub(super) fn put_off(&mut self, now: Instant, request: Request) {
        if request.resumed < RESUMED_MAX {
            self.resumes.push((now + request.retry, request));
        }
    }

    pub(super) fn resume(&mut self, request: Request) {
        let Request { purpose, resumed, seen, retry, .. } = request;
        let resumed = resumed + 1;
        self.open(Request { resumed, seen, retry, ..Request::new(purpose, None) });
    }

    /// The handshake was refused. Perhaps the server is one of HTTP+SSE.
    pub(super) fn look_for_events(&mut self, request: Request, why: Unshaken) {
        let Purpose::Ask(id) = request.purpose else { return };
        let looking = Purpose::LookForEvents(id);
        self.open(Request { why: Some(why), ..Request::new(looking, None) });
    }

    /// It is none: the refusal of the handshake counts as it was said.
    pub(super) fn no_events(&mut self, now: Instant, id: u64, why: Option<Unshaken>) {
        match why {
            Some(Unshaken::Refused(heard)) => {
                for heard in heard {
                    hear(&mut self.client, now, Purpose::Ask(id), heard);
                }
                if self.client.waits_for(id) {
                    self.client.fail(now, id, no_answer());
                }
            }
            Some(Unshaken::Failed(failure)) => self.client.fail(now, id, failure),
            None => self.client.fail(now, id, no_answer()),
        }
    }

    /// Does a 404 mean that the session is unknown, and may the request be made again?
    pub(super) fn has_forgotten(&self, request: &Request) -> bool {
        self.session.is_some() && !request.is_repeated && request.message.is_some()
    }

    /// The server has forgotten the session: the handshake, then what it did not take. If another
    /// session is just beginning, that is for this request, too.
    pub(super) fn reopen(&mut self, request: Request) {
        self.repeated.push(request.again());
        let is_reopening = |request: &Request| request.purpose == Purpose::Reopen;
        let is_beginning = self.beginning != Beginning::Over;
        if !is_beginning && !self.requests.values().any(is_reopening) {
            self.open(Request::new(Purpose::Reopen, self.greeting.clone()));
        }
    }

    pub(super) fn reopened(&mut self) {
        self.beginning = Beginning::Telling;
        // That of the session before.
        self.abort(|other| other == Purpose::Listen);
        self.resumes.retain(|(_, request)| request.purpose != Purpose::Listen);
        let initialized = Outgoing::notification("notifications/initialized", None);
        self.open(Request::new(Purpose::Initialized, Some(initialized)));
    }

    /// No call waits for a session that does not come. The old one is kept: the next call that
    /// is refused with it tries again.
    pub(super) fn not_reopened(&mut self, now: Instant, failure: &Failure) {
        for request in std::mem::take(&mut self.repeated) {
            if let Purpose::Ask(id) = request.purpose {
                self.client.fail(now, id, failure.clone());
            }
        }
    }

    /// The server wants other headers than we know of: its tools may have changed since they
    /// were listed, if they ever were. The call is made again when they have been.
    pub(super) fn relist(&mut self, request: Request) {
        let is_listing = |request: &Request| matches!(request.purpose, Purpose::Relist { .. });
        if !self.requests.values().any(is_listing) {
            self.ask_for_tools(&request, 1, None);
        }
        self.refused.push(request.again());
    }

    /// Is it a call whose arguments may have to be repeated in headers, and which is not known?
    pub(super) fn needs_list(&self, request: &Request) -> bool {
        let params = request.message.as_ref().and_then(Outgoing::params);
        let args = params.and_then(|params| edit::member(params, "arguments")).unwrap_or("{}");
        self.lists_first
            && !self.was_listed
            && request.asks("tools/call")
            && wire::era("tools/call", params) == Era::Modern
            && edit::members(args).next().is_some()
    }

    /// Makes the call when the tools have been listed.
    pub(super) fn open_when_listed(&mut self, request: Request) {
        let is_listing = |request: &Request| matches!(request.purpose, Purpose::Relist { .. });
        if !self.requests.values().any(is_listing) {
            self.ask_for_tools(&request, 1, None);
        }
        self.refused.push(request);
    }

    /// The tools were listed once more, or could not be: what was refused is tried again.
    pub(super) fn relisted(&mut self, request: &Request, heard: &[Heard]) {
        let next = heard.iter().find_map(|heard| edit::member(heard.result()?, "nextCursor"));
        let next = next.filter(|next| kind(next) != Kind::Null);
        if let (Some(next), Purpose::Relist { page }) = (next, request.purpose)
            && page < PAGES_MAX
        {
            return self.ask_for_tools(request, page + 1, Some(next));
        }
        self.was_listed = true;
        for request in std::mem::take(&mut self.refused) {
            self.open(request);
        }
    }

    /// What was to be asked once more is not wanted any longer; tells whether it was. The last
    /// to go takes along what it waited for, which may never come.
    pub(super) fn give_up(&mut self, purpose: Purpose) -> bool {
        let is_it = |request: &mut Request| request.purpose == purpose;
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

    /// On behalf of `request`, whose `_meta` is used.
    fn ask_for_tools(&mut self, request: &Request, page: usize, cursor: Option<&str>) {
        let params = request.message.as_ref().and_then(Outgoing::params);
        let meta = params.and_then(|params| edit::member(params, "_meta")).unwrap_or("{}");
        // The caller that follows the progress of a call does not mean this.
        let meta = edit::without(meta, "progressToken");
        let cursor = cursor.map(|cursor| format!(r#","cursor":{cursor}"#)).unwrap_or_default();
        let params = format!(r#"{{"_meta":{meta}{cursor}}}"#);
        let list = Outgoing::Request {
            id: RequestId::List,
            method: Bytes::from_static(b"tools/list"),
            params: Some(params.into()),
        };
        self.open(Request::new(Purpose::Relist { page }, Some(list)));
    }
}

/// How a handshake was refused.
#[derive(Debug)]
pub(super) enum Unshaken {
    /// In the words of JSON-RPC.
    Refused(Vec<Heard>),
    /// By a status alone.
    Failed(Failure),
}

impl Unshaken {
    /// What is an error and none of JSON-RPC says no more than the status.
    pub(super) fn of(status: u16, heard: Vec<Heard>) -> Unshaken {
        match heard.iter().any(|heard| code_of(heard).is_some()) {
            true => Unshaken::Refused(heard),
            false => Unshaken::Failed(refused(status)),
        }
    }
}

fn no_answer() -> Failure {
    Failure::new(FailureKind::Gone, "the answer broke off and cannot be resumed")
}

/// Was a call refused because of its headers, for the first time?
pub(super) fn has_wrong_headers(request: &Request, heard: &[Heard]) -> bool {
    let is_refused = |heard: &Heard| code_of(heard) == Some(HEADER_MISMATCH);
    !request.is_repeated && request.asks("tools/call") && heard.iter().any(is_refused)
}

/// A server of HTTP+SSE takes no `POST` where it gives its events. One that refuses it by a code of
/// the modern era is none.
pub(super) fn may_be_pair(request: &Request, status: u16, heard: &[Heard]) -> bool {
    let is_modern = |heard: &Heard| {
        matches!(code_of(heard), Some(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION))
    };
    let is_refused = matches!(status, 400 | 404 | 405);
    request.asks("initialize") && is_refused && !heard.iter().any(is_modern)
}

/// The code of an error that was heard.
fn code_of(heard: &Heard) -> Option<i64> {
    let error = edit::member(heard.text()?, "error")?;
    edit::member(error, "code")?.parse().ok()
}
