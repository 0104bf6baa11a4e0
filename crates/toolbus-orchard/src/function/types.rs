//! Conversions, and what is asked about a value rather than of it.

use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, text_of};
use crate::diagnostic::{Code, excerpt};
use crate::value::{Kind, Misfit, NumberError, Type, Value, convert, unify_all};

const ANY: Parameter = Parameter::Any;

pub(super) const FUNCTIONS: &[Function] = &[
    function("tostring(v)", &[ANY], gives::text, |call| converted(call.value(0), &Type::String)),
    function("tonumber(v)", &[ANY], gives::number, |call| converted(call.value(0), &Type::Number)),
    function("tobool(v)", &[ANY], gives::bool, |call| converted(call.value(0), &Type::Bool)),
    function(
        "tolist(v)",
        &[ANY],
        |values| collection(values, Type::List),
        |call| to_collection(call, Type::List, "list"),
    )
    .shallow(),
    function(
        "toset(v)",
        &[ANY],
        |values| collection(values, Type::Set),
        |call| to_collection(call, Type::Set, "set"),
    )
    .shallow(),
    function(
        "tomap(v)",
        &[ANY],
        |values| collection(values, Type::Map),
        |call| to_collection(call, Type::Map, "map"),
    )
    .shallow(),
    function("type(v)", &[ANY], gives::text, |call| text_of(call.value(0).ty().to_string())),
    // These look at how an argument is evaluated, so the evaluator does them itself.
    function("try(v…)", &[ANY], gives::any, itself).rest(ANY),
    function("can(v)", &[ANY], gives::bool, itself),
    function("sensitive(v)", &[ANY], gives::any, itself),
    function("nonsensitive(v)", &[ANY], gives::any, itself),
    function("issensitive(v)", &[ANY], gives::bool, itself),
];

/// Only reached with `...` behind the argument, which these do not take.
fn itself(_: &Call<'_>) -> Outcome {
    Err(bad("arguments cannot be spread by `...` here"))
}

fn mismatch(message: String) -> Fault {
    Fault { code: Code::TypeMismatch, ..bad(message).of(0) }
}

fn converted(value: &Value, ty: &Type) -> Outcome {
    convert(value, ty).map_err(|found| match found.fault {
        Misfit::TooManyDigits => NumberError::TooLarge.into(),
        _ => match value.as_str() {
            Some(text) => mismatch(format!("{} cannot become a {ty}", excerpt(text))),
            None => mismatch(format!("a {} cannot become a {ty}", value.kind_word())),
        },
    })
}

/// What an unknown value will become, if its elements are known.
fn collection(values: &[Value], of: fn(Box<Type>) -> Type) -> Type {
    let element = match values.first().map(Value::ty) {
        Some(Type::List(element) | Type::Set(element) | Type::Map(element)) => *element,
        Some(Type::Tuple(types)) => unify_all(&types).unwrap_or(Type::Any),
        Some(Type::Object(fields)) => {
            unify_all(fields.values().map(|field| &field.ty)).unwrap_or(Type::Any)
        }
        _ => Type::Any,
    };
    of(Box::new(element))
}

/// A collection whose elements are brought to one type.
fn to_collection(call: &Call<'_>, of: fn(Box<Type>) -> Type, word: &str) -> Outcome {
    let value = call.value(0);
    if value.is_null() {
        return Ok(Value::NULL);
    }
    let is_map = matches!(value.kind(), Kind::Map(_) | Kind::Object(_));
    let wants_map = word == "map";
    let is_fit = if wants_map { is_map } else { value.elements().is_some() };
    if !is_fit {
        let fault = mismatch(format!("a {} cannot become a {word}", value.kind_word()));
        return Err(match is_map && !wants_map {
            true => fault.help("take `keys(m)` or `values(m)` of it"),
            false => fault,
        });
    }
    let types: Vec<Type> = match (value.elements(), value.members()) {
        (Some(elements), _) => elements.iter().map(Value::ty).collect(),
        (_, Some(members)) => members.values().map(Value::ty).collect(),
        _ => Vec::new(),
    };
    let element = unify_all(&types).ok_or_else(|| {
        mismatch(format!(
            "the elements of a {word} must be of one type, and these cannot become it"
        ))
    })?;
    converted(value, &of(Box::new(element)))
}
