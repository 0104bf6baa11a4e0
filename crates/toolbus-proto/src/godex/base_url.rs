//! Where the server is: the base address that the user gives, and the one that is asked.

/// The address of a server that speaks the Responses API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    /// By TLS.
    pub is_secure: bool,
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    path: String,
    query: Option<String>,
}

impl BaseUrl {
    /// If neither flag nor environment says otherwise.
    pub const OPENAI: &'static str = "https://api.openai.com/v1";
    /// If neither says otherwise and the credentials are those of ChatGPT.
    pub const CHATGPT: &'static str = "https://chatgpt.com/backend-api/codex";
    /// Where tokens are renewed.
    pub const REFRESH: &'static str = "https://auth.openai.com/oauth/token";

    /// Reads an `http` or `https` address, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<BaseUrl, String> {
        let wrong = |why: &str| format!("`{text}` is no address of a server: {why}");
        let lower = text.to_ascii_lowercase();
        let (is_secure, from) = match () {
            () if lower.starts_with("http://") => (false, 7),
            () if lower.starts_with("https://") => (true, 8),
            () => return Err(wrong("it must begin with `http://` or `https://`")),
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("it has blanks or characters beyond ASCII"));
        }
        let rest = text[from..].split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        let (path, query) = match behind.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (behind, None),
        };
        if authority.contains('@') {
            return Err(wrong("credentials do not belong into it"));
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let usual = if is_secure { 443 } else { 80 };
        let port = port.map_or(Ok(usual), str::parse).map_err(|_| wrong("its port is no port"))?;
        Ok(BaseUrl {
            text: text.to_owned(),
            is_secure,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            query,
        })
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where a response is asked for, for people: without the query, in which keys may stand.
    pub fn responses_url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let usual = if self.is_secure { 443 } else { 80 };
        let port = if self.port == usual { String::new() } else { format!(":{}", self.port) };
        format!("{scheme}://{host}{port}{}/responses", self.path.trim_end_matches('/'))
    }

    /// Path and query of a request for a response.
    pub fn responses(&self) -> String {
        let path = format!("{}/responses", self.path.trim_end_matches('/'));
        self.with_query(path)
    }

    /// Path and query as they were given.
    pub fn path(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        self.with_query(path.to_owned())
    }

    fn with_query(&self, path: String) -> String {
        match &self.query {
            Some(query) => format!("{path}?{query}"),
            None => path,
        }
    }

    /// Is it this machine? Then no key is needed, and no proxy is asked.
    pub fn is_loopback(&self) -> bool {
        let octets: Option<Vec<u8>> = self.host.split('.').map(|text| text.parse().ok()).collect();
        let is_v4 = octets.is_some_and(|octets| octets.len() == 4 && octets[0] == 127);
        self.host.eq_ignore_ascii_case("localhost") || is_v4 || is_v6_loopback(&self.host)
    }
}

/// Is it `::1`, however many of its zeros are written out?
fn is_v6_loopback(host: &str) -> bool {
    let Some((zeros, last)) = host.rsplit_once(':') else { return false };
    let is = |text: &str, value: u16| u16::from_str_radix(text, 16) == Ok(value);
    let is_whole = host.contains("::") || host.split(':').count() == 8;
    is_whole && is(last, 1) && zeros.split(':').all(|text| text.is_empty() || is(text, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_responses() {
        for (text, host, port, path) in [
            ("https://api.openai.com/v1", "api.openai.com", 443, "/v1/responses"),
            ("http://127.0.0.1:7000/v1//", "127.0.0.1", 7000, "/v1/responses"),
            ("HTTP://[::1]:1/?a=b/", "::1", 1, "/responses?a=b/"),
            ("http://h?x", "h", 80, "/responses?x"),
            ("https://h/a#b", "h", 443, "/a/responses"),
        ] {
            let url = BaseUrl::parse(text).unwrap();
            assert_eq!((&*url.host, url.port, &*url.responses()), (host, port, path), "{text}");
        }
        let shown = |text: &str| BaseUrl::parse(text).unwrap().responses_url();
        assert_eq!(shown("HTTP://[::1]:1/?key=1"), "http://[::1]:1/responses");
        assert_eq!(shown("https://h:443/v1/"), "https://h/v1/responses");
        for text in [
            "",
            "ftp://a",
            "http://",
            "http:///v1",
            "http://a:b/",
            "http://a b",
            "http://u@h",
            "http://é",
        ] {
            assert!(BaseUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn this_machine_has_several_names() {
        for (text, expected) in [
            ("http://localhost:1", true),
            ("http://127.1.2.3", true),
            ("https://[::1]", true),
            ("https://[0:0:0:0:0:0:0:1]", true),
            ("https://[1::1]", false),
            ("https://[::2]", false),
            ("http://127.0.0.1.example", false),
            ("http://128.0.0.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(BaseUrl::parse(text).unwrap().is_loopback(), expected, "{text}");
        }
    }
}
