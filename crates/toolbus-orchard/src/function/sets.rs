//! Functions of sets.

use std::collections::BTreeSet;

use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, too_big};
use crate::value::{ELEMENTS_MAX, Type, Value, convert, unify_all};

const LIST: Parameter = Parameter::List;

pub(super) const FUNCTIONS: &[Function] = &[
    function("setunion(s…)", &[LIST], set_like_first, |call| {
        let (element, sets) = sets(call)?;
        Ok(Value::set(element, sets.into_iter().flatten().collect()))
    })
    .rest(LIST),
    function("setintersection(s…)", &[LIST], set_like_first, |call| {
        let (element, sets) = sets(call)?;
        let common = sets.into_iter().reduce(|one, two| &one & &two).unwrap_or_default();
        Ok(Value::set(element, common.into_iter().collect()))
    })
    .rest(LIST),
    function("setsubtract(a, b)", &[LIST, LIST], set_like_first, |call| {
        let (element, sets) = sets(call)?;
        let left = sets.into_iter().reduce(|one, two| &one - &two).unwrap_or_default();
        Ok(Value::set(element, left.into_iter().collect()))
    }),
    function("setproduct(s…)", &[LIST], gives::any, product).rest(LIST),
];

fn set_like_first(arguments: &[Value]) -> Type {
    match arguments.first().map(Value::ty) {
        Some(Type::List(element) | Type::Set(element)) => Type::Set(element),
        _ => Type::Any,
    }
}

/// All arguments as sets of one type.
fn sets(call: &Call<'_>) -> Result<(Type, Vec<BTreeSet<Value>>), Fault> {
    let all = call.arguments.iter().filter_map(Value::elements).flatten();
    let types: Vec<Type> = all.map(Value::ty).collect();
    let element = unify_all(&types).ok_or_else(|| bad("the elements are of different kinds"))?;
    let fault = |_| bad("the elements are of different kinds");
    let converted = |value: &Value| convert(value, &element).map_err(fault);
    let set = |argument: &Value| {
        argument.elements().unwrap_or_default().iter().map(converted).collect::<Result<_, _>>()
    };
    let sets = call.arguments.iter().map(set).collect::<Result<_, _>>()?;
    Ok((element, sets))
}

/// Each way to choose one element of each.
fn product(call: &Call<'_>) -> Outcome {
    let lists: Vec<&[Value]> = call.arguments.iter().filter_map(Value::elements).collect();
    let ways = lists.iter().try_fold(1usize, |ways, list| ways.checked_mul(list.len()));
    let elements = ways.and_then(|ways| ways.checked_mul(lists.len() + 1));
    if elements.is_none_or(|elements| ELEMENTS_MAX < elements) {
        return Err(too_big());
    }
    let mut ways = vec![Vec::new()];
    for list in lists {
        let with = |way: &Vec<Value>| {
            let way = way.clone();
            list.iter().map(move |value| [&way[..], std::slice::from_ref(value)].concat())
        };
        ways = ways.iter().flat_map(with).collect();
    }
    let tuples: Vec<Value> = ways.into_iter().map(Value::tuple).collect();
    let types: Vec<Type> = tuples.iter().map(Value::ty).collect();
    let element = unify_all(&types).unwrap_or(Type::Any);
    Ok(Value::set(element, tuples))
}
