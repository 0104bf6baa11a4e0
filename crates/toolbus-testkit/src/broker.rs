//! A NATS server for tests: subjects with wildcards, queue groups, the word that nobody is there,
//! and what a client may not do. It speaks by the rules that it tests, and nothing else of NATS.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::BytesMut;
use toolbus_proto::nats::protocol::{Message, Op, OpReader};
use toolbus_proto::nats::subject::fits;

const INFO: &str =
    r#"INFO {"server_id":"B","version":"2.9.0","headers":true,"max_payload":1048576}"#;

/// What no client may do, by patterns of subjects.
#[derive(Debug, Clone, Default)]
pub struct Denied {
    /// Subscribe to these.
    pub subscribe: Vec<String>,
    /// Publish to these.
    pub publish: Vec<String>,
}

/// A server, until it is dropped.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    clients: BTreeMap<u64, Client>,
    next: u64,
    /// Whose turn it is in queue groups.
    turn: usize,
    denied: Denied,
    is_over: bool,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    said: Sender<Vec<u8>>,
    subscriptions: Vec<Subscription>,
}

#[derive(Debug, Clone)]
struct Subscription {
    subject: String,
    queue: Option<String>,
    sid: String,
}

impl Broker {
    /// Listens on a free port.
    pub fn start() -> Broker {
        Broker::denying(Denied::default())
    }

    /// The same, with things that no client may do.
    pub fn denying(denied: Denied) -> Broker {
        Broker::listening(TcpListener::bind("127.0.0.1:0").expect("a port is free"), denied)
    }

    /// The same at an address that no other test has.
    pub fn start_at(address: SocketAddr) -> Broker {
        let listener = TcpListener::bind(address).expect("it is free");
        Broker::listening(listener, Denied::default())
    }

