//! Who we are to a sign-in server: a client that was registered before, a document, or a
//! registration of our own (RFC 7591); and how its token endpoint is shown that.

use serde_json::Value;
use thiserror::Error;

use super::document::{BadDocument, DEPTH_MAX, object};
use super::hidden::Hidden;
use super::metadata::ServerMetadata;
use super::settings::SignInSettings;
use super::signing::{BadKey, SigningKey};
use super::token::AnswerError;
use super::web::encoded;
use crate::collect::base64;

/// How a token endpoint is shown who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownBy {
    /// By the name alone.
    Name,
    /// By the secret, in a header.
    Basic,
    /// By the secret, in the body.
    Post,
    /// By a signature.
    Signature,
}

impl ShownBy {
    /// As metadata, registrations and the store have it.
    pub fn as_str(self) -> &'static str {
        match self {
            ShownBy::Name => "none",
            ShownBy::Basic => "client_secret_basic",
            ShownBy::Post => "client_secret_post",
            ShownBy::Signature => "private_key_jwt",
        }
    }

    /// The one of that name.
    pub fn of(name: &str) -> Option<ShownBy> {
        let all = [ShownBy::Name, ShownBy::Basic, ShownBy::Post, ShownBy::Signature];
        all.into_iter().find(|by| by.as_str() == name)
    }
}

/// Where a client id comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityFrom {
    /// The user.
    Config,
    /// It is the URL of a document.
    Metadata,
    /// The sign-in server gave it to us.
    Registration,
}

impl IdentityFrom {
    /// As the store has it.
    pub fn as_str(self) -> &'static str {
        match self {
            IdentityFrom::Config => "config",
            IdentityFrom::Metadata => "metadata",
            IdentityFrom::Registration => "registration",
        }
    }

    /// The one of that name.
    pub fn of(name: &str) -> Option<IdentityFrom> {
        let all = [IdentityFrom::Config, IdentityFrom::Metadata, IdentityFrom::Registration];
        all.into_iter().find(|from| from.as_str() == name)
    }
}

/// Who we are to one sign-in server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ClientIdentity {
    pub id: String,
    pub secret: Option<Hidden>,
    pub shown_by: ShownBy,
    pub from: IdentityFrom,
    /// Where browsers are sent back to, where that is fixed.
    pub redirect_uri: Option<String>,
}

/// Who we may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whoever {
    /// This one.
    Known(ClientIdentity),
    /// It has to be registered here.
    Register {
        /// Where.
        endpoint: String,
    },
    /// The user has to say.
    Ask,
}

/// Who we are, in the order of the standard. `kept` is a registration with this very issuer.
pub fn choose(
    settings: &SignInSettings,
    server: &ServerMetadata,
    kept: Option<&Registration>,
) -> Whoever {
    if let Some(id) = &settings.client_id {
        let redirect_uri = settings.redirect.as_ref().map(super::settings::Redirect::url);
        let secret = settings.client_secret.clone();
        let has_key = settings.private_key.is_some();
        return Whoever::Known(ClientIdentity {
            redirect_uri,
            ..given(id, secret, has_key, server)
        });
    }
    if let Some(url) = &settings.client_metadata_url
        && server.client_id_metadata_document_supported
    {
        return Whoever::Known(ClientIdentity {
            id: url.clone(),
            secret: None,
            shown_by: match settings.private_key {
                Some(_) => ShownBy::Signature,
                None => ShownBy::Name,
            },
            from: IdentityFrom::Metadata,
            redirect_uri: settings.redirect.as_ref().map(super::settings::Redirect::url),
        });
    }
    match (kept, &server.registration_endpoint) {
        (Some(kept), _) => Whoever::Known(kept.identity.clone()),
        (None, Some(endpoint)) => Whoever::Register { endpoint: endpoint.clone() },
        (None, None) => Whoever::Ask,
    }
}

