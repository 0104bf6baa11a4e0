//! `transport.stdio`: lines on one side, the streams of a hub on the other.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::BytesMut;
use expect_test::expect;
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Ended, Machine, Outbox, Serving, StreamId,
};
use toolbus_proto::orchestra::redial::{Again, Redial};
use toolbus_proto::orchestra::stdio::{
    Profile, Transport, TransportSettings, Uplink, UplinkNews, UplinkSettings,
};
use toolbus_proto::orchestra::{Client, ClientSettings};
use toolbus_proto::tool::{Failure, FailureKind};
use toolbus_testkit::in_memory::Hands;
use toolbus_testkit::transcript::{self, Arrival, Player};

use super::{arrivals, conversations, ids, number, on_wire, passing, shown};

pub(super) const BEGIN: &[&str] = &["transport-stdio"];

#[test]
fn conversations_come_out_as_they_are_written() {
    for file in conversations(BEGIN) {
        transcript::check_file(file, Stdio::new);
    }
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in conversations(BEGIN) {
        transcript::sweep(&transcript::read(file), Stdio::new);
    }
}

#[test]
fn an_id_is_the_same_however_its_text_is_escaped() {
    let conversation = expect![[r#"
        -- transport-stdio, connected to hub:1
        == stderr transport.stdio: connected to orchestrator at hub:1
        << [mcp] {"jsonrpc":"2.0","id":"\u0063","method":"tools/call","params":{"name":"slow"}}
        >> [hub 0] "\x00\x00\x00&\x0a\x0astdio-tc-c\xa2\x01\x17\x0a\x04slow\x1a\x0ftransport.stdio" FIN
        << [mcp] {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}
        >> [hub 0] STOP_SENDING 0
    "#]];
    transcript::check(Stdio::new, conversation);
}

#[test]
fn what_the_full_profile_adds() {
    let conversation = expect![[r#"
        -- transport-stdio --profile full, connected to hub:1
        == stderr transport.stdio: connected to orchestrator at hub:1
        << [mcp] {"jsonrpc":"2.0","id":1,"method":"initialize"}
        >> [mcp] {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true},"prompts":{},"logging":{},"resources":{}},"serverInfo":{"name":"orchestra","version":"1.0.0"},"_sessionId":"SESSION"}}
        << [mcp] {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}
        >> [hub 0] "\x00\x00\x00,\x0a\x0astdio-tc-2\xa2\x01\x1d\x0a\x01t\x1a\x0ftransport.stdio2\x07SESSION" FIN
        << [hub 0] "\x00\x00\x00\x11\x0a\x0astdio-tc-2\xa2\x01\x02\x08\x01" FIN
        >> [mcp] {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":""}]}}
        << [mcp] {"jsonrpc":"2.0","id":3,"method":"prompts/list"}
        >> [hub 4] "\x00\x00\x00\x0f\x0a\x0astdio-lp-3\xb2\x01\x00" FIN
        << [hub 4] "\x00\x00\x00/\x0a\x0astdio-lp-3\xb2\x01 \x0a\x1e\x0a\x05greet\x12\x06Greets\x1a\x0d\x0a\x03who\x12\x04whom\x18\x01" FIN
        >> [mcp] {"jsonrpc":"2.0","id":3,"result":{"prompts":[{"name":"greet","description":"Greets","arguments":[{"name":"who","description":"whom","required":true}]}]}}
        << [mcp] {"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"greet","arguments":{"who":"Bob"}}}
        >> [hub 8] "\x00\x00\x00\x22\x0a\x0astdio-pg-4\xba\x01\x13\x0a\x05greet\x12\x0a\x0a\x03who\x12\x03Bob" FIN
        << [hub 8] "\x00\x00\x006\x0a\x0astdio-pg-4\xba\x01'\x0a\x0aa greeting\x12\x19\x0a\x04user\x12\x11\x0a\x04text\x12\x09hello Bob" FIN
        >> [mcp] {"jsonrpc":"2.0","id":4,"result":{"description":"a greeting","messages":[{"role":"user","content":{"type":"text","text":"hello Bob"}}]}}
        << [mcp] {"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"zzz"}}
        >> [hub 12] "\x00\x00\x00\x14\x0a\x0astdio-pg-5\xba\x01\x05\x0a\x03zzz" FIN
        << [hub 12] "\x00\x00\x000\x0a\x0astdio-pg-5\xba\x01!\x0a\x1fno plugin provides prompt \x22zzz\x22" FIN
        >> [mcp] {"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"no plugin provides prompt \"zzz\""}}
        << [mcp] {"jsonrpc":"2.0","id":6,"method":"resources/list"}
        >> [hub 16] "\x00\x00\x00#\x0a\x13stdio-rl-6-features\x8a\x02\x0b\x0a\x09features/" FIN
        >> [hub 20] "\x00\x00\x00\x1d\x0a\x10stdio-rl-6-notes\x8a\x02\x08\x0a\x06notes/" FIN
        >> [hub 24] "\x00\x00\x00\x1b\x0a\x0fstdio-rl-6-docs\x8a\x02\x07\x0a\x05docs/" FIN
        << [hub 24] "\x00\x00\x00\x03\x8a\x02\x00" FIN
        << [hub 20] "\x00\x00\x00\x10\x8a\x02\x0d\x0a\x0b\x0a\x09notes/a.x" FIN
        << [hub 16] "\x00\x00\x00\x1e\x8a\x02\x1b\x0a\x0f\x0a\x0dfeatures/f.md\x0a\x08\x0a\x06b/c.md" FIN
        >> [mcp] {"jsonrpc":"2.0","id":6,"result":{"resources":[{"uri":"orchestra://features/f","name":"f","mimeType":"text/markdown"},{"uri":"orchestra://features/b/c","name":"b/c","mimeType":"text/markdown"},{"uri":"orchestra://notes/a.x","name":"a.x","mimeType":"text/markdown"}]}}
        << [mcp] {"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"orchestra://notes/t1"}}
        >> [hub 28] "\x00\x00\x00\x1c\x0a\x0astdio-rr-7\xf2\x01\x0d\x0a\x0bnotes/t1.md" FIN
        << [hub 28] "\x00\x00\x00\x09\xf2\x01\x06\x0a\x04body" FIN
        >> [mcp] {"jsonrpc":"2.0","id":7,"result":{"contents":[{"uri":"orchestra://notes/t1","mimeType":"text/markdown","text":"body"}]}}
        << [mcp] {"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"http://x"}}
        >> [mcp] {"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"unsupported URI scheme: \"http://x\" (expected orchestra://)"}}
        << [mcp] {"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"orchestra://notes/"}}
        >> [mcp] {"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"invalid resource URI: \"orchestra://notes/\""}}
        << [mcp] {"jsonrpc":"2.0","id":10,"method":"resources/read","params":{"uri":"orchestra://x/y"}}
        >> [mcp] {"jsonrpc":"2.0","id":10,"error":{"code":-32602,"message":"unknown resource type: \"x\""}}
        << [mcp] {"jsonrpc":"2.0","id":11,"method":"logging/setLevel","params":{"level":"loud"}}
        >> [mcp] {"jsonrpc":"2.0","id":11,"error":{"code":-32602,"message":"invalid log level: \"loud\""}}
        << [mcp] {"jsonrpc":"2.0","id":12,"method":"resources/templates/list"}
        >> [mcp] {"jsonrpc":"2.0","id":12,"result":{"resourceTemplates":[{"uriTemplate":"orchestra://features/{id}","name":"Project Features",…}]}}
        -- events of news are wanted
        >> [hub 32] "\x00\x00\x00$\x0a\x0dstdio-ev-null\x92\x03\x12\x0a\x0astdio-news\x12\x04news" FIN
        << [hub 32] "\x00\x00\x00\x00"
        << [hub 32] "\x00\x00\x00$\x92\x03!\x0a\x04mine\x12\x04news\x1a\x04made\x22\x0a\x0a\x08\x0a\x01k\x12\x03\x1a\x01v*\x01p"
        >> [mcp] {"jsonrpc":"2.0","method":"notifications/event","params":{"topic":"news","event_type":"made","source":"p","payload":{"k":"v"}}}
        -- stdin ends
        >> [hub] close 0 "client closed"
        == exit 0
    "#]];
    transcript::sweep(conversation.data(), Stdio::new);
    transcript::check(Stdio::new, conversation);
}

/// The program, but for its process and its sockets.
struct Stdio {
    now: Instant,
    transport: Transport,
    uplink: Uplink,
    redial: Redial,
    input: BytesMut,
    hubs: BTreeMap<u64, Hands<Client>>,
    /// Who got new calls last.
    used: u64,
    /// What came of the way to the hub, and is not written down yet.
    came: Vec<String>,
    sids: std::sync::Arc<std::sync::atomic::AtomicU64>,
    address: String,
    /// A call has ended, which may have been the last on its connection.
    has_answered: bool,
    is_over: bool,
}

impl Stdio {
    fn new() -> Stdio {
        Stdio {
            now: Instant::now(),
            transport: Transport::new(TransportSettings::default()),
            uplink: uplink(""),
            redial: Redial::new(Again::ByItself),
            input: BytesMut::new(),
            hubs: BTreeMap::new(),
            used: 0,
            came: Vec::new(),
            sids: ids("sid").1,
            address: String::new(),
            has_answered: false,
            is_over: false,
        }
    }

    fn begin(&mut self, address: &str, profile: Profile) {
        self.address = address.to_owned();
        self.uplink = uplink(address);
        let dials = self.redial.want();
        self.dial(dials);
        let session_id = "SESSION".to_owned();
        let settings = TransportSettings { profile, session_id, ..TransportSettings::default() };
        self.transport = Transport::new(settings);
    }

    /// Lets everything happen that has to, and writes it down.
    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            let before = came.len();
            self.carry();
            self.flush(&mut came);
            came.append(&mut self.came);
            if came.len() == before {
                break;
            }
        }
        if let Some(Ended::Well) = self.transport.ended()
            && !std::mem::replace(&mut self.is_over, true)
        {
            self.redial.close();
            while let Some((connection, _)) = self.hubs.first_key_value() {
                self.close(*connection);
            }
            came.append(&mut self.came);
            came.push("== exit 0".to_owned());
        }
        came
    }

    /// Between the client's lines and the hub.
    fn carry(&mut self) {
        loop {
            let mut has_moved = false;
            while let Some((ticket, asked)) = self.transport.poll_up() {
                has_moved = true;
                let hub = self.hubs.get_mut(&self.used).filter(|_| self.redial.is_up());
                match (asked, hub) {
                    (Asked::Call(call), Some(hub)) => {
                        hub.machine.call(self.now, ticket, call);
                    }
                    (Asked::Call(_), None) => {
                        let refusal = self.uplink.refusal();
                        self.transport.down(self.now, ticket, Down::Done(Err(refusal)));
                    }
                    (Asked::Up(up), _) => {
                        for hub in self.hubs.values_mut() {
                            hub.machine.up(self.now, ticket, up.clone());
                        }
                    }
                }
            }
            for hub in self.hubs.values_mut() {
                while let Some((ticket, down)) = hub.machine.poll_down() {
                    has_moved = true;
                    self.has_answered |= matches!(down, Down::Done(_));
                    self.transport.down(self.now, ticket, down);
                }
                while hub.machine.poll_notice().is_some() {}
            }
            while self.transport.poll_notice().is_some() {}
            if !has_moved {
                return;
            }
        }
    }

    fn flush(&mut self, came: &mut Vec<String>) {
        let is_alone = self.hubs.len() == 1;
        for (connection, hub) in &mut self.hubs {
            for (stream, leaves) in hub.leaves(self.now) {
                let number = number(stream);
                let wire = match is_alone {
                    true => format!("hub {number}"),
                    false => format!("hub {connection}:{number}"),
                };
                came.push(format!(">> [{wire}] {}", shown(&leaves)));
            }
        }
        self.carry();
        let mut out = Outbox::new();
        self.transport.poll_transmit(&mut out);
        let out = out.take();
        let lines = out.split_inclusive(|byte| *byte == b'\n');
        came.extend(lines.map(|line| {
            let line = line.strip_suffix(b"\n").expect("whole lines leave");
            format!(">> [mcp] {}", str::from_utf8(line).unwrap())
        }));
        if std::mem::take(&mut self.has_answered) {
            let idle = self.hubs.iter().filter(|(_, hub)| hub.machine.is_idle());
            let left: Vec<u64> = idle.map(|(it, _)| *it).filter(|it| *it != self.used).collect();
            left.into_iter().for_each(|connection| self.close(connection));
        }
    }

    fn dial(&mut self, dials: bool) {
        if dials {
            self.came.push(format!("== dial {}", self.address));
        }
    }

    fn tell(&mut self, news: UplinkNews) {
        self.came.push(format!("== stderr {}", news.line));
        self.came.extend(news.exit.map(|code| format!("== exit {code}")));
    }

    fn dialled(&mut self) {
        let starved = self.hubs.get_mut(&self.used).filter(|_| self.redial.is_up());
        let ids = super::more_ids("sid", &self.sids);
        let mut hub = Hands::new(Client::new(ClientSettings::default(), ids));
        match starved {
            Some(starved) => {
                for (ticket, call) in starved.machine.take_unsent() {
                    hub.machine.call(self.now, ticket, call);
                }
            }
            None => {
                let news = self.uplink.handle_dialled();
                self.tell(news);
            }
        }
        self.redial.handle_dialled();
        self.used += 1;
        self.hubs.insert(self.used, hub);
    }

    fn dial_failed(&mut self, cause: &str) {
        self.redial.handle_failed(self.now);
        let news = self.uplink.handle_failed(cause);
        news.into_iter().for_each(|news| self.tell(news));
    }

    fn close(&mut self, connection: u64) {
        let wire = match self.hubs.len() {
            1 => "hub".to_owned(),
            _ => format!("hub {connection}"),
        };
        self.hubs.remove(&connection);
        self.came.push(format!(">> [{wire}] close 0 \"client closed\""));
    }

    fn wait(&mut self, until: Instant) {
        self.now = until;
        self.transport.handle_timeout(until);
        let mut dials = self.redial.handle_timeout(until);
        for (connection, hub) in &mut self.hubs {
            hub.machine.handle_timeout(until);
            if hub.machine.is_starved() && *connection == self.used {
                dials |= self.redial.handle_starved();
            }
        }
        self.dial(dials);
    }

    fn lose(&mut self, cause: &str) {
        let Some((connection, mut hub)) = self.hubs.pop_last() else { panic!("no hub to lose") };
        let failure = Failure::new(FailureKind::Gone, cause);
        Calling::handle_lost(&mut hub.machine, self.now, &failure);
        while let Some((ticket, down)) = hub.machine.poll_down() {
            self.transport.down(self.now, ticket, down);
        }
        assert_eq!(connection, self.used);
        self.redial.handle_lost(self.now);
        let news = self.uplink.handle_lost(cause);
        self.tell(news);
    }

    /// `hub 4`, or `hub 2:4` where there are two connections; none if it is closed by now.
    fn hub(&mut self, wire: &str) -> Option<(&mut Hands<Client>, StreamId)> {
        let place = wire.strip_prefix("hub ").unwrap();
        let (connection, number) = match place.split_once(':') {
            Some((connection, number)) => (connection.parse().unwrap(), number),
            None => (*self.hubs.keys().last()?, place),
        };
        let number: u64 = number.parse().unwrap();
        Some((self.hubs.get_mut(&connection)?, StreamId::Ours(number / 4)))
    }

    fn on_hub(&mut self, wire: &str, what: &str) {
        let now = self.now;
        match what.split(' ').collect::<Vec<_>>()[..] {
            ["FIN"] | ["FIN", "alone"] => {
                if let Some((hub, stream)) = self.hub(wire) {
                    hub.end(now, stream);
                }
            }
            ["RESET", code] => {
                let (hub, stream) = self.hub(wire).unwrap();
                hub.reset(now, stream, code.parse().unwrap());
            }
            ["close", code, _] => self.lose(&format!("closed by peer (code {code})")),
            _ => panic!("what is `{what}`?"),
        }
    }
}

fn uplink(address: &str) -> Uplink {
    Uplink::new(UplinkSettings { address: address.to_owned(), waits: false, reconnects: true })
}

impl Player for Stdio {
    fn happen(&mut self, words: &str) -> Vec<String> {
        if let Some((wire, what)) = on_wire(words) {
            self.on_hub(wire, what);
            return self.drain();
        }
        if let Some(passed) = passing(words) {
            self.wait(self.now + passed);
            return self.drain();
        }
        if let Some(address) = words.strip_prefix("transport-stdio, connected to ") {
            self.begin(address, Profile::Tools);
            self.came.clear();
            self.dialled();
            return self.drain();
        }
        let full = "transport-stdio --profile full, connected to ";
        if let Some(address) = words.strip_prefix(full) {
            self.begin(address, Profile::Full);
            self.came.clear();
            self.dialled();
            return self.drain();
        }
        if let Some(address) = words.strip_prefix("transport-stdio --orchestrator-addr ") {
            self.begin(address, Profile::Tools);
            return self.drain();
        }
        let mut came = Vec::new();
        match words {
            "stdin ends" => {
                self.transport.handle_eof(self.now, &mut self.input);
            }
            "SIGTERM" => {
                came.push("== stderr transport.stdio: shutting down".to_owned());
                self.transport.stop(self.now);
            }
            "dial fails" => self.dial_failed("refused"),
            "dial fails after 5 s: no answer" => self.dial_failed("no answer within 5s"),
            "dial succeeds" | "dial succeeds (connection 2)" => self.dialled(),
            "100 calls were answered, and no stream credit came back" => {
                self.hubs.values_mut().for_each(|hub| hub.has_credit = false);
            }
            "a line of 11000000 bytes arrives" => {
                for _ in 0..11 {
                    self.input.extend_from_slice(&[b'x'; 1_000_000]);
                    self.transport.handle_bytes(self.now, &mut self.input);
                    assert!(self.input.len() <= 10 * 1024 * 1024);
                }
                return self.bytes("mcp", b"\n");
            }
            "events of news are wanted" => self.transport.subscribe(self.now, "news"),
            _ => panic!("what is `{words}`?"),
        }
        came.extend(self.drain());
        came
    }

    fn bytes(&mut self, wire: &str, bytes: &[u8]) -> Vec<String> {
        let now = self.now;
        match wire {
            "mcp" => {
                self.input.extend_from_slice(bytes);
                self.transport.handle_bytes(now, &mut self.input);
            }
            wire => {
                let (hub, stream) = self.hub(wire).unwrap();
                hub.bytes(now, stream, bytes);
            }
        }
        self.drain()
    }

    fn arrival(&self, wire: &str, text: &str) -> Vec<Arrival> {
        if wire != "mcp" {
            return arrivals(wire, text);
        }
        // Blanks at both ends may be written as escapes.
        let is_blank = text.trim().replace("\\t", "").trim().is_empty();
        let line = match text.strip_suffix("\\r") {
            Some(line) => format!("{line}\r"),
            None if is_blank => text.replace("\\t", "\t"),
            None => text.to_owned(),
        };
        vec![Arrival::Bytes(format!("{line}\n").into_bytes())]
    }
}
