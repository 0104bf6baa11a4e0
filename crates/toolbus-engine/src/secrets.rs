//! The secrets that a bus knows, and text without them.
//!
//! Whoever reads a secret (a config, a flag, an address) tells it here once, by [`hide`]. What
//! is ours to say (logs, errors, findings) and what a child says on its standard error goes
//! through [`masked`]. What a tool answers passes as it is. As long as there is no secret, none
//! of it costs anything.
//!
//! Each bus has [secrets](Secrets) of its own, which are those of the [scope](crate::scope) that
//! we are in. What is outside of it, such as the log of the whole process, knows them too; another
//! bus does not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::Failure;

use crate::scope::Scope;

/// What stands in place of a secret, unless [`mask_as`] said otherwise.
pub const MASK: &str = "***";

/// From now on this stands in place of every secret that we know. The first word counts.
pub fn mask_as(mask: &'static str) {
    let _ = Scope::secrets().0.mask.set(mask);
}

/// Shorter than this it is no secret, and half of all text would be masked.
const BYTES_MIN: usize = 4;
/// A line of a secret, or the value of a parameter, must be as long to be one by itself: it may
/// be an ordinary word.
const PART_BYTES_MIN: usize = 8;

/// From now on this is masked, also where it is percent-encoded or stands in JSON, and each long
/// line of it by itself.
pub fn hide(value: &str) {
    Scope::secrets().hide(value);
}

/// The same for a value that may be an ordinary word: only if it is long.
pub fn hide_if_long(value: &str) {
    if PART_BYTES_MIN <= value.len() {
        hide(value);
    }
}

/// The text, without the secrets in it.
pub fn masked(text: &str) -> Cow<'_, str> {
    Scope::secrets().masked(text)
}

/// A value without the secrets in it, however they are escaped there.
pub fn masked_json(value: &Json) -> Cow<'_, Json> {
    Scope::secrets().masked_json(value)
}

/// A failure that we tell others: what it says in our own words is masked, what the peer said
/// passes as it is.
#[inline]
pub(crate) fn mask_failure(down: &mut Down) {
    if let Down::Done(Err(failure)) = down {
        Scope::secrets().mask_failure(failure);
    }
}

/// The secrets that a bus knows, or what is read for one. All clones know the same.
#[derive(Clone, Default)]
pub struct Secrets(Arc<KnownSecrets>);

#[derive(Default)]
struct KnownSecrets {
    /// So that those who know none pay for none.
    has_any: AtomicBool,
    /// Each in every way it may be written.
    spellings: RwLock<Vec<String>>,
    /// What stands in their place, where that is not [`MASK`].
    mask: OnceLock<&'static str>,
    /// Who is told of each of them.
    outside: Option<Secrets>,
}

impl Secrets {
    /// Those outside of all scopes.
    pub(crate) fn of_process() -> &'static Secrets {
        static OF_PROCESS: LazyLock<Secrets> = LazyLock::new(Secrets::default);
        &OF_PROCESS
    }

    /// None yet. Those who are known now will know what these will.
    pub fn within() -> Secrets {
        Secrets(Arc::new(KnownSecrets {
            outside: Some(Scope::secrets()),
            ..KnownSecrets::default()
        }))
    }

    /// From now on what the others know by now is known here, too.
    pub fn learn(&self, others: &Secrets) {
        let spellings = others.spellings().clone();
        self.add(spellings.into_iter());
    }

    fn spellings(&self) -> RwLockReadGuard<'_, Vec<String>> {
        self.0.spellings.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, new: impl Iterator<Item = String>) {
        let mut spellings = self.0.spellings.write().unwrap_or_else(PoisonError::into_inner);
        for spelling in new {
            if !spellings.contains(&spelling) {
                spellings.push(spelling);
            }
        }
        self.0.has_any.store(!spellings.is_empty(), Ordering::Relaxed);
    }

    fn is_empty(&self) -> bool {
        !self.0.has_any.load(Ordering::Relaxed)
    }

    fn hide(&self, value: &str) {
        let value = value.trim();
        let lines = value.lines().map(str::trim).filter(|line| PART_BYTES_MIN <= line.len());
        let secrets = lines.chain([value]).filter(|secret| is_secret(secret));
        let spelled = |secret: &str| [secret.to_owned(), percent_encoded(secret), in_json(secret)];
        self.add(secrets.flat_map(spelled));
        if let Some(outside) = &self.0.outside {
            outside.hide(value);
        }
    }

    fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = if self.is_empty() { Vec::new() } else { self.find(text) };
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut from = 0;
        for Range { start, end } in found {
            masked.push_str(&text[from..start]);
            masked.push_str(self.0.mask.get().copied().unwrap_or(MASK));
            from = end;
        }
        masked.push_str(&text[from..]);
        Cow::Owned(masked)
    }

    /// Where secrets stand, in order. Those that overlap or touch are one, or the rest of one
    /// would be left; where [`mask_as`] was said, the longest counts first.
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let spellings = self.spellings();
        let mut found: Vec<Range<usize>> = Vec::new();
        for spelling in &*spellings {
            found.extend(text.match_indices(&**spelling).map(|(at, it)| at..at + it.len()));
        }
        if self.0.mask.get().is_some() {
            return longest_first(found);
        }
        found.sort_unstable_by_key(|range| range.start);
        found.dedup_by(|next, kept| {
            let touches = next.start <= kept.end;
            if touches {
                kept.end = kept.end.max(next.end);
            }
            touches
        });
        found
    }

    fn mask(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.masked(text) {
            *text = masked;
        }
    }

    fn mask_failure(&self, failure: &mut Failure) {
        if self.is_empty() {
            return;
        }
        if let Some(words) = &mut failure.last_words {
            words.stderr.iter_mut().for_each(|line| self.mask(line));
            words.hint.iter_mut().for_each(|hint| self.mask(hint));
        }
        if failure.from_peer {
            return;
        }
        self.mask(&mut failure.message);
        if let Some(detail) = &mut failure.detail
            && let Cow::Owned(masked) = self.masked_json(detail)
        {
            *detail = masked;
        }
    }

    fn masked_json<'a>(&self, value: &'a Json) -> Cow<'a, Json> {
        if self.is_empty() {
            return Cow::Borrowed(value);
        }
        let plain = plainly_escaped(value.as_str());
        match self.masked(&plain) {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(masked) => {
                // A number that is a secret leaves no JSON behind.
                Cow::Owned(Json::parse(masked).unwrap_or_else(|_| Json::of(MASK)))
            }
        }
    }
}

