//! What can be set about an MCP server somewhere else, and what must not be sent to it.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use toolbus_proto::http::{BadReference, resolve};
use toolbus_proto::mcp::calling;
use toolbus_proto::mcp::http::ClientSettings;

use crate::address::{Address, Transport, Url};
use crate::bus::TIMEOUT;
use crate::peer::OpenError;
use crate::peer::credentials::CredentialsError;
use crate::peer::settings::Settings;
use crate::transport::http::{
    Answer, Client, HeaderMap, HeaderName, HttpOpener, Method, Origin, Request, Timeouts, Uri,
};
use crate::wire::mcp::eras;
use crate::wire::mcp::settings::{McpSettings, Share};

/// How long until the server must have introduced itself.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// As many as calls at a time, each of which may hold a connection, and a few streams.
const CONNECTIONS_MAX: usize = 1024 + 16;
/// How long a connection is kept for the next call.
const KEPT: Duration = Duration::from_secs(30);

/// All that can be set about an MCP server somewhere else.
pub struct Options {
    /// Its limits and times, and what the log calls it.
    pub(super) settings: ClientSettings,
    /// How long it may take to list its tools.
    pub(super) timeout: Duration,
    /// Who shares a conversation of the old era.
    pub(super) share: Share,
    /// Where on the server it is, with a query if there is one.
    path: Uri,
    /// Sent with every request, besides those of the protocol.
    headers: HeaderMap,
    client: Client,
}

impl Options {
    /// What an address and the settings mean.
    ///
    /// `sse` tells that the server speaks the old pair of HTTP+SSE.
    pub fn of(
        name: &str,
        url: &Url,
        sse: bool,
        settings: &Settings,
    ) -> Result<Options, OptionsError> {
        let own: McpSettings = settings.wire.get();
        let McpSettings { timeout_total, probe_timeout, input_timeout, .. } = own;
        let no_path = |_| OptionsError::Path { path: url.path.clone() };
        let path: Uri = url.path.parse().map_err(no_path)?;
        let is_secure = url.carrier == Transport::Https;
        let credentials = own.credentials().and(&settings.credentials);
        let headers = credentials.fields(&url.host, is_secure)?;
        let defaults = calling::Settings::new(name, env!("CARGO_PKG_VERSION"));
        let scheme = if is_secure { "https" } else { "http" };
        let host = match url.host.contains(':') {
            true => format!("[{}]", url.host),
            false => url.host.clone(),
        };
        let calling = calling::Settings {
            introduction: own.introduction(&settings.clients),
            memory: own.memory(settings),
            timeout_total,
            probe_timeout: probe_timeout.unwrap_or(defaults.probe_timeout),
            input_timeout: input_timeout.unwrap_or(defaults.input_timeout),
            tokens: Some(eras::tokens()),
            line_bytes_max: own.reply_bytes_max_of(settings).unwrap_or(defaults.line_bytes_max),
            ..defaults
        };
        Ok(Options {
            settings: ClientSettings {
                calling,
                path: path.to_string(),
                origin: format!("{scheme}://{host}:{}", url.port),
                sse,
                start_timeout: settings.start_timeout.unwrap_or(START_TIMEOUT),
            },
            timeout: settings.timeout.unwrap_or(TIMEOUT),
            share: own.share,
            path,
            headers,
            client: Client::new(origin(url)?, CONNECTIONS_MAX, KEPT),
        })
    }

    /// What opens the streams of a conversation. All that it opens share their connections.
    pub(super) fn opener(&self) -> HttpOpener {
        let (client, headers) = (self.client.clone(), self.headers.clone());
        HttpOpener { client, timeouts: self.timeouts(), headers }
    }

    /// Does it speak the old pair of HTTP+SSE?
    pub fn is_pair(&self) -> bool {
        self.settings.sse
    }

    /// The path, with its query, that a URL of the server leads to, if that is on the server.
    pub fn resolve(&self, url: &str) -> Result<String, BadReference> {
        resolve(&self.settings.origin, &self.settings.path, url)
    }

    /// Makes one request where the server is said to be.
    pub fn ask(&self, method: Method, headers: &[(String, String)], body: Bytes) -> Answer {
        self.ask_at(&self.settings.path, method, headers, body)
    }

    /// Makes one request elsewhere on the server.
    pub fn ask_at(
        &self,
        path: &str,
        method: Method,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Answer {
        let mut asked = Request::new(body);
        *asked.method_mut() = method;
        *asked.uri_mut() = path.parse().unwrap_or_else(|_| self.path.clone());
        asked.headers_mut().clone_from(&self.headers);
        for (name, value) in headers {
            // What cannot stand in a header has been encoded; the rest is refused by the server.
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
                asked.headers_mut().insert(name, value);
            }
        }
        self.client.ask(asked, self.timeouts())
    }

    /// Deadlines are kept by who makes the call.
    fn timeouts(&self) -> Timeouts {
        Timeouts { connect: self.settings.start_timeout, head: None }
    }
}

#[cfg(feature = "tls")]
fn origin(url: &Url) -> Result<Origin, OptionsError> {
    use crate::transport::tls::{ClientTls, Inside};
    let tls = match url.carrier {
        Transport::Https => {
            let tls = ClientTls::load(None, None, Inside::Http);
            Some(tls.map_err(|error| OptionsError::Tls { why: error.to_string() })?)
        }
        _ => None,
    };
    Ok(Origin { host: url.host.clone(), port: url.port, tls })
}

#[cfg(not(feature = "tls"))]
fn origin(url: &Url) -> Result<Origin, OptionsError> {
    match url.carrier {
        Transport::Https => Err(OptionsError::Tls { why: "it was built without TLS".into() }),
        _ => Ok(Origin { host: url.host.clone(), port: url.port }),
    }
}

/// Why a server cannot be called as it is set up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// What should go with every request cannot.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// No request can have such a path.
    #[error("`{path}` is no path")]
    Path {
        /// What was given.
        path: String,
    },
    /// There can be no safe connection.
    #[error("toolbus cannot speak TLS: {why}")]
    Tls {
        /// Why not.
        why: String,
    },
}

impl OptionsError {
    /// Why the address cannot be opened.
    pub fn of(self, address: &Address) -> OpenError {
        let (message, hint) = (self.to_string(), self.hint());
        match self {
            OptionsError::Credentials(error) => error.of(address),
            _ => OpenError::unusable(address, message).hinted(hint),
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            OptionsError::Credentials(error) => error.hint(),
            OptionsError::Path { .. } | OptionsError::Tls { .. } => None,
        }
    }
}
