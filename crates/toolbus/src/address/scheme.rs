//! How an address may begin, and what then follows. Each kind of peer names its own schemes.

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
}

/// What may stand behind the `?` of a URL.
#[derive(Debug, Clone, Copy)]
pub enum Query {
    /// Anything: it belongs to the path, and is the peer's business.
    Peers,
    /// Parameters of ours, by name.
    Parameters {
        /// Of an address to call.
        to_call: &'static [&'static str],
        /// Of an address to listen on.
        to_serve: &'static [&'static str],
    },
}

impl Query {
    /// There are no parameters.
    pub const NOTHING: Query = Query::Parameters { to_call: &[], to_serve: &[] };
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
        let url = UrlForm { transport, path: None, query: Query::NOTHING };
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
