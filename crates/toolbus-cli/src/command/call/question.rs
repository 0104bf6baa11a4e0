//! A question of a peer to the user, asked at the terminal: a text, and a form to fill in.

use std::io::{self, BufRead as _};
use std::thread;

use tokio::sync::oneshot;
use toolbus_proto::json::{Json, edit};

use crate::render::printable;
use crate::schema::{Parameter, Parameters};
use crate::stderr;
use crate::stdio::Terminal as _;

/// Is there a user who could answer?
pub(crate) fn can_be_answered() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The answer of the user, who reads the question on standard error and types on standard input.
pub(crate) async fn answered(question: &Json) -> Json {
    let params = edit::member(question.as_str(), "params").unwrap_or("{}").to_owned();
    let (tell, told) = oneshot::channel();
    // Reading a terminal blocks, and cannot be broken off: a signal that ends us does not wait for it.
    let asking = thread::Builder::new().name("question".to_owned());
    let _ = asking.spawn(move || tell.send(ask(&params)));
    let result = told.await.ok().flatten();
    Json::from_trusted(match result {
        Some(content) => format!(r#"{{"result":{{"action":"accept","content":{content}}}}}"#),
        None => r#"{"result":{"action":"decline"}}"#.to_owned(),
    })
}

/// The filled-in form; `None` if the user does not want to.
fn ask(params: &str) -> Option<String> {
    let message = edit::text(params, "message").unwrap_or_default();
    say(&format!("the server asks: {}\n", printable(&message)));
    let schema = edit::member(params, "requestedSchema").unwrap_or("{}");
    let schema = Json::from_trusted(schema.to_owned());
    let parameters = Parameters::of(&schema);
    if parameters.list.is_empty() {
        return type_one("answer yes or no: ").filter(|typed| is_yes(typed)).map(|_| "{}".into());
    }
    say("(Ctrl-D declines)\n");
    let mut members = Vec::new();
    for parameter in &parameters.list {
        if let Some(value) = ask_for(parameter)? {
            members.push(format!("{}:{value}", Json::of(&parameter.name)));
        }
    }
    Some(format!("{{{}}}", members.join(",")))
}

/// The value as JSON, or `Some(None)` if it is left out.
fn ask_for(parameter: &Parameter<'_>) -> Option<Option<String>> {
    let mut about = printable(&parameter.name).into_owned();
    if let Some(description) = parameter.description() {
        about += &format!(" ({})", printable(&description));
    }
    let values: Vec<_> = parameter.values().iter().map(|value| shown(value)).collect();
    let kind = match values.is_empty() {
        true => parameter.type_name(),
        false => values.join(" | "),
    };
    let default = parameter.default().map(|default| format!(" [{}]", shown(default)));
    let optional = if parameter.required || default.is_some() { "" } else { ", may be empty" };
    let prompt =
        format!("{about}, {}{optional}{}: ", printable(&kind), default.unwrap_or_default());
    loop {
        let typed = type_one(&prompt)?;
        match (typed.as_str(), parameter.default()) {
            ("", Some(default)) => return Some(Some(default.to_owned())),
            ("", None) if !parameter.required => return Some(None),
            ("", None) => {
                say("an answer is needed here\n");
                continue;
            }
            (typed, _) if values.is_empty() || values.iter().any(|value| value == typed) => {
                let value = parameter.read(typed);
                let types = parameter.types();
                let json = Json::parse(value.clone()).ok()?;
                let is_text = json.string().is_some();
                let takes_text = types.is_empty() || types.iter().any(|of| of.name() == "string");
                if !is_text || takes_text {
                    return Some(Some(value));
                }
            }
            _ => {}
        }
        say(&format!("that is no {}\n", printable(&kind)));
    }
}

fn shown(json: &str) -> String {
    Json::parse(json.to_owned()).map_or(String::new(), |json| json.shown())
}

fn is_yes(typed: &str) -> bool {
    ["y", "yes"].contains(&typed.to_lowercase().as_str())
}

/// One line of the user; `None` at the end of input.
fn type_one(prompt: &str) -> Option<String> {
    say(prompt);
    let mut typed = String::new();
    match io::stdin().lock().read_line(&mut typed) {
        Ok(1..) => Some(typed.trim().to_owned()),
        Ok(0) | Err(_) => {
            say("\n");
            None
        }
    }
}

fn say(text: &str) {
    stderr::write(text);
    stderr::flush();
}
