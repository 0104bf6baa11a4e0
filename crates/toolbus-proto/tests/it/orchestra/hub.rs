//! The hub: callers on one side, plugins on the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use toolbus_proto::channel::{Calling, Machine, Serving, StreamId};
use toolbus_proto::orchestra::envelope::response_body;
use toolbus_proto::orchestra::hub::{Asker, Hub, HubSettings, Order, PluginConfig};
use toolbus_proto::orchestra::protobuf::message::Message as _;
use toolbus_proto::orchestra::wire::{
    BootResult, ListPromptsResponse, ListToolsResponse, PromptDefinition, RegistrationResult,
    Response, ToolDefinition,
};
use toolbus_proto::orchestra::{Client, ClientSettings, Role, Server, ServerSettings, Timestamp};
use toolbus_proto::tool::{CallerId, Outcome, What};
use toolbus_testkit::in_memory::Hands;
use toolbus_testkit::transcript::{self, Arrival, Player};

use super::{arrivals, conversations, ids, more_ids, number, on_wire, passing, shown};

pub(super) const BEGIN: &[&str] = &["hub serving ", "plugins.yaml: "];

#[test]
fn conversations_come_out_as_they_are_written() {
    for file in conversations(BEGIN) {
        transcript::check_file(file, HubEnd::new);
    }
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in conversations(BEGIN) {
        transcript::sweep(&transcript::read(file), HubEnd::new);
    }
}

pub(super) struct HubEnd {
    now: Instant,
    wall: Timestamp,
    hub: Hub,
    hops: Arc<AtomicU64>,
    ids: Vec<String>,
    /// Callers, by the name that the conversation has for their connection.
    callers: BTreeMap<String, (CallerId, Hands<Server>)>,
    names: HashMap<CallerId, String>,
    plugins: HashMap<usize, Hands<Client>>,
    /// How plugins are run, where the conversation shows it.
    command: Option<&'static str>,
    spawned: u32,
}

impl HubEnd {
    pub(super) fn new() -> HubEnd {
        let (hub_ids, hops) = ids("hop");
        HubEnd {
            now: Instant::now(),
            wall: Timestamp::default(),
            hub: Hub::new(HubSettings::default(), Vec::new(), hub_ids),
            hops,
            ids: Vec::new(),
            callers: BTreeMap::new(),
            names: HashMap::new(),
            plugins: HashMap::new(),
            command: None,
            spawned: 0,
        }
    }

    fn with_plugins(&mut self, plugins: Vec<PluginConfig>) {
        self.ids = plugins.iter().map(|plugin| plugin.id.clone()).collect();
        let ids = more_ids("hop", &self.hops);
        self.hub = Hub::new(HubSettings::default(), plugins, ids);
    }

    fn client(&self) -> Hands<Client> {
        Hands::new(Client::new(ClientSettings::default(), more_ids("hop", &self.hops)))
    }

    /// A hub whose one plugin has come up already.
    fn serve(&mut self, what: &str) {
        let (id, provided) = what.split_once(" (").unwrap();
        let provided = provided.strip_suffix(')').unwrap();
        let mut config = PluginConfig::new(id);
        let storage = provided.strip_prefix("storage ");
        config.provides_storage.extend(storage.map(str::to_owned));
        self.with_plugins(vec![config]);
        self.hub.start(self.now);
        self.hub.handle_line(0, "READY x:1");
        self.hub.handle_dialled(self.now, 0);
        while let Some(order) = self.hub.poll_order() {
            let Order::Call(0, ticket, call) = order else { continue };
            let What::Native { method, .. } = call.what else { panic!("only native calls") };
            let answer = prepared(&method, storage.is_some());
            let done = toolbus_proto::channel::Down::Done(Ok(Outcome::Native(answer)));
            self.hub.down(self.now, ticket, done);
        }
        self.hops.store(0, Ordering::Relaxed);
        let client = self.client();
        self.plugins.insert(0, client);
    }

    fn caller(&mut self, name: &str) -> &mut Hands<Server> {
        if !self.callers.contains_key(name) {
            self.connect(name, None);
        }
        &mut self.callers.get_mut(name).unwrap().1
    }

