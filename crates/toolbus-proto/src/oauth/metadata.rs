//! Metadata of servers that want a sign-in and of those where one signs in: which URL is asked
//! next, and what is believed of the answers (RFC 9728, RFC 8414).

use std::collections::VecDeque;

use serde_json::{Map, Value};
use thiserror::Error;

use super::challenge::Challenge;
use super::document::{BadDocument, DEPTH_MAX, object};
use super::web::{NotAllowed, WebUrl};
use crate::printable::printable;

/// Where a server says who signs in for it.
const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";
/// What is shown of what a server said.
const SHOWN_CHARS_MAX: usize = 200;

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked<T> {
    /// It is to be looked for elsewhere: see `poll_get`.
    Next,
    /// There is none at any place.
    Absent,
    /// This is it.
    Found(T),
}

/// What a server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceMetadata {
    /// As whom tokens know it, byte for byte.
    pub resource: String,
    /// Where one signs in for it; at least one.
    pub authorization_servers: Vec<String>,
    /// The scopes that it has.
    pub scopes_supported: Vec<String>,
}

/// Looks for what a server says about itself.
#[derive(Debug)]
pub struct ResourceLookup {
    server: WebUrl,
    places: VecDeque<String>,
    /// The server has named the one place where it is.
    is_given: bool,
}

impl ResourceLookup {
    /// Where the challenge says, else where it usually is.
    pub fn new(
        server: &WebUrl,
        challenge: Option<&Challenge>,
    ) -> Result<ResourceLookup, MetadataError> {
        let given = challenge.and_then(|challenge| challenge.resource_metadata.clone());
        let is_given = given.is_some();
        let mut places = VecDeque::new();
        match given {
            Some(url) => {
                WebUrl::allowed(&url)?;
                places.push_back(url);
            }
            None => {
                let (origin, path) = (server.origin(), server.bare_path());
                if !path.is_empty() {
                    places.push_back(format!("{origin}{RESOURCE}{path}"));
                }
                places.push_back(format!("{origin}{RESOURCE}"));
            }
        }
        Ok(ResourceLookup { server: server.clone(), places, is_given })
    }

    /// The URL to ask now.
    pub fn poll_get(&self) -> Option<&str> {
        self.places.front().map(String::as_str)
    }

    /// Takes what was answered there.
    pub fn handle_answer(
        &mut self,
        status: u16,
        body: &[u8],
    ) -> Result<Looked<ResourceMetadata>, MetadataError> {
        let url = self.places.pop_front().unwrap_or_default();
        if !self.is_given && (400..500).contains(&status) {
            return Ok(if self.places.is_empty() { Looked::Absent } else { Looked::Next });
        }
        let members = read(&url, status, body)?;
        let resource = needed(&members, &url, "resource")?;
        let authorization_servers = texts(&members, &url, "authorization_servers")?;
        let authorization_servers = authorization_servers
            .filter(|servers| !servers.is_empty())
            .ok_or_else(|| MetadataError::missing(&url, "authorization_servers"))?;
        let is_it = WebUrl::parse(&resource).is_some_and(|said| said.covers(&self.server));
        if !is_it {
            let (resource, called) = (shown(&resource), self.server.plain());
            return Err(MetadataError::Neighbour { resource, called });
        }
        let scopes_supported = texts(&members, &url, "scopes_supported")?.unwrap_or_default();
        Ok(Looked::Found(ResourceMetadata { resource, authorization_servers, scopes_supported }))
    }
}

/// What a sign-in server says about itself. All URLs are such as may be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ServerMetadata {
    /// What it calls itself: the recorded issuer.
    pub issuer: String,
    pub authorization_endpoint: Option<String>,
    pub token_endpoint: Option<String>,
    pub registration_endpoint: Option<String>,
    pub revocation_endpoint: Option<String>,
    pub device_authorization_endpoint: Option<String>,
    pub introspection_endpoint: Option<String>,
    pub jwks_uri: Option<String>,
    /// Empty lists and absent ones are told apart.
    pub scopes_supported: Option<Vec<String>>,
    pub grant_types_supported: Option<Vec<String>>,
    pub code_challenge_methods_supported: Option<Vec<String>>,
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub client_id_metadata_document_supported: bool,
    pub authorization_response_iss_parameter_supported: bool,
}

impl ServerMetadata {
    /// Does a list that it gives have the word?
    pub fn lists(list: Option<&Vec<String>>, word: &str) -> bool {
        list.is_some_and(|list| list.iter().any(|known| known == word))
    }
}

