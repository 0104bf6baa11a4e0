//! `[caller.x]`: by what a caller is known, what it sees and how often it may call; and the limits
//! that callers, fronts and backs have in common.

use sha2::{Digest as _, Sha256};
use toolbus_proto::caller::{CallerName, Digest, Subject};
use toolbus_proto::limit::{CALLS_MAX, Limits, Rate};
#[cfg(feature = "oauth")]
use toolbus_proto::oauth::claims::WantedClaims;
use toolbus_proto::view::Pattern;

use super::CallerConfig;
use super::error::Problem;
use super::keys::{Entry, Fault, Keys};
use super::views::pattern;
use crate::units;

/// One caller. What is wrong with it is noted.
pub(super) fn caller(entry: &Entry<'_>) -> Result<Option<CallerConfig>, Fault> {
    let mut keys = entry.keys()?;
    let token = |entry: &Entry<'_>| {
        entry.secret().map(|token| Sha256::digest(token.reveal().as_bytes()).into())
    };
    let mut caller = CallerConfig::new(CallerName::new(entry.name));
    let mut tokens = keys.take("token", |entry| each(entry, token)).unwrap_or_default();
    caller.known_by("token", tokens.len());
    let sums = keys.take("token_sha256", |entry| each(entry, |entry| digest(entry, false)));
    let sums = sums.unwrap_or_default();
    caller.known_by("token_sha256", sums.len());
    tokens.extend(sums);
    let certificates = keys.take("cert_sha256", |entry| each(entry, |entry| digest(entry, true)));
    let certificates = certificates.unwrap_or_default();
    caller.known_by("cert_sha256", certificates.len());
    let subjects = keys.take("cert_subject", |entry| each(entry, subject)).unwrap_or_default();
    caller.known_by("cert_subject", subjects.len());
    let uids = keys.take("uid", |entry| each(entry, uid)).unwrap_or_default();
    caller.known_by("uid", uids.len());
    #[cfg(feature = "oauth")]
    {
        caller.oauth = keys.take("oauth", wanted).map(std::sync::Arc::new);
        caller.known_by("oauth", usize::from(caller.oauth.is_some()));
    }
    caller.view = keys.take("view", Entry::string);
    caller.limits = limits(&mut keys);
    caller.limits_by_pattern = keys.take("limit", limits_by_pattern).unwrap_or_default();
    keys.finish();
    Ok(Some(CallerConfig { tokens, certificates, subjects, uids, ..caller }))
}

/// `rate` and `in_flight` of a caller, a front or a back.
pub(super) fn limits(keys: &mut Keys<'_>) -> Limits {
    Limits { rate: keys.take("rate", rate), in_flight: keys.take("in_flight", in_flight) }
}

fn limits_by_pattern(entry: &Entry<'_>) -> Result<Vec<(Pattern, Limits)>, Fault> {
    let key = &entry.path;
    let one = |entry: &Entry<'_>| {
        let pattern = pattern(entry, key, entry.name);
        let limits = entry.keys().map(|mut keys| {
            let limits = limits(&mut keys);
            keys.finish();
            limits
        });
        let faults = entry.source.faults;
        Some((faults.noted(pattern)?, faults.noted(limits)?))
    };
    let mut limits: Vec<_> = entry.entries()?.iter().filter_map(one).collect();
    limits.sort_by_key(|(pattern, _)| pattern.to_string());
    Ok(limits)
}

fn rate(entry: &Entry<'_>) -> Result<Rate, Fault> {
    let text = entry.string()?;
    let read = || {
        let (calls, time) = text.split_once('/')?;
        let is_number = !calls.is_empty() && calls.bytes().all(|byte| byte.is_ascii_digit());
        let calls = calls.parse().ok().filter(|_| is_number)?;
        let has_unit = time.ends_with(|last: char| last.is_ascii_alphabetic());
        let time = units::duration(time).ok().filter(|_| has_unit)?;
        Rate::new(calls, time, &text)
    };
    read()
        .ok_or_else(|| entry.fault(Problem::NoRate { key: entry.path.clone(), text: text.clone() }))
}

