//! Who is let in where callers are told apart: their credentials, and whom a front is for.
//!
//! A token is known by its SHA-256, so that no comparison stops at the first byte that differs,
//! and no token of the config is kept. How sums are made and certificates read the hands say.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use super::{CallerName, Digest, Subject};

/// What came with a call or a connection that may say whose it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown<'a> {
    /// A bearer token.
    pub token: Option<&'a str>,
    /// The DER of a certificate that was found to be good.
    pub certificate: Option<&'a [u8]>,
    /// The user whose process it is, as the kernel says.
    pub uid: Option<u32>,
}

/// What is shown by no caller of a front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stranger {
    /// It is shown by no caller at all.
    Unknown,
    /// It is shown by this one, for whom the front is not.
    NotHere(CallerName),
}

impl Stranger {
    /// Why, for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Stranger::Unknown => "unauthorized",
            Stranger::NotHere(_) => "forbidden",
        }
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stranger::Unknown => f.write_str("unknown caller"),
            Stranger::NotHere(name) => write!(f, "this front is not for caller `{name}`"),
        }
    }
}

/// What is to be found out about what is shown.
#[derive(Clone, Copy)]
pub struct Reading {
    /// The SHA-256 of some bytes.
    pub sha256: fn(&[u8]) -> Digest,
    /// The subject of a certificate; `None` if it cannot be read.
    pub subject: fn(&[u8]) -> Option<Subject>,
}

/// All callers of a config, by what they show.
#[derive(Clone)]
pub struct Callers {
    reading: Reading,
    tokens: HashMap<Digest, CallerName>,
    certificates: HashMap<Digest, CallerName>,
    subjects: HashMap<Subject, CallerName>,
    uids: HashMap<u32, CallerName>,
}

impl Callers {
    /// None yet.
    pub fn new(reading: Reading) -> Callers {
        let (tokens, certificates) = (HashMap::new(), HashMap::new());
        Callers { reading, tokens, certificates, subjects: HashMap::new(), uids: HashMap::new() }
    }

    /// A token of this caller, by its SHA-256.
    pub fn add_token(&mut self, sha256: Digest, caller: &CallerName) {
        self.tokens.insert(sha256, caller.clone());
    }

    /// A certificate of this caller, by its SHA-256.
    pub fn add_certificate(&mut self, sha256: Digest, caller: &CallerName) {
        self.certificates.insert(sha256, caller.clone());
    }

    /// All certificates with this subject are this caller's.
    pub fn add_subject(&mut self, subject: Subject, caller: &CallerName) {
        self.subjects.insert(subject, caller.clone());
    }

    /// The processes of this user are this caller's.
    pub fn add_uid(&mut self, uid: u32, caller: &CallerName) {
        self.uids.insert(uid, caller.clone());
    }

    /// Whose it is. A token that is nobody's is not made good by what comes with it; of two that
    /// name callers both must name the same. A certificate that names none counts as not shown.
    fn of(&self, shown: &Shown<'_>) -> Option<&CallerName> {
        let by_connection = shown
            .certificate
            .and_then(|certificate| self.of_certificate(certificate))
            .or_else(|| self.uids.get(&shown.uid?));
        let Some(token) = shown.token else { return by_connection };
        let by_token = self.tokens.get(&(self.reading.sha256)(token.as_bytes()))?;
        by_connection.is_none_or(|other| other == by_token).then_some(by_token)
    }

    fn of_certificate(&self, certificate: &[u8]) -> Option<&CallerName> {
        let by_print = self.certificates.get(&(self.reading.sha256)(certificate));
        by_print.or_else(|| {
            // Nothing is read of it if that could not matter.
            let subject = (self.reading.subject)(certificate).filter(|_| !self.subjects.is_empty());
            self.subjects.get(&subject?)
        })
    }
}

impl PartialEq for Callers {
    fn eq(&self, other: &Callers) -> bool {
        self.tokens == other.tokens
            && self.certificates == other.certificates
            && self.subjects == other.subjects
            && self.uids == other.uids
    }
}

impl Eq for Callers {}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callers")
    }
}

