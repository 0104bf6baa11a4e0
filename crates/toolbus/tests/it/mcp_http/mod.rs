//! MCP over HTTP on real sockets: our front with clients that know only HTTP, our back with
//! servers that know only HTTP, and both with each other.

mod calling;
mod crowd;
mod pair;
mod scripted;
mod serving;
mod strangers;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_local};
use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::bus::Route;
use toolbus::peer::access::Access;
use toolbus::peer::settings::Settings;
use toolbus::wire::mcp::front::Backs;
use toolbus::wire::mcp::front_http::{self as mcp_http, Options};
use toolbus_engine::calls::{Answerer, Pressure, ReplyTo, RunningCall};
use toolbus_engine::transport::http::{Body, Client, Origin, Request, Response, Timeouts, request};
use toolbus_engine::transport::{Listener, Whereabouts};
use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::Behind;
use toolbus_proto::tool::{Call, Outcome, ToolSpec, What};
use toolbus_testkit::runtime::run;

use crate::PATIENCE;

/// A front that serves, and a client of it.
struct Served {
    address: SocketAddr,
    client: Client,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Served {
    async fn builtin() -> Served {
        Served::with(Options::default(), builtin().await).await
    }

    async fn with(options: Options, route: Rc<dyn Route>) -> Served {
        let listener = mcp_http::listen(&"0".parse().unwrap(), &options).await.unwrap();
        Served::on(listener, options, route, Behind::Hub)
    }

    fn on(listener: Listener, options: Options, route: Rc<dyn Route>, behind: Behind) -> Served {
        let Whereabouts::Tcp(address) = listener.whereabouts().unwrap() else { panic!("no TCP") };
        let (stop, stopped) = oneshot::channel();
        let task = spawn_local(async move {
            let stopped = async { drop(stopped.await) };
            mcp_http::serve(&Backs::new(behind, route), options, listener, stopped).await.unwrap();
        });
        let origin = Origin {
            host: "127.0.0.1".into(),
            port: address.port(),
            #[cfg(feature = "tls")]
            tls: None,
        };
        let client = Client::new(origin, 16, Duration::from_secs(60));
        Served { address, client, stop, task }
    }

    async fn send(&self, request: Request<Bytes>) -> Response<Body> {
        self.client.ask(request, Timeouts { connect: PATIENCE, head: None }).await.unwrap()
    }

    /// Sends a message with these headers besides the usual ones; gives the whole answer.
    async fn post(&self, headers: &[(&str, &str)], message: &str) -> Whole {
        whole(self.send(post(headers, message)).await).await
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

async fn builtin() -> Rc<Bus> {
    let address = Address::parse("builtin:").unwrap();
    let bus = Bus::of_addresses(&[address], &Settings::default()).unwrap();
    bus.open().await.unwrap();
    Rc::new(bus)
}

fn post(headers: &[(&str, &str)], message: &str) -> Request<Bytes> {
    let usual = Request::post("/mcp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream");
    with(usual, headers).map(|_| Bytes::copy_from_slice(message.as_bytes()))
}

/// The request with these headers, and no body.
fn with(request: request::Builder, headers: &[(&str, &str)]) -> Request<Bytes> {
    let all = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    all.body(Bytes::new()).unwrap()
}

/// All of an answer.
#[derive(Debug)]
struct Whole {
    status: u16,
    head: Response<()>,
    body: String,
}

impl Whole {
    fn header(&self, name: &str) -> &str {
        self.head.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    fn is(&self, status: u16, body: &str) {
        assert_eq!((self.status, &*self.body), (status, body));
    }
}

async fn whole(response: Response<Body>) -> Whole {
    let (parts, mut body) = response.into_parts();
    let body = body.collect(1 << 20, PATIENCE).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    Whole { status: parts.status.as_u16(), head: Response::from_parts(parts, ()), body }
}

/// Reads a stream until it has said as much.
async fn read_until(body: &mut Body, text: &str) -> String {
    let mut read = String::new();
    while !read.contains(text) {
        let chunk = body.next().await.unwrap().expect("more to come");
        read.push_str(str::from_utf8(&chunk).unwrap());
    }
    read
}

/// The session of a legacy client, as headers of its requests.
async fn session(served: &Served) -> Vec<(&'static str, String)> {
    let opened = served.post(&[], INITIALIZE).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    let name = opened.header("Mcp-Session-Id");
    assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    vec![("Mcp-Session-Id", name.to_owned()), ("MCP-Protocol-Version", "2025-11-25".to_owned())]
}

fn borrowed<'a>(headers: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    headers.iter().map(|(name, value)| (*name, &**value)).collect()
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"ed","version":"1"}}}"#;

const MODERN: &[(&str, &str)] =
    &[("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call")];

/// A modern call of a tool, and the headers that repeat it.
fn modern<'a>(tool: &'a str, params: &str) -> (Vec<(&'a str, &'a str)>, String) {
    let headers = MODERN.iter().copied().chain([("Mcp-Name", tool)]).collect();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t"}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}",{params}{meta}}}}}"#
    );
    (headers, body)
}

/// A route whose one tool, `work`, does what the test says.
struct Puppet {
    calls: mpsc::UnboundedSender<ReplyTo>,
    cancels: mpsc::UnboundedSender<()>,
}

/// The strings of a [`Puppet`].
struct Strings {
    calls: mpsc::UnboundedReceiver<ReplyTo>,
    cancels: mpsc::UnboundedReceiver<()>,
}

fn puppet() -> (Rc<Puppet>, Strings) {
    let (calls, called) = mpsc::unbounded_channel();
    let (cancels, cancelled) = mpsc::unbounded_channel();
    (Rc::new(Puppet { calls, cancels }), Strings { calls: called, cancels: cancelled })
}

impl Route for Puppet {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        if call.what == What::Tools {
            let schema = Json::parse(r#"{"type":"object"}"#).unwrap();
            let tools = Outcome::Tools([ToolSpec::new("work", schema)].into());
            let _ = down.send(Down::Done(Ok(tools)));
            return RunningCall::ended();
        }
        self.calls.send(down).unwrap();
        RunningCall::new(Rc::new(Cancelling(self.cancels.clone())), Ticket(0))
    }
}

struct Cancelling(mpsc::UnboundedSender<()>);

impl Answerer for Cancelling {
    fn send(&self, _ticket: Ticket, up: Up) -> Pressure {
        assert!(matches!(up, Up::Cancel(_)), "{up:?}");
        let _ = self.0.send(());
        Pressure::Ready
    }

    fn resume(&self, _ticket: Ticket) {}
}

fn progress(count: u64) -> Down {
    Down::Progress(Json::parse(format!(r#"{{"progress":{count}}}"#)).unwrap())
}
