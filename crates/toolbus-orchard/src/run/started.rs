//! The providers of a run, started and described.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use tokio::task::JoinSet;
use toolbus::bus::observe::Observers;
use toolbus::{Failure, FailureKind, Wire};
use toolbus_proto::channel::Notice;
use toolbus_proto::orchard::LogLine;
use toolbus_proto::orchard::schema::ProviderSchema;

use super::judge::judge;
use super::{Event, Stop, Surface};
use crate::model::Scenario;
use crate::plan::{self, Plan};
use crate::provider::{self, ObservedProvider, Patience, Provider, ProviderSource};
use crate::record::ErrorRecord;
use crate::secrets::Secrets;

/// Providers that run. They are told goodbye by [`Started::shutdown`], and killed if this is
/// dropped before.
pub struct Started {
    folder: PathBuf,
    patience: Patience,
    surface: Rc<dyn Surface>,
    secrets: Rc<Secrets>,
    /// Who is told of what providers are asked to do.
    observers: Observers,
    running: Vec<Running>,
}

#[derive(Clone)]
struct Running {
    /// The instance: `name` or `name.alias`.
    name: String,
    wire: Wire,
    provider: Rc<dyn Provider>,
    schema: Rc<ProviderSchema>,
}

/// Why a run could not begin.
#[derive(Debug)]
pub enum NotStarted {
    /// A provider cannot be used.
    Provider {
        /// What is wrong.
        error: ErrorRecord,
        /// The exit code because of it.
        exit_code: u8,
    },
    /// We were told to stop.
    Stopped,
}

/// Starts the providers that a scenario requires, one instance of each, all at the same time, and
/// asks them to describe themselves. `sources` are in the order of `required_providers`. Must be
/// called inside a `LocalSet`.
pub async fn start(
    scenario: &Scenario,
    sources: &[(String, ProviderSource)],
    folder: &Path,
    patience: &Patience,
    surface: Rc<dyn Surface>,
    secrets: Rc<Secrets>,
    stop: &Stop,
) -> Result<Started, NotStarted> {
    let wanted = sources.iter().map(|(name, source)| {
        let mut blocks = scenario.provider_configs.iter().filter(|it| it.name.text == *name);
        let mut aliases = blocks.clone().filter_map(|block| block.alias.as_ref());
        // If there are only further instances, the first of them is the one.
        let instance = match (blocks.any(|block| block.alias.is_none()), aliases.next()) {
            (false, Some(alias)) => format!("{name}.{}", alias.text),
            _ => name.clone(),
        };
        (instance, source.clone())
    });
    let mut started = Started::none(folder, patience, surface, secrets);
    started.start_all(wanted.collect(), stop).await?;
    Ok(started)
}

impl Started {
    /// None yet, for a teardown, which names what it needs.
    pub fn none(
        folder: &Path,
        patience: &Patience,
        surface: Rc<dyn Surface>,
        secrets: Rc<Secrets>,
    ) -> Started {
        let (folder, patience) = (folder.to_owned(), patience.clone());
        let observers = Observers::default();
        Started { folder, patience, surface, secrets, observers, running: Vec::new() }
    }

    /// These are told of each action that providers [found](Started::find) from now on execute.
    pub fn observe(&mut self, observers: Observers) {
        self.observers = observers;
    }

