//! A bad way between two ends that speak over UDP: packets are late, and some never arrive.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How bad it is.
#[derive(Debug, Clone, Copy)]
pub struct Badness {
    /// Of a hundred packets so many are lost.
    pub lost_percent: u64,
    /// How late each packet is.
    pub delay: Duration,
}

/// A relay on this machine, in a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Lossy {
    address: SocketAddr,
    is_dark: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[expect(clippy::unwrap_used, reason = "a test without sockets has failed")]
impl Lossy {
    /// Relays what arrives at [`Lossy::address`] to `to`, and what comes back.
    pub fn start(to: SocketAddr, badness: Badness) -> Lossy {
        let front = socket();
        let address = front.local_addr().unwrap();
        let (is_dark, is_over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let relay = Relay {
            to,
            badness,
            front,
            behind: HashMap::new(),
            late: VecDeque::new(),
            // The same losses each time, as far as packets are the same.
            chance: 0x9e37_79b9_7f4a_7c15,
            is_dark: is_dark.clone(),
        };
        let over = is_over.clone();
        let thread = thread::spawn(move || relay.run(&over));
        Lossy { address, is_dark, is_over, thread: Some(thread) }
    }

    /// Where clients are to connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Loses everything from now on, or no longer.
    pub fn set_dark(&self, is_dark: bool) {
        self.is_dark.store(is_dark, Ordering::Relaxed);
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[expect(clippy::unwrap_used, reason = "a test without sockets has failed")]
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

struct Relay {
    to: SocketAddr,
    badness: Badness,
    front: UdpSocket,
    /// For each client the socket by which it is known behind us.
    behind: HashMap<SocketAddr, UdpSocket>,
    /// What is on its way, in order: all of it takes equally long.
    late: VecDeque<Late>,
    chance: u64,
    is_dark: Arc<AtomicBool>,
}

struct Late {
    due: Instant,
    client: SocketAddr,
    is_answer: bool,
    packet: Vec<u8>,
}

impl Relay {
    fn run(mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            self.take();
            self.give();
            // Not a guess how long it takes, only how often to look.
            thread::park_timeout(Duration::from_micros(500));
        }
    }

    /// Takes what has arrived.
    fn take(&mut self) {
        let mut packet = [0; 65536];
        while let Ok((len, client)) = self.front.recv_from(&mut packet) {
            self.behind.entry(client).or_insert_with(socket);
            self.keep(client, false, &packet[..len]);
        }
        let clients: Vec<_> = self.behind.keys().copied().collect();
        for client in clients {
            while let Ok((len, _)) = self.behind[&client].recv_from(&mut packet) {
                self.keep(client, true, &packet[..len]);
            }
        }
    }

    fn keep(&mut self, client: SocketAddr, is_answer: bool, packet: &[u8]) {
        // Xorshift: any numbers will do.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let is_lost = self.chance % 100 < self.badness.lost_percent;
        if !is_lost && !self.is_dark.load(Ordering::Relaxed) {
            let due = Instant::now() + self.badness.delay;
            self.late.push_back(Late { due, client, is_answer, packet: packet.to_vec() });
        }
    }

    /// Gives what has been late for long enough.
    fn give(&mut self) {
        let now = Instant::now();
        while self.late.front().is_some_and(|late| late.due <= now) {
            let Some(late) = self.late.pop_front() else { return };
            let given: io::Result<usize> = match late.is_answer {
                true => self.front.send_to(&late.packet, late.client),
                false => self.behind[&late.client].send_to(&late.packet, self.to),
            };
            // What does not fit is one more that is lost.
            drop(given);
        }
    }
}
