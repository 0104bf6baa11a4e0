//! Where spans go, as the environment says: the variables are those of OpenTelemetry itself.

use std::time::Duration;

use thiserror::Error;

use crate::secrets;
use crate::transport::http::{HeaderMap, HeaderName, HeaderValue, Uri};

/// The variable that turns spans on.
pub const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// How long a collector may take for an answer, unless the environment says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where spans go, and as whose.
#[derive(Debug, Clone)]
pub struct OtelSettings {
    /// The whole URL, with `/v1/traces`.
    pub(super) url: Uri,
    /// Sent with every request.
    pub(super) headers: HeaderMap,
    /// As whose.
    pub(super) service: String,
    pub(super) timeout: Duration,
}

impl OtelSettings {
    /// What the environment says; `None` if it names no collector.
    pub fn read(env: impl Fn(&str) -> Option<String>) -> Result<Option<OtelSettings>, OtelError> {
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        if env("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let (variable, url) = match (env(OF_TRACES), env(ENDPOINT)) {
            (Some(url), _) => (OF_TRACES, url.trim().to_owned()),
            (None, Some(base)) => {
                (ENDPOINT, format!("{}/v1/traces", base.trim().trim_end_matches('/')))
            }
            (None, None) => return Ok(None),
        };
        let url: Uri = url.parse().map_err(|_| OtelError::Endpoint { variable })?;
        let is_web = url.scheme_str().is_some_and(|scheme| ["http", "https"].contains(&scheme));
        if !is_web || url.host().is_none_or(str::is_empty) {
            return Err(OtelError::Endpoint { variable });
        }
        let protocol = env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
        let protocol = protocol.or_else(|| env("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(protocol) = protocol.filter(|protocol| !protocol.trim().starts_with("http/")) {
            return Err(OtelError::Protocol { protocol });
        }
        let mut headers = HeaderMap::new();
        let given = env("OTEL_EXPORTER_OTLP_TRACES_HEADERS");
        if let Some(given) = given.or_else(|| env("OTEL_EXPORTER_OTLP_HEADERS")) {
            read_headers(&given, &mut headers)?;
        }
        let timeout = env("OTEL_EXPORTER_OTLP_TIMEOUT");
        let timeout = timeout.and_then(|text| text.trim().parse().ok()).map(Duration::from_millis);
        Ok(Some(OtelSettings {
            url,
            headers,
            service: env("OTEL_SERVICE_NAME").unwrap_or_else(|| "toolbus".to_owned()),
            timeout: timeout.unwrap_or(TIMEOUT),
        }))
    }
}

/// `name=value,name=value`, the values percent-encoded. They are secrets.
fn read_headers(text: &str, headers: &mut HeaderMap) -> Result<(), OtelError> {
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(OtelError::Headers)?;
        let value = percent_decoded(value.trim()).ok_or(OtelError::Headers)?;
        secrets::hide(&value);
        let name = name.trim().parse::<HeaderName>().map_err(|_| OtelError::Headers)?;
        let value = HeaderValue::from_str(&value).map_err(|_| OtelError::Headers)?;
        headers.insert(name, value);
    }
    Ok(())
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// Why no spans can be sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OtelError {
    /// The address of the collector is none.
    #[error("the environment variable `{variable}` holds no URL of a collector")]
    Endpoint {
        /// Its name.
        variable: &'static str,
    },
    /// Only HTTP is spoken.
    #[error("spans are sent as `http/json`, not as `{protocol}`")]
    Protocol {
        /// What was asked for.
        protocol: String,
    },
    /// The header fields are not spelled as such. What they are may be a secret.
    #[error("the environment variable `OTEL_EXPORTER_OTLP_HEADERS` holds no header fields")]
    Headers,
    /// There can be no safe connection.
    #[error("toolbus cannot speak TLS: {why}")]
    Tls {
        /// Why not.
        why: String,
    },
    /// The system gives us no thread.
    #[error("cannot start the thread that sends spans: {why}")]
    Thread {
        /// Why not.
        why: String,
    },
}

impl OtelError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            OtelError::Endpoint { .. } => "write it as `http://localhost:4318`".to_owned(),
            OtelError::Protocol { .. } => {
                "collectors listen for it on port 4318; take `OTEL_EXPORTER_OTLP_PROTOCOL` away"
                    .to_owned()
            }
            OtelError::Headers => {
                "write them as `name=value,name=value`, the values percent-encoded".to_owned()
            }
            OtelError::Tls { .. } | OtelError::Thread { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(env: &[(&str, &str)]) -> Result<Option<OtelSettings>, OtelError> {
        let value = |name: &str| env.iter().find(|(known, _)| *known == name);
        OtelSettings::read(|name| value(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_environment_says_where_spans_go() {
        assert!(read(&[]).unwrap().is_none());
        assert!(read(&[(ENDPOINT, "")]).unwrap().is_none());
        let found = read(&[(ENDPOINT, "http://h:4318/")]).unwrap().unwrap();
        assert_eq!(found.url.to_string(), "http://h:4318/v1/traces");
        assert_eq!(found.service, "toolbus");
        let whole = [
            (ENDPOINT, "http://h:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other/x"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%3Db%20c, x=1"),
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
        ];
        let found = read(&whole).unwrap().unwrap();
        assert_eq!(found.url.to_string(), "https://other/x");
        assert_eq!(found.headers["api-key"], "a=b c");
        assert_eq!(found.headers["x"], "1");
        assert_eq!(found.service, "mine");
        assert_eq!(found.timeout, Duration::from_millis(250));
        let off = [(ENDPOINT, "http://h"), ("OTEL_SDK_DISABLED", "true")];
        assert!(read(&off).unwrap().is_none());
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for wrong in ["localhost:4318", "ftp://h", "http://", "not a url"] {
            let error = read(&[(ENDPOINT, wrong)]).unwrap_err();
            assert_eq!(error, OtelError::Endpoint { variable: ENDPOINT }, "{wrong}");
        }
        let at = (ENDPOINT, "http://h");
        let grpc = read(&[at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err();
        assert_eq!(grpc.to_string(), "spans are sent as `http/json`, not as `grpc`");
        for wrong in ["key", "a b=c", "a=%zz", "a=%4"] {
            let error = read(&[at, ("OTEL_EXPORTER_OTLP_HEADERS", wrong)]).unwrap_err();
            assert_eq!(error, OtelError::Headers, "{wrong}");
        }
    }
}
