"""The messages of Orchestra, made from a table for Google's own Protobuf library."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf import struct_pb2, timestamp_pb2

PACKAGE = "orchestra.plugin.v1"

# A field is `NUMBER name KIND`; a kind behind `*` is repeated, `{}` is map<string, string>.
MESSAGES = {
    "PluginManifest": "1 id string, 2 version string, 3 language string, 4 provides_tools *string,"
    " 5 provides_events *string, 6 provides_storage *string, 7 provides_transport *string,"
    " 8 provides_ai *string, 9 needs_storage *string, 10 needs_events *string, 11 needs_ai *string,"
    " 12 needs_tools *string, 13 description string, 14 author string, 15 binary string,"
    " 16 args *string, 17 env {}, 18 provides_prompts *string",
    "RegistrationResult": "1 accepted bool, 2 reject_reason string",
    "BootRequest": "1 config {}",
    "BootResult": "1 ready bool, 2 error string",
    "ShutdownRequest": "1 timeout_seconds int32",
    "ShutdownResult": "1 clean bool",
    "HealthRequest": "",
    "HealthResult": "1 status int32, 2 message string, 3 details {}",
    "ToolRequest": "1 tool_name string, 2 arguments Struct, 3 caller_plugin string,"
    " 4 trace_parent string, 5 provider string, 6 session_id string",
    "ToolResponse": "1 success bool, 2 result Struct, 3 error_code string, 4 error_message string",
    "ListToolsRequest": "",
    "ListToolsResponse": "1 tools *ToolDefinition",
    "ToolDefinition": "1 name string, 2 description string, 3 input_schema Struct",
    "ListPromptsRequest": "",
    "ListPromptsResponse": "1 prompts *PromptDefinition",
    "PromptDefinition": "1 name string, 2 description string, 3 arguments *PromptArgument",
    "PromptArgument": "1 name string, 2 description string, 3 required bool",
    "PromptGetRequest": "1 prompt_name string, 2 arguments {}",
    "PromptGetResponse": "1 description string, 2 messages *PromptMessage",
    "PromptMessage": "1 role string, 2 content ContentBlock",
    "ContentBlock": "1 type string, 2 text string",
    "StorageReadRequest": "1 path string, 2 storage_type string",
    "StorageReadResponse": "1 content bytes, 2 metadata Struct, 3 version int64",
    "StorageWriteRequest": "1 path string, 2 content bytes, 3 metadata Struct,"
    " 4 expected_version int64, 5 storage_type string",
    "StorageWriteResponse": "1 success bool, 2 new_version int64, 3 error string",
    "StorageDeleteRequest": "1 path string, 2 storage_type string",
    "StorageDeleteResponse": "1 success bool",
    "StorageListRequest": "1 prefix string, 2 pattern string, 3 storage_type string",
    "StorageListResponse": "1 entries *StorageEntry",
    "StorageEntry": "1 path string, 2 size int64, 3 version int64, 4 modified_at Timestamp",
    "StreamStart": "1 stream_id string, 2 tool_name string, 3 arguments Struct,"
    " 4 caller_plugin string",
    "StreamCancel": "1 stream_id string",
    "StreamChunk": "1 stream_id string, 2 data bytes, 3 content_type string, 4 sequence int64",
    "StreamEnd": "1 stream_id string, 2 success bool, 3 error_code string,"
    " 4 error_message string, 5 total_chunks int64",
    "Subscribe": "1 subscription_id string, 2 topic string, 3 filters {}",
    "Unsubscribe": "1 subscription_id string",
    "Publish": "1 topic string, 2 event_type string, 3 payload Struct, 4 source_plugin string",
    "EventDelivery": "1 subscription_id string, 2 topic string, 3 event_type string,"
    " 4 payload Struct, 5 source_plugin string, 6 timestamp Timestamp",
}

REQUEST = (
    "10 register PluginManifest, 11 boot BootRequest, 12 shutdown ShutdownRequest,"
    " 13 health HealthRequest, 20 tool_call ToolRequest, 21 list_tools ListToolsRequest,"
    " 22 list_prompts ListPromptsRequest, 23 prompt_get PromptGetRequest,"
    " 30 storage_read StorageReadRequest, 31 storage_write StorageWriteRequest,"
    " 32 storage_delete StorageDeleteRequest, 33 storage_list StorageListRequest,"
    " 40 stream_start StreamStart, 41 stream_cancel StreamCancel, 50 subscribe Subscribe,"
    " 51 unsubscribe Unsubscribe, 52 publish Publish"
)
RESPONSE = (
    "10 register RegistrationResult, 11 boot BootResult, 12 shutdown ShutdownResult,"
    " 13 health HealthResult, 20 tool_call ToolResponse, 21 list_tools ListToolsResponse,"
    " 22 list_prompts ListPromptsResponse, 23 prompt_get PromptGetResponse,"
    " 30 storage_read StorageReadResponse, 31 storage_write StorageWriteResponse,"
    " 32 storage_delete StorageDeleteResponse, 33 storage_list StorageListResponse,"
    " 40 stream_chunk StreamChunk, 41 stream_end StreamEnd, 50 event_delivery EventDelivery"
)

SCALARS = {"string": 9, "bytes": 12, "bool": 8, "int32": 5, "int64": 3}
WELL_KNOWN = {"Struct", "Timestamp"}


def _add_fields(message, text, oneof=None):
    for number, name, kind in (field.split() for field in text.split(",") if field.strip()):
        field = message.field.add(name=name, number=int(number))
        field.label = 3 if kind.startswith("*") or kind == "{}" else 1
        if oneof is not None:
            field.oneof_index = oneof
        kind = kind.lstrip("*")
        if kind == "{}":
            entry_name = "".join(part.title() for part in name.split("_")) + "Entry"
            entry = message.nested_type.add(name=entry_name)
            entry.options.map_entry = True
            _add_fields(entry, "1 key string, 2 value string")
            field.type = 11
            field.type_name = f".{PACKAGE}.{message.name}.{entry_name}"
        elif kind in SCALARS:
            field.type = SCALARS[kind]
        else:
            field.type = 11
            known = kind in WELL_KNOWN
            field.type_name = f".google.protobuf.{kind}" if known else f".{PACKAGE}.{kind}"


def _make():
    file = descriptor_pb2.FileDescriptorProto(
        name="orchestra.proto", package=PACKAGE, syntax="proto3"
    )
    file.dependency.extend(["google/protobuf/struct.proto", "google/protobuf/timestamp.proto"])
    for name, text in MESSAGES.items():
        _add_fields(file.message_type.add(name=name), text)
    for name, text in (("PluginRequest", REQUEST), ("PluginResponse", RESPONSE)):
        message = file.message_type.add(name=name)
        message.oneof_decl.add(name="member")
        _add_fields(message, "1 request_id string")
        _add_fields(message, text, oneof=0)
    pool = descriptor_pool.DescriptorPool()
    for known in (struct_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    names = [*MESSAGES, "PluginRequest", "PluginResponse"]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in names
    }


globals().update(_make())


def frame(message):
    """A message as it goes on a stream."""
    payload = message.SerializeToString()
    return len(payload).to_bytes(4, "big") + payload


def is_whole(data):
    """Is the first message there?"""
    return len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big")


def frames(kind, data):
    """All messages of `kind` in `data`, and what is left of it."""
    found = []
    while len(data) >= 4:
        end = 4 + int.from_bytes(data[:4], "big")
        if len(data) < end:
            break
        found.append(kind.FromString(bytes(data[4:end])))
        data = data[end:]
    return found, data


def plain(struct):
    """A Struct as a dict."""
    def value(it):
        kind = it.WhichOneof("kind")
        if kind == "struct_value":
            return plain(it.struct_value)
        if kind == "list_value":
            return [value(item) for item in it.list_value.values]
        return None if kind in (None, "null_value") else getattr(it, kind)

    return {name: value(it) for name, it in struct.fields.items()}
