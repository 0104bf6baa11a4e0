//! Where JSON values begin and end, by RFC 8259, without building anything from them.
//!
//! The envelope of a message is read member by member with a [`Scanner`]; a value whose
//! inside does not matter is stepped over and handed on as a slice.

use std::borrow::Cow;
use std::ops::{Index, Range};

use super::{Found, JsonError, looks};
use crate::jsonrpc::string;

/// How deep arrays and objects may stand inside each other. Deeper text counts as no JSON.
pub const DEPTH_MAX: usize = 128;

/// The six kinds of JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// The kind of a valid value, told by its first byte.
    pub(crate) fn of(first: u8) -> Kind {
        match first {
            b'n' => Kind::Null,
            b't' | b'f' => Kind::Bool,
            b'"' => Kind::String,
            b'[' => Kind::Array,
            b'{' => Kind::Object,
            _ => Kind::Number,
        }
    }
}

/// Steps through JSON text, value by value. Never looks at a byte twice.
#[derive(Debug)]
pub struct Scanner<'a, T: ?Sized = str> {
    text: &'a T,
    at: usize,
    /// How many arrays and objects have been stepped into: they count towards the depth of
    /// what stands in them.
    inside: usize,
}

// Derived, these would want `T` to be so.
impl<T: ?Sized> Copy for Scanner<'_, T> {}
impl<T: ?Sized> Clone for Scanner<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a> Scanner<'a> {
    /// Stands before the first byte of `text`.
    pub fn new(text: &'a str) -> Self {
        Scanner { text, at: 0, inside: 0 }
    }

    /// The characters of the next value, which must be a string. One with an escape that stands
    /// for no character is none.
    pub fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.blanks();
        let from = self.at;
        self.expect(b'"')?;
        self.rest_of_string()?;
        let raw = &self.text[from..self.at];
        string(raw).ok_or(JsonError::Unexpected { found: Found::Byte(b'\\'), offset: from })
    }

    /// The name of a member, up to and with its colon; its value is to be taken by itself.
    pub fn name(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let key = self.string()?;
        self.blanks();
        self.expect(b':')?;
        Ok(key)
    }
}

impl<'a> Scanner<'a, [u8]> {
    /// Stands before bytes that begin with JSON and may go on with something else. Whether
    /// strings are UTF-8 is checked when one is taken.
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Self {
        Scanner { text: bytes, at: 0, inside: 0 }
    }

    /// Steps over one value, nested no deeper than this, and tells where it stands.
    pub(crate) fn place_of_value(&mut self, depth_max: usize) -> Result<Range<usize>, JsonError> {
        self.blanks();
        let from = self.at;
        self.step_over_value(depth_max)?;
        looks::add(self.at - from);
        Ok(from..self.at)
    }
}

