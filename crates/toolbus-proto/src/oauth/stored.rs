//! What is kept of sign-ins and registrations, as the text of files, and what those are called.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};
use thiserror::Error;

use super::document::{BadDocument, DEPTH_MAX, object};
use super::hidden::Hidden;
use super::identity::{ClientIdentity, IdentityFrom, Registration, ShownBy};
use super::settings::Grant;
use super::token::Tokens;

/// The only version that there is.
const VERSION: u64 = 1;

/// One sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SignIn {
    pub server: String,
    pub account: String,
    pub issuer: String,
    pub resource: Option<String>,
    pub identity: ClientIdentity,
    pub token_endpoint: String,
    pub revocation_endpoint: Option<String>,
    pub grant: Grant,
    pub access: Option<Hidden>,
    /// All times in seconds of Unix.
    pub expires_at: Option<u64>,
    pub refresh: Option<Hidden>,
    /// The scopes that were asked for.
    pub asked: Vec<String>,
    /// Those that were given.
    pub scopes: Vec<String>,
    /// Those that the server has wanted since.
    pub wanted: Vec<String>,
    pub who: Option<String>,
    pub signed_in_at: u64,
    pub refreshed_at: Option<u64>,
}

impl SignIn {
    /// Puts what a token endpoint has given in place of what there was.
    pub fn take(&mut self, now: u64, tokens: &Tokens) {
        self.access = Some(tokens.access.clone());
        self.expires_at = tokens.expires_in.map(|seconds| now.saturating_add(seconds));
        if let Some(refresh) = &tokens.refresh {
            self.refresh = Some(refresh.clone());
        }
        if let Some(scopes) = &tokens.scopes {
            self.scopes.clone_from(scopes);
        }
        if tokens.who.is_some() {
            self.who.clone_from(&tokens.who);
        }
    }

    /// The access token, if it has not ended.
    pub fn usable(&self, now: u64) -> Option<&Hidden> {
        self.access.as_ref().filter(|_| self.expires_at.is_none_or(|until| now < until))
    }

    /// Is there a token, or a way to get one without a person?
    pub fn is_signed_in(&self, now: u64) -> bool {
        self.usable(now).is_some() || self.refresh.is_some() || self.grant.is_by_itself()
    }

    /// Its secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &Hidden> {
        [&self.access, &self.refresh, &self.identity.secret].into_iter().flatten()
    }

    /// What its files are called, without an ending.
    pub fn name(&self) -> String {
        let all = [&*self.server, &*self.issuer, &*self.identity.id, &*self.account];
        format!("token-{}", short_digest(&all.join("\n")))
    }

    /// As it is written.
    pub fn to_text(&self) -> String {
        let mut text = WrittenMembers::default();
        text.put("version", VERSION);
        text.put("server", &*self.server);
        text.put("account", &*self.account);
        text.put("issuer", &*self.issuer);
        text.put_some("resource", self.resource.as_deref());
        let mut client = WrittenMembers::default();
        client.put("id", &*self.identity.id);
        client.put_some("secret", self.identity.secret.as_ref().map(Hidden::reveal));
        client.put("auth", self.identity.shown_by.as_str());
        client.put("from", self.identity.from.as_str());
        client.put_some("redirect_uri", self.identity.redirect_uri.as_deref());
        text.put_raw("client", &client.end());
        let mut endpoints = WrittenMembers::default();
        endpoints.put("token", &*self.token_endpoint);
        endpoints.put_some("revocation", self.revocation_endpoint.as_deref());
        text.put_raw("endpoints", &endpoints.end());
        text.put("grant", self.grant.as_str());
        text.put_some("access_token", self.access.as_ref().map(Hidden::reveal));
        text.put_some("expires_at", self.expires_at);
        text.put_some("refresh_token", self.refresh.as_ref().map(Hidden::reveal));
        text.put("asked", self.asked.clone());
        text.put("scopes", self.scopes.clone());
        text.put("wanted", self.wanted.clone());
        text.put_some("who", self.who.as_deref());
        text.put("signed_in_at", self.signed_in_at);
        text.put_some("refreshed_at", self.refreshed_at);
        text.end()
    }

    /// Reads what was written.
    pub fn read(text: &[u8]) -> Result<SignIn, Damaged> {
        let all = StoredMembers(versioned(text)?);
        let client = all.table("client")?;
        let endpoints = all.table("endpoints")?;
        Ok(SignIn {
            server: all.text("server")?,
            account: all.text("account")?,
            issuer: all.text("issuer")?,
            resource: all.some_text("resource")?,
            identity: ClientIdentity {
                id: client.text("id")?,
                secret: client.some_text("secret")?.map(Hidden::new),
                shown_by: client.word("auth", ShownBy::of)?,
                from: client.word("from", IdentityFrom::of)?,
                redirect_uri: client.some_text("redirect_uri")?,
            },
            token_endpoint: endpoints.text("token")?,
            revocation_endpoint: endpoints.some_text("revocation")?,
            grant: all.word("grant", Grant::of)?,
            access: all.some_text("access_token")?.map(Hidden::new),
            expires_at: all.some_number("expires_at")?,
            refresh: all.some_text("refresh_token")?.map(Hidden::new),
            asked: all.texts("asked")?,
            scopes: all.texts("scopes")?,
            wanted: all.texts("wanted")?,
            who: all.some_text("who")?,
            signed_in_at: all.number("signed_in_at")?,
            refreshed_at: all.some_number("refreshed_at")?,
        })
    }
}

