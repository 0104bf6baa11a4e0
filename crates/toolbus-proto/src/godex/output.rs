//! The output of a tool as the model is told it: text, and no more than it can bear.

use std::time::Duration;

use super::OUTPUT_BYTES_MAX;
use crate::channel::Down;
use crate::tool::{Deadline, Failure, FailureKind, Outcome, Part, Piece};

/// Collects what a tool says into one text.
#[derive(Debug, Default)]
pub struct ToolOutput {
    text: String,
    /// Bytes that were left out.
    cut: usize,
    /// Something stands before what comes next.
    is_begun: bool,
    /// A run of bytes that is arriving: its media type, and how many came.
    blob: Option<(String, u64)>,
    /// How long the tool may take.
    patience: Option<Duration>,
}

impl ToolOutput {
    /// Nothing yet.
    pub fn new() -> ToolOutput {
        ToolOutput::default()
    }

    /// Of a tool that may take so long.
    pub fn within(patience: Duration) -> ToolOutput {
        ToolOutput { patience: Some(patience), ..ToolOutput::default() }
    }

    /// Takes the next of a reply; once it has ended gives its text, and whether it is an error.
    pub fn take(&mut self, down: Down) -> Option<(String, bool)> {
        match down {
            Down::Begin { head, .. } => {
                if let Some(head) = head.filter(|head| !head.is_null()) {
                    self.put(&head.shown());
                }
            }
            Down::Part(Part::Text(text)) => self.put(&text),
            Down::Part(Part::Json(json)) => self.put(&json.shown()),
            Down::Part(Part::Bytes(piece)) => self.put_bytes(&piece),
            Down::Progress(_) | Down::Log(_) | Down::Ask(..) => {}
            Down::Done(Ok(outcome)) => return Some((self.end(&outcome), false)),
            Down::Done(Err(failure)) => {
                return Some((ToolOutput::failed(&self.uniform(failure)), true));
            }
        }
        None
    }

    /// The wires tell of a deadline each in its own words; the model is told in one way.
    fn uniform(&self, failure: Failure) -> Failure {
        match self.patience {
            Some(patience) if failure.kind == FailureKind::TimedOut && !failure.from_peer => {
                Deadline::unanswered(patience)
            }
            _ => failure,
        }
    }

    /// What the model is told of a failure.
    pub fn failed(failure: &Failure) -> String {
        let mut output = ToolOutput::new();
        output.put(&format!("error: {}: {}", failure.kind, failure.message));
        output.whole()
    }

    fn end(&mut self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Value(json) => self.put(&json.shown()),
            Outcome::Text(text) => self.put(text),
            Outcome::End(Some(json)) if !json.is_null() => self.put(&json.shown()),
            Outcome::Native(bytes) => self.put(&String::from_utf8_lossy(bytes)),
            Outcome::End(_) | Outcome::Tools(_) => {}
        }
        self.whole()
    }

    fn whole(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        match self.cut {
            0 => text,
            cut => format!("{text}\n[{cut} bytes cut]"),
        }
    }

    fn put_bytes(&mut self, piece: &Piece) {
        let (_, len) = self.blob.get_or_insert_with(|| {
            let media_type = piece.media_type.as_deref().unwrap_or("application/octet-stream");
            (media_type.to_owned(), 0)
        });
        *len += piece.data.len() as u64;
        if piece.last
            && let Some((media_type, len)) = self.blob.take()
        {
            self.put(&format!("[{media_type}, {len} bytes]"));
        }
    }

    fn put(&mut self, text: &str) {
        if std::mem::replace(&mut self.is_begun, true) {
            self.put_raw("\n");
        }
        self.put_raw(text);
    }

    fn put_raw(&mut self, text: &str) {
        let room = OUTPUT_BYTES_MAX.saturating_sub(self.text.len());
        // Nothing behind a cut: the text would look as if it were whole.
        let end = if self.cut == 0 { text.floor_char_boundary(room.min(text.len())) } else { 0 };
        self.text.push_str(&text[..end]);
        self.cut += text.len() - end;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::json::Json;

    #[test]
    fn parts_are_joined_by_newlines() {
        let mut output = ToolOutput::new();
        let piece = |data: &'static [u8], last| {
            let data = Bytes::from_static(data);
            Down::Part(Part::Bytes(Piece { data, media_type: None, len: None, last }))
        };
        for down in [
            Down::Part(Part::Text("a".into())),
            Down::Progress(Json::null()),
            Down::Part(Part::Json(Json::parse(r#"{"b": 1}"#).unwrap())),
            piece(b"xy", false),
            piece(b"z", true),
        ] {
            assert_eq!(output.take(down), None);
        }
        let whole = output.take(Down::Done(Ok(Outcome::End(None))));
        let expected = "a\n{\"b\":1}\n[application/octet-stream, 3 bytes]";
        assert_eq!(whole, Some((expected.to_owned(), false)));
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_character() {
        let long = "é".repeat(OUTPUT_BYTES_MAX / 2 + 3);
        let (text, _) = ToolOutput::new().take(Down::Done(Ok(Outcome::Text(long)))).unwrap();
        assert_eq!(text.len(), OUTPUT_BYTES_MAX + "\n[6 bytes cut]".len());
        assert!(text.ends_with("é\n[6 bytes cut]"));
    }

    #[test]
    fn a_failure_is_told_with_its_kind() {
        let failure = Failure::new(FailureKind::TimedOut, "no answer within 500ms");
        let told = ToolOutput::new().take(Down::Done(Err(failure)));
        assert_eq!(told, Some(("error: timed_out: no answer within 500ms".to_owned(), true)));
    }
}
