//! The steps of planning: bind, unfold, evaluate, check, order.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use toolbus_proto::orchard::schema::ProviderSchema;

use super::attrs::{PlannedAttrs, Wanted, attrs};
use super::bind::{Bound, Instance, Provider, bind};
use super::edges::{self, Edges, Slots};
use super::evaluation::{Chance, Evaluation, Key, Kind};
use super::expand::{check_inputs, unfold};
use super::scope::NodeScope;
use super::settings::{self, MAYBE_OURS, Settings};
use super::target;
use super::world::{SlotId, World};
use super::{Node, Plan, PlannedOutput, ProviderInstance};
use crate::diagnostic::{Problem, Severity, sorted};
use crate::expr::Files;
use crate::model::{Body, Component, ProviderConfig, Scenario};
use crate::source::Sources;
use crate::value::Value;

/// What is to be planned.
pub struct Request {
    /// Files that functions may read.
    pub files: Rc<dyn Files>,
    /// The files of the scenario.
    pub sources: Rc<Sources>,
    /// The scenario.
    pub scenario: Rc<Scenario>,
    /// The values of its variables.
    pub variables: BTreeMap<String, Value>,
    /// Addresses of what is wanted, with what it needs; all if there are none.
    pub targets: Vec<String>,
}

/// A plan, unless something is wrong.
pub struct Planned {
    /// The plan.
    pub plan: Option<Plan>,
    /// What is wrong, by file and position; warnings too.
    pub problems: Vec<Problem>,
}

/// What can be told without schemas.
pub struct Checked {
    /// Actions and what they need, unless something is wrong.
    pub graph: Option<Graph>,
    /// What is wrong, by file and position; warnings too.
    pub problems: Vec<Problem>,
}

/// Actions and what they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Addresses, in the order of the plan.
    pub nodes: Vec<String>,
    /// What each needs, by index.
    pub depends_on: Vec<Rc<[usize]>>,
}

/// Plans a scenario with these providers, which are in the order of `required_providers`.
/// `problems` are those that were found before.
pub fn plan(request: Request, providers: &[Provider], mut problems: Vec<Problem>) -> Planned {
    let Request { files, sources, scenario, variables, targets } = request;
    let Bound { bindings, instances } = bind(&scenario, providers, &mut problems);
    let world = Rc::new(World {
        sources: sources.clone(),
        variables: variables.clone(),
        bindings,
        is_lenient: false,
        modules: RefCell::default(),
        slots: RefCell::default(),
        problems: RefCell::default(),
    });
    let evaluation = Evaluation::new(world.clone(), files.clone(), Chance::Unknown);
    let draft = Draft::make(&evaluation, &scenario.body, &targets, &mut problems);
    let providers = configured(&evaluation, &scenario, providers, &instances, &mut problems);
    let problems = sorted(problems);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Planned { plan: None, problems };
    }
    let nodes = draft.order.iter().filter_map(|slot| draft.node(&world, *slot)).collect();
    let outputs = draft.outputs(&scenario.body);
    drop(evaluation);
    let plan = Plan { scenario, sources, variables, providers, nodes, outputs, files, world };
    Planned { plan: Some(plan), problems }
}

/// Checks a scenario without schemas; variables without a value are unknown.
pub fn check(request: Request, mut problems: Vec<Problem>) -> Checked {
    let Request { files, sources, scenario, variables, targets } = request;
    let needed = scenario.body.variables.keys();
    let is_lenient = needed.into_iter().any(|name| !variables.contains_key(name));
    let world = Rc::new(bare_world(sources, variables, is_lenient));
    let evaluation = Evaluation::new(world, files, Chance::Unknown);
    let draft = Draft::make(&evaluation, &scenario.body, &targets, &mut problems);
    for config in &scenario.provider_configs {
        let scope = NodeScope::of_module(&evaluation, 0);
        let random = evaluation.random("");
        for attribute in &config.config {
            problems.extend(evaluation.evaluate(&attribute.value, &scope, &random).err());
        }
    }
    checked(&evaluation, &draft, problems)
}

