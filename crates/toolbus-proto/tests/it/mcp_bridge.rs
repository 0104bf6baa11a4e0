//! Clients and a server of MCP with us between them, replayed from `transcripts/mcp/bridge`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Machine, Notice, Outbox, Serving, Ticket,
};
use toolbus_proto::mcp::WIRE;
use toolbus_proto::mcp::{Behind, Client, Server, calling, conversation};
use toolbus_proto::tool::{Call, CallerId, Exit, Failure, FailureKind, LastWords, What};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player};

use crate::mcp_serving::{arriving, lines};
use crate::mcp_several::Backs;

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/mcp/bridge", player);
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/mcp/bridge") {
        transcript::sweep(&transcript::read(&file), || player(&file));
    }
}

fn player(file: &Path) -> Box<dyn Player> {
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    match name.split('_').next() {
        Some("several") => Box::new(Backs::new(Behind::Several)),
        Some("alone") => Box::new(Backs::new(Behind::Server)),
        _ => Box::new(Bridge::new()),
    }
}

/// Fronts by their names, one back, and the calls that hang between them.
struct Bridge {
    clock: Clock,
    fronts: BTreeMap<&'static str, Front>,
    back: Client,
    settings: calling::Settings,
    back_input: BytesMut,
    calls: HashMap<Ticket, (&'static str, Ticket)>,
    next_ticket: u64,
    /// Between the eras only the wires are told of.
    is_crossed: bool,
}

struct Front {
    server: Server,
    input: BytesMut,
}

const TIMEOUT: Duration = Duration::from_secs(60);
const SETUP: Ticket = Ticket(1 << 40);

/// What a modern server says of itself.
fn discovered(back: &str) -> String {
    let can = capabilities(back).unwrap_or(r#"{"tools":{"x":1.0}}"#.into());
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{can},"instructions":"h\u00e9","ttlMs":9,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"w","version":"3"}}}}}}}}"#
    )
}

/// What a legacy server answers to the handshake.
fn initialized(id: u64, back: &str) -> String {
    let can = capabilities(back).unwrap_or(r#"{"tools":{}}"#.into());
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{can},"serverInfo":{{"name":"w","version":"3"}}}}}}"#
    )
}

/// What stands behind `with` or `with capabilities`.
fn capabilities(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(" with ")?;
    let rest = rest.strip_prefix("capabilities ").unwrap_or(rest);
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
    values.next()?.ok().map(|value| value.to_string())
}

impl Bridge {
    fn new() -> Bridge {
        let count = AtomicU64::new(0);
        let fresh = move || format!("TOKEN{}", count.fetch_add(1, Ordering::Relaxed) + 1);
        let tokens = Some(calling::Tokens::new(fresh));
        let settings = calling::Settings { tokens, ..calling::Settings::new("w", "VERSION") };
        Bridge {
            clock: Clock::new(),
            fronts: BTreeMap::new(),
            back: Client::new(settings.clone()),
            settings,
            back_input: BytesMut::new(),
            calls: HashMap::new(),
            next_ticket: 0,
            is_crossed: false,
        }
    }

    fn now(&self) -> Instant {
        self.clock.now
    }

    fn add_front(&mut self, name: &'static str) {
        let caller = CallerId(self.fronts.len() as u64 + 1);
        let settings = conversation::Settings::new("VERSION", caller, Behind::Server);
        let front = Front { server: Server::new(settings), input: BytesMut::new() };
        self.fronts.insert(name, front);
    }

