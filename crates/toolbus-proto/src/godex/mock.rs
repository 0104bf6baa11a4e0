//! A server without a network: the events that it would send, by mode.

use super::request::Request;
use super::turn::quoted;
use super::usage::Usage;
use crate::json::{Json, Kind, edit};
use crate::jsonrpc::{kind, string};

/// How long a piece of an echo is at most.
const PIECE_BYTES_MAX: usize = 800;

/// What the mock does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Gives the request back as text.
    Echo,
    /// Says something.
    Text,
    /// Calls a tool that there is not.
    ToolCall,
    /// Calls a tool, and tells what came of it.
    ToolLoop,
}

impl Mode {
    /// The mode of that name, in any case and with blanks around it; blank is `echo`.
    pub fn named(name: &str) -> Option<Mode> {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "echo" => Some(Mode::Echo),
            "text" => Some(Mode::Text),
            "tool-call" => Some(Mode::ToolCall),
            "tool-loop" => Some(Mode::ToolLoop),
            _ => None,
        }
    }
}

/// The data of each event that answers `request`. `output` is what the tool said that was called
/// in the turn before.
pub(super) fn events(mode: Mode, request: &Request, output: Option<&str>) -> Vec<String> {
    let mut mock = Mock { events: vec![created()], output_words: 0 };
    match (mode, request.first_of_bus(), output) {
        (Mode::Echo, ..) => {
            let body = request.body();
            let body = String::from_utf8_lossy(&body);
            mock.output_words = words(&body);
            pieces(&body).for_each(|piece| mock.delta(piece));
        }
        (Mode::Text, ..) => mock.text("mock response text"),
        (Mode::ToolCall, ..) => mock.call("mock_tool", r#"{"value":42}"#),
        (Mode::ToolLoop, None, _) => {
            mock.call("mock_tool", r#"{"value":42}"#);
            mock.text("mock tool result: ok");
        }
        (Mode::ToolLoop, Some(function), None) => {
            mock.call(&function.name, &arguments(&function.parameters));
        }
        (Mode::ToolLoop, Some(_), Some(output)) => {
            mock.text(&format!("mock tool result: {output}"));
        }
    }
    let usage = Usage::counted(input_words(request), mock.output_words).to_json();
    mock.events.push(format!(
        r#"{{"type":"response.completed","response":{{"id":"mock-response","object":"response","status":"completed","usage":{usage}}}}}"#
    ));
    mock.events
}

struct Mock {
    events: Vec<String>,
    output_words: u64,
}

fn created() -> String {
    let response = r#"{"id":"mock-response","object":"response","status":"in_progress"}"#;
    format!(r#"{{"type":"response.created","response":{response}}}"#)
}

impl Mock {
    fn delta(&mut self, text: &str) {
        let delta = quoted(text);
        self.events.push(format!(r#"{{"type":"response.output_text.delta","delta":{delta}}}"#));
    }

    fn text(&mut self, text: &str) {
        self.output_words += words(text);
        self.delta(text);
    }

    fn call(&mut self, name: &str, arguments: &str) {
        self.output_words += words(arguments);
        let (name, arguments) = (quoted(name), quoted(arguments));
        let item =
            format!(r#""id":"fc_mock","type":"function_call","call_id":"call_mock","name":{name}"#);
        self.events.extend([
            format!(r#"{{"type":"response.output_item.added","item":{{{item}}}}}"#),
            format!(
                r#"{{"type":"response.function_call_arguments.delta","item_id":"fc_mock","delta":{arguments}}}"#
            ),
            format!(
                r#"{{"type":"response.output_item.done","item":{{{item},"arguments":{arguments}}}}}"#
            ),
        ]);
    }
}

/// As long as possible, cut between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES_MAX));
        rest = behind;
        Some(piece).filter(|piece| !piece.is_empty())
    })
}

/// The least that a schema takes: its required properties, each as empty as it may be.
fn arguments(schema: &Json) -> String {
    let [required, properties] = edit::pick(schema.as_str(), ["required", "properties"]);
    let names: Vec<_> = required
        .into_iter()
        .flat_map(edit::elements)
        .filter_map(|name| Some((name, string(name)?)))
        .collect();
    if names.is_empty() {
        return r#"{"value":42}"#.to_owned();
    }
    let member = |(raw, name): &(&str, std::borrow::Cow<'_, str>)| {
        let property = properties.and_then(|properties| edit::member(properties, name));
        format!("{raw}:{}", least(property.unwrap_or("true")))
    };
    format!("{{{}}}", names.iter().map(member).collect::<Vec<_>>().join(","))
}

fn least(schema: &str) -> String {
    let [constant, several, types] = edit::pick(schema, ["const", "enum", "type"]);
    if let Some(value) = constant.or(several.and_then(|several| edit::elements(several).next())) {
        return crate::json::compact(value).into_owned();
    }
    let name = match types {
        Some(types) if kind(types) == Kind::Array => edit::elements(types).next().and_then(string),
        types => types.and_then(string),
    };
    let least = match name.as_deref() {
        Some("string") => "\"\"",
        Some("number" | "integer") => "0",
        Some("boolean") => "false",
        Some("array") => "[]",
        Some("object") => "{}",
        _ => "null",
    };
    least.to_owned()
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn input_words(request: &Request) -> u64 {
    let of = |raw: Option<&str>| raw.and_then(string).map_or(0, |text| words(&text));
    let item = |item: &Json| {
        let [content, output] = edit::pick(item.as_str(), ["content", "output"]);
        let parts = content.into_iter().flat_map(edit::elements);
        let parts: u64 = parts.map(|part| of(edit::member(part, "text"))).sum();
        of(content) + parts + of(output)
    };
    words(&request.instructions) + request.input.iter().map(item).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_a_schema_takes() {
        let least = |text: &str| arguments(&Json::parse(text.to_owned()).unwrap());
        assert_eq!(least("{}"), r#"{"value":42}"#);
        assert_eq!(
            least(
                r#"{"properties":{"a":{"const": [1, 2]},"b":{"enum":["x"]},"c":{"type":["integer","null"]},"d":{}},"required":["c","b","a","d","e"]}"#
            ),
            r#"{"c":0,"b":"x","a":[1,2],"d":null,"e":null}"#
        );
    }
}
