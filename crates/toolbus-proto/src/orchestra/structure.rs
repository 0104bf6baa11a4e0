//! `google.protobuf.Struct`: a JSON object as Protobuf writes it, and the way there and back
//! (`docs/protocols/orchestra.md` 4).
//!
//! A [`Struct`] keeps the bytes it came in, checked, so that what passes through loses nothing;
//! they are looked into when JSON is wanted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use thiserror::Error;

use super::protobuf::Malformed;
use super::protobuf::message::{Message, print_list};
use super::protobuf::read::{Field, Reader};
use super::protobuf::write::{
    bytes_len, put_bytes, put_bytes_header, put_double, put_number, tag_len,
};
use crate::json::{DEPTH_MAX, Json, JsonError, Scanner, write_string};

/// A JSON object in its Protobuf form, known to be well-formed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Struct(Bytes);

impl Struct {
    /// The object `json`.
    pub fn of_json(json: &str) -> Result<Struct, NotAStruct> {
        let node = Node::scan(&mut Scanner::new(json)).map_err(NotAStruct::Json)?;
        let Node::Struct(mut fields) = node else { return Err(NotAStruct::NotAnObject) };
        let mut out = Vec::with_capacity(fields.measure());
        fields.write(&mut out);
        Ok(Struct(out.into()))
    }

    /// The object as JSON: compact, keys in order, numbers by [`write_number`].
    pub fn to_json(&self) -> Json {
        let mut out = Vec::with_capacity(self.0.len());
        self.print(&mut out);
        Json::from_trusted(out)
    }

    /// The member `name`, if it is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.fields().0.remove(name) {
            Some(Node::String(text)) => Some(text.into_owned()),
            _ => None,
        }
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        self.fields().0.len()
    }

    /// Has it no member?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn fields(&self) -> Fields<'_> {
        let mut fields = Fields::default();
        fields.merge(&self.0, 1).expect("checked when it was read");
        fields
    }
}

impl Message for Struct {
    fn take(&mut self, _whole: &Bytes, _field: &Field<'_>) -> Result<(), Malformed> {
        Ok(())
    }

    /// Messages are merged by putting one behind the other: that is how Protobuf is made.
    fn merge(&mut self, whole: &Bytes, part: &[u8]) -> Result<(), Malformed> {
        Fields::default().merge(part, 1)?;
        self.0 = match self.0.is_empty() {
            true => whole.slice_ref(part),
            false => [&self.0, part].concat().into(),
        };
        Ok(())
    }

    fn size(&self) -> usize {
        self.0.len()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn print(&self, out: &mut Vec<u8>) {
        self.fields().print(out);
    }
}

/// Why a JSON value cannot be a `Struct`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotAStruct {
    /// It is something else than an object.
    #[error("must be an object")]
    NotAnObject,
    /// It has a string that stands for no text, such as half of a surrogate pair.
    #[error("cannot be read: {0}")]
    Json(JsonError),
}

/// The members of an object, by key; a later one of the same key takes the place of the first.
#[derive(Debug, Default)]
struct Fields<'a>(BTreeMap<Cow<'a, str>, Node<'a>>, usize);

