//! What a front that asks for tokens says of itself, and how it answers who has none that is good
//! (RFC 9728, RFC 6750).

use std::sync::Arc;

use serde_json::{Value, json};

use super::claims::TokenFault;
use super::web::WebUrl;
use crate::http::{RequestHead, ResponseHead, TokenRefusal, preflight};
use crate::pattern;

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
/// For how long clients may keep what a front says of itself.
const KEPT: &str = "max-age=300";
/// When it is worth while to ask once more, in seconds.
const RETRY_AFTER: &str = "5";

/// What a front that asks for tokens is to its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedFront {
    /// Where its metadata is.
    pub metadata_url: Arc<str>,
    /// What every request needs.
    pub scopes: Vec<String>,
    /// The paths at which its metadata is.
    paths: Vec<String>,
    metadata: String,
}

impl ProtectedFront {
    /// The front that clients call by this URL and that listens at this path.
    pub fn new(
        url: &str,
        path: &str,
        issuers: &[String],
        scopes: &[String],
        scopes_for: &[(String, Vec<String>)],
    ) -> ProtectedFront {
        let (origin, own) = match WebUrl::parse(url) {
            Some(url) => (url.origin(), url.bare_path().to_owned()),
            None => (String::new(), String::new()),
        };
        let metadata_url = format!("{origin}{RESOURCE}{own}").into();
        let mut paths = vec![RESOURCE.to_owned()];
        for path in [own.as_str(), path] {
            let path = format!("{RESOURCE}{path}");
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let mut supported = scopes.to_vec();
        for scope in scopes_for.iter().flat_map(|(_, scopes)| scopes) {
            if !supported.contains(scope) {
                supported.push(scope.clone());
            }
        }
        supported.retain(|scope| scope != "offline_access");
        let mut metadata = json!({ "resource": url, "authorization_servers": issuers });
        if let Value::Object(members) = &mut metadata {
            if !supported.is_empty() {
                members.insert("scopes_supported".into(), json!(supported));
            }
            members.insert("bearer_methods_supported".into(), json!(["header"]));
            members.insert("resource_name".into(), json!("toolbus"));
        }
        let metadata = metadata.to_string();
        ProtectedFront { metadata_url, scopes: scopes.to_vec(), paths, metadata }
    }

    /// The answer to one who asks what the front is, which needs no token.
    pub fn metadata(&self, head: &RequestHead) -> Option<(ResponseHead, String)> {
        if !self.paths.contains(&head.path) {
            return None;
        }
        let mut answer = match &*head.method {
            "OPTIONS" => preflight(head, "GET, HEAD, OPTIONS"),
            "GET" | "HEAD" => ResponseHead::new(200),
            _ => return None,
        };
        answer.headers.push("Access-Control-Allow-Origin", "*");
        answer.headers.push("Cache-Control", KEPT);
        if answer.status == 200 {
            answer.headers.push("Content-Type", "application/json");
            answer.headers.push("Content-Length", self.metadata.len().to_string());
        }
        let body = if head.method == "GET" { self.metadata.clone() } else { String::new() };
        Some((answer, body))
    }

    /// To a request without a token.
    pub fn no_token(&self) -> TokenRefusal {
        let scope = self.scopes.join(" ");
        let parameters = [("resource_metadata", &*self.metadata_url), ("scope", &scope)];
        TokenRefusal::challenge(401, "a bearer token is needed", &parameters)
    }

    /// To a request of which it cannot be said what its token is.
    pub fn unclear(&self) -> TokenRefusal {
        let parameters = [("error", "invalid_request"), ("resource_metadata", &*self.metadata_url)];
        TokenRefusal::challenge(400, "`Authorization` must be one bearer token", &parameters)
    }

    /// To a request whose token is not let in.
    pub fn not_valid(&self, fault: TokenFault) -> TokenRefusal {
        self.invalid(fault.description())
    }

    /// To a request whose token is good, but not for who has shown it.
    pub fn invalid(&self, description: &str) -> TokenRefusal {
        let scope = self.scopes.join(" ");
        let parameters = [
            ("error", "invalid_token"),
            ("error_description", description),
            ("resource_metadata", &*self.metadata_url),
            ("scope", &scope),
        ];
        TokenRefusal::challenge(401, description, &parameters)
    }

    /// To a request whose token has not the scopes that every request needs.
    pub fn lacking(&self) -> TokenRefusal {
        TokenRefusal::lacking(&self.scopes, &self.metadata_url)
    }
}

/// What a call of this tool of this back needs, if it needs more than the `scopes` that every
/// request needs: all of that, and what stands in `scopes_for` by patterns of `<back>.<tool>`.
pub fn scopes_needed(
    scopes: &[String],
    scopes_for: &[(String, Vec<String>)],
    back: &str,
    tool: &str,
) -> Option<Vec<String>> {
    let name = format!("{back}.{tool}");
    let mut needed = scopes.to_vec();
    let fitting = scopes_for.iter().filter(|(it, _)| pattern::matches(it, &name));
    for scope in fitting.flat_map(|(_, scopes)| scopes) {
        if !needed.contains(scope) {
            needed.push(scope.clone());
        }
    }
    (scopes.len() < needed.len()).then_some(needed)
}

/// What a call needs that may reach any tool of this back: all that any of them may need.
pub fn scopes_needed_by_any(
    scopes: &[String],
    scopes_for: &[(String, Vec<String>)],
    back: &str,
) -> Option<Vec<String>> {
    let name = format!("{back}.");
    let may_fit = |it: &str| match it.split_once('*') {
        Some((head, _)) => head.starts_with(&name) || name.starts_with(head),
        None => it.starts_with(&name),
    };
    let mut needed = scopes.to_vec();
    let fitting = scopes_for.iter().filter(|(it, _)| may_fit(it));
    for scope in fitting.flat_map(|(_, scopes)| scopes) {
        if !needed.contains(scope) {
            needed.push(scope.clone());
        }
    }
    (scopes.len() < needed.len()).then_some(needed)
}

/// To a request whose token is good, and no caller's.
pub fn no_caller() -> TokenRefusal {
    let message = "no caller of this front fits the token".to_owned();
    TokenRefusal { status: 403, message, field: None }
}

/// To a request whose token cannot be judged for now.
pub fn unavailable() -> TokenRefusal {
    let message = "it cannot be found out for now whether the token is valid".to_owned();
    TokenRefusal { status: 503, message, field: Some(("Retry-After", RETRY_AFTER.to_owned())) }
}

/// What the tokens of a request are: none, one, or something else.
pub enum ShownToken<'a> {
    /// It shows none.
    None,
    /// It shows this.
    One(&'a str),
    /// It cannot be said what it shows.
    Unclear,
}

impl<'a> ShownToken<'a> {
    /// What this request shows.
    pub fn of(head: &'a RequestHead) -> ShownToken<'a> {
        let mut fields = head.headers.all("Authorization");
        let Some(field) = fields.next() else { return ShownToken::None };
        if fields.next().is_some() {
            return ShownToken::Unclear;
        }
        let mut words = field.split_ascii_whitespace();
        if !words.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer")) {
            return ShownToken::None;
        }
        match (words.next(), words.next()) {
            (Some(token), None) => ShownToken::One(token),
            _ => ShownToken::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes_for() -> Vec<(String, Vec<String>)> {
        vec![
            ("git.push*".to_owned(), vec!["git:write".to_owned()]),
            ("*.admin".to_owned(), vec!["admin".to_owned(), "tools".to_owned()]),
        ]
    }

    #[test]
    fn a_call_that_may_reach_all_needs_what_any_may_need() {
        let needed = |back: &str| scopes_needed_by_any(&[], &scopes_for(), back);
        let texts = |texts: &[&str]| Some(texts.iter().map(|&it| it.to_owned()).collect());
        assert_eq!(needed("git"), texts(&["git:write", "admin", "tools"]));
        assert_eq!(needed("gi"), texts(&["admin", "tools"]));
        assert_eq!(needed("gitlab"), texts(&["admin", "tools"]));
        let exact = [("git.push".to_owned(), vec!["w".to_owned()])];
        assert_eq!(scopes_needed_by_any(&[], &exact, "git"), texts(&["w"]));
        assert_eq!(scopes_needed_by_any(&[], &exact, "hub"), None);
    }

    fn front() -> ProtectedFront {
        let issuers = ["https://a.example".to_owned()];
        let url = "https://tools.example/a/mcp";
        ProtectedFront::new(url, "/mcp", &issuers, &["tools".to_owned()], &scopes_for())
    }

    #[test]
    fn a_front_says_where_tokens_come_from() {
        let front = front();
        let get = |path: &str| {
            let answer = front.metadata(&RequestHead::new("GET", path))?;
            Some((answer.0.status, answer.1))
        };
        let body = r#"{"resource":"https://tools.example/a/mcp","authorization_servers":["https://a.example"],"scopes_supported":["tools","git:write","admin"],"bearer_methods_supported":["header"],"resource_name":"toolbus"}"#;
        for path in ["", "/a/mcp", "/mcp"] {
            assert_eq!(get(&format!("{RESOURCE}{path}")), Some((200, body.to_owned())), "{path}");
        }
        assert_eq!(get("/.well-known/oauth-protected-resource/other"), None);
        let (head, body) = front.metadata(&RequestHead::new("OPTIONS", RESOURCE)).unwrap();
        assert_eq!((head.status, body.as_str()), (204, ""));
        assert_eq!(head.header("access-control-allow-methods"), Some("GET, HEAD, OPTIONS"));
        assert_eq!(front.metadata(&RequestHead::new("POST", RESOURCE)), None);
    }

    #[test]
    fn refusals_say_what_is_wanted() {
        let front = front();
        let field = |refusal: TokenRefusal| (refusal.status, refusal.field.unwrap().1);
        let url = "https://tools.example/.well-known/oauth-protected-resource/a/mcp";
        let said = format!("Bearer resource_metadata=\"{url}\", scope=\"tools\"");
        assert_eq!(field(front.no_token()), (401, said));
        let said = format!("Bearer error=\"invalid_request\", resource_metadata=\"{url}\"");
        assert_eq!(field(front.unclear()), (400, said));
        let said = format!(
            "Bearer error=\"invalid_token\", error_description=\"the token has ended\", \
             resource_metadata=\"{url}\", scope=\"tools\""
        );
        assert_eq!(field(front.not_valid(TokenFault::Ended)), (401, said));
        assert_eq!(field(unavailable()), (503, "5".to_owned()));
    }

    #[test]
    fn tools_need_the_scopes_of_all_patterns_that_fit() {
        let needed = |back, tool| scopes_needed(&["tools".to_owned()], &scopes_for(), back, tool);
        assert_eq!(needed("git", "log"), None);
        let texts = |all: &[&str]| Some(all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(needed("git", "push_all"), texts(&["tools", "git:write"]));
        assert_eq!(needed("x", "admin"), texts(&["tools", "admin"]));
    }

    #[test]
    fn one_token_is_one_word_in_one_field() {
        let shown = |fields: &[&str]| {
            let mut head = RequestHead::new("POST", "/mcp");
            head.headers.extend(fields.iter().map(|field| ("authorization", *field)));
            match ShownToken::of(&head) {
                ShownToken::None => "none".to_owned(),
                ShownToken::One(token) => token.to_owned(),
                ShownToken::Unclear => "unclear".to_owned(),
            }
        };
        for (fields, expected) in [
            (&[][..], "none"),
            (&[""], "none"),
            (&["Basic abc"], "none"),
            (&["Bearers abc"], "none"),
            (&["bEARER abc"], "abc"),
            (&["Bearer   abc  "], "abc"),
            (&["Bearer"], "unclear"),
            (&["Bearer "], "unclear"),
            (&["Bearer a b"], "unclear"),
            (&["Bearer a", "Bearer a"], "unclear"),
            (&["Basic a", "Bearer a"], "unclear"),
        ] {
            assert_eq!(shown(fields), expected, "{fields:?}");
        }
    }
}