    /// `client legacy 2025-11-25 [with CAPABILITIES], back legacy 2025-11-25 [with
    /// CAPABILITIES], next id 3`, `clients c and d, …`, or either of them `modern`.
    fn set_scene(&mut self, scene: &str) {
        let (client, back) = scene.split_once(" back ").unwrap();
        let names: &[&'static str] =
            if client.starts_with("clients c and d") { &["c", "d"] } else { &["c"] };
        names.iter().for_each(|name| self.add_front(name));
        let next_id = match (client.contains("modern"), back.starts_with("modern")) {
            (true, true) => {
                self.discover("c");
                self.say("b", &discovered(back));
                2
            }
            (true, false) => {
                self.is_crossed = true;
                self.discover("c");
                let no = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
                self.say("b", no);
                self.say("b", &initialized(2, back));
                3
            }
            (false, true) => {
                self.is_crossed = true;
                // The server was asked by another before.
                self.ask_back("server/discover");
                self.say("b", &discovered(back));
                self.initialize("c", client);
                2
            }
            (false, false) => {
                for name in names {
                    self.initialize(name, client);
                    if self.back.revision().is_none() {
                        self.say("b", &initialized(1, back));
                    }
                }
                // Uses up an id, so that the conversation begins where it says.
                self.ask_back("x/setup");
                self.say("b", r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
                3
            }
        };
        assert!(back.contains(&format!("next id {next_id}")), "{back}");
        if back.contains("held under TOKEN1") {
            let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}"#;
            self.say("c", &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"book","arguments":{{}},"_meta":{meta}}}}}"#));
            let asked = [
                r#"{"jsonrpc":"2.0","id":100,"method":"elicitation/create","params":{"message":"who?"}}"#,
                r#"{"jsonrpc":"2.0","id":101,"method":"roots/list"}"#,
            ];
            self.say("b", &asked.join("\n"));
        }
    }

    fn discover(&mut self, front: &str) {
        let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;
        let asked =
            format!(r#"{{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{meta}}}"#);
        self.say(front, &asked);
    }

    fn initialize(&mut self, front: &str, client: &str) {
        let can = capabilities(client).unwrap_or("{}".into());
        self.say(front, &format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{can},"clientInfo":{{"name":"ed","version":"1"}}}}}}"#));
    }

    /// Asks the server something that no front hears of.
    fn ask_back(&mut self, method: &'static str) {
        let method = Bytes::from_static(method.as_bytes());
        let what = What::Native { wire: WIRE, method, body: Bytes::new() };
        self.back.call(self.clock.now, SETUP, Call::of(self.clock.now, what));
    }

    fn say(&mut self, wire: &str, line: &str) {
        self.drain();
        self.feed(wire, format!("{line}\n").as_bytes());
        self.drain();
    }

    fn feed(&mut self, wire: &str, bytes: &[u8]) {
        let now = self.now();
        if wire == "b" {
            self.back_input.extend_from_slice(bytes);
            self.back.handle_bytes(now, &mut self.back_input);
        } else {
            let front = self.fronts.get_mut(wire).expect("a front of this name");
            front.input.extend_from_slice(bytes);
            front.server.handle_bytes(now, &mut front.input);
        }
    }

    /// Carries everything across until nobody has anything to say.
    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            let before = came.len();
            let mut is_quiet = true;
            while let Some(notice) = self.back.poll_notice() {
                match notice {
                    Notice::Logged { level, data, is_wanted: true } => {
                        came.push(format!("== log w {level} {data}"));
                    }
                    Notice::ToolsChanged if !self.is_crossed => {
                        came.push("== the tools changed".to_owned());
                    }
                    _ => {}
                }
            }
            let mut out = Outbox::new();
            self.back.poll_transmit(&mut out);
            came.extend(lines(&out.take()).iter().map(|line| line.replacen(">>", ">>b", 1)));
            while let Some((ticket, down)) = self.back.poll_down() {
                is_quiet = false;
                self.deliver(ticket, down);
            }
            for (name, front) in &mut self.fronts {
                let mut out = Outbox::new();
                front.server.poll_transmit(&mut out);
                let wire = format!(">>{name}");
                came.extend(lines(&out.take()).iter().map(|line| line.replacen(">>", &wire, 1)));
                while front.server.poll_notice().is_some() {}
                while let Some((own, asked)) = front.server.poll_up() {
                    is_quiet = false;
                    match asked {
                        Asked::Call(mut call) => {
                            call.deadline.quiet = Some(TIMEOUT);
                            self.next_ticket += 1;
                            let ticket = Ticket(self.next_ticket);
                            self.calls.insert(ticket, (*name, own));
                            self.back.call(self.clock.now, ticket, call);
                        }
                        Asked::Up(up) => {
                            let is_it = |known: &(&'static str, Ticket)| *known == (*name, own);
                            let found = self.calls.iter().find(|(_, known)| is_it(known));
                            if let Some((&ticket, _)) = found {
                                self.back.up(self.clock.now, ticket, up);
                            }
                        }
                    }
                }
            }
            if is_quiet && came.len() == before {
                return came;
            }
        }
    }

    fn die(&mut self) -> Vec<String> {
        let words = LastWords {
            exit: Some(Exit::Code(7)),
            stderr: vec!["last words".into()],
            ..LastWords::default()
        };
        let failure = Failure::new(FailureKind::Gone, "exited with status 7");
        self.back.handle_eof(self.clock.now, &mut self.back_input);
        self.back.handle_lost(self.clock.now, &failure.with_last_words(words));
        // Whatever is asked because of that is asked of the next.
        let mut dead = std::mem::replace(&mut self.back, Client::new(self.settings.clone()));
        while let Some((ticket, down)) = dead.poll_down() {
            self.deliver(ticket, down);
        }
        self.drain()
    }

    fn deliver(&mut self, ticket: Ticket, down: Down) {
        let is_done = matches!(down, Down::Done(_));
        let Some(&(name, own)) = self.calls.get(&ticket) else { return };
        let front = self.fronts.get_mut(name).expect("a front of this name");
        front.server.down(self.clock.now, own, down);
        if is_done {
            self.calls.remove(&ticket);
        }
    }
}

impl Player for Bridge {
    fn happen(&mut self, what: &str) -> Vec<String> {
        match what {
            "c ends" => {
                let front = self.fronts.get_mut("c").expect("a front of this name");
                front.server.handle_eof(self.clock.now, &mut front.input);
            }
            "b dies" => return self.die(),
            _ if self.clock.happen(what) => self.back.handle_timeout(self.clock.now),
            scene => self.set_scene(scene),
        }
        self.drain()
    }

    fn bytes(&mut self, wire: &str, bytes: &[u8]) -> Vec<String> {
        self.feed(wire, bytes);
        self.drain()
    }

    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        vec![Arrival::Bytes(arriving(text))]
    }
}
