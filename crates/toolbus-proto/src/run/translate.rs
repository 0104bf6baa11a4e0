//! What the frames of the run socket carry: calls as commands make them, what comes back, tools.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::wire::{Frame, Head};
use crate::channel::{AskId, Down, Up};
use crate::collect::{base64, from_base64};
use crate::json::{Json, edit};
use crate::tool::{
    Call, Code, Deadline, Exit, Failure, FailureKind, Hints, LastWords, Outcome, Part, Piece,
    Provenance, ToolName, ToolSpec, Trace, What, Wire,
};

/// A call that a command makes by the bus of another process.
#[derive(Debug, Clone)]
pub struct RemoteCall {
    /// The front that the command is.
    pub front: String,
    /// The view that it was told to look through.
    pub view: Option<String>,
    /// The caller that it was told to be.
    pub caller: Option<String>,
    /// Whose it is, by the config that both have.
    pub to: Destination,
    /// The call: of a tool by the name that its caller used.
    pub call: Call,
}

/// Where a call goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// To this tool of this back, by its own name.
    Tool {
        /// The back.
        back: String,
        /// The tool.
        own: ToolName,
    },
    /// To this back, in the words of its wire.
    Back(String),
    /// Nowhere: the command has refused it, and whoever keeps count of calls is to know.
    Nowhere {
        /// What its caller is told.
        why: Box<Failure>,
        /// The back and the tool that it would have reached if its caller were shown it.
        hidden: Option<(String, ToolName)>,
    },
}

/// An object that is being written.
struct Object(String);

impl Object {
    fn new() -> Object {
        Object("{".to_owned())
    }

    fn raw(mut self, name: &str, value: &str) -> Object {
        if 1 < self.0.len() {
            self.0.push(',');
        }
        // Writing into a string cannot fail.
        let _ = write!(self.0, "{}:{value}", Json::of(name));
        self
    }

    fn text(self, name: &str, value: &str) -> Object {
        self.raw(name, Json::of(value).as_str())
    }

    fn number(self, name: &str, value: impl ToString) -> Object {
        self.raw(name, &value.to_string())
    }

    fn maybe<T>(self, value: Option<T>, put: impl FnOnce(Object, T) -> Object) -> Object {
        match value {
            Some(value) => put(self, value),
            None => self,
        }
    }

    fn flag(self, name: &str, is_set: bool) -> Object {
        if is_set { self.raw(name, "true") } else { self }
    }

    fn end(mut self) -> Bytes {
        self.0.push('}');
        self.0.into()
    }
}

fn text(object: &str, name: &str) -> Option<String> {
    edit::text(object, name).map(std::borrow::Cow::into_owned)
}

fn json(object: &str, name: &str) -> Option<Json> {
    edit::member(object, name).map(|raw| Json::from_trusted(raw.to_owned()))
}

fn number<T: std::str::FromStr>(object: &str, name: &str) -> Option<T> {
    edit::member(object, name)?.parse().ok()
}

fn flag(object: &str, name: &str) -> bool {
    edit::member(object, name) == Some("true")
}

impl RemoteCall {
    /// As it is sent.
    pub fn write(&self, now: Instant) -> Bytes {
        let Call { what, deadline, trace, debug, options, provenance, .. } = &self.call;
        let head = Object::new().text("front", &self.front);
        let head = head.maybe(self.view.as_ref(), |head, view| head.text("view", view));
        let head = head.maybe(self.caller.as_ref(), |head, caller| head.text("as", caller));
        let head = match &self.to {
            Destination::Tool { back, own } => head.text("back", back).text("own", own.as_str()),
            Destination::Back(back) => head.text("back", back),
            Destination::Nowhere { why, hidden } => {
                let head = head.raw("refused", &written(write_failure(why)));
                head.maybe(hidden.as_ref(), |head, (back, own)| {
                    head.text("back", back).text("own", own.as_str())
                })
            }
        };
        let head = match what {
            What::Tools => head,
            What::Tool { name, args } => {
                let head = head.text("name", name.as_str());
                head.maybe(args.as_ref(), |head, args| head.raw("args", args.as_str()))
            }
            What::Native { wire, method, body } => head
                .text("wire", wire.name())
                .text("method", &String::from_utf8_lossy(method))
                .text("body", &base64(body)),
        };
        let elapsed = now.saturating_duration_since(deadline.asked);
        let head = head.number("elapsed", elapsed.as_nanos());
        let nanos = |name| move |head: Object, time: Duration| head.number(name, time.as_nanos());
        let head = head.maybe(deadline.quiet, nanos("quiet")).maybe(deadline.total, nanos("total"));
        let head = head.maybe(trace.as_ref(), |head, trace| {
            let head = head.text("trace", trace.parent());
            head.maybe(trace.state(), |head, state| head.text("state", state))
        });
        let head = head.maybe(debug.as_ref(), |head, debug| head.raw("debug", debug.as_str()));
        let asks = provenance.as_ref().and_then(|known| known.asks.as_ref());
        let head = head.maybe(asks, |head, asks| head.raw("asks", asks.as_str()));
        let options = [
            ("progress", options.progress),
            ("sends_parts", options.sends_parts),
            ("events", options.events),
            ("text", options.text),
            ("typed", options.typed),
        ];
        options.into_iter().fold(head, |head, (name, is_set)| head.flag(name, is_set)).end()
    }

