//! Patterns of names: what a view shows and hides, and what a limit counts.

use std::fmt;

use crate::pattern;

/// A pattern of a config, and what it is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    /// What it is of.
    pub sort: Sort,
    /// What is matched, without what says what it is of.
    text: String,
}

/// What has a name that a pattern may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Tools, as `<back>.<tool>`.
    Tool,
    /// Prompts, as `<back>.<prompt>`.
    Prompt,
    /// Resources, as `<back>.<uri>`.
    Resource,
    /// Methods that no revision of their wire has.
    Method,
}

impl Sort {
    /// All of them.
    pub const ALL: [Sort; 4] = [Sort::Tool, Sort::Prompt, Sort::Resource, Sort::Method];

    const PREFIXES: [(&str, Sort); 3] =
        [("prompt:", Sort::Prompt), ("resource:", Sort::Resource), ("method:", Sort::Method)];
}

impl Pattern {
    /// Reads a pattern as a config has it.
    pub fn new(text: &str) -> Pattern {
        let of = |(prefix, sort): &(&str, Sort)| {
            Some(Pattern { sort: *sort, text: text.strip_prefix(prefix)?.to_owned() })
        };
        let tool = || Pattern { sort: Sort::Tool, text: text.to_owned() };
        Sort::PREFIXES.iter().find_map(of).unwrap_or_else(tool)
    }

    /// Can it be meant for a whole name? Names have a dot behind that of their back, which must be
    /// written, or a `*` in its place; those of methods need none.
    pub fn can_match(&self) -> bool {
        self.sort == Sort::Method || self.text.contains(['.', '*'])
    }

    /// Does it match this name of its sort?
    pub fn matches(&self, name: &str) -> bool {
        pattern::matches(&self.text, name)
    }

    /// The same for a tool that reaches everything its back has: it must be meant by its very name.
    pub fn matches_generic(&self, name: &str, own: &str) -> bool {
        let is_named = self.text.rsplit_once('.').is_some_and(|(_, last)| last == own);
        is_named && self.matches(name)
    }

    /// Can it match a name of this back?
    pub fn may_match_back(&self, back: &str) -> bool {
        pattern::may_begin(&self.text, &format!("{back}."))
    }

    /// Does it match every name of this back?
    pub fn matches_all_of_back(&self, back: &str) -> bool {
        self.text.ends_with('*') && self.matches(&format!("{back}."))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = Sort::PREFIXES.iter().find(|(_, sort)| *sort == self.sort);
        write!(f, "{}{}", prefix.map_or("", |(prefix, _)| prefix), self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pattern_is_of_stands_in_front() {
        for (text, sort) in [
            ("git.*", Sort::Tool),
            ("prompt:git.*", Sort::Prompt),
            ("resource:f.file:///*", Sort::Resource),
            ("method:acme/*", Sort::Method),
        ] {
            let pattern = Pattern::new(text);
            assert_eq!((pattern.sort, pattern.to_string()), (sort, text.to_owned()));
        }
        assert!(Pattern::new("resource:f.file:///*").matches("f.file:///a"));
        assert!(!Pattern::new("git").can_match() && !Pattern::new("prompt:gi?").can_match());
        assert!(Pattern::new("git.log").can_match() && Pattern::new("method:x").can_match());
    }
}