/// A client that the user names.
pub fn given(
    id: &str,
    secret: Option<Hidden>,
    has_key: bool,
    server: &ServerMetadata,
) -> ClientIdentity {
    let listed = server.token_endpoint_auth_methods_supported.as_ref();
    let lists = |by: ShownBy| listed.is_none_or(|all| all.iter().any(|it| it == by.as_str()));
    let shown_by = match &secret {
        _ if has_key => ShownBy::Signature,
        Some(_) if !lists(ShownBy::Basic) && lists(ShownBy::Post) => ShownBy::Post,
        Some(_) => ShownBy::Basic,
        None => ShownBy::Name,
    };
    let from = IdentityFrom::Config;
    ClientIdentity { id: id.to_owned(), secret, shown_by, from, redirect_uri: None }
}

/// What a sign-in server has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Registration {
    pub issuer: String,
    pub identity: ClientIdentity,
    /// In seconds of Unix.
    pub registered_at: u64,
    pub secret_expires_at: Option<u64>,
}

impl Registration {
    /// Can it not be used any more?
    pub fn has_ended(&self, now: u64) -> bool {
        self.secret_expires_at.is_some_and(|until| until != 0 && until <= now)
    }
}

/// What is posted to be registered: exactly these members.
pub fn registration(server: &ServerMetadata, redirect_uri: &str) -> String {
    let grants = server.grant_types_supported.as_ref();
    let may_refresh = grants.is_none_or(|all| all.iter().any(|grant| grant == "refresh_token"));
    let has_device = server.device_authorization_endpoint.is_some();
    let mut grants = vec!["authorization_code"];
    grants.extend(may_refresh.then_some("refresh_token"));
    grants.extend(has_device.then_some(super::device::GRANT_TYPE));
    let quoted = |text: &str| Value::from(text).to_string();
    let grants: Vec<String> = grants.into_iter().map(quoted).collect();
    format!(
        "{{\"client_name\":\"toolbus\",\"redirect_uris\":[{}],\"grant_types\":[{}],\
         \"response_types\":[\"code\"],\"token_endpoint_auth_method\":{},\
         \"application_type\":\"native\"}}",
        quoted(redirect_uri),
        grants.join(","),
        quoted(wanted(server).as_str()),
    )
}

/// How a registration asks to be shown.
fn wanted(server: &ServerMetadata) -> ShownBy {
    let listed = server.token_endpoint_auth_methods_supported.as_ref();
    let lists = |by: &ShownBy| listed.is_none_or(|all| all.iter().any(|it| it == by.as_str()));
    let all = [ShownBy::Name, ShownBy::Basic, ShownBy::Post];
    all.into_iter().find(lists).unwrap_or(ShownBy::Name)
}

/// What was answered to a registration.
pub fn registered(
    now: u64,
    server: &ServerMetadata,
    redirect_uri: &str,
    status: u16,
    body: &[u8],
) -> Result<Registration, RegistrationError> {
    if !matches!(status, 200 | 201) {
        return Err(match AnswerError::of_body(body) {
            Some(AnswerError::Refused { error, description }) => {
                RegistrationError::Refused { error, description }
            }
            _ => RegistrationError::Status { status },
        });
    }
    let members = object(body, DEPTH_MAX)?;
    let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = text("client_id").filter(|id| !id.is_empty()).ok_or(RegistrationError::NoId)?;
    let secret = text("client_secret").filter(|secret| !secret.is_empty()).map(Hidden::new);
    let shown_by = match text("token_endpoint_auth_method") {
        Some(name) => ShownBy::of(&name).ok_or(RegistrationError::Method { name })?,
        None if secret.is_some() => given(&id, secret.clone(), false, server).shown_by,
        None => ShownBy::Name,
    };
    let expires = members.get("client_secret_expires_at").and_then(Value::as_u64);
    Ok(Registration {
        issuer: server.issuer.clone(),
        identity: ClientIdentity {
            id,
            secret,
            shown_by,
            from: IdentityFrom::Registration,
            redirect_uri: Some(redirect_uri.to_owned()),
        },
        registered_at: now,
        secret_expires_at: expires.filter(|&until| until != 0),
    })
}

