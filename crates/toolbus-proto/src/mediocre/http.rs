//! What stands around the bytes when HTTP carries them: heads, and who is let in (`docs/protocols/mediocre.md` §6).
//!
//! Header fields come and go as text; no HTTP library is known here.

use std::time::Duration;

use super::encode;
use super::event::PeerError;
use super::translate;
use crate::channel::Outbox;
use crate::http::{
    Admission, Refused, RequestHead, ResponseHead, TokenRefusal, is_one_of, media_type,
};
use crate::json::Json;
use crate::tool::Trace;

/// The type of a single message.
const SINGLE: &str = "application/json";
/// The type of a stream.
const STREAM: &str = "application/x-mediocre-rpc";
/// What a call may be called, besides nothing at all.
const READ: [&str; 3] = [SINGLE, STREAM, "application/octet-stream"];
/// How long a call may take in all, in milliseconds: ours, and one that others send.
const DEADLINES: [&str; 2] = ["toolbus-timeout-ms", "connect-timeout-ms"];

/// What the head of a request says about its call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// How long it may take in all.
    pub deadline: Option<Duration>,
    /// The trace it belongs to, whatever its body says.
    pub trace: Option<Trace>,
}

/// What the head of our answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerHead {
    /// 200 whenever there is a response, errors included.
    pub status: u16,
    /// How many bytes a single response has; a stream has as many as come.
    pub single_len: Option<usize>,
}

/// What the head of a request of ours says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskingHead {
    /// Is it a stream call?
    pub is_stream: bool,
    /// How many bytes its body has, if all of them are there.
    pub len: Option<usize>,
    /// How long the call may still take in all.
    pub deadline: Option<Duration>,
    /// The trace it belongs to.
    pub trace: Option<Trace>,
}

/// Why there is no response to a request, with the status that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// What the body says.
    pub error: PeerError,
    /// The header field that goes with it.
    pub field: Option<(&'static str, String)>,
}

/// Lets a request in to the one path that is served, or says why not.
pub fn admit(admission: &Admission, path: &str, request: &RequestHead) -> Result<Terms, Refusal> {
    admission.admit(request).map_err(|refused| Refusal::of_stranger(&refused))?;
    if request.path != path {
        return Err(Refusal::new(404, "invalid", &format!("no such path: `{}`", request.path)));
    }
    if request.method != "POST" {
        return Err(Refusal::new(405, "invalid", "only POST is served here"));
    }
    match media_type(request) {
        Some(named) if !is_one_of(named, &READ) => {
            let message =
                format!("a body of type `{named}` is not read; it can be {}", READ.join(", "));
            return Err(Refusal::new(415, "invalid", &message));
        }
        // A page can send a body without a type to any site, and its browser asks nobody.
        None if request.header("origin").is_some() => {
            let message = format!("a page must give its body a type: {}", READ.join(", "));
            return Err(Refusal::new(415, "invalid", &message));
        }
        _ => {}
    }
    let encoding = request.headers.raw("content-encoding").map(str::trim).unwrap_or_default();
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        let message = format!("a body in the encoding `{encoding}` is not read");
        return Err(Refusal::new(415, "invalid", &message));
    }
    let deadline = DEADLINES.iter().find_map(|name| request.headers.raw(name).and_then(millis));
    let trace = request.headers.raw("traceparent").and_then(|parent| {
        let state = request.headers.raw("tracestate").filter(|state| !state.is_empty());
        Trace::read(parent, state)
    });
    Ok(Terms { deadline, trace })
}

