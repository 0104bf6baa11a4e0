//! What this wire says about itself, for the registry.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::capture::Side;
use toolbus_proto::mcp::wire::REPLY_BYTES_MAX;
use toolbus_proto::mcp::{calling, native};
use toolbus_proto::tool::{FailureKind, Wire};

use super::back::{Mcp, Options};
#[cfg(feature = "http")]
use super::back_http;
#[cfg(feature = "http")]
use super::back_http::McpHttp;
use super::settings::McpSettings;
use super::{WIRE, eras, settings};
use crate::address::{Address, Place, Query, Scheme, Transport};
use crate::bus::TIMEOUT;
use crate::bus::back::Back;
use crate::bus::config::{Key, Values};
use crate::bus::observe::NativeCall;
use crate::child::supervisor::{Judge, Restart};
use crate::child::{EnvPolicy, Meanwhile, Patience};
use crate::peer::FirstWords;
use crate::peer::decode::{DecodedLines, Decoding};
use crate::peer::open::{file_name, not_in_this_build, patience, program};
use crate::peer::settings::Settings;
use crate::peer::{FrontKind, Opened, PeerKind};

impl Patience {
    /// What an MCP server gets (`docs/protocols/mcp.md` 2.10).
    pub const MCP: Patience = Patience {
        start: Duration::from_secs(20),
        waits_for: Some("the first answer of an MCP server"),
        back_off: Duration::from_millis(500),
        back_off_max: Duration::from_secs(30),
        meanwhile: Meanwhile::Refuse,
        goodbye: Duration::from_secs(2),
        ..Patience::USUAL
    };
}

/// The Model Context Protocol, for the registry.
pub static MCP: McpKind = McpKind;

/// What is to be known of the Model Context Protocol.
pub struct McpKind;

const SCHEMES: &[Scheme] = &[
    Scheme::command("mcp+stdio:"),
    // What a server wants behind its path is its own business. Most people's MCP servers are named
    // by a URL alone.
    Scheme::url("http://", Transport::Http).with_path("/").with_query(Query::Peers),
    Scheme::url("https://", Transport::Https).with_path("/").with_query(Query::Peers),
    Scheme::url("mcp+http://", Transport::Http).with_path("/").with_query(Query::Peers),
    Scheme::url("mcp+https://", Transport::Https).with_path("/").with_query(Query::Peers),
    // The old pair of HTTP+SSE.
    Scheme::url("mcp+sse://", Transport::Http).with_path("/sse").with_query(Query::Peers),
    Scheme::url("mcp+sses://", Transport::Https).with_path("/sse").with_query(Query::Peers),
];

/// Is the old pair of HTTP+SSE spoken there, and nothing else?
pub fn is_pair(address: &Address) -> bool {
    matches!(address.scheme(), "mcp+sse://" | "mcp+sses://")
}

impl PeerKind for McpKind {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn summary(&self) -> &'static str {
        "an MCP server"
    }

    fn schemes(&self) -> &'static [Scheme] {
        SCHEMES
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("mcp+stdio:COMMAND", "an MCP server, started and spoken to likewise"),
            ("https://HOST/PATH", "an MCP server elsewhere; `mcp+https://HOST/PATH` is the same"),
            (
                "mcp+sse://HOST/PATH",
                "an MCP server that speaks the old HTTP+SSE; `mcp+sses` with TLS",
            ),
        ]
    }

    fn back_keys(&self) -> &'static [Key] {
        settings::BACK_KEYS
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        settings.with(McpSettings::read(values))
    }

    fn open(&self, address: &Address, settings: &Settings) -> Opened {
        match address.place() {
            Place::Command(words) => Ok(Rc::new(Mcp::new(options(words, settings)))),
            #[cfg(feature = "http")]
            Place::Url(url) => {
                let name = settings.name.clone().unwrap_or_else(|| address.peer_name());
                let options = back_http::Options::of(&name, url, is_pair(address), settings);
                let options = options.map_err(|error| error.of(address))?;
                Ok(Rc::new(McpHttp::new(options)))
            }
            _ => Err(not_in_this_build(address, "HTTP")),
        }
    }

    fn is_judged_by_schema(&self) -> bool {
        true
    }

    fn front(&self) -> Option<&'static dyn FrontKind> {
        Some(&MCP)
    }

    fn decode(&self, _side: Side) -> Option<Box<dyn Decoding>> {
        let event = toolbus_proto::mcp::decode::event;
        Some(Box::new(DecodedLines::new(REPLY_BYTES_MAX, event)))
    }

    fn native_call(&self, method: &[u8], body: &Bytes) -> Option<NativeCall> {
        let (tool, arguments, trace) = native::tool_call(method, body)?;
        Some(NativeCall { tool, arguments, trace })
    }

    fn native_failure(&self, result: &Bytes) -> Option<FailureKind> {
        native::tool_failure(result)
    }

    /// It answers a question, or says by a number why not; of one that it cannot read also without
    /// the id.
    fn recognises(&self, heard: &FirstWords<'_>) -> bool {
        heard.lines().any(|line| {
            let is_answer = line["jsonrpc"] == "2.0" && line.get("method").is_none();
            let is_error = line["error"]["code"].is_i64();
            is_answer && (is_error || line["id"] == 1 && line["result"].is_object())
        })
    }

    /// Programs of other wires take its first request for one of theirs that they do not know.
    fn open_stranger(
        &self,
        words: &[String],
        settings: &Settings,
        judge: Judge,
    ) -> Option<Rc<dyn Back>> {
        let mut options = options(words, settings);
        options.patience.waits_for = Some("to show what it speaks");
        Some(Rc::new(Mcp::stranger(options, judge)))
    }
}

/// What the settings mean for a server that is started.
fn options(words: &[String], settings: &Settings) -> Options {
    let name = settings.name.clone().unwrap_or_else(|| file_name(words));
    let env = EnvPolicy::Clean { pass: settings.program.env_pass.clone() };
    let own: McpSettings = settings.wire.get();
    let usual = calling::Settings::new(name, env!("CARGO_PKG_VERSION"));
    Options {
        program: program(words, settings, env),
        patience: patience(Patience::MCP, settings),
        restart: settings.restart.unwrap_or(Restart::OnDemand),
        share: own.share,
        timeout: settings.timeout.unwrap_or(TIMEOUT),
        settings: calling::Settings {
            introduction: own.introduction(&settings.clients),
            memory: own.memory(settings),
            timeout_total: own.timeout_total,
            probe_timeout: own.probe_timeout.unwrap_or(usual.probe_timeout),
            input_timeout: own.input_timeout.unwrap_or(usual.input_timeout),
            tokens: Some(eras::tokens()),
            line_bytes_max: own.reply_bytes_max_of(settings).unwrap_or(usual.line_bytes_max),
            ..usual
        },
    }
}
