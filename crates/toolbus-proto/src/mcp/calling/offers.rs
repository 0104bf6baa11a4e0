//! Offering the page of a sign-in to the caller of a call that lacks a token, in the words of a
//! server that asks (`docs/protocols/mcp.md` 2.6).
//!
//! Which call lacks one, and where its user signs in, is known elsewhere: here is who can be asked,
//! what is asked, and what an answer means.

use bytes::Bytes;

use super::crossing::{Asked, refused};
use super::{asks, era_of, params_of};
use crate::json::{Json, Kind, edit};
use crate::jsonrpc::kind;
use crate::mcp::translate::input_required;
use crate::mcp::wire::{ERROR_KEY, Era, INVALID_PARAMS, Meta, Refusal, put_member, quoted};
use crate::tool::{Call, Failure, What};

/// The one question of a call has this key.
const KEY: &str = "tb1";

/// What a user is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// In words.
    pub message: String,
    /// The page that is to be opened.
    pub url: String,
}

impl Offer {
    fn params(&self) -> Vec<u8> {
        let mut params = vec![b'{'];
        put_member(&mut params, "mode", "\"url\"");
        put_member(&mut params, "message", quoted(&self.message));
        put_member(&mut params, "url", quoted(&self.url));
        params
    }

    /// As a legacy client is asked, who is told by `id` that it is over.
    pub fn question(&self, id: &str) -> Json {
        let mut params = self.params();
        put_member(&mut params, "elicitationId", quoted(id));
        asking(params)
    }

    /// As a modern client is asked, who calls again with this token.
    pub fn result(&self, token: &str) -> Bytes {
        let requests = format!("{{\"{KEY}\":{}}}", asking(self.params()).as_str());
        input_required(&requests, Some(token)).into()
    }
}

fn asking(mut params: Vec<u8>) -> Json {
    params.push(b'}');
    let mut asked = vec![b'{'];
    put_member(&mut asked, "method", quoted("elicitation/create"));
    put_member(&mut asked, "params", params);
    asked.push(b'}');
    Json::from_trusted(asked)
}

/// The note by which a legacy client learns that what it was asked is over.
pub fn completed(id: &str) -> Json {
    let mut note = vec![b'{'];
    put_member(&mut note, "method", quoted("notifications/elicitation/complete"));
    put_member(&mut note, "params", format!("{{\"elicitationId\":{}}}", Json::of(id)));
    note.push(b'}');
    Json::from_trusted(note)
}

/// What a client says that it takes, in the parameters of `initialize`.
pub fn declared(call: &Call) -> Option<Json> {
    let What::Native { method, body, .. } = &call.what else { return None };
    let capabilities = edit::member(str::from_utf8(body).ok()?, "capabilities")?;
    (method == "initialize").then(|| Json::part_of(body, capabilities).compact())
}

/// Can the caller of this call open a page? `declared` is what its session has said.
pub fn opens_pages(call: &Call, declared: Option<&Json>) -> bool {
    let opens =
        |capabilities: &Json| asks::takes(capabilities, "elicitation", Some("{\"mode\":\"url\"}"));
    match era_of(call) {
        Era::Legacy => call.asks().or(declared).is_some_and(opens),
        Era::Modern => {
            let Some(said) = said(call) else { return false };
            let capabilities = Meta::in_body(said).capabilities;
            capabilities.is_some_and(|raw| opens(&Json::part_of(said, raw)))
        }
    }
}

/// What its caller wrote.
fn said(call: &Call) -> Option<&Bytes> {
    match &call.what {
        What::Native { body, .. } => Some(body),
        What::Tool { .. } | What::Tools => call.request.as_ref(),
    }
}

/// The same request, by which a call is known again that goes on.
#[derive(Debug)]
pub struct Offered(Asked);

impl Offered {
    /// That of a call whose caller is asked.
    pub fn of(call: &Call) -> Offered {
        let method = match &call.what {
            What::Native { method, .. } => method.clone(),
            What::Tool { .. } | What::Tools => Bytes::from_static(b"tools/call"),
        };
        Offered(Asked { method, params: said(call).cloned().unwrap_or_default() })
    }

    /// A call that comes with our token: what its user has said, or what is wrong with it.
    pub fn resumed_by(&self, call: &Call) -> Result<Consent, Failure> {
        let invalid = |message: &str| {
            let mut failure = refused(&Refusal::new(INVALID_PARAMS, message.to_owned()));
            // The error of a tool is told by the hub as it is only in this form.
            let told = match (&call.what, &failure.detail) {
                (What::Tool { .. }, Some(error)) => {
                    Some(format!("{{\"{ERROR_KEY}\":{}}}", error.as_str()))
                }
                _ => None,
            };
            if let Some(told) = told {
                failure.detail = Some(Json::from_trusted(told));
            }
            failure
        };
        let other = Offered::of(call);
        if !self.0.is_same(&other.0) {
            return Err(invalid("unknown requestState"));
        }
        let given = params_of(&other.0.params);
        let given = given.and_then(|params| edit::member(params, "inputResponses"));
        let given = given.unwrap_or("{}");
        if kind(given) != Kind::Object {
            return Err(invalid("inputResponses must be an object"));
        }
        match edit::member(given, KEY) {
            None => Ok(Consent::Missing),
            Some(answer) if kind(answer) != Kind::Object => {
                Err(invalid(&format!("the answer to {KEY} must be an object")))
            }
            Some(answer) => Ok(Consent::said(answer)),
        }
    }
}

