//! What a view shows: which tools, prompts and resources, under which names and texts, with which
//! arguments filled in.
//!
//! A [`View`] is one table of a config, a [`Selection`] what a front and its caller show together.
//! Everything here is decided from names and specs that are given.

mod arguments;
mod pattern;
mod schema;
mod selection;

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::sync::Arc;

use crate::json::{Json, write_string};
use crate::search::Search;

pub(crate) use arguments::room_for_fixed;
pub use arguments::{Changed, filled_in};
pub use pattern::{Pattern, Sort};
pub use schema::without_fixed;
pub use selection::{SameName, Selection};

/// One view of a config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub name: Arc<str>,
    /// What none of these matches is not there; `None` is everything.
    pub show: Option<Vec<Pattern>>,
    /// What one of these matches is not there.
    pub hide: Vec<Pattern>,
    /// Only tools of which their back says so.
    pub hints: WantedHints,
    /// How tools are named, if the view says so.
    pub names: Option<Names>,
    /// What clients are told in place of the servers' instructions.
    pub instructions: Option<String>,
    /// Whether tools are searched for, if the view says so.
    pub search: Option<Search>,
    /// Which are listed even so, if the view says that.
    pub always: Option<Vec<Pattern>>,
    /// What is changed about single tools, by `<back>.<tool>`.
    pub tools: BTreeMap<String, Rule>,
}

/// What a back must say of a tool for it to be shown; `None` is no matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WantedHints {
    /// That it changes nothing, or something.
    pub read_only: Option<bool>,
    /// That calling it twice does no more than once, or more.
    pub idempotent: Option<bool>,
    /// That it may destroy something, or nothing.
    pub destructive: Option<bool>,
}

/// How the names of tools begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    /// With the name of their back, where their front does so.
    #[default]
    Back,
    /// Without it.
    Plain,
    /// With it, also where there is one back.
    Full,
}

/// What a view says of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// Its own name, in place of that of its back.
    pub rename: Option<String>,
    /// Its title; empty takes it out.
    pub title: Option<String>,
    /// Its description; empty takes it out.
    pub description: Option<String>,
    /// What follows its description.
    pub append: Option<String>,
    /// Arguments that are filled in, sorted by name.
    pub fixed: Fixed,
}

/// Arguments that are filled in, sorted by name. Their values may be secrets, and are not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fixed {
    all: BTreeMap<String, Json>,
    /// The same as members of an object, without braces: what each call is given.
    members: String,
}

impl Fixed {
    /// Is nothing filled in?
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them as members of an object, without its braces.
    pub(crate) fn as_members(&self) -> &str {
        &self.members
    }

    /// Is an argument of this name filled in?
    pub fn has(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    /// The value of this argument.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.all.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// All of them, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.all.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl FromIterator<(String, Json)> for Fixed {
    fn from_iter<I: IntoIterator<Item = (String, Json)>>(all: I) -> Fixed {
        let all: BTreeMap<String, Json> = all.into_iter().collect();
        let mut members = Vec::new();
        for (name, value) in &all {
            if !members.is_empty() {
                members.push(b',');
            }
            write_string(&mut members, name);
            members.push(b':');
            members.extend_from_slice(value.as_bytes());
        }
        let members = String::from_utf8(members).expect("made of text");
        Fixed { all, members }
    }
}

impl IntoIterator for Fixed {
    type Item = (String, Json);
    type IntoIter = btree_map::IntoIter<String, Json>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl fmt::Debug for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl Rule {
    /// Does it say something that those see who list the tool, besides another name?
    pub fn changes_texts(&self) -> bool {
        self.title.is_some()
            || self.description.is_some()
            || self.append.is_some()
            || !self.fixed.is_empty()
    }

    /// The title of a tool that has this one.
    pub fn title_of(&self, own: Option<&str>) -> Option<String> {
        let title = self.title.as_deref().or(own)?;
        Some(title.to_owned()).filter(|title| self.title.is_none() || !title.is_empty())
    }

    /// The description of a tool that has this one.
    pub fn description_of(&self, own: Option<&str>) -> Option<String> {
        let said = match &self.description {
            Some(description) => Some(description.as_str()).filter(|text| !text.is_empty()),
            None => own,
        };
        match (said, &self.append) {
            (Some(said), Some(more)) => Some(format!("{said}\n\n{more}")),
            (said, more) => said.or(more.as_deref()).map(str::to_owned),
        }
    }
}
