//! The user agrees in a browser: the URL where that is done, and what comes back.

use ring::digest::{SHA256, digest};
use thiserror::Error;

use super::base64url::base64url;
use super::hidden::Hidden;
use super::token::{behind, shown};
use super::web::{form, pairs};

/// What is asked of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Consent {
    pub endpoint: String,
    /// The recorded issuer.
    pub issuer: String,
    /// It says that its answers name it.
    pub names_itself: bool,
    pub client_id: String,
    pub redirect_uri: String,
    pub scopes: Vec<String>,
    pub resource: Option<String>,
    /// What the user wants to be added.
    pub more: Vec<(String, Hidden)>,
}

/// One time that a user is asked.
pub struct Consenting {
    consent: Consent,
    state: Hidden,
    verifier: Hidden,
    was_answered: bool,
}

impl Consenting {
    /// The bytes cannot be foreseen.
    pub fn new(consent: Consent, state: [u8; 32], verifier: [u8; 32]) -> Consenting {
        let hidden = |bytes: [u8; 32]| Hidden::new(base64url(&bytes));
        let (state, verifier) = (hidden(state), hidden(verifier));
        Consenting { consent, state, verifier, was_answered: false }
    }

    /// What must not be shown.
    pub fn secrets(&self) -> [&Hidden; 2] {
        [&self.state, &self.verifier]
    }

    /// What proves that the code was asked for by us.
    pub fn verifier(&self) -> &str {
        self.verifier.reveal()
    }

    /// Where browsers are sent back to.
    pub fn redirect_uri(&self) -> &str {
        &self.consent.redirect_uri
    }

    /// What the user opens.
    pub fn url(&self) -> String {
        let Consent { endpoint, client_id, redirect_uri, scopes, resource, more, .. } =
            &self.consent;
        let challenge = base64url(digest(&SHA256, self.verifier.reveal().as_bytes()).as_ref());
        let scope = scopes.join(" ");
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect_uri),
            ("state", self.state.reveal()),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        query.extend((!scope.is_empty()).then_some(("scope", &*scope)));
        query.extend(resource.as_ref().map(|resource| ("resource", resource.as_str())));
        query.extend(more.iter().map(|(name, value)| (name.as_str(), value.reveal())));
        let between = match endpoint.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some((_, query)) if query.ends_with('&') => "",
            Some(_) => "&",
        };
        format!("{endpoint}{between}{}", form(query))
    }

    /// Judges what came back, a query.
    pub fn judge(&mut self, query: &str) -> Judged {
        let pairs: Vec<_> = pairs(query).collect();
        let all = |name: &str| -> Vec<&str> {
            let named = pairs.iter().filter(|(known, _)| known == name);
            named.map(|(_, value)| value.as_str()).collect()
        };
        let is_ours = all("state").contains(&self.state.reveal());
        if !is_ours || self.was_answered {
            return Judged::NotOurs;
        }
        self.was_answered = true;
        for name in ["code", "state", "iss", "error"] {
            if 1 < all(name).len() {
                return Judged::Ends(BadReturn::Twice { name });
            }
        }
        let one = |name: &str| all(name).first().copied();
        match one("iss") {
            Some(iss) if iss != self.consent.issuer => {
                return Judged::Ends(BadReturn::OtherIssuer);
            }
            None if self.consent.names_itself => return Judged::Ends(BadReturn::NoIssuer),
            _ => {}
        }
        if let Some(error) = one("error") {
            let description = shown(one("error_description").unwrap_or_default());
            return Judged::Ends(BadReturn::Refused { error: shown(error), description });
        }
        match one("code").filter(|code| !code.is_empty()) {
            Some(code) => Judged::Code(Hidden::new(code)),
            None => Judged::Ends(BadReturn::NoCode),
        }
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// It is no answer to what was asked; another may come.
    NotOurs,
    /// The sign-in is over.
    Ends(BadReturn),
    /// It can be made a token.
    Code(Hidden),
}

