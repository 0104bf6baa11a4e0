//! DER, in which certificates are written: values with a tag and a length, one within another.
//!
//! Reading is strict, takes nothing apart that it is not asked for, and never goes beyond what
//! it was given, whatever a length says.

/// The tags that stand in a certificate.
pub mod tag {
    /// True or false.
    pub const BOOLEAN: u8 = 0x01;
    /// A number of any size.
    pub const INTEGER: u8 = 0x02;
    /// Bits.
    pub const BIT_STRING: u8 = 0x03;
    /// Bytes.
    pub const OCTET_STRING: u8 = 0x04;
    /// What something is, by numbers.
    pub const OBJECT_IDENTIFIER: u8 = 0x06;
    /// Text in UTF-8.
    pub const UTF8_STRING: u8 = 0x0c;
    /// Text of digits.
    pub const NUMERIC_STRING: u8 = 0x12;
    /// Text of letters, digits and a few signs.
    pub const PRINTABLE_STRING: u8 = 0x13;
    /// Text in ASCII.
    pub const IA5_STRING: u8 = 0x16;
    /// A time whose year has two digits.
    pub const UTC_TIME: u8 = 0x17;
    /// A time whose year has four digits.
    pub const GENERALIZED_TIME: u8 = 0x18;
    /// Text in units of two bytes.
    pub const BMP_STRING: u8 = 0x1e;
    /// Values in an order.
    pub const SEQUENCE: u8 = 0x30;
    /// Values without an order.
    pub const SET: u8 = 0x31;

    /// What is numbered within a structure, made of other values.
    pub const fn numbered(number: u8) -> u8 {
        0xa0 | number
    }

    /// What is numbered within a structure, and plain bytes.
    pub const fn numbered_bytes(number: u8) -> u8 {
        0x80 | number
    }
}

/// One value.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    /// Of what kind it is.
    pub tag: u8,
    /// Without its tag and length.
    pub content: &'a [u8],
    /// With its tag and length.
    pub whole: &'a [u8],
}

/// Values one behind the other.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Those in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Is there no value any more?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing if there is more.
    pub fn end(&self) -> Option<()> {
        self.is_empty().then_some(())
    }

    /// The next value, of whatever kind.
    pub fn value(&mut self) -> Option<Value<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        // A tag that goes on in the next byte: no certificate has one.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = length(rest)?;
        let (content, rest) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        Some(Value { tag, content, whole })
    }

    /// The next value, which has to have this tag.
    pub fn expect(&mut self, tag: u8) -> Option<Value<'a>> {
        self.value().filter(|value| value.tag == tag)
    }

    /// The next value if it has this tag.
    pub fn optional(&mut self, tag: u8) -> Option<Option<Value<'a>>> {
        match self.0.first() {
            Some(next) if *next == tag => self.value().map(Some),
            _ => Some(None),
        }
    }

    /// The values within the next one, which has to have this tag.
    pub fn within(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.expect(tag).map(|value| Reader(value.content))
    }

    /// Whole bytes in a bit string.
    pub fn bits(&mut self) -> Option<&'a [u8]> {
        match self.expect(tag::BIT_STRING)?.content {
            [0, bytes @ ..] => Some(bytes),
            _ => None,
        }
    }
}

/// A length in as few bytes as it takes; no more than three, for no certificate is larger.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let count = match first {
        0..=0x7f => return Some((usize::from(first), rest)),
        0x81..=0x83 => usize::from(first & 0x7f),
        _ => return None,
    };
    let (digits, rest) = rest.split_at_checked(count)?;
    let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
    let is_shortest = 0x80 <= length && digits[0] != 0;
    is_shortest.then_some((length, rest))
}

/// A value with these parts.
pub fn write(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let digits = length.to_be_bytes();
    let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(length) if length < 0x80 => bytes.push(length),
        _ => {
            bytes.push(0x80 | digits.len() as u8);
            bytes.extend_from_slice(digits);
        }
    }
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// A number that is not negative.
pub fn write_number(digits: &[u8]) -> Vec<u8> {
    let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
    // Without it the number would be a negative one, or none at all.
    let sign: &[u8] = if digits.first().is_none_or(|first| 0x80 <= *first) { &[0] } else { &[] };
    write(tag::INTEGER, &[sign, digits])
}

/// Whole bytes as a bit string.
pub fn write_bits(bytes: &[u8]) -> Vec<u8> {
    write(tag::BIT_STRING, &[&[0], bytes])
}
