//! What names mean to an expression: variables, locals, other actions, components, `each` and
//! `self`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::evaluation::{Evaluation, Key, Kind, Needs, instances_key};
use super::world::{Each, Family, ModuleId, Parent};
use crate::diagnostic::{Code, Problem, Span};
use crate::expr::{self, Reference, Resolved, Scope, Source};
use crate::model::{Expr, Item, Use};
use crate::value::{Type, Value};

/// The names that are known at one place.
pub(super) struct NodeScope<'a> {
    pub(super) evaluation: &'a Evaluation,
    pub(super) module: ModuleId,
    /// The block whose `each` is known.
    pub(super) item: Option<Item>,
    pub(super) each: Option<&'a Each>,
    /// `self`, in a teardown.
    pub(super) own: Option<&'a Value>,
}

impl<'a> NodeScope<'a> {
    /// Outside of all blocks with `for_each`.
    pub(super) fn of_module(evaluation: &'a Evaluation, module: ModuleId) -> NodeScope<'a> {
        NodeScope { evaluation, module, item: None, each: None, own: None }
    }

    /// In the block that includes a component.
    pub(super) fn of_parent(evaluation: &'a Evaluation, parent: &'a Parent) -> NodeScope<'a> {
        let (module, item) = (parent.module, Some(parent.item));
        NodeScope { evaluation, module, item, each: parent.each.as_ref(), own: None }
    }

    fn action(&self, reference: &Reference, at: &Source<'_>) -> Option<Result<Resolved, Problem>> {
        let world = &self.evaluation.world;
        let module = world.module(self.module);
        let index = module.body.action(reference.name(0)?, reference.name(1)?)?;
        let action = &module.body.actions[index];
        let ty = world.binding(action).map(|binding| &binding.output_type);
        let outputs = |value: Value, steps: usize| {
            known_output(ty, reference, steps, at)?;
            Ok(Resolved { value, steps })
        };
        Some(match module.actions[index].get()? {
            Family::One(slot) => outputs(self.evaluation.outputs_of(*slot), 2),
            Family::Many(instances) => match reference.path.get(2) {
                Some(step) => match reference.name(2).and_then(|key| instances.get(key)) {
                    Some(slot) => outputs(self.evaluation.outputs_of(*slot), 3),
                    None => Err(no_instance(&module.address(Item::Action(index)), instances)
                        .at(at.span(step.span.clone()))),
                },
                None => {
                    let value = self.evaluation.all_outputs_of(self.module, index, instances);
                    Ok(Resolved { value, steps: 2 })
                }
            },
            Family::Unknown(_) | Family::Broken => {
                Ok(Resolved { value: Value::unknown(Type::Any), steps: 2 })
            }
        })
    }

    fn component(
        &self,
        reference: &Reference,
        at: &Source<'_>,
    ) -> Option<Result<Resolved, Problem>> {
        let world = &self.evaluation.world;
        let module = world.module(self.module);
        let index = module.body.component(reference.name(0)?, reference.name(1)?)?;
        Some(match module.components[index].get()? {
            Family::One(instance) => self.component_outputs(*instance, reference, 2, at),
            Family::Many(instances) => match reference.path.get(2) {
                Some(step) => match reference.name(2).and_then(|key| instances.get(key)) {
                    Some(instance) => self.component_outputs(*instance, reference, 3, at),
                    None => Err(no_instance(&module.address(Item::Component(index)), instances)
                        .at(at.span(step.span.clone()))),
                },
                None => {
                    let value = |(key, instance): (&String, &usize)| {
                        Ok((key.clone(), self.all_outputs(*instance)?))
                    };
                    let all: Result<BTreeMap<_, _>, Problem> =
                        instances.iter().map(value).collect();
                    all.map(|all| Resolved { value: Value::object(all), steps: 2 })
                }
            },
            Family::Unknown(_) | Family::Broken => {
                Ok(Resolved { value: Value::unknown(Type::Any), steps: 2 })
            }
        })
    }

