//! The type of a value, and the one type that several can become.

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
    let of = |one: &Type, two: &Type| unify(one, two).map(Box::new);
    match (one, two) {
        (one, two) if one == two => Some(one.clone()),
        (Type::Any, other) | (other, Type::Any) => Some(other.clone()),
        (Type::String, Type::Number | Type::Bool) | (Type::Number | Type::Bool, Type::String) => {
            Some(Type::String)
        }
        (Type::List(one), Type::List(two)) => Some(Type::List(of(one, two)?)),
        (Type::Set(one), Type::Set(two)) => Some(Type::Set(of(one, two)?)),
        (Type::Map(one), Type::Map(two)) => Some(Type::Map(of(one, two)?)),
        (Type::Tuple(one), Type::Tuple(two)) if one.len() == two.len() => {
            let both = one.iter().zip(two);
            both.map(|(one, two)| unify(one, two)).collect::<Option<_>>().map(Type::Tuple)
        }
        (Type::Tuple(one), Type::Tuple(two)) => {
            unify_all(one.iter().chain(two)).map(|element| Type::List(Box::new(element)))
        }
        (Type::Tuple(elements), Type::List(element))
        | (Type::List(element), Type::Tuple(elements)) => {
            unify_all(elements.iter().chain([&**element])).map(|of| Type::List(Box::new(of)))
        }
        (Type::Tuple(elements), Type::Set(element))
        | (Type::Set(element), Type::Tuple(elements)) => {
            unify_all(elements.iter().chain([&**element])).map(|of| Type::Set(Box::new(of)))
        }
        (Type::List(one), Type::Set(two)) | (Type::Set(one), Type::List(two)) => {
            Some(Type::List(of(one, two)?))
        }
        (Type::Object(one), Type::Object(two)) if one.keys().eq(two.keys()) => {
            let both = one.iter().zip(two.values());
            let field = |((name, one), two): ((&String, &Field), &Field)| {
                Some((name.clone(), Field::required(unify(&one.ty, &two.ty)?)))
            };
            both.map(field).collect::<Option<_>>().map(Type::Object)
        }
        (Type::Object(one), Type::Object(two)) => {
            let fields = one.values().chain(two.values()).map(|field| &field.ty);
            unify_all(fields).map(|element| Type::Map(Box::new(element)))
        }
        (Type::Object(fields), Type::Map(element)) | (Type::Map(element), Type::Object(fields)) => {
            let all = fields.values().map(|field| &field.ty).chain([&**element]);
            unify_all(all).map(|element| Type::Map(Box::new(element)))
        }
        _ => None,
    }
}

/// The type that values of all of them can become.
pub(crate) fn unify_all<'a>(types: impl IntoIterator<Item = &'a Type>) -> Option<Type> {
    types.into_iter().try_fold(Type::Any, |all, ty| unify(&all, ty))
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
