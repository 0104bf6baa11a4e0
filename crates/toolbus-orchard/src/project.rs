//! From a path on the command line to everything that is needed to plan: files read, a scenario
//! chosen, variables valued, sources of providers found.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use toolbus::Failure;
use toolbus_engine::child::EnvPolicy;

use crate::diagnostic::{Code, Problem, Severity, sorted};
use crate::disk::Disk;
use crate::model::{Choice, Content, Loaded, Scenario, load};
use crate::plan::variables::{self, Given};
use crate::plan::{Planned, Provider, Request, check, plan};
use crate::provider::{Patience, ProviderSource, probe};
use crate::source::Sources;
use crate::value::Value;

/// A file of scenarios that was read from the disk.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Where it is, absolute.
    pub path: PathBuf,
    /// Where it is, as the user said.
    pub shown: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// A scenario with all that is needed to plan it.
#[derive(Debug)]
pub struct Project {
    /// The files.
    pub sources: Rc<Sources>,
    /// The scenario, if one could be read and chosen.
    pub scenario: Option<Rc<Scenario>>,
    /// The values of its variables.
    pub variables: BTreeMap<String, Value>,
    /// Its providers, in the order of `required_providers`, as far as their sources are good.
    pub providers: Vec<(String, ProviderSource)>,
    /// What is wrong so far.
    pub problems: Vec<Problem>,
    /// Is anything wrong that would make everything else look wrong?
    pub is_broken: bool,
}

impl Project {
    /// Reads a scenario with its components and values.
    pub fn open(opened: &Opened, choice: Choice<'_>, given: &Given, needs_values: bool) -> Project {
        let Opened { path, shown, bytes } = opened;
        let loaded = load(&Disk, path.clone(), shown, bytes, choice);
        let Loaded { mut sources, content, mut problems } = loaded;
        let is_broken = problems.iter().any(|problem| {
            matches!(problem.code, Code::Syntax) && problem.severity == Severity::Error
        });
        let scenario = match content {
            Content::Scenarios(scenarios) => scenarios.into_iter().next(),
            Content::Component(_) | Content::Broken => None,
        };
        let (mut values, mut providers) = (BTreeMap::new(), Vec::new());
        if let Some(scenario) = &scenario {
            values =
                variables::values(&scenario.body, given, needs_values, &mut sources, &mut problems);
            providers = sources_of(scenario, &sources, &mut problems);
        }
        let is_broken = is_broken || scenario.is_none();
        let (sources, problems) = (Rc::new(sources), sorted(problems));
        Project { sources, scenario, variables: values, providers, problems, is_broken }
    }

    /// Is something wrong already?
    pub fn is_wrong(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// What is to be planned, if there is anything.
    pub fn request(&self, targets: &[String]) -> Option<Request> {
        Some(Request {
            files: Rc::new(Disk),
            sources: self.sources.clone(),
            scenario: self.scenario.clone()?,
            variables: self.variables.clone(),
            targets: targets.to_vec(),
        })
    }

    /// Plans with providers that were asked.
    pub fn plan(&self, providers: &[Provider], targets: &[String]) -> Planned {
        let problems = self.problems.clone();
        match self.request(targets) {
            Some(request) if self.has_all_sources() => plan(request, providers, problems),
            // What only a schema can tell would be told wrong.
            Some(request) => Planned { plan: None, problems: check(request, problems).problems },
            None => Planned { plan: None, problems },
        }
    }

    /// Is the source of every provider good? Otherwise there is no use in asking any.
    pub fn has_all_sources(&self) -> bool {
        let required = self.scenario.as_ref().map_or(0, |it| it.required_providers.len());
        let is_missing = |problem: &Problem| problem.code == Code::ProviderSource;
        self.providers.len() == required && !self.problems.iter().any(is_missing)
    }

    /// Asks all providers for their schemas, without running them as providers where that can be.
    pub async fn ask(
        &self,
        patience: &Patience,
        env: &EnvPolicy,
    ) -> Result<Vec<Provider>, ProviderFailure> {
        let Some(scenario) = &self.scenario else { return Ok(Vec::new()) };
        let folder = self.sources.file(scenario.body.file()).folder();
        let mut providers: Vec<Provider> = Vec::new();
        for (name, source) in &self.providers {
            // What two names share is asked once.
            let known = providers.iter().find(|known| known.source == *source);
            let schema = match known {
                Some(known) => known.schema.clone(),
                None => probe(name, source, folder, patience, env.clone())
                    .await
                    .map_err(|failure| ProviderFailure { provider: name.clone(), failure })?,
            };
            providers.push(Provider { name: name.clone(), source: source.clone(), schema });
        }
        Ok(providers)
    }
}

/// A provider that did not describe itself.
#[derive(Debug)]
pub struct ProviderFailure {
    /// What the scenario calls it.
    pub provider: String,
    /// What it did instead.
    pub failure: Failure,
}

/// The sources of a scenario's providers; what is none is told.
pub fn sources_of(
    scenario: &Scenario,
    sources: &Sources,
    problems: &mut Vec<Problem>,
) -> Vec<(String, ProviderSource)> {
    let mut found = Vec::new();
    for required in &scenario.required_providers {
        let folder = sources.file(required.source.span.file).folder();
        match ProviderSource::parse(&required.source.text, folder) {
            Ok(source) => found.push((required.name.text.clone(), source)),
            Err(error) => {
                let problem = Problem::error(Code::ProviderSource, error.to_string());
                let problem = problem.at(required.source.span.clone());
                problems.push(match error.hint() {
                    Some(hint) => problem.help(hint),
                    None => problem,
                });
            }
        }
    }
    found
}
