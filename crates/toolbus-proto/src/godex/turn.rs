//! The events of one answer, made into lines and text: what a server leaves out is filled in,
//! what it says twice is said once, and it ends in exactly one way.

use std::borrow::Cow;

use super::calls::{CALLS_MAX, Calls, Heard, Item};
use super::error::RunError;
use super::notes::Note;
use super::parts::Parts;
use super::said::Said;
use super::usage::{Usage, with_last};
use super::wire::{
    About, Members, Object, a_number, a_string, an_object, characters, is_some_text, some_text,
};
use super::{ANSWER_BYTES_MAX, EVENT_BYTES_MAX};
use crate::json::{Kind, compact, edit, write_string};
use crate::jsonrpc::{kind, string};
use crate::printable::printable;

/// How much of what cannot be read is shown.
const SHOWN_CHARS_MAX: usize = 80;

/// What has come of one answer so far.
#[derive(Debug)]
pub struct Turn {
    /// Counted from 1.
    number: u32,
    calls: Calls,
    texts: Parts,
    refusals: Parts,
    refusal: String,
    /// What is sent back with the next turn, in the order of the done events.
    items: Vec<Kept>,
    items_weight: usize,
    end: Option<TurnEnd>,
}

#[derive(Debug)]
enum Kept {
    Item(String),
    Call(usize),
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// It is complete.
    Completed(Box<Completed>),
    /// It failed.
    Failed(RunError),
}

/// The end of a complete answer, not said yet: in a tool loop only the last one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The server's event as one line, with its type.
    event: String,
    id: Option<String>,
    object: Option<String>,
    sequence_number: Option<String>,
    /// What it cost; `None` if the server did not say.
    usage: Option<Usage>,
    refusal: String,
}

