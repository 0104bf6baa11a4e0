//! Who asks: an API key, or tokens of ChatGPT that can be renewed. What a file of credentials
//! says, what it says afterwards, and what is never shown.

use std::borrow::Cow;

use super::turn::quoted;
use super::usage::with_last;
use super::wire::{Object, an_object, some_text};
use crate::collect::from_base64;
use crate::json::{Json, Kind, edit};

/// What a request is signed with.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// Nothing.
    #[default]
    None,
    /// An API key.
    Key(String),
    /// Tokens of ChatGPT.
    Chatgpt(Tokens),
}

/// Tokens of ChatGPT.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens {
    /// What requests are signed with.
    pub access_token: String,
    /// What another one is asked for with.
    pub refresh_token: Option<String>,
    /// Whose account it is.
    pub account_id: Option<String>,
    /// A new one, as it came with the last renewal.
    id_token: Option<String>,
}

// Secrets are in no log, also by accident.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credential::None => "None",
            Credential::Key(_) => "Key(***)",
            Credential::Chatgpt(_) => "Chatgpt(***)",
        })
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens(***)")
    }
}

impl Credential {
    /// Reads a file of credentials, or says what is wrong with it.
    pub fn of_file(text: &str) -> Result<Credential, &'static str> {
        let json = Json::parse(text.to_owned()).map_err(|_| "it is not JSON")?;
        if json.kind() != Kind::Object {
            return Err("it is no JSON object");
        }
        let [mode, key, tokens] =
            edit::pick(json.as_str(), ["auth_mode", "OPENAI_API_KEY", "tokens"]);
        let mode = some_text(mode).unwrap_or_default();
        let is_key_mode = matches!(&*mode, "api_key" | "apikey");
        let key = some_text(key).map(Cow::into_owned).filter(|key| !key.trim().is_empty());
        match Tokens::read(an_object(tokens)).filter(|_| !is_key_mode) {
            Some(tokens) => Ok(Credential::Chatgpt(tokens)),
            None => key.map(Credential::Key).ok_or("it has neither tokens nor a key"),
        }
    }

    /// What stands in `Authorization`.
    pub(super) fn bearer(&self) -> Option<String> {
        match self {
            Credential::None => None,
            Credential::Key(key) => Some(format!("Bearer {key}")),
            Credential::Chatgpt(tokens) => Some(format!("Bearer {}", tokens.access_token)),
        }
    }

    /// What must never be shown.
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add(self);
        secrets
    }
}

impl Tokens {
    fn read(raw: Option<&str>) -> Option<Tokens> {
        let [access, refresh, account, id_token] =
            edit::pick(raw?, ["access_token", "refresh_token", "account_id", "id_token"]);
        let text = |raw| some_text(raw).map(Cow::into_owned);
        Some(Tokens {
            access_token: text(access)?,
            refresh_token: text(refresh),
            account_id: text(account).or_else(|| account_of(id_token)),
            id_token: None,
        })
    }

    /// The body that asks for new ones, if they can be renewed.
    pub(super) fn refresh_body(&self) -> Option<Vec<u8>> {
        let refresh_token = self.refresh_token.as_deref()?;
        let mut text = Vec::new();
        let mut body = Object::begin(&mut text);
        body.text("client_id", "app_EMoamEEZ73f0CkXaXp7hrann");
        body.text("grant_type", "refresh_token").text("refresh_token", refresh_token);
        body.text("scope", "openid profile email");
        body.end();
        Some(text)
    }

    /// These with what the answer to [`Tokens::refresh_body`] says.
    pub(super) fn refreshed(&self, answer: &[u8]) -> Option<Tokens> {
        let answer = Json::parse(answer.to_vec()).ok()?;
        let [access, refresh, id_token] =
            edit::pick(answer.as_str(), ["access_token", "refresh_token", "id_token"]);
        let text = |raw| some_text(raw).map(Cow::into_owned);
        Some(Tokens {
            access_token: text(access)?,
            refresh_token: text(refresh).or_else(|| self.refresh_token.clone()),
            account_id: self.account_id.clone().or_else(|| account_of(id_token)),
            id_token: text(id_token),
        })
    }

    /// A file of credentials with these in place of its old ones and every other member kept.
    pub fn rewritten(&self, file: &str) -> Option<String> {
        let file = Json::parse(file.to_owned()).ok().filter(|json| json.kind() == Kind::Object)?;
        let mut tokens =
            an_object(edit::member(file.as_str(), "tokens")).unwrap_or("{}").to_owned();
        for (name, value) in [
            ("access_token", Some(&self.access_token)),
            ("refresh_token", self.refresh_token.as_ref()),
            ("id_token", self.id_token.as_ref()),
        ] {
            if let Some(value) = value {
                tokens = with_last(&tokens, name, &quoted(value));
            }
        }
        Some(with_last(file.as_str(), "tokens", &tokens))
    }
}

