//! The heads of HTTP requests and answers, as far as wires over HTTP look at them.
//!
//! No HTTP library is known here: the hands translate. Header fields that are not text never
//! get this far, or get here garbled, as the hands of each wire decide. [`Admission`] says which
//! requests are let in at all.

mod admission;
mod cors;
mod grant;
mod pace;
mod reference;

use std::borrow::Cow;
use std::sync::Arc;

pub use admission::{Admission, Bound, Refused, Token, bearer, is_one_of, media_type};
pub use cors::{Cors, preflight};
pub use grant::{Grant, Judged, TokenRefusal, Visit};
pub use pace::{BYTES_A_SECOND_MIN, Pace};
pub use reference::{BadReference, resolve};

/// What a user can do about a peer that answers with 401 or 403.
pub(crate) const CREDENTIALS: &str = "name the variable that holds a token by `--token-env` \
     (`token_env` in the config), or give what else it asks for by `--header` (`headers`)";

/// The head of a request, ours or a peer's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// `POST`, `GET`, …
    pub method: Cow<'static, str>,
    /// The path; of a request of ours with its query.
    pub path: String,
    /// What stands behind the `?` in a peer's request.
    pub query: Option<String>,
    /// Its header fields.
    pub headers: Headers,
    /// The DER of the certificate by which a peer has proved who it is.
    pub certificate: Option<Arc<[u8]>>,
    /// It was let in elsewhere, by who passes it on: where it comes from and what it shows is no
    /// question any more. Nothing that a peer writes says so.
    pub is_admitted: bool,
    /// What was found out about its token, where those of sign-in servers are asked for. Nothing
    /// that a peer writes says so.
    pub judged: Option<Judged>,
}

/// The head of an answer, ours or a peer's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// 200, if all is well.
    pub status: u16,
    /// Its header fields.
    pub headers: Headers,
    /// Why a request is refused by it: for the log, and not on the wire.
    pub why: Option<String>,
    /// The token that it refuses has been replaced by another meanwhile: the request may be made
    /// once more.
    pub may_repeat: bool,
}

/// Header fields, in order. Names are compared ignoring case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Cow<'static, str>, String)>);

impl RequestHead {
    /// A head without header fields.
    pub fn new(method: impl Into<Cow<'static, str>>, path: impl Into<String>) -> RequestHead {
        let (method, path) = (method.into(), path.into());
        RequestHead {
            method,
            path,
            query: None,
            headers: Headers::new(),
            certificate: None,
            is_admitted: false,
            judged: None,
        }
    }

    /// The first header field of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// The visit that it is, by a good token of a sign-in server.
    pub fn visit(&self) -> Option<&Arc<Visit>> {
        self.judged.as_ref()?.visit()
    }

    /// Who holds the token that it shows, if that is one of a sign-in server.
    pub fn holder(&self) -> Option<&Arc<str>> {
        Some(&self.visit()?.grant().holder)
    }

    /// The value of the first parameter of that name in the query, as it is written.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.as_deref()?.split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name).map(|p| p.1)
    }
}

impl ResponseHead {
    /// A head without header fields.
    pub fn new(status: u16) -> ResponseHead {
        ResponseHead { status, ..ResponseHead::default() }
    }

    /// The first header field of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    /// Was it answered as asked?
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Headers {
    /// No header fields.
    pub const fn new() -> Headers {
        Headers(Vec::new())
    }

    /// The value of the first header field of that name, without blanks around it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.raw(name).map(|value| value.trim_matches([' ', '\t']))
    }

    /// The value of the first header field of that name, as it is.
    pub fn raw(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// The values of all header fields of that name, without blanks around them.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim_matches([' ', '\t']))
    }

    /// A header field in place of all of its name.
    pub fn put(&mut self, name: &'static str, value: String) {
        self.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.push(name, value);
    }

    /// Appends a header field.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// All header fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl<N: Into<Cow<'static, str>>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Headers {
        Headers(fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl<N: Into<Cow<'static, str>>, V: Into<String>> Extend<(N, V)> for Headers {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, fields: I) {
        fields.into_iter().for_each(|(name, value)| self.push(name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_case_and_the_first_of_them_counts() {
        let headers: Headers =
            [("Accept", " text/html\t"), ("accept", "*/*")].into_iter().collect();
        assert_eq!(headers.get("ACCEPT"), Some("text/html"));
        assert_eq!(headers.get("host"), None);
        assert_eq!(headers.iter().last(), Some(("accept", "*/*")));
    }
}