fn in_flight(entry: &Entry<'_>) -> Result<u32, Fault> {
    let count = entry.integer().and_then(|count| u32::try_from(count).ok());
    let count = count.filter(|count| (1..=CALLS_MAX).contains(count));
    count.ok_or_else(|| entry.wrong_type("a whole number from 1 to 1000000"))
}

/// The SHA-256 of something, as it is printed.
fn digest(entry: &Entry<'_>, may_have_colons: bool) -> Result<Digest, Fault> {
    let wrong = || entry.wrong_type("64 hexadecimal digits");
    let text = entry.value.as_str().ok_or_else(wrong)?;
    let digits: Vec<u8> = text.bytes().filter(|byte| !(may_have_colons && *byte == b':')).collect();
    let nibble = |byte: &u8| char::from(*byte).to_digit(16);
    let nibbles: Option<Vec<u32>> = digits.iter().map(nibble).collect();
    let nibbles = nibbles.filter(|nibbles| nibbles.len() == 64).ok_or_else(wrong)?;
    let mut digest = Digest::default();
    for (byte, pair) in digest.iter_mut().zip(nibbles.chunks(2)) {
        *byte = u8::try_from(pair[0] << 4 | pair[1]).map_err(|_| wrong())?;
    }
    Ok(digest)
}

fn subject(entry: &Entry<'_>) -> Result<Subject, Fault> {
    let expected = "the subject of a certificate, as in \"O=Tools, CN=ann\"";
    Subject::parse(&entry.string()?).ok_or_else(|| entry.wrong_type(expected))
}

fn uid(entry: &Entry<'_>) -> Result<u32, Fault> {
    let uid = entry.integer().and_then(|uid| u32::try_from(uid).ok());
    uid.ok_or_else(|| entry.wrong_type("the number of a user, or an array of them"))
}

/// Of which tokens of sign-in servers it is known. What is not there says nothing.
#[cfg(feature = "oauth")]
fn wanted(entry: &Entry<'_>) -> Result<WantedClaims, Fault> {
    let mut keys = entry.keys()?;
    let wanted = WantedClaims {
        issuer: keys.take("issuer", some_of).unwrap_or_default(),
        sub: keys.take("sub", some_of).unwrap_or_default(),
        scope: keys.take("scope", some_of).unwrap_or_default(),
        claims: keys.take("claims", claims).unwrap_or_default(),
    };
    keys.finish();
    // An empty array of texts is a mistake of its own.
    match entry.entries()?.is_empty() {
        true => Err(entry.fault(Problem::Empty { key: entry.path.clone() })),
        false => Ok(wanted),
    }
}

#[cfg(feature = "oauth")]
fn claims(entry: &Entry<'_>) -> Result<Vec<(String, Vec<String>)>, Fault> {
    let entries = entry.entries()?;
    if entries.is_empty() {
        return Err(entry.fault(Problem::Empty { key: entry.path.clone() }));
    }
    let one = |entry: &Entry<'_>| {
        Some((entry.name.to_owned(), entry.source.faults.noted(some_of(entry))?))
    };
    Ok(entries.iter().filter_map(one).collect())
}

/// A text or an array of them, of which there is at least one: none would say nothing.
#[cfg(feature = "oauth")]
fn some_of(entry: &Entry<'_>) -> Result<Vec<String>, Fault> {
    let texts = entry.one_or_more()?;
    match texts.is_empty() {
        true => Err(entry.fault(Problem::Empty { key: entry.path.clone() })),
        false => Ok(texts),
    }
}

/// One value, or an array of them.
fn each<T>(
    entry: &Entry<'_>,
    read: impl Fn(&Entry<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    match entry.elements() {
        None => read(entry).map(|only| vec![only]),
        Some(elements) => {
            // Named by its key alone, as it would be if it were the only one.
            let read = |element: Entry<'_>| read(&element.called(&entry.path));
            Ok(elements
                .into_iter()
                .filter_map(|element| entry.source.faults.noted(read(element)))
                .collect())
        }
    }
}