/// Looks for what a sign-in server says about itself.
#[derive(Debug)]
pub struct IssuerLookup {
    issuer: String,
    /// What it may call itself; empty: as it was asked for.
    accepted: Vec<String>,
    places: VecDeque<String>,
}

impl IssuerLookup {
    /// By its issuer, as metadata or a config has it. It must call itself one of `accepted`, where
    /// that is not empty, else the same.
    pub fn new(issuer: &str, accepted: &[String]) -> Result<IssuerLookup, MetadataError> {
        let url = WebUrl::allowed(issuer)?;
        let (origin, path) = (url.origin(), url.bare_path());
        let mut places = vec![format!("{origin}{SERVER}{path}"), format!("{origin}{OPENID}{path}")];
        if !path.is_empty() {
            places.push(format!("{origin}{path}{OPENID}"));
        }
        let (issuer, accepted) = (issuer.to_owned(), accepted.to_vec());
        Ok(IssuerLookup { issuer, accepted, places: places.into() })
    }

    /// As servers of 2025-03-26 publish it: at their own origin, in the first place alone.
    pub fn at_origin(server: &WebUrl) -> IssuerLookup {
        let issuer = server.origin();
        let places = VecDeque::from([format!("{issuer}{SERVER}")]);
        IssuerLookup { issuer, accepted: Vec::new(), places }
    }

    /// Whose metadata is looked for.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The URL to ask now.
    pub fn poll_get(&self) -> Option<&str> {
        self.places.front().map(String::as_str)
    }

    /// Takes what was answered there.
    pub fn handle_answer(
        &mut self,
        status: u16,
        body: &[u8],
    ) -> Result<Looked<ServerMetadata>, MetadataError> {
        let url = self.places.pop_front().unwrap_or_default();
        if (400..500).contains(&status) {
            return Ok(if self.places.is_empty() { Looked::Absent } else { Looked::Next });
        }
        let members = read(&url, status, body)?;
        let issuer = needed(&members, &url, "issuer")?;
        let is_accepted = match self.accepted.is_empty() {
            true => is_same_issuer(&issuer, &self.issuer),
            false => self.accepted.iter().any(|accepted| is_same_issuer(&issuer, accepted)),
        };
        if !is_accepted {
            let (said, asked) = (shown(&issuer), self.issuer.clone());
            return Err(MetadataError::OtherIssuer { said, asked });
        }
        let endpoint = |name: &'static str| endpoint(&members, &url, name);
        let texts = |name: &'static str| texts(&members, &url, name);
        let is = |name: &str| members.get(name) == Some(&Value::Bool(true));
        Ok(Looked::Found(ServerMetadata {
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            registration_endpoint: endpoint("registration_endpoint")?,
            revocation_endpoint: endpoint("revocation_endpoint")?,
            device_authorization_endpoint: endpoint("device_authorization_endpoint")?,
            introspection_endpoint: endpoint("introspection_endpoint")?,
            jwks_uri: endpoint("jwks_uri")?,
            scopes_supported: texts("scopes_supported")?,
            grant_types_supported: texts("grant_types_supported")?,
            code_challenge_methods_supported: texts("code_challenge_methods_supported")?,
            token_endpoint_auth_methods_supported: texts("token_endpoint_auth_methods_supported")?,
            client_id_metadata_document_supported: is("client_id_metadata_document_supported"),
            authorization_response_iss_parameter_supported: is(
                "authorization_response_iss_parameter_supported",
            ),
            issuer,
        }))
    }
}

/// Are they the same string, but for one `/` behind an issuer that has no path?
pub fn is_same_issuer(one: &str, other: &str) -> bool {
    let is_root = |longer: &str, shorter: &str| {
        longer.strip_suffix('/') == Some(shorter)
            && WebUrl::parse(longer).is_some_and(|url| url.path == "/" && url.query.is_none())
    };
    one == other || is_root(one, other) || is_root(other, one)
}

/// The members of a document that was answered well.
fn read(url: &str, status: u16, body: &[u8]) -> Result<Map<String, Value>, MetadataError> {
    if !(200..300).contains(&status) {
        return Err(MetadataError::Status { url: url.to_owned(), status });
    }
    object(body, DEPTH_MAX).map_err(|why| MetadataError::Document { url: url.to_owned(), why })
}

fn needed(
    members: &Map<String, Value>,
    url: &str,
    name: &'static str,
) -> Result<String, MetadataError> {
    let text = text(members, url, name)?.filter(|text| !text.is_empty());
    text.ok_or_else(|| MetadataError::missing(url, name))
}

