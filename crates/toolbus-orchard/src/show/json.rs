//! Plans and what is wrong with them, as one line of JSON.

use std::path::Path;

use toolbus_proto::json::write_string;

use super::problems;
use crate::diagnostic::Problem;
use crate::plan::{Plan, PlannedAttr, PlannedAttrs};
use crate::secrets::Secrets;
use crate::source::Sources;
use crate::value::Value;

/// What is known where there is no plan.
pub struct Invalid<'a> {
    /// The name of the scenario, if one was chosen.
    pub scenario: Option<&'a str>,
    /// The file, absolute.
    pub path: &'a Path,
    /// What is wrong.
    pub problems: &'a [Problem],
    /// The files that it stands in.
    pub sources: &'a Sources,
    /// What a provider did instead of describing itself.
    pub error: Option<ProviderFailed<'a>>,
}

/// What a provider did instead of describing itself.
pub struct ProviderFailed<'a> {
    /// In a word.
    pub code: &'a str,
    /// In a sentence.
    pub message: &'a str,
    /// Which.
    pub provider: &'a str,
    /// What else is known.
    pub detail: Option<&'a str>,
}

/// A plan as one line.
pub fn plan_json(plan: &Plan, problems: &[Problem], secrets: &Secrets) -> String {
    let mut out = head("plan", true, Some(plan.name()), &plan.file().path);
    push(&mut out, ",\"providers\":[");
    for (index, provider) in plan.providers.iter().enumerate() {
        comma(&mut out, index);
        member(&mut out, "{\"name\":", &provider.name);
        member(&mut out, ",\"source\":", &provider.source.to_string());
        member(&mut out, ",\"schema_name\":", &provider.schema.name);
        member(&mut out, ",\"schema_version\":", &provider.schema.version);
        push(&mut out, "}");
    }
    push(&mut out, "],\"variables\":{");
    for (index, (name, value)) in plan.variables.iter().enumerate() {
        comma(&mut out, index);
        named(&mut out, name);
        known(&mut out, value, false, secrets);
    }
    push(&mut out, "},\"nodes\":[");
    for (index, node) in plan.nodes.iter().enumerate() {
        comma(&mut out, index);
        member(&mut out, "{\"address\":", &node.address);
        member(&mut out, ",\"type\":", &node.action_type);
        member(&mut out, ",\"provider\":", &plan.providers[node.provider].name);
        push(&mut out, ",\"depends_on\":[");
        for (at, needed) in node.depends_on.iter().enumerate() {
            comma(&mut out, at);
            write_string(&mut out, &plan.nodes[*needed].address);
        }
        push(&mut out, "],\"attrs\":");
        attrs(&mut out, &node.attrs, secrets);
        if let Some(teardown) = &node.teardown {
            push(&mut out, ",\"teardown\":{\"attrs\":");
            attrs(&mut out, teardown, secrets);
            push(&mut out, "}");
        }
        push(&mut out, "}");
    }
    push(&mut out, "],\"outputs\":{");
    for (index, output) in plan.outputs.iter().enumerate() {
        comma(&mut out, index);
        named(&mut out, &output.name);
        known(&mut out, &output.value, false, secrets);
    }
    push(&mut out, "}");
    diagnostics(&mut out, problems, &plan.sources);
    finish(out)
}

/// That there is no plan, as one line.
pub fn invalid(invalid: &Invalid<'_>) -> String {
    let mut out = head("plan", false, invalid.scenario, invalid.path);
    push(&mut out, ",\"providers\":[],\"variables\":{},\"nodes\":[],\"outputs\":{}");
    diagnostics(&mut out, invalid.problems, invalid.sources);
    if let Some(error) = &invalid.error {
        member(&mut out, ",\"error\":{\"code\":", error.code);
        member(&mut out, ",\"message\":", error.message);
        member(&mut out, ",\"provider\":", error.provider);
        if let Some(detail) = error.detail {
            member(&mut out, ",\"detail\":", detail);
        }
        push(&mut out, "}");
    }
    finish(out)
}

/// What is wrong with a file, if anything, as one line.
pub fn validated(invalid: &Invalid<'_>) -> String {
    let is_error = |problem: &Problem| problem.severity == crate::diagnostic::Severity::Error;
    let is_valid = !invalid.problems.iter().any(is_error);
    let mut out = head("validate", is_valid, invalid.scenario, invalid.path);
    diagnostics(&mut out, invalid.problems, invalid.sources);
    finish(out)
}

fn head(kind: &str, is_valid: bool, scenario: Option<&str>, path: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    member(&mut out, "{\"format_version\":\"1.0\",\"kind\":", kind);
    push(&mut out, if is_valid { ",\"valid\":true" } else { ",\"valid\":false" });
    match scenario {
        Some(scenario) => member(&mut out, ",\"scenario\":", scenario),
        None => push(&mut out, ",\"scenario\":null"),
    }
    member(&mut out, ",\"scenario_path\":", &path.to_string_lossy());
    out
}

fn diagnostics(out: &mut Vec<u8>, problems: &[Problem], sources: &Sources) {
    push(out, ",\"diagnostics\":[");
    for (index, problem) in problems.iter().enumerate() {
        comma(out, index);
        problems::write_json(out, problem, sources);
    }
    push(out, "]");
}

fn attrs(out: &mut Vec<u8>, attrs: &PlannedAttrs, secrets: &Secrets) {
    push(out, "{");
    for (index, (name, PlannedAttr { value, is_default })) in attrs.iter().enumerate() {
        comma(out, index);
        named(out, name);
        known(out, value, *is_default, secrets);
    }
    push(out, "}");
}

/// `{"value":…}`, or what keeps it from being shown.
fn known(out: &mut Vec<u8>, value: &Value, is_default: bool, secrets: &Secrets) {
    match (value.contains_sensitive(), value.to_json()) {
        (true, _) => push(out, "{\"sensitive\":true"),
        (false, Err(_)) => push(out, "{\"unknown\":true"),
        (false, Ok(json)) => {
            push(out, "{\"value\":");
            push(out, &secrets.masked(json.as_str()));
        }
    }
    push(out, if is_default { ",\"default\":true}" } else { "}" });
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn member(out: &mut Vec<u8>, name: &str, value: &str) {
    push(out, name);
    write_string(out, value);
}

fn named(out: &mut Vec<u8>, name: &str) {
    write_string(out, name);
    push(out, ":");
}

fn comma(out: &mut Vec<u8>, index: usize) {
    push(out, if index == 0 { "" } else { "," });
}

fn finish(mut out: Vec<u8>) -> String {
    push(&mut out, "}\n");
    String::from_utf8_lossy(&out).into_owned()
}
