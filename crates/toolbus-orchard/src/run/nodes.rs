//! The nodes of a run: which may start, which are in flight, and what became of each.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use tokio::task::JoinSet;
use toolbus::{Failure, Json};
use toolbus_proto::orchard::value::convert;

use super::judge::{Fault, Judged, judge};
use super::{Event, Run, Stop, evaluation_error, sent};
use crate::plan::{RetryPolicy, Settings};
use crate::provider::Execute;
use crate::record::{ErrorRecord, State, recorded, time};
use crate::value::{Value, from_any_json};

/// Where the nodes of a run stand.
pub(super) struct Nodes {
    /// How many of what it needs is not done, by node.
    missing: Vec<usize>,
    /// Who needs it, by node.
    needed_by: Vec<Vec<usize>>,
    /// Nodes that may start, by provider.
    ready: Vec<BTreeSet<usize>>,
    /// Providers that have died, and how many nodes are in flight at each.
    instances: Vec<Instance>,
    in_flight: Vec<Option<InFlight>>,
    tasks: JoinSet<Answer>,
    next_seq: u64,
    has_failed: bool,
}

#[derive(Clone, Default)]
struct Instance {
    is_dead: bool,
    is_parallel: bool,
    in_flight: usize,
}

struct InFlight {
    since: Instant,
    attempt: u32,
    settings: Settings,
    execute: Execute,
}

/// What became of one attempt.
struct Answer {
    node: usize,
    what: Answered,
}

enum Answered {
    /// The provider answered, or never will.
    By(Result<Json, Failure>),
    /// It is time to try again.
    Now,
    /// We were told to stop before it was.
    GivenUp,
}

impl Nodes {
    pub(super) fn new(run: &Run<'_>) -> Nodes {
        let plan = run.plan;
        let mut needed_by = vec![Vec::new(); plan.nodes.len()];
        let mut ready = vec![BTreeSet::new(); plan.providers.len()];
        let mut missing = Vec::with_capacity(plan.nodes.len());
        for (index, node) in plan.nodes.iter().enumerate() {
            node.depends_on.iter().for_each(|needed| needed_by[*needed].push(index));
            missing.push(node.depends_on.len());
            if node.depends_on.is_empty() {
                ready[node.provider].insert(index);
            }
        }
        let instance = |instance: &crate::plan::ProviderInstance| Instance {
            is_parallel: instance.schema.is_parallel(),
            ..Instance::default()
        };
        Nodes {
            missing,
            needed_by,
            ready,
            instances: plan.providers.iter().map(instance).collect(),
            in_flight: plan.nodes.iter().map(|_| None).collect(),
            tasks: JoinSet::new(),
            next_seq: 1,
            has_failed: false,
        }
    }

