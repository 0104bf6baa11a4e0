//! mediocre-rpc over real sockets and pipes: what is written, and what comes back.

#[cfg(feature = "http")]
mod by_hand;
mod calling;
#[cfg(all(feature = "http", feature = "tls"))]
mod carriages;
mod crowd;
#[cfg(feature = "http")]
mod http;
mod serving;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, spawn_local};
use toolbus::address::Address;
use toolbus::bus::Bus;
use toolbus::peer::settings::Settings as BackSettings;
use toolbus::wire::mediocre::front::{Mediocre, Settings};
use toolbus_engine::transport::{Listener, Whereabouts};
use toolbus_testkit::runtime::{run, run_and_let_time_fly};

#[cfg(feature = "http")]
use self::by_hand::{ByHand, at_doors, with_access};

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

/// Gives up soon. Only for where time flies: on real time a slow machine would be late.
fn quick() -> Settings {
    let soon = Duration::from_millis(50);
    Settings { drain_timeout: soon, idle_timeout: soon, call_timeout: soon, ..Settings::default() }
}
