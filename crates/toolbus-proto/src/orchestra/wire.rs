//! The messages of package `orchestra.plugin.v1`, as they are on the wire
//! (`docs/protocols/orchestra.md` 3).

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use super::protobuf::Malformed;
use super::protobuf::message::{Kind, Message, Unknown, members, message, print_enum, print_name};
use super::protobuf::read::Field;
use super::protobuf::write::{bytes_len, put_bytes_header, put_number, tag_len, varint_len};
use super::structure::Struct;
use super::timestamp::Timestamp;

type Map = BTreeMap<String, String>;

members! {
    /// What a request may ask.
    Request {
        10 register Register(PluginManifest),
        11 boot Boot(BootRequest),
        12 shutdown Shutdown(ShutdownRequest),
        13 health Health(HealthRequest),
        20 tool_call ToolCall(ToolRequest),
        21 list_tools ListTools(ListToolsRequest),
        22 list_prompts ListPrompts(ListPromptsRequest),
        23 prompt_get PromptGet(PromptGetRequest),
        30 storage_read StorageRead(StorageReadRequest),
        31 storage_write StorageWrite(StorageWriteRequest),
        32 storage_delete StorageDelete(StorageDeleteRequest),
        33 storage_list StorageList(StorageListRequest),
        40 stream_start StreamStart(StreamStart),
        41 stream_cancel StreamCancel(StreamCancel),
        50 subscribe Subscribe(Subscribe),
        51 unsubscribe Unsubscribe(Unsubscribe),
        52 publish Publish(Publish),
    }

    /// What may be answered. Some requests are answered by no member at all, and a general
    /// failure is a [`ToolResponse`], whatever was asked.
    Response {
        10 register Register(RegistrationResult),
        11 boot Boot(BootResult),
        12 shutdown Shutdown(ShutdownResult),
        13 health Health(HealthResult),
        20 tool_call ToolCall(ToolResponse),
        21 list_tools ListTools(ListToolsResponse),
        22 list_prompts ListPrompts(ListPromptsResponse),
        23 prompt_get PromptGet(PromptGetResponse),
        30 storage_read StorageRead(StorageReadResponse),
        31 storage_write StorageWrite(StorageWriteResponse),
        32 storage_delete StorageDelete(StorageDeleteResponse),
        33 storage_list StorageList(StorageListResponse),
        40 stream_chunk StreamChunk(StreamChunk),
        41 stream_end StreamEnd(StreamEnd),
        50 event_delivery EventDelivery(EventDelivery),
    }
}

