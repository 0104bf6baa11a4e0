//! Our asking end, as the transcripts in `transcripts/nats/calling` have it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use toolbus_proto::channel::{
    AskId, Calling, Channel, Down, Machine, Outbox, Readiness, Ticket, Up,
};
use toolbus_proto::nats::{Client, ClientSettings, Retry};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, Provenance, What, Wire};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player, Words, check_folder};

#[test]
fn conversations() {
    check_folder("transcripts/nats/calling", |path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        Caller::new(&name)
    });
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/nats/calling") {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        transcript::sweep(&transcript::read(&file), || Caller::new(&name));
    }
}

#[test]
fn each_node_is_given_its_own_windows() {
    let mut caller = Caller::new("windows");
    let ping = |id: &str| {
        format!(
            r#"_INBOX.me.281474976710656 - - {{"name":"team","id":"{id}","version":"1.0.0","metadata":{{"toolbus":"1","prefix":"team"}}}}"#
        )
    };
    let page = |number: u32, tool: &str| {
        format!(
            r#"_INBOX.me.28147497671065{number} - - {{"digest":"{tool}","tools":[{{"name":"{tool}","input":{{}},"subject":"team.{tool}","digest":"{tool}","back":"b"}}]}}"#
        )
    };
    for text in ["PONG".to_owned(), ping("A"), ping("B"), page(7, "x"), page(8, "y")] {
        caller.bytes("", &super::said(&text));
    }
    caller.happen("wait 0.25");
    let mut window = |call: &str| {
        let said = caller.happen(&format!("call {call}")).concat();
        let (_, window) =
            said.split_once(r#""Toolbus-Window":""#).unwrap_or_else(|| panic!("{said}"));
        window.split('"').next().unwrap().parse::<u32>().unwrap()
    };
    // 16 MiB, and then little; the other has as much.
    let given: Vec<u32> = (0..65).map(|number| window(&format!("x{number} x"))).collect();
    assert_eq!((given[..64].iter().sum::<u32>(), given[64]), (16 << 20, 16 << 10));
    assert_eq!(window("y y"), 256 << 10);
}

type Chance = fn(&mut [u8]);

struct Caller {
    clock: Clock,
    client: Client<Chance>,
    input: BytesMut,
    tickets: BTreeMap<String, Ticket>,
    was_broken: bool,
}

impl Caller {
    fn new(file: &str) -> Caller {
        let clock = Clock::new();
        let settings = ClientSettings {
            at: "h:4222".to_owned(),
            info: super::info(),
            service: (!file.starts_with("all_")).then(|| "team".to_owned()),
            id: None,
            inbox: "_INBOX.me".to_owned(),
            retry: match file.starts_with("retried_") {
                true => Retry::Idempotent,
                false => Retry::Never,
            },
            wires: vec![Wire::new("mcp")],
            own: Rc::new(|id| id == "OURS"),
            watched: Rc::new(Cell::new(file.starts_with("watched_"))),
            memory: Default::default(),
            asks_state: false,
        };
        let client = Client::new(clock.now, settings, no_chance as Chance);
        let (tickets, input) = (BTreeMap::new(), BytesMut::new());
        Caller { clock, client, input, tickets, was_broken: false }
    }

    fn ticket(&mut self, name: &str) -> Ticket {
        let next = Ticket(self.tickets.len() as u64);
        *self.tickets.entry(name.to_owned()).or_insert(next)
    }

    fn came(&mut self) -> Vec<String> {
        let now = self.clock.now;
        let _ = self.client.handle_bytes(now, &mut self.input);
        let mut lines = Vec::new();
        loop {
            while let Some(notice) = self.client.poll_notice() {
                lines.push(format!("== {notice:?}"));
            }
            while let Some((ticket, down)) = self.client.poll_down() {
                let name = self.tickets.iter().find(|(_, known)| **known == ticket);
                lines.push(format!("== {} {}", name.unwrap().0, told(&down)));
            }
            while let Some(ticket) = self.client.poll_room() {
                lines.push(format!("== room for {}", ticket.0));
            }
            let mut out = Outbox::new();
            self.client.poll_transmit(&mut out);
            let written = super::written(&mut out);
            if written.is_empty() {
                break;
            }
            lines.extend(written);
        }
        if let Readiness::Broken(fault) = self.client.readiness()
            && !std::mem::replace(&mut self.was_broken, true)
        {
            lines.push(format!("== over: {}", fault.failure));
        }
        lines
    }
}

fn no_chance(bytes: &mut [u8]) {
    bytes.fill(0);
}

fn told(down: &Down) -> String {
    match down {
        Down::Begin { head, parts } => format!("begin {head:?} {parts:?}"),
        Down::Part(Part::Text(text)) => format!("part text {text}"),
        Down::Part(Part::Json(json)) => format!("part {json}"),
        Down::Part(Part::Bytes(piece)) => {
            format!("part {} bytes last={}", piece.data.len(), piece.last)
        }
        Down::Progress(json) => format!("progress {json}"),
        Down::Log(json) => format!("log {json}"),
        Down::Ask(ask, question) => format!("ask {} {question}", ask.0),
        Down::Done(Ok(Outcome::Value(value))) => format!("value {value}"),
        Down::Done(Ok(Outcome::Text(text))) => format!("text {text}"),
        Down::Done(Ok(Outcome::End(end))) => format!("end {end:?}"),
        Down::Done(Ok(Outcome::Native(body))) => format!("native {body:?}"),
        Down::Done(Ok(Outcome::Tools(tools))) => {
            let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
            format!("tools {}", names.join(" "))
        }
        Down::Done(Ok(other)) => format!("{other:?}"),
        Down::Done(Err(failure)) => {
            let detail = failure.detail.as_ref().map(|detail| format!(" {detail}"));
            format!("{} {failure}{}", failure.kind, detail.unwrap_or_default())
        }
    }
}

impl Player for Caller {
    fn happen(&mut self, words: &str) -> Vec<String> {
        if self.clock.happen(words) {
            // In steps: what is due may make something else due.
            if super::due(self.client.poll_timeout(), self.clock.now) {
                self.client.handle_timeout(self.clock.now);
            }
            return self.came();
        }
        let now = self.clock.now;
        let mut words = Words::new(words);
        match words.word() {
            Some("begin") => {}
            Some("tools") => {
                let ticket = self.ticket("list");
                self.tickets.remove("list");
                self.tickets.insert(format!("list{}", ticket.0), ticket);
                self.client.call(now, ticket, Call::of(now, What::Tools));
            }
            Some(verb @ ("call" | "stream" | "patient")) => {
                let ticket = self.ticket(words.word().unwrap());
                let mut call = Call::tool(now, words.word().unwrap(), words.json());
                call.options.sends_parts = verb == "stream";
                call.options.progress = verb == "patient";
                if verb == "patient" {
                    call.deadline.total = Some(Duration::from_secs(20));
                } else {
                    call.deadline.quiet = Some(Duration::from_secs(60));
                }
                self.client.call(now, ticket, call);
            }
            Some("asking") => {
                // One that takes questions, and the answer as its own wire has it.
                let ticket = self.ticket(words.word().unwrap());
                let mut call = Call::tool(now, words.word().unwrap(), None);
                call.options.native = Some(Wire::new("mcp"));
                call.deadline.quiet = Some(Duration::from_secs(60));
                call.provenance = Some(Box::new(Provenance {
                    asks: words.json(),
                    caller: Some("ann".into()),
                    hops: 2,
                    passage: None,
                }));
                self.client.call(now, ticket, call);
            }
            Some("cancel") => {
                let ticket = self.ticket(words.word().unwrap());
                self.client.up(now, ticket, Up::Cancel(None));
            }
            Some("part") => {
                let ticket = self.ticket(words.word().unwrap());
                self.client.up(now, ticket, Up::Part(Part::Json(words.json().unwrap())));
            }
            Some("end") => {
                let ticket = self.ticket(words.word().unwrap());
                self.client.up(now, ticket, Up::End(words.json()));
            }
            Some("answer") => {
                let ticket = self.ticket(words.word().unwrap());
                let answer = words.json().unwrap();
                self.client.up(now, ticket, Up::Answer(AskId(1), answer));
            }
            Some(verb @ ("hold" | "release")) => {
                let ticket = self.ticket(words.word().unwrap());
                self.client.hold(now, ticket, verb == "hold");
            }
            Some("lost") => {
                // As the engine has it if it was found lost while it was written.
                let why = Failure::new(FailureKind::Gone, "the connection broke: Broken pipe");
                self.client.handle_lost(now, &why);
            }
            other => panic!("what is {other:?}?"),
        }
        self.came()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.came()
    }

    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        vec![Arrival::Bytes(super::said(text))]
    }
}