/// Checks a component on its own, its variables being unknown.
pub fn check_component(
    files: Rc<dyn Files>,
    sources: Rc<Sources>,
    component: &Component,
    mut problems: Vec<Problem>,
) -> Checked {
    let world = Rc::new(bare_world(sources, BTreeMap::new(), true));
    let evaluation = Evaluation::new(world, files, Chance::Unknown);
    let draft = Draft::make(&evaluation, &component.body, &[], &mut problems);
    for variable in component.body.variables.values() {
        let default = variable.default.as_ref();
        problems.extend(default.and_then(|it| crate::model::constant(it, &variable.ty).err()));
    }
    checked(&evaluation, &draft, problems)
}

fn bare_world(sources: Rc<Sources>, variables: BTreeMap<String, Value>, is_lenient: bool) -> World {
    World {
        sources,
        variables,
        bindings: HashMap::new(),
        is_lenient,
        modules: RefCell::default(),
        slots: RefCell::default(),
        problems: RefCell::default(),
    }
}

fn checked(evaluation: &Evaluation, draft: &Draft, problems: Vec<Problem>) -> Checked {
    let problems = sorted(problems);
    let is_wrong = problems.iter().any(|problem| problem.severity == Severity::Error);
    let world = &evaluation.world;
    let graph = (!is_wrong).then(|| Graph {
        nodes: draft.order.iter().map(|slot| world.slot(*slot).address.clone()).collect(),
        depends_on: draft.order.iter().map(|slot| draft.depends_on(&draft.needs[slot])).collect(),
    });
    Checked { graph, problems }
}

/// What was evaluated.
struct Draft {
    /// In the order of the plan.
    order: Vec<SlotId>,
    needs: HashMap<SlotId, Slots>,
    /// The place of each in the order.
    places: HashMap<SlotId, usize>,
    evaluated: HashMap<SlotId, Evaluated>,
    outputs: Vec<(String, Value, Slots)>,
}

#[derive(Clone, Default)]
struct Evaluated {
    attrs: PlannedAttrs,
    teardown: Option<PlannedAttrs>,
    settings: Settings,
}

impl Draft {
    fn make(
        evaluation: &Evaluation,
        body: &Rc<Body>,
        targets: &[String],
        problems: &mut Vec<Problem>,
    ) -> Draft {
        let world = &evaluation.world;
        let root = world.add_module(body.clone(), String::new(), None);
        let declared = unfold(evaluation, root);
        let mut evaluated = HashMap::new();
        for slot in &declared {
            let (it, wrong) = evaluation.evaluated(*slot);
            problems.extend(wrong);
            evaluated.insert(*slot, it);
        }
        evaluation.check_values(problems);
        let mut edges = Edges::new(evaluation);
        let mut needs = HashMap::new();
        for slot in &declared {
            let Some(found) = edges.of_slot(*slot) else {
                problems.push(edges::too_many(world.slot(*slot).action.header.clone()));
                break;
            };
            needs.insert(*slot, found);
        }
        let order = match needs.len() == declared.len() {
            true => edges::order(&mut edges, &declared, &needs, problems),
            false => Vec::new(),
        };
        let mut outputs = Vec::new();
        for output in &body.outputs {
            let Some(expr) = &output.value else { continue };
            let name = &output.name.text;
            if let Ok(value) = evaluation.output(name) {
                outputs.push((name.clone(), value, edges.of_output(0, expr)));
            }
        }
        let order = target::wanted(world, order, &needs, targets, problems);
        let places: HashMap<SlotId, usize> =
            order.iter().enumerate().map(|(place, slot)| (*slot, place)).collect();
        // An output that needs what is no target is not given.
        outputs.retain(|(_, _, needs)| needs.iter().all(|slot| places.contains_key(slot)));
        problems.append(&mut world.problems.borrow_mut());
        Draft { order, needs, places, evaluated, outputs }
    }