impl Turn {
    /// Nothing has come yet. Turns of a run are counted from 1.
    pub fn new(number: u32) -> Turn {
        Turn {
            number,
            calls: Calls::default(),
            texts: Parts::default(),
            refusals: Parts::default(),
            refusal: String::new(),
            items: Vec::new(),
            items_weight: 0,
            end: None,
        }
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<&TurnEnd> {
        self.end.as_ref()
    }

    pub(super) fn refusal(&self) -> &str {
        &self.refusal
    }

    /// The calls, in the order in which they were done.
    pub(super) fn calls(&self) -> impl Iterator<Item = &super::calls::Call> {
        let done = self.items.iter().filter_map(|kept| match kept {
            Kept::Call(at) => self.calls.get(*at),
            Kept::Item(_) => None,
        });
        done.filter(|call| call.is_done)
    }

    /// The output items, as the next request repeats them.
    pub(super) fn to_input(&self) -> impl Iterator<Item = String> {
        self.items.iter().filter_map(|kept| match kept {
            Kept::Item(item) => Some(item.clone()),
            Kept::Call(at) => self.calls.get(*at).map(super::calls::Call::to_input),
        })
    }

    /// The data of one server-sent event, with its `event` field.
    pub fn handle_event(&mut self, name: Option<&[u8]>, data: &[u8], said: &mut Said) {
        if self.end.is_some() {
            return;
        }
        // Looking for bad bytes one by one is slow, and hardly ever there are any.
        let data = match str::from_utf8(data) {
            Ok(data) => Cow::Borrowed(data),
            Err(_) => String::from_utf8_lossy(data),
        };
        let members = Members::read(&data);
        if said.wanted.trace {
            said.notes.push_back(Note::Trace(traced(&data)));
        }
        let members = match members {
            Ok(members) => members,
            Err(_) if data == "[DONE]" => return,
            Err(_) => {
                let shown = printable(data.as_bytes(), SHOWN_CHARS_MAX);
                return said.warn(format!("skipped an event that is no JSON object: {shown}"));
            }
        };
        let name = name.map(String::from_utf8_lossy);
        let own = members.own_type();
        let has_error = members.error.is_some_and(|raw| kind(raw) != Kind::Null);
        let about = match (&own, &name) {
            (Some(own), _) => About::named(own),
            (None, _) if has_error => About::Error,
            (None, Some(name)) => About::named(name),
            (None, None) => return,
        };
        let passed = Passed { data: &data, name: name.as_deref().filter(|_| own.is_none()) };
        self.handle(about, &members, &passed, said);
        self.weigh(said);
    }

    /// One line of a child: an object with a type of its own, or nothing that counts.
    pub(super) fn handle_line(&mut self, line: &str, said: &mut Said) -> Result<(), ()> {
        if self.end.is_some() {
            return Ok(());
        }
        let members = Members::read(line).map_err(|_| ())?;
        let own = members.own_type().ok_or(())?;
        self.handle(About::named(&own), &members, &Passed { data: line, name: None }, said);
        self.weigh(said);
        Ok(())
    }

    fn weigh(&mut self, said: &Said) {
        let kept = [
            self.calls.weight(),
            self.items_weight,
            self.refusal.len(),
            self.texts.weight(),
            self.refusals.weight(),
            said.text.last_message_len(),
        ];
        if ANSWER_BYTES_MAX < kept.iter().sum() {
            let error = RunError::too_large("what is to be kept of the answer", ANSWER_BYTES_MAX);
            self.fail(error);
        } else if CALLS_MAX < self.calls.len() {
            let message = format!("the model asks for more than {CALLS_MAX} tools at once");
            self.fail(RunError::new(3, "too_large", message));
        }
    }

    fn fail(&mut self, error: RunError) {
        self.end.get_or_insert(TurnEnd::Failed(error));
    }

    /// An event was over its limit.
    pub(super) fn handle_too_large(&mut self) {
        self.fail(RunError::too_large("an event of the server", EVENT_BYTES_MAX));
    }

    /// No event will follow.
    pub(super) fn handle_end(&mut self) {
        self.fail(RunError::stream_ended());
    }

    fn handle(&mut self, about: About, event: &Members<'_>, raw: &Passed<'_>, said: &mut Said) {
        match about {
            About::TextDelta => self.text_delta(event, raw, said),
            About::TextDone => self.text_done(event, raw, said),
            About::PartAdded => self.part_added(event, raw, said),
            About::ItemAdded => self.item_added(event, raw, said),
            About::ItemDone => self.item_done(event, raw, said),
            About::ArgumentsDelta => self.arguments_delta(event, raw, said),
            About::ArgumentsDone => {
                self.calls.told(event);
                raw.pass(said);
            }
            About::RefusalDelta => {
                self.refuse(event, event.delta, said);
                raw.pass(said);
            }
            About::RefusalDone => {
                if !self.refusals.has(event) {
                    self.refuse(event, event.refusal, said);
                }
                raw.pass(said);
            }
            About::Completed => self.completed(event, raw, said),
            About::Failed => {
                raw.pass(said);
                self.fail(failed(an_object(event.response)));
            }
            About::Incomplete => {
                raw.pass(said);
                self.fail(incomplete(an_object(event.response)));
            }
            About::Error => self.fail(error(event)),
            About::Other => raw.pass(said),
        }
    }

    /// Text of the answer, which the server wrote as `raw`.
    fn text(&mut self, event: &Members<'_>, raw: &str, said: &mut Said) {
        if raw.len() <= 2 {
            return;
        }
        self.texts.mark(event);
        if said.wants_characters() {
            said.put_text(self.number, message_of(event), &characters(raw));
        }
    }

    fn text_delta(&mut self, event: &Members<'_>, raw: &Passed<'_>, said: &mut Said) {
        let Some(delta) = a_string(event.delta) else { return raw.pass(said) };
        if said.wanted.all_events {
            raw.pass(said);
        } else if said.wanted.lines {
            write_text_delta(&mut said.lines, delta, event, true);
        }
        self.text(event, delta, said);
    }

    fn text_done(&mut self, event: &Members<'_>, raw: &Passed<'_>, said: &mut Said) {
        if let Some(text) = a_string(event.text).filter(|text| text.len() > 2)
            && !self.texts.has(event)
        {
            if said.wanted.lines {
                write_text_delta(&mut said.lines, text, event, false);
            }
            self.text(event, text, said);
        }
        raw.pass(said);
    }

    fn part_added(&mut self, event: &Members<'_>, raw: &Passed<'_>, said: &mut Said) {
        let part = an_object(event.part);
        let [kind, text] = part.map_or([None; 2], |part| edit::pick(part, ["type", "text"]));
        if kind.and_then(string).as_deref() != Some("output_text") {
            return raw.pass(said);
        }
        let text = a_string(text).unwrap_or("\"\"");
        if said.wanted.all_events {
            raw.pass(said);
        } else if said.wanted.lines {
            let mut line = Object::line(&mut said.lines, "response.content_part.added");
            line.object("part", |part| {
                part.raw("type", "\"output_text\"").raw("text", text);
            });
            line.maybe("item_id", a_string(event.item_id)).place(event);
            line.maybe("sequence_number", a_number(event.sequence_number));
            line.end_line();
        }
        self.text(event, text, said);
    }

    fn refuse(&mut self, event: &Members<'_>, raw: Option<&str>, said: &mut Said) {
        let Some(text) = some_text(raw) else { return };
        self.refusals.mark(event);
        self.refusal.push_str(&text);
        said.put_refusal(self.number, message_of(event), &text);
    }

    fn item_added(&mut self, event: &Members<'_>, raw: &Passed<'_>, said: &mut Said) {
        let Some(item) = Item::read(event.item).filter(Item::is_call) else {
            return raw.pass(said);
        };
        match self.calls.added(&item, event) {
            Heard::Again => raw.pass(said),
            Heard::Of(at) => {
                let Some(call) = self.calls.get(at) else { return };
                if said.wanted.all_events {
                    raw.pass_with(said, "item", &call.filled(&item, false));
                } else if said.wanted.lines {
                    call.write_added_of(&mut said.lines, event);
                }
            }
        }
    }

    fn arguments_delta(&mut self, event: &Members<'_>, raw: &Passed<'_>, said: &mut Said) {
        let Some(delta) = a_string(event.delta) else { return raw.pass(said) };
        let Some(at) = self.calls.delta(event, delta) else {
            said.warn("dropped arguments of a call that is not known");
            return raw.pass(said);
        };
        let Some(call) = self.calls.get(at) else { return };
        if said.wanted.all_events {
            match some_text(event.item_id) {
                Some(_) => raw.pass(said),
                None => raw.pass_with(said, "item_id", &quoted(&call.id)),
            }
        } else if said.wanted.lines {
            call.write_delta_of(&mut said.lines, event, delta);
        }
    }

    fn item_done(&mut self, event: &Members<'_>, raw: &Passed<'_>, said: &mut Said) {
        let item = Item::read(event.item);
        let Some(item) = item.filter(Item::is_call) else {
            if said.wanted.items {
                self.keep(event.item);
            }
            return raw.pass(said);
        };
        match self.calls.done(&item, event, said) {
            Heard::Again => raw.pass(said),
            Heard::Of(at) => {
                self.items.push(Kept::Call(at));
                let Some(call) = self.calls.get(at) else { return };
                if said.wanted.all_events {
                    raw.pass_with(said, "item", &call.filled(&item, true));
                } else if said.wanted.lines {
                    call.write_done(&mut said.lines, Some(event));
                }
            }
        }
    }

    /// Messages, and reasoning that the server can read again, are sent back.
    fn keep(&mut self, item: Option<&str>) {
        let Some(item) = an_object(item) else { return };
        let [kind, encrypted] = edit::pick(item, ["type", "encrypted_content"]);
        let is_kept = match kind.and_then(string).as_deref() {
            Some("message") => true,
            Some("reasoning") => is_some_text(encrypted),
            _ => false,
        };
        if is_kept {
            let item = edit::without(&edit::without(&compact(item), "id"), "status");
            self.items_weight += item.len();
            self.items.push(Kept::Item(item));
        }
    }

    fn completed(&mut self, event: &Members<'_>, raw: &Passed<'_>, said: &mut Said) {
        let response = an_object(event.response);
        let [status, output, id, object, usage, refusal] = response.map_or([None; 6], |response| {
            edit::pick(response, ["status", "output", "id", "object", "usage", "refusal"])
        });
        let failure = match status.and_then(string).as_deref() {
            Some("failed") => Some(failed(response)),
            Some("incomplete") => Some(incomplete(response)),
            Some("cancelled") => Some(RunError::new(1, "cancelled", "response cancelled")),
            _ => None,
        };
        if let Some(failure) = failure {
            // It says completed and means the contrary: only our own line may end the run.
            return self.fail(failure);
        }
        let output = output.filter(|raw| kind(raw) == Kind::Array);
        if !self.texts.is_any() && self.refusal.is_empty() {
            self.say_messages(output, said);
        }
        let closed = self.calls.close(output, said);
        self.items.extend(closed.into_iter().map(Kept::Call));
        if self.refusal.is_empty()
            && let Some(refusal) = some_text(refusal)
        {
            self.refusal = refusal.into_owned();
        }
        self.end = Some(TurnEnd::Completed(Box::new(Completed {
            event: raw.line(Some("response.completed")),
            id: a_string(id).map(str::to_owned),
            object: a_string(object).map(str::to_owned),
            sequence_number: a_number(event.sequence_number).map(str::to_owned),
            usage: Usage::read(usage),
            refusal: self.refusal.clone(),
        })));
    }

    /// A server that streamed no text may still have written it all at the end.
    fn say_messages(&mut self, output: Option<&str>, said: &mut Said) {
        for (index, item) in output.into_iter().flat_map(edit::elements).enumerate() {
            let [kind, content] = edit::pick(item, ["type", "content"]);
            if kind.and_then(string).as_deref() != Some("message") {
                continue;
            }
            let mut text = String::new();
            for part in content.into_iter().flat_map(edit::elements) {
                let [kind, part_text] = edit::pick(part, ["type", "text"]);
                if kind.and_then(string).as_deref() == Some("output_text") {
                    text.push_str(&some_text(part_text).unwrap_or_default());
                }
            }
            if text.is_empty() {
                continue;
            }
            if said.wanted.lines {
                let mut line = Object::line(&mut said.lines, "response.output_text.delta");
                line.text("delta", &text);
                line.end_line();
            }
            said.put_text(self.number, Some(&index.to_string()), &text);
        }
    }
}

impl Completed {
    /// What it cost, if the server said.
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// Why the model would not, if it said so.
    pub fn refusal(&self) -> Option<&str> {
        Some(self.refusal.as_str()).filter(|refusal| !refusal.is_empty())
    }

