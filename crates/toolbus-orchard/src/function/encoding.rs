//! Values and text in other shapes: JSON, base64, percent form, hexadecimal.

use std::fmt::Write;

use toolbus_proto::json::Json;

use super::{Call, Fault, Function, Outcome, Parameter, bad, function, gives, text_of};
use crate::diagnostic::Code;
use crate::value::{Misfit, from_any_json};

const S: Parameter = Parameter::Text;

pub(super) const FUNCTIONS: &[Function] = &[
    function("jsonencode(v)", &[Parameter::Any], gives::text, |call| {
        let json = call.value(0).to_json().map_err(|unknown| bad(unknown.to_string()))?;
        text_of(json.as_str())
    }),
    function("jsondecode(s)", &[S], gives::any, jsondecode),
    function("base64encode(s)", &[S], gives::text, |call| text_of(base64(call.text(0).as_bytes()))),
    function("base64decode(s)", &[S], gives::text, |call| {
        let fault = |message: &str| bad(message).of(0);
        decoded(from_base64(call.text(0)).ok_or_else(|| fault("the text is no base64"))?)
    }),
    function("urlencode(s)", &[S], gives::text, urlencode),
    function("urldecode(s)", &[S], gives::text, urldecode),
    function("hexencode(s)", &[S], gives::text, |call| text_of(hex(call.text(0).as_bytes()))),
    function("hexdecode(s)", &[S], gives::text, |call| {
        let fault = || bad("the text is no hexadecimal: two of 0-9, a-f for each byte").of(0);
        decoded(from_hex(call.text(0)).ok_or_else(fault)?)
    }),
];

fn jsondecode(call: &Call<'_>) -> Outcome {
    let json = Json::parse(call.text(0).to_owned())
        .map_err(|error| bad(format!("the text is no JSON: {error}")).of(0))?;
    from_any_json(&json).map_err(|mismatch| match mismatch.fault {
        Misfit::TooManyElements => super::too_big(),
        Misfit::TooManyDigits => {
            Fault { code: Code::NumberTooLarge, ..bad("a number in it is out of range") }
        }
        fault => bad(fault.to_string()).of(0),
    })
}

/// Bytes that must be text.
fn decoded(bytes: Vec<u8>) -> Outcome {
    let text = String::from_utf8(bytes);
    text_of(text.map_err(|_| bad("what it stands for is no text (UTF-8)").of(0))?)
}

/// Two digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |&[high, low]: &[u8; 2]| Some((digit(high)? * 16 + digit(low)?) as u8);
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Standard base64 with `=` at the end.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = BASE64[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || 2 < text.len() - letters.len() {
        return None;
    }
    let mut out = Vec::with_capacity(letters.len() / 4 * 3 + 3);
    for four in letters.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for letter in four {
            bits = bits << 6 | BASE64.iter().position(|known| known == letter)? as u32;
        }
        let bytes = four.len() * 6 / 8;
        bits <<= 6 * (4 - four.len());
        // Bits that belong to no byte must be nought, or two texts would mean one thing.
        if bits & ((1 << (24 - 8 * bytes)) - 1) != 0 {
            return None;
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..=bytes]);
    }
    Some(out)
}

fn urlencode(call: &Call<'_>) -> Outcome {
    let mut out = String::with_capacity(call.text(0).len());
    for byte in call.text(0).bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    text_of(out)
}

fn urldecode(call: &Call<'_>) -> Outcome {
    let mut out = Vec::with_capacity(call.text(0).len());
    let mut parts = call.text(0).split('%');
    out.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let byte = part.get(..2).and_then(from_hex);
        let fault = || bad("a `%` must be followed by two hexadecimal digits").of(0);
        out.extend(byte.ok_or_else(fault)?);
        out.extend_from_slice(&part.as_bytes()[2..]);
    }
    decoded(out)
}
