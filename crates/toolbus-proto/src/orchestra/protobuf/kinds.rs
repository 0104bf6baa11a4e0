//! What a field may hold: texts, bytes, numbers, messages, several of them, and maps.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Malformed;
use super::message::{Kind, Message, print_list};
use super::read::{Field, Reader};
use super::write::{bytes_len, put_bytes, put_bytes_header, put_number, tag_len, varint_len};
use crate::collect::base64;
use crate::json::write_string;

impl Kind for String {
    fn take(&mut self, _whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        *self = field.text()?.to_owned();
        Ok(())
    }

    fn is_default(&self) -> bool {
        self.is_empty()
    }

    fn size(&self, number: u32) -> usize {
        bytes_len(number, self.len())
    }

    fn write(&self, number: u32, out: &mut Vec<u8>) {
        put_bytes(out, number, self.as_bytes());
    }

    fn print(&self, out: &mut Vec<u8>) {
        write_string(out, self);
    }
}

impl Kind for Bytes {
    fn take(&mut self, whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        *self = whole.slice_ref(field.bytes()?);
        Ok(())
    }

    fn is_default(&self) -> bool {
        self.is_empty()
    }

    fn size(&self, number: u32) -> usize {
        bytes_len(number, self.len())
    }

    fn write(&self, number: u32, out: &mut Vec<u8>) {
        put_bytes(out, number, self);
    }

    fn print(&self, out: &mut Vec<u8>) {
        write_string(out, &base64(self));
    }
}

/// A number of variable length; a negative one takes ten bytes, as it does everywhere.
macro_rules! number {
    ($ty:ty, $from:expr, $to:expr) => {
        impl Kind for $ty {
            fn take(&mut self, _whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
                *self = $from(field.varint()?);
                Ok(())
            }

            fn is_default(&self) -> bool {
                *self == <$ty>::default()
            }

            fn size(&self, number: u32) -> usize {
                tag_len(number) + varint_len($to(*self))
            }

            fn write(&self, number: u32, out: &mut Vec<u8>) {
                put_number(out, number, $to(*self));
            }

            fn print(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.to_string().as_bytes());
            }
        }
    };
}

number!(bool, |number: u64| number != 0, u64::from);
number!(i32, |number: u64| number as i32, |number: i32| i64::from(number) as u64);
number!(i64, |number: u64| number as i64, |number: i64| number as u64);

impl<M: Message> Kind for Option<M> {
    fn take(&mut self, whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        self.get_or_insert_default().merge(whole, field.bytes()?)
    }

    /// Given and empty is not the same as not given.
    fn is_default(&self) -> bool {
        self.is_none()
    }

    fn size(&self, number: u32) -> usize {
        self.as_ref().map_or(0, |message| bytes_len(number, message.size()))
    }

    fn write(&self, number: u32, out: &mut Vec<u8>) {
        if let Some(message) = self {
            put_bytes_header(out, number, message.size());
            message.write(out);
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        if let Some(message) = self {
            message.print(out);
        }
    }
}

impl<M: Message> Kind for Vec<M> {
    fn take(&mut self, whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        let mut message = M::default();
        message.merge(whole, field.bytes()?)?;
        self.push(message);
        Ok(())
    }

    fn is_default(&self) -> bool {
        self.is_empty()
    }

    fn size(&self, number: u32) -> usize {
        self.iter().map(|message| bytes_len(number, message.size())).sum()
    }

    fn write(&self, number: u32, out: &mut Vec<u8>) {
        for message in self {
            put_bytes_header(out, number, message.size());
            message.write(out);
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        print_list(out, b'[', b']', self, |out, message| message.print(out));
    }
}

impl Kind for Vec<String> {
    fn take(&mut self, _whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        self.push(field.text()?.to_owned());
        Ok(())
    }

    fn is_default(&self) -> bool {
        self.is_empty()
    }

    fn size(&self, number: u32) -> usize {
        self.iter().map(|text| bytes_len(number, text.len())).sum()
    }

    fn write(&self, number: u32, out: &mut Vec<u8>) {
        self.iter().for_each(|text| put_bytes(out, number, text.as_bytes()));
    }

    fn print(&self, out: &mut Vec<u8>) {
        print_list(out, b'[', b']', self, |out, text| write_string(out, text));
    }
}

impl Kind for BTreeMap<String, String> {
    fn take(&mut self, _whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        let (mut key, mut value) = ("", "");
        let mut reader = Reader::new(field.bytes()?);
        while let Some(field) = reader.field()? {
            match field.number {
                1 => key = field.text()?,
                2 => value = field.text()?,
                _ => {}
            }
        }
        self.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn is_default(&self) -> bool {
        self.is_empty()
    }

    fn size(&self, number: u32) -> usize {
        self.iter().map(|(key, value)| bytes_len(number, entry_len(key, value))).sum()
    }

    /// Both halves of an entry are written, even when they are empty.
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        for (key, value) in self {
            put_bytes_header(out, number, entry_len(key, value));
            put_bytes(out, 1, key.as_bytes());
            put_bytes(out, 2, value.as_bytes());
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        print_list(out, b'{', b'}', self, |out, (key, value)| {
            write_string(out, key);
            out.push(b':');
            write_string(out, value);
        });
    }
}

fn entry_len(key: &str, value: &str) -> usize {
    bytes_len(1, key.len()) + bytes_len(2, value.len())
}