impl Registration {
    /// What the file of this issuer's registration is called.
    pub fn file_name(issuer: &str) -> String {
        format!("client-{}.json", short_digest(issuer))
    }

    /// As it is written.
    pub fn to_text(&self) -> String {
        let mut text = WrittenMembers::default();
        text.put("version", VERSION);
        text.put("issuer", &*self.issuer);
        text.put("client_id", &*self.identity.id);
        text.put_some("client_secret", self.identity.secret.as_ref().map(Hidden::reveal));
        text.put("token_endpoint_auth_method", self.identity.shown_by.as_str());
        text.put("redirect_uri", self.identity.redirect_uri.as_deref().unwrap_or_default());
        text.put("registered_at", self.registered_at);
        text.put_some("client_secret_expires_at", self.secret_expires_at);
        text.end()
    }

    /// Reads what was written.
    pub fn read(text: &[u8]) -> Result<Registration, Damaged> {
        let all = StoredMembers(versioned(text)?);
        Ok(Registration {
            issuer: all.text("issuer")?,
            identity: ClientIdentity {
                id: all.text("client_id")?,
                secret: all.some_text("client_secret")?.map(Hidden::new),
                shown_by: all.word("token_endpoint_auth_method", ShownBy::of)?,
                from: IdentityFrom::Registration,
                redirect_uri: Some(all.text("redirect_uri")?),
            },
            registered_at: all.number("registered_at")?,
            secret_expires_at: all.some_number("client_secret_expires_at")?,
        })
    }
}

/// The first 32 hex digits of a text's SHA-256.
fn short_digest(text: &str) -> String {
    let mut hex = String::new();
    for byte in &digest(&SHA256, text.as_bytes()).as_ref()[..16] {
        // Written to a `String`, which cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// WrittenMembers of an object, in the order in which they are put.
#[derive(Default)]
pub struct WrittenMembers(String);

impl WrittenMembers {
    /// Adds one.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.put_raw(name, &value.into().to_string());
    }

    /// Adds one, if there is a value.
    pub fn put_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Adds one whose value is JSON.
    pub fn put_raw(&mut self, name: &str, json: &str) {
        let before = if self.0.is_empty() { '{' } else { ',' };
        self.0.push(before);
        let _ = write!(self.0, "{}:{json}", Value::from(name));
    }

    /// The object.
    pub fn end(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        self.0
    }
}

fn versioned(text: &[u8]) -> Result<Map<String, Value>, Damaged> {
    let members = object(text, DEPTH_MAX)?;
    match members.get("version").and_then(Value::as_u64) {
        Some(VERSION) => Ok(members),
        Some(version) => Err(Damaged::Version { version }),
        None => Err(Damaged::Member { name: "version" }),
    }
}

struct StoredMembers(Map<String, Value>);

impl StoredMembers {
    fn table(&self, name: &'static str) -> Result<StoredMembers, Damaged> {
        let table = self.0.get(name).and_then(Value::as_object);
        table.cloned().map(StoredMembers).ok_or(Damaged::Member { name })
    }

    fn text(&self, name: &'static str) -> Result<String, Damaged> {
        self.some_text(name)?.ok_or(Damaged::Member { name })
    }

    fn some_text(&self, name: &'static str) -> Result<Option<String>, Damaged> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Damaged::Member { name }),
        }
    }

    fn number(&self, name: &'static str) -> Result<u64, Damaged> {
        self.some_number(name)?.ok_or(Damaged::Member { name })
    }

    fn some_number(&self, name: &'static str) -> Result<Option<u64>, Damaged> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or(Damaged::Member { name }),
        }
    }

    fn texts(&self, name: &'static str) -> Result<Vec<String>, Damaged> {
        let wrong = || Damaged::Member { name };
        let texts = self.0.get(name).and_then(Value::as_array).ok_or_else(wrong)?;
        texts.iter().map(|text| text.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
    }

    fn word<T>(&self, name: &'static str, of: fn(&str) -> Option<T>) -> Result<T, Damaged> {
        of(&self.text(name)?).ok_or(Damaged::Member { name })
    }
}