/// One to ten digits that are above zero.
fn millis(text: &str) -> Option<Duration> {
    let is_plain = (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let millis = text.parse().ok().filter(|millis| is_plain && *millis != 0)?;
    Some(Duration::from_millis(millis))
}

impl Refusal {
    /// Of what is wrong beside the bytes.
    pub fn new(status: u16, code: &str, message: &str) -> Refusal {
        let error = translate::told(message, &[("code", Some(Json::of(code)))]);
        Refusal { status, error, field: None }
    }

    /// Of a request that may not come in, with what its sender can do about it.
    fn of_stranger(refused: &Refused) -> Refusal {
        let reason = match refused {
            Refused::Host(_) | Refused::Origin(_) | Refused::Caller(_) => "forbidden",
            Refused::Token => "unauthorized",
            Refused::ByToken(refusal) => return Refusal::by_token(refusal),
        };
        let meta = [("code", Some(Json::of("unavailable"))), ("reason", Some(Json::of(reason)))];
        let error = translate::told(&refused.with_hint(), &meta);
        Refusal { status: refused.status(), error, field: None }
    }

    /// Of a request whose token is not let in, or not far enough.
    pub(super) fn by_token(refusal: &TokenRefusal) -> Refusal {
        let TokenRefusal { status, message, field } = refusal;
        let (code, reason) = match status {
            400 => ("invalid", None),
            401 => ("unavailable", Some("unauthorized")),
            403 => ("unavailable", Some("forbidden")),
            _ => ("unavailable", None),
        };
        let meta = [("code", Some(Json::of(code))), ("reason", reason.map(Json::of))];
        let error = translate::told(message, &meta);
        Refusal { status: *status, error, field: field.clone() }
    }

    /// Of a body that is not one call.
    pub(super) fn of_body(reason: &str, message: &str) -> Refusal {
        let meta = [("code", Some(Json::of("protocol"))), ("reason", Some(Json::of(reason)))];
        Refusal { status: 400, error: translate::told(message, &meta), field: None }
    }

    /// Writes the body and gives its head.
    pub fn write(&self, out: &mut Outbox) -> AnswerHead {
        let before = out.len();
        encode::failure(out, &self.error);
        AnswerHead { status: self.status, single_len: Some(out.len() - before) }
    }
}

impl AnswerHead {
    /// The head itself.
    pub fn head(&self) -> ResponseHead {
        let mut fields: Vec<(&'static str, String)> = match self.single_len {
            Some(len) => {
                vec![("content-type", SINGLE.to_owned()), ("content-length", len.to_string())]
            }
            // Proxies are to pass on each element as it comes.
            None => vec![
                ("content-type", STREAM.to_owned()),
                ("x-accel-buffering", "no".to_owned()),
                ("cache-control", "no-transform".to_owned()),
            ],
        };
        match self.status {
            401 => fields.push(("www-authenticate", "Bearer".to_owned())),
            405 => fields.push(("allow", "POST".to_owned())),
            _ => {}
        }
        ResponseHead { headers: fields.into_iter().collect(), ..ResponseHead::new(self.status) }
    }
}

impl AskingHead {
    /// The head itself.
    pub fn head(&self, path: &str) -> RequestHead {
        let content_type = if self.is_stream { STREAM } else { SINGLE };
        let mut fields = vec![("content-type", content_type.to_owned())];
        fields.extend(self.len.map(|len| ("content-length", len.to_string())));
        if let Some(deadline) = self.deadline {
            // A call that is late already is given up by ourselves.
            let millis = deadline.as_millis().clamp(1, 9_999_999_999);
            fields.push((DEADLINES[0], millis.to_string()));
        }
        if let Some(trace) = &self.trace {
            fields.push(("traceparent", trace.parent().to_owned()));
            fields.extend(trace.state().map(|state| ("tracestate", state.to_owned())));
        }
        let headers = fields.into_iter().collect();
        RequestHead { headers, ..RequestHead::new("POST", path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn asked(method: &str, path: &str, fields: &[(&str, &'static str)]) -> Result<Terms, Refusal> {
        let mut head = RequestHead::new(method.to_owned(), path);
        head.headers.extend(fields.iter().map(|(name, value)| (name.to_string(), *value)));
        admit(&Admission::LOOPBACK, "/rpc", &head)
    }

    #[track_caller]
    fn refused(status: u16, method: &str, path: &str, fields: &[(&str, &'static str)]) {
        let refusal = asked(method, path, fields).unwrap_err();
        assert_eq!(refusal.status, status);
        assert_eq!(refusal.error.meta.unwrap().as_str(), r#"{"code":"invalid"}"#);
    }

    #[test]
    fn one_path_one_method_and_bodies_as_they_are() {
        refused(404, "POST", "/", &[]);
        refused(404, "GET", "/rpc/", &[]);
        refused(405, "GET", "/rpc", &[]);
        refused(405, "PUT", "/rpc", &[("content-type", "text/plain")]);
        refused(415, "POST", "/rpc", &[("content-type", "text/plain")]);
        refused(415, "POST", "/rpc", &[("content-encoding", "gzip")]);
        for content_type in
            ["", "application/json; charset=utf-8", "Application/X-Mediocre-RPC", READ[2]]
        {
            assert!(asked("POST", "/rpc", &[("content-type", content_type)]).is_ok());
        }
        assert!(asked("POST", "/rpc", &[("content-encoding", "Identity")]).is_ok());
        let page = ("origin", "http://localhost:3000");
        refused(415, "POST", "/rpc", &[page]);
        refused(415, "POST", "/rpc", &[page, ("content-type", "text/plain")]);
        assert!(asked("POST", "/rpc", &[page, ("content-type", "application/json")]).is_ok());
    }

    #[test]
    fn strangers_are_told_why_they_are_one_before_all_else() {
        let told = |fields: &[(&str, &'static str)]| {
            let refusal = asked("GET", "/else", fields).unwrap_err();
            (refusal.status, refusal.error.msg, refusal.error.meta.unwrap().to_string())
        };
        let (status, message, meta) = told(&[("origin", "https://evil.example")]);
        assert_eq!(
            (status, &*message),
            (
                403,
                "origin `https://evil.example` is not allowed: its pages are let in by `--origin`, \
                 or `origins` in the config"
            )
        );
        assert_eq!(meta, r#"{"code":"unavailable","reason":"forbidden"}"#);
        assert_eq!(told(&[("host", "[::1].evil.com")]).0, 403);
        assert_eq!(told(&[("host", "localhost")]).0, 404);
    }

    #[test]
    fn a_deadline_is_one_to_ten_digits_and_ours_wins() {
        let deadline =
            |fields: &[(&str, &'static str)]| asked("POST", "/rpc", fields).unwrap().deadline;
        let (ours, theirs) = (DEADLINES[0], DEADLINES[1]);
        assert_eq!(deadline(&[(ours, "1500")]), Some(Duration::from_millis(1500)));
        assert_eq!(deadline(&[(theirs, "7"), (ours, "5")]), Some(Duration::from_millis(5)));
        assert_eq!(deadline(&[(theirs, "7"), (ours, "x")]), Some(Duration::from_millis(7)));
        for wrong in ["", "0", "000", "-1", "+1", "1.5", "1s", " 1", "12345678901"] {
            assert_eq!(deadline(&[(ours, wrong)]), None, "{wrong}");
        }
    }

    #[test]
    fn a_trace_is_read_only_if_it_is_one() {
        let trace =
            |parent| asked("POST", "/rpc", &[("traceparent", parent), ("tracestate", "a=b")]);
        let found = trace(PARENT).unwrap().trace.unwrap();
        assert_eq!((found.parent(), found.state()), (PARENT, Some("a=b")));
        assert_eq!(trace("00-x").unwrap().trace, None);
    }

    #[test]
    fn our_heads_say_what_there_is() {
        let single = AskingHead { is_stream: false, len: Some(19), deadline: None, trace: None };
        let fields = [("content-type", SINGLE), ("content-length", "19")];
        assert_eq!(single.head("/rpc").headers.iter().collect::<Vec<_>>(), fields);
        let trace = Trace::read(PARENT, None);
        let deadline = Some(Duration::from_micros(1));
        let stream = AskingHead { is_stream: true, len: None, deadline, trace };
        let fields =
            [("content-type", STREAM), ("toolbus-timeout-ms", "1"), ("traceparent", PARENT)];
        assert_eq!(stream.head("/rpc").headers.iter().collect::<Vec<_>>(), fields);
    }
}
