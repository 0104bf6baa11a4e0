//! What can be found wrong with references before anything is evaluated.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Attribute, Body, ComponentBlock, Dependency, DependencyKind, Expr, ProviderConfig, Scenario,
    Use, key_span,
};
use crate::diagnostic::{Code, Problem, Span};
use crate::expr::Reference;
use crate::source::Sources;

/// Checks the blocks `required_providers` and `provider`.
pub(super) fn providers(scenario: &Scenario, problems: &mut Vec<Problem>) {
    let names = || scenario.required_providers.iter().map(|required| required.name.text.as_str());
    for config in &scenario.provider_configs {
        let ProviderConfig { name, .. } = config;
        if !names().any(|known| known == name.text) {
            let message = format!("provider `{}` is not in `required_providers`", name.text);
            let problem = Problem::error(Code::UnknownProvider, message).at(name.span.clone());
            problems.push(problem.meant(&name.text, names()));
        }
        let mut checker = Checker::new(&scenario.body, problems);
        checker.place = Place::ProviderConfig;
        for attribute in &config.config {
            checker.expression(&attribute.value);
        }
    }
    for action in &scenario.body.actions {
        provider_of(scenario, action.provider.as_ref(), problems);
    }
    let mut seen = BTreeSet::new();
    components(&scenario.body, &mut seen, &mut |body| {
        for action in &body.actions {
            provider_of(scenario, action.provider.as_ref(), problems);
        }
    });
}

/// Calls `visit` with the body of every component that is included, once.
fn components(body: &Body, seen: &mut BTreeSet<Span>, visit: &mut dyn FnMut(&Body)) {
    for included in &body.components {
        let Some(definition) = &included.definition else { continue };
        if seen.insert(definition.body.header.clone()) {
            visit(&definition.body);
            components(&definition.body, seen, visit);
        }
    }
}

fn provider_of(
    scenario: &Scenario,
    named: Option<&super::ProviderName>,
    problems: &mut Vec<Problem>,
) {
    let Some(named) = named else { return };
    let names = || scenario.required_providers.iter().map(|required| required.name.text.as_str());
    if !names().any(|known| known == named.name) {
        let message = format!("there is no provider `{}`", named.name);
        let problem = Problem::error(Code::UnknownProvider, message).at(named.span.clone());
        problems.push(problem.meant(&named.name, names()));
        return;
    }
    let Some(alias) = &named.alias else { return };
    let configs = scenario.provider_configs.iter().filter(|config| config.name.text == named.name);
    let aliases: Vec<&str> =
        configs.filter_map(|config| config.alias.as_ref()).map(|alias| &*alias.text).collect();
    if !aliases.contains(&alias.as_str()) {
        let message = format!("provider `{}` has no alias `{alias}`", named.name);
        let problem = Problem::error(Code::UnknownProvider, message).at(named.span.clone());
        problems.push(match aliases.is_empty() {
            true => problem
                .help(format!("make one: `provider \"{}\" {{ alias = \"{alias}\" }}`", named.name)),
            false => problem.meant(alias, aliases),
        });
    }
}

/// Checks all references in a body.
pub(super) fn body(body: &Body, sources: &Sources, problems: &mut Vec<Problem>) {
    let mut checker = Checker::new(body, problems);
    for local in body.locals.values() {
        checker.expression(&local.value);
    }
    for output in &body.outputs {
        checker.expressions(&output.value);
    }
    for action in &body.actions {
        checker.dependencies(&action.depends_on);
        checker.expressions(&action.for_each);
        checker.has_each = action.for_each.is_some();
        checker.attributes(&action.attrs);
        if let Some(retry) = &action.retry {
            let all = [&retry.attempts, &retry.delay, &retry.backoff, &retry.on];
            all.into_iter().flatten().for_each(|attribute| checker.expression(&attribute.value));
        }
        checker.attributes(action.timeout.as_slice());
        if let Some(teardown) = &action.teardown {
            checker.place = Place::Teardown;
            checker.attributes(&teardown.attrs);
            checker.place = Place::Usual;
        }
        checker.has_each = false;
    }
    for component in &body.components {
        checker.dependencies(&component.depends_on);
        checker.expressions(&component.for_each);
        checker.has_each = component.for_each.is_some();
        checker.expressions(&component.inputs);
        checker.has_each = false;
        inputs(component, sources, checker.problems);
    }
    local_cycles(body, problems);
}

