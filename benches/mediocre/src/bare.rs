//! The limit: two processes that move bytes and look at none of them; and a hand that writes
//! messages to our server as it likes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crate::ours::Server;
use crate::table::Contender;

/// What a tool gives us at once, and what is written and read at once where nothing else is said.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;
/// What is moved in one turn.
pub(crate) const BLOB_BYTES: usize = 64 << 20;

/// Reads what comes on standard input, so much at once, and says so with one byte for each blob.
pub(crate) fn drop_all(bytes_max: usize) {
    let socket = io::stdin().as_fd().try_clone_to_owned().expect("it is open");
    let mut socket = File::from(socket);
    let mut buffer = vec![0; bytes_max];
    let mut missing = BLOB_BYTES;
    while let Ok(count @ 1..) = socket.read(&mut buffer) {
        missing -= count;
        if missing == 0 {
            missing = BLOB_BYTES;
            socket.write_all(b".").expect("the other end listens");
        }
    }
}

/// Writes the same bytes again and again through a socket pair.
pub(crate) struct Pair {
    child: Child,
    socket: Option<UnixStream>,
    piece: Vec<u8>,
}

impl Pair {
    /// Reads as much at once as it writes.
    pub(crate) fn new(piece: Vec<u8>) -> Pair {
        let (near, far) = UnixStream::pair().expect("there are sockets");
        let program = std::env::current_exe().expect("we have a path");
        let far = Stdio::from(OwnedFd::from(far));
        let bytes_max = piece.len().to_string();
        let child = Command::new(program).args(["role-drop", &bytes_max]).stdin(far).spawn();
        Pair { child: child.expect("the other end starts"), socket: Some(near), piece }
    }
}

impl Contender for Pair {
    fn turns(&mut self, count: u32) {
        let socket = self.socket.as_mut().expect("open until we are dropped");
        for _ in 0..count {
            for _ in 0..BLOB_BYTES / self.piece.len() {
                socket.write_all(&self.piece).expect("the other end listens");
            }
            socket.read_exact(&mut [0]).expect("the other end listens");
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.socket = None;
        let _ = self.child.wait();
    }
}

/// Writes blobs to our server, in a frame and of bytes of its own choice.
pub(crate) struct ChildHandle {
    _server: Server,
    socket: UnixStream,
    header: String,
    frame: String,
    piece: Vec<u8>,
}

impl ChildHandle {
    /// The bytes must not hold the frame, however often they are repeated.
    pub(crate) fn new(frame: &str, bytes: Vec<u8>) -> ChildHandle {
        let server = Server::start();
        let socket = UnixStream::connect(server.path()).expect("the server listens");
        let header = format!(
            "{{\"method\":\"sink\",\"args\":{{\"hash\":false}},\"streamStart\":true}}\n\
             {{\"elBytesFrame\":\"{frame}\"}}\n{frame}"
        );
        ChildHandle { _server: server, socket, header, frame: frame.to_owned(), piece: bytes }
    }
}

impl Contender for ChildHandle {
    fn turns(&mut self, count: u32) {
        let end = format!("{}\n{{\"streamEnd\":true}}\n", self.frame);
        for _ in 0..count {
            self.socket.write_all(self.header.as_bytes()).expect("the server listens");
            for _ in 0..BLOB_BYTES / PIECE_BYTES {
                self.socket.write_all(&self.piece).expect("the server listens");
            }
            self.socket.write_all(end.as_bytes()).expect("the server listens");
            let mut answer = [0; 256];
            let count = self.socket.read(&mut answer).expect("the server answers");
            let bytes = BLOB_BYTES / PIECE_BYTES * self.piece.len();
            let expected = format!("{{\"res\":{{\"elements\":1,\"bytes\":{bytes}}}}}\n");
            assert_eq!(String::from_utf8_lossy(&answer[..count]), expected);
        }
    }
}
