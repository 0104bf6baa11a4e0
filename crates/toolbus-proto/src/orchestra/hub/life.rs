//! The life of a plugin: started, ready, registered, booted, serving, gone, started again
//! (`docs/protocols/orchestra.md` 8). Spawning, killing and reaping are the hands'.

use std::time::{Duration, Instant};

use super::calls::Running;
use super::{Hub, Order, PluginIndex, ToPlugin};
use crate::orchestra::envelope::request_body;
use crate::orchestra::wire::{HealthRequest, PluginManifest, Request, ShutdownRequest};
use crate::tool::{Failure, FailureKind};

/// After so many failed starts in a row a plugin is given up.
const FAILURES_MAX: u32 = 5;
/// How long until a plugin is started again, at first and at most.
const RESTART_MIN: Duration = Duration::from_millis(500);
const RESTART_MAX: Duration = Duration::from_secs(30);
/// Who has served so long begins with the shortest wait again.
const PROVEN: Duration = Duration::from_secs(60);
/// How long a plugin has to say goodbye, and then to end.
const GOODBYE: Duration = Duration::from_secs(5);
pub(super) const TERMINATED: Duration = Duration::from_secs(2);

/// How far a plugin is.
#[derive(Debug)]
pub(super) enum Life {
    /// Not started: it is disabled, or waits for others.
    Idle,
    /// Its program runs and has not said where it listens.
    Starting {
        until: Instant,
    },
    /// It is being connected to.
    Dialling {
        until: Instant,
        address: String,
    },
    /// It is being registered and booted; so many lists are still to come.
    Booting {
        until: Instant,
        address: String,
        lists: u8,
    },
    Serving {
        since: Instant,
        address: String,
        health_at: Option<Instant>,
    },
    /// Its connection was lost while its program runs: it is dialled once more.
    Redialling {
        since: Instant,
        address: String,
    },
    /// It has gone; when to start it again, unless it was given up.
    Away {
        restart_at: Option<Instant>,
    },
    /// It was told to end.
    Stopping {
        until: Instant,
        is_terminated: bool,
    },
    Stopped,
}

impl Life {
    pub(super) fn is_serving(&self) -> bool {
        matches!(self, Life::Serving { .. })
    }

    /// Has it come up, or failed once?
    fn is_settled(&self) -> bool {
        matches!(self, Life::Serving { .. } | Life::Redialling { .. } | Life::Away { .. })
    }

    fn timeout(&self) -> Option<Instant> {
        match self {
            Life::Starting { until }
            | Life::Dialling { until, .. }
            | Life::Booting { until, .. }
            | Life::Stopping { until, .. } => Some(*until),
            Life::Serving { health_at, .. } => *health_at,
            Life::Away { restart_at } => *restart_at,
            Life::Idle | Life::Redialling { .. } | Life::Stopped => None,
        }
    }
}

/// What a plugin is asked for its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Register,
    Boot,
    Tools,
    Prompts,
    Health,
    Shutdown,
}

impl Hub {
    /// Starts the plugins.
    pub fn start(&mut self, now: Instant) {
        for index in 0..self.plugins.len() {
            let config = &self.plugins[index].config;
            let id = &config.id;
            if !config.is_enabled {
                self.say(format!("skipping disabled plugin \"{id}\""));
            } else if !config.says_enabled {
                self.say(format!("plugin \"{id}\": enabled is not set, starting it"));
            }
        }
        self.start_those_who_can(now);
        self.tell_when_ready();
    }

    /// Those who wait for others wait until these have come up or failed.
    pub(super) fn start_those_who_can(&mut self, now: Instant) {
        if self.is_stopping {
            return;
        }
        for index in 0..self.plugins.len() {
            let plugin = &self.plugins[index];
            let is_settled = |id: &String| {
                let other = self.plugins.iter().find(|other| other.config.id == *id);
                other.is_none_or(|other| !other.config.is_enabled || other.life.is_settled())
            };
            let may_start = matches!(plugin.life, Life::Idle) && plugin.config.is_enabled;
            if may_start && plugin.config.depends_on.iter().all(is_settled) {
                self.spawn(now, index);
            }
        }
    }

    fn spawn(&mut self, now: Instant, index: PluginIndex) {
        let plugin = &mut self.plugins[index];
        plugin.life = Life::Starting { until: now + plugin.config.start_timeout };
        plugin.misses = 0;
        plugin.is_degraded = false;
        self.orders.push_back(Order::Spawn(index));
    }

    /// The plugin's program runs.
    pub fn handle_spawned(&mut self, index: PluginIndex, pid: u32) {
        let id = &self.plugins[index].config.id;
        self.say(format!("started plugin \"{id}\" (pid={pid})"));
    }

    /// The plugin's program cannot be run.
    pub fn handle_not_spawned(&mut self, now: Instant, index: PluginIndex, why: String) {
        self.fail_start(now, index, why, false);
    }

