//! Header blocks: `NATS/1.0`, then `Name: value` lines.

/// How long a block may be.
pub const HEADERS_BYTES_MAX: usize = 64 << 10;
/// How many lines it may have.
const FIELDS_MAX: usize = 100;
const VERSION: &str = "NATS/1.0";

/// A header block that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers {
    /// What the server says of a message that it made itself: 503 if nobody is there.
    pub status: Option<u16>,
    /// The text behind the status.
    pub text: String,
    /// All lines, in order.
    pub fields: Vec<(String, String)>,
}

impl Headers {
    /// Reads a block; `None` if it is malformed.
    pub fn read(block: &[u8]) -> Option<Headers> {
        if HEADERS_BYTES_MAX < block.len() {
            return None;
        }
        let text = std::str::from_utf8(block).ok()?.strip_suffix("\r\n\r\n")?;
        let mut lines = text.split("\r\n");
        let first = lines.next()?.strip_prefix(VERSION)?;
        let mut headers = Headers::default();
        if !first.is_empty() && !first.starts_with([' ', '\t']) {
            return None;
        }
        if !first.trim().is_empty() {
            let (status, text) = first.trim().split_once(' ').unwrap_or((first.trim(), ""));
            headers.status = Some(status.parse().ok()?);
            headers.text = text.trim().to_owned();
        }
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_name || headers.fields.len() == FIELDS_MAX {
                return None;
            }
            headers.fields.push((name.to_owned(), value.trim().to_owned()));
        }
        Some(headers)
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let fields = &mut self.fields.iter();
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// All values of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.fields.iter();
        fields.filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
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
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        let spelled = value.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte });
        self.0.extend(spelled);
        self.0.extend_from_slice(b"\r\n");
    }

    /// The whole block.
    pub fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}

impl Default for Block {
    fn default() -> Block {
        Block::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let block =
            Block::new().with("Toolbus", "call 0").with("A", "x\r\ny").maybe("B", None).end();
        let headers = Headers::read(&block).unwrap();
        assert_eq!((headers.get("toolbus"), headers.get("a")), (Some("call 0"), Some("x  y")));
        assert_eq!((headers.get("B"), headers.status), (None, None));
    }

    #[test]
    fn a_status_stands_in_the_first_line() {
        let headers = Headers::read(b"NATS/1.0 503 No Responders\r\n\r\n").unwrap();
        assert_eq!((headers.status, &*headers.text), (Some(503), "No Responders"));
        assert_eq!(Headers::read(b"NATS/1.0 503\r\n\r\n").unwrap().status, Some(503));
        let twice = Headers::read(b"NATS/1.0\r\na:1\r\nA: 2 \r\n\r\n").unwrap();
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
            assert_eq!(Headers::read(block), None, "{block:?}");
        }
        let many = format!("NATS/1.0\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(Headers::read(many.as_bytes()), None);
    }
}
