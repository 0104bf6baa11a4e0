//! What of an MCP server is pinned, and what its clients are told in its place by those who have
//! that in a file.

use std::borrow::Cow;

use bytes::Bytes;

use super::calling::era_of;
use super::translate::{read_tool, write_tool};
use super::wire::{Era, Revision, SERVER_KEY, put_member, quoted};
use crate::json::{Json, edit};
use crate::jsonrpc::string;
use crate::pin::{Layout, Layouts, PinKind, Pinned, Shape};
use crate::tool::{Call, Native, ToolSpec};

/// How the definitions of this wire stand in the file.
pub const LAYOUTS: Layouts = Layouts {
    tool: Layout {
        name: "name",
        members: &[
            ("title", "title", Shape::Text),
            ("description", "description", Shape::Text),
            ("input", "inputSchema", Shape::Json),
            ("output", "outputSchema", Shape::Json),
            ("annotations", "annotations", Shape::Json),
        ],
    },
    prompt: Layout {
        name: "name",
        members: &[
            ("title", "title", Shape::Text),
            ("description", "description", Shape::Text),
            ("arguments", "arguments", Shape::Json),
        ],
    },
    template: Layout {
        name: "uriTemplate",
        members: &[
            ("name", "name", Shape::Text),
            ("title", "title", Shape::Text),
            ("description", "description", Shape::Text),
        ],
    },
};

/// The object that the server lists for a tool.
pub fn definition(spec: &ToolSpec) -> Option<Json> {
    let Native { wire, text } = spec.native.as_ref()?;
    if *wire != super::WIRE {
        return None;
    }
    Json::parse(text.clone()).ok()
}

/// The tool that a server lists by this object.
pub fn read_definition(object: &Json) -> Option<ToolSpec> {
    read_tool(object.as_bytes(), object.as_str())
}

/// What a client asks that can be answered without the server, or must not be answered by it
/// without a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NativeAsk {
    /// Who it is and what it can do. A legacy client's session lasts as long as this call.
    Greeting(Era),
    /// One of the lists that are pinned.
    List(PinKind),
    /// What resources there are.
    Resources,
    /// A tool or prompt of this name.
    Entry(PinKind, String),
    /// Nothing that needs the server: it is told when there is one.
    Told,
    /// Anything else.
    Other,
}

/// What a request asks for.
pub fn asked(method: &[u8], params: &Bytes) -> NativeAsk {
    let named = |kind: PinKind| {
        let params = str::from_utf8(params).unwrap_or_default();
        match edit::member(params, "name").and_then(string) {
            Some(name) => NativeAsk::Entry(kind, name.into_owned()),
            None => NativeAsk::Other,
        }
    };
    match method {
        b"initialize" => NativeAsk::Greeting(Era::Legacy),
        b"server/discover" => NativeAsk::Greeting(Era::Modern),
        b"tools/list" => NativeAsk::List(PinKind::Tool),
        b"prompts/list" => NativeAsk::List(PinKind::Prompt),
        b"resources/templates/list" => NativeAsk::List(PinKind::Template),
        b"resources/list" => NativeAsk::Resources,
        b"tools/call" => named(PinKind::Tool),
        b"prompts/get" => named(PinKind::Prompt),
        b"logging/setLevel" | b"subscriptions/listen" | b"ping" => NativeAsk::Told,
        _ if method.starts_with(b"notifications/") => NativeAsk::Told,
        _ => NativeAsk::Other,
    }
}

/// Where the entries of a list stand in its result.
pub fn member(kind: PinKind) -> &'static str {
    match kind {
        PinKind::Tool => "tools",
        PinKind::Prompt => "prompts",
        PinKind::Template => "resourceTemplates",
    }
}

/// The method by which a list is asked for.
pub fn method(kind: PinKind) -> &'static str {
    match kind {
        PinKind::Tool => "tools/list",
        PinKind::Prompt => "prompts/list",
        PinKind::Template => "resources/templates/list",
    }
}

/// The capability without which a server has no such list.
pub fn capability(kind: PinKind) -> &'static str {
    match kind {
        PinKind::Tool => "tools",
        PinKind::Prompt => "prompts",
        PinKind::Template => "resources",
    }
}

/// The result of a list that holds these.
pub fn list(era: Era, member: &str, entries: &[String]) -> Bytes {
    let mut result = vec![b'{'];
    if era == Era::Modern {
        put_member(&mut result, "resultType", "\"complete\"");
    }
    put_member(&mut result, member, format!("[{}]", entries.join(",")));
    if era == Era::Modern {
        put_member(&mut result, "ttlMs", "0");
        put_member(&mut result, "cacheScope", "\"private\"");
    }
    result.push(b'}');
    result.into()
}

/// The result of a list without the entries that are not to be shown; the others keep their bytes.
pub fn filtered(result: &Bytes, kind: PinKind, is_shown: impl Fn(&str) -> bool) -> Bytes {
    let Ok(text) = str::from_utf8(result) else { return result.clone() };
    let Some(entries) = edit::member(text, member(kind)) else { return result.clone() };
    let all: Vec<&str> = edit::elements(entries).collect();
    let shown: Vec<&str> = all.iter().copied().filter(|entry| is_shown(entry)).collect();
    if shown.len() == all.len() {
        return result.clone();
    }
    let shown = format!("[{}]", shown.join(","));
    edit::replaced(text, member(kind), &shown).map_or_else(|| result.clone(), Bytes::from)
}

