//! What of an MCP server is pinned: it is asked in its own words, in each era that it speaks.

use bytes::Bytes;
use toolbus_proto::channel::Down;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::mcp::calling::era_of;
use toolbus_proto::mcp::pin;
use toolbus_proto::mcp::wire::{CAPABILITIES_KEY, CLIENT_KEY, Era, UNKNOWN_METHOD, VERSION_KEY};
use toolbus_proto::pin::{Layouts, PinKind, Pinned};
use toolbus_proto::tool::{
    Call, CallOptions, CallerId, Code, Failure, FailureKind, Outcome, ToolSpec, What,
    too_many_tools,
};

use super::WIRE;
use crate::bus::back::{Back, LocalFuture};
use crate::engine::calls::{Inbox, RunningCall};
use crate::peer::pins::{AskedOf, Keeps, Pins, Seen, Survey, WhichList, Who, call_of};

/// For the registry.
pub(super) static PINS: McpPins = McpPins;

pub(super) struct McpPins;

/// How many pages of a list are read.
const PAGES_MAX: usize = 100;
/// The caller of our own session with a server: no front gives this id.
const SURVEYOR: CallerId = CallerId(u64::MAX - 1);

impl Pins for McpPins {
    fn layouts(&self) -> Layouts {
        pin::LAYOUTS
    }

    fn definition(&self, spec: &ToolSpec) -> Option<Json> {
        pin::definition(spec)
    }

    fn read(&self, object: &Json) -> Option<ToolSpec> {
        pin::read_definition(object)
    }

    fn survey<'a>(
        &'a self,
        back: &'a dyn Back,
        who: Who,
    ) -> LocalFuture<'a, Result<Survey, Failure>> {
        Box::pin(survey(back, who))
    }

    fn asked(&self, method: &[u8], body: &Bytes) -> AskedOf {
        match pin::asked(method, body) {
            pin::NativeAsk::Greeting(era) => AskedOf::Greeting { is_legacy: era == Era::Legacy },
            pin::NativeAsk::List(kind) => AskedOf::List(WhichList::Pinned(kind)),
            pin::NativeAsk::Resources => AskedOf::List(WhichList::Resources),
            pin::NativeAsk::Entry(kind, name) => AskedOf::Entry(kind, name),
            pin::NativeAsk::Told => AskedOf::Told,
            pin::NativeAsk::Other => AskedOf::Other,
        }
    }

    fn is_legacy(&self, call: &Call) -> bool {
        era_of(call) == Era::Legacy
    }

    fn told(&self, method: &[u8], body: &Bytes) -> Option<Json> {
        if method != b"subscriptions/listen" {
            return None;
        }
        let params = str::from_utf8(body).unwrap_or("{}");
        let wanted = edit::member(params, "notifications").unwrap_or("{}");
        let agreed = format!(
            r#"{{"method":"notifications/subscriptions/acknowledged","params":{{"notifications":{wanted}}}}}"#
        );
        Some(Json::from_trusted(agreed))
    }

    fn is_repeated(&self, method: &[u8]) -> bool {
        method == b"logging/setLevel"
    }

    fn keeps(&self, method: &[u8]) -> Option<Keeps> {
        match method {
            b"resources/subscribe" => Some(Keeps::Begins),
            b"resources/unsubscribe" => Some(Keeps::Ends),
            _ => None,
        }
    }

    fn keeps_while_heard(&self, method: &[u8], body: &Bytes) -> bool {
        let params = str::from_utf8(body).unwrap_or("{}");
        let wanted = edit::member(params, "notifications").unwrap_or("{}");
        let uris = edit::member(wanted, "resourceSubscriptions").unwrap_or("[]");
        method == b"subscriptions/listen" && edit::elements(uris).next().is_some()
    }

    fn native_list(&self, is_legacy: bool, of: WhichList, entries: &[String]) -> Bytes {
        let era = if is_legacy { Era::Legacy } else { Era::Modern };
        let member = match of {
            WhichList::Pinned(kind) => pin::member(kind),
            WhichList::Resources => "resources",
        };
        pin::list(era, member, entries)
    }

    fn native_filtered(
        &self,
        result: &Bytes,
        of: PinKind,
        is_shown: &dyn Fn(&str) -> bool,
    ) -> Bytes {
        pin::filtered(result, of, is_shown)
    }

    fn greeting(&self, is_legacy: bool, pinned: &Pinned) -> Json {
        pin::greeting(if is_legacy { Era::Legacy } else { Era::Modern }, pinned)
    }

    fn instructions(&self, greeting: &Json) -> Option<String> {
        pin::instructions(greeting).map(std::borrow::Cow::into_owned)
    }

    fn with_instructions(&self, greeting: &Json, instructions: Option<&str>) -> Json {
        pin::with_instructions(greeting, instructions)
    }
}

