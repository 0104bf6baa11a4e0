//! Comparing what a connection shows with the lock, and telling of what differs.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::json::Json;
use toolbus_proto::pin::Pinned;
use toolbus_proto::tool::{Call, Failure, FailureKind, ToolSpec, What};

use super::{Aside, Compared, Finding, Guarded, Lane, Plan};
use crate::bus::back::Connection;
use crate::bus::lock::verdict::{Stand, Verdict};
use crate::bus::lock::{OnChange, OnNew, refused, shown};
use crate::peer::pins::Who;
use crate::secrets;
use crate::task::spawn_local;

/// How many connections are remembered as compared.
const CONNECTIONS_MAX: usize = 4096;
/// How long a call waits for the comparison, unless the config says how long a start may take.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// What fails to start says more of why, and is given so long to do so.
const SAYS_MORE: Duration = Duration::from_millis(200);

impl Guarded {
    /// The back has said this of itself to such a client.
    pub(in crate::bus::lock) fn introduced(&self, greeting: &Json, is_legacy: bool) {
        let Some(pins) = self.plan.pins else { return };
        let now = pins.instructions(greeting).map(|text| secrets::masked(&text).into_owned());
        self.instructed(now, is_legacy);
    }

    /// These are the instructions for such clients now.
    pub(super) fn instructed(&self, now: Option<String>, is_legacy: bool) {
        let Some(pinned) = &self.plan.pinned else { return };
        let is_other = approved_instructions(pinned, is_legacy) != now.as_deref();
        self.instructions.borrow_mut()[usize::from(is_legacy)] = Some(now);
        let name = &self.plan.name;
        let told = is_other
            .then(|| format!("back.{name}: its instructions have changed since they were locked"));
        self.tell_once(Finding::Instructions, is_legacy, told);
    }

    /// Tells of a finding, or that there is none any more; again only if it is another one.
    pub(super) fn tell_once(&self, finding: Finding, is_legacy: bool, sentence: Option<String>) {
        let mut told = self.told.borrow_mut();
        let is_told = sentence.is_some() && told.get(&(finding, !is_legacy)) == sentence.as_ref();
        let before = match &sentence {
            Some(sentence) => told.insert((finding, is_legacy), sentence.clone()),
            None => told.remove(&(finding, is_legacy)),
        };
        drop(told);
        if let Some(sentence) = sentence.filter(|now| !is_told && before.as_ref() != Some(now)) {
            tracing::warn!("{sentence}");
        }
    }

    /// The connection that a call would go out on, if there is one.
    pub(super) fn connection(&self, call: &Call) -> Option<Compared> {
        match self.inner.connection(call) {
            Connection::Open(number) => Some(Compared::Process(number)),
            Connection::None => None,
            Connection::Remote => Some(Compared::Remote(self.lane(call))),
        }
    }

    pub(super) fn is_compared(&self, call: &Call) -> bool {
        self.connection(call).is_some_and(|known| self.compared.borrow().contains_key(&known))
    }

    pub(super) fn lane(&self, call: &Call) -> Lane {
        match self.plan.pins.is_some_and(|pins| pins.is_legacy(call)) {
            true => Lane::Legacy(call.caller),
            false => Lane::Modern,
        }
    }

    /// Asks the back what it shows, on the connection of this call.
    pub(super) async fn compare(&self, call: &Call) -> Result<Option<Rc<Verdict>>, Failure> {
        let (Some(pins), Some(pinned)) = (self.plan.pins, &self.plan.pinned) else {
            return Ok(None);
        };
        let is_legacy = pins.is_legacy(call);
        self.inner.rouse();
        self.wake_standing(call);
        let who = if is_legacy { Who::Legacy(call.caller) } else { Who::Modern };
        let within = self.plan.settings.start_timeout.unwrap_or(START_TIMEOUT);
        let surveyed = tokio::time::timeout(within + SAYS_MORE, pins.survey(&*self.inner, who));
        let surveyed = surveyed.await.unwrap_or_else(|_| {
            let message = format!("its lists have not come within {within:?}");
            Err(Failure::new(FailureKind::TimedOut, message))
        });
        let survey = match surveyed {
            Ok(survey) => survey,
            Err(failure) => {
                // Who is not there fails as ever, and is asked again by the next call.
                let is_away = matches!(self.inner.connection(call), Connection::None)
                    || matches!(failure.kind, FailureKind::Unavailable | FailureKind::Gone);
                if is_away {
                    self.plan.health.is_away(&failure);
                    return Err(failure);
                }
                if self.plan.rules.changed == OnChange::Warn {
                    // It is not asked again before every call.
                    self.remember(call, None);
                    return Ok(None);
                }
                let name = &self.plan.name;
                let message = format!(
                    "the tools of `{name}` could not be compared with `toolbus.lock`: {}",
                    failure.message
                );
                let unverified = refused("unverified", message);
                return Err(Failure { last_words: failure.last_words, ..unverified });
            }
        };
        let seen = shown(&survey.seen, pins, self.plan.allow.as_ref());
        let verdict = Rc::new(Verdict::of(pinned, seen, is_legacy, !is_legacy));
        self.remember(call, Some(verdict.clone()));
        self.compared_at.set(Some(Instant::now()));
        self.settle(verdict.clone(), is_legacy);
        self.plan.health.listed(self.tools_now(false));
        Ok(Some(verdict))
    }

