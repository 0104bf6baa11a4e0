//! The life of a plugin: ready, registered, booted, serving, gone
//! (`docs/protocols/orchestra.md` 8).
//!
//! When its process is started, given up and made to end is decided by the supervisor that keeps
//! it, as for any other program. It is told how far the plugin is, and tells what became of it.

use std::time::{Duration, Instant};

use super::calls::Running;
use super::{Hub, Order, PluginIndex, ToPlugin};
use crate::orchestra::envelope::request_body;
use crate::orchestra::wire::{HealthRequest, PluginManifest, Request, ShutdownRequest};
use crate::tool::{Failure, FailureKind};

/// How long a plugin has to answer its goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// How far a plugin is.
#[derive(Debug)]
pub(super) enum Life {
    /// Not started: it is disabled, or waits for others.
    Idle,
    /// Its program runs and has not said where it listens.
    Starting,
    /// It is being connected to.
    Dialling {
        address: String,
    },
    /// It is being registered and booted; so many lists are still to come.
    Booting {
        address: String,
        lists: u8,
    },
    Serving {
        address: String,
        health_at: Option<Instant>,
    },
    /// Its connection was lost while its program runs: it is dialled once more.
    Redialling {
        address: String,
    },
    /// It has gone, and may be started again.
    Away,
    /// It was told to end.
    Stopping,
    /// It had gone by itself when all were told to end; what it left behind ends too.
    Leaving,
    Stopped,
}

impl Life {
    pub(super) fn is_serving(&self) -> bool {
        matches!(self, Life::Serving { .. })
    }

    /// Has it come up, or failed once?
    fn is_settled(&self) -> bool {
        matches!(self, Life::Serving { .. } | Life::Redialling { .. } | Life::Away)
    }

    fn timeout(&self) -> Option<Instant> {
        match self {
            Life::Serving { health_at, .. } => *health_at,
            _ => None,
        }
    }
}

/// Why the process of a plugin is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// It cannot be run, or [`Order::Break`] said so: why.
    Unfit(String),
    /// It has ended: `status 3` or `signal 9`.
    Exited(String),
    /// It did not come up in time.
    Late,
}