async fn survey(back: &dyn Back, who: Who) -> Result<Survey, Failure> {
    if let Who::Legacy(caller) = who {
        let seen = Server { back, era: Era::Legacy, caller }.seen(None).await?;
        return Ok(Survey { seen, ..Survey::default() });
    }
    let server = Server { back, era: Era::Modern, caller: CallerId::default() };
    let greeting = server.ask("server/discover", None).await?;
    let (era, server_name, server_version) = pin::introduction(&greeting);
    let capabilities = edit::member(greeting.as_str(), "capabilities").unwrap_or("{}");
    let capabilities = Json::from_trusted(capabilities.to_owned()).compact();
    let seen = server.seen(Some(&greeting)).await?;
    let (mut has_resources, mut legacy) = (None, None);
    if who == Who::All {
        if edit::member(capabilities.as_str(), "resources").is_some() {
            let resources = server.list("resources/list", "resources").await?;
            has_resources = Some(!resources.is_empty());
        }
        // What answers in one era only shows the same to all.
        let is_modern = edit::member(greeting.as_str(), "protocolVersion").is_none();
        if is_modern {
            legacy = seen_by_legacy(back).await;
        }
    }
    let (era, capabilities) = (Some(era), Some(capabilities));
    Ok(Survey { era, server_name, server_version, has_resources, capabilities, seen, legacy })
}

/// What a legacy caller is shown, if the server speaks to those itself.
async fn seen_by_legacy(back: &dyn Back) -> Option<Seen> {
    let server = Server { back, era: Era::Legacy, caller: SURVEYOR };
    let (inbox, reply_to) = Inbox::new();
    let us = toolbus_proto::mcp::wire::introduction("toolbus", env!("CARGO_PKG_VERSION"));
    let params =
        format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{us}}}"#);
    let session = back.start(server.call("initialize", params), reply_to);
    let greeting = loop {
        match inbox.next(&session).await {
            Down::Begin { head: Some(head), .. } => break head,
            Down::Begin { .. } | Down::Done(_) => return None,
            _ => {}
        }
    };
    edit::member(greeting.as_str(), "protocolVersion")?;
    let seen = server.seen(Some(&greeting)).await.ok();
    // The session ends with its call.
    drop(session);
    seen
}

/// A server that is asked in one era.
struct Server<'a> {
    back: &'a dyn Back,
    era: Era,
    caller: CallerId,
}

impl Server<'_> {
    /// Reads all its lists; those that it says not to have are not asked for.
    async fn seen(&self, greeting: Option<&Json>) -> Result<Seen, Failure> {
        let mut seen = Seen::default();
        if let Some(greeting) = greeting {
            seen.instructions = pin::instructions(greeting).map(std::borrow::Cow::into_owned);
        }
        let capabilities = greeting.and_then(|all| edit::member(all.as_str(), "capabilities"));
        for kind in PinKind::ALL {
            let is_had =
                capabilities.is_none_or(|all| edit::member(all, pin::capability(kind)).is_some());
            if !is_had {
                continue;
            }
            match self.list(pin::method(kind), pin::member(kind)).await {
                Ok(entries) => *seen.of_mut(kind) = entries,
                // Not every server that has tools says so, and not every one knows of templates.
                Err(Failure { code: Some(Code::Number(UNKNOWN_METHOD)), .. }) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(seen)
    }

    /// All entries of a list, over its pages.
    async fn list(&self, method: &'static str, member: &str) -> Result<Vec<Json>, Failure> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut cursor = None::<String>;
        for _ in 0..PAGES_MAX {
            let page = self.ask(method, cursor.as_deref()).await?;
            let listed = edit::member(page.as_str(), member).unwrap_or("[]");
            bytes += listed.len();
            entries.extend(
                edit::elements(listed).map(|raw| Json::from_trusted(raw.to_owned()).compact()),
            );
            if let Some(failure) = too_many_tools(entries.len(), bytes) {
                return Err(failure);
            }
            let next = edit::member(page.as_str(), "nextCursor").filter(|raw| *raw != "null");
            match next {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(entries),
            }
        }
        let message = format!("its list has more than {PAGES_MAX} pages");
        Err(Failure::new(FailureKind::TooLarge, message))
    }

    async fn ask(&self, method: &'static str, cursor: Option<&str>) -> Result<Json, Failure> {
        let mut members = Vec::new();
        if let Some(cursor) = cursor {
            members.push(format!("\"cursor\":{cursor}"));
        }
        if self.era == Era::Modern {
            let us = toolbus_proto::mcp::wire::introduction("toolbus", env!("CARGO_PKG_VERSION"));
            members.push(format!(
                r#""_meta":{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{{}},"{CLIENT_KEY}":{us}}}"#
            ));
        }
        let (inbox, reply_to) = Inbox::new();
        let mut call = self.call(method, format!("{{{}}}", members.join(",")));
        call.deadline.quiet = self.back.timeout();
        let running: RunningCall = self.back.start(call, reply_to);
        match inbox.whole(running).await? {
            Outcome::Native(result) => Json::parse(result).map_err(|error| {
                Failure::new(FailureKind::BrokeProtocol, format!("its result is no JSON: {error}"))
            }),
            _ => Err(Failure::new(FailureKind::BrokeProtocol, "its answer is no result")),
        }
    }

    fn call(&self, method: &'static str, params: String) -> Call {
        let method = Bytes::from_static(method.as_bytes());
        let options = CallOptions { native: Some(WIRE), ..CallOptions::default() };
        let what = What::Native { wire: WIRE, method, body: params.into() };
        Call { caller: self.caller, options, ..call_of(what) }
    }
}