    /// Reads what was sent; `wire` finds a wire by its name.
    pub fn read(
        now: Instant,
        body: &Bytes,
        wire: impl FnOnce(&str) -> Option<Wire>,
    ) -> Option<RemoteCall> {
        let body = Json::parse(body.clone()).ok()?;
        let head = body.as_str();
        let what = match (text(head, "name"), text(head, "wire")) {
            (Some(name), _) => What::Tool { name: name.into(), args: json(head, "args") },
            (None, Some(name)) => What::Native {
                wire: wire(&name)?,
                method: text(head, "method")?.into(),
                body: from_base64(&text(head, "body")?)?.into(),
            },
            (None, None) => return None,
        };
        let (back, own) = (text(head, "back"), text(head, "own").map(ToolName::from));
        let to = match (edit::member(head, "refused"), back, own) {
            (Some(why), back, own) => {
                let why = Box::new(read_failure(why)?);
                Destination::Nowhere { why, hidden: back.zip(own) }
            }
            (None, Some(back), Some(own)) => Destination::Tool { back, own },
            (None, Some(back), None) => Destination::Back(back),
            (None, None, _) => return None,
        };
        let time = |name| number(head, name).map(Duration::from_nanos);
        let asked = time("elapsed").and_then(|elapsed| now.checked_sub(elapsed)).unwrap_or(now);
        let mut call = Call::of(asked, what);
        call.deadline = Deadline { asked, quiet: time("quiet"), total: time("total") };
        call.trace =
            text(head, "trace").and_then(|of| Trace::read(&of, text(head, "state").as_deref()));
        call.debug = json(head, "debug").map(Box::new);
        if let Some(asks) = json(head, "asks") {
            let known = Provenance { asks: Some(asks), ..Provenance::default() };
            call.provenance = Some(Box::new(known));
        }
        let options = &mut call.options;
        for (name, option) in [
            ("progress", &mut options.progress),
            ("sends_parts", &mut options.sends_parts),
            ("events", &mut options.events),
            ("text", &mut options.text),
            ("typed", &mut options.typed),
        ] {
            *option = flag(head, name);
        }
        let front = text(head, "front")?;
        Some(RemoteCall { front, view: text(head, "view"), caller: text(head, "as"), to, call })
    }
}

/// The tools of a back that speaks this wire, as they are sent.
pub fn write_tools(wire: Wire, tools: &[ToolSpec]) -> Json {
    let tools: Vec<_> = tools.iter().map(|spec| written(write_tool(spec))).collect();
    let object = Object::new().text("wire", wire.name());
    Json::from_trusted(object.raw("tools", &format!("[{}]", tools.join(","))).end())
}

/// Reads them: the name of the wire, and the tools.
pub fn read_tools(sent: &Json) -> Option<(String, Arc<[ToolSpec]>)> {
    let wire = text(sent.as_str(), "wire")?;
    let tools = edit::elements(edit::member(sent.as_str(), "tools")?).map(read_tool);
    Some((wire, tools.collect::<Option<_>>()?))
}

