//! A client of MCP in front of several backs, or of one of which it is not shown all, replayed from
//! `transcripts/mcp/bridge`: those whose names begin with `several_` or `alone_`. The bus that
//! lists and calls tools is played here.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use toolbus_proto::channel::{Asked, Calling, Channel, Down, Machine, Outbox, Serving, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::several::{Peer, Several, SeveralNotice, Shown};
use toolbus_proto::mcp::{Behind, Client, Server, WIRE, calling, conversation};
use toolbus_proto::tool::{
    Call, CallerId, Exit, Failure, FailureKind, LastWords, Outcome, ToolName, ToolSpec, What,
};
use toolbus_proto::view::{Pattern, Rule, Selection, View};
use toolbus_testkit::transcript::{Arrival, Clock, Player};

use crate::mcp_serving::{arriving, lines};

const TIMEOUT: Duration = Duration::from_secs(60);
const LIST_TIMEOUT: Duration = Duration::from_secs(15);
const SETUP: Ticket = Ticket(u64::MAX - 1);
const ADD: &str = r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}"#;

/// A client before several backs, and the calls that hang between them.
pub(crate) struct Backs {
    clock: Clock,
    front: Server,
    input: BytesMut,
    several: Several,
    backs: Vec<Back>,
    /// By our tickets, whose a call is.
    owners: HashMap<Ticket, Owner>,
    /// Where each tool is, and what it is called there.
    table: HashMap<ToolName, (usize, ToolName)>,
    /// The answers to a list of tools, which are awaited from all backs.
    rounds: HashMap<Ticket, BTreeMap<usize, Option<Answer>>>,
    next_ticket: u64,
    log: Vec<String>,
}

type Answer = Result<Arc<[ToolSpec]>, Failure>;

struct Back {
    name: String,
    input: BytesMut,
    kind: BackKind,
}

enum BackKind {
    Server(Box<Client>),
    Broken,
    Builtin,
}

#[derive(Clone, Copy)]
enum Owner {
    /// A native call of ours.
    Several(Ticket),
    /// A part of a list of tools.
    Round(Ticket, usize),
    /// A call of the client.
    Tool(Ticket),
}

fn settings(name: &str) -> calling::Settings {
    calling::Settings::new(name, "VERSION")
}

impl Backs {
    pub(crate) fn new(behind: Behind) -> Backs {
        let caller = CallerId(1);
        let settings = conversation::Settings::new("VERSION", caller, behind);
        Backs {
            clock: Clock::new(),
            front: Server::new(settings),
            input: BytesMut::new(),
            several: Several::new("VERSION", LIST_TIMEOUT, Vec::new()),
            backs: Vec::new(),
            owners: HashMap::new(),
            table: HashMap::new(),
            rounds: HashMap::new(),
            next_ticket: 0,
            log: Vec::new(),
        }
    }

    fn now(&self) -> Instant {
        self.clock.now
    }

