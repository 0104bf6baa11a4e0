//! Who provides what: the plugin that a request goes to.

use super::{Hub, Plugin, PluginIndex};

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    To(PluginIndex),
    /// Only this one has it, and it is not running.
    Away(PluginIndex),
    Nowhere,
}

/// The provider whose tools are tried before the others.
const DEFAULT_PROVIDER: &str = "claude";

/// Providers whose tools are those of another.
fn alias(provider: &str) -> Option<&'static str> {
    ["grok", "perplexity", "deepseek", "qwen", "kimi"].contains(&provider).then_some("openai")
}

impl Plugin {
    pub(super) fn provides_ai(&self) -> impl Iterator<Item = &str> + Clone {
        let known = self.config.provides_ai.iter().chain(&self.manifest.provides_ai);
        known.map(String::as_str)
    }

    fn provides_storage(&self, kind: &str) -> bool {
        let known = self.config.provides_storage.iter().chain(&self.manifest.provides_storage);
        known.into_iter().any(|known| known == kind)
    }

    pub(super) fn lists_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    fn has_tool(&self, name: &str) -> bool {
        self.lists_tool(name) || self.manifest.provides_tools.iter().any(|tool| tool == name)
    }

    fn has_prompt(&self, name: &str) -> bool {
        self.prompts.iter().any(|prompt| prompt.name == name)
            || self.manifest.provides_prompts.iter().any(|prompt| prompt == name)
    }

    /// Are its tools in this table? `None` is the general one, where no provider's are.
    fn is_in(&self, table: Option<&str>) -> bool {
        match table {
            Some(provider) => self.provides_ai().any(|known| known == provider),
            None => self.provides_ai().next().is_none(),
        }
    }
}

impl Hub {
    /// Where a call of this tool goes; `provider` may be empty.
    pub(super) fn route_tool(&self, name: &str, provider: &str) -> Route {
        let asked = Some(provider).filter(|provider| !provider.is_empty());
        let tables = [asked, asked.and_then(alias), Some(DEFAULT_PROVIDER)];
        let tables = tables.into_iter().flatten().map(Some).chain([None]);
        let found = |is_serving| {
            tables.clone().find_map(|table| {
                let has_it = |plugin: &Plugin| plugin.is_in(table) && plugin.has_tool(name);
                self.last_of(is_serving, has_it)
            })
        };
        route(found)
    }

    pub(super) fn route_prompt(&self, name: &str) -> Route {
        route(|is_serving| self.last_of(is_serving, |plugin| plugin.has_prompt(name)))
    }

    /// An empty kind is `markdown`.
    pub(super) fn route_storage(&self, kind: &str) -> Route {
        route(|is_serving| self.last_of(is_serving, |plugin| plugin.provides_storage(kind)))
    }

    /// The last in the file, whatever the order of their starts.
    fn last_of(&self, is_serving: bool, has_it: impl Fn(&Plugin) -> bool) -> Option<PluginIndex> {
        let matches = |plugin: &Plugin| plugin.life.is_serving() == is_serving && has_it(plugin);
        self.plugins.iter().rposition(matches)
    }

    /// Reports tools that two plugins have in one table, each pair once.
    pub(super) fn report_duplicates(&mut self) {
        let mut found = Vec::new();
        for (second, plugin) in self.plugins.iter().enumerate().skip(1) {
            for (first, other) in self.plugins.iter().enumerate().take(second) {
                let is_shared = |table: Option<&str>| plugin.is_in(table) && other.is_in(table);
                let share_one =
                    is_shared(None) || plugin.provides_ai().any(|ai| is_shared(Some(ai)));
                if !plugin.life.is_serving() || !other.life.is_serving() || !share_one {
                    continue;
                }
                let twice = plugin.tools.iter().filter(|tool| other.lists_tool(&tool.name));
                found.extend(twice.map(|tool| (tool.name.clone(), first, second)));
            }
        }
        found.sort();
        for (tool, first, second) in found {
            let (a, b) = (&self.plugins[first].config.id, &self.plugins[second].config.id);
            let line = format!(
                "duplicate tool \"{tool}\": provided by \"{a}\" and \"{b}\"; calls go to \"{b}\""
            );
            if self.reported.insert((tool, first, second)) {
                self.say(line);
            }
        }
    }
}

fn route(found: impl Fn(bool) -> Option<PluginIndex>) -> Route {
    match (found(true), found(false)) {
        (Some(plugin), _) => Route::To(plugin),
        (None, Some(plugin)) => Route::Away(plugin),
        (None, None) => Route::Nowhere,
    }
}
