//! What `--profile full` adds: prompts, resources, the level of a log, events.

use std::time::Instant;

use bytes::Bytes;

use super::methods::{Params, Purpose, invalid, unknown};
use super::{INVALID_PARAMS, Origin, Refusal, Transport};
use crate::capture::Side;
use crate::json::{Kind, edit, write_string};
use crate::jsonrpc::{Id, kind, string};
use crate::orchestra::envelope::Envelope;
use crate::orchestra::protobuf::message::{print_list, print_name};
use crate::orchestra::wire::{
    EventDelivery, ListPromptsRequest, PromptDefinition, PromptGetRequest, PromptGetResponse,
    Response, StorageListRequest, StorageListResponse, StorageReadRequest, StorageReadResponse,
    Subscribe,
};

/// The kinds of resources, and how people call them.
pub(super) const KINDS: [(&str, &str); 3] = [
    ("features", "Project Features"),
    ("notes", "Project Notes"),
    ("docs", "Project Documentation"),
];

/// The names of RFC 5424, in MCP's spelling.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

const SCHEME: &str = "orchestra://";

/// Resources of all kinds, as they come in.
#[derive(Debug)]
pub(super) struct Gather {
    origin: Origin,
    /// The entries of each kind, with commas between them; none until they are there.
    found: [Option<Vec<u8>>; KINDS.len()],
}

impl Transport {
    pub(super) fn handle_more(
        &mut self,
        now: Instant,
        origin: &Origin,
        method: &str,
        params: Option<&str>,
    ) -> Result<(), Refusal> {
        let params = Params::read(params)?;
        match method {
            "prompts/list" => {
                self.ask_for(now, origin, Purpose::Prompts, ListPromptsRequest::default())
            }
            "prompts/get" => {
                let request = prompt_request(&params)?;
                self.ask_for(now, origin, Purpose::Prompt, request)
            }
            "resources/list" => self.list_resources(now, origin),
            "resources/read" => {
                let uri = params.text("uri")?;
                let path = path_of(&uri)?;
                let request = StorageReadRequest { path, ..StorageReadRequest::default() };
                self.ask_for(now, origin, Purpose::Resource { uri }, request)
            }
            "resources/templates/list" => {
                self.answer(origin, templates());
                Ok(())
            }
            "logging/setLevel" => {
                let level = params.text("level")?;
                if !LEVELS.contains(&level.as_str()) {
                    let message = format!("invalid log level: \"{level}\"");
                    return Err(Refusal::new(INVALID_PARAMS, message));
                }
                self.answer(origin, &b"{}"[..]);
                Ok(())
            }
            _ => Err(unknown(method)),
        }
    }

