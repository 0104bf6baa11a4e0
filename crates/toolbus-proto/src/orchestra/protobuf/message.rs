//! Messages made of fields: declared once, by `message!` and `members!`, they are read,
//! written and printed alike.
//!
//! Fields are written by number, map entries by key, and what has its default value is left
//! out. They are read in any order; the last of a scalar counts, and a message that is given
//! twice is merged.

use bytes::Bytes;

use super::Malformed;
use super::read::{Field, Reader};
use crate::json::write_string;

/// What can stand in a field as a message.
pub trait Message: Default {
    /// Takes one field. `whole` is the buffer that it stands in.
    fn take(&mut self, whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed>;

    /// How many bytes it takes.
    fn size(&self) -> usize;

    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);

    /// Appends it as JSON, for people who look at a wire.
    fn print(&self, out: &mut Vec<u8>);

    /// Has all been read? Asked once, behind the last field.
    fn check(&self) -> Result<(), Malformed> {
        Ok(())
    }

    /// Reads what `part`, a part of `whole`, says beyond what is known already.
    fn merge(&mut self, whole: &Bytes, part: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(part);
        while let Some(field) = reader.field()? {
            self.take(whole, &field)?;
        }
        self.check()
    }

    /// Reads a whole message.
    fn read(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut message = Self::default();
        message.merge(bytes, bytes)?;
        Ok(message)
    }

    /// The message as bytes.
    fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.size());
        self.write(&mut out);
        out.into()
    }
}

/// What a field of a message may be.
pub trait Kind {
    /// Takes what one field says.
    fn take(&mut self, whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed>;
    /// Is it left out?
    fn is_default(&self) -> bool;
    /// How many bytes it takes as this field.
    fn size(&self, number: u32) -> usize;
    /// Appends it as this field.
    fn write(&self, number: u32, out: &mut Vec<u8>);
    /// Appends it as JSON.
    fn print(&self, out: &mut Vec<u8>);
}

/// Appends entries with commas between them.
pub(crate) fn print_list<T>(
    out: &mut Vec<u8>,
    opening: u8,
    closing: u8,
    entries: impl IntoIterator<Item = T>,
    mut print: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(opening);
    for (index, entry) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        print(out, entry);
    }
    out.push(closing);
}

/// Appends the name of a member, and a comma before it unless it is the first.
pub(crate) fn print_name(out: &mut Vec<u8>, name: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write_string(out, name);
    out.push(b':');
}

/// Fields that a message does not know, as they came, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unknown(Vec<u8>);

impl Unknown {
    /// One more of them.
    pub(crate) fn push(&mut self, field: &Field<'_>) {
        self.0.extend_from_slice(field.whole);
    }

    /// All of them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Declares messages: `NUMBER name: Type` for each field, by ascending number.
macro_rules! message {
    ($($(#[$about:meta])* $name:ident { $($number:literal $field:ident: $ty:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name {
            $(pub $field: $ty,)*
            /// What it says beyond what we know.
            pub unknown: Unknown,
        }

        impl Message for $name {
            fn take(&mut self, _whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
                match field.number {
                    $($number => Kind::take(&mut self.$field, _whole, field),)*
                    _ => {
                        self.unknown.push(field);
                        Ok(())
                    }
                }
            }

            fn size(&self) -> usize {
                let fields = [$(if self.$field.is_default() {
                    0
                } else {
                    Kind::size(&self.$field, $number)
                },)*];
                fields.iter().sum::<usize>() + self.unknown.as_bytes().len()
            }

            fn write(&self, out: &mut Vec<u8>) {
                $(if !self.$field.is_default() {
                    Kind::write(&self.$field, $number, out);
                })*
                out.extend_from_slice(self.unknown.as_bytes());
            }

            fn print(&self, out: &mut Vec<u8>) {
                out.push(b'{');
                $(if !self.$field.is_default() {
                    print_name(out, stringify!($field).trim_start_matches("r#"));
                    Kind::print(&self.$field, out);
                })*
                out.push(b'}');
            }
        }
    )*};
}

/// Declares what an envelope may hold: `NUMBER name Variant(Message)` for each.
macro_rules! members {
    ($($(#[$about:meta])* $name:ident {
        $($number:literal $field:ident $variant:ident($ty:ty),)*
    })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs)]
        #[allow(clippy::large_enum_variant, reason = "one at a time, and soon taken apart")]
        pub enum $name {
            $($variant($ty),)*
        }

        impl $name {
            /// The name of the member of this number.
            pub fn name_of(number: u32) -> Option<&'static str> {
                match number {
                    $($number => Some(stringify!($field)),)*
                    _ => None,
                }
            }

            /// Its number in the envelope.
            pub fn number(&self) -> u32 {
                match self {
                    $($name::$variant(_) => $number,)*
                }
            }

            /// Reads the member of this number; `None` if we know none.
            pub fn read(number: u32, body: &Bytes) -> Result<Option<$name>, Malformed> {
                Ok(Some(match number {
                    $($number => $name::$variant(Message::read(body)?),)*
                    _ => return Ok(None),
                }))
            }

            fn size(&self) -> usize {
                match self {
                    $($name::$variant(message) => Message::size(message),)*
                }
            }

            /// Appends tag, length and message.
            pub fn write(&self, out: &mut Vec<u8>) {
                let (number, size) = (self.number(), self.size());
                out.reserve(bytes_len(number, size));
                put_bytes_header(out, number, size);
                match self {
                    $($name::$variant(message) => Message::write(message, out),)*
                }
            }

            /// Appends the message as JSON.
            pub fn print(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant(message) => Message::print(message, out),)*
                }
            }
        }

        $(impl From<$ty> for $name {
            fn from(message: $ty) -> $name {
                $name::$variant(message)
            }
        })*
    )*};
}

pub(crate) use {members, message};

/// Appends a number as an enum: by name if it has one.
pub(crate) fn print_enum(out: &mut Vec<u8>, names: &[&str], number: i32) {
    match usize::try_from(number).ok().and_then(|number| names.get(number)) {
        Some(name) => write_string(out, name),
        None => out.extend_from_slice(number.to_string().as_bytes()),
    }
}
