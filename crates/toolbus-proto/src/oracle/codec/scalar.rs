//! JSON of the types that hold no others, to felts.

use std::borrow::Cow;

use super::read::WORD_BYTES;
use crate::json::Scanner;
use crate::oracle::{
    felt::Felt,
    signature::{Integer, Type},
    wide::{self, Wide},
};

/// Appends the felts of one value, or `None` if it does not fit.
pub(super) fn push(ty: &Type, raw: &str, out: &mut Vec<Felt>) -> Option<()> {
    match ty {
        Type::Bool => out.push(match raw {
            "true" => Felt::ONE,
            "false" => Felt::ZERO,
            _ => return None,
        }),
        Type::Felt252 => {
            let (negative, value) = number(raw)?;
            let felt = Felt::new(value)?;
            out.push(if negative { felt.negated() } else { felt });
        }
        Type::Bytes31 => {
            let (negative, value) = number(raw)?;
            if negative || WORD_BYTES * 8 < value.bits() as usize {
                return None;
            }
            out.push(Felt::new(value)?);
        }
        Type::Integer(integer) => push_integer(*integer, raw, out)?,
        Type::ByteArray => push_byte_array(&bytes(raw)?, out),
        Type::ShortString => {
            let bytes = bytes(raw)?;
            let is_text = raw.starts_with('"');
            let fits = bytes.len() <= WORD_BYTES
                && (!is_text || bytes.iter().all(|byte| matches!(byte, 0x01..=0x7f)));
            out.push(fits.then(|| word(&bytes))?);
        }
        _ => return None,
    }
    Some(())
}

/// What JSON such a type takes.
pub(super) fn wanted(ty: &Type) -> String {
    match ty {
        Type::Bool => "true or false".to_owned(),
        Type::Integer(integer) => format!("an integer of type {}", integer.name),
        Type::ByteArray => r#"a string or {"bytes":"<hex>"}"#.to_owned(),
        Type::ShortString => {
            r#"a string of at most 31 ASCII characters or {"bytes":"<hex>"}"#.to_owned()
        }
        Type::Bytes31 => "an integer or a hex string of at most 31 bytes".to_owned(),
        _ => "an integer or a hex string below the field prime".to_owned(),
    }
}

/// Appends a `ByteArray`: how many full words, the words, the rest, the length of the rest.
pub(crate) fn push_byte_array(bytes: &[u8], out: &mut Vec<Felt>) {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    out.push(Felt::from(words.len() as u128));
    out.extend(words.iter().map(|bytes| word(bytes)));
    out.push(word(rest));
    out.push(Felt::from(rest.len() as u128));
}

/// The number that up to 31 bytes spell.
fn word(bytes: &[u8]) -> Felt {
    let mut padded = [0; 32];
    padded[32 - bytes.len()..].copy_from_slice(bytes);
    Felt::from_bytes(padded).expect("31 bytes are below the prime")
}

fn push_integer(integer: Integer, raw: &str, out: &mut Vec<Felt>) -> Option<()> {
    let (negative, value) = number(raw)?;
    if integer.bits == 256 {
        if negative {
            return None;
        }
        out.extend([Felt::from(value.low), Felt::from(value.high)]);
        return Some(());
    }
    let fits = match (integer.signed, negative) {
        (false, _) => !negative && value.bits() <= integer.bits,
        (true, false) => value.bits() < integer.bits,
        (true, true) => value <= Wide::from(1 << (integer.bits - 1)),
    };
    let felt = Felt::new(value).filter(|_| fits)?;
    out.push(if negative { felt.negated() } else { felt });
    Some(())
}

/// Whether it is negative, and how large: of a JSON integer, a decimal or a hex string.
fn number(raw: &str) -> Option<(bool, Wide)> {
    let text = match raw.starts_with('"') {
        true => Scanner::new(raw).string().ok()?,
        false => Cow::Borrowed(raw),
    };
    if let Some(digits) = text.strip_prefix("0x") {
        let digits = Some(digits.as_bytes()).filter(|digits| !digits.is_empty())?;
        return Some((false, Wide::from_hex(digits)?));
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, &*text),
    };
    let value = Wide::from_decimal(digits.as_bytes()).filter(|_| !digits.is_empty())?;
    // There is but one zero.
    Some((negative && value != Wide::default(), value))
}

/// The bytes of a string, or of `{"bytes":"<hex>"}`.
fn bytes(raw: &str) -> Option<Cow<'_, [u8]>> {
    let mut scanner = Scanner::new(raw);
    if scanner.next_byte() == Some(b'"') {
        return Some(match scanner.string().ok()? {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        });
    }
    let is_named = scanner.enter_object() && scanner.name().ok()? == "bytes";
    let digits = if is_named {
        scanner.string().ok()?
    } else {
        return None;
    };
    let bytes = wide::read_hex_bytes(digits.as_bytes())?;
    let is_all = !scanner.more(false, b'}').ok()?;
    is_all.then_some(Cow::Owned(bytes))
}