/// Whose account a token is of: as an object says, or as a JWT does, which is not verified.
fn account_of(id_token: Option<&str>) -> Option<String> {
    if let Some(object) = an_object(id_token) {
        return some_text(edit::member(object, "chatgpt_account_id")).map(Cow::into_owned);
    }
    let jwt = some_text(id_token)?;
    let payload = jwt.split('.').nth(1)?;
    let mut standard = payload.replace('-', "+").replace('_', "/");
    while !standard.len().is_multiple_of(4) {
        standard.push('=');
    }
    let claims = Json::parse(from_base64(&standard)?).ok()?;
    let claims = an_object(edit::member(claims.as_str(), "https://api.openai.com/auth"))?;
    some_text(edit::member(claims, "chatgpt_account_id")).map(Cow::into_owned)
}

/// Texts that are never shown.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

/// Shorter ones would hide words that mean something else.
const SECRET_CHARS_MIN: usize = 8;

impl Secrets {
    /// Those of this one, too.
    pub fn add(&mut self, credential: &Credential) {
        let texts = match credential {
            Credential::None => [None, None],
            Credential::Key(key) => [Some(key), None],
            Credential::Chatgpt(tokens) => {
                [Some(&tokens.access_token), tokens.refresh_token.as_ref()]
            }
        };
        for text in texts.into_iter().flatten() {
            if SECRET_CHARS_MIN <= text.chars().count() && !self.0.contains(text) {
                self.0.push(text.clone());
            }
        }
        // The longest first: one may be a part of another.
        self.0.sort_by_key(|text| std::cmp::Reverse(text.len()));
    }

    /// The text with `***` in place of each.
    pub fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for secret in &self.0 {
            if masked.contains(secret.as_str()) {
                masked = Cow::Owned(masked.replace(secret.as_str(), "***"));
            }
        }
        masked
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says() {
        let read = |text: &str| match Credential::of_file(text) {
            Ok(Credential::Key(key)) => key,
            Ok(Credential::Chatgpt(tokens)) => {
                format!("{} {:?}", tokens.access_token, tokens.account_id)
            }
            Ok(Credential::None) => "none".into(),
            Err(why) => why.to_owned(),
        };
        assert_eq!(read("{"), "it is not JSON");
        assert_eq!(read("[]"), "it is no JSON object");
        assert_eq!(read(r#"{"tokens":{}}"#), "it has neither tokens nor a key");
        assert_eq!(
            read(r#"{"auth_mode":"apikey","OPENAI_API_KEY":"k","tokens":{"access_token":"t"}}"#),
            "k"
        );
        assert_eq!(read(r#"{"OPENAI_API_KEY":"k","tokens":{"access_token":"t"}}"#), "t None");
        assert_eq!(
            read(r#"{"tokens":{"access_token":"t","id_token":{"chatgpt_account_id":"a"}}}"#),
            r#"t Some("a")"#
        );
        // {"https://api.openai.com/auth":{"chatgpt_account_id":"acct_é?"}}
        let claims = r#"{"https://api.openai.com/auth":{"chatgpt_account_id":"acct_é??>"}}"#;
        let payload = crate::collect::base64(claims.as_bytes());
        let payload = payload.replace('+', "-").replace('/', "_").replace('=', "");
        let file = format!(r#"{{"tokens":{{"access_token":"t","id_token":"h.{payload}.s"}}}}"#);
        assert_eq!(read(&file), r#"t Some("acct_é??>")"#);
        let odd = r#"{"tokens":{"access_token":"t","id_token":"j.w.t"}}"#;
        assert_eq!(read(odd), "t None");
    }

    #[test]
    fn a_file_is_rewritten_and_nothing_else_is_lost() {
        let file =
            r#"{ "x": 1.0, "tokens": {"access_token":"a","other":[ ],"refresh_token":"r"} }"#;
        let Ok(Credential::Chatgpt(tokens)) = Credential::of_file(file) else { panic!("tokens") };
        assert!(tokens.refreshed(b"{}").is_none());
        let tokens = tokens.refreshed(br#"{"access_token":"a2","id_token":"i"}"#).unwrap();
        assert_eq!(
            tokens.rewritten(file).unwrap(),
            r#"{ "x": 1.0, "tokens": {"access_token":"a2","other":[ ],"refresh_token":"r","id_token":"i"} }"#
        );
    }

    #[test]
    fn secrets_are_never_shown() {
        let mut secrets = Credential::Key("sk-12345678".into()).secrets();
        secrets.add(&Credential::Key("short".into()));
        assert_eq!(secrets.masked("a sk-12345678 short"), "a *** short");
        assert_eq!(format!("{:?}", Credential::Key("sk".into())), "Key(***)");
    }
}
