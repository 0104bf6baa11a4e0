//! Values brought to a type, by the rules of HCL.
//!
//! The same rules as `toolbus_proto::orchard::value::convert` has for JSON text, here for
//! values, parts of which may be unknown or sensitive.

use std::collections::BTreeMap;

use toolbus_proto::orchard::types::{is_identifier, quoted};

use super::from_any_json;
use super::types::unify_all;
use super::{Field, Kind, Misfit, Mismatch, Number, NumberError, Presence, Type, Value};

/// Brings a value to a type: number and bool to string, decimal text to number, `true` and
/// `false` to bool, collections element by element. `null` fits every type. What is unknown
/// becomes unknown of that type, unless no value of its own type could.
pub fn convert(value: &Value, ty: &Type) -> Result<Value, Mismatch> {
    if matches!(ty, Type::Any) {
        return Ok(value.clone());
    }
    let mut path = Vec::new();
    converted(value, ty, &mut path).map_err(|fault| Mismatch { path: path.concat(), fault })
}

/// On failure the path leads to the part that does not fit.
fn converted(value: &Value, ty: &Type, path: &mut Vec<String>) -> Result<Value, Misfit> {
    let plain = match (ty, value.kind()) {
        (_, Kind::Null)
        | (Type::Any, _)
        | (Type::String, Kind::String(_))
        | (Type::Number, Kind::Number(_))
        | (Type::Bool, Kind::Bool(_)) => return Ok(value.clone()),
        (_, Kind::Unknown(from)) if can_become(from, ty) => Value::unknown(ty.clone()),
        (Type::String, Kind::Number(number)) => Value::string(number.to_string()),
        (Type::String, Kind::Bool(bool)) => Value::string(bool.to_string()),
        (Type::Number, Kind::String(text)) => match Number::parse_loosely(text) {
            Ok(number) => Value::number(number),
            Err(NumberError::NotDecimal) => return Err(unfit(value, ty)),
            Err(_) => return Err(Misfit::TooManyDigits),
        },
        (Type::Bool, Kind::String(text)) => match &**text {
            "true" => Value::bool(true),
            "false" => Value::bool(false),
            _ => return Err(unfit(value, ty)),
        },
        (Type::List(element), Kind::List(all)) if all.element() == &**element => {
            return Ok(value.clone());
        }
        (Type::List(element), Kind::List(all) | Kind::Set(all) | Kind::Tuple(all)) => {
            let elements = elements(all.items(), |_| element, path)?;
            Value::list(shared(element, &elements), elements)
        }
        (Type::Set(element), Kind::Set(all)) if all.element() == &**element => {
            return Ok(value.clone());
        }
        (Type::Set(element), Kind::List(all) | Kind::Set(all) | Kind::Tuple(all)) => {
            let elements = elements(all.items(), |_| element, path)?;
            Value::set(shared(element, &elements), elements)
        }
        (Type::Tuple(types), Kind::List(all) | Kind::Set(all) | Kind::Tuple(all)) => {
            let got = all.items().len();
            if got != types.len() {
                return Err(Misfit::Length { want: types.len(), got });
            }
            Value::tuple(elements(all.items(), |index| &types[index], path)?)
        }
        (Type::Map(element), Kind::Map(all)) if all.element() == &**element => {
            return Ok(value.clone());
        }
        (Type::Map(element), Kind::Map(all) | Kind::Object(all)) => {
            let mut members = BTreeMap::new();
            for (name, member) in all.items() {
                members.insert(name.clone(), stepped(member, element, || step(name), path)?);
            }
            Value::map(shared(element, members.values()), members)
        }
        (Type::Object(fields), Kind::Map(all) | Kind::Object(all)) => {
            Value::object(object(all.items(), fields, path)?)
        }
        _ => return Err(unfit(value, ty)),
    };
    Ok(plain.with_sensitive(value.is_sensitive()))
}

