//! What is asked of a token endpoint, and what its answers mean.

use serde_json::{Map, Value};
use thiserror::Error;

use super::base64url::from_base64url;
use super::challenge::words;
use super::document::{BadDocument, DEPTH_MAX, object};
use super::hidden::Hidden;
use super::identity::TokenForm;
use crate::printable::printable;

/// A token may be so long.
const TOKEN_BYTES_MAX: usize = 16384;
/// What is shown of what a sign-in server says.
const SHOWN_CHARS_MAX: usize = 500;
/// The grant by which someone else answers for us (RFC 7523).
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// What a token endpoint has given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Tokens {
    pub access: Hidden,
    pub refresh: Option<Hidden>,
    /// In seconds from the answer on; `None` if nothing is known.
    pub expires_in: Option<u64>,
    /// `None`: as asked.
    pub scopes: Option<Vec<String>>,
    /// Who has signed in, as far as the server says.
    pub who: Option<String>,
}

/// The request by which a code becomes a token.
pub fn by_code(
    code: &str,
    redirect_uri: &str,
    verifier: &str,
    resource: Option<&str>,
) -> TokenForm {
    with_resource(
        TokenForm::of([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        ]),
        resource,
    )
}

/// The request for the next token.
pub fn by_refresh(refresh_token: &str, resource: Option<&str>) -> TokenForm {
    let pairs = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    with_resource(TokenForm::of(pairs), resource)
}

/// The request of a client for itself.
pub fn by_itself(scopes: &[String], resource: Option<&str>) -> TokenForm {
    with_scopes(
        with_resource(TokenForm::of([("grant_type", "client_credentials")]), resource),
        scopes,
    )
}

/// The request by what someone else says of us.
pub fn by_assertion(assertion: &str, scopes: &[String], resource: Option<&str>) -> TokenForm {
    let form = TokenForm::of([("grant_type", JWT_BEARER), ("assertion", assertion)]);
    with_scopes(with_resource(form, resource), scopes)
}

fn with_resource(mut form: TokenForm, resource: Option<&str>) -> TokenForm {
    if let Some(resource) = resource {
        form.put("resource", resource);
    }
    form
}

fn with_scopes(mut form: TokenForm, scopes: &[String]) -> TokenForm {
    if !scopes.is_empty() {
        form.put("scope", &scopes.join(" "));
    }
    form
}

/// Reads what a token endpoint has answered.
pub fn read(status: u16, body: &[u8]) -> Result<Tokens, AnswerError> {
    if let Some(refused) = AnswerError::of_body(body) {
        return Err(refused);
    }
    if !(200..300).contains(&status) {
        return Err(AnswerError::Status { status });
    }
    let members = object(body, DEPTH_MAX)?;
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    if let Some(kind) = members.get("token_type").filter(|kind| !kind.is_null()) {
        let kind = kind.as_str().map_or_else(|| kind.to_string(), str::to_owned);
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(AnswerError::Type { kind: shown(&kind) });
        }
    }
    let access = text("access_token").ok_or(AnswerError::Missing)?;
    let is_usable = |token: &str| {
        (1..=TOKEN_BYTES_MAX).contains(&token.len())
            && token.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
    };
    if !is_usable(access) {
        return Err(AnswerError::Unusable);
    }
    let refresh = text("refresh_token").filter(|token| !token.is_empty()).map(Hidden::new);
    Ok(Tokens {
        access: Hidden::new(access),
        refresh,
        expires_in: members.get("expires_in").and_then(seconds),
        scopes: text("scope").map(words),
        who: text("id_token").and_then(who),
    })
}

/// A number, or a text of digits.
fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let seconds = number.as_f64().filter(|seconds| (0.0..1e15).contains(seconds))?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "looked at"
            )]
            Some(seconds as u64)
        }),
        Value::String(text) => {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten()
        }
        _ => None,
    }
}

/// Whom an `id_token` tells of. It came from the server over the connection that we made, so its
/// signature says no more.
fn who(id_token: &str) -> Option<String> {
    let claims = from_base64url(id_token.split('.').nth(1)?)?;
    let claims: Map<String, Value> = object(&claims, DEPTH_MAX).ok()?;
    let named = ["email", "preferred_username", "sub"].into_iter();
    let named = named.filter_map(|name| claims.get(name)?.as_str());
    named.filter(|name| !name.is_empty()).map(shown).next()
}

pub(super) fn shown(text: &str) -> String {
    printable(text.as_bytes(), SHOWN_CHARS_MAX)
}

/// A description behind an error, if there is one.
pub(super) fn behind(description: &str) -> String {
    match description.is_empty() {
        true => String::new(),
        false => format!(": {description}"),
    }
}

