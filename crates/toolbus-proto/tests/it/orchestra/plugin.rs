//! toolbus as a plugin of a hub.

use std::time::Instant;

use toolbus_proto::channel::{Asked, Calling, Down, Ended, Machine, Serving, StreamId, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::orchestra::{Client, ClientSettings, Role, Server, ServerSettings, plugin};
use toolbus_proto::tool::{
    Call, CallerId, Code, Failure, FailureKind, Outcome, Part, ToolSpec, What,
};
use toolbus_testkit::in_memory::Hands;
use toolbus_testkit::transcript::{self, Arrival, Player};

use super::{arrivals, conversations, ids, number, on_wire, shown};

pub(super) const BEGIN: &[&str] = &["plugin "];

#[test]
fn conversations_come_out_as_they_are_written() {
    for file in conversations(BEGIN) {
        transcript::check_file(file, Plugin::new);
    }
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in conversations(BEGIN) {
        transcript::sweep(&transcript::read(file), Plugin::new);
    }
}

/// The one ticket of our own calls.
const REGISTER: Ticket = Ticket(1);

struct Plugin {
    now: Instant,
    server: Hands<Server>,
    hub: Hands<Client>,
    address: String,
    calls: Vec<Ticket>,
    is_over: bool,
}

impl Plugin {
    fn new() -> Plugin {
        let settings = ServerSettings::new(Role::Plugin, CallerId(1));
        Plugin {
            now: Instant::now(),
            server: Hands::new(Server::new(settings)),
            hub: Hands::new(Client::new(ClientSettings::default(), ids("hop").0)),
            address: "127.0.0.1:50100".to_owned(),
            calls: Vec::new(),
            is_over: false,
        }
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        while let Some((ticket, asked)) = self.server.machine.poll_up() {
            came.extend(self.asked(ticket, asked));
        }
        for (stream, leaves) in self.hub.leaves(self.now) {
            came.push(format!(">> [hub {}] {}", number(stream), shown(&leaves)));
        }
        for (stream, leaves) in self.server.leaves(self.now) {
            came.push(format!(">> [caller {}] {}", number(stream), shown(&leaves)));
        }
        while let Some((ticket, down)) = self.hub.machine.poll_down() {
            assert_eq!(ticket, REGISTER);
            let Down::Done(outcome) = down else { panic!("unexpected {down:?}") };
            match plugin::registered(&outcome) {
                Ok(()) => {
                    let address = &self.address;
                    came.push(format!("== stderr registered with orchestrator at {address}"));
                }
                Err(refused) => {
                    came.push(format!("== stderr {refused}"));
                    came.push("== exit 1".to_owned());
                }
            }
        }
        while self.server.machine.poll_notice().is_some() {}
        if let Some(Ended::Well) = self.server.machine.ended()
            && !std::mem::replace(&mut self.is_over, true)
        {
            came.push("== exit 0".to_owned());
        }
        came
    }

    fn asked(&mut self, ticket: Ticket, asked: Asked) -> Vec<String> {
        let call = match asked {
            Asked::Call(call) => call,
            Asked::Up(Up::Cancel(_)) => return vec!["== cancelled".to_owned()],
            Asked::Up(up) => panic!("unexpected {up:?}"),
        };
        let outcome = match &call.what {
            What::Tool { name, args } if name.as_str() == "echo" => {
                self.calls.push(ticket);
                let args = args.as_ref().map_or(String::new(), |args| format!(" {args}"));
                let progress = if call.options.progress { ", wants progress" } else { "" };
                return vec![format!("== call t{} {name}{args}{progress}", self.calls.len())];
            }
            What::Tools => {
                let echo = ToolSpec::new("echo", Json::parse("{}").unwrap());
                Ok(Outcome::Tools([echo].into()))
            }
            What::Tool { .. } => Err(Failure::new(FailureKind::UnknownTool, "no such tool")),
            What::Native { .. } => panic!("a plugin's tools are the bus's"),
        };
        self.server.machine.down(self.now, ticket, Down::Done(outcome));
        Vec::new()
    }

    fn reply(&mut self, words: &str) {
        let (ticket, reply) = words.split_once(' ').unwrap();
        let ticket = self.calls[ticket[1..].parse::<usize>().unwrap() - 1];
        let failed = "failed, code ";
        let down = if let Some(text) = reply.strip_prefix("part text ") {
            Down::Part(Part::Text(text.to_owned()))
        } else if let Some(text) = reply.strip_prefix("text ") {
            Down::Done(Ok(Outcome::Text(text.to_owned())))
        } else if let Some(failure) = reply.strip_prefix(failed) {
            let (code, message) = failure.split_once(": ").unwrap();
            let code = Some(Code::Word(code.to_owned()));
            Down::Done(Err(Failure { code, ..Failure::new(FailureKind::Failed, message) }))
        } else {
            assert_eq!(reply, "ends");
            Down::Done(Ok(Outcome::End(None)))
        };
        self.server.machine.down(self.now, ticket, down);
    }

    fn register(&mut self) {
        let tools = vec!["echo".to_owned()];
        let manifest = plugin::manifest("tools.bus", "0.1.0", tools);
        let call = Call::of(self.now, plugin::register(manifest));
        self.hub.machine.call(self.now, REGISTER, call);
    }
}

impl Player for Plugin {
    fn happen(&mut self, words: &str) -> Vec<String> {
        if let Some((wire, what)) = on_wire(words) {
            assert!(what.starts_with("FIN"));
            let (hands, number) = wire.split_once(' ').unwrap();
            let number = number.parse::<u64>().unwrap() / 4;
            match hands {
                "hub" => self.hub.end(self.now, StreamId::Ours(number)),
                _ => self.server.end(self.now, StreamId::Theirs(number)),
            };
            return self.drain();
        }
        if words.starts_with("plugin builtin: ") {
            // The hands bind, say so, and dial.
            return vec![
                "== stderr READY 127.0.0.1:41000".to_owned(),
                format!("== dial {} as tools.bus-client", self.address),
            ];
        }
        match words {
            "plugin serving one tool, echo" => {}
            "dial succeeds" => self.register(),
            words => self.reply(words.strip_prefix("reply ").expect("nothing else happens")),
        }
        self.drain()
    }

    fn bytes(&mut self, wire: &str, bytes: &[u8]) -> Vec<String> {
        let (hands, number) = wire.split_once(' ').unwrap();
        let number = number.parse::<u64>().unwrap() / 4;
        match hands {
            "hub" => self.hub.bytes(self.now, StreamId::Ours(number), bytes),
            _ => self.server.bytes(self.now, StreamId::Theirs(number), bytes),
        }
        self.drain()
    }

    fn arrival(&self, wire: &str, text: &str) -> Vec<Arrival> {
        arrivals(wire, text)
    }
}
