//! Who may come in by a front that listens: what config and flags say about it, for every wire.
//!
//! Over HTTP requests are judged by [`Admission`]. Whatever carries a wire, where other
//! machines can reach us something must tell callers apart, or the user says that nothing does.

use std::env;
use std::io;
use std::net::{IpAddr, SocketAddr};

use thiserror::Error;
use toolbus_proto::http::{Admission, Bound, Token};

use super::settings::Secret;
use crate::bus::config::{Key, KeyKind, Values};
use crate::secrets;
use crate::transport::{Listener, Whereabouts};

const HTTP: &str = "fronts over HTTP";

pub(crate) const TOKEN: Key = Key::new(
    "token",
    KeyKind::Secret,
    HTTP,
    "The token that clients must show, as `${NAME}` or `${file:PATH}`",
)
.needs_http();
pub(crate) const TOKEN_ENV: Key = Key::new(
    "token_env",
    KeyKind::Text,
    HTTP,
    "The environment variable that holds the token that clients must show",
)
.needs_http();
pub(crate) const ORIGINS: Key =
    Key::new("origins", KeyKind::Texts, HTTP, "Origins that may come in besides our own")
        .needs_http()
        .default("[]");
pub(crate) const HOSTS: Key = Key::new(
    "hosts",
    KeyKind::Texts,
    HTTP,
    "Names by which clients may call us besides our own, as a proxy that keeps `Host` passes them on",
)
.needs_http()
.default("[]");
pub(crate) const INSECURE: Key = Key::new(
    "insecure",
    KeyKind::Bool,
    "fronts that listen on a port",
    "Let every caller in although other machines can reach us",
)
.needs_url()
.default("false");

/// What a config says about who may come in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessSettings {
    /// The token that clients must show.
    pub token: Option<Secret<String>>,
    /// The environment variable that holds it.
    pub token_env: Option<String>,
    /// Do without a token where one is asked for.
    pub insecure: bool,
    /// Allowed besides our own.
    pub origins: Vec<String>,
    /// The same for the names by which we are called.
    pub hosts: Vec<String>,
}

impl AccessSettings {
    pub(crate) fn read(values: &Values) -> AccessSettings {
        AccessSettings {
            token: values.secret("token"),
            token_env: values.text("token_env"),
            insecure: values.bool("insecure").unwrap_or_default(),
            origins: values.texts("origins").unwrap_or_default(),
            hosts: values.texts("hosts").unwrap_or_default(),
        }
    }

    /// What they mean, with the token itself.
    pub fn access(&self) -> Result<Access, TokenError> {
        Ok(Access {
            token: token(self.token.as_ref(), self.token_env.as_deref())?,
            insecure: self.insecure,
            origins: self.origins.clone(),
            hosts: self.hosts.clone(),
            is_closed: false,
        })
    }
}

/// The token that is given or held by an environment variable.
pub(crate) fn token(
    given: Option<&Secret<String>>,
    variable: Option<&str>,
) -> Result<Option<Secret<String>>, TokenError> {
    match (given, variable) {
        (Some(_), Some(_)) => Err(TokenError::Twice),
        (Some(given), None) => usable(given.reveal()).map(Some).ok_or(TokenError::Unusable),
        (None, Some(variable)) => token_of(variable).map(Some),
        (None, None) => Ok(None),
    }
}

/// The token that an environment variable holds, without the blanks and line ends around it.
pub fn token_of(variable: &str) -> Result<Secret<String>, TokenError> {
    let value = env::var(variable).ok();
    let missing = || TokenError::Missing { variable: variable.to_owned() };
    let value = value.filter(|value| !value.trim().is_empty()).ok_or_else(missing)?;
    usable(&value).ok_or_else(|| TokenError::UnusableIn { variable: variable.to_owned() })
}

/// What a header field can carry, and so what a client can show.
fn usable(token: &str) -> Option<Secret<String>> {
    let token = token.trim();
    let is_usable = !token.is_empty() && token.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    is_usable.then(|| {
        secrets::hide(token);
        Secret::new(token.to_owned())
    })
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The variable is not set, or empty.
    #[error("the environment variable `{variable}` holds no token")]
    Missing {
        /// Its name.
        variable: String,
    },
    /// No header field can carry what the variable holds.
    #[error("what the environment variable `{variable}` holds can be no token")]
    UnusableIn {
        /// Its name.
        variable: String,
    },
    /// No header field can carry what is given.
    #[error("what is given can be no token")]
    Unusable,
    /// There are two.
    #[error("both `token` and `token_env` are set")]
    Twice,
}

