//! What a request must look like before its body matters (`docs/protocols/mcp.md` 2.8).

use bytes::Bytes;

use crate::http::{
    Admission, BYTES_A_SECOND_MIN, Headers, Refused, RequestHead, ResponseHead, TokenRefusal,
    is_one_of, media_type, preflight,
};
use crate::jsonrpc::Id;
use crate::mcp::conversation::id_in_front;
use crate::mcp::wire::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, MISSING_CAPABILITY,
    PARSE_ERROR, Refusal, Revision, UNKNOWN_METHOD, UNSUPPORTED_VERSION,
};

/// The media type of a stream.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Where the old pair of HTTP+SSE opens its streams, and where its messages are posted.
const EVENTS_PATH: &str = "/sse";
pub(super) const MESSAGES_PATH: &str = "/messages";

/// Is the path one of the old pair's?
pub fn is_of_pair(path: &str) -> bool {
    matches!(path, EVENTS_PATH | MESSAGES_PATH)
}

/// The header fields that a page of another site may read.
pub(super) const EXPOSED: &str = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate";

/// An answer that is complete from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status, and the header fields besides those that every answer has.
    pub head: ResponseHead,
    /// JSON, or nothing.
    pub body: Bytes,
}

impl Answer {
    /// Nothing but a status.
    pub(super) fn empty(status: u16) -> Answer {
        Answer { head: ResponseHead::new(status), body: Bytes::new() }
    }

    /// A message, or a batch of them.
    pub(super) fn json(status: u16, body: Bytes) -> Answer {
        let mut head = ResponseHead::new(status);
        head.headers.push("Content-Type", "application/json");
        Answer { head, body }
    }

    /// A refusal; `id` is that of the request, if it is known.
    pub(super) fn refusal(status: u16, id: &Id, code: i64, message: impl Into<String>) -> Answer {
        let message = message.into();
        let refusal = Refusal::new(code, message.clone());
        let mut answer = Answer::json(status, refusal.answer(id).take());
        answer.head.why = Some(message);
        answer
    }