/// What a user says to an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// The page is open.
    Given,
    /// It is not.
    Refused,
    /// Nothing has been said yet.
    Missing,
}

impl Consent {
    /// What a legacy client answers: `{"result":…}` or `{"error":…}`.
    pub fn of(answer: &Json) -> Consent {
        edit::member(answer.as_str(), "result").map_or(Consent::Refused, Consent::said)
    }

    fn said(result: &str) -> Consent {
        match edit::text(result, "action").as_deref() {
            Some("accept") => Consent::Given,
            _ => Consent::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::mcp::WIRE;

    fn call(method: &'static str, body: &str) -> Call {
        let what = What::Native {
            wire: WIRE,
            method: Bytes::from_static(method.as_bytes()),
            body: Bytes::from(body.to_owned()),
        };
        Call::of(Instant::now(), what)
    }

    const MODERN: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}"#;

    #[test]
    fn a_question_is_one_of_a_server() {
        let offer = Offer { message: "`x` needs a sign-in".into(), url: "https://a/?b=\"c".into() };
        assert_eq!(
            offer.question("tb1").as_str(),
            r#"{"method":"elicitation/create","params":{"mode":"url","message":"`x` needs a sign-in","url":"https://a/?b=\"c","elicitationId":"tb1"}}"#
        );
        assert_eq!(
            offer.result("t"),
            r#"{"resultType":"input_required","inputRequests":{"tb1":{"method":"elicitation/create","params":{"mode":"url","message":"`x` needs a sign-in","url":"https://a/?b=\"c"}}},"requestState":"t"}"#
        );
        assert_eq!(
            completed("tb1").as_str(),
            r#"{"method":"notifications/elicitation/complete","params":{"elicitationId":"tb1"}}"#
        );
    }

    #[test]
    fn only_who_declares_it_is_asked() {
        let opens = |capabilities: &str| {
            let declared = Json::parse(capabilities.to_owned()).unwrap();
            opens_pages(&call("tools/call", r#"{"name":"x"}"#), Some(&declared))
        };
        assert!(opens(r#"{"elicitation":{"url":{}}}"#));
        for other in [r#"{"elicitation":{}}"#, r#"{"elicitation":{"form":{}}}"#, "{}"] {
            assert!(!opens(other), "{other}");
        }
        assert!(!opens_pages(&call("tools/call", r#"{"name":"x"}"#), None));
        assert!(opens_pages(&call("tools/call", &format!(r#"{{"name":"x",{MODERN}}}"#)), None));
    }

    #[test]
    fn a_call_that_goes_on_is_known_again() {
        let with = |more: &str| {
            call("tools/call", &format!(r#"{{"name":"x","arguments":{{"a":1}},{MODERN}{more}}}"#))
        };
        let offered = Offered::of(&with(""));
        let said = |responses: &str| {
            let more = format!(r#","requestState":"t","inputResponses":{responses}"#);
            offered.resumed_by(&with(&more)).map_err(|failure| failure.message)
        };
        assert_eq!(said(r#"{"tb1":{"action":"accept"}}"#), Ok(Consent::Given));
        for refused in [r#"{"tb1":{"action":"decline"}}"#, r#"{"tb1":{}}"#] {
            assert_eq!(said(refused), Ok(Consent::Refused), "{refused}");
        }
        assert_eq!(said(r#"{"tb2":{"action":"accept"}}"#), Ok(Consent::Missing));
        assert_eq!(said("[]"), Err("inputResponses must be an object".to_owned()));
        assert_eq!(said(r#"{"tb1":1}"#), Err("the answer to tb1 must be an object".to_owned()));
        let other =
            call("tools/call", &format!(r#"{{"name":"y","arguments":{{"a":1}},{MODERN}}}"#));
        let failure = offered.resumed_by(&other).unwrap_err();
        assert_eq!(failure.message, "unknown requestState");
    }

    #[test]
    fn an_error_is_no_consent() {
        let said = |answer: &str| Consent::of(&Json::parse(answer.to_owned()).unwrap());
        assert_eq!(said(r#"{"result":{"action":"accept"}}"#), Consent::Given);
        assert_eq!(said(r#"{"result":{"action":"cancel"}}"#), Consent::Refused);
        assert_eq!(said(r#"{"error":{"code":-32601,"message":"no"}}"#), Consent::Refused);
    }
}
