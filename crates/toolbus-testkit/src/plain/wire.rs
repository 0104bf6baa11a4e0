//! The lines as they stand on the wire.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolbus_proto::channel::Outbox;

/// A raw JSON value.
pub(crate) type Value = Box<RawValue>;

/// A raw JSON value or nothing, which even `null` is not: `[null]` or `null`.
pub(crate) type Maybe = Option<(Value,)>;

/// A line of the asking end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UpLine(pub(super) u64, pub(super) SaysUp);

/// What the asking end says about a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SaysUp {
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
pub(crate) struct CallSays {
    pub(crate) tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) args: Option<Value>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) progress: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) parts: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
}

/// A line of the answering end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DownLine(pub(super) u64, pub(super) SaysDown);

/// What the answering end says about a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SaysDown {
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
pub(crate) struct ToolSays {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) input: Value,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PartSays {
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
pub(crate) struct FailureSays {
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<CodeSays>,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum CodeSays {
    Number(i64),
    Word(String),
}

/// Reads one line.
pub(crate) fn read<'a, T: Deserialize<'a>>(line: &'a Bytes) -> Option<T> {
    serde_json::from_slice(line).ok()
}

/// Writes one line.
pub(crate) fn write(out: &mut Outbox, line: &impl Serialize) {
    let mut text = serde_json::to_vec(line).expect("our own lines have string keys");
    text.push(b'\n');
    out.put_shared(&text.into());
}

fn is_false(value: &bool) -> bool {
    !value
}