    /// Appends the line that ends a run. `sum` is what all turns cost, where there were several.
    pub(super) fn write_line(&self, out: &mut Vec<u8>, all_events: bool, sum: Option<&Usage>) {
        if all_events {
            return self.write_whole_line(out, sum);
        }
        let usage = sum.or(self.usage.as_ref()).cloned().unwrap_or_default();
        let mut line = Object::line(out, "response.completed");
        line.object("response", |response| {
            response.maybe("id", self.id.as_deref()).maybe("object", self.object.as_deref());
            response.raw("status", "\"completed\"").object("usage", |out| usage.write(out));
            if let Some(refusal) = self.refusal() {
                response.text("refusal", refusal);
            }
        });
        line.maybe("sequence_number", self.sequence_number.as_deref());
        line.end_line();
    }

    /// The server's own object, with what must be there.
    fn write_whole_line(&self, out: &mut Vec<u8>, sum: Option<&Usage>) {
        let response = an_object(edit::member(&self.event, "response")).unwrap_or("{}");
        let usage = match sum {
            Some(sum) => sum.to_json(),
            None => {
                let own = edit::member(response, "usage");
                self.usage.clone().unwrap_or_default().filled(own)
            }
        };
        let mut response = with_last(response, "usage", &usage);
        if let Some(refusal) = self.refusal() {
            response = with_last(&response, "refusal", &quoted(refusal));
        }
        out.extend_from_slice(with_last(&self.event, "response", &response).as_bytes());
        out.push(b'\n');
    }
}

/// The event as it came.
struct Passed<'a> {
    data: &'a str,
    /// The `event` field, where it has no type of its own.
    name: Option<&'a str>,
}

