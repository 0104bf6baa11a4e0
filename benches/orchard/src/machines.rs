//! Our rules without our hands: the machines on pipes that are read and written in place. What
//! they cost is the part of toolbus's price that the protocol makes.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Flow, Machine, Outbox, Serving, Ticket,
};
use toolbus_proto::json::Json;
use toolbus_proto::orchard::schema::ProviderSchema;
use toolbus_proto::orchard::translate::{Provider, Served, tool};
use toolbus_proto::orchard::{Client, Server, ServerSettings, Settings};
use toolbus_proto::tool::{Call, Outcome, What};

use crate::bare::{SCHEMA, attrs, streams};
use crate::{Contender, start};

/// A host that executes the same action again and again.
pub(crate) struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Reads<ChildStdout>,
    client: Client,
    input: BytesMut,
    out: Outbox,
    now: Instant,
    args: Json,
    in_flight: u32,
    next_ticket: u64,
}

impl Host {
    pub(crate) fn new(role: &str, text_bytes: usize, in_flight: u32) -> Host {
        let mut child = start(role);
        let stdin = child.stdin.take();
        let stdout = Reads::new(child.stdout.take().expect("it is a pipe"));
        Host {
            child,
            stdin,
            stdout,
            client: Client::new(Settings::new("peer")),
            input: BytesMut::new(),
            out: Outbox::new(),
            now: Instant::now(),
            args: Json::from_trusted(attrs(text_bytes)),
            in_flight,
            next_ticket: 0,
        }
    }

    fn call(&mut self) {
        let call = Call::tool(self.now, "echo", Some(self.args.clone()));
        self.client.call(self.now, Ticket(self.next_ticket), call);
        self.next_ticket += 1;
    }
}

impl Contender for Host {
    fn calls(&mut self, count: u32) {
        let mut left = count;
        let mut asked = self.in_flight.min(count);
        (0..asked).for_each(|_| self.call());
        while 0 < left {
            self.client.poll_transmit(&mut self.out);
            let stdin = self.stdin.as_mut().expect("open until we are dropped");
            transmit(stdin, &mut self.out);
            assert!(self.stdout.receive(&mut self.input), "the provider has ended");
            self.now = Instant::now();
            self.client.handle_bytes(self.now, &mut self.input);
            while let Some((_, down)) = self.client.poll_down() {
                assert!(matches!(down, Down::Done(Ok(Outcome::Value(_)))), "{down:?}");
                left -= 1;
                if asked < count {
                    asked += 1;
                    self.call();
                }
            }
            while self.client.poll_notice().is_some() {}
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// A provider that gives back its arguments.
pub(crate) fn provider() {
    let (stdin, mut stdout) = streams();
    let mut stdin = Reads::new(stdin);
    let (schema, _) = ProviderSchema::read(&Json::from_trusted(SCHEMA)).expect("a good schema");
    let mut offered = Provider::new("echo", "0.1.0");
    for (name, action) in &schema.actions {
        offered.offer(name, Served::new(&tool(name, action))).expect("names that differ");
    }
    let mut server = Server::new(&ServerSettings::default(), offered);
    let (mut input, mut out) = (BytesMut::new(), Outbox::new());
    while stdin.receive(&mut input) {
        let now = Instant::now();
        let flow = server.handle_bytes(now, &mut input);
        while let Some((ticket, asked)) = server.poll_up() {
            let Asked::Call(Call { what: What::Tool { args: Some(args), .. }, .. }) = asked else {
                continue;
            };
            server.down(now, ticket, Down::Done(Ok(Outcome::Value(args))));
        }
        server.poll_transmit(&mut out);
        transmit(&mut stdout, &mut out);
        if flow == Flow::Close {
            return;
        }
    }
}

fn transmit(stream: &mut impl Write, out: &mut Outbox) {
    while !out.is_empty() {
        let mut slices = [std::io::IoSlice::new(&[]); 16];
        let filled = out.slices(&mut slices);
        let written = stream.write_vectored(&slices[..filled]).expect("the other end listens");
        out.advance(written);
    }
}

/// What a stream gives at a time: no byte of it is written in advance for each read.
struct Reads<R> {
    stream: R,
    buffer: Vec<u8>,
}

impl<R: Read> Reads<R> {
    fn new(stream: R) -> Reads<R> {
        Reads { stream, buffer: vec![0; 64 << 10] }
    }

    /// Reads once, as much as there is. Tells whether there was anything.
    fn receive(&mut self, input: &mut BytesMut) -> bool {
        let read = self.stream.read(&mut self.buffer).unwrap_or(0);
        input.extend_from_slice(&self.buffer[..read]);
        0 < read
    }
}
