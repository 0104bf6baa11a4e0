//! Parts of values: `.name`, `[index]`, and splats that take the same part of every element.

use std::ops::Range;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, Traversal, TraversalOperator};
use hcl_edit::repr::Decorated;

use super::eval::Evaluator;
use super::reference::leading;
use crate::diagnostic::{Code, Problem, excerpt};
use crate::value::{Kind, Number, Type, Value, convert, unify_all};

type Operators = [Decorated<TraversalOperator>];

impl Evaluator<'_> {
    pub(super) fn traversal(&mut self, traversal: &Traversal) -> Result<Value, Problem> {
        let (value, taken) = match leading(traversal) {
            Some((reference, _)) => {
                let resolved = self.reference(&reference)?;
                (resolved.value, resolved.steps)
            }
            None => (self.value(&traversal.expr)?, 0),
        };
        let rest = traversal.operators.get(taken..).unwrap_or_default();
        self.follow(value, rest, &traversal.expr)
    }

    /// Takes the steps one after the other.
    fn follow(
        &mut self,
        mut value: Value,
        operators: &Operators,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        let mut rest = operators;
        while let Some((operator, behind)) = rest.split_first() {
            self.step(1, expression)?;
            let range = operator.span().unwrap_or_default();
            rest = behind;
            value = match operator.value() {
                TraversalOperator::GetAttr(name) => self.attribute(&value, name.as_str(), range)?,
                TraversalOperator::LegacyIndex(index) => {
                    let key = Value::number(*index.value());
                    self.element(&value, &key, range)?
                }
                TraversalOperator::Index(index) => {
                    let key = self.value(index)?;
                    self.element(&value, &key, range)?
                }
                TraversalOperator::FullSplat(_) => {
                    // All that follows is done with each element.
                    return self.splat(&value, rest, expression);
                }
                TraversalOperator::AttrSplat(_) => {
                    let names = rest.iter().take_while(|operator| is_dotted(operator)).count();
                    let (each, behind) = rest.split_at(names);
                    rest = behind;
                    self.splat(&value, each, expression)?
                }
            };
        }
        Ok(value)
    }

    fn splat(
        &mut self,
        value: &Value,
        each: &Operators,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        let taint = value.is_sensitive();
        self.look_through(value, expression)?;
        let splatted = match value.kind() {
            Kind::Null => Value::tuple(Vec::new()),
            Kind::List(all) | Kind::Set(all) | Kind::Tuple(all) => {
                let one = |element: &Value| self.follow(element.clone(), each, expression);
                let parts: Vec<Value> = all.items().iter().map(one).collect::<Result<_, _>>()?;
                let first = parts.first().map(Value::ty);
                let is_tuple = matches!(value.kind(), Kind::Tuple(_));
                match first.filter(|ty| !is_tuple && parts.iter().all(|part| part.ty() == *ty)) {
                    Some(element) => Value::list(element, parts),
                    None => Value::tuple(parts),
                }
            }
            Kind::Unknown(ty) => self.splat_of_unknown(ty, each, expression)?,
            _ => Value::tuple(vec![self.follow(value.clone(), each, expression)?]),
        };
        Ok(splatted.with_sensitive(taint))
    }

    fn splat_of_unknown(
        &mut self,
        ty: &Type,
        each: &Operators,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        let mut one = |ty: &Type| self.follow(Value::unknown(ty.clone()), each, expression);
        let of = |element: Value| Value::unknown(Type::List(Box::new(element.ty())));
        match ty {
            Type::Any => Ok(Value::unknown(Type::Any)),
            Type::Tuple(types) => {
                Ok(Value::tuple(types.iter().map(one).collect::<Result<_, _>>()?))
            }
            Type::List(element) | Type::Set(element) => one(element).map(of),
            ty => one(ty).map(of),
        }
    }

    fn attribute(&self, value: &Value, name: &str, range: Range<usize>) -> Result<Value, Problem> {
        let missing = || {
            let message = format!("there is no attribute `{name}` in this {}", value.kind_word());
            self.problem_at(Code::BadIndex, message, range.clone())
        };
        let part = match value.kind() {
            Kind::Null => return Err(self.part_of_null(&format!("`.{name}`"), range)),
            Kind::Map(members) | Kind::Object(members) => match members.items().get(name) {
                Some(part) => part.clone(),
                None => return Err(self.known_members(missing(), value, name)),
            },
            Kind::Unknown(ty) => match &**ty {
                Type::Any => Value::unknown(Type::Any),
                Type::Map(element) => Value::unknown((**element).clone()),
                Type::Object(fields) => match fields.get(name) {
                    Some(field) => Value::unknown(field.ty.clone()),
                    None => {
                        return Err(missing().meant(name, fields.keys().map(String::as_str)));
                    }
                },
                _ => return Err(missing()),
            },
            Kind::List(_) | Kind::Tuple(_) | Kind::Set(_) => {
                let help = format!("to take it of every element write `[*].{name}`");
                return Err(missing().help(help));
            }
            _ => return Err(missing()),
        };
        Ok(part.with_sensitive(value.is_sensitive()))
    }

    /// `value[key]`.
    fn element(&self, value: &Value, key: &Value, range: Range<usize>) -> Result<Value, Problem> {
        if value.is_null() {
            return Err(self.part_of_null("an element", range));
        }
        if key.is_null() {
            let message = "the index is null";
            return Err(self.problem_at(Code::NullValue, message, range));
        }
        let taint = value.is_sensitive() || key.contains_sensitive();
        let part = match value.kind() {
            Kind::List(all) | Kind::Tuple(all) => {
                match self.key(key, &Type::Number, &range)?.as_number() {
                    Some(index) => self.at_index(all.items(), index, taint, range)?,
                    None => unknown_part(value),
                }
            }
            Kind::Map(members) | Kind::Object(members) => {
                let key = self.key(key, &Type::String, &range)?;
                match key.as_str() {
                    Some(name) => match members.items().get(name) {
                        Some(part) => part.clone(),
                        None => return Err(self.missing_key(value, &key, name, range)),
                    },
                    None => unknown_part(value),
                }
            }
            Kind::Unknown(ty) => self.unknown_element(ty, key, range)?,
            _ => {
                let message = format!("a {} has no elements to choose from", value.kind_word());
                let problem = self.problem_at(Code::BadIndex, message, range);
                return Err(match value.kind() {
                    Kind::Set(_) => problem.help("a set has no order; make it a list: `tolist(…)`"),
                    _ => problem,
                });
            }
        };
        Ok(part.with_sensitive(taint))
    }

    fn at_index(
        &self,
        elements: &[Value],
        index: Number,
        taint: bool,
        range: Range<usize>,
    ) -> Result<Value, Problem> {
        let found = index.index().and_then(|index| elements.get(index));
        found.cloned().ok_or_else(|| {
            let count = elements.len();
            if taint {
                return self.problem_at(Code::BadIndex, "there is no such element", range);
            }
            let message = format!("there is no element {index}: the list has {count}");
            let problem = self.problem_at(Code::BadIndex, message, range);
            match (count, index < Number::ZERO) {
                (0, _) => problem.help("the list is empty"),
                (_, true) => problem.help("the last element is `element(list, -1)`"),
                (_, false) => problem.help(format!("indexes go from 0 to {}", count - 1)),
            }
        })
    }

    fn missing_key(&self, value: &Value, key: &Value, name: &str, range: Range<usize>) -> Problem {
        if key.is_sensitive() || value.is_sensitive() {
            return self.problem_at(Code::BadIndex, "there is no such key", range);
        }
        let message = format!("there is no key {} in this {}", excerpt(name), value.kind_word());
        self.known_members(self.problem_at(Code::BadIndex, message, range), value, name)
    }

    /// With what was probably meant, or else what there is.
    fn known_members(&self, problem: Problem, value: &Value, name: &str) -> Problem {
        let Some(members) = value.members().filter(|_| !value.is_sensitive()) else {
            return problem;
        };
        let problem = problem.meant(name, members.keys().map(String::as_str));
        if problem.help.is_some() || members.is_empty() {
            return problem;
        }
        let named = members.keys().filter(|name| name.len() <= 60).take(10);
        let mut there: Vec<&str> = named.map(String::as_str).collect();
        if there.len() < members.len() {
            there.push("…");
        }
        problem.help(format!("there are: {}", there.join(", ")))
    }

    fn unknown_element(
        &self,
        ty: &Type,
        key: &Value,
        range: Range<usize>,
    ) -> Result<Value, Problem> {
        let no_elements = |evaluator: &Self, message: String, range| {
            Err(evaluator.problem_at(Code::BadIndex, message, range))
        };
        let part = match ty {
            Type::Any => Type::Any,
            Type::List(element) => {
                self.key(key, &Type::Number, &range)?;
                (**element).clone()
            }
            Type::Map(element) => {
                self.key(key, &Type::String, &range)?;
                (**element).clone()
            }
            Type::Tuple(types) => match self.key(key, &Type::Number, &range)?.as_number() {
                Some(index) => match index.index().and_then(|index| types.get(index)) {
                    Some(ty) => ty.clone(),
                    None => {
                        let message = match key.is_sensitive() {
                            true => "there is no such element".to_owned(),
                            false => {
                                format!("there is no element {index}: the list has {}", types.len())
                            }
                        };
                        return no_elements(self, message, range);
                    }
                },
                None => Type::Any,
            },
            Type::Object(fields) => match self.key(key, &Type::String, &range)?.as_str() {
                Some(name) => match fields.get(name) {
                    Some(field) => field.ty.clone(),
                    None => {
                        let message = match key.is_sensitive() {
                            true => "there is no such key".to_owned(),
                            false => format!("there is no key {} in this object", excerpt(name)),
                        };
                        return no_elements(self, message, range);
                    }
                },
                None => Type::Any,
            },
            ty => {
                let word = crate::value::kind_word(ty);
                let message = format!("a {word} has no elements to choose from");
                return no_elements(self, message, range);
            }
        };
        Ok(Value::unknown(part))
    }

    fn key(&self, key: &Value, ty: &Type, range: &Range<usize>) -> Result<Value, Problem> {
        convert(key, ty).map_err(|_| {
            let message = format!("the index must be a {ty}, but this is a {}", key.kind_word());
            self.problem_at(Code::TypeMismatch, message, range.clone())
        })
    }

    fn part_of_null(&self, part: &str, range: Range<usize>) -> Problem {
        let message = format!("{part} cannot be taken of null");
        let help = "test it first: `x == null ? … : …`, or `try(…, default)`";
        self.problem_at(Code::NullValue, message, range).help(help)
    }
}

/// A part, but which one only the run will tell.
fn unknown_part(value: &Value) -> Value {
    let all: Vec<Type> = match (value.elements(), value.members()) {
        (Some(elements), _) => elements.iter().map(Value::ty).collect(),
        (_, Some(members)) => members.values().map(Value::ty).collect(),
        _ => Vec::new(),
    };
    let ty = unify_all(&all).unwrap_or(Type::Any);
    Value::unknown(ty).with_sensitive(value.contains_sensitive())
}

/// May it follow `.*` to be done with each element?
fn is_dotted(operator: &Decorated<TraversalOperator>) -> bool {
    matches!(operator.value(), TraversalOperator::GetAttr(_) | TraversalOperator::LegacyIndex(_))
}