/// Whom a front is for. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doors {
    callers: Arc<Callers>,
    allowed: Arc<BTreeSet<CallerName>>,
}

impl Doors {
    /// A front for these of the callers.
    pub fn new(callers: Arc<Callers>, allowed: impl IntoIterator<Item = CallerName>) -> Doors {
        Doors { callers, allowed: Arc::new(allowed.into_iter().collect()) }
    }

    /// Who shows this, if the front is for that caller.
    pub fn judge(&self, shown: &Shown<'_>) -> Result<CallerName, Stranger> {
        let caller = self.callers.of(shown).ok_or(Stranger::Unknown)?;
        match self.allowed.contains(caller) {
            true => Ok(caller.clone()),
            false => Err(Stranger::NotHere(caller.clone())),
        }
    }

    /// Is it for this one?
    pub fn allows(&self, caller: &CallerName) -> bool {
        self.allowed.contains(caller)
    }

    /// For whom it is.
    pub fn allowed(&self) -> impl Iterator<Item = &CallerName> {
        self.allowed.iter()
    }

    /// Those of the users whose processes are callers that it is for.
    pub fn uids(&self) -> impl Iterator<Item = u32> {
        let allowed = |(_, caller): &(&u32, &CallerName)| self.allowed.contains(*caller);
        self.callers.uids.iter().filter(allowed).map(|(uid, _)| *uid)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// No sum at all, but as good as one where nothing is secret.
    fn sum(bytes: &[u8]) -> Digest {
        let mut sum = [0; 32];
        bytes.iter().zip(&mut sum).for_each(|(byte, place)| *place = *byte);
        sum
    }

    fn subject(certificate: &[u8]) -> Option<Subject> {
        Subject::parse(std::str::from_utf8(certificate).ok()?)
    }

    /// A front for ann and eve, of three callers.
    pub(crate) fn doors() -> Doors {
        let mut callers = Callers::new(Reading { sha256: sum, subject });
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(CallerName::new);
        callers.add_token(sum(b"a"), &ann);
        callers.add_token(sum(b"a2"), &ann);
        callers.add_certificate(sum(b"CN=ann"), &ann);
        callers.add_token(sum(b"b"), &bob);
        callers.add_subject(Subject::parse("CN=bob").unwrap(), &bob);
        callers.add_subject(Subject::parse("CN=ann").unwrap(), &eve);
        callers.add_subject(Subject::parse("CN=eve").unwrap(), &eve);
        callers.add_uid(7, &eve);
        Doors::new(Arc::new(callers), [ann, eve])
    }

    #[test]
    fn a_caller_is_known_by_what_it_shows() {
        let doors = doors();
        for (token, certificate, uid, expected) in [
            (Some("a"), None, None, "ann"),
            (Some("a2"), None, None, "ann"),
            (Some("b"), None, None, "this front is not for caller `bob`"),
            (Some("c"), None, None, "unknown caller"),
            (Some(""), None, None, "unknown caller"),
            (None, None, None, "unknown caller"),
            // Its fingerprint comes before its subject.
            (None, Some("CN=ann"), None, "ann"),
            (None, Some("cn = ann"), None, "eve"),
            (None, Some("CN=eve"), None, "eve"),
            (None, Some("CN=bob"), None, "this front is not for caller `bob`"),
            (None, Some("CN=mallory"), None, "unknown caller"),
            (None, None, Some(7), "eve"),
            (None, None, Some(0), "unknown caller"),
            // Two that name callers must name the same, and one that names none counts only if
            // it is a token.
            (Some("a"), Some("CN=ann"), None, "ann"),
            (Some("a"), Some("CN=eve"), None, "unknown caller"),
            (Some("a"), Some("CN=mallory"), None, "ann"),
            (Some("c"), Some("CN=ann"), None, "unknown caller"),
        ] {
            let certificate = certificate.map(str::as_bytes);
            let judged = doors.judge(&Shown { token, certificate, uid });
            let told = judged.map_or_else(|stranger| stranger.to_string(), |it| it.to_string());
            assert_eq!(told, expected, "{token:?} {certificate:?} {uid:?}");
        }
        assert_eq!(doors.uids().collect::<Vec<_>>(), [7]);
    }
}
