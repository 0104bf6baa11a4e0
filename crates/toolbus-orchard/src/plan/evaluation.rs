//! Evaluating what stands in the unfolded scenario, by the same code in plan and in run: a plan
//! has recorded no outputs yet, so they are unknown.
//!
//! Locals, inputs and outputs of components are evaluated when they are needed, each once. What
//! an expression needs is settled before it is evaluated, by a walk with a stack of its own: a
//! chain of ten thousand locals is as good as one, and a circle is found.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::scope::NodeScope;
use super::world::{Family, ModuleId, SlotId, World};
use crate::diagnostic::{Problem, Span};
use crate::expr::{self, Files, Impure, Random, Source};
use crate::model::{self, Expr, Item};
use crate::value::Value;

/// What the clock and chance say.
#[derive(Clone)]
pub enum Chance {
    /// Only the run will tell.
    Unknown,
    /// This.
    Known {
        /// What the random functions are fed with.
        seed: u64,
        /// Now, in seconds since 1970.
        clock: Rc<dyn Fn() -> i64>,
    },
}

/// The values of one plan or run.
pub struct Evaluation {
    pub(super) world: Rc<World>,
    files: Rc<dyn Files>,
    chance: Chance,
    /// What actions have given, by slot.
    outputs: RefCell<Vec<Option<Value>>>,
    /// How often something was recorded: what was unknown may be known since.
    generation: Cell<u64>,
    /// By module.
    memo: RefCell<Vec<Memo>>,
    /// What all instances of an action have given, by module and index.
    families: RefCell<HashMap<(ModuleId, usize), Cached>>,
}

/// A value that other expressions can name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) module: ModuleId,
    pub(super) kind: Kind,
    /// Empty for inputs and instances.
    pub(super) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A variable of a component.
    Variable,
    Local,
    Output,
    /// All inputs of a component, where they are not written out.
    Inputs,
    /// The instances of the action of this index.
    Actions(usize),
    /// The instances of the component of this index.
    Components(usize),
}

impl Kind {
    fn instances_of(item: Item) -> Kind {
        match item {
            Item::Action(at) => Kind::Actions(at),
            Item::Component(at) => Kind::Components(at),
        }
    }
}

/// What is known of one module, by name.
#[derive(Default)]
struct Memo {
    variables: HashMap<String, Cached>,
    locals: HashMap<String, Cached>,
    outputs: HashMap<String, Cached>,
    inputs: Option<Cached>,
}

impl Memo {
    fn get(&self, kind: Kind, name: &str) -> Option<&Cached> {
        match kind {
            Kind::Variable => self.variables.get(name),
            Kind::Local => self.locals.get(name),
            Kind::Output => self.outputs.get(name),
            Kind::Inputs => self.inputs.as_ref(),
            Kind::Actions(_) | Kind::Components(_) => None,
        }
    }

    fn put(&mut self, kind: Kind, name: String, cached: Cached) {
        match kind {
            Kind::Variable => drop(self.variables.insert(name, cached)),
            Kind::Local => drop(self.locals.insert(name, cached)),
            Kind::Output => drop(self.outputs.insert(name, cached)),
            Kind::Inputs => self.inputs = Some(cached),
            Kind::Actions(_) | Kind::Components(_) => {}
        }
    }
}

struct Cached {
    value: Result<Value, Problem>,
    generation: u64,
}

/// What an expression needs.
#[derive(Default)]
pub(super) struct Needs {
    /// Values, each with the place that names it.
    pub(super) values: Vec<(Key, Span)>,
    /// Actions.
    pub(super) slots: Vec<SlotId>,
}

impl Evaluation {
    pub(super) fn new(world: Rc<World>, files: Rc<dyn Files>, chance: Chance) -> Evaluation {
        let (outputs, memo) = (RefCell::default(), RefCell::default());
        let (generation, families) = (Cell::new(0), RefCell::default());
        Evaluation { world, files, chance, outputs, generation, memo, families }
    }

    /// From now on this action has given these outputs.
    pub(super) fn record_slot(&self, slot: SlotId, outputs: Value) {
        let mut recorded = self.outputs.borrow_mut();
        if recorded.len() <= slot {
            recorded.resize(slot + 1, None);
        }
        recorded[slot] = Some(outputs);
        self.generation.set(self.generation.get() + 1);
    }

