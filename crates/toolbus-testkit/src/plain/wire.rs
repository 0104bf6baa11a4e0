//! The lines as they stand on the wire.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolbus_proto::channel::Outbox;

/// A raw JSON value.
pub(super) type Value = Box<RawValue>;

/// A raw JSON value or nothing, which even `null` is not: `[null]` or `null`.
pub(super) type Maybe = Option<(Value,)>;

/// A line of the asking end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UpLine(pub(super) u64, pub(super) SaysUp);

/// What the asking end says about a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SaysUp {
    Call(CallSays),
    Tools,
    Native { method: String, body: Value },
    Part(PartSays),
    End(Maybe),
    Answer(u64, Value),
    Cancel(Maybe),
    Bye,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CallSays {
    pub(super) tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<Value>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) progress: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) parts: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<String>,
}

/// A line of the answering end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DownLine(pub(super) u64, pub(super) SaysDown);

/// What the answering end says about a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SaysDown {
    Ready(u32),
    Begin(Maybe),
    Part(PartSays),
    Progress(Value),
    Log(Value),
    Ask(u64, Value),
    Value(Value),
    Text(String),
    End(Maybe),
    Tools(Vec<ToolSays>),
    Native(Value),
    Failed(FailureSays),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ToolSays {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) input: Value,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PartSays {
    Text(String),
    Json(Value),
    Bytes {
        hex: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media: Option<String>,
        #[serde(default, skip_serializing_if = "is_false")]
        last: bool,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FailureSays {
    pub(super) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<CodeSays>,
    pub(super) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum CodeSays {
    Number(i64),
    Word(String),
}

/// Reads one line.
pub(super) fn read<'a, T: Deserialize<'a>>(line: &'a Bytes) -> Option<T> {
    serde_json::from_slice(line).ok()
}

/// Writes one line.
pub(super) fn write(out: &mut Outbox, line: &impl Serialize) {
    let mut text = serde_json::to_vec(line).expect("our own lines have string keys");
    text.push(b'\n');
    out.put_shared(&text.into());
}

fn is_false(value: &bool) -> bool {
    !value
}