    /// `[view VIEW; ]client legacy 2025-11-25 [with CAPABILITIES]; backs in this order: NAME (legacy|modern
    /// [with GREETING], next id N), NAME (legacy|modern, has said nothing yet), NAME (does not
    /// start), NAME (builtin with add)`
    fn set_scene(&mut self, scene: &str) {
        let (view, scene) =
            match scene.strip_prefix("view ").map(|rest| rest.split_once("; client")) {
                Some(view) => view.unwrap(),
                None => ("", scene),
            };
        let (client, backs) = scene.split_once("; backs in this order: ").unwrap();
        let backs: Vec<_> = backs.split("), ").map(|back| back.split_once(" (").unwrap()).collect();
        for (name, what) in &backs {
            let kind = match *what {
                what if what.starts_with("legacy") || what.starts_with("modern") => {
                    BackKind::Server(Box::new(Client::new(settings(name))))
                }
                what if what.starts_with("builtin") => BackKind::Builtin,
                _ => BackKind::Broken,
            };
            self.backs.push(Back { name: (*name).to_owned(), input: BytesMut::new(), kind });
        }
        let peer = |(name, what): &(&str, &str)| Peer {
            name: (*name).into(),
            speaks_mcp: !what.starts_with("builtin"),
        };
        let peers = backs.iter().map(peer).collect();
        self.several = Several::new("VERSION", LIST_TIMEOUT, peers);
        if !view.is_empty() {
            let selection = Selection::new(None, Some(read_view(view).into())).map(Rc::new);
            self.several.show(Shown { selection, is_closed: true, ..Shown::default() });
        }
        let with = |text: &str| {
            let (_, rest) = text.split_once(" with ")?;
            let mut values = serde_json::Deserializer::from_str(rest).into_iter();
            values.next()?.ok().map(|value: serde_json::Value| value.to_string())
        };
        let is_modern = client.contains("modern");
        let can = with(client).unwrap_or("{}".into());
        self.say("c", &match is_modern {
            true => r#"{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#.to_owned(),
            false => format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{can},"clientInfo":{{"name":"ed","version":"1"}}}}}}"#),
        });
        for (name, what) in &backs {
            let greeting = with(what).unwrap_or(r#"{"capabilities":{"tools":{}}}"#.into());
            let greeting = greeting.strip_prefix('{').unwrap();
            if what.ends_with("has said nothing yet") || what.ends_with("has said nothing yet)") {
                continue;
            }
            if what.starts_with("legacy") {
                self.say(name, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","serverInfo":{{"name":"w","version":"3"}},{greeting}}}"#));
                // Uses up an id, so that the conversation begins where it says.
                let method = Bytes::from_static(b"x/setup");
                let what = What::Native { wire: WIRE, method, body: Bytes::new() };
                let now = self.now();
                let back = self.backs.iter_mut().find(|back| back.name == *name).unwrap();
                let BackKind::Server(server) = &mut back.kind else { panic!() };
                server.call(now, SETUP, Call::of(now, what));
                self.say(name, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
            } else if what.starts_with("modern") {
                self.say(name, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",{greeting}}}"#));
            }
        }
    }

    fn say(&mut self, wire: &str, line: &str) {
        self.drain();
        self.feed(wire, format!("{line}\n").as_bytes());
        self.drain();
    }

    fn feed(&mut self, wire: &str, bytes: &[u8]) {
        let now = self.now();
        if wire == "c" {
            self.input.extend_from_slice(bytes);
            self.front.handle_bytes(now, &mut self.input);
            return;
        }
        let back = self.backs.iter_mut().find(|back| back.name == wire).expect("such a back");
        back.input.extend_from_slice(bytes);
        let BackKind::Server(server) = &mut back.kind else { panic!("{wire} says nothing") };
        server.handle_bytes(now, &mut back.input);
    }

    /// Carries everything across until nobody has anything to say.
    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            let before = came.len();
            let mut is_quiet = true;
            for index in 0..self.backs.len() {
                let back = &mut self.backs[index];
                let BackKind::Server(server) = &mut back.kind else { continue };
                while server.poll_notice().is_some() {}
                let mut out = Outbox::new();
                server.poll_transmit(&mut out);
                let wire = format!(">>{}", back.name);
                came.extend(lines(&out.take()).iter().map(|line| line.replacen(">>", &wire, 1)));
                let downs: Vec<_> = std::iter::from_fn(|| server.poll_down()).collect();
                for (ticket, down) in downs {
                    is_quiet = false;
                    self.deliver(ticket, down);
                }
            }
            let now = self.now();
            is_quiet &= !self.carry_asks();
            while let Some((ticket, down)) = self.several.poll_down() {
                is_quiet = false;
                self.front.down(now, ticket, down);
            }
            while let Some(notice) = self.several.poll_notice() {
                self.log.push(match notice {
                    SeveralNotice::LeftOut { back, .. } => {
                        format!("== left out {}", self.backs[back].name)
                    }
                    SeveralNotice::SameName(told) | SeveralNotice::SameTool(told) => {
                        format!("== {told}")
                    }
                });
            }
            while let Some(kept) = self.several.poll_kept() {
                let hidden = kept.hidden.map(|own| format!(", which hides {own}"));
                self.log.push(format!("== kept: {}{}", kept.failure, hidden.unwrap_or_default()));
            }
            came.append(&mut self.log);
            let mut out = Outbox::new();
            self.front.poll_transmit(&mut out);
            came.extend(lines(&out.take()).iter().map(|line| line.replacen(">>", ">>c", 1)));
            while self.front.poll_notice().is_some() {}
            while let Some((own, asked)) = self.front.poll_up() {
                is_quiet = false;
                match asked {
                    Asked::Call(call) => self.asked(own, call),
                    Asked::Up(up) => {
                        self.several.up(own, up.clone());
                        self.go_on(up, |owner| matches!(owner, Owner::Tool(it) if *it == own));
                    }
                }
            }
            if is_quiet && came.len() == before {
                return came;
            }
        }
    }

    /// Asks the backs what we want of them; tells whether there was anything.
    fn carry_asks(&mut self) -> bool {
        let mut is_any = false;
        while let Some((back, ticket, asked)) = self.several.poll_ask() {
            is_any = true;
            match asked {
                Asked::Call(mut call) => {
                    let changed = self.several.changed(ticket).map(|changed| changed.params);
                    if let Some(Err(failure)) = changed {
                        self.several.down(self.clock.now, ticket, Down::Done(Err(failure)));
                        continue;
                    }
                    if let (What::Native { body, .. }, Some(Ok(Some(params)))) =
                        (&mut call.what, changed)
                    {
                        *body = params.into();
                    }
                    self.ask(back, Owner::Several(ticket), call);
                }
                Asked::Up(up) => {
                    self.go_on(up, |owner| matches!(owner, Owner::Several(own) if *own == ticket));
                }
            }
        }
        is_any
    }

    /// What the client asks: tools of the bus, all else of us.
    fn asked(&mut self, own: Ticket, mut call: Call) {
        let now = self.now();
        call.deadline.quiet = Some(TIMEOUT);
        match &call.what {
            What::Native { .. } => self.several.call(now, own, call),
            What::Tools => {
                self.several.begin_list(now);
                self.several.relink_all(now, call.caller);
                self.carry_asks();
                self.rounds.insert(own, (0..self.backs.len()).map(|back| (back, None)).collect());
                for back in 0..self.backs.len() {
                    self.ask(back, Owner::Round(own, back), call.clone());
                }
            }
            What::Tool { name, .. } => match self.table.get(name) {
                None => {
                    let failure = Failure::new(FailureKind::UnknownTool, "no such tool");
                    self.front.down(now, own, Down::Done(Err(failure)));
                }
                Some((back, tool)) => {
                    let (back, tool) = (*back, tool.clone());
                    if let What::Tool { name, .. } = &mut call.what {
                        *name = tool;
                    }
                    self.several.relink(now, call.caller, back);
                    self.carry_asks();
                    self.ask(back, Owner::Tool(own), call);
                }
            },
        }
    }

    fn ask(&mut self, back: usize, owner: Owner, call: Call) {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.owners.insert(ticket, owner);
        let now = self.now();
        let name = self.backs[back].name.clone();
        let done = match &mut self.backs[back].kind {
            BackKind::Server(server) => return server.call(now, ticket, call),
            BackKind::Broken => {
                Err(Failure::new(FailureKind::Unavailable, format!("{name} does not start")))
            }
            BackKind::Builtin => match call.what {
                What::Tools => {
                    Ok(Outcome::Tools([ToolSpec::new("add", Json::parse(ADD).unwrap())].into()))
                }
                _ => Ok(Outcome::Value(Json::parse("3").unwrap())),
            },
        };
        self.deliver(ticket, Down::Done(done));
    }

    fn go_on(&mut self, up: Up, is_it: impl Fn(&Owner) -> bool) {
        let found = self.owners.iter().find(|(_, owner)| is_it(owner));
        let Some(ticket) = found.map(|(ticket, _)| *ticket) else { return };
        let now = self.clock.now;
        for back in &mut self.backs {
            if let BackKind::Server(server) = &mut back.kind {
                server.up(now, ticket, up.clone());
            }
        }
    }

    fn deliver(&mut self, ticket: Ticket, down: Down) {
        let now = self.now();
        let Some(&owner) = self.owners.get(&ticket) else { return };
        if matches!(down, Down::Done(_)) {
            self.owners.remove(&ticket);
        }
        match (owner, down) {
            (Owner::Several(own), down) => self.several.down(now, own, down),
            (Owner::Tool(own), down) => {
                self.front.down(now, own, down);
            }
            (Owner::Round(own, back), Down::Done(outcome)) => {
                let answer = outcome.map(|outcome| match outcome {
                    Outcome::Tools(tools) => tools,
                    other => panic!("{other:?}"),
                });
                self.rounds.get_mut(&own).unwrap().insert(back, Some(answer));
                self.settle(own);
            }
            (Owner::Round(..), _) => {}
        }
    }

    /// Puts the tools of all together, when the last have come.
    fn settle(&mut self, own: Ticket) {
        if self.rounds[&own].values().any(Option::is_none) {
            return;
        }
        let mut tools = Vec::new();
        for (back, answer) in self.rounds.remove(&own).unwrap() {
            let name = self.backs[back].name.clone();
            match answer.unwrap() {
                Err(_) => self.log.push(format!("== left out {name}")),
                Ok(listed) => {
                    for tool in listed.iter() {
                        let shown = ToolName::new(format!("{name}_{}", tool.name));
                        self.table.insert(shown.clone(), (back, tool.name.clone()));
                        tools.push(ToolSpec { name: shown, ..tool.clone() });
                    }
                }
            }
        }
        let now = self.now();
        self.front.down(now, own, Down::Done(Ok(Outcome::Tools(tools.into()))));
    }

    fn die(&mut self, name: &str) {
        let now = self.now();
        let words = LastWords { exit: Some(Exit::Code(7)), ..LastWords::default() };
        let failure = Failure::new(FailureKind::Gone, "exited with status 7");
        let back = self.backs.iter_mut().find(|back| back.name == name).expect("such a back");
        let BackKind::Server(server) = &mut back.kind else { panic!("{name} cannot die") };
        server.handle_eof(now, &mut back.input);
        server.handle_lost(now, &failure.with_last_words(words));
        // Whatever is asked because of that is asked of the next.
        let mut dead = std::mem::replace(server, Box::new(Client::new(settings(name))));
        while let Some((ticket, down)) = dead.poll_down() {
            self.deliver(ticket, down);
        }
    }
}

