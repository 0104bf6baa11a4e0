//! Fields, cut out of the bytes they stand in.

use super::Malformed;

/// Field numbers go up to here.
const NUMBER_MAX: u64 = (1 << 29) - 1;
/// Groups inside each other beyond this are not stepped over.
const GROUPS_MAX: usize = 128;

/// Steps through the fields of a message.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// What it holds.
    pub value: Raw<'a>,
    /// The whole of it, tag included.
    pub whole: &'a [u8],
}

/// What a field holds, by its wire type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raw<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// An old form of message, which is only ever stepped over.
    Group,
    /// Four bytes.
    Fixed32(u32),
}

impl<'a> Field<'a> {
    /// The bytes of a string, of bytes or of a message.
    pub fn bytes(&self) -> Result<&'a [u8], Malformed> {
        match self.value {
            Raw::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::WrongType(self.number)),
        }
    }

    /// The text of a string.
    pub fn text(&self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::NotUtf8(self.number))
    }

    /// The number of a boolean, an enum, an `int32` or an `int64`.
    pub fn varint(&self) -> Result<u64, Malformed> {
        match self.value {
            Raw::Varint(number) => Ok(number),
            _ => Err(Malformed::WrongType(self.number)),
        }
    }

    /// The number of a `double`.
    pub fn double(&self) -> Result<f64, Malformed> {
        match self.value {
            Raw::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Malformed::WrongType(self.number)),
        }
    }
}

impl<'a> Reader<'a> {
    /// Stands before the first field of `message`.
    pub fn new(message: &'a [u8]) -> Reader<'a> {
        Reader { rest: message }
    }

    /// The next field, or `None` at the end of the message.
    pub fn field(&mut self) -> Result<Option<Field<'a>>, Malformed> {
        let from = self.rest;
        if from.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let value = match wire_type {
            3 => {
                self.skip_group(number)?;
                Raw::Group
            }
            4 => return Err(Malformed::Group),
            _ => self.value(wire_type)?,
        };
        let whole = &from[..from.len() - self.rest.len()];
        Ok(Some(Field { number, value, whole }))
    }

    fn tag(&mut self) -> Result<(u32, u8), Malformed> {
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || NUMBER_MAX < number {
            return Err(Malformed::Number(number));
        }
        Ok((number as u32, (tag & 7) as u8))
    }

    fn value(&mut self, wire_type: u8) -> Result<Raw<'a>, Malformed> {
        Ok(match wire_type {
            0 => Raw::Varint(self.varint()?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = self.varint()?;
                let len = usize::try_from(len).map_err(|_| Malformed::Cut)?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Cut)?;
                self.rest = rest;
                Raw::Bytes(bytes)
            }
            5 => Raw::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(Malformed::WireType(other)),
        })
    }

    /// Behind the tag that begins a group: up to and over the one that ends it.
    fn skip_group(&mut self, number: u32) -> Result<(), Malformed> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            let (number, wire_type) = self.tag()?;
            match wire_type {
                3 if open.len() == GROUPS_MAX => return Err(Malformed::Group),
                3 => open.push(number),
                4 if number == innermost => {
                    open.pop();
                }
                4 => return Err(Malformed::Group),
                _ => {
                    self.value(wire_type)?;
                }
            }
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed::Cut)?;
        self.rest = rest;
        Ok(*array)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for (index, &byte) in self.rest.iter().enumerate() {
            // Of the tenth byte there is room for one bit.
            if index == 10 || (index == 9 && 1 < byte) {
                return Err(Malformed::Varint);
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(number);
            }
        }
        Err(Malformed::Cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(message: &[u8]) -> Result<Vec<Raw<'_>>, Malformed> {
        let mut reader = Reader::new(message);
        std::iter::from_fn(|| reader.field().transpose())
            .map(|field| field.map(|field| field.value))
            .collect()
    }

    #[test]
    fn every_wire_type_is_stepped_over() {
        let message =
            b"\x08\xac\x02\x11\0\0\0\0\0\0\xf0\x3f\x1a\x02hi\x23\x08\x01\x2b\x2c\x24\x35\x01\0\0\0";
        let one = 1f64.to_bits();
        let expected =
            [Raw::Varint(300), Raw::Fixed64(one), Raw::Bytes(b"hi"), Raw::Group, Raw::Fixed32(1)];
        assert_eq!(fields(message).as_deref(), Ok(&expected[..]));
        for end in 1..message.len() {
            let whole = [3, 12, 16, 22];
            assert_eq!(fields(&message[..end]).is_ok(), whole.contains(&end), "{end}");
        }
    }

    #[test]
    fn what_is_malformed() {
        let longest = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(fields(longest).as_deref(), Ok(&[Raw::Varint(u64::MAX)][..]));
        for (message, why) in [
            (&b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"[..], Malformed::Varint),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Malformed::Varint),
            (b"\x02\x00", Malformed::Number(0)),
            (b"\x80\x80\x80\x80\x10\x00", Malformed::Number(1 << 29)),
            (b"\x0f", Malformed::WireType(7)),
            (b"\x0e", Malformed::WireType(6)),
            (b"\x0a\xff", Malformed::Cut),
            (b"\x0a\x01", Malformed::Cut),
            (b"\x0a", Malformed::Cut),
            (b"\x09\0\0", Malformed::Cut),
            (b"\x0c", Malformed::Group),
            (b"\x0b\x14", Malformed::Group),
            (b"\x0b", Malformed::Cut),
        ] {
            assert_eq!(fields(message), Err(why), "{message:?}");
        }
        let groups = [0x0b; GROUPS_MAX + 1];
        assert_eq!(fields(&groups), Err(Malformed::Group));
    }
}
