//! An answer in chunks made into one result (`docs/protocols/orchestra.md` 10).

use bytes::{Bytes, BytesMut};

use super::FRAME_BYTES_MAX;
use super::shape;
use super::structure::Struct;
use super::translate::{self, JSON, refused, text_result};
use super::wire::{StreamChunk, StreamEnd, ToolResponse};
use crate::collect::base64;
use crate::json::Json;

/// Collects the chunks of one answer.
#[derive(Debug, Default)]
pub struct Fold {
    joined: BytesMut,
    count: u64,
    /// Of the first chunk.
    content_type: String,
    /// Where each chunk ends in what is joined, while there are few enough of them.
    ends: Vec<u32>,
    is_too_large: bool,
}

/// Of how many chunks it is kept where they end.
const ENDS_MAX: u64 = 1 << 18;

impl Fold {
    /// One more chunk; tells whether it was taken: beyond the limit none is.
    pub fn push(&mut self, chunk: &StreamChunk) -> bool {
        if self.count == 0 {
            self.content_type.clone_from(&chunk.content_type);
        }
        self.count += 1;
        self.is_too_large |= FRAME_BYTES_MAX < self.joined.len() + chunk.data.len();
        if self.is_too_large {
            self.joined = BytesMut::new();
            self.ends = Vec::new();
        } else {
            self.joined.extend_from_slice(&chunk.data);
            if self.count <= ENDS_MAX {
                let end = u32::try_from(self.joined.len());
                self.ends.push(end.expect("is within the limit of a frame"));
            }
        }
        !self.is_too_large
    }

    /// What it keeps.
    pub fn weight(&self) -> usize {
        self.joined.len() + self.ends.len() * size_of::<u32>()
    }

    /// How many chunks there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The answer, if that was all.
    pub fn end(self, end: &StreamEnd) -> ToolResponse {
        if self.is_too_large {
            return too_large();
        }
        if !end.success {
            let refusal = refused(&end.error_code, end.error_message.clone());
            return ToolResponse { result: end.detail.clone(), ..refusal };
        }
        if let Some(reply) = self.reply(&end.shape) {
            return reply;
        }
        let result = Some(self.result());
        ToolResponse { success: true, result, ..ToolResponse::default() }
    }

    /// The answer that the same call without chunks would have had, if the end says what they are.
    fn reply(&self, shape: &str) -> Option<ToolResponse> {
        if shape.is_empty() || ENDS_MAX < self.count {
            return None;
        }
        let mut start = 0;
        let chunks = self.ends.iter().map(|&end| {
            let chunk = &self.joined[start..end as usize];
            start = end as usize;
            chunk
        });
        // The tool is there, since it has answered: its name is for those that are not.
        Some(translate::response("", shape::reply(shape, chunks)?))
    }

    fn result(self) -> Struct {
        let joined: Bytes = self.joined.freeze();
        let Ok(text) = std::str::from_utf8(&joined) else {
            let (bytes, content_type) = (Json::of(&base64(&joined)), Json::of(&self.content_type));
            let members = format!("{{\"base64\":{bytes},\"content_type\":{content_type}}}");
            return Struct::of_json(&members).expect("two texts");
        };
        let is_object = self.count == 1 && self.content_type == JSON;
        let object = is_object.then(|| Json::parse(joined.clone()).ok()).flatten();
        let object = object.and_then(|object| Struct::of_json(object.as_str()).ok());
        object.unwrap_or_else(|| text_result(text))
    }
}

/// The answer to what would be larger than one message may be.
pub fn too_large() -> ToolResponse {
    refused("too_large", format!("the answer is over the limit of {FRAME_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(chunks: &[(&str, &'static [u8])]) -> String {
        let mut fold = Fold::default();
        for (content_type, data) in chunks {
            let (content_type, data) = ((*content_type).to_owned(), Bytes::from_static(data));
            assert!(fold.push(&StreamChunk { data, content_type, ..StreamChunk::default() }));
        }
        let response = fold.end(&StreamEnd { success: true, ..StreamEnd::default() });
        response.result.unwrap().to_json().to_string()
    }

    #[test]
    fn one_object_is_itself_text_is_joined_and_bytes_are_base64() {
        assert_eq!(fold(&[(JSON, br#"{"a": 1}"#)]), r#"{"a":1}"#);
        assert_eq!(fold(&[(JSON, b"[1]")]), r#"{"text":"[1]"}"#);
        assert_eq!(fold(&[("x", br#"{"a":1}"#)]), r#"{"text":"{\"a\":1}"}"#);
        assert_eq!(fold(&[(JSON, b"{\"a\":"), (JSON, b"1}")]), r#"{"text":"{\"a\":1}"}"#);
        assert_eq!(fold(&[("x", b"\xc3"), ("y", b"\xa9")]), r#"{"text":"é"}"#);
        assert_eq!(fold(&[("x", b"\xff")]), r#"{"base64":"/w==","content_type":"x"}"#);
        assert_eq!(fold(&[]), r#"{"text":""}"#);
    }

    #[test]
    fn what_is_too_much_is_refused_and_not_kept() {
        let mut fold = Fold::default();
        let data = Bytes::from(vec![b'x'; FRAME_BYTES_MAX / 2]);
        let chunk = StreamChunk { data, ..StreamChunk::default() };
        assert!(fold.push(&chunk) && fold.push(&chunk));
        assert!(!fold.push(&StreamChunk { data: Bytes::from_static(b"y"), ..chunk.clone() }));
        assert_eq!(fold.joined.capacity(), 0);
        let response = fold.end(&StreamEnd { success: true, ..StreamEnd::default() });
        assert_eq!(response.error_code, "too_large");
    }

    #[test]
    fn an_end_that_is_no_success_says_why() {
        let end =
            StreamEnd { error_code: "c".into(), error_message: "m".into(), ..StreamEnd::default() };
        assert_eq!(Fold::default().end(&end), refused("c", "m"));
    }
}
