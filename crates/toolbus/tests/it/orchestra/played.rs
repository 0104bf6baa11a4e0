//! A hub and plugins that misbehave, over real QUIC: their processes are real, their
//! conversations are played here.

use std::cell::{Cell, RefCell};
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, mpsc};
use toolbus::wire::orchestra::hub::{Orchestrator, Stopper, read_config};
use toolbus_engine::transport::io::{Sink, Source, Stop, Writer};
use toolbus_engine::transport::quic::{QuicReader, QuicWriter};
use toolbus_proto::capture::Side;
use toolbus_proto::channel::Outbox;
use toolbus_proto::orchestra::envelope::{Envelope, put_frame, request_body, response_body};
use toolbus_proto::orchestra::protobuf::message::Message as _;
use toolbus_proto::orchestra::translate;
use toolbus_proto::orchestra::wire::{
    BootResult, HealthResult, ListPromptsResponse, ListToolsResponse, PromptDefinition,
    RegistrationResult, Request, Response, ShutdownResult, Status, ToolDefinition, ToolRequest,
};
use toolbus_testkit::process::Group;
use toolbus_testkit::runtime::run;

use super::*;

/// A hub in this process, and what it says.
pub(super) struct Hub {
    pub(super) port: u16,
    stopper: Stopper,
    said: Rc<Said>,
    served: JoinHandle<()>,
}

#[derive(Default)]
struct Said {
    lines: RefCell<Vec<String>>,
    heard: Cell<usize>,
    more: Notify,
}

impl Hub {
    /// With these lines in its file.
    pub(super) async fn start(certs: &Certs, lines: &str) -> Hub {
        let file = certs.scratch.path().join("plugins.yaml");
        let text = format!("listen_addr: 127.0.0.1:0\ncerts_dir: {}\n{lines}", certs.parameter());
        std::fs::write(&file, text).unwrap();
        let said = Rc::new(Said::default());
        let hears = said.clone();
        let say = move |line: &str| {
            hears.lines.borrow_mut().push(line.to_owned());
            hears.more.notify_one();
        };
        let hub = Orchestrator::open(read_config(&file).unwrap(), say).await.unwrap();
        let stopper = hub.stopper();
        let served = spawn_local(hub.run());
        let mut hub = Hub { port: 0, stopper, said, served };
        let address = hub.hear("orchestrator listening on 127.0.0.1:").await;
        hub.port = address.parse().unwrap();
        hub
    }

    /// Waits for the next line that begins so, and gives the rest of it.
    pub(super) async fn hear(&self, begin: &str) -> String {
        loop {
            let next = self.said.lines.borrow().get(self.said.heard.get()).cloned();
            match next {
                None => self.said.more.notified().await,
                Some(line) => {
                    self.said.heard.set(self.said.heard.get() + 1);
                    if let Some(rest) = line.strip_prefix(begin) {
                        return rest.to_owned();
                    }
                }
            }
        }
    }

    pub(super) async fn stop(self) {
        self.stopper.stop("terminated");
        self.served.await.unwrap();
    }
}

/// The conversations of a plugin whose process says nothing but where they are.
pub(super) struct Played {
    listener: Listener,
    /// How many connections it had.
    connections: Cell<usize>,
    /// How it is, if it says.
    health: Cell<Option<Status>>,
    /// It answers no call.
    is_mute: Cell<bool>,
    /// Told when it says nothing to what it was asked.
    asked: Notify,
    /// It never reads a request to its end, so that streams are not given back.
    is_forgetful: Cell<bool>,
    kept: RefCell<Vec<QuicReader>>,
    /// Streams on which it says nothing.
    silent: RefCell<Vec<QuicWriter>>,
    open: RefCell<Vec<Connection>>,
    handed_over: RefCell<Option<mpsc::UnboundedSender<(QuicReader, QuicWriter)>>>,
}

impl Played {
    pub(super) async fn start(certs: &Certs) -> Rc<Played> {
        let identity = certs.folder.identity("played").unwrap();
        let server = tls::server(&identity, Clients::Known).unwrap();
        let played = Rc::new(Played {
            listener: Listener::bind("127.0.0.1", 0, &server).await.unwrap(),
            connections: Cell::new(0),
            health: Cell::new(Some(Status::HEALTHY)),
            is_mute: Cell::new(false),
            asked: Notify::new(),
            is_forgetful: Cell::new(false),
            kept: RefCell::default(),
            silent: RefCell::default(),
            open: RefCell::default(),
            handed_over: RefCell::default(),
        });
        let accepting = played.clone();
        spawn_local(async move {
            while let Some(arrival) = accepting.listener.accept().await {
                let Ok(connection) = arrival.open(HANDSHAKE).await else { continue };
                accepting.connections.set(accepting.connections.get() + 1);
                accepting.open.borrow_mut().push(connection.clone());
                spawn_local(accepting.clone().serve(connection));
            }
        });
        played
    }

