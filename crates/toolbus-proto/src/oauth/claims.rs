//! What a token says of its holder, and whether that lets it in: rules for claims, whoever has
//! vouched for them, a signature or an answer of the sign-in server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::challenge::words;
use super::document::object;

/// How deep headers, claims and answers about tokens may be.
pub const CLAIMS_DEPTH_MAX: usize = 16;
/// How long the name of a holder may be.
const SUBJECT_CHARS_MAX: usize = 255;

/// What a front asks of the claims of every token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRules {
    /// Who may have made it.
    pub issuers: Vec<String>,
    /// For whom it must be: for one of these.
    pub audience: Vec<String>,
    /// How far clocks may be apart.
    pub skew: Duration,
}

/// What a good token says.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims {
    /// Who made it.
    pub issuer: String,
    /// Whose it is.
    pub subject: String,
    /// To which client it was given.
    pub client: Option<String>,
    /// What it allows.
    pub scopes: Vec<String>,
    /// When it ends, in Unix seconds.
    pub ends: f64,
    /// All that it says.
    pub members: Map<String, Value>,
}

/// Why a token is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFault {
    /// It has ended, and is right but for that.
    Ended,
    /// It is for another server, and is right but for that.
    Audience,
    /// The same, and it has ended, too.
    EndedElsewhere,
    /// It is from somewhere else.
    Issuer,
    /// Its signature is wrong.
    Signature,
    /// There is no key for it.
    Key,
    /// It is signed in a way that is not allowed.
    Algorithm,
    /// It is not what a token is.
    Malformed(&'static str),
    /// It holds from later on.
    Early,
    /// Only who has a key besides may use it.
    Bound,
    /// The sign-in server says that it does not hold.
    Inactive,
}

impl TokenFault {
    /// Under what it is counted.
    pub fn outcome(self) -> &'static str {
        match self {
            TokenFault::Ended => "ended",
            TokenFault::Audience | TokenFault::EndedElsewhere => "audience",
            TokenFault::Issuer => "issuer",
            TokenFault::Signature => "signature",
            TokenFault::Key => "key",
            TokenFault::Algorithm => "algorithm",
            TokenFault::Malformed(_) | TokenFault::Early => "malformed",
            TokenFault::Bound => "bound",
            TokenFault::Inactive => "inactive",
        }
    }

    /// What its client is told, which is no more than it needs to get another.
    pub fn description(self) -> &'static str {
        match self {
            TokenFault::Ended => "the token has ended",
            TokenFault::Audience => "the token is not for this server",
            _ => "the token is not valid",
        }
    }
}

/// In words for those who run the front.
impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenFault::Ended => "it has ended",
            TokenFault::Audience => "it is for another server (`aud`)",
            TokenFault::EndedElsewhere => "it is for another server (`aud`), and has ended",
            TokenFault::Issuer => "it is of another issuer (`iss`)",
            TokenFault::Signature => "its signature is wrong",
            TokenFault::Key => "there is no key for it",
            TokenFault::Algorithm => "its algorithm is not allowed",
            TokenFault::Malformed(what) => what,
            TokenFault::Early => "it does not hold yet (`nbf`, `iat`)",
            TokenFault::Bound => "it is bound to a key (`cnf`)",
            TokenFault::Inactive => "the sign-in server says that it does not hold",
        })
    }
}

impl ClaimRules {
    /// Is it one of the issuers whose tokens are let in?
    pub fn issuer(&self, claims: &Map<String, Value>) -> Result<&String, TokenFault> {
        let issuer = match claims.get("iss") {
            Some(Value::String(issuer)) => issuer,
            None => return Err(TokenFault::Issuer),
            Some(_) => return Err(TokenFault::Malformed("its `iss` is no text")),
        };
        self.issuers.iter().find(|known| *known == issuer).ok_or(TokenFault::Issuer)
    }

