//! A plan as people read it.

use std::fmt::Write as _;

use crate::plan::{Plan, PlannedAttrs};
use crate::secrets::Secrets;
use crate::value::Value;

/// A value is shown with so many characters at most.
const SHOWN_MAX: usize = 200;

/// All secrets that a plan knows of.
pub fn secrets_of(plan: &Plan) -> Secrets {
    let secrets = Secrets::new();
    plan.variables.values().for_each(|value| secrets.hide_sensitive(value));
    let attrs = |attrs: &PlannedAttrs| {
        attrs.values().for_each(|attr| secrets.hide_sensitive(&attr.value));
    };
    plan.providers.iter().for_each(|provider| attrs(&provider.config));
    for node in &plan.nodes {
        attrs(&node.attrs);
        node.teardown.iter().for_each(attrs);
    }
    plan.outputs.iter().for_each(|output| secrets.hide_sensitive(&output.value));
    secrets
}

/// The plan: its actions in order, with what they get, and what the scenario gives.
pub fn plan_text(plan: &Plan, secrets: &Secrets) -> String {
    let mut out = String::new();
    let count = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    let actions = count(plan.nodes.len(), "action");
    let providers = count(plan.providers.len(), "provider");
    let _ = writeln!(out, "scenario: {}\nplan: {actions} with {providers}", plan.name());
    if !plan.nodes.is_empty() {
        out.push('\n');
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        let provider = &plan.providers[node.provider].name;
        let _ = writeln!(out, "{}. {} ({provider})", index + 1, node.address);
        if !node.depends_on.is_empty() {
            out.push_str("   after ");
            for (at, needed) in node.depends_on.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                out.push_str(&plan.nodes[*needed].address);
            }
            out.push('\n');
        }
        attrs(&mut out, "   ", &node.attrs, secrets);
        if let Some(teardown) = &node.teardown {
            out.push_str("   teardown:\n");
            attrs(&mut out, "     ", teardown, secrets);
        }
    }
    if !plan.outputs.is_empty() {
        out.push_str("\noutputs:\n");
    }
    for output in &plan.outputs {
        let _ = writeln!(out, "{} = {}", output.name, shown(&output.value, secrets));
    }
    out
}

fn attrs(out: &mut String, indent: &str, attrs: &PlannedAttrs, secrets: &Secrets) {
    for (name, attr) in attrs {
        let default = if attr.is_default { " (default)" } else { "" };
        let _ = writeln!(out, "{indent}{name} = {}{default}", shown(&attr.value, secrets));
    }
}

/// The value without its secrets, cut where it is long.
fn shown(value: &Value, secrets: &Secrets) -> String {
    let shown = value.shown();
    let masked = secrets.masked(&shown);
    match masked.chars().count() <= SHOWN_MAX {
        true => masked.into_owned(),
        false => masked.chars().take(SHOWN_MAX - 3).chain("...".chars()).collect(),
    }
}
