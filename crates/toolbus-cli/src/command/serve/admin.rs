//! The pages of `[admin]`: opened, changed and closed as the config says.

use std::io;
use std::path::Path;
use std::rc::Rc;

use tokio::task::{JoinHandle, spawn_local};
use toolbus::bus::Bus;
use toolbus::bus::admin::{Admin, AdminPlan, OfPage, PageFacts, PageIdentity, Told};
use toolbus::bus::config::Config;
use toolbus::bus::observe::Observer;
use toolbus_engine::transport::PassedSocket;

use super::ConfigSource;
use super::front::failed;
use crate::failed::Failed;
use crate::state_file::{PageState, StatePlace};
use crate::stdio::Terminal as _;
use crate::{logging, stderr};

/// The pages as they are served, if they are.
#[derive(Default)]
pub(super) struct Pages {
    open: Option<(Admin, Rc<Told>)>,
    /// The line that says where they are, until it is said.
    line: Option<String>,
    /// By which the page is known, once there was one.
    identity: Option<Rc<PageIdentity>>,
    /// Where `toolbus page` is told of it.
    place: Option<StatePlace>,
    /// It was said that this cannot be told, or how to look at the page.
    has_said: (bool, bool),
}

/// What the config asks for, checked as far as it can be before anything listens.
pub(super) fn plan(config: &Config) -> Result<Option<AdminPlan>, Failed> {
    let plan = config.admin.as_ref().map(AdminPlan::of).transpose();
    plan.map_err(|error| failed("admin", error))
}

impl Pages {
    /// Becomes what is wanted: they tell of `bus`, before which these fronts will listen. If
    /// they cannot be served there, they are where they were.
    pub(super) async fn follow(
        &mut self,
        plan: Option<AdminPlan>,
        passed: Option<PassedSocket>,
        bus: &Bus,
        fronts: Vec<String>,
        config: &Config,
        source: &ConfigSource,
    ) -> Result<(), Failed> {
        let Some(plan) = plan else {
            self.stop().await;
            return Ok(());
        };
        let facts = facts(config, source);
        let told = match &self.open {
            Some((_, told)) => {
                told.follow(bus.clone(), fronts);
                told.clone()
            }
            None => Told::new(bus.clone(), fronts),
        };
        let settings = plan.page();
        let identity = match settings {
            Some(_) => Some(self.identity.get_or_insert_default().clone()),
            None => self.identity.clone(),
        };
        if let Some(identity) = &identity {
            told.show_page(identity, settings, facts);
        }
        if self.open.as_ref().is_some_and(|(admin, _)| admin.become_as(&plan)) {
            self.tell_where(&source.path);
            return Ok(());
        }
        let admin = plan
            .open(told.clone(), passed.as_ref())
            .await
            .map_err(|error| failed("admin", error))?;
        self.line = Some(admin.line.clone());
        let before = self.open.replace((admin, told));
        if let Some((before, told)) = before {
            told.page().iter().for_each(|page| page.moved());
            before.stop().await;
        }
        self.tell_where(&source.path);
        Ok(())
    }

    /// Tells `toolbus page` where the page is, or that there is none.
    fn tell_where(&mut self, config: &Path) {
        let Some((admin, told)) = &self.open else { return };
        let (Some(identity), Some(page)) = (&self.identity, told.page()) else {
            return self.tell_nowhere();
        };
        let place = StatePlace::of(config);
        let state = |place: &StatePlace| PageState {
            url: admin.url(),
            token: identity.token.clone(),
            page: page.mode().as_str().to_owned(),
            pid: std::process::id(),
            boot: identity.boot.clone(),
            config: place.config.clone(),
        };
        let written = match &place {
            Some(place) => place.write(&state(place)).map_err(|error| error.to_string()),
            None => Err("there is no folder for it".to_owned()),
        };
        if let Err(why) = written
            && !std::mem::replace(&mut self.has_said.0, true)
        {
            let file = place.as_ref().map(StatePlace::file).unwrap_or_default();
            tracing::warn!("`toolbus page` will not find the page: `{}`: {why}", file.display());
        }
        self.place = place;
    }

