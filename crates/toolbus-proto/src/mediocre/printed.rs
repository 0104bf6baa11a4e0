//! Events as lines of JSON, as `toolbus decode` and `toolbus rpc call --json` print them.
//!
//! A blob is printed when it is complete, so the caller that collects its pieces writes its line, by
//! [`blob`] or [`large_blob`].

use super::event::{Event, FramingError, Head, Message, PeerError, Said, Tail};
use crate::capture;
use crate::json::Json;

/// The line of an event, without its newline; none for the pieces of a blob.
pub fn event(event: &Event) -> Option<String> {
    let line = match &event.said {
        Said::Head(head) => head_line(head),
        Said::MethodMissing { .. } => {
            capture::Event::new("error").text("cls", "semantic").text("code", "method_missing")
        }
        Said::Value(value) => capture::Event::new("value").maybe("v", Some(value)),
        Said::Tail(tail) => {
            let Tail { value, err, debug } = &**tail;
            let line = capture::Event::new("tail").maybe("value", value.as_ref());
            with_err(line, err.as_ref()).maybe("debug", debug.as_ref())
        }
        Said::BlobBegin | Said::Piece(_) | Said::BlobEnd => return None,
    };
    Some(line.end().to_string())
}

/// The lines of the notes beside an event.
pub fn notes(event: &Event) -> impl Iterator<Item = String> {
    event
        .notes
        .iter()
        .map(|note| capture::Event::new("note").text("code", note.code()).end().to_string())
}

/// The line of a blob whose bytes are these in base64.
pub fn blob(base64: &str) -> String {
    capture::Event::new("blob").text("data", base64).end().to_string()
}

/// The line of a blob that is too large to be printed.
pub fn large_blob(bytes: u64, sha256: &str) -> String {
    capture::Event::new("blob")
        .raw("bytes", &bytes.to_string())
        .text("sha256", sha256)
        .end()
        .to_string()
}

/// The line of an error; it is the last one.
pub fn error(error: &FramingError) -> String {
    let line = capture::Event::new("error").text("cls", "framing").text("code", error.code.code());
    line.raw("offset", &error.offset.to_string()).end().to_string()
}

/// The line of a clean end.
pub fn end() -> String {
    capture::Event::new("end").end().to_string()
}

fn head_line(head: &Head) -> capture::Event {
    let mut line = capture::Event::new("head").raw("stream", &head.is_stream.to_string());
    if let Some(len) = head.stream_len {
        line = line.raw("streamLen", &len.to_string());
    }
    let line = match &head.message {
        Message::Call { method, args } => line.text("method", method).maybe("args", args.as_ref()),
        Message::Response { res, err } => with_err(line.maybe("res", res.as_ref()), err.as_ref()),
    };
    line.maybe("debug", head.debug.as_ref())
}

fn with_err(event: capture::Event, err: Option<&PeerError>) -> capture::Event {
    let Some(PeerError { msg, meta }) = err else { return event };
    let meta = meta.as_ref().map_or(Json::null(), Json::compact);
    event.raw("err", &format!(r#"{{"msg":{},"meta":{meta}}}"#, Json::of(msg)))
}
