//! Only some actions of a plan, with what they need.

use std::collections::{BTreeSet, HashMap};

use super::edges::Slots;
use super::world::{SlotId, World};
use crate::diagnostic::{Code, Problem};

/// What is left of the order if only the targets are wanted; all if there are none.
pub(super) fn wanted(
    world: &World,
    order: Vec<SlotId>,
    needs: &HashMap<SlotId, Slots>,
    targets: &[String],
    problems: &mut Vec<Problem>,
) -> Vec<SlotId> {
    if targets.is_empty() {
        return order;
    }
    let mut todo: Vec<SlotId> = Vec::new();
    for target in targets {
        let is_it = |slot: &&SlotId| is_in(&world.slot(**slot).address, target);
        let found: Vec<SlotId> = order.iter().filter(is_it).copied().collect();
        if found.is_empty() {
            problems.push(unknown(world, &order, target));
        }
        todo.extend(found);
    }
    let mut kept: BTreeSet<SlotId> = BTreeSet::new();
    while let Some(slot) = todo.pop() {
        if kept.insert(slot) {
            todo.extend(needs.get(&slot).iter().flat_map(|needs| needs.iter()).copied());
        }
    }
    order.into_iter().filter(|slot| kept.contains(slot)).collect()
}

/// Is the address the target, one of its instances, or inside of it?
fn is_in(address: &str, target: &str) -> bool {
    address.strip_prefix(target).is_some_and(|rest| {
        rest.is_empty() || rest.starts_with('[') || (rest.starts_with('.') && !target.is_empty())
    })
}

fn unknown(world: &World, order: &[SlotId], target: &str) -> Problem {
    let problem =
        Problem::error(Code::UnknownTarget, format!("there is no action `{target}` in the plan"));
    let mut known: BTreeSet<String> = BTreeSet::new();
    for slot in order {
        let address = &world.slot(*slot).address;
        // Families and components can be named as a whole.
        for (at, char) in address.char_indices() {
            if char == '[' || (char == '.' && address[..at].starts_with("component.")) {
                known.insert(address[..at].to_owned());
            }
        }
        known.insert(address.clone());
    }
    problem.meant(target, known.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::is_in;

    #[test]
    fn a_target_is_an_action_a_family_or_a_component() {
        for (address, target, expected) in [
            ("action.a.b", "action.a.b", true),
            ("action.a.b[\"k\"]", "action.a.b", true),
            ("action.a.b[\"k\"]", "action.a.b[\"k\"]", true),
            ("action.a.bc", "action.a.b", false),
            ("component.a.b.action.c.d", "component.a.b", true),
            ("component.a.b[\"k\"].action.c.d", "component.a.b", true),
            ("component.a.b[\"k\"].action.c.d", "component.a.b[\"k\"]", true),
            ("component.a.b.action.c.d", "component.a", true),
            ("action.a.b", "", false),
        ] {
            assert_eq!(is_in(address, target), expected, "{address} {target}");
        }
    }
}
