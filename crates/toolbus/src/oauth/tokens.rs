//! `[front.x.oauth]`: whose tokens let callers in by a front, as the config says it, and what is
//! wrong with that.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toolbus_proto::caller::CallerName;
use toolbus_proto::oauth::claims::WantedClaims;
use toolbus_proto::oauth::front::{scopes_needed, scopes_needed_by_any};
use toolbus_proto::oauth::keyset::{Algorithm, KEY_SET_BYTES_MAX, KeySet};
use toolbus_proto::oauth::web::WebUrl;

use crate::bus::config::{BadValue, Key, KeyKind, Values};
use crate::peer::settings::Secret;

const HTTP: &str = "fronts over HTTP";
/// How far clocks may be apart at most, and how long an answer about a token may hold.
const SKEW_MAX: Duration = Duration::from_secs(5 * 60);
const CACHE_MAX: Duration = Duration::from_secs(5 * 60);
const USUAL: Duration = Duration::from_secs(30);

/// The table of a front.
pub(crate) const KEY: Key =
    Key::new("oauth", KeyKind::Table(KEYS), HTTP, "Callers show tokens of a sign-in server")
        .needs_http();

const KEYS: &[Key] = &[
    Key::new("issuer", KeyKind::OneOrMoreTexts, HTTP, "Whose tokens are let in; it must be there"),
    Key::new("url", KeyKind::Text, HTTP, "The front as clients call it; else where it listens"),
    Key::new(
        "audience",
        KeyKind::OneOrMoreTexts,
        HTTP,
        "For whom tokens must be, one of them in `aud`; else the front by its URL",
    ),
    Key::new(
        "jwks",
        KeyKind::Text,
        HTTP,
        "The keys of the issuer, a file or a URL; else where it says itself",
    ),
    Key::new("algorithms", KeyKind::Texts, HTTP, "How tokens may be signed")
        .default("[\"RS256\", \"ES256\", \"EdDSA\"]"),
    Key::new("scopes", KeyKind::Texts, HTTP, "The scopes that every request needs").default("[]"),
    Key::new(
        "scopes_for",
        KeyKind::TextsByName,
        HTTP,
        "The scopes that calls of tools need besides, by patterns of `<back>.<tool>`",
    )
    .default("{}"),
    Key::new(
        "clock_skew",
        KeyKind::DurationOrNone,
        HTTP,
        "How far clocks may be apart, up to `5m`",
    )
    .default("30s"),
    Key::new(
        "introspect",
        KeyKind::TrueOrText,
        HTTP,
        "Where the issuer is asked about every token, or `true`: where it says itself",
    ),
    Key::new("client_id", KeyKind::Text, HTTP, "Who we are when it is asked"),
    Key::new(
        "client_secret",
        KeyKind::Secret,
        HTTP,
        "What shows that, as `${NAME}` or `${file:PATH}`",
    ),
    Key::new(
        "cache",
        KeyKind::DurationOrNone,
        HTTP,
        "How long its answer about a token holds, up to `5m`",
    )
    .default("30s"),
];

/// What a front asks of the tokens that it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontOauth {
    /// Who may have made them; at least one.
    pub(crate) issuers: Vec<String>,
    /// The front as clients call it; else where it listens.
    pub(crate) url: Option<String>,
    /// For whom they must be; else for the front by its URL.
    pub(crate) audience: Option<Vec<String>>,
    /// Where their keys are; else their issuers say.
    pub(crate) jwks: Option<Jwks>,
    /// How they may be signed.
    pub(crate) algorithms: Vec<Algorithm>,
    /// What every request needs.
    pub(crate) scopes: Vec<String>,
    /// What calls of tools need besides, by patterns.
    pub(crate) scopes_for: Vec<(String, Vec<String>)>,
    /// How far clocks may be apart.
    pub(crate) clock_skew: Duration,
    /// Issuers are asked about every token.
    pub(crate) introspect: Option<Introspect>,
    /// How long their answers hold.
    pub(crate) cache: Duration,
}

/// Where keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Jwks {
    /// Here.
    Here(Arc<KeySet>),
    /// At this URL.
    At(String),
}

/// How an issuer is asked about tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Introspect {
    /// Where; else it says itself.
    pub(crate) url: Option<String>,
    /// Who we are to it.
    pub(crate) client_id: String,
    /// By what we show that.
    pub(crate) client_secret: Secret<String>,
}

/// What a front asks of tokens, and whose they are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AskedTokens {
    /// The name of the front.
    pub(crate) front: Arc<str>,
    /// What is asked of them.
    pub(crate) settings: Arc<FrontOauth>,
    /// The callers of the config that are known by tokens, in its order.
    pub(crate) callers: Vec<(CallerName, Arc<WantedClaims>)>,
    /// Those for whom the front is, where callers are told apart.
    pub(crate) allowed: Option<Vec<CallerName>>,
}

