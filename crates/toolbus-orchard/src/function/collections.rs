//! Functions that look into one collection, or take it apart.

use std::collections::BTreeSet;

use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, too_big};
use crate::diagnostic::Code;
use crate::value::{Kind, Number, NumberError, Type, Value, convert, unify_all};

const ANY: Parameter = Parameter::Any;
const LIST: Parameter = Parameter::List;
const MAP: Parameter = Parameter::Map;
const N: Parameter = Parameter::Number;
const S: Parameter = Parameter::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    function("length(c)", &[Parameter::Collection], gives::number, length).shallow(),
    function("contains(c, v)", &[LIST, ANY], gives::bool, |call| {
        Ok(Value::bool(call.elements(0).contains(call.value(1))))
    }),
    function("distinct(list)", &[LIST], gives::list_like_first, distinct),
    function("element(list, i)", &[LIST, N], gives::element_of_first, element).shallow(),
    function("index(list, v)", &[LIST, ANY], gives::number, index),
    function("keys(m)", &[MAP], gives::texts, |call| {
        super::text::texts(call.members(0).keys().map(String::as_str))
    })
    .shallow(),
    function("values(m)", &[MAP], gives::any, |call| {
        let values = call.members(0).values().cloned().collect();
        Ok(match call.value(0).kind() {
            Kind::Map(map) => Value::list(map.element().clone(), values),
            _ => Value::tuple(values),
        })
    })
    .shallow(),
    function("lookup(m, key, default)", &[MAP, S, ANY], gives::any, lookup).shallow(),
    function("range(start, end, step)", &[N, N, N], gives::numbers, range).optional(2),
    function("reverse(list)", &[LIST], gives::list_like_first, |call| {
        Ok(like(call.value(0), call.elements(0).iter().rev().cloned().collect()))
    })
    .shallow(),
    function("slice(list, start, end)", &[LIST, N, N], gives::list_like_first, slice).shallow(),
    function("flatten(list)", &[LIST], gives::any, flatten).shallow(),
    function("compact(list)", &[LIST], gives::texts, compact),
    function("chunklist(list, n)", &[LIST, N], gives::any, chunklist).shallow(),
    function("one(list)", &[LIST], gives::element_of_first, one).shallow(),
    function("sort(list)", &[Parameter::Texts], gives::texts, |call| {
        let mut texts = call.elements(0).to_vec();
        texts.sort();
        Ok(Value::list(Type::String, texts))
    }),
    function("alltrue(list)", &[LIST], gives::bool, |call| {
        Ok(Value::bool(truths(call)?.into_iter().all(|bool| bool)))
    }),
    function("anytrue(list)", &[LIST], gives::bool, |call| {
        Ok(Value::bool(truths(call)?.into_iter().any(|bool| bool)))
    }),
];

/// How many elements `range` and `timeseries` may make.
pub(super) const RANGE_MAX: usize = 100_000;

/// A list, if the elements are those of one; else a tuple.
pub(super) fn like(source: &Value, elements: Vec<Value>) -> Value {
    match source.kind() {
        Kind::List(all) | Kind::Set(all) => Value::list(all.element().clone(), elements),
        _ => Value::tuple(elements),
    }
}

fn missing(message: String) -> Fault {
    Fault { code: Code::BadIndex, ..bad(message) }
}

fn length(call: &Call<'_>) -> Outcome {
    Ok(Value::number(match call.value(0).members() {
        Some(members) => members.len(),
        None => call.elements(0).len(),
    }))
}

/// A tuple as the list of one type that it can become; what cannot become one stays as it is.
fn as_list(value: &Value) -> Value {
    let Type::Tuple(types) = value.ty() else { return value.clone() };
    let list = unify_all(&types).map(|element| Type::List(Box::new(element)));
    list.and_then(|list| convert(value, &list).ok()).unwrap_or_else(|| value.clone())
}

fn distinct(call: &Call<'_>) -> Outcome {
    let list = as_list(call.value(0));
    let mut seen = BTreeSet::new();
    let all = list.elements().unwrap_or_default();
    let first = all.iter().filter(|value| seen.insert(*value)).cloned();
    Ok(like(&list, first.collect()))
}

fn compact(call: &Call<'_>) -> Outcome {
    let is_something = |value: &&Value| !value.is_null() && value.as_str() != Some("");
    let mut texts = Vec::new();
    for value in call.elements(0).iter().filter(is_something) {
        let word = value.kind_word();
        let fault = |_| bad(format!("each element must be text, not a {word}")).of(0);
        texts.push(convert(value, &Type::String).map_err(fault)?);
    }
    Ok(Value::list(Type::String, texts))
}

