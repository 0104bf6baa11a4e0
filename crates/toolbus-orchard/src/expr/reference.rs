//! What an expression refers to, found without evaluating it.

use std::ops::Range;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, Traversal, TraversalOperator};
use hcl_edit::template::{Directive, Element, Template};

/// A name and the steps behind it that stand there literally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The first name: `var`, `local`, `action` …
    pub root: String,
    /// `.name`, `["name"]` and `[0]`, as far as they need no evaluation.
    pub path: Vec<Step>,
    /// Where it stands, root and path, in bytes from the beginning of the file.
    pub span: Range<usize>,
    /// Where its root stands.
    pub root_span: Range<usize>,
}

impl Reference {
    /// The name of the step at this place, if it is one.
    pub fn name(&self, at: usize) -> Option<&str> {
        match self.path.get(at)?.key {
            Key::Name(ref name) => Some(name),
            Key::Index(_) => None,
        }
    }

    /// Where the root and the first so many steps stand.
    pub fn span_of(&self, steps: usize) -> Range<usize> {
        let end = match steps {
            0 => self.root_span.end,
            _ => self.path.get(steps - 1).map_or(self.span.end, |step| step.span.end),
        };
        self.span.start..end
    }
}

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which part.
    pub key: Key,
    /// Where it stands, with its dot or brackets.
    pub span: Range<usize>,
}

/// Which part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// `.name` or `["name"]`.
    Name(String),
    /// `[0]` or `.0`.
    Index(u64),
}

/// All that an expression refers to, in the order of the text; names that a `for` inside it
/// makes are not among them.
pub fn references(expression: &Expression) -> Vec<Reference> {
    let mut finder = Finder { found: Vec::new(), bound: Vec::new() };
    finder.expression(expression);
    finder.found
}

/// The reference that a traversal begins with, and how many of its operators are in it.
pub(super) fn leading(traversal: &Traversal) -> Option<(Reference, usize)> {
    let Expression::Variable(root) = &traversal.expr else { return None };
    let mut reference = rooted(root.as_str(), root.span());
    for operator in &traversal.operators {
        let Some(key) = literal(operator.value()) else { break };
        let span = operator.span().unwrap_or(reference.span.clone());
        reference.span.end = span.end;
        reference.path.push(Step { key, span });
    }
    let count = reference.path.len();
    Some((reference, count))
}

/// A root on its own.
pub(super) fn rooted(root: &str, span: Option<Range<usize>>) -> Reference {
    let span = span.unwrap_or_default();
    Reference { root: root.to_owned(), path: Vec::new(), span: span.clone(), root_span: span }
}

fn literal(operator: &TraversalOperator) -> Option<Key> {
    match operator {
        TraversalOperator::GetAttr(name) => Some(Key::Name(name.as_str().to_owned())),
        TraversalOperator::LegacyIndex(index) => Some(Key::Index(*index.value())),
        TraversalOperator::Index(Expression::String(name)) => Some(Key::Name(name.value().clone())),
        TraversalOperator::Index(Expression::Number(index)) => {
            let text = index.as_repr()?.to_string();
            text.parse().ok().map(Key::Index)
        }
        _ => None,
    }
}

struct Finder {
    found: Vec<Reference>,
    /// Names of the `for`s that enclose the place.
    bound: Vec<String>,
}

impl Finder {
    fn add(&mut self, reference: Reference) {
        if !self.bound.contains(&reference.root) {
            self.found.push(reference);
        }
    }

    fn expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Null(_)
            | Expression::Bool(_)
            | Expression::Number(_)
            | Expression::String(_) => {}
            Expression::Array(array) => array.iter().for_each(|element| self.expression(element)),
            Expression::Object(object) => {
                for (key, value) in object {
                    if let Some(key) = key.as_expr() {
                        self.expression(key);
                    }
                    self.expression(value.expr());
                }
            }
            Expression::StringTemplate(template) => {
                template.iter().for_each(|element| self.element(element));
            }
            Expression::HeredocTemplate(heredoc) => self.template(&heredoc.template),
            Expression::Parenthesis(inner) => self.expression(inner.inner()),
            Expression::Variable(name) => self.add(rooted(name.as_str(), name.span())),
            Expression::Conditional(conditional) => {
                self.expression(&conditional.cond_expr);
                self.expression(&conditional.true_expr);
                self.expression(&conditional.false_expr);
            }
            Expression::FuncCall(call) => call.args.iter().for_each(|arg| self.expression(arg)),
            Expression::Traversal(traversal) => self.traversal(traversal),
            Expression::UnaryOp(op) => self.expression(&op.expr),
            Expression::BinaryOp(op) => {
                self.expression(&op.lhs_expr);
                self.expression(&op.rhs_expr);
            }
            Expression::ForExpr(each) => {
                self.expression(&each.intro.collection_expr);
                let names = [each.intro.key_var.as_ref(), Some(&each.intro.value_var)];
                self.bind(names.into_iter().flatten().map(|name| name.as_str()), |finder| {
                    if let Some(key) = &each.key_expr {
                        finder.expression(key);
                    }
                    finder.expression(&each.value_expr);
                    if let Some(cond) = &each.cond {
                        finder.expression(&cond.expr);
                    }
                });
            }
        }
    }

    fn traversal(&mut self, traversal: &Traversal) {
        let taken = match leading(traversal) {
            Some((reference, taken)) => {
                self.add(reference);
                taken
            }
            None => {
                self.expression(&traversal.expr);
                0
            }
        };
        for operator in traversal.operators.iter().skip(taken) {
            if let TraversalOperator::Index(index) = operator.value() {
                self.expression(index);
            }
        }
    }

    fn template(&mut self, template: &Template) {
        template.iter().for_each(|element| self.element(element));
    }

    fn element(&mut self, element: &Element) {
        match element {
            Element::Literal(_) => {}
            Element::Interpolation(interpolation) => self.expression(&interpolation.expr),
            Element::Directive(directive) => match &**directive {
                Directive::If(choice) => {
                    self.expression(&choice.if_expr.cond_expr);
                    self.template(&choice.if_expr.template);
                    if let Some(other) = &choice.else_expr {
                        self.template(&other.template);
                    }
                }
                Directive::For(each) => {
                    let each = &each.for_expr;
                    self.expression(&each.collection_expr);
                    let names = [each.key_var.as_ref(), Some(&each.value_var)];
                    self.bind(names.into_iter().flatten().map(|name| name.as_str()), |finder| {
                        finder.template(&each.template);
                    });
                }
            },
        }
    }

    fn bind<'a>(&mut self, names: impl Iterator<Item = &'a str>, inside: impl FnOnce(&mut Self)) {
        let outside = self.bound.len();
        self.bound.extend(names.map(str::to_owned));
        inside(self);
        self.bound.truncate(outside);
    }
}
