//! A port of a test's own, for what has to listen on one that is named before.

use std::net::{TcpListener, TcpStream};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{Shutdown, shutdown};

/// Where they are taken from: below all that systems give to those who ask for any port, for
/// another test may ask for one at that moment.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

/// A port on which no process listens now, and which no other test is given.
pub fn free() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Tests of other processes begin elsewhere.
    let begin = process::id().wrapping_mul(211);
    let mut numbers = (0..COUNT).map(|_| {
        let taken = TAKEN.fetch_add(1, Ordering::Relaxed);
        u16::try_from(FIRST + begin.wrapping_add(taken) % COUNT).expect("all are below 30 000")
    });
    // Nothing is opened for it: a process that is just being started would hold a copy.
    let is_free = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_err();
    numbers.find(is_free).expect("one of 20 000 ports is free")
}

/// Closes a listener, though a process that another test is just starting may have a copy of it.
pub fn stop_listening(listener: TcpListener) {
    let _ = shutdown(&listener, Shutdown::Both);
    drop(listener);
}
