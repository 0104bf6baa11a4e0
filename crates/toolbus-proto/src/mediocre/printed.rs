//! Events as lines of JSON, as `toolbus decode` and `toolbus rpc call --json` print them.
//!
//! A blob is printed when it is complete, so its line is for whoever collects its pieces.

use super::event::{Event, FramingError, Head, Message, PeerError, Said, Tail};
use crate::json::{Json, write_string};

/// The line of an event, without its newline; none for the pieces of a blob.
pub fn event(event: &Event) -> Option<String> {
    let line = match &event.said {
        Said::Head(head) => head_line(head),
        Said::MethodMissing { .. } => {
            Line::new("error").text("cls", "semantic").text("code", "method_missing")
        }
        Said::Value(value) => Line::new("value").json("v", Some(value)),
        Said::Tail(Tail { value, err, debug }) => {
            let line = Line::new("tail").json("value", value.as_ref());
            line.err(err.as_ref()).json("debug", debug.as_ref())
        }
        Said::BlobBegin | Said::Piece(_) | Said::BlobEnd => return None,
    };
    Some(line.end())
}

/// The lines of the notes beside an event.
pub fn notes(event: &Event) -> impl Iterator<Item = String> {
    event.notes.iter().map(|note| Line::new("note").text("code", note.code()).end())
}

/// The line of a blob whose bytes are these in base64.
pub fn blob(base64: &str) -> String {
    Line::new("blob").text("data", base64).end()
}

/// The line of a blob that is too large to be printed.
pub fn large_blob(bytes: u64, sha256: &str) -> String {
    Line::new("blob").raw("bytes", &bytes.to_string()).text("sha256", sha256).end()
}

/// The line of an error; it is the last one.
pub fn error(error: &FramingError) -> String {
    let line = Line::new("error").text("cls", "framing").text("code", error.code.code());
    line.raw("offset", &error.offset.to_string()).end()
}

/// The line of a clean end.
pub fn end() -> String {
    Line::new("end").end()
}

fn head_line(head: &Head) -> Line {
    let mut line = Line::new("head").raw("stream", &head.is_stream.to_string());
    if let Some(len) = head.stream_len {
        line = line.raw("streamLen", &len.to_string());
    }
    let line = match &head.message {
        Message::Call { method, args } => line.text("method", method).json("args", args.as_ref()),
        Message::Response { res, err } => line.json("res", res.as_ref()).err(err.as_ref()),
    };
    line.json("debug", head.debug.as_ref())
}

/// An object being written, its members in the order of the calls.
struct Line(Vec<u8>);

impl Line {
    fn new(event: &str) -> Line {
        let mut line = br#"{"event":"#.to_vec();
        write_string(&mut line, event);
        Line(line)
    }

    fn raw(mut self, name: &str, json: &str) -> Line {
        self.0.push(b',');
        write_string(&mut self.0, name);
        self.0.push(b':');
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    fn json(self, name: &str, json: Option<&Json>) -> Line {
        match json {
            Some(json) => self.raw(name, json.compact().as_str()),
            None => self,
        }
    }

    fn text(self, name: &str, text: &str) -> Line {
        let json = Json::of(text);
        self.raw(name, json.as_str())
    }

    fn err(self, err: Option<&PeerError>) -> Line {
        let Some(PeerError { msg, meta }) = err else { return self };
        let meta = meta.as_ref().map_or(Json::null(), Json::compact);
        self.raw("err", &format!(r#"{{"msg":{},"meta":{meta}}}"#, Json::of(msg)))
    }

    fn end(mut self) -> String {
        self.0.push(b'}');
        String::from_utf8(self.0).expect("was put together from texts")
    }
}