    /// The output that the step at `steps` names, or all.
    fn component_outputs(
        &self,
        instance: ModuleId,
        reference: &Reference,
        steps: usize,
        at: &Source<'_>,
    ) -> Result<Resolved, Problem> {
        let Some(name) = reference.name(steps) else {
            return Ok(Resolved { value: self.all_outputs(instance)?, steps });
        };
        let module = self.evaluation.world.module(instance);
        if module.body.output(name).is_none() {
            let component = &module.body.name.text;
            let message = format!("component `{component}` has no output `{name}`");
            let names = module.body.outputs.iter().map(|output| output.name.text.as_str());
            let problem = Problem::error(Code::UnknownReference, message);
            return Err(problem.at(at.span(reference.span_of(steps + 1))).meant(name, names));
        }
        Ok(Resolved { value: self.value(instance, Kind::Output, name)?, steps: steps + 1 })
    }

    fn all_outputs(&self, instance: ModuleId) -> Result<Value, Problem> {
        let module = self.evaluation.world.module(instance);
        let names = module.body.outputs.iter().map(|output| &output.name.text);
        let value = |name: &String| Ok((name.clone(), self.value(instance, Kind::Output, name)?));
        names.map(value).collect::<Result<BTreeMap<_, _>, _>>().map(Value::object)
    }

    fn value(&self, module: ModuleId, kind: Kind, name: &str) -> Result<Value, Problem> {
        // What is not settled is part of a circle, which was told.
        let open = || Ok(Value::unknown(Type::Any));
        self.evaluation.settled(module, kind, name).unwrap_or_else(open)
    }

    fn own_variable(&self, name: &str) -> Result<Value, Problem> {
        let world = &self.evaluation.world;
        let module = world.module(self.module);
        if module.parent.is_some() {
            return self.value(self.module, Kind::Variable, name);
        }
        let unknown = || {
            let variable = module.body.variables.get(name);
            let ty = variable.map_or(Type::Any, |variable| variable.ty.clone());
            Value::unknown(ty).with_sensitive(variable.is_some_and(|variable| variable.sensitive))
        };
        Ok(world.variables.get(name).cloned().unwrap_or_else(unknown))
    }
}

impl Scope for NodeScope<'_> {
    fn variable(&self, reference: &Reference, at: &Source<'_>) -> Result<Resolved, Problem> {
        let body = &self.evaluation.world.module(self.module).body;
        let resolved = match reference.root.as_str() {
            "var" => match reference.name(0).filter(|name| body.variables.contains_key(*name)) {
                Some(name) => Some(Ok(Resolved { value: self.own_variable(name)?, steps: 1 })),
                None => None,
            },
            "local" => match reference.name(0).filter(|name| body.locals.contains_key(*name)) {
                Some(name) => {
                    let value = self.value(self.module, Kind::Local, name)?;
                    Some(Ok(Resolved { value, steps: 1 }))
                }
                None => None,
            },
            "action" => self.action(reference, at),
            "component" => self.component(reference, at),
            "each" => self.each.and_then(|each| match reference.name(0)? {
                "key" => Some(Ok(Resolved { value: each.key.clone(), steps: 1 })),
                "value" => Some(Ok(Resolved { value: each.value.clone(), steps: 1 })),
                _ => None,
            }),
            "self" => self.own.map(|own| {
                let ty = own.ty();
                known_output(Some(&ty), reference, 0, at)?;
                Ok(Resolved { value: own.clone(), steps: 0 })
            }),
            _ => None,
        };
        // What is not declared was told when the file was read, and is told once.
        resolved.unwrap_or_else(|| {
            Ok(Resolved { value: Value::unknown(Type::Any), steps: reference.path.len() })
        })
    }
}

/// Refuses an output that the type does not have.
fn known_output(
    ty: Option<&Type>,
    reference: &Reference,
    steps: usize,
    at: &Source<'_>,
) -> Result<(), Problem> {
    let (Some(Type::Object(fields)), Some(name)) = (ty, reference.name(steps)) else {
        return Ok(());
    };
    if fields.contains_key(name) {
        return Ok(());
    }
    let message = match fields.is_empty() {
        true => format!("the action has no outputs, so there is no `{name}`"),
        false => format!("the action has no output `{name}`"),
    };
    let problem = Problem::error(Code::UnknownOutput, message);
    let problem = problem.at(at.span(reference.span_of(steps + 1)));
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    let meant = problem.clone().meant(name, names.iter().copied());
    Err(match meant.help.is_some() || names.is_empty() {
        true => meant,
        false => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            problem.help(format!("it has {}", names.join(", ")))
        }
    })
}

