//! Requests to sign-in servers: short, small, nowhere that a stranger may not send us.
//!
//! Metadata names most of their URLs. They are `https` or on this machine, they lead into our own
//! network only for a server that is there itself, and a token goes along with none of them.

use std::cell::Cell;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::net::lookup_host;
use tokio::time::timeout;
use toolbus_proto::http::resolve;
use toolbus_proto::oauth::web::{NotAllowed, WebUrl, is_inside};

use super::cores;
use crate::causes::causes;
use crate::transport::http::{
    Body, BodyError, CallError, Client, HeaderValue, Method, Origin, Request, Response, Timeouts,
    Uri, header,
};
use crate::transport::tcp::ConnectError;

/// A document may have so many bytes.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// The answer of a token endpoint may.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;
/// How long one request may take in all.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a document may be elsewhere on its server.
const REDIRECTS_MAX: usize = 3;
/// No connection is kept: a sign-in server is asked rarely.
const KEPT: Duration = Duration::from_secs(1);

/// Makes requests on behalf of one server, or of the config.
#[derive(Clone)]
pub struct Fetcher {
    /// Who sends us; `None` if that is the config, which may send us anywhere.
    server: Option<(String, u16)>,
    /// Hosts that the config names besides.
    trusted: Vec<String>,
    /// Is the server itself on this machine or in its network? Found out when it matters.
    is_server_inside: Rc<Cell<Option<bool>>>,
    /// The authority that vouches for the server, and may for where one signs in.
    ca: Option<PathBuf>,
}

/// What was answered.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Its status.
    pub status: u16,
    /// All of its body.
    pub body: Bytes,
    /// How long it says that it holds.
    pub max_age: Option<Duration>,
}

/// What is posted.
#[derive(Clone)]
pub struct Posted {
    /// `application/x-www-form-urlencoded` or `application/json`.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
    /// The value of `Authorization`, if the client shows by it who it is.
    pub authorization: Option<String>,
}

impl Fetcher {
    /// On behalf of the config: what it names may be in our own network.
    pub fn of_config() -> Fetcher {
        Fetcher { server: None, trusted: Vec::new(), is_server_inside: Rc::default(), ca: None }
    }

    /// On behalf of a server. The hosts of `issuers` are named by the config.
    pub fn of_server(server: &WebUrl, issuers: &[String]) -> Fetcher {
        let host = |issuer: &String| WebUrl::parse(issuer).map(|url| url.host);
        Fetcher {
            server: Some((server.host.clone(), server.port)),
            trusted: issuers.iter().filter_map(host).collect(),
            is_server_inside: Rc::default(),
            ca: None,
        }
    }

    /// The same, where the config names an authority for the server. A sign-in server elsewhere may be
    /// vouched for by it or by the public ones.
    #[must_use]
    pub fn believing(self, ca: Option<&PathBuf>) -> Fetcher {
        Fetcher { ca: ca.cloned(), ..self }
    }

    /// Gets a document, at most one as large as documents may be.
    pub async fn get(&self, url: &str) -> Result<Fetched, FetchError> {
        self.get_up_to(url, DOCUMENT_BYTES_MAX).await
    }

    /// The same with another limit.
    pub async fn get_up_to(&self, url: &str, bytes_max: usize) -> Result<Fetched, FetchError> {
        let mut at = WebUrl::allowed(url)?;
        for _ in 0..=REDIRECTS_MAX {
            let (response, fetched) = self.exchange(url, &at, None, bytes_max).await?;
            if !matches!(response, 301 | 302 | 303 | 307 | 308) {
                return Ok(fetched.whole(response));
            }
            at = fetched.elsewhere(url, &at)?;
        }
        Err(FetchError::Redirects { url: url.to_owned() })
    }

    /// Posts something; an answer that sends it elsewhere is a failure.
    pub async fn post(
        &self,
        url: &str,
        posted: &Posted,
        bytes_max: usize,
    ) -> Result<Fetched, FetchError> {
        // What is posted is a secret, and so is what is answered.
        cores::hold_tokens();
        let at = WebUrl::allowed(url)?;
        let (status, fetched) = self.exchange(url, &at, Some(posted), bytes_max).await?;
        match (300..400).contains(&status) {
            true => Err(FetchError::PostRedirected { url: url.to_owned(), status }),
            false => Ok(fetched.whole(status)),
        }
    }