    fn list_resources(&mut self, now: Instant, origin: &Origin) -> Result<(), Refusal> {
        let gather = self.number();
        let found = Default::default();
        self.gathers.insert(gather, Gather { origin: origin.clone(), found });
        for (kind, (name, _)) in KINDS.iter().enumerate() {
            let prefix = format!("{name}/");
            let request = StorageListRequest { prefix, ..StorageListRequest::default() };
            let purpose = Purpose::Resources { gather, kind };
            if let Err(refusal) = self.ask_for(now, origin, purpose, request) {
                self.gathers.remove(&gather);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// The resources of one kind are here; with the last of them all are told.
    pub(super) fn gather(&mut self, gather: u64, kind: usize, entries: Vec<u8>) {
        let Some(Gather { found, .. }) = self.gathers.get_mut(&gather) else { return };
        found[kind] = Some(entries);
        if found.iter().any(Option::is_none) {
            return;
        }
        let Some(Gather { origin, found }) = self.gathers.remove(&gather) else { return };
        let found: Vec<_> =
            found.into_iter().flatten().filter(|entries| !entries.is_empty()).collect();
        let mut out = b"{\"resources\":[".to_vec();
        out.extend_from_slice(&found.join(&b','));
        out.extend_from_slice(b"]}");
        self.answer(&origin, out);
    }

    pub(super) fn fail_gather(&mut self, gather: u64, refusal: &Refusal) {
        if let Some(Gather { origin, .. }) = self.gathers.remove(&gather) {
            self.refuse(&origin, refusal);
        }
    }

    /// The request was taken back; what still comes of it is not told.
    pub(super) fn forget_gather(&mut self, purpose: &Purpose) {
        if let Purpose::Resources { gather, .. } = purpose {
            self.gathers.remove(gather);
        }
    }

    /// The hub is there again: its tools may be others.
    pub fn handle_reconnected(&mut self) {
        if self.settings.profile == super::Profile::Full {
            self.out
                .put(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n");
        }
    }

    /// Events of this topic are told from now on. Never asked of a hub unasked: some die of it.
    pub fn subscribe(&mut self, now: Instant, topic: &str) {
        let subscription_id = format!("stdio-{topic}");
        let subscribe =
            Subscribe { subscription_id, topic: topic.to_owned(), ..Subscribe::default() };
        let origin = Origin { id: Id::NULL, batch: None };
        // Beyond the limit there is none: it is the first thing asked.
        let _ = self.ask_for(now, &origin, Purpose::Events, subscribe);
    }

    pub(super) fn tell_event(&mut self, body: &Bytes) {
        let response = Envelope::read(Side::Response, body).and_then(|it| it.response());
        let Ok(Some(Response::EventDelivery(event))) = response else { return };
        let EventDelivery { topic, event_type, payload, source_plugin, .. } = event;
        let mut out = br#"{"jsonrpc":"2.0","method":"notifications/event","params":{"#.to_vec();
        for (name, text) in
            [("topic", topic), ("event_type", event_type), ("source", source_plugin)]
        {
            print_name(&mut out, name);
            write_string(&mut out, &text);
        }
        if let Some(payload) = payload {
            print_name(&mut out, "payload");
            out.extend_from_slice(payload.to_json().as_bytes());
        }
        out.extend_from_slice(b"}}\n");
        self.out.put(&out);
    }
}

fn prompt_request(params: &Params<'_>) -> Result<PromptGetRequest, Refusal> {
    let prompt_name = params.text("name")?;
    let mut request = PromptGetRequest { prompt_name, ..PromptGetRequest::default() };
    let Some(arguments) = params.member("arguments") else { return Ok(request) };
    if kind(arguments) != Kind::Object {
        return Err(invalid("arguments must be an object"));
    }
    for (name, value) in edit::members(arguments) {
        let value = string(value).ok_or_else(|| invalid("argument values must be strings"))?;
        request.arguments.insert(name.into_owned(), value.into_owned());
    }
    Ok(request)
}

/// `{"prompts":[…]}`.
pub(super) fn prompts_result(prompts: Vec<PromptDefinition>) -> Vec<u8> {
    let mut out = b"{\"prompts\":".to_vec();
    print_list(&mut out, b'[', b']', &prompts, |out, prompt| {
        out.push(b'{');
        print_texts(
            out,
            [("name", Some(&prompt.name)), ("description", said(&prompt.description))],
        );
        if !prompt.arguments.is_empty() {
            print_name(out, "arguments");
            print_list(out, b'[', b']', &prompt.arguments, |out, argument| {
                out.push(b'{');
                let description = said(&argument.description);
                print_texts(out, [("name", Some(&argument.name)), ("description", description)]);
                if argument.required {
                    out.extend_from_slice(b",\"required\":true");
                }
                out.push(b'}');
            });
        }
        out.push(b'}');
    });
    out.push(b'}');
    out
}

/// `{"description"?,"messages":[…]}`; that there is no such prompt is told by its description.
pub(super) fn prompt_result(prompt: PromptGetResponse) -> Result<Vec<u8>, Refusal> {
    let PromptGetResponse { description, messages, .. } = prompt;
    let is_none =
        ["no plugin provides prompt", "not found"].iter().any(|words| description.contains(words));
    if messages.is_empty() && is_none {
        return Err(Refusal::new(INVALID_PARAMS, description));
    }
    let mut out = b"{".to_vec();
    print_texts(&mut out, [("description", said(&description))]);
    print_name(&mut out, "messages");
    print_list(&mut out, b'[', b']', messages, |out, message| {
        out.push(b'{');
        print_texts(out, [("role", Some(&message.role))]);
        let content = message.content.unwrap_or_default();
        out.extend_from_slice(b",\"content\":{");
        print_texts(out, [("type", Some(&content.r#type)), ("text", Some(&content.text))]);
        out.extend_from_slice(b"}}");
    });
    out.push(b'}');
    Ok(out)
}

/// The entries of one kind, with commas between them.
pub(super) fn resources_result(kind: usize, list: &StorageListResponse) -> Vec<u8> {
    let (kind, _) = KINDS[kind];
    let mut out = Vec::new();
    print_list(&mut out, b'[', b']', &list.entries, |out, entry| {
        let path = entry.path.strip_prefix(kind).and_then(|path| path.strip_prefix('/'));
        let path = path.unwrap_or(&entry.path);
        let name = path.strip_suffix(".md").unwrap_or(path).to_owned();
        let uri = format!("{SCHEME}{kind}/{name}");
        let mime_type = "text/markdown".to_owned();
        out.push(b'{');
        let texts = [("uri", Some(&uri)), ("name", Some(&name)), ("mimeType", Some(&mime_type))];
        print_texts(out, texts);
        out.push(b'}');
    });
    // Without the brackets: all kinds stand in one array.
    out[1..out.len() - 1].to_vec()
}

/// `{"contents":[{uri, mimeType, text}]}`.
pub(super) fn resource_result(uri: &String, read: &StorageReadResponse) -> Vec<u8> {
    let text = String::from_utf8_lossy(&read.content).into_owned();
    let mime_type = "text/markdown".to_owned();
    let mut out = b"{\"contents\":[{".to_vec();
    let texts = [("uri", Some(uri)), ("mimeType", Some(&mime_type)), ("text", Some(&text))];
    print_texts(&mut out, texts);
    out.extend_from_slice(b"}]}");
    out
}

fn templates() -> Vec<u8> {
    let mut out = b"{\"resourceTemplates\":".to_vec();
    print_list(&mut out, b'[', b']', KINDS, |out, (kind, name)| {
        let (uri, name) = (format!("{SCHEME}{kind}/{{id}}"), name.to_owned());
        let description = format!("Access {name} by ID");
        let mime_type = "text/markdown".to_owned();
        out.push(b'{');
        print_texts(
            out,
            [
                ("uriTemplate", Some(&uri)),
                ("name", Some(&name)),
                ("description", Some(&description)),
                ("mimeType", Some(&mime_type)),
            ],
        );
        out.push(b'}');
    });
    out.push(b'}');
    out
}

/// Where a resource is stored.
fn path_of(uri: &str) -> Result<String, Refusal> {
    let refuse = |message| Err(Refusal::new(INVALID_PARAMS, message));
    let Some(rest) = uri.strip_prefix(SCHEME) else {
        return refuse(format!("unsupported URI scheme: \"{uri}\" (expected {SCHEME})"));
    };
    match rest.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => {
            if KINDS.iter().any(|(known, _)| *known == kind) {
                return Ok(format!("{kind}/{name}.md"));
            }
            refuse(format!("unknown resource type: \"{kind}\""))
        }
        _ => refuse(format!("invalid resource URI: \"{uri}\"")),
    }
}

fn said(text: &String) -> Option<&String> {
    Some(text).filter(|text| !text.is_empty())
}

fn print_texts<const N: usize>(out: &mut Vec<u8>, texts: [(&str, Option<&String>); N]) {
    for (name, text) in texts {
        if let Some(text) = text {
            print_name(out, name);
            write_string(out, text);
        }
    }
}
