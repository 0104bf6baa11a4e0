//! Signatures: what an oracle's function is called, takes and gives, as one line of text.
//!
//! `sqrt(x: u128) -> Option<u128>` is one; structs and enums it uses stand before it. People
//! write them in flags and configs, and our oracles offer them when they are ready. What the
//! types mean in felts and in JSON is the codec's business.

use std::{fmt, sync::Arc};

use thiserror::Error;

pub use self::parse::parse;
pub(crate) use self::types::{I128, Integer, Members, Type, TypeId, Types, U128};

mod parse;
mod print;
mod tokens;
mod types;

/// How deep types may be nested, in their text and in the values they describe.
pub const NESTING_MAX: usize = crate::json::DEPTH_MAX;

/// The longest text of signatures that is looked at.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// One function with all the types it uses.
#[derive(Clone)]
pub struct Function {
    pub(crate) name: String,
    pub(crate) params: Members<TypeId>,
    pub(crate) result: TypeId,
    /// Shared by all functions of one text, since each copy would be as long as the text.
    pub(crate) types: Arc<Types>,
}

impl Function {
    /// The name it is called by: the selector.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same function under another name.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Function {
        Function { name: name.to_owned(), ..self.clone() }
    }

    /// The same function for callers who do not give these of its parameters.
    #[must_use]
    pub fn without(&self, is_given: impl Fn(&str) -> bool) -> Function {
        let left = self.params.iter().filter(|(name, _)| !is_given(name));
        let left = left.map(|(name, ty)| (name.to_owned(), *ty)).collect();
        let params = Members::new(left).expect("fewer names are no more alike");
        Function { params, ..self.clone() }
    }

    /// The names of its parameters, in order.
    pub fn params(&self) -> impl Iterator<Item = &str> {
        self.params.iter().map(|(name, _)| name)
    }

    /// The text that means this function and no other, definitions included.
    pub fn canonical(&self) -> String {
        print::canonical(self)
    }
}

/// Functions are the same if they are written the same.
impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Eq for Function {}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical())
    }
}

/// Why a text holds no signatures, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{fault}, at byte {offset} of the signature")]
pub struct SignatureError {
    /// How many bytes stand before the place.
    pub offset: usize,
    /// What is wrong there.
    pub fault: SignatureFault,
}

/// What can be wrong with a signature.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // each says it in its message
pub enum SignatureFault {
    #[error("expected {wanted}, found {found}")]
    Syntax { wanted: &'static str, found: String },
    #[error("an array holds at most 65535 elements, not {found}")]
    LengthTooLarge { found: String },
    #[error("there is no type `{name}`")]
    UnknownType { name: String },
    #[error("`{name}` is a type already and cannot be defined")]
    DefinedByUs { name: String },
    #[error("the type `{name}` is defined twice")]
    TypeTwice { name: String },
    #[error("the function `{name}` is declared twice")]
    FunctionTwice { name: String },
    #[error("two members are named `{name}`")]
    MemberTwice { name: String },
    #[error("a type contains itself; it may only through an Array or a Span")]
    ContainsItself,
    #[error("the elements of `{name}` take no felts, so their number means nothing")]
    EmptyElements { name: String },
    #[error("types are nested deeper than {NESTING_MAX}")]
    TooDeep,
    #[error("the text is longer than {TEXT_BYTES_MAX} bytes")]
    TooLong,
    #[error("there is no function")]
    NoFunction,
}

impl SignatureFault {
    fn at(self, offset: usize) -> SignatureError {
        SignatureError { offset, fault: self }
    }
}

#[cfg(test)]
mod tests;
