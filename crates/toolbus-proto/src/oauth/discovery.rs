//! From a server that wants a sign-in to the server where one signs in: what is asked, in order.

use super::challenge::Challenge;
use super::metadata::{
    IssuerLookup, Looked, MetadataError, ResourceLookup, ResourceMetadata, ServerMetadata,
    is_same_issuer,
};
use super::settings::{Grant, SignInSettings};
use super::web::WebUrl;
use thiserror::Error;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInPlace {
    /// What the server says about itself, if it does.
    pub resource: Option<ResourceMetadata>,
    /// Where one signs in.
    pub server: ServerMetadata,
    /// The addresses are those that went without saying in 2025-03-26.
    pub is_guessed: bool,
}

/// Looks for the server where one signs in.
#[derive(Debug)]
pub struct Discovery {
    server: WebUrl,
    /// It has really refused a request.
    was_refused: bool,
    issuers: Vec<String>,
    stage: Stage,
    resource: Option<ResourceMetadata>,
    /// What people are to be told.
    note: Option<String>,
}

#[derive(Debug)]
enum Stage {
    Resource(ResourceLookup),
    Issuer(IssuerLookup),
    /// At the server's own origin, as in 2025-03-26.
    Origin(IssuerLookup),
}

impl Discovery {
    /// For a server that has answered with this challenge, or with none, or was not asked.
    pub fn new(
        server: &WebUrl,
        challenge: Option<&Challenge>,
        was_refused: bool,
        issuers: &[String],
    ) -> Result<Discovery, DiscoveryError> {
        Ok(Discovery {
            server: server.clone(),
            was_refused,
            issuers: issuers.to_vec(),
            stage: Stage::Resource(ResourceLookup::new(server, challenge)?),
            resource: None,
            note: None,
        })
    }

    /// The URL to get now.
    pub fn poll_get(&self) -> Option<&str> {
        match &self.stage {
            Stage::Resource(lookup) => lookup.poll_get(),
            Stage::Issuer(lookup) | Stage::Origin(lookup) => lookup.poll_get(),
        }
    }

    /// What people are to be told, once.
    pub fn poll_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// Takes what was answered; `Absent`: it wants no sign-in that could be found.
    pub fn handle_answer(
        &mut self,
        status: u16,
        body: &[u8],
    ) -> Result<Looked<SignInPlace>, DiscoveryError> {
        match &mut self.stage {
            Stage::Resource(lookup) => match lookup.handle_answer(status, body)? {
                Looked::Next => Ok(Looked::Next),
                Looked::Found(resource) => {
                    let issuer = self.allowed(&resource.authorization_servers)?;
                    self.resource = Some(resource);
                    self.look_at(&issuer)
                }
                Looked::Absent => match self.issuers.first().cloned() {
                    Some(issuer) => self.look_at(&issuer),
                    None if self.was_refused => {
                        self.stage = Stage::Origin(IssuerLookup::at_origin(&self.server));
                        self.note = Some(format!(
                            "{} publishes no sign-in metadata; trying the addresses of 2025-03-26",
                            self.server.host
                        ));
                        Ok(Looked::Next)
                    }
                    None => Ok(Looked::Absent),
                },
            },
            Stage::Issuer(lookup) => match lookup.handle_answer(status, body)? {
                Looked::Next => Ok(Looked::Next),
                Looked::Found(server) => Ok(self.found(server, false)),
                Looked::Absent => {
                    let issuer = lookup.issuer().to_owned();
                    Err(DiscoveryError::NoMetadata { issuer })
                }
            },
            Stage::Origin(lookup) => match lookup.handle_answer(status, body)? {
                Looked::Found(server) => Ok(self.found(server, false)),
                Looked::Next | Looked::Absent => {
                    let issuer = self.server.origin();
                    let server = ServerMetadata {
                        authorization_endpoint: Some(format!("{issuer}/authorize")),
                        token_endpoint: Some(format!("{issuer}/token")),
                        registration_endpoint: Some(format!("{issuer}/register")),
                        issuer,
                        ..ServerMetadata::default()
                    };
                    Ok(self.found(server, true))
                }
            },
        }
    }

    fn found(&mut self, server: ServerMetadata, is_guessed: bool) -> Looked<SignInPlace> {
        Looked::Found(SignInPlace { resource: self.resource.take(), server, is_guessed })
    }

    /// The first that the user allows.
    fn allowed(&self, named: &[String]) -> Result<String, DiscoveryError> {
        let is_allowed = |issuer: &&String| {
            self.issuers.is_empty()
                || self.issuers.iter().any(|allowed| is_same_issuer(allowed, issuer))
        };
        let none = || DiscoveryError::NotAllowedIssuer {
            named: named.first().cloned().unwrap_or_default(),
        };
        named.iter().find(is_allowed).cloned().ok_or_else(none)
    }

    fn look_at(&mut self, issuer: &str) -> Result<Looked<SignInPlace>, DiscoveryError> {
        self.stage = Stage::Issuer(IssuerLookup::new(issuer, &self.issuers)?);
        Ok(Looked::Next)
    }
}

