//! Names in `allow` that a back does not list: a spelling mistake there hides a tool without a
//! word, so it is told as soon as the back has said what it has.

use std::fmt;
use std::sync::Arc;

use toolbus_proto::tool::ToolName;

use super::{Bus, Member};
use crate::did_you_mean::nearest;

/// A tool that may be called, but that its back does not list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedInVain {
    /// The back.
    pub back: Arc<str>,
    /// The name as `allow` has it.
    pub tool: ToolName,
    /// The tool of the back that is spelled most like it.
    pub nearest: Option<ToolName>,
}

impl fmt::Display for AllowedInVain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`allow` names `{}`, which it does not list", self.tool)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl Bus {
    /// What the backs that have listed their tools do not have of what `allow` names, sorted by
    /// back and name.
    pub fn allowed_in_vain(&self) -> Vec<AllowedInVain> {
        self.members.iter().flat_map(|member| member.allowed_in_vain()).collect()
    }

    /// Warns of that, of each back once.
    pub fn warn_of_allowed_in_vain(&self) {
        self.members.iter().for_each(|member| member.warn_of_allowed_in_vain());
    }
}

impl Member {
    fn allowed_in_vain(&self) -> Vec<AllowedInVain> {
        let (Some(allow), Some(tools)) = (&self.allow, self.health.last_tools()) else {
            return Vec::new();
        };
        let is_listed = |name: &&ToolName| tools.iter().any(|tool| tool.name == **name);
        let mut unlisted: Vec<_> = allow.iter().filter(|name| !is_listed(name)).cloned().collect();
        unlisted.sort();
        let in_vain = |tool: ToolName| {
            let names = tools.iter().map(|tool| tool.name.as_str());
            let nearest = nearest(tool.as_str(), names).map(ToolName::new);
            AllowedInVain { back: self.name.clone(), tool, nearest }
        };
        unlisted.into_iter().map(in_vain).collect()
    }

    fn warn_of_allowed_in_vain(&self) {
        let in_vain = self.allowed_in_vain();
        if in_vain.is_empty() || self.is_warned_of_allow.replace(true) {
            return;
        }
        for tool in in_vain {
            tracing::warn!(peer = %self.name, "{tool}");
        }
    }
}