impl TokenError {
    /// The key of a config that is to blame.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            TokenError::Unusable => "token",
            _ => "token_env",
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> String {
        match self {
            TokenError::Missing { variable } => {
                format!("set it, and not to nothing: `export {variable}=…`")
            }
            TokenError::UnusableIn { .. } | TokenError::Unusable => {
                "a token is made of letters, digits and other visible characters of ASCII".into()
            }
            TokenError::Twice => "keep one of them".to_owned(),
        }
    }
}

/// Who may come in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The token that every client must show.
    pub token: Option<Secret<String>>,
    /// Let every caller in although other machines can reach us.
    pub insecure: bool,
    /// Origins that may come in besides our own, e.g. `https://app.example`.
    pub origins: Vec<String>,
    /// Names by which we may be called besides our own, e.g. `tools.example`.
    pub hosts: Vec<String>,
    /// Callers alone are let in whom the config knows by what they show.
    pub is_closed: bool,
}

/// What tells callers apart, besides the words of a wire itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Over HTTP: a token, if there is one.
    ForToken,
    /// Each client has to have a certificate.
    ForCertificate,
    /// The wire has no place for a token.
    ForNothing,
}

impl Access {
    /// May callers come in by this host and port, as far as its name tells?
    pub fn may_listen(&self, host: &str, port: u16, asks: Asks) -> Result<(), Unprotected> {
        match is_loopback(host) || self.insecure || self.protects(asks) {
            true => Ok(()),
            false => Err(Unprotected { at: at(host, port), asks }),
        }
    }

    fn protects(&self, asks: Asks) -> bool {
        match asks {
            Asks::ForToken => self.token.is_some() || self.is_closed,
            Asks::ForCertificate => true,
            Asks::ForNothing => false,
        }
    }

    /// Where it really listens: a name may lead elsewhere than it says.
    pub fn check(&self, listener: &Listener, asks: Asks) -> Result<(), Unprotected> {
        if let Some(address) = self.exposed(listener, asks)? {
            let what = if asks == Asks::ForToken { "token" } else { "proof of who they are" };
            tracing::warn!(
                "whoever can reach {address} can call all tools: no {what} is asked for"
            );
        }
        Ok(())
    }

    /// Where every client that can reach it may come in, if that is wanted: the user is to be told.
    pub(crate) fn exposed(
        &self,
        listener: &Listener,
        asks: Asks,
    ) -> Result<Option<SocketAddr>, Unprotected> {
        let Ok(Whereabouts::Tcp(address)) = listener.whereabouts() else { return Ok(None) };
        if address.ip().is_loopback() || self.protects(asks) {
            return Ok(None);
        }
        match self.insecure {
            true => Ok(Some(address)),
            false => Err(Unprotected { at: address.to_string(), asks }),
        }
    }

    /// What is asked of each request to a listener.
    pub fn admission(&self, listener: &Listener) -> io::Result<Admission> {
        let bound = match listener.whereabouts()? {
            Whereabouts::Tcp(address) if !address.ip().is_loopback() => Bound::Elsewhere,
            Whereabouts::Tcp(_) | Whereabouts::Unix(_) => Bound::Loopback,
        };
        Ok(self.admission_at(bound))
    }

    /// The same where it is known who can reach us.
    pub(crate) fn admission_at(&self, bound: Bound) -> Admission {
        let token = self.token.as_ref().map(|token| Token::new(token.reveal()));
        let (origins, hosts) = (self.origins.clone(), self.hosts.clone());
        Admission { bound, origins, hosts, token, doors: None, judges: false }
    }
}

/// Can only this machine reach it, whatever a name server says?
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    address.map_or(host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

fn at(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Any machine could call all tools.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("will not listen on {at} {}", .asks.objection())]
pub struct Unprotected {
    at: String,
    asks: Asks,
}

impl Asks {
    fn objection(self) -> &'static str {
        match self {
            Asks::ForToken => "without a token: other machines can reach it",
            _ => "without knowing who calls: other machines can reach it",
        }
    }
}

impl Unprotected {
    /// What the reader can do about it.
    pub fn hint(&self) -> String {
        match self.asks {
            Asks::ForToken => {
                "name the variable that holds one by `--token-env` (`token_env` in the config), \
                 or allow it by `--insecure`"
            }
            _ => {
                "ask for certificates over TLS by `client_ca=FILE`, or for a token over HTTP by \
                 `--token-env`, or allow it by `--insecure`"
            }
        }
        .to_owned()
    }

    /// The same where a config says what to do.
    pub(crate) fn hint_for_config(&self) -> String {
        match self.asks {
            Asks::ForToken => {
                "name the variable that holds one by `token_env`, or set `insecure = true`"
            }
            _ => {
                "ask for certificates over TLS by `client_ca=FILE`, or for a token over HTTP by \
                 `token_env`, or set `insecure = true`"
            }
        }
        .to_owned()
    }
}