impl<'a, T: ?Sized + AsRef<[u8]> + Index<Range<usize>, Output = T>> Scanner<'a, T> {
    /// Steps over one value and gives its text, without the blanks around it.
    #[inline]
    pub fn value(&mut self) -> Result<&'a T, JsonError> {
        self.blanks();
        let from = self.at;
        // Most members of an envelope are strings, which need no stack.
        if self.peek() == Some(b'"') {
            self.at += 1;
            self.rest_of_string()?;
        } else {
            self.step_over_value(DEPTH_MAX.saturating_sub(self.inside))?;
        }
        looks::add(self.at - from);
        Ok(&self.text[from..self.at])
    }

    /// Like [`Scanner::value`]; of an object each member is shown on the way, so that the
    /// caller need not look through it a second time.
    #[inline]
    pub fn value_with_members(
        &mut self,
        mut see: impl FnMut(&'a T, &'a T),
    ) -> Result<&'a T, JsonError> {
        self.blanks();
        let from = self.at;
        if !self.enter_object() {
            return self.value();
        }
        let mut first = true;
        while let Some(key) = self.key(first)? {
            first = false;
            see(key, self.value()?);
        }
        Ok(&self.text[from..self.at])
    }

    /// Only blanks may follow.
    pub fn end(&mut self) -> Result<(), JsonError> {
        self.blanks();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected()),
        }
    }

    /// Steps into an object if the next value is one.
    pub fn enter_object(&mut self) -> bool {
        self.enter(b'{')
    }

    /// Steps into an array if the next value is one.
    pub fn enter_array(&mut self) -> bool {
        self.enter(b'[')
    }

    /// The next member of the object stepped into: its key with quotes, its value.
    /// `first` is true for the first call after [`Scanner::enter_object`].
    #[inline]
    pub fn member(&mut self, first: bool) -> Result<Option<(&'a T, &'a T)>, JsonError> {
        match self.key(first)? {
            Some(key) => Ok(Some((key, self.value()?))),
            None => Ok(None),
        }
    }

    /// The key of the next member of the object stepped into, with quotes; its value is next.
    /// `first` is true for the first call after [`Scanner::enter_object`].
    #[inline]
    pub fn key(&mut self, first: bool) -> Result<Option<&'a T>, JsonError> {
        if !self.more(first, b'}')? {
            return Ok(None);
        }
        self.blanks();
        let from = self.at;
        self.expect(b'"')?;
        self.rest_of_string()?;
        let key = &self.text[from..self.at];
        self.blanks();
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// The next element of the array stepped into.
    /// `first` is true for the first call after [`Scanner::enter_array`].
    pub fn element(&mut self, first: bool) -> Result<Option<&'a T>, JsonError> {
        if !self.more(first, b']')? {
            return Ok(None);
        }
        Ok(Some(self.value()?))
    }

    /// The first byte of what comes next, which tells its kind.
    pub fn next_byte(&mut self) -> Option<u8> {
        self.blanks();
        self.peek()
    }

    /// Steps over this opening mark if it comes next.
    pub fn enter(&mut self, opening: u8) -> bool {
        self.blanks();
        let inside = self.peek() == Some(opening);
        self.at += usize::from(inside);
        self.inside += usize::from(inside);
        inside
    }

    /// Is there another entry before `closing`? Takes the comma, or the closing mark.
    /// `first` is true for the first call after the opening mark.
    pub fn more(&mut self, first: bool, closing: u8) -> Result<bool, JsonError> {
        self.blanks();
        match self.peek() {
            Some(byte) if byte == closing => {
                self.at += 1;
                self.inside = self.inside.saturating_sub(1);
                Ok(false)
            }
            Some(b',') if !first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => Err(self.unexpected()),
        }
    }

    /// A loop with a stack of one bit a level instead of recursion: depth costs no stack.
    fn step_over_value(&mut self, depth_max: usize) -> Result<(), JsonError> {
        // Bit set: the container at that level is an object.
        let mut objects = 0u128;
        let mut depth = 0usize;
        loop {
            self.blanks();
            match self.peek() {
                Some(opening @ (b'{' | b'[')) => {
                    if depth == depth_max {
                        return Err(JsonError::TooDeep);
                    }
                    self.at += 1;
                    let is_object = opening == b'{';
                    objects = (objects << 1) | u128::from(is_object);
                    depth += 1;
                    self.blanks();
                    let closing = if is_object { b'}' } else { b']' };
                    if self.peek() != Some(closing) {
                        if is_object {
                            self.step_over_key()?;
                        }
                        continue;
                    }
                }
                Some(b'"') => {
                    self.at += 1;
                    self.rest_of_string()?;
                }
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                Some(b'n') => self.literal("null")?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                _ => return Err(self.unexpected()),
            }
            // A value is over: close what ends here, go on where a comma stands.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                self.blanks();
                let is_object = objects & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if is_object {
                            self.step_over_key()?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => {}
                    Some(b']') if !is_object => {}
                    _ => return Err(self.unexpected()),
                }
                self.at += 1;
                objects >>= 1;
                depth -= 1;
            }
        }
    }

    fn step_over_key(&mut self) -> Result<(), JsonError> {
        self.blanks();
        self.expect(b'"')?;
        self.rest_of_string()?;
        self.blanks();
        self.expect(b':')
    }

    /// Behind the opening quote: up to and over the closing one.
    #[inline]
    fn rest_of_string(&mut self) -> Result<(), JsonError> {
        let bytes = self.text.as_ref();
        // Keys and short words are most strings, though not most bytes.
        if let Some(word) = bytes[self.at..].first_chunk() {
            let found = not_plain(u64::from_le_bytes(*word));
            let end = self.at + found.trailing_zeros() as usize / 8;
            if found != 0 && bytes[end] == b'"' {
                self.at = end + 1;
                return Ok(());
            }
        }
        self.rest_of_long_string()
    }

    fn rest_of_long_string(&mut self) -> Result<(), JsonError> {
        let bytes = self.text.as_ref();
        loop {
            self.at += plain_prefix(&bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                            self.at += 1;
                        }
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                match self.peek() {
                                    Some(digit) if digit.is_ascii_hexdigit() => self.at += 1,
                                    _ => return Err(self.unexpected()),
                                }
                            }
                        }
                        _ => return Err(self.unexpected()),
                    }
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == from { Err(self.unexpected()) } else { Ok(()) }
    }

    fn literal(&mut self, word: &str) -> Result<(), JsonError> {
        for &byte in word.as_bytes() {
            self.expect(byte)?;
        }
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.peek() != Some(byte) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_ref().get(self.at).copied()
    }

    #[cold]
    fn unexpected(&self) -> JsonError {
        let found = self.peek().map_or(Found::End, Found::Byte);
        JsonError::Unexpected { found, offset: self.at }
    }
}