fn write_tool(spec: &ToolSpec) -> Bytes {
    let ToolSpec { name, title, description, input, output, hints, native: _ } = spec;
    let object = Object::new().text("name", name.as_str());
    let object = object.maybe(title.as_ref(), |object, title| object.text("title", title));
    let object =
        object.maybe(description.as_ref(), |object, told| object.text("description", told));
    let object = object.raw("input", input.as_str());
    let object =
        object.maybe(output.as_ref(), |object, output| object.raw("output", output.as_str()));
    object
        .maybe(hints.as_ref(), |object, hints| {
            let mut told = Object::new();
            for (name, hint) in [
                ("read_only", hints.read_only),
                ("idempotent", hints.idempotent),
                ("destructive", hints.destructive),
            ] {
                told = told.maybe(hint, |told, hint| told.number(name, hint));
            }
            object.raw("hints", &written(told.end()))
        })
        .end()
}

fn read_tool(sent: &str) -> Option<ToolSpec> {
    let hints = edit::member(sent, "hints").map(|hints| Hints {
        read_only: number(hints, "read_only"),
        idempotent: number(hints, "idempotent"),
        destructive: number(hints, "destructive"),
    });
    Some(ToolSpec {
        name: text(sent, "name")?.into(),
        title: text(sent, "title"),
        description: text(sent, "description"),
        input: json(sent, "input")?,
        output: json(sent, "output"),
        hints,
        native: None,
    })
}

/// What is said of a call that runs, by the one who asked.
pub(super) fn write_up(id: u64, up: Up) -> Frame {
    match up {
        Up::Part(part) => write_part(id, part),
        Up::End(value) => {
            Frame::of(Head::new(id, "end"), value.map(|value| value.as_bytes().clone()))
        }
        Up::Answer(AskId(ask), value) => {
            let head = Head { ask: Some(ask), ..Head::new(id, "answer") };
            Frame::of(head, Some(value.as_bytes().clone()))
        }
        Up::Cancel(why) => {
            Frame::of(Head::new(id, "cancel"), why.map(|why| why.as_bytes().clone()))
        }
    }
}

pub(super) fn read_up(frame: Frame) -> Option<Up> {
    let Frame { head, payload } = frame;
    Some(match &*head.say {
        "part" => Up::Part(read_part(head, payload?)?),
        "end" => Up::End(maybe_json(payload)?),
        "answer" => Up::Answer(AskId(head.ask?), Json::parse(payload?).ok()?),
        "cancel" => Up::Cancel(maybe_json(payload)?),
        _ => return None,
    })
}

/// What is said of a call that runs, by the one who answers.
pub(super) fn write_down(id: u64, down: Down) -> Frame {
    let of = |say: &str, payload: Option<Bytes>| Frame::of(Head::new(id, say), payload);
    let bytes = |json: Json| Some(json.as_bytes().clone());
    match down {
        Down::Begin { head, parts } => {
            let payload = head.and_then(bytes);
            Frame::of(Head { parts, ..Head::new(id, "begin") }, payload)
        }
        Down::Part(part) => write_part(id, part),
        Down::Progress(told) => of("progress", bytes(told)),
        Down::Log(told) => of("log", bytes(told)),
        Down::Ask(AskId(ask), question) => {
            Frame::of(Head { ask: Some(ask), ..Head::new(id, "ask") }, bytes(question))
        }
        Down::Done(Ok(Outcome::Value(value))) => of("value", bytes(value)),
        Down::Done(Ok(Outcome::Text(text))) => of("text", Some(text.into())),
        Down::Done(Ok(Outcome::End(value))) => of("end", value.and_then(bytes)),
        Down::Done(Ok(Outcome::Native(body))) => of("native", Some(body)),
        Down::Done(Ok(Outcome::Tools(tools))) => {
            of("value", bytes(write_tools(Wire::INSIDE, &tools)))
        }
        Down::Done(Err(failure)) => of("failure", Some(write_failure(&failure))),
    }
}

pub(super) fn read_down(frame: Frame) -> Option<Down> {
    let Frame { head, payload } = frame;
    let done = |outcome| Down::Done(Ok(outcome));
    Some(match &*head.say {
        "begin" => Down::Begin { head: maybe_json(payload)?, parts: head.parts },
        "part" => Down::Part(read_part(head, payload?)?),
        "progress" => Down::Progress(Json::parse(payload?).ok()?),
        "log" => Down::Log(Json::parse(payload?).ok()?),
        "ask" => Down::Ask(AskId(head.ask?), Json::parse(payload?).ok()?),
        "value" => done(Outcome::Value(Json::parse(payload?).ok()?)),
        "text" => done(Outcome::Text(String::from_utf8(payload?.into()).ok()?)),
        "end" => done(Outcome::End(maybe_json(payload)?)),
        "native" => done(Outcome::Native(payload?)),
        "failure" => {
            let sent = Json::parse(payload?).ok()?;
            Down::Done(Err(read_failure(sent.as_str())?))
        }
        _ => return None,
    })
}

