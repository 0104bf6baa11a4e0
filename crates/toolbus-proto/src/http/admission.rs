//! Which requests are let in at all, whatever wire they speak: by `Host`, `Origin` and what shows
//! whose they are, and by the type of their bodies.
//!
//! All of it is decided by the head, before a body is read. How a refusal looks is for each
//! wire to say.

use std::fmt;

use std::sync::Arc;

use super::{Cors, Judged, RequestHead, TokenRefusal};
use crate::caller::{CallerName, Doors, Shown, Stranger};

/// Where a front listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Only this machine can reach it.
    Loopback,
    /// Others can.
    Elsewhere,
}

/// What is asked of every client before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Where the front listens.
    pub bound: Bound,
    /// Origins that may come in besides our own.
    pub origins: Vec<String>,
    /// Names by which we may be called besides our own, with or without a port.
    pub hosts: Vec<String>,
    /// The token that every client must show.
    pub token: Option<Token>,
    /// Who may come in, where callers are told apart.
    pub doors: Option<Doors>,
    /// Tokens of sign-in servers are asked for: the hands judge what a request shows before its
    /// wire looks at it, and who was not judged is not let in.
    pub judges: bool,
}

impl Admission {
    /// Lets in what comes from this machine, as far as a request can tell.
    pub const LOOPBACK: Admission = Admission {
        bound: Bound::Loopback,
        origins: Vec::new(),
        hosts: Vec::new(),
        token: None,
        doors: None,
        judges: false,
    };

    /// Judges a head by where it comes from and what it shows; gives whose it is, where callers
    /// are told apart.
    pub fn admit(&self, head: &RequestHead) -> Result<Option<CallerName>, Refused> {
        self.check_host(head)?;
        self.check_origin(head)?;
        // A browser asks before it lets a page send its token.
        if self.is_preflight(head) {
            return Ok(None);
        }
        if self.judges {
            return match &head.judged {
                Some(Judged::Known(caller)) => Ok(caller.clone()),
                Some(Judged::Good(visit)) => Ok(visit.grant().caller.clone()),
                Some(Judged::NotHere(caller)) => {
                    Err(Refused::Caller(Stranger::NotHere(caller.clone())))
                }
                Some(Judged::Bad(refusal)) => Err(Refused::ByToken(refusal.clone())),
                None => Err(Refused::Token),
            };
        }
        self.check_token(head)?;
        self.caller_of(head)
    }

    /// Does it come to us by one of our names?
    pub fn is_for_us(&self, head: &RequestHead) -> bool {
        self.check_host(head).is_ok()
    }

    /// Is a token of no use to it, since it is not let in anyhow, or needs none?
    pub fn needs_no_judge(&self, head: &RequestHead) -> bool {
        self.check_host(head).is_err()
            || self.check_origin(head).is_err()
            || self.is_preflight(head)
    }

    /// Whose it is, if it shows what the config itself names: the token of the front, or what one of
    /// the callers has.
    pub fn known(&self, head: &RequestHead, token: Option<&str>) -> Option<Judged> {
        if let (Some(own), Some(shown)) = (&self.token, token)
            && own.is(shown)
        {
            return Some(Judged::Known(None));
        }
        let shown = Shown { token, certificate: head.certificate.as_deref(), uid: None };
        match self.doors.as_ref()?.judge(&shown) {
            Ok(caller) => Some(Judged::Known(Some(caller))),
            Err(Stranger::NotHere(caller)) => Some(Judged::NotHere(caller)),
            Err(Stranger::Unknown) => None,
        }
    }

    /// The same for those who were let in already: who calls is no question any more.
    #[must_use]
    pub fn for_one(&self) -> Admission {
        Admission { token: None, doors: None, judges: false, ..self.clone() }
    }

    /// What a browser has to be told with every answer, if the request comes from a page of an
    /// origin that was let in by name.
    pub fn cors(&self, head: &RequestHead) -> Option<Cors> {
        let origin = head.header("Origin").filter(|origin| self.is_listed(origin))?;
        Some(Cors::of(origin))
    }

    /// Does a browser ask whether a page that was let in by name may ask us something?
    pub fn is_preflight(&self, head: &RequestHead) -> bool {
        head.method == "OPTIONS" && self.cors(head).is_some()
    }

