//! Who answers what a peer asks while it is called: the user at the terminal, or a model.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::peer::settings::Settings;
use toolbus_engine::calls::Inbox;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolSpec};

use super::question;
use crate::args::Globals;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::schema::Parameters;

/// Who answers.
pub(crate) struct Answering {
    model: Option<Model>,
}

/// The peer that has the model, opened by the first question.
struct Model {
    peers: Peers,
    /// What answers are said to come from that do not name their model.
    name: String,
    bus: RefCell<Option<Rc<Bus>>>,
}

impl Answering {
    /// A model is asked at this address; without one only the user is.
    pub(crate) fn of(model: Option<&str>, globals: &Globals) -> Result<Answering, Failed> {
        let model = match model {
            None => None,
            Some(text) => {
                let peers = Peers::of(&[text], globals, Settings::default())?;
                let name = Address::parse(text).map_or(text.to_owned(), |at| at.peer_name());
                Some(Model { peers, name, bus: RefCell::default() })
            }
        };
        Ok(Answering { model })
    }

    /// The answer to a question: `{"result":…}` or `{"error":…}`.
    pub(crate) async fn answer(&self, question: &Json) -> Json {
        let method = edit::text(question.as_str(), "method").unwrap_or_default();
        match (&*method, &self.model) {
            ("sampling/createMessage", Some(model)) => {
                let params = edit::member(question.as_str(), "params").unwrap_or("{}");
                Json::from_trusted(match model.answer(params).await {
                    Ok(result) => format!("{{\"result\":{result}}}"),
                    Err(failure) => {
                        let told = Json::of(&format!("the model did not answer: {failure}"));
                        format!("{{\"error\":{{\"code\":-32603,\"message\":{told}}}}}")
                    }
                })
            }
            _ => question::answered(question).await,
        }
    }

    /// Says goodbye to the model.
    pub(crate) async fn close(&self) {
        let Some(model) = &self.model else { return };
        let bus = model.bus.borrow().clone();
        if let Some(bus) = bus {
            bus.shutdown().await;
            // Not before: one whose goodbye is broken off is killed.
            model.bus.take();
        }
    }
}

impl Model {
    /// The result of a request for a message.
    async fn answer(&self, params: &str) -> Result<String, Failure> {
        let bus = self.bus()?;
        let tool = self.tool(&bus).await?;
        let arguments = arguments(&tool, params);
        let (inbox, reply_to) = Inbox::new();
        let mut call = Call::tool(Instant::now(), tool.name, Some(arguments));
        call.options.typed = true;
        let running = bus.start(call, reply_to);
        let (text, model) = said(inbox.whole(running).await?);
        let (text, model) = (Json::of(&text), Json::of(model.as_ref().unwrap_or(&self.name)));
        Ok(format!(
            r#"{{"role":"assistant","content":{{"type":"text","text":{text}}},"model":{model},"stopReason":"endTurn"}}"#
        ))
    }

    fn bus(&self) -> Result<Rc<Bus>, Failure> {
        let known = self.bus.borrow().clone();
        if let Some(bus) = known {
            return Ok(bus);
        }
        let unavailable = |failed: Failed| {
            let message = failed.report.map_or(String::new(), |report| report.message);
            Failure::new(FailureKind::Unavailable, message)
        };
        let bus = Rc::new(self.peers.open().map_err(unavailable)?);
        self.bus.replace(Some(bus.clone()));
        Ok(bus)
    }

    /// The tool that asks the model: `ask`, or the only one there is.
    async fn tool(&self, bus: &Bus) -> Result<ToolSpec, Failure> {
        let mut tools = Vec::new();
        for listed in bus.list().await {
            let named = |spec: &ToolSpec| {
                let name = bus.name_of(&listed.back, &spec.name);
                ToolSpec { name, ..spec.clone() }
            };
            tools.extend(listed.tools?.iter().map(named));
        }
        let at = tools.iter().position(|tool| tool.name.as_str() == "ask");
        match (at, tools.len()) {
            (Some(at), _) => Ok(tools.swap_remove(at)),
            (None, 1) => Ok(tools.swap_remove(0)),
            (None, _) => {
                let message = format!("`{}` has no tool `ask`", self.name);
                Err(Failure::new(FailureKind::UnknownTool, message))
            }
        }
    }
}

