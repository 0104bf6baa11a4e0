//! `toolbus call --stream`: each part as a line of JSON, as soon as it is there.

use toolbus_engine::calls::{Inbox, RunningCall};
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::collect::{COLLECTED_BYTES_MAX, base64};
use toolbus_proto::json::Json;
use toolbus_proto::printable::size;
use toolbus_proto::tool::{Failure, FailureKind, Part, Piece};

use super::answering::Answering;
use super::json;
use super::receive::log;
use crate::failed::Failed;
use crate::render;

/// Prints all lines but the last, and gives that one.
pub(super) async fn print(
    inbox: &Inbox,
    running: RunningCall,
    answering: &Answering,
) -> Result<Result<String, Failure>, Failed> {
    let mut lines = Lines::default();
    loop {
        let down = inbox.next(&running).await;
        if let Down::Ask(ask, question) = &down {
            let answer = answering.answer(question).await;
            let _ = running.send(Up::Answer(*ask, answer));
            continue;
        }
        let is_done = matches!(down, Down::Done(_));
        match lines.take(down) {
            Ok(Some(line)) if !is_done => render::print(&line)?,
            Ok(None) => {}
            last => {
                if is_done {
                    running.forget();
                }
                return Ok(last.map(Option::unwrap_or_default));
            }
        }
    }
}

/// Makes lines of what comes. A blob is one line, so its pieces are kept until it is whole.
#[derive(Default)]
struct Lines {
    blob: Vec<u8>,
}

impl Lines {
    fn take(&mut self, down: Down) -> Result<Option<String>, Failure> {
        let (label, value) = match down {
            Down::Begin { head: None, .. } => return Ok(None),
            Down::Begin { head: Some(head), .. } => ("head", head.compact()),
            Down::Part(Part::Json(value)) => ("part", value.compact()),
            Down::Part(Part::Text(text)) => ("part", Json::of(&text)),
            Down::Part(Part::Bytes(piece)) => match self.take_piece(&piece)? {
                Some(blob) => ("part", blob),
                None => return Ok(None),
            },
            Down::Progress(progress) => ("progress", progress.compact()),
            Down::Log(message) => {
                log(&message);
                return Ok(None);
            }
            // It was answered.
            Down::Ask(..) => return Ok(None),
            Down::Done(ended) => ("end", json(ended?)),
        };
        Ok(Some(format!("{{\"{label}\":{value}}}\n")))
    }

    fn take_piece(&mut self, piece: &Piece) -> Result<Option<Json>, Failure> {
        if COLLECTED_BYTES_MAX < self.blob.len() + piece.data.len() {
            let message = format!("a part is over the limit of {}", size(COLLECTED_BYTES_MAX));
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        self.blob.extend_from_slice(&piece.data);
        if !piece.last {
            return Ok(None);
        }
        let text = base64(&std::mem::take(&mut self.blob));
        Ok(Some(Json::from_trusted(format!(r#"{{"$bytes":"{text}"}}"#))))
    }
}

#[cfg(test)]
mod tests {
    use toolbus_proto::tool::Outcome;

    use super::*;

    fn lines(downs: Vec<Down>) -> String {
        let mut lines = Lines::default();
        let line = |down| match lines.take(down) {
            Ok(line) => line.unwrap_or_default(),
            Err(failure) => format!("{failure}\n"),
        };
        downs.into_iter().map(line).collect()
    }

    fn piece(data: Vec<u8>, last: bool) -> Down {
        Down::Part(Part::Bytes(Piece { data: data.into(), media_type: None, len: None, last }))
    }

    #[test]
    fn every_part_is_a_line() {
        let json = |text: &'static str| Json::parse(text).unwrap();
        let told = lines(vec![
            Down::Begin { head: Some(json("[ 1 ]")), parts: None },
            Down::Progress(json(r#"{"progress": 1}"#)),
            Down::Part(Part::Text("a\nb".into())),
            Down::Log(json("\"said\"")),
            piece(b"h".to_vec(), false),
            piece(b"i".to_vec(), false),
            piece(Vec::new(), true),
            Down::Part(Part::Json(json("1.50"))),
            Down::Done(Ok(Outcome::End(Some(json("{ }"))))),
        ]);
        let expected = [
            r#"{"head":[1]}"#,
            r#"{"progress":{"progress":1}}"#,
            r#"{"part":"a\nb"}"#,
            r#"{"part":{"$bytes":"aGk="}}"#,
            r#"{"part":1.50}"#,
            r#"{"end":{}}"#,
            "",
        ];
        assert_eq!(told, expected.join("\n"));
    }

    #[test]
    fn a_reply_that_is_no_stream_is_its_end() {
        let done = |outcome| lines(vec![Down::Done(Ok(outcome))]);
        assert_eq!(done(Outcome::Text("hi".into())), "{\"end\":\"hi\"}\n");
        assert_eq!(done(Outcome::End(None)), "{\"end\":null}\n");
    }

    #[test]
    fn a_blob_has_a_limit() {
        let half = || piece(vec![0; COLLECTED_BYTES_MAX / 2 + 1], false);
        let told = lines(vec![half(), half()]);
        assert_eq!(told, "a part is over the limit of 16 MiB (16777216 bytes)\n");
    }
}
