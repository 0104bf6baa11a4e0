//! Addresses of web servers: as people write them, joined to a base, and where a redirect leads.

use toolbus_engine::transport::http::Uri;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) is_secure: bool,
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Path and query.
    pub(super) target: Uri,
    /// `name:password`, if they stand in the address.
    pub(super) credentials: Option<String>,
}

impl Url {
    /// Reads an `http` or `https` address, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Url, String> {
        let wrong = |why: &str| format!("`{text}` is no address that can be asked: {why}");
        let without_fragment = text.split('#').next().unwrap_or_default();
        let uri: Uri = without_fragment.parse().map_err(|error| wrong(&format!("{error}")))?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it must begin with `http://` or `https://`")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let (credentials, _) = authority.as_str().rsplit_once('@').unzip();
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        Ok(Url {
            is_secure,
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(if is_secure { 443 } else { 80 }),
            target: target.parse().map_err(|_| wrong("its path is none"))?,
            credentials: credentials.map(percent_decoded),
        })
    }

    /// The address that `text` names: by itself, or behind `base`.
    pub(super) fn joined(base: Option<&str>, text: &str) -> Result<Url, String> {
        match base {
            Some(base) if !text.contains("://") => {
                let (base, rest) = (base.trim_end_matches('/'), text.trim_start_matches('/'));
                let is_bare = rest.is_empty() || rest.starts_with('?');
                Url::parse(&format!("{base}{}{rest}", if is_bare { "" } else { "/" }))
            }
            _ => Url::parse(text),
        }
    }

    /// Where a `Location` leads from here.
    pub(super) fn followed(&self, location: &str) -> Result<Url, String> {
        let scheme = if self.is_secure { "https" } else { "http" };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let origin = format!("{scheme}://{host}:{}", self.port);
        if location.contains("://") {
            return Url::parse(location);
        }
        if location.starts_with("//") {
            return Url::parse(&format!("{scheme}:{location}"));
        }
        if location.starts_with('/') {
            return Url::parse(&format!("{origin}{location}"));
        }
        if location.starts_with('?') {
            return Url::parse(&format!("{origin}{}{location}", self.target.path()));
        }
        let path = self.target.path();
        let folder = &path[..path.rfind('/').map_or(0, |at| at + 1)];
        let (relative, query) = match location.split_once('?') {
            Some((relative, query)) => (relative, format!("?{query}")),
            None => (location, String::new()),
        };
        Url::parse(&format!("{origin}{}{query}", without_dots(&format!("{folder}{relative}"))))
    }

    /// Is the other the same server?
    pub(super) fn has_same_origin(&self, other: &Url) -> bool {
        (self.is_secure, &self.host, self.port) == (other.is_secure, &other.host, other.port)
    }
}

/// The path with `.` and `..` followed.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            segment => kept.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let hex = behind.get(..2).and_then(|hex| str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: Result<Url, String>) -> String {
        url.map_or_else(
            |error| error,
            |url| {
                let scheme = if url.is_secure { "https" } else { "http" };
                format!("{scheme} {} {} {}", url.host, url.port, url.target)
            },
        )
    }

    #[test]
    fn relative_addresses_stand_behind_the_base() {
        let base = Some("http://h:81/api/");
        assert_eq!(shown(Url::joined(base, "/users?x=1")), "http h 81 /api/users?x=1");
        assert_eq!(shown(Url::joined(base, "")), "http h 81 /api");
        assert_eq!(shown(Url::joined(base, "https://[::1]/x#y")), "https ::1 443 /x");
        assert!(shown(Url::joined(None, "/users")).contains("must begin with `http://`"));
        assert!(shown(Url::joined(None, "ftp://h/")).contains("must begin with `http://`"));
    }

    #[test]
    fn redirects_lead_on_from_where_they_came() {
        let url = Url::parse("http://a%40b:c@h/one/two?q").unwrap();
        assert_eq!(url.credentials.as_deref(), Some("a@b:c"));
        for (location, expected) in [
            ("three", "http h 80 /one/three"),
            ("../x/./y?z", "http h 80 /x/y?z"),
            ("/top", "http h 80 /top"),
            ("?p", "http h 80 /one/two?p"),
            ("//other/x", "http other 80 /x"),
            ("https://other/x", "https other 443 /x"),
        ] {
            assert_eq!(shown(url.followed(location)), expected, "{location}");
        }
    }
}