    fn listening(listener: TcpListener, denied: Denied) -> Broker {
        let address = listener.local_addr().expect("it listens");
        let state = Arc::new(Mutex::new(State { denied, ..State::default() }));
        let accepting = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if lock(&accepting).is_over {
                    return;
                }
                welcome(&accepting, stream);
            }
        });
        Broker { address, state }
    }

    /// Where a service of this name is.
    pub fn address(&self, name: &str) -> String {
        format!("nats://{}/{name}", self.address)
    }

    /// Tells all clients that it is about to stop; it goes on.
    pub fn tell_of_its_end(&self) {
        let state = lock(&self.state);
        for number in state.clients.keys() {
            let info = INFO.replace('}', r#","ldm":true}"#);
            state.say(*number, format!("{info}\r\n"));
        }
    }

    /// Closes all connections; new ones are taken. Nothing is sent to those of before any more.
    pub fn cut(&self) {
        let clients = std::mem::take(&mut lock(&self.state).clients);
        for client in clients.into_values() {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        lock(&self.state).is_over = true;
        self.cut();
        // Wakes the one who accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock(state: &Arc<Mutex<State>>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn welcome(state: &Arc<Mutex<State>>, stream: TcpStream) {
    let Ok(reading) = stream.try_clone() else { return };
    let Ok(writing) = stream.try_clone() else { return };
    let (said, to_say) = channel();
    let _ = said.send(format!("{INFO}\r\n").into_bytes());
    let number = {
        let mut state = lock(state);
        let number = state.next;
        state.next += 1;
        state.clients.insert(number, Client { stream, said, subscriptions: Vec::new() });
        number
    };
    thread::spawn(move || write_all(writing, &to_say));
    let state = state.clone();
    thread::spawn(move || {
        read_all(&state, number, reading);
        let left = lock(&state).clients.remove(&number);
        left.into_iter().for_each(|client| drop(client.stream.shutdown(Shutdown::Both)));
    });
}

fn write_all(mut stream: TcpStream, to_say: &Receiver<Vec<u8>>) {
    while let Ok(bytes) = to_say.recv() {
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

fn read_all(state: &Arc<Mutex<State>>, number: u64, mut stream: TcpStream) {
    let (mut reader, mut input) = (OpReader::default(), BytesMut::new());
    let mut piece = vec![0; 64 << 10];
    loop {
        loop {
            match reader.next(&mut input) {
                Ok(Some(op)) => lock(state).handle(number, op),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => input.extend_from_slice(&piece[..count]),
        }
    }
}

impl State {
    fn say(&self, number: u64, bytes: impl Into<Vec<u8>>) {
        if let Some(client) = self.clients.get(&number) {
            let _ = client.said.send(bytes.into());
        }
    }

    fn handle(&mut self, number: u64, op: Op) {
        match op {
            Op::Ping => self.say(number, "PONG\r\n"),
            Op::Sub { subject, .. } if is_denied(&self.denied.subscribe, &subject) => {
                let why = format!("-ERR 'Permissions Violation for Subscription to \"{subject}\"'");
                self.say(number, format!("{why}\r\n"));
            }
            Op::Sub { subject, queue, sid } => {
                if let Some(client) = self.clients.get_mut(&number) {
                    client.subscriptions.push(Subscription { subject, queue, sid });
                }
            }
            Op::Unsub { sid, .. } => {
                if let Some(client) = self.clients.get_mut(&number) {
                    client.subscriptions.retain(|known| known.sid != sid);
                }
            }
            Op::Pub(message) if is_denied(&self.denied.publish, &message.subject) => {
                let subject = &message.subject;
                let why = format!("-ERR 'Permissions Violation for Publish to \"{subject}\"'");
                self.say(number, format!("{why}\r\n"));
            }
            Op::Pub(message) => self.publish(number, &message),
            _ => {}
        }
    }

    fn publish(&mut self, from: u64, message: &Message) {
        let mut groups: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
        let mut hearers: Vec<(u64, String)> = Vec::new();
        for (number, client) in &self.clients {
            for known in
                client.subscriptions.iter().filter(|it| fits(&it.subject, &message.subject))
            {
                let hearer = (*number, known.sid.clone());
                match &known.queue {
                    Some(queue) => groups.entry(queue.clone()).or_default().push(hearer),
                    None => hearers.push(hearer),
                }
            }
        }
        for group in groups.values() {
            self.turn += 1;
            hearers.push(group[self.turn % group.len()].clone());
        }
        if let (true, Some(reply)) = (hearers.is_empty(), &message.reply) {
            let nobody = Message {
                subject: reply.clone(),
                head: Some("NATS/1.0 503\r\n\r\n".into()),
                ..Message::default()
            };
            return self.tell_nobody(from, &nobody);
        }
        for (number, sid) in hearers {
            self.say(number, written(message, &sid));
        }
    }

    /// To the one who asked, if it listens for the answer.
    fn tell_nobody(&self, from: u64, message: &Message) {
        let Some(client) = self.clients.get(&from) else { return };
        let listens = client.subscriptions.iter().find(|it| fits(&it.subject, &message.subject));
        if let Some(known) = listens {
            self.say(from, written(message, &known.sid));
        }
    }
}

fn is_denied(patterns: &[String], subject: &str) -> bool {
    patterns.iter().any(|pattern| pattern == subject || fits(pattern, subject))
}

fn written(message: &Message, sid: &str) -> Vec<u8> {
    let Message { subject, reply, head, payload, .. } = message;
    let reply = reply.as_ref().map(|reply| format!("{reply} ")).unwrap_or_default();
    let mut bytes = match head {
        None => format!("MSG {subject} {sid} {reply}{}\r\n", payload.len()),
        Some(head) => {
            let len = head.len() + payload.len();
            format!("HMSG {subject} {sid} {reply}{} {len}\r\n", head.len())
        }
    }
    .into_bytes();
    bytes.extend(head.iter().flatten());
    bytes.extend(payload);
    bytes.extend(b"\r\n");
    bytes
}