impl Passed<'_> {
    /// As one line of JSON that has a type, or this one.
    fn line(&self, kind: Option<&str>) -> String {
        let compact = compact(self.data.trim());
        match kind.or(self.name) {
            Some(kind) => edit::with_first(&compact, "type", &quoted(kind)),
            None => compact.into_owned(),
        }
    }

    /// Says it as it came, if every event is wanted.
    fn pass(&self, said: &mut Said) {
        if !(said.wanted.all_events && said.wanted.lines) {
            return;
        }
        match self.name {
            None => said.lines.extend_from_slice(compact(self.data.trim()).as_bytes()),
            Some(_) => said.lines.extend_from_slice(self.line(None).as_bytes()),
        }
        said.lines.push(b'\n');
    }

    /// The same with another value of one member.
    fn pass_with(&self, said: &mut Said, name: &str, value: &str) {
        if !said.wanted.lines {
            return;
        }
        let line = self.line(None);
        let is_same = edit::member(&line, name) == Some(value);
        let line = if is_same { line } else { with_last(&line, name, value) };
        said.lines.extend_from_slice(line.as_bytes());
        said.lines.push(b'\n');
    }
}

fn write_text_delta(out: &mut Vec<u8>, delta: &str, event: &Members<'_>, is_its_own: bool) {
    // Most lines of a run are these, so they are put together from as few pieces as possible.
    const BEGINNING: &[u8] = b"{\"type\":\"response.output_text.delta\",\"delta\":";
    out.reserve(BEGINNING.len() + delta.len() + 160);
    out.extend_from_slice(BEGINNING);
    out.extend_from_slice(delta.as_bytes());
    let number = a_number(event.sequence_number).filter(|_| is_its_own);
    for (name, value) in [
        (&b",\"item_id\":"[..], a_string(event.item_id)),
        (b",\"output_index\":", a_number(event.output_index)),
        (b",\"content_index\":", a_number(event.content_index)),
        (b",\"sequence_number\":", number),
    ] {
        if let Some(value) = value {
            out.extend_from_slice(name);
            out.extend_from_slice(value.as_bytes());
        }
    }
    out.extend_from_slice(b"}\n");
}

