//! What is read of a certificate, and how one is written (RFC 5280): for wires that make their
//! own, and for fronts whose callers are known by theirs.

pub mod der;

use std::fmt::Write;

use self::der::{Reader, Value, tag};
use crate::caller::Subject;

/// Whose certificate it is; `None` if it cannot be read.
pub fn subject(certificate: &[u8]) -> Option<Subject> {
    Parts::read(certificate)?.subject.attributes()
}

/// Identifiers, as they stand in DER.
pub mod id {
    /// An attribute of a name: how its owner is called.
    pub const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    /// An attribute of a name: to whom its owner belongs.
    pub const ORGANIZATION: &[u8] = &[0x55, 4, 10];
    /// An extension: by what its own key is known.
    pub const SUBJECT_KEY: &[u8] = &[0x55, 29, 14];
    /// An extension: what its key may be used for.
    pub const KEY_USAGE: &[u8] = &[0x55, 29, 15];
    /// An extension: hosts and addresses of its owner.
    pub const OTHER_NAMES: &[u8] = &[0x55, 29, 17];
    /// An extension: whether it is a CA.
    pub const BASIC_CONSTRAINTS: &[u8] = &[0x55, 29, 19];
    /// An extension: by what the key that signed it is known.
    pub const AUTHORITY_KEY: &[u8] = &[0x55, 29, 35];
    /// An extension: at which ends of a connection it may be shown.
    pub const PURPOSES: &[u8] = &[0x55, 29, 37];
    /// A purpose: to be shown by a server.
    pub const SERVER: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
    /// A purpose: to be shown by a client.
    pub const CLIENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
}

/// The parts of a certificate that are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// What was signed.
    pub signed: &'a [u8],
    /// Identifier and parameters of the algorithm.
    pub signature_algorithm: &'a [u8],
    /// By the key of the issuer.
    pub signature: &'a [u8],
    /// Who signed it.
    pub issuer: Name<'a>,
    /// Whose it is.
    pub subject: Name<'a>,
    /// Seconds since 1970.
    pub not_before: i64,
    /// Seconds since 1970.
    pub not_after: i64,
    /// The public half of its key.
    pub key: PublicKey<'a>,
    /// By what its key is known in the certificates that it signs.
    pub key_identifier: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    /// Those of this certificate, if it can be read.
    pub fn read(certificate: &'a [u8]) -> Option<Parts<'a>> {
        let mut outer = Reader::new(certificate);
        let mut whole = outer.within(tag::SEQUENCE)?;
        outer.end()?;
        let signed = whole.expect(tag::SEQUENCE)?;
        let signature_algorithm = whole.expect(tag::SEQUENCE)?.content;
        let signature = whole.bits()?;
        whole.end()?;

        let mut parts = Reader::new(signed.content);
        parts.optional(tag::numbered(0))?;
        parts.expect(tag::INTEGER)?;
        parts.expect(tag::SEQUENCE)?;
        let issuer = Name::read(parts.expect(tag::SEQUENCE)?)?;
        let mut validity = parts.within(tag::SEQUENCE)?;
        let (not_before, not_after) = (time(validity.value()?)?, time(validity.value()?)?);
        validity.end()?;
        let subject = Name::read(parts.expect(tag::SEQUENCE)?)?;
        let key = PublicKey::read(parts.expect(tag::SEQUENCE)?)?;
        // Numbers for names that were given twice.
        for number in [1, 2] {
            parts.optional(tag::numbered_bytes(number))?;
        }
        let extensions = parts.optional(tag::numbered(3))?;
        parts.end()?;
        let key_identifier = match extensions {
            Some(extensions) => key_identifier(extensions.content)?,
            None => None,
        };
        let signed = signed.whole;
        Some(Parts {
            signed,
            signature_algorithm,
            signature,
            issuer,
            subject,
            not_before,
            not_after,
            key,
            key_identifier,
        })
    }
}

