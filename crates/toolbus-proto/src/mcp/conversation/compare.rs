//! Headers that repeat arguments, compared from the first call on: if it is not known yet which
//! do, the tools are listed first (`docs/protocols/mcp.md` 1.6, 2.2).

use std::time::Instant;

use super::hub::in_flight;
use super::requests::{Read, Request};
use super::{Behind, Compare, Conversation, Job, Origin};
use crate::json::edit;
use crate::jsonrpc::{Message, string};
use crate::mcp::WIRE;
use crate::mcp::http::Mirror;
use crate::mcp::wire::Revision;
use crate::tool::{Outcome, ToolName, What};

/// How many pages of a server's tools are looked at.
const PAGES_MAX: usize = 100;

impl Conversation {
    /// Is it a call whose headers cannot be compared before the tools are known?
    pub(super) fn must_list(&self, request: &Request<'_>, mirror: &Mirror) -> bool {
        let has_arguments = || request.read.arguments.is_some_and(|raw| !is_empty(raw));
        // It may be a tool of a back that had not come when the others were listed.
        let is_known = || {
            let name = request.read.name.and_then(string);
            let tools = self.tools.as_deref().unwrap_or_default();
            tools.iter().any(|tool| Some(tool.name.as_str()) == name.as_deref())
        };
        self.settings.lists_first
            && request.method == "tools/call"
            && !is_known()
            && !mirror.is_listed()
            && has_arguments()
    }

    pub(super) fn list_first(&mut self, now: Instant, request: &Request<'_>, mirror: &Mirror) {
        let compare = Compare { line: request.read.line.clone(), mirror: mirror.clone(), pages: 0 };
        self.ask_for_page(now, request, compare, None);
    }

    fn ask_for_page(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        mut compare: Compare,
        cursor: Option<&str>,
    ) {
        compare.pages += 1;
        let meta = request.params.and_then(|params| edit::member(params, "_meta")).unwrap_or("{}");
        // The client follows the progress of its call, and of nothing else.
        let meta = edit::without(meta, "progressToken");
        let cursor = cursor.map(|cursor| format!(",\"cursor\":{cursor}")).unwrap_or_default();
        let params = format!("{{\"_meta\":{meta}{cursor}}}").into();
        let call = in_flight(request, Revision::MODERN, Job::Compare(Box::new(compare)));
        match self.settings.behind {
            Behind::Hub => self.ask(now, call, What::Tools, None),
            Behind::Several => {
                let tool = request.read.name.and_then(string).unwrap_or_default();
                self.look_up(now, call, ToolName::new(tool), Some(params))
            }
            Behind::Server => {
                let method = bytes::Bytes::from_static(b"tools/list");
                self.ask(now, call, What::Native { wire: WIRE, method, body: params }, None)
            }
        };
    }

    /// The tools are known, or cannot be: the call is looked at once more.
    pub(super) fn compare(
        &mut self,
        now: Instant,
        origin: Origin,
        compare: Compare,
        listed: Option<Outcome>,
    ) {
        let line = compare.line.clone();
        let Ok(read) = Read::of_one_line(&line) else { return };
        let Ok(Message::Request { id, method, params }) = read.message() else { return };
        let request = Request { origin, id, method: &method, params, read: &read };
        let mut input = None;
        if let Some(Outcome::Native(page)) = &listed {
            let page = str::from_utf8(page).unwrap_or("{}");
            let tools = edit::elements(edit::member(page, "tools").unwrap_or("[]"));
            let wanted = request.read.name.and_then(string);
            let tool = tools.into_iter().find(|tool| edit::text(tool, "name") == wanted);
            input = tool.and_then(|tool| edit::member(tool, "inputSchema"));
            let next = edit::member(page, "nextCursor").filter(|raw| string(raw).is_some());
            if let Some(next) = next.filter(|_| tool.is_none() && compare.pages < PAGES_MAX) {
                return self.ask_for_page(now, &request, compare, Some(next));
            }
        }
        let mirror = compare.mirror.listed(input);
        self.handle_request(now, &request, Some(&mirror));
    }
}

/// Is it an object without members, or none?
fn is_empty(raw: &str) -> bool {
    raw.strip_prefix('{').is_none_or(|rest| rest.trim_ascii_start().starts_with('}'))
}
