//! Who may come in, and what a request must look like before its body matters (`docs/protocols/mcp.md` 2.8).

use bytes::Bytes;

use crate::http::{Headers, RequestHead, ResponseHead};
use crate::jsonrpc::Id;
use crate::mcp::wire::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, MISSING_CAPABILITY, PARSE_ERROR, Refusal,
    Revision, UNKNOWN_METHOD, UNSUPPORTED_VERSION,
};

/// The media type of a stream.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

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
        let refusal = Refusal::new(code, message.into());
        Answer::json(status, refusal.answer(id).take())
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
        Answer { head: ResponseHead { status, headers }, body: refused.body }
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
}

/// Where a front listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Only this machine can reach it.
    Loopback,
    /// Others can.
    Elsewhere,
}

/// What is asked of everybody before anything else.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Where the front listens.
    pub bound: Bound,
    /// The one path there is.
    pub path: String,
    /// Origins that may come in besides our own.
    pub origins: Vec<String>,
    /// The token that everybody must show.
    pub token: Option<String>,
    /// The longest body.
    pub body_bytes_max: usize,
}

impl Admission {
    /// Judges a head. The body need not be read if it is refused.
    pub fn admit(&self, head: &RequestHead) -> Result<Verb, Answer> {
        self.check_host(head)?;
        self.check_token(head)?;
        if head.path != self.path {
            return Err(Answer::refused(404, format!("there is nothing at `{}`", head.path)));
        }
        let verb = match &*head.method {
            "POST" => Verb::Post,
            "GET" => Verb::Get,
            "DELETE" => Verb::Delete,
            other => {
                let message = format!("method `{other}` is not allowed");
                return Err(Answer::not_allowed("GET, POST, DELETE", message));
            }
        };
        let version = head.header("MCP-Protocol-Version");
        if verb != Verb::Post && version.is_some_and(|version| Revision::legacy(version).is_none())
        {
            let message = format!("only POST in {}", Revision::MODERN);
            return Err(Answer::not_allowed("POST", message));
        }
        match verb {
            Verb::Post => {
                let media_type =
                    head.header("Content-Type").and_then(|kind| kind.split(';').next());
                let is_json = media_type
                    .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
                if !is_json {
                    return Err(Answer::refused(415, "Content-Type must be application/json"));
                }
                if !accepts(head, "application/json") {
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
            Verb::Delete => {}
        }
        Ok(verb)
    }

    /// The answer to a body over the limit.
    pub fn too_long(&self) -> Answer {
        let bytes_max = self.body_bytes_max;
        Answer::refused(413, format!("body is longer than the limit of {bytes_max} bytes"))
    }

    /// Against pages of other sites that a browser on this machine shows.
    fn check_host(&self, head: &RequestHead) -> Result<(), Answer> {
        let forbid = |what: &str, value: &str| {
            Err(Answer::refused(403, format!("{what} `{value}` is not allowed")))
        };
        let host = head.header("Host");
        if self.bound == Bound::Loopback
            && let Some(host) = host
            && !is_ours(host_of(host))
        {
            return forbid("host", host);
        }
        let Some(origin) = head.header("Origin") else { return Ok(()) };
        if self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return Ok(());
        }
        let Some((_, authority)) = origin.split_once("://") else {
            return forbid("origin", origin);
        };
        let from = host_of(authority);
        let is_allowed = match self.bound {
            Bound::Loopback => is_ours(from),
            Bound::Elsewhere => host.is_some_and(|host| host_of(host).eq_ignore_ascii_case(from)),
        };
        if is_allowed { Ok(()) } else { forbid("origin", origin) }
    }

    fn check_token(&self, head: &RequestHead) -> Result<(), Answer> {
        let Some(token) = &self.token else { return Ok(()) };
        let shown = head.header("Authorization").and_then(|value| {
            let (scheme, shown) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("Bearer").then(|| shown.trim_start_matches(' '))
        });
        if shown.is_some_and(|shown| is_same(shown.as_bytes(), token.as_bytes())) {
            return Ok(());
        }
        let field = ("WWW-Authenticate", "Bearer");
        Err(Answer::refused_with(field, 401, "a bearer token is needed"))
    }
}

/// Takes as long for a token that is nearly right as for one that is all wrong.
fn is_same(shown: &[u8], token: &[u8]) -> bool {
    let differing = shown.iter().zip(token).fold(0, |bits, (a, b)| bits | (a ^ b));
    std::hint::black_box(differing) == 0 && shown.len() == token.len()
}

/// The host of `host:port`; an address of version 6 keeps its brackets.
fn host_of(authority: &str) -> &str {
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.find(']') {
        Some(end) if authority.starts_with('[') => &authority[..=end],
        _ => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_ours(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
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

    fn admission(bound: Bound) -> Admission {
        let (path, origins) = ("/mcp".to_owned(), vec!["https://app.example".to_owned()]);
        Admission { bound, path, origins, token: None, body_bytes_max: 100 }
    }

    fn status(
        admission: &Admission,
        method: &'static str,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> u16 {
        let mut head = RequestHead::new(method, path);
        head.headers.extend(headers.iter().copied());
        admission.admit(&head).map_or_else(|answer| answer.head.status, |_| 200)
    }

    #[test]
    fn requests_are_judged_in_order() {
        let ours = admission(Bound::Loopback);
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
        let others = admission(Bound::Elsewhere);
        let evil = ("Origin", "https://evil.example");
        assert_eq!(status(&others, "POST", "/mcp", &[host, evil, json]), 403);
        let own = ("Origin", "https://tools.example");
        assert_eq!(status(&others, "POST", "/mcp", &[host, own, json]), 200);
    }

    #[test]
    fn a_token_must_be_the_token() {
        let admission = Admission { token: Some("s3cret".into()), ..admission(Bound::Elsewhere) };
        for (shown, expected) in [
            ("Bearer s3cret", 404),
            ("bearer  s3cret", 404),
            ("Bearer s3cre", 401),
            ("Bearer s3cret2", 401),
            ("Basic s3cret", 401),
            ("", 401),
        ] {
            let headers = [("Authorization", shown)];
            assert_eq!(status(&admission, "POST", "/", &headers), expected, "{shown}");
        }
    }
}
