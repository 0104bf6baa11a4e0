//! What a hub decides, with the supervisors of its plugins: callers on one side, plugins on the
//! other, and nothing real between them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use expect_test::{Expect, expect};
use toolbus::wire::orchestra::hub::{comeback, gone};
use toolbus_engine::child::supervisor::{self, Departure, Event, Restart, RunId, Supervisor};
use toolbus_engine::child::{Exit, Patience};
use toolbus_proto::channel::{
    Calling, Farewell, Fault, Machine, Proof, Readiness, Serving, StreamId,
};
use toolbus_proto::orchestra::envelope::response_body;
use toolbus_proto::orchestra::hub::{Asker, Hub, HubSettings, Order, PluginConfig};
use toolbus_proto::orchestra::protobuf::message::Message as _;
use toolbus_proto::orchestra::wire::{
    BootResult, ListPromptsResponse, ListToolsResponse, PromptDefinition, RegistrationResult,
    Response, ToolDefinition,
};
use toolbus_proto::orchestra::{Client, ClientSettings, Role, Server, ServerSettings, Timestamp};
use toolbus_proto::tool::{CallerId, Failure, FailureKind, Outcome, What};
use toolbus_testkit::in_memory::Hands;
use toolbus_testkit::orchestra::{
    OF_A_HUB, arrivals, conversations, ids, more_ids, number, on_wire, passing, shown,
};
use toolbus_testkit::transcript::{self, Arrival, Player};

#[test]
fn conversations_come_out_as_they_are_written() {
    for file in conversations(OF_A_HUB) {
        transcript::check_file(file, HubEnd::new);
    }
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in conversations(OF_A_HUB) {
        transcript::sweep(&transcript::read(file), HubEnd::new);
    }
}

fn check(expect: Expect) {
    transcript::check(HubEnd::new, expect);
}