    /// Against pages of other sites that had their own name lead to this machine.
    pub(crate) fn check_host(&self, head: &RequestHead) -> Result<(), Refused> {
        // Each of them, where there are several: which one counts is not for the client to choose.
        let mut hosts = head.headers.all("Host");
        if self.bound == Bound::Loopback
            && let Some(foreign) = hosts.find(|host| !self.is_ours(host))
        {
            return Err(Refused::Host(foreign.to_owned()));
        }
        Ok(())
    }

    /// Against pages of other sites that a browser on this machine shows: it says of each page
    /// where that comes from, and no page can change it.
    pub(crate) fn check_origin(&self, head: &RequestHead) -> Result<(), Refused> {
        let mut origins = head.headers.all("Origin");
        match origins.find(|origin| !self.is_allowed(origin, head.header("Host"))) {
            Some(foreign) => Err(Refused::Origin(foreign.to_owned())),
            None => Ok(()),
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        let Some(name) = host_of(host) else { return false };
        let is_it =
            |ours: &String| ours.eq_ignore_ascii_case(name) || ours.eq_ignore_ascii_case(host);
        is_loopback(name) || self.hosts.iter().any(is_it)
    }

    pub(crate) fn is_listed(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    fn is_allowed(&self, origin: &str, host: Option<&str>) -> bool {
        if self.is_listed(origin) {
            return true;
        }
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let Some(from) = authority.and_then(host_of) else { return false };
        match self.bound {
            Bound::Loopback => is_loopback(from),
            Bound::Elsewhere => {
                host.and_then(host_of).is_some_and(|host| host.eq_ignore_ascii_case(from))
            }
        }
    }

    fn check_token(&self, head: &RequestHead) -> Result<(), Refused> {
        let Some(token) = &self.token else { return Ok(()) };
        match bearer(head).is_some_and(|shown| token.is(shown)) {
            true => Ok(()),
            false => Err(Refused::Token),
        }
    }

    fn caller_of(&self, head: &RequestHead) -> Result<Option<CallerName>, Refused> {
        let Some(doors) = &self.doors else { return Ok(None) };
        let shown =
            Shown { token: bearer(head), certificate: head.certificate.as_deref(), uid: None };
        doors.judge(&shown).map(Some).map_err(|stranger| match stranger {
            Stranger::Unknown => Refused::Token,
            Stranger::NotHere(_) => Refused::Caller(stranger),
        })
    }
}

/// The bearer token that a request shows.
pub fn bearer(head: &RequestHead) -> Option<&str> {
    let (scheme, shown) = head.header("Authorization")?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| shown.trim_start_matches(' '))
}

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It is meant for another host: a page had its own name lead to this machine.
    Host(String),
    /// It comes from a page of another site.
    Origin(String),
    /// It shows no token, or another one.
    Token,
    /// It shows whose it is, but is not for here.
    Caller(Stranger),
    /// Its token was judged, and is not let in.
    ByToken(Arc<TokenRefusal>),
}

impl Refused {
    /// The status that says so.
    pub fn status(&self) -> u16 {
        match self {
            Refused::Host(_) | Refused::Origin(_) | Refused::Caller(_) => 403,
            Refused::Token => 401,
            Refused::ByToken(refusal) => refusal.status,
        }
    }

    /// What the client or the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Refused::Host(_) => {
                "call it by localhost, 127.0.0.1 or [::1], or allow the name by `--host` \
                 (`hosts` in the config)"
            }
            Refused::Origin(_) => "its pages are let in by `--origin`, or `origins` in the config",
            Refused::Token => "send it as `Authorization: Bearer TOKEN`",
            Refused::Caller(_) | Refused::ByToken(_) => return None,
        })
    }

    /// What happened, and what can be done about it.
    pub fn with_hint(&self) -> String {
        let hint = self.hint().map(|hint| format!(": {hint}"));
        format!("{self}{}", hint.unwrap_or_default())
    }

    /// A header field that goes with the status.
    pub fn field(&self) -> Option<(&'static str, &str)> {
        match self {
            Refused::Host(_) | Refused::Origin(_) | Refused::Caller(_) => None,
            Refused::Token => Some(("WWW-Authenticate", "Bearer")),
            Refused::ByToken(refusal) => {
                refusal.field.as_ref().map(|(name, value)| (*name, value.as_str()))
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Host(host) => write!(f, "host `{host}` is not allowed"),
            Refused::Origin(origin) => write!(f, "origin `{origin}` is not allowed"),
            Refused::Token => f.write_str("a bearer token is needed"),
            Refused::Caller(stranger) => stranger.fmt(f),
            Refused::ByToken(refusal) => refusal.fmt(f),
        }
    }
}