    /// A refusal with a header field before the others.
    fn refused_with(
        field: (&'static str, &str),
        status: u16,
        message: impl Into<String>,
    ) -> Answer {
        let refused = Answer::refused(status, message);
        let others = refused.head.headers.iter().map(|(name, value)| (name.to_owned(), value));
        let mut headers: Headers = [field].into_iter().collect();
        headers.extend(others);
        Answer { head: ResponseHead { headers, ..refused.head }, body: refused.body }
    }

    /// To a request of a session that is nowhere.
    pub fn no_such_session(body: &Bytes) -> Answer {
        let id = id_in_front(body).unwrap_or(Id::NULL);
        Answer::refusal(404, &id, INVALID_REQUEST, "there is no such session")
    }

    /// To a request of a session that is at another node, which cannot be reached for now.
    pub fn away(body: &Bytes) -> Answer {
        let id = id_in_front(body).unwrap_or(Id::NULL);
        let message = "the node that has this session cannot be reached for now";
        let mut answer = Answer::refusal(503, &id, INTERNAL_ERROR, message);
        answer.head.headers.push("Retry-After", "1");
        answer
    }

    /// To a body of more than so many bytes.
    pub fn too_long(bytes_max: usize) -> Answer {
        Answer::refused(413, format!("body is longer than the limit of {bytes_max} bytes"))
    }

    /// To a request whose body pauses for too long.
    pub fn silent() -> Answer {
        Answer::empty(408)
    }

    /// A body came, but too slowly.
    pub(super) fn too_slow() -> Answer {
        let message = format!(
            "the body comes too slowly: at least {BYTES_A_SECOND_MIN} bytes a second are needed"
        );
        Answer::refused(408, message)
    }

    fn not_admitted(refused: &Refused) -> Answer {
        if let Refused::ByToken(refusal) = refused {
            return Answer::by_token(refusal);
        }
        match refused.field() {
            Some(field) => Answer::refused_with(field, refused.status(), refused.to_string()),
            None => Answer::refused(refused.status(), refused.to_string()),
        }
    }

    /// To a request whose token is not let in, or not far enough.
    pub(super) fn by_token(refusal: &TokenRefusal) -> Answer {
        let TokenRefusal { status, message, field } = refusal;
        let code = if *status == 503 { INTERNAL_ERROR } else { INVALID_REQUEST };
        let mut answer = Answer::refusal(*status, &Id::NULL, code, message.clone());
        answer.head.headers.extend(field.as_ref().map(|(name, value)| (*name, value.as_str())));
        answer
    }

    fn refused(status: u16, message: impl Into<String>) -> Answer {
        Answer::refusal(status, &Id::NULL, INVALID_REQUEST, message)
    }

    pub(super) fn not_allowed(allow: &str, message: impl Into<String>) -> Answer {
        Answer::refused_with(("Allow", allow), 405, message)
    }
}

/// The status of a modern answer with this error.
pub(super) fn status_of(code: i64) -> u16 {
    match code {
        UNKNOWN_METHOD => 404,
        PARSE_ERROR | INVALID_REQUEST | INVALID_PARAMS | HEADER_MISMATCH | MISSING_CAPABILITY
        | UNSUPPORTED_VERSION => 400,
        _ => 200,
    }
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Verb {
    Post,
    Get,
    Delete,
    /// A session of the old pair begins, with its stream.
    OpenPair,
    /// A message for such a session.
    PostPair,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Mcp,
    Events,
    Messages,
}

impl At {
    /// The methods there are.
    fn allow(self) -> &'static str {
        match self {
            At::Mcp => "GET, POST, DELETE",
            At::Events => "GET",
            At::Messages => "POST",
        }
    }

    fn verb(self, method: &str) -> Option<Verb> {
        match (self, method) {
            (At::Mcp, "POST") => Some(Verb::Post),
            (At::Mcp, "GET") => Some(Verb::Get),
            (At::Mcp, "DELETE") => Some(Verb::Delete),
            (At::Events, "GET") => Some(Verb::OpenPair),
            (At::Messages, "POST") => Some(Verb::PostPair),
            _ => None,
        }
    }
}

/// What a request must look like to reach an endpoint.
#[derive(Debug, Clone)]
pub struct Entrance {
    /// What is asked of every client.
    pub admission: Admission,
    /// Where streamable HTTP is spoken.
    pub path: String,
    /// Is the old pair of HTTP+SSE there as well, at `/sse` and `/messages`?
    pub sse: bool,
    /// The longest body.
    pub body_bytes_max: usize,
}

impl Entrance {
    /// Judges a head. The body need not be read if it is refused.
    pub fn admit(&self, head: &RequestHead) -> Result<Verb, Answer> {
        if !head.is_admitted {
            self.admission.admit(head).map_err(|refused| Answer::not_admitted(&refused))?;
        }
        let Some(at) = self.at(&head.path) else {
            return Err(Answer::refused(404, format!("there is nothing at `{}`", head.path)));
        };
        let Some(verb) = at.verb(&head.method) else {
            if self.admission.is_preflight(head) {
                return Err(Answer { head: preflight(head, at.allow()), body: Bytes::new() });
            }
            let message = format!("method `{}` is not allowed", head.method);
            return Err(Answer::not_allowed(at.allow(), message));
        };
        let version = head.header("MCP-Protocol-Version");
        let is_legacy = matches!(verb, Verb::Get | Verb::Delete);
        if is_legacy && version.is_some_and(|version| Revision::legacy(version).is_none()) {
            let message = format!("only POST in {}", Revision::MODERN);
            return Err(Answer::not_allowed("POST", message));
        }
        match verb {
            Verb::Post | Verb::PostPair => {
                if !media_type(head).is_some_and(|kind| is_one_of(kind, &["application/json"])) {
                    return Err(Answer::refused(415, "Content-Type must be application/json"));
                }
                // What is posted to the old pair is answered on its stream.
                if verb == Verb::Post && !accepts(head, "application/json") {
                    return Err(Answer::refused(406, "Accept must allow application/json"));
                }
                let length = head.header("Content-Length").and_then(|length| length.parse().ok());
                if length.is_some_and(|length: u64| (self.body_bytes_max as u64) < length) {
                    return Err(self.too_long());
                }
            }
            Verb::Get => {
                let is_wanted = head.header("Accept").is_some() && accepts(head, EVENT_STREAM);
                if !is_wanted {
                    return Err(Answer::refused(406, "Accept must name text/event-stream"));
                }
            }
            Verb::OpenPair if !accepts(head, EVENT_STREAM) => {
                return Err(Answer::refused(406, "Accept must allow text/event-stream"));
            }
            Verb::OpenPair | Verb::Delete => {}
        }
        Ok(verb)
    }

    fn at(&self, path: &str) -> Option<At> {
        match path {
            path if path == self.path => Some(At::Mcp),
            EVENTS_PATH if self.sse => Some(At::Events),
            MESSAGES_PATH if self.sse => Some(At::Messages),
            _ => None,
        }
    }

