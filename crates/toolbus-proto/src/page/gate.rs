//! Which requests are let in to the page, by where they come from. What a browser says of that no
//! page can change.

use std::fmt;

use crate::http::{Admission, Refused, RequestHead};

/// What the page may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PageMode {
    /// There is none.
    #[default]
    Off,
    /// See.
    Look,
    /// See, and call tools.
    Call,
}

impl PageMode {
    /// As it stands in a config.
    pub fn as_str(self) -> &'static str {
        match self {
            PageMode::Off => "off",
            PageMode::Look => "look",
            PageMode::Call => "call",
        }
    }

    /// Reads what stands in a config.
    pub fn parse(text: &str) -> Option<PageMode> {
        [PageMode::Off, PageMode::Look, PageMode::Call].into_iter().find(|it| it.as_str() == text)
    }
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageArea {
    /// The page itself, to which a link may lead.
    Shell,
    /// Its files and its data.
    Inside,
    /// What has nothing to do with it.
    Elsewhere,
}

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageDenied {
    /// As on any front.
    Refused(Refused),
    /// A browser says that another site asks.
    Site(String),
}

impl fmt::Display for PageDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageDenied::Refused(Refused::Origin(origin)) => {
                write!(f, "origin `{origin}` is not allowed")
            }
            PageDenied::Refused(refused) => f.write_str(&refused.with_hint()),
            PageDenied::Site(site) => {
                write!(f, "no other site may ask (`Sec-Fetch-Site: {site}`)")
            }
        }
    }
}

/// Judges by `Host`, `Origin` and `Sec-Fetch-Site`, in this order.
pub fn judge(admission: &Admission, head: &RequestHead, area: PageArea) -> Result<(), PageDenied> {
    admission.check_host(head).map_err(PageDenied::Refused)?;
    match area {
        PageArea::Elsewhere => admission.check_origin(head).map_err(PageDenied::Refused)?,
        PageArea::Shell | PageArea::Inside => {
            let mut origins = head.headers.all("Origin");
            if let Some(foreign) = origins.find(|origin| !is_own(admission, head, origin)) {
                return Err(PageDenied::Refused(Refused::Origin(foreign.to_owned())));
            }
        }
    }
    allowed_by_site(admission, head, area)
}

/// Judges by `Sec-Fetch-Site` alone.
pub fn allowed_by_site(
    admission: &Admission,
    head: &RequestHead,
    area: PageArea,
) -> Result<(), PageDenied> {
    let is_link = head.header("Sec-Fetch-Mode") == Some("navigate")
        && head.header("Sec-Fetch-Dest") == Some("document");
    let is_listed = head.header("Origin").is_some_and(|origin| admission.is_listed(origin));
    let is_allowed = |site: &str| match area {
        PageArea::Elsewhere => site != "cross-site" || is_listed,
        PageArea::Shell if is_link => true,
        PageArea::Shell | PageArea::Inside => matches!(site, "same-origin" | "none"),
    };
    match head.headers.all("Sec-Fetch-Site").find(|site| !is_allowed(site)) {
        Some(site) => Err(PageDenied::Site(site.to_owned())),
        None => Ok(()),
    }
}

/// Does the page itself ask, or one of an origin that is let in by name?
fn is_own(admission: &Admission, head: &RequestHead, origin: &str) -> bool {
    if origin.eq_ignore_ascii_case("null") {
        return false;
    }
    let host = origin.strip_prefix("http://");
    let is_host = host
        .zip(head.header("Host"))
        .is_some_and(|(origin, host)| !host.is_empty() && origin.eq_ignore_ascii_case(host));
    is_host || admission.is_listed(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(area: PageArea, headers: &[(&'static str, &str)]) -> bool {
        let origins = vec!["https://app.example".to_owned(), "null".to_owned()];
        let hosts = vec!["tools.example".to_owned()];
        let admission = Admission { origins, hosts, ..Admission::LOOPBACK };
        let mut head = RequestHead::new("GET", "/");
        head.headers.extend(headers.iter().copied());
        judge(&admission, &head, area).is_ok()
    }

    #[test]
    fn the_page_is_for_itself() {
        const HOST: (&str, &str) = ("Host", "127.0.0.1:9464");
        for (headers, shell, inside, elsewhere) in [
            (&[HOST][..], true, true, true),
            (&[], true, true, true),
            (&[("Host", "tools.example")], true, true, true),
            (&[("Host", "evil.example")], false, false, false),
            (&[HOST, ("Host", "evil.example")], false, false, false),
            (&[HOST, ("Origin", "http://127.0.0.1:9464")], true, true, true),
            (&[HOST, ("Origin", "http://127.0.0.1:9465")], false, false, true),
            (&[HOST, ("Origin", "http://localhost:9464")], false, false, true),
            (&[HOST, ("Origin", "https://127.0.0.1:9464")], false, false, true),
            (&[HOST, ("Origin", "https://app.example")], true, true, true),
            (&[HOST, ("Origin", "https://evil.example")], false, false, false),
            // Also where somebody lists it.
            (&[HOST, ("Origin", "null")], false, false, true),
            (&[HOST, ("Sec-Fetch-Site", "same-origin")], true, true, true),
            (&[HOST, ("Sec-Fetch-Site", "none")], true, true, true),
            (&[HOST, ("Sec-Fetch-Site", "same-site")], false, false, true),
            (&[HOST, ("Sec-Fetch-Site", "cross-site")], false, false, false),
            (&[HOST, ("Sec-Fetch-Site", "strange")], false, false, true),
            (
                &[HOST, ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")],
                false,
                false,
                false,
            ),
            (
                &[HOST, ("Sec-Fetch-Site", "cross-site"), ("Origin", "https://app.example")],
                false,
                false,
                true,
            ),
            (
                &[
                    HOST,
                    ("Sec-Fetch-Site", "cross-site"),
                    ("Sec-Fetch-Mode", "navigate"),
                    ("Sec-Fetch-Dest", "document"),
                ],
                true,
                false,
                false,
            ),
            (
                &[
                    HOST,
                    ("Sec-Fetch-Site", "cross-site"),
                    ("Sec-Fetch-Mode", "navigate"),
                    ("Sec-Fetch-Dest", "iframe"),
                ],
                false,
                false,
                false,
            ),
        ] {
            assert_eq!(told(PageArea::Shell, headers), shell, "shell {headers:?}");
            assert_eq!(told(PageArea::Inside, headers), inside, "inside {headers:?}");
            assert_eq!(told(PageArea::Elsewhere, headers), elsewhere, "elsewhere {headers:?}");
        }
    }

    #[test]
    fn modes_are_words() {
        for mode in [PageMode::Off, PageMode::Look, PageMode::Call] {
            assert_eq!(PageMode::parse(mode.as_str()), Some(mode));
        }
        assert_eq!(PageMode::parse("on"), None);
    }
}
