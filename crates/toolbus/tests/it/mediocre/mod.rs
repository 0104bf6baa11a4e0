//! mediocre-rpc over real sockets and pipes: what is written, and what comes back.

mod calling;
#[cfg(all(feature = "http", feature = "tls"))]
mod carriages;
mod crowd;
#[cfg(feature = "http")]
mod http;
mod serving;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use toolbus::address::{Address, Purpose};
use toolbus::back::settings::Settings as BackSettings;
use toolbus::bus::Bus;
use toolbus::front::Route;
use toolbus::front::mediocre::{Door, Mediocre, Settings};
use toolbus::link::{Answerer, Room, Slot, Uplink};
use toolbus::transport::{Listener, Whereabouts};
use toolbus_proto::channel::{Ticket, Up};
use toolbus_proto::tool::Call;

use crate::PATIENCE;

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let patient = async { tokio::time::timeout(PATIENCE, test).await.expect("it hangs") };
    LocalSet::new().block_on(&runtime, patient)
}

/// The built-in tools, behind a bus that is open.
async fn builtin() -> Rc<Bus> {
    let address = Address::parse("builtin:").unwrap();
    let bus = Bus::of_addresses(&[address], &BackSettings::default()).unwrap();
    bus.open().await.unwrap();
    Rc::new(bus)
}

/// A server of the built-in tools on a port of its own.
struct Served {
    server: Mediocre,
    at: SocketAddr,
    listening: JoinHandle<()>,
}

async fn served(settings: Settings) -> Served {
    let server = Mediocre::new(builtin().await, settings);
    let listener = Listener::tcp("127.0.0.1", 0).await.unwrap();
    let Whereabouts::Tcp(at) = listener.whereabouts().unwrap() else { panic!("not TCP") };
    let listens = server.clone();
    let listening = spawn_local(async move { listens.listen(listener).await });
    Served { server, at, listening }
}

/// A server of these tools at each of these addresses, in their order.
async fn at_doors(route: Rc<dyn Route>, addresses: &[&str]) -> (Mediocre, Vec<String>) {
    let server = Mediocre::new(route, Settings::default());
    let mut urls = Vec::new();
    for address in addresses {
        let door = Door::of(&Address::parse_for(Purpose::Serve, address).unwrap()).unwrap();
        let door = door.open().await.unwrap();
        urls.push(door.url().to_owned());
        let serves = server.clone();
        spawn_local(async move { serves.serve(door).await });
    }
    (server, urls)
}

/// A route whose calls are answered by the test itself.
#[derive(Default)]
struct ByHand {
    asked: RefCell<VecDeque<(Call, Slot)>>,
    cancelled: Rc<Cell<usize>>,
}

impl ByHand {
    async fn next(&self) -> (Call, Slot) {
        loop {
            if let Some(asked) = self.asked.borrow_mut().pop_front() {
                return asked;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn cancelled(&self) {
        while self.cancelled.get() == 0 {
            tokio::task::yield_now().await;
        }
    }
}

impl Route for ByHand {
    fn start(&self, call: Call, down: Slot) -> Uplink {
        self.asked.borrow_mut().push_back((call, down));
        Uplink::new(Rc::new(Cancels(self.cancelled.clone())), Ticket(0))
    }
}

/// Counts the calls that are given up.
struct Cancels(Rc<Cell<usize>>);

impl Answerer for Cancels {
    fn send(&self, _ticket: Ticket, up: Up) -> Room {
        if let Up::Cancel(_) = up {
            self.0.set(self.0.get() + 1);
        }
        Room::Enough
    }

    fn resume(&self, _ticket: Ticket) {}
}

/// A client that says and hears bytes as they are.
struct Raw<S> {
    stream: S,
    heard: Vec<u8>,
}

impl Raw<TcpStream> {
    async fn to(at: SocketAddr) -> Raw<TcpStream> {
        Raw { stream: TcpStream::connect(at).await.unwrap(), heard: Vec::new() }
    }
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Raw<S> {
    async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    async fn hang_up(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Whether there was more.
    async fn read(&mut self) -> bool {
        self.stream.read_buf(&mut self.heard).await.unwrap() != 0
    }

    /// The next line, without its end.
    async fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=at).collect();
                return String::from_utf8_lossy(&line[..at]).into_owned();
            }
            assert!(self.read().await, "ended behind {:?}", String::from_utf8_lossy(&self.heard));
        }
    }

    async fn ask(&mut self, text: &str) -> String {
        self.say(text).await;
        self.line().await
    }

    /// All that still comes.
    async fn rest(&mut self) -> String {
        while self.read().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.heard)).into_owned()
    }
}

fn quick() -> Settings {
    let soon = Duration::from_millis(50);
    Settings { drain_timeout: soon, idle_timeout: soon, call_timeout: soon, ..Settings::default() }
}