    /// The connection of this call has been compared.
    pub(super) fn remember(&self, call: &Call, verdict: Option<Rc<Verdict>>) {
        if let Some(connection) = self.connection(call) {
            let mut compared = self.compared.borrow_mut();
            if CONNECTIONS_MAX <= compared.len() {
                compared.clear();
            }
            compared.insert(connection, verdict);
        }
    }

    /// Takes the outcome of a comparison, and tells of it.
    pub(super) fn settle(&self, verdict: Rc<Verdict>, is_legacy: bool) {
        let before = self.shown_names();
        self.tell(&verdict, is_legacy);
        let mut latest = self.latest.borrow_mut();
        latest[usize::from(is_legacy)] = Some(verdict);
        let both = match &*latest {
            [Some(modern), Some(legacy)] => Some(Rc::new(modern.with(legacy))),
            [one, other] => one.clone().or_else(|| other.clone()),
        };
        drop(latest);
        self.verdict.replace(both);
        if self.shown_names() != before {
            let watchers = self.watchers.borrow().clone();
            watchers.iter().for_each(|changed| changed());
        }
    }

    pub(super) fn tell(&self, verdict: &Verdict, is_legacy: bool) {
        let Plan { name, rules, .. } = &self.plan;
        let changed = verdict.listed(|stand| matches!(stand, Stand::Changed(_))).map(|listed| {
            let held = if rules.changed == OnChange::Refuse { " and held back" } else { "" };
            format!(
                "back.{name}: not as `toolbus.lock` has it{held}: {listed}; see `toolbus lock diff {name}`"
            )
        });
        self.tell_once(Finding::Changed, is_legacy, changed);
        let new = verdict.listed(|stand| *stand == Stand::New).and_then(|listed| match rules.new {
            OnNew::Refuse => Some(format!(
                "back.{name}: new and not offered: {listed}; `toolbus lock approve {name}` takes it in"
            )),
            OnNew::Warn => Some(format!("back.{name}: new since `toolbus.lock`: {listed}")),
            OnNew::Allow => None,
        });
        self.tell_once(Finding::New, is_legacy, new);
        let gone = verdict.listed(|stand| *stand == Stand::Gone);
        let gone = gone.map(|listed| format!("back.{name}: gone since `toolbus.lock`: {listed}"));
        self.tell_once(Finding::Gone, is_legacy, gone);
        // What a legacy client is told of it comes with its session.
        if !is_legacy {
            self.instructed(verdict.instructions.clone(), false);
        }
    }

    /// The peer says that its tools are others, or it is time to look again.
    pub(super) fn peer_changed(&self) {
        match self.plan.pinned {
            Some(_) => {
                // Whatever connection it was: what is called next waits until it was looked at.
                self.compared.borrow_mut().clear();
                match self.aside.get() {
                    Aside::None => self.compare_again(),
                    Aside::UnderWay | Aside::ToRepeat => self.aside.set(Aside::ToRepeat),
                }
            }
            None => {
                let watchers = self.watchers.borrow().clone();
                watchers.iter().for_each(|changed| changed());
            }
        }
    }

    /// Compares what a client of the modern era is shown, and nothing waits for it.
    pub(crate) fn compare_again(&self) {
        self.compare_aside(Call::of(Instant::now(), What::Tools));
    }

    /// Compares the connection of this call, and nothing waits for it.
    pub(super) fn compare_aside(&self, call: Call) {
        let Some(this) = self.this.upgrade() else { return };
        if self.aside.get() != Aside::None {
            return;
        }
        spawn_local(async move {
            loop {
                this.aside.set(Aside::UnderWay);
                let _ = this.compare(&call).await;
                if this.aside.replace(Aside::None) == Aside::UnderWay {
                    return;
                }
            }
        });
    }

    /// Its tools, once it was asked itself.
    pub(crate) async fn tools_asked_anew(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        self.tools_asked(true).await
    }

    pub(super) async fn tools_asked(&self, is_fresh: bool) -> Result<Arc<[ToolSpec]>, Failure> {
        if self.is_shut() {
            return Ok(Arc::from([]));
        }
        if self.plan.pins.is_none() || self.plan.pinned.is_none() {
            return self.inner.tools().await;
        }
        if is_fresh {
            self.compared().await?;
        }
        self.look_at_program();
        Ok(self.tools_now(false))
    }

    /// Compares now, and says why that was not possible.
    pub(super) async fn compared(&self) -> Result<(), Failure> {
        if let Some(failure) = self.program_refusal() {
            return Err(failure);
        }
        self.compare(&Call::of(Instant::now(), What::Tools)).await.map(|_| ())
    }
}

/// The instructions that were approved, for such clients.
pub(super) fn approved_instructions(pinned: &Pinned, is_legacy: bool) -> Option<&str> {
    match is_legacy {
        true => pinned.legacy_instructions(),
        false => pinned.shown.instructions.as_deref(),
    }
}