/// `{"show":[…],"hide":[…],"instructions":…,"tools":{"BACK.TOOL":{"rename":…,"fixed":{…}}}}`
fn read_view(text: &str) -> View {
    let view: Value = serde_json::from_str(text).unwrap();
    let patterns = |value: &Value| {
        let patterns = value.as_array()?.iter();
        Some(patterns.map(|text| Pattern::new(text.as_str().unwrap())).collect::<Vec<_>>())
    };
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let rule = |rule: &Value| Rule {
        rename: string(&rule["rename"]),
        title: string(&rule["title"]),
        description: string(&rule["description"]),
        append: string(&rule["append"]),
        fixed: rule["fixed"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), Json::of(value)))
            .collect(),
    };
    let tools = view["tools"].as_object().into_iter().flatten();
    View {
        name: "v".into(),
        show: patterns(&view["show"]),
        hide: patterns(&view["hide"]).unwrap_or_default(),
        instructions: string(&view["instructions"]),
        tools: tools.map(|(name, value)| (name.clone(), rule(value))).collect(),
        ..View::default()
    }
}

impl Player for Backs {
    fn happen(&mut self, what: &str) -> Vec<String> {
        match what.strip_suffix(" dies") {
            Some(name) => self.die(name),
            None if self.clock.happen(what) => {
                let now = self.now();
                self.several.handle_timeout(now);
                for back in &mut self.backs {
                    if let BackKind::Server(server) = &mut back.kind {
                        server.handle_timeout(now);
                    }
                }
            }
            None => {
                self.set_scene(what);
                self.drain();
                return Vec::new();
            }
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