impl SignInPlace {
    /// Has the sign-in server what this grant needs?
    pub fn check(&self, grant: Grant) -> Result<(), DiscoveryError> {
        let server = &self.server;
        let lacks = |name| DiscoveryError::Lacks { issuer: server.issuer.clone(), name };
        if server.token_endpoint.is_none() {
            return Err(lacks("token_endpoint"));
        }
        match grant {
            Grant::Code => {
                if server.authorization_endpoint.is_none() {
                    return Err(lacks("authorization_endpoint"));
                }
                let methods = server.code_challenge_methods_supported.as_ref();
                match self.is_guessed || ServerMetadata::lists(methods, "S256") {
                    true => Ok(()),
                    false => Err(DiscoveryError::NoPkce),
                }
            }
            Grant::Device if server.device_authorization_endpoint.is_none() => {
                Err(lacks("device_authorization_endpoint"))
            }
            Grant::Device | Grant::ClientCredentials | Grant::JwtBearer => Ok(()),
        }
    }

    /// As whom tokens are to know the server, if that is to be said.
    pub fn resource(&self, server: &WebUrl, settings: &SignInSettings) -> Option<String> {
        use super::settings::ResourceChoice;
        match &settings.resource {
            ResourceChoice::Silent => None,
            ResourceChoice::Given(resource) => Some(resource.clone()),
            ResourceChoice::Published => Some(match &self.resource {
                Some(published) => published.resource.clone(),
                None => server.plain(),
            }),
        }
    }

    /// The scopes to ask for. `before`: what was asked for at the last sign-in and was wanted
    /// since, if something was.
    pub fn scopes(
        &self,
        settings: &SignInSettings,
        challenge: Option<&Challenge>,
        before: Option<Vec<String>>,
    ) -> Vec<String> {
        if let Some(own) = &settings.scopes {
            return once_each(own.iter().cloned());
        }
        let challenged = challenge.map(Challenge::scopes).filter(|scopes| !scopes.is_empty());
        let published = || self.resource.as_ref().map(|resource| resource.scopes_supported.clone());
        let asked = before.or(challenged).or_else(published).unwrap_or_default();
        let has_offline = ServerMetadata::lists(self.server.scopes_supported.as_ref(), OFFLINE);
        let may_stay = has_offline && !asked.is_empty() && !settings.grant.is_by_itself();
        once_each(asked.into_iter().chain(may_stay.then(|| OFFLINE.to_owned())))
    }
}

/// In their order, none of them twice.
fn once_each(given: impl Iterator<Item = String>) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in given {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

/// The scope by which some servers give a refresh token.
const OFFLINE: &str = "offline_access";

/// Why the server where one signs in is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum DiscoveryError {
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error("the server names `{named}` to sign in at, which `issuer` does not allow")]
    NotAllowedIssuer { named: String },
    #[error("the sign-in server `{issuer}` publishes no metadata")]
    NoMetadata { issuer: String },
    #[error("the sign-in server `{issuer}` has no `{name}`")]
    Lacks { issuer: String, name: &'static str },
    #[error("the sign-in server does not say that it supports PKCE with S256")]
    NoPkce,
}

