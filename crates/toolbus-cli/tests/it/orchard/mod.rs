//! Orchard at the command line, from both sides.

mod calls;
mod check;
mod decode;
mod examples;
mod provider;
mod running;
mod scenarios;

use toolbus_testkit::peer::command_line;

const SCHEMA: &str = r#"{"name":"echo","version":"0.1.0","protocol":"1","config":{"key":{"type":"string","default":"none"}},"actions":{"echo":{"description":"Gives its text back","attrs":{"text":{"type":"string","required":true},"times":{"type":"number","default":1}},"outputs":{"type":"object({text=string})"}},"noop":{}}}"#;
/// What a provider says to `describe`.
const DESCRIBE: [&str; 3] = ["read", "say", r#"{"id":$ID,"result":{"schema":SCHEMA}}"#];
/// What it says to `configure` and `shutdown`, or to an action without outputs.
const EMPTY: [&str; 3] = ["read", "say", r#"{"id":$ID,"result":{}}"#];

/// The command of a provider that does these steps.
fn command(parts: &[&[&str]]) -> String {
    let steps: Vec<String> =
        parts.concat().iter().map(|step| step.replace("SCHEMA", SCHEMA)).collect();
    command_line(&steps.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The address of such a provider.
fn provider(parts: &[&[&str]]) -> String {
    format!("orchard+stdio:{}", command(parts))
}

/// The address of one that answers the first call so.
fn answering(steps: &[&str]) -> String {
    provider(&[&DESCRIBE, &EMPTY, &["read"], steps, &EMPTY])
}
