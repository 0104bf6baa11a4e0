//! What a hub answers, and whom it asks for it (`docs/protocols/orchestra.md` 9).

use std::time::Instant;

use bytes::Bytes;

use super::calls::Running;
use super::routes::Route;
use super::{Asker, Hub, PluginIndex, ToPlugin};
use crate::capture::Side;
use crate::channel::Down;
use crate::orchestra::Timestamp;
use crate::orchestra::envelope::Envelope;
use crate::orchestra::protobuf::message::Message;
use crate::orchestra::protobuf::read::Reader;
use crate::orchestra::translate::{refused, unknown_request};
use crate::orchestra::wire::{
    HealthResult, PluginManifest, PromptGetResponse, Publish, RegistrationResult, Response, Status,
    StorageDeleteResponse, StorageListResponse, StorageReadResponse, StorageWriteResponse,
    StreamEnd, Subscribe, Unsubscribe,
};
use crate::tool::{Call, Outcome, What};

/// What a request is about, looked up in its member without reading the rest.
fn text_of(member: &Bytes, field: u32) -> String {
    let mut reader = Reader::new(member);
    let mut found = String::new();
    while let Ok(Some(next)) = reader.field() {
        if next.number == field
            && let Ok(text) = next.text()
        {
            text.clone_into(&mut found);
        }
    }
    found
}

/// The answer to a storage request that no plugin can be asked.
pub(super) fn no_storage(method: &str, error: String) -> Response {
    match method {
        "storage_read" => StorageReadResponse::default().into(),
        "storage_list" => StorageListResponse::default().into(),
        "storage_delete" => StorageDeleteResponse::default().into(),
        _ => StorageWriteResponse { error, ..StorageWriteResponse::default() }.into(),
    }
}

/// The end of a stream that no plugin has ended.
pub(super) fn broken_stream(stream_id: &str, code: &str, why: String, chunks: i64) -> StreamEnd {
    StreamEnd {
        stream_id: stream_id.to_owned(),
        error_code: code.to_owned(),
        error_message: why,
        total_chunks: chunks,
        ..StreamEnd::default()
    }
}

/// Why a tool could not be asked.
pub(super) fn not_routed(plugin: &str, cause: &str) -> String {
    format!("failed to route tool call to plugin \"{plugin}\": {cause}")
}

const NOT_RUNNING: &str = "plugin is not running";

impl Hub {
    pub(super) fn handle_call(&mut self, now: Instant, wall: Timestamp, asker: Asker, call: &Call) {
        let What::Native { method, body, .. } = &call.what else {
            return self.answer(asker, unknown_request());
        };
        let Ok(envelope) = Envelope::read(Side::Call, body) else {
            return self.answer(asker, unknown_request());
        };
        let member = envelope.member.map(|(_, member)| member).unwrap_or_default();
        if self.is_stopping {
            let why = "the orchestrator is shutting down";
            return match &method[..] {
                b"stream_cancel" => self.end(asker),
                _ => self.answer(asker, refused("routing_error", why)),
            };
        }
        match &method[..] {
            b"register" => self.register(asker, &member),
            b"health" => {
                let (status, message) = (Status::HEALTHY, "orchestrator ok".to_owned());
                self.answer(asker, HealthResult { status, message, ..HealthResult::default() });
            }
            b"list_tools" => self.list_tools(now, asker),
            b"list_prompts" => self.list_prompts(now, asker),
            b"tool_call" => self.route_tool_call(now, asker, body, &member),
            b"stream_start" => self.route_stream(now, asker, body, &member),
            b"stream_cancel" => {
                self.end(asker);
                self.cancel_stream(now, asker, &text_of(&member, 1), body);
            }
            b"prompt_get" => self.route_prompt_get(now, asker, body, &member),
            b"storage_read" => self.route_storage_to(now, asker, "storage_read", body, &member, 2),
            b"storage_write" => {
                self.route_storage_to(now, asker, "storage_write", body, &member, 5);
            }
            b"storage_delete" => {
                self.route_storage_to(now, asker, "storage_delete", body, &member, 2);
            }
            b"storage_list" => self.route_storage_to(now, asker, "storage_list", body, &member, 3),
            b"subscribe" => match Subscribe::read(&member) {
                Ok(subscribe) => self.subscribe(asker, subscribe),
                Err(_) => self.end(asker),
            },
            b"unsubscribe" => match Unsubscribe::read(&member) {
                Ok(unsubscribe) => self.unsubscribe(asker, &unsubscribe.subscription_id),
                Err(_) => self.end(asker),
            },
            b"publish" => match Publish::read(&member) {
                Ok(publish) => self.publish(now, wall, asker, body, publish),
                Err(_) => self.end(asker),
            },
            _ => self.answer(asker, unknown_request()),
        }
    }

    /// The end of a stream, without a frame: all the answer that a request gets which is
    /// cancelling, or cannot be read.
    pub(super) fn end(&mut self, asker: Asker) {
        let done = Down::Done(Ok(Outcome::End(None)));
        self.orders.push_back(super::Order::Down(asker, done));
    }

