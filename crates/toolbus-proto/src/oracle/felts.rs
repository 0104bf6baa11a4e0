//! Lists of felts as they stand in messages: JSON arrays of hexadecimal strings.

use std::borrow::Cow;

use memchr::memchr;
use thiserror::Error;

use super::{
    felt::{Felt, FeltFault, Leniency},
    hex,
    wide::Wide,
};
use crate::json::{Json, Scanner};
use crate::printable::beginning;

/// Reads a JSON array of felts.
///
/// The text is one JSON value; the caller has checked that.
pub fn read(text: &str, leniency: Leniency) -> Result<Vec<Felt>, FeltsError> {
    match read_plain(text.as_bytes()) {
        Some(felts) => Ok(felts),
        None => read_any(text, leniency),
    }
}

/// The fast way for lists as nearly every peer writes them: nothing between the felts but
/// commas, and each of them valid. `None` for any other list, which [`read`] then takes slowly.
fn read_plain(text: &[u8]) -> Option<Vec<Felt>> {
    // As many as there are at least, unless the peer pads them with zeros.
    let mut felts = Vec::with_capacity(text.len() / FELT_TEXT_MAX + 1);
    let mut rest = text.strip_prefix(b"[")?;
    if rest == b"]" {
        return Some(felts);
    }
    loop {
        let digits = rest.strip_prefix(b"\"0x")?;
        let (digits, behind) = digits.split_at(memchr(b'"', digits)?);
        let wide = Wide::from_hex(digits).filter(|_| !digits.is_empty())?;
        felts.push(Felt::new(wide)?);
        rest = match behind {
            b"\"]" => return Some(felts),
            [b'"', b',', rest @ ..] => rest,
            _ => return None,
        };
    }
}

fn read_any(text: &str, leniency: Leniency) -> Result<Vec<Felt>, FeltsError> {
    let not_an_array = || FeltsError::NotAnArray { shown: beginning(text) };
    let mut scanner = Scanner::new(text);
    if !scanner.enter_array() {
        return Err(not_an_array());
    }
    let mut felts = Vec::new();
    while let Some(raw) = scanner.element(felts.is_empty()).map_err(|_| not_an_array())? {
        let felt = from_json(raw, leniency).map_err(|fault| FeltError {
            index: felts.len(),
            fault,
            shown: beginning(raw),
        })?;
        felts.push(felt);
    }
    scanner.end().map_err(|_| not_an_array())?;
    Ok(felts)
}

/// Reads words of a command line, one felt each.
pub fn read_words<'a>(
    words: impl IntoIterator<Item = &'a str>,
    leniency: Leniency,
) -> Result<Vec<Felt>, FeltError> {
    let felt = |(index, word)| {
        Felt::parse(word, leniency).map_err(|fault| {
            let shown = beginning(Json::of(word).as_str());
            FeltError { index, fault, shown }
        })
    };
    words.into_iter().enumerate().map(felt).collect()
}

/// Appends a compact JSON array of canonical felts.
pub fn write(felts: &[Felt], out: &mut Vec<u8>) {
    let printed = |felt: &Felt| r#""0x","#.len() + felt.wide().hex_digits();
    out.reserve("[]".len() + felts.iter().map(printed).sum::<usize>());
    out.push(b'[');
    for (index, felt) in felts.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
        felt.write_hex(out);
        out.push(b'"');
    }
    out.push(b']');
}

/// Checks a JSON array of felts and gives it in the form that [`write()`] has.
///
/// Most peers write just that form: then the text comes back as it is.
pub fn canonical(text: &str, leniency: Leniency) -> Result<Cow<'_, str>, FeltsError> {
    if is_canonical(text.as_bytes()) {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    write(&read(text, leniency)?, &mut out);
    Ok(Cow::Owned(String::from_utf8(out).expect("hexadecimal digits are ASCII")))
}

fn from_json(raw: &str, leniency: Leniency) -> Result<Felt, FeltFault> {
    let inner = raw.strip_prefix('"').ok_or(FeltFault::NotAString)?;
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    match Felt::parse(inner, leniency) {
        // An escape may spell a digit: rare enough to be looked at second.
        Err(_) if inner.contains('\\') => {
            let text = Scanner::new(raw).string().map_err(|_| FeltFault::NotAString)?;
            Felt::parse(&text, leniency)
        }
        felt => felt,
    }
}

