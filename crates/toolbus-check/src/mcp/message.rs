//! What is said to a server that is tested, and what it answers.

use std::borrow::Cow;

use bytes::Bytes;
use toolbus_proto::json::{Json, Kind, edit};
use toolbus_proto::jsonrpc::{self, Message, Rules};
use toolbus_proto::mcp::RULES;
use toolbus_proto::mcp::wire::{CAPABILITIES_KEY, CLIENT_KEY, Era, Revision, VERSION_KEY};

/// A tool and a method that no server has.
pub(super) const NOBODYS: &str = "toolbus_check";

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Question<'a> {
    pub(super) era: Era,
    /// The version it is asked in, which need not exist.
    pub(super) version: &'a str,
    /// As it stands in the message.
    pub(super) id: &'a str,
    pub(super) method: &'a str,
    /// Of its parameters, without the braces.
    pub(super) members: String,
}

impl<'a> Question<'a> {
    /// Of a server that was greeted.
    pub(super) fn new(era: Era, id: &'a str, method: &'a str, members: impl Into<String>) -> Self {
        let version = match era {
            Era::Legacy => Revision::LAST_LEGACY,
            Era::Modern => Revision::MODERN,
        };
        Question { era, version: version.as_str(), id, method, members: members.into() }
    }

    /// The first of a conversation.
    pub(super) fn greeting(era: Era, version: &'a str) -> Question<'a> {
        let (method, members) = match era {
            Era::Legacy => (
                "initialize",
                format!(
                    r#""protocolVersion":"{version}","capabilities":{{}},"clientInfo":{}"#,
                    ourselves()
                ),
            ),
            Era::Modern => ("server/discover", String::new()),
        };
        Question { version, ..Question::new(era, "1", method, members) }
    }

    /// A call of a tool that does not exist.
    pub(super) fn unknown_tool(era: Era) -> Question<'a> {
        let members = format!(r#""name":"{NOBODYS}","arguments":{{}}"#);
        Question::new(era, "2", "tools/call", members)
    }

    pub(super) fn to_text(&self) -> String {
        let Question { id, method, .. } = self;
        let params = self.params();
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }

    fn params(&self) -> String {
        let Question { version, members, .. } = self;
        let between = if members.is_empty() { "" } else { "," };
        match self.era {
            Era::Legacy => format!("{{{members}}}"),
            Era::Modern => format!(
                r#"{{{members}{between}"_meta":{{"{VERSION_KEY}":"{version}","{CLIENT_KEY}":{},"{CAPABILITIES_KEY}":{{}}}}}}"#,
                ourselves()
            ),
        }
    }
}

/// A notification without parameters.
pub(super) fn notification(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

fn ourselves() -> String {
    format!(r#"{{"name":"toolbus check","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// As it stands in the message.
    pub(super) id: String,
    pub(super) outcome: Result<Json, Refusal>,
}

/// An answer that is an error.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) code: Option<i64>,
    pub(super) message: String,
}

/// What one message of a server is.
pub(super) enum Heard {
    Reply(Reply),
    /// A request or a notification.
    Another,
    /// No message at all.
    Noise,
}

impl Heard {
    pub(super) fn read(message: &Bytes) -> Heard {
        const WITH_NULL: Rules = Rules { null_id: true, ..RULES };
        let is_there = |raw: &&str| jsonrpc::kind(raw) != Kind::Null;
        match WITH_NULL.read(message) {
            Ok(Message::Response { id, result, error }) => {
                let outcome = match (result.filter(is_there), error.filter(is_there)) {
                    (_, Some(error)) => Err(Refusal::read(error)),
                    (Some(result), None) => Ok(Json::part_of(message, result)),
                    (None, None) => return Heard::Noise,
                };
                Heard::Reply(Reply { id: id.to_json().to_string(), outcome })
            }
            Ok(_) => Heard::Another,
            Err(_) => Heard::Noise,
        }
    }
}

impl Refusal {
    fn read(error: &str) -> Refusal {
        let code = edit::member(error, "code").and_then(|code| code.parse().ok());
        let message = edit::text(error, "message").map(Cow::into_owned);
        Refusal { code, message: message.unwrap_or_else(|| error.to_owned()) }
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        match self.code {
            Some(code) => format!("error {code}: {}", self.message),
            None => format!("an error without a code: {}", self.message),
        }
    }
}