/// Why a sign-in has failed in the browser.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum BadReturn {
    #[error("the sign-in server refused: {error}{}", behind(description))]
    Refused { error: String, description: String },
    #[error("the answer came from another sign-in server than was asked (`iss`)")]
    OtherIssuer,
    #[error("the answer does not say which sign-in server it comes from (`iss`)")]
    NoIssuer,
    #[error("the answer of the sign-in server has `{name}` twice")]
    Twice { name: &'static str },
    #[error("the answer of the sign-in server has no `code`")]
    NoCode,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";

    fn asking(names_itself: bool) -> Consenting {
        let consent = Consent {
            endpoint: "https://a.example/auth?tenant=1".into(),
            issuer: "https://a.example".into(),
            names_itself,
            client_id: "c d".into(),
            redirect_uri: "http://localhost:1/callback".into(),
            scopes: vec!["x".into(), "y".into()],
            resource: Some("https://s.example/mcp".into()),
            more: vec![("prompt".into(), Hidden::new("consent"))],
        };
        Consenting::new(consent, [1; 32], [2; 32])
    }

    #[test]
    fn the_url_keeps_the_query_of_the_endpoint() {
        assert_eq!(
            asking(false).url(),
            "https://a.example/auth?tenant=1&response_type=code&client_id=c%20d\
             &redirect_uri=http%3A%2F%2Flocalhost%3A1%2Fcallback\
             &state=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\
             &code_challenge=bB1ju9q0N8VDaMu9iIaohqea2XcpfiZe6_H19fAVM7k\
             &code_challenge_method=S256&scope=x%20y\
             &resource=https%3A%2F%2Fs.example%2Fmcp&prompt=consent"
        );
    }

    fn judged(names_itself: bool, query: &str) -> String {
        match asking(names_itself).judge(&query.replace("STATE", STATE)) {
            Judged::NotOurs => "not ours".to_owned(),
            Judged::Ends(why) => why.to_string(),
            Judged::Code(code) => format!("code {}", code.reveal()),
        }
    }

    #[test]
    fn an_answer_is_judged_in_order() {
        let other = "the answer came from another sign-in server than was asked (`iss`)";
        for (query, expected) in [
            ("code=1&state=STATE", "code 1"),
            ("code=a%2Fb&state=STATE&iss=https%3A%2F%2Fa.example", "code a/b"),
            ("code=1", "not ours"),
            ("code=1&state=x", "not ours"),
            ("code=1&code=2&state=x", "not ours"),
            ("code=1&code=2&state=STATE", "the answer of the sign-in server has `code` twice"),
            ("code=1&state=STATE&state=x", "the answer of the sign-in server has `state` twice"),
            ("code=1&state=STATE&iss=https%3A%2F%2Fb.example", other),
            ("code=1&state=STATE&iss=https%3A%2F%2Fa.example%2F", other),
            ("error=x&error_description=hush&state=STATE&iss=https%3A%2F%2Fb.example", other),
            (
                "error=access_denied&error_description=no%0A&state=STATE",
                "the sign-in server refused: access_denied: no\\x0a",
            ),
            ("error=access_denied&code=1&state=STATE", "the sign-in server refused: access_denied"),
            ("state=STATE", "the answer of the sign-in server has no `code`"),
        ] {
            assert_eq!(judged(false, query), expected, "{query}");
        }
        let silent = "the answer does not say which sign-in server it comes from (`iss`)";
        assert_eq!(judged(true, "code=1&state=STATE"), silent);
        assert_eq!(judged(true, "error=x&state=STATE"), silent);
    }

    #[test]
    fn a_state_is_used_once() {
        let mut asking = asking(false);
        let query = format!("code=1&state={STATE}");
        assert!(matches!(asking.judge("state=x"), Judged::NotOurs));
        assert!(matches!(asking.judge(&query), Judged::Code(_)));
        assert!(matches!(asking.judge(&query), Judged::NotOurs));
    }
}
