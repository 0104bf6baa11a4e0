//! The instances of a block: one, or one for each key of its `for_each`.

use std::collections::BTreeMap;
use std::rc::Rc;

use toolbus_proto::orchard::types::quoted;

use super::evaluation::{Evaluation, instances_key};
use super::scope::NodeScope;
use super::world::{Each, Family, ModuleId, NODES_MAX, Parent, Slot, SlotId};
use crate::diagnostic::{Code, Problem, Span};
use crate::model::{self, Expr, Item};
use crate::value::{Kind, Type, Value};

/// Makes the instances of a block, what its `for_each` needs being settled.
pub(super) fn instances(evaluation: &Evaluation, id: ModuleId, item: Item) -> Family {
    let module = evaluation.world.module(id);
    let for_each = match item {
        Item::Action(at) => module.body.actions[at].for_each.as_ref(),
        Item::Component(at) => module.body.components[at].for_each.as_ref(),
    };
    let Some(expr) = for_each else {
        return make(evaluation, id, item, None).map_or(Family::Broken, Family::One);
    };
    let scope = NodeScope::of_module(evaluation, id);
    let random = evaluation.random(&module.address(item));
    let keys = evaluation.evaluate(expr, &scope, &random).and_then(|value| keys(&value, expr));
    match keys {
        Ok(Some(keys)) => {
            let mut instances = BTreeMap::new();
            for (key, each) in keys {
                let Some(made) = make(evaluation, id, item, Some((&key, each))) else {
                    return Family::Broken;
                };
                instances.insert(key, made);
            }
            Family::Many(Rc::new(instances))
        }
        Ok(None) if evaluation.world.is_lenient => {
            let each = Each { key: Value::unknown(Type::String), value: Value::unknown(Type::Any) };
            let made = make(evaluation, id, item, Some(("*", each)));
            made.map_or(Family::Broken, Family::Unknown)
        }
        Ok(None) => {
            let message = "`for_each` must be known before the run";
            let problem = Problem::error(Code::UnknownForEach, message).at(expr.span.clone());
            let help =
                "its keys become addresses: make them of variables, not of what actions give";
            evaluation.world.problem(problem.help(help));
            Family::Broken
        }
        Err(problem) => {
            evaluation.world.problem(problem);
            Family::Broken
        }
    }
}

/// The keys with their values, or `None` if they are known only after the run.
fn keys(value: &Value, expr: &Expr) -> Result<Option<Vec<(String, Each)>>, Problem> {
    let refuse = |code, message: String| Err(Problem::error(code, message).at(expr.span.clone()));
    if value.is_sensitive() {
        let message =
            "`for_each` is sensitive, and its keys would be shown as addresses".to_owned();
        let problem = refuse(Code::SensitiveForEach, message);
        return problem.map_err(|problem: Problem| {
            problem.help("`nonsensitive()` says that they may be shown")
        });
    }
    let mismatch = |value: &Value| {
        let message = format!(
            "`for_each` takes a map, an object or a set of strings, not a {}",
            value.kind_word()
        );
        let problem = Problem::error(Code::TypeMismatch, message).at(expr.span.clone());
        Err(match value.ty() {
            Type::List(_) | Type::Tuple(_) => problem.help("make a set of it: `toset(…)`"),
            _ => problem,
        })
    };
    match value.kind() {
        Kind::Unknown(ty) => match **ty {
            Type::String | Type::Number | Type::Bool | Type::List(_) | Type::Tuple(_) => {
                mismatch(value)
            }
            _ => Ok(None),
        },
        Kind::Null => refuse(Code::NullValue, "`for_each` is null".to_owned()),
        Kind::Map(all) | Kind::Object(all) => {
            let key = |(key, value): (&String, &Value)| {
                let each = Each { key: Value::string(key.as_str()), value: value.clone() };
                (key.clone(), each)
            };
            Ok(Some(all.items().iter().map(key).collect()))
        }
        Kind::Set(all) => {
            let mut keys = Vec::with_capacity(all.items().len());
            for element in all.items() {
                let Some(text) = element.as_str() else {
                    let message =
                        format!("`for_each` takes a set of strings, not of `{}`", all.element());
                    return refuse(Code::TypeMismatch, message);
                };
                let each = Each { key: element.clone(), value: element.clone() };
                keys.push((text.to_owned(), each));
            }
            Ok(Some(keys))
        }
        _ => mismatch(value),
    }
}

