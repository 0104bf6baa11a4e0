//! From a scenario to what will be done: which actions, with what, in which order.
//!
//! [`plan()`] unfolds components and `for_each`, evaluates everything with what actions give
//! unknown, checks it against the schemas and orders it. A run evaluates the same expressions
//! again by the [`Evaluation`] of its plan, with the outputs that it has recorded.

mod attrs;
mod bind;
mod draft;
mod edges;
mod evaluation;
mod expand;
mod scope;
mod settings;
mod target;
pub mod variables;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use toolbus_proto::orchard::schema::ProviderSchema;

use crate::diagnostic::{Problem, Span};
use crate::expr::Files;
use crate::model::{self, Scenario};
use crate::provider::ProviderSource;
use crate::source::Sources;
use crate::value::Value;

pub use attrs::{PlannedAttr, PlannedAttrs};
pub use bind::Provider;
pub use draft::{Checked, Graph, Planned, Request, check, check_component, plan};
pub use evaluation::{Chance, Evaluation};
pub use settings::{RetryPolicy, Settings};
pub use world::{Each, NODES_MAX};

use scope::NodeScope;
use world::{SlotId, World};

/// What will be done.
pub struct Plan {
    /// The scenario.
    pub scenario: Rc<Scenario>,
    /// Its files; the first is the scenario's.
    pub sources: Rc<Sources>,
    /// The values of its variables.
    pub variables: BTreeMap<String, Value>,
    /// The instances of providers, in the order in which they are configured.
    pub providers: Vec<ProviderInstance>,
    /// The actions in the order of the plan: what one needs stands before it.
    pub nodes: Vec<Node>,
    /// What the scenario gives, in declaration order, without what needs actions that are no
    /// targets.
    pub outputs: Vec<PlannedOutput>,
    files: Rc<dyn Files>,
    world: Rc<World>,
}

/// One instance of a provider.
#[derive(Debug, Clone)]
pub struct ProviderInstance {
    /// `name` or `name.alias`.
    pub name: String,
    /// Where it comes from.
    pub source: ProviderSource,
    /// How it describes itself.
    pub schema: Rc<ProviderSchema>,
    /// What `configure` gets, as far as it is known.
    pub config: PlannedAttrs,
    /// The index of its block in the scenario.
    config_block: Option<usize>,
}

/// One action that will be executed.
pub struct Node {
    /// `component.T.I.action.T.N["key"]`.
    pub address: String,
    /// Which action of the provider.
    pub action_type: String,
    /// The index of the provider's instance.
    pub provider: usize,
    /// The indexes of the nodes that it needs, sorted.
    pub depends_on: Rc<[usize]>,
    /// What the provider gets, as far as it is known.
    pub attrs: PlannedAttrs,
    /// What the provider gets to undo it, as far as it is known.
    pub teardown: Option<PlannedAttrs>,
    /// Does the teardown need what the action itself has given?
    pub teardown_needs_self: bool,
    /// How it is executed, as far as that is known.
    pub settings: Settings,
    /// The block.
    pub action: Rc<model::Action>,
    /// `each` of its block.
    pub each: Option<Each>,
    slot: SlotId,
}

/// What the scenario gives.
#[derive(Debug, Clone)]
pub struct PlannedOutput {
    /// Its name.
    pub name: String,
    /// What it is, as far as it is known.
    pub value: Value,
    /// The block's header.
    pub header: Span,
    /// The indexes of the nodes that it needs, sorted.
    pub depends_on: Rc<[usize]>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<&str> = self.nodes.iter().map(|node| node.address.as_str()).collect();
        let name = &self.scenario.body.name.text;
        f.debug_struct("Plan")
            .field("scenario", name)
            .field("nodes", &addresses)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// The name of the scenario.
    pub fn name(&self) -> &str {
        &self.scenario.body.name.text
    }

    /// The file of the scenario.
    pub fn file(&self) -> &crate::source::SourceFile {
        self.sources.file(self.scenario.body.file())
    }

    /// The schema of a node's action.
    pub fn schema_of(&self, node: &Node) -> &toolbus_proto::orchard::schema::Action {
        &self.providers[node.provider].schema.actions[&node.action_type]
    }

    /// The folder of the file that holds a node's action.
    pub fn folder_of(&self, node: &Node) -> &std::path::Path {
        self.sources.file(node.action.header.file).folder()
    }

    /// The values of a run of this plan, nothing being recorded yet.
    pub fn evaluation(&self, chance: Chance) -> Evaluation {
        Evaluation::new(self.world.clone(), self.files.clone(), chance)
    }
}

impl Evaluation {
    /// From now on this node has given these outputs, which are of its schema's type.
    pub fn record(&self, node: &Node, outputs: Value) {
        self.record_slot(node.slot, outputs);
    }

    /// What the provider gets to execute a node. What it needs must be recorded, or is unknown.
    pub fn attrs(&self, node: &Node) -> Result<PlannedAttrs, Vec<Problem>> {
        self.slot_attrs(node.slot)
    }

    /// What the provider gets to undo a node that has given `own`; `None` if it cannot be undone.
    pub fn teardown(
        &self,
        node: &Node,
        own: Option<&Value>,
    ) -> Option<Result<PlannedAttrs, Vec<Problem>>> {
        self.slot_teardown(node.slot, own)
    }

    /// How a node is executed.
    pub fn settings(&self, node: &Node) -> Result<Settings, Vec<Problem>> {
        self.slot_settings(node.slot)
    }

    /// What a provider's `configure` gets.
    pub fn config(
        &self,
        plan: &Plan,
        provider: &ProviderInstance,
    ) -> Result<PlannedAttrs, Vec<Problem>> {
        let name = provider.name.split('.').next().unwrap_or_default();
        let config = provider.config_block.map(|at| &plan.scenario.provider_configs[at]);
        self.provider_config(name, &provider.schema, config, &plan.scenario)
    }

    /// What the scenario gives under this name.
    pub fn output(&self, name: &str) -> Result<Value, Problem> {
        let module = self.world.module(0);
        let Some(output) = module.body.output(name) else { return Ok(Value::NULL) };
        let Some(expr) = &output.value else { return Ok(Value::NULL) };
        let scope = NodeScope::of_module(self, 0);
        let random = self.random(&format!("output.{name}"));
        let value = self.evaluate(expr, &scope, &random)?;
        Ok(value.with_sensitive(output.sensitive))
    }
}