    /// A manifest counts if it comes from whom it is about.
    fn register(&mut self, asker: Asker, member: &Bytes) {
        let Ok(manifest) = PluginManifest::read(member) else { return self.end(asker) };
        self.answer(asker, RegistrationResult { accepted: true, ..Default::default() });
        let known = self.plugin_of(asker.connection);
        match known.filter(|plugin| self.plugins[*plugin].config.id == manifest.id) {
            Some(plugin) => self.learn_manifest(plugin, manifest),
            None => {
                let id = manifest.id;
                self.warn(format!(
                    "\"{id}\" registered itself; it is no plugin of ours, so that has no effect"
                ));
            }
        }
    }

    fn learn_manifest(&mut self, index: PluginIndex, manifest: PluginManifest) {
        let list = |names: &[String]| names.join(", ");
        let mut told = Vec::new();
        if !manifest.provides_storage.is_empty() {
            told.push(format!("provides storage {}", list(&manifest.provides_storage)));
        }
        if !manifest.provides_ai.is_empty() {
            told.push(format!("provides ai {}", list(&manifest.provides_ai)));
        }
        if !manifest.needs_events.is_empty() {
            told.push(format!("is subscribed to {}", list(&manifest.needs_events)));
        }
        if !told.is_empty() {
            let line = format!("{} {}", manifest.id, told.join(", "));
            self.orders.push_back(super::Order::Log(line));
        }
        self.plugins[index].manifest = manifest;
        self.report_duplicates();
    }

    fn route_tool_call(&mut self, now: Instant, asker: Asker, body: &Bytes, member: &Bytes) {
        let (tool, provider) = (text_of(member, 1), text_of(member, 5));
        let plugin = match self.route_tool(&tool, &provider) {
            Route::To(plugin) => plugin,
            Route::Away(plugin) => {
                let why = not_routed(&self.plugins[plugin].config.id, NOT_RUNNING);
                return self.answer(asker, refused("routing_error", why));
            }
            Route::Nowhere => {
                let mut why = format!("no plugin provides tool \"{tool}\"");
                if !provider.is_empty() {
                    why.push_str(&format!(" for provider \"{provider}\""));
                }
                return self.answer(asker, refused("tool_not_found", why));
            }
        };
        let running = Running::tool(plugin, asker, tool, body.clone());
        self.pass_on(now, plugin, "tool_call", body, running);
    }

    fn route_stream(&mut self, now: Instant, asker: Asker, body: &Bytes, member: &Bytes) {
        let (stream_id, tool) = (text_of(member, 1), text_of(member, 2));
        let plugin = match self.route_tool(&tool, "") {
            Route::To(plugin) => plugin,
            Route::Away(plugin) => {
                let why = not_routed(&self.plugins[plugin].config.id, NOT_RUNNING);
                return self.answer(asker, broken_stream(&stream_id, "routing_error", why, 0));
            }
            Route::Nowhere => {
                let why = format!("no plugin provides streaming tool \"{tool}\"");
                return self.answer(asker, broken_stream(&stream_id, "tool_not_found", why, 0));
            }
        };
        let running = Running::stream(plugin, asker, stream_id);
        self.pass_on(now, plugin, "stream_start", body, running);
    }

    fn route_prompt_get(&mut self, now: Instant, asker: Asker, body: &Bytes, member: &Bytes) {
        let name = text_of(member, 1);
        let description = match self.route_prompt(&name) {
            Route::To(plugin) => {
                let running = Running::prompt(plugin, asker);
                return self.pass_on(now, plugin, "prompt_get", body, running);
            }
            Route::Away(plugin) => self.prompt_not_routed(plugin, NOT_RUNNING),
            Route::Nowhere => format!("no plugin provides prompt \"{name}\""),
        };
        self.answer(asker, PromptGetResponse { description, ..PromptGetResponse::default() });
    }

    pub(super) fn prompt_not_routed(&self, plugin: PluginIndex, cause: &str) -> String {
        let id = &self.plugins[plugin].config.id;
        format!("failed to route prompt to plugin \"{id}\": {cause}")
    }

    fn route_storage_to(
        &mut self,
        now: Instant,
        asker: Asker,
        method: &'static str,
        body: &Bytes,
        member: &Bytes,
        kind_field: u32,
    ) {
        let kind = text_of(member, kind_field);
        let kind = if kind.is_empty() { "markdown".to_owned() } else { kind };
        match self.route_storage(&kind) {
            Route::To(plugin) => {
                let running = Running::storage(plugin, asker, method);
                self.pass_on(now, plugin, method, body, running);
            }
            Route::Away(plugin) => {
                let id = &self.plugins[plugin].config.id;
                let why = format!("storage plugin \"{id}\" is not running");
                self.answer(asker, no_storage(method, why));
            }
            Route::Nowhere => {
                let why = format!("no plugin provides storage type \"{kind}\"");
                self.answer(asker, no_storage(method, why));
            }
        }
    }

    fn pass_on(
        &mut self,
        now: Instant,
        plugin: PluginIndex,
        method: &'static str,
        body: &Bytes,
        running: Running,
    ) {
        let timeout = self.settings.call_timeout;
        let is_stream = method == "stream_start";
        let ask = ToPlugin { method, body: body.clone(), timeout, is_stream };
        self.call(now, plugin, ask, running);
    }
}
