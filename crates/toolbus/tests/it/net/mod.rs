//! Sockets of this machine: listening, connecting, farewell, and what HTTP makes of them.

#[cfg(all(feature = "http", feature = "tls"))]
mod http;
mod sockets;
#[cfg(feature = "tls")]
mod tls;

use std::net::SocketAddr;
use std::process::Command;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolbus_engine::transport::{Listener, Stream, Whereabouts};
use toolbus_testkit::runtime::{run, run_and_let_time_fly};

use crate::PATIENCE;

/// Runs a test in a process of its own, where no other test opens descriptors. In that process
/// it says so, and the test goes on.
fn is_alone(name: &str) -> bool {
    const ALONE: &str = "TOOLBUS_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--exact", name]).env(ALONE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    false
}

/// How many descriptors this process has open.
fn open_descriptors() -> usize {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    std::fs::read_dir(folder).unwrap().count()
}

#[cfg(all(feature = "http", feature = "tls"))]
/// Lets the other tasks go on until `is_so`.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Bytes of which none is like its neighbour.
fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

async fn listen() -> (Listener, SocketAddr) {
    let listener = Listener::tcp("127.0.0.1", 0).await.unwrap();
    let Whereabouts::Tcp(address) = listener.whereabouts().unwrap() else { panic!("no TCP") };
    (listener, address)
}

async fn accept(listener: &Listener) -> Stream {
    listener.accept().await.open(PATIENCE).await.unwrap()
}

/// Both ends of one connection: ours, and the bare one of a stranger.
async fn connected() -> (Stream, TcpStream) {
    let (listener, address) = listen().await;
    let (ours, theirs) = tokio::join!(accept(&listener), TcpStream::connect(address));
    (ours, theirs.unwrap())
}

/// Reads to the end of the stream.
async fn read_all(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    all
}

async fn write_all(stream: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
}
