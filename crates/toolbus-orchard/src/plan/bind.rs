//! Which provider has which action, and which instances of providers there are.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use toolbus_proto::orchard::schema::ProviderSchema;

use super::world::Binding;
use crate::diagnostic::{Code, Problem, Span};
use crate::model::{Action, Body, ProviderConfig, Scenario};
use crate::provider::ProviderSource;

/// A provider that a scenario requires.
#[derive(Debug, Clone)]
pub struct Provider {
    /// What the scenario calls it.
    pub name: String,
    /// Where it comes from.
    pub source: ProviderSource,
    /// How it describes itself.
    pub schema: Rc<ProviderSchema>,
}

/// An instance before its config is evaluated.
pub(super) struct Instance {
    /// The index of its provider.
    pub(super) provider: usize,
    pub(super) alias: Option<String>,
    /// The index of its block in the scenario.
    pub(super) config: Option<usize>,
}

/// What the actions mean, by their blocks, and the instances that are needed.
pub(super) struct Bound {
    pub(super) bindings: HashMap<*const Action, Binding>,
    pub(super) instances: Vec<Instance>,
}

pub(super) fn bind(
    scenario: &Scenario,
    providers: &[Provider],
    problems: &mut Vec<Problem>,
) -> Bound {
    let mut found: Vec<(Rc<Action>, usize, Option<String>)> = Vec::new();
    for body in bodies(&scenario.body) {
        for action in &body.actions {
            match provider_of(action, providers) {
                Ok(Some((provider, alias))) => found.push((action.clone(), provider, alias)),
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
    }
    let used: BTreeSet<(usize, Option<String>)> =
        found.iter().map(|(_, provider, alias)| (*provider, alias.clone())).collect();
    let instances = instances(scenario, providers, &used);
    let mut bindings = HashMap::new();
    for (action, provider, alias) in found {
        let is_it = |instance: &Instance| instance.provider == provider && instance.alias == alias;
        // An alias that does not exist was told.
        let Some(instance) = instances.iter().position(is_it) else { continue };
        let schema = providers[provider].schema.clone();
        let binding = Binding::new(instance, schema, &action.ty.text);
        bindings.insert(Rc::as_ptr(&action), binding);
    }
    Bound { bindings, instances }
}

/// The bodies of a scenario and of all components in it, each once.
pub(super) fn bodies(scenario: &Rc<Body>) -> Vec<Rc<Body>> {
    let mut seen: BTreeSet<Span> = BTreeSet::new();
    let mut found = vec![scenario.clone()];
    let mut at = 0;
    while let Some(body) = found.get(at).cloned() {
        at += 1;
        for component in &body.components {
            let Some(definition) = &component.definition else { continue };
            if seen.insert(definition.body.header.clone()) {
                found.push(definition.body.clone());
            }
        }
    }
    found
}

/// In the order of `required_providers`, then aliases in file order.
fn instances(
    scenario: &Scenario,
    providers: &[Provider],
    used: &BTreeSet<(usize, Option<String>)>,
) -> Vec<Instance> {
    let blocks = |name: &str| {
        let blocks: Vec<(usize, &ProviderConfig)> = scenario
            .provider_configs
            .iter()
            .enumerate()
            .filter(|(_, config)| config.name.text == name)
            .collect();
        blocks
    };
    let mut instances = Vec::new();
    for (provider, Provider { name, .. }) in providers.iter().enumerate() {
        let blocks = blocks(name);
        let plain = blocks.iter().find(|(_, config)| config.alias.is_none()).map(|(at, _)| *at);
        if plain.is_some() || blocks.is_empty() || used.contains(&(provider, None)) {
            instances.push(Instance { provider, alias: None, config: plain });
        }
    }
    for (config, block) in scenario.provider_configs.iter().enumerate() {
        let provider = providers.iter().position(|provider| provider.name == block.name.text);
        let (Some(provider), Some(alias)) = (provider, &block.alias) else { continue };
        let alias = Some(alias.text.clone());
        instances.push(Instance { provider, alias, config: Some(config) });
    }
    instances
}

/// The provider of an action and the alias it names; `None` if what is wrong was told.
fn provider_of(
    action: &Action,
    providers: &[Provider],
) -> Result<Option<(usize, Option<String>)>, Problem> {
    let ty = &action.ty.text;
    let has = |provider: &Provider| provider.schema.actions.contains_key(ty);
    let unknown = |message: String| {
        Problem::error(Code::UnknownActionType, message).at(action.ty.span.clone())
    };
    if let Some(named) = &action.provider {
        let found = providers.iter().position(|provider| provider.name == named.name);
        let Some(at) = found else { return Ok(None) };
        let provider = &providers[at];
        if !has(provider) {
            let message = format!("provider {} has no action `{ty}`", told(provider));
            let types = provider.schema.actions.keys().map(String::as_str);
            return Err(unknown(message).meant(ty, types));
        }
        return Ok(Some((at, named.alias.clone())));
    }
    let having: Vec<usize> = (0..providers.len()).filter(|at| has(&providers[*at])).collect();
    match having[..] {
        [only] => Ok(Some((only, None))),
        [] if providers.is_empty() => {
            let help = "name the provider in `required_providers`";
            Err(unknown(format!("there is no provider, so none has an action `{ty}`")).help(help))
        }
        [] => {
            let problem = unknown(format!("no provider has an action `{ty}`"));
            let all = providers.iter().flat_map(|provider| provider.schema.actions.keys());
            let meant = problem.clone().meant(ty, all.map(String::as_str));
            Err(match meant.help.is_some() {
                true => meant,
                false => problem.help(offered(providers)),
            })
        }
        _ => {
            let names: Vec<String> = having.iter().map(|at| told(&providers[*at])).collect();
            let message = format!("several providers have an action `{ty}`: {}", names.join(", "));
            let problem = Problem::error(Code::AmbiguousProvider, message);
            let help = format!("choose one: `provider = {}`", providers[having[0]].name);
            Err(problem.at(action.ty.span.clone()).help(help))
        }
    }
}

/// What there is, for those who asked for something else.
fn offered(providers: &[Provider]) -> String {
    const SHOWN_MAX: usize = 8;
    let shown = providers.iter().map(|provider| {
        let mut names: Vec<String> = provider
            .schema
            .actions
            .keys()
            .take(SHOWN_MAX)
            .map(|name| format!("`{name}`"))
            .collect();
        if SHOWN_MAX < provider.schema.actions.len() {
            names.push("…".to_owned());
        }
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!("provider {} has {names}", told(provider))
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// The scenario's name for a provider and its own.
pub(super) fn told(provider: &Provider) -> String {
    format!("`{}` ({})", provider.name, provider.schema.name)
}
