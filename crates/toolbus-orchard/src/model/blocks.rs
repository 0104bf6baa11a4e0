//! The blocks that make nodes: actions and included components, with what stands inside them.

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, TraversalOperator};
use hcl_edit::structure::Block;
use toolbus_proto::orchard::types::Type;

use super::fields::{Fields, Labelled, Reader};
use super::grammar::{self, IN_ACTION, IN_LIFECYCLE, names};
use super::{Action, Attribute, Dependency, DependencyKind, Expr, ProviderName, Retry, Teardown};
use crate::diagnostic::{Code, Problem, Span};

/// A component block as it is written, its file not yet read.
pub(super) struct Included {
    pub(super) labels: Labelled,
    /// Where its file is, relative to the file of the block.
    pub(super) source: Option<(String, Span)>,
    pub(super) inputs: Option<Expr>,
    pub(super) for_each: Option<Expr>,
    pub(super) depends_on: Vec<Dependency>,
}

impl Reader<'_> {
    pub(super) fn action(&mut self, block: Block) -> Option<Action> {
        let Labelled { labels, header, mut fields } = self.labelled(block, &["TYPE", "NAME"])?;
        let [ty, name] = <[_; 2]>::try_from(labels).ok()?;
        let [depends_on, provider, for_each] = OURS.map(|name| fields.take(name));
        let depends_on = self.depends_on(depends_on);
        let provider = provider.and_then(|attribute| self.provider_name(&attribute));
        let for_each = for_each.map(|attribute| attribute.value);
        let (mut retry, mut timeout, mut teardown) = (None, None, None);
        let mut seen: Vec<(String, Span)> = Vec::new();
        for block in std::mem::take(&mut fields.blocks) {
            let kind = block.ident.as_str().to_owned();
            if !IN_ACTION.contains(&&*kind) {
                self.unknown_block("an action", &block, &IN_ACTION, &OURS);
                continue;
            }
            let again = self.header(&block);
            if let Some((_, first)) = seen.iter().find(|(seen, _)| *seen == kind) {
                self.duplicate(&format!("the block `{kind}`"), again, first.clone());
                continue;
            }
            seen.push((kind.clone(), again));
            match &*kind {
                "retry" => retry = self.retry(block),
                _ => (timeout, teardown) = self.lifecycle(block),
            }
        }
        let attrs = fields.attributes;
        Some(Action {
            ty,
            name,
            header,
            attrs,
            provider,
            for_each,
            depends_on,
            retry,
            timeout,
            teardown,
        })
    }

    fn retry(&mut self, block: Block) -> Option<Retry> {
        const KNOWN: [&str; 4] = names(&grammar::RETRY);
        let Labelled { header, mut fields, .. } = self.labelled(block, &[])?;
        let [attempts, delay, backoff, on] = KNOWN.map(|name| fields.take(name));
        if attempts.is_none() {
            let problem =
                Problem::error(Code::MissingAttribute, "`retry` needs the attribute `attempts`");
            let help = "how often the action is tried in all, e.g. `attempts = 3`";
            self.problems.push(problem.at(header.clone()).help(help));
        }
        self.nothing_else("`retry`", fields, &KNOWN, &[]);
        Some(Retry { header, attempts, delay, backoff, on })
    }

    fn lifecycle(&mut self, block: Block) -> (Option<Attribute>, Option<Teardown>) {
        let Some(Labelled { mut fields, .. }) = self.labelled(block, &[]) else {
            return (None, None);
        };
        const KNOWN: [&str; 1] = names(&grammar::LIFECYCLE);
        let [timeout] = KNOWN.map(|name| fields.take(name));
        let mut teardown: Option<Teardown> = None;
        let (teardowns, others) =
            fields.blocks.into_iter().partition(|block| block.ident.as_str() == "teardown");
        fields.blocks = others;
        let teardowns: Vec<Block> = teardowns;
        for block in teardowns {
            let Some(Labelled { header, fields, .. }) = self.labelled(block, &[]) else { continue };
            if let Some(first) = &teardown {
                self.duplicate("the block `teardown`", header, first.header.clone());
                continue;
            }
            let Fields { attributes, blocks } = fields;
            for block in &blocks {
                self.unknown_block("`teardown`", block, &[], &[]);
            }
            teardown = Some(Teardown { header, attrs: attributes });
        }
        self.nothing_else("`lifecycle`", fields, &KNOWN, &IN_LIFECYCLE);
        (timeout, teardown)
    }

    pub(super) fn included(&mut self, block: Block) -> Option<Included> {
        const KNOWN: [&str; 4] = names(&grammar::COMPONENT);
        let mut labels = self.labelled(block, &["TYPE", "NAME"])?;
        let fields = &mut labels.fields;
        let [source, inputs, for_each, depends_on] = KNOWN.map(|name| fields.take(name));
        if source.is_none() {
            let problem =
                Problem::error(Code::MissingAttribute, "a component needs the attribute `source`");
            let help = "the path of its file, relative to this one";
            self.problems.push(problem.at(labels.header.clone()).help(help));
        }
        let source = source.and_then(|attribute| {
            let value = self.constant(&attribute, &Type::String)?;
            Some((value.as_str()?.to_owned(), attribute.value.span))
        });
        let depends_on = self.depends_on(depends_on);
        let left = Fields {
            attributes: std::mem::take(&mut fields.attributes),
            blocks: std::mem::take(&mut fields.blocks),
        };
        self.nothing_else("a component", left, &KNOWN, &[]);
        let [inputs, for_each] = [inputs, for_each].map(|it| it.map(|attribute| attribute.value));
        Some(Included { labels, source, inputs, for_each, depends_on })
    }

    /// `[action.T.N, component.T.I]`.
    fn depends_on(&mut self, attribute: Option<Attribute>) -> Vec<Dependency> {
        let Some(Attribute { value, .. }) = attribute else { return Vec::new() };
        let Expression::Array(array) = &value.expression else {
            let message = "`depends_on` takes a list of references";
            let problem = Problem::error(Code::TypeMismatch, message).at(value.span);
            self.problems.push(problem.help("such as `[action.echo.first, component.greeter.g]`"));
            return Vec::new();
        };
        let mut dependencies = Vec::new();
        for element in array {
            let span = self.span(element.span());
            match dependency(element) {
                Some((kind, ty, name)) => dependencies.push(Dependency { kind, ty, name, span }),
                None => {
                    let message = "`depends_on` takes `action.TYPE.NAME` and `component.TYPE.NAME`";
                    self.problem(Code::UnknownReference, span, message);
                }
            }
        }
        dependencies
    }

    /// `stripe`, `"stripe"` or `stripe.alias`.
    fn provider_name(&mut self, attribute: &Attribute) -> Option<ProviderName> {
        let span = attribute.value.span.clone();
        let split = |text: &str| match text.split_once('.') {
            Some((name, alias)) => (name.to_owned(), Some(alias.to_owned())),
            None => (text.to_owned(), None),
        };
        let named = match &attribute.value.expression {
            Expression::Variable(name) => Some((name.as_str().to_owned(), None)),
            Expression::String(text) => Some(split(text.as_str())),
            Expression::Traversal(traversal) => match (&traversal.expr, &traversal.operators[..]) {
                (Expression::Variable(name), [alias]) => match alias.value() {
                    TraversalOperator::GetAttr(alias) => {
                        Some((name.as_str().to_owned(), Some(alias.as_str().to_owned())))
                    }
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        match named {
            Some((name, alias)) => Some(ProviderName { name, alias, span }),
            None => {
                let problem = Problem::error(
                    Code::UnknownProvider,
                    "`provider` takes the name of a provider",
                );
                let help = "such as `stripe`, or `stripe.test` for the alias `test`";
                self.problems.push(problem.at(span).help(help));
                None
            }
        }
    }
}

/// What in an action is always ours.
pub(super) const OURS: [&str; 3] = {
    let [depends_on, provider, for_each, ..] = names(&grammar::ACTION);
    [depends_on, provider, for_each]
};

/// What in an action is ours if its schema does not list it.
pub(crate) const MAYBE_OURS: [&str; 2] = {
    let [.., timeout, idempotent] = names(&grammar::ACTION);
    [timeout, idempotent]
};

fn dependency(element: &Expression) -> Option<(DependencyKind, String, String)> {
    let Expression::Traversal(traversal) = element else { return None };
    let Expression::Variable(root) = &traversal.expr else { return None };
    let kind = match root.as_str() {
        "action" => DependencyKind::Action,
        "component" => DependencyKind::Component,
        _ => return None,
    };
    let [ty, name] = &traversal.operators[..] else { return None };
    let attr = |operator: &TraversalOperator| match operator {
        TraversalOperator::GetAttr(name) => Some(name.as_str().to_owned()),
        _ => None,
    };
    Some((kind, attr(ty)?, attr(name)?))
}
