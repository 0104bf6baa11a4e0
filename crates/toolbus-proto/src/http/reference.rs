//! URLs that a peer gives us, read against the one they came from (RFC 3986, 5.2).
//!
//! Only those of the same origin are taken: what we send there carries the user's token.

use thiserror::Error;

use super::admission::host_of;

/// Why a URL of a peer is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum BadReference {
    #[error("is no URL")]
    NoUrl,
    #[error("is not of the same scheme, host and port as the server")]
    OtherOrigin,
}

/// The path, with its query, that `reference` names where `base` is the path of the document it
/// stands in, and `origin` (`https://host:port`) its origin.
pub fn resolve(origin: &str, base: &str, reference: &str) -> Result<String, BadReference> {
    let reference = reference.trim_matches([' ', '\t', '\r', '\n']);
    // A browser would read a backslash as a slash, which may change the host.
    let is_plain = |byte: u8| (b'!'..=b'~').contains(&byte) && byte != b'\\';
    if reference.is_empty() || !reference.bytes().all(is_plain) {
        return Err(BadReference::NoUrl);
    }
    let reference = reference.split_once('#').map_or(reference, |(before, _)| before);
    let (scheme, own) = origin.split_once("://").ok_or(BadReference::NoUrl)?;
    let rest = match scheme_of(reference) {
        Some((other, _)) if !other.eq_ignore_ascii_case(scheme) => {
            return Err(BadReference::OtherOrigin);
        }
        Some((_, rest)) if !rest.starts_with("//") => return Err(BadReference::NoUrl),
        Some((_, rest)) => rest,
        None => reference,
    };
    let rest = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            if place(scheme, authority) != place(scheme, own) || place(scheme, own).is_none() {
                return Err(BadReference::OtherOrigin);
            }
            if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") }
        }
        None => rest.to_owned(),
    };
    let (base_path, base_query) = base.split_once('?').map_or((base, None), |(p, q)| (p, Some(q)));
    let (path, query) = rest.split_once('?').map_or((&*rest, None), |(p, q)| (p, Some(q)));
    let (path, query) = match path {
        "" => (base_path.to_owned(), query.or(base_query)),
        path if path.starts_with('/') => (without_dots(path), query),
        path => {
            let folder = base_path.rsplit_once('/').map_or("", |(folder, _)| folder);
            (without_dots(&format!("{folder}/{path}")), query)
        }
    };
    Ok(query.map_or(path.clone(), |query| format!("{path}?{query}")))
}

/// The scheme before the colon, if there is one, and what stands behind.
fn scheme_of(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_scheme =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_letter);
    is_scheme.then_some((scheme, rest))
}

/// Host and port.
fn place(scheme: &str, authority: &str) -> Option<(String, u16)> {
    let host = host_of(authority)?;
    let usual = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
    let port = match authority[host.len()..].strip_prefix(':').unwrap_or_default() {
        "" => usual,
        port => port.parse().ok()?,
    };
    Some((host.to_ascii_lowercase(), port))
}

/// The path without `.` and `..`; it begins with a slash.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut ends_in_folder = false;
    for part in path.split('/').skip(1) {
        ends_in_folder = matches!(part, "." | "..");
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let end = if ends_in_folder && !parts.is_empty() { "/" } else { "" };
    format!("/{}{end}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_where_they_stand() {
        let resolved = |reference| resolve("http://h.example:80", "/a/sse?k=1", reference);
        for (reference, expected) in [
            ("/messages?session=1", "/messages?session=1"),
            ("messages?session=1", "/a/messages?session=1"),
            ("./m", "/a/m"),
            ("../m", "/m"),
            ("../../../m/", "/m/"),
            ("b/..", "/a/"),
            ("?s=1", "/a/sse?s=1"),
            ("http://h.example/m", "/m"),
            ("HTTP://H.Example:80/m?x=http://y", "/m?x=http://y"),
            ("http://h.example?x", "/?x"),
            ("//h.example:80/m#part", "/m"),
            (" /m\r", "/m"),
        ] {
            assert_eq!(resolved(reference).as_deref(), Ok(expected), "{reference}");
        }
        for reference in [
            "https://h.example/m",
            "http://h.example:81/m",
            "http://evil.example/m",
            "//evil.example/m",
            "http://h.example@evil.example/m",
            "http://evil.example/http://h.example/",
            "ftp://h.example/",
            "javascript:alert(1)",
        ] {
            assert_eq!(resolved(reference), Err(BadReference::OtherOrigin), "{reference}");
        }
        for reference in ["", "/a b", "/\u{e4}", "http:/h.example/m", "/\\evil.example/", "http:m"]
        {
            assert_eq!(resolved(reference), Err(BadReference::NoUrl), "{reference}");
        }
        let v6 = resolve("https://[::1]:8443", "/sse", "https://[::1]:8443/m");
        assert_eq!(v6.as_deref(), Ok("/m"));
    }
}