/// What stands in place of a missing element of a map is of the same type as the others.
fn lookup(call: &Call<'_>) -> Outcome {
    let default = call.value(2);
    match (call.members(0).get(call.text(1)), call.value(0).kind()) {
        (Some(found), _) => Ok(found.clone()),
        (None, Kind::Map(map)) => convert(default, map.element()).map_err(|_| {
            let (wanted, word) = (map.element(), default.kind_word());
            bad(format!("the map is of `{wanted}`, and a {word} cannot become one")).of(2)
        }),
        (None, _) => Ok(default.clone()),
    }
}

fn element(call: &Call<'_>) -> Outcome {
    let elements = call.elements(0);
    let index = call.integer(1)?;
    if elements.is_empty() {
        return Err(missing("there is no element in an empty list".to_owned()).of(0));
    }
    let index = index.rem_euclid(elements.len() as i128) as usize;
    Ok(elements[index].clone())
}

fn index(call: &Call<'_>) -> Outcome {
    let position = call.elements(0).iter().position(|value| value == call.value(1));
    match position {
        Some(position) => Ok(Value::number(position)),
        None => Err(bad("the value is not in the list").of(1).help("ask first: `contains(c, v)`")),
    }
}

fn range(call: &Call<'_>) -> Outcome {
    let number = |index: usize| call.arguments.get(index).and_then(Value::as_number);
    let (start, end) = match number(1) {
        Some(end) => (call.number(0), end),
        None => (Number::ZERO, call.number(0)),
    };
    // Without a step it goes towards the end, whichever side that is on.
    let towards = if end < start { Number::from(-1) } else { Number::ONE };
    let step = number(2).unwrap_or(towards);
    if step == Number::ZERO {
        return Err(bad("with a step of 0 there is no end").of(2));
    }
    if start != end && step.signum() != towards.signum() {
        return Err(bad(format!("steps of {step} lead away from {end}")).of(2));
    }
    let is_before = |at: Number| if Number::ZERO < step { at < end } else { end < at };
    let mut numbers = Vec::new();
    let mut at = start;
    while is_before(at) {
        if numbers.len() == RANGE_MAX {
            return Err(Fault { code: Code::TooBig, ..bad("a range has at most 100000 elements") });
        }
        numbers.push(Value::number(at));
        at = match at.plus(step) {
            Ok(next) => next,
            // The largest number has nothing behind it.
            Err(NumberError::TooLarge) => break,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Value::list(Type::Number, numbers))
}

fn slice(call: &Call<'_>) -> Outcome {
    let elements = call.elements(0);
    let (start, end) = (call.integer(1)?, call.integer(2)?);
    let part = match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) => elements.get(start..end),
        _ => None,
    };
    let message = || {
        missing(format!("there is no part from {start} to {end} in a list of {}", elements.len()))
    };
    Ok(like(call.value(0), part.ok_or_else(message)?.to_vec()))
}

fn flatten(call: &Call<'_>) -> Outcome {
    let mut flat = Vec::new();
    let mut is_open = false;
    open(call.elements(0), false, &mut flat, &mut is_open).ok_or_else(too_big)?;
    // What is unknown may turn out to be a list.
    Ok(if is_open { Value::unknown(Type::Any) } else { Value::tuple(flat) })
}

fn open(all: &[Value], taint: bool, flat: &mut Vec<Value>, is_open: &mut bool) -> Option<()> {
    for value in all {
        match (value.elements(), value.kind()) {
            (Some(inner), _) => open(inner, taint || value.is_sensitive(), flat, is_open)?,
            (None, kind) => {
                *is_open |= matches!(kind, Kind::Unknown(ty) if super::is_list(ty));
                flat.push(value.clone().with_sensitive(taint));
            }
        }
    }
    (flat.len() <= crate::value::ELEMENTS_MAX).then_some(())
}

fn chunklist(call: &Call<'_>) -> Outcome {
    let size = call.count(1)?;
    if size == 0 {
        return Err(bad("a piece must have at least one element").of(1));
    }
    let list = as_list(call.value(0));
    let all = list.elements().unwrap_or_default();
    let pieces: Vec<Value> = all.chunks(size).map(|piece| like(&list, piece.to_vec())).collect();
    Ok(match list.ty() {
        Type::List(element) | Type::Set(element) => Value::list(Type::List(element), pieces),
        _ => Value::tuple(pieces),
    })
}

fn one(call: &Call<'_>) -> Outcome {
    match call.elements(0) {
        [] => Ok(Value::NULL),
        [only] => Ok(only.clone()),
        more => Err(bad(format!("the list has {} elements, not one", more.len())).of(0)),
    }
}

/// `null` counts as false.
fn truths(call: &Call<'_>) -> Result<Vec<bool>, Fault> {
    let truth = |value: &Value| match convert(value, &Type::Bool) {
        Ok(value) => Ok(value.as_bool().unwrap_or(false)),
        Err(_) => {
            Err(bad(format!("each element must be a bool, not a {}", value.kind_word())).of(0))
        }
    };
    call.elements(0).iter().map(truth).collect()
}
