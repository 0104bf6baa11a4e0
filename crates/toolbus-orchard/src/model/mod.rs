//! What stands in scenario and component files: blocks with their attributes and places, not yet
//! evaluated.
//!
//! [`load()`] reads a scenario with all components that it includes; everything that can be found
//! wrong without values and schemas is found here. [`plan`](crate::plan) makes values of it.

mod blocks;
mod check;
mod fields;
pub mod grammar;
mod load;
mod read;
mod syntax;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use hcl_edit::expr::{Expression, Traversal, TraversalOperator};
use hcl_edit::visit::{self, Visit};
use toolbus_proto::orchard::types::Type;

use crate::diagnostic::{Code, FileId, Problem, Span};
use crate::expr::{NoNames, Reference, Source, evaluate, references};
use crate::value::{Value, convert};

pub(crate) use blocks::MAYBE_OURS;
pub(crate) use check::{cycle_problem, missing_input, unknown_input};
pub use load::{Choice, Content, Loaded, load};
pub(crate) use read::key_span;
pub use syntax::parse_body;
pub(crate) use syntax::parse_expression;

/// A name and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// An expression, where it stands, and what it refers to.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What is to be evaluated.
    pub expression: Expression,
    /// Where it stands.
    pub span: Span,
    /// What it refers to, in the order of the text.
    pub uses: Vec<Use>,
}

/// One reference of an expression.
#[derive(Debug, Clone)]
pub struct Use {
    /// The name and the steps behind it that stand there literally.
    pub reference: Reference,
    /// The index behind them that has to be evaluated: `each.key` of `action.T.N[each.key]`.
    pub index: Option<Expression>,
}

impl Expr {
    /// The expression, which stands in this file.
    pub fn new(file: FileId, expression: Expression) -> Expr {
        let span = Span::new(file, hcl_edit::Span::span(&expression).unwrap_or_default());
        let mut uses: Vec<Use> = references(&expression)
            .into_iter()
            .map(|reference| Use { reference, index: None })
            .collect();
        if uses.iter().any(|it| matches!(&*it.reference.root, "action" | "component")) {
            Indexes(&mut uses).visit_expr(&expression);
        }
        Expr { expression, span, uses }
    }

    /// The file that it stands in, whose folder its paths are relative to.
    pub fn file(&self) -> FileId {
        self.span.file
    }

    /// Where a reference of it stands: the root and the first so many steps.
    pub fn place(&self, reference: &Reference, steps: usize) -> Span {
        Span::new(self.file(), reference.span_of(steps))
    }
}

/// Finds the indexes behind references.
struct Indexes<'a>(&'a mut [Use]);

impl Visit for Indexes<'_> {
    fn visit_traversal(&mut self, node: &Traversal) {
        if let Expression::Variable(root) = &node.expr
            && let Some(at) = hcl_edit::Span::span(root).map(|span| span.start)
            && let Some(found) = self.0.iter_mut().find(|it| it.reference.root_span.start == at)
            && let Some(operator) = node.operators.get(found.reference.path.len())
            && let TraversalOperator::Index(index) = operator.value()
        {
            found.index = Some(index.clone());
        }
        visit::visit_traversal(self, node);
    }
}

/// `name = value`.
#[derive(Debug, Clone)]
pub struct Attribute {
    /// The name.
    pub name: Name,
    /// The value.
    pub value: Expr,
}

/// `scenario "NAME" { … }`.
#[derive(Debug)]
pub struct Scenario {
    /// What it is for, for people.
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The providers it uses, in file order.
    pub required_providers: Vec<RequiredProvider>,
    /// What they are configured with, in file order.
    pub provider_configs: Vec<ProviderConfig>,
    /// Everything else.
    pub body: Rc<Body>,
}

/// `component "NAME" { … }` in a file of its own.
#[derive(Debug)]
pub struct Component {
    /// Everything in it.
    pub body: Rc<Body>,
}

