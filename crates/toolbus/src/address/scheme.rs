//! How an address may begin, and what then follows. Each kind of peer names its own schemes.

use super::Purpose;
use super::url::Transport;

/// What an address begins with.
#[derive(Debug, Clone, Copy)]
pub struct Scheme {
    /// As it is written, e.g. `mcp+http://`.
    pub prefix: &'static str,
    /// What follows.
    pub form: Form,
}

/// What follows a scheme.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// Words: the program to start, and its arguments.
    Command,
    /// `host:port/path?name=value`.
    Url(UrlForm),
    /// The path of a socket file.
    Unix,
    /// Nothing: the scheme is the whole address.
    Alone,
}

/// What may stand in a URL.
#[derive(Debug, Clone, Copy)]
pub struct UrlForm {
    /// What carries the wire.
    pub transport: Transport,
    /// The path where none is written; `None` if there are no paths.
    pub path: Option<&'static str>,
    /// What may stand behind the `?`.
    pub query: Query,
    /// The port where none is written, if that is not a matter of the transport.
    pub port: Option<u16>,
    /// May several hosts stand in it, with commas between them?
    pub has_many_hosts: bool,
    /// Where credentials belong, for those who write them into the address.
    pub credentials: Option<&'static str>,
}

/// What may stand behind the `?` of a URL.
#[derive(Debug, Clone, Copy)]
pub enum Query {
    /// Anything: it belongs to the path, and is the peer's business.
    Peers,
    /// The same of an address to call; of one to listen on these parameters of ours.
    PeersToCall {
        /// By name.
        to_serve: &'static [&'static str],
    },
    /// Parameters of ours, by name.
    Parameters {
        /// Of an address to call.
        to_call: &'static [&'static str],
        /// Of an address to listen on.
        to_serve: &'static [&'static str],
    },
}

impl Query {
    /// The files by which one who listens shows itself over TLS.
    pub(crate) const FILES_TO_SERVE: &'static [&'static str] = &["cert", "key", "client_ca"];

    /// There are no parameters.
    pub const NOTHING: Query = Query::Parameters { to_call: &[], to_serve: &[] };

    /// The parameters of ours; `None` where the query is the peer's.
    pub(super) fn known(self, purpose: Purpose) -> Option<&'static [&'static str]> {
        match (self, purpose) {
            (Query::Peers, _) | (Query::PeersToCall { .. }, Purpose::Call) => None,
            (Query::Parameters { to_call, .. }, Purpose::Call) => Some(to_call),
            (Query::Parameters { to_serve, .. } | Query::PeersToCall { to_serve }, _) => {
                Some(to_serve)
            }
        }
    }
}

impl Scheme {
    /// What stands before the colon.
    pub(super) fn name(&self) -> &'static str {
        self.prefix.split(':').next().unwrap_or(self.prefix)
    }

    /// A program to start.
    pub const fn command(prefix: &'static str) -> Scheme {
        Scheme { prefix, form: Form::Command }
    }

    /// A socket file.
    pub const fn unix(prefix: &'static str) -> Scheme {
        Scheme { prefix, form: Form::Unix }
    }

    /// A scheme that is complete by itself.
    pub const fn alone(prefix: &'static str) -> Scheme {
        Scheme { prefix, form: Form::Alone }
    }

    /// A host and port, without path or parameters.
    pub const fn url(prefix: &'static str, transport: Transport) -> Scheme {
        let url = UrlForm {
            transport,
            path: None,
            query: Query::NOTHING,
            port: None,
            has_many_hosts: false,
            credentials: None,
        };
        Scheme { prefix, form: Form::Url(url) }
    }

    /// The same URL with paths; this one goes without saying.
    pub const fn with_path(self, path: &'static str) -> Scheme {
        match self.form {
            Form::Url(url) => {
                Scheme { form: Form::Url(UrlForm { path: Some(path), ..url }), ..self }
            }
            _ => self,
        }
    }

    /// The same URL with this port where none is written, of several hosts if there are some, and
    /// with a place for credentials that is not the address.
    pub(crate) const fn with_hosts(self, port: u16, credentials: &'static str) -> Scheme {
        match self.form {
            Form::Url(url) => {
                let (port, credentials) = (Some(port), Some(credentials));
                let url = UrlForm { port, has_many_hosts: true, credentials, ..url };
                Scheme { form: Form::Url(url), ..self }
            }
            _ => self,
        }
    }

    /// The same URL with this query.
    pub const fn with_query(self, query: Query) -> Scheme {
        match self.form {
            Form::Url(url) => Scheme { form: Form::Url(UrlForm { query, ..url }), ..self },
            _ => self,
        }
    }
}

impl Form {
    /// Where schemes of this form stand in a list of all: programs first.
    pub(super) fn rank(self) -> u8 {
        match self {
            Form::Command => 0,
            Form::Url(_) => 1,
            Form::Unix => 2,
            Form::Alone => 3,
        }
    }
}
