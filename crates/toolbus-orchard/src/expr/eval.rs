//! The evaluator: one method for each kind of expression, most of them in files of their own.

use std::collections::BTreeMap;
use std::ops::Range;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, Object, ObjectKey};

use super::reference::{Reference, rooted};
use super::{Resolved, Scope, Source};
use crate::diagnostic::{Code, Problem, excerpt};
use crate::value::{Misfit, Mismatch, Number, NumberError, Type, Value, convert};

/// How many steps one expression may take.
pub(crate) const STEPS_MAX: u64 = 1_000_000;
/// To look at so many elements, or so many bytes of text, counts as one step.
const ELEMENTS_A_STEP: usize = 16;
const TEXT_BYTES_A_STEP: usize = 256;

pub(crate) struct Evaluator<'a> {
    pub(super) scope: &'a dyn Scope,
    pub(crate) at: &'a Source<'a>,
    steps: u64,
    /// Names that the `for`s around the place have made, the innermost last.
    pub(super) locals: Vec<(String, Value)>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(scope: &'a dyn Scope, at: &'a Source<'a>) -> Self {
        Evaluator { scope, at, steps: 0, locals: Vec::new() }
    }

    pub(crate) fn value(&mut self, expression: &Expression) -> Result<Value, Problem> {
        self.step(1, expression)?;
        let value = match expression {
            Expression::Null(_) => return Ok(Value::NULL),
            Expression::Bool(bool) => return Ok(Value::bool(*bool.value())),
            Expression::String(text) => {
                self.step_over_text(text.len(), expression)?;
                return Ok(Value::string(text.as_str()));
            }
            Expression::Number(_) => return self.number(expression),
            Expression::Parenthesis(inner) => return self.value(inner.inner()),
            Expression::Array(array) => {
                let elements = array.iter().map(|element| self.value(element));
                Value::tuple(elements.collect::<Result<_, _>>()?)
            }
            Expression::Object(object) => self.object(object)?,
            Expression::StringTemplate(_) | Expression::HeredocTemplate(_) => {
                self.template(expression)?
            }
            Expression::Variable(name) => {
                self.reference(&rooted(name.as_str(), name.span()))?.value
            }
            Expression::Conditional(conditional) => self.conditional(conditional)?,
            Expression::FuncCall(call) => self.call(call, expression)?,
            Expression::Traversal(traversal) => self.traversal(traversal)?,
            Expression::UnaryOp(op) => self.unary(op)?,
            Expression::BinaryOp(op) => self.binary(op)?,
            Expression::ForExpr(each) => self.each(each)?,
        };
        self.within_limits(value, expression)
    }

    /// Counts what is done, so that no expression runs for ever.
    pub(super) fn step(&mut self, steps: u64, expression: &Expression) -> Result<(), Problem> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps <= STEPS_MAX {
            return Ok(());
        }
        let message = format!("the expression takes more than {STEPS_MAX} steps");
        Err(self.problem(Code::TooBig, message, expression))
    }

    /// Counts text that is copied.
    pub(super) fn step_over_text(
        &mut self,
        bytes: usize,
        expression: &Expression,
    ) -> Result<(), Problem> {
        self.step((bytes / TEXT_BYTES_A_STEP) as u64, expression)
    }

    /// Counts what has to be looked at to work on this value.
    pub(super) fn look_through(
        &mut self,
        value: &Value,
        expression: &Expression,
    ) -> Result<(), Problem> {
        let much = value.summary();
        let steps = much.elements / ELEMENTS_A_STEP + much.text_bytes / TEXT_BYTES_A_STEP;
        self.step(steps as u64, expression)
    }

    /// Has it run out of steps? Then there is no use in trying anything else.
    pub(super) fn is_exhausted(&self) -> bool {
        STEPS_MAX < self.steps
    }

    pub(super) fn within_limits(
        &self,
        value: Value,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        match value.summary().is_too_big() {
            true => Err(self.too_big(expression)),
            false => Ok(value),
        }
    }

    pub(super) fn too_big(&self, expression: &Expression) -> Problem {
        let message = "the value is too big: at most 1000000 elements, 16 MiB of text and 120 \
                       levels are allowed";
        self.problem(Code::TooBig, message, expression)
    }

    /// A number by its own text: the parser's float has lost digits.
    fn number(&self, expression: &Expression) -> Result<Value, Problem> {
        let Expression::Number(number) = expression else { return Ok(Value::NULL) };
        let written = match number.as_repr() {
            Some(written) => written.to_string(),
            None => number.value().to_string(),
        };
        // `- 5` is one literal, and there may be a comment in it.
        let begins = written.rfind(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        let digits = &written[begins.map_or(0, |at| at + 1)..];
        let is_negative = written.starts_with('-') && !digits.starts_with('-');
        let number = Number::parse(digits)
            .and_then(|number| if is_negative { number.negated() } else { Ok(number) });
        // The least number is one further from zero than the largest: read it with its sign.
        let number = match number {
            Err(NumberError::TooLarge) if is_negative => Number::parse(&format!("-{digits}")),
            number => number,
        };
        number.map(Value::number).map_err(|error| self.number_problem(error, expression))
    }

    fn object(&mut self, object: &Object) -> Result<Value, Problem> {
        let mut members = BTreeMap::new();
        let mut taint = false;
        let mut has_unknown_key = false;
        for (key, value) in object {
            let (name, expression) = match key {
                ObjectKey::Ident(name) => (Value::string(name.as_str()), value.expr()),
                ObjectKey::Expression(expression) => (self.value(expression)?, expression),
            };
            let name = self.string(&name, "a key", expression)?;
            taint |= name.is_sensitive();
            let member = self.value(value.expr())?;
            let Some(name) = name.as_str() else {
                has_unknown_key = true;
                continue;
            };
            if members.insert(name.to_owned(), member).is_some() {
                // Where both are written out it could be seen without evaluating anything.
                let is_literal = matches!(
                    key,
                    ObjectKey::Ident(_) | ObjectKey::Expression(Expression::String(_))
                );
                let code = if is_literal { Code::Syntax } else { Code::Duplicate };
                let message = match taint {
                    true => "a key stands twice in this object".to_owned(),
                    false => format!("key {} stands twice in this object", excerpt(name)),
                };
                return Err(self.problem(code, message, expression));
            }
        }
        match has_unknown_key {
            true => Ok(Value::unknown(Type::Any).with_sensitive(taint)),
            false => Ok(Value::object(members).with_sensitive(taint)),
        }
    }

    /// What a name and the steps behind it mean, as far as the scope goes.
    pub(super) fn reference(&mut self, reference: &Reference) -> Result<Resolved, Problem> {
        let local = self.locals.iter().rev().find(|(name, _)| *name == reference.root);
        match local {
            Some((_, value)) => Ok(Resolved { value: value.clone(), steps: 0 }),
            None => self.scope.variable(reference, self.at),
        }
    }

    /// With names that only hold inside.
    pub(super) fn with_locals<T>(
        &mut self,
        names: impl IntoIterator<Item = (String, Value)>,
        inside: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let outside = self.locals.len();
        self.locals.extend(names);
        let result = inside(self);
        self.locals.truncate(outside);
        result
    }

    /// Text for a place that needs it: `what` it is for, in the words of messages.
    pub(super) fn string(
        &self,
        value: &Value,
        what: &str,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        self.converted(value, &Type::String, what, expression)
    }

    /// A value of a primitive type for a place that needs it.
    pub(super) fn converted(
        &self,
        value: &Value,
        ty: &Type,
        what: &str,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        if value.is_null() {
            let message = format!("{what} must be a {ty}, but this is null");
            let help = "give a value in its place, such as with `coalesce(…, default)`";
            return Err(self.problem(Code::NullValue, message, expression).help(help));
        }
        convert(value, ty).map_err(|mismatch| self.mismatch(&mismatch, value, ty, what, expression))
    }

    fn mismatch(
        &self,
        mismatch: &Mismatch,
        value: &Value,
        ty: &Type,
        what: &str,
        expression: &Expression,
    ) -> Problem {
        if mismatch.fault == Misfit::TooManyDigits {
            return self.number_problem(NumberError::TooLarge, expression);
        }
        let got = match value.as_str() {
            Some(text) if !value.is_sensitive() => format!("the text {}", excerpt(text)),
            _ => format!("a {}", value.kind_word()),
        };
        let message = format!("{what} must be a {ty}, but this is {got}");
        let problem = self.problem(Code::TypeMismatch, message, expression);
        match (ty, value.kind_word()) {
            (Type::String, "list" | "set" | "tuple") => {
                problem.help("make it text by `join(\", \", …)` or `jsonencode(…)`")
            }
            (Type::String, "map" | "object") => problem.help("make it text by `jsonencode(…)`"),
            _ => problem,
        }
    }

    pub(super) fn number_problem(&self, error: NumberError, expression: &Expression) -> Problem {
        let code = match error {
            NumberError::DivisionByZero => Code::DivisionByZero,
            NumberError::TooLarge => Code::NumberTooLarge,
            NumberError::NotDecimal => Code::TypeMismatch,
        };
        self.problem(code, error.to_string(), expression)
    }

    pub(super) fn problem(
        &self,
        code: Code,
        message: impl Into<String>,
        expression: &Expression,
    ) -> Problem {
        self.problem_at(code, message, expression.span().unwrap_or_default())
    }

    pub(super) fn problem_at(
        &self,
        code: Code,
        message: impl Into<String>,
        range: Range<usize>,
    ) -> Problem {
        Problem::error(code, message).at(self.at.span(range))
    }
}