    /// What an action has given, or will give.
    pub(super) fn outputs_of(&self, slot: SlotId) -> Value {
        let recorded = self.outputs.borrow().get(slot).cloned().flatten();
        recorded.unwrap_or_else(|| self.world.unknown_outputs(&self.world.slot(slot).action))
    }

    /// What the instances of an action have given, or will give, by key. Made once for all who
    /// ask before more is recorded.
    pub(super) fn all_outputs_of(
        &self,
        module: ModuleId,
        index: usize,
        instances: &BTreeMap<String, SlotId>,
    ) -> Value {
        if let Some(known) = self.families.borrow().get(&(module, index))
            && let Ok(value) = &known.value
            && self.is_current(known)
        {
            return value.clone();
        }
        let outputs = |(key, slot): (&String, &SlotId)| (key.clone(), self.outputs_of(*slot));
        let value = Value::object(instances.iter().map(outputs).collect());
        let cached = Cached { value: Ok(value.clone()), generation: self.generation.get() };
        self.families.borrow_mut().insert((module, index), cached);
        value
    }

    /// Is it as it will stay, or nothing was recorded since?
    fn is_current(&self, cached: &Cached) -> bool {
        let is_final = matches!(&cached.value, Ok(value) if !value.contains_unknown());
        is_final || cached.generation == self.generation.get()
    }

    /// Evaluates an expression in a scope; `random` is what its node draws from.
    pub(super) fn evaluate(
        &self,
        expr: &Expr,
        scope: &NodeScope<'_>,
        random: &Random,
    ) -> Result<Value, Problem> {
        self.settle(scope.module, scope.item, expr);
        self.evaluate_settled(expr, scope, random)
    }

    fn evaluate_settled(
        &self,
        expr: &Expr,
        scope: &NodeScope<'_>,
        random: &Random,
    ) -> Result<Value, Problem> {
        expr::evaluate(&expr.expression, scope, &self.source(expr, random))
    }

    /// Where an expression stands, and what it may learn.
    pub(super) fn source<'a>(&'a self, expr: &Expr, random: &'a Random) -> Source<'a> {
        let impure = match &self.chance {
            Chance::Unknown => Impure::Unknown,
            Chance::Known { clock, .. } => Impure::Known { now: clock(), random },
        };
        let folder = self.world.sources.file(expr.file()).folder();
        Source { file: expr.file(), folder, files: &*self.files, impure }
    }

    /// What the thing at this address draws from.
    pub(super) fn random(&self, address: &str) -> Random {
        let seed = match self.chance {
            Chance::Unknown => 0,
            Chance::Known { seed, .. } => seed,
        };
        Random::new(seed, address)
    }

    /// A value that was settled before.
    pub(super) fn settled(
        &self,
        module: ModuleId,
        kind: Kind,
        name: &str,
    ) -> Option<Result<Value, Problem>> {
        let memo = self.memo.borrow();
        Some(memo.get(module)?.get(kind, name)?.value.clone())
    }

    fn is_settled(&self, key: &Key) -> bool {
        let module = self.world.module(key.module);
        match key.kind {
            Kind::Actions(at) => module.actions[at].get().is_some(),
            Kind::Components(at) => module.components[at].get().is_some(),
            kind => {
                let memo = self.memo.borrow();
                let cached = memo.get(key.module).and_then(|memo| memo.get(kind, &key.name));
                cached.is_some_and(|cached| self.is_current(cached))
            }
        }
    }

    /// Settles everything that an expression needs.
    pub(super) fn settle(&self, module: ModuleId, item: Option<Item>, expr: &Expr) {
        if !expr.uses.is_empty() {
            self.walk(self.needs(module, item, expr).values);
        }
    }

    /// Settles one value.
    pub(super) fn settle_key(&self, key: Key, span: Span) {
        self.walk(vec![(key, span)]);
    }

