//! What the hands have found out about the token of a request, where those of sign-in servers are
//! asked for: who holds it, what it allows, or why it is refused.
//!
//! The token itself is not in it, and neither is any other claim: this goes along with the calls of
//! the request as far as the bus, and no wire passes it on.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::caller::CallerName;

/// What is known of a request before its wire looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// It shows what the config itself names: the token of the front, or what a caller has.
    Known(Option<CallerName>),
    /// It shows whose it is, but is not for here.
    NotHere(CallerName),
    /// It shows a good token of a sign-in server.
    Good(Arc<Visit>),
    /// It is to be refused.
    Bad(Arc<TokenRefusal>),
}

/// What a good token allows.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who holds it. Another token of the same holder goes on where this one began.
    pub holder: Arc<str>,
    /// Which sign-in server it is from.
    pub issuer: Arc<str>,
    /// The scopes that it has.
    pub scopes: Vec<String>,
    /// When it ends, as far as that can be said.
    pub ends_at: Option<Instant>,
    /// Whose it is, where callers are told apart.
    pub caller: Option<CallerName>,
    /// Where clients learn how to get one.
    pub resource_metadata: Arc<str>,
}

/// One request by a good token.
pub struct Visit {
    grant: Arc<Grant>,
    lacking: OnceLock<Arc<TokenRefusal>>,
}

impl Judged {
    /// The request, if it shows a good token.
    pub fn visit(&self) -> Option<&Arc<Visit>> {
        match self {
            Judged::Good(visit) => Some(visit),
            _ => None,
        }
    }
}

impl Visit {
    /// A request that shows this.
    pub fn new(grant: Arc<Grant>) -> Arc<Visit> {
        Arc::new(Visit { grant, lacking: OnceLock::new() })
    }

    /// What the token allows.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// A call of the request needs these scopes: has the token all of them? If not, the whole
    /// request is to be refused.
    pub fn allows(&self, needed: &[String]) -> bool {
        let has = |scope: &String| self.grant.scopes.contains(scope);
        if needed.iter().all(has) {
            return true;
        }
        self.lacking
            .get_or_init(|| Arc::new(TokenRefusal::lacking(needed, &self.grant.resource_metadata)));
        false
    }

    /// Why the request is to be refused after all.
    pub fn lacking(&self) -> Option<&Arc<TokenRefusal>> {
        self.lacking.get()
    }
}

/// Who holds it is not told.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grant")
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visit")
    }
}

impl PartialEq for Visit {
    fn eq(&self, other: &Visit) -> bool {
        self.grant == other.grant
    }
}

impl Eq for Visit {}

/// How a request is refused because of the token that it shows, or shows not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRefusal {
    /// The status that says so.
    pub status: u16,
    /// What is said in words.
    pub message: String,
    /// The header field that goes with it.
    pub field: Option<(&'static str, String)>,
}

impl TokenRefusal {
    /// One by which a client learns what is wrong and where it gets a token.
    pub fn challenge(
        status: u16,
        message: impl Into<String>,
        parameters: &[(&str, &str)],
    ) -> TokenRefusal {
        let given = parameters.iter().filter(|(_, value)| !value.is_empty());
        let all: Vec<_> = given.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let field = Some(("WWW-Authenticate", format!("Bearer {}", all.join(", "))));
        TokenRefusal { status, message: message.into(), field }
    }

    /// Of a token that has not all of the scopes that are needed.
    pub fn lacking(needed: &[String], resource_metadata: &str) -> TokenRefusal {
        let scope = needed.join(" ");
        let parameters = [
            ("error", "insufficient_scope"),
            ("scope", &*scope),
            ("resource_metadata", resource_metadata),
        ];
        TokenRefusal::challenge(403, format!("the token needs the scope `{scope}`"), &parameters)
    }
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_lacks_a_scope_is_refused_as_a_whole() {
        let visit = Visit::new(Arc::new(Grant {
            holder: "a".into(),
            issuer: "i".into(),
            scopes: vec!["read".into()],
            ends_at: None,
            caller: None,
            resource_metadata: "https://t.example/.well-known/oauth-protected-resource".into(),
        }));
        assert!(visit.allows(&["read".into()]));
        assert_eq!(visit.lacking(), None);
        assert!(!visit.allows(&["read".into(), "write".into()]));
        assert!(visit.allows(&[]));
        let refusal = visit.lacking().unwrap();
        assert_eq!(
            (refusal.status, refusal.field.clone().unwrap().1.as_str()),
            (
                403,
                "Bearer error=\"insufficient_scope\", scope=\"read write\", \
                 resource_metadata=\"https://t.example/.well-known/oauth-protected-resource\""
            )
        );
    }
}
