//! Chance: the same for the same seed and node.

use super::digests::uuid_text;
use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, text_of, too_big};
use crate::expr::{Impure, Random};
use crate::function::collections::like;
use crate::value::{TEXT_BYTES_MAX, Value};

const LIST: Parameter = Parameter::List;
const N: Parameter = Parameter::Number;

pub(super) const FUNCTIONS: &[Function] = &[
    function("uuid()", &[], gives::text, |call| {
        let random = chance(call)?;
        let bits = u128::from(random.next()) << 64 | u128::from(random.next());
        text_of(uuid_text(bits.to_be_bytes(), 4))
    })
    .impure(),
    function("randint(low, high)", &[N, N], gives::number, randint).impure(),
    function("randchoice(list)", &[LIST], gives::element_of_first, |call| {
        let elements = call.elements(0);
        if elements.is_empty() {
            return Err(bad("there is nothing to choose in an empty list").of(0));
        }
        Ok(elements[chance(call)?.below(elements.len() as u128) as usize].clone())
    })
    .impure()
    .shallow(),
    function("randstring(n)", &[N], gives::text, randstring).impure(),
    function("shuffle(list)", &[LIST], gives::list_like_first, |call| {
        let random = chance(call)?;
        let mut elements = call.elements(0).to_vec();
        for last in (1..elements.len()).rev() {
            elements.swap(last, random.below(last as u128 + 1) as usize);
        }
        Ok(like(call.value(0), elements))
    })
    .impure()
    .shallow(),
];

fn chance<'a>(call: &Call<'a>) -> Result<&'a Random, Fault> {
    match call.at.impure {
        Impure::Known { random, .. } => Ok(random),
        Impure::Unknown => Err(bad("there is no chance in a plan")),
    }
}

fn randint(call: &Call<'_>) -> Outcome {
    let (low, high) = (call.integer(0)?, call.integer(1)?);
    if high < low {
        return Err(bad(format!("there is no number from {low} to {high}")).of(1));
    }
    let random = chance(call)?;
    let drawn = match (high.wrapping_sub(low) as u128).checked_add(1) {
        Some(count) => random.below(count),
        // All numbers that there are.
        None => u128::from(random.next()) << 64 | u128::from(random.next()),
    };
    Ok(Value::number(low.wrapping_add(drawn as i128)))
}

fn randstring(call: &Call<'_>) -> Outcome {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let count = call.count(0)?;
    if TEXT_BYTES_MAX < count {
        return Err(too_big());
    }
    let random = chance(call)?;
    let letter = |_| char::from(LETTERS[random.below(62) as usize]);
    text_of((0..count).map(letter).collect::<String>())
}