    async fn exchange(
        &self,
        url: &str,
        at: &WebUrl,
        posted: Option<&Posted>,
        bytes_max: usize,
    ) -> Result<(u16, Exchanged), FetchError> {
        let asked = async {
            match self.ask_believed(url, at, posted, self.may_go_inside(at)).await {
                Err(FetchError::Call { source, .. })
                    if matches!(*source, CallError::Connect(ConnectError::Inside { .. })) =>
                {
                    match self.is_inside_itself().await {
                        true => self.ask_believed(url, at, posted, true).await,
                        false => Err(FetchError::Inside { url: url.to_owned() }),
                    }
                }
                asked => asked,
            }
        };
        let answer = timeout(PATIENCE, async {
            let response = asked.await?;
            let (head, body) = response.into_parts();
            let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
            let location = header(header::LOCATION).map(str::to_owned);
            let max_age = header(header::CACHE_CONTROL).and_then(max_age);
            let body = whole(url, body, bytes_max).await?;
            Ok((head.status.as_u16(), Exchanged { location, max_age, body }))
        });
        let too_late = |_| FetchError::TimedOut { url: url.to_owned(), patience: PATIENCE };
        answer.await.map_err(too_late)?
    }

    /// Asks by the authority of the config; a server elsewhere that this does not vouch for by the
    /// public ones, for nothing has been said to it yet.
    async fn ask_believed(
        &self,
        url: &str,
        at: &WebUrl,
        posted: Option<&Posted>,
        may_go_inside: bool,
    ) -> Result<Response<Body>, FetchError> {
        let ca = self.ca.as_deref().filter(|_| at.is_secure);
        let is_server = self.server.as_ref().is_some_and(|(host, _)| *host == at.host);
        match self.ask(url, at, posted, may_go_inside, ca).await {
            Err(FetchError::Call { source, .. })
                if ca.is_some()
                    && !is_server
                    && matches!(*source, CallError::Connect(ref why) if !is_inside_error(why)) =>
            {
                self.ask(url, at, posted, may_go_inside, None).await
            }
            asked => asked,
        }
    }

    async fn ask(
        &self,
        url: &str,
        at: &WebUrl,
        posted: Option<&Posted>,
        may_go_inside: bool,
        ca: Option<&Path>,
    ) -> Result<Response<Body>, FetchError> {
        let no_url = || FetchError::NotAllowed(NotAllowed::NoUrl { url: url.to_owned() });
        let mut request = Request::new(posted.map(|it| it.body.clone()).unwrap_or_default().into());
        *request.uri_mut() = at.path_and_query().parse::<Uri>().map_err(|_| no_url())?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(posted) = posted {
            headers.insert(header::CONTENT_LENGTH, posted.body.len().into());
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(posted.content_type));
            if let Some(value) = &posted.authorization {
                let mut value = HeaderValue::from_str(value).map_err(|_| no_url())?;
                value.set_sensitive(true);
                headers.insert(header::AUTHORIZATION, value);
            }
            *request.method_mut() = Method::POST;
        }
        let vet = Rc::new(move |address: IpAddr| may_go_inside || !is_inside(address));
        let client = Client::vetted(origin(at, ca)?, vet, KEPT);
        let timeouts = Timeouts { connect: PATIENCE, head: None };
        let failed = |source| FetchError::Call { url: url.to_owned(), source: Box::new(source) };
        client.ask(request, timeouts).await.map_err(failed)
    }

    /// May it lead inside without a look at where the server is?
    fn may_go_inside(&self, at: &WebUrl) -> bool {
        self.server.is_none()
            || self.trusted.contains(&at.host)
            || self.is_server_inside.get() == Some(true)
    }

    /// Is the server on this machine or in its network?
    async fn is_inside_itself(&self) -> bool {
        let Some((host, port)) = &self.server else { return true };
        if let Some(known) = self.is_server_inside.get() {
            return known;
        }
        let is_it = match lookup_host((host.as_str(), *port)).await {
            Ok(mut addresses) => addresses.any(|address| is_inside(address.ip())),
            Err(_) => false,
        };
        self.is_server_inside.set(Some(is_it));
        is_it
    }
}

