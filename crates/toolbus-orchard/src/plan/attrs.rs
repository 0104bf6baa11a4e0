//! The attributes of an action, a teardown or a config against what the schema says.

use std::collections::BTreeMap;

use toolbus_proto::orchard::schema::{Attr, Attrs};

use super::evaluation::Evaluation;
use super::scope::NodeScope;
use crate::diagnostic::{Code, Problem, Span};
use crate::expr::Random;
use crate::model::Attribute;
use crate::value::{Value, convert};

/// Attributes by name, as they are sent.
pub type PlannedAttrs = BTreeMap<String, PlannedAttr>;

/// One attribute as it is sent.
#[derive(Debug, Clone)]
pub struct PlannedAttr {
    /// Its value, of the type that the schema wants; unknown as long as it is.
    pub value: Value,
    /// Does it come from the schema?
    pub is_default: bool,
}

/// What the attributes are for.
pub(super) struct Wanted<'a> {
    /// In messages: ``action `echo` of provider `e` (echo)``.
    pub(super) what: &'a str,
    pub(super) schema: &'a Attrs,
    /// The block's header.
    pub(super) header: &'a Span,
    /// Attributes that are not for the provider.
    pub(super) ours: &'a [&'a str],
}

/// Evaluates and converts what is given, and fills in what is not.
pub(super) fn attrs(
    evaluation: &Evaluation,
    scope: &NodeScope<'_>,
    random: &Random,
    given: &[Attribute],
    wanted: &Wanted<'_>,
) -> Result<PlannedAttrs, Vec<Problem>> {
    let Wanted { what, schema, header, ours } = wanted;
    let mut problems = Vec::new();
    let mut planned = PlannedAttrs::new();
    // By name, so that random values do not depend on the order of the text.
    let mut given: Vec<&Attribute> = given.iter().collect();
    given.sort_by(|one, other| one.name.text.cmp(&other.name.text));
    for attribute in &given {
        let name = attribute.name.text.as_str();
        let Some(attr) = schema.get(name) else {
            if !ours.contains(&name) {
                problems.push(unknown(what, attribute, schema, ours));
            }
            continue;
        };
        match evaluation.evaluate(&attribute.value, scope, random) {
            Ok(value) if value.is_null() => {}
            Ok(value) => match fitted(&value, attribute, attr) {
                Ok(value) => {
                    planned.insert(name.to_owned(), PlannedAttr { value, is_default: false });
                }
                Err(problem) => problems.push(problem),
            },
            Err(problem) => problems.push(problem),
        }
    }
    for (name, attr) in *schema {
        if planned.contains_key(name) {
            continue;
        }
        let is_given = given.iter().any(|attribute| attribute.name.text == *name);
        match &attr.default {
            Some(default) => {
                // The schema was refused if its default did not fit.
                let value = Value::from_json(&attr.ty, default).unwrap_or(Value::NULL);
                let value = value.with_sensitive(attr.sensitive);
                planned.insert(name.clone(), PlannedAttr { value, is_default: true });
            }
            // What is wrong with one that is given was told.
            None if attr.required && (!is_given || problems.is_empty()) => {
                problems.push(missing(what, name, attr, header));
            }
            None => {}
        }
    }
    if problems.is_empty() { Ok(planned) } else { Err(problems) }
}

fn fitted(value: &Value, attribute: &Attribute, attr: &Attr) -> Result<Value, Problem> {
    let value = convert(value, &attr.ty).map_err(|mismatch| {
        let name = &attribute.name.text;
        let path = mismatch.path.clone();
        let message = format!("`{name}{path}`: {}", mismatch.fault);
        Problem::error(Code::TypeMismatch, message)
            .at(attribute.value.span.clone())
            .label(attribute.name.span.clone(), format!("the schema wants `{}`", attr.ty))
    })?;
    Ok(value.with_sensitive(attr.sensitive))
}

fn unknown(what: &str, attribute: &Attribute, schema: &Attrs, ours: &[&str]) -> Problem {
    let name = &attribute.name.text;
    let problem =
        Problem::error(Code::UnknownAttribute, format!("{what} has no attribute `{name}`"));
    let problem = problem.at(attribute.name.span.clone());
    let known = schema.keys().map(String::as_str).chain(ours.iter().copied());
    let meant = problem.clone().meant(name, known);
    if meant.help.is_some() {
        return meant;
    }
    let names: Vec<String> = schema.keys().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => problem.help("it has none"),
        false => problem.help(format!("it has {}", names.join(", "))),
    }
}

fn missing(what: &str, name: &str, attr: &Attr, header: &Span) -> Problem {
    let message = format!("{what} needs the attribute `{name}`");
    let problem = Problem::error(Code::MissingAttribute, message).at(header.clone());
    problem.help(match &attr.description {
        Some(description) => format!("`{name}` is `{}`: {description}", attr.ty),
        None => format!("`{name}` is `{}`", attr.ty),
    })
}