/// Why an answer gives no token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum AnswerError {
    #[error("the sign-in server refused: {error}{}", behind(description))]
    Refused { error: String, description: String },
    #[error("the sign-in server answered with HTTP status {status}")]
    Status { status: u16 },
    #[error("what the sign-in server answered cannot be used: {0}")]
    Document(#[from] BadDocument),
    #[error("the sign-in server gives tokens of the type `{kind}`, which toolbus does not know")]
    Type { kind: String },
    #[error("what the sign-in server answered has no `access_token`")]
    Missing,
    #[error("the `access_token` of the sign-in server can be no token")]
    Unusable,
}

impl AnswerError {
    /// What the body of an answer refuses, whatever its status.
    pub(super) fn of_body(body: &[u8]) -> Option<AnswerError> {
        let members = object(body, DEPTH_MAX).ok()?;
        let error = members.get("error")?.as_str()?;
        let description = members.get("error_description").and_then(Value::as_str);
        let description = shown(description.unwrap_or_default());
        Some(AnswerError::Refused { error: shown(error), description })
    }

    /// The server has said no, by this word.
    pub fn refused(&self) -> Option<&str> {
        match self {
            AnswerError::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Does it not know the client, or not let it do this?
    pub fn is_about_client(&self) -> bool {
        matches!(self.refused(), Some("invalid_client" | "unauthorized_client"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::base64url::base64url;

    fn told(status: u16, body: &str) -> String {
        match read(status, body.as_bytes()) {
            Ok(tokens) => {
                let Tokens { access, refresh, expires_in, scopes, who } = tokens;
                let refresh = refresh.map(|token| token.reveal().to_owned());
                format!("{} {refresh:?} {expires_in:?} {scopes:?} {who:?}", access.reveal())
            }
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn an_answer_may_be_short() {
        assert_eq!(told(200, r#"{"access_token":"a"}"#), "a None None None None");
        let whole = r#"{"access_token":"a","token_type":"bEARER","expires_in":"3600","refresh_token":"r","scope":"x y x"}"#;
        assert_eq!(told(200, whole), r#"a Some("r") Some(3600) Some(["x", "y"]) None"#);
        assert!(told(200, r#"{"access_token":"a","expires_in":59.5}"#).contains("Some(59)"));
        assert!(told(200, r#"{"access_token":"a","expires_in":"1h"}"#).contains("None None"));
    }

    #[test]
    fn an_error_is_one_whatever_the_status() {
        let refused = r#"{"error":"invalid_grant","error_description":"used\u0007"}"#;
        let expected = "the sign-in server refused: invalid_grant: used\\x07";
        assert_eq!(told(200, refused), expected);
        assert_eq!(told(400, refused), expected);
        assert_eq!(told(400, r#"{"error":"x"}"#), "the sign-in server refused: x");
        assert_eq!(told(500, "oops"), "the sign-in server answered with HTTP status 500");
    }

    #[test]
    fn what_is_no_token_is_not_taken() {
        assert_eq!(
            told(200, r#"{"access_token":"a","token_type":"DPoP"}"#),
            "the sign-in server gives tokens of the type `DPoP`, which toolbus does not know"
        );
        let unusable = "the `access_token` of the sign-in server can be no token";
        assert_eq!(told(200, r#"{"access_token":""}"#), unusable);
        assert_eq!(told(200, r#"{"access_token":"a\nb"}"#), unusable);
        let long = format!(r#"{{"access_token":"{}"}}"#, "a".repeat(16385));
        assert_eq!(told(200, &long), unusable);
        assert!(told(200, r#"{"access_token":"a","access_token":"b"}"#).contains("twice"));
        assert!(told(200, "{}").contains("no `access_token`"));
    }

    #[test]
    fn who_signed_in_is_in_the_id_token() {
        let with = |claims: &str| {
            let id_token = format!("e30.{}.x", base64url(claims.as_bytes()));
            let body = format!(r#"{{"access_token":"a","id_token":"{id_token}"}}"#);
            read(200, body.as_bytes()).unwrap().who
        };
        assert_eq!(
            with(r#"{"sub":"1","email":"ann@x.example"}"#).as_deref(),
            Some("ann@x.example")
        );
        assert_eq!(with(r#"{"sub":"1","preferred_username":"ann"}"#).as_deref(), Some("ann"));
        assert_eq!(with(r#"{"sub":"1"}"#).as_deref(), Some("1"));
        assert_eq!(with("[]"), None);
    }

    #[test]
    fn requests_are_forms() {
        let form = by_code("c/1", "http://localhost:1/callback", "v", Some("https://a/mcp"));
        assert_eq!(
            form.body(),
            "grant_type=authorization_code&code=c%2F1&redirect_uri=http%3A%2F%2Flocalhost%3A1%2Fcallback&code_verifier=v&resource=https%3A%2F%2Fa%2Fmcp"
        );
        assert_eq!(by_refresh("r", None).body(), "grant_type=refresh_token&refresh_token=r");
        let scopes = ["a".to_owned(), "b".to_owned()];
        assert_eq!(by_itself(&scopes, None).body(), "grant_type=client_credentials&scope=a%20b");
        assert!(!format!("{form:?}").contains("c/1"));
    }
}