fn maybe_json(payload: Option<Bytes>) -> Option<Option<Json>> {
    match payload {
        Some(payload) => Json::parse(payload).ok().map(Some),
        None => Some(None),
    }
}

fn write_part(id: u64, part: Part) -> Frame {
    let kind = |kind: &str| Head { part: Some(kind.to_owned()), ..Head::new(id, "part") };
    match part {
        Part::Text(text) => Frame::of(kind("text"), Some(text.into())),
        Part::Json(value) => Frame::of(kind("json"), Some(value.as_bytes().clone())),
        Part::Bytes(Piece { data, media_type, len, last }) => {
            let media_type = media_type.as_deref().map(str::to_owned);
            Frame::of(Head { media_type, len, more: !last, ..kind("bytes") }, Some(data))
        }
    }
}

fn read_part(head: Head, payload: Bytes) -> Option<Part> {
    Some(match head.part.as_deref()? {
        "text" => Part::Text(String::from_utf8(payload.into()).ok()?),
        "json" => Part::Json(Json::parse(payload).ok()?),
        "bytes" => Part::Bytes(Piece {
            data: payload,
            media_type: head.media_type.map(Into::into),
            len: head.len,
            last: !head.more,
        }),
        _ => return None,
    })
}

/// A failure with all that is known of it.
fn write_failure(failure: &Failure) -> Bytes {
    let Failure { kind, code, message, detail, from_peer, last_words } = failure;
    let object = Object::new().text("kind", kind.as_str());
    let object = object.maybe(code.as_ref(), |object, code| match code {
        Code::Number(code) => object.number("number", code),
        Code::Word(code) => object.text("word", code),
    });
    let object = object.text("message", message);
    let object =
        object.maybe(detail.as_ref(), |object, detail| object.raw("detail", detail.as_str()));
    let object = object.flag("from_peer", *from_peer);
    object
        .maybe(last_words.as_deref(), |object, words| {
            object.raw("last_words", &written(write_last_words(words)))
        })
        .end()
}

fn write_last_words(words: &LastWords) -> Bytes {
    let LastWords { exit, stderr, hint, is_unproven, said } = words;
    let object = Object::new().maybe(exit.as_ref(), |object, exit| match exit {
        Exit::Code(code) => object.number("status", code),
        Exit::Signal(signal) => object.number("signal", signal),
    });
    let object = object.raw("stderr", Json::of(stderr).as_str());
    let object = object.maybe(hint.as_ref(), |object, hint| object.text("hint", hint));
    object.flag("is_unproven", *is_unproven).text("said", &base64(said)).end()
}

fn read_failure(sent: &str) -> Option<Failure> {
    let kind = text(sent, "kind")?;
    let kind = FailureKind::ALL.into_iter().find(|known| known.as_str() == kind)?;
    let code = number(sent, "number").map(Code::Number);
    Some(Failure {
        code: code.or_else(|| text(sent, "word").map(Code::Word)),
        detail: json(sent, "detail"),
        from_peer: flag(sent, "from_peer"),
        last_words: edit::member(sent, "last_words").and_then(read_last_words).map(Box::new),
        ..Failure::new(kind, text(sent, "message")?)
    })
}

fn read_last_words(sent: &str) -> Option<LastWords> {
    let status = number(sent, "status").map(Exit::Code);
    let lines = edit::elements(edit::member(sent, "stderr")?);
    let line = |raw: &str| Json::from_trusted(raw.to_owned()).string();
    Some(LastWords {
        exit: status.or_else(|| number(sent, "signal").map(Exit::Signal)),
        stderr: lines.map(line).collect::<Option<_>>()?,
        hint: text(sent, "hint"),
        is_unproven: flag(sent, "is_unproven"),
        said: from_base64(&text(sent, "said")?)?.into(),
    })
}