fn text(
    members: &Map<String, Value>,
    url: &str,
    name: &'static str,
) -> Result<Option<String>, MetadataError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(MetadataError::Member { url: url.to_owned(), name, expected: "a text" }),
    }
}

fn endpoint(
    members: &Map<String, Value>,
    url: &str,
    name: &'static str,
) -> Result<Option<String>, MetadataError> {
    let endpoint = text(members, url, name)?;
    if let Some(endpoint) = &endpoint {
        WebUrl::allowed(endpoint)?;
    }
    Ok(endpoint)
}

fn texts(
    members: &Map<String, Value>,
    url: &str,
    name: &'static str,
) -> Result<Option<Vec<String>>, MetadataError> {
    let wrong = || MetadataError::Member { url: url.to_owned(), name, expected: "a list of texts" };
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(elements)) => {
            let text = |element: &Value| element.as_str().map(str::to_owned).ok_or_else(wrong);
            elements.iter().map(text).collect::<Result<Vec<_>, _>>().map(Some)
        }
        Some(_) => Err(wrong()),
    }
}

fn shown(text: &str) -> String {
    printable(text.as_bytes(), SHOWN_CHARS_MAX)
}

/// Why metadata is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum MetadataError {
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error("`{url}` answered with HTTP status {status}")]
    Status { url: String, status: u16 },
    #[error("what `{url}` answered cannot be used: {why}")]
    Document { url: String, why: BadDocument },
    #[error("what `{url}` answered has no `{name}`")]
    Missing { url: String, name: &'static str },
    #[error("`{name}` in what `{url}` answered is not {expected}")]
    Member { url: String, name: &'static str, expected: &'static str },
    #[error("the server says that it is `{resource}`, but it was called as `{called}`")]
    Neighbour { resource: String, called: String },
    #[error("the sign-in server calls itself `{said}`, but `{asked}` was asked for")]
    OtherIssuer { said: String, asked: String },
}