/// Why there is no registration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum RegistrationError {
    #[error(
        "the sign-in server refused to register toolbus: {error}{}",
        super::token::behind(description)
    )]
    Refused { error: String, description: String },
    #[error("the sign-in server answered a registration with HTTP status {status}")]
    Status { status: u16 },
    #[error("the answer to a registration cannot be used: {0}")]
    Document(#[from] BadDocument),
    #[error("the answer to a registration has no `client_id`")]
    NoId,
    #[error(
        "the sign-in server wants clients to be shown by `{name}`, which toolbus does not know"
    )]
    Method { name: String },
}

/// What is posted to a token endpoint, and in its head.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TokenForm {
    /// Names and values, in their order.
    pub pairs: Vec<(String, Hidden)>,
    /// The value of `Authorization`.
    pub authorization: Option<Hidden>,
}

impl std::fmt::Debug for TokenForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.pairs.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl TokenForm {
    /// One with these pairs.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> TokenForm {
        let mut form = TokenForm::default();
        pairs.into_iter().for_each(|(name, value)| form.put(name, value));
        form
    }

    /// Adds a pair.
    pub fn put(&mut self, name: &str, value: &str) {
        self.pairs.push((name.to_owned(), Hidden::new(value)));
    }

    /// Adds what the user wants to be added.
    pub fn put_all(&mut self, more: &[(String, Hidden)]) {
        self.pairs.extend(more.iter().cloned());
    }

    /// As it is posted.
    pub fn body(&self) -> String {
        let pairs = self.pairs.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        super::web::form(pairs)
    }
}

/// What a client signs with: read from the config, and not kept.
#[derive(Debug, Clone, Copy)]
pub struct Signs<'a> {
    /// The key in PEM.
    pub key: &'a Hidden,
    /// Its name, if it has one.
    pub key_id: Option<&'a str>,
    /// The time, in seconds of Unix.
    pub now: u64,
    /// What makes the signature of this request differ from all others.
    pub chance: [u8; 16],
}