fn no_instance(address: &str, instances: &Rc<BTreeMap<String, usize>>) -> Problem {
    let message = format!("`{address}` has no such instance");
    let problem = Problem::error(Code::BadIndex, message);
    let keys: Vec<String> = instances.keys().take(5).map(|key| format!("`{key}`")).collect();
    match instances.len() {
        0 => problem.help("it has none at all"),
        1..=5 => problem.help(format!("it has {}", keys.join(", "))),
        _ => problem.help(format!("it has {} …", keys.join(", "))),
    }
}

impl Evaluation {
    /// What an expression needs that stands in this module and, maybe, in a block with `each`.
    pub(super) fn needs(&self, module: ModuleId, item: Option<Item>, expr: &Expr) -> Needs {
        let mut needs = Needs::default();
        for used in &expr.uses {
            self.need(module, item, expr, used, None, &mut needs);
        }
        needs
    }

    /// The same of one reference. With `scope` an index in it is evaluated.
    pub(super) fn need(
        &self,
        id: ModuleId,
        item: Option<Item>,
        expr: &Expr,
        used: &Use,
        scope: Option<&NodeScope<'_>>,
        needs: &mut Needs,
    ) {
        let module = self.world.module(id);
        let Use { reference, index } = used;
        let name = reference.name(0).unwrap_or_default();
        let span = |steps| expr.place(reference, steps);
        let key = |kind| Key { module: id, kind, name: name.to_owned() };
        let chosen = |instances: &BTreeMap<String, usize>| -> Vec<usize> {
            let literal = reference.name(2).map(str::to_owned);
            let evaluated = || self.index(index.as_ref()?, expr, scope?);
            match literal.or_else(evaluated) {
                Some(key) => instances.get(&key).copied().into_iter().collect(),
                None => instances.values().copied().collect(),
            }
        };
        match reference.root.as_str() {
            "var" if module.parent.is_some() && module.body.variables.contains_key(name) => {
                needs.values.push((key(Kind::Variable), span(1)));
            }
            "local" if module.body.locals.contains_key(name) => {
                needs.values.push((key(Kind::Local), span(1)));
            }
            "each" => {
                let own = item.map(|item| instances_key(id, item));
                needs.values.extend(own.map(|own| (own, span(1))));
            }
            "action" => {
                let found = reference.name(1).and_then(|second| module.body.action(name, second));
                let Some(at) = found else { return };
                let Some(family) = module.actions[at].get() else {
                    needs.values.push((instances_key(id, Item::Action(at)), span(2)));
                    return;
                };
                match family {
                    Family::Many(instances) => needs.slots.extend(chosen(instances)),
                    family => needs.slots.extend(family.all()),
                }
            }
            "component" => {
                let found =
                    reference.name(1).and_then(|second| module.body.component(name, second));
                let Some(at) = found else { return };
                let Some(family) = module.components[at].get() else {
                    needs.values.push((instances_key(id, Item::Component(at)), span(2)));
                    return;
                };
                let (instances, step) = match family {
                    Family::Many(instances) => (chosen(instances), 3),
                    family => (family.all(), 2),
                };
                for instance in instances {
                    self.need_outputs(instance, reference, step, &span, needs);
                }
            }
            _ => {}
        }
    }

    fn need_outputs(
        &self,
        instance: ModuleId,
        reference: &Reference,
        step: usize,
        span: &dyn Fn(usize) -> Span,
        needs: &mut Needs,
    ) {
        let module = self.world.module(instance);
        let output =
            |name: &str| Key { module: instance, kind: Kind::Output, name: name.to_owned() };
        match reference.name(step) {
            Some(name) if module.body.output(name).is_some() => {
                needs.values.push((output(name), span(step + 1)));
            }
            Some(_) => {}
            None => {
                let names = module.body.outputs.iter().map(|output| output.name.text.as_str());
                needs.values.extend(names.map(|name| (output(name), span(step))));
            }
        }
    }

    /// The key that an index means, if that is known.
    fn index(
        &self,
        index: &hcl_edit::expr::Expression,
        expr: &Expr,
        scope: &NodeScope<'_>,
    ) -> Option<String> {
        let random = self.random("");
        let value = expr::evaluate(index, scope, &self.source(expr, &random)).ok()?;
        value.as_str().map(str::to_owned)
    }
}
