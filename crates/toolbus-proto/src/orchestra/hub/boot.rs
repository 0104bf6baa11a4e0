//! What a plugin answers for its life: registered, booted, listed, well, and about to end.

use std::time::Instant;

use bytes::Bytes;

use super::calls::{Running, read_response};
use super::life::{Life, Step};
use super::lists::Kind;
use super::{Hub, Order, PluginIndex};
use crate::orchestra::wire::{BootRequest, HealthResult, Response, Status};
use crate::tool::Failure;

/// Health checks in a row that may be missed.
const MISSES_MAX: u32 = 3;

impl Hub {
    pub(super) fn handle_step(
        &mut self,
        now: Instant,
        index: PluginIndex,
        step: Step,
        answer: Result<Bytes, Failure>,
    ) {
        let id = self.plugins[index].config.id.clone();
        let cause = answer.as_ref().map_or_else(
            |failure| failure.message.clone(),
            |_| "unexpected response type".to_owned(),
        );
        let response = answer.as_ref().ok().and_then(read_response);
        let is_booting = matches!(self.plugins[index].life, Life::Booting { .. });
        match (step, response) {
            (Step::Health, response) => self.handle_health(index, response),
            // Whatever it answered, it has had its goodbye.
            (Step::Shutdown, _) => self.orders.push_back(Order::EndGoodbye(index)),
            _ if !is_booting => {}
            (Step::Register, Some(Response::Register(result))) if result.accepted => {
                let config = self.plugins[index].config.config.clone();
                let request = BootRequest { config, ..BootRequest::default() };
                self.step(now, index, Step::Boot, request);
            }
            (Step::Register, response) => {
                let reason = match response {
                    Some(Response::Register(result)) => result.reject_reason,
                    _ => cause,
                };
                let why = format!("plugin \"{id}\" rejected registration: {reason}");
                self.orders.push_back(Order::Break(index, why));
            }
            (Step::Boot, Some(Response::Boot(result))) if result.ready => {
                if let Life::Booting { lists, .. } = &mut self.plugins[index].life {
                    *lists = 2;
                }
                for (kind, step) in [(Kind::Tools, Step::Tools), (Kind::Prompts, Step::Prompts)] {
                    let ask = self.to_list(kind);
                    self.call(now, index, ask, Running::step(index, step));
                }
            }
            (Step::Boot, response) => {
                let error = match response {
                    Some(Response::Boot(result)) => result.error,
                    _ => cause,
                };
                let why = format!("plugin \"{id}\" failed to boot: {error}");
                self.orders.push_back(Order::Break(index, why));
            }
            (Step::Tools | Step::Prompts, _) => {
                let is_list = answer.is_ok_and(|answer| self.learn_list(index, &answer));
                if !is_list {
                    self.warn(format!("plugin \"{id}\" lists nothing: {cause}"));
                }
                self.handle_listed(now, index);
            }
        }
    }

    /// One of its lists is here, or will not come: with the last of them it serves.
    fn handle_listed(&mut self, now: Instant, index: PluginIndex) {
        let plugin = &mut self.plugins[index];
        let Life::Booting { address, lists, .. } = &mut plugin.life else { return };
        *lists = lists.saturating_sub(1);
        if *lists > 0 {
            return;
        }
        let address = std::mem::take(address);
        let health_at = self.settings.health_interval.map(|interval| now + interval);
        plugin.life = Life::Serving { address, health_at };
        self.orders.push_back(Order::Serve(index));
        let line = format!("plugin \"{}\" registered and booted", self.plugins[index].config.id);
        self.say(line);
        self.report_duplicates();
        self.start_those_who_can();
        self.tell_when_ready();
    }

    fn handle_health(&mut self, index: PluginIndex, response: Option<Response>) {
        let plugin = &mut self.plugins[index];
        if !plugin.life.is_serving() {
            return;
        }
        let id = plugin.config.id.clone();
        match response {
            Some(Response::Health(HealthResult { status: Status::UNHEALTHY, message, .. })) => {
                let why = format!("is unhealthy: {message}");
                self.orders.push_back(Order::Break(index, why));
            }
            Some(Response::Health(HealthResult { status, message, .. })) => {
                plugin.misses = 0;
                let is_degraded = status == Status::DEGRADED;
                if is_degraded && !std::mem::replace(&mut plugin.is_degraded, is_degraded) {
                    self.warn(format!("plugin \"{id}\" is degraded: {message}"));
                }
                self.plugins[index].is_degraded = is_degraded;
            }
            _ => {
                plugin.misses += 1;
                if MISSES_MAX <= plugin.misses {
                    self.orders.push_back(Order::Break(index, "does not answer".to_owned()));
                }
            }
        }
    }
}