/// The identifier of a certificate's own key among its extensions. One that is not to be read
/// is none.
fn key_identifier(extensions: &[u8]) -> Option<Option<&[u8]>> {
    let mut outer = Reader::new(extensions);
    let mut extensions = outer.within(tag::SEQUENCE)?;
    outer.end()?;
    let mut found = None;
    while !extensions.is_empty() {
        let mut extension = extensions.within(tag::SEQUENCE)?;
        let id = extension.expect(tag::OBJECT_IDENTIFIER)?.content;
        extension.optional(tag::BOOLEAN)?;
        let mut value = extension.within(tag::OCTET_STRING)?;
        extension.end()?;
        if id == id::SUBJECT_KEY && found.is_none() {
            found = value.expect(tag::OCTET_STRING).map(|value| value.content);
        }
    }
    Some(found)
}

/// A key, and what it is for.
#[derive(Debug, Clone, Copy)]
pub struct PublicKey<'a> {
    /// Identifier and parameters of the algorithm.
    pub algorithm: &'a [u8],
    /// The key itself.
    pub bits: &'a [u8],
}

impl<'a> PublicKey<'a> {
    /// As it stands in a certificate.
    pub fn read(info: Value<'a>) -> Option<PublicKey<'a>> {
        let mut info = Reader::new(info.content);
        let algorithm = info.expect(tag::SEQUENCE)?.content;
        let bits = info.bits()?;
        info.end()?;
        Some(PublicKey { algorithm, bits })
    }
}

/// Whose certificate it is, or who signed it.
#[derive(Debug, Clone, Copy)]
pub struct Name<'a>(Value<'a>);

impl<'a> Name<'a> {
    fn read(value: Value<'a>) -> Option<Name<'a>> {
        let name = Name(value);
        name.try_each(|_, _| ()).map(|()| name)
    }

    /// As it stands in the certificate.
    pub fn bytes(&self) -> &'a [u8] {
        self.0.whole
    }

    /// The first common name.
    pub fn common_name(&self) -> Option<&'a str> {
        let mut found = None;
        self.try_each(|_, part| {
            if part.id == id::COMMON_NAME && found.is_none() {
                found = Some(part.value);
            }
        })?;
        let value = found?;
        let is_text = matches!(
            value.tag,
            tag::UTF8_STRING | tag::NUMERIC_STRING | tag::PRINTABLE_STRING | tag::IA5_STRING
        );
        std::str::from_utf8(value.content).ok().filter(|_| is_text)
    }

    /// `O=Orchestra, CN=hub`.
    pub fn to_text(self) -> String {
        let mut text = String::new();
        self.try_each(|is_joined, part| {
            let between = match (text.is_empty(), is_joined) {
                (true, _) => "",
                (false, false) => ", ",
                (false, true) => " + ",
            };
            // Writing to a string does not fail.
            let _ = write!(text, "{between}{}={}", label(part.id), text_of(part.value));
        });
        text
    }

    /// All that is said of whose it is.
    fn attributes(&self) -> Option<Subject> {
        let mut attributes = Vec::new();
        self.try_each(|_, part| attributes.push((label(part.id), text_of(part.value))))?;
        Some(Subject::of(attributes))
    }

    /// Hands on the parts in their order, each with whether it belongs to the one before it.
    fn try_each(&self, mut take: impl FnMut(bool, NamePart<'a>)) -> Option<()> {
        let mut sets = Reader::new(self.0.content);
        while !sets.is_empty() {
            let mut set = sets.within(tag::SET)?;
            let mut is_joined = false;
            while !set.is_empty() || !is_joined {
                let mut part = set.within(tag::SEQUENCE)?;
                let id = part.expect(tag::OBJECT_IDENTIFIER)?.content;
                let value = part.value()?;
                part.end()?;
                take(is_joined, NamePart { id, value });
                is_joined = true;
            }
        }
        Some(())
    }
}

/// One attribute of a name.
struct NamePart<'a> {
    id: &'a [u8],
    value: Value<'a>,
}