    /// Executes what can be, and skips the rest.
    pub(super) async fn execute(mut self, run: &mut Run<'_>, mut stop: Stop) {
        loop {
            while self.tasks.len() < run.options.parallel {
                let is_over = 0 < stop.times() || (self.has_failed && !run.options.keep_going);
                let Some(next) = self.next().filter(|_| !is_over) else { break };
                self.start(run, next);
            }
            if self.tasks.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some(done) = self.tasks.join_next() => match done {
                    Ok(answer) => self.answered(run, answer, &stop),
                    // It panicked; which it was cannot be told. What is left is told as unknown.
                    Err(_) => break,
                },
                () = stop.more_than(1) => {
                    run.providers.iter().for_each(|provider| provider.kill());
                    self.kill(run).await;
                    break;
                }
            }
        }
        self.skip_rest(run);
    }

    /// The first that may start, in plan order, at a provider that takes more.
    fn next(&self) -> Option<usize> {
        let takes_more = |instance: &Instance| instance.is_parallel || instance.in_flight == 0;
        let firsts = self.ready.iter().zip(&self.instances);
        firsts
            .filter(|(_, at)| takes_more(at))
            .filter_map(|(ready, _)| ready.first().copied())
            .min()
    }

    fn start(&mut self, run: &mut Run<'_>, index: usize) {
        let node = &run.plan.nodes[index];
        self.ready[node.provider].remove(&index);
        let prepared = run
            .evaluation
            .settings(node)
            .and_then(|settings| run.evaluation.attrs(node).map(|attrs| (settings, attrs)));
        let (mut settings, attrs) = match prepared {
            Ok(prepared) => prepared,
            Err(problems) => {
                let error = evaluation_error(&problems, run.secrets);
                let record = &mut run.record.record.nodes[index];
                record.started_at = Some(time::rfc3339(SystemTime::now()));
                return self.end(run, index, Instant::now(), State::Failed, Some(error), None);
            }
        };
        settings.timeout = settings.timeout.or(run.options.action_timeout);
        attrs.values().for_each(|attr| run.secrets.hide_sensitive(&attr.value));
        let recorded = run.recorded_attrs(&attrs);
        let record = &mut run.record.record.nodes[index];
        record.state = State::Running;
        record.started_at = Some(time::rfc3339(SystemTime::now()));
        record.seq = Some(self.next_seq);
        record.attempts = 1;
        record.attrs = Some(recorded);
        self.next_seq += 1;
        // Before it begins, so that it can be undone whatever becomes of us.
        run.teardown_attrs(index, None);
        run.keep(|record| record.node_changed(index));
        let execute = Execute {
            action: node.action_type.clone(),
            attrs: sent(&attrs),
            label: node.address.clone(),
            folder: run.plan.folder_of(node).to_owned(),
            timeout: settings.timeout,
        };
        self.instances[node.provider].in_flight += 1;
        let flight = InFlight { since: Instant::now(), attempt: 1, settings, execute };
        self.attempt(run, index, &flight);
        self.in_flight[index] = Some(flight);
    }

    /// Asks the provider.
    fn attempt(&mut self, run: &Run<'_>, index: usize, flight: &InFlight) {
        let node = &run.plan.nodes[index];
        run.surface.tell(&started(&node.address, flight));
        let provider = run.providers[node.provider].clone();
        let execute = flight.execute.clone();
        self.tasks.spawn_local(async move {
            let what = Answered::By(provider.execute(execute).await);
            Answer { node: index, what }
        });
    }

    /// Waits until it is time to try again.
    fn wait(&mut self, index: usize, delay: Duration, stop: &Stop) {
        let mut stop = stop.clone();
        self.tasks.spawn_local(async move {
            let what = tokio::select! {
                biased;
                () = stop.more_than(0) => Answered::GivenUp,
                () = tokio::time::sleep(delay) => Answered::Now,
            };
            Answer { node: index, what }
        });
    }

    fn answered(&mut self, run: &mut Run<'_>, answer: Answer, stop: &Stop) {
        let Answer { node: index, what } = answer;
        let Some(mut flight) = self.in_flight[index].take() else { return };
        let node = &run.plan.nodes[index];
        let provider = &run.plan.providers[node.provider].name;
        let is_given_up = matches!(what, Answered::GivenUp);
        let (state, fault, error, outputs) = match what {
            Answered::Now => {
                self.attempt(run, index, &flight);
                self.in_flight[index] = Some(flight);
                return;
            }
            Answered::By(Ok(outputs)) => match self.outputs(run, index, &outputs) {
                Ok(value) => (State::Succeeded, None, None, Some(value)),
                Err(bad) => {
                    let (error, value) = *bad;
                    (State::ExecutedBadOutputs, Some(Fault::Failed), Some(error), value)
                }
            },
            Answered::GivenUp => {
                let error = run.record.record.nodes[index].error.take();
                (State::Failed, Some(Fault::Failed), error, None)
            }
            Answered::By(Err(failure)) => {
                let Judged { state, fault, error } = judge(&failure, provider, run.secrets);
                if run.providers[node.provider].dies_by(&failure) {
                    self.instances[node.provider].is_dead = true;
                }
                (state, Some(fault), Some(error), None)
            }
        };
        if !is_given_up
            && stop.times() == 0
            && let Some(error) = &error
            && let Some(delay) = next_delay(&flight, state, &error.code)
        {
            run.surface.tell(&Event::NodeRetry {
                address: &node.address,
                attempt: flight.attempt,
                error,
                delay,
            });
            flight.attempt += 1;
            let record = &mut run.record.record.nodes[index];
            record.attempts = flight.attempt;
            record.error = Some(error.clone());
            self.wait(index, delay, stop);
            self.in_flight[index] = Some(flight);
            return;
        }
        self.instances[node.provider].in_flight -= 1;
        run.fault = run.fault.max(fault);
        self.end(run, index, flight.since, state, error, outputs);
    }

    /// What came, as the schema wants it; or why it cannot be used, and what it was.
    fn outputs(
        &self,
        run: &Run<'_>,
        index: usize,
        came: &Json,
    ) -> Result<Value, Box<(ErrorRecord, Option<Value>)>> {
        let node = &run.plan.nodes[index];
        let instance = &run.plan.providers[node.provider];
        let any = || from_any_json(came).ok().map(|value| run.secrets.tainted(value));
        let bad = |message: String| {
            let error = ErrorRecord {
                code: "invalid_outputs".to_owned(),
                message: run.secrets.masked(&message).into_owned(),
                provider: Some(instance.name.clone()),
                detail: None,
            };
            Box::new((error, any()))
        };
        let Some(declared) = &run.plan.schema_of(node).outputs else {
            return any().ok_or_else(|| bad("the outputs are no JSON".to_owned()));
        };
        let mismatch = |error: toolbus_proto::orchard::value::Mismatch| {
            bad(error.under("outputs").to_string())
        };
        let converted = convert(&declared.ty, came).map_err(mismatch)?;
        if !converted.dropped.is_empty() {
            let dropped: Vec<_> =
                converted.dropped.iter().map(|path| format!("`outputs{path}`")).collect();
            let message = format!(
                "`{}` gave more than its schema has, which is dropped: {}",
                node.address,
                dropped.join(", ")
            );
            let message = run.secrets.masked(&message).into_owned();
            run.surface.tell(&Event::Warning { message: &message, provider: Some(&instance.name) });
        }
        let value = Value::from_json(&declared.ty, &converted.value).map_err(mismatch)?;
        let value = run.secrets.tainted(value.with_sensitive(declared.sensitive));
        run.secrets.hide_sensitive(&value);
        Ok(value)
    }

    fn end(
        &mut self,
        run: &mut Run<'_>,
        index: usize,
        since: Instant,
        state: State,
        error: Option<ErrorRecord>,
        outputs: Option<Value>,
    ) {
        let duration_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let node = &run.plan.nodes[index];
        let recorded_outputs =
            outputs.as_ref().map(|outputs| recorded(&run.writing().value(outputs)));
        let record = &mut run.record.record.nodes[index];
        record.state = state;
        record.ended_at = Some(time::rfc3339(SystemTime::now()));
        record.duration_ms = Some(duration_ms);
        record.outputs = recorded_outputs;
        record.error = error.map(|error| ErrorRecord { provider: None, ..error });
        let attempts = record.attempts;
        if let Some(outputs) = &outputs {
            if state == State::Succeeded && run.plan.schema_of(node).outputs.is_some() {
                run.evaluation.record(node, outputs.clone());
            }
            run.teardown_attrs(index, Some(outputs));
        }
        run.keep(|record| record.node_changed(index));
        let record = &run.record.record.nodes[index];
        run.surface.tell(&Event::NodeEnded {
            address: &node.address,
            state,
            duration_ms: Some(duration_ms),
            attempts,
            outputs: outputs.as_ref(),
            error: record.error.as_ref(),
        });
        if state == State::Succeeded {
            for dependent in &self.needed_by[index] {
                self.missing[*dependent] -= 1;
                if self.missing[*dependent] == 0 {
                    self.ready[run.plan.nodes[*dependent].provider].insert(*dependent);
                }
            }
        } else {
            self.has_failed = true;
            run.fault = run.fault.max(Some(Fault::Failed));
        }
        // Those of a dead provider never start.
        for (ready, instance) in self.ready.iter_mut().zip(&self.instances) {
            if instance.is_dead {
                ready.clear();
            }
        }
    }

    /// The providers were killed: what they were asked may or may not have happened.
    async fn kill(&mut self, run: &mut Run<'_>) {
        self.tasks.shutdown().await;
        for index in 0..self.in_flight.len() {
            let Some(flight) = self.in_flight[index].take() else { continue };
            let error = ErrorRecord {
                code: "provider_gone".to_owned(),
                message: "the provider was killed by a second signal".to_owned(),
                provider: None,
                detail: None,
            };
            self.end(run, index, flight.since, State::Unknown, Some(error), None);
        }
    }

    fn skip_rest(&mut self, run: &mut Run<'_>) {
        for index in 0..run.plan.nodes.len() {
            let record = &mut run.record.record.nodes[index];
            match record.state {
                State::Pending => record.state = State::Skipped,
                State::Running => record.state = State::Unknown,
                _ => continue,
            }
            let state = record.state;
            run.surface.tell(&Event::NodeEnded {
                address: &run.plan.nodes[index].address,
                state,
                duration_ms: None,
                attempts: record.attempts,
                outputs: None,
                error: None,
            });
        }
    }
}

fn started<'a>(address: &'a str, flight: &InFlight) -> Event<'a> {
    let attempts_max = flight.settings.retry.as_ref().map_or(1, |retry| retry.attempts);
    Event::NodeStarted { address, attempt: flight.attempt, attempts_max }
}

/// How long to wait before a node is tried again, if it is.
fn next_delay(flight: &InFlight, state: State, code: &str) -> Option<Duration> {
    let RetryPolicy { attempts, delay, backoff, on } = flight.settings.retry.as_ref()?;
    let is_meant = match state {
        State::Failed => on.iter().any(|on| on == code),
        State::ExecutedBadOutputs => flight.settings.idempotent,
        _ => false,
    };
    if !is_meant || *attempts <= flight.attempt {
        return None;
    }
    let factor = backoff.powi(i32::try_from(flight.attempt - 1).unwrap_or(i32::MAX));
    // A year is the most, as for every time that is written down.
    let year = Duration::from_secs(365 * 24 * 3600);
    Some(Duration::try_from_secs_f64(delay.as_secs_f64() * factor).unwrap_or(year).min(year))
}
