//! `builtin/http`: requests to web servers.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout_at};
use toolbus::{Failure, Json, LocalFuture};
use toolbus_engine::transport::http::{
    Body, Client, HeaderMap, HeaderName, HeaderValue, Method, Origin, Proxy, Request, Response,
    StatusCode, Timeouts, header,
};
use toolbus_engine::transport::tls::{ClientTls, Inside as TlsInside};
use toolbus_proto::collect::base64;

use super::url::Url;
use super::{
    BYTES_MAX, Execute, Inside, attrs, causes, duration, execute_failed, unknown_action,
    validation_failed,
};

pub(super) const SCHEMA: &str = r#"{
  "name": "http", "version": "VERSION", "protocol": "1",
  "config": {
    "base_url": {"type": "string", "description": "what relative addresses stand behind"},
    "default_headers": {"type": "map(string)", "description": "headers of every request"},
    "timeout_seconds": {"type": "number", "default": 30, "description": "how long a request may take"}
  },
  "actions": {
    "http_request": {
      "description": "asks a web server; any status is a success",
      "attrs": {
        "url": {"type": "string", "required": true, "description": "the address, behind `base_url` if it is relative"},
        "method": {"type": "string", "default": "GET"},
        "headers": {"type": "map(string)", "description": "headers of this request"},
        "body": {"type": "string", "description": "what is sent"}
      },
      "outputs": {"type": "object({body=string,headers=map(string),status=number})"}
    },
    "http_wait": {
      "description": "asks a web server again and again until it answers with a status",
      "attrs": {
        "url": {"type": "string", "required": true, "description": "the address, behind `base_url` if it is relative"},
        "status": {"type": "number", "default": 200, "description": "the status to wait for"},
        "interval": {"type": "string", "default": "500ms", "description": "the pause between two requests"},
        "timeout": {"type": "string", "default": "30s", "description": "how long to try, in all"}
      },
      "outputs": {"type": "object({attempts=number})"}
    }
  },
  "extensions": ["parallel"]
}"#;

/// As many as a browser follows, halved.
const REDIRECTS_MAX: usize = 10;
/// Connections to one server at a time.
const CONNECTIONS_MAX: usize = 32;
const IDLE: Duration = Duration::from_secs(60);

/// Whom connections are kept for.
type Server = (bool, String, u16);

#[derive(Default)]
pub(super) struct Http {
    config: RefCell<Config>,
    clients: RefCell<HashMap<Server, Client>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Config {
    base_url: Option<String>,
    #[serde(default)]
    default_headers: BTreeMap<String, String>,
    timeout_seconds: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct RequestAttrs {
    url: String,
    method: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
}

#[derive(Debug, Deserialize)]
struct WaitAttrs {
    url: String,
    status: f64,
    interval: String,
    timeout: String,
}

impl Inside for Http {
    fn configure(&self, config: Json) -> LocalFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let config: Config = attrs(&config)?;
            if let Some(base) = &config.base_url {
                Url::parse(base).map_err(configure_failed)?;
            }
            headers(&config.default_headers).map_err(|error| configure_failed(error.message))?;
            if Duration::try_from_secs_f64(config.timeout_seconds.unwrap_or(30.0)).is_err() {
                return Err(configure_failed("timeout_seconds: that is no time".to_owned()));
            }
            self.config.replace(config);
            Ok(())
        })
    }

    fn execute(&self, execute: Execute) -> LocalFuture<'_, Result<Json, Failure>> {
        Box::pin(async move {
            match &*execute.action {
                "http_request" => self.request(attrs(&execute.attrs)?).await,
                "http_wait" => self.wait(attrs(&execute.attrs)?).await,
                other => Err(unknown_action(other)),
            }
        })
    }
}

impl Http {
    async fn request(&self, attrs: RequestAttrs) -> Result<Json, Failure> {
        let method = Method::from_bytes(attrs.method.as_bytes())
            .map_err(|_| validation_failed(format!("attrs.method: `{}` is none", attrs.method)))?;
        let config = self.config.borrow().clone();
        let mut all = headers(&config.default_headers)?;
        for (name, value) in headers(&attrs.headers)?.drain() {
            // Of those that were given twice the last counts; a map has each once.
            if let Some(name) = name {
                all.insert(name, value);
            }
        }
        let give_up = Instant::now() + self.patience();
        let asked = Asked { method, headers: all, body: attrs.body.into() };
        let late = || {
            let patience = self.patience();
            execute_failed(format!("`{}` did not answer within {patience:?}", attrs.url))
        };
        let (response, body) = timeout_at(give_up, async {
            let mut response = self.ask(&attrs.url, asked).await?;
            let body = response.body_mut().collect(BYTES_MAX, IDLE * 60).await;
            let body = body.map_err(|error| execute_failed(causes(&error)))?;
            Ok::<_, Failure>((response, body))
        })
        .await
        .map_err(|_| late())??;
        let shown = response.headers().keys().map(|name| {
            let value = response.headers().get(name).map(HeaderValue::as_bytes).unwrap_or_default();
            (titled(name.as_str()), String::from_utf8_lossy(value).into_owned())
        });
        Ok(Json::of(&serde_json::json!({
            "body": String::from_utf8_lossy(&body),
            "headers": shown.collect::<BTreeMap<_, _>>(),
            "status": response.status().as_u16(),
        })))
    }

