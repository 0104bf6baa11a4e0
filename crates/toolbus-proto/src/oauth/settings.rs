//! What a user may say about a sign-in: by `[back.x.oauth]`, or by flags.

use std::path::PathBuf;

use super::hidden::Hidden;
use super::web::WebUrl;

/// How a token is got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grant {
    /// The user agrees in a browser.
    #[default]
    Code,
    /// The user agrees on another machine.
    Device,
    /// The client itself is who calls.
    ClientCredentials,
    /// An assertion by someone that the sign-in server trusts is given for it.
    JwtBearer,
}

impl Grant {
    /// As it stands in a config and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Grant::Code => "code",
            Grant::Device => "device",
            Grant::ClientCredentials => "client_credentials",
            Grant::JwtBearer => "jwt_bearer",
        }
    }

    /// The one of that name.
    pub fn of(name: &str) -> Option<Grant> {
        let all = [Grant::Code, Grant::Device, Grant::ClientCredentials, Grant::JwtBearer];
        all.into_iter().find(|grant| grant.as_str() == name)
    }

    /// Is a token got without a person?
    pub fn is_by_itself(self) -> bool {
        matches!(self, Grant::ClientCredentials | Grant::JwtBearer)
    }
}

/// What is said of for whom a token is (RFC 8707).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ResourceChoice {
    /// What the server says of itself.
    #[default]
    Published,
    /// Nothing.
    Silent,
    /// This.
    Given(String),
}

/// Where a browser is sent back to: our own machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// `localhost` or `127.0.0.1`.
    pub host: String,
    /// `None` for any that is free.
    pub port: Option<u16>,
    /// From its `/` on.
    pub path: String,
}

impl Default for Redirect {
    fn default() -> Redirect {
        Redirect { host: "localhost".into(), port: None, path: "/callback".into() }
    }
}

impl Redirect {
    /// What a user wrote: `http://localhost:PORT/PATH` or `http://127.0.0.1:PORT/PATH`.
    pub fn parse(text: &str) -> Option<Redirect> {
        let rest = text.strip_prefix("http://")?;
        let (authority, _) = rest.split_at(rest.find('/')?);
        let (host, port) = authority.split_once(':')?;
        let url = WebUrl::allowed(text).ok()?;
        let is_ours = matches!(host, "localhost" | "127.0.0.1") && url.query.is_none();
        let port = port.parse().ok().filter(|&port: &u16| is_ours && 0 < port)?;
        Some(Redirect { host: host.to_owned(), port: Some(port), path: url.path })
    }

    /// As sign-in servers are told it.
    pub fn url(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("http://{}{port}{}", self.host, self.path)
    }
}

/// All that a user may say about a sign-in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SignInSettings {
    pub grant: Grant,
    pub client_id: Option<String>,
    pub client_secret: Option<Hidden>,
    /// PKCS#8 in PEM.
    pub private_key: Option<Hidden>,
    pub key_id: Option<String>,
    /// The document that is our client id where sign-in servers take such.
    pub client_metadata_url: Option<String>,
    /// As it was written: what it refers to is read for each request.
    pub assertion: Option<String>,
    pub scopes: Option<Vec<String>>,
    /// What the sign-in server may call itself; empty: as the server names it.
    pub issuers: Vec<String>,
    pub resource: ResourceChoice,
    /// The authority that vouches for the server, in place of the public ones.
    pub ca: Option<PathBuf>,
    pub authorize_params: Vec<(String, Hidden)>,
    pub token_params: Vec<(String, Hidden)>,
    pub redirect: Option<Redirect>,
    pub account: String,
    /// Callers who can be asked are offered the URL.
    pub ask: bool,
}

/// Parameters that we set ourselves where a user agrees.
pub const AUTHORIZE_PARAMS: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "scope",
    "resource",
];
/// The same of requests for a token.
pub const TOKEN_PARAMS: [&str; 12] = [
    "grant_type",
    "code",
    "redirect_uri",
    "code_verifier",
    "client_id",
    "client_secret",
    "client_assertion",
    "client_assertion_type",
    "refresh_token",
    "resource",
    "scope",
    "assertion",
];

/// May it be a scope (RFC 6749, 3.3)?
pub fn is_scope(word: &str) -> bool {
    let is_it = |byte: u8| (0x21..=0x7e).contains(&byte) && byte != b'"' && byte != b'\\';
    !word.is_empty() && word.bytes().all(is_it)
}

/// May it be the name of an account?
pub fn is_account(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.@".contains(&byte))
}

/// May it be the URL of a document that says who we are?
pub fn is_client_metadata_url(text: &str) -> bool {
    let url = WebUrl::allowed(text).ok();
    url.is_some_and(|url| url.is_secure && !url.bare_path().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_to_this_machine() {
        let read = |text: &str| Redirect::parse(text).map(|redirect| redirect.url());
        for good in ["http://localhost:3118/callback", "http://127.0.0.1:80/"] {
            assert_eq!(read(good).as_deref(), Some(good));
        }
        for bad in [
            "https://localhost:1/x",
            "http://localhost/x",
            "http://localhost:0/x",
            "http://localhost:1",
            "http://localhost:1/x?y",
            "http://localhost:1/x#y",
            "http://example.com:1/x",
            "http://u@localhost:1/x",
            "http://[::1]:1/x",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn words_of_a_user() {
        assert!(is_scope("files:read") && is_scope("https://a/b"));
        assert!(!is_scope("") && !is_scope("a b") && !is_scope("a\"") && !is_scope("ü"));
        assert!(is_account("") && is_account("ann@x.example") && !is_account("a/b"));
        assert!(is_client_metadata_url("https://a.example/client.json"));
        assert!(!is_client_metadata_url("https://a.example/"));
        assert!(!is_client_metadata_url("http://localhost/client.json"));
        for grant in ["code", "device", "client_credentials", "jwt_bearer"] {
            assert_eq!(Grant::of(grant).map(Grant::as_str), Some(grant));
        }
        assert_eq!(Grant::of("id_jag"), None);
        let secret =
            SignInSettings { client_secret: Some(Hidden::new("s3cret")), ..Default::default() };
        assert!(!format!("{secret:?}").contains("s3cret"));
    }
}
