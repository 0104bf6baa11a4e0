//! By what the callers of a front can be told apart, as far as its address tells.

use crate::address::{Address, Place, Transport};

/// By what the callers of a front can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TellsApart {
    /// Whatever carries it has no place for a credential.
    Nothing,
    /// By certificates, but no authority is named that vouches for them.
    NeedsClientCa,
    /// By these.
    By(&'static [Shows]),
}

/// What a caller can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// A bearer token.
    Token,
    /// A certificate.
    Certificate,
    /// The user whose process it is, as the kernel tells.
    Uid,
}

impl TellsApart {
    /// Those of the front that listens there.
    pub fn at(address: &Address) -> TellsApart {
        let Place::Url(url) = address.place() else {
            return match address.place() {
                Place::Unix(_) => TellsApart::By(&[Shows::Uid]),
                _ => TellsApart::Nothing,
            };
        };
        let has_authority = url.parameter("client_ca").is_some();
        match (url.carrier, has_authority) {
            (Transport::Http, _) | (Transport::Https, false) => TellsApart::By(&[Shows::Token]),
            (Transport::Https, true) => TellsApart::By(&[Shows::Token, Shows::Certificate]),
            (Transport::Quic, _) | (Transport::Tls, true) => TellsApart::By(&[Shows::Certificate]),
            (Transport::Tls, false) => TellsApart::NeedsClientCa,
            (Transport::Tcp, _) => TellsApart::Nothing,
        }
    }

    /// Has a caller that is known by these keys of the config something to show?
    pub fn knows(self, keys: &[&str]) -> bool {
        self.shown().iter().any(|shows| shows.keys().iter().any(|key| keys.contains(key)))
    }

    /// What a caller needs that has nothing to show.
    pub fn needs(self) -> &'static str {
        match self.shown() {
            [Shows::Certificate] => "`cert_sha256` or `cert_subject`",
            [Shows::Uid] => "`uid`",
            _ => "`token` or `token_sha256`",
        }
    }

    fn shown(self) -> &'static [Shows] {
        match self {
            TellsApart::By(shown) => shown,
            TellsApart::Nothing | TellsApart::NeedsClientCa => &[],
        }
    }
}

impl Shows {
    fn keys(self) -> &'static [&'static str] {
        match self {
            Shows::Token => &["token", "token_sha256"],
            Shows::Certificate => &["cert_sha256", "cert_subject"],
            Shows::Uid => &["uid"],
        }
    }
}