/// Of those who know the same neither knows more.
impl PartialEq for Secrets {
    fn eq(&self, other: &Secrets) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.spellings() == *other.spellings()
    }
}

impl Eq for Secrets {}

/// Tells none of them.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Those places that are left if the longest is taken first and none may overlap one that was
/// taken, in order.
pub fn longest_first(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|place| (std::cmp::Reverse(place.len()), place.start));
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    for Range { start, end } in found {
        let before = taken.range(..end).next_back();
        if before.is_none_or(|(_, taken_end)| *taken_end <= start) {
            taken.insert(start, end);
        }
    }
    taken.into_iter().map(|(start, end)| start..end).collect()
}

/// Words and numbers that stand in any log are no secrets, wherever they come from.
fn is_secret(value: &str) -> bool {
    const ORDINARY: [&str; 8] =
        ["true", "false", "info", "debug", "error", "warn", "warning", "trace"];
    // The number of a port, or a year.
    let is_number = value.len() <= 5 && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_ordinary = ORDINARY.iter().any(|word| word.eq_ignore_ascii_case(value));
    BYTES_MIN <= value.len() && !is_number && !is_ordinary
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Written to a `String`, which cannot fail.
            _ => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}

/// JSON with the escapes that we would write, so that a text is found by what it means: `\/` and
/// `\u0070` may be written for `/` and `p`.
fn plainly_escaped(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") && !json.contains("\\/") {
        return Cow::Borrowed(json);
    }
    let mut plain = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, escaped)) = rest.split_once('\\') {
        plain.push_str(before);
        let (meant, behind) = match escaped.as_bytes().first() {
            Some(b'/') => (Some('/'), 1),
            Some(b'u') => unit(&escaped[1..]).map_or((None, 1), |unit| match unit {
                0xd800..0xdc00 => {
                    let low = escaped.get(5..).and_then(|low| low.strip_prefix("\\u"));
                    let pair = low.and_then(self::unit).map(|low| [unit, low]);
                    let pair = pair.and_then(|pair| char::decode_utf16(pair).next()?.ok());
                    pair.map_or((None, 1), |pair| (Some(pair), 11))
                }
                unit => (char::from_u32(u32::from(unit)), 5),
            }),
            _ => (None, 1),
        };
        match meant {
            Some(meant) => plain.push_str(&in_json(meant.encode_utf8(&mut [0; 4]))),
            None => {
                plain.push('\\');
                plain.push_str(&escaped[..behind.min(escaped.len())]);
            }
        }
        rest = &escaped[behind.min(escaped.len())..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The four digits of an escape.
fn unit(digits: &str) -> Option<u16> {
    u16::from_str_radix(digits.get(..4)?, 16).ok()
}

/// As it stands between the quotes of a JSON string.
pub fn in_json(text: &str) -> String {
    let quoted = Json::of(text);
    let quoted = quoted.as_str();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use toolbus_proto::tool::{FailureKind, LastWords};

    use super::*;

    fn knowing(secrets: &[&str]) -> Secrets {
        let known = Secrets::default();
        secrets.iter().for_each(|secret| known.hide(secret));
        known
    }

    #[test]
    fn a_secret_is_masked_however_it_is_written() {
        let known = knowing(&[" p4ss w\"rd/1\n"]);
        for (text, expected) in [
            ("it is p4ss w\"rd/1.", "it is ***."),
            ("GET /?key=p4ss%20w%22rd%2F1&x=1", "GET /?key=***&x=1"),
            (r#"{"key":"p4ss w\"rd/1"}"#, r#"{"key":"***"}"#),
            ("p4ss w\"rd/1p4ss w\"rd/1", "***"),
            ("p4ss", "p4ss"),
            ("", ""),
        ] {
            assert_eq!(known.masked(text), expected);
        }
    }

    #[test]
    fn a_secret_is_masked_in_json_however_it_is_escaped() {
        let known = knowing(&["p4ss/\u{1f600}w\"rd", "1234567"]);
        for (text, expected) in [
            (r#"{"key":"p4ss\/\ud83d\uDE00w\u0022r\u0064","a":1.50}"#, r#"{"key":"***","a":1.50}"#),
            (r#"{"key":"\u00704ss/\ud83d\ude00w\"rd\n"}"#, r#"{"key":"***\n"}"#),
            (r#"{"pin":1234567}"#, r#""***""#),
            (r#"["p4ss\\/","\ud83dx","\u0012"]"#, r#"["p4ss\\/","\ud83dx","\u0012"]"#),
        ] {
            let value = Json::from_trusted(text);
            assert_eq!(known.masked_json(&value).as_str(), expected);
        }
    }

    #[test]
    fn of_secrets_that_overlap_nothing_is_left() {
        let known = knowing(&["token", "token-of-mine", "mine-alone"]);
        assert_eq!(known.masked("a token, a token-of-mine-alone"), "a ***, a ***");
    }

    #[test]
    fn two_buses_share_no_secrets() {
        let process = Secrets::default();
        let outside = Scope::current().knowing(process.clone());
        let [one, other] = ["s3cret-of-one", "s3cret-of-other"].map(|secret| {
            let scope = Scope::current().knowing(outside.enter(Secrets::within));
            scope.enter(|| hide(secret));
            scope
        });
        let text = "s3cret-of-one, s3cret-of-other";
        let said = |scope: &Scope| scope.enter(|| masked(text).into_owned());
        assert_eq!(said(&one), "***, s3cret-of-other");
        assert_eq!(said(&other), "s3cret-of-one, ***");
        assert_eq!(said(&outside), "***, ***");
        other.enter(Scope::secrets).learn(&one.enter(Scope::secrets));
        assert_eq!(said(&other), "***, ***");
    }

    #[test]
    fn each_long_line_of_a_secret_is_one() {
        let known = knowing(&["-----BEGIN KEY-----\nMIIEvQIBADAN\nab\n-----END KEY-----"]);
        assert_eq!(known.masked("line: MIIEvQIBADAN ab"), "line: *** ab");
    }

    #[test]
    fn ordinary_words_are_no_secrets() {
        let known = knowing(&["", "abc", "8080", "true", "Info", "  \n"]);
        assert!(known.is_empty());
        assert!(matches!(known.masked("abc true 8080"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_a_peer_says_passes_and_its_last_words_do_not() {
        let known = knowing(&["s3cret"]);
        let words = || LastWords {
            exit: None,
            stderr: vec!["with s3cret".into()],
            hint: Some("it wrote `s3cret`".into()),
            ..LastWords::default()
        };
        let mut ours = Failure::new(FailureKind::Gone, "s3cret").with_last_words(words());
        ours.detail = Some(Json::parse(r#"{"line":"s3cret","at":1}"#).unwrap());
        known.mask_failure(&mut ours);
        assert_eq!(ours.message, "***");
        assert_eq!(ours.detail.unwrap().as_str(), r#"{"line":"***","at":1}"#);
        let told = ours.last_words.unwrap();
        assert_eq!((&*told.stderr[0], told.hint.as_deref()), ("with ***", Some("it wrote `***`")));
        let mut theirs = Failure::new(FailureKind::Failed, "s3cret").with_last_words(words());
        theirs.from_peer = true;
        known.mask_failure(&mut theirs);
        assert_eq!(theirs.message, "s3cret");
        assert_eq!(theirs.last_words.unwrap().stderr, ["with ***"]);
    }
}
