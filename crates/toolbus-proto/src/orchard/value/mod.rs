//! JSON values and types: does a value fit, and what becomes of it where it must be converted.
//!
//! A host converts by HCL's rules before it sends ([`convert`]); a provider takes only what
//! fits as it is ([`check()`]). Both read the text once and keep the digits of every number.

mod check;
mod convert;

use std::borrow::Cow;
use std::fmt::{self, Write};

use thiserror::Error;

use super::types::{Type, is_identifier, quoted};
use crate::json::{Json, JsonError, Kind, Scanner};
use crate::jsonrpc::string;

/// A value that was brought to a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The value: compact, keys sorted, numbers in plain digits.
    pub value: Json,
    /// Members that the type does not have, by their paths; they are not in the value.
    pub dropped: Vec<String>,
}

/// Brings a value to a type: number and bool to string, decimal text to number, `true` and
/// `false` to bool, arrays and objects element by element. `null` fits every type.
pub fn convert(ty: &Type, value: &Json) -> Result<Converted, Mismatch> {
    let mut out = Vec::with_capacity(value.as_bytes().len());
    let dropped = convert::write(ty, value.as_str(), &mut out)?;
    Ok(Converted { value: Json::from_trusted(out), dropped })
}

/// As [`convert`], of text that is known to be JSON, written behind what is in `out` already.
/// Gives the paths of what was dropped.
pub(super) fn write(ty: &Type, value: &str, out: &mut Vec<u8>) -> Result<Vec<String>, Mismatch> {
    convert::write(ty, value, out)
}

/// Does this JSON text fit the type as it is? Nothing is converted; members that an object type
/// does not have are let pass.
pub fn check(ty: &Type, value: &str) -> Result<(), Mismatch> {
    check::check(ty, value)
}

/// Where and why a value does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{}{fault}", path.strip_prefix('.').unwrap_or(path), if path.is_empty() { "" } else { ": " })]
pub struct Mismatch {
    /// The way into the value, such as `.rows[2]["odd key"]`; empty for the value itself.
    pub path: String,
    /// What is wrong there.
    pub fault: Misfit,
}

/// Why a value does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Misfit {
    /// A value of another kind.
    #[error("want {want}, got {got}")]
    Kind {
        /// What is wanted, in the words of refusals: `string`, `number`, `bool`, `list`, `object`.
        want: &'static str,
        /// What is there: one of these, or `null`.
        got: &'static str,
    },
    /// A tuple with too few or too many elements.
    #[error("want a list of {want}, got a list of {got}")]
    Length {
        /// How many places the tuple has.
        want: usize,
        /// How many elements came.
        got: usize,
    },
    /// A key of an object that must be there and is not.
    #[error("required")]
    Required,
    /// A number whose exponent stands for far too many zeros.
    #[error("the number has too many digits")]
    TooManyDigits,
    /// More elements than a value may have.
    #[error("the value has too many elements")]
    TooManyElements,
    /// No JSON at all, which only a mistake of our own can bring here.
    #[error("{0}")]
    NotJson(JsonError),
}

impl Mismatch {
    /// The same, of a value that stands at `root`.
    #[must_use]
    pub fn under(mut self, root: &str) -> Mismatch {
        self.path.insert_str(0, root);
        self
    }
}

/// The word for a kind of value in refusals.
pub(crate) fn kind_shown(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Bool => "bool",
        Kind::Number => "number",
        Kind::String => "string",
        Kind::Array => "list",
        Kind::Object => "object",
    }
}

/// A name as it continues a path: `.name`, or `["odd name"]`.
pub(crate) fn path_step(name: &str) -> String {
    match is_identifier(name) {
        true => format!(".{name}"),
        false => format!("[{}]", quoted(name)),
    }
}

/// One step of the way into a value.
enum Step<'a> {
    Key(Cow<'a, str>),
    Index(usize),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Key(name) => f.write_str(&path_step(name)),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn shown(path: &[Step<'_>]) -> String {
    path.iter().fold(String::new(), |mut shown, step| {
        let _ = write!(shown, "{step}");
        shown
    })
}

/// The name that a raw key spells. One with an escape that stands for no character is told by
/// how it is written.
fn name(raw: &str) -> Cow<'_, str> {
    string(raw).unwrap_or(Cow::Borrowed(raw))
}

/// The kind of the value that stands next.
fn next_kind(scanner: &mut Scanner<'_>) -> Kind {
    scanner.next_byte().map_or(Kind::Null, Kind::of)
}

/// Why a value of this kind does not fit.
fn unfit(ty: &Type, got: Kind) -> Misfit {
    Misfit::Kind { want: ty.kind().unwrap_or("any value"), got: kind_shown(got) }
}

#[cfg(test)]
mod tests;
