//! The function calls of one answer, put together from items and deltas that servers name as
//! they please.
//!
//! Arguments are text, byte for byte: never parsed, sorted or cleaned. What a call's `done` line
//! says is what its deltas said; where a server leaves one of them out, it is filled in here.

use std::borrow::Cow;

use super::said::Said;
use super::wire::{Members, Object, a_number, an_object, characters, some_text};
use crate::json::edit;
use crate::json::{Kind, compact};
use crate::jsonrpc::kind;

/// More calls than this are not kept of one answer.
pub(super) const CALLS_MAX: usize = 10_000;

/// The calls of one answer, in the order in which they were begun.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
    /// How many of them are not done.
    open: usize,
    weight: usize,
}

/// One call of the model's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// As it stands on our lines.
    pub(super) id: String,
    pub(super) call_id: String,
    pub(super) name: String,
    /// The server's own `call_id`, where it gave one.
    own_call_id: Option<String>,
    /// As raw JSON.
    output_index: Option<String>,
    /// What its deltas said so far; all of it, once it is done.
    pub(super) arguments: String,
    /// What `response.function_call_arguments.done` said.
    told: Option<String>,
    pub(super) is_done: bool,
}

/// An item as a server writes it.
pub(super) struct Item<'a> {
    raw: &'a str,
    pub(super) kind: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    call_id: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    arguments: Option<&'a str>,
}

