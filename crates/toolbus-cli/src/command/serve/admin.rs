//! The pages of `[admin]`: opened, changed and closed as the config says.

use std::rc::Rc;

use toolbus::bus::Bus;
use toolbus::bus::admin::{Admin, AdminPlan, Told};
use toolbus::bus::config::Config;
use toolbus::bus::observe::Observer;

use super::front::failed;
use crate::failed::Failed;
use crate::{logging, stderr};

/// The pages as they are served, if they are.
#[derive(Default)]
pub(super) struct Pages {
    open: Option<(Admin, Rc<Told>)>,
    /// The line that says where they are, until it is said.
    line: Option<String>,
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
        bus: &Bus,
        fronts: Vec<String>,
    ) -> Result<(), Failed> {
        let Some(plan) = plan else {
            self.stop().await;
            return Ok(());
        };
        let told = match &self.open {
            Some((_, told)) => {
                told.follow(bus.clone(), fronts);
                told.clone()
            }
            None => Told::new(bus.clone(), fronts),
        };
        if self.open.as_ref().is_some_and(|(admin, _)| admin.become_as(&plan)) {
            return Ok(());
        }
        let admin = plan.open(told.clone()).await.map_err(|error| failed("admin", error))?;
        self.line = Some(admin.line.clone());
        let before = self.open.replace((admin, told));
        if let Some((before, _)) = before {
            before.stop().await;
        }
        Ok(())
    }

    /// What counts the calls, if they are to be counted.
    pub(super) fn metrics(&self) -> Option<Rc<dyn Observer>> {
        self.open.as_ref().map(|(_, told)| told.metrics() as Rc<dyn Observer>)
    }

    /// The front of this name listens.
    pub(super) fn listens(&self, front: &str) {
        self.open.iter().for_each(|(_, told)| told.listens(front));
    }

    /// Says where they are, if that is news: behind the fronts, whose lines are waited for.
    pub(super) fn announce(&mut self) {
        if let Some(line) = self.line.take() {
            stderr::write(&logging::announcement(&line));
        }
    }

    /// No front listens any more.
    pub(super) fn part(&self, bus: &Bus, fronts: Vec<String>) {
        self.open.iter().for_each(|(_, told)| told.follow(bus.clone(), fronts.clone()));
    }

    pub(super) async fn stop(&mut self) {
        if let Some((admin, _)) = self.open.take() {
            admin.stop().await;
        }
    }
}
