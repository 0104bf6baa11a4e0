//! Protobuf as far as Orchestra needs it: fields cut out of bytes, and bytes made of fields.
//!
//! [`read`] finds fields without a copy, [`mod@write`] puts them down, [`message`] makes messages
//! of both. What a message does not know it keeps, and gives back behind what it knows.

mod kinds;
pub mod message;
pub mod read;
pub mod write;

use thiserror::Error;

/// Why bytes are no Protobuf, or not the message they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A field is longer than what holds it.
    #[error("the message ends inside a field")]
    Cut,
    /// A variable-length number is too long.
    #[error("a number of more than 64 bits")]
    Varint,
    /// A field number outside of 1 to 536870911.
    #[error("there is no field number {0}")]
    Number(u64),
    /// A wire type that does not exist.
    #[error("there is no wire type {0}")]
    WireType(u8),
    /// Groups end that have not begun, or do not end, or are nested too deep.
    #[error("groups do not match")]
    Group,
    /// A string that is not UTF-8.
    #[error("field {0} is no UTF-8")]
    NotUtf8(u32),
    /// A known field of another wire type.
    #[error("field {0} has the wrong wire type")]
    WrongType(u32),
    /// A `Struct` nested deeper than JSON may be.
    #[error("nested deeper than {}", crate::json::DEPTH_MAX)]
    TooDeep,
}
