//! What stands in the JSON of this wire: of the server, of the services API, of our own lists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json::Json;

/// A raw JSON value.
pub(crate) type Value = Box<RawValue>;

/// What a server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Info {
    /// Its version.
    pub version: String,
    /// Does it pass on headers?
    pub headers: bool,
    /// The largest payload, head included.
    pub max_payload: usize,
    /// It speaks TLS and nothing else.
    pub tls_required: bool,
    /// It speaks TLS to those who want it.
    pub tls_available: bool,
    /// What has to be signed.
    pub nonce: Option<String>,
    /// Other servers of its cluster.
    pub connect_urls: Option<Vec<String>>,
    /// It is about to stop.
    pub ldm: bool,
}

/// What we say about ourselves.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Connect<'a> {
    pub(crate) verbose: bool,
    pub(crate) pedantic: bool,
    pub(crate) tls_required: bool,
    pub(crate) name: &'a str,
    pub(crate) lang: &'a str,
    pub(crate) version: &'a str,
    pub(crate) protocol: u8,
    pub(crate) echo: bool,
    pub(crate) headers: bool,
    pub(crate) no_responders: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pass: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) auth_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nkey: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jwt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sig: Option<String>,
}

/// What an instance answers to `$SRV.PING`, and how the other answers begin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Ping {
    #[serde(default, rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// What an instance answers to `$SRV.INFO`, as far as we look.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ServiceInfo {
    #[serde(default, rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) endpoints: Option<Vec<Endpoint>>,
}

/// One endpoint of it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) subject: String,
    #[serde(default)]
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// What is asked of the list of a node.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ListRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) known: Option<Vec<String>>,
}

/// A page of the list of a node.
#[derive(Debug, Deserialize)]
pub(crate) struct ListPage {
    pub(crate) digest: String,
    #[serde(default)]
    pub(crate) tools: Option<Vec<ListedTool>>,
    #[serde(default)]
    pub(crate) next: Option<String>,
}

/// One tool of it.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    pub(crate) input: Value,
    #[serde(default)]
    pub(crate) output: Option<Value>,
    #[serde(default)]
    pub(crate) hints: Option<HintsSay>,
    pub(crate) subject: String,
    pub(crate) digest: String,
    #[serde(default)]
    pub(crate) back: String,
    #[serde(default)]
    pub(crate) pinned: bool,
    #[serde(default)]
    pub(crate) native: Option<NativeSays>,
}

/// What calling it may do to the world.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HintsSay {
    pub(crate) read_only: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) destructive: Option<bool>,
}

/// How its own wire describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct NativeSays {
    pub(crate) wire: String,
    pub(crate) spec: Value,
}

/// How a node is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NodeState {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<String>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) tools: usize,
    pub(crate) in_flight: usize,
    pub(crate) draining: bool,
}

/// Why a call has no reply, as the last message of a call between two of us says it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FailureSays {
    pub(crate) kind: String,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<CodeSays>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stderr: Option<Vec<String>>,
}

/// The code a peer gave its failure.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum CodeSays {
    Number(i64),
    Word(String),
}

/// The one member of the payload of a plain failure.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ErrorSays {
    pub(crate) error: FailureSays,
}

/// A value that was already found to be JSON by its reader.
pub(crate) fn json(value: &RawValue) -> Option<Json> {
    Json::parse(value.get().to_owned()).ok()
}

/// The same the other way.
pub(crate) fn value(json: &Json) -> Value {
    RawValue::from_string(json.as_str().to_owned()).expect("a `Json` is JSON")
}
