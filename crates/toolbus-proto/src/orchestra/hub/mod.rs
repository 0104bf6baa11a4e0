//! What a hub decides: who gets a request, what is answered for whom, and when a plugin is
//! started, asked and stopped (`docs/protocols/orchestra.md` 7 to 10).
//!
//! [`Hub`] has no connections and no processes. It is told what callers ask, what plugins
//! answer and what becomes of their processes, and gives [`Order`]s. Requests and answers go
//! through it as native calls, their members unread.

mod answers;
mod boot;
mod calls;
mod events;
mod life;
mod lists;
mod routes;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::envelope::response_body;
use super::waiting::Waiting;
use super::wire::{PluginManifest, PromptDefinition, Response, ToolDefinition};
use super::{Ids, Timestamp, WIRE};
use crate::channel::{Asked, Down, Ticket, Up};
use crate::counted::Counted;
use crate::tool::{Call, CallerId, Deadline, Outcome, Part, Piece, What};

use calls::Running;
use events::Subscriptions;
use life::Life;
pub use life::{Comeback, Gone};
use lists::Listing;

/// What is set about one plugin.
#[derive(Debug, Clone)]
pub struct PluginConfig {
    /// Its id in the file.
    pub id: String,
    /// Is it started at all?
    pub is_enabled: bool,
    /// Does the file say whether it is enabled?
    pub says_enabled: bool,
    /// What `boot` gets.
    pub config: std::collections::BTreeMap<String, String>,
    /// Added to what its manifest says.
    pub provides_storage: Vec<String>,
    /// Added to what its manifest says.
    pub provides_ai: Vec<String>,
    /// Ids of those that must have come up or failed before.
    pub depends_on: Vec<String>,
    /// How long until it is ready, and again until it is booted.
    pub start_timeout: Duration,
    /// Is it started again when it has gone?
    pub restarts: bool,
}

impl PluginConfig {
    /// With what holds if nothing is set.
    pub fn new(id: impl Into<String>) -> PluginConfig {
        PluginConfig {
            id: id.into(),
            is_enabled: true,
            says_enabled: false,
            config: Default::default(),
            provides_storage: Vec::new(),
            provides_ai: Vec::new(),
            depends_on: Vec::new(),
            start_timeout: Duration::from_secs(10),
            restarts: true,
        }
    }
}

/// What is set about the hub.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// How long a routed request may take.
    pub call_timeout: Duration,
    /// How often plugins are asked how they are, if at all.
    pub health_interval: Option<Duration>,
    /// How long a plugin may take to list its tools.
    pub list_timeout: Duration,
}

impl Default for HubSettings {
    fn default() -> HubSettings {
        HubSettings {
            call_timeout: Duration::from_secs(60),
            health_interval: Some(Duration::from_secs(30)),
            list_timeout: Duration::from_secs(5),
        }
    }
}

/// One plugin, by its place in the file.
pub type PluginIndex = usize;

/// One request of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asker {
    /// On which connection.
    pub connection: CallerId,
    /// Which of its requests.
    pub ticket: Ticket,
}

/// What the hands are to do.
#[derive(Debug, Clone)]
pub enum Order {
    /// Go on with the reply to a caller.
    Down(Asker, Down),
    /// Ask a plugin on its connection.
    Call(PluginIndex, Ticket, Box<Call>),
    /// Go on with what a plugin was asked.
    Up(PluginIndex, Ticket, Up),
    /// Start the plugin's program, and keep it alive.
    Start(PluginIndex),
    /// Connect to the plugin.
    Dial(PluginIndex, String),
    /// The plugin is connected: it has the time of a start once more, to be booted.
    Advance(PluginIndex),
    /// The plugin has come up.
    Serve(PluginIndex),
    /// The plugin's process is of no use: it has to go, and why.
    Break(PluginIndex, String),
    /// Make the plugin end. One that serves is being asked to, and has time until
    /// [`Order::EndGoodbye`].
    Stop(PluginIndex),
    /// The plugin was asked to end, and has answered or will not.
    EndGoodbye(PluginIndex),
    /// Write this line to standard error: people and scripts rely on it.
    Say(String),
    /// Something that was learned, for the log.
    Log(String),
    /// Something that is not as it should be, for the log.
    Warn(String),
    /// Close every connection, with code 0 and no reason.
    Close,
    /// End well.
    Exit,
}