    fn tell_nowhere(&mut self) {
        if let (Some(place), Some(identity)) = (self.place.take(), &self.identity) {
            place.remove(&identity.boot);
        }
    }

    /// Calls of the page are made on this bus, which these observe.
    pub(super) fn call_on(&self, bus: &Bus, observers: &Rc<[Rc<dyn Observer>]>) {
        let page = self.open.as_ref().and_then(|(_, told)| told.page());
        page.iter().for_each(|page| page.call_on(bus.clone(), observers.clone()));
    }

    /// The page as an observer of calls, if there is one.
    pub(super) fn observer(&self) -> Option<Rc<dyn Observer>> {
        let page = self.open.as_ref().and_then(|(_, told)| told.page())?;
        Some(Rc::new(OfPage(page)))
    }

    /// Nothing is begun any more; its last calls have some seconds.
    pub(super) fn last_calls(&self) -> Option<JoinHandle<()>> {
        let page = self.open.as_ref().and_then(|(_, told)| told.page())?;
        page.part("stopping");
        Some(spawn_local(async move { page.last_calls().await }))
    }

    /// Calls are counted by who made them, too, if the config has callers or limits.
    pub(super) fn count_callers(&self, config: &Config) {
        let Config { callers, fronts, backs, .. } = config;
        let is_limited = fronts.iter().any(|front| !front.limits.is_empty())
            || backs.iter().any(|back| !back.limits.is_empty());
        let names: Vec<_> = callers.iter().map(|caller| caller.name.shared()).collect();
        let counted = Some(&*names).filter(|names| is_limited || !names.is_empty());
        self.open.iter().for_each(|(_, told)| told.follow_callers(counted));
    }

    /// What counts the calls, if they are to be counted.
    pub(super) fn metrics(&self) -> Option<Rc<dyn Observer>> {
        self.open.as_ref().map(|(_, told)| told.metrics() as Rc<dyn Observer>)
    }

    /// The front of this name listens, as this line says.
    pub(super) fn listens(&self, front: &str, line: Option<&str>) {
        let Some((_, told)) = &self.open else { return };
        told.listens(front);
        let address = line.and_then(|line| line.strip_prefix("listening on "));
        if let (Some(page), Some(address)) = (told.page(), address) {
            page.front_is_at(front, address.trim_end());
        }
    }

    /// Says where they are, if that is news: behind the fronts, whose lines are waited for.
    pub(super) fn announce(&mut self) {
        if let Some(line) = self.line.take() {
            stderr::write(&logging::announcement(&line));
        }
        let has_page = self.open.as_ref().is_some_and(|(_, told)| told.page().is_some());
        if has_page && io::stderr().is_terminal() && !std::mem::replace(&mut self.has_said.1, true)
        {
            stderr::write("hint: `toolbus page --open` shows what happens\n");
        }
    }

    /// No front listens any more.
    pub(super) fn part(&self, bus: &Bus, fronts: Vec<String>) {
        self.open.iter().for_each(|(_, told)| told.follow(bus.clone(), fronts.clone()));
    }

    pub(super) async fn stop(&mut self) {
        self.tell_nowhere();
        if let Some((admin, told)) = self.open.take() {
            told.page().iter().for_each(|page| page.close("off"));
            admin.stop().await;
        }
    }
}

/// What a page shows of a config.
fn facts(config: &Config, source: &ConfigSource) -> PageFacts {
    let ConfigSource { path, text, loaded } = source;
    let place = StatePlace::of(path).map(|place| place.config);
    let fronts = config.fronts.iter().map(|front| {
        (front.name.clone(), front.serve.to_string(), front.serve.kind().wire().name())
    });
    PageFacts {
        config: place.unwrap_or_else(|| path.clone()),
        text: text.clone(),
        loaded: *loaded,
        journal: config.journal.clone(),
        fronts: fronts.collect(),
    }
}
