//! What is surely a mistake in views and limits once all backs are listed that they could match.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use toolbus_proto::caller::CallerName;
use toolbus_proto::json::edit;
use toolbus_proto::tool::ToolSpec;
use toolbus_proto::view::{Pattern, Selection, Sort, View};

use crate::bus::config::CallerConfig;
use crate::bus::{Bus, Listed};
use crate::did_you_mean::nearest;

thread_local! {
    /// What was said of names that two tools have.
    static SAME_NAMES: RefCell<HashSet<String>> = RefCell::default();
}

/// Says that two tools of a view are called alike: once, however many fronts and callers see it.
pub(crate) fn warn_of_same_name(told: &str) {
    if SAME_NAMES.with_borrow_mut(|names| names.insert(told.to_owned())) {
        tracing::warn!("{told}");
    }
}

/// The config was read again: what it calls alike is news.
pub(in crate::bus) fn forget_same_names() {
    SAME_NAMES.with_borrow_mut(HashSet::clear);
}

/// What was found out about one view of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewTold {
    /// How many tools it shows.
    pub shown: usize,
    /// How many there are.
    pub of: usize,
    /// What should be looked at.
    pub warnings: Vec<Warning>,
    /// Two tools of one name.
    pub taken: Option<String>,
}

/// The name of one `[view.x]` or `[caller.x]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewOrCaller {
    /// A view.
    View(Arc<str>),
    /// A caller.
    Caller(CallerName),
}

/// Something that is probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// `view reader`, `caller ann`.
    pub of: String,
    /// What it is about it.
    pub what: String,
    /// Does it stand behind a colon?
    is_apart: bool,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.is_apart { ":" } else { "" };
        write!(f, "{}{colon} {}", self.of, self.what)
    }
}

impl Bus {
    /// Looks at a view of the config, beside what its backs have listed. What a back that could not
    /// be listed might have is no mistake.
    pub fn view_told(&self, view: &Arc<View>, listed: &[Listed]) -> ViewTold {
        let names = Names::of(self, listed);
        let of = format!("view {}", view.name);
        let warning = |what: String| Warning { of: of.clone(), what, is_apart: true };
        let mut warnings: Vec<Warning> = Vec::new();
        for pattern in view.show.iter().flatten().chain(&view.hide) {
            warnings.extend(names.in_vain(pattern).map(warning));
        }
        let selection = Selection::new(Some(view.clone()), None);
        let is_shown = |name: &str, spec: &ToolSpec| {
            let (back, own) = name.split_once('.').unwrap_or((name, ""));
            let is_generic = self.is_generic(back, own);
            selection.as_ref().is_none_or(|selection| {
                selection.shows_tool(back, own, spec.hints.as_ref(), is_generic)
            })
        };
        for (tool, rule) in &view.tools {
            let (back, own) = tool.split_once('.').unwrap_or((tool, ""));
            let there = names.find(back, own);
            let Some(spec) = there.filter(|spec| is_shown(tool, spec)) else {
                let what = format!("there is no tool `{tool}`");
                if there.is_some() {
                    warnings.push(warning(what));
                } else if !names.may_be_away(&Pattern::new(tool)) {
                    let near = names.all.iter().map(|(name, _)| name.as_str());
                    warnings.push(warning(names.hint(what, tool, near)));
                }
                continue;
            };
            let Some(properties) = edit::member(spec.input.as_str(), "properties") else {
                continue;
            };
            let known: Vec<_> = edit::members(properties).map(|(name, _)| name).collect();
            for argument in rule.fixed.names() {
                if !known.is_empty() && !known.iter().any(|name| **name == *argument) {
                    let what = format!("`{tool}` takes no argument `{argument}`");
                    let near = known.iter().map(|name| &**name);
                    warnings.push(warning(names.hint(what, argument, near)));
                }
            }
        }
        let shown = names.all.iter().filter(|(name, spec)| is_shown(name, spec)).count();
        let may_match = |back: &&str| {
            let may_match = |selection: &Selection| selection.may_match(Sort::Tool, back);
            selection.as_ref().is_none_or(may_match)
        };
        if shown == 0 && !names.away.iter().any(may_match) {
            let what = "shows no tool".to_owned();
            warnings.push(Warning { of: of.clone(), what, is_apart: false });
        }
        let viewed = self.clone().seen_by(Some(&view.name), None);
        let taken = viewed.offer(listed).err().map(|taken| taken.to_string());
        ViewTold { shown, of: names.all.len(), warnings, taken }
    }

    /// The same for the limits of a caller.
    pub fn limits_told(&self, caller: &CallerConfig, listed: &[Listed]) -> Vec<Warning> {
        let names = Names::of(self, listed);
        let of = format!("caller {}", caller.name);
        let in_vain = caller.limits_by_pattern.iter();
        let in_vain = in_vain.filter_map(|(pattern, _)| names.in_vain(pattern));
        in_vain.map(|what| Warning { of: of.clone(), what, is_apart: true }).collect()
    }

    fn is_generic(&self, back: &str, own: &str) -> bool {
        let member = self.members.iter().find(|member| *member.name == *back);
        member.is_some_and(|member| member.address.kind().generic_tools().contains(&own))
    }
}

/// The tools that are there, by `<back>.<tool>`.
struct Names<'a> {
    all: Vec<(String, &'a ToolSpec)>,
    /// The backs that could not be listed.
    away: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(bus: &Bus, listed: &'a [Listed]) -> Names<'a> {
        let mut names = Names { all: Vec::new(), away: HashSet::new() };
        for (Listed { back, tools, .. }, _) in listed.iter().zip(&bus.members) {
            match tools {
                Ok(tools) => {
                    let named = |spec: &'a ToolSpec| (format!("{back}.{}", spec.name), spec);
                    names.all.extend(tools.iter().map(named));
                }
                Err(_) => {
                    names.away.insert(back);
                }
            }
        }
        names
    }

    fn find(&self, back: &str, own: &str) -> Option<&'a ToolSpec> {
        let name = format!("{back}.{own}");
        self.all.iter().find(|(known, _)| *known == name).map(|(_, spec)| *spec)
    }

    fn may_be_away(&self, pattern: &Pattern) -> bool {
        self.away.iter().any(|back| pattern.may_match_back(back))
    }

    /// What is said of a pattern that matches no tool, and none of a back that is away.
    fn in_vain(&self, pattern: &Pattern) -> Option<String> {
        let text = pattern.to_string();
        let matches = self.all.iter().any(|(name, _)| pattern.matches(name));
        if pattern.sort != Sort::Tool || text == "*" || matches || self.may_be_away(pattern) {
            return None;
        }
        let near = self.all.iter().map(|(name, _)| name.as_str());
        Some(self.hint(format!("`{text}` matches nothing"), &text, near))
    }

    fn hint<'b>(
        &self,
        what: String,
        word: &str,
        near: impl IntoIterator<Item = &'b str>,
    ) -> String {
        match nearest(word, near) {
            Some(nearest) => format!("{what}; did you mean `{nearest}`?"),
            None => what,
        }
    }
}
