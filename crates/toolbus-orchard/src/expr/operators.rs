//! Arithmetic, comparison and logic.

use hcl_edit::Span as _;
use hcl_edit::expr::{BinaryOp, BinaryOperator, Expression, UnaryOp, UnaryOperator};

use super::eval::Evaluator;
use crate::diagnostic::Problem;
use crate::value::{Number, NumberError, Type, Value};

impl Evaluator<'_> {
    pub(super) fn unary(&mut self, op: &UnaryOp) -> Result<Value, Problem> {
        let operand = self.value(&op.expr)?;
        let (ty, what) = match op.operator.value() {
            UnaryOperator::Neg => (Type::Number, "what stands behind `-`"),
            UnaryOperator::Not => (Type::Bool, "what stands behind `!`"),
        };
        let operand = self.converted(&operand, &ty, what, &op.expr)?;
        let taint = operand.is_sensitive();
        let value = match (operand.as_number(), operand.as_bool()) {
            (Some(number), _) => {
                let negated = number.negated();
                Value::number(negated.map_err(|error| self.number_problem(error, &op.expr))?)
            }
            (_, Some(bool)) => Value::bool(!bool),
            _ => Value::unknown(ty),
        };
        Ok(value.with_sensitive(taint))
    }

    pub(super) fn binary(&mut self, op: &BinaryOp) -> Result<Value, Problem> {
        use BinaryOperator as Op;
        match op.operator.value() {
            Op::And | Op::Or => self.logic(op),
            Op::Eq | Op::NotEq => self.equality(op),
            Op::Less | Op::LessEq | Op::Greater | Op::GreaterEq => self.comparison(op),
            Op::Plus | Op::Minus | Op::Mul | Op::Div | Op::Mod => self.arithmetic(op),
        }
    }

    /// The right side is only looked at if the left one has not decided.
    fn logic(&mut self, op: &BinaryOp) -> Result<Value, Problem> {
        let decides = *op.operator.value() == BinaryOperator::Or;
        let left = self.value(&op.lhs_expr)?;
        let left = self.operand(&left, &Type::Bool, op, &op.lhs_expr)?;
        let taint = left.is_sensitive();
        if left.as_bool() == Some(decides) {
            return Ok(Value::bool(decides).with_sensitive(taint));
        }
        let right = self
            .value(&op.rhs_expr)
            .and_then(|right| self.operand(&right, &Type::Bool, op, &op.rhs_expr));
        let right = match right {
            // The run may never come to the right side, so it may be wrong.
            Err(problem) if !left.is_unknown() || self.is_exhausted() => return Err(problem),
            Err(_) => Value::unknown(Type::Bool),
            Ok(right) => right,
        };
        let taint = taint || right.is_sensitive();
        let value = match (left.as_bool(), right.as_bool()) {
            (Some(_), Some(right)) => Value::bool(right),
            _ => Value::unknown(Type::Bool),
        };
        Ok(value.with_sensitive(taint))
    }

    /// Nothing is converted: `1 == "1"` is false.
    fn equality(&mut self, op: &BinaryOp) -> Result<Value, Problem> {
        let left = self.value(&op.lhs_expr)?;
        let right = self.value(&op.rhs_expr)?;
        let taint = left.contains_sensitive() || right.contains_sensitive();
        if left.contains_unknown() || right.contains_unknown() {
            return Ok(Value::unknown(Type::Bool).with_sensitive(taint));
        }
        self.look_through(&left, &op.lhs_expr)?;
        let is_equal = left == right;
        let wants_equal = *op.operator.value() == BinaryOperator::Eq;
        Ok(Value::bool(is_equal == wants_equal).with_sensitive(taint))
    }

    fn comparison(&mut self, op: &BinaryOp) -> Result<Value, Problem> {
        use BinaryOperator as Op;
        let (left, right, taint) = self.numbers(op)?;
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(Value::unknown(Type::Bool).with_sensitive(taint));
        };
        let holds = match op.operator.value() {
            Op::Less => left < right,
            Op::LessEq => left <= right,
            Op::Greater => right < left,
            _ => right <= left,
        };
        Ok(Value::bool(holds).with_sensitive(taint))
    }

    fn arithmetic(&mut self, op: &BinaryOp) -> Result<Value, Problem> {
        use BinaryOperator as Op;
        let operator = *op.operator.value();
        let (left, right, taint) = self.numbers(op)?;
        let is_division = matches!(operator, Op::Div | Op::Mod);
        if is_division && right == Some(Number::ZERO) {
            let problem = self.number_problem(NumberError::DivisionByZero, &op.rhs_expr);
            return Err(problem.help("test the right side first: `x == 0 ? … : … / x`"));
        }
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(Value::unknown(Type::Number).with_sensitive(taint));
        };
        let result = match operator {
            Op::Plus => left.plus(right),
            Op::Minus => left.minus(right),
            Op::Mul => left.times(right),
            Op::Div => left.divided_by(right),
            _ => left.modulo(right),
        };
        let range = span_of(op);
        match result {
            Ok(number) => Ok(Value::number(number).with_sensitive(taint)),
            Err(error) => Err(self.number_problem(error, &op.lhs_expr).at(self.at.span(range))),
        }
    }

    /// Both sides as numbers, `None` where one is unknown, and whether the result is sensitive.
    fn numbers(
        &mut self,
        op: &BinaryOp,
    ) -> Result<(Option<Number>, Option<Number>, bool), Problem> {
        let left = self.value(&op.lhs_expr)?;
        let right = self.value(&op.rhs_expr)?;
        let left = self.operand(&left, &Type::Number, op, &op.lhs_expr)?;
        let right = self.operand(&right, &Type::Number, op, &op.rhs_expr)?;
        let taint = left.is_sensitive() || right.is_sensitive();
        Ok((left.as_number(), right.as_number(), taint))
    }

    fn operand(
        &self,
        value: &Value,
        ty: &Type,
        op: &BinaryOp,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        let operator = op.operator.value().as_str();
        let is_left = std::ptr::eq(expression, &op.lhs_expr);
        let side = if is_left { "left" } else { "right" };
        let problem = match self.converted(value, ty, "", expression) {
            Ok(value) => return Ok(value),
            Err(problem) => problem,
        };
        let message = format!("the {side} side of `{operator}`{}", problem.message);
        let is_sum_of_text = operator == "+" && value.as_str().is_some();
        let problem = Problem { message, ..problem };
        Err(match is_sum_of_text {
            true => problem.help("to put texts together write \"${one}${two}\""),
            false => problem,
        })
    }
}

fn span_of(op: &BinaryOp) -> std::ops::Range<usize> {
    let start = op.lhs_expr.span().unwrap_or_default().start;
    start..op.rhs_expr.span().unwrap_or_default().end.max(start)
}