impl DiscoveryError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            DiscoveryError::Metadata(error) => error.hint(),
            DiscoveryError::NotAllowedIssuer { named } => {
                Some(format!("if that is right, set `issuer = \"{named}\"` for this back"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "https://a.example/mcp";

    fn replayed(refused: bool, issuers: &[&str], answers: &[(u16, &str)]) -> String {
        let server = WebUrl::parse(SERVER).unwrap();
        let issuers: Vec<String> = issuers.iter().map(|&issuer| issuer.to_owned()).collect();
        let mut discovery = Discovery::new(&server, None, refused, &issuers).unwrap();
        let mut told = String::new();
        for (status, body) in answers {
            let Some(url) = discovery.poll_get() else { break };
            told.push_str(&format!(">> {url}\n<< {status}\n"));
            let ended = discovery.handle_answer(*status, body.as_bytes());
            if let Some(note) = discovery.poll_note() {
                told.push_str(&format!("== note: {note}\n"));
            }
            match ended {
                Ok(Looked::Next) => {}
                Ok(Looked::Absent) => return told + "== absent\n",
                Ok(Looked::Found(found)) => {
                    let token = found.server.token_endpoint.unwrap_or_default();
                    return told + &format!("== {} {token}\n", found.server.issuer);
                }
                Err(why) => return told + &format!("== {why}\n"),
            }
        }
        told
    }

    const RESOURCE: &str = r#"{"resource":"https://a.example/mcp","authorization_servers":["https://b.example/t","https://c.example"]}"#;

    #[test]
    fn a_server_leads_to_where_one_signs_in() {
        let metadata =
            r#"{"issuer":"https://b.example/t","token_endpoint":"https://b.example/tok"}"#;
        expect_test::expect![[r"
            >> https://a.example/.well-known/oauth-protected-resource/mcp
            << 200
            >> https://b.example/.well-known/oauth-authorization-server/t
            << 404
            >> https://b.example/.well-known/openid-configuration/t
            << 200
            == https://b.example/t https://b.example/tok
        "]]
        .assert_eq(&replayed(true, &[], &[(200, RESOURCE), (404, ""), (200, metadata)]));
        let metadata =
            r#"{"issuer":"https://c.example/","token_endpoint":"https://c.example/tok"}"#;
        let other = replayed(true, &["https://c.example/"], &[(200, RESOURCE), (200, metadata)]);
        assert!(other.ends_with("== https://c.example/ https://c.example/tok\n"), "{other}");
        let none = replayed(true, &["https://d.example"], &[(200, RESOURCE)]);
        assert!(none.contains("which `issuer` does not allow"), "{none}");
    }

    #[test]
    fn servers_of_2025_03_26_are_their_own_sign_in_server() {
        expect_test::expect![[r"
            >> https://a.example/.well-known/oauth-protected-resource/mcp
            << 404
            >> https://a.example/.well-known/oauth-protected-resource
            << 401
            == note: a.example publishes no sign-in metadata; trying the addresses of 2025-03-26
            >> https://a.example/.well-known/oauth-authorization-server
            << 404
            == https://a.example https://a.example/token
        "]]
        .assert_eq(&replayed(true, &[], &[(404, ""), (401, ""), (404, "")]));
        let absent = replayed(false, &[], &[(404, ""), (404, "")]);
        assert!(absent.ends_with("== absent\n"), "{absent}");
        let broken = replayed(true, &[], &[(404, ""), (500, "")]);
        assert!(broken.ends_with("answered with HTTP status 500\n"), "{broken}");
        let own = r#"{"issuer":"https://d.example","token_endpoint":"https://d.example/tok"}"#;
        let given = replayed(true, &["https://d.example"], &[(404, ""), (404, ""), (200, own)]);
        assert!(given.ends_with("== https://d.example https://d.example/tok\n"), "{given}");
    }

    fn found(scopes: &[&str]) -> SignInPlace {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let resource = ResourceMetadata {
            resource: SERVER.to_owned(),
            scopes_supported: texts(&["p", "q"]),
            ..ResourceMetadata::default()
        };
        let server =
            ServerMetadata { scopes_supported: Some(texts(scopes)), ..ServerMetadata::default() };
        SignInPlace { resource: Some(resource), server, is_guessed: false }
    }

    #[test]
    fn scopes_are_those_of_the_user_or_of_the_server() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let challenge = Challenge { scope: Some("c c d".to_owned()), ..Challenge::default() };
        let settings = SignInSettings::default();
        let offline = found(&["offline_access"]);
        let ask = |settings, challenge, before| offline.scopes(settings, challenge, before);
        assert_eq!(ask(&settings, None, None), ["p", "q", "offline_access"]);
        assert_eq!(ask(&settings, Some(&challenge), None), ["c", "d", "offline_access"]);
        let before = Some(texts(&["x", "offline_access", "y"]));
        assert_eq!(ask(&settings, Some(&challenge), before), ["x", "offline_access", "y"]);
        let own = SignInSettings { scopes: Some(texts(&["mine"])), ..settings.clone() };
        assert_eq!(ask(&own, Some(&challenge), None), ["mine"]);
        let twice = SignInSettings { scopes: Some(texts(&["b", "a", "b"])), ..settings.clone() };
        assert_eq!(ask(&twice, None, None), ["b", "a"]);
        let alone = SignInSettings { grant: Grant::ClientCredentials, ..settings.clone() };
        assert_eq!(ask(&alone, None, None), ["p", "q"]);
        assert_eq!(found(&[]).scopes(&settings, None, None), ["p", "q"]);
        let silent = SignInPlace { resource: None, ..offline.clone() };
        assert!(silent.scopes(&settings, None, None).is_empty());
    }

    #[test]
    fn pkce_has_to_be_promised() {
        let url = |text: &str| Some(text.to_owned());
        let mut found = found(&[]);
        found.server.token_endpoint = url("https://b.example/t");
        found.server.authorization_endpoint = url("https://b.example/a");
        let told = |found: &SignInPlace, grant| found.check(grant).err().map(|why| why.to_string());
        let no_pkce = "the sign-in server does not say that it supports PKCE with S256";
        assert_eq!(told(&found, Grant::Code).as_deref(), Some(no_pkce));
        assert_eq!(told(&found, Grant::ClientCredentials), None);
        found.server.code_challenge_methods_supported = Some(vec!["plain".to_owned()]);
        assert_eq!(told(&found, Grant::Code).as_deref(), Some(no_pkce));
        found.server.code_challenge_methods_supported = Some(vec!["S256".to_owned()]);
        assert_eq!(told(&found, Grant::Code), None);
        assert!(told(&found, Grant::Device).is_some());
    }
}