fn is_canonical(text: &[u8]) -> bool {
    let Some(mut rest) = text.strip_prefix(b"[") else {
        return false;
    };
    if rest == b"]" {
        return true;
    }
    loop {
        let Some(digits) = rest.strip_prefix(b"\"0x") else {
            return false;
        };
        let Some(length) = memchr(b'"', digits) else {
            return false;
        };
        let (digits, behind) = digits.split_at(length);
        // Digits of one length compare like their numbers.
        let below_prime = length < PRIME_DIGITS.len()
            || length == PRIME_DIGITS.len() && digits < PRIME_DIGITS.as_slice();
        let minimal = digits == b"0" || digits.first().is_some_and(|first| *first != b'0');
        if !below_prime || !minimal || !hex::are_lower(digits) {
            return false;
        }
        rest = match behind {
            b"\"]" => return true,
            [b'"', b',', rest @ ..] => rest,
            _ => return false,
        };
    }
}

/// The longest text of a felt in a list, as we print it.
const FELT_TEXT_MAX: usize = r#""0x","#.len() + PRIME_DIGITS.len();

const PRIME_DIGITS: &[u8; 63] = b"800000000000011000000000000000000000000000000000000000000000001";

/// Why a JSON value is no list of felts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FeltsError {
    /// It is something else altogether.
    #[error("expected an array of felts, not {shown}")]
    NotAnArray {
        /// The value, or its beginning.
        shown: String,
    },
    /// One of them is no felt.
    #[error(transparent)]
    Felt(#[from] FeltError),
}

/// Why one of a list is no felt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("felt {index} {fault}: {shown}")]
pub struct FeltError {
    /// Its place in the list, counted from 0.
    pub index: usize,
    /// What is wrong with it.
    pub fault: FeltFault,
    /// The value as JSON, or its beginning.
    pub shown: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(felts: &[Felt]) -> String {
        let mut out = Vec::new();
        write(felts, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_refusal_names_the_felt_and_why() {
        for (text, want) in [
            (r#"["0x1","0x2",10]"#, "felt 2 is not a string: 10"),
            (r#"["2710"]"#, r#"felt 0 must begin with 0x: "2710""#),
            (r#"["0x1", [ "0x1" ]]"#, r#"felt 1 is not a string: [ "0x1" ]"#),
            (r#"[null]"#, "felt 0 is not a string: null"),
            (r#"["0x"]"#, r#"felt 0 has no digits behind 0x: "0x""#),
            (r#"["0xg"]"#, r#"felt 0 is not hexadecimal: "0xg""#),
            (r#""0x1""#, r#"expected an array of felts, not "0x1""#),
            (
                r#"["0x800000000000011000000000000000000000000000000000000000000000001"]"#,
                r#"felt 0 is not below the field prime: "0x800000000000011000000000000000000000000000000000000000000000001""#,
            ),
        ] {
            assert_eq!(read(text, Leniency::Strict).unwrap_err().to_string(), want);
            assert_eq!(canonical(text, Leniency::Strict).unwrap_err().to_string(), want);
        }
        let error = read_words(["0x1", "a\"b"], Leniency::Strict).unwrap_err();
        assert_eq!(error.to_string(), r#"felt 1 must begin with 0x: "a\"b""#);
    }

    #[test]
    fn what_is_canonical_is_passed_on_untouched() {
        for text in ["[]", r#"["0x0"]"#, r#"["0x1","0xabcdef"]"#] {
            assert!(matches!(canonical(text, Leniency::Strict), Ok(Cow::Borrowed(_))), "{text}");
        }
        for (text, want) in [
            ("[ ]", "[]"),
            (r#"[ "0x1" ]"#, r#"["0x1"]"#),
            (r#"["0x01","0xA"]"#, r#"["0x1","0xa"]"#),
            (r#"["\u0030x1","0x\u0041"]"#, r#"["0x1","0xa"]"#),
        ] {
            assert_eq!(canonical(text, Leniency::Strict).unwrap(), want);
        }
        let prime = r#"["0x800000000000011000000000000000000000000000000000000000000000001"]"#;
        assert_eq!(canonical(prime, Leniency::Lenient).unwrap(), r#"["0x0"]"#);
    }

    proptest! {
        #[test]
        fn lists_go_out_and_come_back(numbers: Vec<u128>) {
            let felts: Vec<Felt> = numbers
                .iter()
                .flat_map(|number| [Felt::from(*number), Felt::from(*number).negated()])
                .collect();
            let text = written(&felts);
            prop_assert_eq!(read(&text, Leniency::Strict).unwrap(), felts);
            prop_assert!(matches!(canonical(&text, Leniency::Strict), Ok(Cow::Borrowed(_))));
        }

        #[test]
        fn canonical_and_read_agree(text in r#"\[("0x[0-9a-fA]{0,66}"|[ ,"0x\\\[\]1]){0,6}\]?"#) {
            let read = read(&text, Leniency::Strict).map(|felts| written(&felts));
            prop_assert_eq!(canonical(&text, Leniency::Strict).map(Cow::into_owned), read);
        }
    }
}
