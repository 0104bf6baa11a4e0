//! The Orchard room from outside: golden conversations, vectors, and what chance makes of them.

mod calling;
mod faults;
mod pair;
mod serving;
mod vectors;

use toolbus_proto::json::Json;
use toolbus_proto::orchard::translate::{Provider, Served};
use toolbus_proto::tool::ToolSpec;

/// What `@S1` stands for in the conversations.
const S1: &str = r#"{"name":"echo","version":"0.1.0","protocol":"1","config":{"greeting":{"type":"string","required":false,"default":"hi","description":"word put first"}},"actions":{"echo":{"description":"gives its text back","attrs":{"text":{"type":"string","required":true},"times":{"type":"number","required":false,"default":1}},"outputs":{"type":"object({text=string,times=number})"}},"noop":{"description":"does nothing","attrs":{}}}}"#;

/// A text with `@S1`, and `@S1{…}` with its changes, written out.
fn expanded(text: &str) -> String {
    let Some((before, behind)) = text.split_once("@S1") else {
        return text.to_owned();
    };
    let (changes, rest) = match behind.strip_prefix('{') {
        Some(changes) => changes.split_once('}').expect("changes end at the first brace"),
        None => ("", behind),
    };
    let mut schema: serde_json::Value = serde_json::from_str(S1).unwrap();
    for change in changes.split(',').filter(|change| !change.is_empty()) {
        let (name, value) = change.trim_start_matches('+').split_once(':').unwrap();
        schema[name.trim_matches('"')] = serde_json::from_str(value).unwrap();
    }
    format!("{before}{schema}{}", expanded(rest))
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

/// Some of the tools that `builtin:` has, as one provider.
fn builtin() -> Provider {
    let object = |properties: &str, required: &str| {
        format!(r#"{{"type":"object","properties":{{{properties}}},"required":[{required}]}}"#)
    };
    let text = r#""text":{"type":"string"}"#;
    let numbers = r#""a":{"type":"number"},"b":{"type":"number"}"#;
    let millis = r#""ms":{"type":"number","minimum":0}"#;
    let message = r#""message":{"type":"string"},"code":{}"#;
    let tools = [
        ("echo", "true".to_owned(), None),
        ("upper", object(text, r#""text""#), Some(r#"{"type":"string"}"#)),
        ("add", object(numbers, r#""a","b""#), Some(r#"{"type":"number"}"#)),
        ("sleep", object(millis, r#""ms""#), None),
        ("fail", object(message, r#""message""#), None),
    ];
    let mut provider = Provider::new("toolbus", "VERSION");
    for (name, input, output) in tools {
        let spec = ToolSpec { output: output.map(json), ..ToolSpec::new(name, json(&input)) };
        provider.offer(name, Served::new(&spec)).unwrap();
    }
    provider
}