/// Whether a plugin that has gone is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comeback {
    /// By itself, after so long.
    In(Duration),
    /// No more, after so many failed starts in a row.
    GivenUp(u32),
    /// No: it is set so.
    Never,
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
    pub fn start(&mut self) {
        for index in 0..self.plugins.len() {
            let config = &self.plugins[index].config;
            let id = &config.id;
            if !config.is_enabled {
                self.say(format!("skipping disabled plugin \"{id}\""));
            } else if !config.says_enabled {
                self.say(format!("plugin \"{id}\": enabled is not set, starting it"));
            }
        }
        self.start_those_who_can();
        self.tell_when_ready();
    }

    /// Those who wait for others wait until these have come up or failed.
    pub(super) fn start_those_who_can(&mut self) {
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
                self.plugins[index].life = Life::Starting;
                self.orders.push_back(Order::Start(index));
            }
        }
    }

    /// The plugin's program runs, for the first time or once more.
    pub fn handle_spawned(&mut self, index: PluginIndex, pid: u32) {
        let plugin = &mut self.plugins[index];
        plugin.life = Life::Starting;
        plugin.misses = 0;
        plugin.is_degraded = false;
        let line = format!("started plugin \"{}\" (pid={pid})", plugin.config.id);
        self.say(line);
    }

    /// The plugin wrote a line to its standard error.
    pub fn handle_line(&mut self, index: PluginIndex, line: &str) {
        let plugin = &mut self.plugins[index];
        let id = &plugin.config.id;
        let ready = line.strip_prefix("READY ").map(str::trim);
        match (&plugin.life, ready) {
            (Life::Starting, Some(address)) => {
                let address = address.to_owned();
                let line = format!("plugin \"{id}\" ready at {address}");
                plugin.life = Life::Dialling { address: address.clone() };
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
            Life::Dialling { address } => {
                plugin.life = Life::Booting { address, lists: 0 };
                let id = plugin.config.id.clone();
                self.orders.push_back(Order::Advance(index));
                let manifest = PluginManifest { id, ..PluginManifest::default() };
                self.step(now, index, Step::Register, manifest);
            }
            Life::Redialling { address } => {
                let health_at = self.settings.health_interval.map(|interval| now + interval);
                plugin.life = Life::Serving { address, health_at };
            }
            other => plugin.life = other,
        }
    }

    /// The plugin cannot be connected to.
    pub fn handle_dial_failed(&mut self, index: PluginIndex, cause: &str) {
        match self.plugins[index].life {
            Life::Dialling { .. } => {
                let id = &self.plugins[index].config.id;
                let why = format!("cannot connect to plugin \"{id}\": {cause}");
                self.orders.push_back(Order::Break(index, why));
            }
            Life::Redialling { .. } => {
                self.orders.push_back(Order::Break(index, format!("lost: {cause}")));
            }
            _ => {}
        }
    }

    /// The connection to the plugin is lost. What was asked there has failed already.
    pub fn handle_connection_lost(&mut self, index: PluginIndex) {
        let plugin = &mut self.plugins[index];
        if let Life::Serving { address, .. } = &plugin.life {
            let address = address.clone();
            plugin.life = Life::Redialling { address: address.clone() };
            self.orders.push_back(Order::Dial(index, address));
        }
    }

    /// The plugin's process is of no use any more, and what becomes of the plugin.
    pub fn handle_gone(&mut self, now: Instant, index: PluginIndex, gone: Gone, next: Comeback) {
        let config = &self.plugins[index].config;
        let (id, seconds) = (&config.id, config.start_timeout.as_secs_f64());
        let late = |what| format!("plugin \"{id}\" {what} within {seconds} seconds");
        match (&self.plugins[index].life, gone) {
            // One that is away and cannot even be run again was not heard of since.
            (
                Life::Away | Life::Starting | Life::Dialling { .. } | Life::Booting { .. },
                Gone::Unfit(why),
            ) => self.fail_start(now, index, &why, next),
            (Life::Booting { .. }, Gone::Late) => {
                let why = late("did not boot");
                self.fail_start(now, index, &why, next);
            }
            (Life::Starting | Life::Dialling { .. }, Gone::Late) => {
                let why = late("did not become ready");
                self.fail_start(now, index, &why, next);
            }
            (Life::Starting, Gone::Exited(how)) => {
                let why = format!("plugin \"{id}\" exited without printing READY");
                // A line of its own, since scripts know the one behind it as it is.
                let line = format!("plugin \"{id}\" exited with {how}");
                self.say(line);
                self.fail_start(now, index, &why, next);
            }
            (Life::Dialling { .. } | Life::Booting { .. }, Gone::Exited(how)) => {
                let why = format!("plugin \"{id}\" exited with {how}");
                self.fail_start(now, index, &why, next);
            }
            (Life::Serving { .. } | Life::Redialling { .. }, gone) => {
                let what = match gone {
                    Gone::Unfit(what) => what,
                    Gone::Exited(how) => format!("exited with {how}"),
                    Gone::Late => "is late".to_owned(),
                };
                self.bury(now, index, &what, next);
            }
            // It ends as it was told to; others of its session may take longer.
            (Life::Stopping, Gone::Exited(how)) => {
                let why = Failure::new(FailureKind::Gone, format!("plugin exited with {how}"));
                self.fail_all(now, index, &why);
            }
            (Life::Idle | Life::Away | Life::Stopping | Life::Leaving | Life::Stopped, _) => {}
        }
    }

    /// Nothing is left of the plugin, which was told to end.
    pub fn handle_stopped(&mut self, now: Instant, index: PluginIndex) {
        let plugin = &mut self.plugins[index];
        if let Life::Stopping = std::mem::replace(&mut plugin.life, Life::Stopped) {
            let line = format!("stopped plugin \"{}\"", plugin.config.id);
            let why = Failure::new(FailureKind::Gone, "plugin was stopped");
            self.fail_all(now, index, &why);
            self.say(line);
        }
        self.tell_when_stopped();
    }

    /// Ends well: `signal` is how people call it.
    pub fn stop(&mut self, now: Instant, signal: &str) {
        if std::mem::replace(&mut self.is_stopping, true) {
            return;
        }
        self.say(format!("received signal {signal}, shutting down"));
        for index in 0..self.plugins.len() {
            self.plugins[index].life = match self.plugins[index].life {
                Life::Idle | Life::Stopped => {
                    self.plugins[index].life = Life::Stopped;
                    continue;
                }
                Life::Away => Life::Leaving,
                Life::Serving { .. } => {
                    let timeout_seconds = GOODBYE.as_secs() as i32;
                    let request = ShutdownRequest { timeout_seconds, ..Default::default() };
                    self.step(now, index, Step::Shutdown, request);
                    Life::Stopping
                }
                _ => Life::Stopping,
            };
            self.orders.push_back(Order::Stop(index));
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
            if let Life::Serving { health_at, .. } = life {
                *health_at = self.settings.health_interval.map(|interval| now + interval);
                self.step(now, index, Step::Health, HealthRequest::default());
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

    /// It did not come up. The others go on.
    fn fail_start(&mut self, now: Instant, index: PluginIndex, why: &str, next: Comeback) {
        let plugin = &mut self.plugins[index];
        plugin.life = Life::Away;
        let id = plugin.config.id.clone();
        self.say(format!("failed to start plugin \"{id}\": {why}"));
        self.forget(now, index, "plugin is not running");
        if let Comeback::GivenUp(starts) = next {
            self.say(format!("giving up on plugin \"{id}\" after {starts} failed starts"));
        }
        self.start_those_who_can();
        self.tell_when_ready();
    }

    /// It served and does not any more: what it was asked fails at once.
    fn bury(&mut self, now: Instant, index: PluginIndex, what: &str, next: Comeback) {
        let plugin = &mut self.plugins[index];
        plugin.life = Life::Away;
        let id = plugin.config.id.clone();
        self.forget(now, index, &format!("plugin {what}"));
        self.say(match next {
            Comeback::In(delay) => {
                format!("plugin \"{id}\" {what}; restarting in {}s", delay.as_secs_f64())
            }
            Comeback::GivenUp(_) | Comeback::Never => format!("plugin \"{id}\" {what}"),
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