    async fn wait(&self, attrs: WaitAttrs) -> Result<Json, Failure> {
        let (timeout, interval) =
            (duration("timeout", &attrs.timeout)?, duration("interval", &attrs.interval)?);
        let give_up = Instant::now() + timeout;
        let defaults = headers(&self.config.borrow().default_headers)?;
        let mut last = String::new();
        for attempts in 1_u64.. {
            let asked = Asked::get(defaults.clone());
            let until = give_up.min(Instant::now() + self.patience());
            match timeout_at(until, self.ask(&attrs.url, asked)).await {
                Ok(Ok(response)) if f64::from(response.status().as_u16()) == attrs.status => {
                    return Ok(Json::of(&serde_json::json!({ "attempts": attempts })));
                }
                Ok(Ok(response)) => last = format!("the last status was {}", response.status()),
                // An address that can never be asked is not asked again.
                Ok(Err(failure)) if failure.kind == toolbus::FailureKind::InvalidArguments => {
                    return Err(failure);
                }
                Ok(Err(failure)) => last = failure.message,
                Err(_) => last = "the last request got no answer".to_owned(),
            }
            let next = Instant::now() + interval;
            if give_up <= next {
                break;
            }
            sleep_until(next).await;
        }
        let wanted = format!("`{}` did not answer with status {}", attrs.url, attrs.status);
        let failure = execute_failed(format!("{wanted} within {timeout:?}"));
        Err(super::with_detail(failure, &last))
    }

    /// Which status a server answers with.
    pub(super) async fn status(&self, url: &str) -> Result<u16, Failure> {
        let response = self.ask(url, Asked::get(HeaderMap::new())).await?;
        Ok(response.status().as_u16())
    }

    /// Follows redirects until there is an answer.
    async fn ask(&self, url: &str, mut asked: Asked) -> Result<Response<Body>, Failure> {
        let base = self.config.borrow().base_url.clone();
        let mut url = Url::joined(base.as_deref(), url)
            .map_err(|error| validation_failed(format!("attrs.url: {error}")))?;
        for _ in 0..=REDIRECTS_MAX {
            let timeouts = Timeouts { connect: self.patience(), head: None };
            let answer = self.client(&url)?.ask(asked.request(&url)?, timeouts).await;
            let response = answer.map_err(|error| execute_failed(causes(&error)))?;
            let location = response.headers().get(header::LOCATION);
            let Some(location) = location.filter(|_| leads_on(response.status())) else {
                return Ok(response);
            };
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            let next = url.followed(&location).map_err(execute_failed)?;
            asked.redirect(response.status(), url.has_same_origin(&next));
            url = next;
        }
        Err(execute_failed(format!("there are more than {REDIRECTS_MAX} redirects")))
    }

    fn patience(&self) -> Duration {
        let seconds = self.config.borrow().timeout_seconds.unwrap_or(30.0);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(30))
    }

    fn client(&self, url: &Url) -> Result<Client, Failure> {
        let server = (url.is_secure, url.host.clone(), url.port);
        if let Some(client) = self.clients.borrow().get(&server) {
            return Ok(client.clone());
        }
        let tls = url.is_secure.then(|| ClientTls::load(None, None, TlsInside::Http)).transpose();
        let tls = tls.map_err(|error| execute_failed(causes(&error)))?;
        let origin = Origin { host: url.host.clone(), port: url.port, tls };
        let variable = |name: &str| std::env::var(name).ok();
        let proxy = match is_loopback(&url.host) {
            true => None,
            false => Proxy::of(variable, url.is_secure, &url.host, url.port)
                .map_err(|error| execute_failed(error.to_string()))?,
        };
        let client = match proxy {
            Some(proxy) => Client::through(proxy, origin, CONNECTIONS_MAX, IDLE),
            None => Client::new(origin, CONNECTIONS_MAX, IDLE),
        };
        self.clients.borrow_mut().insert(server, client.clone());
        Ok(client)
    }
}

/// A request, wherever redirects may lead it.
struct Asked {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Asked {
    fn get(headers: HeaderMap) -> Asked {
        Asked { method: Method::GET, headers, body: Bytes::new() }
    }

    fn request(&self, url: &Url) -> Result<Request<Bytes>, Failure> {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = url.target.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        let ours = concat!("toolbus/", env!("CARGO_PKG_VERSION"));
        headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(ours));
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        if let Some(credentials) = &url.credentials
            && !headers.contains_key(header::AUTHORIZATION)
        {
            let value = format!("Basic {}", base64(credentials.as_bytes()));
            let value = HeaderValue::from_str(&value)
                .map_err(|_| validation_failed("attrs.url: its credentials cannot be sent"))?;
            headers.insert(header::AUTHORIZATION, value);
        }
        Ok(request)
    }

    /// What a redirect makes of it: what is secret is for the server that it was meant for.
    fn redirect(&mut self, status: StatusCode, is_same_origin: bool) {
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = Bytes::new();
            for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::TRANSFER_ENCODING] {
                self.headers.remove(name);
            }
        }
        if !is_same_origin {
            for name in [header::AUTHORIZATION, header::COOKIE, header::HOST] {
                self.headers.remove(name);
            }
        }
    }
}

fn leads_on(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn headers(named: &BTreeMap<String, String>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in named {
        let key = name.parse::<HeaderName>().map_err(|_| {
            validation_failed(format!("attrs.headers: `{name}` cannot be the name of a header"))
        })?;
        let value = HeaderValue::from_str(value).map_err(|_| {
            validation_failed(format!("attrs.headers: the value of `{name}` cannot be sent"))
        })?;
        headers.insert(key, value);
    }
    Ok(headers)
}

/// As people write the names of headers: `Content-Type`.
fn titled(name: &str) -> String {
    let mut at_start = true;
    let titled = name.chars().map(|char| {
        let titled = if at_start { char.to_ascii_uppercase() } else { char };
        at_start = char == '-';
        titled
    });
    titled.collect()
}

fn configure_failed(message: String) -> Failure {
    super::refused(toolbus::FailureKind::Unavailable, "configure_failed", message)
}
