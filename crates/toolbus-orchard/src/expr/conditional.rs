//! `condition ? one : other`.

use hcl_edit::expr::Conditional;

use super::eval::Evaluator;
use crate::diagnostic::{Code, Problem};
use crate::value::{Type, Value, convert, unify};

impl Evaluator<'_> {
    /// Both branches are evaluated, since the one not taken lends its type; what goes wrong in
    /// it does not count.
    pub(super) fn conditional(&mut self, conditional: &Conditional) -> Result<Value, Problem> {
        let condition = self.value(&conditional.cond_expr)?;
        let what = "the condition";
        let condition = self.converted(&condition, &Type::Bool, what, &conditional.cond_expr)?;
        let taint = condition.is_sensitive();
        let one = self.value(&conditional.true_expr);
        if self.is_exhausted() {
            return one;
        }
        let two = self.value(&conditional.false_expr);
        if self.is_exhausted() {
            return two;
        }
        for (result, expression) in
            [(&one, &conditional.true_expr), (&two, &conditional.false_expr)]
        {
            if let Ok(value) = result {
                self.look_through(value, expression)?;
            }
        }
        let value = match (condition.as_bool(), one, two) {
            (Some(true), one, Err(_)) => one?,
            (Some(false), Err(_), two) => two?,
            (Some(true), Err(problem), Ok(_)) | (Some(false), Ok(_), Err(problem)) => {
                return Err(problem);
            }
            (Some(is_true), Ok(one), Ok(two)) => {
                let (taken, other) = if is_true { (one, two) } else { (two, one) };
                branch(taken, &other).ok_or_else(|| self.branches_differ(conditional))?
            }
            (None, Err(problem), Err(_)) => return Err(problem),
            // One of them may still turn out not to be wanted.
            (None, Ok(known), Err(_)) | (None, Err(_), Ok(known)) => {
                Value::unknown(known.ty()).with_sensitive(known.contains_sensitive())
            }
            (None, Ok(one), Ok(two)) => {
                let taint = one.contains_sensitive() || two.contains_sensitive();
                let ty = either(&one, &two).ok_or_else(|| self.branches_differ(conditional))?;
                Value::unknown(ty).with_sensitive(taint)
            }
        };
        Ok(value.with_sensitive(taint))
    }

    fn branches_differ(&self, conditional: &Conditional) -> Problem {
        let message = "the two results of this condition are of different kinds";
        let span = |expression| self.problem(Code::TypeMismatch, "", expression).span;
        let mut problem = self.problem(Code::TypeMismatch, message, &conditional.false_expr);
        problem.labels = span(&conditional.true_expr)
            .map(|span| (span, "the other result is here".to_owned()))
            .into_iter()
            .collect();
        problem.help("make both of one kind: `tostring(…)`, `[]`, `{}` or `null`")
    }
}

/// The value that was taken, brought to the type that both branches share.
fn branch(taken: Value, other: &Value) -> Option<Value> {
    if taken.is_null() || other.is_null() {
        return Some(taken);
    }
    let (one, two) = (taken.ty(), other.ty());
    if one == Type::Any || two == Type::Any || one == two {
        return Some(taken);
    }
    unify(&one, &two).and_then(|ty| convert(&taken, &ty).ok())
}

/// The type of a value that is one of the two.
fn either(one: &Value, two: &Value) -> Option<Type> {
    if one.is_null() || two.is_null() {
        return Some(if one.is_null() { two.ty() } else { one.ty() });
    }
    let (one, two) = (one.ty(), two.ty());
    if one == Type::Any || two == Type::Any {
        return Some(Type::Any);
    }
    unify(&one, &two)
}