/// Which message an event is of, as raw JSON.
fn message_of<'a>(event: &Members<'a>) -> Option<&'a str> {
    a_string(event.item_id).or(a_number(event.output_index))
}

fn failed(response: Option<&str>) -> RunError {
    let error = response.and_then(|response| an_object(edit::member(response, "error")));
    let [message, code] = error.map_or([None; 2], |error| edit::pick(error, ["message", "code"]));
    let message = some_text(message).unwrap_or(Cow::Borrowed("response failed"));
    RunError::new(1, &some_text(code).unwrap_or(Cow::Borrowed("failed")), message)
}

fn incomplete(response: Option<&str>) -> RunError {
    let [details, usage] = response
        .map_or([None; 2], |response| edit::pick(response, ["incomplete_details", "usage"]));
    let reason = an_object(details).and_then(|details| edit::member(details, "reason"));
    let reason = some_text(reason).map(Cow::into_owned);
    let shown = reason.as_deref().unwrap_or("unknown");
    let error = RunError::new(1, "incomplete", format!("response incomplete: {shown}"));
    RunError { reason, usage: Usage::read(usage).map(Box::new), ..error }
}

/// An error event, flat or with its members inside `error`.
fn error(event: &Members<'_>) -> RunError {
    let inner = an_object(event.error);
    let [message, code, param] =
        inner.map_or([None; 3], |inner| edit::pick(inner, ["message", "code", "param"]));
    let text = |flat: Option<&str>, nested: Option<&str>| {
        some_text(flat).or_else(|| some_text(nested)).map(Cow::into_owned)
    };
    let message = text(event.message, message).or_else(|| text(event.error, None));
    let message = message.unwrap_or_else(|| "stream error".to_owned());
    let error = RunError::new(1, "", message);
    RunError { code: text(event.code, code), param: text(event.param, param), ..error }
}

/// An event for people who look at the wire: one line of JSON, whatever it was.
fn traced(data: &str) -> String {
    match crate::json::Json::parse(data.to_owned()) {
        Ok(json) => json.compact().as_str().to_owned(),
        Err(_) => quoted(data),
    }
}

pub(super) fn quoted(text: &str) -> String {
    let mut raw = Vec::new();
    write_string(&mut raw, text);
    String::from_utf8(raw).unwrap_or_default()
}