    /// Its lines in the file of the hub.
    fn lines(&self, more: &str) -> String {
        self.lines_of("played", more)
    }

    pub(super) fn lines_of(&self, id: &str, more: &str) -> String {
        let ready = format!("READY {}", self.listener.addresses()[0]);
        let program = format!("args: [-c, 'echo {ready} >&2; exec sleep 1000']");
        format!("plugins:\n  - {{id: {id}, binary: sh, {program}{more}}}\n")
    }

    /// What it is asked from now on is answered by its owner.
    pub(super) fn hand_over(&self) -> mpsc::UnboundedReceiver<(QuicReader, QuicWriter)> {
        let (tell, arrivals) = mpsc::unbounded_channel();
        self.handed_over.replace(Some(tell));
        arrivals
    }

    async fn serve(self: Rc<Self>, connection: Connection) {
        while let Some((mut reader, writer)) = connection.accept().await {
            if let Some(owner) = &*self.handed_over.borrow() {
                let _ = owner.send((reader, writer));
                continue;
            }
            let mut input = BytesMut::new();
            if self.is_forgetful.get() {
                // The stream says whose answer it is: any id will do.
                send(writer, "", called()).await;
                self.kept.borrow_mut().push(reader);
                continue;
            }
            while input.len() < 4 || input.len() < 4 + length(&input) {
                if !matches!(reader.read(&mut input).await, Ok(1..)) {
                    break;
                }
            }
            let Some(frame) = input.get(4..) else { continue };
            let envelope = Envelope::read(Side::Call, &Bytes::copy_from_slice(frame)).unwrap();
            match self.answer(envelope.request().unwrap().unwrap()) {
                Some(answer) => send(writer, &envelope.request_id, answer).await,
                // Dropped, the stream would be broken off, which is an answer too.
                None => {
                    self.silent.borrow_mut().push(writer);
                    self.asked.notify_one();
                }
            }
        }
    }

    fn answer(&self, request: Request) -> Option<Response> {
        Some(match request {
            Request::Register(_) => {
                RegistrationResult { accepted: true, ..Default::default() }.into()
            }
            Request::Boot(_) => BootResult { ready: true, ..Default::default() }.into(),
            Request::ListTools(_) => {
                let tool =
                    |name: &str| ToolDefinition { name: name.to_owned(), ..Default::default() };
                let tools = ["echo", "count", "slow"].map(tool).into();
                ListToolsResponse { tools, ..Default::default() }.into()
            }
            Request::ListPrompts(_) => {
                let greet = Bytes::from_static(b"\x0a\x05greet");
                let prompts = vec![PromptDefinition::read(&greet).unwrap()];
                ListPromptsResponse { prompts, ..Default::default() }.into()
            }
            Request::Health(_) => {
                let message = "as it is".to_owned();
                let status = self.health.get()?;
                HealthResult { status, message, ..Default::default() }.into()
            }
            Request::Shutdown(_) => ShutdownResult { clean: true, ..Default::default() }.into(),
            Request::ToolCall(_) if self.is_mute.get() => return None,
            _ => called(),
        })
    }
}

/// What a tool answers.
fn called() -> Response {
    translate::response("echo", Ok(Outcome::Text("hi".to_owned()))).into()
}

async fn send(mut writer: QuicWriter, id: &str, answer: Response) {
    let mut out = Outbox::new();
    put_frame(&mut out, id, &response_body(answer));
    let bytes = out.take();
    if writer.write(&[IoSlice::new(&bytes)]).await.is_ok() {
        writer.finish();
    }
}

fn length(header: &[u8]) -> usize {
    u32::from_be_bytes(header[..4].try_into().unwrap()) as usize
}

async fn started(hub: &Hub) -> Group {
    let pid = hub.hear("started plugin \"played\" (pid=").await;
    Group::led_by(pid.trim_end_matches(')').parse().unwrap())
}

/// Waits elsewhere: it is reaped by this thread.
async fn gone(group: Group) {
    tokio::task::spawn_blocking(move || group.assert_gone()).await.unwrap();
}