    /// The answer to a body over the limit.
    pub fn too_long(&self) -> Answer {
        Answer::too_long(self.body_bytes_max)
    }
}

/// Does the client take this media type? Without `Accept` it takes all.
pub(super) fn accepts(head: &RequestHead, media_type: &str) -> bool {
    let Some(accept) = head.header("Accept") else { return true };
    let (family, _) = media_type.split_once('/').unwrap_or((media_type, ""));
    accept.split(',').any(|range| {
        let mut pieces = range.split(';').map(str::trim);
        let name = pieces.next().unwrap_or_default();
        let is_it = name == "*/*"
            || name.eq_ignore_ascii_case(media_type)
            || name.strip_suffix("/*").is_some_and(|name| name.eq_ignore_ascii_case(family));
        let is_none = |piece: &str| {
            let weight = piece.strip_prefix("q=").or(piece.strip_prefix("Q="));
            weight.and_then(|weight| weight.parse::<f32>().ok()) == Some(0.0)
        };
        is_it && !pieces.any(is_none)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Bound, Token};

    fn entrance(bound: Bound) -> Entrance {
        let (path, origins) = ("/mcp".to_owned(), vec!["https://app.example".to_owned()]);
        let admission = Admission { bound, origins, ..Admission::LOOPBACK };
        Entrance { admission, path, sse: false, body_bytes_max: 100 }
    }

    fn status(
        entrance: &Entrance,
        method: &'static str,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> u16 {
        let mut head = RequestHead::new(method, path);
        head.headers.extend(headers.iter().copied());
        entrance.admit(&head).map_or_else(|answer| answer.head.status, |_| 200)
    }

    #[test]
    fn requests_are_judged_in_order() {
        let ours = entrance(Bound::Loopback);
        let json = ("Content-Type", "application/json; charset=utf-8");
        for (method, path, headers, expected) in [
            ("POST", "/mcp", &[json][..], 200),
            ("POST", "/mcp", &[("host", "[::1]:80"), json], 200),
            ("POST", "/mcp", &[("Host", "localhost.evil"), json], 403),
            ("POST", "/mcp", &[("Origin", "https://app.example"), json], 200),
            ("POST", "/mcp", &[("Origin", "http://localhost.evil"), json], 403),
            ("POST", "/mcp", &[("Origin", "http://127.0.0.1@evil"), json], 403),
            ("POST", "/else", &[json], 404),
            ("PUT", "/mcp", &[json], 405),
            ("POST", "/mcp", &[], 415),
            ("POST", "/mcp", &[json, ("Accept", "text/html, application/json;q=0")], 406),
            ("POST", "/mcp", &[json, ("Accept", "text/html, application/*")], 200),
            ("POST", "/mcp", &[json, ("Content-Length", "100")], 200),
            ("POST", "/mcp", &[json, ("Content-Length", "101")], 413),
            ("POST", "/mcp", &[("Content-Length", "101")], 415),
            ("GET", "/mcp", &[], 406),
            ("GET", "/mcp", &[("MCP-Protocol-Version", "2026-07-28")], 405),
            ("GET", "/mcp", &[("MCP-Protocol-Version", "2025-11-25")], 406),
            ("DELETE", "/mcp", &[("MCP-Protocol-Version", "2026-07-28")], 405),
            ("GET", "/mcp", &[("Accept", "text/event-stream")], 200),
            ("DELETE", "/mcp", &[], 200),
        ] {
            assert_eq!(status(&ours, method, path, headers), expected, "{method} {headers:?}");
        }
        let host = ("Host", "tools.example:1");
        let others = entrance(Bound::Elsewhere);
        let evil = ("Origin", "https://evil.example");
        assert_eq!(status(&others, "POST", "/mcp", &[host, evil, json]), 403);
        let own = ("Origin", "https://tools.example");
        assert_eq!(status(&others, "POST", "/mcp", &[host, own, json]), 200);
    }

    #[test]
    fn a_token_must_be_the_token() {
        let mut entrance = entrance(Bound::Elsewhere);
        entrance.admission.token = Some(Token::new("s3cret"));
        for (shown, expected) in [
            ("Bearer s3cret", 404),
            ("bearer  s3cret", 404),
            ("Bearer s3cre", 401),
            ("Bearer s3cret2", 401),
            ("Basic s3cret", 401),
            ("", 401),
        ] {
            let headers = [("Authorization", shown)];
            assert_eq!(status(&entrance, "POST", "/", &headers), expected, "{shown}");
        }
    }
}