#[test]
fn a_plugin_that_fails_five_times_is_given_up() {
    check(expect![[r#"
        -- plugins.yaml: id tools.peer
        == stderr orchestrator listening on 127.0.0.1:50100
        == stderr orchestrator listening on [::1]:50100
        == stderr plugin "tools.peer": enabled is not set, starting it
        == spawn ./tinyplugin --orchestrator-addr=127.0.0.1:50100 --listen-addr=localhost:0 --certs-dir=/certs
        == stderr started plugin "tools.peer" (pid=4711)
        -- tools.peer exits with status 1
        == stderr plugin "tools.peer" exited with status 1
        == stderr failed to start plugin "tools.peer": plugin "tools.peer" exited without printing READY
        == stderr orchestrator ready: 0 of 1 plugins, 0 tools
        -- 0.4 s pass
        -- 0.1 s pass
        == spawn ./tinyplugin --orchestrator-addr=127.0.0.1:50100 --listen-addr=localhost:0 --certs-dir=/certs
        -- it runs as 2
        == stderr started plugin "tools.peer" (pid=2)
        -- tools.peer exits with signal 9
        == stderr plugin "tools.peer" exited with signal 9
        == stderr failed to start plugin "tools.peer": plugin "tools.peer" exited without printing READY
        -- 1 s pass
        == spawn ./tinyplugin --orchestrator-addr=127.0.0.1:50100 --listen-addr=localhost:0 --certs-dir=/certs
        -- it runs as 3
        == stderr started plugin "tools.peer" (pid=3)
        -- 10 s pass
        == kill tools.peer
        == stderr failed to start plugin "tools.peer": plugin "tools.peer" did not become ready within 10 seconds
        -- 2 s pass
        == spawn ./tinyplugin --orchestrator-addr=127.0.0.1:50100 --listen-addr=localhost:0 --certs-dir=/certs
        -- it cannot be run
        == stderr failed to start plugin "tools.peer": there is no program "x"
        -- 4 s pass
        == spawn ./tinyplugin --orchestrator-addr=127.0.0.1:50100 --listen-addr=localhost:0 --certs-dir=/certs
        -- it runs as 5
        == stderr started plugin "tools.peer" (pid=5)
        -- tools.peer exits with status 1
        == stderr plugin "tools.peer" exited with status 1
        == stderr failed to start plugin "tools.peer": plugin "tools.peer" exited without printing READY
        == stderr giving up on plugin "tools.peer" after 5 failed starts
        -- 3600 s pass
    "#]]);
}

#[test]
fn a_plugin_that_has_served_long_begins_with_the_shortest_wait() {
    check(expect![[r#"
        -- hub serving tools.peer (echo)
        -- 1 s pass
        -- tools.peer exits with status 3
        == stderr plugin "tools.peer" exited with status 3; restarting in 0.5s
        -- 0.5 s pass
        == spawn tools.peer
        -- it comes up
        -- 1 s pass
        -- tools.peer exits with status 3
        == stderr plugin "tools.peer" exited with status 3; restarting in 1s
        -- 1 s pass
        == spawn tools.peer
        -- it comes up
        -- 59 s pass
        >> [tools.peer 0] "\x00\x00\x00\x09\x0a\x05hop-1j\x00" FIN
        -- tools.peer exits with status 3
        == stderr plugin "tools.peer" exited with status 3; restarting in 2s
        -- 2 s pass
        == spawn tools.peer
        -- it comes up
        -- 60 s pass
        >> [tools.peer 0] "\x00\x00\x00\x09\x0a\x05hop-1j\x00" FIN
        >> [tools.peer 4] "\x00\x00\x00\x09\x0a\x05hop-2j\x00" FIN
        >> [tools.peer 0] STOP_SENDING 0
        -- tools.peer exits with status 3
        == stderr plugin "tools.peer" exited with status 3; restarting in 0.5s
        -- 0.5 s pass
        == spawn tools.peer
    "#]]);
}

#[test]
fn a_plugin_that_does_not_end_is_made_to() {
    check(expect![[r#"
        -- hub serving tools.peer (echo)
        -- SIGTERM
        == stderr received signal terminated, shutting down
        >> [tools.peer 0] "\x00\x00\x00\x0b\x0a\x05hop-1b\x02\x08\x05" FIN
        -- 4.9 s pass
        -- 0.1 s pass
        == SIGTERM to the group of tools.peer
        >> [tools.peer 0] STOP_SENDING 0
        -- 1.9 s pass
        -- 0.1 s pass
        == kill tools.peer
        -- tools.peer exits with signal 9
        == stderr stopped plugin "tools.peer"
        >> [caller] close 0 ""
        == stderr orchestrator stopped
        == exit 0
    "#]]);
}

#[test]
fn a_plugin_that_has_not_come_up_is_not_asked_to_end() {
    check(expect![[r#"
        -- plugins.yaml: id tools.peer
        == stderr orchestrator listening on 127.0.0.1:50100
        == stderr orchestrator listening on [::1]:50100
        == stderr plugin "tools.peer": enabled is not set, starting it
        == spawn ./tinyplugin --orchestrator-addr=127.0.0.1:50100 --listen-addr=localhost:0 --certs-dir=/certs
        == stderr started plugin "tools.peer" (pid=4711)
        -- SIGTERM
        == stderr received signal terminated, shutting down
        == SIGTERM to the group of tools.peer
        -- tools.peer exits with signal 15
        == stderr stopped plugin "tools.peer"
        >> [caller] close 0 ""
        == stderr orchestrator stopped
        == exit 0
    "#]]);
}

#[test]
fn what_a_plugin_leaves_behind_is_asked_to_end_and_then_made_to() {
    check(expect![[r#"
        -- hub serving tools.peer (echo)
        -- tools.peer exits with status 1, others of it live on
        == SIGTERM to the group of tools.peer
        == stderr plugin "tools.peer" exited with status 1; restarting in 0.5s
        -- 0.5 s pass
        == spawn tools.peer
        -- it comes up
        -- 1.4 s pass
        -- 0.1 s pass
        == kill tools.peer
        -- SIGTERM
        == stderr received signal terminated, shutting down
        >> [tools.peer 0] "\x00\x00\x00\x0b\x0a\x05hop-1b\x02\x08\x05" FIN
        -- tools.peer exits with status 0, others of it live on
        == SIGTERM to the group of tools.peer
        -- 2 s pass
        == kill tools.peer
        -- the others of it end
        == stderr stopped plugin "tools.peer"
        >> [caller] close 0 ""
        == stderr orchestrator stopped
        == exit 0
    "#]]);
}

#[test]
fn a_hub_does_not_wait_for_one_that_will_be_started_later() {
    check(expect![[r#"
        -- hub serving tools.peer (echo)
        -- tools.peer exits with status 1
        == stderr plugin "tools.peer" exited with status 1; restarting in 0.5s
        -- SIGTERM
        == stderr received signal terminated, shutting down
        >> [caller] close 0 ""
        == stderr orchestrator stopped
        == exit 0
        -- 3600 s pass
    "#]]);
}

struct HubEnd {
    now: Instant,
    wall: Timestamp,
    hub: Hub,
    hops: Arc<AtomicU64>,
    ids: Vec<String>,
    /// Callers, by the name that the conversation has for their connection.
    callers: BTreeMap<String, (CallerId, Hands<Server>)>,
    names: HashMap<CallerId, String>,
    plugins: HashMap<usize, Hands<Client>>,
    /// Who keeps the processes of the plugins, and the present one of each.
    supervisors: Vec<(Supervisor, Option<RunId>)>,
    /// Those that were told to end.
    stopping: Vec<usize>,
    /// Processes that outlive the leader of their session.
    is_left: bool,
    /// How plugins are run, where the conversation shows it.
    command: Option<&'static str>,
    spawned: u32,
}

impl HubEnd {
    fn new() -> HubEnd {
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
            supervisors: Vec::new(),
            stopping: Vec::new(),
            is_left: false,
            command: None,
            spawned: 0,
        }
    }

    fn with_plugins(&mut self, plugins: Vec<PluginConfig>) {
        self.ids = plugins.iter().map(|plugin| plugin.id.clone()).collect();
        let supervised = |config: &PluginConfig| {
            let patience =
                Patience { start: config.start_timeout, ..toolbus::wire::orchestra::PATIENCE };
            let restart = Restart::Always(toolbus::wire::orchestra::COMEBACK);
            let id = config.id.clone();
            let supervisor = Supervisor::new(id, patience, restart);
            (supervisor.without_pipes(), None)
        };
        self.supervisors = plugins.iter().map(supervised).collect();
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
        self.hub.start();
        self.come_up(storage.is_some());
    }

    fn come_up(&mut self, is_storage: bool) {
        while let Some(order) = self.hub.poll_order() {
            self.obey(order, &mut Vec::new());
        }
        self.hub.handle_line(0, "READY x:1");
        self.hub.handle_dialled(self.now, 0);
        while let Some(order) = self.hub.poll_order() {
            let (ticket, call) = match order {
                Order::Call(0, ticket, call) => (ticket, call),
                order => {
                    self.obey(order, &mut Vec::new());
                    continue;
                }
            };
            let What::Native { method, .. } = call.what else { panic!("only native calls") };
            let answer = prepared(&method, is_storage);
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
            Order::Start(index) => {
                let (supervisor, _) = &mut self.supervisors[index];
                supervisor.wake(self.now).unwrap();
                self.supervise(index, came);
            }
            Order::Advance(index) => self.tell(index, came, |it, now, run| {
                it.handle(now, run, Event::Advanced);
            }),
            Order::Serve(index) => self.stands(index, came, &Readiness::Open),
            Order::Break(index, why) => {
                let failure = Failure::new(FailureKind::Unavailable, why);
                let fault = Fault { failure, farewell: Farewell::Abrupt };
                self.stands(index, came, &Readiness::Broken(fault));
            }
            Order::Stop(index) => {
                self.stopping.push(index);
                self.supervisors[index].0.stop(self.now);
                self.supervise(index, came);
            }
            Order::EndGoodbye(index) => {
                self.tell(index, came, |it, now, _| it.handle_all_finished(now));
            }
            Order::Dial(index, address) => {
                let id = id(index);
                came.push(format!("== dial {address} as orchestrator-to-{id}"));
            }
            Order::Say(line) => came.push(format!("== stderr {line}")),
            Order::Log(line) => came.push(format!("== {line}")),
            Order::Warn(_) => {}
            Order::Close => came.push(">> [caller] close 0 \"\"".to_owned()),
            Order::Exit => came.push("== exit 0".to_owned()),
        }
        self.flush(came);
    }

    /// Tells the supervisor of a plugin how the conversation with its present process stands.
    fn stands(&mut self, index: usize, came: &mut Vec<String>, readiness: &Readiness) {
        self.tell(index, came, |it, now, run| {
            it.handle(now, run, Event::Stands(readiness, Proof::Ready));
        });
    }

    /// Tells the supervisor of a plugin something of its present process.
    fn tell(
        &mut self,
        index: usize,
        came: &mut Vec<String>,
        tell: impl FnOnce(&mut Supervisor, Instant, RunId),
    ) {
        if let (supervisor, Some(run)) = &mut self.supervisors[index] {
            tell(supervisor, self.now, *run);
        }
        self.supervise(index, came);
    }

    /// Does what a supervisor wants done, as the hands would.
    fn supervise(&mut self, index: usize, came: &mut Vec<String>) {
        let id = self.ids[index].clone();
        let (supervisor, present) = &mut self.supervisors[index];
        while let Some((run, order)) = supervisor.poll_order() {
            match order {
                supervisor::Order::Spawn => {
                    came.push(format!("== spawn {}", self.command.unwrap_or(&id)));
                    *present = Some(run);
                    self.spawned += 1;
                    if self.spawned == 1 && self.command.is_some() {
                        self.hub.handle_spawned(index, 4711);
                    }
                }
                supervisor::Order::Terminate => {
                    came.push(format!("== SIGTERM to the group of {id}"));
                }
                supervisor::Order::Kill => came.push(format!("== kill {id}")),
                supervisor::Order::LookAtSession => {
                    let is_left = self.is_left;
                    supervisor.handle(self.now, run, Event::Session { is_left });
                }
                supervisor::Order::CloseStdin => panic!("a plugin has no standard input"),
                _ => {}
            }
        }
        while let Some(Departure { run, why, next, .. }) =
            self.supervisors[index].0.poll_departure()
        {
            self.hub.handle_gone(self.now, index, gone(why), comeback(next));
            if self.supervisors[index].1 == Some(run) {
                self.plugins.remove(&index);
            }
        }
        if self.supervisors[index].0.is_idle() && self.stopping.contains(&index) {
            self.stopping.retain(|stopping| *stopping != index);
            self.hub.handle_stopped(self.now, index);
        }
    }

    fn exits(&mut self, how: &str, came: &mut Vec<String>) {
        let (kind, number) = how.split_once(' ').unwrap();
        let (number, session_left) = match number.strip_suffix(", others of it live on") {
            Some(number) => (number.parse().unwrap(), true),
            None => (number.parse().unwrap(), false),
        };
        self.is_left = session_left;
        let exit = if kind == "signal" { Exit::Signal(number) } else { Exit::Code(number) };
        self.tell(0, came, |it, now, run| {
            it.handle(now, run, Event::Exited(exit, session_left));
            it.handle_stderr_closed(now, run, |_| {});
        });
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
            let until = self.now + passed;
            let mut came = Vec::new();
            // One after the other, as the clocks ring.
            loop {
                let supervised = self.supervisors.iter().filter_map(|(it, _)| it.poll_timeout());
                let next = supervised.chain(self.hub.poll_timeout()).min();
                let Some(next) = next.filter(|next| *next <= until) else { break };
                self.now = next.max(self.now);
                self.hub.handle_timeout(self.now);
                for index in 0..self.supervisors.len() {
                    self.supervisors[index].0.handle_timeout(self.now);
                    self.supervise(index, &mut came);
                }
                came.extend(self.drain());
            }
            self.now = until;
            self.plugins.values_mut().for_each(|hands| hands.machine.handle_timeout(self.now));
            let callers = self.callers.values_mut();
            callers.for_each(|(_, hands)| hands.machine.handle_timeout(self.now));
            came.extend(self.drain());
            return came;
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
            self.hub.start();
        } else if let Some(line) = words.strip_prefix("tools.peer writes ") {
            self.hub.handle_line(0, line);
        } else if let Some(pid) = words.strip_prefix("it runs as ") {
            self.hub.handle_spawned(0, pid.parse().unwrap());
        } else if let Some(how) = words.strip_prefix("tools.peer exits with ") {
            self.exits(how, &mut came);
        } else if words == "it comes up" {
            self.hub.handle_spawned(0, 1);
            self.come_up(false);
        } else if words == "the others of it end" {
            self.is_left = false;
            for index in 0..self.supervisors.len() {
                let (supervisor, run) = &mut self.supervisors[index];
                supervisor.handle(self.now, run.unwrap(), Event::Session { is_left: false });
                self.supervise(index, &mut came);
            }
        } else if words == "it cannot be run" {
            let failure = Failure::new(FailureKind::Unavailable, "there is no program \"x\"");
            self.tell(0, &mut came, |it, now, run| {
                it.handle(now, run, Event::SpawnFailed(&failure));
            });
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
