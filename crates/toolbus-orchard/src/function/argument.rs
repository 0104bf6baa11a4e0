//! Arguments: brought to what the function wants, and handed to it.

use std::collections::BTreeMap;

use super::{Call, Fault, Function, Outcome, Parameter, bad};
use crate::value::{Kind, Misfit, Number, NumberError, Type, Value, convert};

/// An argument brought to what its parameter must be.
pub(crate) fn argument(
    function: &Function,
    index: usize,
    parameter: Parameter,
    value: &Value,
) -> Outcome {
    let list_of = |element: Type| Type::List(Box::new(element));
    let ty = match (parameter, value.kind()) {
        (Parameter::Any, _) => return Ok(value.clone()),
        (Parameter::List, Kind::List(_) | Kind::Set(_) | Kind::Tuple(_))
        | (Parameter::Map, Kind::Map(_) | Kind::Object(_)) => return Ok(value.clone()),
        (Parameter::List, Kind::Unknown(ty)) if is_list(ty) => return Ok(value.clone()),
        (Parameter::Map, Kind::Unknown(ty)) if is_map(ty) => return Ok(value.clone()),
        (
            Parameter::Collection,
            Kind::List(_) | Kind::Set(_) | Kind::Tuple(_) | Kind::Map(_) | Kind::Object(_),
        ) => return Ok(value.clone()),
        (Parameter::Collection, Kind::Unknown(ty)) if is_list(ty) || is_map(ty) => {
            return Ok(value.clone());
        }
        (_, Kind::Null) | (Parameter::List | Parameter::Map | Parameter::Collection, _) => {
            return Err(unfit(function, index, parameter, value));
        }
        (Parameter::Text, _) => Type::String,
        (Parameter::Number, _) => Type::Number,
        (Parameter::Texts, _) => list_of(Type::String),
        (Parameter::Numbers, _) => list_of(Type::Number),
    };
    let converted = convert(value, &ty).map_err(|mismatch| match mismatch.fault {
        Misfit::TooManyDigits => Fault::from(NumberError::TooLarge).of(index),
        _ => unfit(function, index, parameter, value),
    })?;
    let has_null = converted.elements().is_some_and(|all| all.iter().any(Value::is_null));
    match has_null {
        true => Err(unfit(function, index, parameter, value)),
        false => Ok(converted),
    }
}

fn unfit(function: &Function, index: usize, parameter: Parameter, value: &Value) -> Fault {
    let wanted = match parameter {
        Parameter::Any => "a value",
        Parameter::Text => "text",
        Parameter::Number => "a number",
        Parameter::List => "a list",
        Parameter::Texts => "a list of texts",
        Parameter::Numbers => "a list of numbers",
        Parameter::Map => "a map or object",
        Parameter::Collection => "a list, set, map or object",
    };
    let got = match value.kind_word() {
        word @ ("null" | "any value") => word.to_owned(),
        "string" => "text".to_owned(),
        word => format!("a {word}"),
    };
    let which = match function.usage.split(['(', ')']).nth(1).unwrap_or_default() {
        "" => String::new(),
        names => {
            let name = names.split(", ").nth(index).unwrap_or_default().trim_end_matches('…');
            if name.is_empty() { String::new() } else { format!(" (`{name}`)") }
        }
    };
    let message = format!("argument {}{which} must be {wanted}, not {got}", index + 1);
    let fault = bad(message).of(index);
    match (parameter, value.kind()) {
        (Parameter::Collection, _) if value.kind_word() == "string" => {
            fault.help("the characters of a text are counted by `strlen(s)`")
        }
        _ => fault.help(format!("it is called as `{}`", function.usage)),
    }
}

pub(super) fn is_list(ty: &Type) -> bool {
    matches!(ty, Type::Any | Type::List(_) | Type::Set(_) | Type::Tuple(_))
}

fn is_map(ty: &Type) -> bool {
    matches!(ty, Type::Any | Type::Map(_) | Type::Object(_))
}

impl<'a> Call<'a> {
    pub(super) fn value(&self, index: usize) -> &'a Value {
        &self.arguments[index]
    }

    pub(super) fn text(&self, index: usize) -> &'a str {
        self.value(index).as_str().unwrap_or_default()
    }

    pub(super) fn number(&self, index: usize) -> Number {
        self.value(index).as_number().unwrap_or(Number::ZERO)
    }

    /// A whole number.
    pub(super) fn integer(&self, index: usize) -> Result<i128, Fault> {
        let number = self.number(index);
        let fault = || bad(format!("{number} is no whole number")).of(index);
        number.integer().ok_or_else(fault)
    }

    /// A whole number from nought.
    pub(super) fn count(&self, index: usize) -> Result<usize, Fault> {
        let number = self.integer(index)?;
        let fault = || bad(format!("{number} is no count: it must not be negative")).of(index);
        // What is beyond all memory is beyond all limits as well.
        if 0 <= number { Ok(usize::try_from(number).unwrap_or(usize::MAX)) } else { Err(fault()) }
    }

    pub(super) fn elements(&self, index: usize) -> &'a [Value] {
        self.value(index).elements().unwrap_or_default()
    }

    pub(super) fn members(&self, index: usize) -> &'a BTreeMap<String, Value> {
        static NONE: BTreeMap<String, Value> = BTreeMap::new();
        self.value(index).members().unwrap_or(&NONE)
    }
}
