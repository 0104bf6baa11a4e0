//! Where an object ends, found as its bytes arrive: no byte is looked at twice.

use memchr::memchr2;

use super::event::FramingCode;

/// How far an object has been seen. Its first byte is known to be `{`.
#[derive(Debug, Default)]
pub(super) struct Extent {
    /// So many bytes have been looked at.
    seen: usize,
    /// Marks that are open.
    depth: usize,
    /// One bit for each of them, the innermost lowest; set for an object.
    objects: u128,
    string: StringState,
}

#[derive(Debug, Default, Clone, Copy)]
enum StringState {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escape,
}

impl Extent {
    /// Has nothing been looked at yet?
    pub(super) fn is_new(&self) -> bool {
        self.seen == 0
    }

    /// The length of the object at the front of `bytes`, or `None` until more of it arrives.
    ///
    /// `bytes` must begin with all that was seen before. `depth_max` is at most 128.
    pub(super) fn find(
        &mut self,
        bytes: &[u8],
        bytes_max: usize,
        depth_max: usize,
    ) -> Result<Option<usize>, FramingCode> {
        // Nothing behind the limit is looked at: else what is understood would depend on how
        // much arrived with one read.
        let window = &bytes[..bytes.len().min(bytes_max)];
        while let Some(&byte) = window.get(self.seen) {
            match self.string {
                StringState::Inside => match memchr2(b'"', b'\\', &window[self.seen..]) {
                    Some(at) => {
                        self.seen += at;
                        let is_end = window[self.seen] == b'"';
                        self.string =
                            if is_end { StringState::Outside } else { StringState::Escape };
                    }
                    None => {
                        self.seen = window.len();
                        break;
                    }
                },
                StringState::Escape => self.string = StringState::Inside,
                StringState::Outside => match byte {
                    b'"' => self.string = StringState::Inside,
                    b'{' | b'[' => {
                        if self.depth == depth_max {
                            return Err(FramingCode::TooDeep);
                        }
                        self.depth += 1;
                        self.objects = self.objects << 1 | u128::from(byte == b'{');
                    }
                    b'}' | b']' => {
                        if (self.objects & 1 == 1) != (byte == b'}') {
                            return Err(FramingCode::BadJson);
                        }
                        self.depth -= 1;
                        self.objects >>= 1;
                        if self.depth == 0 {
                            let len = self.seen + 1;
                            *self = Extent::default();
                            return Ok(Some(len));
                        }
                    }
                    _ => {}
                },
            }
            self.seen += 1;
        }
        if bytes_max < bytes.len() { Err(FramingCode::TooLarge) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, bytes_max: usize, depth_max: usize) -> Result<Option<usize>, FramingCode> {
        let whole = Extent::default().find(text.as_bytes(), bytes_max, depth_max);
        let mut extent = Extent::default();
        let by_bytes = (1..=text.len())
            .map(|len| extent.find(&text.as_bytes()[..len], bytes_max, depth_max))
            .find(|found| *found != Ok(None));
        assert_eq!(by_bytes.unwrap_or(Ok(None)), whole, "{text}");
        whole
    }

    #[test]
    fn objects_end_at_their_own_mark() {
        assert_eq!(found("{}", 9, 9), Ok(Some(2)));
        assert_eq!(found(r#"{"}":"\"}\\","a":[{}]}{"#, 99, 9), Ok(Some(22)));
        assert_eq!(found(r#"{"a":"}"#, 99, 9), Ok(None));
        assert_eq!(found("{[}", 99, 9), Err(FramingCode::BadJson));
        assert_eq!(found("{]", 99, 9), Err(FramingCode::BadJson));
    }

    #[test]
    fn limits_hold_to_the_byte() {
        assert_eq!(found(r#"{"a":1}"#, 7, 9), Ok(Some(7)));
        assert_eq!(found(r#"{"a":1}"#, 6, 9), Err(FramingCode::TooLarge));
        assert_eq!(found(r#"{"aaaaaaaaaaaaa"#, 6, 9), Err(FramingCode::TooLarge));
        assert_eq!(found(r#"{"aaaa"#, 6, 9), Ok(None));
        assert_eq!(found(r#"{"a":[[]]}"#, 99, 3), Ok(Some(10)));
        assert_eq!(found(r#"{"a":[[["#, 99, 3), Err(FramingCode::TooDeep));
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(127), "]".repeat(127));
        assert_eq!(found(&deep, 999, 128), Ok(Some(deep.len())));
    }
}