    /// Starts these as well, and asks them to describe themselves.
    pub async fn start_all(
        &mut self,
        wanted: Vec<(String, ProviderSource)>,
        stop: &Stop,
    ) -> Result<(), NotStarted> {
        let first = self.running.len();
        let mut asked = JoinSet::new();
        let mut opened = Vec::new();
        for (index, (name, source)) in wanted.iter().enumerate() {
            let open = provider::open(name, source, &self.folder, &self.patience);
            let provider = open.map_err(|error| {
                let hint = error.hint();
                let mut failure = Failure::new(FailureKind::Unavailable, error.to_string());
                failure.detail = hint.map(|hint| toolbus::Json::of(&hint));
                self.refused(name, &failure)
            })?;
            provider.listen(self.listener(name));
            opened.push(provider.clone());
            let (name, source) = (name.clone(), source.clone());
            let (folder, patience) = (self.folder.clone(), self.patience.clone());
            asked.spawn_local(async move {
                let described = described(&name, &source, &folder, &patience, &provider).await;
                let wire = source.wire();
                (index, Running { name, wire, provider, schema: no_schema() }, described)
            });
        }
        let mut stop = stop.clone();
        let mut described = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = stop.more_than(0) => {
                    // Who has not described itself would not understand a goodbye.
                    asked.abort_all();
                    self.keep_described(described);
                    self.shutdown(stop.clone()).await;
                    opened.iter().for_each(|provider| provider.kill());
                    return Err(NotStarted::Stopped);
                }
                next = asked.join_next() => match next {
                    Some(Ok(one)) => described.push(one),
                    Some(Err(_)) => {}
                    None => break,
                },
            }
        }
        described.sort_by_key(|(index, ..)| *index);
        let failed = described.iter().find_map(|(_, running, described)| {
            let failure = described.as_ref().err()?;
            Some(self.refused(&running.name, failure))
        });
        self.keep_described(described);
        for running in &self.running[first..] {
            self.surface.tell(&Event::ProviderStarted {
                provider: &running.name,
                schema_name: &running.schema.name,
                schema_version: &running.schema.version,
            });
        }
        match failed {
            None => Ok(()),
            Some(failed) => {
                self.shutdown(stop).await;
                // One that did not describe itself is not kept: its process must not be, either.
                opened.iter().for_each(|provider| provider.kill());
                Err(failed)
            }
        }
    }

    fn keep_described(
        &mut self,
        described: Vec<(usize, Running, Result<Rc<ProviderSchema>, Failure>)>,
    ) {
        for (_, running, described) in described {
            if let Ok(schema) = described {
                self.running.push(Running { schema, ..running });
            }
        }
    }

    fn refused(&self, name: &str, failure: &Failure) -> NotStarted {
        let judged = judge(failure, name, &self.secrets);
        let exit_code = if failure.kind == FailureKind::TimedOut { 4 } else { 3 };
        NotStarted::Provider { error: judged.error, exit_code }
    }

    /// Tells people what a provider says besides its answers.
    fn listener(&self, name: &str) -> Rc<dyn Fn(&Notice)> {
        let (surface, secrets) = (self.surface.clone(), self.secrets.clone());
        let name = name.to_owned();
        Rc::new(move |notice: &Notice| match notice {
            Notice::Stderr(line) => {
                let line = secrets.masked(line);
                let LogLine { level, text } = LogLine::read(&line);
                let (level, text) = (level.as_deref(), &*text);
                surface.tell(&Event::Log { provider: &name, level, text });
            }
            Notice::Warning(message) => {
                let message = &*secrets.masked(message);
                surface.tell(&Event::Warning { message, provider: Some(&name) });
            }
            _ => {}
        })
    }

    /// What the plan is made of.
    pub fn providers(&self, sources: &[(String, ProviderSource)]) -> Vec<plan::Provider> {
        let of = |(name, source): &(String, ProviderSource)| {
            let is_it = |running: &&Running| {
                running.name == *name
                    || running.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
            };
            let schema = self.running.iter().find(is_it).map(|running| running.schema.clone());
            let schema = schema.unwrap_or_else(no_schema);
            plan::Provider { name: name.clone(), source: source.clone(), schema }
        };
        sources.iter().map(of).collect()
    }

    /// All instances of a plan, in its order; those that do not run yet are started.
    pub async fn instances(
        &mut self,
        plan: &Plan,
        stop: &Stop,
    ) -> Result<Vec<Rc<dyn Provider>>, NotStarted> {
        let missing = plan.providers.iter().filter(|instance| self.find(&instance.name).is_none());
        let missing: Vec<_> =
            missing.map(|instance| (instance.name.clone(), instance.source.clone())).collect();
        if !missing.is_empty() {
            self.start_all(missing, stop).await?;
        }
        let found = plan.providers.iter().filter_map(|instance| self.find(&instance.name));
        Ok(found.collect())
    }

    /// The instance of that name.
    pub fn find(&self, name: &str) -> Option<Rc<dyn Provider>> {
        let Running { provider, wire, .. } =
            self.running.iter().find(|running| running.name == name)?;
        if self.observers.is_empty() {
            return Some(provider.clone());
        }
        Some(Rc::new(ObservedProvider {
            name: name.into(),
            wire: *wire,
            provider: provider.clone(),
            observers: self.observers.clone(),
            secrets: self.secrets.clone(),
        }))
    }

    /// How the instance of that name describes itself.
    pub fn schema(&self, name: &str) -> Option<Rc<ProviderSchema>> {
        let found = self.running.iter().find(|running| running.name == name);
        found.map(|running| running.schema.clone())
    }

    /// Says goodbye to all at the same time and waits until no process is left; kills them if we
    /// are told to stop once more.
    pub async fn shutdown(&self, mut stop: Stop) {
        let times = stop.times();
        let mut leaving = JoinSet::new();
        for running in &self.running {
            let provider = running.provider.clone();
            leaving.spawn_local(async move { provider.shutdown().await });
        }
        let all = async { while leaving.join_next().await.is_some() {} };
        let mut all = std::pin::pin!(all);
        tokio::select! {
            () = &mut all => return,
            () = stop.more_than(times.max(1)) => self.kill(),
        }
        all.await;
    }

    /// Kills all of them.
    pub fn kill(&self) {
        self.running.iter().for_each(|running| running.provider.kill());
    }
}

fn no_schema() -> Rc<ProviderSchema> {
    Rc::new(ProviderSchema {
        name: String::new(),
        version: String::new(),
        config: Default::default(),
        actions: Default::default(),
        extensions: Vec::new(),
    })
}

/// How a provider describes itself; a strict host asks its program, too.
async fn described(
    name: &str,
    source: &ProviderSource,
    folder: &Path,
    patience: &Patience,
    provider: &Rc<dyn Provider>,
) -> Result<Rc<ProviderSchema>, Failure> {
    let schema = provider.describe().await?;
    if patience.is_strict && matches!(source, ProviderSource::Program { .. }) {
        let env = toolbus_engine::child::EnvPolicy::Inherit;
        let probed = provider::probe(name, source, folder, patience, env).await?;
        if *probed != *schema {
            let message = format!(
                "provider `{name}` describes itself otherwise than its `schema` command does"
            );
            return Err(Failure::new(FailureKind::BrokeProtocol, message));
        }
    }
    Ok(schema)
}