    fn connect(&mut self, name: &str, certificate: Option<String>) {
        let id = CallerId(self.callers.len() as u64 + 1);
        let server = Server::new(ServerSettings::new(Role::Hub, id));
        self.callers.insert(name.to_owned(), (id, Hands::new(server)));
        self.names.insert(id, name.to_owned());
        self.hub.handle_connected(id, certificate);
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            let before = came.len();
            let mut has_moved = false;
            for (connection, hands) in self.callers.values_mut() {
                let connection = *connection;
                while let Some((ticket, asked)) = hands.machine.poll_up() {
                    self.hub.ask(self.now, self.wall, Asker { connection, ticket }, asked);
                }
                while hands.machine.poll_notice().is_some() {}
            }
            for hands in self.plugins.values_mut() {
                while let Some((ticket, down)) = hands.machine.poll_down() {
                    self.hub.down(self.now, ticket, down);
                }
                while hands.machine.poll_notice().is_some() {}
            }
            while let Some(order) = self.hub.poll_order() {
                has_moved = true;
                self.obey(order, &mut came);
            }
            self.flush(&mut came);
            if came.len() == before && !has_moved {
                return came;
            }
        }
    }

    fn flush(&mut self, came: &mut Vec<String>) {
        for (name, (_, hands)) in &mut self.callers {
            for (stream, leaves) in hands.leaves(self.now) {
                came.push(format!(">> [{name} {}] {}", number(stream), shown(&leaves)));
            }
        }
        for (index, hands) in &mut self.plugins {
            for (stream, leaves) in hands.leaves(self.now) {
                let id = &self.ids[*index];
                came.push(format!(">> [{id} {}] {}", number(stream), shown(&leaves)));
            }
        }
    }

    fn obey(&mut self, order: Order, came: &mut Vec<String>) {
        let id = |index: usize| self.ids[index].as_str();
        match order {
            Order::Down(Asker { connection, ticket }, down) => {
                let name = &self.names[&connection];
                let (_, hands) = self.callers.get_mut(name).unwrap();
                hands.machine.down(self.now, ticket, down);
            }
            Order::Call(index, ticket, call) => {
                if let Some(hands) = self.plugins.get_mut(&index) {
                    hands.machine.call(self.now, ticket, *call);
                }
            }
            Order::Up(index, ticket, up) => {
                if let Some(hands) = self.plugins.get_mut(&index) {
                    hands.machine.up(self.now, ticket, up);
                }
            }
            Order::Spawn(index) => {
                came.push(format!("== spawn {}", self.command.unwrap_or(id(index))));
                self.spawned += 1;
                if self.spawned == 1 && self.command.is_some() {
                    self.hub.handle_spawned(index, 4711);
                }
            }
            Order::Dial(index, address) => {
                let id = id(index);
                came.push(format!("== dial {address} as orchestrator-to-{id}"));
            }
            Order::Kill(index) => {
                came.push(format!("== kill {}", id(index)));
                self.plugins.remove(&index);
            }
            Order::Terminate(index) => {
                came.push(format!("== SIGTERM to the group of {}", id(index)));
            }
            Order::Say(line) => came.push(format!("== stderr {line}")),
            Order::Log(line) => came.push(format!("== {line}")),
            Order::Warn(_) => {}
            Order::Close => came.push(">> [caller] close 0 \"\"".to_owned()),
            Order::Exit => came.push("== exit 0".to_owned()),
        }
        self.flush(came);
    }

    /// The connection that a stream belongs to, and whether it is a plugin's.
    fn place(&self, wire: &str) -> (String, Option<usize>, u64) {
        let (name, number) = wire.rsplit_once(' ').unwrap();
        let plugin = self.ids.iter().position(|id| id == name);
        (name.to_owned(), plugin, number.parse::<u64>().unwrap() / 4)
    }
}

