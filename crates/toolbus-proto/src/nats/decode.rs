//! A capture of one side, operation by operation, as `toolbus decode` prints it.

use bytes::{Bytes, BytesMut};

use super::headers::Headers;
use super::protocol::{Message, Op, OpReader};
use crate::capture::Event;
use crate::collect::base64;
use crate::json::{Json, Kind, edit, write_string};

/// What is never shown of what a client says about itself.
const MASKED: [&str; 5] = ["pass", "auth_token", "sig", "jwt", "nkey"];

/// Tells what one side says.
#[derive(Debug, Default)]
pub struct Decoder {
    reader: OpReader,
}

impl Decoder {
    /// The next event, or `None` until the rest of it is there; why the framing is broken otherwise.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Json>, String> {
        let op = self.reader.next(input).map_err(|why| why.to_string())?;
        op.as_ref().map(event).transpose()
    }

    /// Is there the beginning of an operation, and no rest of it?
    pub fn is_inside(&self, input: &BytesMut) -> bool {
        self.reader.is_inside(input)
    }

    /// What breaks the framing, as an event.
    pub fn error(why: &str) -> Json {
        Event::new("error").text("message", why).end()
    }
}

fn event(op: &Op) -> Result<Json, String> {
    Ok(match op {
        Op::Info(text) => Event::new("info").json("info", &object("INFO", text)?).end(),
        Op::Connect(text) => {
            let mut shown = object("CONNECT", text)?.as_str().to_owned();
            for name in MASKED {
                shown = edit::replaced(&shown, name, r#""***""#).unwrap_or(shown);
            }
            Event::new("connect").raw("connect", &shown).end()
        }
        Op::Msg(message) => {
            let event = Event::new("msg").text("subject", &message.subject);
            of_message(event.text("sid", &message.sid), message)
        }
        Op::Pub(message) => {
            of_message(Event::new("pub").text("subject", &message.subject), message)
        }
        Op::Sub { subject, queue, sid } => {
            let event = Event::new("sub").text("subject", subject);
            let event = match queue {
                Some(queue) => event.text("queue", queue),
                None => event,
            };
            event.text("sid", sid).end()
        }
        Op::Unsub { sid, max } => {
            let event = Event::new("unsub").text("sid", sid);
            match max {
                Some(max) => event.raw("max", &max.to_string()).end(),
                None => event.end(),
            }
        }
        Op::Ping => Event::new("ping").end(),
        Op::Pong => Event::new("pong").end(),
        Op::Ok => Event::new("ok").end(),
        Op::Err(message) => Event::new("err").text("message", message).end(),
    })
}

/// What one side says of itself. Anything else is not shown, since it may hold secrets.
fn object(verb: &str, text: &Bytes) -> Result<Json, String> {
    let json = Json::parse(text.clone()).ok().filter(|json| json.kind() == Kind::Object);
    json.map(|json| json.compact()).ok_or_else(|| format!("`{verb}` without an object"))
}

fn of_message(event: Event, message: &Message) -> Json {
    let mut event = match &message.reply {
        Some(reply) => event.text("reply", reply),
        None => event,
    };
    if let Some(head) = &message.head {
        let headers = Headers::read(head).unwrap_or_default();
        if let Some(status) = headers.status {
            event = event.raw("status", &status.to_string());
            if !headers.text().is_empty() {
                event = event.text("text", headers.text());
            }
        }
        if headers.fields().next().is_some() {
            event = event.raw("headers", &fields(&headers));
        }
    }
    event.raw("payload", payload(&message.payload).as_str()).end()
}

/// An object of strings, and of arrays where a name repeats.
fn fields(headers: &Headers) -> String {
    let mut out = vec![b'{'];
    let mut named: Vec<&str> = Vec::new();
    for (name, _) in headers.fields() {
        if named.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            continue;
        }
        if !named.is_empty() {
            out.push(b',');
        }
        named.push(name);
        write_string(&mut out, name);
        out.push(b':');
        let values: Vec<&str> = headers.all(name).collect();
        match values[..] {
            [value] => write_string(&mut out, value),
            _ => out.extend_from_slice(Json::of(&values).as_bytes()),
        }
    }
    out.push(b'}');
    String::from_utf8(out).expect("names and values are text")
}

/// Raw JSON if it is, else a string, else bytes; nothing is `null`.
fn payload(payload: &Bytes) -> Json {
    if payload.is_empty() {
        return Json::null();
    }
    match std::str::from_utf8(payload) {
        Ok(_) => json_or_text(payload),
        Err(_) => Json::from_trusted(format!("{{\"$bytes\":\"{}\"}}", base64(payload))),
    }
}

fn json_or_text(text: &Bytes) -> Json {
    match Json::parse(text.clone()) {
        Ok(json) => json.compact(),
        Err(_) => Json::of(&String::from_utf8_lossy(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_an_operation() {
        let mut input = BytesMut::from(
            &b"CONNECT {\"verbose\":false,\"pass\":\"x\",\"jwt\":\"y\"}\r\nSUB a q 1\r\nUNSUB 1 5\r\n\
               HPUB a r 43 46\r\nNATS/1.0 503 No\r\na: 1\r\nA: 2\r\nToolbus: x\r\n\r\nhi!\r\n\
               PUB a 1\r\n1\r\nPUB a 1\r\n\xff\r\nMSG a 7 0\r\n\r\n"[..],
        );
        let mut decoder = Decoder::default();
        let mut lines = Vec::new();
        while let Some(event) = decoder.next(&mut input).unwrap() {
            lines.push(event.to_string());
        }
        assert_eq!(
            lines,
            [
                r#"{"event":"connect","connect":{"verbose":false,"pass":"***","jwt":"***"}}"#,
                r#"{"event":"sub","subject":"a","queue":"q","sid":"1"}"#,
                r#"{"event":"unsub","sid":"1","max":5}"#,
                r#"{"event":"pub","subject":"a","reply":"r","status":503,"text":"No","headers":{"a":["1","2"],"Toolbus":"x"},"payload":"hi!"}"#,
                r#"{"event":"pub","subject":"a","payload":1}"#,
                r#"{"event":"pub","subject":"a","payload":{"$bytes":"/w=="}}"#,
                r#"{"event":"msg","subject":"a","sid":"7","payload":null}"#,
            ]
        );
        assert!(!decoder.is_inside(&input));
    }

    #[test]
    fn a_status_alone_has_no_headers() {
        let mut input = BytesMut::from(&b"HMSG a 7 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"[..]);
        let event = Decoder::default().next(&mut input).unwrap().unwrap();
        let expected = r#"{"event":"msg","subject":"a","sid":"7","status":503,"payload":null}"#;
        assert_eq!(event.as_str(), expected);
    }

    #[test]
    fn what_cannot_be_masked_is_not_shown() {
        for (line, why) in [
            ("CONNECT {\"pass\":\"x\"", "`CONNECT` without an object"),
            ("CONNECT [\"x\"]", "`CONNECT` without an object"),
            ("INFO x", "`INFO` without an object"),
        ] {
            let mut input = BytesMut::from(format!("{line}\r\n").as_bytes());
            assert_eq!(Decoder::default().next(&mut input), Err(why.to_owned()), "{line}");
        }
    }
}