/// An object as a text.
fn written(object: Bytes) -> String {
    String::from_utf8_lossy(&object).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        let words = LastWords {
            exit: Some(Exit::Signal(9)),
            stderr: vec!["oh \"no\"".to_owned(), String::new()],
            hint: Some("try `again`".to_owned()),
            is_unproven: true,
            said: Bytes::from_static(b"\xff\n"),
        };
        Failure {
            code: Some(Code::Number(-32603)),
            detail: Some(Json::from_trusted("{\n\"a\":1e400}")),
            from_peer: true,
            ..Failure::new(FailureKind::Gone, "line\nbreak").with_last_words(words)
        }
    }

    #[test]
    fn what_is_said_arrives_as_it_was() {
        let json = || Json::from_trusted("{\n \"a\": 1e400 }");
        let piece = |media_type: Option<&str>, len, last| {
            let data = Bytes::from_static(b"\0\xff\n");
            Part::Bytes(Piece { data, media_type: media_type.map(Into::into), len, last })
        };
        let downs = [
            Down::Begin { head: Some(json()), parts: Some(3) },
            Down::Begin { head: None, parts: None },
            Down::Part(Part::Text("a\nb".to_owned())),
            Down::Part(Part::Json(json())),
            Down::Part(piece(Some("image/png"), Some(6), false)),
            Down::Part(piece(None, None, true)),
            Down::Progress(json()),
            Down::Log(json()),
            Down::Ask(AskId(7), json()),
            Down::Done(Ok(Outcome::Value(json()))),
            Down::Done(Ok(Outcome::Text(String::new()))),
            Down::Done(Ok(Outcome::End(None))),
            Down::Done(Ok(Outcome::End(Some(json())))),
            Down::Done(Ok(Outcome::Native(Bytes::from_static(b"\xff")))),
            Down::Done(Err(failure())),
            Down::Done(Err(Failure::cancelled())),
        ];
        for down in downs {
            assert_eq!(read_down(write_down(3, down.clone())), Some(down));
        }
        let ups = [
            Up::Part(Part::Text(String::new())),
            Up::End(None),
            Up::Answer(AskId(1), json()),
            Up::Cancel(None),
            Up::Cancel(Some(json())),
        ];
        for up in ups {
            assert_eq!(read_up(write_up(3, up.clone())), Some(up));
        }
    }

    #[test]
    fn a_call_arrives_with_the_time_that_it_has_left() {
        let start = Instant::now();
        let (sent_at, read_at) = (start + Duration::from_secs(1), start + Duration::from_secs(61));
        let args = Some(Json::from_trusted("{\"x\": 1}"));
        let mut call = Call::tool(start, "history", args);
        call.deadline.total = Some(Duration::from_nanos(2_500_000_001));
        call.options.typed = true;
        call.trace = Trace::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None);
        let to = Destination::Tool { back: "git".to_owned(), own: "log".into() };
        let front = "call".to_owned();
        let sent = RemoteCall { front, view: Some("reader".to_owned()), caller: None, to, call };
        let written = sent.write(sent_at);
        let read = RemoteCall::read(read_at, &written, |_| None).unwrap();
        assert_eq!(read.call.deadline.asked, read_at - Duration::from_secs(1));
        assert_eq!(read.call.deadline.total, sent.call.deadline.total);
        assert_eq!((&read.call.what, &read.to), (&sent.call.what, &sent.to));
        assert_eq!((read.call.options, read.call.trace), (sent.call.options, sent.call.trace));
        assert_eq!((read.view, read.caller), (sent.view.clone(), None));
        let hidden = Some(("git".to_owned(), "log".into()));
        let to = Destination::Nowhere { why: Box::new(failure()), hidden };
        let refused = RemoteCall { to, call: Call::tool(start, "x", None), ..sent };
        let read = RemoteCall::read(start, &refused.write(start), |_| None).unwrap();
        assert_eq!(read.to, refused.to);
        assert!(RemoteCall::read(start, &Bytes::from_static(b"{}"), |_| None).is_none());
    }

    #[test]
    fn tools_arrive_with_all_that_is_shown_of_them() {
        let hints =
            Some(Hints { read_only: Some(true), destructive: Some(false), idempotent: None });
        let schema = Json::from_trusted("{\"type\":\"object\"}");
        let whole = ToolSpec {
            title: Some("T".to_owned()),
            description: Some("a\nb".to_owned()),
            output: Some(schema.clone()),
            hints,
            ..ToolSpec::new("add", schema.clone())
        };
        let tools = [whole, ToolSpec::new("b", schema)];
        let (wire, read) = read_tools(&write_tools(Wire::new("mcp"), &tools)).unwrap();
        assert_eq!((&*wire, &*read), ("mcp", &tools[..]));
    }
}
