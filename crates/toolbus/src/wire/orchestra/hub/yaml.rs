//! YAML as a tree in which every value knows its line.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

/// How deep a document may be nested.
const DEPTH_MAX: usize = 64;
/// How many values a document may have, those that are repeated by name included.
const NODES_MAX: usize = 100_000;

/// A value, and the line on which it begins, counted from one.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

impl Node {
    /// The line of this key, or where there is none its own.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let Value::Map(members) = &self.value else { return self.line };
        let found = members.iter().find(|(found, _)| found.name == key);
        found.map_or(self.line, |(found, _)| found.line)
    }
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Nothing: `~`, `null`, or nothing at all.
    Null,
    /// A word; a quoted one is text and nothing else.
    Scalar {
        text: String,
        is_quoted: bool,
    },
    List(Vec<Node>),
    /// In the order of the file.
    Map(Vec<(Key, Node)>),
}

/// The name of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) line: usize,
    pub(super) name: String,
}

/// What is wrong, and on which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) why: String,
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> YamlError {
        YamlError { line: error.marker().line(), why: format!("not YAML: {}", error.info()) }
    }
}

/// The first document of a text; nothing if there is none.
pub(super) fn read(text: &str) -> Result<Node, YamlError> {
    // A byte order mark is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader =
        Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), left: NODES_MAX };
    loop {
        match reader.next()? {
            (Event::StreamEnd, span) => {
                return Ok(Node { line: span.start.line().max(1), value: Value::Null });
            }
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            (event, span) => return reader.node(event, span, 0),
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// Values that may be repeated by name.
    anchors: HashMap<usize, Node>,
    left: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.parser.next_event() {
            Some(event) => Ok(event?),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, YamlError> {
        let line = span.start.line();
        if depth == DEPTH_MAX {
            return Err(YamlError { line, why: "nested too deeply".to_owned() });
        }
        let (anchor, value) = match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| YamlError {
                    line,
                    why: "refers to a value that is not there yet".to_owned(),
                })?;
                self.count(line, count(&node))?;
                return Ok(Node { line, ..node });
            }
            Event::Scalar(text, style, anchor, _) => {
                let is_quoted = style != ScalarStyle::Plain;
                let value = match &*text {
                    "" | "~" | "null" | "Null" | "NULL" if !is_quoted => Value::Null,
                    _ => Value::Scalar { text: text.into_owned(), is_quoted },
                };
                (anchor, value)
            }
            Event::SequenceStart(anchor, _) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => list.push(self.node(event, span, depth + 1)?),
                    }
                }
                (anchor, Value::List(list))
            }
            Event::MappingStart(anchor, _) => (anchor, Value::Map(self.map(depth)?)),
            _ => return Err(YamlError { line, why: "a value is missing".to_owned() }),
        };
        self.count(line, 1)?;
        let node = Node { line, value };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Key, Node)>, YamlError> {
        let mut members: Vec<(Key, Node)> = Vec::new();
        // What `<<` brings in; what is said here goes before it.
        let mut merged = Vec::new();
        loop {
            let (event, span) = match self.next()? {
                (Event::MappingEnd, _) => break,
                next => next,
            };
            let line = span.start.line();
            let name = match self.node(event, span, depth + 1)?.value {
                Value::Scalar { text, .. } => text,
                Value::Null => "null".to_owned(),
                _ => return Err(YamlError { line, why: "a key must be a word".to_owned() }),
            };
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            match node.value {
                Value::Map(members) if name == "<<" => merged.extend(members),
                _ if members.iter().any(|(key, _)| key.name == name) => {
                    return Err(YamlError {
                        line,
                        why: format!("the key `{name}` is there twice"),
                    });
                }
                _ => members.push((Key { line, name }, node)),
            }
        }
        for (key, node) in merged {
            if !members.iter().any(|(known, _)| known.name == key.name) {
                members.push((key, node));
            }
        }
        Ok(members)
    }

    fn count(&mut self, line: usize, nodes: usize) -> Result<(), YamlError> {
        let too_many = || YamlError { line, why: "too many values".to_owned() };
        self.left = self.left.checked_sub(nodes).ok_or_else(too_many)?;
        Ok(())
    }
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::Null | Value::Scalar { .. } => 0,
        Value::List(list) => list.iter().map(count).sum(),
        Value::Map(members) => members.iter().map(|(_, node)| count(node)).sum(),
    }
}