    fn depends_on(&self, needs: &Slots) -> Rc<[usize]> {
        let mut places: Vec<usize> =
            needs.iter().filter_map(|slot| self.places.get(slot).copied()).collect();
        places.sort_unstable();
        places.into()
    }

    fn node(&self, world: &World, id: SlotId) -> Option<Node> {
        let slot = world.slot(id);
        let binding = world.binding(&slot.action)?;
        let Evaluated { attrs, teardown, settings } = self.evaluated.get(&id)?.clone();
        let teardown_uses = slot.action.teardown.iter().flat_map(|teardown| &teardown.attrs);
        let mut teardown_uses = teardown_uses.flat_map(|attribute| &attribute.value.uses);
        Some(Node {
            address: slot.address.clone(),
            action_type: slot.action.ty.text.clone(),
            provider: binding.provider,
            depends_on: self.depends_on(self.needs.get(&id)?),
            attrs,
            teardown,
            teardown_needs_self: teardown_uses.any(|used| used.reference.root == "self"),
            settings,
            action: slot.action.clone(),
            each: slot.each.clone(),
            slot: id,
        })
    }

    fn outputs(&self, body: &Body) -> Vec<PlannedOutput> {
        let planned = |(name, value, needs): &(String, Value, Slots)| {
            let header = body.output(name).map(|output| output.header.clone())?;
            let depends_on = self.depends_on(needs);
            Some(PlannedOutput { name: name.clone(), value: value.clone(), header, depends_on })
        };
        self.outputs.iter().filter_map(planned).collect()
    }
}

fn configured(
    evaluation: &Evaluation,
    scenario: &Scenario,
    providers: &[Provider],
    instances: &[Instance],
    problems: &mut Vec<Problem>,
) -> Vec<ProviderInstance> {
    let mut configured = Vec::with_capacity(instances.len());
    for instance in instances {
        let provider = &providers[instance.provider];
        let block = instance.config.map(|at| &scenario.provider_configs[at]);
        let config = evaluation.provider_config(&provider.name, &provider.schema, block, scenario);
        let config = config.unwrap_or_else(|wrong| {
            problems.extend(wrong);
            PlannedAttrs::new()
        });
        let name = match &instance.alias {
            Some(alias) => format!("{}.{alias}", provider.name),
            None => provider.name.clone(),
        };
        configured.push(ProviderInstance {
            name,
            source: provider.source.clone(),
            schema: provider.schema.clone(),
            config,
            config_block: instance.config,
        });
    }
    configured
}

impl Evaluation {
    /// Everything of one action, and what is wrong with it.
    fn evaluated(&self, id: SlotId) -> (Evaluated, Vec<Problem>) {
        let mut problems = Vec::new();
        let attrs = self.slot_attrs(id).unwrap_or_else(|wrong| {
            problems.extend(wrong);
            PlannedAttrs::new()
        });
        let action = self.world.slot(id).action.clone();
        let unknown = self.world.unknown_outputs(&action);
        let teardown = self.slot_teardown(id, Some(&unknown)).map(|teardown| {
            teardown.unwrap_or_else(|wrong| {
                problems.extend(wrong);
                PlannedAttrs::new()
            })
        });
        let settings = self.slot_settings(id).unwrap_or_else(|wrong| {
            problems.extend(wrong);
            Settings::default()
        });
        (Evaluated { attrs, teardown, settings }, problems)
    }

    pub(super) fn slot_attrs(&self, id: SlotId) -> Result<PlannedAttrs, Vec<Problem>> {
        let slot = self.world.slot(id);
        let scope = self.scope_of(&slot, None);
        let random = self.random(&slot.address);
        self.checked_attrs(&slot.action, &slot.action.attrs, &slot.action.header, &scope, &random)
    }