/// What an attribute is called.
fn label(id: &[u8]) -> String {
    let known = match id {
        [0x55, 4, number] => match number {
            3 => "CN",
            4 => "surname",
            5 => "serialNumber",
            6 => "C",
            7 => "L",
            8 => "ST",
            9 => "streetAddress",
            10 => "O",
            11 => "OU",
            12 => "title",
            13 => "description",
            15 => "businessCategory",
            16 => "postalAddress",
            17 => "postalCode",
            41 => "name",
            42 => "givenName",
            43 => "initials",
            44 => "generationQualifier",
            45 => "uniqueIdentifier",
            46 => "dnQualifier",
            _ => "",
        },
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "Email",
        _ => "",
    };
    match known {
        "" => format!("OID({})", dotted(id)),
        known => known.to_owned(),
    }
}

/// An identifier as people write it.
fn dotted(id: &[u8]) -> String {
    let mut text = String::new();
    let mut number: u128 = 0;
    for byte in id {
        // A number that large has no meaning, and is shown as the largest.
        number = number.saturating_mul(128) | u128::from(byte & 0x7f);
        if 0x80 <= *byte {
            continue;
        }
        if text.is_empty() {
            let first = (number / 40).min(2);
            text = first.to_string();
            number -= first * 40;
        }
        let _ = write!(text, ".{number}");
        number = 0;
    }
    text
}

/// The text of a value; of one that is none, its bytes.
fn text_of(value: Value<'_>) -> String {
    let is_text = matches!(value.tag, 0x07 | 0x0c | 0x12..=0x16 | 0x19..=0x1b);
    let units = || value.content.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let text = match value.tag {
        tag::BMP_STRING if value.content.len().is_multiple_of(2) => {
            char::decode_utf16(units()).collect::<Result<String, _>>().ok()
        }
        _ if is_text => std::str::from_utf8(value.content).ok().map(str::to_owned),
        _ => None,
    };
    let hex = || value.content.iter().map(|byte| format!("{byte:02X}")).collect();
    text.unwrap_or_else(hex)
}

/// Seconds since 1970.
pub fn time(value: Value<'_>) -> Option<i64> {
    let digits = value.content.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
    };
    let (year, rest) = match (value.tag, digits.len()) {
        // Of two digits, those from 50 on are of the last century.
        (tag::UTC_TIME, 12) => match number(&digits[..2]) {
            year @ 50.. => (1900 + year, &digits[2..]),
            year => (2000 + year, &digits[2..]),
        },
        (tag::GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let part = |at: usize| number(&rest[2 * at..2 * at + 2]);
    let (month, day, hour, minute, second) = (part(0), part(1), part(2), part(3), part(4));
    let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(is_leap_year),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60;
    if !is_time || day < 1 || days_of_month < day {
        return None;
    }
    // Years begin in March here, so that the day that comes every four years is the last of one.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days_before = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days_before + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// A time, of which RFC 3339 has this text.
pub fn write_time(rfc3339: &str) -> Vec<u8> {
    let digits: String = rfc3339.chars().filter(char::is_ascii_digit).chain(['Z']).collect();
    match ("1950".."2050").contains(&&digits[..4]) {
        true => der::write(tag::UTC_TIME, &[&digits.as_bytes()[2..]]),
        false => der::write(tag::GENERALIZED_TIME, &[digits.as_bytes()]),
    }
}

/// A name of these attributes.
pub fn write_name(parts: &[(&[u8], &str)]) -> Vec<u8> {
    let sets: Vec<Vec<u8>> = parts
        .iter()
        .map(|(id, text)| {
            let id = der::write(tag::OBJECT_IDENTIFIER, &[id]);
            let text = der::write(tag::UTF8_STRING, &[text.as_bytes()]);
            der::write(tag::SET, &[&der::write(tag::SEQUENCE, &[&id, &text])])
        })
        .collect();
    der::write(tag::SEQUENCE, &[&sets.concat()])
}

/// An extension; one that is critical must be understood by the peer that reads the certificate.
pub fn write_extension(id: &[u8], is_critical: bool, value: &[u8]) -> Vec<u8> {
    let id = der::write(tag::OBJECT_IDENTIFIER, &[id]);
    let critical = der::write(tag::BOOLEAN, &[&[0xff]]);
    let critical: &[u8] = if is_critical { &critical } else { &[] };
    let value = der::write(tag::OCTET_STRING, &[value]);
    der::write(tag::SEQUENCE, &[&id, critical, &value])
}