/// What scenarios and components have alike.
#[derive(Debug)]
pub struct Body {
    /// The name in the block's header.
    pub name: Name,
    /// The block's header.
    pub header: Span,
    /// Values that are given from outside, by name.
    pub variables: BTreeMap<String, Variable>,
    /// Values made of others, by name.
    pub locals: BTreeMap<String, Local>,
    /// Actions, in file order.
    pub actions: Vec<Rc<Action>>,
    /// Components that are included, in file order.
    pub components: Vec<Rc<ComponentBlock>>,
    /// What is given to the outside, in file order.
    pub outputs: Vec<Output>,
    /// Actions and components together, in file order.
    pub order: Vec<Item>,
    index: Index,
}

/// Where the blocks of two labels are, by both.
#[derive(Debug, Default)]
struct Index {
    actions: HashMap<String, HashMap<String, usize>>,
    components: HashMap<String, HashMap<String, usize>>,
}

/// A block that makes nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Item {
    /// The action of this index.
    Action(usize),
    /// The component of this index.
    Component(usize),
}

impl Body {
    /// The file that it stands in.
    pub fn file(&self) -> FileId {
        self.header.file
    }

    /// The index of an action.
    pub fn action(&self, ty: &str, name: &str) -> Option<usize> {
        self.index.actions.get(ty)?.get(name).copied()
    }

    /// The index of a component.
    pub fn component(&self, ty: &str, name: &str) -> Option<usize> {
        self.index.components.get(ty)?.get(name).copied()
    }

    /// The names of the actions of this type.
    pub fn action_names(&self, ty: &str) -> impl Iterator<Item = &str> {
        self.index.actions.get(ty).into_iter().flat_map(HashMap::keys).map(String::as_str)
    }

    /// The types of the actions.
    pub fn action_types(&self) -> impl Iterator<Item = &str> {
        self.index.actions.keys().map(String::as_str)
    }

    /// The names of the components of this type.
    pub fn component_names(&self, ty: &str) -> impl Iterator<Item = &str> {
        self.index.components.get(ty).into_iter().flat_map(HashMap::keys).map(String::as_str)
    }

    /// The types of the components.
    pub fn component_types(&self) -> impl Iterator<Item = &str> {
        self.index.components.keys().map(String::as_str)
    }

    /// An output.
    pub fn output(&self, name: &str) -> Option<&Output> {
        self.outputs.iter().find(|output| output.name.text == name)
    }
}

/// One line of `required_providers`.
#[derive(Debug, Clone)]
pub struct RequiredProvider {
    /// What the scenario calls it.
    pub name: Name,
    /// Where it comes from, as it is written.
    pub source: Name,
}

/// `provider "NAME" { … }`.
#[derive(Debug)]
pub struct ProviderConfig {
    /// Which of the required providers.
    pub name: Name,
    /// The further instance that it is for.
    pub alias: Option<Name>,
    /// The block's header.
    pub header: Span,
    /// What `configure` gets.
    pub config: Vec<Attribute>,
}

/// `variable "NAME" { … }`.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: Name,
    /// The block's header.
    pub header: Span,
    /// What values it takes.
    pub ty: Type,
    /// What it is if no value is given.
    pub default: Option<Expr>,
    /// What it is, for people.
    pub description: Option<String>,
    /// Must it not be shown?
    pub sensitive: bool,
}

/// One line of `locals`.
#[derive(Debug)]
pub struct Local {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub value: Expr,
}

/// `output "NAME" { … }`.
#[derive(Debug)]
pub struct Output {
    /// Its name.
    pub name: Name,
    /// The block's header.
    pub header: Span,
    /// What it is.
    pub value: Option<Expr>,
    /// What it is, for people.
    pub description: Option<String>,
    /// Must it not be shown?
    pub sensitive: bool,
}