    /// Judges the claims of a token that this issuer has vouched for; `now` in Unix seconds.
    pub fn judge(
        &self,
        now: f64,
        issuer: &str,
        members: Map<String, Value>,
    ) -> Result<Claims, TokenFault> {
        let skew = self.skew.as_secs_f64();
        let ends = number(&members, "exp")?.ok_or(TokenFault::Malformed("it has no `exp`"))?;
        let is_for_us = match members.get("aud") {
            None => false,
            Some(Value::String(one)) => self.audience.contains(one),
            Some(Value::Array(all)) => {
                let texts = all.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
                let texts = texts.ok_or(TokenFault::Malformed("its `aud` is no list of texts"))?;
                texts.iter().any(|one| self.audience.iter().any(|ours| ours == one))
            }
            Some(_) => return Err(TokenFault::Malformed("its `aud` is no text and no list")),
        };
        let starts = [number(&members, "nbf")?, number(&members, "iat")?];
        let subject = match members.get("sub") {
            Some(Value::String(subject))
                if (1..=SUBJECT_CHARS_MAX).contains(&subject.chars().count()) =>
            {
                subject.clone()
            }
            _ => return Err(TokenFault::Malformed("its `sub` is no text of 1 to 255 characters")),
        };
        let scopes = scopes(&members)?;
        if members.contains_key("cnf") {
            return Err(TokenFault::Bound);
        }
        if starts.into_iter().flatten().any(|start| now + skew < start) {
            return Err(TokenFault::Early);
        }
        match (now < ends + skew, is_for_us) {
            (true, true) => {}
            (false, true) => return Err(TokenFault::Ended),
            (true, false) => return Err(TokenFault::Audience),
            (false, false) => return Err(TokenFault::EndedElsewhere),
        }
        let client = ["client_id", "azp"].iter().find_map(|name| members.get(*name)?.as_str());
        let client = client.map(str::to_owned);
        Ok(Claims { issuer: issuer.to_owned(), subject, client, scopes, ends, members })
    }

    /// Judges what a sign-in server answers when it is asked about a token (RFC 7662).
    pub fn judge_answer(&self, now: f64, body: &[u8]) -> Result<Claims, TokenFault> {
        const NO_ANSWER: TokenFault = TokenFault::Malformed("the answer about it is none");
        let members = object(body, CLAIMS_DEPTH_MAX).map_err(|_| NO_ANSWER)?;
        if members.get("active") != Some(&Value::Bool(true)) {
            return Err(TokenFault::Inactive);
        }
        let issuer = match members.get("iss") {
            Some(_) => self.issuer(&members)?,
            None => self.issuers.first().ok_or(TokenFault::Issuer)?,
        };
        self.judge(now, &issuer.clone(), members)
    }
}

impl Claims {
    /// Who holds the token: the same text for all tokens of one holder by one client.
    pub fn holder(&self) -> Arc<str> {
        let client = self.client.as_deref().map_or(Value::Null, Value::from);
        Value::from(vec![
            Value::from(self.issuer.as_str()),
            Value::from(self.subject.as_str()),
            client,
        ])
        .to_string()
        .into()
    }
}

/// Is this holder known by tokens of that issuer?
pub fn is_of(holder: &str, issuer: &str) -> bool {
    let issuer = Value::from(issuer).to_string();
    holder.strip_prefix('[').and_then(|rest| rest.strip_prefix(&issuer)).is_some_and(|rest| {
        // Neither does a text go on behind its quotation mark.
        rest.starts_with(',')
    })
}

/// Of which tokens a caller of the config is known. What is empty says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedClaims {
    /// One of these is `iss`.
    pub issuer: Vec<String>,
    /// One of these is `sub`.
    pub sub: Vec<String>,
    /// One of these is among the scopes.
    pub scope: Vec<String>,
    /// Of each of these claims one of the values is it, or in it.
    pub claims: Vec<(String, Vec<String>)>,
}

impl WantedClaims {
    /// Is it such a token?
    pub fn fits(&self, token: &Claims) -> bool {
        let is_one = |wanted: &[String], value: &str| {
            wanted.is_empty() || wanted.iter().any(|wanted| wanted == value)
        };
        let is_in = |value: &Value, wanted: &[String]| match value {
            Value::String(text) => wanted.contains(text),
            Value::Array(all) => {
                all.iter().filter_map(Value::as_str).any(|text| wanted.iter().any(|it| it == text))
            }
            _ => false,
        };
        is_one(&self.issuer, &token.issuer)
            && is_one(&self.sub, &token.subject)
            && (self.scope.is_empty() || self.scope.iter().any(|it| token.scopes.contains(it)))
            && self.claims.iter().all(|(name, wanted)| {
                token.members.get(name).is_some_and(|value| is_in(value, wanted))
            })
    }
}