impl MetadataError {
    fn missing(url: &str, name: &'static str) -> MetadataError {
        MetadataError::Missing { url: url.to_owned(), name }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            MetadataError::OtherIssuer { said, .. } => {
                Some(format!("if that is right, set `issuer = \"{said}\"` for this back"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> WebUrl {
        WebUrl::parse(url).unwrap()
    }

    /// The places that are asked one after the other, when each says 404.
    fn resource_places(url: &str, challenge: Option<&str>) -> Vec<String> {
        let challenge = challenge.map(|url| Challenge {
            resource_metadata: Some(url.to_owned()),
            ..Challenge::default()
        });
        let mut lookup = ResourceLookup::new(&server(url), challenge.as_ref()).unwrap();
        let mut asked = Vec::new();
        while let Some(place) = lookup.poll_get() {
            asked.push(place.to_owned());
            match lookup.handle_answer(404, b"") {
                Ok(Looked::Next) => {}
                told => asked.push(format!("{told:?}")),
            }
        }
        asked
    }

    #[test]
    fn a_server_is_asked_at_its_path_and_then_at_its_root() {
        let (path, root) = (
            "https://a.example/.well-known/oauth-protected-resource/mcp",
            "https://a.example/.well-known/oauth-protected-resource",
        );
        assert_eq!(resource_places("https://a.example/mcp/?q=1", None), [path, root, "Ok(Absent)"]);
        assert_eq!(resource_places("https://a.example/", None), [root, "Ok(Absent)"]);
        let given = resource_places("https://a.example/mcp", Some("https://b.example/x"));
        assert_eq!(given.len(), 2);
        assert!(given[1].contains("Status"), "a place that was given is the only one: {given:?}");
    }

    fn resource(called: &str, body: &str) -> Result<Looked<ResourceMetadata>, String> {
        let mut lookup = ResourceLookup::new(&server(called), None).unwrap();
        lookup.handle_answer(200, body.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_must_be_the_one_that_was_called() {
        let said = |resource: &str| {
            format!(r#"{{"resource":"{resource}","authorization_servers":["https://as.example"]}}"#)
        };
        let is_taken = |called: &str, name: &str| resource(called, &said(name)).is_ok();
        assert!(is_taken("https://a.example/mcp?x=1", "https://a.example/mcp"));
        assert!(is_taken("https://a.example/mcp", "https://a.example/"));
        assert!(is_taken("https://a.example:443/mcp", "https://A.example/mcp?y"));
        for neighbour in [
            "https://a.example/mcp2",
            "https://a.example/mc",
            "https://a.example:8443/mcp",
            "https://u@a.example/mcp",
            "http://a.example/mcp",
            "https://b.example/mcp",
            "urn:x",
        ] {
            let told = resource("https://a.example/mcp", &said(neighbour)).unwrap_err();
            let expected = format!(
                "the server says that it is `{neighbour}`, but it was called as `https://a.example/mcp`"
            );
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn a_server_that_names_no_sign_in_is_no_use() {
        let told = |body: &str| resource("https://a.example", body).unwrap_err();
        let at = "what `https://a.example/.well-known/oauth-protected-resource` answered";
        assert_eq!(told(r#"{"authorization_servers":["x"]}"#), format!("{at} has no `resource`"));
        let named = r#"{"resource":"https://a.example","authorization_servers":[]}"#;
        assert_eq!(told(named), format!("{at} has no `authorization_servers`"));
        let named = r#"{"resource":"https://a.example"}"#;
        assert_eq!(told(named), format!("{at} has no `authorization_servers`"));
        assert_eq!(
            told(r#"{"resource":"a","resource":"b"}"#),
            format!("{at} cannot be used: its member `resource` is there twice")
        );
        assert_eq!(told("<html>"), format!("{at} cannot be used: it is no JSON"));
    }

    #[test]
    fn a_sign_in_server_is_asked_in_the_places_of_both_standards() {
        let places = |issuer: &str| {
            let mut lookup = IssuerLookup::new(issuer, &[]).unwrap();
            let mut asked = Vec::new();
            while let Some(place) = lookup.poll_get() {
                asked.push(place.trim_start_matches("https://a.example").to_owned());
                lookup.handle_answer(404, b"").unwrap();
            }
            asked
        };
        let with_path = [
            "/.well-known/oauth-authorization-server/t1",
            "/.well-known/openid-configuration/t1",
            "/t1/.well-known/openid-configuration",
        ];
        assert_eq!(places("https://a.example/t1"), with_path);
        assert_eq!(places("https://a.example/t1/"), with_path);
        let without =
            ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
        assert_eq!(places("https://a.example"), without);
        assert_eq!(places("https://a.example/"), without);
    }

    fn issuer(asked: &str, accepted: &[&str], said: &str) -> Result<String, String> {
        let accepted: Vec<String> = accepted.iter().map(|&issuer| issuer.to_owned()).collect();
        let mut lookup = IssuerLookup::new(asked, &accepted).unwrap();
        let body = format!(r#"{{"issuer":"{said}","token_endpoint":"https://t.example/t"}}"#);
        match lookup.handle_answer(200, body.as_bytes()) {
            Ok(Looked::Found(metadata)) => Ok(metadata.issuer),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(format!("{error}; {}", error.hint().unwrap_or_default())),
        }
    }

    #[test]
    fn an_issuer_is_the_same_string() {
        let same = issuer("https://a.example", &[], "https://a.example/");
        assert_eq!(same.as_deref(), Ok("https://a.example/"));
        let same = issuer("https://a.example/", &[], "https://a.example");
        assert_eq!(same.as_deref(), Ok("https://a.example"));
        for other in [
            "https://A.example",
            "https://a.example//",
            "https://a.example:443",
            "https://b.example",
        ] {
            let told = issuer("https://a.example", &[], other).unwrap_err();
            let expected = format!(
                "the sign-in server calls itself `{other}`, but `https://a.example` was asked for; \
                 if that is right, set `issuer = \"{other}\"` for this back"
            );
            assert_eq!(told, expected);
        }
        assert!(issuer("https://a.example/t", &[], "https://a.example/t/").is_err());
        let accepted = issuer("https://a.example", &["https://b.example"], "https://b.example");
        assert_eq!(accepted.as_deref(), Ok("https://b.example"));
        assert!(issuer("https://a.example", &["https://b.example"], "https://a.example").is_err());
    }

    #[test]
    fn a_document_leads_nowhere_that_may_not_be_asked() {
        let mut lookup = IssuerLookup::new("https://a.example", &[]).unwrap();
        let body = br#"{"issuer":"https://a.example","jwks_uri":"http://b.example/keys"}"#;
        let told = lookup.handle_answer(200, body).unwrap_err().to_string();
        assert_eq!(told, "`http://b.example/keys` is neither https nor on this machine");
        let told = IssuerLookup::new("http://a.example", &[]).unwrap_err().to_string();
        assert_eq!(told, "`http://a.example` is neither https nor on this machine");
    }
}
