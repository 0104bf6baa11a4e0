//! Header blocks: `NATS/1.0`, then `Name: value` lines.

use std::ops::Range;

use bytes::Bytes;

/// How long a block may be.
pub const HEADERS_BYTES_MAX: usize = 64 << 10;
/// How many lines it may have.
const FIELDS_MAX: usize = 100;
const VERSION: &str = "NATS/1.0";

/// A header block that was read. It shares the bytes of its message, so that a line costs no copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers {
    /// What the server says of a message that it made itself: 503 if nobody is there.
    pub status: Option<u16>,
    /// The text of the block.
    block: Bytes,
    /// Where the text behind the status stands in it.
    text: Span,
    /// Where name and value of each line stand, in order.
    lines: Vec<(Span, Span)>,
}

/// A block is short enough for it.
type Span = Range<u32>;

impl Headers {
    /// Reads a block; `None` if it is malformed.
    pub fn read(block: &Bytes) -> Option<Headers> {
        if HEADERS_BYTES_MAX < block.len() {
            return None;
        }
        let whole = std::str::from_utf8(block).ok()?;
        let span = |part: &str| {
            let from = part.as_ptr() as usize - whole.as_ptr() as usize;
            from as u32..(from + part.len()) as u32
        };
        let mut lines = whole.strip_suffix("\r\n\r\n")?.split("\r\n");
        let first = lines.next()?.strip_prefix(VERSION)?;
        let mut headers = Headers { block: block.clone(), ..Headers::default() };
        if !first.is_empty() && !first.starts_with([' ', '\t']) {
            return None;
        }
        if !first.trim().is_empty() {
            let first = first.trim();
            let (status, text) = first.split_at(first.find(' ').unwrap_or(first.len()));
            headers.status = Some(status.parse().ok()?);
            headers.text = span(text.trim());
        }
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_name || headers.lines.len() == FIELDS_MAX {
                return None;
            }
            headers.lines.push((span(name), span(value.trim())));
        }
        Some(headers)
    }

    fn at(&self, span: &Span) -> &str {
        let part = self.block.get(span.start as usize..span.end as usize);
        // Each stands where `read` has found text.
        part.and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default()
    }

    /// The text behind the status.
    pub fn text(&self) -> &str {
        self.at(&self.text)
    }

    /// All lines, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|(name, value)| (self.at(name), self.at(value)))
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.lines.iter().find(|(known, _)| self.is_at(known, name))?;
        Some(self.at(value))
    }

    /// All values of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let lines = self.lines.iter().filter(move |(known, _)| self.is_at(known, name));
        lines.map(|(_, value)| self.at(value))
    }

    /// Does this name stand there?
    fn is_at(&self, span: &Span, name: &str) -> bool {
        // Most names differ in length, which costs no look at the text.
        span.len() == name.len() && self.at(span).eq_ignore_ascii_case(name)
    }
}

/// A header block that is written.
#[derive(Debug, Clone)]
pub struct Block(Vec<u8>);

impl Block {
    /// Without a line yet.
    pub fn new() -> Block {
        Block(b"NATS/1.0\r\n".to_vec())
    }

    /// With one more line. Controls in the value become spaces.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Block {
        self.put(name, value);
        self
    }

    /// With one more line if there is a value.
    #[must_use]
    pub fn maybe(self, name: &str, value: Option<&str>) -> Block {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// One more line.
    pub fn put(&mut self, name: &str, value: &str) {
        put_line(&mut self.0, name, value);
    }

    /// The whole block.
    pub fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}

/// Writes one line. Controls in the value become spaces.
pub(super) fn put_line(block: &mut Vec<u8>, name: &str, value: &str) {
    block.reserve(name.len() + value.len() + 4);
    block.extend_from_slice(name.as_bytes());
    block.extend_from_slice(b": ");
    let from = block.len();
    block.extend_from_slice(value.as_bytes());
    for byte in &mut block[from..] {
        if byte.is_ascii_control() {
            *byte = b' ';
        }
    }
    block.extend_from_slice(b"\r\n");
}

impl Default for Block {
    fn default() -> Block {
        Block::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(block: &[u8]) -> Option<Headers> {
        Headers::read(&Bytes::copy_from_slice(block))
    }

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let block =
            Block::new().with("Toolbus", "call 0").with("A", "x\r\ny").maybe("B", None).end();
        let headers = read(&block).unwrap();
        assert_eq!((headers.get("toolbus"), headers.get("a")), (Some("call 0"), Some("x  y")));
        assert_eq!((headers.get("B"), headers.status), (None, None));
    }

    #[test]
    fn a_status_stands_in_the_first_line() {
        let headers = read(b"NATS/1.0 503 No Responders\r\n\r\n").unwrap();
        assert_eq!((headers.status, headers.text()), (Some(503), "No Responders"));
        assert_eq!(read(b"NATS/1.0 503\r\n\r\n").unwrap().status, Some(503));
        let twice = read(b"NATS/1.0\r\na:1\r\nA: 2 \r\n\r\n").unwrap();
        assert_eq!(twice.all("a").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn a_malformed_block_is_none() {
        for block in [
            &b""[..],
            b"NATS/1.0",
            b"NATS/2.0\r\n\r\n",
            b"NATS/1.0503\r\n\r\n",
            b"NATS/1.0 x\r\n\r\n",
            b"NATS/1.0\r\nno colon\r\n\r\n",
            b"NATS/1.0\r\n: x\r\n\r\n",
            b"NATS/1.0\r\na: \xff\r\n\r\n",
        ] {
            assert_eq!(read(block), None, "{block:?}");
        }
        let many = format!("NATS/1.0\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(read(many.as_bytes()), None);
    }
}
