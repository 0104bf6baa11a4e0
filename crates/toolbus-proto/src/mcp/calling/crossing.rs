//! Calls between a client of one era and a server of the other (`docs/protocols/mcp.md` 2.4).
//!
//! Here is which call goes out as what, and as what its answer comes back; how the texts change is
//! in `translate`.

use std::time::Instant;

use bytes::Bytes;

use super::asks::takes;
use super::sending::{Request, with_token};
use super::{MessageClient, Purpose, Sent, params_of};
use crate::channel::Ticket;
use crate::json::{Json, edit};
use crate::mcp::translate::{
    Introduced, ModernError, crossed_greeting, failure_of_error, is_in_both, legacy_error,
    legacy_params, legacy_result, modern_error, modern_params, modern_result,
};
use crate::mcp::wire::{
    Era, INTERNAL_ERROR, Level, Meta, Refusal, Revision, SERVER_KEY, UNKNOWN_METHOD,
};
use crate::tool::{Call, Code, Failure, FailureKind, Outcome};

/// What is known of the caller of a call that passes from one era to the other.
#[derive(Debug)]
pub(super) enum Crossing {
    Modern(ModernCaller),
    Legacy(LegacyCaller),
}

/// A modern caller of a legacy server.
#[derive(Debug)]
pub(super) struct ModernCaller {
    pub(super) request: Asked,
    pub(super) capabilities: Json,
    /// How many questions of the server were told it.
    pub(super) questions: u64,
}

/// What a modern caller asked for, by which the same request is known again.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) method: Bytes,
    pub(super) params: Bytes,
}

/// A legacy caller of a modern server.
#[derive(Debug)]
pub(super) struct LegacyCaller {
    pub(super) method: Bytes,
    /// As they were sent.
    pub(super) params: Bytes,
    pub(super) revision: Revision,
    pub(super) capabilities: Json,
    /// How often the server has asked.
    pub(super) rounds: u32,
}

impl LegacyCaller {
    /// A user of the command line, who is asked as a legacy client is.
    pub(super) fn user(method: Bytes, params: Bytes, capabilities: Json) -> LegacyCaller {
        LegacyCaller { method, params, revision: Revision::MODERN, capabilities, rounds: 0 }
    }
}

impl Crossing {
    fn method(&self) -> &str {
        let method = match self {
            Crossing::Modern(caller) => &caller.request.method,
            Crossing::Legacy(caller) => &caller.method,
        };
        str::from_utf8(method).unwrap_or_default()
    }
}

impl Asked {
    /// Is it the same method, name or URI, and arguments?
    pub(super) fn is_same(&self, other: &Asked) -> bool {
        fn parts(asked: &Asked) -> [Option<&str>; 3] {
            edit::pick(params_of(&asked.params).unwrap_or("{}"), ["name", "uri", "arguments"])
        }
        let value = |raw: Option<&str>| -> Option<serde_json::Value> {
            serde_json::from_str(raw.unwrap_or("null")).ok()
        };
        let pairs = parts(self).into_iter().zip(parts(other));
        self.method == other.method
            && pairs.into_iter().all(|(ours, theirs)| {
                ours == theirs || (value(ours).is_some() && value(ours) == value(theirs))
            })
    }
}

impl MessageClient {
    /// What the server said of itself, for a caller of this era.
    pub(super) fn greeting_for(&self, era: Era) -> Option<Json> {
        let greeting = self.greeting.as_ref()?;
        Some(match greeting.era() == era {
            true => greeting.raw.clone(),
            false => crossed_greeting(&greeting.raw),
        })
    }

    /// Sends a call whose caller is of the other era than the server.
    pub(super) fn send_across(
        &mut self,
        ticket: Ticket,
        call: &Call,
        era: Era,
        method: Bytes,
        body: Bytes,
    ) {
        let name = String::from_utf8_lossy(&method).into_owned();
        match (era, name.as_str()) {
            (Era::Legacy, "logging/setLevel") => {
                let level = params_of(&body).and_then(|params| edit::member(params, "level"));
                if let Some(session) = self.sessions.get_mut(&call.caller) {
                    // Each request tells it from now on.
                    session.level = Level::read("level", level).ok();
                }
                self.done(ticket, empty());
            }
            (Era::Legacy, "resources/subscribe" | "resources/unsubscribe") => {
                self.subscribe_across(ticket, call, &name, &body);
            }
            (Era::Modern, "subscriptions/listen") => self.listen_across(ticket, call, &body),
            (_, name) if !is_in_both(name) => {
                let refusal = Refusal::new(UNKNOWN_METHOD, format!("method not found: {name}"));
                self.done(ticket, Err(refused(&refusal)));
            }
            (Era::Modern, _) => self.send_to_legacy(ticket, call, method, body),
            (Era::Legacy, _) => self.send_to_modern(ticket, call, method, &body),
        }
    }