/// Why a file is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Damaged {
    #[error(transparent)]
    Document(#[from] BadDocument),
    #[error("its `{name}` is not there, or not what it should be")]
    Member { name: &'static str },
    #[error("it is of version {version}, which this toolbus does not know")]
    Version { version: u64 },
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::oauth) fn sign_in() -> SignIn {
        SignIn {
            server: "https://a.example/mcp".into(),
            account: String::new(),
            issuer: "https://b.example".into(),
            resource: Some("https://a.example/mcp".into()),
            identity: ClientIdentity {
                id: "c".into(),
                secret: Some(Hidden::new("s3cret")),
                shown_by: ShownBy::Basic,
                from: IdentityFrom::Registration,
                redirect_uri: Some("http://localhost:1/callback".into()),
            },
            token_endpoint: "https://b.example/token".into(),
            revocation_endpoint: None,
            grant: Grant::Code,
            access: Some(Hidden::new("at-1")),
            expires_at: Some(4600),
            refresh: Some(Hidden::new("rt-1")),
            asked: vec!["x".into()],
            scopes: vec!["x".into()],
            wanted: Vec::new(),
            who: None,
            signed_in_at: 1000,
            refreshed_at: None,
        }
    }

    #[test]
    fn a_sign_in_is_read_as_it_was_written() {
        let kept = sign_in();
        assert_eq!(
            kept.to_text(),
            r#"{"version":1,"server":"https://a.example/mcp","account":"","issuer":"https://b.example","resource":"https://a.example/mcp","client":{"id":"c","secret":"s3cret","auth":"client_secret_basic","from":"registration","redirect_uri":"http://localhost:1/callback"},"endpoints":{"token":"https://b.example/token"},"grant":"code","access_token":"at-1","expires_at":4600,"refresh_token":"rt-1","asked":["x"],"scopes":["x"],"wanted":[],"signed_in_at":1000}"#
        );
        assert_eq!(SignIn::read(kept.to_text().as_bytes()), Ok(kept.clone()));
        let shown = format!("{kept:?}");
        for secret in ["s3cret", "at-1", "rt-1"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert_eq!(kept.name().len(), "token-".len() + 32);
        // SHA-256 of the four texts, joined by line feeds.
        let other = SignIn { account: "work".into(), ..kept.clone() };
        assert_ne!(other.name(), kept.name());
    }

    #[test]
    fn what_is_damaged_is_told() {
        let told = |text: &str| SignIn::read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(told("x"), "it is no JSON");
        assert_eq!(told("{}"), "its `version` is not there, or not what it should be");
        assert_eq!(
            told(r#"{"version":2}"#),
            "it is of version 2, which this toolbus does not know"
        );
        let whole = sign_in().to_text();
        for cut in 0..whole.len() {
            assert!(SignIn::read(&whole.as_bytes()[..cut]).is_err(), "cut at {cut}");
        }
        let wrong = whole.replace("\"grant\":\"code\"", "\"grant\":\"magic\"");
        assert_eq!(told(&wrong), "its `grant` is not there, or not what it should be");
    }

    #[test]
    fn a_registration_is_read_as_it_was_written() {
        let kept = Registration {
            issuer: "https://b.example".into(),
            identity: ClientIdentity {
                secret: None,
                shown_by: ShownBy::Name,
                ..sign_in().identity
            },
            registered_at: 5,
            secret_expires_at: None,
        };
        assert_eq!(
            kept.to_text(),
            r#"{"version":1,"issuer":"https://b.example","client_id":"c","token_endpoint_auth_method":"none","redirect_uri":"http://localhost:1/callback","registered_at":5}"#
        );
        assert_eq!(Registration::read(kept.to_text().as_bytes()), Ok(kept));
        assert_eq!(Registration::file_name("x").len(), "client-.json".len() + 32);
    }
}
