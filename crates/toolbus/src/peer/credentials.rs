//! What goes with every request to a peer over HTTP: header fields and a token, for every wire.

#[cfg(feature = "http")]
use thiserror::Error;

#[cfg(feature = "http")]
use super::OpenError;
#[cfg(feature = "http")]
use super::access::{self, TokenError};
#[cfg(feature = "http")]
use super::missing::Missing;
use super::settings::Secret;
use super::tls_files::TlsFiles;
#[cfg(feature = "http")]
use crate::address::Address;
use crate::bus::config::{Key, KeyKind, Values};
#[cfg(feature = "http")]
use crate::secrets;
#[cfg(feature = "http")]
use crate::transport::http::{HeaderMap, HeaderName, HeaderValue, header};

const OVER_HTTP: &str = "backs over HTTP";

pub(crate) const HEADERS: Key =
    Key::new("headers", KeyKind::Secrets, OVER_HTTP, "Sent with every request").needs_http();
pub(crate) const TOKEN: Key = Key::new(
    "token",
    KeyKind::Secret,
    OVER_HTTP,
    "The bearer token, as `${NAME}` or `${file:PATH}`",
)
.needs_http();
pub(crate) const TOKEN_ENV: Key = Key::new(
    "token_env",
    KeyKind::Text,
    OVER_HTTP,
    "The environment variable that holds the bearer token",
)
.needs_http();
pub(crate) const INSECURE: Key =
    Key::new("insecure", KeyKind::Bool, OVER_HTTP, "Send the token in clear to other machines")
        .needs_http()
        .default("false");

/// What a peer over HTTP is sent with every request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Header fields; the later of two of one name are sent too.
    pub headers: Vec<(String, Secret<String>)>,
    /// The bearer token.
    pub token: Option<Secret<String>>,
    /// The environment variable that holds it.
    pub token_env: Option<String>,
    /// Send the token in clear to other machines.
    pub insecure: bool,
    /// Whom we believe over TLS, and what we show there.
    pub tls: TlsFiles,
}

impl Credentials {
    pub(crate) fn read(values: &Values) -> Credentials {
        Credentials {
            headers: values.secrets("headers").unwrap_or_default(),
            token: values.secret("token"),
            token_env: values.text("token_env"),
            insecure: values.bool("insecure").unwrap_or_default(),
            tls: TlsFiles::default(),
        }
    }

    /// These, and behind them those of a command line, whose token wins.
    #[must_use]
    pub fn and(&self, more: &Credentials) -> Credentials {
        let has_token = more.token.is_some() || more.token_env.is_some();
        let of = if has_token { more } else { self };
        Credentials {
            headers: self.headers.iter().chain(&more.headers).cloned().collect(),
            token: of.token.clone(),
            token_env: of.token_env.clone(),
            insecure: self.insecure || more.insecure,
            tls: self.tls.and(&more.tls),
        }
    }

    /// The header fields of a request to `host`. From now on what is secret in them is masked.
    #[cfg(feature = "http")]
    pub(crate) fn fields(
        &self,
        host: &str,
        is_secure: bool,
    ) -> Result<HeaderMap, CredentialsError> {
        let mut fields = HeaderMap::new();
        for (name, value) in &self.headers {
            let fault = || CredentialsError::Header { name: name.clone() };
            if is_credential(name) {
                // Of `Bearer TOKEN` it is the token.
                let value = value.reveal();
                secrets::hide(value.split_once(' ').map_or(value, |(_, secret)| secret));
            }
            let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| fault())?;
            value.set_sensitive(true);
            fields.append(name.parse::<HeaderName>().map_err(|_| fault())?, value);
        }
        if let Some(token) = access::token(self.token.as_ref(), self.token_env.as_deref())? {
            if !is_secure && !access::is_loopback(host) && !self.insecure {
                return Err(CredentialsError::InClear { host: host.to_owned() });
            }
            fields.insert(header::AUTHORIZATION, bearer(&token)?);
        }
        Ok(fields)
    }
}

/// Does a header field of this name hold a secret, wherever its value comes from?
#[cfg(feature = "http")]
fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "token", "key", "secret", "cookie", "password"].iter().any(|word| name.contains(word))
}

#[cfg(feature = "http")]
fn bearer(token: &Secret<String>) -> Result<HeaderValue, CredentialsError> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
    let mut value = value.map_err(|_| CredentialsError::Token(TokenError::Unusable))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why what should go with every request cannot.
#[cfg(feature = "http")]
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CredentialsError {
    /// The token is not there.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// An eavesdropper would have the token.
    #[error("will not send a token to `{host}` in clear")]
    InClear {
        /// Whom it would have been sent to.
        host: String,
    },
    /// A header is none. Its value is not shown.
    #[error("`{name}` and its value are no header")]
    Header {
        /// Its name.
        name: String,
    },
}

#[cfg(feature = "http")]
impl CredentialsError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            CredentialsError::Token(error) => Some(error.hint()),
            CredentialsError::InClear { .. } => {
                Some("use `https://`, or allow it by `insecure = true` in the config".to_owned())
            }
            CredentialsError::Header { .. } => None,
        }
    }

    /// Why the address cannot be opened whose requests it should go with.
    pub(crate) fn of(self, address: &Address) -> OpenError {
        let (message, hint) = (self.to_string(), self.hint());
        match self {
            CredentialsError::Token(TokenError::Missing { .. }) => {
                OpenError::Missing { address: address.clone(), missing: Missing { message, hint } }
            }
            _ => OpenError::unusable(address, message).hinted(hint),
        }
    }
}
