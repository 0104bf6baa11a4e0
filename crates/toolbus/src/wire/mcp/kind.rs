//! What this wire says about itself, for the registry.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::capture::Side;
use toolbus_proto::json::Json;
use toolbus_proto::mcp::translate::{takes_wrapped, unwrapped};
use toolbus_proto::mcp::wire::REPLY_BYTES_MAX;
use toolbus_proto::mcp::{calling, native, pin, view};
use toolbus_proto::tool::{Call, FailureKind, ToolSpec, Wire};
use toolbus_proto::view::{Rule, Sort};

use super::back::{Mcp, Options};
#[cfg(feature = "http")]
use super::back_http;
#[cfg(feature = "http")]
use super::back_http::McpHttp;
use super::settings::{McpSettings, Share};
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
use crate::peer::pins::Pins;
use crate::peer::settings::Settings;
use crate::peer::{FrontKind, Opened, PeerKind};

/// What an MCP server gets (`docs/protocols/mcp.md` 2.10).
pub const PATIENCE: Patience = Patience {
    start: Duration::from_secs(20),
    waits_for: Some("the first answer of an MCP server"),
    back_off: Duration::from_millis(500),
    back_off_max: Duration::from_secs(30),
    meanwhile: Meanwhile::Refuse,
    goodbye: Duration::from_secs(2),
    ..Patience::USUAL
};

/// The Model Context Protocol, for the registry.
pub static MCP: McpKind = McpKind;

/// What is to be known of the Model Context Protocol.
pub struct McpKind;

const OVER_TLS: Query = Query::PeersToCall { to_serve: Query::FILES_TO_SERVE };
const SCHEMES: &[Scheme] = &[
    Scheme::command("mcp+stdio:"),
    // What a server wants behind its path is its own business. Most people's MCP servers are named
    // by a URL alone.
    Scheme::url("http://", Transport::Http).with_path("/").with_query(Query::Peers),
    Scheme::url("https://", Transport::Https).with_path("/").with_query(OVER_TLS),
    Scheme::url("mcp+http://", Transport::Http).with_path("/").with_query(Query::Peers),
    Scheme::url("mcp+https://", Transport::Https).with_path("/").with_query(OVER_TLS),
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

    fn keeps_state(&self, settings: &Settings) -> bool {
        settings.wire.get::<McpSettings>().share == Share::Session
    }

    fn back_keys(&self) -> &'static [Key] {
        settings::BACK_KEYS
    }

    #[cfg(feature = "oauth")]
    fn mistakes(&self, table: &str, values: &Values) -> Vec<crate::bus::config::BadValue> {
        settings::mistakes(table, values)
    }

    fn configure(&self, values: &Values, settings: Settings) -> Settings {
        let own = McpSettings::read(settings.name.as_deref(), values);
        settings.with(own)
    }

    fn pins(&self) -> Option<&'static dyn Pins> {
        Some(&super::pins::PINS)
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

    #[cfg(feature = "oauth")]
    fn signs_in_as(&self) -> Option<&'static str> {
        Some("MCP server over HTTP")
    }

    #[cfg(feature = "oauth")]
    fn sign_in(
        &self,
        address: &Address,
        settings: &Settings,
    ) -> Option<crate::peer::signing_in::SignInTarget> {
        use crate::oauth::credential::Credential;
        let Place::Url(url) = address.place() else { return None };
        let own: McpSettings = settings.wire.get();
        let whose = back_http::whose(url, settings, &own)?;
        let name = settings.name.clone().unwrap_or_else(|| address.peer_name());
        let made = back_http::Options::of(&name, url, is_pair(address), settings);
        // What cannot be set up because of its token has a fixed one.
        let has_fixed_token = made.as_ref().map_or(true, |made| made.credential.is_none());
        let (server, own_settings) = (whose.server.clone(), whose.settings.clone());
        let credential = (!has_fixed_token).then(|| Credential::new(whose));
        let (url, is_pair, settings) = (url.clone(), is_pair(address), settings.clone());
        let probe = move || match back_http::Options::of(&name, &url, is_pair, &settings) {
            Ok(options) => back_http::probe(options),
            Err(error) => {
                let kind = FailureKind::Unavailable;
                let failure = toolbus_proto::tool::Failure::new(kind, error.to_string());
                let failed: crate::bus::back::LocalFuture<'static, _> =
                    Box::pin(async { Err(failure) });
                failed
            }
        };
        Some(crate::peer::signing_in::SignInTarget {
            server,
            settings: own_settings,
            has_fixed_token,
            credential,
            probe: Box::new(probe),
        })
    }

    fn listed_as(&self, call: &Call, spec: &ToolSpec) -> Json {
        pin::listed_as(call, spec)
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

    fn counted_as(&self, method: &[u8], body: &Bytes) -> Option<(Sort, String)> {
        view::counted_as(method, str::from_utf8(body).ok()?)
    }

    fn held_by(&self, result: &Bytes) -> Option<String> {
        view::held_by(result)
    }

    fn resumed_by(&self, request: &Bytes) -> Option<String> {
        view::resumed_by(request)
    }

    fn native_seen(&self, text: &Bytes, rule: &Rule) -> Option<Bytes> {
        // A title that is new is added where it is known who reads it.
        Some(view::entry(str::from_utf8(text).ok()?, rule).into())
    }

    fn native_with_arguments(&self, request: &Bytes, arguments: &Json) -> Option<Bytes> {
        view::request_with_arguments(request, arguments)
    }

    fn native_renamed(
        &self,
        request: &Bytes,
        name: &str,
        arguments: Option<&Json>,
    ) -> Option<Bytes> {
        native::renamed_call(request, name, arguments)
    }

    fn own_arguments(&self, spec: &ToolSpec, given: Option<Json>) -> Option<Json> {
        match takes_wrapped(spec) {
            true => given.as_ref().and_then(unwrapped),
            false => given,
        }
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
        patience: patience(PATIENCE, settings),
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
