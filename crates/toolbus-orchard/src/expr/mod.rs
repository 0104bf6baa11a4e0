//! Expressions evaluated: one evaluator for plan, type check and run.
//!
//! What names mean is the [`Scope`]'s; where the expression stands, and what it may learn of
//! the world (files, the clock, chance), is the [`Source`]'s. In a plan the scope gives unknown
//! values, and what they touch becomes unknown in turn.

mod call;
mod conditional;
mod crowded;
mod each;
mod eval;
mod operators;
mod reference;
mod source;
mod template;
mod traversal;

use hcl_edit::expr::Expression;

use crate::diagnostic::{Code, FileId, Problem, Span};
use crate::value::Value;

pub use crowded::crowded_object;
pub use reference::{Key, Reference, Step, references};
pub use source::{Files, Impure, NoFiles, Random, Source};

/// What names mean.
pub trait Scope {
    /// The value of a name and as many of the steps behind it as the scope wants to take itself:
    /// for `action.echo.first.text` it may answer for `action.echo.first`, three of four parts.
    fn variable(&self, reference: &Reference, at: &Source<'_>) -> Result<Resolved, Problem>;
}

/// What a scope answers.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The value.
    pub value: Value,
    /// How many steps behind the root were taken to get there; the evaluator takes the others.
    pub steps: usize,
}

/// A scope without names: for what must be plain values.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Scope for NoNames {
    fn variable(&self, reference: &Reference, at: &Source<'_>) -> Result<Resolved, Problem> {
        let message =
            format!("`{}` cannot be used here: there are no names to refer to", reference.root);
        Err(Problem::error(Code::UnknownReference, message).at(at.span(reference.span.clone())))
    }
}

/// What the expression means.
pub fn evaluate(
    expression: &Expression,
    scope: &dyn Scope,
    at: &Source<'_>,
) -> Result<Value, Problem> {
    eval::Evaluator::new(scope, at).value(expression)
}

/// Reads one expression from text that stands by itself, such as a variable's value.
/// Spans count from its first character that is no blank.
pub fn parse(text: &str, file: FileId) -> Result<Expression, Problem> {
    let trimmed = text.trim();
    if let Some(place) = crowded_object(trimmed) {
        let message = "the object has more keys than can be read";
        let problem = Problem::error(Code::TooBig, message).at(Span::new(file, place..place + 1));
        return Err(problem.help("read them from a file: `jsondecode(file(path))`"));
    }
    trimmed.parse().map_err(|error: hcl_edit::parser::Error| {
        let offset = error.location().offset().min(trimmed.len());
        let message = format!("this is no expression: {}", error.message());
        Problem::error(Code::Syntax, message).at(Span::new(file, offset..offset))
    })
}

/// May it stand in a name?
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || !byte.is_ascii()
}