impl ClientIdentity {
    /// Adds to a form who asks. `issuer` is the recorded one.
    pub fn show(
        &self,
        form: &mut TokenForm,
        issuer: &str,
        signs: Option<Signs<'_>>,
    ) -> Result<(), BadKey> {
        match (self.shown_by, &self.secret) {
            (ShownBy::Signature, _) => {
                let signs = signs.ok_or(BadKey::Missing)?;
                let key = SigningKey::read(signs.key.reveal())?;
                let assertion = key.assertion(&self.id, issuer, &signs)?;
                form.put("client_id", &self.id);
                form.put("client_assertion_type", ASSERTION_TYPE);
                form.put("client_assertion", &assertion);
            }
            (ShownBy::Basic, Some(secret)) => {
                let both = format!("{}:{}", encoded(&self.id), encoded(secret.reveal()));
                form.authorization =
                    Some(Hidden::new(format!("Basic {}", base64(both.as_bytes()))));
            }
            (ShownBy::Post, Some(secret)) => {
                form.put("client_id", &self.id);
                form.put("client_secret", secret.reveal());
            }
            // An assertion may say who we are.
            (ShownBy::Name, _) if self.id.is_empty() => {}
            (ShownBy::Name | ShownBy::Basic | ShownBy::Post, _) => form.put("client_id", &self.id),
        }
        Ok(())
    }
}

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Option<Vec<String>> {
        Some(texts.iter().map(|&text| text.to_owned()).collect())
    }

    #[test]
    fn a_registration_has_six_members() {
        let mut server = ServerMetadata::default();
        assert_eq!(
            registration(&server, "http://localhost:1/callback"),
            r#"{"client_name":"toolbus","redirect_uris":["http://localhost:1/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","application_type":"native"}"#
        );
        server.grant_types_supported = texts(&["authorization_code"]);
        server.device_authorization_endpoint = Some("https://a.example/d".to_owned());
        server.token_endpoint_auth_methods_supported =
            texts(&["private_key_jwt", "client_secret_post", "client_secret_basic"]);
        assert_eq!(
            registration(&server, "x"),
            r#"{"client_name":"toolbus","redirect_uris":["x"],"grant_types":["authorization_code","urn:ietf:params:oauth:grant-type:device_code"],"response_types":["code"],"token_endpoint_auth_method":"client_secret_basic","application_type":"native"}"#
        );
    }

    #[test]
    fn what_was_registered_is_kept() {
        let server = ServerMetadata { issuer: "https://a.example".into(), ..Default::default() };
        let told = |status, body: &str| registered(7, &server, "r", status, body.as_bytes());
        let kept = told(
            201,
            r#"{"client_id":"c","client_secret":"s3cret","token_endpoint_auth_method":"client_secret_post","client_secret_expires_at":9,"x":1}"#,
        )
        .unwrap();
        assert_eq!(kept.identity.shown_by, ShownBy::Post);
        assert!(kept.has_ended(9) && !kept.has_ended(8));
        assert!(!format!("{kept:?}").contains("s3cret"));
        let plain = told(200, r#"{"client_id":"c","client_secret_expires_at":0}"#).unwrap();
        assert_eq!((plain.identity.shown_by, plain.secret_expires_at), (ShownBy::Name, None));
        let why = |status, body| told(status, body).unwrap_err().to_string();
        assert_eq!(why(201, "{}"), "the answer to a registration has no `client_id`");
        assert_eq!(
            why(400, r#"{"error":"invalid_redirect_uri","error_description":"no\n"}"#),
            "the sign-in server refused to register toolbus: invalid_redirect_uri: no\\x0a"
        );
        assert_eq!(
            why(403, "no"),
            "the sign-in server answered a registration with HTTP status 403"
        );
    }

    #[test]
    fn who_we_are_is_chosen_in_order() {
        let mut server = ServerMetadata::default();
        let mut settings = SignInSettings::default();
        assert_eq!(choose(&settings, &server, None), Whoever::Ask);
        server.registration_endpoint = Some("https://a.example/r".to_owned());
        let register = Whoever::Register { endpoint: "https://a.example/r".to_owned() };
        assert_eq!(choose(&settings, &server, None), register);
        settings.client_metadata_url = Some("https://me.example/c.json".to_owned());
        assert_eq!(choose(&settings, &server, None), register, "not where it is not taken");
        server.client_id_metadata_document_supported = true;
        let known = |whoever| match whoever {
            Whoever::Known(identity) => (identity.id, identity.shown_by, identity.from),
            other => panic!("{other:?}"),
        };
        let by_document =
            ("https://me.example/c.json".to_owned(), ShownBy::Name, IdentityFrom::Metadata);
        assert_eq!(known(choose(&settings, &server, None)), by_document);
        settings.client_id = Some("me".to_owned());
        settings.client_secret = Some(Hidden::new("s3cret"));
        let me = |by| ("me".to_owned(), by, IdentityFrom::Config);
        assert_eq!(known(choose(&settings, &server, None)), me(ShownBy::Basic));
        server.token_endpoint_auth_methods_supported = texts(&["client_secret_post"]);
        assert_eq!(known(choose(&settings, &server, None)), me(ShownBy::Post));
        settings.private_key = Some(Hidden::new("key"));
        assert_eq!(known(choose(&settings, &server, None)), me(ShownBy::Signature));
        settings.private_key = None;
        settings.client_secret = None;
        assert_eq!(known(choose(&settings, &server, None)), me(ShownBy::Name));
    }

    #[test]
    fn a_secret_is_encoded_before_it_is_put_together() {
        let identity = given("a b", Some(Hidden::new("c:d/é")), false, &ServerMetadata::default());
        let mut form = TokenForm::of([("grant_type", "x")]);
        identity.show(&mut form, "i", None).unwrap();
        assert_eq!(form.body(), "grant_type=x");
        let authorization = form.authorization.unwrap();
        assert_eq!(authorization.reveal(), format!("Basic {}", base64(b"a%20b:c%3Ad%2F%C3%A9")));
    }
}