impl<'a> Item<'a> {
    pub(super) fn read(raw: Option<&'a str>) -> Option<Item<'a>> {
        let raw = an_object(raw)?;
        let [kind, id, call_id, name, arguments] =
            edit::pick(raw, ["type", "id", "call_id", "name", "arguments"]);
        Some(Item {
            raw,
            kind: some_text(kind),
            id: some_text(id),
            call_id: some_text(call_id),
            name: some_text(name),
            arguments,
        })
    }

    pub(super) fn is_call(&self) -> bool {
        self.kind.as_deref() == Some("function_call")
    }

    /// Its arguments as text, if there are any.
    fn arguments(&self) -> Option<String> {
        arguments(self.arguments)
    }
}

/// Arguments as text: a string's characters, or an object's own text.
fn arguments(raw: Option<&str>) -> Option<String> {
    let raw = raw?;
    let text = match kind(raw) {
        Kind::String => characters(raw).into_owned(),
        Kind::Object => compact(raw).into_owned(),
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// What an event about a call comes to.
pub(super) enum Heard {
    /// Nothing new: a second `added` or `done`.
    Again,
    /// It is of this call.
    Of(usize),
}

impl Calls {
    pub(super) fn get(&self, index: usize) -> Option<&Call> {
        self.list.get(index)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// What is kept of them, about.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    fn find(&self, item: &Item<'_>, output_index: Option<&str>) -> Option<usize> {
        let find = |is_it: &dyn Fn(&Call) -> bool| self.list.iter().rposition(is_it);
        let by_id = item.id.as_ref().and_then(|id| find(&|call| call.id == **id));
        let by_call_id = || item.call_id.as_ref().and_then(|id| find(&|call| call.call_id == **id));
        // A server that counts nothing says 0 of all its calls: two that name themselves
        // differently are two.
        let by_index = || {
            output_index.and_then(|index| {
                find(&|call| {
                    let is_other = item.call_id.is_some() && call.own_call_id.is_some();
                    call.output_index.as_deref() == Some(index) && !is_other
                })
            })
        };
        by_id.or_else(by_call_id).or_else(by_index)
    }

    /// A call that was not known.
    fn begin(&mut self, item: &Item<'_>, output_index: Option<&str>) -> usize {
        let number = self.list.len() + 1;
        let own_call_id = item.call_id.as_deref().map(str::to_owned);
        let (id, call_id) = match (item.id.as_deref(), item.call_id.as_deref()) {
            (Some(id), Some(call_id)) => (id.to_owned(), call_id.to_owned()),
            (Some(id), None) => (id.to_owned(), id.to_owned()),
            (None, Some(call_id)) => (format!("item_{call_id}"), call_id.to_owned()),
            (None, None) => (format!("item_{number}"), format!("call_{number}")),
        };
        let name = item.name.as_deref().unwrap_or_default().to_owned();
        self.weight += 200 + id.len() + call_id.len() + name.len();
        self.open += 1;
        self.list.push(Call {
            id,
            call_id,
            name,
            own_call_id,
            output_index: output_index.map(str::to_owned),
            arguments: String::new(),
            told: None,
            is_done: false,
        });
        self.list.len() - 1
    }

    /// `response.output_item.added` of a call.
    pub(super) fn added(&mut self, item: &Item<'_>, event: &Members<'_>) -> Heard {
        let output_index = a_number(event.output_index);
        match self.find(item, output_index) {
            Some(_) => Heard::Again,
            None => Heard::Of(self.begin(item, output_index)),
        }
    }

    /// Which call a delta, or the end of them, is of.
    fn of_delta(&self, event: &Members<'_>) -> Option<usize> {
        let find = |is_it: &dyn Fn(&Call) -> bool| self.list.iter().rposition(is_it);
        let item_id = some_text(event.item_id);
        let by_id = item_id.and_then(|id| find(&|call| call.id == *id));
        let by_index = || {
            let index = a_number(event.output_index)?;
            find(&|call| call.output_index.as_deref() == Some(index))
        };
        let only_open = || (self.open == 1).then(|| find(&|call| !call.is_done)).flatten();
        match by_id.or_else(by_index) {
            Some(at) => Some(at).filter(|at| !self.list[*at].is_done),
            None => only_open(),
        }
    }

    /// `response.function_call_arguments.delta`: more of a call's arguments.
    pub(super) fn delta(&mut self, event: &Members<'_>, raw: &str) -> Option<usize> {
        let at = self.of_delta(event)?;
        let text = characters(raw);
        self.weight += text.len();
        self.list[at].arguments.push_str(&text);
        Some(at)
    }

    /// `response.function_call_arguments.done`: all of a call's arguments, once more.
    pub(super) fn told(&mut self, event: &Members<'_>) {
        if let (Some(at), Some(text)) = (self.of_delta(event), arguments(event.arguments)) {
            self.weight += text.len();
            self.list[at].told = Some(text);
        }
    }

    /// `response.output_item.done` of a call: says what was left out, and which call it is.
    pub(super) fn done(&mut self, item: &Item<'_>, event: &Members<'_>, said: &mut Said) -> Heard {
        let output_index = a_number(event.output_index);
        let at = match self.find(item, output_index) {
            Some(at) if self.list[at].is_done => return Heard::Again,
            Some(at) => at,
            None => {
                let at = self.begin(item, output_index);
                if said.wanted.lines {
                    self.list[at].write_added(&mut said.lines, event.output_index);
                }
                at
            }
        };
        self.finish(at, item.arguments(), said);
        Heard::Of(at)
    }

    /// The call is done, and this is what the server says its arguments are.
    fn finish(&mut self, at: usize, text: Option<String>, said: &mut Said) {
        let call = &mut self.list[at];
        call.is_done = true;
        self.open -= 1;
        let Some(text) = text.or(call.told.take()) else { return };
        match text.strip_prefix(call.arguments.as_str()) {
            Some("") => {}
            Some(rest) if said.wanted.lines => call.write_delta(&mut said.lines, rest),
            Some(_) => {}
            None => said.warn(format!(
                "the arguments of `{}` are not what their deltas said; they count as the server \
                 ends them",
                call.name
            )),
        }
        self.weight += text.len().saturating_sub(call.arguments.len());
        call.arguments = text;
    }

    /// The answer is complete: calls that are open are closed, and those that stand only in its
    /// `output` are said. Gives all that were done only now.
    pub(super) fn close(&mut self, output: Option<&str>, said: &mut Said) -> Vec<usize> {
        let items = output.into_iter().flat_map(edit::elements);
        let items: Vec<_> = items
            .filter_map(|item| Item::read(Some(item)))
            .filter(|item| item.is_call() && item.call_id.is_some())
            .take(CALLS_MAX)
            .collect();
        let mut closed = Vec::new();
        for at in 0..self.list.len() {
            if self.list[at].is_done {
                continue;
            }
            let is_it = |item: &&Item<'_>| item.call_id.as_deref() == Some(&self.list[at].call_id);
            let text = items.iter().find(is_it).and_then(Item::arguments);
            self.finish(at, text, said);
            if said.wanted.lines {
                self.list[at].write_done(&mut said.lines, None);
            }
            closed.push(at);
        }
        for item in &items {
            let is_known = |call: &Call| item.call_id.as_deref() == Some(&call.call_id);
            if CALLS_MAX <= self.list.len() || self.list.iter().any(is_known) {
                continue;
            }
            let at = self.begin(item, None);
            if said.wanted.lines {
                self.list[at].write_added(&mut said.lines, None);
            }
            self.finish(at, item.arguments(), said);
            if said.wanted.lines {
                self.list[at].write_done(&mut said.lines, None);
            }
            closed.push(at);
        }
        closed
    }
}

impl Call {
    fn write_item(&self, out: &mut Object<'_>, with_arguments: bool) {
        out.text("id", &self.id).raw("type", "\"function_call\"");
        out.text("call_id", &self.call_id).text("name", &self.name);
        if with_arguments {
            out.text("arguments", &self.arguments);
        }
    }

    /// Our own line, with the place of the event that caused it.
    fn write_added(&self, out: &mut Vec<u8>, output_index: Option<&str>) {
        let mut line = Object::line(out, "response.output_item.added");
        line.object("item", |item| self.write_item(item, false));
        line.maybe("output_index", a_number(output_index));
        line.end_line();
    }

    fn write_delta(&self, out: &mut Vec<u8>, delta: &str) {
        let mut line = Object::line(out, "response.function_call_arguments.delta");
        line.text("item_id", &self.id).text("delta", delta);
        line.end_line();
    }

    /// The line of a `done` event, or our own.
    pub(super) fn write_done(&self, out: &mut Vec<u8>, event: Option<&Members<'_>>) {
        let mut line = Object::line(out, "response.output_item.done");
        line.object("item", |item| self.write_item(item, true));
        if let Some(event) = event {
            line.place(event);
            line.maybe("sequence_number", a_number(event.sequence_number));
        }
        line.end_line();
    }

    /// The line of an `added` event.
    pub(super) fn write_added_of(&self, out: &mut Vec<u8>, event: &Members<'_>) {
        let mut line = Object::line(out, "response.output_item.added");
        line.object("item", |item| self.write_item(item, false));
        line.place(event);
        line.maybe("sequence_number", a_number(event.sequence_number));
        line.end_line();
    }

    /// The line of a delta, which the server wrote as `raw`.
    pub(super) fn write_delta_of(&self, out: &mut Vec<u8>, event: &Members<'_>, raw: &str) {
        let mut line = Object::line(out, "response.function_call_arguments.delta");
        line.text("item_id", &self.id).raw("delta", raw);
        line.place(event);
        line.maybe("sequence_number", a_number(event.sequence_number));
        line.end_line();
    }

    /// The server's own item with what it left out.
    pub(super) fn filled(&self, item: &Item<'_>, with_arguments: bool) -> String {
        let mut text = compact(item.raw).into_owned();
        let mut fill = |name: &str, is_there: bool, value: &str| {
            if !is_there {
                let mut raw = Vec::new();
                crate::json::write_string(&mut raw, value);
                let raw = String::from_utf8(raw).unwrap_or_default();
                text = super::usage::with_last(&text, name, &raw);
            }
        };
        fill("id", item.id.is_some(), &self.id);
        fill("call_id", item.call_id.is_some(), &self.call_id);
        fill("name", item.name.is_some(), &self.name);
        if with_arguments {
            let own = super::wire::a_string(item.arguments).map(characters);
            fill("arguments", own.is_some_and(|own| own == self.arguments), &self.arguments);
        }
        text
    }

    /// As an item of the next request.
    pub(super) fn to_input(&self) -> String {
        let mut text = Vec::new();
        let mut item = Object::line(&mut text, "function_call");
        item.text("call_id", &self.call_id).text("name", &self.name);
        item.text("arguments", &self.arguments);
        item.end();
        String::from_utf8(text).unwrap_or_default()
    }
}
