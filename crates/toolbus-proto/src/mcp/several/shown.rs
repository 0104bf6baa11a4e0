//! What clients of this front and caller are shown of servers, besides tools that go by the bus.

use std::rc::Rc;

use bytes::Bytes;
use memchr::memmem;

use super::entry::is_devious;
use crate::json::{Json, edit};
use crate::view::{Names, Selection, Sort};

/// What the clients of one front are shown, or those of one of its callers.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// What is shown; `None` is all.
    pub selection: Option<Rc<Selection>>,
    /// Callers are told apart: what is one's is no other's.
    pub is_closed: bool,
    /// Tools are listed by the bus, also those of a server that stands alone: it says what of them
    /// has changed.
    pub lists_tools: bool,
    /// The only server is one of several even so: its clients are greeted before it is, since it may
    /// be that their users have to sign in first.
    pub greets_first: bool,
}

impl Shown {
    /// Is nothing to be looked at?
    pub(super) fn is_as_it_is(&self) -> bool {
        self.is_public() && !self.lists_tools
    }

    /// Are lists the same for all?
    pub(super) fn is_public(&self) -> bool {
        self.selection.is_none() && !self.is_closed
    }

    /// Can anything be shown that needs this capability of servers?
    pub(super) fn may_show(&self, capability: &str) -> bool {
        let Some(selection) = &self.selection else { return true };
        match capability {
            "prompts" => selection.may_show(Sort::Prompt),
            "resources" => selection.may_show(Sort::Resource),
            "completions" => selection.may_show(Sort::Prompt) || selection.may_show(Sort::Resource),
            _ => true,
        }
    }

    pub(super) fn may_match_any(&self, back: &str) -> bool {
        self.selection.as_ref().is_none_or(|selection| selection.may_match_any(back))
    }

    pub(super) fn prompt(&self, back: &str, own: &str) -> bool {
        self.selection.as_ref().is_none_or(|selection| selection.shows_prompt(back, own))
    }

    pub(super) fn resource(&self, back: &str, uri: &str) -> bool {
        let shows =
            |selection: &Rc<Selection>| !is_devious(uri) && selection.shows_resource(back, uri);
        self.selection.as_ref().is_none_or(shows)
    }

    pub(super) fn method(&self, method: &str) -> bool {
        self.selection.as_ref().is_none_or(|selection| selection.shows_method(method))
    }

    /// How names begin.
    pub(super) fn names(&self) -> Names {
        self.selection.as_ref().map(|selection| selection.names()).unwrap_or_default()
    }

    /// What clients are told in place of what servers say of how they are to be used.
    pub(super) fn instructions(&self) -> Option<&str> {
        self.selection.as_ref()?.instructions()
    }

    /// What a server can do, without what none of its clients here is shown.
    pub(super) fn capabilities(&self, capabilities: &str) -> String {
        let mut left = capabilities.to_owned();
        for capability in ["prompts", "resources", "completions"] {
            while !self.may_show(capability)
                && let Some(less) = edit::removed(&left, capability)
            {
                left = less;
            }
        }
        left
    }

    /// The greeting of a server that stands alone, as its clients are told it.
    pub(super) fn greeting(&self, back: &str, greeting: &str) -> String {
        let mut greeting = greeting.to_owned();
        if let Some(own) = edit::member(&greeting, "capabilities")
            && let shown = self.capabilities(own)
            && shown != own
            && let Some(changed) = edit::replaced(&greeting, "capabilities", &shown)
        {
            greeting = changed;
        }
        let instructions = match self.instructions() {
            None if self.may_match_any(back) => return greeting,
            instructions => instructions.unwrap_or_default(),
        };
        if instructions.is_empty() {
            while let Some(less) = edit::removed(&greeting, "instructions") {
                greeting = less;
            }
            return greeting;
        }
        let text = Json::of(instructions);
        let replaced = edit::replaced(&greeting, "instructions", text.as_str());
        let put = replaced.or_else(|| {
            ["serverInfo", "capabilities"].iter().find_map(|after| {
                edit::with_behind(&greeting, after, "instructions", text.as_str())
            })
        });
        put.unwrap_or(greeting)
    }

    /// A result whose list is no longer the same for all.
    pub(super) fn result(&self, result: Bytes) -> Bytes {
        if self.is_public() || memmem::find(&result, b"cacheScope").is_none() {
            return result;
        }
        let text = str::from_utf8(&result).unwrap_or_default();
        match edit::member(text, "cacheScope") {
            None | Some("\"private\"") => result,
            Some(_) => {
                edit::replaced(text, "cacheScope", "\"private\"").map_or(result, Bytes::from)
            }
        }
    }
}
