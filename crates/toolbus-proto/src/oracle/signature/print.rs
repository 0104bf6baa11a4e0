//! Types and functions as canonical text.

use std::collections::HashSet;

use super::{Function, Members, Type, TypeId, Types, tokens};
use crate::json::Json;

pub(super) fn canonical(function: &Function) -> String {
    let mut out = Printer { types: &function.types, text: String::new() };
    let definitions = definitions(function);
    for id in &definitions {
        out.definition(*id);
        out.text.push(' ');
    }
    if !definitions.is_empty() {
        out.text.push_str("fn ");
    }
    out.name(&function.name, tokens::is_function_name);
    out.text.push('(');
    out.fields(&function.params);
    out.text.push(')');
    if !out.types.is_unit(function.result) {
        out.text.push_str(" -> ");
        out.ty(function.result);
    }
    out.text
}

impl Types {
    /// The type as it stands in a signature.
    pub(crate) fn name(&self, id: TypeId) -> String {
        let mut out = Printer { types: self, text: String::new() };
        out.ty(id);
        out.text
    }
}

/// The structs and enums that a function uses, in order of first use.
fn definitions(function: &Function) -> Vec<TypeId> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    // Arrays may refer to definitions in chains of any length: too long for recursion.
    let mut ahead = vec![function.result];
    ahead.extend(function.params.iter().rev().map(|(_, param)| *param));
    while let Some(id) = ahead.pop() {
        match &function.types[id] {
            Type::Option(inner) | Type::Fixed(inner, _) => ahead.push(*inner),
            Type::Array(inner) | Type::Span(inner) => ahead.push(*inner),
            Type::Result(ok, err) => ahead.extend([*err, *ok]),
            Type::Tuple(members) => ahead.extend(members.iter().rev()),
            Type::Struct(_, fields) if seen.insert(id) => {
                found.push(id);
                ahead.extend(fields.iter().rev().map(|(_, field)| *field));
            }
            Type::Enum(_, variants) if seen.insert(id) => {
                found.push(id);
                ahead.extend(variants.iter().rev().filter_map(|(_, payload)| *payload));
            }
            _ => {}
        }
    }
    found
}

struct Printer<'a> {
    types: &'a Types,
    text: String,
}

impl Printer<'_> {
    fn definition(&mut self, id: TypeId) {
        match &self.types[id] {
            Type::Struct(name, fields) => {
                self.text.push_str("struct ");
                self.text.push_str(name);
                self.text.push_str(if fields.len() == 0 { " {" } else { " { " });
                self.fields(fields);
                self.text.push_str(" }");
            }
            Type::Enum(name, variants) => {
                self.text.push_str("enum ");
                self.text.push_str(name);
                self.text.push_str(" { ");
                self.list(variants.iter(), |out, (name, payload)| {
                    out.text.push_str(name);
                    if let Some(payload) = payload {
                        out.text.push_str(": ");
                        out.ty(*payload);
                    }
                });
                self.text.push_str(" }");
            }
            _ => unreachable!("only structs and enums are defined"),
        }
    }

    fn fields(&mut self, fields: &Members<TypeId>) {
        self.list(fields.iter(), |out, (name, field)| {
            out.name(name, tokens::is_identifier);
            out.text.push_str(": ");
            out.ty(*field);
        });
    }

    fn ty(&mut self, id: TypeId) {
        match &self.types[id] {
            Type::Felt252 => self.text.push_str("felt252"),
            Type::Bool => self.text.push_str("bool"),
            Type::Integer(integer) => self.text.push_str(integer.name),
            Type::ByteArray => self.text.push_str("ByteArray"),
            Type::ShortString => self.text.push_str("shortstring"),
            Type::Bytes31 => self.text.push_str("bytes31"),
            Type::Json => self.text.push_str("json"),
            Type::Option(inner) => self.generic("Option", &[*inner]),
            Type::Result(ok, err) => self.generic("Result", &[*ok, *err]),
            Type::Array(inner) => self.generic("Array", &[*inner]),
            Type::Span(inner) => self.generic("Span", &[*inner]),
            Type::Fixed(inner, count) => {
                self.text.push('[');
                self.ty(*inner);
                self.text.push_str(&format!("; {count}]"));
            }
            Type::Tuple(members) => {
                self.text.push('(');
                self.list(members.iter(), |out, member| out.ty(*member));
                self.text.push_str(if members.len() == 1 { ",)" } else { ")" });
            }
            Type::Struct(name, _) | Type::Enum(name, _) => self.text.push_str(name),
        }
    }

    fn generic(&mut self, word: &str, inner: &[TypeId]) {
        self.text.push_str(word);
        self.text.push('<');
        self.list(inner.iter(), |out, inner| out.ty(*inner));
        self.text.push('>');
    }

    fn name(&mut self, name: &str, is_plain: fn(&str) -> bool) {
        if is_plain(name) {
            self.text.push_str(name);
        } else {
            self.text.push_str(Json::of(name).as_str());
        }
    }

    fn list<T>(&mut self, items: impl Iterator<Item = T>, print: impl Fn(&mut Self, T)) {
        for (place, item) in items.enumerate() {
            if place != 0 {
                self.text.push_str(", ");
            }
            print(self, item);
        }
    }
}