    fn send_to_legacy(&mut self, ticket: Ticket, call: &Call, method: Bytes, body: Bytes) {
        let raw = params_of(&body).unwrap_or("{}");
        let meta = Meta::in_body(&body);
        let capabilities = meta.capabilities.map(|raw| Json::part_of(&body, raw));
        let capabilities = capabilities.unwrap_or_else(|| Json::from_trusted("{}"));
        let level = meta.log_level.and_then(|raw| Level::read("", Some(raw)).ok());
        let has_token = meta.progress_token.is_some();
        let request = Asked { method: method.clone(), params: body.clone() };
        let caller = ModernCaller { request, capabilities, questions: 0 };
        if let Some(state) = edit::member(raw, "requestState") {
            return self.resume_held(ticket, call, caller, level, state);
        }
        let mut params = legacy_params(raw);
        let token = has_token.then(|| self.new_token(ticket));
        if let Some(with_token) = token.and_then(|token| with_token(&params, token)) {
            params = with_token;
        }
        let crossing = Some(Box::new(Crossing::Modern(caller)));
        let (params, purpose) = (Some(params.into()), Purpose::Pass);
        self.send(ticket, call, Request { method, params, token, level, purpose, crossing });
    }

    fn send_to_modern(&mut self, ticket: Ticket, call: &Call, method: Bytes, body: &Bytes) {
        let session = self.sessions.get(&call.caller);
        let capabilities = session.map(|session| session.capabilities.clone());
        let capabilities = capabilities.unwrap_or_else(|| self.own_capabilities());
        let client = session.map_or(&self.us, |session| &session.client);
        let revision = session.map_or(Revision::LAST_LEGACY, |session| session.revision);
        let level = session.and_then(|session| session.level);
        let who = Introduced { capabilities: &capabilities, client, level };
        let mut params = modern_params(params_of(body), who);
        let has_token = Meta::in_body(body).progress_token.is_some();
        let token = has_token.then(|| self.new_token(ticket));
        if let Some(with_token) = token.and_then(|token| with_token(&params, token)) {
            params = with_token;
        }
        let params = Bytes::from(params);
        let caller = LegacyCaller {
            method: method.clone(),
            params: params.clone(),
            revision,
            capabilities,
            rounds: 0,
        };
        let crossing = Some(Box::new(Crossing::Legacy(caller)));
        let (params, purpose) = (Some(params), Purpose::Pass);
        self.send(ticket, call, Request { method, params, token, level, purpose, crossing });
    }

    /// The server has answered a call of the other era.
    pub(super) fn answer_across(
        &mut self,
        now: Instant,
        line: &Bytes,
        ticket: Ticket,
        sent: Sent,
        crossing: Crossing,
        answer: Result<&str, &str>,
    ) {
        let outcome = match (&crossing, answer) {
            (Crossing::Modern(_), Ok(result)) => {
                let result = modern_result(crossing.method(), result, self.server_info());
                Ok(Outcome::Native(result))
            }
            (Crossing::Modern(caller), Err(error)) => {
                let url = Some(r#"{"mode":"url"}"#);
                match modern_error(error, takes(&caller.capabilities, "elicitation", url)) {
                    ModernError::Same => Err(failed(line, error)),
                    ModernError::Error(error) => Err(failed_otherwise(error)),
                    ModernError::Questions(result) => Ok(Outcome::Native(result.into())),
                }
            }
            (Crossing::Legacy(caller), Ok(result)) => {
                match edit::text(result, "resultType").as_deref() {
                    Some("input_required") => {
                        return self.begin_round(now, ticket, sent, crossing, result);
                    }
                    None | Some("complete") => {
                        let result = line.slice_ref(result.as_bytes());
                        let result = legacy_result(caller.revision, crossing.method(), result);
                        Ok(Outcome::Native(result))
                    }
                    Some(kind) => {
                        let revision = caller.revision;
                        let message = format!("results of type {kind} do not exist in {revision}");
                        Err(refused(&Refusal::new(INTERNAL_ERROR, message)))
                    }
                }
            }
            (Crossing::Legacy(_), Err(error)) => match legacy_error(crossing.method(), error) {
                Some(error) => Err(failed_otherwise(error)),
                None => Err(failed(line, error)),
            },
        };
        self.done(ticket, outcome);
    }

    /// Who the server says it is.
    pub(super) fn server_info(&self) -> &str {
        let raw = self.greeting.as_ref().map_or("{}", |greeting| greeting.raw.as_str());
        let of_meta = || edit::member(edit::member(raw, "_meta")?, SERVER_KEY);
        edit::member(raw, "serverInfo").or_else(of_meta).unwrap_or(self.us.as_str())
    }

    /// What the server can do, raw.
    pub(super) fn server_capabilities(&self) -> &str {
        let raw = self.greeting.as_ref().map_or("{}", |greeting| greeting.raw.as_str());
        edit::member(raw, "capabilities").unwrap_or("{}")
    }
}

pub(super) fn empty() -> Result<Outcome, Failure> {
    Ok(Outcome::Native(Bytes::from_static(b"{}")))
}

/// The whole error of a server, raw: the front of this wire passes it on as it is.
pub(super) fn failed(line: &Bytes, error: &str) -> Failure {
    let detail = Some(Json::part_of(line, error));
    Failure { detail, ..failure_of_error(line, error) }
}

/// Likewise, where the error is not quite the server's.
fn failed_otherwise(error: String) -> Failure {
    let error = Bytes::from(error);
    failed(&error, str::from_utf8(&error).unwrap_or("{}"))
}

/// A refusal of ours, which the front of this wire passes on as it is.
pub(super) fn refused(refusal: &Refusal) -> Failure {
    let detail = Some(Json::from_trusted(refusal.to_json()));
    let code = Some(Code::Number(refusal.code));
    let failure = Failure::new(FailureKind::Failed, refusal.message.clone());
    Failure { code, detail, from_peer: true, ..failure }
}
