//! Why a text is no type.

use thiserror::Error;

use super::{DEPTH_MAX, quoted};
use crate::orchard::value::Mismatch;

/// Why a text is no type, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{fault}")]
pub struct TypeError {
    /// Where the fault is, in bytes from the beginning of the text.
    pub offset: usize,
    /// What is wrong there.
    pub fault: TypeFault,
}

/// What is wrong with the text of a type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TypeFault {
    /// A name that is no type's.
    #[error("there is no type `{name}`{}", meant.as_ref().map_or(String::new(), |meant| format!(", did you mean `{meant}`?")))]
    Unknown {
        /// The name.
        name: String,
        /// What was probably meant.
        meant: Option<&'static str>,
    },
    /// `list`, `set` or `map` without the type of its elements.
    #[error("`{name}` needs the type of its elements, such as `{name}(string)`")]
    Bare {
        /// Which of them.
        name: String,
    },
    /// `tuple` or `object` without its parts.
    #[error("`{name}` needs its parts, such as `{}`", if name == "tuple" { "tuple([string, number])" } else { "object({ name = string })" })]
    NoParts {
        /// Which of them.
        name: String,
    },
    /// `optional` where there is nothing to leave out.
    #[error("`optional` can only stand for a key of an `object`")]
    Optional,
    /// Something else was expected here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What should stand here.
        expected: &'static str,
        /// What stands here.
        found: String,
    },
    /// A key for the second time.
    #[error("key {} stands twice", quoted(.0))]
    Repeated(String),
    /// A default that is not of its type.
    #[error("the default does not fit: {0}")]
    Default(Mismatch),
    /// A default that would have to be evaluated.
    #[error("a default must be a plain value, without references, calls or templates")]
    NotPlain,
    /// A string with an escape that HCL does not have.
    #[error("the string has an escape that means no character")]
    Escape,
    /// Types inside each other beyond the limit.
    #[error("types are nested deeper than {DEPTH_MAX}")]
    TooDeep,
}