    /// The plugin wrote a line to its standard error.
    pub fn handle_line(&mut self, index: PluginIndex, line: &str) {
        let plugin = &mut self.plugins[index];
        let id = &plugin.config.id;
        let ready = line.strip_prefix("READY ").map(str::trim);
        match (&plugin.life, ready) {
            (Life::Starting { until }, Some(address)) => {
                let (until, address) = (*until, address.to_owned());
                let line = format!("plugin \"{id}\" ready at {address}");
                plugin.life = Life::Dialling { until, address: address.clone() };
                self.say(line);
                self.orders.push_back(Order::Dial(index, address));
            }
            _ => {
                let line = format!("[{id}] {line}");
                self.say(line);
            }
        }
    }

    /// The plugin is connected.
    pub fn handle_dialled(&mut self, now: Instant, index: PluginIndex) {
        let plugin = &mut self.plugins[index];
        match std::mem::replace(&mut plugin.life, Life::Idle) {
            Life::Dialling { address, .. } => {
                let until = now + plugin.config.start_timeout;
                plugin.life = Life::Booting { until, address, lists: 0 };
                let id = plugin.config.id.clone();
                let manifest = PluginManifest { id, ..PluginManifest::default() };
                self.step(now, index, Step::Register, manifest);
            }
            Life::Redialling { since, address } => {
                let health_at = self.settings.health_interval.map(|interval| now + interval);
                plugin.life = Life::Serving { since, address, health_at };
            }
            other => plugin.life = other,
        }
    }

    /// The plugin cannot be connected to.
    pub fn handle_dial_failed(&mut self, now: Instant, index: PluginIndex, cause: &str) {
        match self.plugins[index].life {
            Life::Dialling { .. } => {
                let id = &self.plugins[index].config.id;
                let why = format!("cannot connect to plugin \"{id}\": {cause}");
                self.fail_start(now, index, why, true);
            }
            Life::Redialling { .. } => self.bury(now, index, &format!("lost: {cause}"), true),
            _ => {}
        }
    }

    /// The connection to the plugin is lost. What was asked there has failed already.
    pub fn handle_connection_lost(&mut self, _now: Instant, index: PluginIndex) {
        let plugin = &mut self.plugins[index];
        if let Life::Serving { since, address, .. } = &plugin.life {
            let (since, address) = (*since, address.clone());
            plugin.life = Life::Redialling { since, address: address.clone() };
            self.orders.push_back(Order::Dial(index, address));
        }
    }

    /// The plugin's process has ended: `how` is `status 3` or `signal 9`.
    pub fn handle_exited(&mut self, now: Instant, index: PluginIndex, how: &str) {
        let id = self.plugins[index].config.id.clone();
        match self.plugins[index].life {
            Life::Starting { .. } => {
                let why = format!("plugin \"{id}\" exited without printing READY");
                self.fail_start(now, index, why, false);
            }
            Life::Dialling { .. } | Life::Booting { .. } => {
                let why = format!("plugin \"{id}\" exited with {how}");
                self.fail_start(now, index, why, false);
            }
            Life::Serving { .. } | Life::Redialling { .. } => {
                self.bury(now, index, &format!("exited with {how}"), false);
            }
            Life::Stopping { .. } => {
                self.plugins[index].life = Life::Stopped;
                let why = Failure::new(FailureKind::Gone, format!("plugin exited with {how}"));
                self.fail_all(now, index, &why);
                self.say(format!("stopped plugin \"{id}\""));
                self.tell_when_stopped();
            }
            Life::Idle | Life::Away { .. } | Life::Stopped => {}
        }
    }

    /// Ends well: `signal` is how people call it.
    pub fn stop(&mut self, now: Instant, signal: &str) {
        if std::mem::replace(&mut self.is_stopping, true) {
            return;
        }
        self.say(format!("received signal {signal}, shutting down"));
        for index in 0..self.plugins.len() {
            let (next, order) = match self.plugins[index].life {
                Life::Serving { .. } => {
                    let timeout_seconds = GOODBYE.as_secs() as i32;
                    let request = ShutdownRequest { timeout_seconds, ..Default::default() };
                    self.step(now, index, Step::Shutdown, request);
                    (Life::Stopping { until: now + GOODBYE, is_terminated: false }, None)
                }
                Life::Idle | Life::Away { .. } | Life::Stopped => (Life::Stopped, None),
                _ => {
                    let life = Life::Stopping { until: now + TERMINATED, is_terminated: true };
                    (life, Some(Order::Terminate(index)))
                }
            };
            self.plugins[index].life = next;
            self.orders.extend(order);
        }
        self.tell_when_stopped();
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        for index in 0..self.plugins.len() {
            let life = &mut self.plugins[index].life;
            if life.timeout().is_none_or(|timeout| now < timeout) {
                continue;
            }
            match life {
                Life::Serving { health_at, .. } => {
                    *health_at = self.settings.health_interval.map(|interval| now + interval);
                    self.step(now, index, Step::Health, HealthRequest::default());
                }
                Life::Away { .. } => self.spawn(now, index),
                Life::Stopping { until, is_terminated: is_terminated @ false } => {
                    (*until, *is_terminated) = (now + TERMINATED, true);
                    self.orders.push_back(Order::Terminate(index));
                }
                Life::Stopping { until, .. } => {
                    *until = now + TERMINATED;
                    self.orders.push_back(Order::Kill(index));
                }
                Life::Booting { .. } => self.fail_late(now, index, "did not boot"),
                _ => self.fail_late(now, index, "did not become ready"),
            }
        }
    }

