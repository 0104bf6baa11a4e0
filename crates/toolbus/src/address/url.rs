//! The addresses that name a host: `scheme://host:port/path?name=value`.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

use super::Purpose;
use super::scheme::UrlForm;
use crate::secrets::MASK;

/// A host to connect to, or to listen on.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// What carries it.
    pub carrier: Transport,
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// The port, or the usual one of the carrier.
    pub port: u16,
    /// Further hosts that will do as well, where there may be several.
    pub others: Vec<(String, u16)>,
    /// Where there are paths: the path, with the query behind it if that is the peer's own.
    pub path: String,
    /// Names and values behind the `?`, decoded, in their order; only known ones.
    pub parameters: Vec<(String, String)>,
}

/// What carries a wire between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Transport {
    Tcp,
    Tls,
    Http,
    Https,
    Quic,
}

impl fmt::Debug for Url {
    /// What stands in the query of a peer's own may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = f.debug_struct("Url");
        url.field("carrier", &self.carrier).field("host", &self.host).field("port", &self.port);
        if !self.others.is_empty() {
            url.field("others", &self.others);
        }
        url.field("path", &without_values(&self.path))
            .field("parameters", &self.parameters)
            .finish()
    }
}

impl Url {
    /// Reads what stands behind the scheme.
    pub(super) fn parse(form: &UrlForm, purpose: Purpose, rest: &str) -> Result<Url, UrlError> {
        form.read(purpose, rest)
    }

    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl UrlForm {
    fn read(&self, purpose: Purpose, rest: &str) -> Result<Url, UrlError> {
        if rest.contains('#') {
            return Err(UrlError::Fragment);
        }
        if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(UrlError::Blank);
        }
        let host_len = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(host_len);
        // A password in an address would be shown wherever the address is.
        if authority.contains('@') {
            return Err(match self.credentials {
                Some(hint) => UrlError::Credentials { hint },
                None => UrlError::UserInfo,
            });
        }
        let mut hosts = match self.has_many_hosts {
            true => authority.split(',').collect(),
            false => vec![authority],
        }
        .into_iter()
        .map(|host| self.host_and_port(host));
        let (host, port) = hosts.next().ok_or(UrlError::NoHost)??;
        let others = hosts.collect::<Result<_, _>>()?;
        let (path, parameters) = match self.query.known(purpose) {
            None => (self.path(behind)?, Vec::new()),
            Some(known) => {
                let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
                (self.path(path)?, parameters(query, known)?)
            }
        };
        Ok(Url { carrier: self.transport, host, port, others, path, parameters })
    }

    fn host_and_port(&self, authority: &str) -> Result<(String, u16), UrlError> {
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').ok_or(UrlError::NoHost)?;
                match behind.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if behind.is_empty() => (host, None),
                    None => return Err(UrlError::NoHost),
                }
            }
            None => match authority.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => return Err(UrlError::Brackets),
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(UrlError::NoHost);
        }
        let port = match port {
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                port.parse().map_err(|_| UrlError::Port { port: port.to_owned() })?
            }
            Some(port) => return Err(UrlError::Port { port: port.to_owned() }),
            None => self.port.or(self.transport.usual_port()).ok_or(UrlError::NoPort)?,
        };
        Ok((host.to_owned(), port))
    }

    fn path(&self, path: &str) -> Result<String, UrlError> {
        match (self.path, path) {
            (Some(usual), "") => Ok(usual.to_owned()),
            // A query without a path before it.
            (Some(_), path) if path.starts_with('?') => Ok(format!("/{path}")),
            (Some(_), path) => Ok(path.to_owned()),
            (None, "" | "/") => Ok(String::new()),
            (None, path) => Err(UrlError::Path { path: path.to_owned() }),
        }
    }
}

impl Transport {
    fn usual_port(self) -> Option<u16> {
        match self {
            Transport::Http => Some(80),
            Transport::Https => Some(443),
            Transport::Tcp | Transport::Tls | Transport::Quic => None,
        }
    }
}

/// The values behind the `?`, as they are written and decoded.
pub(super) fn query_values(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let values = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    values.flat_map(|value| [Some(Cow::Borrowed(value)), decoded(value).ok()]).flatten()
}

/// The same address with each value behind its `?` masked.
pub(super) fn without_values(text: &str) -> Cow<'_, str> {
    let Some((before, query)) = text.split_once('?') else { return Cow::Borrowed(text) };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={MASK}"),
        None => MASK.to_owned(),
    });
    Cow::Owned(format!("{before}?{}", masked.collect::<Vec<_>>().join("&")))
}

fn parameters(query: &str, known: &[&str]) -> Result<Vec<(String, String)>, UrlError> {
    let mut parameters: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name)?.into_owned();
        if !known.contains(&name.as_str()) {
            let known = match known {
                [] => "it takes none".to_owned(),
                known => format!("it can be {}", known.join(", ")),
            };
            return Err(UrlError::UnknownParameter { name, known });
        }
        if parameters.iter().any(|(earlier, _)| *earlier == name) {
            return Err(UrlError::Twice { name });
        }
        parameters.push((name, decoded(value)?.into_owned()));
    }
    Ok(parameters)
}

/// `%41` is `A`; a plus sign is itself.
fn decoded(text: &str) -> Result<Cow<'_, str>, UrlError> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let bad = || UrlError::Escape { text: text.to_owned() };
    let mut bytes = Vec::with_capacity(text.len());
    let mut pieces = text.split('%');
    bytes.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = u8::from_str_radix(digits.ok_or_else(bad)?, 16).map_err(|_| bad())?;
        bytes.push(byte);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| bad())
}

/// What is wrong with a URL.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum UrlError {
    #[error("the host is missing")]
    NoHost,
    #[error("an IPv6 address stands in brackets, as in `[::1]:7420`")]
    Brackets,
    #[error("the port is missing")]
    NoPort,
    #[error("`{port}` is no port")]
    Port { port: String },
    #[error("a user or password cannot stand in it")]
    UserInfo,
    #[error("an address holds no credentials")]
    Credentials { hint: &'static str },
    #[error("a `#` cannot stand in it")]
    Fragment,
    #[error("blanks cannot stand in it; write them as `%20`")]
    Blank,
    #[error("the path `{path}` means nothing here")]
    Path { path: String },
    #[error("there is no parameter `{name}`; {known}")]
    UnknownParameter { name: String, known: String },
    #[error("parameter `{name}` stands twice")]
    Twice { name: String },
    #[error("`{text}` is not percent-encoded text")]
    Escape { text: String },
}