    fn walk(&self, first: Vec<(Key, Span)>) {
        struct Frame {
            key: Option<Key>,
            todo: Vec<(Key, Span)>,
            /// Where the value is named that is being settled now.
            at: Option<Span>,
            is_looked_at_again: bool,
            fault: Option<Problem>,
        }
        let frame = |key, mut todo: Vec<(Key, Span)>| {
            todo.reverse();
            Frame { key, todo, at: None, is_looked_at_again: false, fault: None }
        };
        let mut active: HashSet<Key> = HashSet::new();
        let mut stack = vec![frame(None, first)];
        while let Some(top) = stack.last_mut() {
            if let Some((key, span)) = top.todo.pop() {
                if self.is_settled(&key) {
                    continue;
                }
                top.at = Some(span);
                if active.contains(&key) {
                    let from = stack.iter().position(|frame| frame.key.as_ref() == Some(&key));
                    let ring = &stack[from.unwrap_or(0)..];
                    let edge =
                        |frame: &Frame| Some((self.told(frame.key.as_ref()?), frame.at.clone()?));
                    let problem = model::cycle_problem(ring.iter().filter_map(edge).collect());
                    if let Some(top) = stack.last_mut() {
                        top.fault = Some(problem);
                    }
                    continue;
                }
                active.insert(key.clone());
                let needs = self.needs_of(&key);
                stack.push(frame(Some(key), needs));
                continue;
            }
            // Instances that are there now may have values that are needed.
            if !std::mem::replace(&mut top.is_looked_at_again, true)
                && let Some(key) = &top.key
                && top.fault.is_none()
            {
                top.todo = self.needs_of(key);
                continue;
            }
            if let Some(Frame { key: Some(key), fault, .. }) = stack.pop() {
                active.remove(&key);
                self.finish(key, fault);
            }
        }
    }

    /// A value as people call it.
    fn told(&self, key: &Key) -> String {
        let module = self.world.module(key.module);
        match key.kind {
            Kind::Variable => module.name(&format!("var.{}", key.name)),
            Kind::Local => module.name(&format!("local.{}", key.name)),
            Kind::Output => module.name(&key.name),
            Kind::Inputs => module.name("inputs"),
            Kind::Actions(at) => module.address(Item::Action(at)),
            Kind::Components(at) => module.address(Item::Component(at)),
        }
    }

    /// What a value needs.
    fn needs_of(&self, key: &Key) -> Vec<(Key, Span)> {
        let mut needs = Vec::new();
        self.with_expression(key, |module, item, expr| {
            needs = self.needs(module, item, expr).values;
        });
        needs.extend(self.inputs_of(key));
        needs
    }

    /// All inputs, if a variable of a component needs them because they are not written out.
    pub(super) fn inputs_of(&self, key: &Key) -> Option<(Key, Span)> {
        let module = self.world.module(key.module);
        let parent = module.parent.as_ref().filter(|_| key.kind == Kind::Variable)?;
        let inputs = parent.block.inputs.as_ref().filter(|_| !parent.block.names_inputs())?;
        let all = Key { module: key.module, kind: Kind::Inputs, name: String::new() };
        Some((all, inputs.span.clone()))
    }

    /// Calls `with` with the expression of a value, if it has one, and where it is evaluated:
    /// the module, and the block whose `each` is known.
    pub(super) fn with_expression(
        &self,
        key: &Key,
        mut with: impl FnMut(ModuleId, Option<Item>, &Expr),
    ) {
        let module = self.world.module(key.module);
        let body = &module.body;
        match key.kind {
            Kind::Local => {
                body.locals.get(&key.name).iter().for_each(|it| with(key.module, None, &it.value));
            }
            Kind::Output => {
                let value = body.output(&key.name).and_then(|output| output.value.as_ref());
                value.iter().for_each(|value| with(key.module, None, value));
            }
            Kind::Variable => {
                let Some(parent) = &module.parent else { return };
                if let Some(input) = parent.block.input(&key.name) {
                    with(parent.module, Some(parent.item), input);
                }
            }
            Kind::Inputs => {
                let Some(parent) = &module.parent else { return };
                let inputs = parent.block.inputs.as_ref();
                inputs.iter().for_each(|expr| with(parent.module, Some(parent.item), expr));
            }
            Kind::Actions(at) => {
                let for_each = body.actions[at].for_each.as_ref();
                for_each.iter().for_each(|expr| with(key.module, None, expr));
            }
            Kind::Components(at) => {
                let for_each = body.components[at].for_each.as_ref();
                for_each.iter().for_each(|expr| with(key.module, None, expr));
            }
        }
    }

