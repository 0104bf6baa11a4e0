//! `tools/list` and `tools/call` where the tools are the hub's (`docs/protocols/mcp.md` 2.11).

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::requests::Request;
use super::{Behind, Conversation, InFlight, Job, Origin, Progress, ToolCall};
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::jsonrpc::{Id, kind, string};
use crate::mcp::translate::{Blocks, shown_output, takes_wrapped, unwrapped, write_tool};
use crate::mcp::wire::{self, Era, INVALID_PARAMS, Refusal, Revision, SERVER_KEY, put_member};
use crate::tool::{Call, ToolName, ToolSpec, What};

/// How many tools a page has.
const PAGE: usize = 1000;

impl Conversation {
    pub(super) fn list_tools(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        revision: Revision,
    ) -> Result<(), Refusal> {
        let cursor = request.params.and_then(|params| edit::member(params, "cursor"));
        let from = match cursor.filter(|raw| kind(raw) != Kind::Null) {
            None => 0,
            Some(raw) => offset(raw)
                .ok_or_else(|| Refusal::new(INVALID_PARAMS, format!("unknown cursor: {raw}")))?,
        };
        // The pages of one list are those of one moment.
        if let Some(tools) = self.tools.clone().filter(|_| 0 < from) {
            let page = self.page(revision, from, &tools)?;
            self.answer(request.origin, wire::result(&request.id, &page));
            return Ok(());
        }
        self.relink_several(now, revision);
        let call = in_flight(request, revision, Job::ListTools { from });
        let asked = self.request(request);
        self.ask_as(now, call, What::Tools, None, asked);
        Ok(())
    }

    pub(super) fn call_tool(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        revision: Revision,
    ) -> Result<(), Refusal> {
        let refuse = |message: &'static str| Refusal::new(INVALID_PARAMS, message);
        let name = request.read.name.and_then(string);
        let name = name.ok_or_else(|| refuse("tools/call needs name, a string"))?;
        let args = request.read.arguments.filter(|raw| kind(raw) != Kind::Null);
        if args.is_some_and(|raw| kind(raw) != Kind::Object) {
            return Err(refuse("arguments must be an object"));
        }
        let args = args.map(|raw| Json::part_of(request.read.line, raw));
        let (token, level) = (request.token(), request.level());
        let (name, trace) = (self.named(&name), request.read.meta.trace());
        self.relink_several(now, revision);
        let asked = self.request(request);
        let session = self.session.as_ref().filter(|_| revision.era() == Era::Legacy);
        let asks = session.and_then(|session| session.asks.clone());
        let tool = ToolCall { name, args, token, trace, level, request: asked, asks };
        // Only arguments of this shape can be wrapped ones; no other call waits for a list.
        if self.tools.is_none() && tool.args.as_ref().and_then(unwrapped).is_some() {
            let (name, asked) = (tool.name.clone(), tool.request.clone());
            let call = in_flight(request, revision, Job::LookUpTool(tool));
            self.look_up(now, call, name, asked);
        } else {
            self.start_tool(now, request.id.clone(), request.origin, revision, tool);
        }
        Ok(())
    }

    /// Makes sure that several servers know this session, as the only one is when it is asked.
    fn relink_several(&mut self, now: Instant, revision: Revision) {
        if self.settings.behind == Behind::Several && revision.era() == Era::Legacy {
            self.relink(now);
        }
    }

    /// The request as it was written, where a back may speak MCP, too.
    fn request(&self, request: &Request<'_>) -> Option<Bytes> {
        let params = request.params.map(|params| request.read.in_a_line(params));
        (self.settings.behind == Behind::Several).then(|| params.unwrap_or_default())
    }

    fn named(&mut self, name: &str) -> ToolName {
        let called = self.called.take().filter(|called| called.as_str() == name);
        self.called.insert(called.unwrap_or_else(|| ToolName::new(name))).clone()
    }

    /// Calls the tool; its schema has been looked up if it matters.
    pub(super) fn start_tool(
        &mut self,
        now: Instant,
        id: Id,
        origin: Origin,
        revision: Revision,
        tool: ToolCall,
    ) {
        let ToolCall { name, args, token, trace, level, request, asks } = tool;
        let args = match self.wrapped.contains(&name) {
            true => args.as_ref().and_then(unwrapped),
            false => args,
        };
        let what = What::Tool { name: name.clone(), args };
        let progress = token.map(|token| Progress { token, count: 0 });
        let blocks = Blocks::new(revision);
        let job = Job::CallTool { name, blocks, progress, level };
        let call = Box::new(InFlight { id, origin, revision, job });
        self.ask_tool(call, asks, Call { trace, request, ..Call::of(now, what) });
    }

    /// Does a client of this revision find an output schema in the tool's entry of the list?
    /// `None` if the tool is not known.
    pub(super) fn lists_output(&self, revision: Revision, name: &ToolName) -> Option<bool> {
        if revision < Revision::V2025_06_18 {
            return Some(false);
        }
        let tool = self.tools.as_ref()?.iter().find(|tool| tool.name == *name)?;
        Some(shown_output(revision, tool).is_some())
    }

    /// What the hub offers.
    pub fn set_tools(&mut self, tools: Arc<[ToolSpec]>) {
        let wrapped = tools.iter().filter(|tool| takes_wrapped(tool));
        self.wrapped = wrapped.map(|tool| tool.name.clone()).collect();
        self.tools = Some(tools);
    }

    /// One page of the tools, as a result.
    pub(super) fn page(
        &self,
        revision: Revision,
        from: usize,
        tools: &[ToolSpec],
    ) -> Result<Bytes, Refusal> {
        let shown = tools.get(from..).filter(|shown| from == 0 || !shown.is_empty());
        let unknown = || Refusal::new(INVALID_PARAMS, format!("unknown cursor: \"tb{from}\""));
        let shown = shown.ok_or_else(unknown)?;
        let mut result = vec![b'{'];
        if revision == Revision::MODERN {
            put_member(&mut result, "resultType", "\"complete\"");
        }
        put_member(&mut result, "tools", "[");
        for (index, tool) in shown.iter().take(PAGE).enumerate() {
            if index > 0 {
                result.push(b',');
            }
            write_tool(&mut result, revision, tool);
        }
        result.push(b']');
        if PAGE < shown.len() {
            put_member(&mut result, "nextCursor", format!("\"tb{}\"", from + PAGE));
        }
        if revision == Revision::MODERN {
            put_member(&mut result, "ttlMs", "0");
            put_member(&mut result, "cacheScope", "\"private\"");
            put_member(&mut result, "_meta", format!("{{\"{SERVER_KEY}\":{}}}", self.us));
        }
        result.push(b'}');
        Ok(result.into())
    }
}

/// The place in the list that a cursor of ours stands for.
fn offset(raw: &str) -> Option<usize> {
    let cursor = string(raw)?;
    let offset: usize = cursor.strip_prefix("tb")?.parse().ok()?;
    (offset > 0 && offset.is_multiple_of(PAGE)).then_some(offset)
}

pub(super) fn in_flight(request: &Request<'_>, revision: Revision, job: Job) -> Box<InFlight> {
    Box::new(InFlight { id: request.id.clone(), origin: request.origin, revision, job })
}
