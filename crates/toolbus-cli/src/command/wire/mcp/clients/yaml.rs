//! Continue's own config, which is YAML: its servers are a list, each with its name in it.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

use crate::clients::ClientConfigError;

/// How deep a config may be nested.
const DEPTH_MAX: usize = 64;
/// How many values it may have, those that are repeated by name included.
const VALUES_MAX: usize = 100_000;

/// The config as a value, in which servers stand as in the JSON of others: an object of them.
pub(super) fn config(text: &str) -> Result<Value, ClientConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (parser, anchors) = (Parser::new_from_str(text), HashMap::new());
    let mut reader = YamlReader { parser, anchors, left: VALUES_MAX };
    let read = reader.document();
    let mut config = read.map_err(|why| ClientConfigError::Syntax { form: "YAML", why })?;
    if let Some(Value::Array(servers)) = config.get("mcpServers") {
        let servers: Map<_, _> = servers.iter().filter_map(named).collect();
        config["mcpServers"] = Value::Object(servers);
    }
    Ok(config)
}

/// A server of the list, by its name.
fn named(server: &Value) -> Option<(String, Value)> {
    let mut server = server.as_object()?.clone();
    let name = server.remove("name")?.as_str()?.to_owned();
    // Secrets are variables of ours.
    let mut server = Value::Object(server);
    with_variables(&mut server);
    Some((name, server))
}

/// `${{ secrets.KEY }}` as `${KEY}`.
fn with_variables(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some((before, behind)) = rest.split_once("${{") {
                let Some((inside, behind)) = behind.split_once("}}") else { break };
                let name = inside.trim().rsplit('.').next().unwrap_or_default();
                out.push_str(&format!("{before}${{{name}}}"));
                rest = behind;
            }
            *text = out + rest;
        }
        Value::Array(items) => items.iter_mut().for_each(with_variables),
        Value::Object(members) => members.values_mut().for_each(with_variables),
        _ => {}
    }
}

struct YamlReader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Values that may be repeated by name.
    anchors: HashMap<usize, Value>,
    left: usize,
}

impl<'a> YamlReader<'a> {
    /// The first document; nothing if there is none.
    fn document(&mut self) -> Result<Value, String> {
        loop {
            match self.next()? {
                Event::StreamEnd => return Ok(Value::Null),
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                event => return self.value(event, 0),
            }
        }
    }

    fn next(&mut self) -> Result<Event<'a>, String> {
        match self.parser.next_event() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => Err(format!("line {}: {}", error.marker().line(), error.info())),
            None => Ok(Event::StreamEnd),
        }
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, String> {
        if depth == DEPTH_MAX {
            return Err("nested too deeply".to_owned());
        }
        let (anchor, value) = match event {
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                let value = value.ok_or("refers to a value that is not there yet")?;
                self.count(count(&value))?;
                return Ok(value);
            }
            Event::Scalar(text, ScalarStyle::Plain, anchor, _) => (anchor, plain(&text)),
            Event::Scalar(text, _, anchor, _) => (anchor, Value::String(text.into_owned())),
            Event::SequenceStart(anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break (anchor, Value::Array(items)),
                        event => items.push(self.value(event, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(anchor, _) => {
                let mut members = Map::new();
                loop {
                    let name = match self.next()? {
                        Event::MappingEnd => break (anchor, Value::Object(members)),
                        Event::Scalar(name, ..) => name.into_owned(),
                        _ => return Err("a key must be a word".to_owned()),
                    };
                    let event = self.next()?;
                    members.insert(name, self.value(event, depth + 1)?);
                }
            }
            _ => return Err("a value is missing".to_owned()),
        };
        self.count(1)?;
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn count(&mut self, values: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(values).ok_or("too many values")?;
        Ok(())
    }
}

/// A word that is not quoted.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match serde_json::from_str(text) {
            Ok(Value::Number(number)) => Value::Number(number),
            _ => Value::String(text.to_owned()),
        },
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}