/// The keys of `inputs`, where they are written out.
fn inputs(component: &ComponentBlock, sources: &Sources, problems: &mut Vec<Problem>) {
    let Some(definition) = &component.definition else { return };
    let variables = &definition.body.variables;
    if !component.names_inputs() {
        // Only their values will tell.
        return;
    }
    for name in component.input_names().filter(|name| !variables.contains_key(*name)) {
        let Some(input) = component.input(name) else { continue };
        let at = key_span(&sources.file(input.file()).text, name, &input.span);
        problems.push(unknown_input(component, name).at(at));
    }
    for variable in variables.values().filter(|variable| variable.default.is_none()) {
        if component.input(&variable.name.text).is_none() {
            problems.push(missing_input(component, variable));
        }
    }
}

/// An input that a component has no variable for.
pub(crate) fn unknown_input(component: &ComponentBlock, name: &str) -> Problem {
    let message = format!("component `{}` has no variable `{name}`", component.ty.text);
    let variables = component.definition.iter().flat_map(|it| it.body.variables.keys());
    Problem::error(Code::UnknownAttribute, message).meant(name, variables.map(String::as_str))
}

/// A variable of a component that gets no value.
pub(crate) fn missing_input(component: &ComponentBlock, variable: &super::Variable) -> Problem {
    let name = &variable.name.text;
    let message = format!("component `{}` needs the input `{name}`", component.ty.text);
    let problem = Problem::error(Code::MissingAttribute, message).at(component.header.clone());
    let problem = problem.label(variable.header.clone(), format!("of type `{}`", variable.ty));
    match &variable.description {
        Some(description) => problem.help(description.clone()),
        None => problem.help(format!("add `{name} = …` to its `inputs`")),
    }
}

/// Where an expression stands, which decides what it may name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Usual,
    Teardown,
    ProviderConfig,
}

struct Checker<'a> {
    body: &'a Body,
    problems: &'a mut Vec<Problem>,
    place: Place,
    has_each: bool,
}

const ROOTS: [&str; 6] = ["var", "local", "action", "component", "self", "each"];

impl<'a> Checker<'a> {
    fn new(body: &'a Body, problems: &'a mut Vec<Problem>) -> Checker<'a> {
        Checker { body, problems, place: Place::Usual, has_each: false }
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        attributes.iter().for_each(|attribute| self.expression(&attribute.value));
    }

    fn expressions(&mut self, expr: &Option<Expr>) {
        expr.iter().for_each(|expr| self.expression(expr));
    }

    fn expression(&mut self, expr: &Expr) {
        for Use { reference, .. } in &expr.uses {
            if let Err(problem) = self.reference(reference, expr) {
                self.problems.push(problem);
            }
        }
    }

    fn reference(&self, reference: &Reference, expr: &Expr) -> Result<(), Problem> {
        let at = |steps| Span::new(expr.file(), reference.span_of(steps));
        let here = self.place;
        match reference.root.as_str() {
            "self" if here != Place::Teardown => {
                let message = "`self` is only known in `teardown`";
                let problem = Problem::error(Code::SelfOutsideTeardown, message).at(at(0));
                Err(problem.help("another action's outputs are `action.TYPE.NAME.output`"))
            }
            "self" => Ok(()),
            "each" if !self.has_each => {
                let problem = Problem::error(Code::UnknownReference, "there is no `for_each` here");
                Err(problem.at(at(0)).help("`each` is known in blocks that have `for_each`"))
            }
            "each" => match reference.name(0) {
                Some("key" | "value") => Ok(()),
                _ => {
                    let problem =
                        Problem::error(Code::UnknownReference, "`each` has `key` and `value`");
                    Err(problem.at(at(1)))
                }
            },
            "action" | "component" if here == Place::ProviderConfig => {
                Err(in_provider_config(&reference.root).at(at(3)))
            }
            "local" if here == Place::ProviderConfig => {
                undeclared(self.body, reference, expr)?;
                let name = reference.name(0).unwrap_or_default();
                match reaches_actions(self.body, name) {
                    true => Err(in_provider_config(&format!("local.{name}")).at(at(1))),
                    false => Ok(()),
                }
            }
            _ => undeclared(self.body, reference, expr),
        }
    }

    fn dependencies(&mut self, dependencies: &[Dependency]) {
        for Dependency { kind, ty, name, span } in dependencies {
            let found = match kind {
                DependencyKind::Action => self.body.action(ty, name),
                DependencyKind::Component => self.body.component(ty, name),
            };
            if found.is_none() {
                let word = match kind {
                    DependencyKind::Action => "action",
                    DependencyKind::Component => "component",
                };
                self.problems.push(unknown_block(self.body, word, ty, name).at(span.clone()));
            }
        }
    }
}

