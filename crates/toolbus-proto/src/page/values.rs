//! What calls were given and what they answered: kept for few of them, and only so much.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Masks;
use super::members::JsonMembers;
use crate::collect::base64;
use crate::json::Json;
use crate::tool::{Code, Failure, Outcome, Part};

/// So large a value is kept.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// So many events of one call.
const EVENTS_MAX: usize = 200;
/// So much of their values together.
const EVENT_BYTES_MAX: usize = 64 << 10;
/// What an event weighs besides its value.
const EVENT_WEIGHT: usize = 64;

/// What of a call's values is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Takes {
    /// What it was given.
    pub arguments: bool,
    /// What it answered, or why it failed.
    pub results: bool,
    /// All that happens meanwhile.
    pub events: bool,
}

impl Takes {
    /// All values.
    pub const ALL: Takes = Takes { arguments: true, results: true, events: true };

    /// Anything?
    pub fn any(self) -> bool {
        self.arguments || self.results || self.events
    }
}

/// What happens while a call runs.
#[derive(Debug, Clone, Copy)]
pub enum HeardOf<'a> {
    /// Its reply will be parts; the value before them.
    Begin(Option<&'a Json>),
    /// A part.
    Part(&'a Part),
    /// How far it is.
    Progress(&'a Json),
    /// A message of its log.
    Log(&'a Json),
    /// A question.
    Ask(&'a Json),
    /// The answer to one.
    Answer(&'a Json),
    /// The end, well.
    End(&'a Outcome),
    /// The end, not well.
    Fail,
}

/// A value, or how large it was.
#[derive(Debug, Clone)]
pub(super) enum KeptValue {
    Json(Json),
    LeftOut(usize),
}

impl KeptValue {
    fn of(json: &Json) -> KeptValue {
        match json.as_bytes().len() {
            // A value is a part of a message: all of that must not be kept for it.
            bytes if bytes <= VALUE_BYTES_MAX => {
                KeptValue::Json(Json::from_trusted(json.as_bytes().to_vec()))
            }
            bytes => KeptValue::LeftOut(bytes),
        }
    }

    fn weight(&self) -> usize {
        match self {
            KeptValue::Json(json) => json.as_bytes().len(),
            KeptValue::LeftOut(_) => 0,
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, masks: &dyn Masks) {
        match self {
            KeptValue::Json(json) => {
                let compact = json.compact();
                out.extend_from_slice(masks.json(&compact).as_bytes());
            }
            KeptValue::LeftOut(bytes) => {
                out.extend_from_slice(format!("{{\"$left_out\":{bytes}}}").as_bytes());
            }
        }
    }
}

#[derive(Debug)]
struct KeptFailure {
    message: KeptValue,
    code: Option<KeptValue>,
    detail: Option<KeptValue>,
}

#[derive(Debug)]
struct KeptEvent {
    at: Duration,
    kind: &'static str,
    value: Option<KeptValue>,
    bytes: Option<(usize, Option<Arc<str>>)>,
}

/// What is kept of one call.
#[derive(Debug)]
pub(super) struct CallValues {
    takes: Takes,
    arguments: Option<KeptValue>,
    result: Option<KeptValue>,
    failure: Option<KeptFailure>,
    events: Vec<KeptEvent>,
    event_bytes: usize,
    events_left_out: u64,
    progress: Option<KeptValue>,
    has_ended: bool,
    /// No event is taken any more.
    is_cut: bool,
    /// What all of it weighs.
    pub(super) weight: usize,
}

impl CallValues {
    pub(super) fn new(takes: Takes, arguments: Option<&Json>) -> CallValues {
        let arguments = arguments.filter(|_| takes.arguments).map(KeptValue::of);
        let weight = arguments.as_ref().map_or(0, KeptValue::weight) + EVENT_WEIGHT;
        CallValues {
            takes,
            arguments,
            result: None,
            failure: None,
            events: Vec::new(),
            event_bytes: 0,
            events_left_out: 0,
            progress: None,
            has_ended: false,
            is_cut: false,
            weight,
        }
    }

    /// Takes no more than this from now on.
    pub(super) fn take_only(&mut self, takes: Takes) {
        self.is_cut |= self.takes.events && !takes.events;
        self.takes.arguments &= takes.arguments;
        self.takes.results &= takes.results;
    }

    /// What its back got may not be what its caller sent.
    pub(super) fn given(&mut self, arguments: Option<&Json>) {
        if self.takes.arguments && self.arguments.is_none() {
            self.arguments = arguments.map(KeptValue::of);
            self.weight += self.arguments.as_ref().map_or(0, KeptValue::weight);
        }
    }

    pub(super) fn progress(&self) -> Option<&KeptValue> {
        self.progress.as_ref()
    }

    pub(super) fn hear(&mut self, at: Duration, heard: HeardOf<'_>) {
        if !self.takes.events || self.is_cut {
            return;
        }
        let value = |json: &Json| (Some(KeptValue::of(json)), None);
        let (kind, (value, bytes)) = match heard {
            HeardOf::Begin(head) => ("begin", (head.map(KeptValue::of), None)),
            HeardOf::Part(Part::Json(json)) => ("part", value(json)),
            HeardOf::Part(Part::Text(text)) => ("part", value(&Json::of(text))),
            HeardOf::Part(Part::Bytes(piece)) => {
                ("part", (None, Some((piece.data.len(), piece.media_type.clone()))))
            }
            HeardOf::Progress(json) => {
                self.progress = Some(KeptValue::of(json));
                ("progress", value(json))
            }
            HeardOf::Log(json) => ("log", value(json)),
            HeardOf::Ask(json) => ("ask", value(json)),
            HeardOf::Answer(json) => ("answer", value(json)),
            HeardOf::End(outcome) => {
                self.has_ended = true;
                ("end", (json_of(outcome).as_ref().map(KeptValue::of), None))
            }
            HeardOf::Fail => {
                self.has_ended = true;
                ("fail", (None, None))
            }
        };
        let weight = value.as_ref().map_or(0, KeptValue::weight);
        if EVENTS_MAX <= self.events.len() || EVENT_BYTES_MAX < self.event_bytes + weight {
            self.events_left_out += 1;
            return;
        }
        self.event_bytes += weight;
        self.weight += weight + EVENT_WEIGHT;
        self.events.push(KeptEvent { at, kind, value, bytes });
    }

    pub(super) fn end(
        &mut self,
        at: Duration,
        result: Option<&Outcome>,
        failure: Option<&Failure>,
        has_failed: bool,
    ) {
        if !self.has_ended {
            match (has_failed, result) {
                (true, _) => self.hear(at, HeardOf::Fail),
                (false, Some(outcome)) => self.hear(at, HeardOf::End(outcome)),
                (false, None) => self.hear(at, HeardOf::End(&Outcome::End(None))),
            }
        }
        if !self.takes.results {
            return;
        }
        self.result = result.and_then(json_of).as_ref().map(KeptValue::of);
        self.failure = failure.map(|failure| KeptFailure {
            message: KeptValue::of(&Json::of(&failure.message)),
            code: failure.code.as_ref().map(|code| KeptValue::of(&code_json(code))),
            detail: failure.detail.as_ref().map(KeptValue::of),
        });
        let failure = self.failure.as_ref();
        let detail = failure.and_then(|failure| failure.detail.as_ref());
        let more = [self.result.as_ref(), failure.map(|failure| &failure.message), detail];
        self.weight += more.into_iter().flatten().map(KeptValue::weight).sum::<usize>();
    }

    /// Writes what belongs to a detail; `kind` is how the call failed, if it did.
    pub(super) fn write(
        &self,
        members: &mut JsonMembers<'_>,
        masks: &dyn Masks,
        kind: Option<&str>,
    ) {
        if let Some(arguments) = &self.arguments {
            arguments.write(members.key("arguments"), masks);
        }
        if let Some(result) = &self.result {
            result.write(members.key("result"), masks);
        }
        if let Some(kind) = kind {
            members.object("failure", |members| {
                members.text("kind", kind);
                let Some(failure) = &self.failure else { return };
                failure.message.write(members.key("message"), masks);
                if let Some(code) = &failure.code {
                    code.write(members.key("code"), masks);
                }
                if let Some(detail) = &failure.detail {
                    detail.write(members.key("detail"), masks);
                }
            });
        }
        if !self.takes.events {
            return;
        }
        members.array("events", &self.events, |out, event| {
            let mut members = JsonMembers::begin(out);
            members.millis("at", event.at);
            members.text("kind", event.kind);
            if let Some(value) = &event.value {
                value.write(members.key("value"), masks);
            }
            if let Some((bytes, media_type)) = &event.bytes {
                members.number("bytes", *bytes as u64);
                members.text("type", &masks.text(media_type.as_deref().unwrap_or(OCTETS)));
            }
            members.end();
        });
        if 0 < self.events_left_out {
            members.number("events_left_out", self.events_left_out);
        }
    }
}

/// The code that a peer gave its failure.
pub fn code_json(code: &Code) -> Json {
    match code {
        Code::Number(number) => Json::of(number),
        Code::Word(word) => Json::of(word),
    }
}

/// What a run of bytes is that says nothing of itself.
const OCTETS: &str = "application/octet-stream";

/// How long after the call was asked something happened.
pub(super) fn since(asked: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(asked)
}

/// What a call has answered, as one value; none is nothing.
pub fn json_of(outcome: &Outcome) -> Option<Json> {
    match outcome {
        Outcome::Value(json) | Outcome::End(Some(json)) => Some(json.clone()),
        Outcome::Text(text) => Some(Json::of(text)),
        Outcome::Native(body) => Some(
            Json::parse(body.clone())
                .unwrap_or_else(|_| Json::of(&serde_json::json!({ "$bytes": base64(body) }))),
        ),
        _ => None,
    }
}