message! {
    /// What a plugin says of itself.
    PluginManifest {
        1 id: String,
        2 version: String,
        3 language: String,
        4 provides_tools: Vec<String>,
        5 provides_events: Vec<String>,
        6 provides_storage: Vec<String>,
        7 provides_transport: Vec<String>,
        8 provides_ai: Vec<String>,
        9 needs_storage: Vec<String>,
        10 needs_events: Vec<String>,
        11 needs_ai: Vec<String>,
        12 needs_tools: Vec<String>,
        13 description: String,
        14 author: String,
        15 binary: String,
        16 args: Vec<String>,
        17 env: Map,
        18 provides_prompts: Vec<String>,
    }
    /// Is the plugin taken?
    RegistrationResult { 1 accepted: bool, 2 reject_reason: String, }
    /// A plugin's own settings.
    BootRequest { 1 config: Map, }
    /// Can the plugin serve?
    BootResult { 1 ready: bool, 2 error: String, }
    /// A plugin is to end.
    ShutdownRequest { 1 timeout_seconds: i32, }
    /// A plugin will end.
    ShutdownResult { 1 clean: bool, }
    /// Is the peer well?
    HealthRequest {}
    /// How the peer is.
    HealthResult { 1 status: Status, 2 message: String, 3 details: Map, }
    /// A call of a tool.
    ToolRequest {
        1 tool_name: String,
        2 arguments: Option<Struct>,
        3 caller_plugin: String,
        4 trace_parent: String,
        5 provider: String,
        6 session_id: String,
    }
    /// What a tool answered, or why there is no answer.
    ToolResponse {
        1 success: bool,
        2 result: Option<Struct>,
        3 error_code: String,
        4 error_message: String,
    }
    /// Which tools are there?
    ListToolsRequest {}
    /// The tools there are.
    ListToolsResponse { 1 tools: Vec<ToolDefinition>, }
    /// One tool.
    ToolDefinition { 1 name: String, 2 description: String, 3 input_schema: Option<Struct>, }
    /// Which prompts are there?
    ListPromptsRequest {}
    /// The prompts there are.
    ListPromptsResponse { 1 prompts: Vec<PromptDefinition>, }
    /// One prompt.
    PromptDefinition { 1 name: String, 2 description: String, 3 arguments: Vec<PromptArgument>, }
    /// What a prompt can be given.
    PromptArgument { 1 name: String, 2 description: String, 3 required: bool, }
    /// A prompt is to be filled in.
    PromptGetRequest { 1 prompt_name: String, 2 arguments: Map, }
    /// A prompt, filled in.
    PromptGetResponse { 1 description: String, 2 messages: Vec<PromptMessage>, }
    /// One message of a prompt.
    PromptMessage { 1 role: String, 2 content: Option<ContentBlock>, }
    /// What a message says.
    ContentBlock { 1 r#type: String, 2 text: String, }
    /// A stored thing is to be read.
    StorageReadRequest { 1 path: String, 2 storage_type: String, }
    /// What is stored; all empty if nothing is.
    StorageReadResponse { 1 content: Bytes, 2 metadata: Option<Struct>, 3 version: i64, }
    /// A thing is to be stored.
    StorageWriteRequest {
        1 path: String,
        2 content: Bytes,
        3 metadata: Option<Struct>,
        4 expected_version: i64,
        5 storage_type: String,
    }
    /// Is it stored?
    StorageWriteResponse { 1 success: bool, 2 new_version: i64, 3 error: String, }
    /// A stored thing is to go.
    StorageDeleteRequest { 1 path: String, 2 storage_type: String, }
    /// Is it gone?
    StorageDeleteResponse { 1 success: bool, }
    /// What is stored under a prefix?
    StorageListRequest { 1 prefix: String, 2 pattern: String, 3 storage_type: String, }
    /// What is stored there.
    StorageListResponse { 1 entries: Vec<StorageEntry>, }
    /// One stored thing.
    StorageEntry { 1 path: String, 2 size: i64, 3 version: i64, 4 modified_at: Option<Timestamp>, }
    /// A call of a tool whose answer comes in chunks.
    StreamStart {
        1 stream_id: String,
        2 tool_name: String,
        3 arguments: Option<Struct>,
        4 caller_plugin: String,
    }
    /// The caller changed its mind.
    StreamCancel { 1 stream_id: String, }
    /// A piece of an answer; `sequence` counts from 0.
    StreamChunk { 1 stream_id: String, 2 data: Bytes, 3 content_type: String, 4 sequence: i64, }
    /// The end of an answer in chunks. The last two are ours and skipped by others: what the chunks
    /// are, where they do not say so themselves, and what a failure has besides its message.
    StreamEnd {
        1 stream_id: String,
        2 success: bool,
        3 error_code: String,
        4 error_message: String,
        5 total_chunks: i64,
        100 shape: String,
        101 detail: Option<Struct>,
    }
    /// Events of a topic are wanted.
    Subscribe { 1 subscription_id: String, 2 topic: String, 3 filters: Map, }
    /// They are not wanted any more.
    Unsubscribe { 1 subscription_id: String, }
    /// Something happened.
    Publish { 1 topic: String, 2 event_type: String, 3 payload: Option<Struct>, 4 source_plugin: String, }
    /// Something happened that was subscribed to.
    EventDelivery {
        1 subscription_id: String,
        2 topic: String,
        3 event_type: String,
        4 payload: Option<Struct>,
        5 source_plugin: String,
        6 timestamp: Option<Timestamp>,
    }
}

/// How a peer is. A number that has no name is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status(pub i32);

impl Status {
    /// It serves.
    pub const HEALTHY: Status = Status(1);
    /// It serves, with trouble.
    pub const DEGRADED: Status = Status(2);
    /// It does not serve.
    pub const UNHEALTHY: Status = Status(3);

    const NAMES: [&str; 4] =
        ["STATUS_UNSPECIFIED", "STATUS_HEALTHY", "STATUS_DEGRADED", "STATUS_UNHEALTHY"];
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = usize::try_from(self.0).ok().and_then(|number| Status::NAMES.get(number));
        match known {
            Some(name) => f.write_str(name),
            None => write!(f, "a status without a name, {}", self.0),
        }
    }
}

impl Kind for Status {
    fn take(&mut self, _whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        self.0 = field.varint()? as i32;
        Ok(())
    }

    fn is_default(&self) -> bool {
        self.0 == 0
    }

    fn size(&self, number: u32) -> usize {
        tag_len(number) + varint_len(i64::from(self.0) as u64)
    }

    fn write(&self, number: u32, out: &mut Vec<u8>) {
        put_number(out, number, i64::from(self.0) as u64);
    }

    fn print(&self, out: &mut Vec<u8>) {
        print_enum(out, &Status::NAMES, self.0);
    }
}
