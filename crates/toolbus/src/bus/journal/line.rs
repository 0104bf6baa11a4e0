//! How a line of the journal looks: an object whose keys stand in one order, so that people can
//! read it and programs can find things fast. No secret that we know of is in it.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use toolbus_proto::collect::base64;
use toolbus_proto::json::{Json, write_string};
use toolbus_proto::tool::Outcome;

use crate::bus::config::JournalConfig;
use crate::bus::observe::{CallEnd, ObservedCall};
use crate::secrets;
use crate::time::rfc3339;

/// The largest arguments and the largest result that a line holds.
pub(super) const VALUE_BYTES_MAX: usize = 1 << 20;

/// Writes lines, one behind the other.
#[derive(Default)]
pub(super) struct LineWriter {
    clock: Clock,
}

impl LineWriter {
    /// Appends the line of a call, with its end.
    pub(super) fn put(
        &mut self,
        line: &mut Vec<u8>,
        config: &JournalConfig,
        now: SystemTime,
        call: &ObservedCall,
        end: &CallEnd<'_>,
    ) {
        line.extend_from_slice(b"{\"time\":\"");
        self.clock.put(line, now);
        line.push(b'"');
        if let Some(trace) = &call.trace {
            put_text(line, "trace", trace.id());
        }
        put_text(line, "front", &call.front);
        let names = [
            ("caller", &call.caller),
            ("claimed_caller", &call.claimed_caller),
            ("view", &call.view),
        ];
        for (key, name) in names {
            if let Some(name) = name {
                put_text(line, key, name);
            }
        }
        if let Some(back) = &call.back {
            put_text(line, "back", back);
        }
        if let Some(passage) = &call.passage {
            if let Some(node) = passage.node() {
                put_text(line, "node", &node);
            }
            if 1 < passage.tries() {
                put_key(line, "tries");
                put_number(line, passage.tries().into());
            }
        }
        put_text(line, "tool", call.tool.as_str());
        put_key(line, "outcome");
        line.push(b'"');
        line.extend_from_slice(end.outcome().as_bytes());
        line.push(b'"');
        if let Some(reason) = end.reason() {
            put_text(line, "reason", reason);
        }
        if call.is_hidden() {
            line.extend_from_slice(b",\"hidden\":true");
        }
        put_key(line, "duration");
        let micros = u64::try_from(end.duration.as_micros()).unwrap_or(u64::MAX);
        put_number(line, micros / 1000);
        line.push(b'.');
        put_millis(line, (micros % 1000) as u32);
        put_key(line, "bytes");
        line.extend_from_slice(b"{\"in\":");
        put_number(line, call.bytes_in);
        line.extend_from_slice(b",\"out\":");
        put_number(line, call.bytes_out);
        line.push(b'}');
        if let Some(arguments) = call.arguments.as_ref().filter(|_| config.arguments) {
            put_value(line, "arguments", arguments);
        }
        if config.results {
            match (end.result, end.failure) {
                (Some(outcome), _) => put_value(line, "result", &json_of(outcome)),
                (None, Some(failure)) => put_text(line, "failure", &failure.to_string()),
                (None, None) => {}
            }
        }
        line.extend_from_slice(b"}\n");
    }
}

fn put_key(line: &mut Vec<u8>, key: &str) {
    line.extend_from_slice(b",\"");
    line.extend_from_slice(key.as_bytes());
    line.extend_from_slice(b"\":");
}

fn put_text(line: &mut Vec<u8>, key: &str, text: &str) {
    put_key(line, key);
    write_string(line, &secrets::masked(text));
}

/// A value as it is, on one line; one that is too large is told by its size.
fn put_value(line: &mut Vec<u8>, key: &str, value: &Json) {
    put_key(line, key);
    let bytes = value.as_bytes().len();
    if VALUE_BYTES_MAX < bytes {
        line.extend_from_slice(b"{\"$left_out\":");
        put_number(line, bytes as u64);
        line.push(b'}');
        return;
    }
    let value = match value.as_bytes().contains(&b'\n') || value.as_bytes().contains(&b'\r') {
        true => Cow::Owned(value.compact()),
        false => Cow::Borrowed(value),
    };
    let masked = secrets::masked_json(&value);
    line.extend_from_slice(masked.as_bytes());
}

fn json_of(outcome: &Outcome) -> Json {
    match outcome {
        Outcome::Value(json) | Outcome::End(Some(json)) => json.clone(),
        Outcome::Text(text) => Json::of(text),
        Outcome::Native(body) => Json::parse(body.clone())
            .unwrap_or_else(|_| Json::of(&serde_json::json!({"$bytes": base64(body)}))),
        _ => Json::null(),
    }
}

fn put_number(line: &mut Vec<u8>, mut number: u64) {
    // The longest has twenty digits.
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at..]);
}

fn put_millis(line: &mut Vec<u8>, millis: u32) {
    let digit = |unit: u32| b'0' + (millis / unit % 10) as u8;
    line.extend([digit(100), digit(10), digit(1)]);
}

/// Writes times; most of one is the same as in the line before.
#[derive(Default)]
struct Clock {
    second: u64,
    /// `2026-11-16T02:14:19.`
    text: String,
}

impl Clock {
    fn put(&mut self, line: &mut Vec<u8>, now: SystemTime) {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.second != since.as_secs() || self.text.is_empty() {
            self.second = since.as_secs();
            self.text = rfc3339(now);
            // Without the milliseconds and the `Z`.
            self.text.truncate(self.text.len().saturating_sub(4));
        }
        line.extend_from_slice(self.text.as_bytes());
        put_millis(line, since.subsec_millis());
        line.push(b'Z');
    }
}
