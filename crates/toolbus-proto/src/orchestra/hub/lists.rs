//! The lists of all plugins as one (`docs/protocols/orchestra.md` 9).

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

use super::calls::{Running, read_response};
use super::routes::Route;
use super::{Asker, Hub, PluginIndex, ToPlugin};
use crate::orchestra::envelope::request_body;
use crate::orchestra::wire::{
    ListPromptsRequest, ListPromptsResponse, ListToolsRequest, ListToolsResponse, Response,
};

/// A list that is being put together.
#[derive(Debug)]
pub(super) struct Listing {
    asker: Option<Asker>,
    kind: Kind,
    /// How many plugins have not answered.
    waiting: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tools,
    Prompts,
}

impl Listing {
    /// Who asked has gone.
    pub(super) fn forget(&mut self, asker: Asker) {
        if self.asker == Some(asker) {
            self.asker = None;
        }
    }
}

impl Hub {
    pub(super) fn list_tools(&mut self, now: Instant, asker: Asker) {
        self.list(now, asker, Kind::Tools);
    }

    pub(super) fn list_prompts(&mut self, now: Instant, asker: Asker) {
        self.list(now, asker, Kind::Prompts);
    }

    /// Asks all plugins that serve, at once.
    fn list(&mut self, now: Instant, asker: Asker, kind: Kind) {
        let serving: Vec<_> = self.serving().collect();
        let number = self.next_listing;
        self.next_listing += 1;
        let waiting = serving.len();
        self.listings.insert(number, Listing { asker: Some(asker), kind, waiting });
        for plugin in serving {
            let ask = self.to_list(kind);
            self.call(now, plugin, ask, Running::list(plugin, number));
        }
        self.settle_listing(number);
    }

    pub(super) fn to_list(&self, kind: Kind) -> ToPlugin {
        let (method, body) = match kind {
            Kind::Tools => ("list_tools", request_body(ListToolsRequest::default())),
            Kind::Prompts => ("list_prompts", request_body(ListPromptsRequest::default())),
        };
        ToPlugin { method, body, timeout: self.settings.list_timeout, is_stream: false }
    }

    fn serving(&self) -> impl Iterator<Item = PluginIndex> {
        let serving = self.plugins.iter().enumerate();
        serving.filter(|(_, plugin)| plugin.life.is_serving()).map(|(index, _)| index)
    }

    /// One plugin has answered, or will not: then its last known list stands.
    pub(super) fn handle_list(&mut self, number: u64, plugin: PluginIndex, answer: Option<Bytes>) {
        if let Some(answer) = answer {
            self.learn_list(plugin, &answer);
        }
        if let Some(listing) = self.listings.get_mut(&number) {
            listing.waiting -= 1;
        }
        self.settle_listing(number);
    }

    /// What a plugin lists; tells whether it was a list.
    pub(super) fn learn_list(&mut self, plugin: PluginIndex, answer: &Bytes) -> bool {
        match read_response(answer) {
            Some(Response::ListTools(list)) => self.plugins[plugin].tools = list.tools,
            Some(Response::ListPrompts(list)) => self.plugins[plugin].prompts = list.prompts,
            _ => return false,
        }
        true
    }

    fn settle_listing(&mut self, number: u64) {
        if self.listings.get(&number).is_none_or(|listing| listing.waiting > 0) {
            return;
        }
        let Some(Listing { asker, kind, .. }) = self.listings.remove(&number) else { return };
        self.report_duplicates();
        let Some(asker) = asker else { return };
        match kind {
            Kind::Tools => {
                let tools = self.all_tools();
                self.answer(asker, ListToolsResponse { tools, ..ListToolsResponse::default() });
            }
            Kind::Prompts => {
                let prompts = self.all_prompts();
                let response = ListPromptsResponse { prompts, ..ListPromptsResponse::default() };
                self.answer(asker, response);
            }
        }
    }

    /// Each name once, in order: as the plugin has it that a call without provider would
    /// reach, else the first in the file.
    fn all_tools(&self) -> Vec<crate::orchestra::wire::ToolDefinition> {
        let mut named = BTreeMap::new();
        for index in self.serving() {
            for tool in &self.plugins[index].tools {
                let is_reached = self.route_tool(&tool.name, "") == Route::To(index);
                let known = named.entry(tool.name.as_str()).or_insert(tool);
                if is_reached {
                    *known = tool;
                }
            }
        }
        named.into_values().cloned().collect()
    }

    fn all_prompts(&self) -> Vec<crate::orchestra::wire::PromptDefinition> {
        let mut named = BTreeMap::new();
        for index in self.serving() {
            for prompt in &self.plugins[index].prompts {
                let is_reached = self.route_prompt(&prompt.name) == Route::To(index);
                let known = named.entry(prompt.name.as_str()).or_insert(prompt);
                if is_reached {
                    *known = prompt;
                }
            }
        }
        named.into_values().cloned().collect()
    }

    /// How many names are in the list of tools.
    pub(super) fn tool_count(&self) -> usize {
        self.all_tools().len()
    }
}