/// A number, if there is such a claim.
fn number(members: &Map<String, Value>, name: &'static str) -> Result<Option<f64>, TokenFault> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64()),
        Some(_) => Err(TokenFault::Malformed(match name {
            "exp" => "its `exp` is no number",
            "nbf" => "its `nbf` is no number",
            _ => "its `iat` is no number",
        })),
    }
}

/// The scopes of `scope` and `scp` together.
fn scopes(members: &Map<String, Value>) -> Result<Vec<String>, TokenFault> {
    let mut all = match members.get("scope") {
        None => Vec::new(),
        Some(Value::String(scope)) => words(scope),
        Some(_) => return Err(TokenFault::Malformed("its `scope` is no text")),
    };
    let more = match members.get("scp") {
        None => Vec::new(),
        Some(Value::String(scope)) => words(scope),
        Some(Value::Array(list)) => {
            let list = list.iter().map(|one| one.as_str().map(str::to_owned)).collect();
            let list: Option<Vec<String>> = list;
            list.ok_or(TokenFault::Malformed("its `scp` is no list of texts"))?
        }
        Some(_) => return Err(TokenFault::Malformed("its `scp` is no text and no list")),
    };
    for scope in more {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: f64 = 1_000_000.0;

    fn rules() -> ClaimRules {
        ClaimRules {
            issuers: vec!["https://a.example".into(), "https://b.example".into()],
            audience: vec!["https://t.example/mcp".into(), "tools".into()],
            skew: Duration::from_secs(30),
        }
    }

    fn told(changed: &[(&str, Value)]) -> String {
        let mut members = json!({
            "iss": "https://a.example", "aud": "tools", "sub": "ann", "exp": NOW + 60.0,
        });
        for (name, value) in changed {
            match value {
                Value::Null => members.as_object_mut().unwrap().remove(*name),
                value => members.as_object_mut().unwrap().insert((*name).into(), value.clone()),
            };
        }
        let Value::Object(members) = members else { unreachable!("it was made as one") };
        let rules = rules();
        let judged =
            rules.issuer(&members).cloned().and_then(|issuer| rules.judge(NOW, &issuer, members));
        match judged {
            Ok(claims) => format!("{} {}", claims.holder(), claims.scopes.join("+")),
            Err(fault) => format!("{}: {fault}", fault.outcome()),
        }
    }

    #[test]
    fn claims_are_judged_one_by_one() {
        let good = r#"["https://a.example","ann",null] "#;
        assert_eq!(told(&[]), good);
        for (name, value, expected) in [
            ("iss", json!("https://b.example"), r#"["https://b.example","ann",null] "#),
            ("iss", json!("https://a.example/"), "issuer: it is of another issuer (`iss`)"),
            ("iss", Value::Null, "issuer: it is of another issuer (`iss`)"),
            ("iss", json!(["https://a.example"]), "malformed: its `iss` is no text"),
            ("aud", json!(["x", "tools"]), good),
            ("aud", json!("https://t.example/mcp"), good),
            ("aud", json!("https://t.example/mcp/"), "audience: it is for another server (`aud`)"),
            ("aud", Value::Null, "audience: it is for another server (`aud`)"),
            ("aud", json!([]), "audience: it is for another server (`aud`)"),
            ("aud", json!(["tools", 1]), "malformed: its `aud` is no list of texts"),
            ("aud", json!({"tools": 1}), "malformed: its `aud` is no text and no list"),
            ("exp", Value::Null, "malformed: it has no `exp`"),
            ("exp", json!("1000060"), "malformed: its `exp` is no number"),
            ("exp", json!(NOW - 29.5), good),
            ("exp", json!(NOW - 30.0), "ended: it has ended"),
            ("exp", json!(-1), "ended: it has ended"),
            ("nbf", json!(NOW + 30.0), good),
            ("nbf", json!(NOW + 30.5), "malformed: it does not hold yet (`nbf`, `iat`)"),
            ("nbf", json!(true), "malformed: its `nbf` is no number"),
            ("iat", json!(NOW + 31.0), "malformed: it does not hold yet (`nbf`, `iat`)"),
            ("iat", json!([1]), "malformed: its `iat` is no number"),
            ("sub", Value::Null, "malformed: its `sub` is no text of 1 to 255 characters"),
            ("sub", json!(""), "malformed: its `sub` is no text of 1 to 255 characters"),
            ("sub", json!(7), "malformed: its `sub` is no text of 1 to 255 characters"),
            (
                "sub",
                json!("ü".repeat(256)),
                "malformed: its `sub` is no text of 1 to 255 characters",
            ),
            ("cnf", json!({"jkt": "x"}), "bound: it is bound to a key (`cnf`)"),
            ("scope", json!("a b"), r#"["https://a.example","ann",null] a+b"#),
            ("scope", json!(["a"]), "malformed: its `scope` is no text"),
            ("scp", json!(["a", "b"]), r#"["https://a.example","ann",null] a+b"#),
            ("scp", json!("a b"), r#"["https://a.example","ann",null] a+b"#),
            ("scp", json!([1]), "malformed: its `scp` is no list of texts"),
            ("scp", json!(1), "malformed: its `scp` is no text and no list"),
            ("azp", json!("app"), r#"["https://a.example","ann","app"] "#),
        ] {
            assert_eq!(told(&[(name, value.clone())]), expected, "{name}: {value}");
        }
    }

    #[test]
    fn a_holder_is_of_one_issuer() {
        let holder = r#"["https://a.example","ann",null]"#;
        assert!(is_of(holder, "https://a.example"));
        assert!(!is_of(holder, "https://a.exampl"));
        assert!(!is_of(holder, "ann"));
    }

    #[test]
    fn that_it_has_ended_is_said_only_if_all_else_is_right() {
        let ended = ("exp", json!(NOW - 100.0));
        assert_eq!(
            told(&[ended.clone(), ("aud", json!("x"))]),
            "audience: it is for another server (`aud`), and has ended"
        );
        assert_eq!(TokenFault::EndedElsewhere.description(), "the token is not valid");
        assert_eq!(told(&[ended, ("sub", json!(1))]).split(':').next(), Some("malformed"));
    }

    #[test]
    fn an_answer_about_a_token_is_judged_as_its_claims() {
        let judge = |body: &str| match rules().judge_answer(NOW, body.as_bytes()) {
            Ok(claims) => claims.holder().to_string(),
            Err(fault) => fault.to_string(),
        };
        let good = r#"{"active":true,"aud":"tools","sub":"ann","exp":2000000,"client_id":"app"}"#;
        assert_eq!(judge(good), r#"["https://a.example","ann","app"]"#);
        let inactive = "the sign-in server says that it does not hold";
        assert_eq!(judge(&good.replace("true", "false")), inactive);
        assert_eq!(judge(&good.replace("true", "\"true\"")), inactive);
        assert_eq!(judge("{}"), inactive);
        assert_eq!(judge(&good.replace("tools", "x")), "it is for another server (`aud`)");
        assert_eq!(judge(&good.replace("2000000", "2")), "it has ended");
        let other = good.replace("{", r#"{"iss":"https://c.example","#);
        assert_eq!(judge(&other), "it is of another issuer (`iss`)");
        assert_eq!(judge("[]"), "the answer about it is none");
        assert_eq!(judge(r#"{"active":true,"active":true}"#), "the answer about it is none");
    }

    #[test]
    fn a_caller_is_known_by_all_that_is_wanted_of_it() {
        let Value::Object(members) = json!({
            "iss": "https://a.example", "aud": "tools", "sub": "ann", "exp": NOW + 60.0,
            "scope": "read write", "groups": ["dev", "ops"], "tenant": "t1", "level": 3,
        }) else {
            unreachable!("it was made as one")
        };
        let token = rules().judge(NOW, "https://a.example", members).unwrap();
        let texts = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let of = |issuer: &[&str], sub: &[&str], scope: &[&str], claims: &[(&str, &[&str])]| {
            let claims = claims.iter().map(|(name, all)| ((*name).to_owned(), texts(all)));
            let (issuer, sub, scope) = (texts(issuer), texts(sub), texts(scope));
            WantedClaims { issuer, sub, scope, claims: claims.collect() }.fits(&token)
        };
        assert!(of(&["https://a.example"], &[], &[], &[]));
        assert!(!of(&["https://b.example"], &[], &[], &[]));
        assert!(of(&[], &["eve", "ann"], &["write"], &[]));
        assert!(!of(&[], &["ann"], &["admin"], &[]));
        assert!(of(&[], &[], &[], &[("groups", &["ops"]), ("tenant", &["t1", "t2"])]));
        assert!(!of(&[], &[], &[], &[("groups", &["ops"]), ("tenant", &["t2"])]));
        assert!(!of(&[], &[], &[], &[("level", &["3"])]));
        assert!(!of(&[], &[], &[], &[("none", &["x"])]));
    }
}