fn elements<'t>(
    all: &[Value],
    ty: impl Fn(usize) -> &'t Type,
    path: &mut Vec<String>,
) -> Result<Vec<Value>, Misfit> {
    let one = |(index, element): (usize, &Value)| {
        stepped(element, ty(index), || format!("[{index}]"), path)
    };
    all.iter().enumerate().map(one).collect()
}

fn object(
    members: &BTreeMap<String, Value>,
    fields: &BTreeMap<String, Field>,
    path: &mut Vec<String>,
) -> Result<BTreeMap<String, Value>, Misfit> {
    let mut converted = BTreeMap::new();
    for (name, field) in fields {
        let value = match (members.get(name), &field.presence) {
            (None, Presence::Required) => {
                path.push(step(name));
                return Err(Misfit::Required);
            }
            (None | Some(Value { kind: Kind::Null, .. }), Presence::Optional(Some(default))) => {
                // Was brought to its type when the type was read.
                let default = from_any_json(default).map_err(|mismatch| mismatch.fault)?;
                stepped(&default, &field.ty, || step(name), path)?
            }
            (None, Presence::Optional(None)) => Value::NULL,
            (Some(value), _) => stepped(value, &field.ty, || step(name), path)?,
        };
        converted.insert(name.clone(), value);
    }
    Ok(converted)
}

fn stepped(
    value: &Value,
    ty: &Type,
    step: impl Fn() -> String,
    path: &mut Vec<String>,
) -> Result<Value, Misfit> {
    // The step is only written down where it is needed: on the way back from a fault.
    converted(value, ty, path).inspect_err(|_| path.insert(0, step()))
}

fn step(name: &str) -> String {
    match is_identifier(name) {
        true => format!(".{name}"),
        false => format!("[{}]", quoted(name)),
    }
}

/// What the elements share: the type they were brought to, or what it leaves open.
fn shared<'a>(element: &Type, elements: impl IntoIterator<Item = &'a Value>) -> Type {
    match element {
        Type::Any => {
            let types: Vec<Type> = elements.into_iter().map(Value::ty).collect();
            unify_all(&types).filter(|ty| types.iter().all(|one| one == ty)).unwrap_or(Type::Any)
        }
        element => element.clone(),
    }
}

/// May some value of the one type become the other?
pub(crate) fn can_become(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Any, _) | (_, Type::Any) => true,
        (Type::String, Type::Number | Type::Bool)
        | (Type::String | Type::Number | Type::Bool, Type::String)
        | (Type::Number, Type::Number)
        | (Type::Bool, Type::Bool) => true,
        (Type::List(from) | Type::Set(from), Type::List(to) | Type::Set(to))
        | (Type::Map(from), Type::Map(to)) => can_become(from, to),
        (Type::List(from) | Type::Set(from), Type::Tuple(to)) => {
            to.iter().all(|to| can_become(from, to))
        }
        (Type::Tuple(from), Type::List(to) | Type::Set(to)) => {
            from.iter().all(|from| can_become(from, to))
        }
        (Type::Tuple(from), Type::Tuple(to)) => {
            from.len() == to.len() && from.iter().zip(to).all(|(from, to)| can_become(from, to))
        }
        (Type::Object(from), Type::Map(to)) => from.values().all(|from| can_become(&from.ty, to)),
        (Type::Map(from), Type::Object(to)) => to.values().all(|to| can_become(from, &to.ty)),
        (Type::Object(from), Type::Object(to)) => {
            to.iter().all(|(name, to)| match from.get(name) {
                Some(from) => can_become(&from.ty, &to.ty),
                None => to.presence != Presence::Required,
            })
        }
        _ => false,
    }
}

fn unfit(value: &Value, ty: &Type) -> Misfit {
    Misfit::Kind { want: coarse(super::types::kind_word(ty)), got: coarse(value.kind_word()) }
}

/// The words of refusals know lists and objects only, as JSON does.
fn coarse(word: &'static str) -> &'static str {
    match word {
        "set" | "tuple" => "list",
        "map" => "object",
        word => word,
    }
}
