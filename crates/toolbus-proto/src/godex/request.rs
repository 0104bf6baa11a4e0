//! What is asked of a server: the body of a request, its members always in one order.

use bytes::Bytes;

use super::functions::{Function, Origin};
use super::wire::Object;
use crate::collect::base64;
use crate::json::Json;

/// All that shapes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which model is asked.
    pub model: String,
    /// The system prompt.
    pub instructions: String,
    /// The conversation so far, each item as compact JSON.
    pub input: Vec<Json>,
    /// What the model may call, in order.
    pub functions: Vec<Function>,
    /// The model may search the web.
    pub web_search: bool,
    /// Whether it must call something.
    pub choice: Choice,
    /// Whether it may ask for several tools at once, if that was said.
    pub parallel_tool_calls: Option<bool>,
    /// How hard it shall think.
    pub reasoning_effort: Option<String>,
    /// The JSON Schema that the text must fulfil.
    pub output_schema: Option<Json>,
    /// How long the answer may be.
    pub max_output_tokens: Option<u64>,
    /// As a number in JSON.
    pub temperature: Option<String>,
    /// Calls of the model are run here, and their outputs sent back.
    pub runs_tools: bool,
    /// The session: the key of the server's prompt cache.
    pub session_id: String,
}

/// Whether the model must call something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// It decides.
    Auto,
    /// It must not.
    None,
    /// It must, whatever it likes.
    Required,
    /// It must call this one.
    Function(String),
}

impl Request {
    /// The default model.
    pub const MODEL: &'static str = "gpt-5.2-codex";
    /// The system prompt if there is no other.
    pub const INSTRUCTIONS: &'static str = "You are a helpful assistant.";

    /// A plain request without anything optional.
    pub fn new(session_id: impl Into<String>, input: Vec<Json>) -> Request {
        Request {
            model: Request::MODEL.to_owned(),
            instructions: Request::INSTRUCTIONS.to_owned(),
            input,
            functions: Vec::new(),
            web_search: false,
            choice: Choice::Auto,
            parallel_tool_calls: None,
            reasoning_effort: None,
            output_schema: None,
            max_output_tokens: None,
            temperature: None,
            runs_tools: false,
            session_id: session_id.into(),
        }
    }

    /// Are there any tools at all?
    pub fn has_tools(&self) -> bool {
        self.web_search || !self.functions.is_empty()
    }

    /// The body: one line of compact JSON.
    pub fn body(&self) -> Bytes {
        let mut text = Vec::new();
        let mut body = Object::begin(&mut text);
        body.text("model", &self.model).text("instructions", &self.instructions);
        body.raw("input", &array(self.input.iter().map(Json::as_str)));
        if self.has_tools() {
            let search = r#"{"type":"web_search","external_web_access":true}"#;
            let search = self.web_search.then(|| search.to_owned());
            let tools: Vec<_> = self.functions.iter().map(function).chain(search).collect();
            body.raw("tools", &array(tools.iter().map(String::as_str)));
        }
        match &self.choice {
            Choice::Auto => body.text("tool_choice", "auto"),
            Choice::None => body.text("tool_choice", "none"),
            Choice::Required => body.text("tool_choice", "required"),
            Choice::Function(name) => body.object("tool_choice", |choice| {
                choice.text("type", "function").text("name", name);
            }),
        };
        let is_parallel = self.parallel_tool_calls.map(|is| if is { "true" } else { "false" });
        body.maybe("parallel_tool_calls", is_parallel);
        if let Some(effort) = &self.reasoning_effort {
            body.object("reasoning", |reasoning| {
                reasoning.text("effort", effort);
            });
        }
        if let Some(schema) = &self.output_schema {
            body.object("text", |text| {
                text.object("format", |format| {
                    format.text("type", "json_schema").text("name", "output");
                    format.raw("schema", schema.as_str()).raw("strict", "true");
                });
            });
        }
        if let Some(tokens) = self.max_output_tokens {
            body.number("max_output_tokens", tokens);
        }
        body.maybe("temperature", self.temperature.as_deref());
        if self.runs_tools && self.reasoning_effort.is_some() {
            body.raw("include", r#"["reasoning.encrypted_content"]"#);
        }
        body.raw("store", "false").raw("stream", "true");
        body.text("prompt_cache_key", &self.session_id);
        body.end();
        text.into()
    }
}

fn function(function: &Function) -> String {
    let mut text = Vec::new();
    let mut tool = Object::line(&mut text, "function");
    tool.text("name", &function.name);
    if let Some(description) = &function.description {
        tool.text("description", description);
    }
    tool.raw("parameters", function.parameters.as_str()).raw("strict", "false");
    tool.end();
    String::from_utf8(text).unwrap_or_default()
}

fn array<'a>(elements: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::from("[");
    for (index, element) in elements.enumerate() {
        if 0 < index {
            text.push(',');
        }
        text.push_str(element);
    }
    text.push(']');
    text
}

/// An image: its media type, which is told by its content, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    media_type: &'static str,
    data: String,
}

impl Image {
    /// PNG, JPEG, GIF or WebP; `None` for anything else.
    pub fn of(bytes: &[u8]) -> Option<Image> {
        let media_type = match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "image/png",
            [0xff, 0xd8, 0xff, ..] => "image/jpeg",
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
            _ => return None,
        };
        Some(Image { media_type, data: base64(bytes) })
    }
}

/// What the user says, as an item of the input.
pub fn message(prompt: &str, images: &[Image]) -> Json {
    let mut parts = Vec::new();
    let mut text = Vec::new();
    let mut part = Object::line(&mut text, "input_text");
    part.text("text", prompt);
    part.end();
    parts.push(text);
    for Image { media_type, data } in images {
        let mut text = Vec::new();
        let mut part = Object::line(&mut text, "input_image");
        part.text("image_url", &format!("data:{media_type};base64,{data}")).text("detail", "auto");
        part.end();
        parts.push(text);
    }
    let parts: Vec<_> = parts.iter().filter_map(|part| str::from_utf8(part).ok()).collect();
    let mut text = Vec::new();
    let mut item = Object::line(&mut text, "message");
    item.text("role", "user").raw("content", &array(parts.into_iter()));
    item.end();
    Json::from_trusted(text)
}

/// The output of a tool, as an item of the input.
pub(super) fn call_output(call_id: &str, output: &str) -> Json {
    let mut text = Vec::new();
    let mut item = Object::line(&mut text, "function_call_output");
    item.text("call_id", call_id).text("output", output);
    item.end();
    Json::from_trusted(text)
}

impl Request {
    /// The function of that name, if it is offered.
    pub(super) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// The first function that the bus offers.
    pub(super) fn first_of_bus(&self) -> Option<&Function> {
        self.functions.iter().find(|function| matches!(function.origin, Origin::Bus { .. }))
    }
}