/// An answer whose status is still to be judged.
struct Exchanged {
    location: Option<String>,
    max_age: Option<Duration>,
    body: Bytes,
}

impl Exchanged {
    fn whole(self, status: u16) -> Fetched {
        Fetched { status, body: self.body, max_age: self.max_age }
    }

    /// Where on the same server it is instead.
    fn elsewhere(&self, url: &str, at: &WebUrl) -> Result<WebUrl, FetchError> {
        let no_way = || FetchError::Elsewhere { url: url.to_owned() };
        // A redirect to another origin would lead where the document did not say.
        let location = self.location.as_deref().ok_or_else(no_way)?;
        let path = resolve(&at.origin(), &at.path, location).map_err(|_| no_way())?;
        Ok(WebUrl::allowed(&format!("{}{path}", at.origin()))?)
    }
}

/// All of a body that is not too long.
async fn whole(url: &str, mut body: Body, bytes_max: usize) -> Result<Bytes, FetchError> {
    let mut read = Vec::new();
    let cut = |source| FetchError::Cut { url: url.to_owned(), source };
    while let Some(chunk) = body.next().await.map_err(cut)? {
        if bytes_max < read.len() + chunk.len() {
            return Err(FetchError::TooLarge { url: url.to_owned(), bytes_max });
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read.into())
}

/// How long an answer says that it holds.
fn max_age(field: &str) -> Option<Duration> {
    let directives = field.split(',').map(str::trim);
    let age = directives
        .filter_map(|one| one.split_once('='))
        .find(|(name, _)| name.eq_ignore_ascii_case("max-age"));
    Some(Duration::from_secs(age?.1.trim_matches('"').parse().ok()?))
}

fn is_inside_error(why: &ConnectError) -> bool {
    matches!(why, ConnectError::Inside { .. })
}

#[cfg(feature = "tls")]
fn origin(at: &WebUrl, ca: Option<&Path>) -> Result<Origin, FetchError> {
    use crate::transport::tls::{ClientTls, Inside};
    let tls = match at.is_secure {
        true => {
            let tls = ClientTls::load(ca, None, Inside::Http);
            Some(tls.map_err(|error| FetchError::Tls { why: error.to_string() })?)
        }
        false => None,
    };
    Ok(Origin { host: at.host.clone(), port: at.port, tls })
}

#[cfg(not(feature = "tls"))]
fn origin(at: &WebUrl, _: Option<&Path>) -> Result<Origin, FetchError> {
    match at.is_secure {
        true => Err(FetchError::Tls { why: "it was built without TLS".into() }),
        false => Ok(Origin { host: at.host.clone(), port: at.port }),
    }
}

/// Why there is no answer.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum FetchError {
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error("`{url}` leads to this machine or its own network, where the server itself is not")]
    Inside { url: String },
    #[error("no answer from `{url}`: {}", causes(&**source))]
    Call { url: String, source: Box<CallError> },
    #[error("the answer of `{url}` broke off")]
    Cut { url: String, source: BodyError },
    #[error("no answer from `{url}` within {patience:?}")]
    TimedOut { url: String, patience: Duration },
    #[error("the answer of `{url}` is over the limit of {bytes_max} bytes")]
    TooLarge { url: String, bytes_max: usize },
    #[error("`{url}` redirects more than {REDIRECTS_MAX} times")]
    Redirects { url: String },
    #[error("`{url}` redirects to another server")]
    Elsewhere { url: String },
    #[error("`{url}` answered with HTTP status {status}: such a request is not sent elsewhere")]
    PostRedirected { url: String, status: u16 },
    #[error("toolbus cannot speak TLS: {why}")]
    Tls { why: String },
}