fn in_provider_config(what: &str) -> Problem {
    let message = match what {
        "action" | "component" => format!("a provider's config cannot use an {what}"),
        what => format!("a provider's config cannot use `{what}`, which is made of actions"),
    };
    let message = message.replace("an component", "a component");
    Problem::error(Code::ActionInProviderConfig, message).help(
        "providers are configured before any action is executed: use `var` and locals made of it",
    )
}

/// Does a reference name something that is declared in this body?
fn undeclared(body: &Body, reference: &Reference, expr: &Expr) -> Result<(), Problem> {
    let at = |steps| Span::new(expr.file(), reference.span_of(steps));
    let unknown = |message: String| Problem::error(Code::UnknownReference, message);
    let root = reference.root.as_str();
    match root {
        "var" | "local" => {
            let Some(name) = reference.name(0) else {
                let message = format!("`{root}` is no value of its own");
                return Err(unknown(message).at(at(0)).help(format!("name one: `{root}.NAME`")));
            };
            let (what, names): (_, Vec<&str>) = match root {
                "var" => ("variable", body.variables.keys().map(String::as_str).collect()),
                _ => ("local", body.locals.keys().map(String::as_str).collect()),
            };
            match names.contains(&name) {
                true => Ok(()),
                false => {
                    let message = format!("{what} `{name}` is not declared");
                    Err(unknown(message).at(at(1)).meant(name, names))
                }
            }
        }
        "action" | "component" => {
            let (Some(ty), Some(name)) = (reference.name(0), reference.name(1)) else {
                let message = format!("`{root}` needs a type and a name");
                return Err(unknown(message).at(at(2)).help(format!("write `{root}.TYPE.NAME`")));
            };
            let found = match root {
                "action" => body.action(ty, name),
                _ => body.component(ty, name),
            };
            match found {
                Some(_) => Ok(()),
                None => Err(unknown_block(body, root, ty, name).at(at(2))),
            }
        }
        _ => {
            let problem = unknown(format!("`{root}` is not known here")).at(at(0));
            let meant = problem.clone().meant(root, ROOTS);
            Err(match (meant.help.is_some(), reference.path.is_empty()) {
                (true, _) => meant,
                (_, true) => problem.help(format!("text stands in quotes: `\"{root}\"`")),
                (..) => problem.help(
                    "references begin with `var`, `local`, `action`, `component`, `each` or `self`",
                ),
            })
        }
    }
}

fn unknown_block(body: &Body, word: &str, ty: &str, name: &str) -> Problem {
    let problem =
        Problem::error(Code::UnknownReference, format!("`{word}.{ty}.{name}` is not declared"));
    let (types, names): (Vec<&str>, Vec<&str>) = match word {
        "action" => (body.action_types().collect(), body.action_names(ty).collect()),
        _ => (body.component_types().collect(), body.component_names(ty).collect()),
    };
    let suggest = |meant: String| problem.clone().help(format!("did you mean `{word}.{meant}`?"));
    if let Some(meant) = nearest(name, &names) {
        return suggest(format!("{ty}.{meant}"));
    }
    let has_name = |ty: &&&str| match word {
        "action" => body.action(ty, name).is_some(),
        _ => body.component(ty, name).is_some(),
    };
    let with_name: Vec<&str> = types.iter().filter(has_name).copied().collect();
    match (nearest(ty, &types), &with_name[..]) {
        (Some(meant), _) if with_name.contains(&meant) => suggest(format!("{meant}.{name}")),
        (_, [only]) => suggest(format!("{only}.{name}")),
        _ => problem,
    }
}

fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    crate::diagnostic::did_you_mean(word, names)
}

/// Is a local made of actions, or of components, which may be?
fn reaches_actions(body: &Body, name: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = vec![name.to_owned()];
    while let Some(name) = next.pop() {
        let Some(local) = body.locals.get(&name) else { continue };
        if !seen.insert(name) {
            continue;
        }
        for Use { reference, .. } in &local.value.uses {
            match reference.root.as_str() {
                "action" | "component" => return true,
                "local" => next.extend(reference.name(0).map(str::to_owned)),
                _ => {}
            }
        }
    }
    false
}

/// Locals that need each other.
fn local_cycles(body: &Body, problems: &mut Vec<Problem>) {
    let mut edges: BTreeMap<&str, Vec<(String, Span)>> = BTreeMap::new();
    for (name, local) in &body.locals {
        let found = local.value.uses.iter().filter_map(|Use { reference, .. }| {
            let target = reference.name(0).filter(|_| reference.root == "local")?.to_owned();
            Some((target, Span::new(local.value.file(), reference.span_of(1))))
        });
        edges.insert(name, found.collect());
    }
    // In the order of the text, so that a cycle begins where its first local stands.
    let mut names: Vec<&str> = body.locals.keys().map(String::as_str).collect();
    names.sort_by_key(|name| body.locals[*name].name.span.clone());
    let mut done: BTreeSet<String> = BTreeSet::new();
    for name in names {
        if done.contains(name) {
            continue;
        }
        if let Some(cycle) = cycle_from(name, &edges, &mut done) {
            problems.push(cycle_problem(cycle));
        }
    }
}

/// The first cycle that can be reached from `start`: what needs what, and where it says so.
fn cycle_from(
    start: &str,
    edges: &BTreeMap<&str, Vec<(String, Span)>>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<(String, Span)>> {
    // Locals on the way, each with the edge that is looked at.
    let mut way: Vec<(String, usize)> = vec![(start.to_owned(), 0)];
    let mut cycle = None;
    while let Some((name, at)) = way.last_mut() {
        let Some((target, _)) = edges.get(name.as_str()).and_then(|edges| edges.get(*at)) else {
            done.insert(name.clone());
            way.pop();
            continue;
        };
        *at += 1;
        if let Some(from) = way.iter().position(|(name, _)| name == target) {
            let edge = |(name, at): &(String, usize)| {
                let span = edges[name.as_str()][at - 1].1.clone();
                (format!("local.{name}"), span)
            };
            cycle.get_or_insert_with(|| way[from..].iter().map(edge).collect());
        } else if !done.contains(target) && edges.contains_key(target.as_str()) {
            way.push((target.clone(), 0));
        }
    }
    cycle
}

/// A cycle that is longer is told by its beginning and its end.
const CYCLE_SHOWN_MAX: usize = 24;

/// Tells a cycle: what needs the next, and where it says so; the last needs the first.
pub(crate) fn cycle_problem(cycle: Vec<(String, Span)>) -> Problem {
    let is_shown = |index: usize| {
        cycle.len() <= CYCLE_SHOWN_MAX || index + 1 < CYCLE_SHOWN_MAX || index + 1 == cycle.len()
    };
    let mut names: Vec<&str> = Vec::new();
    for (index, (name, _)) in cycle.iter().enumerate() {
        match is_shown(index) {
            true => names.push(name),
            false if is_shown(index - 1) => names.push("…"),
            false => {}
        }
    }
    names.extend(names.first().copied());
    let message = format!("dependency cycle: {}", names.join(" -> "));
    let mut problem = Problem::error(Code::Cycle, message);
    for (index, (name, span)) in cycle.iter().enumerate().filter(|(index, _)| is_shown(*index)) {
        let next = &cycle[(index + 1) % cycle.len()].0;
        if index == 0 {
            problem = problem.at(span.clone());
        }
        problem = problem.label(span.clone(), format!("`{name}` needs `{next}`"));
    }
    problem.help("one of them must do without the next")
}
