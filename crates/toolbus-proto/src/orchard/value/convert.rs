//! Values brought to a type, by the rules of HCL: one look at the text, one run of output.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::{Misfit, Mismatch, Step, name, next_kind, path_step, shown, unfit};
use crate::json::{Kind, Scanner, write_string};
use crate::jsonrpc::{kind, string};
use crate::orchard::number::{self, Decimal};
use crate::orchard::types::{Field, Presence, Type};

/// Writes the value behind what is in `out`; gives the paths of the members it dropped.
pub(super) fn write(ty: &Type, value: &str, out: &mut Vec<u8>) -> Result<Vec<String>, Mismatch> {
    let mut converter = Converter { out, dropped: Vec::new(), path: Vec::new() };
    match kind(value) {
        Kind::Array | Kind::Object => converter.value(ty, &mut Scanner::new(value))?,
        // Where it ends is known.
        scalar => converter.scalar(ty, scalar, value)?,
    }
    Ok(converter.dropped)
}

struct Converter<'a, 'o> {
    out: &'o mut Vec<u8>,
    dropped: Vec<String>,
    path: Vec<Step<'a>>,
}

impl<'a> Converter<'a, '_> {
    fn value(&mut self, ty: &Type, scanner: &mut Scanner<'a>) -> Result<(), Mismatch> {
        let kind = next_kind(scanner);
        match (ty, kind) {
            (Type::Any, Kind::Array) => self.array(scanner, |_| Some(ty)).map(drop),
            (Type::Any, Kind::Object) => self.members(scanner, |_| Some(ty)).map(drop),
            (Type::List(element), Kind::Array) => {
                self.array(scanner, |_| Some(&**element)).map(drop)
            }
            (Type::Set(element), Kind::Array) => self.set(element, scanner),
            (Type::Tuple(elements), Kind::Array) => {
                let got = self.array(scanner, |index| elements.get(index))?;
                match got == elements.len() {
                    true => Ok(()),
                    false => Err(self.misfit(Misfit::Length { want: elements.len(), got })),
                }
            }
            (Type::Map(element), Kind::Object) => {
                self.members(scanner, |_| Some(&**element)).map(drop)
            }
            (Type::Object(fields), Kind::Object) => self.object(fields, scanner),
            _ => {
                let raw = scanner.value().map_err(|error| self.misfit(Misfit::NotJson(error)))?;
                self.scalar(ty, kind, raw)
            }
        }
    }

    /// A value without parts, or one that does not fit.
    fn scalar(&mut self, ty: &Type, kind: Kind, raw: &str) -> Result<(), Mismatch> {
        let too_many = |converter: &Self| converter.misfit(Misfit::TooManyDigits);
        match (ty, kind) {
            (_, Kind::Null)
            | (Type::String | Type::Any, Kind::String)
            | (Type::Bool | Type::Any, Kind::Bool) => self.put(raw),
            (Type::Number | Type::Any, Kind::Number) => {
                let plain = number::in_plain_digits(raw).ok_or_else(|| too_many(self))?;
                self.put(&plain);
            }
            (Type::String, Kind::Number) => {
                let text = number::as_text(raw).ok_or_else(|| too_many(self))?;
                write_string(self.out, &text);
            }
            (Type::String, Kind::Bool) => write_string(self.out, raw),
            (Type::Number, Kind::String) => {
                let text = string(raw).unwrap_or_default();
                let number = number::from_text(&text);
                let number = number.ok_or_else(|| self.misfit(unfit(ty, kind)))?;
                self.put(&number);
            }
            (Type::Bool, Kind::String) if matches!(raw, r#""true""# | r#""false""#) => {
                self.put(raw.trim_matches('"'));
            }
            _ => return Err(self.misfit(unfit(ty, kind))),
        }
        Ok(())
    }

    /// The elements of an array, as far as `ty` has a type for their places. Tells how many
    /// there are.
    fn array<'t>(
        &mut self,
        scanner: &mut Scanner<'a>,
        ty: impl Fn(usize) -> Option<&'t Type>,
    ) -> Result<usize, Mismatch> {
        scanner.enter_array();
        self.put("[");
        let mut count = 0;
        while self.more(scanner, count == 0, b']')? {
            if let Some(ty) = ty(count) {
                if count > 0 {
                    self.put(",");
                }
                self.step(Step::Index(count), ty, scanner)?;
            } else {
                scanner.value().map_err(|error| self.misfit(Misfit::NotJson(error)))?;
            }
            count += 1;
        }
        self.put("]");
        Ok(count)
    }

    /// An array whose elements come out sorted, each once.
    fn set(&mut self, element: &Type, scanner: &mut Scanner<'a>) -> Result<(), Mismatch> {
        scanner.enter_array();
        let begun = self.out.len();
        let mut elements = BTreeSet::new();
        let mut count = 0;
        while self.more(scanner, count == 0, b']')? {
            self.step(Step::Index(count), element, scanner)?;
            elements.insert(Element::of(self.out.drain(begun..).collect()));
            count += 1;
        }
        self.put("[");
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.put(",");
            }
            self.out.extend_from_slice(&element.text);
        }
        self.put("]");
        Ok(())
    }

    fn object(
        &mut self,
        fields: &BTreeMap<String, Field>,
        scanner: &mut Scanner<'a>,
    ) -> Result<(), Mismatch> {
        let begun = self.out.len();
        let mut members = self.members(scanner, |name| fields.get(name).map(|field| &field.ty))?;
        let given = members.len();
        for (name, field) in fields {
            let at = members[..given].binary_search_by(|member| (*member.name).cmp(name));
            let found = at.ok().map(|at| &members[at]);
            let is_null = found.is_some_and(|member| self.out[member.value..].starts_with(b"null"));
            match (&field.presence, found) {
                (Presence::Optional(Some(default)), None) => {
                    members.push(self.filled(name, default.as_str()));
                }
                (Presence::Optional(Some(default)), Some(_)) if is_null => {
                    members.push(self.filled(name, default.as_str()));
                }
                (Presence::Optional(None), None) => members.push(self.filled(name, "null")),
                (Presence::Required, None) => {
                    self.path.push(Step::Key(Cow::Owned(name.clone())));
                    return Err(self.misfit(Misfit::Required));
                }
                (_, Some(_)) => {}
            }
        }
        if given < members.len() {
            self.arrange(begun, members);
        }
        Ok(())
    }

    /// A member that was not given, written behind the closed object.
    fn filled(&mut self, name: &str, value: &str) -> Member<'a> {
        let from = self.out.len();
        write_string(self.out, name);
        self.put(":");
        let value_at = self.out.len();
        self.put(value);
        Member { name: Cow::Owned(name.to_owned()), from, value: value_at, to: self.out.len() }
    }

    /// The members of an object that `ty` has a type for, sorted; of two of one name the last.
    fn members<'t>(
        &mut self,
        scanner: &mut Scanner<'a>,
        ty: impl Fn(&str) -> Option<&'t Type>,
    ) -> Result<Vec<Member<'a>>, Mismatch> {
        scanner.enter_object();
        let begun = self.out.len();
        self.put("{");
        let mut members: Vec<Member<'a>> = Vec::new();
        let mut is_sorted = true;
        let mut first = true;
        loop {
            let key = scanner.key(first).map_err(|error| self.misfit(Misfit::NotJson(error)))?;
            let Some(key) = key else { break };
            first = false;
            let name = name(key);
            let Some(ty) = ty(&name) else {
                scanner.value().map_err(|error| self.misfit(Misfit::NotJson(error)))?;
                self.dropped.push(format!("{}{}", shown(&self.path), path_step(&name)));
                continue;
            };
            is_sorted &= members.last().is_none_or(|last| last.name < name);
            if !members.is_empty() {
                self.put(",");
            }
            let from = self.out.len();
            self.put(key);
            self.put(":");
            let value = self.out.len();
            self.step(Step::Key(name.clone()), ty, scanner)?;
            members.push(Member { name, from, value, to: self.out.len() });
        }
        self.put("}");
        match is_sorted {
            true => Ok(members),
            false => Ok(self.arrange(begun, members)),
        }
    }

    /// Writes the members that were written from `begun` on once more, sorted; the later of
    /// two of one name is kept.
    fn arrange(&mut self, begun: usize, mut members: Vec<Member<'a>>) -> Vec<Member<'a>> {
        let written = self.out.split_off(begun);
        members.sort_by(|a, b| a.name.cmp(&b.name).then(b.from.cmp(&a.from)));
        members.dedup_by(|later, kept| later.name == kept.name);
        self.put("{");
        for (index, member) in members.iter_mut().enumerate() {
            if index > 0 {
                self.put(",");
            }
            let from = self.out.len();
            self.out.extend_from_slice(&written[member.from - begun..member.to - begun]);
            let value = from + (member.value - member.from);
            *member =
                Member { from, value, to: self.out.len(), name: std::mem::take(&mut member.name) };
        }
        self.put("}");
        members
    }

    fn step(
        &mut self,
        step: Step<'a>,
        ty: &Type,
        scanner: &mut Scanner<'a>,
    ) -> Result<(), Mismatch> {
        self.path.push(step);
        self.value(ty, scanner)?;
        self.path.pop();
        Ok(())
    }

    fn more(&self, scanner: &mut Scanner<'a>, first: bool, closing: u8) -> Result<bool, Mismatch> {
        scanner.more(first, closing).map_err(|error| self.misfit(Misfit::NotJson(error)))
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn misfit(&self, fault: Misfit) -> Mismatch {
        Mismatch { path: shown(&self.path), fault }
    }
}

/// A member of an object that is being written: where it and its value begin and end.
struct Member<'a> {
    name: Cow<'a, str>,
    from: usize,
    value: usize,
    to: usize,
}

/// An element of a set, by what it is compared with others.
struct Element {
    order: Order,
    text: Vec<u8>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Null,
    Bool(bool),
    Number(Decimal),
    String(String),
    Text(Vec<u8>),
}

impl Element {
    fn of(text: Vec<u8>) -> Element {
        let raw = std::str::from_utf8(&text).unwrap_or_default();
        let order = match kind(raw) {
            Kind::Null => Some(Order::Null),
            Kind::Bool => Some(Order::Bool(raw == "true")),
            Kind::Number => Decimal::parse(raw).map(Order::Number),
            Kind::String => string(raw).map(|text| Order::String(text.into_owned())),
            Kind::Array | Kind::Object => None,
        };
        Element { order: order.unwrap_or_else(|| Order::Text(text.clone())), text }
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.order == other.order
    }
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        self.order.cmp(&other.order)
    }
}