impl Drop for Model {
    /// The command was broken off: nothing that was started for it stays.
    fn drop(&mut self) {
        if let Some(bus) = self.bus.take() {
            bus.kill();
        }
    }
}

/// What the tool is called with. One that takes `messages` gets what it lists of the request as it
/// is; any other gets the conversation as a prompt.
fn arguments(tool: &ToolSpec, params: &str) -> Json {
    let takes = |name: &str| Parameters::of(&tool.input).find(name).is_some();
    let mut members: Vec<(String, String)> = Vec::new();
    if takes("messages") {
        let listed = edit::members(params).filter(|(name, _)| takes(name));
        members.extend(listed.map(|(name, raw)| (name.into_owned(), raw.to_owned())));
    } else {
        members.push(("prompt".to_owned(), Json::of(&prompt(params)).to_string()));
        let system = edit::member(params, "systemPrompt").filter(|_| takes("instructions"));
        members.extend(system.map(|system| ("instructions".to_owned(), system.to_owned())));
    }
    let members: Vec<_> =
        members.iter().map(|(name, raw)| format!("{}:{raw}", Json::of(name))).collect();
    Json::from_trusted(format!("{{{}}}", members.join(",")))
}

/// A conversation as one text: what a single user says as it is, else each message behind its role.
fn prompt(params: &str) -> String {
    let messages = edit::elements(edit::member(params, "messages").unwrap_or("[]"));
    let said: Vec<_> = messages
        .map(|message| {
            let role = edit::text(message, "role").unwrap_or_default().into_owned();
            (role, content(edit::member(message, "content").unwrap_or("{}")))
        })
        .collect();
    match said.as_slice() {
        [(role, text)] if role == "user" => text.clone(),
        _ => {
            let said: Vec<_> = said.iter().map(|(role, text)| format!("{role}: {text}")).collect();
            said.join("\n\n")
        }
    }
}

/// The texts of a message. What is none stands there by its type.
fn content(content: &str) -> String {
    let text = |block: &str| match edit::text(block, "text") {
        Some(text) => text.into_owned(),
        None => format!("[{}]", edit::text(block, "type").unwrap_or_default()),
    };
    match content.starts_with('[') {
        true => edit::elements(content).map(text).collect::<Vec<_>>().join("\n"),
        false => text(content),
    }
}

/// The text of an answer, and the model if that is named.
fn said(outcome: Outcome) -> (String, Option<String>) {
    let value = match outcome {
        Outcome::Text(text) => return (text, None),
        Outcome::Value(value) | Outcome::End(Some(value)) => value,
        _ => return (String::new(), None),
    };
    let named = |name: &str| edit::text(value.as_str(), name).map(std::borrow::Cow::into_owned);
    (named("text").or_else(|| named("result")).unwrap_or_else(|| value.shown()), named("model"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_becomes_a_prompt() {
        let check = |params: &str, expected: &str| assert_eq!(prompt(params), expected);
        check(r#"{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}]}"#, "Hi");
        check(
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image","data":""}]},{"role":"assistant","content":{"type":"text","text":"Nice"}}]}"#,
            "user: Look\n[image]\n\nassistant: Nice",
        );
        check("{}", "");
    }

    #[test]
    fn a_tool_gets_what_it_takes() {
        let params = r#"{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":5,"systemPrompt":"Be brief"}"#;
        let check = |schema: &str, expected: &str| {
            let tool = ToolSpec::new("ask", Json::parse(schema.to_owned()).unwrap());
            assert_eq!(arguments(&tool, params).as_str(), expected, "{schema}");
        };
        check(r#"{"properties":{"prompt":{}}}"#, r#"{"prompt":"Hi"}"#);
        check(
            r#"{"properties":{"prompt":{},"instructions":{}}}"#,
            r#"{"prompt":"Hi","instructions":"Be brief"}"#,
        );
        check(
            r#"{"properties":{"messages":{},"maxTokens":{}}}"#,
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":5}"#,
        );
    }
}
