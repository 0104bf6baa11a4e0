//! A question of a peer to the user, asked at the terminal: a text, and a form to fill in.

use std::io::{self, BufRead as _};
use std::thread;

use tokio::sync::oneshot;
use toolbus_proto::json::{Json, edit};

use super::form::{self, Field};
use crate::render::printable;
use crate::schema::Parameters;
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
    let mut asking = Asking { is_over: false };
    // Reading a terminal blocks, and cannot be broken off: a signal that ends us does not wait for it.
    let thread = thread::Builder::new().name("question".to_owned());
    let _ = thread.spawn(move || tell.send(ask(&params)));
    let result = told.await.ok().flatten();
    asking.is_over = true;
    Json::from_trusted(match result {
        Some(content) => format!(r#"{{"result":{{"action":"accept","content":{content}}}}}"#),
        None => r#"{"result":{"action":"decline"}}"#.to_owned(),
    })
}

/// The user is being asked. If that is broken off, the cursor stands behind a prompt.
struct Asking {
    is_over: bool,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.is_over {
            say("\n");
        }
    }
}

/// The filled-in form; `None` if the user does not want to.
fn ask(params: &str) -> Option<String> {
    let message = edit::text(params, "message").unwrap_or_default();
    say(&format!("the server asks: {}\n", printable(&message)));
    let schema = edit::member(params, "requestedSchema").unwrap_or("{}");
    let schema = Json::from_trusted(schema.to_owned());
    let parameters = Parameters::of(&schema);
    if parameters.list.is_empty() {
        return is_agreed()?.then(|| "{}".to_owned());
    }
    say("(Ctrl-D declines)\n");
    let mut members = Vec::new();
    for parameter in &parameters.list {
        if let Some(value) = ask_for(&Field::of(parameter))? {
            members.push(format!("{}:{value}", Json::of(&parameter.name)));
        }
    }
    Some(format!("{{{}}}", members.join(",")))
}

/// Does the user agree, where there is nothing else to say?
fn is_agreed() -> Option<bool> {
    loop {
        match form::yes_or_no(&type_one("answer yes or no: ")?) {
            Some(yes) => return Some(yes),
            None => say("that must be yes or no\n"),
        }
    }
}

/// The value as JSON, or `Some(None)` if it is left out.
fn ask_for(field: &Field<'_>) -> Option<Option<String>> {
    let prompt = field.prompt();
    loop {
        match field.read(&type_one(&prompt)?) {
            Ok(value) => return Some(value),
            Err(wanted) => say(&format!("{wanted}\n")),
        }
    }
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