    /// When to call [`Hub::handle_timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.plugins.iter().filter_map(|plugin| plugin.life.timeout()).min()
    }

    pub(super) fn step(
        &mut self,
        now: Instant,
        index: PluginIndex,
        step: Step,
        request: impl Into<Request>,
    ) {
        let request = request.into();
        let timeout = match step {
            Step::Health => self.settings.health_interval.unwrap_or(GOODBYE),
            Step::Shutdown => GOODBYE,
            _ => self.plugins[index].config.start_timeout,
        };
        let method = Request::name_of(request.number()).unwrap_or_default();
        let ask = ToPlugin { method, body: request_body(request), timeout, is_stream: false };
        self.call(now, index, ask, Running::step(index, step));
    }

    fn fail_late(&mut self, now: Instant, index: PluginIndex, what: &str) {
        let config = &self.plugins[index].config;
        let (id, seconds) = (&config.id, config.start_timeout.as_secs_f64());
        let why = format!("plugin \"{id}\" {what} within {seconds} seconds");
        self.fail_start(now, index, why, true);
    }

    /// It did not come up. The others go on.
    pub(super) fn fail_start(
        &mut self,
        now: Instant,
        index: PluginIndex,
        why: String,
        is_alive: bool,
    ) {
        if is_alive {
            self.orders.push_back(Order::Kill(index));
        }
        let plugin = &mut self.plugins[index];
        plugin.failures += 1;
        let (failures, id) = (plugin.failures, plugin.config.id.clone());
        let restarts = plugin.config.restarts && failures < FAILURES_MAX;
        let delay = plugin.next_delay();
        plugin.life = Life::Away { restart_at: restarts.then(|| now + delay) };
        self.say(format!("failed to start plugin \"{id}\": {why}"));
        self.forget(now, index, "plugin is not running");
        if failures == FAILURES_MAX {
            self.say(format!("giving up on plugin \"{id}\" after {failures} failed starts"));
        }
        self.start_those_who_can(now);
        self.tell_when_ready();
    }

    /// It served and does not any more: what it was asked fails at once, and it is started
    /// again.
    pub(super) fn bury(&mut self, now: Instant, index: PluginIndex, what: &str, is_alive: bool) {
        let plugin = &mut self.plugins[index];
        if let Life::Serving { since, .. } | Life::Redialling { since, .. } = plugin.life
            && since + PROVEN <= now
        {
            plugin.delays = 0;
        }
        let restarts = plugin.config.restarts;
        let delay = plugin.next_delay();
        let id = plugin.config.id.clone();
        plugin.life = Life::Away { restart_at: restarts.then(|| now + delay) };
        if is_alive {
            self.orders.push_back(Order::Kill(index));
        }
        self.forget(now, index, &format!("plugin {what}"));
        self.say(match restarts {
            true => format!("plugin \"{id}\" {what}; restarting in {}s", delay.as_secs_f64()),
            false => format!("plugin \"{id}\" {what}"),
        });
    }

    /// What hung on its process goes with it.
    fn forget(&mut self, now: Instant, index: PluginIndex, cause: &str) {
        self.subscriptions.end_plugin(index);
        let plugin = &mut self.plugins[index];
        plugin.events.clear();
        plugin.is_told = false;
        plugin.manifest.needs_events.clear();
        self.fail_all(now, index, &Failure::new(FailureKind::Gone, cause));
    }

    pub(super) fn tell_when_ready(&mut self) {
        let enabled = self.plugins.iter().filter(|plugin| plugin.config.is_enabled);
        if self.is_ready || !enabled.clone().all(|plugin| plugin.life.is_settled()) {
            return;
        }
        self.is_ready = true;
        let serving = enabled.clone().filter(|plugin| plugin.life.is_serving()).count();
        let (enabled, tools) = (enabled.count(), self.tool_count());
        self.say(format!("orchestrator ready: {serving} of {enabled} plugins, {tools} tools"));
    }

    fn tell_when_stopped(&mut self) {
        if self.plugins.iter().all(|plugin| matches!(plugin.life, Life::Stopped)) {
            self.orders.push_back(Order::Close);
            self.say("orchestrator stopped".to_owned());
            self.orders.push_back(Order::Exit);
        }
    }
}

impl super::Plugin {
    /// How long it is away this time: twice as long as the last.
    fn next_delay(&mut self) -> Duration {
        let delay = RESTART_MIN.saturating_mul(1 << self.delays.min(10));
        self.delays += 1;
        delay.min(RESTART_MAX)
    }
}
