//! Proxies as the environment names them: who is asked through one, and through which.

use std::fmt;

use bytes::BytesMut;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolbus_proto::collect::base64;

/// A proxy that speaks HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What stands in `Proxy-Authorization`.
    pub authorization: Option<String>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

/// How long the answer of a proxy may be that is asked for a tunnel.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

impl Proxy {
    /// The proxy through which this host is to be asked, by variables such as `HTTPS_PROXY` and
    /// `NO_PROXY`, or why that cannot be.
    pub fn of(
        variable: impl Fn(&str) -> Option<String>,
        is_secure: bool,
        host: &str,
        port: u16,
    ) -> Result<Option<Proxy>, ProxyError> {
        let value = |name: &str| {
            let value = variable(&name.to_ascii_lowercase()).or_else(|| variable(name));
            value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let scheme = if is_secure { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        let Some(url) = value(scheme).or_else(|| value("ALL_PROXY")) else { return Ok(None) };
        if value("NO_PROXY").is_some_and(|list| is_exempt(&list, host, port)) {
            return Ok(None);
        }
        parse(&url).map(Some).ok_or(ProxyError::Unusable { url: without_password(&url) })
    }

    /// Asks for a tunnel to `at` on a connection to the proxy.
    pub(super) async fn tunnel(&self, stream: &mut TcpStream, at: &str) -> Result<(), ProxyError> {
        let authorization = match &self.authorization {
            Some(value) => format!("Proxy-Authorization: {value}\r\n"),
            None => String::new(),
        };
        let request = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n{authorization}\r\n");
        let broke = |source| ProxyError::Broke { proxy: self.shown(), source };
        stream.write_all(request.as_bytes()).await.map_err(broke)?;
        let mut answer = BytesMut::new();
        // Byte by byte: what stands behind the head is the server's.
        while !answer.ends_with(b"\r\n\r\n") {
            let byte = stream.read_u8().await.map_err(broke)?;
            answer.extend_from_slice(&[byte]);
            if ANSWER_BYTES_MAX < answer.len() {
                return Err(ProxyError::Refused { proxy: self.shown(), status: "nonsense".into() });
            }
        }
        let end = answer.iter().position(|byte| *byte == b'\r').unwrap_or(answer.len());
        let line = &answer[..end];
        let line = String::from_utf8_lossy(line);
        let status = line.split_once(' ').map_or("", |(_, status)| status);
        match status.starts_with('2') {
            true => Ok(()),
            false => Err(ProxyError::Refused { proxy: self.shown(), status: status.to_owned() }),
        }
    }

    fn shown(&self) -> String {
        crate::transport::tcp::shown(&self.host, self.port)
    }
}

/// `http://user:password@host:port`, where only the host has to be there.
fn parse(url: &str) -> Option<Proxy> {
    let rest = match url.split_once("://") {
        Some((scheme, rest)) => Some(rest).filter(|_| scheme.eq_ignore_ascii_case("http"))?,
        None => url,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    };
    let (host, port) = match place.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port.map_or(Some(80), |port| port.parse().ok())?;
    let authorization = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let plain = [&unescaped(name)[..], b":", &unescaped(password)].concat();
        format!("Basic {}", base64(&plain))
    });
    (!host.is_empty()).then(|| Proxy { host: host.to_owned(), port, authorization })
}

/// The bytes that `%41` and the like stand for.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    bytes
}

fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://***@{place}"),
        (None, Some((_, place))) => format!("***@{place}"),
        _ => url.to_owned(),
    }
}

/// Is the host on a list such as `localhost,.example.com,10.0.0.1:8080`?
fn is_exempt(list: &str, host: &str, port: u16) -> bool {
    let host = host.to_ascii_lowercase();
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let (name, only) = match entry.rsplit_once(':') {
            Some((name, digits)) if !name.contains(':') || name.ends_with(']') => {
                (name.to_owned(), digits.parse::<u16>().ok())
            }
            _ => (entry.clone(), None),
        };
        let name = name.trim_matches(['[', ']']).trim_start_matches('*').trim_start_matches('.');
        let is_it = entry == "*"
            || host == name
            || host.strip_suffix(name).is_some_and(|front| front.ends_with('.'));
        is_it && only.is_none_or(|only| only == port)
    })
}

/// Why there is no way through a proxy.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// It is not one that we can speak to.
    #[error("cannot use the proxy `{url}`: only `http://HOST:PORT` is known")]
    Unusable {
        /// As the environment names it, without its password.
        url: String,
    },
    /// It does not let us through.
    #[error("the proxy {proxy} refuses: {status}")]
    Refused {
        /// Host and port.
        proxy: String,
        /// What it says.
        status: String,
    },
    /// The connection to it broke.
    #[error("the proxy {proxy} closed the connection")]
    Broke {
        /// Host and port.
        proxy: String,
        /// How.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)], is_secure: bool, host: &str) -> Option<Proxy> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Proxy::of(variable, is_secure, host, 443).unwrap()
    }

    #[test]
    fn the_environment_names_proxies() {
        let proxy = of(&[("HTTPS_PROXY", "http://u%40:p@proxy:3128/")], true, "h").unwrap();
        assert_eq!((&*proxy.host, proxy.port), ("proxy", 3128));
        assert_eq!(proxy.authorization.as_deref(), Some("Basic dUA6cA=="));
        assert_eq!(of(&[("https_proxy", "[::1]:1")], true, "h").unwrap().host, "::1");
        assert_eq!(of(&[("HTTPS_PROXY", "http://p")], false, "h"), None);
        assert_eq!(of(&[("ALL_PROXY", "p")], false, "h").unwrap().port, 80);
        assert_eq!(of(&[("HTTPS_PROXY", " ")], true, "h"), None);
        let socks = |name: &str| (name == "ALL_PROXY").then(|| "socks5://u:p@h".to_owned());
        let error = Proxy::of(socks, true, "h", 1).unwrap_err().to_string();
        assert!(error.contains("socks5://***@h"), "{error}");
    }

    #[test]
    fn some_hosts_are_asked_directly() {
        for (list, host, expected) in [
            ("*", "a", true),
            ("a.example", "a.example", true),
            (".example", "a.example", true),
            ("example", "a.EXAMPLE", true),
            ("ample", "a.example", false),
            ("b, example:443", "a.example", true),
            ("example:80", "a.example", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("[::1]:443", "::1", true),
            ("::1", "::1", true),
            ("", "a", false),
        ] {
            assert_eq!(is_exempt(list, host, 443), expected, "{list} {host}");
        }
    }
}
