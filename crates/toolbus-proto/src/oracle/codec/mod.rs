//! Between felts, as Cairo's `Serde` lays them out, and JSON.
//!
//! A signature says which types stand where. Felts and JSON both come from strangers: what
//! does not fit is refused with its place, and no more is allocated than what came in or the
//! limits below allow.

use std::fmt;

use thiserror::Error;

use self::{decode::Decoder, encode::Encoder};
pub(crate) use self::{read::Reader, scalar::push_byte_array};
use super::{
    felt::Felt,
    signature::{Function, NESTING_MAX},
};
use crate::json::JsonError;
use crate::printable::beginning;

mod decode;
mod encode;
mod read;
mod scalar;

/// The most felts that a value may take: more do not fit a line of 64 MiB.
pub const FELTS_MAX: usize = 64 * 1024 * 1024 / r#""0x0","#.len();

/// The longest JSON text that felts are turned into.
pub const JSON_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How the arguments of a call are laid out in JSON for the tool that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgsForm {
    /// As results are, for a tool that reads them by the same signature.
    Signature,
    /// As tools expect them: an absent option is left out, one that is there is just itself.
    Plain,
    /// The only parameter is all of the arguments.
    Whole,
}

/// The felts for these arguments: a JSON array by position, or an object by name.
///
/// The text is one JSON value; the caller has checked that.
pub fn encode_args(function: &Function, args: &str) -> Result<Vec<Felt>, CodecError> {
    Encoder::new(&function.types, args)
        .args(&function.params)
        .map_err(|misfit| misfit.of(Whole::Arguments))
}

/// The arguments that these felts are, as compact JSON. Integers are numbers, however large.
pub fn decode_args(
    function: &Function,
    form: ArgsForm,
    felts: &[Felt],
) -> Result<String, CodecError> {
    Decoder::new(&function.types, decode::Numbers::Exact, felts)
        .args(&function.params, form)
        .map_err(|misfit| misfit.of(Whole::Parameters))
}

/// The felts for this result, which is one JSON value.
pub fn encode_result(function: &Function, json: &str) -> Result<Vec<Felt>, CodecError> {
    Encoder::new(&function.types, json)
        .result(function.result)
        .map_err(|misfit| misfit.of(Whole::Result))
}

/// The result that these felts are, as compact JSON. Integers that a JSON reader might round
/// are decimal strings.
pub fn decode_result(function: &Function, felts: &[Felt]) -> Result<String, CodecError> {
    Decoder::new(&function.types, decode::Numbers::Safe, felts)
        .result(function.result)
        .map_err(|misfit| misfit.of(Whole::Result))
}

/// Why a value does not fit its signature, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct CodecError {
    whole: Whole,
    path: String,
    fault: CodecFault,
}

impl CodecError {
    /// What is wrong there.
    pub fn fault(&self) -> &CodecFault {
        &self.fault
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CodecError { whole, path, fault } = self;
        match (whole, path.as_str()) {
            (Whole::Arguments | Whole::Parameters, "") => write!(f, "the argument list {fault}"),
            (Whole::Arguments, path) => write!(f, "argument `{path}` {fault}"),
            (Whole::Parameters, path) => write!(f, "parameter `{path}` {fault}"),
            (Whole::Result, "") => write!(f, "the result {fault}"),
            (Whole::Result, path) => write!(f, "`{path}` of the result {fault}"),
        }
    }
}

/// What the value is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// The JSON arguments of a call.
    Arguments,
    /// The felts of a call, its calldata.
    Parameters,
    Result,
}

/// What can be wrong with a value, told as ``argument `p.x` …``.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // each says it in its message
pub enum CodecFault {
    #[error("must be {wanted}, not {found}")]
    Wrong { wanted: String, found: String },
    #[error("is missing")]
    Missing,
    #[error("is unknown")]
    Unknown,
    #[error("is given twice")]
    Twice,
    #[error("has more than the {takes} values that the function takes")]
    TooManyArguments { takes: usize },
    #[error("is not JSON")]
    NotJson,
    #[error("is nested deeper than {NESTING_MAX}")]
    TooDeep,
    #[error("takes more than {FELTS_MAX} felts")]
    TooManyFelts,
    #[error("takes more than {JSON_BYTES_MAX} bytes as JSON")]
    TooMuchJson,
    #[error("needs felt {index}, which is missing")]
    FeltMissing { index: usize },
    #[error("must be {wanted}, but felt {index} is {found}")]
    FeltWrong { wanted: String, index: usize, found: Felt },
    #[error("has the length {length} in felt {index}, but only {left} felts follow")]
    LengthWrong { length: Felt, index: usize, left: usize },
    #[error("must be JSON, but the text that begins at felt {index} is not")]
    TextNotJson { index: usize },
    #[error("must be UTF-8, but the text that begins at felt {index} is not")]
    TextNotUtf8 { index: usize },
    #[error("ends before felt {index}, which is left over")]
    FeltLeftOver { index: usize },
}

/// A fault on its way up to where it is known what the value is part of.
pub(crate) struct Misfit {
    path: String,
    fault: CodecFault,
}

impl Misfit {
    pub(crate) fn of(self, whole: Whole) -> CodecError {
        CodecError { whole, path: self.path, fault: self.fault }
    }

    pub(crate) fn in_member(self, name: &str) -> Misfit {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Misfit { path: format!("{}{dot}{}", beginning(name), self.path), ..self }
    }

    fn in_element(self, index: usize) -> Misfit {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Misfit { path: format!("[{index}]{dot}{}", self.path), ..self }
    }
}

impl From<CodecFault> for Misfit {
    fn from(fault: CodecFault) -> Misfit {
        Misfit { path: String::new(), fault }
    }
}

impl From<JsonError> for Misfit {
    fn from(error: JsonError) -> Misfit {
        match error {
            JsonError::TooDeep => CodecFault::TooDeep.into(),
            JsonError::NotUtf8 | JsonError::Unexpected { .. } => CodecFault::NotJson.into(),
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