/// How many bytes from the start are neither quote, backslash nor control character: all that
/// stands in a JSON string as itself. Most strings end soon; long ones are most of what crosses
/// the bus, and are looked at block by block.
#[inline]
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    /// Keys and short words end within so many words, and a block is dear for them.
    const SHORT_WORDS: usize = 4;
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().take(SHORT_WORDS).enumerate() {
        let found = not_plain(u64::from_le_bytes(*word));
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    if words.len() < SHORT_WORDS {
        let from = words.len() * 8;
        return from + plain_bytes(&bytes[from..]);
    }
    let behind = &bytes[SHORT_WORDS * 8..];
    // Without optimization there are no vectors, and each byte would be some calls.
    let blocks = if cfg!(debug_assertions) { 0 } else { plain_blocks(behind) };
    SHORT_WORDS * 8 + blocks + plain_words(&behind[blocks..])
}

/// The same of those that make whole blocks. By words, and not byte for byte: whether the compiler
/// makes vectors of such a loop depends on the program that it is linked into.
#[inline]
fn plain_blocks(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    for (index, block) in blocks.iter().enumerate() {
        let (words, _) = block.as_chunks();
        let found: [u64; BLOCK / 8] =
            std::array::from_fn(|at| not_plain(u64::from_le_bytes(words[at])));
        // All at once first: most blocks have none.
        if found.iter().fold(0, |all, word| all | word) == 0 {
            continue;
        }
        let at = found.iter().take_while(|word| **word == 0).count();
        let in_word = found.get(at).map_or(0, |word| word.trailing_zeros() as usize / 8);
        return index * BLOCK + at * 8 + in_word;
    }
    blocks.len() * BLOCK
}

/// The same, sixteen at a time.
#[inline]
fn plain_words(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<16>();
    let mut at = 0;
    while at < words.len() {
        let found = not_plain_wide(u128::from_le_bytes(words[at]));
        if found != 0 {
            return at * 16 + found.trailing_zeros() as usize / 8;
        }
        at += 1;
    }
    let from = words.len() * 16;
    let Some(word) = rest.first_chunk() else { return from + plain_bytes(rest) };
    match not_plain(u64::from_le_bytes(*word)) {
        0 => from + 8 + plain_bytes(&rest[8..]),
        found => from + found.trailing_zeros() as usize / 8,
    }
}

/// The same, one at a time.
fn plain_bytes(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_plain(**byte)).count()
}

/// The lowest bit that is set stands in the first byte that is not plain.
#[inline]
fn not_plain(word: u64) -> u64 {
    // What stands behind the word has no say in the bits of the word.
    not_plain_wide(word.into()) as u64
}

#[inline]
fn not_plain_wide(word: u128) -> u128 {
    const ONES: u128 = u128::MAX / 255;
    const HIGHS: u128 = ONES << 7;
    const QUOTES: u128 = ONES * b'"' as u128;
    const BACKSLASHES: u128 = ONES * b'\\' as u128;

    let quote = (word ^ QUOTES).wrapping_sub(ONES);
    let backslash = (word ^ BACKSLASHES).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    // A byte that was too small to subtract from has its high bit set, and had it not before.
    // Bits above a true hit may be false; the lowest one never is.
    (quote | backslash | control) & !word & HIGHS
}

fn is_plain(byte: u8) -> bool {
    (byte != b'"') & (byte != b'\\') & (byte >= 0x20)
}

/// Valid JSON without the blanks between its tokens, or `None` if there are none.
pub(super) fn compact(text: &str) -> Option<Vec<u8>> {
    looks::add(text.len());
    let bytes = text.as_bytes();
    let is_blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let mut out: Option<Vec<u8>> = None;
    let mut kept_from = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                loop {
                    at += plain_prefix(&bytes[at..]);
                    match bytes.get(at) {
                        Some(b'\\') => at += 2,
                        _ => break,
                    }
                }
                at += 1;
            }
            byte if is_blank(byte) => {
                out.get_or_insert_default().extend_from_slice(&bytes[kept_from..at]);
                at += bytes[at..].iter().take_while(|&&byte| is_blank(byte)).count();
                kept_from = at;
            }
            _ => at += 1,
        }
    }
    let mut out = out?;
    out.extend_from_slice(&bytes[kept_from..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain_ends_at_the_same_byte_however_it_is_looked_for() {
        for length in [0, 1, 7, 8, 15, 16, 23, 31, 32, 39, 40, 41, 71, 72, 104, 136] {
            // No letter, and the ones beside those that are not plain.
            let plain = [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xa2, 0xdc, 0xff];
            let mut bytes: Vec<u8> = plain.into_iter().cycle().take(length).collect();
            for at in 0..=length {
                for odd in [b'"', b'\\', 0, 0x1f, b'\n'] {
                    let before = bytes.get(at).copied();
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = odd;
                    }
                    let blocks = plain_blocks(&bytes);
                    assert_eq!(blocks, at.min(length / 32 * 32), "{at} of {length}");
                    assert_eq!(plain_words(&bytes), at, "{at} of {length}");
                    assert_eq!(plain_prefix(&bytes), at, "{at} of {length}");
                    assert_eq!(plain_bytes(&bytes), at, "{at} of {length}");
                    if let Some(byte) = before {
                        bytes[at] = byte;
                    }
                }
            }
        }
    }
}
