//! What tools take whose arguments are repeated in headers, as a server's lists say.
//!
//! Lists are read as they pass by, whichever caller asked for them.

use std::collections::HashMap;

use bytes::Bytes;

use super::headers::{BadMirror, mirrored};
use crate::json::edit;

/// Of how many tools it is kept.
const TOOLS_MAX: usize = 10_000;

/// Input schemas by the names of their tools, where arguments are repeated at all.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    schemas: HashMap<String, String>,
    was_listed: bool,
}

impl Inputs {
    /// The input schema of a tool some of whose arguments are repeated.
    pub(super) fn of(&self, tool: &str) -> Option<&str> {
        self.schemas.get(tool).map(String::as_str)
    }

    /// Was a whole list seen?
    pub(super) fn was_listed(&self) -> bool {
        self.was_listed
    }

    /// Reads a page of tools: the result of `tools/list`.
    pub(super) fn learn(&mut self, page: &str) {
        let Some(tools) = edit::member(page, "tools") else { return };
        self.was_listed |= edit::member(page, "nextCursor").is_none();
        for tool in edit::elements(tools) {
            let Some(name) = edit::text(tool, "name") else { continue };
            let input = edit::member(tool, "inputSchema").unwrap_or_default();
            if mirrored(input).is_ok_and(|mirrored| !mirrored.is_empty()) {
                self.set(&name, input);
            } else {
                self.schemas.remove(&*name);
            }
        }
    }

    /// A page of tools without those that cannot be called over HTTP, since it is not clear which
    /// arguments are repeated; `unfit` is told of each. `None` if all can be.
    pub(super) fn fit(page: &str, mut unfit: impl FnMut(&str, BadMirror)) -> Option<Bytes> {
        let tools = edit::member(page, "tools")?;
        let mut fit = Vec::new();
        let mut count = 0;
        for tool in edit::elements(tools) {
            count += 1;
            match mirrored(edit::member(tool, "inputSchema").unwrap_or_default()) {
                Ok(_) => fit.push(tool),
                Err(why) => unfit(&edit::text(tool, "name").unwrap_or_default(), why),
            }
        }
        let fit = (fit.len() < count).then(|| format!("[{}]", fit.join(",")))?;
        edit::replaced(page, "tools", &fit).map(Bytes::from)
    }

    pub(super) fn set(&mut self, tool: &str, input: &str) {
        if self.schemas.len() < TOOLS_MAX || self.schemas.contains_key(tool) {
            self.schemas.insert(tool.to_owned(), input.to_owned());
        }
    }
}