/// A bearer token. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// From now on it is not shown.
    pub fn new(token: impl Into<String>) -> Token {
        Token(token.into())
    }

    /// Is it this one? Takes as long for one that is nearly right as for one that is all wrong.
    pub fn is(&self, shown: &str) -> bool {
        let (shown, token) = (shown.as_bytes(), self.0.as_bytes());
        let differing = shown.iter().zip(token).fold(0, |bits, (a, b)| bits | (a ^ b));
        std::hint::black_box(differing) == 0 && shown.len() == token.len()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The media type that a request gives its body, without parameters; `None` if it gives none.
pub fn media_type(head: &RequestHead) -> Option<&str> {
    let kind = head.header("Content-Type")?.split(';').next().unwrap_or_default().trim();
    (!kind.is_empty()).then_some(kind)
}

/// Is it one of these media types?
pub fn is_one_of(media_type: &str, known: &[&str]) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(media_type))
}

/// The host of `host` or `host:port`; an address of version 6 keeps its brackets. `None` if
/// there is anything else, such as a name behind the brackets or a user before the host: a
/// browser would take the host to be another than what stands in front.
pub(super) fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.starts_with('[') {
        true => authority.find(']')? + 1,
        false => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, rest) = authority.split_at(end);
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@', '\\', ' ']);
    let is_whole = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    (is_host && is_whole).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(admission: &Admission, headers: &[(&'static str, &str)]) -> u16 {
        let mut head = RequestHead::new("POST", "/");
        head.headers.extend(headers.iter().copied());
        admission.admit(&head).map_or_else(|refused| refused.status(), |_| 200)
    }

    const NOT_OURS: [&str; 18] = [
        "evil.com",
        "localhost.evil.com",
        "localhost.",
        "127.0.0.1.evil.com",
        "127.0.0.1.",
        "[::1].evil.com",
        "[::1].evil.com:80",
        "[::1]evil.com",
        "[::1",
        "[::2]",
        "localhost:80@evil.com",
        "localhost@evil.com",
        "127.0.0.1@evil",
        "localhost:80:evil",
        "localhost:http",
        "localhost/evil.com",
        "localhost#evil.com",
        "",
    ];

    #[test]
    fn only_our_own_names_are_loopback() {
        for host in ["localhost", "LocalHost:80", "127.0.0.1:1", "127.0.0.1:", "[::1]", "[::1]:80"]
        {
            assert_eq!(status(&Admission::LOOPBACK, &[("host", host)]), 200, "{host}");
            let origin = format!("http://{host}");
            assert_eq!(status(&Admission::LOOPBACK, &[("Origin", &origin)]), 200, "{origin}");
        }
        for host in NOT_OURS {
            assert_eq!(status(&Admission::LOOPBACK, &[("Host", host)]), 403, "{host}");
            for scheme in ["http://", "https://", "HTTP://", "", "file://"] {
                let origin = format!("{scheme}{host}");
                assert_eq!(status(&Admission::LOOPBACK, &[("Origin", &origin)]), 403, "{origin}");
            }
        }
        assert_eq!(status(&Admission::LOOPBACK, &[("Origin", "null")]), 403);
    }

    #[test]
    fn names_that_a_proxy_keeps_can_be_allowed() {
        let hosts = vec!["tools.example".to_owned(), "other.example:8080".to_owned()];
        let proxied = Admission { hosts, ..Admission::LOOPBACK };
        for (host, expected) in [
            ("tools.example", 200),
            ("Tools.Example:443", 200),
            ("other.example:8080", 200),
            ("other.example", 403),
            ("other.example:80", 403),
            ("127.0.0.1:80", 200),
            ("tools.example.evil", 403),
            ("tools.example@evil", 403),
        ] {
            assert_eq!(status(&proxied, &[("Host", host)]), expected, "{host}");
        }
        let host = ("Host", "tools.example");
        assert_eq!(status(&proxied, &[host, ("Origin", "https://tools.example")]), 403);
    }

    #[test]
    fn a_browser_need_not_show_the_token_before_it_is_let_in() {
        let origins = vec!["https://app.example".to_owned()];
        let token = Some(Token::new("s3cret"));
        let admission = Admission { origins, token, ..Admission::LOOPBACK };
        let asked = |method: &'static str, origin: &str| {
            let mut head = RequestHead::new(method, "/");
            head.headers.push("Origin", origin);
            admission.admit(&head).map_or_else(|refused| refused.status(), |_| 200)
        };
        assert_eq!(asked("OPTIONS", "https://app.example"), 200);
        assert_eq!(asked("OPTIONS", "http://localhost:3000"), 401);
        assert_eq!(asked("OPTIONS", "https://evil.example"), 403);
        assert_eq!(asked("POST", "https://app.example"), 401);
    }

    #[test]
    fn callers_are_told_apart_behind_host_and_origin() {
        let doors = Some(crate::caller::tests::doors());
        let origins = vec!["https://app.example".to_owned()];
        let closed = Admission { doors, origins, ..Admission::LOOPBACK };
        let page = ("Origin", "https://app.example");
        for (headers, certificate, expected) in [
            (&[("Authorization", "Bearer a")][..], None, "ann"),
            (&[("Authorization", "bearer   a"), page], None, "ann"),
            (&[("Authorization", "Bearer b")], None, "403"),
            (&[("Authorization", "Bearer b"), ("Host", "evil.com")], None, "403"),
            (&[("Authorization", "Bearer c")], None, "401"),
            (&[("Authorization", "Bearer ")], None, "401"),
            (&[], None, "401"),
            (&[page], None, "401"),
            (&[], Some("CN=eve"), "eve"),
            (&[], Some("CN=bob"), "403"),
            (&[], Some("CN=mallory"), "401"),
            (&[("Authorization", "Bearer a")], Some("CN=eve"), "401"),
            (&[("Authorization", "Bearer c")], Some("CN=eve"), "401"),
            // No token at all.
            (&[("Authorization", "Basic c")], Some("CN=eve"), "eve"),
        ] {
            let mut head = RequestHead::new("POST", "/");
            head.headers.extend(headers.iter().copied());
            head.certificate = certificate.map(|text| text.as_bytes().into());
            let admitted = closed.admit(&head);
            let told = admitted.map_or_else(
                |refused| refused.status().to_string(),
                |caller| caller.map_or_else(|| "anonymous".to_owned(), |name| name.to_string()),
            );
            assert_eq!(told, expected, "{headers:?} {certificate:?}");
        }
        let mut preflight = RequestHead::new("OPTIONS", "/");
        preflight.headers.push(page.0, page.1);
        assert_eq!(closed.admit(&preflight), Ok(None));
        assert_eq!(closed.for_one().admit(&RequestHead::new("POST", "/")), Ok(None));
    }

    #[test]
    fn one_that_is_ours_does_not_help_another_in() {
        let (ours, evil) = (("Host", "localhost"), ("Host", "evil.com"));
        assert_eq!(status(&Admission::LOOPBACK, &[ours, evil]), 403);
        let (ours, evil) = (("Origin", "http://localhost"), ("Origin", "http://evil.com"));
        assert_eq!(status(&Admission::LOOPBACK, &[ours, evil]), 403);
    }

    #[test]
    fn elsewhere_a_page_must_be_of_our_own_host_or_allowed() {
        let origins = vec!["https://app.example".to_owned()];
        let elsewhere = Admission { bound: Bound::Elsewhere, origins, ..Admission::LOOPBACK };
        let host = ("Host", "tools.example:1");
        for (origin, expected) in [
            ("https://tools.example", 200),
            ("https://app.example", 200),
            ("https://evil.example", 403),
            ("https://tools.example@evil.example", 403),
            ("https://tools.example:1@evil.example", 403),
            ("null", 403),
        ] {
            assert_eq!(status(&elsewhere, &[host, ("Origin", origin)]), expected, "{origin}");
        }
        assert_eq!(status(&elsewhere, &[host]), 200);
        assert_eq!(status(&elsewhere, &[("Origin", "https://tools.example")]), 403);
    }

    #[test]
    fn a_token_must_be_the_token() {
        let token = Some(Token::new("s3cret"));
        let admission = Admission { bound: Bound::Elsewhere, token, ..Admission::LOOPBACK };
        for (shown, expected) in [
            ("Bearer s3cret", 200),
            ("bearer  s3cret", 200),
            ("Bearer s3cre", 401),
            ("Bearer s3cret2", 401),
            ("Basic s3cret", 401),
            ("", 401),
        ] {
            assert_eq!(status(&admission, &[("Authorization", shown)]), expected, "{shown}");
        }
        assert!(!format!("{admission:?}").contains("s3cret"));
    }
}