    /// Makes the value, all that it needs being settled.
    fn finish(&self, key: Key, fault: Option<Problem>) {
        let module = self.world.module(key.module);
        let item = match key.kind {
            Kind::Actions(at) => Some(Item::Action(at)),
            Kind::Components(at) => Some(Item::Component(at)),
            _ => None,
        };
        if let Some(item) = item {
            let family = match fault {
                Some(problem) => {
                    self.world.problem(problem);
                    Family::Broken
                }
                None => super::expand::instances(self, key.module, item),
            };
            // It was not there, or it would not be finished.
            let _ = module.family(item).set(family);
            return;
        }
        let value = fault.map_or_else(|| self.made(&key), Err);
        let mut memo = self.memo.borrow_mut();
        if memo.len() <= key.module {
            memo.resize_with(key.module + 1, Memo::default);
        }
        let cached = Cached { value, generation: self.generation.get() };
        memo[key.module].put(key.kind, key.name, cached);
    }

    fn made(&self, key: &Key) -> Result<Value, Problem> {
        let module = self.world.module(key.module);
        let random = self.random(&self.told(key));
        let scope = NodeScope::of_module(self, key.module);
        match key.kind {
            Kind::Local => match module.body.locals.get(&key.name) {
                Some(local) => self.evaluate_settled(&local.value, &scope, &random),
                None => Ok(Value::NULL),
            },
            Kind::Output => match module.body.output(&key.name) {
                Some(output) => {
                    let Some(expr) = &output.value else { return Ok(Value::NULL) };
                    let value = self.evaluate_settled(expr, &scope, &random)?;
                    Ok(value.with_sensitive(output.sensitive))
                }
                None => Ok(Value::NULL),
            },
            Kind::Variable => self.variable(&module, key, &random),
            Kind::Inputs => {
                let Some(parent) = &module.parent else { return Ok(Value::NULL) };
                let Some(inputs) = &parent.block.inputs else { return Ok(Value::NULL) };
                let scope = NodeScope::of_parent(self, parent);
                self.evaluate_settled(inputs, &scope, &random)
            }
            Kind::Actions(_) | Kind::Components(_) => Ok(Value::NULL),
        }
    }

    /// The value of a component's variable.
    fn variable(
        &self,
        module: &super::world::Module,
        key: &Key,
        random: &Random,
    ) -> Result<Value, Problem> {
        let Some(variable) = module.body.variables.get(&key.name) else { return Ok(Value::NULL) };
        let Some(parent) = &module.parent else { return Ok(Value::NULL) };
        let given = match (parent.block.input(&key.name), &parent.block.inputs) {
            (Some(input), _) => {
                let scope = NodeScope::of_parent(self, parent);
                Some((self.evaluate_settled(input, &scope, random)?, input.span.clone()))
            }
            (None, Some(inputs)) if !parent.block.names_inputs() => {
                let all = self.settled(key.module, Kind::Inputs, "").unwrap_or(Ok(Value::NULL))?;
                let is_open = all.is_unknown() || all.is_null();
                let member = all.members().and_then(|members| members.get(&key.name).cloned());
                let member = member.map(|value| value.with_sensitive(all.is_sensitive()));
                let unknown = || is_open.then(|| Value::unknown(variable.ty.clone()));
                member.or_else(unknown).map(|value| (value, inputs.span.clone()))
            }
            _ => None,
        };
        let value = match (given, &variable.default) {
            (Some((value, span)), _) => model::fit(&value, &variable.ty, &span)
                .map_err(|problem| problem.label(variable.header.clone(), "declared here"))?,
            (None, Some(default)) => model::constant(default, &variable.ty)?,
            (None, None) => return Err(model::missing_input(&parent.block, variable)),
        };
        Ok(value.with_sensitive(variable.sensitive))
    }
}

/// The instances of a block, as something to settle.
pub(super) fn instances_key(module: ModuleId, item: Item) -> Key {
    Key { module, kind: Kind::instances_of(item), name: String::new() }
}
