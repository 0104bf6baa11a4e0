//! The words and signs that signatures are made of.

use super::{SignatureError, SignatureFault};
use crate::json::Scanner;
use crate::printable::beginning;

/// The rest of a text, looked at token by token. Blanks and comments may stand before each token.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Tokens<'a> {
        Tokens { text, at: 0 }
    }

    /// Where the next token begins.
    pub(super) fn offset(&mut self) -> usize {
        self.skip_blanks();
        self.at
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\r', '\n']);
            self.at = self.text.len() - rest.len();
            if !rest.starts_with("//") {
                return;
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
    }

    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8, wanted: &'static str) -> Result<(), SignatureError> {
        if self.take(byte) { Ok(()) } else { Err(self.unexpected(wanted)) }
    }

    pub(super) fn identifier(&mut self, wanted: &'static str) -> Result<&'a str, SignatureError> {
        self.word(continues_identifier).ok_or_else(|| self.unexpected(wanted))
    }

    /// The name of a function, or a word that begins an item.
    pub(super) fn item_word(&mut self) -> Option<&'a str> {
        self.word(continues_function_name)
    }

    fn word(&mut self, continues: fn(u8) -> bool) -> Option<&'a str> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        if !starts_a_name(rest) {
            return None;
        }
        let length = rest.bytes().take_while(|byte| continues(*byte)).count();
        self.at += length;
        Some(&rest[..length])
    }

    /// A JSON string, if one comes next.
    pub(super) fn string(&mut self) -> Result<Option<String>, SignatureError> {
        if self.peek() != Some(b'"') {
            return Ok(None);
        }
        let read = || {
            let raw = Scanner::new(&self.text[self.at..]).value().ok()?;
            Some((raw.len(), serde_json::from_str(raw).ok()?))
        };
        let (length, string) = read().ok_or_else(|| self.unexpected("a JSON string"))?;
        self.at += length;
        Ok(Some(string))
    }

    /// An arrow, if one comes next.
    pub(super) fn arrow(&mut self) -> Result<bool, SignatureError> {
        match self.peek() {
            Some(b'-') if self.text[self.at..].starts_with("->") => {
                self.at += 2;
                Ok(true)
            }
            Some(b'-') => Err(self.unexpected("`->`")),
            _ => Ok(false),
        }
    }

    pub(super) fn count(&mut self) -> Result<u16, SignatureError> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
        if digits.is_empty() {
            return Err(self.unexpected("the number of elements"));
        }
        let count = digits
            .parse()
            .map_err(|_| SignatureFault::LengthTooLarge { found: beginning(digits) }.at(self.at))?;
        self.at += digits.len();
        Ok(count)
    }

    pub(super) fn unexpected(&self, wanted: &'static str) -> SignatureError {
        let rest = &self.text[self.at..];
        let found = match rest.split_whitespace().next() {
            Some(word) => format!("`{}`", beginning(word)),
            None => "the end".to_owned(),
        };
        SignatureFault::Syntax { wanted, found }.at(self.at)
    }
}

/// A name that needs no quotes where a field is named.
pub(super) fn is_identifier(name: &str) -> bool {
    starts_a_name(name) && name.bytes().all(continues_identifier)
}

/// A name that needs no quotes where a function is named.
pub(super) fn is_function_name(name: &str) -> bool {
    starts_a_name(name)
        && name.bytes().all(continues_function_name)
        && !matches!(name, "fn" | "struct" | "enum")
}

fn starts_a_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn continues_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn continues_function_name(byte: u8) -> bool {
    continues_identifier(byte) || b".:/@-".contains(&byte)
}