/// A greeting with these instructions in place of its own.
pub fn with_instructions(greeting: &Json, instructions: Option<&str>) -> Json {
    let raw = greeting.as_str();
    match (edit::member(raw, "instructions"), instructions) {
        (None, None) => greeting.clone(),
        (Some(_), None) => Json::from_trusted(edit::without(raw, "instructions")),
        (Some(_), Some(text)) => {
            let text = quoted(text);
            let text = str::from_utf8(&text).unwrap_or("\"\"");
            let replaced = edit::replaced(raw, "instructions", text);
            replaced.map_or_else(|| greeting.clone(), Json::from_trusted)
        }
        (None, Some(text)) => {
            let raw = raw.trim_end();
            let mut out = raw.strip_suffix('}').unwrap_or(raw).as_bytes().to_vec();
            put_member(&mut out, "instructions", quoted(text));
            out.push(b'}');
            Json::from_trusted(out)
        }
    }
}

/// The instructions of a greeting.
pub fn instructions(greeting: &Json) -> Option<Cow<'_, str>> {
    edit::text(greeting.as_str(), "instructions")
}

/// What the server said of itself when it was pinned, as far as that is kept.
pub fn greeting(era: Era, pinned: &Pinned) -> Json {
    let mut out = vec![b'{'];
    let noted = &pinned.noted;
    match era {
        Era::Legacy => {
            let pinned = noted.era.as_deref().and_then(Revision::named);
            let legacy = pinned.filter(|revision| *revision != Revision::MODERN);
            let revision = legacy.unwrap_or(Revision::V2025_11_25);
            put_member(&mut out, "protocolVersion", quoted(revision.as_str()));
        }
        Era::Modern => {
            put_member(&mut out, "resultType", "\"complete\"");
            put_member(
                &mut out,
                "supportedVersions",
                format!("[\"{}\"]", Revision::MODERN.as_str()),
            );
        }
    }
    put_member(&mut out, "capabilities", pinned.capabilities.as_deref().unwrap_or("{}"));
    let mut server = vec![b'{'];
    put_member(&mut server, "name", quoted(noted.server_name.as_deref().unwrap_or_default()));
    put_member(&mut server, "version", quoted(noted.server_version.as_deref().unwrap_or_default()));
    server.push(b'}');
    put_member(&mut out, "serverInfo", server);
    let instructions = match era {
        Era::Legacy => pinned.legacy_instructions(),
        Era::Modern => pinned.shown.instructions.as_deref(),
    };
    if let Some(instructions) = instructions {
        put_member(&mut out, "instructions", quoted(instructions));
    }
    if era == Era::Modern {
        put_member(&mut out, "ttlMs", "0");
        put_member(&mut out, "cacheScope", "\"private\"");
    }
    out.push(b'}');
    Json::from_trusted(out)
}

/// A tool as the caller of this call is shown it in a list.
pub fn listed_as(call: &Call, spec: &ToolSpec) -> Json {
    let known = call.options.known.and_then(Revision::known);
    let legacy = match era_of(call) {
        Era::Modern => Revision::MODERN,
        Era::Legacy => Revision::V2025_11_25,
    };
    let mut out = Vec::new();
    write_tool(&mut out, known.unwrap_or(legacy), spec);
    Json::from_trusted(out).compact()
}

/// What a server says of itself: which revision it speaks, its name and its version.
pub fn introduction(greeting: &Json) -> (String, Option<String>, Option<String>) {
    let raw = greeting.as_str();
    let era = edit::text(raw, "protocolVersion");
    let era = era.map_or_else(|| Revision::MODERN.as_str().to_owned(), Cow::into_owned);
    let meta = edit::member(raw, "_meta").unwrap_or("{}");
    let server = edit::member(raw, "serverInfo").or_else(|| edit::member(meta, SERVER_KEY));
    let server = server.unwrap_or("{}");
    let text = |name: &str| edit::text(server, name).map(Cow::into_owned);
    (era, text("name"), text("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_stay_keep_their_bytes() {
        let result = Bytes::from_static(
            br#"{ "tools" : [ {"name":"a", "x":1.0} ,{"name":"b"}], "nextCursor":"c" }"#,
        );
        let kept = filtered(&result, PinKind::Tool, |entry| {
            edit::text(entry, "name").as_deref() == Some("a")
        });
        assert_eq!(kept, r#"{ "tools" : [{"name":"a", "x":1.0}], "nextCursor":"c" }"#);
        assert_eq!(filtered(&result, PinKind::Tool, |_| true), result);
        assert_eq!(filtered(&result, PinKind::Prompt, |_| false), result);
    }

    #[test]
    fn only_the_instructions_of_a_greeting_change() {
        let plain = Json::from_trusted(r#"{"capabilities":{"x":1.0}}"#);
        let told = with_instructions(&plain, Some("a\"b"));
        assert_eq!(told.as_str(), r#"{"capabilities":{"x":1.0},"instructions":"a\"b"}"#);
        assert_eq!(with_instructions(&told, None), plain);
        assert_eq!(instructions(&with_instructions(&told, Some("c"))).as_deref(), Some("c"));
        assert_eq!(with_instructions(&plain, None), plain);
    }

    #[test]
    fn what_is_asked_is_told_by_the_method() {
        let params = Bytes::from_static(br#"{"name":"p"}"#);
        for (method, expected) in [
            ("initialize", NativeAsk::Greeting(Era::Legacy)),
            ("prompts/list", NativeAsk::List(PinKind::Prompt)),
            ("prompts/get", NativeAsk::Entry(PinKind::Prompt, "p".to_owned())),
            ("tools/call", NativeAsk::Entry(PinKind::Tool, "p".to_owned())),
            ("notifications/initialized", NativeAsk::Told),
            ("resources/read", NativeAsk::Other),
        ] {
            assert_eq!(asked(method.as_bytes(), &params), expected, "{method}");
        }
        assert_eq!(asked(b"prompts/get", &Bytes::from_static(b"{}")), NativeAsk::Other);
    }
}