#[test]
fn a_plugin_that_does_not_answer_for_its_health_is_killed_and_started_again() {
    run(async {
        let certs = Certs::new();
        let played = Played::start(&certs).await;
        played.health.set(None);
        let lines = format!("health_interval: 0.05\n{}", played.lines(""));
        let hub = Hub::start(&certs, &lines).await;
        let group = started(&hub).await;
        hub.hear("orchestrator ready: 1 of 1 plugins, 3 tools").await;
        hub.hear("plugin \"played\" does not answer; restarting in 0.5s").await;
        gone(group).await;
        played.health.set(Some(Status::HEALTHY));
        started(&hub).await;
        hub.hear("plugin \"played\" registered and booted").await;
        let bus = bus_at(certs.address(hub.port, ""));
        // It is asked so often that on a busy machine it may be late, and started once more.
        let answer = loop {
            match outcome(&bus, call("echo", "{}")).await {
                Err(failure) if failure.message.ends_with("is not running") => {
                    tokio::task::yield_now().await;
                }
                answer => break answer,
            }
        };
        assert_eq!(answer, value(r#"{"text":"hi"}"#));
        bus.shutdown().await;
        hub.stop().await;
    });
}

#[test]
fn a_plugin_that_says_it_is_unhealthy_is_killed_and_started_again() {
    run(async {
        let certs = Certs::new();
        let played = Played::start(&certs).await;
        played.health.set(Some(Status::UNHEALTHY));
        let lines = format!("health_interval: 0.05\n{}", played.lines(""));
        let hub = Hub::start(&certs, &lines).await;
        let group = started(&hub).await;
        hub.hear("plugin \"played\" is unhealthy: as it is; restarting in 0.5s").await;
        gone(group).await;
        started(&hub).await;
        hub.stop().await;
    });
}

#[test]
fn a_plugin_that_loses_count_of_streams_gets_a_further_connection() {
    run(async {
        let certs = Certs::new();
        let played = Played::start(&certs).await;
        let hub = Hub::start(&certs, &played.lines("")).await;
        hub.hear("orchestrator ready: 1 of 1 plugins, 3 tools").await;
        played.is_forgetful.set(true);
        let bus = bus_at(certs.address(hub.port, ""));
        // More than it allows at a time, and none is given back.
        for count in 0..150 {
            let answered = outcome(&bus, call("echo", "{}")).await;
            assert_eq!(answered, value(r#"{"text":"hi"}"#), "after {count}");
        }
        assert_eq!(played.connections.get(), 2);
        bus.shutdown().await;
        hub.stop().await;
    });
}

#[test]
fn a_caller_on_plain_tcp_that_hangs_up_is_noticed_at_once() {
    run(async {
        let certs = Certs::new();
        let played = Played::start(&certs).await;
        let lines = format!("tcp_addr: 127.0.0.1:0\n{}", played.lines(""));
        let hub = Hub::start(&certs, &lines).await;
        let address = hub.hear("orchestrator TCP server listening on ").await;
        hub.hear("orchestrator ready: ").await;
        played.is_mute.set(true);
        let call = request_body(ToolRequest { tool_name: "echo".into(), ..Default::default() });
        let mut out = Outbox::new();
        put_frame(&mut out, "t", &call);
        let mut caller = tokio::net::TcpStream::connect(&address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut caller, &out.take()).await.unwrap();
        let asked = loop {
            if let Some(asked) = played.silent.borrow_mut().pop() {
                break asked;
            }
            played.asked.notified().await;
        };
        // What was kept for a time after the goodbye would make it a plain end.
        let linger = Some(std::time::Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&caller, linger).unwrap();
        drop(caller);
        assert_eq!(asked.stopped().await, Stop::Asked(Some(0)));
        hub.stop().await;
    });
}

#[test]
fn a_lost_connection_to_a_living_plugin_is_made_once_more() {
    run(async {
        let certs = Certs::new();
        let played = Played::start(&certs).await;
        let hub = Hub::start(&certs, &played.lines("")).await;
        let group = started(&hub).await;
        hub.hear("orchestrator ready: 1 of 1 plugins, 3 tools").await;
        for connection in played.open.take() {
            connection.close();
        }
        let bus = bus_at(certs.address(hub.port, ""));
        // Refused until the hub has noticed, and dialled.
        while outcome(&bus, call("echo", "{}")).await != value(r#"{"text":"hi"}"#) {}
        assert_eq!(played.connections.get(), 2);
        // Where there is nothing to dial any more, it is as good as dead.
        played.listener.close();
        for connection in played.open.take() {
            connection.close();
        }
        hub.hear("plugin \"played\" lost: ").await;
        gone(group).await;
        bus.shutdown().await;
        hub.stop().await;
    });
}
