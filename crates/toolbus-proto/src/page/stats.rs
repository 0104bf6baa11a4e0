//! What is counted of calls since the start, by back and tool.
//!
//! A tool has numbers of its own only if its back has listed it: what callers make up is counted in
//! one place.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::members::write_millis;
use super::{Histogram, JsonMembers, Masks};
use crate::tool::ToolName;

/// The name under which calls of tools are counted that their back has not listed.
pub const OTHER_TOOL: &str = "(other)";
/// So many tools are told.
const TOLD_MAX: usize = 500;

/// How many calls there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that ended.
    pub calls: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Those under way.
    pub in_flight: u64,
}

impl Tally {
    pub(super) fn begins(&mut self) {
        self.in_flight += 1;
    }

    pub(super) fn ends(&mut self, has_failed: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.calls += 1;
        self.failures += u64::from(has_failed);
    }
}

#[derive(Debug, Default)]
struct ToolStats {
    tally: Tally,
    durations: Histogram,
}

#[derive(Debug, Default)]
struct BackStats {
    tally: Tally,
    tools: HashMap<ToolName, ToolStats>,
    other: Option<ToolStats>,
}

/// Where a call is counted.
#[derive(Debug, Clone)]
pub(super) struct CountedAs {
    back: Option<Arc<str>>,
    /// None of those that its back has listed.
    tool: Option<ToolName>,
}

#[derive(Debug, Default)]
pub(super) struct Stats {
    backs: HashMap<Arc<str>, BackStats>,
    /// Calls for no back at all.
    backless: Option<ToolStats>,
}

impl Stats {
    pub(super) fn begins(
        &mut self,
        back: Option<&Arc<str>>,
        tool: &ToolName,
        is_listed: impl FnOnce() -> bool,
    ) -> CountedAs {
        let Some(name) = back else {
            self.backless.get_or_insert_default().tally.begins();
            return CountedAs { back: None, tool: None };
        };
        if !self.backs.contains_key(name) {
            self.backs.insert(name.clone(), BackStats::default());
        }
        let counted = CountedAs { back: Some(name.clone()), tool: None };
        let Some(back) = self.backs.get_mut(name) else { return counted };
        back.tally.begins();
        if let Some(stats) = back.tools.get_mut(tool) {
            stats.tally.begins();
        } else if is_listed() {
            back.tools.entry(tool.clone()).or_default().tally.begins();
        } else {
            back.other.get_or_insert_default().tally.begins();
            return counted;
        }
        CountedAs { tool: Some(tool.clone()), ..counted }
    }

    pub(super) fn ends(&mut self, counted: &CountedAs, duration: Duration, has_failed: bool) {
        let stats = match &counted.back {
            None => self.backless.as_mut(),
            // It may be gone from the config by now.
            Some(back) => self.backs.get_mut(back).and_then(|back| {
                back.tally.ends(has_failed);
                match &counted.tool {
                    Some(tool) => back.tools.get_mut(tool),
                    None => back.other.as_mut(),
                }
            }),
        };
        if let Some(stats) = stats {
            stats.tally.ends(has_failed);
            stats.durations.add(duration);
        }
    }

    pub(super) fn of_back(&self, back: &str) -> Tally {
        self.backs.get(back).map_or_else(Tally::default, |back| back.tally)
    }

    /// Forgets the backs that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.backs.retain(|back, _| is_there(back));
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, masks: &dyn Masks) {
        let mut all: Vec<(Option<&str>, &str, &ToolStats)> = Vec::new();
        for (name, back) in &self.backs {
            all.extend(
                back.tools.iter().map(|(tool, stats)| (Some(&**name), tool.as_str(), stats)),
            );
            all.extend(back.other.iter().map(|stats| (Some(&**name), OTHER_TOOL, stats)));
        }
        all.extend(self.backless.iter().map(|stats| (None, OTHER_TOOL, stats)));
        all.sort_by(|(back, tool, stats), (other_back, other_tool, other)| {
            let by_count = other.tally.calls.cmp(&stats.tally.calls);
            by_count.then_with(|| (back, tool).cmp(&(other_back, other_tool)))
        });
        all.truncate(TOLD_MAX);
        let mut members = JsonMembers::begin(out);
        members.array("tools", all, |out, (back, tool, stats)| {
            let mut members = JsonMembers::begin(out);
            members.text_if("back", back.map(|back| masks.text(back)).as_deref());
            members.text("tool", &masks.text(tool));
            members.number("count", stats.tally.calls);
            members.number("failures", stats.tally.failures);
            members.number("in_flight", stats.tally.in_flight);
            for (name, percent) in [("p50", 50), ("p99", 99)] {
                if let Some(micros) = stats.durations.percentile(percent) {
                    write_millis(members.key(name), micros);
                }
            }
            members.end();
        });
        members.end();
    }
}
