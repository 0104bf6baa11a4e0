//! What an action says about how it is executed: time-out, retries, and whether it may be
//! executed twice.

use std::time::Duration;

use toolbus_proto::orchard::schema::Attrs;

use super::evaluation::Evaluation;
use super::scope::NodeScope;
use crate::diagnostic::{Code, Problem};
use crate::duration;
use crate::expr::Random;
use crate::model::{self, Action, Attribute};
use crate::value::{Type, Value};

/// How an action is executed. What is not known yet is as if it were not set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// May it be executed again after it has given what it should not?
    pub idempotent: bool,
    /// When and how to try again.
    pub retry: Option<RetryPolicy>,
}

/// `retry`.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// How often in all; at least once.
    pub attempts: u32,
    /// Before the second time.
    pub delay: Duration,
    /// What the delay is multiplied by each time.
    pub backoff: f64,
    /// After errors of these codes.
    pub on: Vec<String>,
}

/// The attributes that are ours if the schema does not list them.
pub(super) const MAYBE_OURS: [&str; 2] = model::MAYBE_OURS;

/// Evaluates the settings of an action whose schema has these attributes.
pub(super) fn settings(
    evaluation: &Evaluation,
    scope: &NodeScope<'_>,
    random: &Random,
    action: &Action,
    schema: Option<&Attrs>,
) -> Result<Settings, Vec<Problem>> {
    let mut reader = Reader { evaluation, scope, random, problems: Vec::new() };
    // Without a schema it cannot be told whose they are.
    let ours = |name: &str| {
        let is_ours = schema.is_some_and(|schema| !schema.contains_key(name));
        action.attrs.iter().find(|attribute| is_ours && attribute.name.text == name)
    };
    let timeout = action.timeout.as_ref().or_else(|| ours("timeout"));
    let timeout = timeout.and_then(|attribute| reader.duration(attribute, false));
    let idempotent = ours("idempotent").and_then(|attribute| reader.value(attribute, &Type::Bool));
    let idempotent = idempotent.and_then(|value| value.as_bool()).unwrap_or(false);
    let retry = action.retry.as_ref().and_then(|retry| {
        let attempts = retry.attempts.as_ref().and_then(|attribute| reader.attempts(attribute));
        let delay = retry.delay.as_ref().and_then(|attribute| reader.duration(attribute, true));
        let backoff = retry.backoff.as_ref().and_then(|attribute| reader.backoff(attribute));
        let on = retry.on.as_ref().and_then(|attribute| reader.codes(attribute));
        Some(RetryPolicy {
            attempts: attempts?,
            delay: delay.unwrap_or(Duration::from_secs(1)),
            backoff: backoff.unwrap_or(1.0),
            on: on.unwrap_or_else(|| vec!["execute_failed".to_owned()]),
        })
    });
    match reader.problems.is_empty() {
        true => Ok(Settings { timeout, idempotent, retry }),
        false => Err(reader.problems),
    }
}

struct Reader<'a> {
    evaluation: &'a Evaluation,
    scope: &'a NodeScope<'a>,
    random: &'a Random,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// The value, if there is one and it is known.
    fn value(&mut self, attribute: &Attribute, ty: &Type) -> Option<Value> {
        let value = self.evaluation.evaluate(&attribute.value, self.scope, self.random);
        match value.and_then(|value| model::fit(&value, ty, &attribute.value.span)) {
            Ok(value) if value.is_null() || value.contains_unknown() => None,
            Ok(value) => Some(value),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    fn refuse(&mut self, attribute: &Attribute, message: String, help: &str) {
        let problem = Problem::error(Code::TypeMismatch, message).at(attribute.value.span.clone());
        self.problems.push(problem.help(help));
    }

    fn duration(&mut self, attribute: &Attribute, may_be_zero: bool) -> Option<Duration> {
        let value = self.value(attribute, &Type::String)?;
        let name = &attribute.name.text;
        match duration::parse(value.as_str()?) {
            Ok(Duration::ZERO) if !may_be_zero => {
                let message = format!("`{name}` must be more than zero");
                self.refuse(attribute, message, "leave it out for no limit");
                None
            }
            Ok(duration) => Some(duration),
            Err(error) => {
                self.refuse(attribute, format!("`{name}`: {error}"), "such as \"30s\"");
                None
            }
        }
    }

    fn attempts(&mut self, attribute: &Attribute) -> Option<u32> {
        let value = self.value(attribute, &Type::Number)?;
        let attempts = value.as_number()?.to_string().parse::<u32>().ok().filter(|it| 0 < *it);
        if attempts.is_none() {
            let message = "`attempts` must be a whole number, at least 1".to_owned();
            self.refuse(attribute, message, "it counts all attempts, the first too");
        }
        attempts
    }

    fn backoff(&mut self, attribute: &Attribute) -> Option<f64> {
        let value = self.value(attribute, &Type::Number)?;
        let backoff = value.as_number()?.to_string().parse::<f64>().ok().filter(|it| 0.0 <= *it);
        if backoff.is_none() {
            let message = "`backoff` must not be negative".to_owned();
            self.refuse(attribute, message, "2 doubles the delay each time");
        }
        backoff
    }

    fn codes(&mut self, attribute: &Attribute) -> Option<Vec<String>> {
        let value = self.value(attribute, &Type::List(Box::new(Type::String)))?;
        let codes = value.elements()?.iter().filter_map(Value::as_str);
        Some(codes.map(str::to_owned).collect())
    }
}
