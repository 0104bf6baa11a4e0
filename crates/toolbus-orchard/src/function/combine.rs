//! Functions that make one collection of several, or choose among values.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Function, Outcome, Parameter, bad, function, gives, too_big};
use crate::function::collections::like;
use crate::value::{ELEMENTS_MAX, Kind, Type, Value, convert};

const ANY: Parameter = Parameter::Any;
const LIST: Parameter = Parameter::List;

pub(super) const FUNCTIONS: &[Function] = &[
    function("concat(lists…)", &[], gives::any, concat).rest(LIST).shallow(),
    function("merge(m…)", &[], gives::any, merge).rest(ANY).shallow(),
    function("coalesce(v…)", &[ANY], gives::any, |call| {
        let is_something = |value: &&Value| !value.is_null() && value.as_str() != Some("");
        let first = call.arguments.iter().find(is_something);
        first.cloned().ok_or_else(|| bad("all arguments are null or empty text"))
    })
    .rest(ANY)
    .shallow(),
    function("coalescelist(l…)", &[LIST], gives::any, |call| {
        let is_something = |value: &&Value| value.elements().is_some_and(|all| !all.is_empty());
        let first = call.arguments.iter().find(is_something);
        first.cloned().ok_or_else(|| bad("all lists are empty"))
    })
    .rest(LIST)
    .shallow(),
    function("zipmap(keys, values)", &[Parameter::Texts, LIST], gives::any, zipmap).shallow(),
    function(
        "matchkeys(values, keys, wanted)",
        &[LIST, LIST, LIST],
        gives::list_like_first,
        matchkeys,
    ),
    function("transpose(m)", &[Parameter::Map], transposed, transpose),
];

fn concat(call: &Call<'_>) -> Outcome {
    let count: usize = call.arguments.iter().filter_map(Value::elements).map(<[Value]>::len).sum();
    if ELEMENTS_MAX < count {
        return Err(too_big());
    }
    let all = call.arguments.iter().filter_map(Value::elements).flatten().cloned().collect();
    let mut types = call.arguments.iter().map(Value::ty);
    let first = types.next();
    let is_one_type =
        matches!(first, Some(Type::List(_))) && types.all(|ty| Some(&ty) == first.as_ref());
    Ok(match (call.arguments.first(), is_one_type) {
        (Some(list), true) => like(list, all),
        _ => Value::tuple(all),
    })
}

/// Of members with one name the last counts; `null` has none.
fn merge(call: &Call<'_>) -> Outcome {
    let mut members = BTreeMap::new();
    let mut element = None;
    let mut is_map = true;
    for (index, argument) in call.arguments.iter().enumerate() {
        match argument.kind() {
            Kind::Null => continue,
            Kind::Map(map) if element.as_ref().is_none_or(|ty| ty == map.element()) => {
                element = Some(map.element().clone());
            }
            Kind::Map(_) | Kind::Object(_) => is_map = false,
            _ => {
                let message = format!(
                    "argument {} must be a map or object, not a {}",
                    index + 1,
                    argument.kind_word()
                );
                return Err(bad(message).of(index));
            }
        }
        let more = argument.members().into_iter().flatten();
        members.extend(more.map(|(name, value)| (name.clone(), value.clone())));
        if ELEMENTS_MAX < members.len() {
            return Err(too_big());
        }
    }
    Ok(match element.filter(|_| is_map) {
        Some(element) => Value::map(element, members),
        None => Value::object(members),
    })
}

fn zipmap(call: &Call<'_>) -> Outcome {
    let (keys, values) = (call.elements(0), call.elements(1));
    if keys.len() != values.len() {
        let message = format!("there are {} keys and {} values", keys.len(), values.len());
        return Err(bad(message).of(1));
    }
    // Not a thing can be said about members whose names are unknown.
    let taint = call.value(0).contains_sensitive();
    if call.value(0).contains_unknown() {
        return Ok(Value::unknown(Type::Any).with_sensitive(taint));
    }
    let names = keys.iter().map(|key| key.as_str().unwrap_or_default().to_owned());
    let members = names.zip(values.iter().cloned()).collect();
    let zipped = match call.value(1).kind() {
        Kind::List(list) => Value::map(list.element().clone(), members),
        _ => Value::object(members),
    };
    Ok(zipped.with_sensitive(taint))
}

fn matchkeys(call: &Call<'_>) -> Outcome {
    let (values, keys) = (call.elements(0), call.elements(1));
    if values.len() != keys.len() {
        let message = format!("there are {} values and {} keys", values.len(), keys.len());
        return Err(bad(message).of(1));
    }
    let wanted: BTreeSet<&Value> = call.elements(2).iter().collect();
    let both = values.iter().zip(keys);
    let matching = both.filter(|(_, key)| wanted.contains(key)).map(|(value, _)| value.clone());
    Ok(like(call.value(0), matching.collect()))
}

fn transposed(_: &[Value]) -> Type {
    Type::Map(Box::new(Type::List(Box::new(Type::String))))
}

fn transpose(call: &Call<'_>) -> Outcome {
    let texts = Type::List(Box::new(Type::String));
    let mut turned: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (name, list) in call.members(0) {
        let fault = || bad("each member must be a list of texts").of(0);
        let list = convert(list, &texts).map_err(|_| fault())?;
        for key in list.elements().ok_or_else(fault)? {
            let key = key.as_str().ok_or_else(fault)?;
            turned.entry(key.to_owned()).or_default().push(name.as_str().into());
        }
    }
    let lists = turned.into_iter().map(|(key, names)| (key, Value::list(Type::String, names)));
    Ok(Value::map(texts, lists.collect()))
}