/// One value. A list and an object know, once measured, how many bytes they take.
#[derive(Debug, Default)]
enum Node<'a> {
    #[default]
    Null,
    Number(f64),
    String(Cow<'a, str>),
    Bool(bool),
    Struct(Fields<'a>),
    List(Vec<Node<'a>>, usize),
}

impl<'a> Fields<'a> {
    /// Reads fields behind those that are known. `depth` counts the containers, this one
    /// included.
    fn merge(&mut self, bytes: &'a [u8], depth: usize) -> Result<(), Malformed> {
        if DEPTH_MAX < depth {
            return Err(Malformed::TooDeep);
        }
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            if field.number != 1 {
                continue;
            }
            let (mut key, mut value) = ("", Node::Null);
            let mut entry = Reader::new(field.bytes()?);
            while let Some(field) = entry.field()? {
                match field.number {
                    1 => key = field.text()?,
                    2 => value.merge(field.bytes()?, depth)?,
                    _ => {}
                }
            }
            self.0.insert(key.into(), value);
        }
        Ok(())
    }

    fn measure(&mut self) -> usize {
        let entry = |(key, node): (&Cow<'a, str>, &mut Node<'a>)| {
            bytes_len(1, bytes_len(1, key.len()) + bytes_len(2, node.measure()))
        };
        self.1 = self.0.iter_mut().map(entry).sum();
        self.1
    }

    fn write(&self, out: &mut Vec<u8>) {
        for (key, node) in &self.0 {
            put_bytes_header(out, 1, bytes_len(1, key.len()) + bytes_len(2, node.len()));
            put_bytes(out, 1, key.as_bytes());
            put_bytes_header(out, 2, node.len());
            node.write(out);
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        print_list(out, b'{', b'}', &self.0, |out, (key, node)| {
            write_string(out, key);
            out.push(b':');
            node.print(out);
        });
    }
}

impl<'a> Node<'a> {
    /// Reads what `bytes` say behind what is known: another kind of value takes its place.
    fn merge(&mut self, bytes: &'a [u8], depth: usize) -> Result<(), Malformed> {
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field.number {
                1 => {
                    field.varint()?;
                    *self = Node::Null;
                }
                2 => *self = Node::Number(field.double()?),
                3 => *self = Node::String(field.text()?.into()),
                4 => *self = Node::Bool(field.varint()? != 0),
                5 => {
                    if !matches!(self, Node::Struct(_)) {
                        *self = Node::Struct(Fields::default());
                    }
                    let Node::Struct(fields) = self else { continue };
                    fields.merge(field.bytes()?, depth + 1)?;
                }
                6 => {
                    if !matches!(self, Node::List(..)) {
                        *self = Node::List(Vec::new(), 0);
                    }
                    let Node::List(nodes, _) = self else { continue };
                    merge_list(nodes, field.bytes()?, depth + 1)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads JSON, whose depth the scanner bounds.
    fn scan(scanner: &mut Scanner<'a>) -> Result<Node<'a>, JsonError> {
        match scanner.next_byte() {
            Some(b'{') => {
                scanner.enter_object();
                let mut fields = Fields::default();
                let mut is_first = true;
                while scanner.more(std::mem::take(&mut is_first), b'}')? {
                    let key = scanner.name()?;
                    fields.0.insert(key, Node::scan(scanner)?);
                }
                Ok(Node::Struct(fields))
            }
            Some(b'[') => {
                scanner.enter_array();
                let mut nodes = Vec::new();
                while scanner.more(nodes.is_empty(), b']')? {
                    nodes.push(Node::scan(scanner)?);
                }
                Ok(Node::List(nodes, 0))
            }
            Some(b'"') => Ok(Node::String(scanner.string()?)),
            _ => Ok(match scanner.value()? {
                "null" => Node::Null,
                "true" => Node::Bool(true),
                "false" => Node::Bool(false),
                number => Node::Number(read_number(number)),
            }),
        }
    }

    fn measure(&mut self) -> usize {
        match self {
            Node::Struct(fields) => {
                fields.measure();
            }
            Node::List(nodes, len) => {
                *len = nodes.iter_mut().map(|node| bytes_len(1, node.measure())).sum();
            }
            _ => {}
        }
        self.len()
    }

    /// How many bytes it takes. Only right once it has been measured.
    fn len(&self) -> usize {
        match self {
            Node::Null => tag_len(1) + 1,
            Node::Number(_) => tag_len(2) + 8,
            Node::String(text) => bytes_len(3, text.len()),
            Node::Bool(_) => tag_len(4) + 1,
            Node::Struct(fields) => bytes_len(5, fields.1),
            Node::List(_, len) => bytes_len(6, *len),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Node::Null => put_number(out, 1, 0),
            Node::Number(number) => put_double(out, 2, *number),
            Node::String(text) => put_bytes(out, 3, text.as_bytes()),
            Node::Bool(bool) => put_number(out, 4, u64::from(*bool)),
            Node::Struct(fields) => {
                put_bytes_header(out, 5, fields.1);
                fields.write(out);
            }
            Node::List(nodes, len) => {
                put_bytes_header(out, 6, *len);
                for node in nodes {
                    put_bytes_header(out, 1, node.len());
                    node.write(out);
                }
            }
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        match self {
            Node::Null => out.extend_from_slice(b"null"),
            Node::Number(number) => write_number(out, *number),
            Node::String(text) => write_string(out, text),
            Node::Bool(bool) => out.extend_from_slice(bool.to_string().as_bytes()),
            Node::Struct(fields) => fields.print(out),
            Node::List(nodes, _) => {
                print_list(out, b'[', b']', nodes, |out, node| node.print(out));
            }
        }
    }
}

fn merge_list<'a>(
    nodes: &mut Vec<Node<'a>>,
    bytes: &'a [u8],
    depth: usize,
) -> Result<(), Malformed> {
    if DEPTH_MAX < depth {
        return Err(Malformed::TooDeep);
    }
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        if field.number == 1 {
            let mut node = Node::Null;
            node.merge(field.bytes()?, depth)?;
            nodes.push(node);
        }
    }
    Ok(())
}

/// All numbers are doubles here. One beyond them becomes the largest there is: infinity would
/// come back as `null`.
fn read_number(text: &str) -> f64 {
    let number: f64 = text.parse().unwrap_or_default();
    number.clamp(f64::MIN, f64::MAX)
}

/// Writes a double as JSON: whole and below 1e21 without fraction and exponent, others in the
/// shortest form that reads back equal; what JSON has no number for is `null`.
pub fn write_number(out: &mut Vec<u8>, number: f64) {
    let size = number.abs();
    let text = match size {
        _ if !number.is_finite() => "null".to_owned(),
        _ if number == number.trunc() && size < 1e21 => format!("{number}"),
        _ if (1e-6..1e21).contains(&size) => format!("{number}"),
        _ => format!("{number:e}"),
    };
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests;
