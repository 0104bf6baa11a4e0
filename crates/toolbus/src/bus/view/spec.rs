//! A tool as it is shown: under another name, with other texts, without what is filled in.

use toolbus_proto::json::Json;
use toolbus_proto::tool::{Native, ToolName, ToolSpec};
use toolbus_proto::view::{Rule, without_fixed};

use crate::bus::observe::kind_of;

/// The tool under this name, changed as its rule says.
pub(in crate::bus) fn seen_as(spec: &ToolSpec, name: ToolName, rule: Option<&Rule>) -> ToolSpec {
    let Some(rule) = rule.filter(|rule| rule.changes_texts()) else {
        return ToolSpec { name, ..spec.clone() };
    };
    let input = match rule.fixed.is_empty() {
        true => spec.input.clone(),
        false => Json::from_trusted(without_fixed(spec.input.as_str(), &rule.fixed)),
    };
    // What a wire cannot change in its own words is told in those of all.
    let native = spec.native.as_ref().and_then(|native| {
        let text = kind_of(native.wire)?.native_seen(&native.text, rule)?;
        Some(Native { wire: native.wire, text })
    });
    ToolSpec {
        name,
        title: rule.title_of(spec.title.as_deref()),
        description: rule.description_of(spec.description.as_deref()),
        input,
        native,
        ..spec.clone()
    }
}