/// A hub.
#[derive(Debug)]
pub struct Hub {
    settings: HubSettings,
    plugins: Vec<Plugin>,
    ids: Ids,
    /// Who is behind each connection, by the name in its certificate.
    connections: Counted<CallerId, Option<String>>,
    /// What was asked of plugins.
    running: Counted<Ticket, Running>,
    listings: Counted<u64, Listing>,
    next_listing: u64,
    subscriptions: Subscriptions,
    next_ticket: u64,
    is_ready: bool,
    is_stopping: bool,
    /// Duplicates that were reported.
    reported: std::collections::HashSet<(String, PluginIndex, PluginIndex)>,
    orders: VecDeque<Order>,
}

/// What is known of a plugin.
#[derive(Debug)]
struct Plugin {
    config: PluginConfig,
    life: Life,
    /// What it said of itself, once it has.
    manifest: PluginManifest,
    tools: Vec<ToolDefinition>,
    prompts: Vec<PromptDefinition>,
    /// Health checks in a row that were missed.
    misses: u32,
    is_degraded: bool,
    /// Events that wait for it, and whether one is on its way.
    events: Waiting,
    is_told: bool,
}

impl Hub {
    /// A hub of these plugins, none of which is started.
    pub fn new(settings: HubSettings, plugins: Vec<PluginConfig>, ids: Ids) -> Hub {
        let plugin = |config| Plugin {
            config,
            life: Life::Idle,
            manifest: PluginManifest::default(),
            tools: Vec::new(),
            prompts: Vec::new(),
            misses: 0,
            is_degraded: false,
            events: Waiting::default(),
            is_told: false,
        };
        Hub {
            settings,
            plugins: plugins.into_iter().map(plugin).collect(),
            ids,
            connections: Counted::default(),
            running: Counted::default(),
            listings: Counted::default(),
            next_listing: 0,
            subscriptions: Subscriptions::default(),
            next_ticket: 0,
            is_ready: false,
            is_stopping: false,
            reported: Default::default(),
            orders: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// A peer connected; the name in its certificate, if it showed one.
    pub fn handle_connected(&mut self, connection: CallerId, name: Option<String>) {
        self.connections.insert(connection, name);
    }

    /// The connection is gone. Its requests are cancelled by [`Hub::ask`], as its server says.
    pub fn handle_disconnected(&mut self, connection: CallerId) {
        self.connections.remove(&connection);
        self.subscriptions.end_connection(connection);
    }

    /// A caller asks, or goes on. `wall` is the time that the calendar shows.
    pub fn ask(&mut self, now: Instant, wall: Timestamp, asker: Asker, asked: Asked) {
        match asked {
            Asked::Call(call) => self.handle_call(now, wall, asker, &call),
            Asked::Up(Up::Cancel(_)) => self.handle_cancel(now, asker),
            Asked::Up(_) => {}
        }
    }

    /// The plugin behind a connection, if it is one that we run.
    fn plugin_of(&self, connection: CallerId) -> Option<PluginIndex> {
        let name = self.connections.get(&connection)?.as_deref()?;
        self.plugins.iter().position(|plugin| {
            let id = plugin.config.id.as_str();
            name == id || name.strip_suffix("-client") == Some(id)
        })
    }

    fn say(&mut self, line: String) {
        self.orders.push_back(Order::Say(line));
    }

    fn warn(&mut self, line: String) {
        self.orders.push_back(Order::Warn(line));
    }

    /// The only answer.
    fn answer(&mut self, asker: Asker, response: impl Into<Response>) {
        self.answer_body(asker, response_body(response));
    }

    fn answer_body(&mut self, asker: Asker, body: Bytes) {
        let done = Down::Done(Ok(Outcome::Native(body)));
        self.orders.push_back(Order::Down(asker, done));
    }

    /// One of several.
    fn go_on(&mut self, asker: Asker, data: Bytes) {
        let piece = Piece { data, media_type: None, len: None, last: true };
        self.orders.push_back(Order::Down(asker, Down::Part(Part::Bytes(piece))));
    }

    /// Asks a plugin. The answer comes by [`Hub::down`].
    fn call(&mut self, now: Instant, to: PluginIndex, ask: ToPlugin, running: Running) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.running.insert(ticket, running);
        let ToPlugin { method, body, timeout, is_stream } = ask;
        let (quiet, total) = match is_stream {
            true => (Some(timeout), None),
            false => (None, Some(timeout)),
        };
        let method = Bytes::from_static(method.as_bytes());
        let deadline = Deadline { asked: now, quiet, total };
        let what = What::Native { wire: WIRE, method, body };
        let call = Call { deadline, ..Call::of(now, what) };
        self.orders.push_back(Order::Call(to, ticket, Box::new(call)));
        ticket
    }
}

/// A request to a plugin.
struct ToPlugin {
    method: &'static str,
    body: Bytes,
    timeout: Duration,
    /// Each chunk gives it that time again.
    is_stream: bool,
}
