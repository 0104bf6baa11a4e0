//! What can be set about an MCP server somewhere else, and what must not be sent to it.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use toolbus_proto::http::{BadReference, resolve};
use toolbus_proto::mcp::calling;
use toolbus_proto::mcp::http::ClientSettings;

use crate::address::{Address, Transport, Url};
use crate::bus::TIMEOUT;
#[cfg(feature = "tls")]
use crate::causes::causes;
use crate::peer::OpenError;
use crate::peer::credentials::CredentialsError;
use crate::peer::settings::Settings;
use crate::peer::tls_files::TlsFiles;
use crate::transport::http::{
    Answer, Client, HeaderMap, HeaderName, HeaderValue, HttpOpener, Method, Origin, Request,
    Timeouts, Uri, header,
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
    /// The token of a sign-in, for requests that are no part of a conversation.
    signed: RefCell<Option<HeaderValue>>,
    /// Where the user has signed in; `None` where the token is fixed.
    #[cfg(feature = "oauth")]
    pub(in crate::wire::mcp) credential: Option<std::rc::Rc<crate::oauth::credential::Credential>>,
    /// Who wants to know what is answered.
    #[cfg(feature = "oauth")]
    pub(super) probed: Option<std::rc::Rc<std::cell::RefCell<super::probe::ProbeHeard>>>,
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
        #[cfg(feature = "oauth")]
        let credential = credential(url, settings, &own, &headers);
        #[cfg(feature = "oauth")]
        if let (Some(credential), Some(patience)) = (&credential, input_timeout) {
            credential.set_input_timeout(patience);
        }
        let defaults = calling::Settings::new(name, env!("CARGO_PKG_VERSION"));
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
                origin: scheme_host(url),
                sse,
                start_timeout: settings.start_timeout.unwrap_or(START_TIMEOUT),
            },
            timeout: settings.timeout.unwrap_or(TIMEOUT),
            share: own.share,
            path,
            headers,
            signed: RefCell::default(),
            #[cfg(feature = "oauth")]
            credential,
            #[cfg(feature = "oauth")]
            probed: None,
            client: Client::new(origin(url, &credentials.tls)?, CONNECTIONS_MAX, KEPT),
        })
    }

    /// What opens the streams of a conversation. All that it opens share their connections.
    #[cfg(not(feature = "oauth"))]
    pub(super) fn opener(&self) -> HttpOpener {
        self.plain_opener()
    }

    /// The same, with the token of a sign-in.
    #[cfg(feature = "oauth")]
    pub(super) fn opener(&self) -> super::signed::SignedOpener {
        super::signed::SignedOpener {
            http: self.plain_opener(),
            credential: self.credential.clone(),
            probed: self.probed.clone(),
        }
    }

    fn plain_opener(&self) -> HttpOpener {
        let (client, headers) = (self.client.clone(), self.headers.clone());
        HttpOpener { client, timeouts: self.timeouts(), headers }
    }

    /// From now on requests by [`ask`](Options::ask) show the token of a sign-in, if there is one.
    pub async fn sign(&self) -> Result<(), toolbus_proto::tool::Failure> {
        #[cfg(feature = "oauth")]
        if let Some(credential) = &self.credential {
            let token = credential.token().await?;
            let bearer = token.map(|token| format!("Bearer {}", token.reveal()));
            let value = bearer.and_then(|bearer| bearer.parse().ok());
            self.signed.replace(value.map(|mut value: HeaderValue| {
                value.set_sensitive(true);
                value
            }));
        }
        Ok(())
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
        if let Some(signed) = &*self.signed.borrow() {
            asked.headers_mut().insert(header::AUTHORIZATION, signed.clone());
        }
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

/// `https://host:port`.
fn scheme_host(url: &Url) -> String {
    let scheme = if url.carrier == Transport::Https { "https" } else { "http" };
    match url.host.contains(':') {
        true => format!("{scheme}://[{}]:{}", url.host, url.port),
        false => format!("{scheme}://{}:{}", url.host, url.port),
    }
}

/// Whose token it would be.
#[cfg(feature = "oauth")]
pub(in crate::wire::mcp) fn whose(
    url: &Url,
    settings: &Settings,
    own: &McpSettings,
) -> Option<crate::oauth::credential::Whose> {
    let origin = scheme_host(url);
    let server = toolbus_proto::oauth::web::WebUrl::parse(&format!("{origin}{}", url.path))?;
    let mut signs = own.oauth.clone().unwrap_or_default();
    if let Some(ca) = own.credentials().and(&settings.credentials).tls.ca {
        std::sync::Arc::make_mut(&mut signs).ca = Some(ca);
    }
    Some(crate::oauth::credential::Whose {
        name: own.back.clone().unwrap_or_else(|| server.plain()),
        is_configured: own.back.is_some(),
        server,
        settings: signs,
        insecure: own.insecure || settings.credentials.insecure,
    })
}

/// The token of a sign-in, unless a fixed one goes along.
#[cfg(feature = "oauth")]
fn credential(
    url: &Url,
    settings: &Settings,
    own: &McpSettings,
    headers: &HeaderMap,
) -> Option<std::rc::Rc<crate::oauth::credential::Credential>> {
    use crate::oauth::credential::Credential;
    if headers.contains_key(header::AUTHORIZATION) {
        return None;
    }
    let credential = std::rc::Rc::new(Credential::new(whose(url, settings, own)?));
    if own.back.is_some() {
        let meter: std::rc::Rc<dyn crate::bus::meters::Meter> = credential.clone();
        crate::bus::meters::watch(&meter);
        crate::oauth::offer::may_be_offered(&credential);
    }
    Some(credential)
}

#[cfg(feature = "tls")]
fn origin(url: &Url, files: &TlsFiles) -> Result<Origin, OptionsError> {
    use crate::transport::tls::Inside;
    let tls = match url.carrier {
        Transport::Https => {
            let tls = files.client(Inside::Http);
            let tls = tls.map_err(|error| OptionsError::Tls { why: causes(&error) })?;
            Some(tls.named_by("name its authority by `ca` (`--ca FILE`)"))
        }
        _ => None,
    };
    Ok(Origin { host: url.host.clone(), port: url.port, tls })
}

#[cfg(not(feature = "tls"))]
fn origin(url: &Url, _: &TlsFiles) -> Result<Origin, OptionsError> {
    match url.carrier {
        Transport::Https => Err(OptionsError::Tls { why: "toolbus was built without TLS".into() }),
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
    #[error("{why}")]
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