/// `component "TYPE" "NAME" { … }`, which includes a component.
#[derive(Debug)]
pub struct ComponentBlock {
    /// The component's own name.
    pub ty: Name,
    /// What it is called here.
    pub name: Name,
    /// The block's header.
    pub header: Span,
    /// The component, if it could be read.
    pub definition: Option<Rc<Component>>,
    /// Values for its variables.
    pub inputs: Option<Expr>,
    /// The same one by one, if they are written out.
    named_inputs: Option<BTreeMap<String, Expr>>,
    /// One instance for each.
    pub for_each: Option<Expr>,
    /// What must be done before any of its actions.
    pub depends_on: Vec<Dependency>,
}

impl ComponentBlock {
    /// Are the inputs written out, or none at all?
    pub fn names_inputs(&self) -> bool {
        self.inputs.is_none() || self.named_inputs.is_some()
    }

    /// The value for this variable, if the inputs are written out.
    pub fn input(&self, name: &str) -> Option<&Expr> {
        self.named_inputs.as_ref()?.get(name)
    }

    /// The names of the inputs, if they are written out.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        self.named_inputs.iter().flat_map(BTreeMap::keys).map(String::as_str)
    }
}

/// `action "TYPE" "NAME" { … }`.
#[derive(Debug)]
pub struct Action {
    /// Which action of a provider.
    pub ty: Name,
    /// What it is called here.
    pub name: Name,
    /// The block's header.
    pub header: Span,
    /// What the provider gets. `timeout` and `idempotent` are here too: whose they are is told
    /// by the schema.
    pub attrs: Vec<Attribute>,
    /// Which provider, if it says so.
    pub provider: Option<ProviderName>,
    /// One instance for each.
    pub for_each: Option<Expr>,
    /// What must be done before.
    pub depends_on: Vec<Dependency>,
    /// When and how to try again.
    pub retry: Option<Retry>,
    /// `lifecycle { timeout = … }`.
    pub timeout: Option<Attribute>,
    /// `lifecycle { teardown { … } }`.
    pub teardown: Option<Teardown>,
}

/// `retry { … }`.
#[derive(Debug)]
pub struct Retry {
    /// The block's header.
    pub header: Span,
    /// How often it is tried in all.
    pub attempts: Option<Attribute>,
    /// How long to wait before the next time.
    pub delay: Option<Attribute>,
    /// By what the delay is multiplied each time.
    pub backoff: Option<Attribute>,
    /// After which errors.
    pub on: Option<Attribute>,
}

/// `teardown { … }`.
#[derive(Debug)]
pub struct Teardown {
    /// The block's header.
    pub header: Span,
    /// What the provider gets to undo the action.
    pub attrs: Vec<Attribute>,
}

/// `provider = NAME` or `NAME.ALIAS` of an action.
#[derive(Debug, Clone)]
pub struct ProviderName {
    /// The name in `required_providers`.
    pub name: String,
    /// The alias of one of its blocks.
    pub alias: Option<String>,
    /// Where it stands.
    pub span: Span,
}

/// One element of `depends_on`.
#[derive(Debug, Clone)]
pub struct Dependency {
    /// What kind of block it names.
    pub kind: DependencyKind,
    /// Its first label.
    pub ty: String,
    /// Its second label.
    pub name: String,
    /// Where it stands.
    pub span: Span,
}

/// What a dependency names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyKind {
    /// `action.T.N`.
    Action,
    /// `component.T.I`.
    Component,
}

/// The value of an expression that may refer to nothing.
pub(crate) fn constant(expr: &Expr, ty: &Type) -> Result<Value, Problem> {
    let value = evaluate(&expr.expression, &NoNames, &Source::pure(expr.file()))?;
    fit(&value, ty, &expr.span)
}

/// The value as this type.
pub(crate) fn fit(value: &Value, ty: &Type, span: &Span) -> Result<Value, Problem> {
    convert(value, ty).map_err(|mismatch| {
        let problem = Problem::error(Code::TypeMismatch, mismatch.to_string()).at(span.clone());
        problem.help(format!("the value must be of type `{ty}`"))
    })
}
