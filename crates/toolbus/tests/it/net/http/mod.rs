//! HTTP both ways: our client and our server with each other, and each with bare bytes.
//!
//! A test is its own handler: exchanges wait in a queue until it takes them.

mod bounds;
mod breaking;
mod calling;
mod load;
mod talking;
mod threads;
mod tunnel;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use toolbus_engine::calls::Pressure;
use toolbus_engine::transport::Threads;
use toolbus_engine::transport::http::{
    Answer, Body, BodyError, BodySink, CallError, Client, Exchange, Limits, Origin, Request,
    Response, Server, Timeouts,
};
use toolbus_engine::transport::tls::Inside;

use super::tls::Certificates;
use super::{listen, write_all};
use crate::PATIENCE;

const TIMEOUTS: Timeouts = Timeouts { connect: PATIENCE, head: None };

/// What the two ends speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Http1,
    Http1InTls,
    Http2,
    // The same on connections that another thread has.
    Http1There,
    Http1InTlsThere,
    Http2There,
}

const OVER_ALL: [Over; 6] = [
    Over::Http1,
    Over::Http1InTls,
    Over::Http2,
    Over::Http1There,
    Over::Http1InTlsThere,
    Over::Http2There,
];
/// On this thread, and on another.
const HTTP1: [Over; 2] = [Over::Http1, Over::Http1There];
const HTTP2: [Over; 2] = [Over::Http2, Over::Http2There];

impl Over {
    /// The same on this thread.
    fn here(self) -> Over {
        match self {
            Over::Http1There => Over::Http1,
            Over::Http1InTlsThere => Over::Http1InTls,
            Over::Http2There => Over::Http2,
            here => here,
        }
    }
}

/// A server whose exchanges the test takes, and a client for it.
struct Wire {
    address: SocketAddr,
    server: Server,
    client: Client,
    exchanges: mpsc::UnboundedReceiver<Exchange>,
    /// The ports that exchanges came from, in their order.
    peers: Rc<RefCell<Vec<String>>>,
    _threads: Threads,
}

impl Wire {
    async fn new(over: Over) -> Wire {
        Wire::with(over, Limits::default()).await
    }

    async fn with(over: Over, limits: Limits) -> Wire {
        Wire::of(over, limits, &Certificates::new()).await
    }

    async fn of(over: Over, limits: Limits, files: &Certificates) -> Wire {
        let threads = Threads::start(if over == over.here() { 0 } else { 2 }).unwrap();
        threads.have_all();
        Wire::on(over, &threads, limits, files).await
    }

    async fn on(over: Over, threads: &Threads, limits: Limits, files: &Certificates) -> Wire {
        let (listener, address) = listen().await;
        let (listener, tls) = match over.here() {
            Over::Http1 => (listener, None),
            // Without a word about what is inside, it is the older one.
            Over::Http1InTls => {
                let server = files.server(Inside::Http);
                (listener.with_tls(server), Some(files.client(Inside::Bytes)))
            }
            _ => {
                let server = files.server(Inside::Http);
                (listener.with_tls(server), Some(files.client(Inside::Http)))
            }
        };
        let (given, exchanges) = mpsc::unbounded_channel();
        let peers = Rc::new(RefCell::new(Vec::new()));
        let seen = peers.clone();
        let server = Server::start_on(threads, listener, limits, move |exchange| {
            seen.borrow_mut().push(exchange.peer.to_string());
            let _ = given.send(exchange);
        });
        let host = if tls.is_some() { "localhost" } else { "127.0.0.1" };
        let origin = Origin { host: host.into(), port: address.port(), tls };
        let client = Client::new(origin, 16, Duration::from_secs(60));
        let threads = threads.clone();
        Wire { address, server, client, exchanges, peers, _threads: threads }
    }

    async fn next(&mut self) -> Exchange {
        self.exchanges.recv().await.expect("the server lives")
    }

    /// A stranger's connection to the server.
    async fn stranger(&self) -> Raw {
        Raw(BufReader::new(TcpStream::connect(self.address).await.unwrap()))
    }

    /// Begins a call and waits until the server has it.
    async fn call(&mut self, head: Request<()>) -> (BodySink, Running, Exchange) {
        let (sink, answer) = self.client.start(head, TIMEOUTS);
        let answer = running(answer);
        (sink, answer, self.next().await)
    }
}

/// A call that goes on while the test does something else.
type Running = tokio::task::JoinHandle<Result<Response<Body>, CallError>>;

fn running(answer: Answer) -> Running {
    tokio::task::spawn_local(answer)
}

fn post() -> Request<()> {
    Request::post("/rpc").body(()).unwrap()
}

fn ok() -> Response<()> {
    Response::new(())
}

/// Gives back what comes, as it comes.
async fn echo(exchange: Exchange) {
    let Exchange { mut body, responder, .. } = exchange;
    let sink = responder.respond(ok());
    loop {
        match body.next().await {
            Ok(Some(chunk)) => push(&sink, &chunk).await,
            Ok(None) => return sink.end(),
            Err(_) => return sink.abort(),
        }
    }
}

async fn push(sink: &BodySink, chunk: &Bytes) {
    if sink.send(chunk) == Pressure::Full {
        sink.room().await;
    }
}

/// Waits for as many bytes.
async fn take(body: &mut Body, count: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let chunk = body.next().await.unwrap().expect("more to come");
        taken.extend_from_slice(&chunk);
    }
    taken
}

/// All that comes, and how it ends.
async fn rest(body: &mut Body) -> (Vec<u8>, Result<(), BodyError>) {
    let mut taken = Vec::new();
    loop {
        match body.next().await {
            Ok(Some(chunk)) => taken.extend_from_slice(&chunk),
            Ok(None) => return (taken, Ok(())),
            Err(error) => return (taken, Err(error)),
        }
    }
}

/// A connection that knows nothing of HTTP.
struct Raw(BufReader<TcpStream>);

impl Raw {
    async fn send(&mut self, text: &str) {
        write_all(&mut self.0, text.as_bytes()).await;
    }

    /// The next head, without its date.
    async fn head(&mut self) -> String {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap();
            match line.trim_end() {
                "" => return head,
                date if date.starts_with("date: ") => {}
                line => head.push_str(&format!("{line}\n")),
            }
        }
    }

    async fn exactly(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// All until the other side closes.
    async fn until_the_end(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Goes away as a process that is killed with something unread.
    fn reset(self) {
        rustix::net::sockopt::set_socket_linger(self.0.get_ref(), Some(Duration::ZERO)).unwrap();
    }
}