    pub(super) fn slot_teardown(
        &self,
        id: SlotId,
        own: Option<&Value>,
    ) -> Option<Result<PlannedAttrs, Vec<Problem>>> {
        let slot = self.world.slot(id);
        let teardown = slot.action.teardown.as_ref()?;
        let scope = self.scope_of(&slot, own);
        let random = self.random(&format!("{}.teardown", slot.address));
        Some(self.checked_attrs(&slot.action, &teardown.attrs, &teardown.header, &scope, &random))
    }

    pub(super) fn slot_settings(&self, id: SlotId) -> Result<Settings, Vec<Problem>> {
        let slot = self.world.slot(id);
        let schema = self.world.binding(&slot.action).map(|binding| &binding.action().attrs);
        let scope = self.scope_of(&slot, None);
        let random = self.random(&format!("{}.settings", slot.address));
        settings::settings(self, &scope, &random, &slot.action, schema)
    }

    fn scope_of<'a>(
        &'a self,
        slot: &'a super::world::Slot,
        own: Option<&'a Value>,
    ) -> NodeScope<'a> {
        let (module, item) = (slot.module, Some(slot.item));
        NodeScope { evaluation: self, module, item, each: slot.each.as_ref(), own }
    }

    fn checked_attrs(
        &self,
        action: &Rc<crate::model::Action>,
        given: &[crate::model::Attribute],
        header: &crate::diagnostic::Span,
        scope: &NodeScope<'_>,
        random: &crate::expr::Random,
    ) -> Result<PlannedAttrs, Vec<Problem>> {
        let Some(binding) = self.world.binding(action) else {
            // Without a schema nothing can be said but what is wrong with the values.
            let evaluate = |attribute: &crate::model::Attribute| {
                self.evaluate(&attribute.value, scope, random).err()
            };
            let problems: Vec<Problem> = given.iter().filter_map(evaluate).collect();
            return if problems.is_empty() { Ok(PlannedAttrs::new()) } else { Err(problems) };
        };
        let schema = &binding.action().attrs;
        let what = format!("action `{}` ({})", action.ty.text, binding.schema.name);
        attrs(
            self,
            scope,
            random,
            given,
            &Wanted { what: &what, schema, header, ours: &MAYBE_OURS },
        )
    }

    pub(super) fn provider_config(
        &self,
        name: &str,
        schema: &ProviderSchema,
        block: Option<&ProviderConfig>,
        scenario: &Scenario,
    ) -> Result<PlannedAttrs, Vec<Problem>> {
        let what = format!("the config of provider `{name}` ({})", schema.name);
        let required =
            || scenario.required_providers.iter().find(|required| required.name.text == name);
        let header = match block {
            Some(block) => block.header.clone(),
            None => match required() {
                Some(required) => required.name.span.clone(),
                None => scenario.body.header.clone(),
            },
        };
        let given = block.map_or(&[][..], |block| &block.config);
        let scope = NodeScope::of_module(self, 0);
        let random = self.random(&format!("provider.{name}"));
        let wanted = Wanted { what: &what, schema: &schema.config, header: &header, ours: &[] };
        attrs(self, &scope, &random, given, &wanted)
    }

    /// Evaluates what no action needs, too: everything wrong is to be told.
    fn check_values(&self, problems: &mut Vec<Problem>) {
        let count = self.world.modules.borrow().len();
        for id in 0..count {
            let module = self.world.module(id);
            let mut check = |kind, name: &str, span: &crate::diagnostic::Span| {
                let key = Key { module: id, kind, name: name.to_owned() };
                self.settle_key(key, span.clone());
                problems.extend(self.settled(id, kind, name).and_then(Result::err));
            };
            for (name, local) in &module.body.locals {
                check(Kind::Local, name, &local.name.span);
            }
            for output in &module.body.outputs {
                check(Kind::Output, &output.name.text, &output.header);
            }
            if module.parent.is_some() {
                check_inputs(self, id);
                for (name, variable) in &module.body.variables {
                    check(Kind::Variable, name, &variable.header);
                }
            }
        }
    }
}
