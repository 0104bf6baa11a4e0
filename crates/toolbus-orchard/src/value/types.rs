//! The type of a value, and the one type that several can become.

use std::collections::BTreeMap;

use super::{Field, Kind, Type, Value};

impl Value {
    /// What it is, as a type expression would say; `null` may be anything.
    pub fn ty(&self) -> Type {
        match &self.kind {
            Kind::Null => Type::Any,
            Kind::Bool(_) => Type::Bool,
            Kind::Number(_) => Type::Number,
            Kind::String(_) => Type::String,
            Kind::List(list) => Type::List(Box::new(list.element().clone())),
            Kind::Set(set) => Type::Set(Box::new(set.element().clone())),
            Kind::Map(map) => Type::Map(Box::new(map.element().clone())),
            Kind::Tuple(tuple) => Type::Tuple(tuple.items().iter().map(Value::ty).collect()),
            Kind::Object(object) => {
                let field =
                    |(name, value): (&String, &Value)| (name.clone(), Field::required(value.ty()));
                Type::Object(object.items().iter().map(field).collect())
            }
            Kind::Unknown(ty) => (**ty).clone(),
        }
    }

    /// What it is, in the words of messages.
    pub fn kind_word(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "bool",
            Kind::Number(_) => "number",
            Kind::String(_) => "string",
            Kind::List(_) => "list",
            Kind::Set(_) => "set",
            Kind::Tuple(_) => "tuple",
            Kind::Map(_) => "map",
            Kind::Object(_) => "object",
            Kind::Unknown(ty) => kind_word(ty),
        }
    }
}

/// What a type is, in the words of messages.
pub(crate) fn kind_word(ty: &Type) -> &'static str {
    match ty {
        Type::String => "string",
        Type::Number => "number",
        Type::Bool => "bool",
        Type::Any => "any value",
        Type::List(_) => "list",
        Type::Set(_) => "set",
        Type::Map(_) => "map",
        Type::Tuple(_) => "tuple",
        Type::Object(_) => "object",
    }
}

/// The type that values of both can become without loss: primitives become `string` if one is,
/// tuples become lists where that is needed, objects maps. `None` if there is none.
pub fn unify(one: &Type, two: &Type) -> Option<Type> {
    unify_all([one, two])
}

/// The type that values of all of them can become. All are looked at together: a number and a
/// bool have none, but with a text beside them it is `string`.
pub(crate) fn unify_all<'a>(types: impl IntoIterator<Item = &'a Type>) -> Option<Type> {
    // What may be anything is content with what the others become.
    let types: Vec<&Type> = types.into_iter().filter(|ty| **ty != Type::Any).collect();
    let Some((first, others)) = types.split_first() else { return Some(Type::Any) };
    if others.iter().all(|other| other == first) {
        return Some((*first).clone());
    }
    if others.iter().any(|other| family(other) != family(first)) {
        return None;
    }
    let has = |is: fn(&Type) -> bool| types.iter().any(|ty| is(ty));
    let has_list = has(|ty| matches!(ty, Type::List(_)));
    let has_set = has(|ty| matches!(ty, Type::Set(_)));
    let has_map = has(|ty| matches!(ty, Type::Map(_)));
    match first {
        Type::String | Type::Number | Type::Bool => {
            types.contains(&&Type::String).then_some(Type::String)
        }
        Type::Map(_) | Type::Object(_) => match same_fields(&types) {
            Some(fields) if !has_map => fields.map(Type::Object),
            _ => unify_all(parts(&types)).map(|element| Type::Map(Box::new(element))),
        },
        _ => match same_lengths(&types) {
            Some(elements) if !has_list && !has_set => elements.map(Type::Tuple),
            _ => {
                let element = Box::new(unify_all(parts(&types))?);
                Some(if has_set && !has_list { Type::Set(element) } else { Type::List(element) })
            }
        },
    }
}

/// Those of one family can become the same.
#[derive(PartialEq, Eq)]
enum Family {
    Primitive,
    Sequence,
    Mapping,
    Any,
}

fn family(ty: &Type) -> Family {
    match ty {
        Type::String | Type::Number | Type::Bool => Family::Primitive,
        Type::List(_) | Type::Set(_) | Type::Tuple(_) => Family::Sequence,
        Type::Map(_) | Type::Object(_) => Family::Mapping,
        Type::Any => Family::Any,
    }
}

/// What stands in all of them.
fn parts<'a>(types: &[&'a Type]) -> Vec<&'a Type> {
    let mut parts: Vec<&Type> = Vec::new();
    for ty in types {
        match ty {
            Type::List(element) | Type::Set(element) | Type::Map(element) => parts.push(element),
            Type::Tuple(elements) => parts.extend(elements),
            Type::Object(fields) => parts.extend(fields.values().map(|field| &field.ty)),
            Type::String | Type::Number | Type::Bool | Type::Any => {}
        }
    }
    parts
}

/// The elements of tuples, if all are as long; `Some(None)` if they cannot become the same.
fn same_lengths(types: &[&Type]) -> Option<Option<Vec<Type>>> {
    let mut all = Vec::new();
    for ty in types {
        let Type::Tuple(elements) = ty else { return None };
        all.push(elements);
    }
    let length = all.first()?.len();
    if all.iter().any(|elements| elements.len() != length) {
        return None;
    }
    Some((0..length).map(|at| unify_all(all.iter().map(|elements| &elements[at]))).collect())
}

/// The fields of objects, if all have the same names; `Some(None)` if they cannot become the same.
fn same_fields(types: &[&Type]) -> Option<Option<BTreeMap<String, Field>>> {
    let mut all = Vec::new();
    for ty in types {
        let Type::Object(fields) = ty else { return None };
        all.push(fields);
    }
    let (first, others) = all.split_first()?;
    if others.iter().any(|other| !other.keys().eq(first.keys())) {
        return None;
    }
    let field = |name: &String| {
        let ty = unify_all(all.iter().map(|fields| &fields[name].ty))?;
        Some((name.clone(), Field::required(ty)))
    };
    Some(first.keys().map(field).collect())
}

/// How many types may stand in one that is unknown.
const PARTS_MAX: usize = 4096;

/// Has it more parts than a type of an unknown value should have?
pub(super) fn is_huge(ty: &Type) -> bool {
    let mut ahead = vec![ty];
    let mut parts = 0;
    while let Some(ty) = ahead.pop() {
        parts += 1;
        match ty {
            Type::String | Type::Number | Type::Bool | Type::Any => {}
            Type::List(element) | Type::Set(element) | Type::Map(element) => ahead.push(element),
            Type::Tuple(types) => ahead.extend(types.iter().take(PARTS_MAX)),
            Type::Object(fields) => {
                ahead.extend(fields.values().take(PARTS_MAX).map(|field| &field.ty));
            }
        }
        if PARTS_MAX < parts + ahead.len() {
            return true;
        }
    }
    false
}