impl FrontOauth {
    /// What the values of the table mean; `table` is its name, as in `front.web.oauth`.
    pub(crate) fn read(table: &str, values: &Values) -> Result<FrontOauth, Vec<BadValue>> {
        let mut bad = Mistakes { table, all: Vec::new() };
        let issuers = values.texts("issuer").unwrap_or_default();
        match values.has("issuer") {
            false => bad.say("issuer", |key| format!("`{key}` is missing")),
            true if issuers.is_empty() => bad.empty("issuer"),
            true => issuers.iter().for_each(|issuer| bad.check_url("issuer", issuer)),
        }
        let url = values.text("url");
        url.iter().for_each(|url| bad.check_url("url", url));
        let audience = values.texts("audience");
        if audience.as_ref().is_some_and(Vec::is_empty) {
            bad.empty("audience");
        }
        let algorithms = bad.algorithms(values.texts("algorithms"));
        let jwks = bad.jwks(values, &algorithms);
        if jwks.is_some() && 1 < issuers.len() {
            bad.say("jwks", |key| format!("`{key}` is for one issuer, and there are several"));
        }
        let scopes = values.texts("scopes").unwrap_or_default();
        bad.check_scopes("scopes", &scopes);
        let scopes_for = values.texts_by_name("scopes_for").unwrap_or_default();
        for (pattern, scopes) in &scopes_for {
            if !pattern.contains(['.', '*']) {
                bad.say("scopes_for", |key| format!("`{key}`: `{pattern}` can match no tool"));
            }
            bad.check_scopes("scopes_for", scopes);
        }
        let clock_skew = bad.time(values, "clock_skew", SKEW_MAX);
        let cache = bad.time(values, "cache", CACHE_MAX);
        let introspect = bad.introspect(values);
        match bad.all.is_empty() {
            false => Err(bad.all),
            true => Ok(FrontOauth {
                issuers,
                url,
                audience,
                jwks,
                algorithms,
                scopes,
                scopes_for,
                clock_skew,
                introspect,
                cache,
            }),
        }
    }

    /// What a call of this tool of this back needs, if it needs more than every request does.
    pub(crate) fn needed(&self, back: &str, tool: &str) -> Option<Vec<String>> {
        match self.scopes_for.is_empty() {
            true => None,
            false => scopes_needed(&self.scopes, &self.scopes_for, back, tool),
        }
    }

    /// The same of a call that may reach any tool of this back.
    pub(crate) fn needed_by_any(&self, back: &str) -> Option<Vec<String>> {
        scopes_needed_by_any(&self.scopes, &self.scopes_for, back)
    }
}

/// What is wrong with a table.
struct Mistakes<'a> {
    table: &'a str,
    all: Vec<BadValue>,
}

impl Mistakes<'_> {
    fn say(&mut self, key: &str, message: impl FnOnce(&str) -> String) {
        let message = message(&format!("{}.{key}", self.table));
        self.all.push(BadValue::new(format!("oauth.{key}"), message));
    }

    fn empty(&mut self, key: &str) {
        self.say(key, |key| format!("`{key}` is empty"));
    }

    fn check_url(&mut self, key: &str, url: &str) {
        if let Err(why) = WebUrl::allowed(url) {
            self.say(key, |key| format!("`{key}`: {why}"));
        }
    }

    fn check_scopes(&mut self, key: &str, scopes: &[String]) {
        // What a header field can carry between quotation marks (RFC 6749, 3.3).
        let is_letter = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
        for scope in scopes {
            if scope.is_empty() || !scope.bytes().all(is_letter) {
                self.say(key, |key| format!("`{key}`: `{}` is no scope", scope.escape_debug()));
            }
        }
    }

    fn algorithms(&mut self, given: Option<Vec<String>>) -> Vec<Algorithm> {
        let Some(given) = given else { return Algorithm::ALL.to_vec() };
        if given.is_empty() {
            self.empty("algorithms");
        }
        let mut algorithms = Vec::new();
        for name in given {
            match Algorithm::named(&name) {
                Some(algorithm) => algorithms.push(algorithm),
                None => self.say("algorithms", |key| {
                    format!("`{key}`: algorithm `{}` is not allowed", name.escape_debug())
                }),
            }
        }
        algorithms
    }

    fn jwks(&mut self, values: &Values, algorithms: &[Algorithm]) -> Option<Jwks> {
        let given = values.text("jwks")?;
        if given.contains("://") {
            self.check_url("jwks", &given);
            return Some(Jwks::At(given));
        }
        let read = read_key_file(&values.folder().join(&given), algorithms);
        match read {
            Ok(keys) => Some(Jwks::Here(Arc::new(keys))),
            Err(why) => {
                self.say("jwks", |key| format!("`{key}`: `{given}`: {why}"));
                None
            }
        }
    }

    fn time(&mut self, values: &Values, name: &str, most: Duration) -> Duration {
        let time = values.duration(name).unwrap_or(USUAL);
        if most < time {
            self.say(name, |key| format!("`{key}` can be at most `5m`"));
        }
        time
    }

    fn introspect(&mut self, values: &Values) -> Option<Introspect> {
        let url = match (values.text("introspect"), values.bool("introspect")) {
            (Some(url), _) => Some(url),
            (None, Some(true)) => None,
            _ => return None,
        };
        url.iter().for_each(|url| self.check_url("introspect", url));
        let (client_id, client_secret) = (values.text("client_id"), values.secret("client_secret"));
        for (name, is_there) in
            [("client_id", client_id.is_some()), ("client_secret", client_secret.is_some())]
        {
            if !is_there {
                self.say("introspect", |key| format!("`{key}` needs `{name}`"));
            }
        }
        Some(Introspect { url, client_id: client_id?, client_secret: client_secret? })
    }
}

fn read_key_file(path: &Path, algorithms: &[Algorithm]) -> Result<KeySet, String> {
    let told = |error: std::io::Error| format!("it cannot be read: {error}");
    if KEY_SET_BYTES_MAX as u64 * 2 < fs::metadata(path).map_err(told)?.len() {
        return Err("it is too large for a set of keys".to_owned());
    }
    let text = fs::read(path).map_err(told)?;
    KeySet::read_file(&text, algorithms).map_err(|why| why.to_string())
}
