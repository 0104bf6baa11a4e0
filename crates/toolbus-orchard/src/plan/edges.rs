//! Which action has to wait for which, directly or through locals, inputs and outputs.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

use super::evaluation::{Evaluation, Key, Needs};
use super::scope::NodeScope;
use super::world::{Family, ModuleId, SlotId};
use crate::diagnostic::{Code, Problem, Span};
use crate::model::{self, Dependency, DependencyKind, Expr, Item};

/// How many pairs of actions may be held.
const PAIRS_MAX: usize = 10_000_000;

/// The actions that something needs, sorted.
pub(super) type Slots = Rc<[SlotId]>;

/// Finds what each action needs.
pub(super) struct Edges<'a> {
    evaluation: &'a Evaluation,
    known: HashMap<Key, Slots>,
    /// What the blocks of a module and of those around it say by `depends_on`.
    around: HashMap<ModuleId, Slots>,
    /// The lists that were made last, so that equal ones are held once.
    shared: HashMap<(ModuleId, Item), Slots>,
    pairs: usize,
    none: Slots,
}

impl<'a> Edges<'a> {
    pub(super) fn new(evaluation: &'a Evaluation) -> Edges<'a> {
        let (known, around, shared) = (HashMap::new(), HashMap::new(), HashMap::new());
        Edges { evaluation, known, around, shared, pairs: 0, none: Rc::new([]) }
    }

    /// What an action needs; `None` if there are too many.
    pub(super) fn of_slot(&mut self, id: SlotId) -> Option<Slots> {
        let slot = self.evaluation.world.slot(id);
        let mut lists = vec![self.around(slot.module)];
        let own: Vec<SlotId> = self.named(slot.module, &slot.action.depends_on);
        lists.push(own.into());
        let scope = NodeScope {
            evaluation: self.evaluation,
            module: slot.module,
            item: Some(slot.item),
            each: slot.each.as_ref(),
            own: None,
        };
        for expr in expressions(&slot.action) {
            lists.push(self.of_expression(slot.module, Some(slot.item), expr, Some(&scope)));
        }
        let slots = self.union(lists);
        // Instances of a block mostly need the same.
        let key = (slot.module, slot.item);
        if let Some(last) = self.shared.get(&key)
            && *last == slots
        {
            return Some(last.clone());
        }
        self.shared.insert(key, slots.clone());
        (self.pairs <= PAIRS_MAX).then_some(slots)
    }

    /// What an output of a module needs.
    pub(super) fn of_output(&mut self, module: ModuleId, expr: &Expr) -> Slots {
        self.of_expression(module, None, expr, None)
    }

    pub(super) fn of_expression(
        &mut self,
        module: ModuleId,
        item: Option<Item>,
        expr: &Expr,
        scope: Option<&NodeScope<'_>>,
    ) -> Slots {
        let mut needs = Needs::default();
        for used in &expr.uses {
            self.evaluation.need(module, item, expr, used, scope, &mut needs);
        }
        self.of_needs(needs)
    }

    fn of_needs(&mut self, needs: Needs) -> Slots {
        let Needs { values, mut slots } = needs;
        slots.sort_unstable();
        slots.dedup();
        let mut lists: Vec<Slots> = Vec::with_capacity(values.len() + 1);
        for (key, _) in values {
            lists.push(self.of_key(key));
        }
        lists.push(slots.into());
        self.union(lists)
    }

    /// What a value needs, by a walk with a stack of its own.
    fn of_key(&mut self, key: Key) -> Slots {
        let mut stack = vec![(key.clone(), None::<Needs>)];
        // A circle, which was told, must not be walked for ever.
        let mut active: HashSet<Key> = HashSet::new();
        while let Some((key, needs)) = stack.pop() {
            if self.known.contains_key(&key) {
                continue;
            }
            match needs {
                None => {
                    if !active.insert(key.clone()) {
                        continue;
                    }
                    let needs = self.needs_of(&key);
                    let children: Vec<Key> =
                        needs.values.iter().map(|(key, _)| key.clone()).collect();
                    stack.push((key, Some(needs)));
                    stack.extend(children.into_iter().map(|child| (child, None)));
                }
                Some(Needs { values, mut slots }) => {
                    slots.sort_unstable();
                    slots.dedup();
                    let known =
                        values.iter().filter_map(|(child, _)| self.known.get(child).cloned());
                    let mut lists: Vec<Slots> = known.collect();
                    lists.push(slots.into());
                    let all = self.union(lists);
                    self.known.insert(key, all);
                }
            }
        }
        self.known.get(&key).unwrap_or(&self.none).clone()
    }

    fn needs_of(&self, key: &Key) -> Needs {
        let mut found = Needs::default();
        self.evaluation.with_expression(key, |module, item, expr| {
            let parent = self.evaluation.world.module(key.module);
            let scope = match (item, &parent.parent) {
                (Some(_), Some(parent)) => NodeScope::of_parent(self.evaluation, parent),
                _ => NodeScope::of_module(self.evaluation, module),
            };
            for used in &expr.uses {
                self.evaluation.need(module, item, expr, used, Some(&scope), &mut found);
            }
        });
        found.values.extend(self.evaluation.inputs_of(key));
        found
    }

    /// What `depends_on` names.
    fn named(&self, module: ModuleId, dependencies: &[Dependency]) -> Vec<SlotId> {
        let mut slots = Vec::new();
        for dependency in dependencies {
            slots.extend(self.named_by(module, dependency));
        }
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    fn named_by(&self, id: ModuleId, dependency: &Dependency) -> Vec<SlotId> {
        let world = &self.evaluation.world;
        let module = world.module(id);
        let Dependency { kind, ty, name, .. } = dependency;
        let all = |family: Option<&Family>| family.map(Family::all).unwrap_or_default();
        match kind {
            DependencyKind::Action => match module.body.action(ty, name) {
                Some(at) => all(module.actions[at].get()),
                None => Vec::new(),
            },
            DependencyKind::Component => {
                let Some(at) = module.body.component(ty, name) else { return Vec::new() };
                let mut todo = all(module.components[at].get());
                let mut slots = Vec::new();
                while let Some(id) = todo.pop() {
                    let module = world.module(id);
                    slots.extend(module.actions.iter().flat_map(|family| all(family.get())));
                    todo.extend(module.components.iter().flat_map(|family| all(family.get())));
                }
                slots
            }
        }
    }

    /// What the component blocks around a module say.
    fn around(&mut self, module: ModuleId) -> Slots {
        if let Some(known) = self.around.get(&module) {
            return known.clone();
        }
        let this = self.evaluation.world.module(module);
        let slots = match &this.parent {
            Some(parent) => {
                let outer = self.around(parent.module);
                let own = self.named(parent.module, &parent.block.depends_on);
                self.union(vec![outer, own.into()])
            }
            None => self.none.clone(),
        };
        self.around.insert(module, slots.clone());
        slots
    }

    fn union(&mut self, mut lists: Vec<Slots>) -> Slots {
        lists.retain(|list| !list.is_empty());
        match &lists[..] {
            [] => self.none.clone(),
            [only] => only.clone(),
            [first, others @ ..] if others.iter().all(|other| other == first) => first.clone(),
            _ => {
                let mut all: Vec<SlotId> =
                    lists.iter().flat_map(|list| list.iter().copied()).collect();
                all.sort_unstable();
                all.dedup();
                self.pairs = self.pairs.saturating_add(all.len());
                // Held no longer than until it is told that there are too many.
                if PAIRS_MAX < self.pairs {
                    return self.none.clone();
                }
                all.into()
            }
        }
    }

    /// Where an action says that it needs another.
    fn place(&mut self, from: SlotId, to: SlotId) -> Span {
        let slot = self.evaluation.world.slot(from);
        for dependency in &slot.action.depends_on {
            if self.named_by(slot.module, dependency).contains(&to) {
                return dependency.span.clone();
            }
        }
        let scope = NodeScope {
            evaluation: self.evaluation,
            module: slot.module,
            item: Some(slot.item),
            each: slot.each.as_ref(),
            own: None,
        };
        for expr in expressions(&slot.action) {
            for used in &expr.uses {
                let mut needs = Needs::default();
                let item = Some(slot.item);
                self.evaluation.need(slot.module, item, expr, used, Some(&scope), &mut needs);
                if self.of_needs(needs).contains(&to) {
                    return expr.place(&used.reference, used.reference.path.len());
                }
            }
        }
        let mut module = self.evaluation.world.module(slot.module);
        while let Some(parent) = &module.parent {
            for dependency in &parent.block.depends_on {
                if self.named_by(parent.module, dependency).contains(&to) {
                    return dependency.span.clone();
                }
            }
            module = self.evaluation.world.module(parent.module);
        }
        slot.action.header.clone()
    }
}

/// The expressions of an action that must be known before it starts.
pub(super) fn expressions(action: &model::Action) -> impl Iterator<Item = &Expr> {
    let retry = action.retry.iter().flat_map(|retry| {
        [&retry.attempts, &retry.delay, &retry.backoff, &retry.on].into_iter().flatten()
    });
    let attributes = action.attrs.iter().chain(action.timeout.iter()).chain(retry);
    attributes.map(|attribute| &attribute.value)
}

/// The actions in the order of the plan: repeatedly the first in `declared` whose needs are met.
/// What cannot be ordered is told.
pub(super) fn order(
    edges: &mut Edges<'_>,
    declared: &[SlotId],
    needs: &HashMap<SlotId, Slots>,
    problems: &mut Vec<Problem>,
) -> Vec<SlotId> {
    let rank: HashMap<SlotId, usize> =
        declared.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let mut removed: BTreeSet<usize> = BTreeSet::new();
    loop {
        let (order, left) = sorted(declared, &rank, needs, &removed);
        if left.is_empty() {
            return order;
        }
        let ring = ring(&left, declared, &rank, needs);
        let world = &edges.evaluation.world;
        let told: Vec<(String, SlotId)> = ring
            .iter()
            .map(|at| (world.slot(declared[*at]).address.clone(), declared[*at]))
            .collect();
        let edge = |(index, (address, from)): (usize, &(String, SlotId))| {
            let to = told[(index + 1) % told.len()].1;
            (address.clone(), edges.place(*from, to))
        };
        let cycle = told.iter().enumerate().map(edge).collect();
        problems.push(model::cycle_problem(cycle));
        removed.extend(ring);
    }
}

/// The order, and what is left over; by ranks.
fn sorted(
    declared: &[SlotId],
    rank: &HashMap<SlotId, usize>,
    needs: &HashMap<SlotId, Slots>,
    removed: &BTreeSet<usize>,
) -> (Vec<SlotId>, BTreeSet<usize>) {
    let count = declared.len();
    let mut waits = vec![0usize; count];
    let mut wanted_by: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (at, id) in declared.iter().enumerate() {
        for need in needs[id].iter() {
            let Some(need) = rank.get(need).filter(|need| !removed.contains(need)) else {
                continue;
            };
            waits[at] += 1;
            wanted_by[*need].push(u32::try_from(at).unwrap_or(u32::MAX));
        }
    }
    let is_ready = |at: &usize| waits[*at] == 0 && !removed.contains(at);
    let mut ready: BinaryHeap<Reverse<usize>> = (0..count).filter(is_ready).map(Reverse).collect();
    let mut order = Vec::with_capacity(count);
    let mut left: BTreeSet<usize> = (0..count).filter(|at| !removed.contains(at)).collect();
    while let Some(Reverse(at)) = ready.pop() {
        order.push(declared[at]);
        left.remove(&at);
        for next in std::mem::take(&mut wanted_by[at]) {
            let next = next as usize;
            waits[next] -= 1;
            if waits[next] == 0 && !removed.contains(&next) {
                ready.push(Reverse(next));
            }
        }
    }
    (order, left)
}

/// A circle among what is left over, beginning with the one that is declared first.
fn ring(
    left: &BTreeSet<usize>,
    declared: &[SlotId],
    rank: &HashMap<SlotId, usize>,
    needs: &HashMap<SlotId, Slots>,
) -> Vec<usize> {
    let mut way: Vec<usize> = Vec::new();
    let mut at_way: HashMap<usize, usize> = HashMap::new();
    let mut here = left.first().copied();
    while let Some(at) = here {
        if let Some(begun) = at_way.get(&at) {
            let mut ring = way.split_off(*begun);
            let least = ring.iter().enumerate().min_by_key(|(_, at)| **at);
            let by = least.map_or(0, |(index, _)| index);
            ring.rotate_left(by);
            return ring;
        }
        at_way.insert(at, way.len());
        way.push(at);
        let next = needs[&declared[at]].iter().filter_map(|need| rank.get(need));
        here = next.copied().filter(|next| left.contains(next)).min();
    }
    // Each that is left over waits for another that is.
    way
}

/// Refuses a scenario whose actions need too many others.
pub(super) fn too_many(span: Span) -> Problem {
    let message = format!("the actions need each other in more than {PAIRS_MAX} pairs");
    Problem::error(Code::TooBig, message).at(span)
}
