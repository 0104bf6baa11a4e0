//! URLs as the rules of sign-ins compare them, and which of them are asked at all.

use core::net::IpAddr;

use thiserror::Error;

/// An absolute `http` or `https` URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebUrl {
    /// Is it `https`?
    pub is_secure: bool,
    /// In lower case, an IPv6 address without its brackets.
    pub host: String,
    /// The port, or the usual one.
    pub port: u16,
    /// From its first `/` on; of a URL without a path that alone.
    pub path: String,
    /// What stands behind the `?`.
    pub query: Option<String>,
    has_user: bool,
    has_fragment: bool,
}

impl WebUrl {
    /// Takes any `http` or `https` URL apart.
    pub fn parse(text: &str) -> Option<WebUrl> {
        let (scheme, rest) = text.split_once("://")?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let is_bad = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
        if rest.contains(is_bad) || !rest.is_ascii() {
            return None;
        }
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        let (host, port) = host_and_port(authority)?;
        let port = match port {
            Some(port) => port,
            None if is_secure => 443,
            None => 80,
        };
        let path = if path.is_empty() { "/" } else { path };
        Some(WebUrl {
            is_secure,
            host: host.to_ascii_lowercase(),
            port,
            path: path.to_owned(),
            query,
            has_user: user.is_some(),
            has_fragment: fragment.is_some(),
        })
    }

    /// The URL, if a request may be made there at all: `https`, or this machine.
    pub fn allowed(text: &str) -> Result<WebUrl, NotAllowed> {
        let shown = || shown(text);
        let url = WebUrl::parse(text).ok_or_else(|| NotAllowed::NoUrl { url: shown() })?;
        if url.has_user {
            return Err(NotAllowed::User { url: format!("{}{}", url.origin(), url.path) });
        }
        if url.has_fragment {
            return Err(NotAllowed::Fragment { url: shown() });
        }
        match url.is_secure || url.is_loopback() {
            true => Ok(url),
            false => Err(NotAllowed::InClear { url: shown() }),
        }
    }

    /// Scheme, host and port, without the port that goes without saying.
    pub fn origin(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        let usual = if self.is_secure { 443 } else { 80 };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port == usual {
            true => format!("{scheme}://{host}"),
            false => format!("{scheme}://{host}:{}", self.port),
        }
    }

    /// The path without the `/` at its end: nothing for a root.
    pub fn bare_path(&self) -> &str {
        self.path.strip_suffix('/').unwrap_or(&self.path)
    }

    /// Path and query as they stand in a request.
    pub fn path_and_query(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// The URL without query and fragment; of a root without its `/`.
    pub fn plain(&self) -> String {
        let path = if self.path == "/" { "" } else { &self.path };
        format!("{}{path}", self.origin())
    }

    /// Is it this machine, as it is written?
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse().is_ok_and(|address: IpAddr| match address {
                IpAddr::V4(address) => address.is_loopback(),
                IpAddr::V6(address) => address.is_loopback(),
            })
    }

    /// Do they have scheme, host and port in common?
    pub fn is_beside(&self, other: &WebUrl) -> bool {
        (self.is_secure, &self.host, self.port) == (other.is_secure, &other.host, other.port)
    }

    /// Is it the other URL or a parent of it? Neither a query nor a `/` at the end counts.
    pub fn covers(&self, other: &WebUrl) -> bool {
        let rest = other.bare_path().strip_prefix(self.bare_path());
        let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        !self.has_user && !self.has_fragment && self.is_beside(other) && is_below
    }
}

/// Is it an address of this machine or of a network that others do not reach?
pub fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_this_network = v4.octets()[0] == 0;
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || is_this_network
        }
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            let is_private = first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80;
            // A mapped or compatible address leads where its last half does.
            let is_v4 = v6.to_ipv4().is_some_and(|v4| is_inside(IpAddr::V4(v4)));
            v6.is_loopback() || v6.is_unspecified() || is_private || is_v4
        }
    }
}

/// Why a URL is not asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum NotAllowed {
    #[error("`{url}` is neither https nor on this machine")]
    InClear { url: String },
    #[error("`{url}` has a user part")]
    User { url: String },
    #[error("`{url}` has a fragment")]
    Fragment { url: String },
    #[error("`{url}` is no URL")]
    NoUrl { url: String },
}

fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    crate::printable::printable(text.as_bytes(), CHARS_MAX)
}

fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            host.parse::<core::net::Ipv6Addr>().ok()?;
            match behind.strip_prefix(':') {
                Some(port) => (host, port),
                None if behind.is_empty() => (host, ""),
                None => return None,
            }
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let is_digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = match port {
        "" => None,
        port if is_digits => Some(port.parse().ok()?),
        _ => return None,
    };
    let is_sane = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:%!$&'()*+,;=".contains(&byte);
    (!host.is_empty() && host.bytes().all(is_sane)).then_some((host, port))
}

/// As it stands in a query or a form: only letters, digits and `-._~` are themselves.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What was encoded so, with `+` for a blank; what is no text becomes `\u{fffd}`.
pub fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = || u8::from_str_radix(text.get(at + 1..at + 3)?, 16).ok();
        match bytes[at] {
            b'+' => out.push(b' '),
            b'%' => match hex() {
                Some(byte) => {
                    out.push(byte);
                    at += 2;
                }
                None => out.push(b'%'),
            },
            byte => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Names and values as a form or a query.
pub fn form<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs =
        pairs.into_iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The names and values of a query, decoded.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match WebUrl::allowed(text) {
            Ok(url) => format!("{} {}", url.origin(), url.path_and_query()),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn only_https_and_this_machine_are_asked() {
        assert_eq!(told("https://A.example:443/x?y"), "https://a.example /x?y");
        assert_eq!(told("http://localhost:8080"), "http://localhost:8080 /");
        assert_eq!(told("http://127.9.9.9/"), "http://127.9.9.9 /");
        assert_eq!(told("http://[::1]:3"), "http://[::1]:3 /");
        let refused = "`http://auth.example.com` is neither https nor on this machine";
        assert_eq!(told("http://auth.example.com"), refused);
        let is_inside = "`http://10.0.0.1` is neither https nor on this machine";
        assert_eq!(told("http://10.0.0.1"), is_inside);
        assert_eq!(told("https://ada:pass@a.example/x"), "`https://a.example/x` has a user part");
        assert_eq!(told("https://a.example/#x"), "`https://a.example/#x` has a fragment");
        for bad in ["ftp://a", "a.example", "https://", "https://a b/", "https://a:b/", "file:///x"]
        {
            assert_eq!(told(bad), format!("`{bad}` is no URL"));
        }
        assert_eq!(
            told("http://localhost@evil.example/"),
            "`http://evil.example/` has a user part"
        );
        assert_eq!(
            told("http://localhost\\@evil.example/"),
            "`http://localhost\\@evil.example/` is no URL"
        );
    }

    #[test]
    fn a_parent_ends_at_a_slash() {
        let covers = |parent: &str, child: &str| {
            WebUrl::parse(parent).unwrap().covers(&WebUrl::parse(child).unwrap())
        };
        assert!(covers("https://a.example/mcp", "https://a.example/mcp?x=1"));
        assert!(covers("https://A.example:443", "https://a.example/mcp"));
        assert!(covers("https://a.example/mcp/", "https://a.example/mcp"));
        assert!(covers("https://a.example/mcp", "https://a.example/mcp/"));
        assert!(covers("https://a.example/mcp", "https://a.example/mcp/v2"));
        assert!(!covers("https://a.example/mcp", "https://a.example/mcp2"));
        assert!(!covers("https://a.example/mcp/v2", "https://a.example/mcp"));
        assert!(!covers("https://a.example:8443/mcp", "https://a.example/mcp"));
        assert!(!covers("http://a.example/mcp", "https://a.example/mcp"));
        assert!(!covers("https://x@a.example/mcp", "https://a.example/mcp"));
    }

    #[test]
    fn addresses_of_our_own_machine_and_network() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_inside(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["8.8.8.8", "172.32.0.1", "2001:db8::1", "::ffff:8.8.8.8"] {
            assert!(!is_inside(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn what_is_encoded_comes_back() {
        assert_eq!(encoded("a b&c=ü~"), "a%20b%26c%3D%C3%BC~");
        assert_eq!(decoded("a+b%26c%3D%C3%BC%zz%"), "a b&c=ü%zz%");
        assert_eq!(form([("a", "1 2"), ("b", "")]), "a=1%202&b=");
        assert_eq!(pairs("a=1%202&b&=x").collect::<Vec<_>>().len(), 3);
    }
}