/// Makes one instance, or none if there are too many.
fn make(
    evaluation: &Evaluation,
    id: ModuleId,
    item: Item,
    each: Option<(&str, Each)>,
) -> Option<usize> {
    let world = &evaluation.world;
    let module = world.module(id);
    let mut address = module.address(item);
    if let Some((key, _)) = &each {
        address.push_str(&format!("[{}]", quoted(key)));
    }
    let each = each.map(|(_, each)| each);
    let too_many = |what: &str, header: &Span| {
        let message = format!("the scenario has more than {NODES_MAX} {what}");
        world.problem(Problem::error(Code::TooBig, message).at(header.clone()));
    };
    match item {
        Item::Action(at) => {
            let action = module.body.actions[at].clone();
            if NODES_MAX <= world.slots.borrow().len() {
                too_many("actions", &action.header);
                return None;
            }
            Some(world.add_slot(Slot { module: id, item, action, each, address }))
        }
        Item::Component(at) => {
            let block = module.body.components[at].clone();
            let definition = block.definition.clone()?;
            if NODES_MAX <= world.modules.borrow().len() {
                too_many("components", &block.header);
                return None;
            }
            let parent = Parent { module: id, item, block, each };
            Some(world.add_module(definition.body.clone(), address, Some(parent)))
        }
    }
}

/// Makes all instances of a module and of those inside it. Gives the actions in declaration order,
/// a component standing where its block stands.
pub(super) fn unfold(evaluation: &Evaluation, id: ModuleId) -> Vec<SlotId> {
    let mut found = Vec::new();
    // Items that are still to be looked at, the next last.
    let items = |id: ModuleId| {
        let module = evaluation.world.module(id);
        let items: Vec<_> = module.body.order.iter().rev().map(|item| (id, *item)).collect();
        items
    };
    let mut todo = items(id);
    while let Some((id, item)) = todo.pop() {
        let module = evaluation.world.module(id);
        if module.family(item).get().is_none() {
            let header = match item {
                Item::Action(at) => module.body.actions[at].header.clone(),
                Item::Component(at) => module.body.components[at].header.clone(),
            };
            evaluation.settle_key(instances_key(id, item), header);
        }
        let instances = module.family(item).get().map(Family::all).unwrap_or_default();
        match item {
            Item::Action(_) => found.extend(instances),
            Item::Component(_) => {
                let inside = instances.into_iter().rev().flat_map(items);
                todo.extend(inside);
            }
        }
    }
    found
}

/// What is wrong with inputs that are not written out.
pub(super) fn check_inputs(evaluation: &Evaluation, id: ModuleId) {
    let module = evaluation.world.module(id);
    let Some(parent) = &module.parent else { return };
    let Some(inputs) = parent.block.inputs.as_ref().filter(|_| !parent.block.names_inputs()) else {
        return;
    };
    let scope = NodeScope::of_parent(evaluation, parent);
    let random = evaluation.random(&module.name("inputs"));
    let value = match evaluation.evaluate(inputs, &scope, &random) {
        Ok(value) => value,
        Err(problem) => return evaluation.world.problem(problem),
    };
    let Some(members) = value.members() else {
        if !value.is_unknown() {
            let message = format!("`inputs` takes an object, not a {}", value.kind_word());
            let problem = Problem::error(Code::TypeMismatch, message);
            evaluation.world.problem(problem.at(inputs.span.clone()));
        }
        return;
    };
    for name in members.keys().filter(|name| !module.body.variables.contains_key(*name)) {
        let problem = model::unknown_input(&parent.block, name);
        evaluation.world.problem(problem.at(inputs.span.clone()));
    }
}