/// What the plugin of the conversations says while it comes up.
fn prepared(method: &[u8], is_storage: bool) -> Bytes {
    let tool = |name: &str, description: &str| ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        ..ToolDefinition::default()
    };
    let response: Response = match method {
        b"register" => RegistrationResult { accepted: true, ..Default::default() }.into(),
        b"boot" => BootResult { ready: true, ..Default::default() }.into(),
        b"list_tools" if is_storage => ListToolsResponse::default().into(),
        b"list_tools" => {
            let tools = vec![tool("echo", "Echo text"), tool("count", ""), tool("slow", "")];
            ListToolsResponse { tools, ..Default::default() }.into()
        }
        _ => {
            let greet = Bytes::from_static(b"\x0a\x05greet");
            let prompts = vec![PromptDefinition::read(&greet).unwrap()];
            ListPromptsResponse { prompts, ..Default::default() }.into()
        }
    };
    response_body(response)
}

impl Player for HubEnd {
    fn happen(&mut self, words: &str) -> Vec<String> {
        if let Some((wire, what)) = on_wire(words) {
            assert!(what.starts_with("FIN"));
            let now = self.now;
            let (name, plugin, number) = self.place(wire);
            let mut came = Vec::new();
            match plugin {
                Some(index) => {
                    // It may have been killed for what it said.
                    if let Some(hands) = self.plugins.get_mut(&index) {
                        hands.end(now, StreamId::Ours(number));
                    }
                }
                None => {
                    let is_over = self.caller(&name).end(now, StreamId::Theirs(number));
                    if is_over && what == "FIN alone" {
                        let number = number * 4;
                        let over = format!("== stream {number} is over, its credit is given back");
                        came.push(over);
                    }
                }
            }
            came.extend(self.drain());
            return came;
        }
        if let Some(passed) = passing(words) {
            self.now += passed;
            self.hub.handle_timeout(self.now);
            self.plugins.values_mut().for_each(|hands| hands.machine.handle_timeout(self.now));
            let callers = self.callers.values_mut();
            callers.for_each(|(_, hands)| hands.machine.handle_timeout(self.now));
            return self.drain();
        }
        let mut came = Vec::new();
        if let Some(what) = words.strip_prefix("hub serving ") {
            self.serve(what);
        } else if words.starts_with("plugins.yaml: ") {
            // The hands bind before any plugin is started.
            for address in ["127.0.0.1:50100", "[::1]:50100"] {
                came.push(format!("== stderr orchestrator listening on {address}"));
            }
            let mut config = PluginConfig::new("tools.peer");
            config.config.insert("mode".to_owned(), "test".to_owned());
            self.with_plugins(vec![config]);
            self.command = Some(
                "./tinyplugin --orchestrator-addr=127.0.0.1:50100 --listen-addr=localhost:0 --certs-dir=/certs",
            );
            self.hub.start(self.now);
        } else if let Some(line) = words.strip_prefix("tools.peer writes ") {
            self.hub.handle_line(0, line);
        } else if let Some(how) = words.strip_prefix("tools.peer exits with ") {
            self.plugins.remove(&0);
            self.hub.handle_exited(self.now, 0, how);
        } else if let Some(name) = words.strip_prefix("a connection as ") {
            let id = name.strip_suffix("-client").unwrap();
            self.connect(&format!("from {id}"), Some(name.to_owned()));
        } else {
            match words {
                "the clock says 2023-11-14T22:13:20Z" => self.wall.seconds = 1_700_000_000,
                "dial succeeds" => {
                    let client = self.client();
                    self.plugins.insert(0, client);
                    self.hub.handle_dialled(self.now, 0);
                }
                "SIGTERM" => self.hub.stop(self.now, "terminated"),
                _ => panic!("what is `{words}`?"),
            }
        }
        came.extend(self.drain());
        came
    }

    fn bytes(&mut self, wire: &str, bytes: &[u8]) -> Vec<String> {
        let now = self.now;
        let (name, plugin, number) = self.place(wire);
        match plugin {
            Some(index) => {
                if let Some(hands) = self.plugins.get_mut(&index) {
                    hands.bytes(now, StreamId::Ours(number), bytes);
                }
            }
            None => self.caller(&name).bytes(now, StreamId::Theirs(number), bytes),
        }
        self.drain()
    }

    fn arrival(&self, wire: &str, text: &str) -> Vec<Arrival> {
        arrivals(wire, text)
    }
}
